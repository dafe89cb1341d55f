// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dissertation's figures of a whole kernel, by module: 3.4 (structure), 3.7 (dead registers),
//! 4.10 (calls of functions), 7.3 (counts of edges that follow) and 8.6 (calls by functions). The
//! calls for tracers, which the kernel makes nops, are no calls here.

use rayon::prelude::*;

use crate::edges;
use crate::effect::{FLAGS, REGISTERS, RSP};
use crate::explained::Account;
use crate::flow::Target;
use crate::graph::{CallKind, End};
use crate::live::{Live, Space};
use crate::program::{Function, Program};

/// Sums of one module, or of all. Averages are quotients of these.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// Bytes of text.
    pub text: u64,
    /// Bytes of code that execution can reach.
    pub code: u64,
    /// Bytes of padding.
    pub padding: u64,
    /// Bytes that nothing explains.
    pub unexplained: u64,
    /// Functions.
    pub functions: u64,
    /// Of these, functions that were not understood wholly.
    pub torn: u64,
    /// Of these, functions without a name.
    pub nameless: u64,
    /// Of these, functions that never return.
    pub endless: u64,
    /// Basic blocks.
    pub blocks: u64,
    /// Instructions.
    pub instructions: u64,
    /// Edges between blocks of one function: successors, and predecessors.
    pub edges: u64,
    /// Edges whose count follows from counts of blocks.
    pub derived: u64,
    /// Functions of which all edges do.
    pub derived_functions: u64,
    /// Counters for each block and each conditional branch.
    pub counters: u64,
    /// Of these the fewest on ways from which all others follow.
    pub fewest_counters: u64,
    /// The fewest counters of blocks alone from which those of all blocks follow.
    pub fewest_block_counters: u64,
    /// Registers other than rsp that are dead at functions' entries, all together.
    pub dead_at_entries: u64,
    /// Blocks that end in a return or a jump to another function.
    pub exits: u64,
    /// Registers that are dead before the last instructions of these, all together.
    pub dead_at_exits: u64,
    /// Registers that are dead before instructions, all together.
    pub dead: u64,
    /// Instructions before which no flag is live.
    pub without_flags: u64,
    /// Calls by functions whose target is known, and jumps to other functions.
    pub direct: u64,
    /// Calls and jumps whose target is not known.
    pub indirect: u64,
    /// Direct calls of functions of the module.
    pub called: u64,
    /// The most calls of one function, and which: a place in [`Program::functions`].
    pub most_called: (u64, Option<usize>),
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        let pairs = [
            (&mut self.text, other.text),
            (&mut self.code, other.code),
            (&mut self.padding, other.padding),
            (&mut self.unexplained, other.unexplained),
            (&mut self.functions, other.functions),
            (&mut self.torn, other.torn),
            (&mut self.nameless, other.nameless),
            (&mut self.endless, other.endless),
            (&mut self.blocks, other.blocks),
            (&mut self.instructions, other.instructions),
            (&mut self.edges, other.edges),
            (&mut self.derived, other.derived),
            (&mut self.derived_functions, other.derived_functions),
            (&mut self.counters, other.counters),
            (&mut self.fewest_counters, other.fewest_counters),
            (&mut self.fewest_block_counters, other.fewest_block_counters),
            (&mut self.dead_at_entries, other.dead_at_entries),
            (&mut self.exits, other.exits),
            (&mut self.dead_at_exits, other.dead_at_exits),
            (&mut self.dead, other.dead),
            (&mut self.without_flags, other.without_flags),
            (&mut self.direct, other.direct),
            (&mut self.indirect, other.indirect),
            (&mut self.called, other.called),
        ];
        for (sum, more) in pairs {
            *sum += more;
        }
        if other.most_called.0 > self.most_called.0 {
            self.most_called = other.most_called;
        }
    }
}

/// Sums of each module, in the order of [`crate::image::Image::modules`], and of all.
pub fn sums(program: &Program, live: &Live, accounts: &[Account]) -> (Vec<Sums>, Sums) {
    let mut modules = vec![Sums::default(); program.image.modules.len()];
    let all: Vec<usize> = (0..program.functions.len()).collect();
    let of = |space: &mut Space, index: &usize| of_function(program, live, *index, space);
    let functions: Vec<Sums> = all.par_iter().map_init(Space::default, of).collect();
    for (function, sums) in program.functions.iter().zip(&functions) {
        modules[function.unit.module].add(sums);
    }
    for (index, calls) in called(program).into_iter().enumerate() {
        modules[program.functions[index].unit.module].add(&Sums {
            called: calls,
            most_called: (calls, Some(index)),
            ..Sums::default()
        });
    }
    for (text, account) in program.image.texts.iter().zip(accounts) {
        modules[text.module].add(&Sums {
            text: text.bytes.len() as u64,
            code: account.code,
            padding: account.padding,
            unexplained: account.unexplained(),
            ..Sums::default()
        });
    }
    let mut total = Sums::default();
    modules.iter().for_each(|sums| total.add(sums));
    (modules, total)
}

/// Sums of single functions, in their order, and of all of these: text is that of their pieces.
pub fn sums_of(
    program: &Program,
    live: &Live,
    accounts: &[Account],
    functions: &[usize],
) -> (Vec<Sums>, Sums) {
    let called = called(program);
    let of = |space: &mut Space, index: &usize| {
        let function = &program.functions[*index];
        let pieces = function.unit.pieces.iter();
        let text = pieces.map(|piece| piece.end - piece.start).sum();
        let code = covered(function);
        let holes = accounts.iter().flat_map(|account| &account.holes);
        let own = holes.filter(|hole| function.unit.holds(hole.range.start));
        let unexplained = own.map(|hole| hole.range.end - hole.range.start).sum();
        Sums {
            text,
            code,
            unexplained,
            padding: u64::saturating_sub(text, code + unexplained),
            called: called[*index],
            most_called: (called[*index], Some(*index)),
            ..of_function(program, live, *index, space)
        }
    };
    let all: Vec<Sums> = functions.par_iter().map_init(Space::default, of).collect();
    let mut total = Sums::default();
    all.iter().for_each(|sums| total.add(sums));
    (all, total)
}

/// Bytes of a function's pieces that its blocks cover.
fn covered(function: &Function) -> u64 {
    let (mut sum, mut end) = (0, 0);
    let blocks = function.graph.blocks.iter();
    for block in blocks.filter(|block| function.unit.holds(block.start)) {
        let from = block.start.max(end);
        sum += block.behind().saturating_sub(from);
        end = end.max(block.behind());
    }
    sum
}

/// How often each function is called, or jumped to, by an instruction that names it.
pub fn called(program: &Program) -> Vec<u64> {
    let mut all = vec![0; program.functions.len()];
    let functions = program.functions.iter();
    let calls = functions.flat_map(|function| &function.graph.calls);
    for call in calls.filter(|call| !program.is_tracer(call.target)) {
        if let Some(callee) = program.callee(call.target) {
            all[callee] += 1;
        }
    }
    all
}

fn dead(live: u32) -> u64 {
    (REGISTERS & !RSP & !live).count_ones().into()
}

fn of_function(program: &Program, live: &Live, index: usize, space: &mut Space) -> Sums {
    let function: &Function = &program.functions[index];
    let graph = &function.graph;
    let mut sums = Sums {
        functions: 1,
        torn: u64::from(!graph.is_whole()),
        nameless: u64::from(function.unit.symbol.is_none()),
        endless: u64::from(function.is_endless),
        blocks: graph.blocks.len() as u64,
        edges: graph.edges.len() as u64,
        ..Sums::default()
    };
    let derived = edges::follow(graph);
    sums.derived = derived.iter().filter(|follows| **follows).count() as u64;
    sums.derived_functions = u64::from(sums.derived == sums.edges);
    let counters = edges::counters(graph);
    (sums.counters, sums.fewest_counters) = (counters.ways, counters.fewest_ways);
    sums.fewest_block_counters = counters.fewest_blocks;
    let calls = graph.calls.iter();
    for call in calls.filter(|call| !program.is_tracer(call.target)) {
        match call.target {
            Target::Direct(_) => sums.direct += 1,
            Target::Indirect(_) => sums.indirect += 1,
        }
    }
    if let Some(entry) = graph.block(function.unit.entry()) {
        sums.dead_at_entries = dead(live.at_block(index, entry));
    }
    for (number, block) in graph.blocks.iter().enumerate() {
        let within = live.within(program, index, number, space);
        sums.instructions += within.len() as u64;
        sums.dead += within.iter().map(|(_, live)| dead(*live)).sum::<u64>();
        let without = within.iter().filter(|(_, live)| live & FLAGS == 0);
        sums.without_flags += without.count() as u64;
        let is_tail = |kind| kind >= CallKind::Tail;
        let leaves = block.end == End::Leaves
            && graph.calls_in(number).iter().any(|call| is_tail(call.kind));
        if let Some((_, last)) = within.last().filter(|_| leaves || block.end == End::Return) {
            sums.exits += 1;
            sums.dead_at_exits += dead(*last);
        }
    }
    sums
}
