// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which bytes of the text are explained: code that execution can reach, and what fills up
//! between functions. What is left is listed.
//!
//! Some of what is left are functions without a name: weak ones, in whose place the linker took
//! others. They begin as others do ([`beginnings`]).

use std::ops::Range;

use iced_x86::{FlowControl, Mnemonic};
use rayon::prelude::*;

use crate::flow::{decode, direct, instructions};
use crate::graph::Graph;
use crate::image::{Image, Text};

/// What bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Execution can reach it.
    Code,
    /// It fills up: nops, int3, zeros, the signature behind a static call's trampoline.
    Padding,
    /// Instructions that nothing leads to, as far as is known.
    Unreached,
    /// Not even instructions.
    Data,
}

/// A range of bytes that nothing explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hole {
    /// Where.
    pub range: Range<u64>,
    /// [`Kind::Unreached`] or [`Kind::Data`].
    pub kind: Kind,
}

/// Bytes of one range of text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// Bytes of [`Kind::Code`].
    pub code: u64,
    /// Bytes of [`Kind::Padding`].
    pub padding: u64,
    /// All the others, in the order of addresses.
    pub holes: Vec<Hole>,
}

impl Account {
    /// Bytes in holes.
    pub fn unexplained(&self) -> u64 {
        let length = |hole: &Hole| hole.range.end - hole.range.start;
        self.holes.iter().map(length).sum()
    }
}

/// Accounts for the bytes of every text, in the order of [`Image::texts`].
pub fn account<'a>(image: &Image, graphs: impl Iterator<Item = &'a Graph>) -> Vec<Account> {
    let texts = &image.texts;
    let unreached = texts.iter().map(|text| vec![0; text.bytes.len()]);
    let mut reached: Vec<Vec<u8>> = unreached.collect();
    for block in graphs.flat_map(|graph| &graph.blocks) {
        let Some(text) = image.text(block.start) else {
            continue;
        };
        let from = (block.start - texts[text].address) as usize;
        let to = (from + block.length as usize).min(reached[text].len());
        reached[text][from..to].fill(CODE);
    }
    let all = texts.par_iter().zip(&reached);
    all.map(|(text, reached)| of_text(text, reached)).collect()
}

/// Accounts for the bytes of one piece of a function.
pub fn account_of(text: &Text, piece: &Range<u64>, graph: &Graph) -> Account {
    let mut account = Account::default();
    let mut at = piece.start;
    let offset = |at: u64| ((at - text.address) as usize).min(text.bytes.len());
    let blocks = graph.blocks.iter();
    for block in blocks.filter(|block| piece.contains(&block.start)) {
        let start = block.start;
        if start > at {
            gap(text, offset(at)..offset(start), &mut account);
        }
        at = at.max(block.behind().min(piece.end));
    }
    if at < piece.end {
        gap(text, offset(at)..offset(piece.end), &mut account);
    }
    account.code = (piece.end - piece.start) - account.padding - account.unexplained();
    account
}

/// The mark of a byte that execution can reach; the others have 0.
const CODE: u8 = 1;

fn of_text(text: &Text, reached: &[u8]) -> Account {
    let mut account = Account::default();
    let mut at = 0;
    while at < reached.len() {
        let is_code = reached[at] == CODE;
        let other = if is_code { 0 } else { CODE };
        let run = memchr::memchr(other, &reached[at..]);
        let run = run.unwrap_or(reached.len() - at);
        if is_code {
            account.code += run as u64;
        } else {
            gap(text, at..at + run, &mut account);
        }
        at += run;
    }
    account
}

/// What bytes are that execution does not reach: padding before and behind the rest.
fn gap(text: &Text, offsets: Range<usize>, account: &mut Account) {
    let bytes = &text.bytes[offsets.clone()];
    let begin = text.address + offsets.start as u64;
    let length = padding(bytes, begin);
    account.padding += length as u64;
    let rest = &bytes[length..];
    if rest.is_empty() {
        return;
    }
    let from = begin + length as u64;
    let (mut is_code, mut behind) = (true, from);
    for instruction in instructions(rest, from) {
        is_code &= !instruction.is_invalid();
        if !matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
            behind = instruction.next_ip();
        }
    }
    let end = from + rest.len() as u64;
    account.padding += end - behind;
    account.holes.push(Hole {
        range: from..behind,
        kind: if is_code { Kind::Unreached } else { Kind::Data },
    });
}

fn is_filler(byte: u8) -> bool {
    matches!(byte, 0x90 | 0xcc | 0)
}

/// Bytes of padding that something begins with.
fn padding(bytes: &[u8], address: u64) -> usize {
    // ud1 %esp,%ecx: arch/x86/include/asm/static_call.h. A trampoline that returns at once has
    // int3 before it.
    const SIGNATURE: [u8; 3] = [0x0f, 0xb9, 0xcc];
    let mut length = 0;
    while length < bytes.len() {
        if is_filler(bytes[length]) {
            length += 1;
            continue;
        }
        if bytes[length..].starts_with(&SIGNATURE) {
            length += SIGNATURE.len();
            continue;
        }
        let at = address + length as u64;
        match decode(&bytes[length..], at) {
            Some(nop) if nop.mnemonic() == Mnemonic::Nop => length += nop.len(),
            _ => break,
        }
    }
    length
}

/// Where functions without a name begin in a hole: where the code before has ended, and an
/// instruction stands that begins functions, or the hole begins on a boundary of 16 bytes.
/// `tracer` is the function that is called at the beginning of functions.
pub fn beginnings(image: &Image, hole: &Hole, tracer: Option<u64>) -> Vec<u64> {
    let mut all = Vec::new();
    let length = (hole.range.end - hole.range.start) as usize;
    let bytes = image
        .bytes(hole.range.start)
        .and_then(|all| all.get(..length));
    let Some(bytes) = bytes.filter(|_| hole.kind == Kind::Unreached) else {
        return all;
    };
    let mut begins = true;
    for instruction in instructions(bytes, hole.range.start) {
        if matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
            continue;
        }
        let is_first = instruction.mnemonic() == Mnemonic::Endbr64
            || tracer.is_some() && direct(&instruction) == tracer;
        let is_aligned = instruction.ip() % 16 == 0;
        if begins && is_first || all.is_empty() && begins && is_aligned {
            all.push(instruction.ip());
        }
        begins = !matches!(
            instruction.flow_control(),
            FlowControl::Next | FlowControl::ConditionalBranch | FlowControl::IndirectCall
        );
    }
    all
}
