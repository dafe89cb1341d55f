// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where, when and how something was recorded.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::base::environment::Environment;

/// A recording's description of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the command.
    pub jifl: String,
    pub kernel: Kernel,
    /// The boot's id: /proc/sys/kernel/random/boot_id.
    pub boot_id: String,
    /// Model of the processor.
    pub cpu: String,
    /// Online processors.
    pub cpus: usize,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// Time of writing, in seconds since 1970.
    pub time: u64,
    /// Number of recordings that were merged; 1: it was recorded.
    pub recordings: u64,
}

/// Identity of a kernel build. It is the same in all builds that have the same code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// `uname -r`.
    pub release: String,
    /// `uname -v`.
    pub version: String,
    /// In hexadecimal; empty where it is not known.
    pub build_id: String,
}

impl Header {
    /// The header of this command, here and now.
    pub fn here(build_id: String) -> Header {
        let environment = Environment::here();
        let name = rustix::system::uname();
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let command = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        Header {
            jifl: env!("CARGO_PKG_VERSION").into(),
            kernel: Kernel {
                release: environment.kernel,
                version: name.version().to_string_lossy().into_owned(),
                build_id,
            },
            boot_id: boot_id.unwrap_or_default().trim().to_owned(),
            cpu: environment.cpu,
            cpus: environment.cpus,
            command: command.collect(),
            time: now.map_or(0, |now| now.as_secs()),
            recordings: 1,
        }
    }

    /// The command line; it may contain any characters.
    pub fn command_line(&self) -> String {
        let words: Vec<String> = self.command.iter().map(|word| quoted(word)).collect();
        words.join(" ")
    }
}

impl Kernel {
    /// The build as text, for a message.
    pub fn shown(&self) -> String {
        let id = match self.build_id.as_str() {
            "" => "unknown",
            id => id,
        };
        format!("{}, build id {id}", self.release)
    }
}

/// The command line, quoted for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+:,./@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.escape_debug())
}

/// `2026-11-22 18:00:11 UTC`
pub fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Date of a day since 1970. Years begin in March here, so that a leap day is the last day of a
/// year.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (year, day) = (year + era * 400, day - (153 * month + 2) / 5 + 1);
    match month {
        0..10 => (year, month + 3, day),
        _ => (year + 1, month - 9, day),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_dates() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_767_225_599, "2025-12-31 23:59:59 UTC"),
            (1_772_366_401, "2026-03-01 12:00:01 UTC"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        for (word, shown) in [
            ("sys:read", "sys:read"),
            ("sys:*", "'sys:*'"),
            ("", "''"),
            ("a\x1b[31m\n", "'a\\u{1b}[31m\\n'"),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }
}
