// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call paths for programs.

use clap::ValueEnum;
use serde::Serialize;

use super::metric::Metric;
use super::tree::{Node, Tree};

/// Members of the object that a command prints.
#[derive(Debug, Serialize)]
pub struct Paths {
    /// Sorted by path.
    pub paths: Vec<Path>,
}

/// One path.
#[derive(Debug, Serialize)]
pub struct Path {
    path: Vec<String>,
    #[serde(flatten)]
    own: Values,
    inclusive: Values,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Values {
    calls: u64,
    instructions: u64,
    wall_ns: u64,
    cpu_ns: u64,
    blocked_ns: u64,
    runnable_ns: u64,
}

impl Values {
    fn set(&mut self, metric: Metric, value: u64) {
        *match metric {
            Metric::Insn => &mut self.instructions,
            Metric::Wall => &mut self.wall_ns,
            Metric::Cpu => &mut self.cpu_ns,
            Metric::Blocked => &mut self.blocked_ns,
            Metric::Runnable => &mut self.runnable_ns,
            Metric::Calls => &mut self.calls,
        } = value;
    }
}

impl Paths {
    /// Each path of names once.
    pub fn of(tree: &Tree) -> Paths {
        let tree = tree.by_name();
        let paths = tree.names().into_iter().zip(&tree.nodes);
        let mut paths: Vec<Path> = paths.map(|(path, node)| Path::new(path, node)).collect();
        for metric in Metric::value_variants() {
            let sums = tree.inclusive(*metric);
            for (path, sum) in paths.iter_mut().zip(sums) {
                path.inclusive.set(*metric, sum);
            }
        }
        paths.sort_by(|one, other| one.path.cmp(&other.path));
        Paths { paths }
    }
}

impl Path {
    fn new(path: Vec<String>, node: &Node) -> Path {
        let mut own = Values::default();
        for metric in Metric::value_variants() {
            own.set(*metric, metric.of(&node.own));
        }
        Path {
            path,
            own,
            inclusive: Values::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::prof::paths::tree::tests::sample;

    #[test]
    fn a_path_has_its_own_values_and_inclusive_ones() {
        let value = serde_json::to_value(Paths::of(&sample())).unwrap();
        let paths = value["paths"].as_array().unwrap();
        assert_eq!(paths.len(), 7);
        let values = |n: u64, calls: u64| {
            serde_json::json!({
                "calls": calls,
                "instructions": n,
                "wall_ns": n * 10,
                "cpu_ns": n * 8,
                "blocked_ns": n * 2,
                "runnable_ns": 0,
            })
        };
        let mut wanted = values(70, 7);
        wanted["path"] = serde_json::json!(["sys:read", "vfs_read", "read_iter"]);
        wanted["inclusive"] = values(80, 8);
        assert_eq!(paths[4], wanted);
    }
}
