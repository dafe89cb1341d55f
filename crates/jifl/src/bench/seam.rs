// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the peers need, where this command is built without them: every one of
//! their rows is missing, and says so.

/// How a peer instruments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// A breakpoint at each address.
    KprobeInt3,
    /// A jump where the address allows it.
    KprobeOptimised,
    /// ftrace's function tracer.
    FunctionTracer,
    /// BPF programs at function entries.
    BpfFentry,
}

/// What a peer does at its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// A count for each basic block executed.
    CountBlocks,
    /// A count for each system call.
    CountCalls,
    /// A record for each function entered.
    TraceCalls,
}

/// The addresses that an operation executes.
pub struct Sites;

/// Why there is no such peer here, in one line.
#[derive(Debug)]
pub struct Missing(pub String);

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Finds the addresses by doing the work.
pub fn collect(_work: &mut dyn FnMut()) -> Result<Sites, Missing> {
    Err(Missing("this command was built without it".into()))
}

/// A peer at work; none can be.
pub enum Peer {}

impl Peer {
    /// Starts it.
    pub fn start(_method: Method, _job: Job, _sites: &Sites) -> Result<Peer, Missing> {
        Err(Missing("this command was built without it".into()))
    }

    /// What it has counted.
    pub fn hits(&self) -> u64 {
        match *self {}
    }

    /// What it knows to have missed.
    pub fn missed(&self) -> u64 {
        match *self {}
    }
}
