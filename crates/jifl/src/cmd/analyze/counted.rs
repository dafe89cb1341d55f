// SPDX-License-Identifier: MIT OR Apache-2.0
//! The executions of a recording, at the addresses of the code that is analysed.
//!
//! A recording may be of another boot, and a module's file is linked elsewhere: places are found by
//! the distance of the whole image, or by the name of the function where only one has it.
//!
//! A session's blocks are others than those of the structure. They end at calls, and a jump into
//! one makes another. So executions are those of instructions: all blocks that contain one,
//! together ([`pieces`]). A block that was not translated was not executed, unless it ran natively.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};
use jifl_code::depth::instructions;
use jifl_code::edges::{self, Contradiction, Visits};
use jifl_code::graph::{Block, EdgeKind, Graph};
use jifl_code::program::{Function, Program};

use super::input::Source;
use crate::base::exit::Failure;
use crate::kernel::images::KERNEL;
use crate::kernel::symbols::Symbols;
use crate::session::blocks::{Piece, branches, executed_at, not_taken, pieces, site};
use crate::session::recording::Recording;
use jifl_sys::abi::{Count, NO_BRANCH};

/// The executions.
#[derive(Debug, Default)]
pub struct Counted {
    pieces: Vec<Piece>,
    /// The session's blocks, in the order of addresses.
    counts: Vec<Count>,
    /// Of conditional branches, by their addresses: executed, taken.
    branches: HashMap<u64, (u64, u64)>,
    /// Blocks of the recording.
    pub blocks: u64,
    /// Blocks of these that lie in other code.
    pub elsewhere: u64,
    /// Blocks that had no counter.
    pub refused: u64,
}

/// How often counters of a function were executed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Increments {
    /// Those of the session's blocks, which also end at calls.
    pub blocks: u64,
    /// Those of branches that were not taken.
    pub branches: u64,
    /// What the fewest would have been; `None` where these would not have told the truth.
    pub fewest: Option<edges::Counters>,
}

/// The executions of a function's edges, in the order of [`Graph::edges`].
pub struct EdgeCounts {
    /// Those that were counted: both ways of each conditional branch.
    pub counted: Vec<Option<u64>>,
    /// Those that follow from the executions of blocks, without the branches' counts.
    pub derived: Result<Vec<Option<u64>>, Contradiction>,
}

impl EdgeCounts {
    /// The best that is known of an edge, and whether it was counted.
    pub fn of(&self, edge: usize) -> Option<(u64, bool)> {
        let derived = self.derived.as_ref().ok();
        let derived = derived
            .and_then(|all| all[edge])
            .map(|count| (count, false));
        self.counted[edge].map(|count| (count, true)).or(derived)
    }
}

impl Counted {
    /// Reads a recording of this code.
    ///
    /// # Errors
    /// It cannot be read, has no blocks, or is of another kernel.
    pub fn read(path: &Path, source: &Source, program: &Program) -> Result<Counted, Failure> {
        let recording = Recording::read(path)?;
        if !recording.is_profile() {
            return Err(Failure::failed(format!(
                "{}: of `{}`, without counts of blocks: `jifl record` counts them",
                path.display(),
                recording.made_by()
            )));
        }
        same_kernel(path, &recording, source, program)?;
        Ok(Counted::of(&recording, program))
    }

    /// The executions of a recording.
    pub fn of(recording: &Recording, program: &Program) -> Counted {
        let profile = recording.profile();
        let places = Places::of(recording, &profile.symbols, program);
        let mut counted = Counted {
            blocks: profile.blocks.len() as u64,
            refused: profile.refused,
            ..Counted::default()
        };
        let mut own = Vec::new();
        for block in &profile.blocks {
            match places.at(block.orig) {
                Some(at) => own.push(Count { orig: at, ..*block }),
                None => counted.elsewhere += 1,
            }
        }
        for branch in branches(own.iter()) {
            let sums = counted.branches.entry(site(&branch)).or_default();
            sums.0 += branch.executed;
            sums.1 += branch.taken;
        }
        counted.pieces = pieces(&own);
        own.sort_by_key(|block| block.orig);
        counted.counts = own;
        counted
    }

    /// How often an instruction was executed; `None` if it was not translated.
    pub fn executed(&self, at: u64) -> Option<u64> {
        executed_at(&self.pieces, at)
    }

    /// How often a block was entered and left, as far as it was counted.
    pub fn visits(&self, program: &Program, block: &Block) -> Visits {
        let all: Vec<Instruction> = instructions(&program.image, block).collect();
        let last = all.last().and_then(|last| self.executed(last.ip()));
        let may_be_native = || {
            program.image.is_untouchable(block.start) || last.is_some() || all.iter().any(is_native)
        };
        let entered = match self.executed(block.start) {
            None if may_be_native() => None,
            executed => Some(executed.unwrap_or(0)),
        };
        Visits {
            entered,
            left: Some(last.unwrap_or(0)),
        }
    }

    /// Was any of a function counted?
    pub fn has(&self, graph: &Graph) -> bool {
        let mut blocks = graph.blocks.iter();
        blocks.any(|block| self.executed(block.start).is_some_and(|times| times > 0))
    }

    /// The executions of a function's edges.
    pub fn edges(&self, program: &Program, graph: &Graph) -> EdgeCounts {
        let visits: Vec<Visits> = graph
            .blocks
            .iter()
            .map(|block| self.visits(program, block))
            .collect();
        EdgeCounts {
            counted: self.both_ways(program, graph),
            derived: edges::derive(graph, &visits),
        }
    }

    /// How often the counters of a function were executed. `edges` are those of the function.
    pub fn increments(
        &self,
        program: &Program,
        function: &Function,
        edges: &EdgeCounts,
    ) -> Increments {
        let of_piece = |piece: &Range<u64>| {
            let first = self.counts.partition_point(|own| own.orig < piece.start);
            let end = self.counts.partition_point(|own| own.orig < piece.end);
            &self.counts[first..end.max(first)]
        };
        let mut increments = Increments::default();
        for block in function.unit.pieces.iter().flat_map(of_piece) {
            increments.blocks += block.executed;
            if block.branch != NO_BRANCH {
                increments.branches += not_taken(block);
            }
        }
        if edges.derived.is_ok() {
            let graph = &function.graph;
            let blocks = graph.blocks.iter();
            let visits: Vec<Visits> = blocks.map(|block| self.visits(program, block)).collect();
            let all = (0..graph.edges.len()).map(|edge| edges.of(edge).map(|(count, _)| count));
            let all: Vec<Option<u64>> = all.collect();
            increments.fewest = edges::executions(graph, &visits, &all);
        }
        increments
    }

    /// Counts of the two edges of conditional branches.
    fn both_ways(&self, program: &Program, graph: &Graph) -> Vec<Option<u64>> {
        let last = |block: &Block| instructions(&program.image, block).last();
        let sites = graph.blocks.iter().map(|block| Some(last(block)?.ip()));
        let sites: Vec<Option<u64>> = sites.collect();
        // Where code jumps over a prefix two blocks end in one branch, and share its count.
        let (mut seen, mut shared) = (HashSet::new(), HashSet::new());
        for site in sites.iter().flatten() {
            if !seen.insert(*site) {
                shared.insert(*site);
            }
        }
        let of = |edge: &jifl_code::graph::Edge| {
            let site = sites[edge.from as usize].filter(|site| !shared.contains(site))?;
            let (executed, taken) = self.branches.get(&site)?;
            match edge.kind {
                EdgeKind::Taken => Some(*taken),
                EdgeKind::Fall => executed.checked_sub(*taken),
                _ => None,
            }
        };
        graph.edges.iter().map(of).collect()
    }

    /// What a reader has to know beside the numbers, of a recording or session that is called
    /// `path`; empty if there is nothing.
    pub fn notes(&self, path: &str) -> Vec<String> {
        let mut notes = Vec::new();
        if self.elsewhere > 0 {
            notes.push(format!(
                "jifl: {path}: {} of {} blocks lie in other code than what is analysed",
                self.elsewhere, self.blocks
            ));
        }
        if self.refused > 0 {
            notes.push(format!(
                "jifl: {path}: {} blocks found no counter and are missing: load the module with a \
                 larger profile_blocks",
                self.refused
            ));
        }
        notes
    }
}

/// Instructions that a session does not copy (engine/decode/native.c).
fn is_native(instruction: &Instruction) -> bool {
    use Mnemonic::{
        Int1, Int3, Iret, Iretd, Iretq, Lgs, Lss, Pop, Rsm, Swapgs, Syscall, Sysenter, Sysexit,
        Sysret, Ud0, Ud1, Ud2, Uiret, Vmlaunch, Vmresume, Vmrun, Wrgsbase, Xbegin, Xchg,
    };
    let special = [
        Int1, Int3, Iret, Iretd, Iretq, Lgs, Lss, Rsm, Swapgs, Syscall, Sysenter, Sysexit, Sysret,
        Ud0, Ud1, Ud2, Uiret, Vmlaunch, Vmresume, Vmrun, Wrgsbase, Xbegin,
    ];
    let to = instruction.op0_register();
    let is_move = instruction.mnemonic() == Mnemonic::Mov;
    let switches = to == Register::RSP
        && (is_move && instruction.op1_register() != Register::RBP
            || matches!(instruction.mnemonic(), Pop | Xchg));
    let is_far = matches!(
        instruction.op0_kind(),
        OpKind::FarBranch16 | OpKind::FarBranch32
    );
    special.contains(&instruction.mnemonic())
        || instruction.flow_control() == FlowControl::Interrupt
        || is_far
        || is_move && matches!(to, Register::SS | Register::GS)
        || switches
}

/// Refuses a recording of other code.
///
/// # Errors
/// It is of another build, or nothing of the module that is analysed is in it.
pub fn same_kernel(
    path: &Path,
    recording: &Recording,
    source: &Source,
    program: &Program,
) -> Result<(), Failure> {
    let analysed = program.image.modules.first().map_or(KERNEL, String::as_str);
    let recorded = match analysed {
        KERNEL => Some(&recording.header.kernel.build_id),
        name => {
            let image = recording.images.iter().find(|image| image.name == name);
            image.map(|image| &image.build_id)
        }
    };
    let Some(recorded) = recorded else {
        return Err(Failure::failed(format!(
            "{}: nothing of {analysed} was executed",
            path.display()
        )));
    };
    let own = source.build_id();
    if own.is_empty() || recorded.is_empty() || own == *recorded {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "{}: of another build of {analysed}, {recorded}, than what is analysed, {own}: give the \
         file that it was recorded on, with --vmlinux",
        path.display()
    )))
}

/// Where the places of a recording are in a program.
pub struct Places<'a> {
    symbols: &'a Symbols,
    /// Added to the addresses of each module's code; empty stands for the kernel.
    slides: HashMap<&'a str, u64>,
    /// Beginnings of functions by their module and name.
    starts: HashMap<(&'a str, &'a str), Vec<u64>>,
}

impl<'a> Places<'a> {
    /// Of a recording with these names.
    pub fn of(recording: &'a Recording, symbols: &'a Symbols, program: &'a Program) -> Places<'a> {
        let image = &program.image;
        let modules = &image.modules;
        let mut starts: HashMap<(&str, &str), Vec<u64>> = HashMap::new();
        let mut bases: HashMap<&str, u64> = HashMap::new();
        for text in image.texts.iter().rev() {
            bases.insert(&modules[text.module], text.address);
        }
        for symbol in &image.symbols {
            if symbol.name == "_text" {
                bases.insert(KERNEL, symbol.address);
            }
            if let Some(text) = image.text(symbol.address) {
                let module = modules[image.texts[text].module].as_str();
                let all = starts.entry((module, &symbol.name)).or_default();
                all.push(symbol.address);
            }
        }
        let slides = recording.images.iter().filter_map(|image| {
            let base = bases.get(image.name.as_str())?;
            Some((image.name.as_str(), base.wrapping_sub(image.base)))
        });
        Places {
            symbols,
            slides: slides.collect(),
            starts,
        }
    }

    /// Where the code at a recorded address is.
    pub fn at(&self, address: u64) -> Option<u64> {
        let place = self.symbols.function(address)?;
        let (name, module) = match place.function().split_once(" [") {
            Some((name, module)) => (name, module.trim_end_matches(']')),
            None => (place.function(), KERNEL),
        };
        let starts = self.starts.get(&(module, name))?;
        let slid = self.slides.get(module);
        let slid = slid.map(|slide| place.start().wrapping_add(*slide));
        let start = match (slid, starts.as_slice()) {
            (Some(slid), all) if all.contains(&slid) => slid,
            // Of a recording's own code, of which a module may lack the beginning.
            (_, all) if all.contains(&place.start()) => place.start(),
            (_, [only]) => *only,
            _ => return None,
        };
        Some(start + (address - place.start()))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::session::recording::{At, tests::recorded};
    use jifl_code::image::{Image, Symbol, Text};

    /// outer: tests, may jump to +0x40, returns; there xor, returns. Elsewhere than recorded.
    pub fn program(base: u64) -> Program {
        let mut bytes = vec![0xcc; 0x200];
        let mut put = |at: usize, code: &[u8]| bytes[at..at + code.len()].copy_from_slice(code);
        put(0, &[0x48, 0x85, 0xc0, 0x0f, 0x1f, 0x00, 0x75, 0x38, 0xc3]);
        put(0x40, &[0x31, 0xc0, 0x31, 0xc0, 0x31, 0xc0, 0x90, 0xc3]);
        put(0x50, &[0xc3]);
        let symbol = |(at, name): (u64, &str)| Symbol {
            address: base + at,
            name: name.into(),
            is_global: true,
        };
        let mut image = Image {
            modules: vec![KERNEL.into()],
            texts: vec![Text {
                address: base,
                bytes,
                module: 0,
                is_aside: false,
            }],
            symbols: [(0, "outer"), (0x50, "between")].map(symbol).into(),
            ..Image::default()
        };
        image.put_in_order();
        Program::of(image)
    }

    #[test]
    fn counts_are_at_the_addresses_of_the_code() {
        let program = program(0x4000);
        let mut recording = recorded();
        // A block of the sample begins in the middle of another; here it is a block as long.
        recording.blocks.retain(|block| block.bytes != 4);
        let counted = Counted::of(&recording, &program);
        // A block of a module lies elsewhere.
        assert_eq!((counted.blocks, counted.elsewhere), (4, 1));
        let graph = &program.functions[0].graph;
        assert!(counted.has(graph) && !counted.has(&program.functions[1].graph));
        let visits: Vec<Visits> = graph
            .blocks
            .iter()
            .map(|block| counted.visits(&program, block))
            .collect();
        assert_eq!(visits, [10, 0, 10].map(Visits::whole));
        let edges = counted.edges(&program, graph);
        assert_eq!(edges.counted, [Some(0), Some(10)]);
        assert_eq!(edges.derived, Ok(vec![Some(0), Some(10)]));
        assert_eq!(edges.of(1), Some((10, true)));
        assert!(counted.notes("x")[0].contains("1 of 4 blocks"));
    }

    #[test]
    fn names_that_several_have_are_found_by_the_distance_alone() {
        let mut program = program(0x4000);
        let mut recording = recorded();
        let twin = program.image.symbols[0].clone();
        program.image.symbols.push(Symbol {
            address: 0x4100,
            ..twin
        });
        recording.blocks.truncate(1);
        assert_eq!(Counted::of(&recording, &program).elsewhere, 1);
        // Where the kernel begins says which it is.
        recording.images[0].base = 0xffff_ffff_8100_0000;
        let slid = |at: At| At {
            offset: at.offset.wrapping_sub(0x1000),
            ..at
        };
        for symbol in &mut recording.symbols {
            symbol.at = slid(symbol.at);
        }
        recording.blocks[0].at = slid(recording.blocks[0].at);
        assert_eq!(Counted::of(&recording, &program).elsewhere, 0);
    }
}
