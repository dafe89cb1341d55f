// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often functions were entered, by who called whom: what flame graphs are made of.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::calls::Call;
use crate::symbols::Symbols;
use crate::syscalls::Table;

/// A system call and the functions inside each other, the innermost last.
type Stack = (u32, Vec<u64>);

/// How often the innermost function of each stack was entered.
#[derive(Debug, Default)]
pub struct Folded(BTreeMap<Stack, u64>);

impl Folded {
    /// Adds a call's functions, down to a depth.
    pub fn add(&mut self, call: &Call, depth: Option<u32>) {
        let mut path = Vec::new();
        for entered in &call.functions {
            // A call whose beginning was lost may begin deeper.
            path.truncate(entered.depth as usize);
            path.push(entered.address);
            if depth.is_none_or(|limit| entered.depth < limit) {
                *self.0.entry((call.nr, path.clone())).or_default() += 1;
            }
        }
    }

    /// `sys:openat;__x64_sys_openat;do_sys_open 3`, a line for each.
    pub fn text(&self, table: &Table, symbols: &Symbols) -> String {
        let mut text = String::new();
        for ((nr, functions), times) in &self.0 {
            let _ = write!(text, "sys:{}", table.name(*nr));
            for function in functions {
                let _ = write!(text, ";{}", symbols.name(*function));
            }
            let _ = writeln!(text, " {times}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::calls::Entered;

    #[test]
    fn entries_are_counted_by_stack() {
        let functions = [(16, 0), (32, 1), (48, 1), (32, 1), (48, 2)];
        let call = Call {
            nr: 39,
            functions: functions
                .map(|(offset, depth)| Entered {
                    address: 0xffff_ffff_8100_0000 + offset,
                    depth,
                    ..Entered::default()
                })
                .into(),
            ..Call::default()
        };
        let symbols = Symbols::parse(
            "ffffffff81000010 T a\nffffffff81000020 T b\nffffffff81000030 T c\nffffffff81000040 T d\n",
        );
        let text = |depth| {
            let mut folded = Folded::default();
            folded.add(&call, depth);
            folded.add(&call, depth);
            folded.text(&Table::all(), &symbols)
        };
        assert_eq!(
            text(None),
            "sys:getpid;a 2\nsys:getpid;a;b 4\nsys:getpid;a;b;c 2\nsys:getpid;a;c 2\n"
        );
        assert_eq!(text(Some(1)), "sys:getpid;a 2\n");
    }
}
