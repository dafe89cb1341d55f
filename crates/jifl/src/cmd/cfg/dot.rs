// SPDX-License-Identifier: MIT OR Apache-2.0
//! A graph for Graphviz.

use std::fmt::Write as _;

use super::drawing;
use super::form::Graph;

/// The graph in the language of `dot`.
pub fn dot(graph: &Graph) -> String {
    let most = drawing::most(graph);
    let mut text = format!("digraph {} {{\n", quoted(&graph.function));
    let title = format!("{} [{}] at {}", graph.function, graph.module, graph.address);
    let _ = writeln!(text, "  label={}; labelloc=t;", quoted(&title));
    text += "  node [shape=box, style=filled, fontname=monospace, fontsize=10];\n";
    text += "  edge [fontname=monospace, fontsize=9];\n";
    for (number, block) in graph.blocks.iter().enumerate() {
        let lines = drawing::lines(number, block);
        let lines: String = lines.iter().map(|line| escaped(line) + "\\l").collect();
        let (fill, bold) = (drawing::fill(block, most), if block.entry { 2 } else { 1 });
        let _ = writeln!(
            text,
            "  b{number} [label=\"{lines}\", fillcolor=\"{fill}\", penwidth={bold}];"
        );
    }
    for edge in &graph.edges {
        let style = if drawing::is_dashed(edge) {
            "dashed"
        } else {
            "solid"
        };
        let _ = writeln!(
            text,
            "  b{} -> b{} [color=\"{}\", style={style}, penwidth={:.1}, label={}];",
            edge.from,
            edge.to,
            drawing::colour(edge),
            drawing::width(edge, most),
            quoted(&drawing::label(edge))
        );
    }
    text + "}\n"
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

#[cfg(test)]
mod tests {
    use super::super::form::tests::sample;
    use super::*;

    #[test]
    fn a_graph_is_nodes_and_edges() {
        let shown = dot(&sample());
        assert!(shown.starts_with("digraph \"outer\" {\n"), "{shown}");
        assert_eq!(shown.matches(" -> ").count(), 2);
        assert!(shown.contains(
            "  b0 -> b2 [color=\"#1a7f37\", style=solid, penwidth=4.0, label=\"10\"];\n"
        ));
        assert!(
            shown.contains("fillcolor=\"#e4e4e4\""),
            "never executed: {shown}"
        );
        assert!(shown.contains("\\l+0x6  jne +0x40\\l\""), "{shown}");
        assert_eq!(quoted("a\"\\"), "\"a\\\"\\\\\"");
    }
}
