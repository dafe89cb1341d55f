// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names have numbers, and are written where they first occur.

use std::collections::HashMap;

use super::messages::{Interned, InternedData};

/// All three kinds of names.
#[derive(Default)]
pub struct Interning {
    pub categories: Names,
    pub events: Names,
    pub annotations: Names,
}

impl Interning {
    /// Names that are new since the last call of this.
    pub fn take(&mut self) -> Option<InternedData> {
        let data = InternedData {
            event_categories: std::mem::take(&mut self.categories.new),
            event_names: std::mem::take(&mut self.events.new),
            debug_annotation_names: std::mem::take(&mut self.annotations.new),
        };
        (data != InternedData::default()).then_some(data)
    }
}

/// Names of one kind.
#[derive(Default)]
pub struct Names {
    known: HashMap<String, u64>,
    new: Vec<Interned>,
}

impl Names {
    /// The number of a name, from 1 on.
    pub fn number(&mut self, name: &str) -> u64 {
        if let Some(number) = self.known.get(name) {
            return *number;
        }
        let number = self.known.len() as u64 + 1;
        self.known.insert(name.to_owned(), number);
        self.new.push(Interned {
            iid: Some(number),
            name: Some(name.to_owned()),
        });
        number
    }
}
