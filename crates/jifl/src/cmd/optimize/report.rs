// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `jifl optimize` says.

use serde::Serialize;

use super::graph::Graph;
use super::lay::{Found, Laid};
use super::plan::Plan;
use crate::base::duration;
use crate::kernel::symbols::Symbols;
use crate::session::blocks::instructions;
use crate::show::output::Format;
use crate::show::table::table;
use crate::show::text::{self, grouped, percent};

/// Blocks of one kind.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Part {
    pub functions: u64,
    pub blocks: u64,
    pub chains: u64,
    pub bytes: u64,
    /// Instructions executed while it was measured.
    pub instructions: u64,
}

impl Part {
    fn of(graph: &Graph, chains: &[Vec<usize>], symbols: &Symbols) -> Part {
        let blocks = || {
            chains
                .iter()
                .flatten()
                .map(|index| &graph.nodes[*index].block)
        };
        let mut functions: Vec<u64> = blocks()
            .filter_map(|block| Some(symbols.function(block.orig)?.start()))
            .collect();
        functions.sort_unstable();
        functions.dedup();
        Part {
            functions: functions.len() as u64,
            blocks: blocks().count() as u64,
            chains: chains.len() as u64,
            bytes: blocks().map(|block| u64::from(block.src_len)).sum(),
            instructions: blocks().map(instructions).sum(),
        }
    }
}

/// A layout that was installed.
#[derive(Debug, Clone, Serialize)]
pub struct Layout {
    pub hot: Part,
    pub cold: Part,
    pub laid: Laid,
    pub found: Found,
    /// Time of measuring, or that of the recording, in nanoseconds.
    pub measured_ns: u64,
}

/// Why blocks are laid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    First,
    Changed,
    Emptied,
    /// They were not laid to the end.
    Again,
}

impl Layout {
    /// What became of a plan.
    pub fn of(
        graph: &Graph,
        plan: &Plan,
        laid: Laid,
        found: Found,
        measured_ns: u64,
        symbols: &Symbols,
    ) -> Layout {
        Layout {
            hot: Part::of(graph, &plan.chains[..plan.hot], symbols),
            cold: Part::of(graph, &plan.chains[plan.hot..], symbols),
            laid,
            found,
            measured_ns,
        }
    }

    /// One line, for who waits.
    pub fn note(&self, why: Why) -> String {
        let why = match why {
            Why::First => "",
            Why::Changed => "what runs has changed: ",
            Why::Emptied => "the code cache was emptied: ",
            Why::Again => "once more: ",
        };
        let mut line = format!(
            "jifl: {why}laid {} of {} blocks in {}, {} of them hot, in {} chains",
            grouped(self.laid.blocks),
            grouped(self.hot.blocks + self.cold.blocks),
            duration::show(self.laid.ns),
            grouped(self.hot.blocks),
            grouped(self.hot.chains),
        );
        if self.laid.other > 0 {
            line += &format!(", {} are other code now", grouped(self.laid.other));
        }
        if self.laid.left > 0 {
            line += &format!(
                ", {} without room: load the module with a larger cache_kb and side_kb",
                grouped(self.laid.left)
            );
        }
        line
    }
}

#[derive(Serialize)]
struct Object<'a> {
    command: &'static str,
    layouts: &'a [Layout],
    missed: u64,
}

/// The last of the layouts, for people, or all, for programs.
pub fn show(layouts: &[Layout], missed: u64, format: Format) -> String {
    match (format, layouts.last()) {
        (Format::Json, _) => text::json(&Object {
            command: "optimize",
            layouts,
            missed,
        }),
        (Format::Text, Some(last)) => people(last, missed),
        (Format::Text, None) => String::new(),
    }
}

fn people(layout: &Layout, missed: u64) -> String {
    let all = layout.hot.instructions + layout.cold.instructions;
    let part = |name: &str, part: &Part| {
        vec![
            name.to_owned(),
            grouped(part.functions),
            grouped(part.blocks),
            grouped(part.chains),
            grouped(part.bytes),
            percent(part.instructions, all),
        ]
    };
    let titles = [
        "PART",
        "FUNCTIONS",
        "BLOCKS",
        "CHAINS",
        "BYTES",
        "INSTRUCTIONS",
    ];
    let parts = table(&[
        titles.map(str::to_owned).to_vec(),
        part("hot", &layout.hot),
        part("cold", &layout.cold),
    ]);
    let Found {
        native,
        copies,
        taken,
        taken_natively,
        ..
    } = layout.found;
    let row = |name: &str, before: u64, after: u64| {
        vec![
            name.to_owned(),
            grouped(before),
            grouped(after),
            percent(after, before),
        ]
    };
    let figures = table(&[
        ["FIGURE", "KERNEL", "LAYOUT", ""]
            .map(str::to_owned)
            .to_vec(),
        row("bytes of hot blocks", native.bytes, copies.bytes),
        row("lines of 64 bytes", native.lines, copies.lines),
        row("pages of 4 KiB", native.pages, copies.pages),
        row("taken branches, as counted", taken_natively, taken),
    ]);
    format!(
        "{parts}\n{figures}# measured for {}; {} of {} blocks are in the cache; missed {}\n",
        duration::show(layout.measured_ns),
        grouped(layout.found.blocks),
        grouped(layout.hot.blocks + layout.cold.blocks),
        grouped(missed)
    )
}

#[cfg(test)]
mod tests {
    use super::super::graph::tests::looping;
    use super::super::lay::Extent;
    use super::*;

    #[test]
    fn figures_are_shown_before_and_after() {
        let graph = looping();
        let plan = Plan::of(&graph, 0.9);
        let symbols = Symbols::parse("ffffffff81000000 T outer\nffffffff81000020 t inner\n");
        let extent = |bytes, lines, pages| Extent {
            bytes,
            lines,
            pages,
        };
        let found = Found {
            native: extent(10, 2, 1),
            copies: extent(11, 1, 1),
            blocks: 6,
            taken_natively: 19,
            taken: 10,
        };
        let laid = Laid {
            blocks: 5,
            other: 1,
            left: 0,
            ns: 2_000_000,
        };
        let layout = Layout::of(&graph, &plan, laid, found, 5_000_000_000, &symbols);
        assert_eq!(
            layout.note(Why::First),
            "jifl: laid 5 of 6 blocks in 2.0 ms, 4 of them hot, in 2 chains, 1 are other code now"
        );
        let text = show(std::slice::from_ref(&layout), 3, Format::Text);
        assert!(
            text.contains("\nhot           2       4       2     10         95.0%\n"),
            "{text}"
        );
        assert!(text.contains("taken branches, as counted"), "{text}");
        assert!(
            text.ends_with("6 of 6 blocks are in the cache; missed 3\n"),
            "{text}"
        );
        let json: serde_json::Value =
            serde_json::from_str(&show(&[layout], 3, Format::Json)).unwrap();
        assert_eq!(json["layouts"][0]["found"]["taken"], 10);
    }
}
