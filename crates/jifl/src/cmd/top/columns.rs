// SPDX-License-Identifier: MIT OR Apache-2.0
//! The columns of the table.

use jifl_sys::abi::Time;

use crate::base::duration;
use crate::cmd::stat::metric::wall;
use crate::show::text::grouped;

/// A column.
pub struct Column {
    /// Its title.
    pub title: &'static str,
    /// Its width.
    pub width: usize,
    /// Is it there at the beginning?
    pub usual: bool,
    /// What it means.
    pub about: &'static str,
    /// Its figure, of what was counted in an interval. `None`: there is none.
    pub of: fn(&Time) -> Option<f64>,
    /// The figure's text.
    pub text: fn(f64) -> String,
}

/// Of an interval's time, or by its nanosecond.
fn share(part: u64, of: &Time) -> Option<f64> {
    (of.elapsed_ns > 0).then(|| part as f64 / of.elapsed_ns as f64)
}

fn number(figure: f64) -> String {
    format!("{figure:.3}")
}

fn whole(figure: f64) -> String {
    let sign = if figure <= -0.5 { "-" } else { "" };
    format!("{sign}{}", grouped(figure.abs().round() as u64))
}

fn time(figure: f64) -> String {
    let sign = if figure < 0.0 { "-" } else { "" };
    format!("{sign}{}", duration::show(figure.abs() as u64))
}

/// All, in their order.
pub const COLUMNS: [Column; 8] = [
    Column {
        title: "CONC",
        width: 8,
        usual: true,
        about: "tasks inside, on average",
        of: |now| share(wall(now), now),
        text: number,
    },
    Column {
        title: "CALLS/S",
        width: 9,
        usual: true,
        about: "calls that began, by the second",
        of: |now| share(now.calls, now).map(|rate| rate * 1e9),
        text: whole,
    },
    Column {
        title: "CPU",
        width: 7,
        usual: true,
        about: "of CONC, tasks that run",
        of: |now| share(now.cpu_ns, now),
        text: number,
    },
    Column {
        title: "BLOCKED",
        width: 8,
        usual: true,
        about: "of CONC, tasks that sleep",
        of: |now| share(now.blocked_ns, now),
        text: number,
    },
    Column {
        title: "WAITS",
        width: 7,
        usual: true,
        about: "of CONC, tasks that could run and do not",
        of: |now| share(now.runnable_ns, now),
        text: number,
    },
    Column {
        title: "WALL/CALL",
        width: 9,
        usual: true,
        about: "time from a call's beginning to its end",
        of: |now| (now.calls > 0).then(|| wall(now) as f64 / now.calls as f64),
        text: time,
    },
    Column {
        title: "CALLS",
        width: 11,
        usual: false,
        about: "calls that began in the interval",
        of: |now| Some(now.calls as f64),
        text: whole,
    },
    Column {
        title: "INSIDE",
        width: 7,
        usual: false,
        about: "calls that have not ended",
        of: |now| Some(now.inside as f64),
        text: whole,
    },
];
