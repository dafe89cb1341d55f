// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executed blocks in the format of DynamoRIO's drcov, version 2, which Lighthouse and other
//! plugins of disassemblers read. The file has modules, then a table of blocks, each with its
//! offset from the beginning of its module. The kernel is a module that begins at `_text`, where a
//! disassembler of vmlinux sees its beginning, wherever the kernel has been loaded.

use std::collections::{BTreeMap, BTreeSet};

use crate::kernel::images::{Image, Images, KERNEL};
use crate::session::blocks::Profile;

/// The whole file.
pub fn render(profile: &Profile) -> Vec<u8> {
    let modules = used(profile);
    let mut blocks: BTreeMap<(u64, u32), usize> = BTreeMap::new();
    for block in profile.executed() {
        if let Some(module) = modules.index(block.orig) {
            blocks.insert((block.orig, block.src_len), module);
        }
    }
    let mut text = format!(
        "DRCOV VERSION: 2\nDRCOV FLAVOR: jifl\nModule Table: version 2, count {}\n\
         Columns: id, base, end, entry, path\n",
        modules.all().len()
    );
    for (id, module) in modules.all().iter().enumerate() {
        let end = module.base.saturating_add(module.size);
        text += &format!(
            "{id:3}, {:#018x}, {end:#018x}, {:#018x}, {}\n",
            module.base,
            0,
            path(module)
        );
    }
    text += &format!("BB Table: {} bbs\n", blocks.len());
    let mut bytes = text.into_bytes();
    for ((address, length), module) in blocks {
        let offset = (address - modules.all()[module].base) as u32;
        bytes.extend_from_slice(&offset.to_le_bytes());
        bytes.extend_from_slice(&(length as u16).to_le_bytes());
        bytes.extend_from_slice(&(module as u16).to_le_bytes());
    }
    bytes
}

/// The images that contain executed blocks.
fn used(profile: &Profile) -> Images {
    let all = &profile.images;
    let blocks = profile.executed();
    let used: BTreeSet<usize> = blocks.filter_map(|block| all.index(block.orig)).collect();
    let kept = used.into_iter().map(|index| all.all()[index].clone());
    Images::from(kept.collect())
}

fn path(module: &Image) -> String {
    match module.name.as_str() {
        KERNEL => KERNEL.into(),
        name => format!("{name}.ko"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::symbols::Symbols;
    use crate::session::blocks::tests::{AT, sample};

    #[test]
    fn executed_blocks_by_their_offsets() {
        let mut profile = sample();
        profile.symbols = Symbols::parse(
            "ffffffff80fff000 T _text\nffffffff81000060 B _end\nffffffff81000000 T outer\n",
        )
        .into();
        let modules = format!(
            "other 16 0 - Live 0xffffffffc0000000\nnfs 64 1 - Live {:#x}\n",
            AT + 0x100
        );
        profile.images = Images::parse(&modules, &profile.symbols);
        let bytes = render(&profile);
        let head = "DRCOV VERSION: 2\nDRCOV FLAVOR: jifl\nModule Table: version 2, count 2\n\
                    Columns: id, base, end, entry, path\n  \
                    0, 0xffffffff80fff000, 0xffffffff81000060, 0x0000000000000000, vmlinux\n  \
                    1, 0xffffffff81000100, 0xffffffff81000140, 0x0000000000000000, nfs.ko\n\
                    BB Table: 5 bbs\n";
        assert_eq!(String::from_utf8_lossy(&bytes[..head.len()]), head);
        let entries: Vec<(u32, u16, u16)> = bytes[head.len()..]
            .chunks(8)
            .map(|entry| {
                let u16_at = |at| u16::from_le_bytes([entry[at], entry[at + 1]]);
                let offset = u32::from_le_bytes(entry[..4].try_into().unwrap());
                (offset, u16_at(4), u16_at(6))
            })
            .collect();
        assert_eq!(
            entries,
            [
                (0x1000, 8, 0),
                (0x1040, 8, 0),
                (0x1044, 4, 0),
                (0, 8, 1),
                (8, 4, 1)
            ]
        );
    }
}
