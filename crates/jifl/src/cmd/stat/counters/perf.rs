// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events that perf counts, by the names that `perf list` has for them.

use jifl_sys::abi::{COUNTER_PERF, Counter};

use crate::base::exit::Failure;
use crate::base::nearest::nearest;

/// How counters of perf begin.
pub const PERF: &str = "perf:";

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const CACHE: u32 = 3;
const RAW: u32 = 4;

/// Names, `PERF_TYPE_*`, and `PERF_COUNT_*`.
const EVENTS: [(&str, u32, u64); 29] = [
    ("cycles", HARDWARE, 0),
    ("cpu-cycles", HARDWARE, 0),
    ("instructions", HARDWARE, 1),
    ("cache-references", HARDWARE, 2),
    ("cache-misses", HARDWARE, 3),
    ("branches", HARDWARE, 4),
    ("branch-instructions", HARDWARE, 4),
    ("branch-misses", HARDWARE, 5),
    ("bus-cycles", HARDWARE, 6),
    ("stalled-cycles-frontend", HARDWARE, 7),
    ("stalled-cycles-backend", HARDWARE, 8),
    ("ref-cycles", HARDWARE, 9),
    ("cpu-clock", SOFTWARE, 0),
    ("task-clock", SOFTWARE, 1),
    ("page-faults", SOFTWARE, 2),
    ("faults", SOFTWARE, 2),
    ("context-switches", SOFTWARE, 3),
    ("cs", SOFTWARE, 3),
    ("cpu-migrations", SOFTWARE, 4),
    ("migrations", SOFTWARE, 4),
    ("minor-faults", SOFTWARE, 5),
    ("major-faults", SOFTWARE, 6),
    ("alignment-faults", SOFTWARE, 7),
    ("emulation-faults", SOFTWARE, 8),
    ("cgroup-switches", SOFTWARE, 11),
    // Those below are made of names for a cache, and for what is done with it.
    ("L1-dcache-loads", CACHE, 0),
    ("LLC-load-misses", CACHE, 2 | MISS),
    ("dTLB-load-misses", CACHE, 3 | MISS),
    ("iTLB-load-misses", CACHE, 4 | MISS),
];

/// `PERF_COUNT_HW_CACHE_*`.
const CACHES: [&str; 7] = [
    "L1-dcache",
    "L1-icache",
    "LLC",
    "dTLB",
    "iTLB",
    "branch",
    "node",
];
/// `PERF_COUNT_HW_CACHE_OP_*`, in the plural and before `-misses`.
const OPERATIONS: [(&str, &str); 3] = [
    ("loads", "load"),
    ("stores", "store"),
    ("prefetches", "prefetch"),
];
/// `PERF_COUNT_HW_CACHE_RESULT_MISS`, in its place.
const MISS: u64 = 1 << 16;

/// Is what it counts nanoseconds?
pub fn is_time(name: &str) -> bool {
    matches!(name, "perf:cpu-clock" | "perf:task-clock")
}

/// The event behind `perf:`.
///
/// # Errors
/// There is none of that name.
pub fn counter(name: &str) -> Result<Counter, Failure> {
    let own = name.strip_prefix(PERF).unwrap_or(name);
    let (kind, config) = event(own).ok_or_else(|| {
        let known = EVENTS.iter().map(|(name, ..)| *name);
        let hint = match &nearest(own, known)[..] {
            [] => "as cycles, page-faults, LLC-load-misses".to_owned(),
            near => format!("the nearest are {}", near.join(", ")),
        };
        Failure::usage(format!(
            "{name}: give an event as `perf list` names hardware, software and cache events, or \
             perf:rNNNN in hexadecimal digits: {hint}"
        ))
    })?;
    Ok(Counter::new(COUNTER_PERF, kind, config))
}

fn event(name: &str) -> Option<(u32, u64)> {
    let raw = name.strip_prefix('r');
    if let Some(digits) = raw.filter(|all| all.bytes().all(|one| one.is_ascii_hexdigit())) {
        return Some((RAW, u64::from_str_radix(digits, 16).ok()?));
    }
    let known = EVENTS.iter().find(|(known, ..)| *known == name);
    known
        .map(|(_, kind, config)| (*kind, *config))
        .or_else(|| Some((CACHE, cache(name)?)))
}

fn cache(name: &str) -> Option<u64> {
    let (at, rest) = (0..).zip(CACHES).find_map(|(at, cache)| {
        let rest = name.strip_prefix(cache)?.strip_prefix('-')?;
        Some((at, rest))
    })?;
    let (operation, miss) = match rest.strip_suffix("-misses") {
        None => ((0..).zip(OPERATIONS).find(|(_, one)| one.0 == rest)?, 0),
        Some(rest) => ((0..).zip(OPERATIONS).find(|(_, one)| one.1 == rest)?, MISS),
    };
    let operation: u64 = operation.0;
    Some(at | operation << 8 | miss)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_numbers_of_perf() {
        let of = |name: &str| counter(name).map(|one| (one.type_, one.value));
        for (name, known) in [
            ("perf:cycles", (0, 0)),
            ("perf:cache-misses", (0, 3)),
            ("perf:page-faults", (1, 2)),
            ("perf:L1-dcache-loads", (3, 0)),
            ("perf:L1-dcache-load-misses", (3, 0x1_0000)),
            ("perf:LLC-stores", (3, 0x102)),
            ("perf:dTLB-store-misses", (3, 0x1_0103)),
            ("perf:r01c2", (4, 0x1c2)),
        ] {
            assert_eq!(of(name).unwrap(), known, "{name}");
        }
        for (at, (name, kind, config)) in EVENTS.iter().enumerate() {
            assert_eq!(of(&format!("perf:{name}")).unwrap(), (*kind, *config));
            if *kind == CACHE {
                assert_eq!(cache(name), Some(*config), "{at} {name}");
            }
        }
    }

    #[test]
    fn other_names_are_refused_with_the_nearest() {
        for wrong in [
            "perf:",
            "perf:r",
            "perf:rxyz",
            "perf:LLC",
            "perf:L1-loads-misses",
        ] {
            assert!(counter(wrong).is_err(), "{wrong}");
        }
        let refused = counter("perf:page-fault").unwrap_err().message;
        assert!(refused.contains("the nearest are page-faults"), "{refused}");
    }
}
