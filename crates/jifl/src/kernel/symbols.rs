// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of the kernel's functions and variables, from /proc/kallsyms.

mod kept;
mod list;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::sync::OnceLock;

use jifl_code::flow::Thunks;
use jifl_code::names::{self, Line};

use list::{List, View};

/// The greatest distance of an address from the beginning of its function or variable.
const REACH: u64 = 1 << 20;
/// From here on the kernel puts modules, and code that it makes while it runs. The kernel itself
/// lies below, wherever KASLR puts it (KERNEL_IMAGE_SIZE).
const MODULES: u64 = 0xffff_ffff_c000_0000;

/// A name and the offset of an address from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    symbol: View<'a>,
    offset: u64,
}

impl<'a> Place<'a> {
    /// `name+0x12 [module]`
    pub fn shown(&self) -> String {
        let (name, module) = self.symbol.full.split_at(self.symbol.name_len);
        match self.offset {
            0 => self.function().to_owned(),
            offset => format!("{name}+{offset:#x}{module}"),
        }
    }

    /// Address of the beginning.
    pub fn start(&self) -> u64 {
        self.symbol.addr
    }

    /// The name without the module.
    pub fn name(&self) -> &'a str {
        self.symbol.name()
    }

    /// `None` for the kernel itself.
    pub fn module(&self) -> Option<&'a str> {
        self.symbol.module()
    }

    /// `name [module]`
    pub fn function(&self) -> &'a str {
        self.symbol.full
    }
}

/// All symbols, in order of their addresses.
#[derive(Debug, Default)]
pub struct Symbols {
    text: List,
    data: List,
    /// An earlier command has read them. Code that the kernel makes while it runs is not there.
    is_kept: bool,
    /// What the kernel says now, where that had to be asked.
    now: OnceLock<Box<Symbols>>,
}

impl Symbols {
    /// The symbols of the running kernel; empty if they cannot be read.
    pub fn of_kernel() -> Symbols {
        let (mut symbols, is_kept) = kept::FILE.get(kept::parsed, Symbols::told, kept::bytes);
        symbols.is_kept = is_kept;
        symbols
    }

    /// As the kernel tells them now.
    fn told() -> Symbols {
        let kallsyms = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        Symbols::of_lines(names::told(&kallsyms))
    }

    /// Reads text like that of /proc/kallsyms, in any order. As the kernel writes it, a module's
    /// symbol has its module after it.
    pub fn parse(kallsyms: &str) -> Symbols {
        Symbols::of_lines(names::lines(kallsyms))
    }

    fn of_lines<'a>(lines: impl Iterator<Item = Line<'a>>) -> Symbols {
        let mut symbols = Symbols::default();
        for line in lines {
            match names::is_text(line.kind) {
                true => symbols.text.add(&line),
                false => symbols.data.add(&line),
            }
        }
        symbols.text.sort();
        symbols.data.sort();
        symbols
    }

    /// True if there are no functions.
    pub fn is_empty(&self) -> bool {
        self.text.all.is_empty()
    }

    /// The function that begins at an address, or the address itself.
    pub fn name(&self, addr: u64) -> Cow<'_, str> {
        match self.function(addr) {
            Some(Place { symbol, offset: 0 }) => Cow::Borrowed(symbol.full),
            _ => Cow::Owned(format!("{addr:#x}")),
        }
    }

    /// The kernel's thunks.
    pub fn thunks(&self) -> Thunks {
        Thunks::named(self.text.each().map(|own| (own.addr, own.name())))
    }

    /// All functions and other code; is its name global?
    pub fn code(&self) -> impl Iterator<Item = (Line<'_>, bool)> {
        self.text.each().map(|own| (own.line('t'), own.global))
    }

    /// The function that an address lies in.
    pub fn function(&self, addr: u64) -> Option<Place<'_>> {
        self.of(addr).text.find(addr)
    }

    /// The module of the function at an address; `None` for the kernel itself.
    pub fn module(&self, addr: u64) -> Option<&str> {
        self.function(addr)?.module()
    }

    /// The beginning of the next function after the one at an address; `None` if it belongs to
    /// another module, which may be anywhere.
    pub fn end(&self, addr: u64) -> Option<u64> {
        let text = &self.of(addr).text;
        let symbol = text.find(addr)?.symbol;
        let next = text.view(text.behind(addr))?;
        (next.module() == symbol.module()).then_some(next.addr)
    }

    /// The address of the kernel's own function or mark with this name.
    pub fn address(&self, name: &str) -> Option<u64> {
        self.text.named(name).or_else(|| self.data.named(name))
    }

    /// Names that several functions of one module have, with the module.
    pub fn repeated(&self) -> HashSet<&str> {
        let mut seen = HashSet::new();
        let names = self.text.each().map(|symbol| symbol.full);
        names.filter(|name| !seen.insert(*name)).collect()
    }

    /// Beginnings of functions, by their names with the module.
    pub fn starts(&self) -> HashMap<&str, Vec<u64>> {
        let mut starts: HashMap<&str, Vec<u64>> = HashMap::new();
        for symbol in self.text.each() {
            starts.entry(symbol.full).or_default().push(symbol.addr);
        }
        starts
    }

    /// The smallest part of these symbols that gives the same names for these addresses: their
    /// functions, the functions after them, and the kernel's beginning and end.
    pub fn around(&self, addresses: impl Iterator<Item = u64>) -> Vec<Line<'_>> {
        let addresses: Vec<u64> = addresses.collect();
        // Those of now have all of the kernel's own, too.
        let of_now = addresses.iter().map(|addr| self.of(*addr));
        let of = of_now.fold(self, |of, one| match std::ptr::eq(one, self) {
            true => of,
            false => one,
        });
        let mut needed = BTreeSet::new();
        for addr in addresses {
            let behind = of.text.behind(addr);
            needed.extend(behind.checked_sub(1));
            needed.extend((behind < of.text.all.len()).then_some(behind));
        }
        for name in ["_text", "_end"] {
            needed.extend(of.text.each().position(|symbol| symbol.full == name));
        }
        let text = needed.into_iter().filter_map(|index| of.text.view(index));
        let text = text.map(|symbol| symbol.line(if symbol.global { 'T' } else { 't' }));
        let marks = of.data.each();
        let marks = marks.filter(|symbol| ["_text", "_end"].contains(&symbol.full));
        text.chain(marks.map(|symbol| symbol.line('D'))).collect()
    }

    /// The address of the kernel's own variable with this name.
    pub fn variable_at(&self, name: &str) -> Option<u64> {
        self.data.named(name)
    }

    /// The addresses of all of the kernel's own variables with this name. Files may have their own.
    pub fn variables(&self, name: &str) -> Vec<u64> {
        let found = self.data.each().filter(|symbol| symbol.full == name);
        found.map(|symbol| symbol.addr).collect()
    }

    /// The variable that an address lies in.
    pub fn variable(&self, addr: u64) -> Option<Place<'_>> {
        self.of(addr).data.find(addr)
    }

    /// The symbols that know what lies at an address: these, or where code may have come since they
    /// were kept, those of now.
    fn of(&self, addr: u64) -> &Symbols {
        if !self.is_kept || addr < MODULES || self.text.is_within(addr) || self.data.is_within(addr)
        {
            return self;
        }
        self.now.get_or_init(|| Box::new(Symbols::told()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_below_a_global_name_first() {
        let symbols = Symbols::parse(
            "1000 t local\n1000 T global\n1010 t other\t[mod]\n2000 d var\n400000 D far\n",
        );
        let shown = |addr| symbols.function(addr).map(|place| place.shown());
        assert_eq!(shown(0x1000).unwrap(), "global");
        assert_eq!(shown(0x100f).unwrap(), "global+0xf");
        assert_eq!(shown(0x1014).unwrap(), "other+0x4 [mod]");
        assert_eq!(shown(0xfff), None);
        assert_eq!(shown(0x1010 + REACH), None);
        assert_eq!(symbols.variable(0x2008).unwrap().shown(), "var+0x8");
        assert_eq!(symbols.function(0x1014).unwrap().function(), "other [mod]");
        assert_eq!(
            (symbols.module(0x1014), symbols.module(0x1000)),
            (Some("mod"), None)
        );
    }

    #[test]
    fn marks_of_sections_are_no_functions() {
        let symbols = Symbols::parse(
            "1000 t thunk\n1000 T __call_text_end\n2000 T __kprobes_text_start\n2001 T f\n",
        );
        assert_eq!(symbols.name(0x1000), "thunk");
        assert_eq!(symbols.address("__call_text_end"), Some(0x1000));
        assert_eq!(symbols.name(0x2000), "__kprobes_text_start");
    }

    #[test]
    fn functions_have_names_and_others_their_address() {
        let symbols = Symbols::parse(
            "ffffffff81000000 T first\nffffffff81000000 t alias\nffffffff81000010 D data\n\
             ffffffffc0000000 t theirs\t[nfs]\n",
        );
        assert_eq!(symbols.name(0xffff_ffff_8100_0000), "first");
        assert_eq!(symbols.name(0xffff_ffff_c000_0000), "theirs [nfs]");
        assert_eq!(symbols.name(0xffff_ffff_8100_0010), "0xffffffff81000010");
    }

    #[test]
    fn functions_end_where_the_next_of_their_module_begins() {
        let symbols = Symbols::parse(
            "1000 t f\n1000 T g\n1040 t h\n2000 t m\t[mod]\n2010 t n\t[mod]\n3000 D _end\n",
        );
        assert_eq!(symbols.end(0x1000), Some(0x1040));
        assert_eq!(symbols.end(0x1050), None, "the next is a module's");
        assert_eq!(symbols.end(0x2000), Some(0x2010));
        assert_eq!(symbols.end(0x2010), None);
        assert_eq!(symbols.address("h"), Some(0x1040));
        assert_eq!(symbols.address("_end"), Some(0x3000));
        assert_eq!(symbols.address("m"), None);
        assert_eq!(symbols.function(0x1044).unwrap().start(), 0x1040);
    }

    #[test]
    fn some_say_the_same_of_some_addresses() {
        let all = Symbols::parse(
            "1000 T _text\n1000 t f\n1010 t g\n1020 t h\n1030 T i\n1040 t m\t[mod]\n3000 B _end\n",
        );
        let some = all.around([0x1012, 0x1044].into_iter());
        let names: Vec<&str> = some.iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["_text", "g", "h", "m", "_end"]);
        assert_eq!((some[3].module, some[2].module), (Some("mod"), None));
        let line = |e: &Line<'_>| {
            let label = e.module.map(|name| format!("[{name}]"));
            let label = label.unwrap_or_default();
            format!("{:x} {} {} {label}\n", e.address, e.kind, e.name)
        };
        let again = Symbols::parse(&some.iter().map(line).collect::<String>());
        for addr in [0x1012, 0x1044] {
            let shown = |symbols: &Symbols| symbols.function(addr).map(|place| place.shown());
            assert_eq!(shown(&again), shown(&all));
            assert_eq!(again.end(addr), all.end(addr));
            assert_eq!(again.module(addr), all.module(addr));
        }
        assert_eq!(again.address("_end"), Some(0x3000));
    }

    #[test]
    fn hidden_addresses_are_none() {
        assert!(Symbols::parse("0000000000000000 T first\n").is_empty());
    }
}
