// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prepares a cause for output: names, source lines and instructions instead of addresses; as JSON,
//! for programs.

use std::cell::RefCell;
use std::collections::HashMap;

use iced_x86::Instruction;
use serde::Serialize;

use super::cause::{Cause, Group};
use super::code::Code;
use super::origin::{Kind, Origin};
use super::walk::{Next, Step};
use crate::kernel::disasm::{self, Disassembler};
use crate::kernel::errno;
use crate::kernel::lines::Lines;
use crate::kernel::lines::sources::Sources;
use crate::kernel::syscalls::Table;
use crate::session::ring::Interrupt;

/// A group of calls that failed alike.
#[derive(Debug, Serialize)]
pub struct Shown {
    pub syscall: Option<String>,
    /// A function that is a target.
    pub function: Option<String>,
    /// `NULL`, with number 0, if that is what a function returned.
    pub errno: String,
    pub number: i64,
    pub calls: u64,
    /// Thread, begin and end of the first call. With what interrupted the thread, if that made it.
    thread: u32,
    #[serde(flatten)]
    interrupt: Option<Interrupt>,
    began_ns: u64,
    duration_ns: u64,
    /// The chain from the system call to the function where the error comes from.
    pub chain: Vec<Link>,
    pub origin: Option<Set>,
    /// Index of the deciding branch in `branches`; null if there is none.
    pub decided: Option<usize>,
    /// An exception for which a fixup of the kernel ran.
    pub fault: Option<Spot>,
    /// All branches of the call; or, if only few are shown, those of the function that decided, up
    /// to the decision and to the error's origin.
    pub branches: Vec<Branch>,
}

/// A place in the code.
#[derive(Debug, Clone, Serialize)]
pub struct Spot {
    pub name: String,
    address: String,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// Its text.
    pub source: Option<String>,
    /// Inlined functions that it belongs to, the innermost first.
    pub inlined: Vec<String>,
}

/// A function of the chain, and the place where it went on to the next.
#[derive(Debug, Serialize)]
pub struct Link {
    pub function: String,
    /// The place of the call of the next function; null for the last.
    pub calls: Option<Spot>,
    /// Whether it is a jump.
    pub jumps: bool,
}

/// The error's origin.
#[derive(Debug, Serialize)]
pub struct Set {
    /// `constant`, `flags`, `memory`, `native`, `lost`, `fault`, `computed`, `unknown`.
    pub kind: &'static str,
    pub at: Spot,
    pub text: String,
    /// In words, if the kind does not tell all.
    pub note: Option<String>,
    #[serde(skip)]
    pub step: usize,
}

/// An executed branch, or an instruction that selects by flags.
#[derive(Debug, Serialize)]
pub struct Branch {
    pub at: Spot,
    /// The instruction that set the flags.
    pub compare: Option<String>,
    pub text: String,
    /// Whether it was taken. Null: it selects, and is no branch.
    pub taken: Option<bool>,
    /// Its function.
    pub function: String,
    /// Number of functions around it.
    pub depth: usize,
    #[serde(skip)]
    pub frame: usize,
    #[serde(skip)]
    pub step: usize,
}

/// What stands for NULL where else an error stands.
const NULL: &str = "NULL";

impl Shown {
    /// What the call returned: `-ENOENT`, `NULL`.
    pub fn result(&self) -> String {
        match self.number {
            0 => NULL.to_owned(),
            _ => format!("-{}", self.errno),
        }
    }
}

/// Sources for showing causes.
pub struct Shower<'a, 'b> {
    /// Names of system calls.
    pub table: &'a Table,
    /// The instructions.
    pub code: &'a Code<'b>,
    /// Source lines.
    pub lines: &'a Lines,
    /// Text of instructions.
    pub names: &'a mut Disassembler,
    /// Texts of source lines.
    pub sources: RefCell<Sources>,
    /// Places that have been looked up.
    pub spots: RefCell<HashMap<u64, Spot>>,
}

impl Shower<'_, '_> {
    /// The output for a group; `whole`: with all branches.
    pub fn of(&mut self, group: &Group<'_>, whole: bool) -> Shown {
        let (call, cause) = (group.call, &group.cause);
        let branches = self.branches(cause, whole);
        let decided = cause.decision.and_then(|decision| {
            branches
                .iter()
                .position(|branch| branch.step == decision.step)
        });
        Shown {
            syscall: (!self.table.is_other(call.nr)).then(|| self.table.name(call.nr)),
            function: (self.table.is_other(call.nr)).then(|| self.table.name(call.nr)),
            errno: match call.result {
                0 => NULL.to_owned(),
                result => errno::name(-result),
            },
            number: -call.result,
            calls: group.calls,
            thread: call.thread,
            interrupt: call.interrupt,
            began_ns: call.began,
            duration_ns: call.ended.saturating_sub(call.began),
            chain: self.chain(cause),
            origin: cause.origin.as_ref().map(|origin| self.set(cause, origin)),
            decided,
            fault: cause.fault.map(|step| self.spot(cause.walk.steps[step].at)),
            branches,
        }
    }

    fn spot(&self, at: u64) -> Spot {
        if let Some(known) = self.spots.borrow().get(&at) {
            return known.clone();
        }
        let spot = self.look(at);
        self.spots.borrow_mut().insert(at, spot.clone());
        spot
    }

    fn look(&self, at: u64) -> Spot {
        let symbols = self.code.symbols;
        let module = symbols.module(at);
        let mut inlined = self.lines.frames(module, at);
        inlined.pop();
        let line = self.lines.of(module, at, at + 1).into_iter().next();
        let source = line.as_ref().and_then(|line| {
            let mut sources = self.sources.borrow_mut();
            let text = sources.text(&line.file, line.line, self.lines)?;
            Some(text.to_owned())
        });
        Spot {
            source,
            name: match symbols.function(at) {
                Some(place) => place.shown(),
                None => format!("{at:#x}"),
            },
            address: format!("{at:#x}"),
            line: line.as_ref().map(|line| line.line),
            file: line.map(|line| line.file),
            inlined: inlined.into_iter().map(|frame| frame.function).collect(),
        }
    }

    fn text(&mut self, instruction: &Instruction) -> String {
        let label = disasm::direct_target(instruction).map(|to| self.names.name(to));
        self.names.text(instruction, label)
    }

    fn text_at(&mut self, at: u64) -> String {
        let instruction = self.code.at(at);
        instruction.map_or_else(|| "(bad)".into(), |instruction| self.text(&instruction))
    }

    /// The frames up to that of the decision, or of the origin if there is no decision.
    fn chain(&self, cause: &Cause) -> Vec<Link> {
        let walk = &cause.walk;
        let last = cause.origin.as_ref().map(|origin| origin.step);
        let Some(last) = last else {
            return Vec::new();
        };
        let frames = walk.chain(walk.steps[last].frame);
        let next = frames.iter().skip(1).map(|frame| Some(walk.frames[*frame]));
        let next = next.chain([None]);
        let links = frames.iter().zip(next).map(|(frame, next)| Link {
            function: self.function(walk.frames[*frame].function),
            calls: next
                .and_then(|next| next.site)
                .map(|site| self.spot(walk.steps[site].at)),
            jumps: next.is_some_and(|next| next.is_tail),
        });
        links.collect()
    }

    fn function(&self, at: u64) -> String {
        match self.code.symbols.function(self.code.function(at)) {
            Some(place) => place.function().to_owned(),
            None => format!("{at:#x}"),
        }
    }

    fn set(&mut self, cause: &Cause, origin: &Origin) -> Set {
        let at = cause.walk.steps[origin.step].at;
        let (kind, note) = match origin.kind {
            Kind::Constant => ("constant", None),
            Kind::Flags => ("flags", Some("made of flags, without a branch".into())),
            Kind::Memory => ("memory", Some("the value came from memory".into())),
            Kind::Native(Some(target)) => {
                let name = self.function(target);
                ("native", Some(format!("from {name}, which ran natively")))
            }
            Kind::Native(None) => (
                "native",
                Some("from a function that ran natively".to_owned()),
            ),
            Kind::Lost => (
                "lost",
                Some("the code after it ran natively, and returned it".to_owned()),
            ),
            Kind::Fault(Some(to)) => {
                let name = self.spot(to).name;
                (
                    "fault",
                    Some(format!("exception; the kernel's fixup set it, at {name}")),
                )
            }
            Kind::Fault(None) => (
                "fault",
                Some("exception; the kernel's fixup returned it, natively".to_owned()),
            ),
            Kind::Computed => ("computed", Some("computed here".to_owned())),
            Kind::Unknown => ("unknown", Some("nothing was seen that set it".to_owned())),
        };
        Set {
            kind,
            at: self.spot(at),
            text: self.text_at(at),
            note,
            step: origin.step,
        }
    }

    fn branches(&mut self, cause: &Cause, whole: bool) -> Vec<Branch> {
        let walk = &cause.walk;
        let decision = cause.decision.map(|decision| decision.step);
        // After the decision, other branches may have chosen the error.
        let to = decision.max(cause.origin.as_ref().map(|origin| origin.step));
        let is_wanted = |index: usize| {
            let leads = |step: usize| walk.steps[index].frame == walk.steps[step].frame;
            whole || (Some(index) <= to && decision.is_some_and(leads))
        };
        let chosen = cause
            .origin
            .as_ref()
            .map_or(&[][..], |origin| &origin.chosen);
        let mut depths: Vec<usize> = Vec::new();
        for frame in &walk.frames {
            depths.push(frame.caller.map_or(0, |caller| depths[caller] + 1));
        }
        // For each frame: the last instruction that set the flags.
        let mut flags: Vec<Option<u64>> = vec![None; walk.frames.len()];
        let mut all = Vec::new();
        for (index, step) in walk.steps.iter().enumerate() {
            let Some(instruction) = self.code.at(step.at) else {
                continue;
            };
            let direction = direction(step, chosen.contains(&index));
            if let Some(taken) = direction.filter(|_| is_wanted(index)) {
                let compare = flags[step.frame].map(|at| self.text_at(at));
                all.push(Branch {
                    at: self.spot(step.at),
                    compare,
                    text: self.text(&instruction),
                    taken,
                    function: self.function(walk.frames[step.frame].function),
                    depth: depths[step.frame],
                    frame: step.frame,
                    step: index,
                });
            }
            if super::effect::writes_flags(&instruction) {
                flags[step.frame] = Some(step.at);
            }
        }
        all
    }
}

/// For a branch, whether it was taken.
fn direction(step: &Step, chosen: bool) -> Option<Option<bool>> {
    match step.next {
        Next::Taken => Some(Some(true)),
        Next::NotTaken => Some(Some(false)),
        _ => chosen.then_some(None),
    }
}

impl Shown {
    /// The places whose source lines are wanted.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        let chain = self.chain.iter().filter_map(|link| link.calls.as_ref());
        let branches = self.branches.iter().map(|branch| &branch.at);
        let origin = self.origin.iter().map(|origin| &origin.at);
        let all = chain.chain(branches).chain(origin);
        all.filter_map(|spot| u64::from_str_radix(spot.address.trim_start_matches("0x"), 16).ok())
    }

    /// An object on a line.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("plain structures always serialize") + "\n"
    }
}
