// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of call paths for people: a line for each, the largest first.

use std::collections::BTreeMap;

use super::{Edge, Function, Module};
use crate::cmd::prof::paths::base::Base;
use crate::cmd::prof::paths::metric::Metric;
use crate::cmd::prof::paths::text::{change, more};
use crate::show::table::table_within;
use crate::show::text::{grouped, percent};

/// What the kernel itself is called among modules.
const KERNEL: &str = "kernel";

/// How groups are shown.
pub struct Page<'a> {
    /// The metric that is shown.
    pub metric: Metric,
    /// Its sum.
    pub total: u64,
    /// An earlier profile, for comparing.
    pub base: Option<&'a Base>,
    /// How many groups at most.
    pub limit: usize,
    /// The terminal's width.
    pub width: Option<usize>,
}

/// A group, as it is shown.
#[derive(Default)]
struct Line {
    name: String,
    /// Lines are sorted by it.
    value: u64,
    own: u64,
    inclusive: u64,
    calls: u64,
    /// The own value that the base has.
    before: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Inclusive,
    InclusiveShare,
    Own,
    Change,
    OwnShare,
    Calls,
    Each,
}

impl Page<'_> {
    /// Functions, by what they did themselves.
    pub fn functions(&self, functions: &[Function]) -> String {
        let line = |function: &Function| {
            let own = function.own.get(self.metric);
            Line {
                name: function.name(),
                value: own,
                own,
                inclusive: function.inclusive.get(self.metric),
                calls: function.calls,
                before: 0,
            }
        };
        let lines = self.with_base(functions.iter().map(line), |name| name);
        let columns = [
            Column::Inclusive,
            Column::InclusiveShare,
            Column::Own,
            Column::Change,
            Column::OwnShare,
            Column::Calls,
            Column::Each,
        ];
        self.text("function", &columns, lines)
    }

    /// Who calls whom, by what that took.
    pub fn edges(&self, edges: &[Edge]) -> String {
        let line = |edge: &Edge| {
            let inclusive = edge.inclusive.get(self.metric);
            let caller = edge.caller.as_deref().unwrap_or("-");
            Line {
                name: format!("{caller} -> {}", edge.callee),
                value: inclusive,
                inclusive,
                calls: edge.calls,
                ..Line::default()
            }
        };
        let columns = [Column::Inclusive, Column::InclusiveShare, Column::Calls];
        self.text("edge", &columns, edges.iter().map(line).collect())
    }

    /// Modules, by what their functions did themselves.
    pub fn modules(&self, modules: &[Module]) -> String {
        let line = |module: &Module| {
            let own = module.own.get(self.metric);
            Line {
                name: module.module.clone().unwrap_or_else(|| KERNEL.to_owned()),
                value: own,
                own,
                calls: module.calls,
                ..Line::default()
            }
        };
        let lines = self.with_base(modules.iter().map(line), module_of);
        let columns = [Column::Own, Column::Change, Column::OwnShare, Column::Calls];
        self.text("module", &columns, lines)
    }

    /// The lines with what the base has of them, and lines that only the base has. `key` tells the
    /// line that a function belongs to.
    fn with_base(
        &self,
        lines: impl Iterator<Item = Line>,
        key: impl Fn(&str) -> &str,
    ) -> Vec<Line> {
        let mut before = match self.base {
            None => BTreeMap::new(),
            Some(base) => base.own(key),
        };
        let mut lines: Vec<Line> = lines.collect();
        for line in &mut lines {
            line.before = before.remove(&line.name[..]).unwrap_or(0);
        }
        lines.extend(before.into_iter().map(|(name, before)| Line {
            name: name.to_owned(),
            before,
            ..Line::default()
        }));
        lines
    }

    /// The table, and how many lines it leaves out. Those are the smallest ones, of now and before.
    fn text(&self, what: &str, columns: &[Column], mut lines: Vec<Line>) -> String {
        lines.retain(|line| line.own.max(line.inclusive).max(line.before) > 0);
        let left = lines.len().saturating_sub(self.limit);
        sort(&mut lines, |line| line.value.max(line.before));
        lines.truncate(self.limit);
        sort(&mut lines, |line| line.value);
        let shown = |column: &&Column| **column != Column::Change || self.base.is_some();
        let columns: Vec<Column> = columns.iter().filter(shown).copied().collect();
        let titles = columns.iter().map(|column| self.title(*column).to_owned());
        let mut rows = vec![row(&what.to_uppercase(), titles)];
        for line in &lines {
            let cells = columns.iter().map(|column| self.cell(*column, line));
            rows.push(row(&line.name, cells));
        }
        table_within(&rows, 1, self.width) + &more(left, what)
    }

    fn title(&self, column: Column) -> &'static str {
        match column {
            Column::Inclusive => self.metric.column(),
            Column::InclusiveShare | Column::OwnShare => "SHARE",
            Column::Own => "OWN",
            Column::Change => "CHANGE",
            Column::Calls => "CALLS",
            Column::Each => "EACH",
        }
    }

    fn cell(&self, column: Column, line: &Line) -> String {
        match column {
            Column::Inclusive => grouped(line.inclusive),
            Column::InclusiveShare => percent(line.inclusive, self.total),
            Column::Own => grouped(line.own),
            Column::Change => change(line.before, line.own),
            Column::OwnShare => percent(line.own, self.total),
            Column::Calls => grouped(line.calls),
            Column::Each => each(line.inclusive, line.calls),
        }
    }
}

fn row(name: &str, cells: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(cells).collect()
}

/// The largest value first, then by name.
fn sort(lines: &mut [Line], value: impl Fn(&Line) -> u64) {
    lines.sort_by(|one, other| {
        let by_value = value(other).cmp(&value(one));
        by_value.then_with(|| one.name.cmp(&other.name))
    });
}

/// `217.5`: what one call took.
fn each(value: u64, calls: u64) -> String {
    match calls {
        0 => "-".into(),
        calls => format!("{:.1}", value as f64 / calls as f64),
    }
}

/// The module in a function's name.
fn module_of(name: &str) -> &str {
    let module = name.split_once(" [").map(|(_, rest)| rest);
    module
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(KERNEL)
}

#[cfg(test)]
mod tests;
