// SPDX-License-Identifier: MIT OR Apache-2.0
//! The profile of pprof, a viewer: compressed, with a value of each sample for each metric.

mod messages;
mod tables;

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use self::messages::{Profile, Sample, ValueType};
use self::tables::Tables;
use super::metric::Metric;
use super::tree::Tree;

/// Metrics in the order in which samples have them. What counts events comes first, by convention.
const METRICS: [Metric; 6] = [
    Metric::Calls,
    Metric::Insn,
    Metric::Wall,
    Metric::Cpu,
    Metric::Blocked,
    Metric::Runnable,
];

/// The file, with all metrics that are not zero; `metric` is shown first.
pub fn pprof(tree: &Tree, metric: Metric) -> Vec<u8> {
    compressed(&profile(tree, metric).encode_to_vec())
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // A write to memory never fails.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// What pprof calls a metric.
fn name(metric: Metric) -> &'static str {
    match metric {
        Metric::Insn => "instructions",
        other => other.name(),
    }
}

fn profile(tree: &Tree, metric: Metric) -> Profile {
    let mut tables = Tables::new();
    let counted = METRICS.iter().copied();
    let counted: Vec<Metric> = counted.filter(|one| tree.total(*one) > 0).collect();
    for one in &counted {
        let unit = if one.is_time() {
            "nanoseconds"
        } else {
            "count"
        };
        let kind = ValueType {
            r#type: tables.text(name(*one)),
            unit: tables.text(unit),
        };
        tables.profile.sample_type.push(kind);
    }
    if counted.contains(&metric) {
        tables.profile.default_sample_type = tables.text(name(metric));
    }
    add_samples(&mut tables, tree, &counted);
    tables.profile
}

fn add_samples(tables: &mut Tables, tree: &Tree, metrics: &[Metric]) {
    let places = tree.nodes.iter().map(|node| tables.location(node));
    let places: Vec<u64> = places.collect();
    for (index, node) in tree.nodes.iter().enumerate() {
        let values = metrics.iter().map(|metric| metric.of(&node.own));
        let values: Vec<i64> = values.map(signed).collect();
        if values.iter().any(|value| *value > 0) {
            let path = tree.path(index);
            tables.profile.sample.push(Sample {
                location_id: path.iter().rev().map(|node| places[*node]).collect(),
                value: values,
            });
        }
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;
    use crate::cmd::prof::paths::tree::tests::sample;

    fn decoded(bytes: &[u8]) -> Profile {
        let mut plain = Vec::new();
        GzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
        Profile::decode(&plain[..]).unwrap()
    }

    impl Profile {
        fn named(&self, number: i64) -> &str {
            &self.string_table[number as usize]
        }

        fn function(&self, location: u64) -> &str {
            let location = &self.location[location as usize - 1];
            let function = &self.function[location.line[0].function_id as usize - 1];
            self.named(function.name)
        }
    }

    #[test]
    fn sums_of_samples_are_the_totals() {
        let tree = sample();
        let profile = decoded(&pprof(&tree, Metric::Insn));
        assert_eq!(profile.string_table[0], "");
        let types = profile.sample_type.iter();
        let types: Vec<(&str, &str)> = types
            .map(|one| (profile.named(one.r#type), profile.named(one.unit)))
            .collect();
        let ns = "nanoseconds";
        assert_eq!(
            types,
            [
                ("calls", "count"),
                ("instructions", "count"),
                ("wall", ns),
                ("cpu", ns),
                ("blocked", ns)
            ]
        );
        for (index, metric) in METRICS[..5].iter().enumerate() {
            let sum: i64 = profile.sample.iter().map(|one| one.value[index]).sum();
            assert_eq!(sum as u64, tree.total(*metric));
        }
        assert_eq!(profile.named(profile.default_sample_type), "instructions");
        assert_eq!(
            decoded(&pprof(&tree, Metric::Runnable)).default_sample_type,
            0
        );
    }

    #[test]
    fn the_innermost_function_comes_first() {
        let profile = decoded(&pprof(&sample(), Metric::Insn));
        let last = &profile.sample[4].location_id;
        let names: Vec<&str> = last.iter().map(|id| profile.function(*id)).collect();
        assert_eq!(names, ["copy.isra.0", "read_iter", "vfs_read", "sys:read"]);
    }

    #[test]
    fn functions_and_places_are_there_once() {
        let profile = decoded(&pprof(&sample(), Metric::Insn));
        assert_eq!(profile.function.len(), 6);
        assert_eq!(profile.location.len(), 7, "two are called read_iter");
        let files = profile.mapping.iter();
        let files: Vec<(&str, u64, u64)> = files
            .map(|one| {
                (
                    profile.named(one.filename),
                    one.memory_start,
                    one.memory_limit,
                )
            })
            .collect();
        assert_eq!(
            files,
            [
                ("[kernel.kallsyms]", 0x1000, 0x4001),
                ("nfs", 0x9000, 0x9001)
            ]
        );
        for location in &profile.location {
            assert!((1..=2).contains(&location.mapping_id));
        }
    }

    #[test]
    fn nothing_is_a_profile_too() {
        let profile = decoded(&pprof(&Tree::default(), Metric::Insn));
        assert_eq!(profile.sample, []);
        assert_eq!(profile.string_table, [""]);
    }
}
