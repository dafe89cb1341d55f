// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executions of edges that follow from those of blocks, beside those that were counted: how often
//! they follow, and whether they are right (dissertation, 7.3).

use jifl_code::edges;
use jifl_code::program::Program;
use serde::Serialize;

use super::Form;
use super::counted::Counted;
use super::tables::{fewest, lines_of_objects};
use crate::show::table::table;
use crate::show::text;
use crate::show::text::{grouped, percent};

/// Functions of a module, or all, of which something was executed.
#[derive(Debug, Default, Serialize)]
struct Row {
    module: String,
    functions: u64,
    /// Functions whose counts contradict each other: nothing follows.
    contradictory: u64,
    /// Edges of the others.
    edges: u64,
    /// Edges whose count follows.
    derived: u64,
    /// Functions of which all edges do.
    derived_functions: u64,
    /// Edges that were counted: both ways of conditional branches.
    counted: u64,
    /// Edges that were counted, and follow.
    compared: u64,
    /// Edges of which the two differ.
    wrong: u64,
    /// Counters for each block and each conditional branch.
    counters: u64,
    /// The fewest counters from which all others follow.
    fewest_counters: u64,
    /// Executions of counters: of the session's blocks, and of branches.
    executed_block_counters: u64,
    executed_branch_counters: u64,
    /// Functions in which nothing broke the rule: the fewest counters would have been right.
    exact_functions: u64,
    /// Executions in these, of the counters of blocks, and of the fewest.
    exact_block_counters: u64,
    exact_fewest_block_counters: u64,
    /// The same, of the counters of blocks and branches.
    exact_counters: u64,
    exact_fewest_counters: u64,
}

/// An edge of a function.
#[derive(Debug, Serialize)]
struct Edge {
    function: String,
    /// The blocks that it is from, and leads to.
    from: String,
    to: String,
    kind: String,
    counted: Option<u64>,
    /// Null where it does not follow, or counts contradict each other.
    derived: Option<u64>,
}

impl Row {
    fn add(&mut self, other: &Row) {
        self.functions += other.functions;
        self.contradictory += other.contradictory;
        self.edges += other.edges;
        self.derived += other.derived;
        self.derived_functions += other.derived_functions;
        self.counted += other.counted;
        self.compared += other.compared;
        self.wrong += other.wrong;
        self.counters += other.counters;
        self.fewest_counters += other.fewest_counters;
        self.executed_block_counters += other.executed_block_counters;
        self.executed_branch_counters += other.executed_branch_counters;
        self.exact_functions += other.exact_functions;
        self.exact_block_counters += other.exact_block_counters;
        self.exact_fewest_block_counters += other.exact_fewest_block_counters;
        self.exact_counters += other.exact_counters;
        self.exact_fewest_counters += other.exact_fewest_counters;
    }
}

/// The tables, of the functions that were executed among those that are meant; with each edge if
/// that is wanted.
pub fn render(
    program: &Program,
    counted: &Counted,
    functions: &[usize],
    with_edges: bool,
    form: Form,
) -> String {
    let modules = &program.image.modules;
    let mut rows: Vec<Row> = Vec::new();
    rows.resize_with(modules.len(), Row::default);
    let mut edges = Vec::new();
    for index in functions {
        let graph = &program.functions[*index].graph;
        if !counted.has(graph) {
            continue;
        }
        let (row, own) = of_function(program, counted, *index);
        rows[program.functions[*index].unit.module].add(&row);
        if with_edges {
            edges.extend(own);
        }
    }
    let named = rows.into_iter().zip(modules);
    let named = named.map(|(row, name)| Row {
        module: name.clone(),
        ..row
    });
    let mut rows: Vec<Row> = named.filter(|row| row.functions > 0).collect();
    if rows.len() > 1 {
        let mut total = Row {
            module: "total".into(),
            ..Row::default()
        };
        rows.iter().for_each(|row| total.add(row));
        rows.push(total);
    }
    match form {
        Form::Text => shown(&rows, &edges),
        Form::Json => json(&rows, with_edges.then_some(&edges)),
        Form::Csv if with_edges => lines_of_objects(&edges),
        Form::Csv => lines_of_objects(&rows),
    }
}

fn of_function(program: &Program, counted: &Counted, index: usize) -> (Row, Vec<Edge>) {
    let function = &program.functions[index];
    let graph = &function.graph;
    let counts = counted.edges(program, graph);
    let counters = edges::counters(graph);
    let executed = counted.increments(program, function, &counts);
    let mut row = Row {
        functions: 1,
        counters: counters.ways,
        fewest_counters: counters.fewest_ways,
        contradictory: u64::from(counts.derived.is_err()),
        executed_block_counters: executed.blocks,
        executed_branch_counters: executed.branches,
        ..Row::default()
    };
    if let Some(fewest) = executed.fewest {
        row.exact_functions = 1;
        row.exact_block_counters = executed.blocks;
        row.exact_fewest_block_counters = fewest.fewest_blocks;
        row.exact_counters = executed.blocks + executed.branches;
        row.exact_fewest_counters = fewest.fewest_ways;
    }
    let derived = counts
        .derived
        .unwrap_or_else(|_| vec![None; graph.edges.len()]);
    let place = |block: u32| {
        let at = graph.blocks[block as usize].start;
        match function.unit.pieces.first().filter(|own| own.contains(&at)) {
            Some(first) => format!("+{:#x}", at - first.start),
            None => format!("{at:#x}"),
        }
    };
    let name = program.name(function);
    let mut shown = Vec::new();
    for ((edge, counted), derived) in graph.edges.iter().zip(counts.counted).zip(derived) {
        shown.push(Edge {
            function: name.clone().into_owned(),
            from: place(edge.from),
            to: place(edge.to),
            kind: format!("{:?}", edge.kind).to_lowercase(),
            counted,
            derived,
        });
    }
    if row.contradictory == 0 {
        row.edges = shown.len() as u64;
        let number =
            |is: &dyn Fn(&Edge) -> bool| shown.iter().filter(|edge| is(edge)).count() as u64;
        row.derived = number(&|edge| edge.derived.is_some());
        row.derived_functions = u64::from(row.derived == row.edges);
        row.counted = number(&|edge| edge.counted.is_some());
        row.compared = number(&|edge| edge.counted.is_some() && edge.derived.is_some());
        row.wrong = number(&|edge| {
            let both = edge.counted.zip(edge.derived);
            both.is_some_and(|(counted, derived)| counted != derived)
        });
    }
    (row, shown)
}

fn shown(rows: &[Row], edges: &[Edge]) -> String {
    if rows.is_empty() {
        return "nothing of this code was executed in the recording\n".into();
    }
    let titles = [
        "MODULE",
        "FNS",
        "CONTRADICT",
        "EDGES",
        "FOLLOW",
        "FNS FOLLOW",
        "COUNTED",
        "COMPARED",
        "WRONG",
        "COUNTERS",
        "FEWEST",
        "SAVED",
    ];
    let mut lines = vec![titles.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(|row| {
        let whole = row.functions - row.contradictory;
        let saved = row.counters.saturating_sub(row.fewest_counters);
        let mut cells = vec![row.module.clone()];
        cells.extend([row.functions, row.contradictory, row.edges].map(grouped));
        cells.push(percent(row.derived, row.edges));
        cells.push(percent(row.derived_functions, whole));
        let numbers = [row.counted, row.compared, row.wrong];
        cells.extend(numbers.map(grouped));
        cells.extend([row.counters, row.fewest_counters].map(grouped));
        cells.push(percent(saved, row.counters));
        cells
    }));
    let title = "Counts of edges from counts of blocks, of functions that were executed (7.3)";
    let mut text = format!("{title}\n{}\n{}", table(&lines), executions(rows));
    if !edges.is_empty() {
        let titles = ["FUNCTION", "FROM", "TO", "KIND", "COUNTED", "FOLLOWS"];
        let mut lines = vec![titles.map(str::to_owned).to_vec()];
        let cell = |count: Option<u64>| count.map_or_else(|| "-".into(), grouped);
        lines.extend(edges.iter().map(|edge| {
            let mut cells = [&edge.function, &edge.from, &edge.to, &edge.kind]
                .map(String::clone)
                .to_vec();
            cells.extend([cell(edge.counted), cell(edge.derived)]);
            cells
        }));
        text += &format!("\n{}", table(&lines));
    }
    text
}

/// The table of executions.
fn executions(rows: &[Row]) -> String {
    let titles = [
        "MODULE",
        "FNS",
        "EXACT",
        "OF BLOCKS",
        "BLOCKS",
        "FEWEST",
        "SAVED",
        "BRANCHES",
        "FEWEST",
        "SAVED",
    ];
    let mut lines = vec![titles.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(|row| {
        let mut cells = vec![
            row.module.clone(),
            grouped(row.functions),
            grouped(row.exact_functions),
            percent(row.exact_block_counters, row.executed_block_counters),
        ];
        cells.extend(fewest(
            row.exact_block_counters,
            row.exact_fewest_block_counters,
        ));
        cells.extend(fewest(row.exact_counters, row.exact_fewest_counters));
        cells
    }));
    let title = "Executions of counters of blocks, of blocks and branches, and of the fewest";
    format!("{title}\n{}", table(&lines))
}

fn json(rows: &[Row], edges: Option<&Vec<Edge>>) -> String {
    #[derive(Serialize)]
    struct Object<'a> {
        command: &'static str,
        modules: &'a [Row],
        #[serde(skip_serializing_if = "Option::is_none")]
        edges: Option<&'a Vec<Edge>>,
    }
    text::json(&Object {
        command: "analyze",
        modules: rows,
        edges,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::analyze::counted::tests::program;
    use crate::session::recording::tests::recorded;

    #[test]
    fn what_follows_stands_beside_what_was_counted() {
        let program = program(0x4000);
        let mut recording = recorded();
        recording.blocks.retain(|block| block.bytes != 4);
        let counted = Counted::of(&recording, &program);
        let text = render(&program, &counted, &[0, 1], true, Form::Text);
        let lines: Vec<&str> = text.lines().collect();
        let fields =
            |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
        // Three blocks and a branch; five ways, less four nodes, and one.
        let expected = [
            "vmlinux", "1", "0", "2", "100.0%", "100.0%", "2", "2", "0", "4", "2", "50.0%",
        ];
        assert_eq!(fields(lines[2]), expected, "{text}");
        // The branch is always taken: of 10 and 10 executed blocks one follows.
        let expected = [
            "vmlinux", "1", "1", "100.0%", "20", "10", "50.0%", "20", "10", "50.0%",
        ];
        assert_eq!(fields(lines[6]), expected, "{text}");
        let expected = ["outer", "+0x0", "+0x40", "taken", "10", "10"];
        assert_eq!(fields(lines[10]), expected, "{text}");
        // A count that breaks the rule.
        recording.blocks[2].executed = 11;
        let counted = Counted::of(&recording, &program);
        let text = render(&program, &counted, &[0, 1], false, Form::Csv);
        let line = text.lines().nth(1);
        assert_eq!(line, Some("0,1,0,4,0,0,0,0,0,0,0,0,21,0,2,1,vmlinux,0"));
        let text = render(&program, &counted, &[1], false, Form::Text);
        assert!(text.starts_with("nothing of this code"), "{text}");
    }
}
