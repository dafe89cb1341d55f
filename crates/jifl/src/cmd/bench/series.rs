// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of one operation under one instrumentation, round by round, and how they enter a
//! sheet.

use super::instruments::Instrument;
use super::sheet::{Cell, Row};
use super::stats::{median, spread};

/// Why a cell has no figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The instrumentation could not be switched on.
    Missing(String),
    /// The instrumentation was switched on, but the figure means nothing.
    Void(String),
}

impl Trouble {
    /// A ratio needs the uninstrumented row's figure of the same turn, and that row has failed.
    pub fn alone() -> Trouble {
        Trouble::Void("no uninstrumented figure beside it".into())
    }
}

/// Values, and the slowdown of each in relation to the uninstrumented round beside it.
#[derive(Debug, Clone, Default)]
pub struct Series {
    values: Vec<f64>,
    ratios: Vec<f64>,
    /// The last number counted in a round.
    pub counted: Option<f64>,
    /// The last number of rounds of a turn.
    pub rounds: Option<u64>,
    trouble: Option<Trouble>,
}

impl Series {
    /// A series of costs that are all compared with one native cost.
    pub fn of(costs: &[f64], native: f64) -> Series {
        let mut series = Series::default();
        for cost in costs {
            series.push(*cost, cost / native);
        }
        series
    }

    /// A series without a figure.
    pub fn without(trouble: Trouble) -> Series {
        Series {
            trouble: Some(trouble),
            ..Series::default()
        }
    }

    /// Adds a round.
    pub fn push(&mut self, value: f64, ratio: f64) {
        if ratio.is_finite() && ratio > 0.0 {
            self.values.push(value);
            self.ratios.push(ratio);
        } else {
            self.fail(Trouble::Void("the clock stood still".into()));
        }
    }

    /// Records that there will be no figure.
    pub fn fail(&mut self, trouble: Trouble) {
        self.trouble.get_or_insert(trouble);
    }

    /// True if there will be no figure.
    pub fn has_failed(&self) -> bool {
        self.trouble.is_some()
    }

    /// The cost of the last round.
    pub fn last(&self) -> Option<f64> {
        self.values.last().copied()
    }

    /// Least and largest ratio. For the uninstrumented row, whose ratios are 1, those of its
    /// values: the noise.
    fn spread(&self) -> [f64; 2] {
        if self.ratios.iter().all(|ratio| *ratio == 1.0) {
            return spread(&self.values).map(|value| value / median(&self.values));
        }
        spread(&self.ratios)
    }

    fn cell(&self, op: &str) -> Cell {
        match &self.trouble {
            Some(Trouble::Missing(why) | Trouble::Void(why)) => Cell::void(op, why.clone()),
            None => Cell {
                op: op.to_owned(),
                value: median(&self.values),
                ratio: median(&self.ratios),
                spread: self.spread(),
                counted: self.counted,
                rounds: self.rounds,
                turns: self.values.len(),
                void: None,
            },
        }
    }

    fn missing(&self) -> Option<&String> {
        match &self.trouble {
            Some(Trouble::Missing(why)) => Some(why),
            _ => None,
        }
    }
}

/// The row of the series. A row that could not be switched on for any operation is missing.
pub fn row(instrument: &Instrument, found: &[(&str, &Series)]) -> Row {
    let missing: Option<Vec<&String>> = found.iter().map(|(_, series)| series.missing()).collect();
    match missing.as_ref().and_then(|whys| whys.first()) {
        Some(why) => Row::missing(instrument.key, instrument.title, *why),
        None => Row {
            key: instrument.key.into(),
            title: instrument.title.into(),
            missing: None,
            cells: found.iter().map(|(op, series)| series.cell(op)).collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::instruments::INSTRUMENTS;
    use super::*;

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        let mut series = Series::default();
        for (cost, native) in [(120.0, 100.0), (360.0, 300.0), (130.0, 100.0)] {
            series.push(cost, cost / native);
        }
        let cell = series.cell("x");
        assert_eq!((cell.value, cell.ratio), (130.0, 1.2));
        assert_eq!(cell.spread, [1.2, 1.3]);
    }

    #[test]
    fn the_native_spread_is_the_noise() {
        let mut series = Series::default();
        for cost in [90.0, 100.0, 120.0] {
            series.push(cost, 1.0);
        }
        assert_eq!(series.cell("x").spread, [0.9, 1.2]);
    }

    #[test]
    fn a_row_is_missing_only_where_all_of_it_is() {
        let good = Series::of(&[1.0], 1.0);
        let missing = Series::without(Trouble::Missing("no such thing".into()));
        let void = Series::without(Trouble::Void("counted nothing".into()));
        let row_of = |found: &[(&str, &Series)]| row(&INSTRUMENTS[1], found);
        let whole = row_of(&[("a", &missing), ("b", &missing)]);
        assert_eq!(whole.missing.as_deref(), Some("no such thing"));
        for other in [&good, &void] {
            let row = row_of(&[("a", &missing), ("b", other)]);
            assert_eq!(row.missing, None);
            assert_eq!(row.cells[0].void.as_deref(), Some("no such thing"));
        }
    }

    #[test]
    fn a_clock_that_stands_still_is_no_figure() {
        assert!(Series::of(&[0.0], 0.0).has_failed());
    }
}
