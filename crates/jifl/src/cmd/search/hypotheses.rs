// SPDX-License-Identifier: MIT OR Apache-2.0
//! What may be the bottleneck, and from where on it is.

use std::collections::BTreeMap;

use super::tree::{Node, Unit};
use crate::base::exit::Failure;

/// A hypothesis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Id {
    /// Too much processor time in the kernel.
    Cpu,
    /// A thread of the kernel that runs all the time.
    Kthread,
    /// Interrupts and softirqs.
    Interrupts,
    /// Page faults.
    Faults,
    /// Processes that are made.
    Forks,
    /// Spinning for locks.
    Spinning,
    /// Many calls that do little.
    Calls,
    /// Calls that fail again and again.
    Retries,
    /// Asleep for locks.
    Locks,
    /// Asleep for a disk.
    Disk,
    /// Asleep until something is written.
    Sync,
    /// Asleep until a peer takes data.
    Network,
    /// Asleep in a driver's pauses.
    Delays,
    /// Asleep, and nothing is wrong with it. Not a hypothesis.
    Idle,
}

/// A hypothesis as it is told.
pub struct About {
    /// Which.
    pub id: Id,
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub text: &'static str,
    /// What is measured.
    pub unit: Unit,
    /// From where on it is true, unless the user says otherwise.
    pub threshold: f64,
}

const fn about(
    id: Id,
    name: &'static str,
    text: &'static str,
    unit: Unit,
    threshold: f64,
) -> About {
    About {
        id,
        name,
        text,
        unit,
        threshold,
    }
}

/// All of them, in the order in which they are shown.
pub const ALL: [About; 13] = [
    about(Id::Cpu, "cpu", "the kernel computes", Unit::Processors, 0.2),
    about(
        Id::Kthread,
        "kthread",
        "a thread of the kernel runs all the time",
        Unit::Processors,
        0.3,
    ),
    about(
        Id::Interrupts,
        "interrupts",
        "interrupts and softirqs take processors",
        Unit::Processors,
        0.15,
    ),
    about(
        Id::Faults,
        "faults",
        "page faults take processors",
        Unit::Processors,
        0.15,
    ),
    about(
        Id::Forks,
        "forks",
        "processes are made and ended all the time",
        Unit::Processors,
        0.15,
    ),
    about(
        Id::Spinning,
        "spinning",
        "tasks spin for a lock",
        Unit::Processors,
        0.15,
    ),
    about(
        Id::Calls,
        "calls",
        "many system calls do little each",
        Unit::Rate,
        20_000.0,
    ),
    about(
        Id::Retries,
        "retries",
        "system calls fail and are made again",
        Unit::Rate,
        5_000.0,
    ),
    about(
        Id::Locks,
        "locks",
        "tasks sleep until others give locks",
        Unit::Tasks,
        0.3,
    ),
    about(
        Id::Disk,
        "disk",
        "tasks sleep until a disk has read or written",
        Unit::Tasks,
        0.3,
    ),
    about(
        Id::Sync,
        "sync",
        "tasks sleep until their files are written",
        Unit::Tasks,
        0.3,
    ),
    about(
        Id::Network,
        "network",
        "tasks sleep until peers take or send data",
        Unit::Tasks,
        0.3,
    ),
    about(
        Id::Delays,
        "delays",
        "tasks sleep in pauses that a driver makes",
        Unit::Tasks,
        0.5,
    ),
];

/// Thresholds that are not the usual ones.
pub type Thresholds = BTreeMap<Id, f64>;

/// Reads `NAME=VALUE`.
///
/// # Errors
/// There is no such hypothesis, or it is no number above 0.
pub fn threshold(word: &str) -> Result<(Id, f64), Failure> {
    let names = || ALL.map(|one| one.name).join(", ");
    let refused = || {
        Failure::usage(format!(
            "--threshold {word}: give NAME=NUMBER, where NAME is one of {}",
            names()
        ))
    };
    let (name, value) = word.split_once('=').ok_or_else(refused)?;
    let known = ALL
        .iter()
        .find(|one| one.name == name)
        .ok_or_else(refused)?;
    let value: f64 = value.parse().map_err(|_| refused())?;
    match value.is_finite() && value > 0.0 {
        true => Ok((known.id, value)),
        false => Err(refused()),
    }
}

/// The tests at the top.
pub fn tests(thresholds: &Thresholds) -> Vec<(Id, Node)> {
    let test = |one: &About| {
        let threshold = thresholds.get(&one.id).copied().unwrap_or(one.threshold);
        (one.id, Node::new(one.name, one.text, one.unit, threshold))
    };
    ALL.iter().map(test).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read() {
        assert_eq!(threshold("locks=0.5").unwrap(), (Id::Locks, 0.5));
        for wrong in [
            "locks",
            "locks=",
            "locks=0",
            "locks=nan",
            "lock=1",
            "idle=1",
        ] {
            let message = threshold(wrong).unwrap_err().message;
            assert!(message.contains("locks, disk"), "{message}");
        }
        let tests = tests(&Thresholds::from([(Id::Cpu, 0.7)]));
        assert_eq!(tests.len(), ALL.len());
        assert_eq!(tests[0].1.threshold, 0.7);
    }
}
