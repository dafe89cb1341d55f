// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often functions were entered, or how long they took, by their callers: the input of flame
//! graphs.

use std::collections::BTreeMap;
use std::io::Write as _;

use super::form::{Form, Shown, View};
use crate::session::calls::Call;
use crate::session::calls::losses::Losses;

/// A system call and the functions inside each other, the innermost last.
type Stack = (u32, Vec<u64>);

/// For each stack, how often its innermost function was entered, or that function's own time.
#[derive(Debug, Default)]
pub struct Folded {
    /// Whether values are times.
    timed: bool,
    stacks: BTreeMap<Stack, u64>,
}

impl Folded {
    /// Stacks with times, or with numbers of entries.
    pub fn new(timed: bool) -> Folded {
        Folded {
            timed,
            ..Folded::default()
        }
    }

    fn count(&mut self, shown: &Shown) {
        let mut path = Path::of(shown.call);
        for entered in &shown.functions {
            while path.leave(entered.depth).is_some() {}
            path.enter(entered.depth, entered.address, None);
            *self.stacks.entry(path.stack()).or_default() += 1;
        }
    }

    /// Each nanosecond of a call is in one stack only.
    fn time(&mut self, shown: &Shown) {
        let mut path = Path::of(shown.call);
        for entered in &shown.functions {
            self.leave(&mut path, entered.depth);
            path.enter(entered.depth, entered.address, entered.duration);
        }
        self.leave(&mut path, 0);
        if let Some(own) = path.call {
            *self.stacks.entry(path.stack()).or_default() += own;
        }
    }

    /// Closes all functions that are at least as deep, and adds their own times.
    fn leave(&mut self, path: &mut Path, depth: u32) {
        while let Some((stack, own)) = path.leave(depth) {
            if let Some(own) = own {
                *self.stacks.entry(stack).or_default() += own;
            }
        }
    }
}

impl Form for Folded {
    fn call(&mut self, _out: &mut Vec<u8>, shown: &Shown, _view: &View) {
        if self.timed {
            self.time(shown);
        } else {
            self.count(shown);
        }
    }

    /// `sys:openat;__x64_sys_openat;do_sys_open 3`, a line for each.
    fn end(&mut self, out: &mut Vec<u8>, view: &View, _losses: &Losses) {
        for ((nr, functions), value) in &self.stacks {
            // A write to memory never fails.
            out.extend(view.table.target(*nr).bytes());
            for function in functions {
                let _ = write!(out, ";{}", view.names.at(*function));
            }
            let _ = writeln!(out, " {value}");
        }
    }
}

/// The open functions, each inside the one before.
struct Path {
    nr: u32,
    /// Time of the call outside all functions of known duration, if the call ended.
    call: Option<u64>,
    open: Vec<Frame>,
}

/// An open function.
struct Frame {
    depth: u32,
    address: u64,
    /// Its time without that of the functions inside it; `None` if its own duration is unknown.
    own: Option<u64>,
}

impl Path {
    fn of(call: &Call) -> Path {
        Path {
            nr: call.nr,
            call: call.duration(),
            open: Vec::new(),
        }
    }

    /// Closes the innermost function, if it is at least as deep.
    fn leave(&mut self, depth: u32) -> Option<(Stack, Option<u64>)> {
        // If the beginning of a call was lost, its first function may be deeper.
        self.open.last().filter(|frame| frame.depth >= depth)?;
        let stack = self.stack();
        Some((stack, self.open.pop()?.own))
    }

    fn enter(&mut self, depth: u32, address: u64, duration: Option<u64>) {
        let mut around = self.open.iter_mut().rev().filter_map(|f| f.own.as_mut());
        if let (Some(took), Some(around)) = (duration, around.next().or(self.call.as_mut())) {
            *around = around.saturating_sub(took);
        }
        self.open.push(Frame {
            depth,
            address,
            own: duration,
        });
    }

    fn stack(&self) -> Stack {
        let functions = self.open.iter().map(|frame| frame.address);
        (self.nr, functions.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::trace::names::Names;
    use crate::kernel::symbols::Symbols;
    use crate::kernel::syscalls::Table;
    use crate::session::calls::Entered;

    /// A call of 100 ns; functions as offset, depth and duration.
    fn folded(timed: bool, functions: &[(u64, u32, Option<u64>)]) -> String {
        let call = Call {
            nr: 39,
            began: 1000,
            ended: Some(1100),
            ..Call::default()
        };
        let functions: Vec<Entered> = functions
            .iter()
            .map(|(offset, depth, duration)| Entered {
                address: 0xffff_ffff_8100_0000 + offset,
                depth: *depth,
                duration: *duration,
                ..Entered::default()
            })
            .collect();
        let symbols = Symbols::parse(
            "ffffffff81000010 T a\nffffffff81000020 T b\nffffffff81000030 T c\nffffffff81000040 T d\n",
        );
        let view = View {
            table: &Table::all(),
            names: Names::new(&symbols, None),
            timed,
        };
        let mut folded = Folded::new(timed);
        let mut out = Vec::new();
        for _ in 0..2 {
            let shown = Shown {
                call: &call,
                functions: functions.iter().collect(),
            };
            folded.call(&mut out, &shown, &view);
        }
        folded.end(&mut out, &view, &Losses::default());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn entries_are_counted_by_stack() {
        let functions = [(16, 0), (32, 1), (48, 1), (32, 1), (48, 2)];
        assert_eq!(
            folded(
                false,
                &functions.map(|(offset, depth)| (offset, depth, None))
            ),
            "sys:getpid;a 2\nsys:getpid;a;b 4\nsys:getpid;a;b;c 2\nsys:getpid;a;c 2\n"
        );
    }

    #[test]
    fn each_nanosecond_is_somebodys_own() {
        let functions = [
            (16, 0, Some(90)),
            (32, 1, Some(30)),
            (48, 2, Some(30)),
            // The end of this function is unknown: its time counts for the function around it.
            (32, 1, None),
            (64, 2, Some(20)),
        ];
        assert_eq!(
            folded(true, &functions),
            "sys:getpid 20\nsys:getpid;a 80\nsys:getpid;a;b 0\nsys:getpid;a;b;c 60\nsys:getpid;a;b;d 40\n"
        );
    }
}
