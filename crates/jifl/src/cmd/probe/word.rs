// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words of the command line for places: `fn:vfs_read+0x10`, `line:fs/open.c:1390`,
//! `'fn:vfs_* call:kfree'`.

use iced_x86::Mnemonic;
use jifl_code::names;
use jifl_sys::abi::{SPLICE_BEFORE, SPLICE_NOT_TAKEN, SPLICE_TAKEN};

use crate::base::exit::Failure;
use crate::kernel::pattern::is_part;

/// What a word says of its function, or without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A part (`.cold`, or nothing), an offset in it, and `SPLICE_*`.
    At(String, u64, u32),
    /// All returns.
    Return,
    /// All instructions of a form.
    All(Form),
    /// The instruction at an address.
    Address(u64),
    /// The code of a line of a file.
    Line(String, u32),
}

/// A form of instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// All.
    Every,
    /// Calls, direct or not.
    Calls,
    /// Direct calls of functions with this name or glob, and jumps there.
    CallsOf(String),
    /// What stands behind direct calls of such functions.
    BehindCallsOf(String),
    /// Instructions that load from memory.
    Loads,
    /// Instructions that store to memory.
    Stores,
    /// Instructions with this mnemonic, or with any.
    Named {
        /// With the prefix `lock` alone.
        locked: bool,
        /// As the disassembler writes it, or without the letter of its size.
        mnemonic: Option<String>,
    },
}

/// A word of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// As it was given.
    pub word: String,
    /// `fn:NAME`; empty without one.
    pub function: String,
    /// Where in it.
    pub what: What,
}

/// All forms, for who has given none of them.
pub const FORMS: &str = "a place is fn:NAME, fn:NAME+0xOFFSET, fn:NAME+0xOFFSET:taken, \
                         fn:NAME+0xOFFSET:not-taken, fn:NAME%return, 0xADDRESS, line:FILE:LINE, \
                         'fn:NAME call:CALLEE', 'fn:NAME call:CALLEE:return', 'fn:NAME call', \
                         'fn:NAME load', 'fn:NAME store', 'fn:NAME insn' or 'fn:NAME MNEMONIC'";

impl Word {
    /// Reads a word.
    ///
    /// # Errors
    /// It is of no known form.
    pub fn parse(word: &str) -> Result<Word, Failure> {
        read(word).ok_or_else(|| Failure::usage(format!("{word}: {FORMS}")))
    }
}

fn read(word: &str) -> Option<Word> {
    let of = |function: &str, what| {
        Some(Word {
            word: word.into(),
            function: function.into(),
            what,
        })
    };
    if word.starts_with("0x") {
        return of("", What::Address(number(word)?));
    }
    if let Some(line) = word.strip_prefix("line:") {
        let (file, line) = line.rsplit_once(':')?;
        let line = line.parse().ok().filter(|line| *line > 0)?;
        let file = Some(file).filter(|file| !file.is_empty())?;
        return of("", What::Line(file.trim_start_matches("./").into(), line));
    }
    if !word.starts_with("fn:") {
        return None;
    }
    let mut parts = word.split_whitespace();
    let first = parts.next()?;
    let parts: Vec<&str> = parts.collect();
    if !parts.is_empty() {
        let is_name = !first[3..].contains([':', '+', '%']);
        return of(first, What::All(form(&parts).filter(|_| is_name)?));
    }
    if let Some(function) = word.strip_suffix("%return") {
        return of(function, What::Return);
    }
    let (rest, side) = match word[3..].split_once(':') {
        None => (word, SPLICE_BEFORE),
        Some((place, "taken")) => (&word[..3 + place.len()], SPLICE_TAKEN),
        Some((place, "not-taken")) => (&word[..3 + place.len()], SPLICE_NOT_TAKEN),
        Some(_) => return None,
    };
    let (name, offset) = match rest.split_once('+') {
        None if side == SPLICE_BEFORE => (rest, 0),
        None => return None,
        Some((name, offset)) => (name, number(offset)?),
    };
    // `fn:NAME.cold@MODULE+0x3` is in NAME@MODULE.
    let (bare, module) = match name[3..].split_once('@') {
        Some((bare, module)) => (bare, format!("@{module}")),
        None => (&name[3..], String::new()),
    };
    let whole = names::whole(bare).filter(|_| is_part(bare));
    let part = whole.map_or("", |whole| &bare[whole.len()..]);
    of(
        &format!("fn:{}{module}", whole.unwrap_or(bare)),
        What::At(part.into(), offset, side),
    )
}

fn form(parts: &[&str]) -> Option<Form> {
    let named = |locked, mnemonic: Option<&str>| {
        Some(Form::Named {
            locked,
            mnemonic: mnemonic.map(str::to_owned),
        })
    };
    match *parts {
        ["insn"] => Some(Form::Every),
        ["call"] => Some(Form::Calls),
        ["load"] => Some(Form::Loads),
        ["store"] => Some(Form::Stores),
        ["lock"] => named(true, None),
        [one] => match one.strip_prefix("call:") {
            Some("") => None,
            Some(callee) => Some(match callee.strip_suffix(":return") {
                Some(callee) => Form::BehindCallsOf(callee.into()),
                None => Form::CallsOf(callee.into()),
            }),
            None => is_mnemonic(one).then(|| named(false, Some(one)))?,
        },
        ["lock", one] => is_mnemonic(one).then(|| named(true, Some(one)))?,
        _ => None,
    }
}

/// Is there such an instruction, with the letter of its size or without?
fn is_mnemonic(word: &str) -> bool {
    let known = |word: &str| {
        let mut all = Mnemonic::values();
        all.any(|one| one != Mnemonic::INVALID && format!("{one:?}").eq_ignore_ascii_case(word))
    };
    // The assembler's own names for movzx, movsx, and conversions in registers.
    let others = [
        "movz", "movs", "cbtw", "cwtl", "cltq", "cwtd", "cltd", "cqto",
    ];
    let is_other = others.iter().any(|other| word.starts_with(other));
    let shorter = word.strip_suffix(['b', 'w', 'l', 'q']);
    is_other || known(word) || shorter.is_some_and(known)
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let parsed = |word: &str| Word::parse(word).map(|word| (word.function, word.what));
        let at = |part: &str, offset, side| What::At(part.into(), offset, side);
        let named = |locked, mnemonic: Option<&str>| {
            What::All(Form::Named {
                locked,
                mnemonic: mnemonic.map(str::to_owned),
            })
        };
        for (word, function, what) in [
            ("fn:f", "fn:f", at("", 0, SPLICE_BEFORE)),
            ("fn:f+0x10", "fn:f", at("", 16, SPLICE_BEFORE)),
            ("fn:f@nfs+12", "fn:f@nfs", at("", 12, SPLICE_BEFORE)),
            ("fn:f+0x2c:taken", "fn:f", at("", 0x2c, SPLICE_TAKEN)),
            (
                "fn:f+0x2c:not-taken",
                "fn:f",
                at("", 0x2c, SPLICE_NOT_TAKEN),
            ),
            ("fn:f.cold+0x3", "fn:f", at(".cold", 3, SPLICE_BEFORE)),
            ("fn:f%return", "fn:f", What::Return),
            ("fn:f*%return", "fn:f*", What::Return),
            ("0xffff10", "", What::Address(0xff_ff10)),
            ("line:fs/open.c:13", "", What::Line("fs/open.c".into(), 13)),
            ("fn:f call", "fn:f", What::All(Form::Calls)),
            ("fn:f load", "fn:f", What::All(Form::Loads)),
            ("fn:f*@nfs store", "fn:f*@nfs", What::All(Form::Stores)),
            (
                "fn:f call:k*",
                "fn:f",
                What::All(Form::CallsOf("k*".into())),
            ),
            (
                "fn:f call:g:return",
                "fn:f",
                What::All(Form::BehindCallsOf("g".into())),
            ),
            ("fn:f cmpxchg", "fn:f", named(false, Some("cmpxchg"))),
            ("fn:f lock  cmpxchg", "fn:f", named(true, Some("cmpxchg"))),
            ("fn:f movl", "fn:f", named(false, Some("movl"))),
            ("fn:f lock", "fn:f", named(true, None)),
        ] {
            assert_eq!(parsed(word).unwrap(), (function.to_owned(), what), "{word}");
        }
        for word in [
            "f+0x10",
            "sys:read",
            "fn:f:taken",
            "fn:f+0x1:both",
            "fn:f+x",
            "0xg",
            "line:open.c",
            "line:open.c:0",
            "line::5",
            "fn:f no-such",
            "fn:f+0x3 call",
            "fn:f%return call",
            "fn:f call:",
            "fn:f call g",
        ] {
            let failure = parsed(word).unwrap_err();
            assert!(failure.message.contains("a place is fn:NAME"), "{word}");
        }
    }
}
