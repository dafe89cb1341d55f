// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report for people.

use jifl_sys::abi::Kind;

use super::{Report, Row};
use crate::base::duration;
use crate::show::output::fit;
use crate::show::table::table_within;
use crate::show::text::grouped;

/// The table and the lines of its cost.
pub fn render(report: &Report, width: Option<usize>) -> String {
    let mut lines = vec![heading(report.kind)];
    lines.extend(report.rows.iter().map(|row| cells(report.kind, row)));
    table_within(&lines, 1, width) + &fit(cost(report), width)
}

fn heading(kind: Kind) -> Vec<String> {
    let titles: &[&str] = match kind {
        Kind::Insn => &[
            "SYSCALL",
            "CALLS",
            "INSNS",
            "INSN/CALL",
            "p50",
            "p99",
            "BLOCKS",
        ],
        Kind::Block => &[
            "SYSCALL",
            "CALLS",
            "EXECUTED",
            "EXEC/CALL",
            "p50",
            "p99",
            "BLOCKS",
        ],
        _ => &["SYSCALL", "CALLS", "BLOCKS"],
    };
    titles.iter().map(|title| (*title).to_owned()).collect()
}

fn cells(kind: Kind, row: &Row) -> Vec<String> {
    let mut cells = vec![row.name.clone(), grouped(row.calls)];
    if matches!(kind, Kind::Insn | Kind::Block) {
        let percentile = |value: Option<u64>| value.map_or_else(|| "-".into(), short);
        cells.extend([
            grouped(row.sum),
            mean(row),
            percentile(row.p50),
            percentile(row.p99),
        ]);
    }
    cells.push(grouped(row.blocks));
    cells
}

/// A whole mean is shown without a fraction: equal calls show their exact cost.
fn mean(row: &Row) -> String {
    if row.calls == 0 {
        return "-".into();
    }
    if row.sum % row.calls == 0 || row.mean() >= 1000.0 {
        return grouped(row.mean().round() as u64);
    }
    format!("{:.1}", row.mean())
}

/// Lines that begin with `#`: the session's cost, and the calls that it missed.
pub fn cost(report: &Report) -> String {
    let cost = &report.cost;
    let mut exits = grouped(cost.exits());
    if !cost.native_exits.is_empty() {
        let causes: Vec<String> = cost
            .native_exits
            .iter()
            .map(|(name, count)| format!("{name} {}", grouped(*count)))
            .collect();
        exits += &format!(" ({})", causes.join(", "));
    }
    let mut text = format!(
        "# translation {} once, {} blocks; native exits {exits}; missed {}\n",
        duration::show(cost.translate_ns),
        grouped(cost.blocks),
        grouped(report.missed())
    );
    for row in report.rows.iter().filter(|row| row.missed > 0) {
        let plural = if row.missed == 1 { "" } else { "s" };
        let count = grouped(row.missed);
        text += &format!("# missed: {count} call{plural} of {}\n", row.name);
    }
    if cost.module_wide {
        text += "# other sessions ran meanwhile: translation and native exits are module-wide\n";
    }
    text
}

/// Percentiles are exact to 3 %, so they are shown with three digits; below 1,000 they are shown as
/// they are.
fn short(value: u64) -> String {
    const UNITS: [(u64, &str); 4] = [
        (1_000_000_000_000, "T"),
        (1_000_000_000, "G"),
        (1_000_000, "M"),
        (1_000, "K"),
    ];
    for (scale, unit) in UNITS {
        if value >= scale {
            let value = value as f64 / scale as f64;
            let digits = match value {
                v if v < 10.0 => 2,
                v if v < 100.0 => 1,
                _ => 0,
            };
            return format!("{value:.digits$}{unit}");
        }
    }
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn the_table_of_instructions() {
        assert_eq!(
            render(&sample(Kind::Insn), None),
            "SYSCALL  CALLS       INSNS  INSN/CALL    p50    p99  BLOCKS\n\
             clone    1,204  38,211,348     31,737  30.9K  88.1K   2,310\n\
             read         3       2,022        674    674    674   2,310\n\
             # translation 41 ms once, 2,400 blocks; native exits 12 (schedule 9, ud2 3); missed 0\n"
        );
    }

    #[test]
    fn other_kinds_say_what_they_count() {
        assert!(render(&sample(Kind::Block), None).contains("EXECUTED"));
        assert!(render(&sample(Kind::Call), None).starts_with("SYSCALL  CALLS  BLOCKS\n"));
    }

    #[test]
    fn what_was_missed_is_said_by_name() {
        let mut report = sample(Kind::Insn);
        report.rows[1].missed = 2;
        report.cost.module_wide = true;
        let text = cost(&report);
        assert!(text.contains("; missed 2\n"), "{text}");
        assert!(text.contains("# missed: 2 calls of read\n"), "{text}");
        assert!(text.contains("module-wide"), "{text}");
    }

    #[test]
    fn percentiles_are_short() {
        for (value, text) in [
            (999, "999"),
            (1_000, "1.00K"),
            (30_912, "30.9K"),
            (123_456, "123K"),
            (2_500_000, "2.50M"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
