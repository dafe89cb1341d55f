// SPDX-License-Identifier: MIT OR Apache-2.0
//! Live registers and flags, across functions (dissertation, 3.5.2 to 3.5.4).
//!
//! Each block gets the effect of what runs from its beginning until its function returns: the
//! registers that are used, and those that are surely overwritten. The effect at a function's
//! entry is the function's summary, which its callers' effects are made of. All effects are the
//! solution of one system of equations: they begin with nothing used and all overwritten, which is
//! true of what never returns, and are computed again until none changes. So recursion needs no
//! special case. Liveness at the beginning of a block follows from its effect and from what is live
//! behind returns. For an instruction inside a block it is computed when it is asked for.
//!
//! What is dead holds whatever runs, under these assumptions:
//!
//! - An indirect call may use all registers, and overwrites none. Flags have no value there
//!   (System V ABI 3.2.1). KVM's emulator breaks that rule, with `popf` before such calls and
//!   `pushf` behind them: what is said of flags in its functions does not hold
//!   (engine/instrument/conventions.c).
//! - At a return everything is live, unless [`Trust::Compiled`] is given and the function is
//!   compiled code: then that is dead which the ABI gives no value at a return.
//! - Where something was not understood everything is live in the whole function.

use std::sync::atomic::{AtomicU64, Ordering};

use iced_x86::Instruction;
use rayon::prelude::*;

use crate::depth::instructions;
use crate::effect::{ALL, CALLER_SAVED, Effects, FLAGS, REGISTERS};
use crate::flow::Target;
use crate::graph::{Call, CallKind, Edge, EdgeKind, Effect, End, Graph};
use crate::program::{Function, Program, Renewed};

/// Live behind a return of compiled code: rax, rdx, rsp and what callees keep (System V ABI 3.2).
pub const AT_RETURN: u32 = REGISTERS & !CALLER_SAVED | 1 << 0 | 1 << 2;

/// What is believed of code behind a return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// Everything may be used there, as KernInst had it.
    #[default]
    Nothing,
    /// Callers of compiled code, which begins with a call for tracers, keep to the ABI.
    Compiled,
}

/// Liveness of all functions.
#[derive(Debug, Clone, Default)]
pub struct Live {
    /// Of each function, of each of its blocks: what is live at the beginning.
    blocks: Vec<Vec<u32>>,
    summaries: Vec<Effect>,
    at_return: Vec<u32>,
    trust: Trust,
}

/// What never runs on has used nothing and overwritten everything.
const NEVER: Effect = Effect {
    uses: 0,
    defines: ALL,
};
/// What is not known uses everything, and keeps all but the flags.
const UNKNOWN: Effect = Effect {
    uses: REGISTERS,
    defines: FLAGS,
};
const TORN: Effect = Effect {
    uses: ALL,
    defines: 0,
};

impl Live {
    /// Of all functions of a program.
    pub fn of(program: &Program, trust: Trust) -> Live {
        let functions = program.functions.iter();
        let at_return = functions
            .clone()
            .map(|function| at_return(program, function, trust));
        let mut live = Live {
            blocks: vec![Vec::new(); program.functions.len()],
            summaries: functions.map(first).collect(),
            at_return: at_return.collect(),
            trust,
        };
        live.solve(program, program.bottom_up(), &program.callers());
        live
    }

    /// Makes this the liveness of a program that was analysed again ([`Program::renew`]).
    ///
    /// Where the summary of a function stays what it was, that of all others does. It is a solution
    /// of the equations then, and what it calls dead is dead. It is the best one, unless a changed
    /// function calls itself through others: then something may be called live because it was.
    pub fn renew(&mut self, program: &Program, renewed: &Renewed) {
        if renewed.is_whole {
            *self = Live::of(program, self.trust);
            return;
        }
        for index in &renewed.functions {
            let function = &program.functions[*index];
            self.at_return[*index] = at_return(program, function, self.trust);
        }
        let solver = Solver::new(program, |callee: usize| self.summaries[callee]);
        let shape = &mut Shape::default();
        let of = |index: &usize| {
            let function = &program.functions[*index];
            let is_solved = function.graph.is_whole() && !function.graph.blocks.is_empty();
            match is_solved {
                true => solver.effects(&function.graph, shape),
                false => vec![first(function); function.graph.blocks.len()],
            }
        };
        let effects: Vec<Vec<Effect>> = renewed.functions.iter().map(of).collect();
        let is_same = |(index, effects): (&usize, &Vec<Effect>)| {
            let function = &program.functions[*index];
            let summary = match effects.is_empty() {
                true => first(function),
                false => effects[entry(function)],
            };
            summary == self.summaries[*index]
        };
        if renewed.functions.iter().zip(&effects).all(is_same) {
            for (index, effects) in renewed.functions.iter().zip(effects) {
                self.set(*index, &effects);
            }
            return;
        }
        // What calls them has to be solved from the beginning, and nothing else: no other equation
        // has one of these in it.
        let callers = program.callers();
        let mut is_met = vec![false; program.functions.len()];
        let mut way = renewed.functions.clone();
        while let Some(index) = way.pop() {
            if !std::mem::replace(&mut is_met[index], true) {
                self.summaries[index] = first(&program.functions[index]);
                way.extend(&callers[index]);
            }
        }
        let mut order = program.bottom_up();
        order.retain(|index| is_met[*index]);
        self.solve(program, order, &callers);
    }

    /// Notes what is live at the beginnings of a function's blocks.
    fn set(&mut self, index: usize, effects: &[Effect]) {
        let ret = self.at_return[index];
        let live = effects.iter().map(|effect| effect.before(ret));
        self.blocks[index].clear();
        self.blocks[index].extend(live);
    }

    /// Solves the equations of functions, of which nothing is known yet, with the summaries of all
    /// others.
    fn solve(&mut self, program: &Program, mut again: Vec<usize>, callers: &[Vec<usize>]) {
        let pack = |effect: Effect| u64::from(effect.uses) << 32 | u64::from(effect.defines);
        let unpack = |packed: u64| Effect {
            uses: (packed >> 32) as u32,
            defines: packed as u32,
        };
        let is_solved = |index: &usize| {
            let graph = &program.functions[*index].graph;
            graph.is_whole() && !graph.blocks.is_empty()
        };
        for index in again.iter().filter(|index| !is_solved(index)) {
            let function = &program.functions[*index];
            self.set(*index, &vec![first(function); function.graph.blocks.len()]);
        }
        again.retain(is_solved);
        let packed = self.summaries.iter().map(|effect| pack(*effect));
        let all: Vec<AtomicU64> = packed.map(AtomicU64::new).collect();
        let solver = Solver::new(program, |callee: usize| {
            unpack(all[callee].load(Ordering::Relaxed))
        });
        // The callers of a function whose summary changes are computed again in the next round. So
        // the effects that are kept of each function were computed with the last summaries of its
        // callees.
        while !again.is_empty() {
            let compute = |shape: &mut Shape, index: &usize| {
                let function = &program.functions[*index];
                let effects = solver.effects(&function.graph, shape);
                let new = pack(effects[entry(function)]);
                (effects, all[*index].swap(new, Ordering::Relaxed) != new)
            };
            let found = again.par_iter().map_init(Shape::default, compute);
            let found: Vec<(Vec<Effect>, bool)> = found.collect();
            let mut next = Vec::new();
            for (index, (effects, has_changed)) in again.iter().zip(found) {
                self.set(*index, &effects);
                if has_changed {
                    next.extend(callers[*index].iter().copied().filter(is_solved));
                }
            }
            next.sort_unstable();
            next.dedup();
            again = next;
        }
        let summaries = all.iter().map(|one| unpack(one.load(Ordering::Relaxed)));
        self.summaries = summaries.collect();
    }

    /// What is live at the beginning of a block: a mask of [`crate::effect`].
    pub fn at_block(&self, function: usize, block: usize) -> u32 {
        self.blocks[function][block]
    }

    /// What is live behind a block, right before whatever its last instruction leads to.
    fn behind_block(&self, program: &Program, function: usize, block: usize, own: &Calls) -> u32 {
        let graph = &program.functions[function].graph;
        let ways = Ways {
            end: graph.blocks[block].end,
            edges: graph.successors(block),
            calls: own.calls,
            callees: own.callees,
        };
        let known = |live| Effect {
            uses: live,
            defines: ALL,
        };
        let ret = known(self.at_return[function]);
        ways.out(ret, |to| known(self.blocks[function][to])).uses
    }

    /// What is live before each instruction of a block, in their order.
    pub fn in_block(&self, program: &Program, function: usize, block: usize) -> Vec<(u64, u32)> {
        let mut space = Space::default();
        self.within(program, function, block, &mut space);
        space.found
    }

    /// The same; `space` is used again for the next block.
    pub fn within<'a>(
        &self,
        program: &Program,
        function: usize,
        block: usize,
        space: &'a mut Space,
    ) -> &'a [(u64, u32)] {
        let graph = &program.functions[function].graph;
        let solver = Solver::new(program, |callee| self.summaries[callee]);
        let calls = graph.calls_in(block);
        space.callees.clear();
        let callees = calls.iter().map(|call| solver.callee(call));
        space.callees.extend(callees);
        let own = Calls {
            calls,
            callees: &space.callees,
        };
        let mut live = self.behind_block(program, function, block, &own);
        let mut left = calls.iter().zip(&space.callees).rev().peekable();
        space.instructions.clear();
        let all = instructions(&program.image, &graph.blocks[block]);
        space.instructions.extend(all);
        space.found.clear();
        for instruction in space.instructions.iter().rev() {
            while let Some((call, callee)) = left.next_if(|(call, _)| call.at == instruction.ip()) {
                live = around_call(call, *callee, live);
            }
            live = space.effects.of(instruction).before(live);
            if !graph.is_whole() {
                live = ALL;
            }
            space.found.push((instruction.ip(), live));
        }
        // The fixup takes over before anything was done.
        if let Some(first) = space.found.last_mut() {
            first.1 = self.blocks[function][block];
        }
        space.found.reverse();
        &space.found
    }

    /// The summary of a function: what it uses, and what it overwrites.
    pub fn summary(&self, function: usize) -> Effect {
        self.summaries[function]
    }
}

/// Memory that is used again from block to block.
#[derive(Default)]
pub struct Space {
    effects: Effects,
    instructions: Vec<Instruction>,
    callees: Vec<Effect>,
    found: Vec<(u64, u32)>,
}

/// The calls in a block, and the effect of each.
struct Calls<'a> {
    calls: &'a [Call],
    callees: &'a [Effect],
}

/// What is dead behind a function's returns depends on whose they are.
fn at_return(program: &Program, function: &Function, trust: Trust) -> u32 {
    match trust {
        Trust::Compiled if program.is_compiled(function) => AT_RETURN,
        _ => ALL,
    }
}

/// The effect that a function begins with.
fn first(function: &Function) -> Effect {
    match function.graph.is_whole() {
        true => NEVER,
        false => TORN,
    }
}

/// The block that a function is entered by.
fn entry(function: &Function) -> usize {
    function.graph.block(function.unit.entry()).unwrap_or(0)
}

/// Solves the equations of one function, with the summaries of others.
struct Solver<'a, S> {
    program: &'a Program,
    summary: S,
}

impl<'a, S: Fn(usize) -> Effect> Solver<'a, S> {
    fn new(program: &'a Program, summary: S) -> Solver<'a, S> {
        Solver { program, summary }
    }

    fn callee(&self, call: &Call) -> Effect {
        let Target::Direct(to) = call.target else {
            return UNKNOWN;
        };
        // The kernel leads static calls elsewhere.
        let statics = &self.program.image.tables.static_calls;
        if statics.binary_search(&call.at).is_ok() {
            return UNKNOWN;
        }
        match self.program.entered(to) {
            Some(callee) => (self.summary)(callee),
            None => TORN,
        }
    }

    /// The effect from the beginning of each block to the function's returns.
    fn effects(&self, graph: &Graph, shape: &mut Shape) -> Vec<Effect> {
        shape.set(graph, |call| self.callee(call));
        let mut effects = vec![NEVER; graph.blocks.len()];
        loop {
            let mut is_done = true;
            for block in (0..graph.blocks.len()).rev() {
                let ways = shape.ways(graph, block);
                let out = ways.out(Effect::default(), |to| effects[to]);
                let mut now = ways.through(graph, block, out);
                let edges = ways.edges.iter();
                for edge in edges.filter(|edge| edge.kind == EdgeKind::Exception) {
                    now = now.or(effects[edge.to as usize]);
                }
                is_done &= effects[block] == now;
                effects[block] = now;
            }
            if is_done {
                return effects;
            }
        }
    }
}

/// What happens from before a call, or a jump to another function, is made.
fn before_call(call: &Call, callee: Effect, behind: Effect) -> Effect {
    let alone = Effect {
        uses: callee.uses,
        defines: ALL,
    };
    match call.kind {
        CallKind::Call => callee.then(behind),
        CallKind::NoReturn => alone,
        // On a condition, execution may also go on. What is behind the other function's return is
        // what is behind this one's.
        CallKind::Tail | CallKind::Into => alone.or(behind),
    }
}

/// What is live before a call is made, with this live behind it.
fn around_call(call: &Call, callee: Effect, behind: u32) -> u32 {
    before_call(call, callee, Effect::default()).before(behind)
}

/// Where the edges and the calls of each block begin in a graph, and the effects of all calls. It
/// is found once for a graph, because the equations are solved again and again.
#[derive(Default)]
struct Shape {
    edges: Vec<u32>,
    calls: Vec<u32>,
    callees: Vec<Effect>,
}

/// Where those of each of so many blocks begin, among all in the order of blocks; and the end.
fn set_begins(begins: &mut Vec<u32>, blocks: usize, of: impl Iterator<Item = u32>) {
    begins.clear();
    begins.resize(blocks + 1, 0);
    of.for_each(|block| begins[block as usize + 1] += 1);
    for block in 0..blocks {
        begins[block + 1] += begins[block];
    }
}

impl Shape {
    fn set(&mut self, graph: &Graph, callee: impl Fn(&Call) -> Effect) {
        let number = graph.blocks.len();
        let edges = graph.edges.iter().map(|edge| edge.from);
        set_begins(&mut self.edges, number, edges);
        let calls = graph.calls.iter().map(|call| call.block);
        set_begins(&mut self.calls, number, calls);
        self.callees.clear();
        self.callees.extend(graph.calls.iter().map(callee));
    }

    fn ways<'a>(&'a self, graph: &'a Graph, block: usize) -> Ways<'a> {
        let range = |begins: &[u32]| begins[block] as usize..begins[block + 1] as usize;
        let calls = range(&self.calls);
        Ways {
            end: graph.blocks[block].end,
            edges: &graph.edges[range(&self.edges)],
            calls: &graph.calls[calls.clone()],
            callees: &self.callees[calls],
        }
    }
}

/// How a block goes on, and the calls in it with their effects.
struct Ways<'a> {
    end: End,
    edges: &'a [Edge],
    calls: &'a [Call],
    callees: &'a [Effect],
}

impl Ways<'_> {
    /// What happens behind the block, where `ret` happens behind returns.
    fn out(&self, ret: Effect, effect: impl Fn(usize) -> Effect) -> Effect {
        let edges = self.edges.iter();
        let ways = edges.filter(|edge| edge.kind != EdgeKind::Exception);
        let over = ways.fold(NEVER, |all, edge| all.or(effect(edge.to as usize)));
        let returns = match self.end {
            End::Return => ret,
            // A function that is jumped to returns to this one's caller.
            End::Leaves => {
                let calls = self.calls.iter().zip(self.callees);
                let tails = calls.filter(|(call, _)| call.kind >= CallKind::Tail);
                tails.fold(NEVER, |all, (_, callee)| all.or(callee.then(ret)))
            }
            End::Unknown => TORN,
            _ => NEVER,
        };
        over.or(returns)
    }

    /// What happens from the beginning of the block, with this behind it.
    fn through(&self, graph: &Graph, block: usize, behind: Effect) -> Effect {
        let first = graph.blocks[block].effects as usize;
        let effects = &graph.effects[first..=first + self.calls.len()];
        let mut effect = effects[self.calls.len()].then(behind);
        let calls = self.calls.iter().zip(self.callees).zip(effects);
        for ((call, callee), own) in calls.rev() {
            effect = own.then(before_call(call, *callee, effect));
        }
        effect
    }
}
