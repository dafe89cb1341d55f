// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is shown of a function's graph, in all forms. The structures are those of the JSON, too.

use jifl_code::depth::instructions;
use jifl_code::edges::Visits;
use jifl_code::effect::{self, RSP};
use jifl_code::flow::{Target, Through};
use jifl_code::graph::{self, CallKind, EdgeKind, End};
use jifl_code::live::Live;
use jifl_code::program::{Function, Program};
use serde::Serialize;

use crate::cmd::analyze::{Counted, EdgeCounts};
use crate::kernel::disasm::{Disassembler, direct_target};
use crate::kernel::images::KERNEL;
use crate::kernel::lines::Lines;

/// All that were asked for.
#[derive(Serialize)]
pub struct Object<'a> {
    pub command: &'static str,
    pub functions: &'a [Graph],
}

/// A function.
#[derive(Debug, Serialize)]
pub struct Graph {
    pub function: String,
    pub module: String,
    pub address: String,
    /// Whether all of it was understood; `unexplained` says what was not.
    pub whole: bool,
    pub unexplained: Vec<Unexplained>,
    /// Whether there are executions, and whether those of edges follow from those of blocks. Null
    /// without a recording.
    pub executions: Option<&'static str>,
    pub blocks: Vec<Block>,
    pub edges: Vec<Edge>,
    pub calls: Vec<Call>,
}

/// What was not understood.
#[derive(Debug, Serialize)]
pub struct Unexplained {
    pub address: String,
    pub reason: &'static str,
}

/// A basic block.
#[derive(Debug, Serialize)]
pub struct Block {
    pub address: String,
    /// Its place: `+0x12`, or `.cold+0x3`.
    pub place: String,
    pub bytes: u32,
    /// Execution may enter here from outside.
    pub entry: bool,
    /// How it ends: `fall`, `branch`, `jump`, `return`, `leaves`, `noreturn`, `stop`, `unknown`.
    pub end: &'static str,
    /// Registers and flags whose value may still be used, at its beginning; without rsp.
    pub live: Vec<&'static str>,
    /// Executions of its first instruction; null where that is not known.
    pub executed: Option<u64>,
    pub instructions: Vec<Instruction>,
}

/// An instruction.
#[derive(Debug, Serialize)]
pub struct Instruction {
    pub address: String,
    pub place: String,
    pub text: String,
    pub file: Option<String>,
    pub line: Option<u32>,
}

/// An edge: places in `blocks`.
#[derive(Debug, Serialize)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    /// `fall`, `taken`, `jump`, `table`, `exception`, `key`, `alternative`.
    pub kind: &'static str,
    /// Null where that is not known.
    pub executed: Option<u64>,
    /// Whether that was counted, or follows from the blocks' counts. Null if not known.
    pub counted: Option<bool>,
}

/// A call, or a jump to another function.
#[derive(Debug, Serialize)]
pub struct Call {
    pub address: String,
    /// A place in `blocks`.
    pub block: usize,
    /// `call`, `noreturn`, `tail`, `into`.
    pub kind: &'static str,
    /// The function; null where the code does not name it.
    pub target: Option<String>,
    /// What an indirect call goes through.
    pub through: Option<String>,
}

/// What a graph is made of.
pub struct Former<'a> {
    pub program: &'a Program,
    pub live: &'a Live,
    pub names: Disassembler,
    pub lines: &'a Lines,
    pub counted: Option<&'a Counted>,
}

fn end(end: End) -> &'static str {
    match end {
        End::Fall => "fall",
        End::Branch => "branch",
        End::Jump => "jump",
        End::Return => "return",
        End::Leaves => "leaves",
        End::NoReturn => "noreturn",
        End::Stop => "stop",
        End::Unknown => "unknown",
    }
}

fn edge_kind(kind: EdgeKind) -> &'static str {
    match kind {
        EdgeKind::Fall => "fall",
        EdgeKind::Taken => "taken",
        EdgeKind::Jump => "jump",
        EdgeKind::Table => "table",
        EdgeKind::Exception => "exception",
        EdgeKind::Key => "key",
        EdgeKind::Alternative => "alternative",
    }
}

fn call_kind(kind: CallKind) -> &'static str {
    match kind {
        CallKind::Call => "call",
        CallKind::NoReturn => "noreturn",
        CallKind::Tail => "tail",
        CallKind::Into => "into",
    }
}

impl Former<'_> {
    /// The graph of a function: a place in [`Program::functions`].
    pub fn form(&mut self, index: usize) -> Graph {
        let program = self.program;
        let function = &program.functions[index];
        let own = &function.graph;
        let unexplained = own.troubles.iter().map(|(at, trouble)| Unexplained {
            address: format!("{at:#x}"),
            reason: trouble.reason(),
        });
        let counted = self.counted.filter(|counted| counted.has(own));
        let edges = counted.map(|counted| counted.edges(program, own));
        let blocks = (0..own.blocks.len()).map(|block| self.block(index, block));
        Graph {
            blocks: blocks.collect(),
            function: program.name(function).into_owned(),
            module: program.image.modules[function.unit.module].clone(),
            address: format!("{:#x}", function.unit.entry()),
            whole: own.is_whole(),
            unexplained: unexplained.collect(),
            executions: self.counted.map(|_| match &edges {
                None => "none",
                Some(edges) if edges.derived.is_err() => "contradictory",
                Some(_) => "consistent",
            }),
            edges: of_edges(own, edges.as_ref()),
            calls: own.calls.iter().map(|call| self.call(call)).collect(),
        }
    }

    fn block(&mut self, index: usize, number: usize) -> Block {
        let program = self.program;
        let function = &program.functions[index];
        let block = &function.graph.blocks[number];
        let live = self.live.at_block(index, number) & !RSP;
        let visits = self.counted.map(|counted| counted.visits(program, block));
        let all: Vec<_> = instructions(&program.image, block).collect();
        let all = all.iter().map(|own| self.instruction(function, own));
        Block {
            instructions: all.collect(),
            address: format!("{:#x}", block.start),
            place: self.place(function, block.start),
            bytes: block.length,
            entry: function.graph.entries.contains(&(number as u32)),
            end: end(block.end),
            live: effect::names(live),
            executed: visits.and_then(|Visits { entered, .. }| entered),
        }
    }

    fn instruction(&mut self, function: &Function, own: &iced_x86::Instruction) -> Instruction {
        let at = own.ip();
        let label = direct_target(own).map(|to| match function.unit.holds(to) {
            true => self.place(function, to),
            false => self.names.name(to),
        });
        let module = self.program.image.modules[function.unit.module].as_str();
        let module = (module != KERNEL).then_some(module);
        let line = self.lines.of(module, at, at + 1).into_iter().next();
        Instruction {
            address: format!("{at:#x}"),
            place: self.place(function, at),
            text: self.names.text(own, label),
            line: line.as_ref().map(|line| line.line),
            file: line.map(|line| line.file),
        }
    }

    /// `+0x12`, or `.cold+0x3`: an address of a function without the function's name.
    fn place(&self, function: &Function, at: u64) -> String {
        let entry = function.unit.entry();
        if let Some(first) = function
            .unit
            .pieces
            .first()
            .filter(|first| first.contains(&at))
        {
            return format!("+{:#x}", at - first.start.max(entry));
        }
        let name = self.names.name(at);
        let own = self.program.name(function);
        match name.strip_prefix(own.as_ref()) {
            Some(rest) if rest.starts_with('.') => rest.to_owned(),
            _ => name,
        }
    }

    fn call(&self, call: &graph::Call) -> Call {
        let (target, through) = match call.target {
            Target::Direct(to) => (Some(self.names.name(to)), None),
            Target::Indirect(through) => (None, Some(self.through(through))),
        };
        Call {
            address: format!("{:#x}", call.at),
            block: call.block as usize,
            kind: call_kind(call.kind),
            target,
            through,
        }
    }

    fn through(&self, through: Through) -> String {
        match through {
            Through::Register(number) => {
                let names = effect::names(1 << number);
                names.first().copied().unwrap_or("a register").to_owned()
            }
            Through::Slot(at) => self.names.name(at),
            Through::Memory => "memory".into(),
            Through::Far => "a far return".into(),
        }
    }
}

fn of_edges(graph: &graph::Graph, counts: Option<&EdgeCounts>) -> Vec<Edge> {
    let edge = |(index, edge): (usize, &graph::Edge)| {
        let known = counts.and_then(|counts| counts.of(index));
        Edge {
            from: edge.from as usize,
            to: edge.to as usize,
            kind: edge_kind(edge.kind),
            executed: known.map(|(count, _)| count),
            counted: known.map(|(_, counted)| counted),
        }
    };
    graph.edges.iter().enumerate().map(edge).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::kernel::symbols::Symbols;
    use jifl_code::live::Trust;
    use std::rc::Rc;

    /// The graph of `outer`, with the executions of the sample of a recording.
    pub fn sample() -> Graph {
        use crate::cmd::analyze::counted_tests::program;
        use crate::session::recording::tests::recorded;
        let program = program(0x4000);
        let mut recording = recorded();
        recording.blocks.retain(|block| block.bytes != 4);
        let counted = Counted::of(&recording, &program);
        let live = Live::of(&program, Trust::Compiled);
        let mut former = Former {
            program: &program,
            live: &live,
            names: Disassembler::new(Rc::new(Symbols::parse("4000 T outer\n4050 T between\n"))),
            lines: &Lines::default(),
            counted: Some(&counted),
        };
        former.form(0)
    }

    #[test]
    fn a_graph_has_blocks_edges_and_executions() {
        let graph = sample();
        assert_eq!((graph.function.as_str(), graph.whole), ("outer", true));
        assert_eq!(graph.executions, Some("consistent"));
        let blocks: Vec<_> = graph
            .blocks
            .iter()
            .map(|own| (own.place.as_str(), own.end, own.executed))
            .collect();
        let expected = [
            ("+0x0", "branch", Some(10)),
            ("+0x8", "return", Some(0)),
            ("+0x40", "return", Some(10)),
        ];
        assert_eq!(blocks, expected);
        assert!(graph.blocks[0].live.contains(&"rax"));
        assert_eq!(graph.blocks[0].instructions[2].text, "jne +0x40");
        let edges: Vec<_> = graph
            .edges
            .iter()
            .map(|own| (own.from, own.to, own.kind, own.executed, own.counted))
            .collect();
        let expected = [
            (0, 1, "fall", Some(0), Some(true)),
            (0, 2, "taken", Some(10), Some(true)),
        ];
        assert_eq!(edges, expected);
    }
}
