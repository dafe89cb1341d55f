// SPDX-License-Identifier: MIT OR Apache-2.0
//! A function's blocks, edges and calls.

use crate::flow::Target;

/// Why execution may go along an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EdgeKind {
    /// To the code behind the block.
    Fall,
    /// A conditional branch is taken.
    Taken,
    /// A jump.
    Jump,
    /// One of a jump table.
    Table,
    /// The instruction met an exception, and its fixup takes over.
    Exception,
    /// A jump label, when its key is the other way than it stands now.
    Key,
    /// An alternative, when it is in place.
    Alternative,
}

/// An edge between blocks of one function: places in [`Graph::blocks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Edge {
    /// From the end of this one.
    pub from: u32,
    /// To the beginning of this one.
    pub to: u32,
    /// Why.
    pub kind: EdgeKind,
}

/// How a block ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Another block begins behind it.
    Fall,
    /// A conditional branch.
    Branch,
    /// A jump within the function.
    Jump,
    /// A return, on a condition or not.
    Return,
    /// A jump to, or a fall into, another function, on a condition or not.
    Leaves,
    /// A call that does not come back.
    NoReturn,
    /// Execution ends: ud2, iret, int3.
    Stop,
    /// Not known, see [`Graph::troubles`].
    Unknown,
}

/// A basic block: once entered, all of it executes, as long as calls return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Where it begins.
    pub start: u64,
    /// In bytes.
    pub length: u32,
    /// Instructions in it.
    pub instructions: u32,
    /// The first of its effects in [`Graph::effects`]; it has one more than it has calls.
    pub effects: u32,
    /// How it ends.
    pub end: End,
}

impl Block {
    /// The address behind it.
    pub fn behind(&self) -> u64 {
        self.start + u64::from(self.length)
    }
}

/// A call, or a jump to another function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The instruction.
    pub at: u64,
    /// The block: a place in [`Graph::blocks`].
    pub block: u32,
    /// Whom.
    pub target: Target,
    /// How.
    pub kind: CallKind,
}

/// Ways to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallKind {
    /// A call that comes back.
    Call,
    /// A call that does not.
    NoReturn,
    /// A tail call: a jump, on a condition or not.
    Tail,
    /// Execution runs on into the function behind.
    Into,
}

/// What was not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trouble {
    /// No instruction stands there.
    Invalid,
    /// Execution would run out of the function.
    RunsOff,
    /// An instruction begins inside another.
    Overlaps,
    /// A branch to what is not text.
    LeadsNowhere,
    /// A jump whose targets are not known, and which is no tail call.
    UnknownJump,
}

impl Trouble {
    /// In words.
    pub fn reason(self) -> &'static str {
        match self {
            Trouble::Invalid => "no instruction stands there",
            Trouble::RunsOff => "execution would run out of the function",
            Trouble::Overlaps => "an instruction begins inside another",
            Trouble::LeadsNowhere => "a branch to what is not text",
            Trouble::UnknownJump => "a jump whose targets are not known",
        }
    }

    /// Is the graph without something because of it?
    pub fn loses(self) -> bool {
        self != Trouble::Overlaps
    }
}

/// What a run of instructions does to the liveness of registers and flags: before it are live
/// those that it uses, and those that are live behind it and that it does not define. Bits 0 to
/// 15 are the registers, from rax to r15, bits 16 and up the flags ([`crate::effect`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effect {
    /// Read before they are written.
    pub uses: u32,
    /// Wholly written, on every way.
    pub defines: u32,
}

impl Effect {
    /// What is live before it.
    pub fn before(self, behind: u32) -> u32 {
        self.uses | behind & !self.defines
    }

    /// This one, and then another.
    pub fn then(self, next: Effect) -> Effect {
        Effect {
            uses: self.before(next.uses),
            defines: self.defines | next.defines,
        }
    }

    /// One of both, it is not known which.
    pub fn or(self, other: Effect) -> Effect {
        Effect {
            uses: self.uses | other.uses,
            defines: self.defines & other.defines,
        }
    }
}

/// A function's structure. Blocks, edges and calls are in the order of addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Graph {
    /// Its blocks.
    pub blocks: Vec<Block>,
    /// Its edges.
    pub edges: Vec<Edge>,
    /// Its calls.
    pub calls: Vec<Call>,
    /// Of its blocks.
    pub effects: Vec<Effect>,
    /// What was not understood, and where.
    pub troubles: Vec<(u64, Trouble)>,
    /// Blocks that execution enters from outside: the entry, and what other functions jump to.
    pub entries: Vec<u32>,
}

impl Graph {
    /// The block that an address lies in: a place in [`Graph::blocks`]. Where blocks overlap, the
    /// one that begins last.
    pub fn block(&self, address: u64) -> Option<usize> {
        let behind = self.blocks.partition_point(|block| block.start <= address);
        let index = behind.checked_sub(1)?;
        (address < self.blocks[index].behind()).then_some(index)
    }

    /// The edges out of a block.
    pub fn successors(&self, block: usize) -> &[Edge] {
        let of = |edge: &Edge| edge.from as usize;
        let begin = self.edges.partition_point(|edge| of(edge) < block);
        let number = self.edges[begin..].partition_point(|edge| of(edge) == block);
        &self.edges[begin..begin + number]
    }

    /// The calls in a block.
    pub fn calls_in(&self, block: usize) -> &[Call] {
        let begin = self
            .calls
            .partition_point(|call| (call.block as usize) < block);
        let number = self.calls[begin..].partition_point(|call| call.block as usize == block);
        &self.calls[begin..begin + number]
    }

    /// Does anything in it return?
    pub fn returns(&self) -> bool {
        self.blocks.iter().any(|block| block.end == End::Return)
    }

    /// Can it be left, as far as is known: does anything in it return, or lead elsewhere?
    pub fn has_exit(&self, returns: impl Fn(u64) -> bool) -> bool {
        let leaves = |call: &Call| match (call.kind, call.target) {
            (CallKind::Tail | CallKind::Into, Target::Direct(to)) => returns(to),
            (CallKind::Tail | CallKind::Into, Target::Indirect(_)) => true,
            _ => false,
        };
        self.returns()
            || self.calls.iter().any(leaves)
            || self.troubles.iter().any(|(_, trouble)| trouble.loses())
    }

    /// Was all of it understood?
    pub fn is_whole(&self) -> bool {
        !self.troubles.iter().any(|(_, trouble)| trouble.loses())
    }
}
