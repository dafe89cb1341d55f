// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call paths as a tree: a node is a function as it is called by its parent.

use std::collections::HashMap;

use super::base::Base;
pub use super::metric::{Metric, Own};
use crate::cmd::prof::frames::Stacks;

/// A function, called on one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Who calls it. A parent's index is lower than its children's.
    pub parent: Option<usize>,
    /// Its name.
    pub function: String,
    /// The module that it is of, unless that is the kernel itself.
    pub module: Option<String>,
    /// Where it begins.
    pub address: u64,
    /// What it did itself.
    pub own: Own,
}

impl Node {
    /// `function`, or `function [module]`.
    pub fn name(&self) -> String {
        full_name(&self.function, self.module.as_deref())
    }
}

/// `function`, or `function [module]`.
pub fn full_name(function: &str, module: Option<&str>) -> String {
    match module {
        None => function.to_owned(),
        Some(module) => format!("{function} [{module}]"),
    }
}

/// All paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// Parents before their children.
    pub nodes: Vec<Node>,
}

/// Nodes by a metric: the largest first, then by name.
pub struct Ranked {
    /// Of each node, its value and those of all that it calls.
    pub inclusive: Vec<u64>,
    /// Nodes that nothing calls.
    pub roots: Vec<usize>,
    /// What each node calls.
    pub children: Vec<Vec<usize>>,
}

impl Tree {
    /// For each node, the sum of it and of all below it.
    pub fn inclusive(&self, metric: Metric) -> Vec<u64> {
        self.summed(|node| metric.of(&node.own))
    }

    /// The same of any value of nodes.
    pub fn summed(&self, value: impl Fn(&Node) -> u64) -> Vec<u64> {
        let mut sums: Vec<u64> = self.nodes.iter().map(value).collect();
        for (index, node) in self.nodes.iter().enumerate().rev() {
            if let Some(parent) = node.parent {
                sums[parent] = sums[parent].saturating_add(sums[index]);
            }
        }
        sums
    }

    /// The sum of all nodes.
    pub fn total(&self, metric: Metric) -> u64 {
        let values = self.nodes.iter().map(|node| metric.of(&node.own));
        values.fold(0, u64::saturating_add)
    }

    /// Roots and children in their order.
    pub fn ranked(&self, metric: Metric) -> Ranked {
        let inclusive = self.inclusive(metric);
        let mut roots = Vec::new();
        let mut children = vec![Vec::new(); self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            match node.parent {
                None => roots.push(index),
                Some(parent) => children[parent].push(index),
            }
        }
        let names: Vec<String> = self.nodes.iter().map(Node::name).collect();
        let sort = |nodes: &mut Vec<usize>| {
            nodes.sort_by_key(|node| (u64::MAX - inclusive[*node], &names[*node], *node));
        };
        sort(&mut roots);
        children.iter_mut().for_each(sort);
        Ranked {
            inclusive,
            roots,
            children,
        }
    }

    /// Nodes from the root to this one.
    pub fn path(&self, node: usize) -> Vec<usize> {
        let up = std::iter::successors(Some(node), |node| self.nodes[*node].parent);
        let mut path: Vec<usize> = up.collect();
        path.reverse();
        path
    }

    /// Names from the root to each node.
    pub fn names(&self) -> Vec<Vec<String>> {
        let mut names: Vec<Vec<String>> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let mut path = node.parent.map_or_else(Vec::new, |up| names[up].clone());
            path.push(node.name());
            names.push(path);
        }
        names
    }

    /// Own values by the names on a path, outermost first. Equal paths are added up.
    pub fn folded(&self, metric: Metric) -> Stacks {
        let mut stacks = Stacks::new();
        for (path, node) in self.names().into_iter().zip(&self.nodes) {
            let value = metric.of(&node.own);
            if value > 0 {
                *stacks.entry(path).or_default() += value;
            }
        }
        stacks
    }

    /// The same without nodes that have no value, nor anything below them that has one.
    pub fn used(&self, metric: Metric) -> Tree {
        let mut used = Tree::default();
        let mut moved: Vec<usize> = Vec::with_capacity(self.nodes.len());
        for (node, value) in self.nodes.iter().zip(self.inclusive(metric)) {
            moved.push(used.nodes.len());
            if value > 0 {
                used.nodes.push(Node {
                    // A parent has at least the value of its children, so it is there.
                    parent: node.parent.map(|parent| moved[parent]),
                    ..node.clone()
                });
            }
        }
        used
    }

    /// A tree in which each path of names is there once: what differs by address only is added up.
    pub fn by_name(&self) -> Tree {
        let mut merged = Tree::default();
        let mut known: HashMap<(Option<usize>, String), usize> = HashMap::new();
        let mut moved: Vec<usize> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let parent = node.parent.map(|parent| moved[parent]);
            let next = merged.nodes.len();
            let index = *known.entry((parent, node.name())).or_insert(next);
            match merged.nodes.get_mut(index) {
                Some(same) => same.own.add(&node.own),
                None => merged.nodes.push(Node {
                    parent,
                    ..node.clone()
                }),
            }
            moved.push(index);
        }
        merged
    }

    /// The same with nodes of no value for paths that only the base has.
    pub fn with(&self, base: &Base) -> Tree {
        let mut all = self.clone();
        for path in base.0.keys() {
            let mut parent = None;
            for function in path {
                all.nodes.push(Node {
                    parent,
                    function: function.clone(),
                    module: None,
                    address: 0,
                    own: Own::default(),
                });
                parent = Some(all.nodes.len() - 1);
            }
        }
        all.by_name()
    }
}

impl Own {
    fn add(&mut self, other: &Own) {
        self.calls += other.calls;
        self.instructions += other.instructions;
        self.wall_ns += other.wall_ns;
        self.blocked_ns += other.blocked_ns;
        self.runnable_ns += other.runnable_ns;
    }
}

#[cfg(test)]
pub mod tests;
