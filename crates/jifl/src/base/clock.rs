// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine's clocks.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// What a clock says, in nanoseconds.
pub fn now(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What the clocks say at one moment, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// CLOCK_MONOTONIC
    pub monotonic: u64,
    /// CLOCK_BOOTTIME
    pub boottime: u64,
    /// CLOCK_REALTIME
    pub realtime: u64,
}

impl Moment {
    /// This one.
    pub fn now() -> Moment {
        Moment {
            monotonic: now(ClockId::Monotonic),
            boottime: now(ClockId::Boottime),
            realtime: now(ClockId::Realtime),
        }
    }
}
