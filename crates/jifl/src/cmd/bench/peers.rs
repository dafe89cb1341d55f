// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tools with which JIFL is compared. They do the same jobs at the addresses that JIFL itself
//! saw executed: [`collect`] finds the addresses, [`Peer::start`] puts a tool there until it is
//! dropped.
//!
//! No tool filters by task: a filter would cost it something at each hit, and JIFL filters once a
//! call. So hits of other tasks are counted too, and a count is right if it is not below the
//! expected count.

use std::fmt;
use std::time::{Duration, Instant};

use crate::show::output;

mod apart;
mod bpf;
mod btf;
mod kprobes;
mod module;
mod sites;
mod symbols;
mod tracer;

pub use module::unload;
pub use sites::{Sites, collect};

use sites::Site;

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Kprobes that the kernel is kept from turning into jumps.
    KprobeInt3,
    /// Kprobes that the kernel has turned into jumps where it can.
    KprobeOptimised,
    /// The tracer `function` into its ring buffer, or an ftrace callback that counts.
    FunctionTracer,
    /// A BPF program at each function's entry.
    BpfFentry,
}

/// The job of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Count each basic block that is executed.
    CountBlocks,
    /// Count each system call, at its handler.
    CountCalls,
    /// Write a record for each function that is entered.
    TraceCalls,
}

/// Why a tool cannot do a job here: one line, with the way out if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing(pub String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The part of a job that a tool was able to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Number of places where it should be.
    pub sites: usize,
    /// Number of places where it is.
    pub covered: usize,
    /// Of these, places where a kprobe is a jump.
    pub jumps: usize,
    /// Number of executions of the places while they were collected.
    pub executions: u64,
    /// Of these, executions of covered places: repeating the same work must hit as often.
    pub expected: u64,
}

/// A tool at work, until it is dropped.
pub struct Peer {
    tool: Box<dyn Tool>,
    coverage: Coverage,
}

/// Operations of a kind of tool besides starting and, on drop, stopping.
trait Tool {
    fn hits(&self) -> u64;
    fn missed(&self) -> u64;

    /// Has the kernel turn probes into jumps. Returns their number.
    fn optimise(&mut self) -> Result<usize, Missing> {
        Err(Missing("only kprobes become jumps".into()))
    }
}

impl Peer {
    /// Puts a tool at the places of the job.
    ///
    /// # Errors
    /// This kernel lacks the tool, or the tool cannot do this job, or cannot do it at any place.
    pub fn start(method: Method, job: Job, sites: &Sites) -> Result<Peer, Missing> {
        let sites = sites.of(job);
        if sites.is_empty() {
            return Err(Missing(
                "nothing to probe: the operation executed no such place".into(),
            ));
        }
        let mut coverage = Coverage {
            sites: sites.len(),
            executions: sites.iter().map(|site| site.executions).sum(),
            ..Coverage::default()
        };
        let started = match method {
            Method::KprobeInt3 | Method::KprobeOptimised => kprobes::start(job, &sites)?,
            Method::FunctionTracer => tracer::start(job, &sites)?,
            Method::BpfFentry => bpf::start(job, &sites)?,
        };
        coverage.covered = started.covered.len();
        coverage.expected = started.covered.iter().map(|site| site.executions).sum();
        let mut peer = Peer {
            tool: started.tool,
            coverage,
        };
        if method == Method::KprobeOptimised {
            peer.optimise()?;
        }
        Ok(peer)
    }

    /// Hits since the start, of all tasks. Asking makes system calls, which hit too.
    pub fn hits(&self) -> u64 {
        self.tool.hits()
    }

    /// Hits at which the tool knows that it did not do its job.
    pub fn missed(&self) -> u64 {
        self.tool.missed()
    }

    /// Turns a [`Method::KprobeInt3`] into a [`Method::KprobeOptimised`]. To put the probes there
    /// again would take as long as the first time.
    ///
    /// # Errors
    /// This kernel has no such kprobes, or optimising did not end.
    pub fn optimise(&mut self) -> Result<(), Missing> {
        self.coverage.jumps = self.tool.optimise()?;
        Ok(())
    }

    /// The coverage of the tool.
    pub fn coverage(&self) -> Coverage {
        self.coverage
    }
}

/// A tool that a backend has started.
struct Started<'a> {
    tool: Box<dyn Tool>,
    covered: Vec<&'a Site>,
}

impl<'a> Started<'a> {
    /// Fails if the tool is at no place.
    fn new(tool: impl Tool + 'static, covered: Vec<&'a Site>) -> Result<Started<'a>, Missing> {
        if covered.is_empty() {
            return Err(Missing(
                "the kernel refused every place of this operation".into(),
            ));
        }
        Ok(Started {
            tool: Box::new(tool),
            covered,
        })
    }
}

/// Reports now and then the progress of something long.
struct Progress {
    what: &'static str,
    total: usize,
    next: Instant,
}

impl Progress {
    const EVERY: Duration = Duration::from_secs(4);

    fn new(what: &'static str, total: usize) -> Progress {
        Progress {
            what,
            total,
            next: Instant::now() + Self::EVERY,
        }
    }

    fn at(&mut self, done: usize) {
        if Instant::now() >= self.next {
            output::note(&format!("bench: {done} of {} {}", self.total, self.what));
            self.next = Instant::now() + Self::EVERY;
        }
    }
}
