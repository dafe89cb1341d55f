// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tree of what was tested, and how a measured value becomes true or false.

use serde::Serialize;
use serde_json::{Value as Json, json};

/// A value this near the threshold decides nothing, until it has been measured [`TRIES`] times.
const BAND: f64 = 0.15;
/// How often a value is measured at most.
pub const TRIES: usize = 3;

/// Why a test has no result while the search goes on.
const NOT_YET: &str = "not yet";

/// What came of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The value is at the threshold, or above.
    True,
    /// It is below.
    False,
    /// It was not measured, and why.
    NotTested(String),
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Time on processors by the time that has passed: 1 is one processor all the time.
    Processors,
    /// Time asleep by the time that has passed: 1 is one task all the time.
    Tasks,
    /// Events by the second.
    Rate,
}

impl Unit {
    /// For people.
    pub fn text(self, value: f64) -> String {
        match self {
            Unit::Processors => format!("{value:.2} processors"),
            Unit::Tasks => format!("{value:.2} tasks"),
            Unit::Rate => format!("{value:.0} a second"),
        }
    }
}

/// A test: a hypothesis, or a part of the one above.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The hypothesis, or the function.
    pub name: String,
    /// What it says.
    pub about: String,
    /// What was measured.
    pub value: f64,
    /// What that is.
    pub unit: Unit,
    /// From where on it is true.
    pub threshold: f64,
    /// What came of it.
    pub verdict: Verdict,
    /// The call site: `FUNCTION+0xOFFSET`.
    pub site: Option<String>,
    /// What calls are about: files, locks, processes.
    pub objects: Vec<String>,
    /// How it is come to: call sites, the innermost first.
    pub path: Vec<String>,
    /// `FILE:LINE` of the call site.
    pub line: Option<String>,
    /// What it was refined to.
    pub children: Vec<Node>,
}

impl Node {
    /// A test that is not done yet.
    pub fn new(name: &str, about: &str, unit: Unit, threshold: f64) -> Node {
        Node {
            name: name.to_owned(),
            about: about.to_owned(),
            value: 0.0,
            unit,
            threshold,
            verdict: Verdict::NotTested(NOT_YET.into()),
            site: None,
            objects: Vec::new(),
            path: Vec::new(),
            line: None,
            children: Vec::new(),
        }
    }

    /// It was measured.
    pub fn decide(&mut self, value: f64) {
        self.value = value;
        self.verdict = match value >= self.threshold {
            true => Verdict::True,
            false => Verdict::False,
        };
    }

    /// It is not measured.
    pub fn leave(&mut self, why: impl Into<String>) {
        self.verdict = Verdict::NotTested(why.into());
    }

    /// The search is over: what is not tested by now will not be.
    pub fn close(&mut self) {
        if self.verdict == Verdict::NotTested(NOT_YET.into()) {
            self.leave("the search ended before");
        }
        self.children.iter_mut().for_each(Node::close);
    }

    /// Is it true?
    pub fn holds(&self) -> bool {
        self.verdict == Verdict::True
    }

    /// Has it been decided?
    pub fn is_tested(&self) -> bool {
        !matches!(self.verdict, Verdict::NotTested(_))
    }

    /// From it down to the deepest that is true: always to the first child below which there is
    /// one. What was not tested is left out. The last says the most.
    pub fn way(&self) -> Vec<&Node> {
        let below = self.children.iter().map(Node::way);
        let below = below.into_iter().find(|way| !way.is_empty());
        let own = self.holds().then_some(self);
        own.into_iter().chain(below.unwrap_or_default()).collect()
    }

    /// For programs. `share`: a test's part of all time, where it has one.
    pub fn json(&self, share: &dyn Fn(&Node) -> Option<f64>) -> Json {
        let (verdict, why) = match &self.verdict {
            Verdict::True => ("true", None),
            Verdict::False => ("false", None),
            Verdict::NotTested(why) => ("not tested", Some(why)),
        };
        json!({
            "name": self.name,
            "about": self.about,
            "verdict": verdict,
            "why": why,
            "value": self.is_tested().then_some(self.value),
            "unit": self.unit,
            "threshold": self.threshold,
            "share": share(self).filter(|_| self.is_tested()),
            "site": self.site,
            "line": self.line,
            "objects": self.objects,
            "path": self.path,
            "tests": self.children.iter().map(|one| one.json(share)).collect::<Vec<_>>(),
        })
    }
}

/// Measurements of one value. Near the threshold one more decides: a value that goes up and down
/// about it does not make the answer go up and down.
#[derive(Debug, Clone, Default)]
pub struct Judge {
    sum: f64,
    times: usize,
}

impl Judge {
    /// One more measurement.
    pub fn add(&mut self, value: f64) {
        self.sum += value;
        self.times += 1;
    }

    /// Their mean.
    pub fn value(&self) -> f64 {
        self.sum / self.times.max(1) as f64
    }

    /// Is one more needed?
    pub fn needs_more(&self, threshold: f64) -> bool {
        let near = (self.value() - threshold).abs() < threshold * BAND;
        self.times == 0 || near && self.times < TRIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_the_threshold_more_is_measured() {
        let mut judge = Judge::default();
        assert!(judge.needs_more(0.2));
        judge.add(0.21);
        assert!(judge.needs_more(0.2));
        judge.add(0.3);
        assert!(!judge.needs_more(0.2), "the mean is far away");
        let mut judge = Judge::default();
        for _ in 0..TRIES {
            assert!(judge.needs_more(0.2));
            judge.add(0.19);
        }
        assert!(!judge.needs_more(0.2), "it ends");
    }

    #[test]
    fn the_way_leads_to_the_deepest_that_is_true() {
        let node = |name: &str, value| {
            let mut node = Node::new(name, "", Unit::Tasks, 0.2);
            node.decide(value);
            node
        };
        let mut top = node("locks", 0.9);
        let mut inner = node("f", 0.8);
        inner.children = vec![node("g", 0.1), node("h", 0.7)];
        top.children = vec![node("e", 0.0), inner];
        let names: Vec<&str> = top.way().iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["locks", "f", "h"]);
        let json = top.json(&|node| Some(node.value / 2.0));
        assert_eq!(json["tests"][1]["share"], 0.4);
        assert_eq!(json["tests"][1]["tests"][0]["verdict"], "false");
        assert_eq!(json["tests"][1]["value"], 0.8);
        let mut untested = Node::new("x", "", Unit::Rate, 1.0);
        assert_eq!(untested.json(&|_| None)["why"], NOT_YET);
        untested.close();
        top.close();
        assert_eq!(top.children[0].verdict, Verdict::False);
        let untested = untested.json(&|_| Some(1.0));
        assert!(untested["share"].is_null());
        assert_eq!(untested["verdict"], "not tested");
        assert!(untested["value"].is_null() && untested["why"] == "the search ended before");
    }
}
