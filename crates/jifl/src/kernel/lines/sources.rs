// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of source lines, if the source tree is on this machine.

use std::collections::BTreeMap;
use std::fs;

use super::Lines;

/// Files that have been asked for, each by its lines; no lines if it cannot be read.
#[derive(Default)]
pub struct Sources(BTreeMap<String, Vec<String>>);

impl Sources {
    /// The text of a line, without the blanks round it, if it is known.
    pub fn text(&mut self, file: &str, line: u32, lines: &Lines) -> Option<&str> {
        let texts = self.0.entry(file.to_owned()).or_insert_with(|| {
            let text = fs::read_to_string(lines.path(file)).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        });
        let text = texts.get((line as usize).checked_sub(1)?)?;
        Some(text.trim())
    }
}
