// SPDX-License-Identifier: MIT OR Apache-2.0
//! How values of calls are distributed, by powers of two: `hist:EXPR`, `hist:wall`.

use std::collections::BTreeMap;

use jifl_sys::abi::{Distribution, GROUP_BUCKETS, GROUP_NEGATIVE};
use jifl_sys::device::Door;
use serde_json::{Value as Json, json};

use crate::base::exit::Failure;
use crate::session::table;
use crate::show::powers;
use crate::show::text::grouped;

/// How many values, by the number of their bits; the last: below 0.
pub type Buckets = [u64; GROUP_BUCKETS];

/// Of rows and counters, those that have values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Distributions(BTreeMap<(usize, usize), Buckets>);

impl Distributions {
    /// Reads what was counted until now.
    ///
    /// # Errors
    /// The module does not tell it.
    pub fn read(door: &impl Door) -> Result<Distributions, Failure> {
        let all = table::read::<Distribution>(door, "reading the distributions")?.0;
        let used = all.iter().filter(|one| one.bucket.iter().any(|n| *n > 0));
        let one = |one: &Distribution| ((one.row as usize, one.counter as usize), one.bucket);
        Ok(Distributions(used.map(one).collect()))
    }

    /// Of a row and a counter.
    pub fn of(&self, row: usize, counter: usize) -> Buckets {
        let all = self.0.get(&(row, counter));
        all.copied().unwrap_or([0; GROUP_BUCKETS])
    }

    /// Those of a row: its counters, and their buckets.
    pub fn of_row(&self, row: usize) -> impl Iterator<Item = (usize, &Buckets)> {
        let own = self.0.range((row, 0)..=(row, usize::MAX));
        own.map(|((_, counter), buckets)| (*counter, buckets))
    }

    /// These are a row's.
    pub fn put(&mut self, row: usize, counter: usize, buckets: Buckets) {
        self.0.insert((row, counter), buckets);
    }

    /// The same, and nothing less than at an earlier moment.
    pub fn not_below(mut self, before: &Distributions) -> Distributions {
        for (key, then) in &before.0 {
            let now = self.0.entry(*key).or_insert([0; GROUP_BUCKETS]);
            for (now, then) in now.iter_mut().zip(then) {
                *now = (*now).max(*then);
            }
        }
        self
    }

    /// What was counted since another moment.
    pub fn since(&self, before: &Distributions) -> Distributions {
        let less = |(key, now): (&(usize, usize), &Buckets)| {
            let then = before.of(key.0, key.1);
            let less = std::array::from_fn(|at| now[at].saturating_sub(then[at]));
            (*key, less)
        };
        Distributions(self.0.iter().map(less).collect())
    }
}

/// For people: what it is of, and its lines. Empty: there are no values. bar: characters of the
/// longest bar.
pub fn text(of: &str, buckets: &Buckets, bar: usize) -> String {
    let values: u64 = buckets.iter().sum();
    if values == 0 {
        return String::new();
    }
    let word = if values == 1 { "value" } else { "values" };
    let lines = powers::lines(&bounds(buckets), buckets[GROUP_NEGATIVE], bar);
    format!("\n{of}: {} {word}\n{lines}", grouped(values))
}

/// For programs.
pub fn json(buckets: &Buckets) -> Json {
    json!({
        "values": buckets.iter().sum::<u64>(),
        "negative": buckets[GROUP_NEGATIVE],
        "buckets": bounds(buckets),
    })
}

/// For a cell of a table: `LOWEST:VALUES` of each bucket that has any.
pub fn cell(buckets: &Buckets) -> String {
    let below = buckets[GROUP_NEGATIVE];
    let below = (below > 0).then(|| format!("<0:{below}"));
    let used = bounds(buckets);
    let used = used.iter().filter(|one| one.count > 0);
    let each = used.map(|one| format!("{}:{}", one.low, one.count));
    below.into_iter().chain(each).collect::<Vec<_>>().join(" ")
}

fn bounds(buckets: &Buckets) -> Vec<powers::Bucket> {
    powers::buckets(&buckets[..GROUP_NEGATIVE])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(counts: &[(usize, u64)]) -> Buckets {
        let mut all = [0; GROUP_BUCKETS];
        for (at, count) in counts {
            all[*at] = *count;
        }
        all
    }

    #[test]
    fn they_are_shown_in_three_ways() {
        let all = some(&[(0, 2), (2, 4), (GROUP_NEGATIVE, 1)]);
        let shown = text("f hist:x", &all, 4);
        assert!(
            shown.starts_with("\nf hist:x: 7 values\n(..., 0)"),
            "{shown}"
        );
        assert!(
            shown.ends_with("[2, 4)                     4 |@@@@|\n"),
            "{shown}"
        );
        assert_eq!(cell(&all), "<0:1 0:2 2:4");
        assert_eq!(json(&all)["values"], 7);
        assert_eq!(json(&all)["buckets"][2]["low"], 2);
        assert_eq!(text("f hist:x", &some(&[]), 4), "");
        assert_eq!(cell(&some(&[])), "");
    }

    #[test]
    fn an_interval_is_a_difference() {
        let mut before = Distributions::default();
        before.put(1, 0, some(&[(3, 2)]));
        let mut now = Distributions::default();
        now.put(1, 0, some(&[(3, 5)]));
        now.put(2, 0, some(&[(1, 1)]));
        let since = now.since(&before);
        assert_eq!(since.of(1, 0), some(&[(3, 3)]));
        assert_eq!(since.of(2, 0), some(&[(1, 1)]));
        assert_eq!(since.of(3, 0), some(&[]));
        assert_eq!(before.clone().not_below(&now), now);
        assert_eq!(now.of_row(1).count(), 1);
    }
}
