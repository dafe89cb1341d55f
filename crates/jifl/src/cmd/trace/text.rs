// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces for people: a line for each call and each function.

use std::io::Write as _;

use super::form::{Form, Shown, View};
use crate::base::duration;
use crate::kernel::errno;

/// Calls and functions, indented by their callers.
pub struct Text;

impl Form for Text {
    fn call(&mut self, out: &mut Vec<u8>, shown: &Shown, view: &View) {
        let call = shown.call;
        let result = call
            .result
            .map_or_else(String::new, |value| format!(" = {}", errno::result(value)));
        let time = call
            .duration()
            .map_or_else(|| "did not end".into(), duration::show);
        let name = view.call_name(call);
        let time = match call.adopted {
            true => format!("(taken over inside) {time}"),
            false => time,
        };
        let by = match call.interrupt {
            Some(interrupt) => interrupt.to_string(),
            None => call.thread.to_string(),
        };
        // A write to memory never fails.
        let _ = writeln!(out, "[{by}] {name}{result}  {time}");
        for entered in &shown.functions {
            let indent = 2 * (entered.depth as usize + 1);
            let _ = write!(out, "{:indent$}{}", "", view.names.text(entered));
            if let Some(took) = entered.duration {
                let _ = write!(out, "  {}", duration::show(took));
            }
            out.push(b'\n');
        }
    }
}
