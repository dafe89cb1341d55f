// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sheet for people.

use super::front_end;
use super::sheet::{Cell, Figure, Goal, NATIVE, Row, Sheet};
use crate::show::table::table;
use crate::show::text::grouped;

/// The table of slowdowns, then what does not fit into it, a line each.
pub fn render(sheet: &Sheet) -> String {
    let mut text = heading(sheet);
    let rows: Vec<&Row> = sheet
        .rows
        .iter()
        .filter(|row| row.missing.is_none())
        .collect();
    let mut lines = vec![titles(sheet, &rows)];
    for op in &sheet.ops {
        let mut line = vec![op.name.clone()];
        for row in &rows {
            let cell = row.cells.iter().find(|cell| cell.op == op.name);
            line.push(cell.map_or_else(|| "-".into(), |cell| shown(sheet, row, cell)));
            if is_noisy(sheet) && row.key == NATIVE {
                line.push(cell.map_or_else(|| "-".into(), noise));
            }
        }
        lines.push(line);
    }
    if !sheet.ops.is_empty() {
        text += &table(&lines);
    }
    for figure in &sheet.figures {
        text += &format!("# {}\n", figure_line(figure));
    }
    for line in remarks(sheet) {
        text += &format!("# {line}\n");
    }
    text
}

fn heading(sheet: &Sheet) -> String {
    let machine = &sheet.machine;
    let plural = if machine.cpus == 1 { "" } else { "s" };
    let units: std::collections::BTreeSet<&str> =
        sheet.ops.iter().map(|op| op.unit.as_str()).collect();
    let units: Vec<&str> = units.into_iter().collect();
    let units = units.join(", ");
    let columns = match front_end::is_event(&sheet.clock) {
        true => format!("all columns: {units}, of a round\n"),
        false => {
            let native = NATIVE.to_uppercase();
            format!("{native} column: {units}; others: slowdown\n")
        }
    };
    format!(
        "{} by {}: Linux {}, {}, {}, {} CPU{plural}\n",
        sheet.set, sheet.clock, machine.kernel, machine.cpu, machine.accelerator, machine.cpus,
    ) + &columns
}

fn titles(sheet: &Sheet, rows: &[&Row]) -> Vec<String> {
    let mut titles = vec!["OPERATION".to_owned()];
    for row in rows {
        titles.push(row.key.to_uppercase());
        if is_noisy(sheet) && row.key == NATIVE {
            titles.push("NOISE".into());
        }
    }
    titles
}

/// True if figures have noise. Instructions are exact.
fn is_noisy(sheet: &Sheet) -> bool {
    sheet.clock == "time"
}

/// The largest distance of a row's rounds from their median.
fn noise(cell: &Cell) -> String {
    let [least, largest] = cell.spread;
    match cell.is_valid() {
        true => format!("{:.0} %", 100.0 * (1.0 - least).max(largest - 1.0)),
        false => "-".into(),
    }
}

fn shown(sheet: &Sheet, row: &Row, cell: &Cell) -> String {
    match &cell.void {
        Some(_) => "void".into(),
        None if row.key == NATIVE || front_end::is_event(&sheet.clock) => number(cell.value),
        None => format!("{:.3}", cell.ratio),
    }
}

/// A figure, without a fraction if it is large.
fn number(value: f64) -> String {
    if value.fract() == 0.0 || value >= 1000.0 {
        grouped(value.round() as u64)
    } else {
        format!("{value:.2}")
    }
}

fn figure_line(figure: &Figure) -> String {
    let value = match figure.value {
        Some(value) if value < 100.0 => format!("{value:.3}"),
        Some(value) => number(value),
        None => "nothing valid".into(),
    };
    let goal = match figure.goal {
        Some(Goal::AtMost(limit)) => format!(" (to reach: at most {})", limit_text(limit)),
        Some(Goal::AtLeast(limit)) => format!(" (to reach: at least {})", limit_text(limit)),
        None => String::new(),
    };
    format!("{}: {value} {}{goal}", figure.name, figure.unit)
}

fn limit_text(limit: f64) -> String {
    if limit < 100.0 && limit.fract() != 0.0 || limit < 10.0 {
        format!("{limit:.2}")
    } else {
        grouped(limit as u64)
    }
}

/// What is missing, what is void and why, and notes; one line each.
pub fn remarks(sheet: &Sheet) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &sheet.rows {
        if let Some(why) = &row.missing {
            lines.push(format!("missing: {}: {why}", row.title));
        }
        for cell in &row.cells {
            if let Some(why) = &cell.void {
                lines.push(format!("void: {}, {}: {why}", row.title, cell.op));
            }
        }
    }
    lines.extend(sheet.notes.iter().cloned());
    lines
}

#[cfg(test)]
mod tests {
    use super::super::sheet::tests::sample;
    use super::*;

    #[test]
    fn void_and_missing_rows_say_why_in_one_line_each() {
        let text = render(&sample());
        for line in [
            "OPERATION  NATIVE   NONE  BLOCK",
            "null          100  1.100  1.250",
            "read          400  0.900   void",
            "# void: block in words, read: counted 0 of 300 calls",
            "# missing: BPF fentry, block count: no BTF",
            "# a note",
        ] {
            assert!(text.lines().any(|l| l == line), "{line:?} in\n{text}");
        }
    }

    #[test]
    fn time_has_its_noise_beside_it() {
        let mut sheet = sample();
        assert!(!render(&sheet).contains("NOISE"));
        sheet.clock = "time".into();
        sheet.rows[0].cells[0].spread = [0.9, 1.25];
        let text = render(&sheet);
        let line = "null          100   25 %  1.100  1.250";
        assert!(text.lines().any(|l| l == line), "{line:?} in\n{text}");
    }

    #[test]
    fn figures_show_their_goals() {
        let figure = |value, goal| Figure {
            name: "n".into(),
            value,
            unit: "u".into(),
            goal,
        };
        for (figure, line) in [
            (
                figure(Some(0.9871), Some(Goal::AtMost(1.0))),
                "n: 0.987 u (to reach: at most 1.00)",
            ),
            (
                figure(Some(5432.1), Some(Goal::AtMost(6000.0))),
                "n: 5,432 u (to reach: at most 6,000)",
            ),
            (figure(None, None), "n: nothing valid u"),
        ] {
            assert_eq!(figure_line(&figure), line);
        }
    }
}
