// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon's lines about who does what. They go to standard error, which is the journal where
//! systemd runs the daemon.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::show::output;

/// Lines about what is refused, in [`WINDOW`].
const REFUSED_MAX: u32 = 20;
/// Clients cannot fill the journal: beginnings and ends are bounded by what sessions cost.
const WINDOW: Duration = Duration::from_secs(5);

/// Where lines go.
pub type Writer = Box<dyn Fn(&str) + Send + Sync>;

/// Writes lines.
pub struct Audit {
    write: Writer,
    refused: Mutex<Refused>,
}

#[derive(Default)]
struct Refused {
    since: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl Default for Audit {
    fn default() -> Audit {
        Audit::to(Box::new(output::note))
    }
}

impl Audit {
    /// Lines go there.
    pub fn to(write: Writer) -> Audit {
        Audit {
            write,
            refused: Mutex::default(),
        }
    }

    /// Something was done.
    pub fn note(&self, text: &str) {
        (self.write)(&format!("jifl serve: {}", one_line(text)));
    }

    /// Something was refused. Of many lines in a short time some are left out, and counted.
    pub fn refused(&self, text: &str) {
        let refused = self.refused.lock();
        let mut refused = refused.unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if refused.since.is_none_or(|since| now - since > WINDOW) {
            if refused.left_out > 0 {
                self.note(&format!("{} lines of refusals left out", refused.left_out));
            }
            *refused = Refused {
                since: Some(now),
                ..Refused::default()
            };
        }
        match refused.written < REFUSED_MAX {
            true => {
                refused.written += 1;
                self.note(&format!("refused: {text}"));
            }
            false => refused.left_out += 1,
        }
    }
}

/// The same without ends of lines and other characters that terminals obey.
pub fn one_line(text: &str) -> String {
    let one = |letter: char| match letter.is_control() {
        true => letter.escape_default().collect::<String>(),
        false => letter.to_string(),
    };
    text.chars().map(one).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::sync::Arc;

    /// An audit whose lines can be read.
    pub fn kept() -> (Audit, Arc<Mutex<Vec<String>>>) {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&lines);
        let audit = Audit::to(Box::new(move |line| {
            to.lock().unwrap().push(line.to_owned());
        }));
        (audit, lines)
    }

    #[test]
    fn refusals_do_not_fill_the_journal() {
        let (audit, lines) = kept();
        for _ in 0..1000 {
            audit.refused("the same\nagain");
        }
        let lines = lines.lock().unwrap();
        assert_eq!(lines.len(), REFUSED_MAX as usize);
        assert_eq!(lines[0], "jifl serve: refused: the same\\nagain");
    }
}
