// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace in a recording, from which each form can be written later.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::base::clock::Moment;
use crate::kernel::values::Prototype;
use crate::session::calls::losses::Losses;
use crate::session::calls::threads::{Thread, Threads};
use crate::session::calls::{Call, Entered};
use crate::session::ring::Interrupt;

/// A function has fewer functions around it: each has a return address on a stack of the kernel,
/// whose stacks have 64 KiB at most.
const DEEPEST: u32 = 8192;

/// All calls, and what is known of them, without names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Whether times of functions are known.
    pub timed: bool,
    /// Whether arguments and results are known.
    pub valued: bool,
    /// The clocks at the session's end.
    pub moment: Moment,
    /// Numbers of calls, records and losses.
    pub losses: Losses,
    threads: BTreeMap<u32, Thread>,
    /// For each entered function, by its number: its prototype, if it is known.
    prototypes: Vec<Option<Prototype>>,
    calls: Vec<KeptCall>,
    /// Names of targets that are functions, by their numbers. An earlier jifl had none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    targets: BTreeMap<u32, String>,
}

/// A call; see [`Call`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KeptCall {
    thread: u32,
    /// An earlier jifl kept calls of threads only, and none that it had taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    interrupt: Option<Interrupt>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    adopted: bool,
    nr: u32,
    began: u64,
    ended: Option<u64>,
    result: Option<i64>,
    functions: Vec<Step>,
}

/// A function; see [`Entered`]. The function's number, its depth, its time after the call's
/// beginning, its duration, its arguments and its result. The members have no names in JSON,
/// because there are millions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Step(
    u32,
    u32,
    Option<u64>,
    Option<u64>,
    Option<[u64; 6]>,
    Option<u64>,
);

/// Keeps calls one after the other.
#[derive(Default)]
pub struct Keeper {
    calls: Vec<KeptCall>,
    functions: Vec<u64>,
    numbers: HashMap<u64, u32>,
    threads: Threads,
}

impl Keeper {
    /// Keeps a call.
    pub fn add(&mut self, call: &Call) {
        if call.interrupt.is_none() {
            self.threads.find(call.thread, call.began);
        }
        let functions = call.functions.iter();
        let functions = functions.map(|entered| {
            let began = entered.began.map(|time| time.saturating_sub(call.began));
            Step(
                self.number(entered.address),
                entered.depth,
                began,
                entered.duration,
                entered.arguments,
                entered.result,
            )
        });
        let functions = functions.collect();
        self.calls.push(KeptCall {
            thread: call.thread,
            interrupt: call.interrupt,
            adopted: call.adopted,
            nr: call.nr,
            began: call.began,
            ended: call.ended,
            result: call.result,
            functions,
        });
    }

    fn number(&mut self, address: u64) -> u32 {
        *self.numbers.entry(address).or_insert_with(|| {
            self.functions.push(address);
            self.functions.len() as u32 - 1
        })
    }

    /// All kept calls, and the addresses of the functions, by their numbers. `prototype`: the
    /// prototype of the function at an address; `None` if it was not asked for. `targets`: the
    /// names of targets that are functions, by their numbers.
    pub fn keep(
        self,
        targets: BTreeMap<u32, String>,
        timed: bool,
        prototype: Option<&dyn Fn(u64) -> Option<Prototype>>,
        moment: Moment,
        losses: Losses,
    ) -> (Kept, Vec<u64>) {
        let of = |address: &u64| prototype?(*address);
        let kept = Kept {
            timed,
            valued: prototype.is_some(),
            moment,
            losses,
            threads: self.threads.into_known(),
            prototypes: self.functions.iter().map(of).collect(),
            calls: self.calls,
            targets,
        };
        (kept, self.functions)
    }
}

impl Kept {
    /// Number of function entries.
    pub fn functions(&self) -> u64 {
        let calls = self.calls.iter();
        calls.map(|call| call.functions.len() as u64).sum()
    }

    /// True if each entered function has a number below `functions`.
    pub fn fits(&self, functions: usize) -> bool {
        let mut steps = self.calls.iter().flat_map(|call| &call.functions);
        self.prototypes.len() == functions && steps.all(|step| (step.0 as usize) < functions)
    }

    /// True if each function is as deep as a stack allows. What is shown takes room by depth.
    pub fn is_shallow(&self) -> bool {
        let mut steps = self.calls.iter().flat_map(|call| &call.functions);
        steps.all(|step| step.1 < DEEPEST)
    }

    /// Names of arguments.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let known = self.prototypes.iter().flatten();
        let parameters = known.flat_map(|prototype| &prototype.parameters);
        parameters.map(|parameter| parameter.name.as_str())
    }

    /// Prototypes of functions, by their numbers, if known.
    pub fn prototypes(&self) -> &[Option<Prototype>] {
        &self.prototypes
    }

    /// The names of targets that are functions, by their numbers.
    pub fn targets(&self) -> &BTreeMap<u32, String> {
        &self.targets
    }

    /// The threads, by their numbers.
    pub fn threads(&self) -> &BTreeMap<u32, Thread> {
        &self.threads
    }

    /// All calls, in their order. `functions`: their addresses, by their numbers.
    pub fn calls(&self, functions: &[u64]) -> impl Iterator<Item = Call> {
        self.calls.iter().map(|kept| kept.call(functions))
    }
}

impl KeptCall {
    fn call(&self, functions: &[u64]) -> Call {
        let entered = |step: &Step| Entered {
            address: functions[step.0 as usize],
            depth: step.1,
            began: step.2.map(|since| self.began.saturating_add(since)),
            duration: step.3,
            arguments: step.4,
            result: step.5,
        };
        Call {
            thread: self.thread,
            interrupt: self.interrupt,
            adopted: self.adopted,
            nr: self.nr,
            began: self.began,
            ended: self.ended,
            result: self.result,
            functions: self.functions.iter().map(entered).collect(),
        }
    }
}
