// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon's lines about who does what. They go to standard error, which is the journal where
//! systemd runs the daemon.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::show::output;
use crate::show::text::one_line;

/// Lines about what is refused, in [`WINDOW`].
const REFUSED_MAX: u32 = 20;
/// Clients cannot fill the journal: beginnings and ends are bounded by what sessions cost.
const WINDOW: Duration = Duration::from_secs(5);
/// Hexadecimal digits of an address of the kernel, at the least.
const ADDRESS_DIGITS: usize = 16;

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
                self.note(&format!("refused: {}", told(text)));
            }
            false => refused.left_out += 1,
        }
    }
}

/// What a failure says, as clients and the journal have it: on one line, without addresses of the
/// kernel, whatever has made the message. Who reads it may not know any.
pub fn told(message: &str) -> String {
    let text = one_line(message);
    let mut pieces = text.split("0x");
    let mut told = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let digits = piece.bytes().take_while(u8::is_ascii_hexdigit).count();
        told += match digits < ADDRESS_DIGITS {
            true => "0x",
            false => "(an address)",
        };
        told += &piece[if digits < ADDRESS_DIGITS { 0 } else { digits }..];
    }
    told
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
    fn addresses_of_the_kernel_are_not_told() {
        for (message, expected) in [
            (
                "give one of fn:0xffffffff81000000 (f), 0xFFFFFFFFC0000010",
                "give one of fn:(an address) (f), (an address)",
            ),
            ("f+0x10 cannot be\nprobed", "f+0x10 cannot be\\nprobed"),
            ("0x123456789abcdef 0x", "0x123456789abcdef 0x"),
            ("", ""),
        ] {
            assert_eq!(told(message), expected);
        }
        let (audit, lines) = kept();
        audit.refused("what: 0xffffffff81000000 is taken");
        let lines = lines.lock().unwrap();
        assert_eq!(lines[0], "jifl serve: refused: what: (an address) is taken");
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
