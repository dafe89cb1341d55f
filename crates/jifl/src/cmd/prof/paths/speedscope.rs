// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON of speedscope, a viewer: a profile for each metric. Names and values of members are
//! those of <https://www.speedscope.app/file-format-schema.json>.

use std::collections::HashMap;

use clap::ValueEnum;
use serde::Serialize;

use super::metric::Metric;
use super::tree::Tree;
use crate::show::text;

#[derive(Serialize)]
struct File {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: &'static str,
    #[serde(rename = "activeProfileIndex")]
    active: usize,
    shared: Shared,
    profiles: Vec<Profile>,
}

#[derive(Serialize, Default)]
struct Shared {
    frames: Vec<Frame>,
}

#[derive(Serialize)]
struct Frame {
    name: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    r#type: &'static str,
    name: &'static str,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    /// Numbers of frames, outermost first.
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}

/// All metrics that are not zero; `metric` is shown first.
pub fn speedscope(tree: &Tree, metric: Metric) -> String {
    let mut frames = Frames::default();
    let counted: Vec<Metric> = Metric::value_variants()
        .iter()
        .copied()
        .filter(|metric| tree.total(*metric) > 0)
        .collect();
    let active = counted.iter().position(|one| *one == metric);
    let profiles = counted.iter().map(|one| frames.profile(tree, *one));
    text::json(&File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        exporter: "jifl",
        name: "jifl prof",
        active: active.unwrap_or(0),
        profiles: profiles.collect(),
        shared: frames.shared,
    })
}

/// Frames have numbers, in the order in which they occur.
#[derive(Default)]
struct Frames {
    known: HashMap<String, usize>,
    shared: Shared,
}

impl Frames {
    fn number(&mut self, name: String) -> usize {
        if let Some(number) = self.known.get(&name) {
            return *number;
        }
        let number = self.shared.frames.len();
        self.known.insert(name.clone(), number);
        self.shared.frames.push(Frame { name });
        number
    }

    fn profile(&mut self, tree: &Tree, metric: Metric) -> Profile {
        let (mut samples, mut weights) = (Vec::new(), Vec::new());
        for (path, value) in tree.folded(metric) {
            samples.push(path.into_iter().map(|name| self.number(name)).collect());
            weights.push(value);
        }
        Profile {
            r#type: "sampled",
            name: metric.name(),
            unit: if metric.is_time() {
                "nanoseconds"
            } else {
                "none"
            },
            start_value: 0,
            end_value: tree.total(metric),
            samples,
            weights,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::prof::paths::tree::tests::sample;

    #[test]
    fn a_profile_for_each_metric_that_was_counted() {
        let text = speedscope(&sample(), Metric::Cpu);
        let file: serde_json::Value = serde_json::from_str(&text).unwrap();
        let profiles = file["profiles"].as_array().unwrap();
        let shown: Vec<(&str, &str)> = profiles
            .iter()
            .map(|one| (one["name"].as_str().unwrap(), one["unit"].as_str().unwrap()))
            .collect();
        let ns = "nanoseconds";
        assert_eq!(
            shown,
            [
                ("insn", "none"),
                ("wall", ns),
                ("cpu", ns),
                ("blocked", ns),
                ("calls", "none")
            ]
        );
        assert_eq!(file["activeProfileIndex"], 2);
        for profile in profiles {
            let weights = profile["weights"].as_array().unwrap();
            let sum: u64 = weights.iter().map(|one| one.as_u64().unwrap()).sum();
            assert_eq!(profile["endValue"], sum);
            assert_eq!(profile["samples"].as_array().unwrap().len(), weights.len());
        }
    }

    #[test]
    fn samples_are_numbers_of_frames() {
        let text = speedscope(&sample(), Metric::Insn);
        let file: serde_json::Value = serde_json::from_str(&text).unwrap();
        let first = &file["profiles"][0]["samples"][3];
        let name = |number: &serde_json::Value| {
            let frame = &file["shared"]["frames"][number.as_u64().unwrap() as usize];
            frame["name"].as_str().unwrap().to_owned()
        };
        let names: Vec<String> = first.as_array().unwrap().iter().map(name).collect();
        assert_eq!(names, ["sys:read", "vfs_read", "read_iter", "copy.isra.0"]);
    }
}
