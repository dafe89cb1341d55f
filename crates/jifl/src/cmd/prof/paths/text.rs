// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call paths for people: an indented tree, the hottest first.

use std::collections::BTreeMap;

use super::base::Base;
use super::metric::Metric;
use super::tree::{Ranked, Tree};
use crate::show::table::table_within;
use crate::show::text::{grouped, percent};

/// Paths with less than one in so many of the total are not shown.
const SMALLEST: u64 = 200;

/// The paths by their inclusive values, at most `limit` of them. With a base there are also paths
/// that only the base has.
pub fn text(
    tree: &Tree,
    metric: Metric,
    base: Option<&Base>,
    limit: usize,
    width: Option<usize>,
) -> String {
    let tree = match base {
        None => tree.by_name(),
        Some(base) => tree.with(base),
    };
    let ranked = tree.ranked(metric);
    let before = base.map(|base| earlier(&tree, base));
    let page = Page {
        total: tree.total(metric),
        shown: chosen(&tree, &ranked, before.as_deref(), limit),
        before,
        tree: &tree,
        ranked: &ranked,
        metric,
    };
    let mut lines = vec![page.titles()];
    for root in &ranked.roots {
        page.add(&mut lines, *root, 0);
    }
    table_within(&lines, 1, width) + &page.rest()
}

/// The inclusive values that the base has of the tree's paths.
fn earlier(tree: &Tree, base: &Base) -> Vec<u64> {
    let sums: BTreeMap<&[String], u64> = base.inclusive();
    let names = tree.names();
    let value = |path: &Vec<String>| sums.get(&path[..]).copied().unwrap_or(0);
    names.iter().map(value).collect()
}

/// Which nodes are shown: the largest ones. A node is at most as large as its parent, and stands
/// after it. So a node is never shown without its parent.
fn chosen(tree: &Tree, ranked: &Ranked, before: Option<&[u64]>, limit: usize) -> Vec<Choice> {
    let size = |node: usize| {
        let before = before.map_or(0, |before| before[node]);
        ranked.inclusive[node].max(before)
    };
    let sum = |values: &[u64]| {
        let roots = ranked.roots.iter().map(|root| values[*root]);
        roots.fold(0, u64::saturating_add)
    };
    let total = sum(&ranked.inclusive).max(before.map_or(0, sum));
    let mut order: Vec<usize> = (0..tree.nodes.len()).collect();
    order.sort_by_key(|node| (u64::MAX - size(*node), *node));
    let mut choices = vec![Choice::Empty; tree.nodes.len()];
    for (place, node) in order.into_iter().enumerate() {
        let large = u128::from(size(node)) * u128::from(SMALLEST) >= u128::from(total);
        choices[node] = match size(node) {
            0 => Choice::Empty,
            _ if large && place < limit => Choice::Shown,
            _ => Choice::Left,
        };
    }
    choices
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Shown,
    /// It has a value, but is too small, or one too many.
    Left,
    /// Nothing of the metric is in it.
    Empty,
}

struct Page<'a> {
    tree: &'a Tree,
    ranked: &'a Ranked,
    metric: Metric,
    total: u64,
    before: Option<Vec<u64>>,
    shown: Vec<Choice>,
}

impl Page<'_> {
    fn titles(&self) -> Vec<String> {
        let mut titles = vec!["PATH", self.metric.column(), "SHARE", "OWN", "CALLS"];
        if self.before.is_some() {
            titles.insert(2, "CHANGE");
        }
        titles.into_iter().map(str::to_owned).collect()
    }

    /// The lines of a node and of what is below it.
    fn add(&self, lines: &mut Vec<Vec<String>>, index: usize, level: usize) {
        if self.shown[index] != Choice::Shown {
            return;
        }
        let (node, value) = (&self.tree.nodes[index], self.ranked.inclusive[index]);
        let mut line = vec![
            "  ".repeat(level) + &node.name(),
            grouped(value),
            percent(value, self.total),
            grouped(self.metric.of(&node.own)),
            grouped(node.own.calls),
        ];
        if let Some(before) = &self.before {
            line.insert(2, change(before[index], value));
        }
        lines.push(line);
        for child in &self.ranked.children[index] {
            self.add(lines, *child, level + 1);
        }
    }

    /// What is not shown.
    fn rest(&self) -> String {
        let left = self.shown.iter().filter(|one| **one == Choice::Left);
        more(left.count(), "path")
    }
}

/// `# and 4 paths more`, if something is left.
pub fn more(left: usize, what: &str) -> String {
    match left {
        0 => String::new(),
        1 => format!("# and 1 {what} more\n"),
        left => format!("# and {} {what}s more\n", grouped(left as u64)),
    }
}

/// `+1,200`
pub fn change(before: u64, now: u64) -> String {
    match now.abs_diff(before) {
        0 => "0".into(),
        by if now > before => format!("+{}", grouped(by)),
        by => format!("-{}", grouped(by)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::prof::paths::tree::tests::{path, sample};

    #[test]
    fn the_hottest_path_comes_first() {
        assert_eq!(
            text(&sample(), Metric::Insn, None, 30, None),
            "PATH                 INSNS  SHARE  OWN  CALLS\n\
             sys:close              300  60.0%    0      0\n\
             \u{20} vfs_read             300  60.0%  300     30\n\
             sys:read               200  40.0%    0      0\n\
             \u{20} vfs_read             200  40.0%  100     10\n\
             \u{20}   read_iter           80  16.0%   70      7\n\
             \u{20}     copy.isra.0       10   2.0%   10      1\n\
             \u{20}   read_iter [nfs]     20   4.0%   20      2\n"
        );
    }

    #[test]
    fn what_is_not_shown_is_counted() {
        let mut tree = sample();
        tree.nodes[7].own.wall_ns = 1_000_000;
        assert_eq!(
            text(&tree, Metric::Wall, None, 30, None),
            "PATH          WALL NS  SHARE        OWN  CALLS\n\
             sys:close   1,000,000  99.8%          0      0\n\
             \u{20} vfs_read  1,000,000  99.8%  1,000,000     30\n\
             # and 5 paths more\n"
        );
        let short = text(&sample(), Metric::Insn, None, 3, None);
        assert!(short.ends_with("\n# and 4 paths more\n"), "{short}");
        assert_eq!(short.lines().count(), 5);
        let one = text(&sample(), Metric::Insn, None, 6, None);
        assert!(one.ends_with("\n# and 1 path more\n"), "{one}");
    }

    #[test]
    fn a_metric_that_was_not_counted_has_no_lines() {
        let none = text(&sample(), Metric::Runnable, None, 30, None);
        assert_eq!(none, "PATH  RUNNABLE NS  SHARE  OWN  CALLS\n");
    }

    #[test]
    fn a_base_tells_the_change_and_what_is_gone() {
        let mut stacks = sample().folded(Metric::Insn);
        stacks.insert(path("sys:close/vfs_read"), 1_500);
        stacks.insert(path("sys:gone"), 40);
        stacks.remove(&path("sys:read/vfs_read/read_iter [nfs]"));
        let shown = text(&sample(), Metric::Insn, Some(&Base(stacks)), 30, None);
        assert_eq!(
            shown,
            "PATH                 INSNS  CHANGE  SHARE  OWN  CALLS\n\
             sys:close              300  -1,200  60.0%    0      0\n\
             \u{20} vfs_read             300  -1,200  60.0%  300     30\n\
             sys:read               200     +20  40.0%    0      0\n\
             \u{20} vfs_read             200     +20  40.0%  100     10\n\
             \u{20}   read_iter           80       0  16.0%   70      7\n\
             \u{20}     copy.isra.0       10       0   2.0%   10      1\n\
             \u{20}   read_iter [nfs]     20     +20   4.0%   20      2\n\
             sys:gone                 0     -40   0.0%    0      0\n"
        );
    }
}
