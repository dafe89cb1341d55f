// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts that a trace has, and the parts that it lacks.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::session::ring::{Taken, Waits};
use crate::session::scope::Outcome;

/// Numbers of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Calls that were made.
    pub calls: u64,
    /// Functions that were entered.
    pub functions: u64,
    /// Records that were overwritten.
    pub lost: u64,
    /// Calls that were not seen.
    pub missed: u64,
    /// Records of no known thread, because records before them were lost.
    pub stray: u64,
    /// Records for which there was no room.
    pub refused: u64,
    /// Waits that were needed to lose none.
    pub waits: Waits,
}

impl Losses {
    /// The losses of a session.
    pub fn of(taken: &Taken, stray: u64, outcome: &Outcome) -> Losses {
        let rows = || outcome.report.rows.iter();
        Losses {
            calls: rows().map(|row| row.calls).sum(),
            functions: rows().map(|row| row.sum).sum(),
            lost: taken.lost(),
            missed: outcome.report.missed(),
            stray,
            refused: taken.refused,
            waits: taken.waits,
        }
    }

    /// For people. Shown even if nothing was lost: that is worth knowing, too.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} calls, {} functions entered; records lost {}, calls missed {}",
            self.calls, self.functions, self.lost, self.missed
        );
        if self.stray > 0 {
            let _ = write!(text, "; {} that follow lost ones are not shown", self.stray);
        }
        if self.refused > 0 {
            let _ = write!(text, "; {} beyond --limit are not shown", self.refused);
        }
        text + &self.waits.text()
    }
}
