// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names in a vmlinux that has no symbol table: the compressed table that the kernel itself
//! shows as /proc/kallsyms (kernel/kallsyms.c, scripts/kallsyms.c).
//!
//! The file does not say where the table lies. The 256 tokens are found by the index of them that
//! stands behind them, and the names by the marks behind them. The addresses stand before the
//! names in 6.1, and behind the tokens in 6.12 and later. Later kernels have no base of addresses:
//! an address is relative to the place where it stands. The parts of their table begin at multiples
//! of 4, and not of 8.

use crate::image::{Error, Symbol};
use crate::names::Variables;

/// Tokens, one for each value of a byte.
const TOKENS: usize = 256;
/// A mark says where each 256th name begins.
const MARKED: usize = 256;
/// Parts of the table begin at multiples of 8 bytes, in later kernels at multiples of 4.
const ALIGN: [usize; 2] = [8, 4];
/// No kernel has fewer names.
const LEAST: usize = 1000;
/// Or more.
const MOST: usize = 1 << 22;

/// The kernel's own code and data are above it.
const LOWEST: u64 = 0xffff_ffff_8000_0000;

/// A name of the table, of text or of data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its kind, as `nm` writes it: `T` and `t` are text.
    pub kind: char,
    /// Address and name.
    pub symbol: Symbol,
}

/// Reads the table out of the read-only data of a kernel. `address`: where the data stand.
///
/// # Errors
/// There is no such table, or it contradicts itself.
pub fn read(data: &[u8], address: u64) -> Result<Vec<Entry>, Error> {
    let none = || Error("no symbols: neither a symbol table nor the kernel's own are in it".into());
    let tokens = Tokens::find(data).ok_or_else(none)?;
    let names = names(data, &tokens).ok_or_else(none)?;
    let number = names.all.len();
    let addresses = addresses(data, &tokens, names.count_at, number)
        .or_else(|| relative(data, address, &tokens, &names))
        .ok_or_else(none)?;
    let entry = |(name, address): (Vec<u8>, u64)| {
        let (kind, name) = name.split_first()?;
        let symbol = Symbol {
            address,
            name: String::from_utf8_lossy(name).into_owned(),
            is_global: kind.is_ascii_uppercase(),
        };
        Some(Entry {
            kind: char::from(*kind),
            symbol,
        })
    };
    let all = names.all.into_iter().zip(addresses);
    let mut all: Vec<Entry> = all.filter_map(entry).collect();
    let variables = Variables::between(|name| {
        let own = all.iter().find(|entry| entry.symbol.name == name);
        own.map(|entry| entry.symbol.address)
    });
    for entry in &mut all {
        entry.kind = variables.kind(entry.kind, entry.symbol.address);
    }
    Ok(all)
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// The parts of names, and where they and their index lie.
struct Tokens {
    begin: usize,
    end: usize,
    all: Vec<Vec<u8>>,
}

impl Tokens {
    fn find(data: &[u8]) -> Option<Tokens> {
        // Digits are in no repeated part of names, so each is a token by itself.
        let digits = b"0\x001\x002\x003\x004\x005\x006\x007\x008\x009\0";
        let places = data.windows(digits.len()).enumerate();
        places
            .filter(|(_, window)| window == digits)
            .find_map(|(at, _)| Tokens::at(data, at))
    }

    /// With the token of the digit 0 at `zero`.
    fn at(data: &[u8], zero: usize) -> Option<Tokens> {
        let mut begin = zero;
        for _ in 0..b'0' {
            let before = data.get(..begin.checked_sub(1)?)?;
            begin = before.iter().rposition(|byte| *byte == 0)? + 1;
        }
        let mut all = Vec::with_capacity(TOKENS);
        let mut offsets = Vec::with_capacity(TOKENS);
        let mut at = begin;
        for _ in 0..TOKENS {
            let length = data
                .get(at..)?
                .iter()
                .take(MARKED)
                .position(|byte| *byte == 0)?;
            all.push(data[at..at + length].to_vec());
            offsets.push(u16::try_from(at - begin).ok()?);
            at += length + 1;
        }
        let end = ALIGN.into_iter().find_map(|align| {
            let index = at.next_multiple_of(align);
            let end = index + 2 * TOKENS;
            let said = data.get(index..end)?.chunks_exact(2);
            let said = said.map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
            said.eq(offsets.iter().copied()).then_some(end)
        })?;
        Some(Tokens { begin, end, all })
    }
}

struct Names {
    count_at: usize,
    all: Vec<Vec<u8>>,
    /// Parts of the table begin at multiples of so many bytes.
    align: usize,
}

/// Their number stands before them, and the marks behind them.
fn names(data: &[u8], tokens: &Tokens) -> Option<Names> {
    let mut aligns = ALIGN.into_iter();
    aligns.find_map(|align| names_at(data, tokens, align))
}

fn names_at(data: &[u8], tokens: &Tokens, align: usize) -> Option<Names> {
    let places = (0..tokens.begin).step_by(align);
    places.into_iter().find_map(|count_at| {
        let number = word(data, count_at)? as usize;
        let is_padded = align == 4 || word(data, count_at + 4)? == 0;
        if !(LEAST..=MOST).contains(&number) || !is_padded {
            return None;
        }
        let begins = walk(&data[..tokens.begin], count_at + align, number)?;
        let marks = begins[number].next_multiple_of(align);
        let second = u32::try_from(begins[MARKED] - begins[0]).ok()?;
        if word(data, marks)? != 0 || word(data, marks + 4)? != second {
            return None;
        }
        let all = begins
            .windows(2)
            .map(|pair| expand(&data[pair[0]..pair[1]], tokens));
        Some(Names {
            count_at,
            all: all.collect(),
            align,
        })
    })
}

/// Where each of so many names begins, and where the last ends.
fn walk(data: &[u8], mut at: usize, number: usize) -> Option<Vec<usize>> {
    let mut begins = vec![at];
    for _ in 0..number {
        let mut length = usize::from(*data.get(at)?);
        at += 1;
        if length & 0x80 != 0 {
            length = length & 0x7f | usize::from(*data.get(at)?) << 7;
            at += 1;
        }
        at += length;
        if length == 0 || at > data.len() {
            return None;
        }
        begins.push(at);
    }
    Some(begins)
}

/// A name from its tokens; its length, of one or two bytes, stands before them.
fn expand(name: &[u8], tokens: &Tokens) -> Vec<u8> {
    let length = if name[0] & 0x80 != 0 { 2 } else { 1 };
    let parts = name[length..].iter();
    let parts = parts.map(|token| tokens.all[usize::from(*token)].as_slice());
    parts.collect::<Vec<_>>().concat()
}

/// The table of offsets to a base. With CONFIG_KALLSYMS_ABSOLUTE_PERCPU those that are not negative
/// are addresses, and others are below the base. Without it none is negative.
fn addresses(data: &[u8], tokens: &Tokens, count_at: usize, number: usize) -> Option<Vec<u64>> {
    let is_base = |base: u64| base >= LOWEST && base % 4096 == 0;
    let base_at = |at: usize| {
        let base = u64::from(word(data, at)?) | u64::from(word(data, at + 4)?) << 32;
        is_base(base).then_some(base)
    };
    let size = 4 * number;
    let behind = tokens.end.next_multiple_of(8);
    let mut places = vec![(behind, (behind + size).next_multiple_of(8))];
    if let Some(before) = count_at.checked_sub(8) {
        let offsets = before.checked_sub(size.next_multiple_of(8));
        places.extend(offsets.map(|offsets| (offsets, before)));
    }
    places.into_iter().find_map(|(at, base)| {
        let base = base_at(base)?;
        let offsets = offsets(data, at, number)?;
        let has_absolute = offsets.iter().any(|offset| *offset < 0);
        let address = |offset: &i32| match u64::try_from(*offset) {
            Ok(absolute) if has_absolute => absolute,
            Ok(above) => base.wrapping_add(above),
            Err(_) => base.wrapping_sub(1).wrapping_sub(i64::from(*offset) as u64),
        };
        Some(offsets.iter().map(address).collect())
    })
}

/// The table of offsets to the places of the offsets themselves. The names are in the order of
/// addresses, so the addresses have to be in order.
fn relative(data: &[u8], address: u64, tokens: &Tokens, names: &Names) -> Option<Vec<u64>> {
    let begin = tokens.end.next_multiple_of(names.align);
    let offsets = offsets(data, begin, names.all.len())?;
    let all = offsets.iter().enumerate().map(|(index, offset)| {
        let place = address.wrapping_add((begin + 4 * index) as u64);
        place.wrapping_add(i64::from(*offset) as u64)
    });
    let all: Vec<u64> = all.collect();
    (all.is_sorted() && all[0] >= LOWEST).then_some(all)
}

fn offsets(data: &[u8], at: usize, number: usize) -> Option<Vec<i32>> {
    let bytes = data.get(at..at + 4 * number)?.chunks_exact(4);
    let offset = |four: &[u8]| i32::from_le_bytes(four.try_into().expect("4 bytes"));
    Some(bytes.map(offset).collect())
}

#[cfg(test)]
mod tests;
