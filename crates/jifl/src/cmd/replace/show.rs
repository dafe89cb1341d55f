// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `jifl replace` says.

use jifl_sys::abi::{Replacement, from_name};
use serde_json::{Value, json};

use crate::kernel::functions::{Function, Functions};
use crate::session::report;
use crate::show::output::{self, Format};
use crate::show::table::table;
use crate::show::text::grouped;

/// A replacement that has ended.
pub struct Report<'a> {
    /// The replaced function.
    pub target: &'a Function,
    /// The other one.
    pub replacing: &'a Function,
    /// Its session's.
    pub report: &'a report::Report,
    /// When it began.
    pub begun: Option<Replacement>,
    /// Now, if threads are inside.
    pub left: Option<Replacement>,
}

impl Report<'_> {
    fn calls(&self) -> u64 {
        self.report.rows.iter().map(|row| row.calls).sum()
    }

    /// What it was, for people or for programs.
    pub fn text(&self, format: Format) -> String {
        let missed = self.report.rows.iter().flat_map(|row| &row.missed_by);
        match format {
            Format::Text => {
                let calls = self.calls();
                let missed: Vec<String> = missed
                    .map(|(why, count)| format!("{} {why}", grouped(*count)))
                    .collect();
                let missed = match missed.as_slice() {
                    [] => "missed 0".to_owned(),
                    some => format!("missed {}", some.join(", ")),
                };
                format!(
                    "{}: {} {} went to {}; {missed}\n",
                    self.target.shown(),
                    grouped(calls),
                    if calls == 1 { "call" } else { "calls" },
                    self.replacing.shown()
                )
            }
            Format::Json => {
                let missed: serde_json::Map<String, Value> = missed
                    .map(|(why, count)| (why.clone(), json!(count)))
                    .collect();
                let object = json!({
                    "command": "replace",
                    "function": self.target.shown(),
                    "with": self.replacing.shown(),
                    "calls": self.calls(),
                    "missed": self.report.missed(),
                    "missed_by": missed,
                    "inside_at_start": self.begun.as_ref().map_or(0, |one| one.inside),
                    "inside_at_end": self.left.as_ref().map_or(0, |one| one.inside),
                });
                format!("{object}\n")
            }
        }
    }
}

/// `12 (cat), 34 (sh) and 3 more`
fn threads(one: &Replacement) -> String {
    let known = one.threads.iter().take(one.inside as usize);
    let names: Vec<String> = known
        .map(|thread| format!("{} ({})", thread.pid, from_name(&thread.comm)))
        .collect();
    let more = (one.inside as usize).saturating_sub(names.len());
    match more {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// Says who finishes in the original.
pub fn note_inside(one: &Replacement) {
    if one.inside > 0 {
        output::note(&format!(
            "inside at the start, and finishing in the original: {}",
            threads(one)
        ));
    }
}

/// Says who finishes in the replacement; `module`: to be removed by whoever started the command.
pub fn note_left(one: &Replacement, module: Option<&str>) {
    output::note(&left(one, module));
}

fn left(one: &Replacement, module: Option<&str>) -> String {
    let way_on = match module {
        Some(module) => format!("; then `rmmod {module}` removes it"),
        None => String::new(),
    };
    match one.inside {
        0 => format!("the replacement's module is about to be given back{way_on}"),
        _ => format!(
            "finishing in the replacement, whose module stays until then: {}{way_on}",
            threads(one)
        ),
    }
}

/// All replacements.
pub fn list(all: &[Replacement], functions: &Functions, format: Format) -> String {
    let name = |address| match functions.at(address) {
        Some(function) => function.shown(),
        None => format!("{address:#x}"),
    };
    match format {
        Format::Json => {
            let one = |one: &Replacement| {
                let known = one.threads.iter().take(one.inside as usize);
                let known: Vec<Value> = known
                    .map(|thread| json!({"pid": thread.pid, "comm": from_name(&thread.comm)}))
                    .collect();
                json!({
                    "function": name(one.address),
                    "with": name(one.with),
                    "session": one.session,
                    "ended": one.ended != 0,
                    "inside": one.inside,
                    "unread": one.unread,
                    "threads": known,
                })
            };
            let all: Vec<Value> = all.iter().map(one).collect();
            format!("{}\n", json!({"command": "replace", "replacements": all}))
        }
        Format::Text if all.is_empty() => "no function is replaced\n".into(),
        Format::Text => {
            let heading = ["FUNCTION", "WITH", "SESSION", "STATE", "INSIDE"];
            let mut lines = vec![heading.map(str::to_owned).to_vec()];
            lines.extend(all.iter().map(|one| {
                let (state, of) = match one.ended {
                    0 => ("runs", "original"),
                    _ => ("ended", "replacement"),
                };
                let inside = match one.inside {
                    0 => "-".into(),
                    _ => format!("{of}: {}", threads(one)),
                };
                vec![
                    name(one.address),
                    name(one.with),
                    one.session.to_string(),
                    state.into(),
                    inside,
                ]
            }));
            table(&lines)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jifl_sys::abi::to_name;

    #[test]
    fn threads_are_named_and_the_rest_is_counted() {
        let mut one = Replacement {
            inside: 10,
            ..Replacement::default()
        };
        for (n, thread) in one.threads.iter_mut().enumerate() {
            thread.pid = n as i32 + 1;
            thread.comm = to_name(b"cat").unwrap();
        }
        assert!(threads(&one).starts_with("1 (cat), 2 (cat)"));
        assert!(threads(&one).ends_with("8 (cat) and 2 more"));
        one.inside = 1;
        assert_eq!(threads(&one), "1 (cat)");
        assert!(left(&one, Some("fix")).ends_with("then: 1 (cat); then `rmmod fix` removes it"));
        one.inside = 0;
        assert!(!left(&one, None).contains("finishing"));
        one.inside = 1;
        let all = list(&[one], &Functions::default(), Format::Text);
        assert!(all.contains("original: 1 (cat)"), "{all}");
        let none = list(&[], &Functions::default(), Format::Text);
        assert_eq!(none, "no function is replaced\n");
    }
}
