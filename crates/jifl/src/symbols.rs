// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of the kernel's functions, from /proc/kallsyms.

use std::borrow::Cow;

/// Functions by address.
#[derive(Debug, Default)]
pub struct Symbols(Vec<(u64, String)>);

impl Symbols {
    /// Those of the running kernel; empty where they cannot be read.
    pub fn of_kernel() -> Symbols {
        Symbols::parse(&std::fs::read_to_string("/proc/kallsyms").unwrap_or_default())
    }

    /// Takes the text symbols of `kallsyms`. A module's function has its module
    /// behind it, as the kernel writes it.
    pub fn parse(kallsyms: &str) -> Symbols {
        let mut all: Vec<_> = kallsyms.lines().filter_map(parse_line).collect();
        // Of several names at an address the first stays.
        all.sort_by_key(|(address, _)| *address);
        all.dedup_by_key(|(address, _)| *address);
        Symbols(all)
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The function that begins at `address`, or the address itself.
    pub fn name(&self, address: u64) -> Cow<'_, str> {
        match self.0.binary_search_by_key(&address, |symbol| symbol.0) {
            Ok(index) => Cow::Borrowed(&self.0[index].1),
            Err(_) => Cow::Owned(format!("{address:#x}")),
        }
    }
}

fn parse_line(line: &str) -> Option<(u64, String)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?;
    let name = words.next()?;
    if address == 0 || !matches!(kind, "t" | "T" | "w" | "W") {
        return None;
    }
    Some(match words.next() {
        Some(module) => (address, format!("{name} {module}")),
        None => (address, name.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn hidden_addresses_are_none() {
        assert!(Symbols::parse("0000000000000000 T first\n").is_empty());
    }
}
