// SPDX-License-Identifier: MIT OR Apache-2.0
//! A graph as a picture. Places of blocks, and ways of edges between them, are those of the library
//! `dagre`: layers from top to bottom.

use std::fmt::Write as _;

use dagre::graph::{Graph as Layout, GraphOptions};
use dagre::layout::types::{EdgeLabel, LabelPos, LayoutOptions, NodeLabel, Point};

use super::drawing;
use super::form::{Block, Edge, Graph};
use crate::base::exit::Failure;
use crate::show::text::escaped;

/// Nobody can read a picture of more blocks. One of 582 takes 6 s to be laid out.
pub const MOST_BLOCKS: usize = 600;

/// Sizes, in pixels. Letters of the fonts that browsers take for `monospace` are 0.6 of the font's
/// size wide.
const FONT: f64 = 11.0;
const LETTER: f64 = FONT * 0.605;
const LINE: f64 = 14.0;
const MARGIN: f64 = 7.0;
const TITLE: f64 = 30.0;
const SMALL: f64 = 10.0;

/// Draws the graph.
///
/// # Errors
/// It has too many blocks.
pub fn svg(graph: &Graph) -> Result<String, Failure> {
    if graph.blocks.len() > MOST_BLOCKS {
        return Err(Failure::failed(format!(
            "fn:{}: {} blocks are too many for a picture, {MOST_BLOCKS} are the most: -f dot \
             writes them for Graphviz",
            graph.function,
            graph.blocks.len()
        )));
    }
    let layout = laid_out(graph);
    let most = drawing::most(graph);
    let (mut inside, mut extent) = (String::new(), (320.0, 40.0));
    let mut reach = |x: f64, y: f64| extent = (f64::max(extent.0, x), f64::max(extent.1, y));
    for (number, block) in graph.blocks.iter().enumerate() {
        let Some(node) = layout.node(&name(number)) else {
            continue;
        };
        let (x, y) = (node.x.unwrap_or(0.0), node.y.unwrap_or(0.0));
        reach(x + node.width / 2.0, y + node.height / 2.0);
        let (left, top) = (x - node.width / 2.0, y - node.height / 2.0);
        inside += &boxed(number, block, (left, top, node), most);
    }
    let mut ways = String::new();
    for (number, edge) in graph.edges.iter().enumerate() {
        let (from, to) = (name(edge.from), name(edge.to));
        if let Some(way) = layout.edge(&from, &to, Some(&name(number))) {
            way.points.iter().for_each(|point| reach(point.x, point.y));
            ways += &arrow(edge, way, most);
        }
    }
    let (width, height) = (extent.0 + 24.0, extent.1 + 24.0 + TITLE);
    let title = format!("{} [{}] at {}", graph.function, graph.module, graph.address);
    let markers: String = COLOURS.iter().map(|colour| marker(colour)).collect();
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"monospace\" font-size=\"{FONT}\">\n\
         <defs>\n{markers}</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"12\" y=\"20\" font-size=\"14\" font-weight=\"bold\">{}</text>\n\
         <g transform=\"translate(12,{TITLE})\">\n{ways}{inside}</g>\n</svg>\n",
        escaped(&title)
    ))
}

/// All that [`drawing::colour`] gives.
const COLOURS: [&str; 5] = ["#1a7f37", "#b42318", "#8250df", "#8c959f", "#0550ae"];

fn name(number: usize) -> String {
    number.to_string()
}

fn laid_out(graph: &Graph) -> Layout<NodeLabel, EdgeLabel> {
    let mut layout = Layout::with_options(GraphOptions {
        directed: true,
        multigraph: true,
        compound: true,
    });
    for (number, block) in graph.blocks.iter().enumerate() {
        let lines = drawing::lines(number, block);
        let letters = lines.iter().map(|line| line.chars().count()).max();
        let node = NodeLabel {
            width: letters.unwrap_or(0) as f64 * LETTER + 2.0 * MARGIN,
            height: lines.len() as f64 * LINE + 2.0 * MARGIN,
            ..NodeLabel::default()
        };
        layout.set_node(name(number), Some(node));
    }
    for (number, edge) in graph.edges.iter().enumerate() {
        let label = drawing::label(edge);
        let is_empty = label.is_empty();
        let way = EdgeLabel {
            // Code that follows other code stands below it.
            weight: if edge.kind == "fall" { 3 } else { 1 },
            width: label.chars().count() as f64 * SMALL * 0.605,
            height: if is_empty { 0.0 } else { SMALL + 2.0 },
            labelpos: LabelPos::Center,
            ..EdgeLabel::default()
        };
        let (from, to) = (name(edge.from), name(edge.to));
        layout.set_edge(from, to, Some(way), Some(&name(number)));
    }
    let options = LayoutOptions {
        nodesep: 28.0,
        edgesep: 14.0,
        ranksep: 34.0,
        ..LayoutOptions::default()
    };
    dagre::layout(&mut layout, Some(options));
    layout
}

/// A block, with its left and upper side.
fn boxed(number: usize, block: &Block, at: (f64, f64, &NodeLabel), most: u64) -> String {
    let (left, top, node) = at;
    let stroke = if block.entry { 2.0 } else { 1.0 };
    let mut text = format!(
        "<g><title>{}</title><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"3\" \
         fill=\"{}\" stroke=\"#57606a\" stroke-width=\"{stroke}\"/>\n",
        escaped(&format!("live {}", block.live.join(" "))),
        node.width,
        node.height,
        drawing::fill(block, most)
    );
    for (index, line) in drawing::lines(number, block).iter().enumerate() {
        let style = match index {
            0 => " font-weight=\"bold\"",
            1 => " fill=\"#57606a\"",
            _ => "",
        };
        let (x, y) = (left + MARGIN, top + MARGIN + LINE * index as f64 + FONT);
        let _ = writeln!(
            text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" xml:space=\"preserve\"{style}>{}</text>",
            escaped(line)
        );
    }
    text + "</g>\n"
}

fn marker(colour: &str) -> String {
    let id = colour.trim_start_matches('#');
    format!(
        "<marker id=\"m{id}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerUnits=\"userSpaceOnUse\" \
         markerWidth=\"9\" markerHeight=\"9\" orient=\"auto\"><path d=\"M0 1L10 5L0 9z\" fill=\"{colour}\"/>\
         </marker>\n"
    )
}

fn arrow(edge: &Edge, way: &EdgeLabel, most: u64) -> String {
    let colour = drawing::colour(edge);
    let dash = match drawing::is_dashed(edge) {
        true => " stroke-dasharray=\"5 3\"",
        false => "",
    };
    let mut text = format!(
        "<path d=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{:.1}\"{dash} \
         marker-end=\"url(#m{})\"/>\n",
        curve(&way.points),
        drawing::width(edge, most),
        colour.trim_start_matches('#')
    );
    let label = drawing::label(edge);
    if let (false, Some(x), Some(y)) = (label.is_empty(), way.x, way.y) {
        let (wide, high) = (way.width + 4.0, way.height);
        let _ = writeln!(
            text,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\" fill=\"#ffffff\" \
             fill-opacity=\"0.85\"/><text x=\"{x:.1}\" y=\"{:.1}\" font-size=\"{SMALL}\" \
             text-anchor=\"middle\" fill=\"{colour}\">{}</text>",
            x - wide / 2.0,
            y - high / 2.0,
            y + SMALL * 0.35,
            escaped(&label)
        );
    }
    text
}

/// A line through points, without corners.
fn curve(points: &[Point]) -> String {
    let Some(first) = points.first() else {
        return String::new();
    };
    let mut path = format!("M{:.1} {:.1}", first.x, first.y);
    for pair in points.windows(2).skip(1) {
        let (x, y) = ((pair[0].x + pair[1].x) / 2.0, (pair[0].y + pair[1].y) / 2.0);
        let _ = write!(path, "Q{:.1} {:.1} {x:.1} {y:.1}", pair[0].x, pair[0].y);
    }
    if let Some(last) = points.last() {
        let _ = write!(path, "L{:.1} {:.1}", last.x, last.y);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::super::form::tests::sample;
    use super::*;

    #[test]
    fn a_picture_has_all_blocks_and_edges() {
        let shown = svg(&sample()).unwrap();
        assert!(shown.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
        assert_eq!(shown.matches(" rx=\"3\" ").count(), 3);
        assert_eq!(shown.matches("<path d=\"M").count(), 2 + COLOURS.len());
        assert!(shown.contains(">+0x0  test %rax,%rax</text>"), "{shown}");
        assert!(
            shown.contains("text-anchor=\"middle\" fill=\"#1a7f37\">10</text>"),
            "{shown}"
        );
        assert!(shown.ends_with("</g>\n</svg>\n"));
    }

    /// Each block of a layer stands apart from the others: no two boxes lie on each other.
    #[test]
    fn blocks_do_not_lie_on_each_other() {
        let mut graph = sample();
        for number in 0..100 {
            let mut more = sample();
            let (mut block, mut edges) = (more.blocks.remove(0), more.edges);
            let at = graph.blocks.len();
            block.place = format!("+{number}");
            for edge in &mut edges {
                let back = (number * 7 + edge.to * 13) % at;
                (edge.from, edge.to) = (at - 1, if edge.to == 1 { at } else { back });
            }
            graph.blocks.push(block);
            graph.edges.extend(edges);
        }
        let layout = laid_out(&graph);
        let nodes = (0..graph.blocks.len()).map(|number| layout.node(&name(number)).unwrap());
        let nodes: Vec<&NodeLabel> = nodes.collect();
        for (index, one) in nodes.iter().enumerate() {
            for other in &nodes[..index] {
                let apart = |a: Option<f64>, b: Option<f64>, sizes: f64| {
                    (a.unwrap() - b.unwrap()).abs() >= sizes / 2.0
                };
                let beside = apart(one.x, other.x, one.width + other.width);
                assert!(beside || apart(one.y, other.y, one.height + other.height));
            }
        }
    }

    #[test]
    fn too_many_blocks_are_refused() {
        let mut graph = sample();
        for _ in 0..MOST_BLOCKS {
            graph.blocks.push(sample().blocks.remove(0));
        }
        let failure = svg(&graph).unwrap_err();
        assert!(failure.message.contains("603 blocks") && failure.message.contains("-f dot"));
    }
}
