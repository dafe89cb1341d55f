// SPDX-License-Identifier: MIT OR Apache-2.0
//! The common interface of all forms of a trace: what they are given, and what they do with it.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::names::Names;
use crate::kernel::errno;
use crate::kernel::syscalls::Table;
use crate::session::calls::losses::Losses;
use crate::session::calls::{Call, Entered};

/// A form to which calls are written one after the other. It keeps none.
pub trait Form {
    /// Writes what comes before all calls.
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    /// Writes a call.
    fn call(&mut self, out: &mut Vec<u8>, shown: &Shown, view: &View);

    /// Writes what comes after the last call.
    fn end(&mut self, _out: &mut Vec<u8>, _view: &View, _losses: &Losses) {}

    /// If there was no room for all of a part: the number of bytes that can stay, of what was
    /// written of the part before it (`last`) and of itself (`part`), and an ending that makes a
    /// valid file. Behind a call the ending needs no room beyond what was written. `None`: the file
    /// needs no ending.
    fn whole(&self, _last: &[u8], _part: &[u8]) -> Option<(usize, &'static [u8])> {
        None
    }
}

/// A call, and its shown functions, in their order.
pub struct Shown<'a> {
    /// The call.
    pub call: &'a Call,
    /// Functions.
    pub functions: Vec<&'a Entered>,
}

/// Names, and what was asked for.
pub struct View<'a> {
    /// Names of system calls.
    pub table: &'a Table,
    /// Names of functions, their arguments and results.
    pub names: Names<'a>,
    /// Whether times of functions were asked for.
    pub timed: bool,
}

/// Values by name that a viewer shows beside the name of a function, or a call.
pub type Details = Map<String, Value>;

/// Name, category and values of a call or function, for viewers.
pub struct Described<'a> {
    /// `sys:openat`, `do_filp_open`
    pub name: Cow<'a, str>,
    /// `syscall`, `function`; `call` of a target that is a function
    pub category: &'static str,
    /// Its arguments and result, if known.
    pub details: Details,
}

impl<'a> View<'a> {
    /// `sys:openat`, `fn:vfs_read`
    pub fn call_name(&self, call: &Call) -> String {
        self.table.target(call.nr)
    }

    /// Describes a function, or the call itself.
    pub fn describe(&self, shown: &Shown, function: Option<usize>) -> Described<'a> {
        match function.map(|index| shown.functions[index]) {
            None => Described {
                name: self.call_name(shown.call).into(),
                category: match self.table.is_other(shown.call.nr) {
                    true => "call",
                    false => "syscall",
                },
                details: call_details(shown.call),
            },
            Some(function) => Described {
                name: self.names.name(function),
                category: "function",
                details: self.function_details(function),
            },
        }
    }

    fn function_details(&self, entered: &Entered) -> Details {
        let mut details = Details::new();
        let Some((arguments, result)) = self.names.values(entered) else {
            return details;
        };
        if let Value::Object(mut arguments) = arguments {
            for value in arguments.values_mut().filter(|value| value.is_null()) {
                *value = "...".into();
            }
            if !arguments.is_empty() {
                details.insert("arguments".into(), arguments.into());
            }
        }
        if !result.is_null() {
            details.insert("result".into(), result);
        }
        details
    }
}

/// The values of a call: its result, and whether it was taken over.
fn call_details(call: &Call) -> Details {
    let mut details = Details::new();
    if call.adopted {
        details.insert("adopted".into(), true.into());
    }
    if let Some(result) = call.result {
        details.insert("result".into(), result.into());
        if errno::is_error(result) {
            details.insert("error".into(), errno::name(-result).into());
        }
    }
    details
}
