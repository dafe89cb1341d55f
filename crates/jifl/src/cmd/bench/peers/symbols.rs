// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of the kernel's functions, from `/proc/kallsyms`.

use std::collections::{HashMap, HashSet};
use std::fs;

use crate::base::exit::Failure;

const KALLSYMS: &str = "/proc/kallsyms";

/// The names of some addresses.
#[derive(Debug, Default)]
pub struct Symbols {
    names: HashMap<u64, Vec<String>>,
    /// Names that stand for several addresses.
    ambiguous: HashSet<String>,
}

impl Symbols {
    /// Looks addresses up.
    pub fn of(addresses: &HashSet<u64>) -> Result<Symbols, Failure> {
        let text = fs::read_to_string(KALLSYMS)
            .map_err(|error| Failure::cannot(format!("{KALLSYMS}: {error}")))?;
        let symbols = Symbols::parse(&text, addresses);
        if symbols.names.is_empty() && !addresses.is_empty() {
            return Err(Failure::cannot(format!(
                "{KALLSYMS} shows no addresses: sysctl kernel.kptr_restrict=1, and be root"
            )));
        }
        Ok(symbols)
    }

    fn parse(text: &str, addresses: &HashSet<u64>) -> Symbols {
        let mut names: HashMap<u64, Vec<String>> = HashMap::new();
        for (addr, name) in functions(text) {
            if addresses.contains(&addr) {
                names.entry(addr).or_default().push(name.to_owned());
            }
        }
        let mut left: HashMap<&str, u64> = HashMap::new();
        for (addr, all) in &names {
            left.extend(all.iter().map(|name| (name.as_str(), *addr)));
        }
        let ambiguous = functions(text)
            .filter(|(addr, name)| left.get(name).is_some_and(|known| known != addr))
            .map(|(_, name)| name.to_owned())
            .collect();
        Symbols { names, ambiguous }
    }

    /// All names of an address.
    pub fn names(&self, addr: u64) -> &[String] {
        self.names.get(&addr).map_or(&[], Vec::as_slice)
    }

    /// The names that no other address has.
    pub fn own_names(&self, addr: u64) -> Vec<String> {
        let names = self.names(addr).iter();
        names
            .filter(|name| !self.ambiguous.contains(*name))
            .cloned()
            .collect()
    }
}

/// Address and name of each function.
fn functions(text: &str) -> impl Iterator<Item = (u64, &str)> {
    text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let addr = u64::from_str_radix(words.next()?, 16).ok()?;
        matches!(words.next()?, "t" | "T" | "w" | "W").then_some(())?;
        Some((addr, words.next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_doubles() {
        let text = "10 T a\n10 t alias\n20 t twin\n30 t twin\n40 D data\n50 t other\t[mod]\n";
        let symbols = Symbols::parse(text, &HashSet::from([0x10, 0x20, 0x40, 0x50]));
        assert_eq!(symbols.names(0x10), ["a", "alias"]);
        assert_eq!(symbols.own_names(0x10), ["a", "alias"]);
        assert_eq!(symbols.names(0x20), ["twin"]);
        assert!(symbols.own_names(0x20).is_empty());
        assert!(symbols.names(0x40).is_empty());
        assert_eq!(symbols.own_names(0x50), ["other"]);
    }
}
