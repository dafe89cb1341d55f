// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls of 32-bit programs (int 0x80, SYSENTER): names, and the functions that the
//! running kernel calls for them.
//!
//! The kernel's ia32_sys_call goes from a number to a function. The names of both are data here. A
//! kernel has a call if it has a function of that name. The machine test of kinds compares the
//! whole table with the calls in the machine code of ia32_sys_call.

use std::collections::{HashMap, HashSet};

use crate::kernel::functions::{Function, Functions};

const TABLE: &str = include_str!("syscalls32.tbl");

/// Functions that call ia32_sys_call, which jumps to the call's function or calls it.
pub const CALLERS: [&str; 6] = [
    "ia32_sys_call",
    "do_int80_emulation",
    "do_int80_syscall_32",
    "fred_int80_emulation",
    "__do_fast_syscall_32",
    "do_syscall_32_irqs_on",
];

/// A system call of the running kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its number.
    pub nr: u32,
    /// Its name.
    pub name: &'static str,
    /// What the kernel calls.
    pub function: Function,
    /// 64-bit programs call the same function, from elsewhere. It takes no arguments.
    pub is_shared: bool,
}

/// Numbers, names and functions without `__ia32_`.
fn table() -> impl Iterator<Item = (u32, &'static str, &'static str)> {
    TABLE.lines().filter_map(|line| {
        let mut words = line.split('\t');
        Some((words.next()?.parse().ok()?, words.next()?, words.next()?))
    })
}

/// The calls that the kernel has, in the order of their numbers. Empty if addresses are hidden, or
/// if the kernel runs no 32-bit programs.
pub fn of(functions: &Functions) -> Vec<Call> {
    let handlers: HashMap<&str, &Function> = functions
        .of_kernel_itself()
        .filter_map(|function| Some((function.name.strip_prefix("__ia32_")?, function)))
        .collect();
    let native: HashSet<u64> = functions
        .of_kernel_itself()
        .filter(|function| function.name.starts_with("__x64_sys_"))
        .map(|function| function.address)
        .collect();
    table()
        .filter_map(|(nr, name, handler)| {
            let function = (*handlers.get(handler)?).clone();
            Some(Call {
                nr,
                name,
                is_shared: native.contains(&function.address),
                function,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        let all: Vec<_> = table().collect();
        assert!(all.len() > 420);
        for (nr, name, handler) in [
            (3, "read", "sys_read"),
            (5, "open", "compat_sys_open"),
            (20, "getpid", "sys_getpid"),
            (192, "mmap2", "sys_mmap_pgoff"),
        ] {
            assert!(all.contains(&(nr, name, handler)), "{name}");
        }
        assert!(all.is_sorted());
    }
}
