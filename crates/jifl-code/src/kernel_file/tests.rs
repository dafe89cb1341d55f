// SPDX-License-Identifier: MIT OR Apache-2.0
//! Made files: a small kernel, and the same without a part.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

const TEXT: u64 = 0xffff_ffff_8100_0000;
const RODATA: u64 = 0xffff_ffff_8200_0000;
const SITES: u64 = 0xffff_ffff_8300_0000;
const BTF: u64 = 0xffff_ffff_8400_0000;
const FUNC: u8 = 2;
const OBJECT: u8 = 1;

/// Sections (name, address, contents) and symbols (name, address, type) of an ELF file.
struct Made {
    sections: Vec<(&'static str, u64, Vec<u8>)>,
    symbols: Vec<(&'static str, u64, u8)>,
    machine: u16,
    kind: u16,
}

impl Made {
    /// `do_syscall_64`: endbr64; call x64_sys_call; ret; padding. `x64_sys_call`: ret.
    fn kernel() -> Made {
        let mut text = vec![
            0xf3, 0x0f, 0x1e, 0xfa, 0xe8, 0x07, 0, 0, 0, 0xc3, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc,
        ];
        text.push(0xc3);
        let mut config = GzEncoder::new(Vec::new(), Compression::default());
        config.write_all(b"CONFIG_SMP=y\n").unwrap();
        let config = config.finish().unwrap();
        let mut rodata = b"Linux version %s\0Linux version 6.1.0-9-amd64 (x) #1 SMP\n\0".to_vec();
        rodata.extend([CONFIG.0, &config, CONFIG.1].concat());
        let sites = [TEXT + 4, 0, TEXT].map(u64::to_le_bytes).concat();
        Made {
            sections: vec![
                (".text", TEXT, text),
                (".rodata", RODATA, rodata),
                (".init.data", SITES, sites),
                (".BTF", BTF, vec![0x9f, 0xeb]),
            ],
            symbols: vec![
                ("do_syscall_64", TEXT, FUNC),
                ("x64_sys_call", TEXT + 16, FUNC),
                ("linux_banner", RODATA + 17, OBJECT),
                ("__start_mcount_loc", SITES, 0),
                ("__stop_mcount_loc", SITES + 24, 0),
            ],
            machine: EM_X86_64,
            kind: object::elf::ET_EXEC,
        }
    }

    /// Header, contents, symbols, their names, names of sections, table of sections.
    fn file(&self) -> Vec<u8> {
        let mut strings = vec![0];
        let mut table = vec![0; 24];
        for (name, address, kind) in &self.symbols {
            table.extend((strings.len() as u32).to_le_bytes());
            // Global, in some section.
            table.extend([1 << 4 | kind, 0, 1, 0]);
            table.extend([address.to_le_bytes(), 0_u64.to_le_bytes()].concat());
            strings.extend([name.as_bytes(), &[0]].concat());
        }
        let own = self.sections.iter();
        let mut all: Vec<(&str, u64, u32, u64, Vec<u8>)> = own
            .map(|(name, address, bytes)| (*name, *address, 1, 2, bytes.clone()))
            .collect();
        if !self.symbols.is_empty() {
            all.push((".symtab", 0, 2, 0, table));
        }
        all.push((".strtab", 0, 3, 0, strings));
        let mut names = vec![0];
        let starts: Vec<u32> = all
            .iter()
            .map(|own| own.0)
            .chain([".shstrtab"])
            .map(|name| {
                let start = names.len() as u32;
                names.extend([name.as_bytes(), &[0]].concat());
                start
            })
            .collect();
        all.push((".shstrtab", 0, 3, 0, names));

        let mut file = vec![0; 64];
        let mut headers = vec![0; 64];
        let strtab = all.len() as u32 - 1;
        for ((_, address, kind, flags, bytes), name) in all.iter().zip(starts) {
            let words = |words: &[u64]| -> Vec<u8> {
                words.iter().flat_map(|word| word.to_le_bytes()).collect()
            };
            headers.extend([name.to_le_bytes(), kind.to_le_bytes()].concat());
            headers.extend(words(&[
                *flags,
                *address,
                file.len() as u64,
                bytes.len() as u64,
            ]));
            let (link, size) = if *kind == 2 { (strtab, 24) } else { (0, 0) };
            headers.extend([link.to_le_bytes(), 0_u32.to_le_bytes()].concat());
            headers.extend(words(&[1, size]));
            file.extend(bytes);
            file.resize(file.len().next_multiple_of(8), 0);
        }
        let at = file.len() as u64;
        file.extend(headers);
        file[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
        file[16..18].copy_from_slice(&self.kind.to_le_bytes());
        file[18..20].copy_from_slice(&self.machine.to_le_bytes());
        file[20] = 1;
        file[40..48].copy_from_slice(&at.to_le_bytes());
        file[52..54].copy_from_slice(&64_u16.to_le_bytes());
        file[58..60].copy_from_slice(&64_u16.to_le_bytes());
        file[60..62].copy_from_slice(&(all.len() as u16 + 1).to_le_bytes());
        file[62..64].copy_from_slice(&(all.len() as u16).to_le_bytes());
        file
    }

    fn without(mut self, section: &str) -> Made {
        self.sections.retain(|(name, _, _)| *name != section);
        self
    }
}

fn refusal(file: &[u8]) -> String {
    match read(file).unwrap_err() {
        Refusal::File(why) => why,
        Refusal::Machine(name) => format!("machine {name}"),
    }
}

#[test]
fn a_file_tells_all() {
    let found = read(&Made::kernel().file()).unwrap();
    assert_eq!(found.banner, "Linux version 6.1.0-9-amd64 (x) #1 SMP");
    assert_eq!(found.config.as_deref(), Some("CONFIG_SMP=y\n"));
    assert_eq!(found.btf, Some(vec![0x9f, 0xeb]));
    assert_eq!(found.sites, Some(vec![TEXT, TEXT + 4]));
    assert_eq!(found.door_calls, Some(1));
    let symbols = found.symbols.unwrap();
    assert_eq!(symbols.address("x64_sys_call"), Some(TEXT + 16));
    assert_eq!(symbols.address("x64_sys"), None);
}

#[test]
fn what_is_not_there_is_not_told() {
    let mut kernel = Made::kernel().without(".BTF").without(".init.data");
    kernel.sections[0].2[4] = 0x90;
    let found = read(&kernel.file()).unwrap();
    assert_eq!((found.btf, found.sites), (None, None));
    assert_eq!(found.door_calls, Some(0));
    kernel.symbols.clear();
    let found = read(&kernel.file()).unwrap();
    let why = found.symbols.unwrap_err().0;
    assert!(why.starts_with("no symbols"), "{why}");
    assert_eq!(found.banner, "Linux version 6.1.0-9-amd64 (x) #1 SMP");
    kernel = kernel.without(".rodata");
    assert!(refusal(&kernel.file()).contains("no Linux kernel"));
}

#[test]
fn other_machines_are_refused_by_name() {
    let mut kernel = Made::kernel();
    for (machine, name) in [
        (183, "arm64"),
        (3, "32-bit x86"),
        (243, "RISC-V"),
        (9, "machine 9"),
    ] {
        kernel.machine = machine;
        let said = refusal(&kernel.file());
        assert!(said.starts_with("machine") && said.contains(name), "{said}");
    }
    let mut image = vec![0; 64];
    image[0x38..0x3c].copy_from_slice(b"ARM\x64");
    assert_eq!(refusal(&image), "machine arm64");
}

#[test]
fn what_is_no_kernel_is_refused() {
    for file in [&b""[..], b"#!/bin/sh\n", b"\x7fELF"] {
        let said = refusal(file);
        assert!(
            said.contains("no kernel") || said.contains("cut short"),
            "{said}"
        );
    }
    let mut module = Made::kernel();
    module.kind = ET_REL;
    assert!(refusal(&module.file()).contains("module"));
    let whole = Made::kernel().file();
    for length in 20..whole.len() {
        let said = refusal(&whole[..length]);
        assert!(
            said.contains("cut short") && !said.contains('\n'),
            "{length}: {said}"
        );
    }
}
