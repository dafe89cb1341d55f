// SPDX-License-Identifier: MIT OR Apache-2.0
//! Symbols in order of their addresses, their names in one piece of text: a kernel has 170,000.

use jifl_code::names::{self, Line};

use super::{Place, REACH};

/// A symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View<'a> {
    /// Where it stands.
    pub addr: u64,
    /// May the whole kernel use it?
    pub global: bool,
    /// The name, with the module if it has one.
    pub full: &'a str,
    /// Bytes of the name without the module.
    pub name_len: usize,
}

impl<'a> View<'a> {
    /// Without the module.
    pub fn name(&self) -> &'a str {
        &self.full[..self.name_len]
    }

    /// `None` for the kernel itself.
    pub fn module(&self) -> Option<&'a str> {
        let label = self.full[self.name_len..].strip_prefix(" [")?;
        label.strip_suffix(']')
    }

    /// As a line of /proc/kallsyms.
    pub fn line(&self, kind: char) -> Line<'a> {
        Line {
            address: self.addr,
            kind,
            name: self.name(),
            module: self.module(),
        }
    }
}

/// Symbols, their names apart.
#[derive(Debug, Default)]
pub struct List {
    /// Names, with the modules.
    pub names: String,
    /// The symbols.
    pub all: Vec<Symbol>,
}

/// A symbol whose name stands in a list's text.
#[derive(Debug, Clone, Copy)]
pub struct Symbol {
    /// Where it stands.
    pub addr: u64,
    /// Where its name begins in the text.
    pub at: u32,
    /// Bytes of the name with the module.
    pub len: u16,
    /// Bytes of the name without the module.
    pub name_len: u16,
    /// May the whole kernel use it?
    pub global: bool,
}

impl List {
    /// Adds a line of /proc/kallsyms, in any order. Names that cannot be kept are left out: the
    /// kernel's have at most 512 bytes (KSYM_NAME_LEN), and all together some megabytes.
    pub fn add(&mut self, line: &Line<'_>) {
        let at = self.names.len();
        self.names.push_str(line.name);
        let name_len = self.names.len() - at;
        if let Some(module) = line.module {
            self.names.extend([" [", module, "]"]);
        }
        let len = self.names.len() - at;
        let (Ok(at), Ok(len)) = (u32::try_from(at), u16::try_from(len)) else {
            self.names.truncate(at);
            return;
        };
        self.all.push(Symbol {
            addr: line.address,
            at,
            len,
            // At most `len`.
            name_len: name_len as u16,
            global: line.kind.is_ascii_uppercase(),
        });
    }

    /// Brings them into order. Of several names for one address the last is used. A global name is
    /// the best known, unless it only marks where a section begins or ends.
    pub fn sort(&mut self) {
        let names = &self.names;
        let rank = |one: &Symbol| (!names::is_mark(one.view(names).name()), one.global);
        self.all.sort_by(|a, b| {
            let order = a.addr.cmp(&b.addr);
            order.then_with(|| rank(a).cmp(&rank(b)))
        });
    }

    /// All, in order.
    pub fn each(&self) -> impl Iterator<Item = View<'_>> {
        self.all.iter().map(|one| one.view(&self.names))
    }

    /// The one at this index.
    pub fn view(&self, index: usize) -> Option<View<'_>> {
        Some(self.all.get(index)?.view(&self.names))
    }

    /// How many stand at an address or before it.
    pub fn behind(&self, addr: u64) -> usize {
        self.all.partition_point(|symbol| symbol.addr <= addr)
    }

    /// The symbol that an address lies in.
    pub fn find(&self, addr: u64) -> Option<Place<'_>> {
        let symbol = self.view(self.behind(addr).checked_sub(1)?)?;
        let offset = addr - symbol.addr;
        (offset < REACH).then_some(Place { symbol, offset })
    }

    /// Does it lie between two of one module? Then nothing of anybody else's is there.
    pub fn is_within(&self, addr: u64) -> bool {
        let behind = self.behind(addr);
        let before = behind.checked_sub(1).and_then(|index| self.view(index));
        match (before, self.view(behind)) {
            (Some(a), Some(b)) => a.module() == b.module() && b.addr - a.addr < REACH,
            _ => false,
        }
    }

    /// The address of the kernel's own with this name.
    pub fn named(&self, name: &str) -> Option<u64> {
        let found = self.each().find(|symbol| symbol.full == name);
        found.map(|symbol| symbol.addr)
    }
}

impl Symbol {
    fn view<'a>(&self, names: &'a str) -> View<'a> {
        let at = self.at as usize;
        View {
            addr: self.addr,
            global: self.global,
            full: &names[at..at + usize::from(self.len)],
            name_len: usize::from(self.name_len),
        }
    }
}
