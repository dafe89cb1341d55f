// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the kernel would make a jump of a kprobe (an optimised kprobe): the conditions of
//! arch/x86/kernel/kprobes/opt.c, asked of machine code.
//!
//! What is not asked: other kprobes nearby, and whether the kernel has switched optimising off.

use std::ops::Range;

use iced_x86::FlowControl;
use jifl_code::flow::{self, Flow, Thunks};
use jifl_code::image::Image;

/// Bytes of the jump.
const JUMP: u64 = 5;
/// The address range of thunks has these names where the kernel looks for indirect jumps. Kernels
/// from 6.5 on have neither the names nor the search.
const THUNKS: [&str; 2] = ["__indirect_thunk_start", "__indirect_thunk_end"];

/// Answers for one image.
pub struct Optprobes<'a> {
    image: &'a Image,
    /// The kernel looks for indirect jumps, and for jumps to these thunks.
    thunks: Option<Range<u64>>,
    /// What jumps to them are, where returns through them do not count as indirect jumps.
    returns: Option<Thunks>,
    /// What was asked about last.
    last: Option<Part>,
}

/// Code from one symbol to the next.
struct Part {
    range: Range<u64>,
    /// Nothing in it is against all jumps in it.
    allows: bool,
    /// Where its jumps lead to, in order.
    targets: Vec<u64>,
}

impl Optprobes<'_> {
    /// For an image. `is_patched`: the kernel has made of returns through a thunk what they are on
    /// its machine. On most machines they become returns, so in a file they count as such.
    pub fn of(image: &Image, is_patched: bool) -> Optprobes<'_> {
        let address = |name: &str| {
            let symbol = image.symbols.iter().find(|symbol| symbol.name == name);
            symbol.map(|symbol| symbol.address)
        };
        let [start, end] = THUNKS.map(address);
        Optprobes {
            image,
            thunks: start.zip(end).map(|(start, end)| start..end),
            returns: (!is_patched).then(|| Thunks::of(image)),
            last: None,
        }
    }

    /// Would a kprobe at the instruction at an address become a jump? The address may have a
    /// kprobe, and no call of the tracer.
    pub fn can(&mut self, at: u64) -> bool {
        let Some(part) = self.part(at) else {
            return false;
        };
        let inner = at + 1..=at + JUMP;
        let leads_in = || {
            let first = part.targets.partition_point(|to| to < inner.start());
            part.targets.get(first).is_some_and(|to| inner.contains(to))
        };
        part.allows && part.range.end - at >= JUMP && !leads_in() && self.can_copy(at)
    }

    fn part(&mut self, at: u64) -> Option<&Part> {
        if !self
            .last
            .as_ref()
            .is_some_and(|part| part.range.contains(&at))
        {
            self.last = Some(self.read(at)?);
        }
        self.last.as_ref()
    }

    fn read(&self, at: u64) -> Option<Part> {
        let symbols = &self.image.symbols;
        let text = &self.image.texts[self.image.text(at)?];
        let behind = symbols.partition_point(|symbol| symbol.address <= at);
        let start = symbols[behind.checked_sub(1)?].address;
        let end = symbols.get(behind).map_or(u64::MAX, |next| next.address);
        let range = start.max(text.address)..end.min(text.end());
        let bytes = self.image.bytes(range.start)?;
        let all = flow::instructions(bytes, range.start);
        let mut part = Part {
            range: range.clone(),
            allows: true,
            targets: Vec::new(),
        };
        for one in all.take_while(|one| range.contains(&one.ip())) {
            let flow = one.flow_control();
            let jumps = matches!(
                flow,
                FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch
            );
            let target = flow::direct(&one).filter(|_| jumps);
            let is_indirect = self.thunks.as_ref().is_some_and(|thunks| {
                let to_thunk = |to| (thunks.start..=thunks.end).contains(&to);
                let is_return = || {
                    let flow = self.returns.as_ref().map(|thunks| thunks.flow(&one));
                    matches!(flow, Some(Flow::Return | Flow::BranchReturn))
                };
                flow == FlowControl::IndirectBranch || target.is_some_and(to_thunk) && !is_return()
            });
            // Fixups of an exception come from elsewhere.
            if one.is_invalid() || is_indirect || self.image.fixup(one.ip()).is_some() {
                part.allows = false;
                break;
            }
            part.targets.extend(target);
        }
        part.targets.sort_unstable();
        Some(part)
    }

    /// Can the instructions that the jump replaces be executed elsewhere?
    fn can_copy(&self, at: u64) -> bool {
        let mut end = at;
        while end < at + JUMP {
            let bytes = self.image.bytes(end).unwrap_or_default();
            let Some(one) = flow::decode(bytes, end) else {
                return false;
            };
            let is_good = self.image.fixup(end).is_none()
                && Opcode::of(&bytes[..one.len()]).is_boostable(self.thunks.is_none());
            if !is_good {
                return false;
            }
            end = one.next_ip();
        }
        !self.is_patched(&(at..end))
    }

    /// Does the kernel change instructions in a range: those of static keys and static calls?
    fn is_patched(&self, range: &Range<u64>) -> bool {
        let tables = &self.image.tables;
        let length = |at: u64| {
            let bytes = self.image.bytes(at).unwrap_or_default();
            flow::decode(bytes, at).map_or(JUMP, |one| one.len() as u64)
        };
        let from = range.start.saturating_sub(JUMP);
        let near = |at: &u64| (from..range.end).contains(at) && at + length(*at) > range.start;
        let first = tables.keys.partition_point(|(at, _)| *at < from);
        let keys = tables.keys[first..].iter().map(|(at, _)| at);
        let first = tables.static_calls.partition_point(|at| *at < from);
        let calls = tables.static_calls[first..].iter();
        let is_far = |at: &&u64| **at < range.end;
        keys.take_while(is_far).any(near) || calls.take_while(is_far).any(near)
    }
}

/// An opcode, as the kernel's decoder tells it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Opcode {
    map: Map,
    number: u8,
    /// The byte behind it, which may be a ModRM byte.
    next: u8,
    /// It has a prefix that changes the address's size, or names cs.
    is_odd: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Map {
    One,
    Two,
    Three,
}

impl Opcode {
    fn of(bytes: &[u8]) -> Opcode {
        let at = |place: usize| bytes.get(place).copied().unwrap_or_default();
        let is_prefix = |byte: u8| {
            matches!(
                byte,
                0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3
            )
        };
        let prefixes = bytes.iter().take_while(|byte| is_prefix(**byte)).count();
        let is_odd = bytes[..prefixes]
            .iter()
            .any(|byte| matches!(byte, 0x2e | 0x67));
        let begin = prefixes + usize::from(at(prefixes) & 0xf0 == 0x40);
        let (map, place) = match (at(begin), at(begin + 1)) {
            (0x0f, 0x38 | 0x3a) => (Map::Three, begin + 2),
            (0x0f, _) => (Map::Two, begin + 1),
            // Behind a prefix of AVX the opcode counts as one of the first map.
            (0xc5, _) => (Map::One, begin + 2),
            (0xc4, _) => (Map::One, begin + 3),
            (0x62, _) => (Map::One, begin + 4),
            _ => (Map::One, begin),
        };
        Opcode {
            map,
            number: at(place),
            next: at(place + 1),
            is_odd,
        }
    }

    /// Does it do the same when it is executed elsewhere (`can_boost`, `__copy_instruction`)?
    /// `newer`: by the rules of 6.9 and later, which take more of groups 2 to 5.
    fn is_boostable(self, newer: bool) -> bool {
        let reg = self.next >> 3 & 7;
        match self.map {
            Map::Three => false,
            Map::Two => is_boostable_of_two(self.number),
            Map::One if self.is_odd => false,
            Map::One => match self.number {
                0x62 | 0x70..=0x7f | 0x9a | 0xcc..=0xce | 0xd6 | 0xd8..=0xdf => false,
                0xe0..=0xe3 | 0xe8 | 0xe9 | 0xeb | 0xf0..=0xf4 => false,
                // It sets ss, which holds exceptions back.
                0x8e => reg != 2,
                0xc0 | 0xc1 | 0xd0..=0xd3 => newer && reg != 6,
                0xf6 | 0xf7 => newer && reg != 1,
                0xfe => newer && reg <= 1,
                0xff => reg == 4 || newer && reg <= 1,
                _ => true,
            },
        }
    }
}

/// Opcodes behind 0x0f (`twobyte_is_boostable`).
fn is_boostable_of_two(number: u8) -> bool {
    match number >> 4 {
        0x0 => matches!(number, 0x02 | 0x03 | 0x06 | 0x08 | 0x09),
        0x1 => number == 0x1f,
        0x2 => number <= 0x23,
        0x3 => number == 0x31,
        0x4 | 0x9 => true,
        0x6 => !matches!(number, 0x6c | 0x6d),
        0x7 => matches!(number, 0x74..=0x77 | 0x7e | 0x7f),
        0xa => !matches!(number, 0xa2 | 0xa6 | 0xa7 | 0xaa | 0xae),
        0xb => !matches!(number, 0xb2 | 0xb8..=0xba),
        0xc => !matches!(number, 0xc2..=0xc7),
        0xd => !matches!(number, 0xd0 | 0xd4 | 0xd6 | 0xd7 | 0xda | 0xde),
        0xe => !matches!(number, 0xe0 | 0xe3 | 0xe4 | 0xe6 | 0xe7 | 0xea | 0xee),
        0xf => !matches!(number, 0xf0 | 0xf4 | 0xf6 | 0xf7 | 0xfb | 0xff),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use jifl_code::image::{Fixup, Symbol};

    use super::*;

    const F: u64 = 0x1000;

    fn image(bytes: &[u8]) -> Image {
        Image::of_text(F, bytes.to_vec(), &[(F, "f")])
    }

    /// At which of these offsets a kprobe would become a jump.
    fn can(image: &Image, offsets: &[u64]) -> Vec<bool> {
        let mut all = Optprobes::of(image, true);
        offsets.iter().map(|offset| all.can(F + offset)).collect()
    }

    #[test]
    fn a_jump_needs_whole_instructions_of_its_function() {
        // xor eax,eax; add rax,rdi; dec rdi; ret; and a function behind it.
        let bytes = [0x31, 0xc0, 0x48, 0x01, 0xf8, 0x48, 0xff, 0xcf, 0xc3, 0x90];
        let all = [0, 2, 5, 8];
        assert_eq!(can(&image(&bytes), &all), [true, true, true, false]);
        let mut two = image(&bytes);
        two.symbols.push(Symbol {
            address: F + 9,
            name: "g".into(),
            is_global: true,
        });
        assert_eq!(can(&two, &all), [true, true, false, false]);
        // In the padding an int3, which is not executed elsewhere.
        let padded = [0x48, 0xff, 0xcf, 0xc3, 0xcc, 0xcc, 0xcc];
        assert_eq!(can(&image(&padded), &[0]), [false]);
    }

    #[test]
    fn what_is_led_to_or_patched_stays() {
        // Two instructions of five bytes, `dec rdi`, a jump back to the one at `to`, nops.
        let looped = |to: i8| {
            let mut bytes = vec![0x31, 0xc0, 0x48, 0x01, 0xf8, 0x48, 0xff, 0xcf, 0x75];
            bytes.push((to - 10) as u8);
            bytes.extend([0x90; 6]);
            image(&bytes)
        };
        assert_eq!(can(&looped(0), &[0, 2]), [true, true]);
        assert_eq!(can(&looped(2), &[0, 2]), [false, true]);
        // The kernel takes the address right behind the jump for one in it.
        assert_eq!(can(&looped(5), &[0, 2]), [false, false]);
        // A jump on a condition is not executed elsewhere.
        assert_eq!(can(&looped(0), &[5, 8, 10]), [false, false, true]);
        let mut keyed = looped(0);
        keyed.tables.keys = vec![(F + 2, F)];
        assert_eq!(can(&keyed, &[0, 2, 10]), [false, false, true]);
        let mut faulting = looped(0);
        faulting.tables.fixups = vec![Fixup::new(F + 10, F + 12)];
        assert_eq!(can(&faulting, &[0, 2, 11]), [false, false, false]);
    }

    #[test]
    fn kernels_differ_in_indirect_jumps_and_in_groups() {
        // shl rax,4; shl rax,4; jmp rdx; nops
        let mut bytes = vec![0x48, 0xc1, 0xe0, 4, 0x48, 0xc1, 0xe0, 4, 0xff, 0xe2];
        bytes.extend([0x90; 6]);
        let newer = image(&bytes);
        assert_eq!(can(&newer, &[0, 8, 10]), [true, true, true]);
        let mut older = newer.clone();
        for (address, name) in [(0x2000, THUNKS[0]), (0x2400, THUNKS[1])] {
            older.symbols.push(Symbol {
                address,
                name: name.into(),
                is_global: true,
            });
        }
        assert_eq!(can(&older, &[0, 8, 10]), [false, false, false]);
        // Without the jump the groups alone are against it.
        older.texts[0].bytes[8..10].fill(0x90);
        assert_eq!(can(&older, &[0, 4, 8]), [false, false, true]);
    }

    #[test]
    fn returns_through_a_thunk_are_patched() {
        // xor eax,eax; add rax,rdi; jmp thunk; and the thunk.
        let mut bytes = vec![
            0x31, 0xc0, 0x48, 0x01, 0xf8, 0xe9, 1, 0, 0, 0, 0xcc, 0xc3, 0xcc,
        ];
        bytes.resize(16, 0xcc);
        let thunk = F + 11;
        let names = [
            (F, "f"),
            (thunk, THUNKS[0]),
            (thunk, "__x86_return_thunk"),
            (thunk + 4, THUNKS[1]),
        ];
        let image = Image::of_text(F, bytes, &names);
        let can = |is_patched| Optprobes::of(&image, is_patched).can(F);
        assert_eq!((can(true), can(false)), (false, true));
    }

    #[test]
    fn opcodes_stand_behind_prefixes() {
        let opcode = |bytes: &[u8]| {
            let found = Opcode::of(bytes);
            (found.map, found.number, found.next)
        };
        assert_eq!(opcode(&[0x48, 0x89, 0xc7]), (Map::One, 0x89, 0xc7));
        assert_eq!(
            opcode(&[0xf0, 0x48, 0x0f, 0xb1, 0x17]),
            (Map::Two, 0xb1, 0x17)
        );
        assert_eq!(
            opcode(&[0x66, 0x0f, 0x38, 0xf6, 0xc0]),
            (Map::Three, 0xf6, 0xc0)
        );
        assert_eq!(opcode(&[0xc5, 0xfd, 0x6f, 0x06]), (Map::One, 0x6f, 0x06));
        assert!(!Opcode::of(&[0x67, 0x89, 0x07]).is_boostable(true));
        assert!(!Opcode::of(&[0x8e, 0xd0]).is_boostable(true));
        assert!(Opcode::of(&[0x8e, 0xd8]).is_boostable(true));
    }
}
