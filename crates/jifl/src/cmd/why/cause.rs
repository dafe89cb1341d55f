// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a call failed: puts together the way to the place where its error comes from, and the branch
//! that decided. Also groups calls that failed alike.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use super::code::Code;
use super::decide::{self, Decision};
use super::origin::{self, Kind, Origin};
use super::trail::{Failed, Mark};
use super::walk::{self, Next, Walk};

/// Why one call failed.
#[derive(Debug)]
pub struct Cause {
    /// All executed steps.
    pub walk: Walk,
    /// The error's origin; `None`: nothing is known of the call.
    pub origin: Option<Origin>,
    /// The decision; `None` if it was made natively, or the function always fails.
    pub decision: Option<Decision>,
    /// The step of the last exception for which a fixup of the kernel ran.
    pub fault: Option<usize>,
}

/// Calls that failed alike.
#[derive(Debug)]
pub struct Group<'a> {
    /// The first of these calls.
    pub call: &'a Failed,
    /// Their cause.
    pub cause: Cause,
    /// Their number.
    pub calls: u64,
}

/// Finds the cause of a failed call.
pub fn of(call: &Failed, code: &Code<'_>) -> Cause {
    let walk = walk::walk(&call.marks, code);
    let origin = origin::origin(&walk, call.result, code);
    let decides = |origin: &&Origin| {
        !matches!(
            origin.kind,
            Kind::Native(_) | Kind::Lost | Kind::Fault(_) | Kind::Unknown
        )
    };
    let decision = origin
        .as_ref()
        .filter(decides)
        .and_then(|origin| decide::decision(&walk, origin, call.result, code));
    let fault = walk.steps.iter().rposition(|step| step.next == Next::Fault);
    Cause {
        walk,
        origin,
        decision,
        fault,
    }
}

/// The identity of calls that failed alike.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    nr: u32,
    result: i64,
    set: Option<u64>,
    decided: Option<u64>,
}

impl Key {
    fn of(call: &Failed, cause: &Cause) -> Key {
        let at = |step: usize| cause.walk.steps[step].at;
        Key {
            nr: call.nr,
            result: call.result,
            set: cause.origin.as_ref().map(|origin| at(origin.step)),
            decided: cause.decision.map(|decision| at(decision.step)),
        }
    }
}

/// Finds the cause of each failed call. Calls that failed alike are one group, in the order of
/// their first; with `each`, every call is a group.
pub fn groups<'a>(calls: &'a [Failed], each: bool, code: &Code<'_>) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut by_key: HashMap<Key, usize> = HashMap::new();
    let mut by_path: HashMap<u64, usize> = HashMap::new();
    for call in calls {
        let path = hash(call);
        if !each && let Some(known) = by_path.get(&path) {
            groups[*known].calls += 1;
            continue;
        }
        let cause = of(call, code);
        let key = Key::of(call, &cause);
        let index = match by_key.get(&key) {
            Some(known) if !each => {
                groups[*known].calls += 1;
                *known
            }
            _ => {
                groups.push(Group {
                    call,
                    cause,
                    calls: 1,
                });
                by_key.insert(key, groups.len() - 1);
                groups.len() - 1
            }
        };
        by_path.insert(path, index);
    }
    groups
}

/// The identity of a call's marks, independent of the address of its stack.
fn hash(call: &Failed) -> u64 {
    let mut hasher = DefaultHasher::new();
    (call.nr, call.result).hash(&mut hasher);
    let base = call.marks.iter().find_map(|mark| match mark {
        Mark::Block(_, stack) => Some(*stack),
        Mark::Fault(_) => None,
    });
    for mark in &call.marks {
        match *mark {
            Mark::Block(address, stack) => {
                (address, stack.wrapping_sub(base.unwrap_or(0))).hash(&mut hasher);
            }
            Mark::Fault(address) => address.hash(&mut hasher),
        }
    }
    hasher.finish()
}
