// SPDX-License-Identifier: MIT OR Apache-2.0
//! The instructions of one function, and where it is left. Only the function's own bytes are read:
//! the structure of the whole kernel takes much longer.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use iced_x86::{
    FlowControl, Formatter, GasFormatter, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
};
use jifl_code::flow::{self, Flow, Target, Thunks};
use jifl_code::names;
use jifl_code::running::Memory;
use jifl_sys::abi::{SPLICE_BEFORE, SPLICE_TAKEN};

use super::word::Form;
use crate::kernel::functions::Function;
use crate::kernel::symbols::Symbols;

/// A function's name and module.
type Key<'a> = (&'a str, Option<&'a str>);

/// What compilers have put aside of functions: the rest of the name, and the address.
pub struct Parts<'a>(HashMap<Key<'a>, Vec<(&'a str, u64)>>);

impl<'a> Parts<'a> {
    /// All of them.
    pub fn of(symbols: &'a Symbols) -> Parts<'a> {
        let mut all: HashMap<_, Vec<_>> = HashMap::new();
        for (part, _) in symbols.code() {
            if let Some(whole) = names::whole(part.name) {
                let of_function = all.entry((whole, part.module)).or_default();
                of_function.push((&part.name[whole.len()..], part.address));
            }
        }
        Parts(all)
    }
}

/// A function's code.
#[derive(Debug)]
pub struct Code {
    /// Where the function stands; behind it, its cold parts with their names.
    pieces: Vec<(String, Range<u64>)>,
    /// What stands there.
    bytes: Vec<Vec<u8>>,
    /// In the order of addresses, piece by piece.
    instructions: Vec<Instruction>,
    /// Kprobes stand in it, so the instructions are not known for certain.
    pub has_kprobes: bool,
}

impl Code {
    /// The code of a function of the running kernel. `None`: it cannot be read.
    pub fn of(
        function: &Function,
        parts: &Parts<'_>,
        symbols: &Symbols,
        memory: &mut dyn Memory,
    ) -> Option<Code> {
        let mut pieces = vec![(
            String::new(),
            function.address..symbols.end(function.address)?,
        )];
        let key = (function.name.as_str(), function.module.as_deref());
        for (rest, start) in parts.0.get(&key).into_iter().flatten() {
            pieces.push(((*rest).to_owned(), *start..symbols.end(*start)?));
        }
        let mut code = Code::read(pieces, memory)?;
        code.has_kprobes = code.find_kprobes(symbols);
        Some(code)
    }

    fn read(pieces: Vec<(String, Range<u64>)>, memory: &mut dyn Memory) -> Option<Code> {
        let (mut all, mut instructions) = (Vec::new(), Vec::new());
        for (_, piece) in &pieces {
            let length = usize::try_from(piece.end - piece.start).ok()?;
            let bytes = memory.bulk(piece.start, length)?;
            instructions.extend(flow::instructions(&bytes, piece.start));
            all.push(bytes);
        }
        Some(Code {
            pieces,
            bytes: all,
            instructions,
            has_kprobes: false,
        })
    }

    /// The address of `+OFFSET`, or of `.cold+OFFSET`. `None`: the function has no such part.
    pub fn address(&self, part: &str, offset: u64) -> Option<u64> {
        let (_, piece) = self.pieces.iter().find(|(name, _)| name == part)?;
        piece.start.checked_add(offset)
    }

    /// Is the address in the function?
    pub fn holds(&self, address: u64) -> bool {
        self.pieces
            .iter()
            .any(|(_, piece)| piece.contains(&address))
    }

    /// The place of an address: `+0x12`, `.cold+0x3`.
    pub fn place(&self, address: u64) -> String {
        let found = self
            .pieces
            .iter()
            .find(|(_, piece)| piece.contains(&address));
        match found {
            Some((name, piece)) => format!("{name}+{:#x}", address - piece.start),
            None => format!("{address:#x}"),
        }
    }

    /// Do kprobes stand in the function? What follows a breakpoint, or the jump that may stand in
    /// its place, may be decoded wrongly.
    fn find_kprobes(&self, symbols: &Symbols) -> bool {
        let is_int3 = |one: &Instruction| one.mnemonic() == Mnemonic::Int3;
        // Padding is a run of them, behind what does not go on.
        let goes_on = |one: &Instruction| {
            let flow = one.flow_control();
            matches!(flow, FlowControl::Next | FlowControl::ConditionalBranch)
        };
        let stops = self
            .instructions
            .windows(2)
            .any(|pair| is_int3(&pair[1]) && !is_int3(&pair[0]) && goes_on(&pair[0]));
        // Compiled code jumps to beginnings of other functions.
        let leads_out = |one: &Instruction| {
            let to = flow::direct(one).filter(|_| one.mnemonic() == Mnemonic::Jmp);
            let to = to.filter(|to| !self.holds(*to));
            to.is_some_and(|to| match symbols.function(to) {
                Some(place) if place.start() == to => place
                    .module()
                    .is_some_and(|name| name.starts_with("__builtin__")),
                _ => true,
            })
        };
        stops
            || self.instructions.first().is_some_and(is_int3)
            || self.instructions.iter().any(leads_out)
    }

    /// The instruction that begins there.
    pub fn at(&self, address: u64) -> Option<&Instruction> {
        let mut all = self.instructions.iter();
        all.find(|one| one.ip() == address && !one.is_invalid())
    }

    /// The address behind the endbr64 there; the same address if there is none.
    pub fn behind_endbr64(&self, address: u64) -> u64 {
        match self.at(address) {
            Some(one) if one.mnemonic() == Mnemonic::Endbr64 => one.next_ip(),
            _ => address,
        }
    }

    /// Where the instructions nearest to an address begin, before it and behind it.
    pub fn neighbours(&self, address: u64) -> Vec<u64> {
        let all = || self.instructions.iter().map(Instruction::ip);
        let before = all().filter(|ip| *ip < address).max();
        let behind = all().filter(|ip| *ip > address).min();
        before.into_iter().chain(behind).collect()
    }

    /// Where the function returns, or jumps to another function that returns for it: addresses, and
    /// `SPLICE_*`.
    pub fn exits(&self, thunks: &Thunks) -> Vec<(u64, u32)> {
        let begin = self.pieces[0].1.start;
        let stays = |to: u64| to != begin && self.holds(to);
        let exit = |one: &Instruction| match thunks.flow(one) {
            Flow::Return => Some(SPLICE_BEFORE),
            Flow::BranchReturn => Some(SPLICE_TAKEN),
            Flow::Jump(Target::Direct(to)) => (!stays(to)).then_some(SPLICE_BEFORE),
            Flow::Jump(Target::Indirect(_)) => Some(SPLICE_BEFORE),
            Flow::Branch(Target::Direct(to)) => (!stays(to)).then_some(SPLICE_TAKEN),
            Flow::Branch(Target::Indirect(_)) => Some(SPLICE_TAKEN),
            _ => None,
        };
        let all = self.instructions.iter();
        all.filter_map(|one| Some((one.ip(), exit(one)?))).collect()
    }

    /// Where instructions of a form stand: addresses. What stands at the function's site is the
    /// tracer's. `names`: is an address the beginning of a function that is meant?
    pub fn all(
        &self,
        form: &Form,
        thunks: &Thunks,
        site: Range<u64>,
        names: impl Fn(&str, u64) -> bool,
    ) -> Vec<u64> {
        let begin = self.pieces[0].1.start;
        let mut accesses = InstructionInfoFactory::new();
        let mut texts = GasFormatter::new();
        let calls = |one: &Instruction, callee: &str| match thunks.flow(one) {
            Flow::Call(Target::Direct(to)) => names(callee, to),
            Flow::Jump(Target::Direct(to)) | Flow::Branch(Target::Direct(to)) => {
                (to == begin || !self.holds(to)) && names(callee, to)
            }
            _ => false,
        };
        let mut access = |one: &Instruction, wanted: &[OpAccess]| {
            // The stack of calls and returns, and addresses that are only computed, are none.
            let info = accesses.info(one);
            let mut memory = info.used_memory().iter();
            one.flow_control() == FlowControl::Next
                && memory.any(|memory| wanted.contains(&memory.access()))
        };
        let mut is_it = |one: &Instruction| match form {
            // What a warning's stands for is the kernel's own.
            Form::Every => one.mnemonic() != Mnemonic::Ud2 && one.mnemonic() != Mnemonic::Int3,
            Form::Calls => matches!(thunks.flow(one), Flow::Call(_)),
            Form::CallsOf(callee) => calls(one, callee),
            Form::BehindCallsOf(callee) => {
                one.flow_control() == FlowControl::Call && calls(one, callee)
            }
            Form::Loads => access(
                one,
                &[
                    OpAccess::Read,
                    OpAccess::CondRead,
                    OpAccess::ReadWrite,
                    OpAccess::ReadCondWrite,
                ],
            ),
            Form::Stores => access(
                one,
                &[
                    OpAccess::Write,
                    OpAccess::CondWrite,
                    OpAccess::ReadWrite,
                    OpAccess::ReadCondWrite,
                ],
            ),
            Form::Named { locked, mnemonic } => {
                let is_named = |mnemonic: &String| {
                    let mut text = String::new();
                    texts.format_mnemonic(one, &mut text);
                    let written = text.rsplit(' ').next() == Some(mnemonic);
                    written || format!("{:?}", one.mnemonic()).eq_ignore_ascii_case(mnemonic)
                };
                (!locked || one.has_lock_prefix()) && mnemonic.as_ref().is_none_or(is_named)
            }
        };
        let all = self.instructions.iter();
        let own = all.filter(|one| !one.is_invalid() && !site.contains(&one.ip()));
        let found = own.filter(|one| is_it(one));
        match form {
            Form::BehindCallsOf(_) => {
                let behind = found.map(Instruction::next_ip);
                behind.filter(|at| self.at(*at).is_some()).collect()
            }
            _ => found.map(Instruction::ip).collect(),
        }
    }

    /// Does the exit there return, and not jump to what returns for it?
    pub fn returns(&self, address: u64, thunks: &Thunks) -> bool {
        let flow = self.at(address).map(|one| thunks.flow(one));
        matches!(flow, Some(Flow::Return | Flow::BranchReturn))
    }

    /// Does a branch of the function lead there?
    pub fn is_jumped_to(&self, address: u64) -> bool {
        let is_call = |one: &Instruction| one.flow_control() == FlowControl::Call;
        let all = self.instructions.iter().filter(|one| !is_call(one));
        all.filter_map(flow::direct).any(|to| to == address)
    }

    /// The same, whatever kprobes hide: each byte is taken for the beginning of a branch, and each
    /// int3 for the first byte of one. What the jump of a kprobe replaces, or one of the module's
    /// own, has no branch (`can_boost` in the kernel's arch/x86/kernel/kprobes/core.c,
    /// host/kernel/text/jump_check.c).
    pub fn may_be_jumped_to(&self, address: u64) -> bool {
        let mut pieces = self.pieces.iter().zip(&self.bytes);
        pieces.any(|((_, piece), bytes)| {
            let end = bytes.iter().rposition(|byte| *byte != INT3);
            // The first byte behind may be none of the padding: a breakpoint at a last branch, whose
            // displacement looks like one, too.
            let code = &bytes[..end.map_or(0, |last| last + 2).min(bytes.len())];
            (0..code.len()).any(|at| {
                let to = address.wrapping_sub(piece.start + at as u64);
                may_branch(&bytes[at..], to)
            })
        })
    }

    /// The functions that it calls directly, or jumps to, each once: where they begin.
    pub fn callees(&self) -> Vec<u64> {
        let all = self.instructions.iter().filter_map(flow::direct);
        let all: BTreeSet<u64> = all.filter(|to| !self.holds(*to)).collect();
        all.into_iter().collect()
    }

    /// Is it a branch on a condition whose ways can be told apart?
    pub fn is_branch(&self, address: u64) -> bool {
        self.at(address).is_some_and(is_branch)
    }
}

/// The first byte of a breakpoint. Padding is a run of them.
const INT3: u8 = 0xcc;

/// May a direct branch stand at the beginning of these bytes that leads so far from there?
fn may_branch(bytes: &[u8], distance: u64) -> bool {
    let short = |at: usize| {
        let displacement = *bytes.get(at)? as i8;
        Some(((at + 1) as u64).wrapping_add_signed(i64::from(displacement)))
    };
    let near = |at: usize| {
        let displacement = i32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?);
        Some(((at + 4) as u64).wrapping_add_signed(i64::from(displacement)))
    };
    let leads = |to: Option<u64>| to == Some(distance);
    match bytes {
        [INT3, ..] => leads(short(1)) || leads(near(1)) || leads(near(2)),
        [0x70..=0x7f | 0xe0..=0xe3 | 0xeb, ..] => leads(short(1)),
        [0xe9, ..] => leads(near(1)),
        [0x0f, 0x80..=0x8f, ..] => leads(near(2)),
        _ => false,
    }
}

/// Is it a branch on a condition whose ways can be told apart?
pub fn is_branch(one: &Instruction) -> bool {
    let is_loop = matches!(
        one.mnemonic(),
        Mnemonic::Loop | Mnemonic::Loope | Mnemonic::Loopne
    );
    one.flow_control() == FlowControl::ConditionalBranch && !is_loop
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::cmd::probe::word::{What, Word};

    /// Memory that holds these bytes alone.
    struct Bytes(u64, Vec<u8>);

    impl Memory for Bytes {
        fn read(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
            let from = usize::try_from(address.checked_sub(self.0)?).ok()?;
            self.1.get(from..from + length).map(<[u8]>::to_vec)
        }

        fn bulk(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
            self.read(address, length)
        }
    }

    /// `je +5; jne elsewhere; jmp begin; jmp *rax; ret; int3`, from 0x1000 on.
    pub fn sample() -> Code {
        let bytes = vec![
            0x74, 0x03, // je 0x1005
            0x0f, 0x1f, 0x00, // nop
            0x0f, 0x85, 0xf5, 0x0f, 0, 0, // jne 0x2000
            0xeb, 0xf3, // jmp 0x1000
            0xff, 0xe0, // jmp *%rax
            0xc3, 0xcc, 0xcc,
        ];
        let end = 0x1000 + bytes.len() as u64;
        Code::read(
            vec![(String::new(), 0x1000..end)],
            &mut Bytes(0x1000, bytes),
        )
        .unwrap()
    }

    #[test]
    fn returns_are_all_ways_out() {
        let exits = sample().exits(&Thunks::default());
        assert_eq!(
            exits,
            [
                (0x1005, SPLICE_TAKEN),
                (0x100b, SPLICE_BEFORE),
                (0x100d, SPLICE_BEFORE),
                (0x100f, SPLICE_BEFORE),
            ]
        );
    }

    #[test]
    fn instructions_are_found_by_their_form() {
        let bytes = vec![
            0xe8, 0xfb, 0x0f, 0, 0, // call 0x2000
            0xf0, 0x48, 0x0f, 0xb1, 0x0a, // lock cmpxchg %rcx,(%rdx)
            0x48, 0x8b, 0x02, // mov (%rdx),%rax
            0xc7, 0x02, 1, 0, 0, 0, // movl $1,(%rdx)
            0xff, 0xd0, // call *%rax
            0xe8, 0xe6, 0x0f, 0, 0, // call 0x2000
            0xe8, 0xe1, 0x1f, 0, 0, // call 0x3000
            0xe9, 0xdc, 0x0f, 0, 0, // jmp 0x2000
        ];
        let end = 0x1000 + bytes.len() as u64;
        let pieces = vec![(String::new(), 0x1000..end)];
        let code = Code::read(pieces, &mut Bytes(0x1000, bytes)).unwrap();
        let found = |word: &str| {
            let What::All(form) = Word::parse(word).unwrap().what else {
                panic!("{word}")
            };
            let is_it = |name: &str, at| (name == "g" && at == 0x2000) || name == "*";
            let site = 0x1000..0x1005;
            code.all(&form, &Thunks::default(), site, is_it)
        };
        let every = [0x1005, 0x100a, 0x100d, 0x1013, 0x1015, 0x101a, 0x101f];
        assert_eq!(found("fn:f insn"), every);
        assert_eq!(found("fn:f call:g"), [0x1015, 0x101f]);
        assert_eq!(found("fn:f call:g:return"), [0x101a]);
        assert_eq!(found("fn:f call:*"), [0x1015, 0x101a, 0x101f]);
        assert_eq!(found("fn:f call"), [0x1013, 0x1015, 0x101a]);
        assert_eq!(found("fn:f cmpxchg"), [0x1005]);
        assert_eq!(found("fn:f lock cmpxchg"), [0x1005]);
        assert_eq!(found("fn:f lock"), [0x1005]);
        assert_eq!(found("fn:f lock mov"), [0; 0]);
        assert_eq!(found("fn:f mov"), [0x100a, 0x100d]);
        assert_eq!(found("fn:f movl"), [0x100d]);
        assert_eq!(found("fn:f load"), [0x1005, 0x100a]);
        assert_eq!(found("fn:f store"), [0x1005, 0x100d]);
    }

    #[test]
    fn branches_are_found_beneath_breakpoints() {
        let mut bytes = vec![
            0x48, 0x89, 0xf8, // mov %rdi,%rax
            0x48, 0x83, 0xe8, 0x01, // 3: sub $1,%rax
            0x0f, 0x84, 0xf6, 0xff, 0xff, 0xff, // je 3
            0xe9, 0x07, 0, 0, 0, // jmp 0x19
            0x75, 0xef, // jne 3
            0x90, 0x90, 0x90, 0x90, 0x90, 0xc3, 0xcc, 0xcc,
        ];
        let leads = |bytes: &[u8], to| {
            let pieces = vec![(String::new(), 0x1000..0x1000 + bytes.len() as u64)];
            let code = Code::read(pieces, &mut Bytes(0x1000, bytes.to_vec())).unwrap();
            code.may_be_jumped_to(to)
        };
        for to in [0x1003, 0x1019] {
            assert!(leads(&bytes, to), "{to:#x}");
        }
        for to in [0x1000, 0x1007, 0x100d, 0x1018] {
            assert!(!leads(&bytes, to), "{to:#x}");
        }
        // A breakpoint at any of the three hides nothing, whichever of the others are there.
        for at in [7, 13, 18] {
            let mut now = bytes.clone();
            now[at] = INT3;
            assert!(leads(&now, 0x1003) && leads(&now, 0x1019), "{at}");
        }
        bytes[7..13].fill(0x90);
        bytes[18] = INT3;
        assert!(leads(&bytes, 0x1003));
        bytes[19] = 0xee;
        assert!(!leads(&bytes, 0x1003));
        // What pads a function is no breakpoint, but for its first byte: as a branch it would lead
        // here.
        let mut padded = [0x90; 0x70].to_vec();
        padded[0x60..].fill(INT3);
        padded[0x5f] = 0xc3;
        let to = 0x1062_u64.wrapping_add_signed(i64::from(INT3 as i8));
        assert!(leads(&padded, to));
        let to = to + 1;
        assert!(!leads(&padded, to));
        padded[0x6f] = 0xc3;
        assert!(leads(&padded, to));
    }

    #[test]
    fn places_are_beginnings_of_instructions() {
        let code = sample();
        assert_eq!(code.neighbours(0x1003), [0x1002, 0x1005]);
        assert!(code.at(0x1002).is_some() && code.at(0x1003).is_none());
        assert!(code.is_branch(0x1000) && !code.is_branch(0x1002) && !code.is_branch(0x100b));
        assert_eq!(code.place(0x1005), "+0x5");
        let symbols = Symbols::parse("1000 T f\n2000 T g\n");
        assert!(!code.find_kprobes(&symbols));
        // A jump to what has no name, and breakpoints behind what goes on.
        for bytes in [
            &[0xe9, 0, 0, 0x10, 0][..],
            &[0x90, 0xcc, 0x00, 0xc3],
            &[0x74, 0x01, 0xcc, 0xc3],
        ] {
            let end = 0x1000 + bytes.len() as u64;
            let mut memory = Bytes(0x1000, bytes.to_vec());
            let code = Code::read(vec![(String::new(), 0x1000..end)], &mut memory).unwrap();
            let symbols = Symbols::parse("1000 T f\n101000 t page\t[__builtin__kprobes]\n");
            assert!(code.find_kprobes(&symbols), "{bytes:02x?}");
        }
    }
}
