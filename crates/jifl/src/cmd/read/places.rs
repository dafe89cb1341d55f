// SPDX-License-Identifier: MIT OR Apache-2.0
//! Source lines for the places that a plugin's lines name, as printk's %pS and %pB write them:
//! `name+0x12/0x34`, in a module's code with ` [module]` behind it. The names of the running kernel
//! give the address back, and debug information gives the source line.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::str;

use crate::kernel::lines::Lines;
use crate::kernel::symbols::Symbols;

/// Finds places and their source lines.
pub struct Places<'a> {
    symbols: &'a Symbols,
    lines: &'a Lines,
    /// Beginnings of functions, by their names.
    starts: HashMap<&'a str, Vec<u64>>,
    /// Additions for places that were looked up; empty if the line is unknown.
    known: HashMap<Vec<u8>, String>,
    /// Modules of these places; `None` stands for the kernel.
    named: BTreeSet<Option<&'a str>>,
}

/// A place in a text.
#[derive(Debug, PartialEq, Eq)]
struct Written {
    /// Its range in the text.
    at: Range<usize>,
    /// The function's name with the module, as in /proc/kallsyms.
    function: String,
    offset: u64,
    /// Size of the function.
    size: u64,
}

impl<'a> Places<'a> {
    /// A finder for the kernel with these names.
    pub fn new(symbols: &'a Symbols, lines: &'a Lines) -> Places<'a> {
        Places {
            symbols,
            lines,
            starts: symbols.starts(),
            known: HashMap::new(),
            named: BTreeSet::new(),
        }
    }

    /// Whole lines, with ` (file:line)` behind each place whose line is known.
    pub fn with_lines(&mut self, text: &[u8]) -> Vec<u8> {
        let mut made = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(written) = first(rest) {
            let end = written.at.end;
            made.extend_from_slice(&rest[..end]);
            made.extend_from_slice(self.line(&rest[written.at.clone()], &written).as_bytes());
            rest = &rest[end..];
        }
        made.extend_from_slice(rest);
        made
    }

    /// Tells which debug information is missing, if any is.
    pub fn note(self) {
        self.lines.note(self.named);
    }

    fn line(&mut self, text: &[u8], written: &Written) -> &str {
        if !self.known.contains_key(text) {
            let line = self.look(written).unwrap_or_default();
            self.known.insert(text.to_owned(), line);
        }
        &self.known[text]
    }

    fn look(&mut self, written: &Written) -> Option<String> {
        let at = self.address(written)?;
        let module = self.symbols.module(at);
        self.named.insert(module);
        let line = self.lines.of(module, at, at + 1).into_iter().next()?;
        Some(format!(" ({}:{})", line.file, line.line))
    }

    /// The address of a place. Of several functions with its name, it means the one with its size,
    /// if only one has that size.
    fn address(&self, written: &Written) -> Option<u64> {
        let starts = self.starts.get(written.function.as_str())?;
        let fits = |start: &&u64| {
            let end = self.symbols.end(**start);
            end.is_none_or(|end| end - **start == written.size)
        };
        let mut fitting = starts.iter().filter(fits);
        let start = fitting.next()?;
        // After a call that does not return, %pB prints the function's end, where others begin.
        let is_one = fitting.next().is_none() && written.offset < written.size;
        is_one.then(|| start + written.offset)
    }
}

/// The first place that a text names.
fn first(text: &[u8]) -> Option<Written> {
    let all = text.windows(3).enumerate();
    let mut marks = all.filter(|(_, bytes)| *bytes == b"+0x");
    marks.find_map(|(mark, _)| {
        let before = text[..mark].iter().rposition(|byte| !is_of_name(*byte));
        let from = before.map_or(0, |before| before + 1);
        let name = Some(&text[from..mark]).filter(|name| !name.is_empty())?;
        let mut function = String::from_utf8(name.to_owned()).ok()?;
        let (offset, rest) = number(&text[mark..], b"+0x")?;
        let (size, mut rest) = number(rest, b"/0x")?;
        if let Some((module, behind)) = label(rest) {
            function = format!("{function} [{module}]");
            rest = behind;
        }
        Some(Written {
            at: from..text.len() - rest.len(),
            function,
            offset,
            size,
        })
    })
}

/// Characters of names: `_`, `.` as in `.cold`, `$` as of other compilers.
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.$".contains(&byte)
}

/// A hexadecimal number after a prefix, and the rest.
fn number<'a>(text: &'a [u8], prefix: &[u8]) -> Option<(u64, &'a [u8])> {
    let digits = text.strip_prefix(prefix)?;
    let end = digits.iter().position(|byte| !byte.is_ascii_hexdigit());
    let (digits, rest) = digits.split_at(end.unwrap_or(digits.len()));
    let value = u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    Some((value, rest))
}

/// The module of ` [module]`, and the rest. %pSb and %pBb write its build id after its name. A
/// plugin's own ` [123]` is no module.
fn label(text: &[u8]) -> Option<(&str, &[u8])> {
    let inner = text.strip_prefix(b" [")?;
    let end = inner.iter().position(|byte| *byte == b']')?;
    let module = str::from_utf8(&inner[..end]).ok()?.split(' ').next()?;
    let is_name = |module: &str| {
        let mut bytes = module.bytes();
        bytes.all(is_of_name) && module.bytes().any(|byte| !byte.is_ascii_digit())
    };
    is_name(module).then_some((module, &inner[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::lines::tests::{AT, Program};

    fn written(text: &str) -> Option<(String, String, u64, u64)> {
        let found = first(text.as_bytes())?;
        let whole = text[found.at].to_owned();
        Some((whole, found.function, found.offset, found.size))
    }

    #[test]
    fn places_are_found_in_lines() {
        for (text, whole, function) in [
            ("f+0x1/0x2a", "f+0x1/0x2a", "f"),
            ("7 in a.cold+0x1/0x2a, 5\n", "a.cold+0x1/0x2a", "a.cold"),
            ("(f+0x1/0x2a [nfs])", "f+0x1/0x2a [nfs]", "f [nfs]"),
            ("f+0x1/0x2a [9p 01ab] 3", "f+0x1/0x2a [9p 01ab]", "f [9p]"),
            ("f+0x1/0x2a [151] [nfs]", "f+0x1/0x2a", "f"),
            ("f+0x1/0x2a [of: it]", "f+0x1/0x2a", "f"),
            ("+0x1/0x2 g+0x1 é+0x1/0x2 f+0x1/0x2a\n", "f+0x1/0x2a", "f"),
        ] {
            let expected = (whole.to_owned(), function.to_owned(), 1, 0x2a);
            assert_eq!(written(text), Some(expected), "{text}");
        }
        for text in ["", "f", "f [nfs]", "f+0x", "f+0x1", "f+0x1/0x", "f+12/34"] {
            assert_eq!(written(text), None, "{text}");
        }
        let long = "f+0x11111111111111111/0x2";
        assert_eq!(written(long), None);
    }

    #[test]
    fn lines_stand_behind_what_is_known_and_nothing_else_changes() {
        let program = Program::kernel("places");
        let (symbols, lines) = (program.symbols(), program.lines());
        let mut places = Places::new(&symbols, &lines);
        let size = program.offset("never") - program.offset("later");
        let later = format!("later+0x0/{size:#x}");
        let text = format!("\u{e9} {later}\n{later}, later, none+0x0/0x1, later+0x0/0x1\n");
        let mut text = text.into_bytes();
        text.push(0xff);
        let mut made = places.with_lines(&text);
        assert_eq!(made.pop(), Some(0xff), "what is no text is kept");
        let line = lines.of(None, AT + program.offset("later"), u64::MAX)[0].line;
        let known = format!("{later} (program.c:{line})");
        let expected = format!("\u{e9} {known}\n{known}, later, none+0x0/0x1, later+0x0/0x1\n");
        assert_eq!(String::from_utf8(made).unwrap(), expected);
        assert!(places.named.contains(&None) && places.named.len() == 1);
    }

    #[test]
    fn a_name_of_several_is_of_the_one_that_is_so_large() {
        let symbols = Symbols::parse(
            "1000 t f\n1010 t g\n1020 t f\n1040 t f\n1060 t h\n\
             2000 t f\t[nfs]\n2010 t f\t[other]\n",
        );
        let lines = Lines::default();
        let mut places = Places::new(&symbols, &lines);
        let address = |text: &str| places.address(&first(text.as_bytes()).unwrap());
        assert_eq!(address("f+0x4/0x10"), Some(0x1004));
        assert_eq!(address("f+0x4/0x20"), None, "two are");
        assert_eq!(address("f+0x4/0x30"), None, "none is");
        assert_eq!(address("f+0x4/0x10 [nfs]"), Some(0x2004));
        assert_eq!(
            address("f+0x4/0x99 [other]"),
            Some(0x2014),
            "its end is not known"
        );
        assert_eq!(address("g+0x10/0x10"), None, "behind its end");
        // Without debug information lines stay as they are, and a message names the module.
        let text = "f+0x4/0x20 f+0x4/0x10 f+0x4/0x10 [nfs]\n";
        assert_eq!(places.with_lines(text.as_bytes()), text.as_bytes());
        assert_eq!(places.named, [None, Some("nfs")].into());
    }
}
