// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exception tables of the kernel and of its modules: where the kernel goes on in place of an
//! instruction that met an exception (arch/x86/include/asm/extable_fixup_types.h).
//!
//! All tables are sorted by the addresses of the instructions (lib/extable.c). The kernel tells
//! only where a module's table begins. Its end is found by the kernel's layout
//! (kernel/module/main.c): the module's next section stands behind the table. Or that section lies
//! elsewhere, in memory of its own, and then zeros follow the table up to the end of the page.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use super::code::Code;
use crate::kernel::images::Images;
use crate::kernel::sections::Sections;
use crate::kernel::symbols::Symbols;

/// An entry has three words of 4 bytes. The first two are offsets, each from itself.
const ENTRY: u64 = 12;
/// Fields of the third word: what to do, with which register, and, from here on, a number.
const TYPE: i32 = 0xff;
const SETS_REGISTER: i32 = 17;
const REGISTER_SHIFT: u32 = 8;
const NUMBER_SHIFT: u32 = 16;

/// Where and how the thread goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixup {
    /// Address.
    pub to: u64,
    /// A register that is set before, and its value.
    pub sets: Option<(u8, i64)>,
}

/// Fixups, by the addresses of instructions.
type Table = HashMap<u64, Fixup>;

/// The tables. Each is read when it is first asked for.
pub struct Tables {
    /// The files of the machine are below this.
    root: PathBuf,
    /// By module; `None` is the kernel's own.
    known: RefCell<HashMap<Option<String>, Table>>,
}

impl Tables {
    /// The tables of the machine whose files are below `root`.
    pub fn of(root: impl Into<PathBuf>) -> Tables {
        Tables {
            root: root.into(),
            known: RefCell::default(),
        }
    }

    /// The fixup in place of the instruction at an address. `None`: unknown, because the
    /// instruction has no entry, its module is gone, or the address of the module's table may not
    /// be read.
    pub fn fixup(&self, at: u64, code: &Code<'_>) -> Option<Fixup> {
        let module = code.symbols.module(at);
        let mut known = self.known.borrow_mut();
        let table = known.entry(module.map(str::to_owned)).or_insert_with(|| {
            let place = self.place(module, code.symbols);
            place.map_or_else(Table::new, |place| read(place, module, code))
        });
        table.get(&at).copied()
    }

    /// Addresses of the table; a module's table may end earlier.
    fn place(&self, module: Option<&str>, symbols: &Symbols) -> Option<Range<u64>> {
        let Some(name) = module else {
            let begin = symbols.address("__start___ex_table")?;
            return Some(begin..symbols.address("__stop___ex_table")?);
        };
        let sections = Sections::of(&self.root, name);
        let begin = sections.address("__ex_table")?;
        let modules = fs::read_to_string(self.root.join("proc/modules")).ok()?;
        let images = Images::parse(&modules, symbols);
        let image = images.all().iter().find(|image| image.name == name)?;
        let most = begin.checked_add(image.size)?;
        Some(begin..sections.above(begin).map_or(most, |next| next.min(most)))
    }
}

/// Reads a table up to the first entry out of order. Entries that do not lead into the code of the
/// same module are left out: they are of its initialization, and stay when that code is freed.
fn read(place: Range<u64>, module: Option<&str>, code: &Code<'_>) -> Table {
    let mut table = Table::new();
    let mut last = 0;
    let begins = (place.start..place.end.saturating_sub(ENTRY - 1)).step_by(ENTRY as usize);
    let entries = begins.map_while(|begin| entry(begin, code));
    for (at, fixup) in entries {
        if at < last {
            break;
        }
        last = at;
        if code.symbols.module(fixup.to) == module {
            table.entry(at).or_insert(fixup);
        }
    }
    table
}

/// The entry at `begin`: its instruction and its fixup. `None` for zeros.
fn entry(begin: u64, code: &Code<'_>) -> Option<(u64, Fixup)> {
    let bytes = code.read(begin, ENTRY as usize)?;
    if bytes.iter().all(|byte| *byte == 0) {
        return None;
    }
    let word = |index: usize| {
        let mut word = [0; 4];
        word.copy_from_slice(&bytes[4 * index..4 * index + 4]);
        i32::from_le_bytes(word)
    };
    let target = |index: u64| {
        let from = begin.wrapping_add(4 * index);
        from.wrapping_add_signed(word(index as usize).into())
    };
    let data = word(2);
    let register = (data >> REGISTER_SHIFT & 0xf) as u8;
    let fixup = Fixup {
        to: target(1),
        sets: (data & TYPE == SETS_REGISTER).then_some((register, i64::from(data >> NUMBER_SHIFT))),
    };
    Some((target(0), fixup))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &str = "\
        ffffffff81000000 T kernel\nffffffff81000100 R __start___ex_table\n\
        ffffffff8100010c R __stop___ex_table\nffffffffc0001000 t first\t[mod]\n\
        ffffffffc0001100 t second\t[mod]\nffffffffc0009000 t other\t[other]\n";
    const KERNEL: u64 = 0xffff_ffff_8100_0100;
    const CODE: u64 = 0xffff_ffff_c000_1000;
    const TABLE: u64 = 0xffff_ffff_c000_3010;
    const ENTRIES: u64 = 5;

    /// A table of entries: instruction, address of the fixup, and third word.
    fn table(begin: u64, entries: &[(u64, u64, i32)]) -> (u64, Vec<u8>) {
        let mut bytes = Vec::new();
        for (at, to, data) in entries {
            for target in [at, to] {
                let from = begin + bytes.len() as u64;
                bytes.extend((target.wrapping_sub(from) as u32).to_le_bytes());
            }
            bytes.extend(data.to_le_bytes());
        }
        (begin, bytes)
    }

    /// The table of a module, and what follows it.
    fn of_module() -> (u64, Vec<u8>) {
        let entries = [
            (CODE - 0x800, CODE - 0x700, 3), // freed
            (CODE + 0x8, CODE + 0x20, 3),
            (CODE + 0x10, CODE + 0x12, 17 | 2 << 8 | -14 << 16),
            (CODE + 0x18, CODE + 0x8000, 3), // leads into the other module
            (CODE + 0x104, CODE + 0x120, 3),
            (CODE + 0x30, CODE + 0x40, 3), // out of order
            (CODE + 0x140, CODE + 0x150, 3),
        ];
        table(TABLE, &entries)
    }

    /// Offsets of the module's instructions that have a known fixup, on a machine with these files.
    fn known(name: &str, files: &[(&str, String)]) -> Vec<u64> {
        let root = std::env::temp_dir().join(format!("jifl-extable-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let symbols = Symbols::parse(NAMES);
        let mut memory = of_module();
        let code = Code::new(&mut memory, &symbols);
        let tables = Tables::of(&root);
        let is_known = |offset: &u64| tables.fixup(CODE + offset, &code).is_some();
        let known = (0..0x200).filter(is_known).collect();
        let _ = fs::remove_dir_all(root);
        known
    }

    fn section(name: &str, address: u64) -> (String, String) {
        (
            format!("sys/module/mod/sections/{name}"),
            format!("{address:#018x}\n"),
        )
    }

    #[test]
    fn fixups_of_modules_are_known_where_their_tables_may_be_read() {
        let modules = |size: u64| ("proc/modules", format!("mod {size} 0 - Live {CODE:#x}\n"));
        let (path, at) = section("__ex_table", TABLE);
        let begins = || (path.as_str(), at.clone());
        let (text, before) = section(".text", CODE);
        let (data, behind) = section(".data", TABLE + ENTRIES * ENTRY);
        let (early, inside) = section(".init.data", TABLE + 2 * ENTRY + 4);
        let all = [0x8, 0x10, 0x104];
        let page = modules(4096);

        let next = (data.as_str(), behind);
        let files = [page.clone(), begins(), (text.as_str(), before), next];
        assert_eq!(known("next", &files), all);
        // Only the order of the entries tells where the table ends, then only the module's size.
        assert_eq!(known("order", &[page.clone(), begins()]), all);
        assert_eq!(known("size", &[modules(4 * ENTRY), begins()]), all[..2]);
        let files = [page.clone(), begins(), (early.as_str(), inside)];
        assert_eq!(known("part", &files), all[..1]);

        let none: [u64; 0] = [];
        assert_eq!(known("unread", std::slice::from_ref(&page)), none);
        assert_eq!(known("gone", &[begins()]), none);
        let hidden = (path.as_str(), section("", 0).1);
        assert_eq!(known("hidden", &[page.clone(), hidden]), none);
        // Here the table would end at an address that does not exist.
        let (_, high) = section("", u64::MAX - 5);
        assert_eq!(known("high", &[page, (path.as_str(), high)]), none);
    }

    #[test]
    fn entries_say_what_is_done() {
        let (_, bytes) = of_module();
        let symbols = Symbols::parse(NAMES);
        let entries = |bytes: Vec<u8>| {
            let mut memory = (TABLE, bytes);
            let code = Code::new(&mut memory, &symbols);
            read(TABLE..TABLE + 4096, Some("mod"), &code)
        };
        let found = entries(bytes.clone());
        let fixup = |to, sets| Some(Fixup { to, sets });
        assert_eq!(found.get(&(CODE + 0x8)).copied(), fixup(CODE + 0x20, None));
        let sets = Some((2, -14));
        assert_eq!(found.get(&(CODE + 0x10)).copied(), fixup(CODE + 0x12, sets));
        // Neither a part of an entry nor an entry of zeros counts.
        let two = 2 * ENTRY as usize;
        assert_eq!(entries(bytes[..two + 5].to_vec()).len(), 1);
        let mut zeros = bytes;
        zeros[two..].fill(0);
        assert_eq!(entries(zeros).len(), 1);
    }

    #[test]
    fn names_say_where_the_table_of_the_kernel_is() {
        let symbols = Symbols::parse(NAMES);
        let at = KERNEL - 0x80;
        let mut memory = table(KERNEL, &[(at, at + 8, 3), (at + 1, at + 9, 3)]);
        let code = Code::new(&mut memory, &symbols);
        let to = |at| code.tables.fixup(at, &code).map(|fixup| fixup.to);
        assert_eq!((to(at), to(at + 1)), (Some(at + 8), None));
    }
}
