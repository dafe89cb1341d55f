// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls of x86-64 by name and number.

use std::collections::{BTreeMap, BTreeSet};

use jifl_sys::abi::NR_MAX;

/// The table: names by number, in order of numbers. Behind the numbers that system calls can have,
/// other targets of a session may have numbers, too.
#[derive(Debug, Clone)]
pub struct Table {
    calls: Vec<(u32, String)>,
    others: BTreeMap<u32, String>,
}

impl Table {
    /// All calls that have a name, whether the running kernel has them or not.
    pub fn all() -> Table {
        let mut calls: Vec<(u32, String)> = syscalls::Sysno::iter()
            .map(|call| (call.id() as u32, call.name().to_owned()))
            .filter(|(nr, _)| (*nr as usize) < NR_MAX)
            .collect();
        calls.sort();
        Table {
            calls,
            others: BTreeMap::new(),
        }
    }

    /// The calls for which `kallsyms` (the text of /proc/kallsyms) has a handler. `None` if it has
    /// none at all: it is hidden, or not of an x86-64 kernel.
    pub fn of_kernel(kallsyms: &str) -> Option<Table> {
        let handlers: BTreeSet<&str> = kallsyms
            .lines()
            .filter_map(|line| line.split_whitespace().nth(2))
            .filter_map(|symbol| symbol.strip_prefix("__x64_sys_"))
            .collect();
        if handlers.is_empty() {
            return None;
        }
        let mut table = Table::all();
        table
            .calls
            .retain(|(_, name)| handlers.contains(handler(name)));
        Some(table)
    }

    /// Numbers and names.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &str)> {
        self.calls.iter().map(|(nr, name)| (*nr, name.as_str()))
    }

    /// The name of a call; `nr_N` for one without.
    pub fn name(&self, nr: u32) -> String {
        if let Some(name) = self.others.get(&nr) {
            return name.clone();
        }
        match self.calls.binary_search_by_key(&nr, |(nr, _)| *nr) {
            Ok(index) => self.calls[index].1.clone(),
            Err(_) => format!("nr_{nr}"),
        }
    }

    /// The name of what has this number, in the notation of targets: `sys:openat`, `fn:vfs_read`.
    pub fn target(&self, nr: u32) -> String {
        let name = self.name(nr);
        match self.is_other(nr) {
            // A function that users call by another name has its kind in it.
            true if name.contains(':') => name,
            true => format!("fn:{name}"),
            false => format!("sys:{name}"),
        }
    }

    /// Is it no system call that has this number?
    pub fn is_other(&self, nr: u32) -> bool {
        nr as usize >= NR_MAX
    }

    /// The table with functions, too, by their numbers.
    pub fn with(&self, others: BTreeMap<u32, String>) -> Table {
        Table {
            calls: self.calls.clone(),
            others,
        }
    }

    /// The functions, by their numbers.
    pub fn others(&self) -> &BTreeMap<u32, String> {
        &self.others
    }
}

/// The handler's name, if it differs from the call's (arch/x86/entry/syscalls/syscall_64.tbl).
pub fn handler(call: &str) -> &str {
    match call {
        "stat" => "newstat",
        "fstat" => "newfstat",
        "lstat" => "newlstat",
        "uname" => "newuname",
        "sendfile" => "sendfile64",
        "umount2" => "umount",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_x86_64() {
        let table = Table::all();
        for (nr, name) in [(0, "read"), (56, "clone"), (257, "openat"), (435, "clone3")] {
            assert_eq!(table.name(nr), name);
        }
        assert_eq!(table.name(400), "nr_400");
    }

    #[test]
    fn the_running_kernel_limits_the_table() {
        let text = "ffffffff812a0f50 T __x64_sys_read\n\
                    ffffffff812a0f60 T __x64_sys_newfstat\n\
                    ffffffff812a0f70 T __ia32_sys_write\n";
        let table = Table::of_kernel(text).unwrap();
        let names: Vec<_> = table.iter().collect();
        assert_eq!(names, [(0, "read"), (5, "fstat")]);
        assert!(Table::of_kernel("0 T _text\n").is_none());
    }
}
