// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places in the notation of users: `fn:vfs_read`, `fn:vfs_read+0x10`, `fn:vfs_read%return`,
//! `fn:vfs_read+0x2c:taken`, `fn:vfs_read.cold+0x4`.

use std::sync::Arc;

use jifl_code::flow::Thunks;
use jifl_code::names;
use jifl_code::running::Memory;
use jifl_sys::abi::{SPLICE_BEFORE, SPLICE_NOT_TAKEN, SPLICE_TAKEN, Splice};

use super::code::Code;
use crate::base::exit::Failure;
use crate::kernel::functions::{Function, Functions};
use crate::kernel::pattern::{Pattern, is_part};
use crate::kernel::symbols::Symbols;
use crate::session::targets::{FunctionTarget, Target};

/// What a word says of its function.
#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    /// A part (`.cold`, or nothing), an offset in it, and `SPLICE_*`.
    At(String, u64, u32),
    /// All returns.
    Return,
}

/// A word of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// As it was given.
    pub word: String,
    function: String,
    what: What,
}

const FORMS: &str = "a place is fn:NAME, fn:NAME+0xOFFSET, fn:NAME+0xOFFSET:taken, \
                     fn:NAME+0xOFFSET:not-taken or fn:NAME%return";

impl Word {
    /// Reads a word.
    ///
    /// # Errors
    /// It is of no known form.
    pub fn parse(word: &str) -> Result<Word, Failure> {
        let wrong = || Failure::usage(format!("{word}: {FORMS}"));
        if !word.starts_with("fn:") {
            return Err(wrong());
        }
        if let Some(function) = word.strip_suffix("%return") {
            return Ok(Word {
                word: word.into(),
                function: function.into(),
                what: What::Return,
            });
        }
        let (rest, side) = match word[3..].split_once(':') {
            None => (word, SPLICE_BEFORE),
            Some((place, "taken")) => (&word[..3 + place.len()], SPLICE_TAKEN),
            Some((place, "not-taken")) => (&word[..3 + place.len()], SPLICE_NOT_TAKEN),
            Some(_) => return Err(wrong()),
        };
        let (name, offset) = match rest.split_once('+') {
            None if side == SPLICE_BEFORE => (rest, 0),
            None => return Err(wrong()),
            Some((name, offset)) => (name, number(offset).ok_or_else(wrong)?),
        };
        // `fn:NAME.cold@MODULE+0x3` is in NAME@MODULE.
        let (bare, module) = match name[3..].split_once('@') {
            Some((bare, module)) => (bare, format!("@{module}")),
            None => (&name[3..], String::new()),
        };
        let whole = names::whole(bare).filter(|_| is_part(bare));
        let part = whole.map_or("", |whole| &bare[whole.len()..]);
        Ok(Word {
            word: word.into(),
            function: format!("fn:{}{module}", whole.unwrap_or(bare)),
            what: What::At(part.into(), offset, side),
        })
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// What the words mean.
#[derive(Debug, Default)]
pub struct Places {
    /// The functions.
    pub targets: Vec<Target>,
    /// The places, in the module's order, each once.
    pub splices: Vec<Splice>,
    /// For each word its places: indices into `splices`.
    pub of_words: Vec<Vec<usize>>,
}

/// What is known of the running kernel.
pub struct Kernel<'a> {
    /// Functions, with ftrace's sites.
    pub functions: &'a Functions,
    /// Names of all text.
    pub symbols: &'a Symbols,
    /// What branches to thunks are.
    pub thunks: Thunks,
    /// Its memory.
    pub memory: &'a mut dyn Memory,
}

impl Kernel<'_> {
    /// The one function that a word names.
    fn function(&self, word: &Word) -> Result<Function, Failure> {
        let digits = word.function["fn:".len()..].strip_prefix("0x");
        if let Some(address) = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            let known = self.functions.at(address).cloned();
            return known.ok_or_else(|| {
                Failure::usage(format!("{}: no function begins at {address:#x}", word.word))
            });
        }
        let Some(pattern) = Pattern::parse(&word.function) else {
            return Err(Failure::usage(format!("{}: {FORMS}", word.word)));
        };
        if pattern.is_glob() {
            return Err(Failure::usage(format!(
                "{}: name one function: an offset is a place in one",
                word.word
            )));
        }
        let mut selection = self.functions.select(&pattern);
        if selection.found.is_empty() {
            // The module knows best what is against a function that is named.
            selection.found.append(&mut selection.without_site);
        }
        let is_exact = |one: &Function| one.name == pattern.name();
        if selection.found.iter().any(is_exact) {
            selection.found.retain(is_exact);
        }
        match selection.found.as_slice() {
            [] => Err(Failure::usage(self.functions.none(&pattern, &selection))),
            [one] => Ok(one.clone()),
            several => {
                let all: Vec<String> = several
                    .iter()
                    .map(|one| format!("fn:{:#x} ({})", one.address, one.shown()))
                    .collect();
                Err(Failure::usage(format!(
                    "{}: {} functions have this name: give one of {}",
                    word.word,
                    several.len(),
                    all.join(", ")
                )))
            }
        }
    }

    /// The places of a word in a function: addresses and `SPLICE_*`.
    fn places(&mut self, word: &Word, function: &Function) -> Result<Vec<(u64, u32)>, Failure> {
        let code = Code::of(function, self.symbols, self.memory).ok_or_else(|| {
            Failure::cannot(format!(
                "{}: the code of {} cannot be read from /proc/kcore: be root",
                word.word, function.name
            ))
        })?;
        let refused = |why: String| Failure::usage(format!("{}: {why}", word.word));
        let (part, offset, side) = match &word.what {
            What::Return if code.has_kprobes => {
                return Err(refused(format!(
                    "kprobes stand in {}, so its returns are not known for certain: end them and \
                     other `jifl probe` sessions that are about it first",
                    function.name
                )));
            }
            What::Return => {
                let exits = code.exits(&self.thunks);
                return match exits.is_empty() {
                    true => Err(refused(format!("{} never returns", function.name))),
                    false => Ok(exits),
                };
            }
            What::At(part, offset, side) => (part, *offset, *side),
        };
        let address = code
            .address(part, offset)
            .filter(|address| code.holds(*address))
            .ok_or_else(|| refused(format!("{} has no such place", function.name)))?;
        // A door counts its endbr64. A breakpoint stands behind it.
        let address = match self.functions.may_have_site(function) {
            true => address,
            false => code.behind_endbr64(address),
        };
        // Where kprobes stand the kernel knows better.
        if code.at(address).is_none() && !code.has_kprobes {
            let near = code.neighbours(address).into_iter();
            let near: Vec<String> = near
                .map(|near| format!("fn:{}{}", function.name, code.place(near)))
                .collect();
            return Err(refused(format!(
                "no instruction begins there; the nearest are {}",
                near.join(" and ")
            )));
        }
        if side != SPLICE_BEFORE && !code.is_branch(address) && !code.has_kprobes {
            return Err(refused("no branch on a condition stands there".into()));
        }
        Ok(vec![(address, side)])
    }
}

/// What these words mean in the running kernel.
///
/// # Errors
/// One of them names no function or more than one, or no place that there is.
pub fn select(words: &[Word], mut kernel: Kernel<'_>) -> Result<Places, Failure> {
    kernel.functions.need_addresses(&words[0].word)?;
    let mut functions: Vec<Function> = Vec::new();
    let mut found: Vec<(usize, Splice)> = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let function = kernel.function(word)?;
        let places = kernel.places(word, &function)?;
        // A function may have several names.
        let is_same = |known: &Function| known.address == function.address;
        let target = match functions.iter().position(is_same) {
            Some(known) => known,
            None => {
                functions.push(function);
                functions.len() - 1
            }
        };
        for (address, side) in places {
            let splice = Splice {
                address,
                target: target as u32,
                where_: side,
                ..Splice::default()
            };
            found.push((index, splice));
        }
    }
    let place = |splice: &Splice| (splice.address, splice.where_);
    let mut splices: Vec<Splice> = found.iter().map(|(_, splice)| *splice).collect();
    splices.sort_by_key(place);
    splices.dedup_by_key(|splice| place(splice));
    let mut of_words = vec![Vec::new(); words.len()];
    for (word, splice) in &found {
        let at = splices.partition_point(|other| place(other) < place(splice));
        of_words[*word].push(at);
    }
    let target = |function: Function| {
        Target::Function(Arc::new(FunctionTarget {
            function,
            called: None,
            condition: None,
            may_be_left_out: false,
            value: 0,
        }))
    };
    Ok(Places {
        targets: functions.into_iter().map(target).collect(),
        splices,
        of_words,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let parsed = |word: &str| Word::parse(word).map(|word| (word.function, word.what));
        let at = |part: &str, offset, side| What::At(part.into(), offset, side);
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
        ] {
            assert_eq!(parsed(word).unwrap(), (function.to_owned(), what), "{word}");
        }
        for word in [
            "f+0x10",
            "sys:read",
            "fn:f:taken",
            "fn:f+0x1:both",
            "fn:f+x",
        ] {
            let failure = parsed(word).unwrap_err();
            assert!(failure.message.contains("a place is fn:NAME"), "{word}");
        }
    }
}
