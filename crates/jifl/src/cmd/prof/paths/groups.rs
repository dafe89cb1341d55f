// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call paths by what they have in common: a function, who calls it, a module.

use std::collections::BTreeMap;

use serde::Serialize;

use super::tree::{Node, Tree, full_name};
use super::values::Values;

pub mod text;

/// What a text has a line for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Group {
    /// Each call path
    #[default]
    Path,
    /// Each function, on all paths
    Function,
    /// Each caller with each function that it calls
    Edge,
    /// Each module, and the kernel itself
    Module,
}

/// All groups. They are members of the object that a command prints.
#[derive(Debug, Serialize)]
pub struct Groups {
    /// Sorted by name.
    pub functions: Vec<Function>,
    /// Sorted by caller and callee. What nothing calls comes first.
    pub edges: Vec<Edge>,
    /// Sorted by name. The kernel comes first.
    pub modules: Vec<Module>,
}

/// A function on all paths.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Function {
    /// Its name.
    pub function: String,
    /// The module that it is of, unless that is the kernel itself.
    pub module: Option<String>,
    /// How often it was called.
    pub calls: u64,
    /// What it did itself.
    pub own: Values,
    /// The same with what it calls. A call of it inside another one is a part of that.
    pub inclusive: Values,
}

/// A function as another one calls it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Edge {
    /// The name of who calls, unless the function is at the root.
    pub caller: Option<String>,
    /// The name of what is called.
    pub callee: String,
    /// How often.
    pub calls: u64,
    /// What that took. Such a call inside another one is a part of that.
    pub inclusive: Values,
}

/// A module on all paths.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Module {
    /// Its name, unless it is the kernel itself.
    pub module: Option<String>,
    /// Calls from other modules, and those at the root.
    pub calls: u64,
    /// What its functions did themselves.
    pub own: Values,
}

/// Sums of the nodes that have a key in common.
#[derive(Default)]
struct Sums {
    own: Values,
    /// Without nodes below one of the same key.
    inclusive: Values,
    /// Calls from nodes of other keys, and those at the root.
    entered: u64,
}

impl Groups {
    /// The groups of a tree.
    pub fn of(tree: &Tree) -> Groups {
        let tree = tree.by_name();
        let inclusive = Values::inclusive(&tree);
        Groups {
            functions: functions(&tree, &inclusive),
            edges: edges(&tree, &inclusive),
            modules: modules(&tree, &inclusive),
        }
    }
}

impl Function {
    /// `function`, or `function [module]`.
    pub fn name(&self) -> String {
        full_name(&self.function, self.module.as_deref())
    }
}

fn functions(tree: &Tree, inclusive: &[Values]) -> Vec<Function> {
    let key = |node: &Node| (node.function.clone(), node.module.clone());
    let keys: Vec<(String, Option<String>)> = tree.nodes.iter().map(key).collect();
    let all = sums(tree, inclusive, &keys).into_iter();
    all.map(|((function, module), sums)| Function {
        function: function.clone(),
        module: module.clone(),
        calls: sums.own.calls,
        own: sums.own,
        inclusive: sums.inclusive,
    })
    .collect()
}

fn edges(tree: &Tree, inclusive: &[Values]) -> Vec<Edge> {
    let key = |node: &Node| {
        let caller = node.parent.map(|parent| tree.nodes[parent].name());
        (caller, node.name())
    };
    let keys: Vec<(Option<String>, String)> = tree.nodes.iter().map(key).collect();
    let all = sums(tree, inclusive, &keys).into_iter();
    all.map(|((caller, callee), sums)| Edge {
        caller: caller.clone(),
        callee: callee.clone(),
        calls: sums.own.calls,
        inclusive: sums.inclusive,
    })
    .collect()
}

fn modules(tree: &Tree, inclusive: &[Values]) -> Vec<Module> {
    let keys: Vec<Option<&str>> = tree
        .nodes
        .iter()
        .map(|node| node.module.as_deref())
        .collect();
    let all = sums(tree, inclusive, &keys).into_iter();
    all.map(|(module, sums)| Module {
        module: module.map(str::to_owned),
        calls: sums.entered,
        own: sums.own,
    })
    .collect()
}

/// The sums by the nodes' keys.
fn sums<'a, K: Ord>(tree: &Tree, inclusive: &[Values], keys: &'a [K]) -> BTreeMap<&'a K, Sums> {
    let mut all: BTreeMap<&K, Sums> = BTreeMap::new();
    for (index, node) in tree.nodes.iter().enumerate() {
        let key = &keys[index];
        let sums = all.entry(key).or_default();
        sums.own.add(Values::of(&node.own));
        let mut above = std::iter::successors(node.parent, |up| tree.nodes[*up].parent);
        if node.parent.is_none_or(|parent| keys[parent] != *key) {
            sums.entered = sums.entered.saturating_add(node.own.calls);
        }
        if !above.any(|up| keys[up] == *key) {
            sums.inclusive.add(inclusive[index]);
        }
    }
    all
}

#[cfg(test)]
mod tests;
