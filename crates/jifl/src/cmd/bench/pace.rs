// SPDX-License-Identifier: MIT OR Apache-2.0
//! The length of the micro set: the cost of a round decides the number of rounds, and the time to
//! switch a peer on decides the turns. Also the lines that report progress.

use std::time::{Duration, Instant};

use super::clock::Clock;
use super::instruments::What;
use super::micro::Plan;
use crate::show::output;

/// Minimum of an operation's rounds.
pub const LEAST_ROUNDS: u64 = 10;
/// Minimum of rounds that are expensive, if their number was not asked for.
const LEAST_OF_DEAR: u64 = 40;

/// Time of an operation for which a peer goes on to take turns.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The number of rounds of an operation under an instrumentation.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    clock: Clock,
    /// Rounds of an operation whose share is 100.
    rounds: u64,
    /// Cost of all rounds together, by the clock.
    cost: f64,
}

impl Pace {
    /// This number of rounds, whatever they cost.
    pub fn fixed(clock: Clock, rounds: u64) -> Pace {
        Pace {
            clock,
            rounds,
            cost: f64::INFINITY,
        }
    }

    /// The pace that suits the clock: instructions are exact; time is not, and needs many rounds.
    pub fn of(clock: Clock) -> Pace {
        let (rounds, cost) = match clock {
            Clock::Instructions => (200, 2e7),
            Clock::Time => (1000, 3e8),
            Clock::FrontEnd => (100, 5e6),
        };
        Pace {
            clock,
            rounds,
            cost,
        }
    }

    /// The clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Rounds of an operation with this share, of which one round has this cost.
    pub fn rounds(&self, share: u64, cost: f64) -> u64 {
        let all = (self.rounds * share / 100).max(LEAST_ROUNDS);
        let affordable = (self.cost / cost.max(1.0)) as u64;
        all.min(affordable.max(LEAST_OF_DEAR))
    }
}

/// Time that the turns of each row have taken. A peer with long turns takes fewer of them. Quick
/// peers, and JIFL's rows, take all.
pub struct Budget<'a> {
    plan: &'a Plan,
    spent: Vec<Duration>,
}

impl Budget<'_> {
    /// Nothing is spent yet.
    pub fn new(plan: &Plan) -> Budget<'_> {
        Budget {
            plan,
            spent: vec![Duration::ZERO; plan.rows.len()],
        }
    }

    /// True if a row takes this turn: if it is its first, or if there is time left for a turn like
    /// those before.
    pub fn has(&self, row: usize, turn: u64) -> bool {
        let is_peer = matches!(self.plan.rows[row].what, What::Peer(..));
        let Some(patience) = self.plan.patience.filter(|_| is_peer && turn > 0) else {
            return true;
        };
        let spent = self.spent[row];
        spent + spent / turn as u32 <= patience
    }

    /// Records the time of a turn.
    pub fn spent(&mut self, row: usize, time: Duration) {
        self.spent[row] += time;
    }
}

/// Reports progress: each operation, and now and then the row.
pub struct Reporter {
    title: String,
    op: String,
    every: Duration,
    last: Instant,
}

impl Reporter {
    /// If the clock counts instructions, it is some thirty times slower than the user's clock.
    pub fn new(title: String, clock: Clock) -> Reporter {
        Reporter {
            title,
            op: String::new(),
            every: match clock {
                Clock::Instructions | Clock::FrontEnd => Duration::from_secs(2),
                Clock::Time => Duration::from_secs(10),
            },
            last: Instant::now(),
        }
    }

    /// An operation begins.
    pub fn op(&mut self, name: &str, index: usize, of: usize) {
        self.op = format!("{name} ({} of {of})", index + 1);
        self.say("");
    }

    /// A turn of a row begins.
    pub fn row(&mut self, key: &str, turn: u64, of: u64) {
        if self.last.elapsed() < self.every {
            return;
        }
        let turn = match of {
            1 => String::new(),
            _ => format!(", turn {} of {of}", turn + 1),
        };
        self.say(&format!(", row {key}{turn}"));
    }

    fn say(&mut self, where_in_it: &str) {
        output::note(&format!(
            "jifl bench: {}: {}{where_in_it}",
            self.title, self.op
        ));
        self.last = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock::Stopwatch;
    use super::super::instruments::INSTRUMENTS;
    use super::*;

    #[test]
    fn rounds_are_fewer_where_they_are_dear() {
        let pace = Pace::of(Clock::Instructions);
        for (share, cost, rounds) in [
            (100, 360.0, 200),
            (400, 20_000.0, 800),
            (100, 500_000.0, LEAST_OF_DEAR),
            (10, 40_000_000.0, 20),
            (1, 0.0, LEAST_ROUNDS),
        ] {
            assert_eq!(pace.rounds(share, cost), rounds, "{share} {cost}");
        }
        assert_eq!(Pace::fixed(Clock::Time, 60).rounds(100, 1e9), 60);
    }

    #[test]
    fn peers_that_take_long_take_fewer_turns() {
        let rows = ["native", "block", "int3-block"];
        let named = |key: &&str| *INSTRUMENTS.iter().find(|row| row.key == *key).unwrap();
        let plan = Plan {
            title: String::new(),
            ops: Vec::new(),
            rows: rows.iter().map(named).collect(),
            stopwatch: Stopwatch::new(Clock::Instructions),
            pace: Pace::of(Clock::Time),
            repeats: 5,
            patience: Some(Duration::from_secs(10)),
        };
        let mut budget = Budget::new(&plan);
        assert!((0..3).all(|row| budget.has(row, 0)));
        (0..3).for_each(|row| budget.spent(row, Duration::from_secs(4)));
        assert!((0..3).all(|row| budget.has(row, 1)));
        (0..3).for_each(|row| budget.spent(row, Duration::from_secs(4)));
        assert_eq!([0, 1, 2].map(|row| budget.has(row, 2)), [true, true, false]);
    }
}
