// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report for people.

use std::cmp::Reverse;

use jifl_sys::abi::Kind;

use super::{Functions, Report, Row, Species};
use crate::base::duration;
use crate::show::output::fit;
use crate::show::table::table_within;
use crate::show::text::grouped;

/// Targets whose missed calls are listed, where targets are functions.
const MISSED_LINES: usize = 10;

/// The table and the lines of its cost. Of functions it has so many rows: there can be thousands.
pub fn render(report: &Report, most: usize, width: Option<usize>) -> String {
    let species = report.species();
    let (title, name): (_, fn(&Row) -> String) = match species {
        Species::Syscalls => ("SYSCALL", Row::shown),
        Species::Functions => ("FUNCTION", Row::shown),
        Species::Both => ("TARGET", Row::target),
    };
    let most = match species {
        Species::Syscalls => usize::MAX,
        Species::Functions | Species::Both => most,
    };
    let mut lines = vec![heading(report.kind, title)];
    let rows = report.rows.iter().take(most);
    lines.extend(rows.map(|row| cells(report.kind, row, name(row))));
    let mut below = cost(report);
    if report.rows.len() > most {
        let all = grouped(report.rows.len() as u64);
        below = format!("# {most} of {all} lines; more with --limit\n{below}");
    }
    table_within(&lines, 1, width) + &fit(below, width)
}

fn heading(kind: Kind, title: &str) -> Vec<String> {
    let titles: &[&str] = match kind {
        Kind::Insn => &["INSNS", "INSN/CALL", "p50", "p99"],
        Kind::Block => &["EXECUTED", "EXEC/CALL", "p50", "p99"],
        _ => &[],
    };
    let mut all = vec![title, "CALLS"];
    all.extend(titles);
    all.push("BLOCKS");
    all.into_iter().map(str::to_owned).collect()
}

fn cells(kind: Kind, row: &Row, name: String) -> Vec<String> {
    let mut cells = vec![name, grouped(row.calls)];
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
    let exits = grouped(cost.exits()) + &causes(&cost.native_exits);
    let mut text = format!(
        "# translation {} once, {} blocks; native exits {exits}; missed {}\n",
        duration::show(cost.translate_ns),
        grouped(cost.blocks),
        grouped(report.missed())
    );
    text += &missed(report);
    if let Some(functions) = &report.functions {
        text += &doors(functions);
    }
    text += &adopted(report);
    if cost.module_wide {
        text += "# other sessions ran meanwhile: translation and native exits are module-wide\n";
    }
    text
}

/// ` (schedule 9, ud2 3)`
fn causes(counts: &[(String, u64)]) -> String {
    if counts.is_empty() {
        return String::new();
    }
    let counts = counts.iter();
    let counts = counts.map(|(name, count)| format!("{name} {}", grouped(*count)));
    format!(" ({})", counts.collect::<Vec<_>>().join(", "))
}

/// A line for each target of which calls were missed. Of functions those with the most.
fn missed(report: &Report) -> String {
    let mut rows: Vec<&Row> = report.rows.iter().filter(|row| row.missed > 0).collect();
    let mut rest = String::new();
    if report.functions.is_some() && rows.len() > MISSED_LINES {
        rows.sort_by_key(|row| Reverse(row.missed));
        let others = rows.split_off(MISSED_LINES);
        let calls: u64 = others.iter().map(|row| row.missed).sum();
        rest = format!(
            "# missed: {} calls of {} others{}\n",
            grouped(calls),
            grouped(others.len() as u64),
            causes(&report.missed_by()).replace(" (", "; of all: (")
        );
    }
    let line = |row: &&Row| {
        let plural = if row.missed == 1 { "" } else { "s" };
        let count = grouped(row.missed);
        let by = causes(&row.missed_by);
        format!("# missed: {count} call{plural} of {}{by}\n", row.shown())
    };
    rows.iter().map(line).collect::<String>() + &rest
}

fn doors(functions: &Functions) -> String {
    let left_out: u64 = functions.left_out.iter().map(|(_, count)| count).sum();
    if left_out == 0 {
        return String::new();
    }
    format!(
        "# {} functions instrumented, {} left out{}\n",
        grouped(functions.entered),
        grouped(left_out),
        causes(&functions.left_out)
    )
}

/// The tasks that were inside at the start, and a line for each target whose calls they were in.
pub fn adopted(report: &Report) -> String {
    let Some(adoption) = &report.adoption else {
        return String::new();
    };
    let left: u64 = adoption.left.iter().map(|(_, count)| count).sum();
    if adoption.tasks + left == 0 {
        return String::new();
    }
    let mut text = format!(
        "# adopted: {} tasks that were inside; {} left alone{}\n",
        grouped(adoption.tasks),
        grouped(left),
        causes(&adoption.left)
    );
    let unit = match report.kind {
        Kind::Insn => "instructions",
        Kind::Block => "blocks",
        Kind::Trace => "functions",
        _ => return text,
    };
    for row in report.rows.iter().filter(|row| row.adopted > 0) {
        text += &format!(
            "# adopted: {} calls of {}, with {} {unit} from then on\n",
            grouped(row.adopted),
            row.shown(),
            grouped(row.adopted_sum)
        );
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
    use super::super::tests::{of_functions, sample};
    use super::*;

    #[test]
    fn the_table_of_instructions() {
        assert_eq!(
            render(&sample(Kind::Insn), 1, None),
            "SYSCALL  CALLS       INSNS  INSN/CALL    p50    p99  BLOCKS\n\
             clone    1,204  38,211,348     31,737  30.9K  88.1K   2,310\n\
             read         3       2,022        674    674    674   2,310\n\
             # translation 41 ms once, 2,400 blocks; native exits 12 (schedule 9, ud2 3); missed 0\n"
        );
    }

    #[test]
    fn other_kinds_say_what_they_count() {
        assert!(render(&sample(Kind::Block), 1, None).contains("EXECUTED"));
        assert!(render(&sample(Kind::Call), 1, None).starts_with("SYSCALL  CALLS  BLOCKS\n"));
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
    fn functions_have_modules_causes_and_a_limit() {
        let mut report = of_functions(Kind::Call);
        report.rows[1].missed = 3;
        report.rows[1].missed_by = vec![("softirq".into(), 2), ("nmi".into(), 1)];
        assert_eq!(
            render(&report, 2, None),
            "FUNCTION               CALLS  BLOCKS\n\
             vfs_read               1,204   2,310\n\
             ext4_sync_file [ext4]      3   2,310\n\
             # translation 41 ms once, 2,400 blocks; native exits 12 (schedule 9, ud2 3); missed 3\n\
             # missed: 3 calls of ext4_sync_file [ext4] (softirq 2, nmi 1)\n\
             # 12 functions instrumented, 3 left out (JIFL itself needs it 3)\n"
        );
        report.rows.push(sample(Kind::Call).rows[1].clone());
        let text = render(&report, 1, None);
        assert!(
            text.starts_with("TARGET       CALLS  BLOCKS\nfn:vfs_read"),
            "{text}"
        );
        assert!(
            text.contains("\n# 1 of 3 lines; more with --limit\n"),
            "{text}"
        );
    }

    #[test]
    fn missed_calls_of_many_functions_are_summed_up() {
        let mut report = of_functions(Kind::Call);
        let row = report.rows[0].clone();
        report.rows = (1..=12)
            .map(|missed| {
                let mut row = row.clone();
                row.name = format!("f{missed}");
                row.missed = missed;
                row.missed_by = vec![("softirq".into(), missed)];
                row
            })
            .collect();
        let text = cost(&report);
        assert!(
            text.contains("# missed: 12 calls of f12 (softirq 12)\n"),
            "{text}"
        );
        assert!(!text.contains("of f2 "), "{text}");
        let rest = "# missed: 3 calls of 2 others; of all: (softirq 78)\n";
        assert!(text.contains(rest), "{text}");
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
