// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a search is asked for: by a command line, a client of a daemon (the body of
//! `POST /v1/search`), or a key of `jifl top`. And the search of this machine that it asks for.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::hypotheses::{Thresholds, threshold};
use super::ledger::Ledger;
use super::walk::{Found, Walk};
use super::world::{Here, Ways};
use crate::base::exit::Failure;
use crate::kernel::lines::LinesArgs;

/// How long a search takes at most, if nothing else is said.
pub const USUAL: Duration = Duration::from_secs(30);
/// Percent of the processors' time that inserted code may take, if nothing else is said.
pub const BUDGET: f64 = 2.0;

/// What a search is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Only this process, and its descendants; none: the whole machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// The search ends after so many milliseconds.
    #[serde(default = "usual")]
    pub for_ms: u64,
    /// Percent of the processors' time that inserted code may take.
    #[serde(default = "budget")]
    pub budget: f64,
    /// `NAME=NUMBER`: from where on a hypothesis is true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<String>,
}

fn usual() -> u64 {
    USUAL.as_millis() as u64
}

fn budget() -> f64 {
    BUDGET
}

impl Default for Order {
    fn default() -> Order {
        Order {
            pid: None,
            for_ms: usual(),
            budget: BUDGET,
            thresholds: Vec::new(),
        }
    }
}

/// What is known by now, or at the end: the data of the events `tree` and `end`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Grown {
    /// As `jifl search -f json` has it.
    pub report: Json,
    /// As `jifl search` prints it.
    pub text: String,
}

impl Grown {
    /// In both forms.
    pub fn of(found: &Found) -> Grown {
        Grown {
            report: found.json(),
            text: found.text(),
        }
    }

    /// Did the search end before all was tested?
    pub fn is_cut_short(&self) -> bool {
        !self.report["cut_short"].is_null()
    }
}

impl Order {
    /// Refuses what means nothing; the thresholds that are not the usual ones.
    ///
    /// # Errors
    /// One of its numbers or words means nothing.
    pub fn understand(&self) -> Result<Thresholds, Failure> {
        if !(self.budget > 0.0 && self.budget <= 100.0) {
            return Err(Failure::usage(format!(
                "--budget {}: give percent of the processors' time, above 0 and at most 100",
                self.budget
            )));
        }
        self.thresholds.iter().map(|word| threshold(word)).collect()
    }

    /// Refuses a process that this machine does not have.
    ///
    /// # Errors
    /// There is none.
    pub fn check_process(&self) -> Result<(), Failure> {
        let is_there = |pid: i32| pid > 0 && Path::new(&format!("/proc/{pid}")).exists();
        match self.pid {
            Some(pid) if !is_there(pid) => Err(Failure::failed(format!("no process {pid}"))),
            _ => Ok(()),
        }
    }

    /// Searches this machine. The result: what was found, and where: that can wait for the child.
    ///
    /// # Errors
    /// The process is not there, or not even the first measurement could be made.
    pub fn search(
        &self,
        ways: Ways,
        child: Option<Child>,
        lines: &LinesArgs,
    ) -> Result<(Found, Here), Failure> {
        let thresholds = self.understand()?;
        self.check_process()?;
        let process = self.pid.or(child.as_ref().map(|child| child.id() as i32));
        let processors = match process {
            Some(_) => 1.0,
            None => online().max(1) as f64,
        };
        let time = Duration::from_millis(self.for_ms);
        let world = Here::new(process, time, ways, child, lines)?;
        let ledger = Ledger::new(self.budget / 100.0, processors);
        let found = Walk::new(&world, &thresholds, ledger).search()?;
        Ok((found, world))
    }

    /// In one line, for people.
    pub fn shown(&self) -> String {
        let seconds = self.for_ms as f64 / 1000.0;
        let mut text = format!("search for {seconds} s budget {} %", self.budget);
        if let Some(pid) = self.pid {
            text += &format!(" pid {pid}");
        }
        if !self.thresholds.is_empty() {
            text += &format!(" thresholds {}", self.thresholds.join(","));
        }
        text
    }
}

/// Processors that run.
fn online() -> usize {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let is_one = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    stat.lines().filter(is_one).count()
}
