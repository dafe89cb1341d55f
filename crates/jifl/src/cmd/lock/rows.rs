// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records that are added up to one line.

use std::collections::BTreeMap;

use jifl_sys::abi::{LOCK_CMPXCHG, Lock};

use super::By;

/// Waits, the longest sum first, and retries, the most first. Members of a row that are not in `by`
/// are 0.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rows {
    pub waits: Vec<Lock>,
    pub retries: Vec<Lock>,
}

/// Adds up records that have the same type and the same values of `by`.
pub fn rows(locks: &[Lock], by: &[By]) -> Rows {
    let mut sums: BTreeMap<_, Lock> = BTreeMap::new();
    for lock in locks {
        let key = key(lock, by);
        let name = (key.kind, key.lock, key.caller, key.site);
        let sum = sums.entry(name).or_insert(key);
        sum.contended += lock.contended;
        sum.ended += lock.ended;
        sum.wait_ns += lock.wait_ns;
        sum.max_ns = sum.max_ns.max(lock.max_ns);
    }
    let (mut retries, mut waits): (Vec<Lock>, Vec<Lock>) = sums
        .into_values()
        .partition(|lock| lock.kind == LOCK_CMPXCHG);
    // A stable sort of rows that are sorted by key: equal waits are always in the same order.
    waits.sort_by_key(|lock| u64::MAX - lock.wait_ns);
    retries.sort_by_key(|lock| u64::MAX - lock.contended);
    Rows { waits, retries }
}

/// The members that tell rows apart. A slow path is known by its type.
fn key(lock: &Lock, by: &[By]) -> Lock {
    let mut key = Lock {
        kind: lock.kind,
        ..Lock::default()
    };
    if lock.kind == LOCK_CMPXCHG {
        key.site = lock.site;
    }
    if by.contains(&By::Lock) {
        (key.lock, key.percpu, key.cpu) = (lock.lock, lock.percpu, lock.cpu);
    }
    if by.contains(&By::Caller) {
        key.caller = lock.caller;
    }
    key
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A record of this type, of one wait or one retry.
    pub fn lock(kind: u32, lock: u64, caller: u64, wait_ns: u64) -> Lock {
        Lock {
            kind,
            lock,
            caller,
            contended: 1,
            ended: u64::from(kind != LOCK_CMPXCHG),
            wait_ns,
            max_ns: wait_ns,
            ..Lock::default()
        }
    }

    #[test]
    fn waits_are_added_up_by_what_is_asked_for() {
        let locks = [
            lock(3, 1, 10, 500),
            lock(3, 1, 11, 300),
            lock(3, 2, 11, 700),
            lock(0, 2, 11, 5),
        ];
        let of = |by: &[By]| {
            let rows = rows(&locks, by).waits;
            let shown =
                |lock: &Lock| (lock.kind, lock.lock, lock.caller, lock.wait_ns, lock.max_ns);
            rows.iter().map(shown).collect::<Vec<_>>()
        };
        assert_eq!(of(&[By::Lock, By::Caller]).len(), 4);
        assert_eq!(
            of(&[By::Lock]),
            [(3, 1, 0, 800, 500), (3, 2, 0, 700, 700), (0, 2, 0, 5, 5)]
        );
        assert_eq!(
            of(&[By::Caller]),
            [
                (3, 0, 11, 1000, 700),
                (3, 0, 10, 500, 500),
                (0, 0, 11, 5, 5)
            ]
        );
    }

    #[test]
    fn retries_are_apart() {
        let retry = Lock {
            site: 7,
            ..lock(LOCK_CMPXCHG, 1, 10, 0)
        };
        let rows = rows(&[retry, lock(3, 1, 10, 1), retry], &[By::Lock]);
        assert_eq!((rows.waits.len(), rows.retries.len()), (1, 1));
        assert_eq!((rows.retries[0].contended, rows.retries[0].site), (2, 7));
    }
}
