// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace that is kept: what a recording has of it, from which each form can be written later.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::choice::{Choice, Format};
use super::form::View;
use super::names::Names;
use super::out::Out;
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::kernel::prototypes::Prototypes;
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::kernel::values::Prototype;
use crate::session::calls::losses::Losses;
use crate::session::calls::threads::{Thread, Threads};
use crate::session::calls::{Call, Entered};
use crate::show::output::{self, Sink};

/// All calls, and what is known of them beside names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Are functions' times known?
    pub timed: bool,
    /// What they get and return?
    pub valued: bool,
    /// When the session was over.
    pub moment: Moment,
    /// What there is, and what there is not.
    pub losses: Losses,
    threads: BTreeMap<u32, Thread>,
    /// Those that were entered, by their numbers: what they get and return, where that is known.
    prototypes: Vec<Option<Prototype>>,
    calls: Vec<KeptCall>,
}

/// As [`Call`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KeptCall {
    thread: u32,
    nr: u32,
    began: u64,
    ended: Option<u64>,
    result: Option<i64>,
    functions: Vec<Step>,
}

/// As [`Entered`]: the function's number, its depth, when it began (since the call did), how long it
/// took, what it got and returned. Nameless, since there are millions.
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
    /// A call.
    pub fn add(&mut self, call: &Call) {
        self.threads.find(call.thread, call.began);
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

    /// All of them, and the addresses of the functions, by their numbers.
    pub fn keep(self, view: &View, moment: Moment, losses: Losses) -> (Kept, Vec<u64>) {
        let prototype = |address: &u64| Some((*view.names.prototype_at(*address)?).clone());
        let kept = Kept {
            timed: view.timed,
            valued: view.names.have_values(),
            moment,
            losses,
            threads: self.threads.into_known(),
            prototypes: self.functions.iter().map(prototype).collect(),
            calls: self.calls,
        };
        (kept, self.functions)
    }
}

impl Kept {
    /// How many functions were entered.
    pub fn functions(&self) -> u64 {
        let calls = self.calls.iter();
        calls.map(|call| call.functions.len() as u64).sum()
    }

    /// Does each function that was entered have a number, of so many?
    pub fn fits(&self, functions: usize) -> bool {
        let mut steps = self.calls.iter().flat_map(|call| &call.functions);
        self.prototypes.len() == functions && steps.all(|step| (step.0 as usize) < functions)
    }

    /// Names of arguments.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let known = self.prototypes.iter().flatten();
        let parameters = known.flat_map(|prototype| &prototype.parameters);
        parameters.map(|parameter| parameter.name.as_str())
    }

    /// Writes what is chosen of it. `functions`: their addresses, by their numbers.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(
        &self,
        symbols: &Symbols,
        functions: &[u64],
        choice: &Choice,
        (format, sink): (Format, Sink),
    ) -> Result<(), Failure> {
        let known = functions.iter().zip(&self.prototypes);
        let known = known.filter_map(|(address, prototype)| {
            Some((symbols.name(*address).into_owned(), prototype.clone()?))
        });
        let prototypes = self.valued.then(|| Prototypes::known(known));
        let view = View {
            table: &Table::all(),
            names: Names::new(symbols, prototypes.as_ref()),
            timed: self.timed,
        };
        let threads = Threads::recorded(self.threads.clone());
        let mut out = Out::open(format.form(self.timed, self.moment, threads), sink)?;
        for kept in &self.calls {
            let call = kept.call(functions);
            if let Some(shown) = choice.shown(&call) {
                out.call(&shown, &view)?;
            }
        }
        out.close(&view, &self.losses)?;
        output::note(&self.losses.text());
        Ok(())
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
            nr: self.nr,
            began: self.began,
            ended: self.ended,
            result: self.result,
            functions: self.functions.iter().map(entered).collect(),
        }
    }
}
