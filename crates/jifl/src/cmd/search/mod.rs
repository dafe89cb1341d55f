// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl search`: finds the bottleneck by itself, as Paradyn's Performance Consultant does.
//!
//! What is tested: the hypotheses of hypotheses.rs. Each is a value that is measured over an
//! interval, and a threshold. A value near its threshold is measured again, three times at most
//! (tree.rs). What is true is refined: which function, which call site, which file or lock.
//!
//! The order (walk.rs):
//!
//! 1. What a call of a function that is looked at costs on this machine. All later measurements are
//!    kept within the budget by that (ledger.rs).
//! 2. The seed: stacks that the clock's interrupt finds, and what /proc counts. It says whether the
//!    kernel computes, and where to look first. Stacks of the clock are samples, so no verdict rests
//!    on them.
//! 3. Why tasks sleep. All of them do in `schedule`, so its blocked time by stack is all waiting of
//!    the machine, each part with its reason and its call site (stacks.rs).
//! 4. Functions in which interrupts, page faults, new processes and spinning are.
//! 5. System calls, if the kernel computes.
//! 6. Refinement of each hypothesis that is true, the largest first, and `cpu` last, because the
//!    others say more. A way down the call graph comes from the seed, or from a short profile of
//!    call paths. The functions of the way are measured at the same time. The deepest that still has
//!    most is the answer. Its callers, and what its calls are about, are measured once more.
//!
//! Why it ends: each hypothesis is refined once, a way has at most as many functions as a stack, and
//! a measurement is repeated at most three times. A measurement waits for the budget, but the whole
//! search has a time (`--for`), and what was not tested by then is said to be not tested.

mod hypotheses;
mod ledger;
mod show;
mod sleepers;
mod stacks;
#[cfg(test)]
mod tests;
mod tree;
mod vitals;
mod walk;
mod world;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use jifl_sys::os;

use self::hypotheses::threshold;
use self::ledger::Ledger;
use self::walk::Walk;
use self::world::Here;
use crate::base::duration;
use crate::base::exit::{DONE, Failure, LIMIT};
use crate::cmd::stat::source;
use crate::kernel::lines::LinesArgs;
use crate::session::scope::{Tasks, exit_status, gate, not_run};
use crate::show::output::{Format, Sink};
use crate::show::text;

/// Arguments of `jifl search`.
#[derive(Debug, Args)]
#[command(after_help = "\
Hypotheses: cpu, kthread, interrupts, faults, forks, spinning, calls, retries, locks, disk, sync,
network, delays. Each is a value and a threshold: `--threshold locks=0.5` changes one. What is true
is refined to functions, call sites, and what calls are about.

Without CMD and -p the whole machine is looked at. CMD runs to its end, and the exit status is its
own.

Examples:
  jifl search
  jifl search -- tar -cf /dev/null /usr/share
  jifl search -p 1234 --for 10s
  jifl search --budget 1 --threshold disk=1 -f json")]
pub struct SearchArgs {
    /// Only this process, and its descendants
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pid: Option<i32>,
    /// End the search after this time, with what is known by then
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    time: Duration,
    /// Percent of the processors' time that inserted code may take
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    budget: f64,
    /// From where on a hypothesis is true: NAME=NUMBER
    #[arg(long, value_name = "NAME=NUMBER")]
    threshold: Vec<String>,
    /// How the report is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    /// Write the output to FILE
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    lines: LinesArgs,
    /// Search for the bottleneck of this command and its descendants
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the command; the result is the exit status.
///
/// # Errors
/// This machine cannot, or an argument makes no sense.
pub fn run(args: &SearchArgs) -> Result<u8, Failure> {
    if !(args.budget > 0.0 && args.budget <= 100.0) {
        return Err(Failure::usage(format!(
            "--budget {}: give percent of the processors' time, above 0 and at most 100",
            args.budget
        )));
    }
    let thresholds = args.threshold.iter().map(|word| threshold(word));
    let thresholds = thresholds.collect::<Result<_, Failure>>()?;
    if let Some(pid) = args.pid
        && !(pid > 0 && Path::new(&format!("/proc/{pid}")).exists())
    {
        return Err(Failure::failed(format!("no process {pid}")));
    }
    source::check()?;
    let mut sink = Sink::open(args.output.as_deref())?;
    let interrupt = os::catch_interrupts()
        .map_err(|error| Failure::failed(format!("catching Ctrl-C: {error}")))?;
    let child = match args.command.as_slice() {
        [] => None,
        command => Some(
            gate(command)?
                .open()
                .map_err(|error| not_run(command, &error))?,
        ),
    };
    let process = args.pid.or(child.as_ref().map(|child| child.id() as i32));
    let tasks = process.map_or_else(Tasks::default, Tasks::of_process);
    let processors = match process {
        Some(_) => 1.0,
        None => online().max(1) as f64,
    };
    let world = Here::new(tasks, process, args.time, interrupt, child, &args.lines)?;
    let ledger = Ledger::new(args.budget / 100.0, processors);
    let found = Walk::new(&world, &thresholds, ledger).search()?;
    match args.format {
        Format::Text => sink.write(&found.text())?,
        Format::Json => sink.write(&text::json(&found.json()))?,
    }
    let own = if found.cut_short.is_some() {
        LIMIT
    } else {
        DONE
    };
    Ok(world.finish()?.map_or(own, exit_status))
}

/// Processors that run.
fn online() -> usize {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let is_one = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    stat.lines().filter(is_one).count()
}
