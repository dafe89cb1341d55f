// SPDX-License-Identifier: MIT OR Apache-2.0
//! The screen. It has no colours: it looks the same everywhere.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use super::app::{App, CALLER, CURVE, Mode};
use super::columns::COLUMNS;
use crate::cmd::stat::sheet::Row;
use crate::show::output::shortened;

/// Smaller terminals show nothing but that.
pub const SMALLEST: (u16, u16) = (40, 6);
/// No name is made shorter.
const NAME: usize = 16;

const HELP: [&str; 19] = [
    "j k, arrows    move; PageUp, PageDown",
    "Enter, l       what the function calls, for all its callers",
    "o              what its calls are about: who calls, or file->f_inode->i_ino, comm, ...",
    "Backspace, h   back",
    "s > <          order by the next column, or the one before",
    "/              show only functions with this in their names; Escape shows all",
    "w              why: searches for the bottleneck of the machine; Escape, Backspace end it",
    "f              choose columns: j k move, Space switches",
    "+ -            longer, shorter intervals",
    "p, Space       pause, and go on",
    "[ ], arrows    while it is paused: the interval before, and the next",
    "b              compare with this interval: figures become differences; b again: ends",
    "c              write the screen to a file",
    "q              quit",
    "",
    "CONC is how many tasks are inside, on average. It is CPU + BLOCKED + WAITS.",
    "The curve is that of the column that decides the order.",
    "What a function calls is in its figures, but for what it jumps to at its end.",
    "Any key ends this.",
];

/// Draws all.
pub fn draw(frame: &mut Frame<'_>, app: &mut App, utf8: bool) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let text = format!("jifl top needs {} x {}", SMALLEST.0, SMALLEST.1);
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    app.page = usize::from(area.height) - 3;
    frame.render_widget(Paragraph::new(head(app)), line(area, 0));
    table(frame, app, utf8);
    let style = Style::new().add_modifier(Modifier::REVERSED);
    frame.render_widget(
        Paragraph::new(foot(app, usize::from(area.width))).style(style),
        line(area, area.height - 1),
    );
    match app.mode {
        Mode::Help => overlay(frame, HELP.iter().map(|line| Line::from(*line)).collect()),
        Mode::Fields(at) => overlay(frame, fields(app, at)),
        Mode::Search(first) => tree(frame, &app.search, first),
        _ => {}
    }
}

fn line(area: Rect, at: u16) -> Rect {
    Rect::new(area.x, area.y + at, area.width, 1)
}

/// The first line: what, since when, how.
fn head(app: &App) -> String {
    let sample = app.sample();
    let mut text = format!(
        "jifl top {}  {:.1} s, each {:.3} s",
        shortened(&app.title, 30),
        sample.until_ns as f64 / 1e9,
        app.period.as_secs_f64()
    );
    if let Some(back) = app.paused {
        text += &format!("  PAUSED, {back} back");
    }
    if app.baseline.is_some() {
        text += "  DIFFERENCES";
    }
    if app.mode == Mode::By {
        text += &format!("  by [{CALLER}]: {}", app.by);
    } else if !app.filter.is_empty() || app.mode == Mode::Filter {
        text += &format!("  /{}", app.filter);
    }
    text
}

fn foot(app: &App, width: usize) -> String {
    let text = match app.message.is_empty() {
        true => format!("{}   ? help", app.status()),
        false => app.message.clone(),
    };
    format!("{:<width$}", shortened(&text, width))
}

/// Which columns there is room for, and the width of names.
fn room(app: &App, width: usize) -> (Vec<usize>, usize, bool) {
    let mut left = width.saturating_sub(NAME);
    let mut columns = Vec::new();
    for (at, column) in COLUMNS.iter().enumerate() {
        let needs = column.width + 1;
        if app.columns[at] && left >= needs {
            left -= needs;
            columns.push(at);
        }
    }
    let curve = left > CURVE;
    let names = NAME + left - if curve { CURVE + 1 } else { 0 };
    (columns, names.min(40), curve)
}

fn table(frame: &mut Frame<'_>, app: &App, utf8: bool) {
    let area = frame.area();
    let (columns, names, curve) = room(app, usize::from(area.width));
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut title = vec![Span::styled(format!("{:<names$}", "FUNCTION"), bold)];
    for at in &columns {
        let column = &COLUMNS[*at];
        let style = match *at == app.sort {
            true => bold.add_modifier(Modifier::UNDERLINED),
            false => bold,
        };
        let width = column.width - column.title.len();
        title.push(Span::raw(" ".repeat(width + 1)));
        title.push(Span::styled(column.title, style));
    }
    frame.render_widget(Paragraph::new(Line::from(title)), line(area, 1));
    let rows = app.ordered();
    if rows.is_empty() {
        let text = match app.samples.is_empty() {
            true => "waiting for the first interval",
            false => "nobody was in any of these functions",
        };
        frame.render_widget(Paragraph::new(text), line(area, 2));
        return;
    }
    let selected = app.selected.min(rows.len() - 1);
    let first = (selected + 1).saturating_sub(app.page);
    for (at, row) in rows.iter().enumerate().skip(first).take(app.page) {
        let mut text = cells(app, row, &columns, names);
        if curve {
            text += " ";
            text += &spark(&app.curve(row), utf8);
        }
        let style = match at == selected {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        let width = usize::from(area.width);
        let text = format!("{text:<width$}");
        frame.render_widget(
            Paragraph::new(text).style(style),
            line(area, (at - first) as u16 + 2),
        );
    }
}

fn cells(app: &App, row: &Row, columns: &[usize], names: usize) -> String {
    let counted = &app.sample().counted;
    let mut text = format!("{:<names$}", shortened(&row.title(), names));
    for at in columns {
        let column = &COLUMNS[*at];
        let value = app.value(column, counted, row);
        let value = value.map_or_else(|| "-".into(), column.text);
        text += &format!(" {value:>0$}", column.width);
    }
    text
}

/// A curve, one character for each value, by the largest.
pub fn spark(values: &[f64], utf8: bool) -> String {
    const FINE: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const PLAIN: [char; 9] = [' ', '.', '.', ':', '-', '=', '+', '*', '#'];
    let steps = if utf8 { FINE } else { PLAIN };
    let most = values.iter().copied().fold(0.0, f64::max);
    let step = |value: &f64| match most > 0.0 {
        true => steps[((value / most * 8.0).ceil() as usize).min(8)],
        false => ' ',
    };
    values.iter().map(step).collect()
}

fn fields(app: &App, at: usize) -> Vec<Line<'static>> {
    let line = |(index, column): (usize, &super::columns::Column)| {
        let mark = if app.columns[index] { 'x' } else { ' ' };
        let text = format!("[{mark}] {:<10} {}", column.title, column.about);
        match index == at {
            true => Line::styled(text, Style::new().add_modifier(Modifier::REVERSED)),
            false => Line::from(text),
        }
    };
    COLUMNS.iter().enumerate().map(line).collect()
}

/// What a search has found, above all but the first and the last line: the finding, and below it the
/// tree, from a line on.
fn tree(frame: &mut Frame<'_>, text: &str, first: usize) {
    let area = frame.area();
    let width = usize::from(area.width);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let (sentences, tree): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| is_sentence(line));
    let sentences = sentences.iter().flat_map(|line| broken(line, width));
    let mut lines: Vec<Line<'_>> = sentences.map(|line| Line::styled(line, bold)).collect();
    let tree = tree.iter().skip(first).map(|line| shortened(line, width));
    lines.extend(tree.map(Line::from));
    lines.resize(usize::from(area.height), Line::default());
    overlay(frame, lines);
}

fn is_sentence(line: &str) -> bool {
    ["finding: ", "so far: "]
        .iter()
        .any(|begin| line.starts_with(begin))
}

/// A line, broken at blanks.
fn broken(line: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 0 && last + 1 + word.chars().count() > width {
            lines.push(" ".into());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.iter().map(|line| shortened(line, width)).collect()
}

fn overlay(frame: &mut Frame<'_>, lines: Vec<Line<'_>>) {
    let area = frame.area();
    let height = (lines.len() as u16).min(area.height - 2);
    let place = Rect::new(area.x, area.y + 1, area.width, height);
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines), place);
}

/// The screen as text.
pub fn text(buffer: &Buffer) -> String {
    let area = buffer.area();
    let mut text = String::new();
    for y in 0..area.height {
        let line: String = (0..area.width).map(|x| buffer[(x, y)].symbol()).collect();
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::app::Key;
    use super::super::app::tests::{app, counted};
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen(app: &mut App, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, app, true)).unwrap();
        text(terminal.backend().buffer())
    }

    #[test]
    fn a_small_terminal_shows_what_matters() {
        let mut app = app();
        app.take(counted(1, [100, 1], [10, 900]));
        app.take(counted(2, [1334, 2], [60, 1800]));
        let text = screen(&mut app, 80, 24);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "jifl top fn:*  2.0 s, each 1.000 s");
        assert_eq!(
            lines[1],
            "FUNCTION                       CONC   CALLS/S     CPU  BLOCKED   WAITS WALL/CALL"
        );
        assert_eq!(
            lines[2],
            "do_wait                       0.900         1   0.000    0.900   0.000    900 ms"
        );
        assert_eq!(
            lines[3],
            "vfs_read                      0.050     1,234   0.000    0.050   0.000     41 us"
        );
        assert!(lines[23].starts_with("1235 calls/s looked at"), "{text}");
        assert!(lines[23].ends_with("? help"), "{text}");
    }

    #[test]
    fn a_wide_terminal_has_curves() {
        let mut app = app();
        for (second, blocked) in [(1, 100), (2, 300), (3, 1100)] {
            app.take(counted(second, [0, 1], [0, blocked]));
        }
        let text = screen(&mut app, 120, 10);
        assert!(text.lines().any(|line| line.ends_with(" ▁▂█")), "{text}");
        assert_eq!(spark(&[0.0, 1.0, 8.0], false), " .#");
        assert_eq!(spark(&[0.0], true), " ");
    }

    #[test]
    fn help_and_columns_lie_above() {
        let mut app = app();
        app.take(counted(1, [100, 1], [10, 900]));
        app.key(Key::Char('?'));
        assert!(screen(&mut app, 80, 24).contains("Backspace, h   back"));
        app.key(Key::Char('x'));
        app.key(Key::Char('f'));
        assert!(screen(&mut app, 80, 24).contains("[x] CONC"));
        app.key(Key::Escape);
        app.key(Key::Char('p'));
        assert!(screen(&mut app, 80, 24).contains("PAUSED, 0 back"));
    }

    #[test]
    fn the_finding_of_a_search_is_read_whole() {
        let mut app = app();
        app.take(counted(1, [100, 1], [10, 900]));
        app.key(Key::Char('w'));
        assert!(screen(&mut app, 80, 24).contains("# the search begins"));
        let sentence = "finding: locks: tasks sleep until others give locks, most in take [m]";
        app.search = format!("cpu      false\nlocks    true\n{sentence}\n");
        let text = screen(&mut app, 50, 12);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "finding: locks: tasks sleep until others give");
        assert_eq!(lines[2], "  locks, most in take [m]");
        assert_eq!(lines[4], "locks    true");
        assert!(!text.contains("vfs_read"), "{text}");
        app.key(Key::Escape);
        assert!(screen(&mut app, 50, 12).contains("vfs_read"));
    }

    #[test]
    fn a_terminal_that_is_too_small_says_so() {
        let mut app = app();
        assert_eq!(
            screen(&mut app, 39, 6).lines().next(),
            Some("jifl top needs 40 x 6")
        );
        assert!(screen(&mut app, 40, 6).contains("waiting for the first interval"));
    }
}
