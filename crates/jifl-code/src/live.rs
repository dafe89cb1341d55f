// SPDX-License-Identifier: MIT OR Apache-2.0
//! Live registers and flags, across functions (dissertation, 3.5.2 to 3.5.4).
//!
//! First each function gets a summary: what it uses of what its caller has, and what it surely
//! overwrites before it returns. The summaries of all functions are the solution of one system of
//! equations: they begin with nothing used and all overwritten, which is true of a function that
//! never returns, and are computed again until none changes. So recursion needs no special case.
//! Then liveness at the beginning of each block is computed backwards, and kept. For an
//! instruction inside a block it is computed when it is asked for.
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

use rayon::prelude::*;

use crate::depth::instructions;
use crate::effect::{ALL, CALLER_SAVED, Effects, FLAGS, REGISTERS};
use crate::flow::Target;
use crate::graph::{Call, CallKind, Edge, EdgeKind, Effect, End, Graph};
use crate::program::{Function, Program};

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
        let summaries = summaries(program);
        let at_return: Vec<u32> = program
            .functions
            .iter()
            .map(|function| match trust {
                Trust::Compiled if program.is_compiled(function) => AT_RETURN,
                _ => ALL,
            })
            .collect();
        let all: Vec<usize> = (0..program.functions.len()).collect();
        let of = |index: &usize| {
            let function = &program.functions[*index];
            if !function.graph.is_whole() {
                return vec![ALL; function.graph.blocks.len()];
            }
            let solver = Solver::new(program, |callee| summaries[callee]);
            let shape = solver.shape(&function.graph);
            solver.live(&function.graph, &shape, at_return[*index])
        };
        let blocks = all.par_iter().map(of).collect();
        Live {
            blocks,
            summaries,
            at_return,
        }
    }

    /// What is live at the beginning of a block: a mask of [`crate::effect`].
    pub fn at_block(&self, function: usize, block: usize) -> u32 {
        self.blocks[function][block]
    }

    /// What is live behind a block, right before whatever its last instruction leads to.
    fn behind_block(&self, program: &Program, function: usize, block: usize) -> u32 {
        let solver = Solver::new(program, |callee| self.summaries[callee]);
        let graph = &program.functions[function].graph;
        let calls = graph.calls_in(block);
        let callees: Vec<Effect> = calls.iter().map(|call| solver.callee(call)).collect();
        let ways = Ways {
            end: graph.blocks[block].end,
            edges: graph.successors(block),
            calls,
            callees: &callees,
        };
        ways.out(self.at_return[function], |to| self.blocks[function][to])
    }

    /// What is live before each instruction of a block, in their order.
    pub fn in_block(&self, program: &Program, function: usize, block: usize) -> Vec<(u64, u32)> {
        let own = &program.functions[function];
        let solver = Solver::new(program, |callee| self.summaries[callee]);
        let mut effects = Effects::default();
        let mut calls = own.graph.calls_in(block).to_vec();
        let mut live = self.behind_block(program, function, block);
        let mut all: Vec<_> = instructions(&program.image, &own.graph.blocks[block]).collect();
        all.reverse();
        let mut found = Vec::with_capacity(all.len());
        for instruction in &all {
            while let Some(call) = calls.pop_if_at(instruction.ip()) {
                live = before_call(&call, solver.callee(&call), live);
            }
            live = effects.of(instruction).before(live);
            if !own.graph.is_whole() {
                live = ALL;
            }
            found.push((instruction.ip(), live));
        }
        // The fixup takes over before anything was done.
        if let Some(first) = found.last_mut() {
            first.1 = self.blocks[function][block];
        }
        found.reverse();
        found
    }

    /// The summary of a function: what it uses, and what it overwrites.
    pub fn summary(&self, function: usize) -> Effect {
        self.summaries[function]
    }
}

trait PopIfAt {
    fn pop_if_at(&mut self, at: u64) -> Option<Call>;
}

impl PopIfAt for Vec<Call> {
    fn pop_if_at(&mut self, at: u64) -> Option<Call> {
        (self.last()?.at == at).then(|| self.pop())?
    }
}

/// The solution for all functions.
fn summaries(program: &Program) -> Vec<Effect> {
    let pack = |effect: Effect| u64::from(effect.uses) << 32 | u64::from(effect.defines);
    let unpack = |packed: u64| Effect {
        uses: (packed >> 32) as u32,
        defines: packed as u32,
    };
    let all: Vec<AtomicU64> = program
        .functions
        .iter()
        .map(|function| match function.graph.is_whole() {
            true => AtomicU64::new(pack(NEVER)),
            false => AtomicU64::new(pack(TORN)),
        })
        .collect();
    let callers = program.callers();
    let mut again: Vec<usize> = program.bottom_up();
    while !again.is_empty() {
        let compute = |index: &usize| {
            let function = &program.functions[*index];
            if !function.graph.is_whole() || function.graph.blocks.is_empty() {
                return false;
            }
            let solver = Solver::new(program, |callee: usize| {
                unpack(all[callee].load(Ordering::Relaxed))
            });
            let new = pack(solver.summary(function));
            all[*index].swap(new, Ordering::Relaxed) != new
        };
        let changed: Vec<bool> = again.par_iter().map(compute).collect();
        let mut next: Vec<usize> = again
            .iter()
            .zip(changed)
            .filter(|(_, changed)| *changed)
            .flat_map(|(index, _)| callers[*index].iter().copied())
            .collect();
        next.sort_unstable();
        next.dedup();
        again = next;
    }
    all.into_iter()
        .map(|one| unpack(one.into_inner()))
        .collect()
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

    /// The parts of each block, found once: the equations are solved again and again.
    fn shape(&self, graph: &Graph) -> Shape {
        let number = graph.blocks.len();
        Shape {
            edges: begins(number, graph.edges.iter().map(|edge| edge.from)),
            calls: begins(number, graph.calls.iter().map(|call| call.block)),
            callees: graph.calls.iter().map(|call| self.callee(call)).collect(),
        }
    }

    /// Liveness at the beginning of each block, with `ret` live behind returns.
    fn live(&self, graph: &Graph, shape: &Shape, ret: u32) -> Vec<u32> {
        let mut live = vec![0; graph.blocks.len()];
        loop {
            let mut is_done = true;
            for block in (0..graph.blocks.len()).rev() {
                let ways = shape.ways(graph, block);
                let out = ways.out(ret, |to| live[to]);
                let mut now = ways.through(graph, block, out);
                let edges = ways.edges.iter();
                for edge in edges.filter(|edge| edge.kind == EdgeKind::Exception) {
                    now |= live[edge.to as usize];
                }
                is_done &= live[block] == now;
                live[block] = now;
            }
            if is_done {
                return live;
            }
        }
    }

    /// The function as one effect: what is live at its entry with nothing live behind it is what
    /// it uses; what then is not live with everything live behind it is what it overwrites.
    fn summary(&self, function: &Function) -> Effect {
        let graph = &function.graph;
        let at = graph.block(function.unit.entry()).unwrap_or(0);
        let shape = self.shape(graph);
        let uses = self.live(graph, &shape, 0)[at];
        let all = self.live(graph, &shape, ALL)[at];
        Effect {
            uses,
            defines: ALL & !all,
        }
    }
}

/// What is live before a call, or a jump to another function, is made.
fn before_call(call: &Call, callee: Effect, behind: u32) -> u32 {
    match call.kind {
        CallKind::Call => callee.before(behind),
        CallKind::NoReturn => callee.uses,
        // On a condition, execution may also go on. What is behind the other function's return is
        // what is behind this one's.
        CallKind::Tail | CallKind::Into => callee.uses | behind,
    }
}

/// Where the edges and the calls of each block begin in a graph, and the effects of all calls.
struct Shape {
    edges: Vec<u32>,
    calls: Vec<u32>,
    callees: Vec<Effect>,
}

/// Where those of each of so many blocks begin, among all in the order of blocks; and the end.
fn begins(blocks: usize, of: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut begins = vec![0; blocks + 1];
    of.for_each(|block| begins[block as usize + 1] += 1);
    for block in 0..blocks {
        begins[block + 1] += begins[block];
    }
    begins
}

impl Shape {
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
    /// What is live behind the block.
    fn out(&self, ret: u32, live: impl Fn(usize) -> u32) -> u32 {
        let edges = self.edges.iter();
        let ways = edges.filter(|edge| edge.kind != EdgeKind::Exception);
        let over = ways.fold(0, |mask, edge| mask | live(edge.to as usize));
        let returns = match self.end {
            End::Return => ret,
            // A function that is jumped to returns to this one's caller: what is live there is
            // live here unless that function overwrites it.
            End::Leaves => {
                let calls = self.calls.iter().zip(self.callees);
                let tails = calls.filter(|(call, _)| call.kind >= CallKind::Tail);
                tails.fold(0, |mask, (_, callee)| mask | callee.before(ret))
            }
            End::Unknown => ALL,
            _ => 0,
        };
        over | returns
    }

    /// What is live at the beginning of the block, with this behind it.
    fn through(&self, graph: &Graph, block: usize, behind: u32) -> u32 {
        let first = graph.blocks[block].effects as usize;
        let effects = &graph.effects[first..=first + self.calls.len()];
        let mut live = effects[self.calls.len()].before(behind);
        let calls = self.calls.iter().zip(self.callees).zip(effects);
        for ((call, callee), effect) in calls.rev() {
            live = effect.before(before_call(call, *callee, live));
        }
        live
    }
}
