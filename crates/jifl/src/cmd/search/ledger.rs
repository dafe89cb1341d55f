// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the search has cost the machine, and what it still may.
//!
//! The cost is that of the inserted code: calls that were counted, each with what a call takes as
//! it was measured on this machine at the beginning. It is compared with the time since the search
//! began, of all processors of the machine, or of one if the search is about a process. A
//! measurement ends early if it would go above what is left. If even the shortest would, the search
//! waits until there is more. So the share is below the budget at any moment.

use std::time::Duration;

/// A measurement that may not even cost that much is not worth to begin.
const LEAST_NS: u64 = 2_000_000;

/// The account.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// The share that may be spent.
    pub budget: f64,
    /// Processors of which it is a share.
    pub processors: f64,
    /// Nanoseconds of inserted code until now.
    pub spent_ns: u64,
    /// Calls that were looked at.
    pub calls: u64,
    /// Measurements that ended early.
    pub shortened: u64,
}

impl Ledger {
    /// Nothing is spent.
    pub fn new(budget: f64, processors: f64) -> Ledger {
        Ledger {
            budget,
            processors,
            spent_ns: 0,
            calls: 0,
            shortened: 0,
        }
    }

    /// What may be spent, so long after the beginning.
    pub fn left(&self, elapsed_ns: u64) -> u64 {
        let all = elapsed_ns as f64 * self.processors * self.budget;
        (all as u64).saturating_sub(self.spent_ns)
    }

    /// How long to wait before a measurement.
    pub fn wait(&self, elapsed_ns: u64) -> Duration {
        let lacking = LEAST_NS.saturating_sub(self.left(elapsed_ns));
        let share = (self.processors * self.budget).max(1e-9);
        Duration::from_nanos((lacking as f64 / share).ceil() as u64)
    }

    /// So much was spent.
    pub fn spend(&mut self, calls: u64, each_ns: u64) {
        self.calls += calls;
        self.spent_ns += calls * each_ns;
    }

    /// The share that was spent.
    pub fn share(&self, elapsed_ns: u64) -> f64 {
        self.spent_ns as f64 / (elapsed_ns.max(1) as f64 * self.processors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn what_is_left_grows_with_time() {
        let mut ledger = Ledger::new(0.02, 2.0);
        assert_eq!(ledger.left(SECOND), 40_000_000);
        assert_eq!(ledger.wait(SECOND), Duration::ZERO);
        ledger.spend(1_000, 39_500);
        assert_eq!(ledger.left(SECOND), 500_000);
        let wait = ledger.wait(SECOND);
        assert_eq!(wait, Duration::from_nanos(37_500_000));
        let later = SECOND + wait.as_nanos() as u64;
        assert_eq!(ledger.wait(later), Duration::ZERO);
        assert!(ledger.share(later) < 0.02);
    }
}
