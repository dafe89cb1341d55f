// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine's clocks.

use rustix::time::{ClockId, clock_gettime};

/// What a clock says, in nanoseconds.
pub fn now(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
