// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stacks as a flame graph: an SVG picture. The width of a box is its share of the total. With a
//! base, the colour of a box tells whether its own value grew (red) or shrank (blue).

use std::collections::BTreeSet;

use inferno::flamegraph::{Options, from_lines};

use super::base::Base;
use super::metric::Metric;
use crate::base::exit::Failure;
use crate::cmd::prof::frames::Stacks;

/// The whole picture.
///
/// # Errors
/// It cannot be drawn.
pub fn svg(stacks: &Stacks, metric: Metric, base: Option<&Base>) -> Result<String, Failure> {
    if stacks.values().all(|value| *value == 0) {
        return Ok(nothing(metric));
    }
    let lines = match base {
        None => lines(stacks),
        Some(base) => compared(stacks, base),
    };
    let mut options = Options::default();
    options.title = metric.title().to_owned();
    options.count_name = metric.unit().to_owned();
    options.deterministic = true;
    // As they come, from the last on: boxes with the same name and parent are then one. The other
    // orders compare text, in which `a;b` and `a` have `a.isra.0` between them.
    options.flame_chart = true;
    let mut picture = Vec::new();
    let drawn = from_lines(
        &mut options,
        lines.iter().rev().map(String::as_str),
        &mut picture,
    );
    drawn.map_err(|error| Failure::failed(format!("flame graph: {error}")))?;
    let text = String::from_utf8(picture);
    text.map_err(|error| Failure::failed(format!("flame graph: {error}")))
}

/// A picture of no boxes.
fn nothing(metric: Metric) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1200 60\">\
         <text x=\"600\" y=\"30\" text-anchor=\"middle\">{}: 0 {}</text></svg>\n",
        metric.title(),
        metric.unit()
    )
}

fn lines(stacks: &Stacks) -> Vec<String> {
    let line = |(path, value): (&Vec<String>, &u64)| format!("{} {value}", path.join(";"));
    stacks.iter().map(line).collect()
}

/// Lines with the value before and the value now.
fn compared(stacks: &Stacks, base: &Base) -> Vec<String> {
    let paths: BTreeSet<&Vec<String>> = stacks.keys().chain(base.0.keys()).collect();
    let value = |of: &Stacks, path: &Vec<String>| of.get(path).copied().unwrap_or(0);
    let line = |path: &Vec<String>| {
        let (before, now) = (value(&base.0, path), value(stacks, path));
        format!("{} {before} {now}", path.join(";"))
    };
    paths.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::prof::paths::tree::tests::{path, sample};

    fn titles(text: &str) -> Vec<&str> {
        let titled = text.split("<title>").skip(1);
        titled
            .map(|rest| rest.split("</title>").next().unwrap())
            .collect()
    }

    #[test]
    fn boxes_tell_names_counts_and_shares() {
        let stacks = sample().folded(Metric::Insn);
        let text = svg(&stacks, Metric::Insn, None).unwrap();
        let titles = titles(&text);
        for wanted in [
            "all (500 instructions, 100%)",
            "sys:close (300 instructions, 60.00%)",
            "sys:read (200 instructions, 40.00%)",
            "read_iter (80 instructions, 16.00%)",
            "read_iter [nfs] (20 instructions, 4.00%)",
            "copy.isra.0 (10 instructions, 2.00%)",
        ] {
            assert!(titles.contains(&wanted), "{wanted} in {titles:?}");
        }
        assert!(text.contains(">Instructions<") && text.ends_with("</svg>"));
        assert_eq!(text, svg(&stacks, Metric::Insn, None).unwrap());
    }

    #[test]
    fn a_function_has_one_box_whatever_its_neighbours_are_called() {
        let names = [("a", 1000), ("a [nfs]", 2), ("a.isra.0", 3), ("a/<b>", 4)];
        let stacks = names.map(|(names, value)| (path(names), value)).into();
        let text = svg(&stacks, Metric::Wall, None).unwrap();
        let titles = titles(&text);
        assert!(
            titles.contains(&"a (1,004 nanoseconds, 99.50%)"),
            "{titles:?}"
        );
        assert!(
            titles.contains(&"&lt;b&gt; (4 nanoseconds, 0.40%)"),
            "{titles:?}"
        );
        assert_eq!(titles.len(), 5);
    }

    #[test]
    fn a_base_tells_what_grew() {
        let stacks = [(path("a"), 60), (path("a/b"), 40)].into();
        let base = Base([(path("a"), 70), (path("a/b"), 30), (path("c"), 9)].into());
        let text = svg(&stacks, Metric::Insn, Some(&base)).unwrap();
        let titles = titles(&text);
        assert!(
            titles.contains(&"a (100 instructions, 100.00%; -10.00%)"),
            "{titles:?}"
        );
        assert!(
            titles.contains(&"b (40 instructions, 40.00%; +10.00%)"),
            "{titles:?}"
        );
        assert_eq!(text, svg(&stacks, Metric::Insn, Some(&base)).unwrap());
    }

    #[test]
    fn nothing_is_a_picture_too() {
        let text = svg(&Stacks::new(), Metric::Calls, None).unwrap();
        assert!(text.contains("Calls: 0 calls") && text.ends_with("</svg>\n"));
    }
}
