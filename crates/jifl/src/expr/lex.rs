// SPDX-License-Identifier: MIT OR Apache-2.0
//! From text to tokens.

use std::ops::Range;

/// What is wrong, and where in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Byte in the text.
    pub at: usize,
    /// One line.
    pub message: String,
}

impl Error {
    /// What is wrong at a byte of the text.
    pub fn new(at: usize, message: impl Into<String>) -> Error {
        Error {
            at,
            message: message.into(),
        }
    }
}

/// A word of the language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// An integer or a character.
    Number(u64),
    /// A string, without its quotes.
    Text(Vec<u8>),
    /// A name, or a word of C.
    Name(String),
    /// What stands behind `$`.
    Dollar(String),
    /// Anything else.
    Sign(&'static str),
    /// The text is at its end.
    End,
}

/// Longer ones before their beginnings.
const SIGNS: [&str; 27] = [
    "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "(", ")", "[", "]", ".", ",", "*", "/",
    "%", "+", "-", "<", ">", "&", "^", "|", "!", "~",
];

/// The tokens of a text, each with its place; the last one is [`Token::End`].
///
/// # Errors
/// There is something that is no token.
pub fn tokens(text: &str) -> Result<Vec<(Token, Range<usize>)>, Error> {
    let mut all = Vec::new();
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let Some(first) = rest.chars().next() else {
            all.push((Token::End, at..at));
            return Ok(all);
        };
        let begin = at;
        let token = match first {
            _ if first.is_whitespace() => {
                at += first.len_utf8();
                continue;
            }
            '0'..='9' => {
                let word = word(rest);
                at += word.len();
                let value = number(word).map_err(|why| Error::new(begin, why))?;
                Token::Number(value)
            }
            '"' | '\'' => {
                let (bytes, length) = quoted(rest).map_err(|why| Error::new(begin, why))?;
                at += length;
                match (first, &bytes[..]) {
                    ('"', _) => Token::Text(bytes),
                    (_, [byte]) => Token::Number(u64::from(*byte)),
                    _ => {
                        let why = "a character is one byte in quotes, as 'a' or '\\n'";
                        return Err(Error::new(begin, why));
                    }
                }
            }
            '$' => {
                let word = word(&rest[1..]);
                at += 1 + word.len();
                Token::Dollar(word.into())
            }
            _ if is_word(first) => {
                let word = word(rest);
                at += word.len();
                Token::Name(word.into())
            }
            _ => {
                let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
                let Some(sign) = sign else {
                    let why = match first {
                        '=' => "values are compared with ==".into(),
                        _ => format!("`{first}` is not of an expression"),
                    };
                    return Err(Error::new(begin, why));
                };
                at += sign.len();
                Token::Sign(sign)
            }
        };
        all.push((token, begin..at));
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn word(text: &str) -> &str {
    &text[..text.find(|c| !is_word(c)).unwrap_or(text.len())]
}

/// An integer as C has it, with suffixes, which change nothing here.
fn number(word: &str) -> Result<u64, String> {
    let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
    let hex = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"));
    let parsed = match (hex, digits.strip_prefix('0')) {
        (Some(hex), _) => u64::from_str_radix(hex, 16),
        (None, Some(octal)) if !octal.is_empty() => u64::from_str_radix(octal, 8),
        _ => digits.parse(),
    };
    parsed.map_err(|_| {
        format!("`{word}` is not a number of 64 bits: write 10, 0xa, or 012 for octal digits")
    })
}

/// The bytes between quotes, and how many bytes of the text they take with the quotes.
fn quoted(text: &str) -> Result<(Vec<u8>, usize), String> {
    let quote = text.as_bytes()[0];
    let mut bytes = Vec::new();
    let mut rest = text.bytes().enumerate().skip(1);
    while let Some((at, byte)) = rest.next() {
        if byte == quote {
            return Ok((bytes, at + 1));
        }
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next() {
            Some((_, b'n')) => b'\n',
            Some((_, b't')) => b'\t',
            Some((_, b'r')) => b'\r',
            Some((_, b'0')) => 0,
            Some((at, b'x')) => {
                let digits = text.get(at + 1..at + 3);
                let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                rest.nth(1);
                value.ok_or("\\x wants two digits, as \\x1b")?
            }
            Some((_, other @ (b'\\' | b'"' | b'\''))) => other,
            _ => return Err("behind \\ stands one of n, t, r, 0, xNN, \\, \" and '".into()),
        });
    }
    Err(format!(
        "the text ends before the closing {}",
        char::from(quote)
    ))
}
