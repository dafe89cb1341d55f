// SPDX-License-Identifier: MIT OR Apache-2.0
//! Coverage as pages: index.html lists functions and source files. Each source file whose lines are
//! known has a page. The pages contain no script and load nothing from elsewhere.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::source::{Record, Records};
use crate::base::exit::Failure;
use crate::kernel::lines::Lines;
use crate::session::blocks::Function;
use crate::show::output::Sink;
use crate::show::text::percent;
use crate::show::text::{escaped, grouped};

const STYLE: &str = "\
body { font: 14px sans-serif; margin: 2em; }
table { border-collapse: collapse; }
td, th { padding: 1px 8px; text-align: right; }
td:first-child, th:first-child { text-align: left; }
tr.all { background: #d4f0d4; }
tr.some { background: #fdf3c7; }
tr.none { background: #f8d3d0; }
pre { margin: 0; line-height: 1.3; }
pre span { display: block; }
pre .hit { background: #d4f0d4; }
pre .not { background: #f8d3d0; }
";

/// Writes all pages into a directory, which it makes.
pub fn write(
    dir: &Path,
    functions: &[Function<'_>],
    with_edges: bool,
    records: &Records,
    lines: &Lines,
) -> Result<(), Failure> {
    make(dir)?;
    let put = |name: &str, text: &str| Sink::open(Some(&dir.join(name)))?.write(text);
    put("index.html", &index(functions, with_edges, records))?;
    for (file, record) in with_lines(records) {
        let text = fs::read_to_string(lines.path(file)).unwrap_or_default();
        put(&page_name(file), &source(file, record, &text))?;
    }
    Ok(())
}

/// Makes the directory, so that a wrong path shows early.
pub fn make(dir: &Path) -> Result<(), Failure> {
    fs::create_dir_all(dir).map_err(|error| Failure::failed(format!("{}: {error}", dir.display())))
}

fn with_lines(records: &Records) -> impl Iterator<Item = (&String, &Record)> {
    records
        .iter()
        .filter(|(_, record)| !record.lines.is_empty())
}

/// `fs/read_write.c` is `fs--read_write.c.html`.
fn page_name(file: &str) -> String {
    file.replace('/', "--") + ".html"
}

fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{0}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{0}</h1>\n{body}</body>\n</html>\n",
        escaped(title)
    )
}

/// Source files, then functions. Those with the smallest executed share come last.
fn index(functions: &[Function<'_>], with_edges: bool, records: &Records) -> String {
    let mut body = String::new();
    if with_lines(records).next().is_some() {
        body += &files(records);
    }
    let places = places(records);
    let reached = functions.iter().filter(|function| function.executed() > 0);
    let mut sorted: Vec<&Function<'_>> = reached.collect();
    sorted.sort_by_key(|function| {
        let covered = function.bytes() * 10_000 / function.size.max(1);
        (u64::MAX - covered, &function.name, function.address)
    });
    let edges_title = if with_edges { "<th>edges" } else { "" };
    let _ = writeln!(
        body,
        "<h2>{} functions reached</h2>\n<table>\n\
         <tr><th>function<th>calls<th>instructions<th>blocks{edges_title}<th>bytes<th>covered",
        grouped(sorted.len() as u64)
    );
    for function in sorted {
        body += &function_row(function, with_edges, &places);
    }
    page("Kernel coverage", &(body + "</table>\n"))
}

fn function_row(
    function: &Function<'_>,
    with_edges: bool,
    places: &BTreeMap<&str, (&str, u32)>,
) -> String {
    let (bytes, size) = (function.bytes(), function.size);
    let shown = escaped(&function.name);
    let name = function.name.split(' ').next().unwrap_or_default();
    let name = match places.get(name) {
        Some((file, line)) => format!(
            "<a href=\"{}#L{line}\">{shown}</a>",
            escaped(&page_name(file))
        ),
        None => shown,
    };
    let edges = match function.edges() {
        (seen, known) if with_edges => format!("<td>{seen}/{known}"),
        _ => String::new(),
    };
    format!(
        "<tr class=\"{}\"><td>{name}<td>{}<td>{}<td>{}/{}{edges}<td>{bytes}/{size}<td>{}\n",
        class(function.executed(), function.blocks.len()),
        grouped(function.calls()),
        grouped(function.instructions()),
        function.executed(),
        function.blocks.len(),
        percent(bytes, size)
    )
}

/// Lines at which functions begin, if known.
fn places(records: &Records) -> BTreeMap<&str, (&str, u32)> {
    let mut places = BTreeMap::new();
    for (file, record) in with_lines(records) {
        for (name, (line, _)) in &record.functions {
            places.insert(name.as_str(), (file.as_str(), *line));
        }
    }
    places
}

fn files(records: &Records) -> String {
    let mut text = "<h2>Source files</h2>\n<table>\n<tr><th>file<th>lines<th>executed\n".to_owned();
    for (file, record) in with_lines(records) {
        let (hit, all) = (hit(record), record.lines.len());
        let _ = writeln!(
            text,
            "<tr class=\"{}\"><td><a href=\"{}\">{}</a><td>{hit}/{all}<td>{}",
            class(hit, all),
            escaped(&page_name(file)),
            escaped(file),
            percent(hit as u64, all as u64)
        );
    }
    text + "</table>\n"
}

fn hit(record: &Record) -> usize {
    let hit = record.lines.values().filter(|executed| **executed > 0);
    hit.count()
}

fn class(part: usize, all: usize) -> &'static str {
    match part {
        0 => "none",
        part if part == all => "all",
        _ => "some",
    }
}

/// Lines of a file; only the known ones if its text cannot be had.
fn source(file: &str, record: &Record, text: &str) -> String {
    let texts: Vec<&str> = text.lines().collect();
    let all: Vec<u32> = if texts.is_empty() {
        let begins = record.functions.values().map(|(line, _)| *line);
        // Code that the compiler itself has made has line 0.
        let begins = begins.filter(|line| *line > 0);
        let mut all: Vec<u32> = record.lines.keys().copied().chain(begins).collect();
        all.sort_unstable();
        all.dedup();
        all
    } else {
        (1..=texts.len() as u32).collect()
    };
    let mut body = "<p><a href=\"index.html\">all</a></p>\n<pre>\n".to_owned();
    for line in all {
        let (class, executed) = match record.lines.get(&line) {
            Some(0) => (" class=\"not\"", "0".into()),
            Some(executed) => (" class=\"hit\"", grouped(*executed)),
            None => ("", String::new()),
        };
        let mut begins = record.functions.iter().filter(|(_, known)| known.0 == line);
        let of_line = (line as usize)
            .checked_sub(1)
            .and_then(|index| texts.get(index));
        let what = match (of_line, begins.next()) {
            (Some(text), _) => escaped(text),
            (None, Some((name, _))) => escaped(name),
            (None, None) => String::new(),
        };
        let _ = writeln!(
            body,
            "<span id=\"L{line}\"{class}>{line:6} {executed:>14}  {what}</span>"
        );
    }
    page(file, &(body + "</pre>\n"))
}

#[cfg(test)]
mod tests {
    use super::super::source::{records, tests::of_program};
    use super::*;
    use crate::kernel::lines::tests::Program;
    use crate::session::blocks::functions;
    use crate::session::blocks::tests::sample;

    #[test]
    fn functions_are_listed_with_or_without_edges() {
        let profile = sample();
        let found = functions(&profile.blocks, &profile.symbols);
        let text = index(&found, false, &Records::new());
        assert!(!text.contains("edges") && !text.contains("Source files"));
        let rows: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("<tr class"))
            .collect();
        assert_eq!(
            rows,
            [
                "<tr class=\"all\"><td>inner [nfs]<td>40<td>121<td>2/2<td>12/12<td>100.0%",
                "<tr class=\"some\"><td>outer<td>10<td>55<td>3/4<td>16/80<td>20.0%",
            ]
        );
        let text = index(&found, true, &Records::new());
        assert!(text.contains("<td>2/2<td>2/2<td>12/12"), "{text}");
    }

    #[test]
    fn lines_have_pages() {
        let program = Program::kernel("html");
        let profile = of_program(&program);
        let found = functions(&profile.blocks, &profile.symbols);
        let lines = program.lines();
        let records = records(&profile, &found, &lines, false);
        let dir = program.dir.join("pages");
        write(&dir, &found, false, &records, &lines).unwrap();
        let index = fs::read_to_string(dir.join("index.html")).unwrap();
        assert!(index.contains("<a href=\"program.c.html#L"), "{index}");
        let page = fs::read_to_string(dir.join("program.c.html")).unwrap();
        assert!(
            page.contains("<span id=\"L3\" class=\"hit\">     3              7  inner</span>"),
            "{page}"
        );
        let with_text = source("f.c", &records["program.c"], "a\nb\nreturn a < 3;\n");
        assert!(
            with_text.contains("              7  return a &lt; 3;</span>"),
            "{with_text}"
        );
        assert!(
            with_text.contains("<span id=\"L1\">     1                 a</span>"),
            "{with_text}"
        );
    }
}
