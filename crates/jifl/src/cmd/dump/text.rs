// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cache for people: blocks by function, the original on the left.

use super::view::{Piece, View};

/// A line below a block's heading.
struct Line {
    flags: String,
    dead: String,
    original: String,
    copy: String,
}

/// All blocks. Lines are cut to `width` columns, if it is given.
pub fn render(views: &[View], width: Option<usize>) -> String {
    let mut text = String::new();
    let mut function = None;
    for view in views {
        if function != Some(&view.function) {
            text += &format!(
                "{}{}:\n",
                if text.is_empty() { "" } else { "\n" },
                view.function
            );
            function = Some(&view.function);
        }
        text += &block(view, width);
    }
    text
}

fn block(view: &View, width: Option<usize>) -> String {
    let mut lines = vec![Line {
        flags: "LIVE".into(),
        dead: "DEAD".into(),
        original: "ORIGINAL".into(),
        copy: "  COPY".into(),
    }];
    lines.extend(view.segments.iter().flat_map(rows));
    cut_to(&mut lines, width);
    let widest = |cell: fn(&Line) -> &str| lines.iter().map(|line| chars(cell(line))).max();
    let flags = widest(|line| &line.flags).unwrap_or(0);
    let dead = widest(|line| &line.dead).unwrap_or(0);
    let original = widest(|line| &line.original).unwrap_or(0);
    let mut text = format!("\n{}\n", heading(view));
    for line in &lines {
        let shown = format!(
            "  {:<flags$}  {:<dead$}  {:<original$}  {}",
            line.flags, line.dead, line.original, line.copy
        );
        text += shown.trim_end();
        text.push('\n');
    }
    text
}

fn heading(view: &View) -> String {
    let insns = match view.insns {
        Some(1) => ", 1 instruction".into(),
        Some(insns) => format!(", {insns} instructions"),
        None => String::new(),
    };
    let mut notes: Vec<String> = view.flags.iter().map(|flag| (*flag).to_owned()).collect();
    notes.extend(
        view.sessions
            .iter()
            .map(|session| format!("session {session}")),
    );
    format!(
        "{} at {}, {} bytes{insns}; copy at {}, {} bytes ({})",
        view.name,
        view.orig,
        view.src.len() / 2,
        view.cache,
        view.code.len() / 2,
        if notes.is_empty() {
            "no session".into()
        } else {
            notes.join(", ")
        }
    )
}

/// Lines of a piece. The first has the source and the liveness; each has one instruction of the
/// copy.
fn rows(piece: &Piece) -> Vec<Line> {
    let mark = if piece.kind == "original" { ' ' } else { '+' };
    let mut lines = Vec::new();
    for index in 0..piece.copy.len().max(1) {
        let mut copy = match piece.copy.get(index) {
            Some(copy) => format!("{mark} {copy}"),
            None => String::new(),
        };
        if index == 0 {
            copy += &piece
                .by
                .as_ref()
                .map_or_else(String::new, |by| format!("  ; {by}"));
        }
        let first = |text: String| if index == 0 { text } else { String::new() };
        lines.push(Line {
            flags: first(piece.live_flags.clone().unwrap_or_default()),
            dead: first(piece.dead.join(" ")),
            original: first(piece.original.clone().unwrap_or_default()),
            copy,
        });
    }
    lines
}

/// Fits the columns to a line: registers get little room, the original and the copy half of the
/// rest each.
fn cut_to(lines: &mut [Line], width: Option<usize>) {
    const FLAGS_AND_GAPS: usize = 2 + 7 + 2 + 2 + 2;
    const DEAD: usize = 12;
    let Some(width) = width else { return };
    let widest = lines
        .iter()
        .map(|line| chars(&line.original))
        .max()
        .unwrap_or(0);
    let dead = lines
        .iter()
        .map(|line| chars(&line.dead))
        .max()
        .unwrap_or(0)
        .min(DEAD);
    let rest = width.saturating_sub(FLAGS_AND_GAPS + dead).max(20);
    let original = widest.min(rest / 2);
    for line in lines {
        cut(&mut line.dead, dead);
        cut(&mut line.original, original);
        cut(&mut line.copy, rest - original);
    }
}

fn cut(text: &mut String, width: usize) {
    if chars(text) > width {
        *text = text.chars().take(width.saturating_sub(1)).collect();
        text.push('~');
    }
}

fn chars(text: &str) -> usize {
    text.chars().count()
}
