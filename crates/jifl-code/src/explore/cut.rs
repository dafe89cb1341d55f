// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cuts the instructions of a function into blocks.
//!
//! A call ends a block only if it does not come back (dissertation, 3.3.2). An instruction that a
//! table leads elsewhere is the last of its block. One with an entry in the exception table is
//! also the first: the fixup runs in its place, and not behind it.

use super::Context;
use super::walk::{LEADS, Next, Space, Step};
use crate::effect::Effects;
use crate::flow::Target;
use crate::graph::{Block, Call, CallKind, Edge, EdgeKind, Effect, End, Graph};

/// What is cut is put here, and copied when it is known how much it is.
#[derive(Default)]
pub struct Cut {
    graph: Graph,
    /// Edges by address: the block that they are from, where they lead, why.
    ways: Vec<(u32, u64, EdgeKind)>,
}

pub fn cut(
    context: Context<'_>,
    space: &mut Space,
    effects: &mut Effects,
    room: &mut Cut,
) -> Graph {
    space.hidden.sort_unstable();
    space.hidden.dedup();
    for index in 0..space.hidden.len() {
        let (from, _, kind) = space.hidden[index];
        if kind == EdgeKind::Exception {
            space.marks.add(from, LEADS);
        }
        if let Some(step) = find(&space.steps, from) {
            let behind = space.steps[step].instruction.next_ip();
            space.marks.add(behind, LEADS);
        }
    }
    let mut cutter = Cutter {
        context,
        space,
        effects,
        graph: &mut room.graph,
        ways: &mut room.ways,
    };
    cutter.clear();
    cutter.blocks();
    cutter.edges();
    room.graph.clone()
}

fn find(steps: &[Step], at: u64) -> Option<usize> {
    steps.binary_search_by_key(&at, Step::at).ok()
}

struct Cutter<'a> {
    context: Context<'a>,
    space: &'a Space,
    effects: &'a mut Effects,
    graph: &'a mut Graph,
    ways: &'a mut Vec<(u32, u64, EdgeKind)>,
}

impl Cutter<'_> {
    fn clear(&mut self) {
        self.graph.blocks.clear();
        self.graph.edges.clear();
        self.graph.calls.clear();
        self.graph.effects.clear();
        self.ways.clear();
    }

    fn blocks(&mut self) {
        for index in 0..self.space.steps.len() {
            if self.space.marks.get(self.space.steps[index].at()) & LEADS != 0 {
                self.block(index);
            }
        }
    }

    /// The block that begins with a step.
    fn block(&mut self, first: usize) {
        let number = self.graph.blocks.len() as u32;
        let start = self.space.steps[first].at();
        let effects_at = self.graph.effects.len() as u32;
        let mut effect = Effect::default();
        let (mut index, mut instructions) = (first, 0);
        let end = loop {
            let space = self.space;
            let step = &space.steps[index];
            instructions += 1;
            effect = effect.then(self.effects.of(&step.instruction));
            for _ in 0..self.call(step, number) {
                self.graph.effects.push(std::mem::take(&mut effect));
            }
            let behind = step.instruction.next_ip();
            if let Some(end) = self.end(step, number) {
                break (end, behind);
            }
            match self.after(index, behind) {
                Some(next) if self.space.marks.get(behind) & LEADS == 0 => index = next,
                next => {
                    if next.is_some() {
                        self.ways.push((number, behind, EdgeKind::Fall));
                        break (End::Fall, behind);
                    }
                    break (End::Unknown, behind);
                }
            }
        };
        self.graph.effects.push(effect);
        self.graph.blocks.push(Block {
            start,
            length: (end.1 - start) as u32,
            instructions,
            effects: effects_at,
            end: end.0,
        });
    }

    /// The step at an address that is behind another.
    fn after(&self, index: usize, behind: u64) -> Option<usize> {
        let next = self.space.steps.get(index + 1)?;
        if next.at() == behind {
            return Some(index + 1);
        }
        find(&self.space.steps, behind)
    }

    /// Notes the calls, and the ways to other functions, that a step is. How many are they?
    fn call(&mut self, step: &Step, block: u32) -> usize {
        let own = match step.next {
            Next::Call(target) => Some((target, CallKind::Call)),
            Next::Ends(target) => Some((target, CallKind::NoReturn)),
            // The targets of a jump table are the function's own.
            Next::Leaves(..) if self.has_table(step.at()) => None,
            Next::Leaves(target, _) => Some((target, CallKind::Tail)),
            _ => None,
        };
        let into = self.space.into.iter().filter(|(at, _)| *at == step.at());
        let into = into.map(|(_, entry)| (Target::Direct(*entry), CallKind::Into));
        let before = self.graph.calls.len();
        let call = |(target, kind)| Call {
            at: step.at(),
            block,
            target,
            kind,
        };
        self.graph
            .calls
            .extend(own.into_iter().chain(into).map(call));
        self.graph.calls.len() - before
    }

    fn has_table(&self, at: u64) -> bool {
        let hidden = &self.space.hidden;
        let first = hidden.partition_point(|edge| edge.0 < at);
        let own = hidden[first..].iter().take_while(|edge| edge.0 == at);
        own.into_iter().any(|edge| edge.2 == EdgeKind::Table)
    }

    /// How the block ends with a step, if it does; notes its edges.
    fn end(&mut self, step: &Step, block: u32) -> Option<End> {
        let behind = step.instruction.next_ip();
        let fall = (block, behind, EdgeKind::Fall);
        let hidden = &self.space.hidden;
        let first = hidden.partition_point(|edge| edge.0 < step.at());
        let own = hidden[first..]
            .iter()
            .take_while(|edge| edge.0 == step.at());
        let before = self.ways.len();
        self.ways
            .extend(own.map(|(_, to, kind)| (block, *to, *kind)));
        let is_led_elsewhere = self.ways.len() > before;
        Some(match step.next {
            Next::On | Next::Call(_) if !is_led_elsewhere => return None,
            Next::On | Next::Call(_) => {
                self.ways.push(fall);
                End::Fall
            }
            Next::Branch(to) => {
                self.ways.extend([fall, (block, to, EdgeKind::Taken)]);
                End::Branch
            }
            Next::Jump(to) => {
                self.ways.push((block, to, EdgeKind::Jump));
                End::Jump
            }
            Next::Leaves(_, conditional) => {
                self.ways.extend(conditional.then_some(fall));
                match self.has_table(step.at()) {
                    true => End::Jump,
                    false => End::Leaves,
                }
            }
            Next::Return(conditional) => {
                self.ways.extend(conditional.then_some(fall));
                End::Return
            }
            Next::Into => End::Leaves,
            Next::Ends(_) => End::NoReturn,
            Next::Stop => End::Stop,
            Next::Unknown => End::Unknown,
        })
    }

    /// Makes edges between blocks of those between addresses.
    fn edges(&mut self) {
        let blocks = &self.graph.blocks;
        let edge = |(from, to, kind): &(u32, u64, EdgeKind)| {
            let to = blocks.binary_search_by_key(to, |block| block.start).ok()?;
            Some(Edge {
                from: *from,
                to: to as u32,
                kind: *kind,
            })
        };
        let edges = &mut self.graph.edges;
        edges.extend(self.ways.iter().filter_map(edge));
        edges.sort_unstable();
        edges.dedup();
        // Calls to padding before a function are calls of the function.
        for call in &mut self.graph.calls {
            if let Target::Direct(to) = &mut call.target {
                if let Some(unit) = self.context.layout.begins(*to) {
                    *to = self.context.layout.units[unit].entry();
                }
            }
        }
    }
}
