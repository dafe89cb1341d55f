// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places that stand for an instruction at which no breakpoint may stand.
//!
//! The kernel changes some instructions itself (static keys, static calls), and warnings are found
//! by their address. Such an instruction is executed as often as what leads to it:
//!
//! 1. In a block all instructions are executed one after the other. So the instruction before it
//!    in its block leads to it, if it goes on to the next one by itself: no call, which may never
//!    come back, and none of the kernel's own.
//! 2. The first instruction of a block is executed as often as all edges into the block together.
//!    An edge has a place if it is a way of a branch on a condition, a jump, or an instruction that
//!    goes on. Whoever enters the function there from outside has no edge.
//! 3. Not each edge has one: what a static key, a table of jumps, an exception or an alternative
//!    leads to is not told apart. The graph of the function must be whole.
//!
//! Between a place that leads there and the instruction registers may change. So only a count can
//! be had in this way.

use iced_x86::{FlowControl, Instruction, Mnemonic};
use jifl_code::depth::instructions;
use jifl_code::graph::{Block, Edge, EdgeKind, Graph};
use jifl_code::image::Image;
use jifl_sys::abi::{SPLICE_BEFORE, SPLICE_NOT_TAKEN, SPLICE_TAKEN};

use super::code::is_branch;

/// Does the kernel change the instruction, or is it a warning's?
pub fn is_kernels(image: &Image, one: &Instruction) -> bool {
    let (at, tables) = (one.ip(), &image.tables);
    tables.keys.binary_search_by_key(&at, |(at, _)| *at).is_ok()
        || tables.static_calls.binary_search(&at).is_ok()
        || one.mnemonic() == Mnemonic::Ud2
}

/// The places, addresses and `SPLICE_*`, whose executions are together those of the instruction at
/// `at`. `None`: there are no such.
pub fn leads(image: &Image, graph: &Graph, at: u64) -> Option<Vec<(u64, u32)>> {
    let mut holding = graph.blocks.iter().enumerate();
    let holds = |block: &Block| (block.start..block.behind()).contains(&at);
    let (index, block) = holding.find(|(_, block)| holds(block))?;
    // Blocks that overlap have no order of their own.
    if !graph.is_whole() || holding.any(|(_, block)| holds(block)) {
        return None;
    }
    let goes_on = |one: &Instruction| {
        one.flow_control() == FlowControl::Next && !one.is_invalid() && !is_kernels(image, one)
    };
    let mut before = instructions(image, block).take_while(|one| one.ip() < at);
    if let Some(one) = before.by_ref().last() {
        let is_next = one.next_ip() == at && goes_on(&one);
        return is_next.then(|| vec![(one.ip(), SPLICE_BEFORE)]);
    }
    if block.start != at || graph.entries.contains(&(index as u32)) {
        return None;
    }
    let place = |edge: &Edge| {
        let from = &graph.blocks[edge.from as usize];
        let last = instructions(image, from).last()?;
        let side = match edge.kind {
            _ if is_kernels(image, &last) => return None,
            EdgeKind::Fall if is_branch(&last) => SPLICE_NOT_TAKEN,
            EdgeKind::Fall if goes_on(&last) => SPLICE_BEFORE,
            EdgeKind::Taken if is_branch(&last) => SPLICE_TAKEN,
            EdgeKind::Jump if last.flow_control() == FlowControl::UnconditionalBranch => {
                SPLICE_BEFORE
            }
            _ => return None,
        };
        Some((last.ip(), side))
    };
    let into = graph.edges.iter().filter(|edge| edge.to as usize == index);
    let all: Vec<(u64, u32)> = into.map(place).collect::<Option<_>>()?;
    (!all.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests {
    use jifl_code::program::Program;

    use super::*;

    /// The leads to an address, as offsets, in a function of these bytes with keys at these offsets.
    fn leads_to(bytes: &[u8], keys: &[(u64, u64)], at: u64) -> Option<Vec<(u64, u32)>> {
        let mut image = Image::of_text(0x1000, bytes.to_vec(), &[(0x1000, "f")]);
        image.tables.keys = keys
            .iter()
            .map(|(at, to)| (0x1000 + at, 0x1000 + to))
            .collect();
        image.tables.warnings = Some(Vec::new());
        let program = Program::of(image);
        let leads = leads(&program.image, &program.functions[0].graph, 0x1000 + at)?;
        Some(
            leads
                .iter()
                .map(|(at, side)| (at - 0x1000, *side))
                .collect(),
        )
    }

    #[test]
    fn in_a_block_it_is_the_instruction_before() {
        // xor; key (nop) to the return; ret
        let bytes = [0x31, 0xc0, 0x66, 0x90, 0xc3, 0xcc];
        assert_eq!(
            leads_to(&bytes, &[(2, 4)], 2),
            Some(vec![(0, SPLICE_BEFORE)])
        );
        // A key leads to it, and which way is not told.
        assert_eq!(leads_to(&bytes, &[(2, 4)], 4), None);
        // Nothing leads to the entry.
        assert_eq!(leads_to(&bytes, &[(2, 4)], 0), None);
        // A call may never come back.
        let bytes = [0xe8, 0, 0, 0, 0, 0x66, 0x90, 0xc3, 0xcc];
        assert_eq!(leads_to(&bytes, &[(5, 7)], 5), None);
    }

    #[test]
    fn at_the_beginning_of_a_block_it_is_all_edges() {
        let bytes = [
            0x31, 0xc0, // 0: xor
            0x74, 0x03, // 2: je 7
            0x31, 0xc0, // 4: xor
            0x90, // 6: nop, which goes on to 7
            0x66, 0x90, // 7: key, to 9
            0x75, 0x01, // 9: jne 0xc
            0xc3, // 0xb: ret
            0x0f, 0x0b, // 0xc: ud2
            0xcc,
        ];
        assert_eq!(
            leads_to(&bytes, &[(7, 9)], 7),
            Some(vec![(2, SPLICE_TAKEN), (6, SPLICE_BEFORE)])
        );
        assert_eq!(
            leads_to(&bytes, &[(7, 9)], 0xc),
            Some(vec![(9, SPLICE_TAKEN)])
        );
        assert_eq!(
            leads_to(&bytes, &[(7, 9)], 0xb),
            Some(vec![(9, SPLICE_NOT_TAKEN)])
        );
    }
}
