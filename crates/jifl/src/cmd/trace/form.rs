// SPDX-License-Identifier: MIT OR Apache-2.0
//! The common interface of all forms of a trace: what they are given, and what they do with it.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::names::Names;
use crate::kernel::errno;
use crate::kernel::syscalls::Table;
use crate::session::calls::losses::Losses;
use crate::session::calls::{Call, Entered};

/// A form that calls are written in, one after the other: none is kept.
pub trait Form {
    /// What stands before all calls.
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    /// A call.
    fn call(&mut self, out: &mut Vec<u8>, shown: &Shown, view: &View);

    /// What stands behind the last.
    fn end(&mut self, _out: &mut Vec<u8>, _view: &View, _losses: &Losses) {}

    /// How much of what was written last can stay where there was no room for more, and what makes a
    /// whole of it. `None`: that is as good as it is.
    fn whole(&self, _part: &[u8]) -> Option<(usize, &'static [u8])> {
        None
    }
}

/// A call, and those of its functions that are shown, in their order.
pub struct Shown<'a> {
    /// The call.
    pub call: &'a Call,
    /// Functions.
    pub functions: Vec<&'a Entered>,
}

/// How things are called, and what was asked for.
pub struct View<'a> {
    /// Names of system calls.
    pub table: &'a Table,
    /// Those of functions, and what they get and return.
    pub names: Names<'a>,
    /// Were functions' times?
    pub timed: bool,
}

/// By name: what a viewer shows beside the name of a function, or a call.
pub type Details = Map<String, Value>;

/// What viewers show of a call, or a function.
pub struct Described<'a> {
    /// `sys:openat`, `do_filp_open`
    pub name: Cow<'a, str>,
    /// `syscall`, `function`
    pub category: &'static str,
    /// What it got and returned, as far as that is known.
    pub details: Details,
}

impl<'a> View<'a> {
    /// `sys:openat`
    pub fn call_name(&self, call: &Call) -> String {
        format!("sys:{}", self.table.name(call.nr))
    }

    /// A function, or the call itself.
    pub fn describe(&self, shown: &Shown, function: Option<usize>) -> Described<'a> {
        match function.map(|index| shown.functions[index]) {
            None => Described {
                name: self.call_name(shown.call).into(),
                category: "syscall",
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

/// What a call returned.
fn call_details(call: &Call) -> Details {
    let mut details = Details::new();
    if let Some(result) = call.result {
        details.insert("result".into(), result.into());
        if errno::is_error(result) {
            details.insert("error".into(), errno::name(-result).into());
        }
    }
    details
}
