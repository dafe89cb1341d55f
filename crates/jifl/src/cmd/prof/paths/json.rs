// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call paths for programs.

use serde::Serialize;

use super::tree::Tree;
use super::values::Values;

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

impl Paths {
    /// Each path of names once.
    pub fn of(tree: &Tree) -> Paths {
        let tree = tree.by_name();
        let nodes = tree.nodes.iter().zip(Values::inclusive(&tree));
        let paths = tree.names().into_iter().zip(nodes);
        let mut paths: Vec<Path> = paths
            .map(|(path, (node, inclusive))| Path {
                path,
                own: Values::of(&node.own),
                inclusive,
            })
            .collect();
        paths.sort_by(|one, other| one.path.cmp(&other.path));
        Paths { paths }
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
