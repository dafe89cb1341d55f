// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces for programs: an object on a line for each call.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::form::{Form, Shown, View};
use crate::session::calls::Entered;
use crate::session::ring::Interrupt;

/// Lines of JSON.
pub struct Ndjson;

impl Form for Ndjson {
    fn call(&mut self, out: &mut Vec<u8>, shown: &Shown, view: &View) {
        let call = shown.call;
        let functions = shown.functions.iter();
        let of_function = view.table.is_other(call.nr);
        let object = Object {
            thread: call.thread,
            interrupt: call.interrupt,
            adopted: call.adopted,
            syscall: (!of_function).then(|| view.table.name(call.nr)),
            function: of_function.then(|| view.table.name(call.nr)),
            began_ns: call.began,
            duration_ns: call.duration(),
            result: call.result,
            functions: functions
                .map(|entered| Function::of(entered, view))
                .collect(),
        };
        serde_json::to_writer(&mut *out, &object).expect("plain structures always serialize");
        out.push(b'\n');
    }

    /// Length of the output up to the last end of a line.
    fn whole(&self, last: &[u8], part: &[u8]) -> Option<(usize, &'static [u8])> {
        let lines = part.iter().rposition(|byte| *byte == b'\n');
        Some((last.len() + lines.map_or(0, |end| end + 1), b""))
    }
}

/// A line of ndjson.
#[derive(Serialize)]
struct Object<'a> {
    thread: u32,
    #[serde(flatten)]
    interrupt: Option<Interrupt>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    adopted: bool,
    syscall: Option<String>,
    function: Option<String>,
    began_ns: u64,
    duration_ns: Option<u64>,
    result: Option<i64>,
    functions: Vec<Function<'a>>,
}

/// A function of a call. Unknown values are null; values that were not asked for are left out.
#[derive(Serialize)]
struct Function<'a> {
    depth: u32,
    name: Cow<'a, str>,
    #[serde(flatten)]
    values: Option<Values>,
    #[serde(flatten)]
    times: Option<Times>,
}

/// Its arguments, by name, and its result.
#[derive(Serialize)]
struct Values {
    arguments: Value,
    result: Value,
}

/// Time of its entry, and its duration.
#[derive(Serialize)]
struct Times {
    began_ns: Option<u64>,
    duration_ns: Option<u64>,
}

impl<'a> Function<'a> {
    fn of(entered: &Entered, view: &View<'a>) -> Function<'a> {
        Function {
            depth: entered.depth,
            name: view.names.name(entered),
            values: view
                .names
                .values(entered)
                .map(|(arguments, result)| Values { arguments, result }),
            times: view.timed.then_some(Times {
                began_ns: entered.began,
                duration_ns: entered.duration,
            }),
        }
    }
}
