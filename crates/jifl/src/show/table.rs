// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of text.

use crate::show::output::{fit, shortened};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
