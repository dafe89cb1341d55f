// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl diff`: two recordings side by side, by function, or by system call where they have nothing
//! else.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::base::exit::{DONE, Failure};
use crate::session::blocks::{self, Show};
use crate::session::recording::{Recording, sum};
use crate::show::output::{self, Format};
use crate::show::table::table_within;
use crate::show::text;
use crate::show::text::grouped;
use jifl_sys::abi::Kind;

/// Arguments of `jifl diff`.
#[derive(Debug, Args)]
#[command(after_help = "\
Both must be of the same kernel build, and of the same kind. The largest difference comes first.

Example:
  jifl diff before.jifl after.jifl")]
pub struct DiffArgs {
    /// The earlier recording: changes are relative to it
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The later recording
    #[arg(value_name = "B")]
    b: PathBuf,
    #[command(flatten)]
    show: Show,
}

/// A function or a system call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amount {
    calls: u64,
    /// Instructions, or the other counted value.
    sum: u64,
}

/// A function or system call in both recordings.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    name: String,
    a: Amount,
    b: Amount,
}

impl Line {
    fn delta(&self) -> i128 {
        i128::from(self.b.sum) - i128::from(self.a.sum)
    }

    fn delta_calls(&self) -> i128 {
        i128::from(self.b.calls) - i128::from(self.a.calls)
    }
}

#[derive(Serialize)]
struct Object {
    command: &'static str,
    kind: &'static str,
    lines: Vec<LineObject>,
    sum_a: u64,
    sum_b: u64,
    calls_a: u64,
    calls_b: u64,
}

#[derive(Serialize)]
struct LineObject {
    name: String,
    calls_a: u64,
    calls_b: u64,
    a: u64,
    b: u64,
    delta: i128,
    /// The change in relation to A; `None` if A lacks the line.
    change: Option<f64>,
}

/// Runs the command; the result is the exit status.
pub fn run(args: &DiffArgs) -> Result<u8, Failure> {
    let (a, b) = (Recording::read(&args.a)?, Recording::read(&args.b)?);
    let names = (args.a.display().to_string(), args.b.display().to_string());
    sum::comparable((&names.0, &a), (&names.1, &b))?;
    let lines = lines(&a, &b);
    let mut sink = args.show.extent.sink()?;
    sink.write(&match args.show.format {
        Format::Text => text(&a, &b, &lines, &args.show),
        Format::Json => json(&a, &b, args.show.limited(&lines)),
    })?;
    Ok(DONE)
}

/// All differences, the largest first.
fn lines(a: &Recording, b: &Recording) -> Vec<Line> {
    let mut both: BTreeMap<Key, (Amount, Amount)> = BTreeMap::new();
    for (key, amount) in amounts(a) {
        both.entry(key).or_default().0 = amount;
    }
    for (key, amount) in amounts(b) {
        both.entry(key).or_default().1 = amount;
    }
    let line = |((name, ..), (a, b)): (Key, (Amount, Amount))| Line { name, a, b };
    let mut lines: Vec<Line> = both.into_iter().map(line).collect();
    lines.retain(|line| line.a != Amount::default() || line.b != Amount::default());
    lines.sort_by_key(|line| {
        let order = (
            line.delta().unsigned_abs(),
            line.delta_calls().unsigned_abs(),
            line.a.sum,
        );
        std::cmp::Reverse(order)
    });
    lines
}

/// Several functions may have the same name. Functions of the kernel are told apart by address. A
/// module may have been built anew, so its functions are told apart by their order.
type Key = (String, u64);

fn amounts(recording: &Recording) -> BTreeMap<Key, Amount> {
    if !recording.is_profile() {
        let rows = recording.report.rows.iter();
        let amount = |calls, sum| Amount { calls, sum };
        return rows
            .map(|row| ((row.name.clone(), 0), amount(row.calls, row.sum)))
            .collect();
    }
    let profile = recording.profile();
    let kernel = profile.images.kernel().map_or(0, |image| image.base);
    let mut amounts: BTreeMap<Key, Amount> = BTreeMap::new();
    for function in blocks::functions(&profile.blocks, &profile.symbols) {
        let is_modules = function.name.contains('[');
        let place = match is_modules {
            true => 0,
            false => function.address.wrapping_sub(kernel),
        };
        let amount = amounts.entry((function.name.clone(), place)).or_default();
        amount.calls = amount.calls.saturating_add(function.calls());
        amount.sum = amount.sum.saturating_add(function.instructions());
    }
    amounts
}

fn text(a: &Recording, b: &Recording, lines: &[Line], show: &Show) -> String {
    let what = match a.report.kind {
        Kind::Profile => ["FUNCTION", "INSNS A", "INSNS B"],
        Kind::Insn => ["SYSCALL", "INSNS A", "INSNS B"],
        Kind::Block => ["SYSCALL", "EXECUTED A", "EXECUTED B"],
        _ => ["SYSCALL", "", ""],
    };
    let titles = [
        what[0], what[1], what[2], "DELTA", "CHANGE", "CALLS A", "CALLS B",
    ];
    let mut cells = vec![titles.map(str::to_owned).to_vec()];
    let changed: Vec<&Line> = lines.iter().filter(|line| line.a != line.b).collect();
    let shown = show.limited(&changed);
    cells.extend(shown.iter().map(|line| row(line)));
    if what[1].is_empty() {
        cells.iter_mut().for_each(|line| drop(line.drain(1..5)));
    }
    let mut text = table_within(&cells, 1, show.width());
    let _ = writeln!(
        text,
        "# {} differ, {} are the same{}",
        grouped(changed.len() as u64),
        grouped((lines.len() - changed.len()) as u64),
        match shown.len() {
            n if n < changed.len() => format!("; {n} shown (--limit)"),
            _ => String::new(),
        }
    );
    let (in_a, in_b) = (sums(a, lines, |line| line.a), sums(b, lines, |line| line.b));
    let _ = writeln!(
        text,
        "# in all {} and {} ({}), system calls {} and {}",
        grouped(in_a.sum),
        grouped(in_b.sum),
        change(in_a.sum, in_b.sum),
        grouped(in_a.calls),
        grouped(in_b.calls)
    );
    output::fit(text, show.width())
}

/// The counted value of all lines, and the number of system calls.
fn sums(recording: &Recording, lines: &[Line], of: fn(&Line) -> Amount) -> Amount {
    Amount {
        calls: recording.calls(),
        sum: lines.iter().map(|line| of(line).sum).sum(),
    }
}

fn row(line: &Line) -> Vec<String> {
    let sign = if line.delta() < 0 { "-" } else { "+" };
    let delta = match u64::try_from(line.delta().unsigned_abs()).unwrap_or(u64::MAX) {
        0 => "0".into(),
        delta => format!("{sign}{}", grouped(delta)),
    };
    vec![
        line.name.clone(),
        grouped(line.a.sum),
        grouped(line.b.sum),
        delta,
        change(line.a.sum, line.b.sum),
        grouped(line.a.calls),
        grouped(line.b.calls),
    ]
}

/// `+12.3%`, `new`, `gone`
fn change(a: u64, b: u64) -> String {
    match (a, b) {
        (0, 0) => "-".into(),
        (0, _) => "new".into(),
        (_, 0) => "gone".into(),
        (a, b) => format!("{:+.1}%", relative(a, b) * 100.0),
    }
}

fn relative(a: u64, b: u64) -> f64 {
    (b as f64 - a as f64) / a as f64
}

fn json(a: &Recording, b: &Recording, lines: &[Line]) -> String {
    let (in_a, in_b) = (sums(a, lines, |line| line.a), sums(b, lines, |line| line.b));
    let object = |line: &Line| LineObject {
        name: line.name.clone(),
        calls_a: line.a.calls,
        calls_b: line.b.calls,
        a: line.a.sum,
        b: line.b.sum,
        delta: line.delta(),
        change: (line.a.sum > 0).then(|| relative(line.a.sum, line.b.sum)),
    };
    text::json(&Object {
        command: "diff",
        kind: a.kind(),
        lines: lines.iter().map(object).collect(),
        sum_a: in_a.sum,
        sum_b: in_b.sum,
        calls_a: in_a.calls,
        calls_b: in_b.calls,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parse::parse;
    use crate::session::recording::tests::recorded;
    use crate::session::report::tests::sample;
    use crate::show::output::Extent;

    fn show() -> Show {
        Show {
            format: Format::Text,
            extent: Extent {
                limit: None,
                output: Some("".into()),
            },
        }
    }

    /// In B, `outer` is executed twice as often as in A, `inner` as often.
    fn later() -> Recording {
        let mut recording = recorded();
        for block in &mut recording.blocks {
            let in_kernel = block.at.image == 0;
            block.executed = if in_kernel { 2 * block.executed } else { 0 };
        }
        recording.images[0].base += 0x100_0000;
        recording
    }

    #[test]
    fn the_documented_line_parses() {
        assert!(parse::<DiffArgs>("before.jifl after.jifl").is_ok());
        assert!(parse::<DiffArgs>("before.jifl").is_err());
    }

    #[test]
    fn the_largest_difference_comes_first() {
        let (a, b) = (recorded(), later());
        assert_eq!(
            text(&a, &b, &lines(&a, &b), &show()),
            "FUNCTION     INSNS A  INSNS B  DELTA   CHANGE  CALLS A  CALLS B\n\
             inner [nfs]      121        0   -121     gone       40        0\n\
             outer             55      110    +55  +100.0%       10       20\n\
             # 2 differ, 0 are the same\n\
             # in all 176 and 110 (-37.5%), system calls 0 and 0\n"
        );
        let value: serde_json::Value = serde_json::from_str(&json(&a, &b, &lines(&a, &b))).unwrap();
        assert_eq!(value["lines"][0]["delta"], -121);
        assert_eq!(value["lines"][1]["change"], 1.0);
        assert_eq!(value["sum_b"], 110);
    }

    #[test]
    fn the_same_does_not_differ() {
        let (a, b) = (recorded(), recorded());
        let text = text(&a, &b, &lines(&a, &b), &show());
        assert!(text.contains("# 0 differ, 2 are the same\n"), "{text}");
    }

    #[test]
    fn counts_are_compared_by_system_call() {
        let of = |kind| Recording {
            blocks: Vec::new(),
            symbols: Vec::new(),
            report: sample(kind),
            ..recorded()
        };
        let (a, mut b) = (of(Kind::Insn), of(Kind::Insn));
        b.report.rows[1].sum = 1011;
        let shown = text(&a, &b, &lines(&a, &b), &show());
        assert!(
            shown.contains("read       2,022    1,011  -1,011  -50.0%"),
            "{shown}"
        );
        let (a, mut b) = (of(Kind::Call), of(Kind::Call));
        b.report.rows[1].calls = 5;
        let shown = text(&a, &b, &lines(&a, &b), &show());
        assert!(
            shown.starts_with("SYSCALL  CALLS A  CALLS B\nread           3        5\n"),
            "{shown}"
        );
    }
}
