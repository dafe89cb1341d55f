// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of a kernel as tables: those of the KernInst dissertation, whose numbers stand in
//! the titles.

use std::ops::Range;

use jifl_code::explained::{Account, Kind};
use jifl_code::program::Program;
use jifl_code::summary::Sums;
use serde::Serialize;

use crate::kernel::pattern::Pattern;
use crate::show::table::table;
use crate::show::text;
use crate::show::text::{grouped, percent};

/// A module's figures, or a function's, or those of all.
#[derive(Debug, Serialize)]
pub struct Row {
    module: String,
    /// Null of a module, and of all.
    function: Option<String>,
    text_bytes: u64,
    code_bytes: u64,
    padding_bytes: u64,
    unexplained_bytes: u64,
    functions: u64,
    not_whole: u64,
    nameless: u64,
    never_return: u64,
    blocks: u64,
    instructions: u64,
    edges: u64,
    derived_edges: u64,
    derived_functions: u64,
    counters: u64,
    fewest_counters: u64,
    fewest_block_counters: u64,
    dead_at_entries: u64,
    exits: u64,
    dead_at_exits: u64,
    dead: u64,
    without_flags: u64,
    direct_calls: u64,
    indirect_calls: u64,
    called: u64,
    most_calls: u64,
    most_called: Option<String>,
}

/// A row for each module, and one of all where there are several.
pub fn rows(program: &Program, modules: &[Sums], total: &Sums) -> Vec<Row> {
    let own = program.image.modules.iter().zip(modules);
    let rows = own.map(|(name, sums)| row(program, name, sums)).collect();
    with_total(program, rows, total)
}

/// A row for each module whose name matches.
pub fn rows_of_modules(program: &Program, modules: &[Sums], pattern: &Pattern) -> Vec<Row> {
    let own = program.image.modules.iter().zip(modules);
    let matching = own.filter(|(name, _)| pattern.matches_module(name));
    let rows = matching.map(|(name, sums)| row(program, name, sums));
    rows.collect()
}

/// A row for each of these functions, and one of all where there are several.
pub fn rows_of_functions(
    program: &Program,
    functions: &[usize],
    sums: &[Sums],
    total: &Sums,
) -> Vec<Row> {
    let own = functions.iter().zip(sums);
    let rows = own.map(|(index, sums)| {
        let function = &program.functions[*index];
        let module = &program.image.modules[function.unit.module];
        Row {
            function: Some(program.name(function).into_owned()),
            ..row(program, module, sums)
        }
    });
    with_total(program, rows.collect(), total)
}

fn with_total(program: &Program, mut rows: Vec<Row>, total: &Sums) -> Vec<Row> {
    if rows.len() > 1 {
        rows.push(row(program, "total", total));
    }
    rows
}

fn row(program: &Program, module: &str, sums: &Sums) -> Row {
    let most = sums.most_called.1.map(|index| &program.functions[index]);
    Row {
        module: module.to_owned(),
        function: None,
        text_bytes: sums.text,
        code_bytes: sums.code,
        padding_bytes: sums.padding,
        unexplained_bytes: sums.unexplained,
        functions: sums.functions,
        not_whole: sums.torn,
        nameless: sums.nameless,
        never_return: sums.endless,
        blocks: sums.blocks,
        instructions: sums.instructions,
        edges: sums.edges,
        derived_edges: sums.derived,
        derived_functions: sums.derived_functions,
        counters: sums.counters,
        fewest_counters: sums.fewest_counters,
        fewest_block_counters: sums.fewest_block_counters,
        dead_at_entries: sums.dead_at_entries,
        exits: sums.exits,
        dead_at_exits: sums.dead_at_exits,
        dead: sums.dead,
        without_flags: sums.without_flags,
        direct_calls: sums.direct,
        indirect_calls: sums.indirect,
        called: sums.called,
        most_calls: sums.most_called.0,
        most_called: most.map(|function| program.name(function).into_owned()),
    }
}

/// A quotient with so many digits behind the point; nothing of nothing is none.
fn per(sum: u64, number: u64, digits: usize) -> String {
    match number {
        0 => "-".into(),
        _ => format!("{:.digits$}", sum as f64 / number as f64),
    }
}

/// A table under a title.
fn titled(
    title: &str,
    columns: &[&str],
    rows: &[Row],
    cells: impl Fn(&Row) -> Vec<String>,
) -> String {
    let is_of_function = rows.iter().any(|row| row.function.is_some());
    let first = if is_of_function { "FUNCTION" } else { "MODULE" };
    let columns = std::iter::once(&first).chain(columns);
    let mut lines = vec![columns.map(|name| (*name).to_owned()).collect()];
    lines.extend(rows.iter().map(|row| {
        let mut line = vec![row.function.as_ref().unwrap_or(&row.module).clone()];
        line.extend(cells(row));
        line
    }));
    format!("{title}\n{}", table(&lines))
}

/// For people.
pub fn text(rows: &[Row]) -> String {
    let bytes = ["TEXT", "CODE", "PADDING", "UNEXPLAINED", "EXPLAINED"];
    let structure = [
        "BYTES",
        "FNS",
        "NOT WHOLE",
        "BBS",
        "BBS/FN",
        "INSNS/BB",
        "SUCCS/BB",
        "PREDS/BB",
    ];
    let dead = [
        "ENTRIES", "DEAD", "EXITS", "DEAD", "INSNS", "DEAD", "NO FLAGS",
    ];
    let called = ["FNS", "CALLS/FN", "MOST", "FUNCTION"];
    let edges = ["FNS", "EDGES", "DERIVED", "FNS DERIVED"];
    let counters = [
        "FNS", "BLOCKS", "FEWEST", "SAVED", "BRANCHES", "FEWEST", "SAVED",
    ];
    let calls = ["FNS", "DIRECT/FN", "INDIRECT/FN"];
    let tables = [
        titled("Bytes of text", &bytes, rows, |row| {
            let explained = row.code_bytes + row.padding_bytes;
            let share = 100.0 * explained as f64 / row.text_bytes.max(1) as f64;
            let numbers = [
                row.text_bytes,
                row.code_bytes,
                row.padding_bytes,
                row.unexplained_bytes,
            ];
            let mut cells = numbers.map(grouped).to_vec();
            cells.push(format!("{share:.3}%"));
            cells
        }),
        titled("Structure (dissertation, 3.4)", &structure, rows, |row| {
            let numbers = [row.code_bytes, row.functions, row.not_whole, row.blocks];
            let mut cells = numbers.map(grouped).to_vec();
            cells.push(per(row.blocks, row.functions, 1));
            cells.push(per(row.instructions, row.blocks, 1));
            cells.extend([per(row.edges, row.blocks, 2), per(row.edges, row.blocks, 2)]);
            cells
        }),
        titled("Dead registers, of 15 (3.7)", &dead, rows, |row| {
            vec![
                grouped(row.functions),
                per(row.dead_at_entries, row.functions, 1),
                grouped(row.exits),
                per(row.dead_at_exits, row.exits, 1),
                grouped(row.instructions),
                per(row.dead, row.instructions, 1),
                percent(row.without_flags, row.instructions),
            ]
        }),
        titled("Direct calls to functions (4.10)", &called, rows, |row| {
            vec![
                grouped(row.functions),
                per(row.called, row.functions, 1),
                grouped(row.most_calls),
                row.most_called.clone().unwrap_or_default(),
            ]
        }),
        titled(
            "Counts of edges from counts of blocks (7.3)",
            &edges,
            rows,
            |row| {
                vec![
                    grouped(row.functions),
                    grouped(row.edges),
                    percent(row.derived_edges, row.edges),
                    percent(row.derived_functions, row.functions),
                ]
            },
        ),
        titled(
            "Counters of blocks, of blocks and branches, and the fewest that would do",
            &counters,
            rows,
            |row| {
                let mut cells = vec![grouped(row.functions)];
                cells.extend(fewest(row.blocks, row.fewest_block_counters));
                cells.extend(fewest(row.counters, row.fewest_counters));
                cells
            },
        ),
        titled("Calls by functions (8.6)", &calls, rows, |row| {
            vec![
                grouped(row.functions),
                per(row.direct_calls, row.functions, 1),
                per(row.indirect_calls, row.functions, 1),
            ]
        }),
    ];
    tables.join("\n")
}

/// One object.
pub fn json(rows: &[Row]) -> String {
    #[derive(Serialize)]
    struct Object<'a> {
        command: &'static str,
        modules: &'a [Row],
    }
    text::json(&Object {
        command: "analyze",
        modules: rows,
    })
}

/// A line for each module.
pub fn csv(rows: &[Row]) -> String {
    lines_of_objects(rows)
}

/// A line for each object. The columns are the keys.
pub fn lines_of_objects(rows: &[impl Serialize]) -> String {
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let value = serde_json::to_value(row).expect("plain structures always serialize");
        let fields = value.as_object().into_iter().flatten();
        let plain = |cell: &serde_json::Value| match cell {
            serde_json::Value::Null => String::new(),
            cell => cell.to_string().trim_matches('"').to_owned(),
        };
        let (keys, cells): (Vec<String>, Vec<String>) =
            fields.map(|(key, cell)| (key.clone(), plain(cell))).unzip();
        if index == 0 {
            text += &(keys.join(",") + "\n");
        }
        text += &(cells.join(",") + "\n");
    }
    text
}

/// What is not explained.
#[derive(Debug, Serialize)]
pub struct Unexplained {
    address: String,
    bytes: u64,
    function: String,
    reason: &'static str,
    /// In text that nothing may instrument.
    noinstr: bool,
}

/// Ranges of bytes, and functions with what was not understood in them; of the functions that
/// `is_meant`.
pub fn unexplained(
    program: &Program,
    accounts: &[Account],
    is_meant: impl Fn(Option<usize>) -> bool,
) -> Vec<Unexplained> {
    let one = |range: Range<u64>, reason| {
        let function = program.at(range.start).map_or_else(String::new, |index| {
            program.name(&program.functions[index]).into_owned()
        });
        let one = Unexplained {
            address: format!("{:#x}", range.start),
            bytes: range.end - range.start,
            function,
            reason,
            noinstr: program.image.is_untouchable(range.start),
        };
        (range.start, one)
    };
    let holes = accounts.iter().flat_map(|account| &account.holes);
    let holes = holes.map(|hole| match hole.kind {
        Kind::Data => one(hole.range.clone(), "no instructions"),
        _ => one(hole.range.clone(), "nothing leads there"),
    });
    let functions = program.functions.iter();
    let troubles = functions.flat_map(|function| &function.graph.troubles);
    let troubles = troubles.map(|(at, trouble)| one(*at..*at, trouble.reason()));
    let all = holes.chain(troubles);
    all.filter(|(at, _)| is_meant(program.at(*at)))
        .map(|(_, one)| one)
        .collect()
}

/// For people.
pub fn unexplained_text(all: &[Unexplained]) -> String {
    let titles = ["ADDRESS", "BYTES", "FUNCTION", "REASON"];
    let mut lines = vec![titles.map(str::to_owned).to_vec()];
    lines.extend(all.iter().map(|one| {
        vec![
            one.address.clone(),
            grouped(one.bytes),
            one.function.clone(),
            one.reason.to_owned(),
        ]
    }));
    table(&lines)
}

/// One object.
pub fn unexplained_json(all: &[Unexplained]) -> String {
    #[derive(Serialize)]
    struct Object<'a> {
        command: &'static str,
        unexplained: &'a [Unexplained],
    }
    text::json(&Object {
        command: "analyze",
        unexplained: all,
    })
}

/// A line for each.
pub fn unexplained_csv(all: &[Unexplained]) -> String {
    let line = |one: &Unexplained| {
        format!(
            "{},{},{},{}\n",
            one.address, one.bytes, one.function, one.reason
        )
    };
    let lines: String = all.iter().map(line).collect();
    format!("address,bytes,function,reason\n{lines}")
}

/// Counters, the fewest that would do, and the share that these save.
pub fn fewest(all: u64, fewest: u64) -> [String; 3] {
    let saved = percent(all.saturating_sub(fewest), all);
    [grouped(all), grouped(fewest), saved]
}
