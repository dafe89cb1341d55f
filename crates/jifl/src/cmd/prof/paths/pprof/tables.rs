// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts, functions, modules and places have numbers, and are written once.

use std::collections::HashMap;

use super::messages::{Function, Line, Location, Mapping, Profile};
use crate::cmd::prof::paths::tree::Node;

/// The file of functions that are of no module: its name in other profiles of the kernel.
const KERNEL: &str = "[kernel.kallsyms]";

/// What is known so far.
pub struct Tables {
    texts: HashMap<String, i64>,
    functions: HashMap<String, u64>,
    mappings: HashMap<Option<String>, u64>,
    /// By address and function. Not all nodes have an address.
    locations: HashMap<(u64, u64), u64>,
    /// The profile that has them.
    pub profile: Profile,
}

impl Tables {
    /// Tables of the empty text.
    pub fn new() -> Tables {
        let mut tables = Tables {
            texts: HashMap::new(),
            functions: HashMap::new(),
            mappings: HashMap::new(),
            locations: HashMap::new(),
            profile: Profile::default(),
        };
        tables.text("");
        tables
    }

    /// The number of a text.
    pub fn text(&mut self, text: &str) -> i64 {
        if let Some(number) = self.texts.get(text) {
            return *number;
        }
        let number = self.profile.string_table.len() as i64;
        self.texts.insert(text.to_owned(), number);
        self.profile.string_table.push(text.to_owned());
        number
    }

    /// The number of a node's place.
    pub fn location(&mut self, node: &Node) -> u64 {
        let function_id = self.function(node);
        let next = self.profile.location.len() as u64 + 1;
        let key = (node.address, function_id);
        let id = *self.locations.entry(key).or_insert(next);
        if id == next {
            let mapping_id = self.mapping(node);
            self.profile.location.push(Location {
                id,
                mapping_id,
                address: node.address,
                line: vec![Line { function_id }],
            });
        }
        id
    }

    fn function(&mut self, node: &Node) -> u64 {
        let name = node.name();
        let next = self.profile.function.len() as u64 + 1;
        let id = *self.functions.entry(name.clone()).or_insert(next);
        if id == next {
            let function = Function {
                id,
                name: self.text(&name),
                system_name: self.text(&node.function),
            };
            self.profile.function.push(function);
        }
        id
    }

    /// The number of the node's module, which spans all its addresses.
    fn mapping(&mut self, node: &Node) -> u64 {
        let next = self.profile.mapping.len() as u64 + 1;
        let id = *self.mappings.entry(node.module.clone()).or_insert(next);
        if id == next {
            let filename = self.text(node.module.as_deref().unwrap_or(KERNEL));
            self.profile.mapping.push(Mapping {
                id,
                filename,
                has_functions: true,
                ..Mapping::default()
            });
        }
        if node.address > 0 {
            self.profile.mapping[id as usize - 1].span(node.address);
        }
        id
    }
}

impl Mapping {
    fn span(&mut self, address: u64) {
        if self.memory_limit == 0 {
            self.memory_start = address;
        }
        self.memory_start = self.memory_start.min(address);
        self.memory_limit = self.memory_limit.max(address.saturating_add(1));
    }
}
