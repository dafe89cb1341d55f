// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is shown. It knows no terminal. keys.rs has what keys change of it.

mod keys;

use std::collections::VecDeque;
use std::time::Duration;

use jifl_sys::abi::{TIMES_MISSED, TIMES_UNWATCHED, Time};

use super::columns::{COLUMNS, Column};
use crate::cmd::stat::sheet::{Counted, Row};

/// Intervals that are kept to step back to.
const KEPT: usize = 600;
/// Intervals of a curve.
pub const CURVE: usize = 12;
/// The shortest and the longest interval.
pub const SHORTEST: Duration = Duration::from_millis(125);
pub const LONGEST: Duration = Duration::from_secs(64);

/// What calls are shown by if nothing else is said: the call site.
pub const CALLER: &str = "caller";

/// A key, as far as it means anything here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// Enter.
    Enter,
    /// Backspace.
    Backspace,
    /// Escape.
    Escape,
    /// The line above.
    Up,
    /// The line below.
    Down,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// The column, or the moment, to the left.
    Left,
    /// The column, or the moment, to the right.
    Right,
}

/// What a key asks for that is not done here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Nothing.
    Nothing,
    /// The end.
    Quit,
    /// To look at what this row's function calls.
    Down(Row),
    /// To look at what this row's calls are about: by this.
    Objects(Row, String),
    /// Back to what was looked at before.
    Up,
    /// Nothing: somebody else has ended the session.
    Ended,
    /// To write the screen to a file.
    Copy,
    /// The bottleneck of the machine.
    Search,
    /// No more of the search.
    EndSearch,
}

/// What keys mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They move in the table.
    Table,
    /// They are letters of the filter.
    Filter,
    /// They are letters of what calls are to be shown by.
    By,
    /// They move among the columns, and switch them on and off.
    Fields(usize),
    /// Any ends the help.
    Help,
    /// They move in the tree of a search: so many lines down.
    Search(usize),
}

/// What was counted in an interval.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// In it alone.
    pub counted: Counted,
    /// Nanoseconds from the session's beginning to its end.
    pub until_ns: u64,
}

/// All of it.
pub struct App {
    /// What is looked at, for the first line.
    pub title: String,
    /// The functions, or what calls are about. Only new ones come.
    pub rows: Vec<Row>,
    /// The last intervals, the oldest first.
    pub samples: VecDeque<Sample>,
    nothing: Sample,
    /// All that was counted.
    pub total: Counted,
    /// How long an interval is.
    pub period: Duration,
    /// Intervals back from the last; `None`: not paused.
    pub paused: Option<usize>,
    /// What figures are compared with.
    pub baseline: Option<Counted>,
    /// Which column decides the order.
    pub sort: usize,
    /// Which columns are there.
    pub columns: [bool; COLUMNS.len()],
    /// Only functions with this in their names.
    pub filter: String,
    /// What calls are to be shown by.
    pub by: String,
    /// What keys mean.
    pub mode: Mode,
    /// The line, among those that are shown.
    pub selected: usize,
    /// Lines of a page.
    pub page: usize,
    /// What is to be said once.
    pub message: String,
    /// The tree of the search, and its finding.
    pub search: String,
}

impl App {
    /// About these functions.
    pub fn new(title: String, rows: Vec<Row>, period: Duration) -> App {
        App {
            title,
            rows,
            samples: VecDeque::new(),
            nothing: Sample::default(),
            total: Counted::default(),
            period,
            paused: None,
            baseline: None,
            sort: 0,
            columns: COLUMNS.map(|column| column.usual),
            filter: String::new(),
            by: String::new(),
            mode: Mode::Table,
            selected: 0,
            page: 10,
            message: String::new(),
            search: String::new(),
        }
    }

    /// An interval is over: all that was counted until now.
    pub fn take(&mut self, now: Counted) {
        let now = now.not_below(&self.total);
        let counted = now.since(&self.total);
        let until_ns = now.elapsed();
        self.total = now;
        self.samples.push_back(Sample { counted, until_ns });
        if self.samples.len() > KEPT {
            self.samples.pop_front();
        }
        // What is looked at while it is paused stays.
        if let Some(back) = &mut self.paused {
            *back = (*back + 1).min(self.samples.len().saturating_sub(1));
        }
    }

    /// Which interval is shown: its index.
    pub fn shown(&self) -> Option<usize> {
        let last = self.samples.len().checked_sub(1)?;
        Some(last.saturating_sub(self.paused.unwrap_or(0)))
    }

    /// What was counted in it; nothing before the first is over.
    pub fn sample(&self) -> &Sample {
        let sample = self.shown().and_then(|at| self.samples.get(at));
        sample.unwrap_or(&self.nothing)
    }

    /// What a row has of an interval.
    pub fn time(counted: &Counted, row: &Row) -> Time {
        counted.times.get(row.target).copied().unwrap_or_default()
    }

    /// The rows that are shown, in their order.
    pub fn ordered(&self) -> Vec<&Row> {
        let counted = &self.sample().counted;
        let column = &COLUMNS[self.sort];
        let weight = |row: &Row| self.value(column, counted, row).unwrap_or(f64::MIN);
        let mut rows: Vec<(&Row, f64)> = (self.rows.iter())
            .filter(|row| row.title().contains(&self.filter))
            .filter(|row| self.is_known(row))
            .map(|row| (row, weight(row)))
            .collect();
        rows.sort_by(|(a, x), (b, y)| y.total_cmp(x).then_with(|| a.title().cmp(&b.title())));
        rows.into_iter().map(|(row, _)| row).collect()
    }

    /// Was anybody ever in the function?
    fn is_known(&self, row: &Row) -> bool {
        let time = App::time(&self.total, row);
        time.calls + time.adopted + time.strays > 0
    }

    /// What a column has of a row; less what the baseline has, if there is one.
    pub fn value(&self, column: &Column, counted: &Counted, row: &Row) -> Option<f64> {
        let of = |counted: &Counted| (column.of)(&App::time(counted, row));
        let value = of(counted)?;
        match &self.baseline {
            Some(baseline) => Some(value - of(baseline)?),
            None => Some(value),
        }
    }

    /// The values of the column that decides the order, of the last intervals until the one that is
    /// shown.
    pub fn curve(&self, row: &Row) -> Vec<f64> {
        let Some(last) = self.shown() else {
            return Vec::new();
        };
        let column = &COLUMNS[self.sort];
        let first = (last + 1).saturating_sub(CURVE);
        let samples = self.samples.range(first..=last);
        let value = |sample: &Sample| {
            let time = App::time(&sample.counted, row);
            (column.of)(&time).unwrap_or(0.0)
        };
        samples.map(value).collect()
    }

    /// The last line.
    pub fn status(&self) -> String {
        let calls: u64 = self
            .sample()
            .counted
            .times
            .iter()
            .map(|one| one.calls)
            .sum();
        let seconds = self.sample().counted.elapsed().max(1) as f64 / 1e9;
        let missed = self.total.rest[TIMES_MISSED] + self.total.rest[TIMES_UNWATCHED];
        format!(
            "{:.0} calls/s looked at; missed {missed}",
            calls as f64 / seconds
        )
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Three functions; the third was never called.
    pub fn app() -> App {
        let row = |function: &str, target| Row {
            function: function.into(),
            module: None,
            address: 0x1000 + target as u64,
            target,
            keys: crate::cmd::stat::sheet::Keys::default(),
        };
        let rows = vec![row("vfs_read", 0), row("do_wait", 1), row("never", 2)];
        App::new("fn:*".into(), rows, Duration::from_secs(1))
    }

    /// What was counted after so many seconds: calls and blocked time of two functions.
    pub fn counted(seconds: u64, calls: [u64; 2], blocked_ms: [u64; 2]) -> Counted {
        let time = |at: usize| Time {
            calls: calls[at],
            blocked_ns: blocked_ms[at] * 1_000_000,
            elapsed_ns: seconds * 1_000_000_000,
            ..Time::default()
        };
        Counted {
            times: vec![time(0), time(1), Time::default()],
            rest: [seconds * 1_000_000_000, 0, 0],
            ..Counted::default()
        }
    }

    fn names(app: &App) -> Vec<String> {
        let rows = app.ordered();
        rows.iter().map(|row| row.function.clone()).collect()
    }

    #[test]
    fn the_order_is_that_of_a_column() {
        let mut app = app();
        app.take(counted(1, [100, 1], [10, 900]));
        assert_eq!(names(&app), ["do_wait", "vfs_read"]);
        app.key(Key::Char('s'));
        assert_eq!(COLUMNS[app.sort].title, "CALLS/S");
        assert_eq!(names(&app), ["vfs_read", "do_wait"]);
        app.key(Key::Char('<'));
        assert_eq!(names(&app), ["do_wait", "vfs_read"]);
    }

    #[test]
    fn a_filter_leaves_out_the_others() {
        let mut app = app();
        app.take(counted(1, [100, 1], [10, 900]));
        for key in ['/', 'r', 'e', 'q'] {
            app.key(Key::Char(key));
        }
        assert!(names(&app).is_empty());
        app.key(Key::Backspace);
        app.key(Key::Enter);
        assert_eq!(names(&app), ["vfs_read"]);
        assert_eq!(app.key(Key::Enter), Asked::Down(app.rows[0].clone()));
        app.key(Key::Escape);
        assert_eq!(names(&app).len(), 2);
        assert_eq!(app.key(Key::Char('q')), Asked::Quit);
    }

    #[test]
    fn what_is_shown_while_it_is_paused_stays() {
        let mut app = app();
        app.take(counted(1, [10, 0], [0, 0]));
        app.take(counted(2, [30, 0], [0, 0]));
        let calls = |app: &App| app.sample().counted.times[0].calls;
        assert_eq!(calls(&app), 20);
        app.key(Key::Char('p'));
        app.take(counted(3, [60, 0], [0, 0]));
        assert_eq!(calls(&app), 20);
        app.key(Key::Left);
        assert_eq!(calls(&app), 10);
        app.key(Key::Left);
        assert_eq!(calls(&app), 10);
        app.key(Key::Right);
        app.key(Key::Right);
        assert_eq!(calls(&app), 30);
        app.key(Key::Char('p'));
        app.take(counted(4, [100, 0], [0, 0]));
        assert_eq!(calls(&app), 40);
    }

    #[test]
    fn a_day_of_intervals_does_not_grow() {
        let mut app = app();
        for second in 1..86_400 {
            app.take(counted(second, [second, 0], [0, 0]));
        }
        assert_eq!(app.samples.len(), KEPT);
        assert_eq!(app.sample().counted.times[0].calls, 1);
        assert_eq!(app.curve(&app.rows[0]).len(), CURVE);
    }

    #[test]
    fn with_a_baseline_figures_are_differences() {
        let mut app = app();
        app.take(counted(1, [100, 0], [0, 0]));
        app.key(Key::Char('b'));
        app.take(counted(2, [350, 0], [0, 0]));
        let rate = COLUMNS.iter().find(|column| column.title == "CALLS/S");
        let rate = rate.unwrap();
        let value = app.value(rate, &app.sample().counted, &app.rows[0]);
        assert_eq!(value, Some(150.0));
        app.key(Key::Char('b'));
        let value = app.value(rate, &app.sample().counted, &app.rows[0]);
        assert_eq!(value, Some(250.0));
    }

    #[test]
    fn a_search_lies_above_until_it_is_left() {
        let mut app = app();
        app.page = 2;
        assert_eq!(app.key(Key::Char('w')), Asked::Search);
        app.search = "cpu\nlocks\ndisk\nfinding: none\n".into();
        for _ in 0..9 {
            assert_eq!(app.key(Key::Down), Asked::Nothing);
        }
        assert_eq!(app.mode, Mode::Search(3), "the last line is seen");
        app.key(Key::PageUp);
        assert_eq!(app.mode, Mode::Search(1));
        assert_eq!(app.key(Key::Escape), Asked::EndSearch);
        assert_eq!(app.mode, Mode::Table);
        app.key(Key::Char('w'));
        assert_eq!(app.key(Key::Backspace), Asked::EndSearch);
        app.key(Key::Char('w'));
        assert_eq!(app.key(Key::Char('q')), Asked::Quit);
    }

    #[test]
    fn columns_come_and_go() {
        let mut app = app();
        let before = app.columns;
        for key in ['f', 'j', ' ', 'q'] {
            assert_eq!(app.key(Key::Char(key)), Asked::Nothing);
        }
        assert_ne!(app.columns, before);
        assert_eq!(app.mode, Mode::Table);
    }
}
