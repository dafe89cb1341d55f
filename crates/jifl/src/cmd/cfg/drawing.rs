// SPDX-License-Identifier: MIT OR Apache-2.0
//! How drawings show blocks and edges: their text, their colours, how thick they are.

use super::form::{Block, Edge, Graph};
use crate::show::output::shortened;
use crate::show::text::grouped;

/// More of an instruction is not shown.
const WIDEST: usize = 44;

/// Lines of a block: its place and its executions, then its instructions.
pub fn lines(number: usize, block: &Block) -> Vec<String> {
    let executed = match block.executed {
        Some(times) => format!("  executed {}", grouped(times)),
        None => String::new(),
    };
    let mut lines = vec![format!("#{number} {}{executed}", block.place)];
    let live = block.live.join(" ");
    lines.push(crate::show::output::shortened(
        &format!("live {live}"),
        WIDEST,
    ));
    lines.extend(block.instructions.iter().map(|own| {
        let line = format!("{}  {}", own.place, own.text);
        shortened(&line, WIDEST)
    }));
    lines
}

/// The most executions of a block and of an edge.
pub fn most(graph: &Graph) -> u64 {
    let blocks = graph.blocks.iter().filter_map(|block| block.executed);
    let edges = graph.edges.iter().filter_map(|edge| edge.executed);
    blocks.chain(edges).max().unwrap_or(0)
}

/// From 0, never executed, to 1, the most: in steps of magnitude.
fn share(executed: u64, most: u64) -> f64 {
    if executed == 0 {
        return 0.0;
    }
    (1.0 + executed as f64).ln() / (1.0 + most as f64).ln()
}

/// The colour that a block is filled with: white where executions are not known, grey where it was
/// never executed, and then from light yellow to orange.
pub fn fill(block: &Block, most: u64) -> String {
    match block.executed {
        None => "#ffffff".into(),
        Some(0) => "#e4e4e4".into(),
        Some(times) => {
            let share = share(times, most);
            let part = |from: f64, to: f64| (from + (to - from) * share).round() as u8;
            format!("#ff{:02x}{:02x}", part(252.0, 176.0), part(220.0, 110.0))
        }
    }
}

/// The colour of an edge, by why execution goes along it.
pub fn colour(edge: &Edge) -> &'static str {
    match edge.kind {
        "taken" => "#1a7f37",
        "fall" => "#b42318",
        "exception" => "#8250df",
        "key" | "alternative" => "#8c959f",
        _ => "#0550ae",
    }
}

/// Is it drawn with dashes? Execution goes along it only under special circumstances.
pub fn is_dashed(edge: &Edge) -> bool {
    matches!(edge.kind, "exception" | "key" | "alternative")
}

/// How thick an edge is drawn, in points.
pub fn width(edge: &Edge, most: u64) -> f64 {
    edge.executed
        .map_or(1.0, |times| 1.0 + 3.0 * share(times, most))
}

/// Executions of an edge, in words; `=` stands before those that follow from others.
pub fn label(edge: &Edge) -> String {
    match (edge.executed, edge.counted) {
        (Some(times), Some(true)) => grouped(times),
        (Some(times), _) => format!("={}", grouped(times)),
        _ => String::new(),
    }
}
