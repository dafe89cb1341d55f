// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stacks as a flame graph: an SVG picture. The width of a box is the share of instructions
//! executed in it and in the boxes that stand on it. The whole text of a box shows under the
//! pointer.

use std::fmt::Write as _;

use super::frames::Stacks;
use crate::show::text::percent;
use crate::show::text::{escaped, grouped};

/// A box and the boxes on it.
struct Node {
    name: String,
    count: u64,
    above: Vec<Node>,
}

/// Width of the picture, and height of a box.
const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;
/// Room above and below the boxes.
const MARGIN: f64 = 30.0;
/// Width of a letter, and of the narrowest visible box.
const LETTER: f64 = 7.0;
const NARROW: f64 = 0.2;

/// The whole picture.
pub fn render(stacks: &Stacks) -> String {
    let entries: Vec<(&[String], u64)> = stacks
        .iter()
        .map(|(stack, count)| (stack.as_slice(), *count))
        .collect();
    let root = node("all", &entries);
    let height = 2.0 * MARGIN + depth(&root) as f64 * ROW;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"{}\" y=\"20\" text-anchor=\"middle\" font-size=\"14\">{} instructions</text>\n",
        WIDTH / 2.0,
        grouped(root.count)
    );
    draw(&mut text, &root, root.count, 0.0, height - MARGIN);
    text + "</svg>\n"
}

/// Boxes of stacks, which are sorted so that stacks with the same function are neighbours.
fn node(name: &str, entries: &[(&[String], u64)]) -> Node {
    let deeper: Vec<(&[String], u64)> = entries
        .iter()
        .filter(|(stack, _)| !stack.is_empty())
        .copied()
        .collect();
    let above = deeper.chunk_by(|(a, _), (b, _)| a[0] == b[0]).map(|same| {
        let rest: Vec<(&[String], u64)> = same
            .iter()
            .map(|(stack, count)| (&stack[1..], *count))
            .collect();
        node(&same[0].0[0], &rest)
    });
    Node {
        name: name.to_owned(),
        count: entries.iter().map(|(_, count)| count).sum(),
        above: above.collect(),
    }
}

fn depth(node: &Node) -> usize {
    1 + node.above.iter().map(depth).max().unwrap_or(0)
}

/// `bottom`: lower edge of the box.
fn draw(text: &mut String, node: &Node, all: u64, mut x: f64, bottom: f64) {
    let width = node.count as f64 / all.max(1) as f64 * WIDTH;
    if width < NARROW {
        return;
    }
    let room = (width / LETTER) as usize;
    let shown: String = match node.name.chars().count() {
        n if n <= room => node.name.clone(),
        _ if room < 3 => String::new(),
        _ => node
            .name
            .chars()
            .take(room - 1)
            .chain(['\u{2026}'])
            .collect(),
    };
    let _ = writeln!(
        text,
        "<g><title>{}: {} instructions, {}</title>\
         <rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{}\" fill=\"{}\" rx=\"1\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
        escaped(&node.name),
        grouped(node.count),
        percent(node.count, all),
        bottom - ROW + 1.0,
        ROW - 1.0,
        colour(&node.name),
        x + 3.0,
        bottom - 5.0,
        escaped(&shown)
    );
    for above in &node.above {
        draw(text, above, all, x, bottom - ROW);
        x += above.count as f64 / all.max(1) as f64 * WIDTH;
    }
}

/// A warm colour, always the same for a name.
fn colour(name: &str) -> String {
    let hash = name.bytes().fold(7_u32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(byte.into())
    });
    format!(
        "rgb({},{},{})",
        205 + hash % 50,
        90 + hash / 64 % 130,
        60 + hash / 4096 % 50
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_as_wide_as_their_share() {
        let mut stacks = Stacks::new();
        for (stack, count) in [("kernel;f", 50), ("kernel;f;inlined", 25), ("nfs;<g>", 25)] {
            stacks.insert(stack.split(';').map(str::to_owned).collect(), count);
        }
        let text = render(&stacks);
        let boxed = |name: &str, x: &str, width: &str, y: &str| {
            let line = text
                .lines()
                .find(|line| line.starts_with(&format!("<g><title>{name}:")));
            let line = line.unwrap_or_else(|| panic!("{name} in {text}"));
            let wanted = format!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\"");
            assert!(line.contains(&wanted), "{wanted} in {line}");
        };
        boxed("all", "0.0", "1200.0", "82.0");
        boxed("kernel", "0.0", "900.0", "65.0");
        boxed("f", "0.0", "900.0", "48.0");
        boxed("inlined", "0.0", "300.0", "31.0");
        boxed("nfs", "900.0", "300.0", "65.0");
        boxed("&lt;g&gt;", "900.0", "300.0", "48.0");
        assert!(text.ends_with("</svg>\n") && text.contains("100 instructions"));
    }

    #[test]
    fn nothing_is_a_picture_too() {
        assert!(render(&Stacks::new()).ends_with("</svg>\n"));
    }
}
