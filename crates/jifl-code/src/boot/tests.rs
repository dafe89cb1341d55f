// SPDX-License-Identifier: MIT OR Apache-2.0
//! Made images: of each compression, damaged, cut short, of other kinds.

use super::*;

/// "machine code " 8 times, as `xz --check=crc32`, `lzma`, `zstd`, `lz4 -l` and `gzip -n` write it.
const CONTENTS: &str = "machine code machine code machine code machine code machine code \
                        machine code machine code machine code ";
const PACKED: &[(&str, &[u8])] = &[
    (
        "xz",
        &[
            0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x01, 0x69, 0x22, 0xde, 0x36, 0x02, 0x01,
            0x04, 0x00, 0x21, 0x01, 0x10, 0x00, 0x8b, 0x21, 0x6f, 0x49, 0xe0, 0x00, 0x67, 0x00,
            0x13, 0x5d, 0x00, 0x36, 0x98, 0x48, 0x99, 0x8a, 0xf7, 0xaa, 0xb4, 0x37, 0xe9, 0x05,
            0x20, 0x96, 0xfd, 0xf3, 0x5c, 0xcb, 0x40, 0x00, 0x00, 0x00, 0x60, 0x37, 0x4e, 0x51,
            0x00, 0x01, 0x2b, 0x68, 0x28, 0xa1, 0x9f, 0x15, 0x90, 0x42, 0x99, 0x0d, 0x01, 0x00,
            0x00, 0x00, 0x00, 0x01, 0x59, 0x5a,
        ],
    ),
    (
        "lzma",
        &[
            0x5d, 0x00, 0x00, 0x00, 0x04, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00,
            0x36, 0x98, 0x48, 0x99, 0x8a, 0xf7, 0xaa, 0xb4, 0x37, 0xe9, 0x05, 0x20, 0x96, 0xfd,
            0xf3, 0x5d, 0x67, 0x51, 0x8f, 0xff, 0xff, 0xb6, 0xc1, 0x00, 0x00,
        ],
    ),
    (
        "zstd",
        &[
            0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x88, 0xa5, 0x00, 0x00, 0x68, 0x6d, 0x61, 0x63, 0x68,
            0x69, 0x6e, 0x65, 0x20, 0x63, 0x6f, 0x64, 0x65, 0x20, 0x01, 0x00, 0x08, 0xd3, 0xfc,
            0x02, 0x8c, 0xb9, 0x99, 0xcf,
        ],
    ),
    (
        "lz4",
        &[
            0x02, 0x21, 0x4c, 0x18, 0x17, 0x00, 0x00, 0x00, 0xdf, 0x6d, 0x61, 0x63, 0x68, 0x69,
            0x6e, 0x65, 0x20, 0x63, 0x6f, 0x64, 0x65, 0x20, 0x0d, 0x00, 0x43, 0x50, 0x63, 0x6f,
            0x64, 0x65, 0x20,
        ],
    ),
    (
        "gzip",
        &[
            0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xcb, 0x4d, 0x4c, 0xce,
            0xc8, 0xcc, 0x4b, 0x55, 0x48, 0xce, 0x4f, 0x49, 0x55, 0xc8, 0xa5, 0x1d, 0x07, 0x00,
            0x60, 0x37, 0x4e, 0x51, 0x68, 0x00, 0x00, 0x00,
        ],
    ),
];

/// A bzImage with a payload behind `sectors` sectors of set-up and 0x40 bytes.
fn image(payload: &[u8], version: &str) -> Vec<u8> {
    let sectors = 3;
    let loaded = (sectors + 1) * 512;
    let mut file = vec![0; loaded + 0x40];
    file[SETUP_SECTS] = sectors as u8;
    file[BOOT_FLAG..BOOT_FLAG + 2].copy_from_slice(&[0x55, 0xaa]);
    file[HEADER..HEADER + 4].copy_from_slice(b"HdrS");
    file[VERSION..VERSION + 2].copy_from_slice(&0x20f_u16.to_le_bytes());
    file[XLOADFLAGS] = 0x7f;
    file[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&0x40_u32.to_le_bytes());
    let length = payload.len() as u32;
    file[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&length.to_le_bytes());
    file[KERNEL_VERSION..KERNEL_VERSION + 2].copy_from_slice(&0x200_u16.to_le_bytes());
    file[0x400..0x400 + version.len()].copy_from_slice(version.as_bytes());
    file.extend_from_slice(payload);
    file.resize(file.len().next_multiple_of(16) + 32, 0);
    let units = ((file.len() - loaded) / 16) as u32;
    file[SYSSIZE..SYSSIZE + 4].copy_from_slice(&units.to_le_bytes());
    file
}

/// With the size of the contents behind it.
fn sized(packed: &[u8]) -> Vec<u8> {
    let size = CONTENTS.len() as u32;
    [packed, &size.to_le_bytes()].concat()
}

fn error(file: &[u8]) -> String {
    let error = parse(file).and_then(|boot| boot.unpack()).unwrap_err().0;
    assert!(!error.contains('\n'), "{error}");
    error
}

#[test]
fn each_compression_is_unpacked() {
    for (name, packed) in PACKED {
        let payload = match *name {
            "gzip" => packed.to_vec(),
            _ => sized(packed),
        };
        let file = image(&payload, "6.1.0-9-amd64 (x) #1");
        let boot = parse(&file).unwrap();
        assert_eq!(boot.version, "6.1.0-9-amd64 (x) #1");
        assert_eq!(boot.unpack().unwrap(), CONTENTS.as_bytes(), "{name}");
        assert_eq!(compression(packed), Some(*name));
    }
    let plain = image(b"\x7fELF and so on", "");
    assert_eq!(
        parse(&plain).unwrap().unpack().unwrap(),
        b"\x7fELF and so on"
    );
}

#[test]
fn what_is_damaged_is_refused() {
    for (name, packed) in PACKED {
        let mut short = sized(&packed[..packed.len() - 9]);
        assert!(error(&image(&short, "")).contains(name));
        short = sized(packed);
        let last = short.len() - 4;
        short[last] ^= 1;
        if *name != "gzip" {
            assert!(error(&image(&short, "")).contains("its size is not what it says"));
        }
        short[last + 3] = 0xff;
        let error = error(&image(&short, ""));
        assert!(error.contains("no kernel is as large"), "{name}: {error}");
    }
}

#[test]
fn a_wrong_checksum_is_told() {
    let (_, packed) = PACKED.iter().find(|(name, _)| *name == "zstd").unwrap();
    let mut wrong = packed.to_vec();
    *wrong.last_mut().unwrap() ^= 1;
    assert!(error(&image(&sized(&wrong), "")).contains("its checksum"));
}

#[test]
fn a_wide_window_is_narrowed() {
    let (_, packed) = PACKED.iter().find(|(name, _)| *name == "zstd").unwrap();
    let mut wide = packed.to_vec();
    assert_eq!(wide[4] & 1 << 5, 0, "it has a window");
    wide[5] = 17 << 3;
    let file = image(&sized(&wide), "");
    assert_eq!(parse(&file).unwrap().unpack().unwrap(), CONTENTS.as_bytes());
    let said = narrow_window(&mut wide, 97 << 20).unwrap_err().0;
    assert!(
        said.contains("97 MiB") && said.contains("extract-vmlinux"),
        "{said}"
    );
}

#[test]
fn what_is_not_read_is_refused_by_name() {
    for (payload, name) in [
        (&b"BZh91AY&SY"[..], "bzip2"),
        (b"\x89LZO\0\r\n\x1a\n", "lzo"),
        (b"nothing known", "does not know"),
    ] {
        let error = error(&image(&sized(payload), ""));
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn images_of_other_kinds_are_refused() {
    let (_, packed) = PACKED[0];
    let good = image(&sized(packed), "");
    for length in [HEADER_END - 1, 0x400, good.len() - 16] {
        assert!(error(&good[..length]).contains("cut short"), "{length}");
    }
    let mut other = good.clone();
    other[XLOADFLAGS] = 0;
    assert!(error(&other).contains("32-bit x86"));
    other[VERSION..VERSION + 2].copy_from_slice(&0x204_u16.to_le_bytes());
    assert!(error(&other).contains("boot protocol 2.04"));
    assert!(error(b"MZ").contains("no bzImage"));
    other[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&[0xff; 4]);
    other[VERSION..VERSION + 2].copy_from_slice(&0x208_u16.to_le_bytes());
    assert!(error(&other).contains("cut short"));
}
