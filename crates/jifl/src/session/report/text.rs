// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report for people.

use jifl_sys::abi::Kind;

use super::{Report, Row};
use crate::base::duration;
use crate::show::output::{fit, shortened};

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

/// A mean that is whole is shown so: equal calls show their exact cost.
fn mean(row: &Row) -> String {
    if row.calls == 0 {
        return "-".into();
    }
    if row.sum % row.calls == 0 || row.mean() >= 1000.0 {
        return grouped(row.mean().round() as u64);
    }
    format!("{:.1}", row.mean())
}

/// Lines that begin with `#`: what it cost and what it missed.
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

/// Aligns columns: the first to the left, all others to the right.
pub fn table(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        for (column, cell) in line.iter().enumerate() {
            let width = widths[column];
            if column == 0 {
                text += &format!("{cell:<width$}");
            } else {
                text += &format!("  {cell:>width$}");
            }
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text
}

/// No name is made shorter than this for a terminal.
const NARROWEST: usize = 12;

/// A table that fits the terminal, if there is one: names, which stand in the first `names`
/// columns, give way first, then what stands at the right.
pub fn table_within(lines: &[Vec<String>], names: usize, width: Option<usize>) -> String {
    let whole = table(lines);
    let longest = whole.lines().map(|line| line.chars().count()).max();
    let over = longest
        .unwrap_or(0)
        .saturating_sub(width.unwrap_or(usize::MAX));
    if over == 0 {
        return whole;
    }
    let mut lines = lines.to_vec();
    for column in 0..names {
        let cells = || lines.iter().filter_map(|line| line.get(column));
        let longest = cells().map(|cell| cell.chars().count()).max().unwrap_or(0);
        let room = longest.saturating_sub(over.div_ceil(names)).max(NARROWEST);
        for cell in lines.iter_mut().filter_map(|line| line.get_mut(column)) {
            *cell = shortened(cell, room);
        }
    }
    fit(table(&lines), width)
}

/// `38,211,348`
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// For the text of HTML and SVG, and for attributes in double quotes.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            _ => safe.push(letter),
        }
    }
    safe
}

/// Percentiles are good to 3 %, so more than three digits would pretend; below
/// 1,000 they are shown as they are.
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
    fn names_give_way_on_a_narrow_terminal() {
        let lines = [
            vec!["FUNCTION".to_owned(), "INSNS".into()],
            vec!["a_function_of_a_long_name".into(), "12,345".into()],
        ];
        assert_eq!(table_within(&lines, 1, None), table(&lines));
        assert_eq!(table_within(&lines, 1, Some(40)), table(&lines));
        assert_eq!(
            table_within(&lines, 1, Some(24)),
            "FUNCTION           INSNS\na_function_of_a…  12,345\n"
        );
        assert_eq!(
            table_within(&lines, 1, Some(16)),
            "FUNCTION       …\na_function_…  1…\n"
        );
    }

    #[test]
    fn several_names_give_way_alike() {
        let name = || "a_function_of_a_long_name".to_owned();
        let lines = [vec![name(), name(), "12".into()]];
        assert_eq!(
            table_within(&lines, 2, Some(46)),
            "a_function_of_a_lon…  a_function_of_a_lon…  12\n"
        );
    }

    #[test]
    fn numbers_are_short_and_right() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(12_345_678), "12,345,678");
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
