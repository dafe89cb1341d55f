// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl path`: by which calls one function can come to call another.
//!
//! Calls whose target the code names are all known. Of the others, those are known that a recording
//! of `jifl trace` has: which function was entered inside which. A function that is entered by a
//! jump takes the place of the one that jumps, so it looks as if the caller of that one had
//! entered it. A recording with results tells them apart: a function that jumps has none. Without
//! results, what may be either is left out ([`observed`]).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};

use clap::Args;
use jifl_code::flow::Target;
use jifl_code::graph::CallKind;
use jifl_code::program::Program;
use serde::Serialize;

use super::counted::{Places, same_kernel};
use super::input::Source;
use super::{function_name, functions_named};
use crate::base::exit::{DONE, Failure};
use crate::kernel::symbols::Symbols;
use crate::session::calls::Call;
use crate::session::recording::Recording;
use crate::show::output::{self, Format};
use crate::show::text;
use crate::show::text::grouped;

/// So many functions are looked at for the paths behind the first.
const PATIENCE: usize = 4_000_000;
/// Paths are at most so many steps longer than the shortest.
const LONGER: usize = 12;

/// Arguments of `jifl path`.
#[derive(Debug, Args)]
#[command(after_help = "\
The code names the target of a direct call. A call that does not come back, as of panic, is only
followed to the function that is looked for. Of calls through registers and memory, those are known
that a recording of `jifl trace` has: they are marked.

Without --vmlinux it is the kernel that runs, with its modules: that takes root.

Examples:
  jifl path fn:ksys_read fn:security_file_permission
  jifl path fn:vfs_read fn:schedule -n 3 --vmlinux vmlinux
  jifl path fn:ksys_read fn:shmem_file_read_iter --recording trace.jifl")]
pub struct PathArgs {
    /// fn:NAME, or fn:0xADDRESS: it comes to call the other
    from: String,
    /// fn:NAME, or fn:0xADDRESS
    to: String,
    /// Of this file, not of the kernel that runs
    #[arg(long, value_name = "FILE")]
    vmlinux: Option<PathBuf>,
    /// Follow indirect calls that are in this recording of `jifl trace`, too; one with -A tells
    /// calls from jumps
    #[arg(long, value_name = "FILE")]
    recording: Option<PathBuf>,
    /// Show so many paths, the shortest first
    #[arg(short, value_name = "N", default_value_t = 1)]
    number: usize,
    /// How it is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
}

/// How a function is reached from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// By instructions that name it: the first one, how many, and how the first does it.
    Direct(u64, u64, CallKind),
    /// It was seen so often.
    Observed(u64),
}

/// Who can call whom: for each function, the functions that it calls.
type Calls = Vec<BTreeMap<usize, How>>;

/// What was found.
#[derive(Debug, Serialize)]
struct Found {
    command: &'static str,
    from: String,
    to: String,
    /// The shortest first.
    paths: Vec<Vec<Step>>,
    /// Functions that the first can come to call.
    reached: usize,
    /// Calls in these whose target is not known.
    indirect: u64,
    /// Whether longer paths were looked for to the end of patience.
    given_up: bool,
}

/// A step of a path.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Step {
    /// The function that is reached.
    function: String,
    /// The function that reaches it.
    by: String,
    /// The place of the first instruction that does, in `by`; null where it is not known.
    at: Option<String>,
    /// Instructions that do; null where they are not known.
    calls: Option<u64>,
    /// `call`, `jump` or `indirect`.
    how: &'static str,
    /// How often an indirect call was seen.
    observed: Option<u64>,
}

/// Runs the command; the result is the exit status.
pub fn run(args: &PathArgs) -> Result<u8, Failure> {
    if args.number == 0 {
        return Err(Failure::usage("-n 0: at least one path is shown"));
    }
    let names = (function_name(&args.from)?, function_name(&args.to)?);
    let source = Source::of(args.vmlinux.as_deref());
    let program = Program::of(source.open()?);
    let from = functions_named(&program, &names.0)?;
    let to = functions_named(&program, &names.1)?;
    let mut calls = direct(&program, &to);
    if let Some(path) = &args.recording {
        observe(path, &source, &program, &mut calls)?;
    }
    let found = search(&program, &calls, (&from, &to), args.number);
    output::print(&match args.format {
        Format::Text => shown(&found, args.recording.is_some()),
        Format::Json => text::json(&found),
    })?;
    Ok(DONE)
}

/// All direct calls. One that does not come back, as of panic, is followed only to the functions
/// that are looked for: what happens behind it happens to the whole machine.
fn direct(program: &Program, to: &[usize]) -> Calls {
    let functions = program.functions.iter();
    let of = |function: &jifl_code::program::Function| {
        let mut own: BTreeMap<usize, How> = BTreeMap::new();
        let calls = function.graph.calls.iter();
        for call in calls.filter(|call| !program.is_tracer(call.target)) {
            let Some(callee) = program.callee(call.target) else {
                continue;
            };
            if call.kind == CallKind::NoReturn && !to.contains(&callee) {
                continue;
            }
            let how = own
                .entry(callee)
                .or_insert(How::Direct(call.at, 0, call.kind));
            if let How::Direct(_, number, _) = how {
                *number += 1;
            }
        }
        own
    };
    functions.map(of).collect()
}

/// Adds the indirect calls that a recording has.
fn observe(
    path: &Path,
    source: &Source,
    program: &Program,
    calls: &mut Calls,
) -> Result<(), Failure> {
    let recording = Recording::read(path)?;
    let Some(trace) = &recording.trace else {
        return Err(Failure::failed(format!(
            "{}: of `{}`, which does not keep who called whom: `jifl trace --record FILE` does",
            path.display(),
            recording.made_by()
        )));
    };
    same_kernel(path, &recording, source, program)?;
    let symbols = Symbols::parse(&recording.kallsyms());
    let places = Places::of(&recording, &symbols, program);
    let addresses = trace.functions.iter().map(|at| recording.address(*at));
    let addresses: Vec<u64> = addresses.collect();
    let functions = addresses.iter().map(|address| {
        let at = places.at(*address)?;
        Some((*address, program.entered(program.behind_padding(at))?))
    });
    let functions: HashMap<u64, usize> = functions.flatten().collect();
    for call in trace.kept.calls(&addresses) {
        for (by, function) in observed(program, calls, &functions, &call, trace.kept.valued) {
            let how = calls[by].entry(function).or_insert(How::Observed(0));
            if let How::Observed(times) = how {
                *times += 1;
            }
        }
    }
    Ok(())
}

/// Pairs of functions of which one entered the other by an indirect call or jump. `valued`: results
/// of functions are known.
fn observed(
    program: &Program,
    calls: &Calls,
    functions: &HashMap<u64, usize>,
    call: &Call,
    valued: bool,
) -> Vec<(usize, usize)> {
    let is_direct =
        |by: usize, function: usize| matches!(calls[by].get(&function), Some(How::Direct(..)));
    let has = |by: usize, jumps: bool| {
        let mut all = program.functions[by].graph.calls.iter();
        all.any(|call| {
            let is_jump = matches!(call.kind, CallKind::Tail | CallKind::Into);
            is_jump == jumps && matches!(call.target, Target::Indirect(_))
        })
    };
    let mut pairs = Vec::new();
    // By depth: the function that was entered there last, and whether it surely returned. One that
    // is not known stands for itself.
    let mut open: Vec<(Option<usize>, bool)> = Vec::new();
    for entered in &call.functions {
        let (depth, function) = (entered.depth as usize, functions.get(&entered.address));
        let before = open.get(depth).copied();
        open.truncate(depth);
        open.resize(depth, (None, false));
        let by = depth.checked_sub(1).and_then(|above| open[above].0);
        open.push((function.copied(), valued && entered.result.is_some()));
        let (Some(function), Some(by)) = (function.copied(), by) else {
            continue;
        };
        // It stands where another function stood: that one may have jumped here.
        let jumped = match before {
            None | Some((_, true)) => None,
            Some((Some(before), false)) => Some(before),
            Some((None, false)) => continue,
        };
        if is_direct(by, function) || jumped.is_some_and(|own| is_direct(own, function)) {
            continue;
        }
        match (has(by, false), jumped.filter(|own| has(*own, true))) {
            (true, None) => pairs.push((by, function)),
            (can_call, Some(own)) if valued || !can_call => pairs.push((own, function)),
            _ => {}
        }
    }
    pairs
}

/// The shortest paths from any of some functions to any of others.
fn search(
    program: &Program,
    calls: &Calls,
    (from, to): (&[usize], &[usize]),
    number: usize,
) -> Found {
    let name = |index: usize| program.name(&program.functions[index]).into_owned();
    let mut callers = vec![Vec::new(); calls.len()];
    for (by, callees) in calls.iter().enumerate() {
        callees.keys().for_each(|callee| callers[*callee].push(by));
    }
    let distance = distances(&callers, to);
    let callees: Vec<Vec<usize>> = calls
        .iter()
        .map(|own| own.keys().copied().collect())
        .collect();
    let reached: Vec<usize> = {
        let all = distances(&callees, from).into_iter().enumerate();
        all.filter_map(|(index, steps)| steps.map(|_| index))
            .collect()
    };
    let indirect = |index: &usize| {
        let calls = program.functions[*index].graph.calls.iter();
        let calls = calls.filter(|call| matches!(call.target, Target::Indirect(_)));
        calls.count() as u64
    };
    // A function that has to call itself is as far away as the nearest of those that it calls.
    let first = |start: &usize| {
        let next = callees[*start]
            .iter()
            .filter_map(|callee| distance[*callee]);
        next.min().map(|steps| steps + 1)
    };
    let shortest = from.iter().filter_map(first).min();
    let mut walk = Walk {
        callees: &callees,
        distance: &distance,
        found: Vec::new(),
        wanted: number,
        patience: PATIENCE,
    };
    if let Some(shortest) = shortest {
        for length in shortest..=shortest + LONGER {
            for start in from {
                walk.from(&mut vec![*start], length);
            }
        }
    }
    let steps = |path: &Vec<usize>| {
        let pairs = path.windows(2);
        pairs
            .map(|pair| step(program, calls, pair[0], pair[1]))
            .collect()
    };
    Found {
        command: "path",
        from: name(from[0]),
        to: name(to[0]),
        paths: walk.found.iter().map(steps).collect(),
        indirect: reached.iter().map(indirect).sum(),
        reached: reached.iter().filter(|index| !from.contains(index)).count(),
        given_up: walk.patience == 0,
    }
}

/// Steps from any of `starts` to each, along `next`.
fn distances(next: &[Vec<usize>], starts: &[usize]) -> Vec<Option<usize>> {
    let mut distance = vec![None; next.len()];
    let mut queue: VecDeque<usize> = starts.iter().copied().collect();
    starts.iter().for_each(|start| distance[*start] = Some(0));
    while let Some(now) = queue.pop_front() {
        let steps = distance[now].map(|steps| steps + 1);
        for other in &next[now] {
            if distance[*other].is_none() {
                distance[*other] = steps;
                queue.push_back(*other);
            }
        }
    }
    distance
}

/// Finds paths of one length after the other.
struct Walk<'a> {
    callees: &'a [Vec<usize>],
    /// Steps to the end.
    distance: &'a [Option<usize>],
    found: Vec<Vec<usize>>,
    wanted: usize,
    patience: usize,
}

impl Walk<'_> {
    /// Goes on along a path for so many steps. No function is twice on it.
    fn from(&mut self, path: &mut Vec<usize>, steps: usize) {
        let Some(last) = path.last().copied() else {
            return;
        };
        let callees = self.callees;
        for callee in &callees[last] {
            if self.found.len() >= self.wanted || self.patience == 0 {
                return;
            }
            self.patience -= 1;
            let is_end = self.distance[*callee] == Some(0);
            if is_end && steps == 1 {
                let mut path = path.clone();
                path.push(*callee);
                self.found.push(path);
            }
            let near = self.distance[*callee].is_some_and(|own| own < steps);
            if is_end || !near || path.contains(callee) {
                continue;
            }
            path.push(*callee);
            self.from(path, steps - 1);
            path.pop();
        }
    }
}

fn step(program: &Program, calls: &Calls, by: usize, function: usize) -> Step {
    let name = |index: usize| program.name(&program.functions[index]).into_owned();
    let own = Step {
        function: name(function),
        by: name(by),
        at: None,
        calls: None,
        how: "indirect",
        observed: None,
    };
    match calls[by].get(&function) {
        Some(How::Direct(at, number, kind)) => Step {
            at: Some(place(program, by, *at)),
            calls: Some(*number),
            how: match kind {
                CallKind::Call | CallKind::NoReturn => "call",
                CallKind::Tail | CallKind::Into => "jump",
            },
            ..own
        },
        Some(How::Observed(times)) => Step {
            observed: Some(*times),
            ..own
        },
        None => own,
    }
}

/// `+0x12`, or the address where it is in another piece of the function.
fn place(program: &Program, function: usize, at: u64) -> String {
    let unit = &program.functions[function].unit;
    match unit.pieces.first().filter(|first| first.contains(&at)) {
        Some(first) => format!("+{:#x}", at - first.start),
        None => format!(" {at:#x}"),
    }
}

/// For people.
fn shown(found: &Found, observed: bool) -> String {
    let (from, to) = (&found.from, &found.to);
    if found.paths.is_empty() {
        let other = if observed {
            "neither the code nor the recording names"
        } else {
            "the code does not name"
        };
        return format!(
            "no path from {from} to {to}: it is none of the {} functions that {from} comes to \
             call; {} calls in these lead where {other}\n",
            grouped(found.reached as u64),
            grouped(found.indirect)
        );
    }
    let width = |path: &Vec<Step>| path.iter().map(|step| step.function.len()).max();
    let width = found.paths.iter().filter_map(width).max().unwrap_or(0);
    let mut text = String::new();
    for path in &found.paths {
        text += &format!("{from}: {} steps\n", path.len());
        for step in path {
            text += &format!("  {:<width$}  {}\n", step.function, how(step));
        }
    }
    if found.given_up {
        text += "# there may be more paths: the search for them was given up\n";
    }
    text
}

fn how(step: &Step) -> String {
    let by = &step.by;
    if let Some(times) = step.observed {
        return format!("* indirectly by {by}, observed {} times", grouped(times));
    }
    let verb = if step.how == "jump" {
        "jumped to"
    } else {
        "called"
    };
    let at = step.at.as_deref().unwrap_or_default();
    let more = match step.calls {
        Some(calls) if calls > 1 => format!(", and {} more", grouped(calls - 1)),
        _ => String::new(),
    };
    format!("{verb} at {by}{at}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::analyze::calls::{named, tests::program};
    use crate::session::calls::Entered;

    fn names(found: &Found) -> Vec<Vec<&str>> {
        let steps = |path: &Vec<Step>| path.iter().map(|step| step.function.clone()).collect();
        let all: Vec<Vec<String>> = found.paths.iter().map(steps).collect();
        let all = all.into_iter();
        all.map(|path| path.into_iter().map(|name| &*name.leak()).collect())
            .collect()
    }

    fn places(program: &Program, name: &str) -> Vec<usize> {
        let pattern = function_name(&format!("fn:{name}")).unwrap();
        named(program, &pattern)
    }

    fn find(program: &Program, calls: &Calls, from: &str, to: &str, number: usize) -> Found {
        let named = (places(program, from), places(program, to));
        search(program, calls, (&named.0, &named.1), number)
    }

    #[test]
    fn a_path_is_the_calls_one_after_the_other() {
        let program = program();
        let calls = direct(&program, &[]);
        let found = find(&program, &calls, "f", "h", 3);
        assert_eq!(names(&found), [["g", "h"]]);
        assert_eq!(
            shown(&found, false),
            "f: 2 steps\n  g  called at f+0x0, and 1 more\n  h  jumped to at g+0x0\n"
        );
        let found = find(&program, &calls, "h", "f", 1);
        assert!(found.paths.is_empty());
        assert_eq!(
            shown(&found, false),
            "no path from h to f: it is none of the 0 functions that h comes to call; 1 calls in \
             these lead where the code does not name\n"
        );
    }

    #[test]
    fn indirect_calls_that_were_seen_are_followed_and_marked() {
        let program = program();
        let mut calls = direct(&program, &[]);
        let at = |name: &str| places(&program, name)[0];
        let functions: HashMap<u64, usize> = [(1, at("f")), (2, at("g")), (3, at("h"))].into();
        let entered = |(address, depth)| Entered {
            address,
            depth,
            ..Entered::default()
        };
        let call = |all: &[(u64, u32)]| Call {
            functions: all.iter().copied().map(entered).collect(),
            ..Call::default()
        };
        // f calls g, which jumps to h: h stands where g stood. h calls f.
        let seen = call(&[(1, 0), (2, 1), (3, 1), (1, 2)]);
        let pairs = observed(&program, &calls, &functions, &seen, false);
        assert_eq!(pairs, [(at("h"), at("f"))]);
        // f has no indirect call: h was not entered by it.
        let seen = call(&[(1, 0), (3, 1), (9, 2), (1, 3)]);
        assert!(observed(&program, &calls, &functions, &seen, false).is_empty());
        // In h, which calls through a register, f was entered, and h again: did f or h enter h?
        let mut seen = call(&[(3, 0), (1, 1), (3, 1)]);
        let pairs = observed(&program, &calls, &functions, &seen, true);
        assert_eq!(pairs, [(at("h"), at("f")), (at("h"), at("h"))]);
        seen.functions[1].result = Some(0);
        assert_eq!(observed(&program, &calls, &functions, &seen, true), pairs);
        calls[at("h")].insert(at("f"), How::Observed(7));
        let found = find(&program, &calls, "g", "f", 9);
        assert_eq!(names(&found), [["h", "f"]]);
        assert!(shown(&found, true).contains("* indirectly by h, observed 7 times"));
        // A function may come to call itself.
        assert_eq!(
            names(&find(&program, &calls, "h", "h", 1)),
            [["f", "g", "h"]]
        );
    }
}
