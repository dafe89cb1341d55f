// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is counted, and by which keys: the words of the command line, and their valid combinations.

use std::str::FromStr;

use clap::ValueEnum;
use jifl_sys::abi::{
    FLAG_BY_COMM, FLAG_BY_CPU, FLAG_BY_LEVEL, FLAG_BY_PID, FLAG_DURATION, FLAG_RETVAL, Kind,
    LEVELS, flag_arg,
};

use crate::base::exit::Failure;
use crate::session::types::Wanted;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Instructions executed.
    Insn,
    /// Basic blocks executed.
    Block,
    /// The calls alone.
    Call,
    /// Nothing: the cost of the cache.
    None,
    /// Conditional branches executed.
    Branch,
    /// Reads of memory.
    Load,
    /// Writes of memory.
    Store,
    /// Instructions by mnemonic.
    Opcode,
    /// Calls of functions.
    Func,
    /// Calls by one of their values.
    Hist(Value),
}

/// A value of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// Its duration.
    Duration,
    /// Its return value.
    Retval,
    /// An argument.
    Arg(u32),
    /// An argument by its name: `arg.count`.
    Named(&'static str),
}

impl Value {
    /// The module's flag for this value.
    pub fn flag(self) -> u32 {
        match self {
            Value::Duration => FLAG_DURATION,
            Value::Retval => FLAG_RETVAL,
            Value::Arg(n) => flag_arg(n),
            // The module is told with each target which argument that is.
            Value::Named(_) => flag_arg(0),
        }
    }

    /// The value whose type the module has to know; `None`: a time.
    pub fn wanted(self) -> Option<Wanted<'static>> {
        match self {
            Value::Duration => None,
            Value::Retval => Some(Wanted::Result),
            Value::Arg(n) => Some(Wanted::Register(n)),
            Value::Named(name) => Some(Wanted::Named(name.trim_start_matches("arg."))),
        }
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Value::Duration => "duration",
            Value::Retval => "retval",
            Value::Arg(n) => ["ARG0", "ARG1", "ARG2", "ARG3", "ARG4", "ARG5"][n as usize],
            Value::Named(name) => name,
        }
    }
}

const KINDS: &str = "insn, block, call, none, branch, load, store, opcode, func, hist:duration, \
                     hist:retval, hist:ARG0 to hist:ARG5, hist:arg.NAME";

impl FromStr for What {
    type Err = String;

    fn from_str(word: &str) -> Result<What, String> {
        Ok(match word {
            "insn" => What::Insn,
            "block" => What::Block,
            "call" => What::Call,
            "none" => What::None,
            "branch" => What::Branch,
            "load" => What::Load,
            "store" => What::Store,
            "opcode" => What::Opcode,
            "func" => What::Func,
            "hist:duration" => What::Hist(Value::Duration),
            "hist:retval" => What::Hist(Value::Retval),
            _ if named(word).is_some() => {
                // There is one in a command.
                let name = word["hist:".len()..].to_owned();
                What::Hist(Value::Named(Box::leak(name.into_boxed_str())))
            }
            _ => What::Hist(Value::Arg(argument(word).ok_or(format!("one of {KINDS}"))?)),
        })
    }
}

/// `hist:arg.count`
fn named(word: &str) -> Option<&str> {
    let name = word.strip_prefix("hist:arg.")?;
    let valid = |one: char| one.is_ascii_alphanumeric() || one == '_';
    (!name.is_empty() && name.chars().all(valid)).then_some(name)
}

/// `hist:ARG0`
fn argument(word: &str) -> Option<u32> {
    let digit = word.strip_prefix("hist:")?.to_ascii_uppercase();
    let digit = digit.strip_prefix("ARG")?.parse().ok();
    digit.filter(|n| *n < 6)
}

impl What {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            What::Insn => "insn",
            What::Block => "block",
            What::Call => "call",
            What::None => "none",
            What::Branch => "branch",
            What::Load => "load",
            What::Store => "store",
            What::Opcode => "opcode",
            What::Func => "func",
            What::Hist(_) => "hist",
        }
    }

    /// The kind of session that counts it call by call.
    fn kind(self) -> Kind {
        match self {
            What::Insn => Kind::Insn,
            What::Block => Kind::Block,
            What::None => Kind::None,
            _ => Kind::Call,
        }
    }
}

/// Keys of counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum By {
    /// Command names
    Comm,
    /// Processes
    Pid,
    /// CPUs
    Cpu,
    /// Contexts: task, softirq, irq
    Context,
    /// Functions of the kernel
    Func,
}

impl By {
    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            By::Comm => "comm",
            By::Pid => "pid",
            By::Cpu => "cpu",
            By::Context => "context",
            By::Func => "func",
        }
    }

    fn flag(self) -> u32 {
        match self {
            By::Comm => FLAG_BY_COMM,
            By::Pid => FLAG_BY_PID,
            By::Cpu => FLAG_BY_CPU,
            By::Context => FLAG_BY_LEVEL,
            By::Func => 0,
        }
    }
}

/// In which context a target is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Context {
    /// Tasks, kernel threads too
    Task,
    /// Softirqs, in ksoftirqd too
    Softirq,
    /// Hard interrupts
    Irq,
}

impl Context {
    /// Its bit in the filter of a session.
    pub fn bit(self) -> u32 {
        let name = self.to_possible_value();
        let name = name.as_ref().map_or("", |value| value.get_name());
        let at = LEVELS.iter().position(|level| *level == name);
        1 << at.expect("each context is a level of the ABI")
    }
}

/// The way of finding counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// For each system call.
    Calls(Kind),
    /// By these properties of tasks, in this order, with these flags of the session.
    Keys(Kind, Vec<By>, u32),
    /// From the executions of each block, by function or not.
    Blocks(bool),
    /// A histogram.
    Values(Value),
}

/// The way for this combination, if it is valid.
pub fn plan(what: What, by: &[By]) -> Result<Plan, Failure> {
    let mut by = by.to_vec();
    by.sort_unstable();
    by.dedup();
    let by_func = by == [By::Func];
    if by.contains(&By::Func) && !by_func {
        return Err(Failure::usage(
            "--by func cannot be combined with others: it counts by code, they by tasks",
        ));
    }
    let no_key = by.is_empty() || by_func;
    match what {
        What::Insn | What::Block if by_func => Ok(Plan::Blocks(true)),
        What::Call if by_func => Err(Failure::usage(
            "--by func does not go with `count call`; `count func` counts calls of functions",
        )),
        What::Branch | What::Load | What::Store | What::Opcode if no_key => {
            Ok(Plan::Blocks(by_func))
        }
        What::Func if no_key => Ok(Plan::Blocks(true)),
        _ if by.is_empty() => Ok(match what {
            What::Hist(value) => Plan::Values(value),
            _ => Plan::Calls(what.kind()),
        }),
        What::Insn | What::Block | What::Call => {
            let flags = by.iter().fold(0, |flags, by| flags | by.flag());
            Ok(Plan::Keys(what.kind(), by, flags))
        }
        _ => Err(Failure::usage(format!(
            "--by {} does not go with `count {}`; --by comm, pid, cpu and context go with insn, \
             block and call, --by func with insn, block, branch, load, store and opcode",
            by[0].name(),
            what.name()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(what: &str, by: &[By]) -> Result<Plan, Failure> {
        plan(what.parse().unwrap(), by)
    }

    #[test]
    fn all_kinds_are_known_and_others_are_answered_with_these() {
        for word in KINDS.split(", ") {
            for word in word.split(" to ") {
                assert_eq!(
                    word.parse::<What>().unwrap().name(),
                    word.split(':').next().unwrap()
                );
            }
        }
        assert_eq!("hist:arg5".parse(), Ok(What::Hist(Value::Arg(5))));
        for word in [
            "",
            "insns",
            "hist",
            "hist:",
            "hist:ARG6",
            "hist:ARG",
            "ARG0",
        ] {
            assert!(
                word.parse::<What>().unwrap_err().contains("opcode"),
                "{word}"
            );
        }
    }

    #[test]
    fn keys_are_asked_for_in_one_order() {
        assert_eq!(
            planned("insn", &[By::Cpu, By::Comm, By::Cpu]).unwrap(),
            Plan::Keys(
                Kind::Insn,
                vec![By::Comm, By::Cpu],
                FLAG_BY_COMM | FLAG_BY_CPU
            )
        );
        assert_eq!(planned("call", &[]).unwrap(), Plan::Calls(Kind::Call));
        assert_eq!(planned("block", &[By::Func]).unwrap(), Plan::Blocks(true));
        assert_eq!(planned("load", &[]).unwrap(), Plan::Blocks(false));
        assert_eq!(planned("func", &[]).unwrap(), Plan::Blocks(true));
        assert_eq!(
            planned("hist:ARG2", &[]).unwrap(),
            Plan::Values(Value::Arg(2))
        );
    }

    #[test]
    fn contexts_are_levels() {
        let bits = [Context::Task, Context::Softirq, Context::Irq].map(Context::bit);
        assert_eq!(bits, [1, 2, 4]);
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for (what, by) in [
            ("insn", &[By::Func, By::Pid][..]),
            ("call", &[By::Func]),
            ("none", &[By::Pid]),
            ("none", &[By::Func]),
            ("load", &[By::Pid]),
            ("func", &[By::Cpu]),
            ("hist:retval", &[By::Comm]),
            ("hist:retval", &[By::Func]),
        ] {
            let failure = planned(what, by).unwrap_err();
            assert_eq!(failure.status, crate::base::exit::USAGE, "{what}");
            assert!(!failure.message.contains('\n'));
        }
    }
}
