// SPDX-License-Identifier: MIT OR Apache-2.0
//! A value of each metric.

use clap::ValueEnum;
use serde::Serialize;

use super::metric::{Metric, Own};
use super::tree::Tree;

/// All metrics of something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Values {
    /// How often it was called.
    pub calls: u64,
    instructions: u64,
    wall_ns: u64,
    cpu_ns: u64,
    blocked_ns: u64,
    runnable_ns: u64,
}

impl Values {
    /// What a path did itself.
    pub fn of(own: &Own) -> Values {
        let mut values = Values::default();
        for metric in Metric::value_variants() {
            *values.place(*metric) = metric.of(own);
        }
        values
    }

    /// For each node, the sums of it and of all below it.
    pub fn inclusive(tree: &Tree) -> Vec<Values> {
        let mut all = vec![Values::default(); tree.nodes.len()];
        for metric in Metric::value_variants() {
            for (values, sum) in all.iter_mut().zip(tree.inclusive(*metric)) {
                *values.place(*metric) = sum;
            }
        }
        all
    }

    /// The value of a metric.
    pub fn get(mut self, metric: Metric) -> u64 {
        *self.place(metric)
    }

    /// Adds other ones.
    pub fn add(&mut self, other: Values) {
        for metric in Metric::value_variants() {
            let sum = self.place(*metric);
            *sum = sum.saturating_add(other.get(*metric));
        }
    }

    fn place(&mut self, metric: Metric) -> &mut u64 {
        match metric {
            Metric::Insn => &mut self.instructions,
            Metric::Wall => &mut self.wall_ns,
            Metric::Cpu => &mut self.cpu_ns,
            Metric::Blocked => &mut self.blocked_ns,
            Metric::Runnable => &mut self.runnable_ns,
            Metric::Calls => &mut self.calls,
        }
    }
}
