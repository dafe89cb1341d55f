// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of expressions, from what the module gives to text and to JSON.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::kernel::values;

/// What an expression's value is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A number.
    Number(values::Kind),
    /// A string.
    String {
        /// Bytes that it takes at most, with its end.
        max: usize,
    },
    /// The callers.
    Stack,
    /// An address of code, behind a call.
    Code,
}

/// A value as the module has given it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown<'a> {
    /// A number; of a stack its number.
    Number(u64),
    /// A string. It ends where its first 0 is.
    Bytes(&'a [u8]),
    /// A load has faulted, or the value had no room.
    Unknown,
}

impl Kind {
    /// Whether it is a signed number.
    pub fn is_signed(&self) -> bool {
        match self {
            Kind::Number(values::Kind::Int { signed, .. } | values::Kind::Enum { signed, .. }) => {
                *signed
            }
            _ => false,
        }
    }

    /// For a reader: `?` if it is unknown.
    pub fn text(&self, value: Shown<'_>) -> String {
        match (self, value) {
            (_, Shown::Unknown) => "?".into(),
            (_, Shown::Bytes(bytes)) => quoted(until_end(bytes)),
            (Kind::Number(kind), Shown::Number(number)) => {
                kind.text(number).unwrap_or_else(|| "?".into())
            }
            (Kind::Code, Shown::Number(number)) => format!("{number:#x}"),
            (_, Shown::Number(number)) => number.to_string(),
        }
    }

    /// For a program: null if it is unknown.
    pub fn json(&self, value: Shown<'_>) -> Value {
        match (self, value) {
            (_, Shown::Unknown) => Value::Null,
            (_, Shown::Bytes(bytes)) => json!(String::from_utf8_lossy(until_end(bytes))),
            (Kind::Number(kind), Shown::Number(number)) => kind.json(number),
            (Kind::Code, Shown::Number(number)) => json!(format!("{number:#x}")),
            (_, Shown::Number(number)) => json!(number),
        }
    }
}

fn until_end(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0);
    &bytes[..end.unwrap_or(bytes.len())]
}

/// In quotes, on one line, and as an expression could have it.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => text += "\\\"",
                '\\' => text += "\\\\",
                '\n' => text += "\\n",
                '\t' => text += "\\t",
                '\r' => text += "\\r",
                _ if c.is_ascii_control() => {
                    let _ = write!(text, "\\x{:02x}", u32::from(c));
                }
                _ if c.is_control() => text.extend(c.escape_unicode()),
                _ => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text.push('"');
    text
}
