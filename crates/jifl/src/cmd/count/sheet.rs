// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts by keys: a table whose first columns are the keys, and whose other columns are figures.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::session::report::{Format, Report};
use crate::show::output::fit;
use crate::show::table::table_within;
use crate::show::text;
use crate::show::text::grouped;

/// How a report is written.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// The format.
    pub format: Format,
    /// Maximum of lines of a table.
    pub lines: usize,
    /// Columns of the terminal, if it goes to one.
    pub width: Option<usize>,
}

/// A column of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figure {
    /// Its name for programs.
    pub name: &'static str,
    /// Its title for people.
    pub title: &'static str,
}

/// The denominator of a computed column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// The sum of the same column, in percent.
    Total,
    /// This other column, in percent.
    Percent(usize),
    /// This other column, as a mean.
    Mean(usize),
}

/// A computed column, for people: its numerator and denominator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    /// Its title.
    pub title: &'static str,
    /// The column of figures that is the numerator.
    pub figure: usize,
    /// The denominator.
    pub of: Of,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Values of the keys, one for each.
    pub keys: Vec<Key>,
    /// Values of the figures, one for each.
    pub figures: Vec<u64>,
}

/// A key of a line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(untagged)]
pub enum Key {
    /// A function, a mnemonic, a command name.
    Text(String),
    /// A process, a CPU.
    Number(u64),
}

impl Key {
    /// Control characters, which command names may contain, must not reach a terminal.
    fn shown(&self) -> String {
        match self {
            Key::Text(text) => text
                .chars()
                .map(|c| if c.is_control() { '?' } else { c })
                .collect(),
            Key::Number(number) => number.to_string(),
        }
    }

    fn quoted(&self) -> String {
        match self {
            Key::Text(text) => text::csv(text),
            Key::Number(number) => number.to_string(),
        }
    }
}

/// The whole table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sheet {
    /// Name of what is counted.
    pub kind: &'static str,
    /// Columns of keys, by the names of `--by`; none: one line with the sum.
    pub keys: Vec<&'static str>,
    /// Columns of figures.
    pub figures: Vec<Figure>,
    /// Those that people do not see if all of them are 0.
    pub optional: Range<usize>,
    /// The computed column, which is the last.
    pub ratio: Ratio,
    /// Its lines.
    pub lines: Vec<Line>,
    /// Sums for which there was no room among the lines.
    pub other: Option<Vec<u64>>,
    /// Further members, for programs.
    pub beside: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct Object<'a> {
    command: &'static str,
    kind: &'static str,
    by: &'a [&'static str],
    rows: Vec<Map<String, Value>>,
    total: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    other: Option<Map<String, Value>>,
    #[serde(flatten)]
    beside: &'a BTreeMap<&'static str, u64>,
    calls: u64,
    missed: u64,
    cut_short: bool,
    duration_ns: u64,
}

impl Sheet {
    /// Sorts lines by a figure, the largest first.
    pub fn sort(&mut self, figure: usize) {
        self.sort_by(|line| line.figures[figure]);
    }

    /// Sorts lines by a number of each, the largest first.
    pub fn sort_by(&mut self, number: impl Fn(&Line) -> u64) {
        self.lines
            .sort_by(|a, b| (number(b), &a.keys).cmp(&(number(a), &b.keys)));
    }

    /// Which columns of figures people see.
    fn seen(&self, total: &[u64]) -> Vec<usize> {
        let sums = total.iter().enumerate();
        let mut sums = sums.filter(|(at, _)| self.optional.contains(at));
        let hidden = sums.all(|(_, sum)| *sum == 0);
        (0..self.figures.len())
            .filter(|at| !hidden || !self.optional.contains(at))
            .collect()
    }

    /// Sums of all lines.
    pub fn total(&self) -> Vec<u64> {
        let zero = self.other.clone();
        let zero = zero.unwrap_or_else(|| vec![0; self.figures.len()]);
        self.lines.iter().fold(zero, |sum, line| {
            let both = sum.iter().zip(&line.figures);
            both.map(|(a, b)| a + b).collect()
        })
    }

    /// The text of the report; `cost`: lines about the session.
    pub fn render(&self, form: Form, report: &Report, cost: &str) -> String {
        let lines = &self.lines[..form.lines.min(self.lines.len())];
        match form.format {
            Format::Text => fit(self.text(lines, form.width) + cost, form.width),
            Format::Json => self.json(lines, report),
            Format::Csv => self.csv(lines),
        }
    }

    fn text(&self, lines: &[Line], width: Option<usize>) -> String {
        let total = self.total();
        let titles = self.keys.iter().map(|key| key.to_uppercase());
        let seen = self.seen(&total);
        let figures = seen.iter().map(|at| self.figures[*at].title.to_owned());
        let ratio = [self.ratio.title.to_owned()];
        let mut cells = vec![titles.chain(figures).chain(ratio).collect::<Vec<_>>()];
        for line in lines {
            let keys = line.keys.iter().map(Key::shown);
            cells.push(keys.chain(self.shown(&line.figures, &total)).collect());
        }
        if let Some((mut keys, figures)) = self.without_room("-") {
            keys.extend(self.shown(figures, &total));
            cells.push(keys);
        }
        let mut text = table_within(&cells, self.keys.len(), width);
        if !self.keys.is_empty() {
            text += &self.summary(lines.len(), &total);
        }
        text
    }

    /// The line of the sums without room, if there are any. The first key is a word, the other keys
    /// are `none`.
    fn without_room(&self, none: &str) -> Option<(Vec<String>, &[u64])> {
        let some = |other: &&Vec<u64>| other.iter().any(|figure| *figure > 0);
        let other = self.other.as_ref().filter(some)?;
        let mut keys = vec![none.to_owned(); self.keys.len()];
        *keys.first_mut()? = "(other)".into();
        Some((keys, other))
    }

    fn summary(&self, shown: usize, total: &[u64]) -> String {
        let figures: Vec<String> = (self.seen(total).into_iter())
            .map(|at| {
                let title = self.figures[at].title.to_lowercase();
                format!("{title} {}", grouped(total[at]))
            })
            .collect();
        let mut text = format!("# all together: {}\n", figures.join(", "));
        if shown < self.lines.len() {
            text += &format!(
                "# {shown} of {} lines; more with --limit\n",
                self.lines.len()
            );
        }
        text
    }

    /// Figures and the computed column.
    fn shown(&self, figures: &[u64], total: &[u64]) -> Vec<String> {
        let Ratio { figure, of, .. } = self.ratio;
        let part = figures[figure];
        let ratio = match of {
            Of::Total => percent(part, total[figure]),
            Of::Percent(whole) => percent(part, figures[whole]),
            Of::Mean(number) => mean(part, figures[number]),
        };
        let seen = self.seen(total).into_iter();
        let figures = seen.map(|at| grouped(figures[at]));
        figures.chain([ratio]).collect()
    }

    fn json(&self, lines: &[Line], report: &Report) -> String {
        let row = |line: &Line| {
            let keys = line.keys.iter().map(|key| match key {
                Key::Text(text) => Value::from(text.as_str()),
                Key::Number(number) => Value::from(*number),
            });
            let names = self.keys.iter().map(|key| (*key).to_owned());
            names.zip(keys).chain(self.members(&line.figures)).collect()
        };
        let object = Object {
            command: "count",
            kind: self.kind,
            by: &self.keys,
            rows: lines.iter().map(row).collect(),
            total: self.members(&self.total()).collect(),
            other: self
                .other
                .as_ref()
                .map(|other| self.members(other).collect()),
            beside: &self.beside,
            calls: report.rows.iter().map(|row| row.calls).sum(),
            missed: report.missed(),
            cut_short: report.cut_short,
            duration_ns: report.duration_ns,
        };
        text::json(&object)
    }

    fn members(&self, figures: &[u64]) -> impl Iterator<Item = (String, Value)> {
        let names = self.figures.iter().map(|figure| figure.name.to_owned());
        names.zip(
            figures
                .iter()
                .map(|figure| Value::from(*figure))
                .collect::<Vec<_>>(),
        )
    }

    fn csv(&self, lines: &[Line]) -> String {
        let names = self.figures.iter().map(|figure| figure.name);
        let heading: Vec<&str> = self.keys.iter().copied().chain(names).collect();
        let mut text = heading.join(",") + "\n";
        let mut add = |keys: Vec<String>, figures: &[u64]| {
            let figures = figures.iter().map(u64::to_string);
            text += &keys
                .into_iter()
                .chain(figures)
                .collect::<Vec<_>>()
                .join(",");
            text.push('\n');
        };
        for line in lines {
            add(line.keys.iter().map(Key::quoted).collect(), &line.figures);
        }
        if let Some((keys, figures)) = self.without_room("") {
            add(keys, figures);
        }
        text
    }
}

fn percent(part: u64, whole: u64) -> String {
    text::percent(part, whole)
}

fn mean(part: u64, number: u64) -> String {
    match (part as f64, number) {
        (_, 0) => "-".into(),
        (part, number) if part >= 1000.0 * number as f64 => {
            grouped((part / number as f64).round() as u64)
        }
        (part, number) => format!("{:.2}", part / number as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::report::tests::sample;
    use jifl_sys::abi::Kind;

    fn form(format: Format, lines: usize) -> Form {
        Form {
            format,
            lines,
            width: None,
        }
    }

    fn sheet() -> Sheet {
        let line = |comm: &str, pid, calls, sum| Line {
            keys: vec![Key::Text(comm.into()), Key::Number(pid)],
            figures: vec![calls, sum],
        };
        let mut sheet = Sheet {
            kind: "insn",
            keys: vec!["comm", "pid"],
            figures: vec![
                Figure {
                    name: "calls",
                    title: "CALLS",
                },
                Figure {
                    name: "instructions",
                    title: "INSNS",
                },
            ],
            ratio: Ratio {
                title: "INSN/CALL",
                figure: 1,
                of: Of::Mean(0),
            },
            optional: 0..0,
            lines: vec![line("sh", 7, 10, 1_000), line("a,\"\x1b", 8, 1, 5_000)],
            other: Some(vec![2, 30]),
            beside: BTreeMap::from([("keys", 2)]),
        };
        sheet.sort(1);
        sheet
    }

    #[test]
    fn people_see_a_table_and_its_sum() {
        assert_eq!(
            sheet().render(form(Format::Text, 9), &sample(Kind::Insn), "# cost\n"),
            "COMM     PID  CALLS  INSNS  INSN/CALL\n\
             a,\"?       8      1  5,000      5,000\n\
             sh         7     10  1,000     100.00\n\
             (other)    -      2     30      15.00\n\
             # all together: calls 13, insns 6,030\n\
             # cost\n"
        );
        let short = sheet().render(form(Format::Text, 1), &sample(Kind::Insn), "");
        assert!(
            short.ends_with("# 1 of 2 lines; more with --limit\n"),
            "{short}"
        );
        let narrow = Form {
            width: Some(24),
            ..form(Format::Text, 9)
        };
        let text = sheet().render(narrow, &sample(Kind::Insn), "# missed 1,000,000 calls\n");
        assert!(
            text.lines().all(|line| line.chars().count() <= 24),
            "{text}"
        );
        assert!(text.ends_with("# missed 1,000,000 calls\n"), "{text}");
    }

    #[test]
    fn shares_are_of_the_sum_or_of_another_column() {
        let mut sheet = sheet();
        sheet.ratio.of = Of::Total;
        assert_eq!(sheet.shown(&[1, 603], &sheet.total())[2], "10.0%");
        sheet.ratio.of = Of::Percent(0);
        assert_eq!(sheet.shown(&[4, 1], &sheet.total())[2], "25.0%");
        assert_eq!(mean(1, 0), "-");
    }

    #[test]
    fn optional_columns_without_figures_are_for_programs() {
        let mut sheet = sheet();
        sheet.optional = 0..1;
        let text = sheet.render(form(Format::Text, 1), &sample(Kind::Insn), "");
        assert!(text.contains("CALLS"), "{text}");
        sheet.lines.iter_mut().for_each(|line| line.figures[0] = 0);
        sheet.other = Some(vec![0, 0]);
        let text = sheet.render(form(Format::Text, 1), &sample(Kind::Insn), "");
        assert!(text.contains("# all together: insns 6,000\n"), "{text}");
        assert!(!text.contains("CALLS"), "{text}");
        let text = sheet.render(form(Format::Csv, 9), &sample(Kind::Insn), "");
        assert!(text.starts_with("comm,pid,calls,instructions\n"), "{text}");
    }

    #[test]
    fn without_keys_it_is_one_line() {
        let mut sheet = sheet();
        sheet.keys.clear();
        sheet.other = None;
        sheet.lines = vec![Line {
            keys: Vec::new(),
            figures: vec![1, 2],
        }];
        assert_eq!(
            sheet.render(form(Format::Text, 9), &sample(Kind::Insn), ""),
            "CALLS  INSNS  INSN/CALL\n1          2       2.00\n"
        );
    }

    #[test]
    fn programs_get_objects_and_columns() {
        let text = sheet().render(form(Format::Json, 9), &sample(Kind::Insn), "");
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["by"], serde_json::json!(["comm", "pid"]));
        assert_eq!(value["rows"][1]["comm"], "sh");
        assert_eq!(value["rows"][1]["pid"], 7);
        assert_eq!(value["rows"][1]["instructions"], 1_000);
        assert_eq!(value["total"]["instructions"], 6_030);
        assert_eq!(value["other"]["calls"], 2);
        assert_eq!((&value["keys"], &value["calls"]), (&2.into(), &1207.into()));
        let text = sheet().render(form(Format::Csv, 9), &sample(Kind::Insn), "");
        assert_eq!(
            text,
            "comm,pid,calls,instructions\n\"a,\"\"\x1b\",8,1,5000\nsh,7,10,1000\n(other),,2,30\n"
        );
    }
}
