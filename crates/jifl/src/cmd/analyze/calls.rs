// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who can call whom.

use std::collections::{BTreeMap, HashSet};

use jifl_code::flow::Target;
use jifl_code::program::Program;
use serde::Serialize;

use crate::base::nearest::nearest;
use crate::kernel::pattern::Pattern;
use crate::show::table::table;
use crate::show::text;
use crate::show::text::grouped;

/// A function that was found.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Steps from the function that was asked for.
    depth: usize,
    function: String,
    /// The function one step nearer.
    by: String,
    /// Instructions that call, or jump.
    calls: u64,
    /// Calls of the function whose target is not known.
    indirect: u64,
}

/// The functions that a pattern means: places in [`Program::functions`], in order.
pub fn named(program: &Program, pattern: &Pattern) -> Vec<usize> {
    let modules = &program.image.modules;
    let all = program.functions.iter().enumerate();
    all.filter(|(_, one)| pattern.matches(&program.name(one), &modules[one.unit.module]))
        .map(|(index, _)| index)
        .collect()
}

/// That there is no such function, in a line, with names that may be meant.
pub fn unknown(program: &Program, pattern: &Pattern) -> String {
    let names: Vec<_> = program
        .functions
        .iter()
        .map(|one| program.name(one))
        .collect();
    let near = nearest(pattern.name(), names.iter().map(AsRef::as_ref));
    let near: Vec<String> = near.iter().map(|name| format!("fn:{name}")).collect();
    let hint = match near.as_slice() {
        [] => "; give one that `nm` or /proc/kallsyms shows".into(),
        near => format!("; the nearest are {}", near.join(", ")),
    };
    format!("{}: no such function in that kernel{hint}", pattern.word())
}

/// What calls functions, or what they call, directly, in so many steps; each function once.
pub fn follow(program: &Program, starts: &[usize], callers: bool, depth: usize) -> Vec<Found> {
    // From one function to another, by how many instructions.
    let mut edges: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for (index, function) in program.functions.iter().enumerate() {
        let calls = function.graph.calls.iter();
        for call in calls.filter(|call| !program.is_tracer(call.target)) {
            if let Some(callee) = program.callee(call.target) {
                let pair = if callers {
                    (callee, index)
                } else {
                    (index, callee)
                };
                *edges.entry(pair).or_insert(0) += 1;
            }
        }
    }
    let indirect = |index: usize| {
        let calls = program.functions[index].graph.calls.iter();
        let calls = calls.filter(|call| matches!(call.target, Target::Indirect(_)));
        calls.count() as u64
    };
    let name = |index: usize| program.name(&program.functions[index]).into_owned();
    let mut seen: HashSet<usize> = starts.iter().copied().collect();
    let mut now = starts.to_vec();
    let mut found = Vec::new();
    for step in 1..=depth {
        // Nothing is left to follow, however deep is asked for.
        if now.is_empty() {
            break;
        }
        let mut next = Vec::new();
        for by in now {
            for ((_, other), calls) in edges.range((by, 0)..=(by, usize::MAX)) {
                if !seen.insert(*other) {
                    continue;
                }
                next.push(*other);
                found.push(Found {
                    depth: step,
                    function: name(*other),
                    by: name(by),
                    calls: *calls,
                    indirect: indirect(*other),
                });
            }
        }
        now = next;
    }
    found
}

/// For people.
pub fn text(found: &[Found]) -> String {
    let titles = ["FUNCTION", "CALLS", "OF OR BY", "STEPS", "INDIRECT CALLS"];
    let mut lines = vec![titles.map(str::to_owned).to_vec()];
    lines.extend(found.iter().map(|one| {
        vec![
            one.function.clone(),
            grouped(one.calls),
            one.by.clone(),
            one.depth.to_string(),
            grouped(one.indirect),
        ]
    }));
    table(&lines)
}

/// One object.
pub fn json(found: &[Found], callers: bool) -> String {
    #[derive(Serialize)]
    struct Object<'a> {
        command: &'static str,
        functions: &'a [Found],
    }
    text::json(&Object {
        command: if callers { "callers" } else { "callees" },
        functions: found,
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use jifl_code::image::Image;

    /// f calls g twice; g jumps to h, which calls through rax and returns.
    pub fn program() -> Program {
        let mut bytes = vec![0x90; 0x60];
        let mut put = |at: usize, code: &[u8]| bytes[at..at + code.len()].copy_from_slice(code);
        put(0x00, &[0xe8, 0x1b, 0, 0, 0, 0xe8, 0x16, 0, 0, 0, 0xc3]);
        put(0x20, &[0xe9, 0x1b, 0, 0, 0]);
        put(0x40, &[0xff, 0xd0, 0xc3]);
        let names = [(0x1000, "f"), (0x1020, "g"), (0x1040, "h")];
        Program::of(Image::of_text(0x1000, bytes, &names))
    }

    fn shown(found: &[Found]) -> Vec<(&str, &str, usize, u64, u64)> {
        let cells = found.iter().map(|own| {
            let names = (own.function.as_str(), own.by.as_str());
            (names.0, names.1, own.depth, own.calls, own.indirect)
        });
        cells.collect()
    }

    #[test]
    fn callers_and_callees_are_followed_as_far_as_is_asked() {
        let program = program();
        let pattern = |name| Pattern::parse(&format!("fn:{name}")).unwrap();
        let starts = |name| named(&program, &pattern(name));
        let of = |name, callers, depth| follow(&program, &starts(name), callers, depth);
        assert_eq!(shown(&of("f", false, 1)), [("g", "f", 1, 2, 0)]);
        let both = [("g", "f", 1, 2, 0), ("h", "g", 2, 1, 1)];
        assert_eq!(shown(&of("f", false, 5)), both);
        // It ends where nothing more is called.
        assert_eq!(shown(&of("f", false, usize::MAX)), both);
        let back = [("g", "h", 1, 1, 0), ("f", "g", 2, 2, 0)];
        assert_eq!(shown(&of("h", true, 2)), back);
        assert!(of("f", true, 3).is_empty());
        assert!(starts("x").is_empty());
        let unknown = |name| unknown(&program, &pattern(name));
        assert!(unknown("hh").ends_with("; the nearest are fn:h"));
        assert!(unknown("x").contains("/proc/kallsyms"));
    }
}
