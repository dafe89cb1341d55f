// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of a measurement: a sheet of operations and rows, one row an instrumentation. It is
//! the same for every set, as text, JSON and chart.

use serde::{Deserialize, Serialize};

use crate::base::environment::Environment;

/// The key of the row that the others are compared with.
pub const NATIVE: &str = "native";

/// One set, measured on one machine by one clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sheet {
    /// `micro`, `cold`, `web`, `memory`.
    pub set: String,
    /// `instructions` or `time`.
    pub clock: String,
    /// The machine.
    pub machine: Environment,
    /// Operations, in the order in which they were measured.
    pub ops: Vec<Operation>,
    /// Rows. The first is the uninstrumented one.
    pub rows: Vec<Row>,
    /// Figures that belong to no operation.
    pub figures: Vec<Figure>,
    /// Notes for the reader, one line each.
    pub notes: Vec<String>,
}

/// A column of the sheet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Its name.
    pub name: String,
    /// Unit of its values.
    pub unit: String,
}

/// One instrumentation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its short name.
    pub key: String,
    /// In words.
    pub title: String,
    /// Why it could not be measured at all.
    pub missing: Option<String>,
    /// Cells, one for each operation, unless the row is missing.
    pub cells: Vec<Cell>,
}

/// One operation under one instrumentation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Cell {
    /// The operation.
    pub op: String,
    /// The value, in the operation's unit.
    pub value: f64,
    /// Normalised slowdown: 1 is as fast as uninstrumented.
    pub ratio: f64,
    /// Least and largest ratio of the rounds; equal if there was one round.
    pub spread: [f64; 2],
    /// Counted in one round, if the row counts.
    pub counted: Option<f64>,
    /// Rounds of a turn, if they are counted.
    pub rounds: Option<u64>,
    /// Number of turns, of which the figures are medians.
    pub turns: usize,
    /// Why the figure means nothing.
    pub void: Option<String>,
}

/// A single figure and the goal set for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// Its value; null if nothing valid was measured.
    pub value: Option<f64>,
    /// Unit of the value and the goal.
    pub unit: String,
    /// The goal.
    pub goal: Option<Goal>,
}

/// The condition for a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
}

impl Cell {
    /// A cell without a figure.
    pub fn void(op: &str, why: impl Into<String>) -> Cell {
        Cell {
            op: op.to_owned(),
            void: Some(why.into()),
            ..Cell::default()
        }
    }

    /// True if the figure is valid.
    pub fn is_valid(&self) -> bool {
        self.void.is_none()
    }
}

impl Row {
    /// A row that could not be measured.
    pub fn missing(key: &str, title: &str, why: impl Into<String>) -> Row {
        Row {
            key: key.to_owned(),
            title: title.to_owned(),
            missing: Some(why.into()),
            cells: Vec::new(),
        }
    }

    /// The valid cell of an operation.
    pub fn cell(&self, op: &str) -> Option<&Cell> {
        self.cells
            .iter()
            .find(|cell| cell.op == op && cell.is_valid())
    }
}

impl Sheet {
    /// The row with this key, unless it is missing.
    pub fn row(&self, key: &str) -> Option<&Row> {
        self.rows
            .iter()
            .find(|row| row.key == key && row.missing.is_none())
    }

    /// Valid slowdowns of a row.
    pub fn ratios(&self, key: &str) -> Vec<f64> {
        let Some(row) = self.row(key) else {
            return Vec::new();
        };
        let valid = row.cells.iter().filter(|cell| cell.is_valid());
        valid.map(|cell| cell.ratio).collect()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Rows `native`, `none`, `block` (whose second operation is void) and a missing one.
    pub fn sample() -> Sheet {
        let op = |name: &str| Operation {
            name: name.into(),
            unit: "instructions".into(),
        };
        let cell = |op: &str, value: f64, native: f64| Cell {
            op: op.into(),
            value,
            ratio: value / native,
            spread: [value / native; 2],
            ..Cell::default()
        };
        let row = |key: &str, cells| Row {
            key: key.into(),
            title: format!("{key} in words"),
            missing: None,
            cells,
        };
        Sheet {
            set: "micro".into(),
            clock: "instructions".into(),
            machine: Environment::default(),
            ops: vec![op("null"), op("read")],
            rows: vec![
                row(
                    NATIVE,
                    vec![cell("null", 100.0, 100.0), cell("read", 400.0, 400.0)],
                ),
                row(
                    "none",
                    vec![cell("null", 110.0, 100.0), cell("read", 360.0, 400.0)],
                ),
                row(
                    "block",
                    vec![
                        cell("null", 125.0, 100.0),
                        Cell::void("read", "counted 0 of 300 calls"),
                    ],
                ),
                Row::missing("bpf-block", "BPF fentry, block count", "no BTF"),
            ],
            figures: Vec::new(),
            notes: vec!["a note".into()],
        }
    }

    #[test]
    fn ratios_are_of_valid_cells() {
        let sheet = sample();
        assert_eq!(sheet.ratios("block"), [1.25]);
        assert_eq!(sheet.ratios("none").len(), 2);
        assert!(sheet.ratios("bpf-block").is_empty());
        assert!(sheet.row("block").unwrap().cell("read").is_none());
    }

    #[test]
    fn a_sheet_survives_json() {
        let sheet = sample();
        let text = serde_json::to_string(&sheet).unwrap();
        assert_eq!(serde_json::from_str::<Sheet>(&text).unwrap(), sheet);
    }
}
