// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a search has found, for people and for programs.

use serde_json::{Value as Json, json};

use super::hypotheses::Id;
use super::tree::{Node, Unit, Verdict};
use super::walk::Found;
use crate::base::duration;
use crate::show::text::grouped;

/// The share of the most specific of two that say the same: it is told if it is not much less.
const SPECIFIC: f64 = 0.6;

impl Found {
    /// The test that says what the bottleneck is.
    pub fn finding(&self) -> Option<&Node> {
        let held = self.tests.iter().filter(|(_, node)| node.holds());
        let is_forking = held.clone().any(|(id, _)| *id == Id::Forks);
        let weight = |id: Id, node: &Node| {
            let is_named = node.way().len() > 1;
            let value = match (id, node.unit) {
                // A rate is no time: all that the kernel computes may be for it.
                (Id::Retries, _) => self.system() * 0.95,
                (_, Unit::Rate) => self.system() * 0.9,
                (Id::Cpu, _) => node.value * SPECIFIC,
                // New processes fault.
                (Id::Faults, _) if is_forking => node.value * SPECIFIC,
                // A pause is often made by who has the lock that others wait for.
                (Id::Delays, _) => node.value * SPECIFIC,
                _ => node.value,
            };
            if is_named { value } else { value * SPECIFIC }
        };
        let best = held.max_by(|(a, x), (b, y)| weight(*a, x).total_cmp(&weight(*b, y)));
        best.map(|(_, node)| node)
    }

    fn system(&self) -> f64 {
        let cpu = self.tests.iter().find(|(id, _)| *id == Id::Cpu);
        cpu.map_or(0.0, |(_, node)| node.value)
    }

    /// The finding, in one sentence.
    pub fn sentence(&self) -> String {
        let names = |verdict: fn(&Node) -> bool| {
            let all = self.tests.iter().filter(|(_, node)| verdict(node));
            let names: Vec<&str> = all.map(|(_, node)| node.name.as_str()).collect();
            names.join(", ")
        };
        let out = names(|node| node.verdict == Verdict::False);
        let untested = names(|node| !node.is_tested());
        let rest = match (out.as_str(), untested.as_str()) {
            ("", "") => String::new(),
            (out, "") => format!("; ruled out: {out}"),
            ("", untested) => format!("; not tested: {untested}"),
            (out, untested) => format!("; ruled out: {out}; not tested: {untested}"),
        };
        let Some(node) = self.finding() else {
            return match out.is_empty() {
                true => format!("nothing was tested{rest}"),
                false => format!("no bottleneck: nothing tested is above its threshold{rest}"),
            };
        };
        let way = node.way();
        let deepest = way.last().copied().unwrap_or(node);
        let mut text = format!("{}: {}", node.name, node.about);
        if way.len() > 1 {
            text += &format!(", most in {}", deepest.name);
            if let Some(site) = &deepest.site {
                let at = match deepest.unit {
                    Unit::Tasks => "at",
                    Unit::Processors | Unit::Rate => "called at",
                };
                text += &format!(", {at} {site}");
            }
            if let Some(line) = &deepest.line {
                text += &format!(" ({line})");
            }
        }
        if let Some(object) = deepest.objects.iter().chain(&node.objects).next() {
            text += &format!(", {object}");
        }
        text += &format!(": {}", deepest.unit.text(deepest.value));
        if let Some(share) = self.share(deepest) {
            text += &format!(
                ", {:.0} % of all time that is spent or waited",
                share * 100.0
            );
        }
        text + &rest
    }

    /// Its part of the time of processors that did something, and of tasks that slept for a reason.
    /// Where the former was not measured, all of it is not known.
    fn share(&self, node: &Node) -> Option<f64> {
        let mut tests = self.tests.iter();
        let is_known = tests.any(|(id, node)| *id == Id::Cpu && node.is_tested());
        let is_time = node.unit != Unit::Rate && is_known && self.busy > 0.0;
        is_time.then(|| (node.value / self.busy).min(1.0))
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (_, node) in &self.tests {
            line(&mut text, node, 0);
        }
        if let Some(doing) = &self.doing {
            let seconds = self.elapsed_ns as f64 / 1e9;
            return text + &format!("so far: {}\n# {seconds:.1} s: {doing}\n", self.sentence());
        }
        text += &format!("finding: {}\n", self.sentence());
        if let Some(why) = self.cut_short {
            text += &format!("# the search ended early: {why}\n");
        }
        text + &format!(
            "# cost: {:.2} % of the time of {} processors, budget {:.2} %: {} calls looked at, {} ns \
             each; {} measurements shortened; {}\n",
            self.ledger.share(self.elapsed_ns) * 100.0,
            self.ledger.processors,
            self.ledger.budget * 100.0,
            grouped(self.ledger.calls),
            self.call_ns,
            self.ledger.shortened,
            duration::show(self.elapsed_ns),
        )
    }

    /// For programs.
    pub fn json(&self) -> Json {
        let finding = self.finding();
        let deepest = finding.and_then(|node| node.way().last().copied());
        json!({
            "command": "search",
            "finding": finding.map(|node| json!({
                "hypothesis": node.name,
                "function": deepest.filter(|one| one.name != node.name).map(|one| &one.name),
                "site": deepest.and_then(|one| one.site.clone()),
                "line": deepest.and_then(|one| one.line.clone()),
                "share": deepest.and_then(|one| self.share(one)),
            })),
            "sentence": self.sentence(),
            "doing": self.doing,
            "tests": self.tests.iter().map(|(_, node)| node.json(&|one| self.share(one))).collect::<Vec<_>>(),
            "cost": self.ledger.share(self.elapsed_ns),
            "budget": self.ledger.budget,
            "processors": self.ledger.processors,
            "calls": self.ledger.calls,
            "call_ns": self.call_ns,
            "spent_ns": self.ledger.spent_ns,
            "translation_ns": self.translation_ns,
            "shortened": self.ledger.shortened,
            "elapsed_ns": self.elapsed_ns,
            "cut_short": self.cut_short,
        })
    }
}

/// A test and those below it.
fn line(text: &mut String, node: &Node, depth: usize) {
    let name = format!("{}{}", "  ".repeat(depth), node.name);
    let values = format!(
        "{}, threshold {}",
        node.unit.text(node.value),
        match node.unit {
            Unit::Rate => format!("{:.0}", node.threshold),
            Unit::Processors | Unit::Tasks => format!("{:.2}", node.threshold),
        }
    );
    let said = match &node.verdict {
        Verdict::True => format!("true        {values}"),
        Verdict::False => format!("false       {values}"),
        Verdict::NotTested(why) => format!("not tested  {why}"),
    };
    text.push_str(&format!("{name:<34}  {said}\n"));
    let indent = "  ".repeat(depth + 1);
    if let Some(site) = &node.site {
        let file = node
            .line
            .as_ref()
            .map_or(String::new(), |line| format!("  {line}"));
        text.push_str(&format!("{indent}| at {site}{file}\n"));
    }
    if !node.objects.is_empty() {
        text.push_str(&format!("{indent}| {}\n", node.objects.join("; ")));
    }
    if !node.path.is_empty() {
        text.push_str(&format!("{indent}| from {}\n", node.path.join(" < ")));
    }
    for child in &node.children {
        line(text, child, depth + 1);
    }
}
