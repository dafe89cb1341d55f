// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl bench-peers`: each peer on one operation, a JSON object a line. For tests, and for a
//! closer look at one figure of the benchmark.

use std::fs::File;
use std::process::Command;
use std::time::Instant;

use clap::{Args, ValueEnum};
use rustix::fs::{CWD, Mode, OFlags};
use serde_json::json;

use super::peers::{self, Job, Method, Missing, Peer, Sites};
use crate::base::exit::{DONE, Failure};
use crate::show::output;

const METHODS: [(Method, &str); 4] = [
    (Method::KprobeInt3, "kprobes int3"),
    (Method::KprobeOptimised, "kprobes jump-optimised"),
    (Method::FunctionTracer, "function tracer"),
    (Method::BpfFentry, "BPF fentry"),
];

const JOBS: [(Job, &str); 3] = [
    (Job::CountBlocks, "count blocks"),
    (Job::CountCalls, "count calls"),
    (Job::TraceCalls, "trace calls"),
];

/// An operation.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Op {
    /// getppid
    Null,
    /// A byte of /dev/zero
    Read,
    /// stat of /dev/null
    Stat,
    /// open and close of /dev/null
    OpenClose,
    /// A process that runs /bin/true
    Exec,
}

/// Arguments of `jifl bench-peers`.
#[derive(Debug, Args)]
pub struct PeersArgs {
    /// What is done
    #[arg(value_enum, default_value = "read")]
    op: Op,
    /// How often
    #[arg(long, default_value = "1000")]
    calls: u32,
}

/// Runs `jifl bench-peers`.
pub fn run(args: &PeersArgs) -> Result<u8, Failure> {
    let mut operation = operation(args.op)?;
    let mut work = || (0..args.calls).for_each(|_| operation());
    work();
    let sites = peers::collect(&mut work)?;
    show(&json!({
        "calls": sites.calls(), "functions": sites.functions(), "blocks": sites.blocks(),
    }))?;
    let native = nanoseconds(&mut work);
    for (method, method_name) in METHODS {
        for (job, job_name) in JOBS {
            let mut row = match measure(method, job, &sites, &mut work) {
                Ok((row, ns)) => {
                    let added = (ns - native) / f64::from(args.calls);
                    let mut row = row;
                    row["added_ns_per_call"] = json!((added * 10.0).round() / 10.0);
                    row
                }
                Err(missing) => json!({ "missing": missing.0 }),
            };
            row["method"] = json!(method_name);
            row["job"] = json!(job_name);
            show(&row)?;
        }
    }
    peers::unload()?;
    Ok(DONE)
}

/// How often a tool is asked for its hits before the work. Other tasks hit it now and then, but not
/// each time.
const ASKED: usize = 16;

fn show(row: &serde_json::Value) -> Result<(), Failure> {
    output::print(&format!("{row}\n"))
}

fn operation(op: Op) -> Result<Box<dyn FnMut()>, Failure> {
    let zero =
        File::open("/dev/zero").map_err(|error| Failure::failed(format!("/dev/zero: {error}")))?;
    Ok(match op {
        Op::Null => Box::new(|| {
            let _ = rustix::process::getppid();
        }),
        Op::Read => Box::new(move || {
            let _ = rustix::io::read(&zero, &mut [0u8; 1]);
        }),
        Op::Stat => Box::new(|| {
            let _ = rustix::fs::stat("/dev/null");
        }),
        Op::OpenClose => Box::new(|| {
            let _ = rustix::fs::openat(CWD, "/dev/null", OFlags::RDONLY, Mode::empty());
        }),
        Op::Exec => Box::new(|| {
            let _ = Command::new("/bin/true").status();
        }),
    })
}

fn nanoseconds(work: &mut dyn FnMut()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64
}

/// The row's figures, and the time.
fn measure(
    method: Method,
    job: Job,
    sites: &Sites,
    work: &mut dyn FnMut(),
) -> Result<(serde_json::Value, f64), Missing> {
    let peer = Peer::start(method, job, sites)?;
    work();
    // Asking for the hits causes hits itself, which are subtracted. The least is taken, because
    // other tasks hit sites, too.
    let asked: Vec<u64> = (0..=ASKED).map(|_| peer.hits()).collect();
    let asking = asked.windows(2).map(|two| two[1] - two[0]).min();
    let ns = nanoseconds(work);
    let hits = peer.hits() - asked[ASKED] - asking.unwrap_or(0);
    let coverage = peer.coverage();
    let row = json!({
        "sites": coverage.sites, "covered": coverage.covered, "jumps": coverage.jumps,
        "executions": coverage.executions, "expected": coverage.expected,
        "hits": hits, "missed": peer.missed(),
    });
    Ok((row, ns))
}
