// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether an instrumentation counted what it should while it was measured. If it did not, its
//! figure is void.

use super::instruments::Counts;

/// Tolerance for the difference of counts of a round between the first and the second half of the
/// rounds, and between a peer's count and the expected count.
const TOLERANCE: f64 = 0.02;

/// Observations of one operation under one instrumentation.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Counts before its rounds, in their middle, after them.
    pub counts: [Counts; 3],
    /// Translated blocks before it was switched on. Blocks are translated before the rounds.
    pub translated_before: Option<u64>,
    /// Rounds in each half.
    pub rounds: [u64; 2],
}

impl Seen {
    fn rate(&self, half: usize) -> Option<f64> {
        let (from, to) = (self.counts[half].inside?, self.counts[half + 1].inside?);
        Some(to.saturating_sub(from) as f64 / self.rounds[half].max(1) as f64)
    }

    /// Counted inside the calls of one round, in the steady state.
    pub fn per_round(&self) -> Option<f64> {
        self.rate(1)
    }

    /// System calls counted in one round.
    pub fn calls_per_round(&self) -> Option<f64> {
        let [from, _, to] = &self.counts;
        let sum = |counts: &Counts| counts.calls.iter().sum::<u64>();
        let rounds = self.rounds[0] + self.rounds[1];
        (!to.calls.is_empty() && rounds > 0)
            .then(|| sum(to).saturating_sub(sum(from)) as f64 / rounds as f64)
    }
}

/// Why the figure is void, if it is.
///
/// `calls`: how often each system call is made in one round. `model`: how often a peer must count
/// in one round, where it is.
pub fn judge(seen: &Seen, calls: &[(u32, u64)], model: Option<f64>) -> Result<(), String> {
    every_call(seen, calls)?;
    same_in_both_halves(seen)?;
    as_much_as(seen, model)?;
    something_translated(seen)
}

/// A process that a round has woken may not have ended its last call yet.
fn every_call(seen: &Seen, calls: &[(u32, u64)]) -> Result<(), String> {
    const IN_FLIGHT: u64 = 1;
    let [from, _, to] = &seen.counts;
    let rounds: u64 = seen.rounds.iter().sum();
    for (index, (to, from)) in to.calls.iter().zip(&from.calls).enumerate() {
        let counted = to.saturating_sub(*from);
        let (nr, each) = calls.get(index).copied().unwrap_or_default();
        let made = each * rounds;
        if counted + IN_FLIGHT < made {
            return Err(format!("counted {counted} of {made} calls of number {nr}"));
        }
    }
    Ok(())
}

/// True if the two halves counted equally.
pub fn is_steady(seen: &Seen) -> bool {
    same_in_both_halves(seen).is_ok()
}

fn same_in_both_halves(seen: &Seen) -> Result<(), String> {
    let (Some(first), Some(second)) = (seen.rate(0), seen.rate(1)) else {
        return Ok(());
    };
    if second <= 0.0 {
        return Err("counted nothing".into());
    }
    if (first - second).abs() > TOLERANCE * second {
        return Err(format!(
            "not steady: counted {first:.1} a round, then {second:.1}"
        ));
    }
    Ok(())
}

fn as_much_as(seen: &Seen, model: Option<f64>) -> Result<(), String> {
    let (Some(model), Some(rate)) = (model, seen.per_round()) else {
        return Ok(());
    };
    let missed = seen.counts[2].missed.saturating_sub(seen.counts[0].missed);
    // A kprobe misses the hits of an interrupt that comes while a handler runs.
    let made: u64 = seen.rounds.iter().sum();
    if missed as f64 > TOLERANCE * model * made as f64 {
        return Err(format!("missed {missed}"));
    }
    if rate < model * (1.0 - TOLERANCE) {
        return Err(format!("counted {rate:.1} a round of {model:.1}"));
    }
    Ok(())
}

/// Code that runs in the cache must have been translated.
fn something_translated(seen: &Seen) -> Result<(), String> {
    match (seen.translated_before, seen.counts[2].translated) {
        (Some(before), Some(after)) if after <= before => Err("nothing was translated".into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 rounds, two calls of number 0 in each; 7 counted inside a round.
    fn good() -> Seen {
        let at = |rounds: u64| Counts {
            calls: vec![10 + 2 * rounds],
            inside: Some(35 + 7 * rounds),
            missed: 0,
            translated: Some(90),
        };
        Seen {
            counts: [at(0), at(50), at(100)],
            translated_before: Some(50),
            rounds: [50, 50],
        }
    }

    const CALLS: &[(u32, u64)] = &[(0, 2)];

    #[test]
    fn what_counted_all_is_valid() {
        let seen = good();
        assert_eq!(judge(&seen, CALLS, Some(7.0)), Ok(()));
        assert_eq!(seen.per_round(), Some(7.0));
        assert_eq!(seen.calls_per_round(), Some(2.0));
        assert_eq!(judge(&Seen::default(), CALLS, None), Ok(()));
    }

    #[test]
    fn what_did_not_is_void_and_says_why() {
        type Spoil = fn(&mut Seen);
        let cases: [(Spoil, &str); 5] = [
            (|seen| seen.counts[2].calls[0] -= 2, "counted 198 of 200"),
            (
                |seen| seen.counts[2].inside = seen.counts[1].inside,
                "counted nothing",
            ),
            (|seen| seen.counts[1].inside = Some(35), "not steady"),
            (|seen| seen.counts[2].missed = 30, "missed 30"),
            (
                |seen| seen.counts[2].translated = Some(50),
                "nothing was translated",
            ),
        ];
        for (spoil, why) in cases {
            let mut seen = good();
            spoil(&mut seen);
            let error = judge(&seen, CALLS, Some(7.0)).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let error = judge(&good(), CALLS, Some(8.0)).unwrap_err();
        assert!(error.contains("of 8.0"), "{error}");
    }

    #[test]
    fn one_call_may_be_in_flight() {
        let mut seen = good();
        seen.counts[2].calls[0] -= 1;
        assert_eq!(judge(&seen, CALLS, None), Ok(()));
    }
}
