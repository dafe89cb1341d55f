// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes as text, for people.

use std::fmt::Write as _;

use super::show::{Branch, Shown, Spot};
use crate::kernel::errno;

/// Maximum of branches of the deciding function that are shown before the deciding one, and after
/// it.
const SHOWN: usize = 5;

/// A line in columns, below an indentation.
struct Row {
    depth: usize,
    cells: [String; 4],
}

/// A cause; with `path` all branches of the call, otherwise the last ones in the function that
/// decided.
pub fn text(shown: &Shown, path: bool) -> String {
    let names = [&shown.syscall, &shown.function];
    let name = names.into_iter().flatten().next();
    let name = name.map_or("", String::as_str);
    let mut text = format!("{name} = {}", shown.result());
    if let Some(words) = errno::description(shown.number).filter(|_| shown.number > 0) {
        let _ = write!(text, " ({words})");
    }
    if shown.calls > 1 {
        let _ = write!(text, ", {} times", shown.calls);
    }
    text.push('\n');
    let mut rows = chain(shown);
    if path {
        rows.extend(all(shown));
    } else {
        rows.extend(few(shown));
    }
    text += &columns(&rows);
    if let Some(note) = note(shown) {
        let _ = writeln!(text, "  {note}");
    }
    text
}

/// The chain from the system call to the function where the error comes from.
fn chain(shown: &Shown) -> Vec<Row> {
    let row = |name: String, line| Row {
        depth: 1,
        cells: [name, line, String::new(), String::new()],
    };
    let mut rows: Vec<Row> = shown
        .chain
        .iter()
        .filter_map(|link| {
            let calls = link.calls.as_ref()?;
            let verb = if link.jumps { "jumps to" } else { "calls" };
            Some(row(format!("{} {verb}", calls.name), line(calls)))
        })
        .collect();
    rows.extend(
        shown
            .chain
            .last()
            .map(|last| row(last.function.clone(), String::new())),
    );
    rows
}

fn decides(shown: &Shown) -> Option<&Branch> {
    shown.branches.get(shown.decided?)
}

/// The last branches in the deciding function, and the origin of the error.
fn few(shown: &Shown) -> Vec<Row> {
    let last = shown.chain.last().map_or("", |link| &link.function);
    let mut rows = Vec::new();
    if let Some(decides) = decides(shown) {
        let to = shown.origin.as_ref().map_or(0, |origin| origin.step);
        let to = to.max(decides.step);
        let own = |branch: &&Branch| branch.frame == decides.frame && branch.step <= to;
        let own: Vec<&Branch> = shown.branches.iter().filter(own).collect();
        let at = own.iter().position(|branch| branch.step == decides.step);
        let at = at.unwrap_or(0) + 1;
        if decides.function != last {
            rows.push(Row {
                depth: 2,
                cells: [
                    format!("always returns it; in {}", decides.function),
                    String::new(),
                    String::new(),
                    String::new(),
                ],
            });
        }
        let (before, behind) = own.split_at(at);
        let before = &before[before.len().saturating_sub(SHOWN)..];
        let each = |branch: &&Branch| row(shown, branch, 2, &decides.function);
        rows.extend(before.iter().map(each));
        rows.extend(quoted(decides, 2));
        rows.extend(behind.iter().take(SHOWN).map(each));
    }
    rows.extend(origin(shown, last));
    rows
}

/// All branches, below their functions.
fn all(shown: &Shown) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut frame = None;
    for branch in &shown.branches {
        if frame.replace(branch.frame) != Some(branch.frame) {
            rows.push(Row {
                depth: branch.depth + 2,
                cells: [
                    branch.function.clone(),
                    String::new(),
                    String::new(),
                    String::new(),
                ],
            });
        }
        rows.push(row(shown, branch, branch.depth + 3, &branch.function));
        if decides(shown).is_some_and(|decides| decides.step == branch.step) {
            rows.extend(quoted(branch, branch.depth + 3));
        }
    }
    rows.extend(origin(shown, ""));
    rows
}

fn row(shown: &Shown, branch: &Branch, depth: usize, function: &str) -> Row {
    let went = match branch.taken {
        Some(true) => "taken",
        Some(false) => "not taken",
        None => "chose it",
    };
    let is_it = decides(shown).is_some_and(|decides| decides.step == branch.step);
    let compare = branch.compare.as_ref();
    let compare = compare.map_or_else(String::new, |text| format!("{text}; "));
    Row {
        depth,
        cells: [
            offset(&branch.at.name, function),
            line(&branch.at),
            format!("{compare}{}", short(&branch.text, function)),
            format!("{went}{}", if is_it { "  <-- decided here" } else { "" }),
        ],
    }
}

fn origin(shown: &Shown, function: &str) -> Option<Row> {
    let origin = shown.origin.as_ref()?;
    let note = origin.note.clone();
    Some(Row {
        depth: 2,
        cells: [
            offset(&origin.at.name, function),
            line(&origin.at),
            short(&origin.text, function),
            note.unwrap_or_else(|| shown.result()),
        ],
    })
}

/// Only the offset of a place, if the place is in a function that has been named.
fn offset(name: &str, function: &str) -> String {
    let name_only = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
    let bare = name_only(function);
    match name_only(name).strip_prefix(&bare) {
        Some("") if !bare.is_empty() => "+0x0".into(),
        Some(rest) if rest.starts_with('+') => rest.to_owned(),
        _ => name.to_owned(),
    }
}

/// An instruction whose branch target is shortened in the same way.
fn short(text: &str, function: &str) -> String {
    match text.rsplit_once(' ') {
        Some((mnemonic, target)) if text.starts_with('j') => {
            format!("{mnemonic} {}", offset(target, function))
        }
        _ => text.to_owned(),
    }
}

/// `fs/open.c:1390 (inlined)`, if lines are known.
fn line(spot: &Spot) -> String {
    let (Some(file), Some(line)) = (&spot.file, spot.line) else {
        return String::new();
    };
    // Wrappers that every system call has tell the reader nothing. Neither does a part of a
    // function that has the function's name.
    let own = spot.name.split(['+', '.', ' ']).next().unwrap_or_default();
    let says = |name: &&&str| {
        !name.starts_with("__do_sys_") && !name.starts_with("__se_sys_") && **name != own
    };
    let inlined: Vec<&str> = spot.inlined.iter().map(String::as_str).collect();
    let inlined: Vec<&str> = inlined.iter().filter(says).copied().collect();
    match inlined.as_slice() {
        [] => format!("{file}:{line}"),
        inlined => format!("{file}:{line} ({})", inlined.join(" in ")),
    }
}

/// The text of the line that decided, if it is available.
fn quoted(branch: &Branch, depth: usize) -> Option<Row> {
    let source = branch.at.source.as_ref()?;
    Some(Row {
        depth: depth + 1,
        cells: [
            format!("| {source}"),
            String::new(),
            String::new(),
            String::new(),
        ],
    })
}

/// Unknown parts of a cause, and further notes.
fn note(shown: &Shown) -> Option<String> {
    let Some(origin) = &shown.origin else {
        return Some("nothing is known of what it did".into());
    };
    if origin.kind == "constant" && shown.decided.is_none() {
        return Some("no branch decided: it is returned always".into());
    }
    let fault = shown.fault.as_ref().filter(|_| origin.kind != "fault")?;
    Some(format!(
        "before that an exception at {}, mended by the kernel's fixup",
        fault.name
    ))
}

fn columns(rows: &[Row]) -> String {
    let indented = |row: &Row| format!("{}{}", "  ".repeat(row.depth), row.cells[0]);
    let is_alone = |row: &&Row| row.cells[1..].iter().all(String::is_empty);
    let mut text = String::new();
    // The lines of a chain are aligned on their own.
    for rows in rows.chunk_by(|a, b| (a.depth == 1) == (b.depth == 1)) {
        let width = |column: usize| {
            let cell = |row: &Row| match column {
                0 => indented(row).chars().count(),
                _ => row.cells[column].chars().count(),
            };
            let aligned = rows.iter().filter(|row| !is_alone(row));
            aligned.map(cell).max().unwrap_or(0)
        };
        let widths = [width(0), width(1), width(2)];
        for row in rows {
            let mut line = format!("{:<1$}", indented(row), widths[0]);
            for column in 1..4 {
                if column == 3 || widths[column] > 0 {
                    let width = widths.get(column).copied().unwrap_or(0);
                    let _ = write!(line, "  {:<width$}", row.cells[column]);
                }
            }
            text += line.trim_end();
            text.push('\n');
        }
    }
    text
}
