// SPDX-License-Identifier: MIT OR Apache-2.0
//! What keys mean, in each mode.

use super::{App, Asked, CALLER, COLUMNS, Key, LONGEST, Mode, SHORTEST};
use crate::cmd::stat::sheet::Row;

impl App {
    /// A key was pressed.
    pub fn key(&mut self, key: Key) -> Asked {
        self.message.clear();
        match self.mode {
            Mode::Help => self.mode = Mode::Table,
            Mode::Filter => self.key_of_filter(key),
            Mode::By => return self.key_of_by(key),
            Mode::Search(first) => return self.key_of_search(key, first),
            Mode::Fields(at) => self.key_of_fields(key, at),
            Mode::Table => return self.key_of_table(key),
        }
        Asked::Nothing
    }

    fn key_of_filter(&mut self, key: Key) {
        match key {
            Key::Char(letter) => self.filter.push(letter),
            Key::Backspace => drop(self.filter.pop()),
            Key::Escape => {
                self.filter.clear();
                self.mode = Mode::Table;
            }
            _ => self.mode = Mode::Table,
        }
        self.selected = 0;
    }

    fn key_of_by(&mut self, key: Key) -> Asked {
        match key {
            Key::Char(letter) => self.by.push(letter),
            Key::Backspace => drop(self.by.pop()),
            Key::Enter => {
                self.mode = Mode::Table;
                let by = match self.by.is_empty() {
                    true => CALLER.to_owned(),
                    false => std::mem::take(&mut self.by),
                };
                let row = self.selected();
                return row.map_or(Asked::Nothing, |row| Asked::Objects(row, by));
            }
            Key::Escape => {
                self.by.clear();
                self.mode = Mode::Table;
            }
            _ => {}
        }
        Asked::Nothing
    }

    fn key_of_search(&mut self, key: Key, first: usize) -> Asked {
        let last = self.search.lines().count().saturating_sub(1);
        let first = match key {
            Key::Escape | Key::Backspace => {
                self.mode = Mode::Table;
                return Asked::EndSearch;
            }
            Key::Char('q') => return Asked::Quit,
            Key::Char('c') => return Asked::Copy,
            Key::Up | Key::Char('k') => first.saturating_sub(1),
            Key::Down | Key::Char('j') => first + 1,
            Key::PageUp => first.saturating_sub(self.page),
            Key::PageDown => first + self.page,
            _ => first,
        };
        self.mode = Mode::Search(first.min(last));
        Asked::Nothing
    }

    /// The row of the line.
    fn selected(&self) -> Option<Row> {
        self.ordered().get(self.selected).map(|row| (*row).clone())
    }

    fn key_of_fields(&mut self, key: Key, at: usize) {
        let last = COLUMNS.len() - 1;
        self.mode = match key {
            Key::Up | Key::Char('k') => Mode::Fields(at.saturating_sub(1)),
            Key::Down | Key::Char('j') => Mode::Fields((at + 1).min(last)),
            Key::Char(' ') => {
                self.columns[at] ^= true;
                Mode::Fields(at)
            }
            _ => Mode::Table,
        };
    }

    fn key_of_table(&mut self, key: Key) -> Asked {
        let rows = self.ordered().len();
        let last = rows.saturating_sub(1);
        match key {
            Key::Char('q') => return Asked::Quit,
            Key::Char('c') => return Asked::Copy,
            Key::Backspace | Key::Char('h') => return Asked::Up,
            Key::Enter | Key::Char('l') => {
                return self.selected().map_or(Asked::Nothing, Asked::Down);
            }
            Key::Up | Key::Char('k') => self.selected = self.selected.saturating_sub(1),
            Key::Down | Key::Char('j') => self.selected = (self.selected + 1).min(last),
            Key::PageUp => self.selected = self.selected.saturating_sub(self.page),
            Key::PageDown => self.selected = (self.selected + self.page).min(last),
            Key::Char('s' | '>') => self.sort_by(1),
            Key::Char('<') => self.sort_by(COLUMNS.len() - 1),
            Key::Char('/') => self.mode = Mode::Filter,
            Key::Char('o') => self.mode = Mode::By,
            Key::Char('f') => self.mode = Mode::Fields(0),
            Key::Char('w') => {
                self.search = "# the search begins\n".into();
                self.mode = Mode::Search(0);
                return Asked::Search;
            }
            Key::Char('?') => self.mode = Mode::Help,
            Key::Char('+') => self.period = (self.period * 2).min(LONGEST),
            Key::Char('-') => self.period = (self.period / 2).max(SHORTEST),
            Key::Char('p' | ' ') => {
                self.paused = match self.paused {
                    None => Some(0),
                    Some(_) => None,
                };
            }
            Key::Left | Key::Char('[') => {
                let back = self.paused.map_or(1, |back| back + 1);
                self.paused = Some(back.min(self.samples.len().saturating_sub(1)));
            }
            Key::Right | Key::Char(']') => {
                self.paused = self.paused.map(|back| back.saturating_sub(1));
            }
            Key::Char('b') => {
                self.baseline = match self.baseline {
                    None => Some(self.sample().counted.clone()),
                    Some(_) => None,
                };
            }
            Key::Escape => self.filter.clear(),
            Key::Char(_) => {}
        }
        Asked::Nothing
    }

    /// The next column that is there, so many further on.
    fn sort_by(&mut self, step: usize) {
        for _ in 0..COLUMNS.len() {
            self.sort = (self.sort + step) % COLUMNS.len();
            if self.columns[self.sort] {
                break;
            }
        }
    }
}
