// SPDX-License-Identifier: MIT OR Apache-2.0
//! A graph for people: block for block, each with what it leads to.

use std::fmt::Write as _;

use super::form::{Block, Edge, Graph};
use crate::kernel::lines::Lines;
use crate::kernel::lines::sources::Sources;
use crate::show::text::grouped;

/// The graph, with the text of source lines where the sources are.
pub fn text(graph: &Graph, lines: &Lines) -> String {
    let mut sources = Sources::default();
    let mut text = head(graph);
    for (number, block) in graph.blocks.iter().enumerate() {
        let executed = match block.executed {
            Some(times) => format!(", executed {}", grouped(times)),
            None => String::new(),
        };
        let live = match block.live.as_slice() {
            [] => "nothing".to_owned(),
            live => live.join(" "),
        };
        let entry = if block.entry { ", entry" } else { "" };
        let place = &block.place;
        let _ = writeln!(text, "\n#{number} {place}{entry}{executed}; live {live}");
        text += &instructions(block, &mut sources, lines);
        for edge in graph.edges.iter().filter(|edge| edge.from == number) {
            text += &arrow(edge, graph);
        }
        text += &end(graph, number, block);
    }
    text
}

fn head(graph: &Graph) -> String {
    let (blocks, edges) = (graph.blocks.len(), graph.edges.len());
    let (name, module, at) = (&graph.function, &graph.module, &graph.address);
    let mut text = format!(
        "{name} [{module}] at {at}: {blocks} blocks, {edges} edges, {} calls\n",
        graph.calls.len()
    );
    for own in &graph.unexplained {
        let _ = writeln!(text, "not understood at {}: {}", own.address, own.reason);
    }
    match graph.executions {
        Some("none") => text += "nothing of it was executed in the recording\n",
        Some("contradictory") => {
            text +=
                "executions of edges do not follow: those of its blocks contradict each other\n";
        }
        _ => {}
    }
    text
}

fn instructions(block: &Block, sources: &mut Sources, lines: &Lines) -> String {
    let width = block.instructions.iter().map(|own| own.place.len()).max();
    let width = width.unwrap_or(0);
    let (mut text, mut last) = (String::new(), None);
    for own in &block.instructions {
        if let (Some(file), Some(line)) = (&own.file, own.line) {
            if last.replace((file, line)) != Some((file, line)) {
                let source = sources.text(file, line, lines);
                let source = source.map_or_else(String::new, |source| format!(": {source}"));
                let _ = writeln!(text, "   {file}:{line}{source}");
            }
        }
        let _ = writeln!(text, "     {:<width$}  {}", own.place, own.text);
    }
    text
}

/// In words, why execution goes along an edge.
pub fn word(kind: &str) -> &str {
    match kind {
        "fall" => "falls through",
        "taken" => "branch taken",
        "jump" => "jumps",
        "table" => "by a table",
        "exception" => "at an exception",
        "key" => "with the other key",
        _ => "with the alternative",
    }
}

fn arrow(edge: &Edge, graph: &Graph) -> String {
    let back = if edge.to <= edge.from { ", back" } else { "" };
    let executed = match (edge.executed, edge.counted) {
        (Some(times), Some(true)) => format!("  {}", grouped(times)),
        (Some(times), _) => format!("  {} (follows)", grouped(times)),
        _ => String::new(),
    };
    let (to, place) = (edge.to, &graph.blocks[edge.to].place);
    format!("   -> #{to} {place} {}{back}{executed}\n", word(edge.kind))
}

/// What a block leads to outside of the function.
fn end(graph: &Graph, number: usize, block: &Block) -> String {
    let calls = graph.calls.iter().filter(|call| call.block == number);
    let mut leaves = calls.filter(|call| matches!(call.kind, "tail" | "into"));
    let name = leaves
        .next_back()
        .map(|call| match (&call.target, &call.through) {
            (Some(target), _) => target.clone(),
            (_, Some(through)) => format!("what {through} says"),
            _ => "another function".into(),
        });
    match (block.end, name) {
        ("return", _) => "   -> returns\n".into(),
        ("leaves", Some(name)) => format!("   -> goes on in {name}\n"),
        ("leaves", None) => "   -> goes on in another function\n".into(),
        ("noreturn", _) => "   -> the call does not come back\n".into(),
        ("stop", _) => "   -> execution ends\n".into(),
        ("unknown", _) => "   -> not known\n".into(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::form::tests::sample;
    use super::*;

    #[test]
    fn blocks_stand_below_each_other_with_what_they_lead_to() {
        let shown = text(&sample(), &Lines::default());
        let expected = "\
outer [vmlinux] at 0x4000: 3 blocks, 2 edges, 0 calls

#0 +0x0, entry, executed 10; live ";
        assert!(shown.starts_with(expected), "{shown}");
        let expected = "\
     +0x0  test %rax,%rax
     +0x3  nopl (%rax)
     +0x6  jne +0x40
   -> #1 +0x8 falls through  0
   -> #2 +0x40 branch taken  10

#1 +0x8, executed 0; live ";
        assert!(shown.contains(expected), "{shown}");
        assert!(shown.ends_with("+0x47  ret\n   -> returns\n"), "{shown}");
    }
}
