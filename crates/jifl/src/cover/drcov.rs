// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executed blocks in the format of DynamoRIO's drcov, version 2, which Lighthouse and other
//! plugins of disassemblers read: modules, then a table of blocks, each with its offset from the
//! beginning of its module. The kernel is a module that begins at `_text`, where a disassembler
//! of vmlinux sees its beginning, wherever it has been loaded.

use std::collections::BTreeMap;

use crate::profile::Profile;

/// Where a module lies, and what it is called.
struct Module {
    base: u64,
    end: u64,
    path: String,
}

/// The whole file. `modules` is the text of /proc/modules.
pub fn render(profile: &Profile, modules: &str) -> Vec<u8> {
    let modules = Modules::of(profile, modules);
    let mut blocks: BTreeMap<(u64, u32), usize> = BTreeMap::new();
    for block in profile.executed() {
        if let Some(module) = modules.index(block.orig) {
            blocks.insert((block.orig, block.src_len), module);
        }
    }
    let mut text = format!(
        "DRCOV VERSION: 2\nDRCOV FLAVOR: jifl\nModule Table: version 2, count {}\n\
         Columns: id, base, end, entry, path\n",
        modules.0.len()
    );
    for (id, module) in modules.0.iter().enumerate() {
        text += &format!(
            "{id:3}, {:#018x}, {:#018x}, {:#018x}, {}\n",
            module.base, module.end, 0, module.path
        );
    }
    text += &format!("BB Table: {} bbs\n", blocks.len());
    let mut bytes = text.into_bytes();
    for ((address, length), module) in blocks {
        let offset = (address - modules.0[module].base) as u32;
        bytes.extend_from_slice(&offset.to_le_bytes());
        bytes.extend_from_slice(&(length as u16).to_le_bytes());
        bytes.extend_from_slice(&(module as u16).to_le_bytes());
    }
    bytes
}

/// Those in which blocks were executed, in the order of their addresses.
struct Modules(Vec<Module>);

impl Modules {
    fn of(profile: &Profile, modules: &str) -> Modules {
        let first = profile.blocks.first().map_or(0, |block| block.orig);
        let kernel = Module {
            base: profile.symbols.address("_text").unwrap_or(first),
            end: profile.symbols.address("_end").unwrap_or(u64::MAX),
            path: "vmlinux".into(),
        };
        let mut all = vec![kernel];
        all.extend(modules.lines().filter_map(parse));
        all.sort_by_key(|module| module.base);
        let all = Modules(all);
        let used: Vec<usize> = profile
            .executed()
            .filter_map(|block| all.index(block.orig))
            .collect();
        let kept = all.0.into_iter().enumerate();
        Modules(
            kept.filter(|(index, _)| used.contains(index))
                .map(|(_, module)| module)
                .collect(),
        )
    }

    fn index(&self, address: u64) -> Option<usize> {
        let behind = self.0.partition_point(|module| module.base <= address);
        let index = behind.checked_sub(1)?;
        (address < self.0[index].end).then_some(index)
    }
}

/// `ext4 1048576 1 - Live 0xffffffffc0400000`
fn parse(line: &str) -> Option<Module> {
    let words: Vec<&str> = line.split(' ').collect();
    let (name, size, base) = (words.first()?, words.get(1)?, words.get(5)?);
    let base = u64::from_str_radix(base.strip_prefix("0x")?, 16).ok()?;
    Some(Module {
        base,
        end: base + size.parse::<u64>().ok()?,
        path: format!("{name}.ko"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::{AT, sample};
    use crate::symbols::Symbols;

    #[test]
    fn executed_blocks_by_their_offsets() {
        let mut profile = sample();
        profile.symbols = Symbols::parse(
            "ffffffff80fff000 T _text\nffffffff81000060 B _end\nffffffff81000000 T outer\n",
        );
        let modules = format!(
            "other 16 0 - Live 0xffffffffc0000000\nnfs 64 1 - Live {:#x}\n",
            AT + 0x100
        );
        let bytes = render(&profile, &modules);
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
