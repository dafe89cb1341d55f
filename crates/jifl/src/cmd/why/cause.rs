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
    /// All that it did.
    pub walk: Walk,
    /// Where its error comes from; `None`: nothing is known of the call.
    pub origin: Option<Origin>,
    /// What decided that; `None` where it was decided natively, or always.
    pub decision: Option<Decision>,
    /// The last exception of which the kernel's fixup went on; a step.
    pub fault: Option<usize>,
}

/// Calls that failed alike.
#[derive(Debug)]
pub struct Group<'a> {
    /// The first of them.
    pub call: &'a Failed,
    /// Why.
    pub cause: Cause,
    /// How many there are.
    pub calls: u64,
}

/// Why a call failed.
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
        .and_then(|origin| decide::decision(&walk, origin, code));
    let fault = walk.steps.iter().rposition(|step| step.next == Next::Fault);
    Cause {
        walk,
        origin,
        decision,
        fault,
    }
}

/// What makes calls alike.
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

/// Finds why each failed: alike ones together, in the order of the first, or, with `each`, one by one.
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

/// Of what a call did, wherever its stack lay.
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
