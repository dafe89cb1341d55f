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
pub mod order;
mod remote;
mod show;
mod sleepers;
mod stacks;
#[cfg(test)]
mod tests;
mod tree;
mod vitals;
mod walk;
pub mod world;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use jifl_sys::os;
use rustix::event::{PollFd, PollFlags, Timespec};
use serde_json::Value as Json;

use self::order::{Grown, Order};
use self::world::Ways;
use crate::base::duration;
use crate::base::exit::{DONE, Failure, LIMIT};
use crate::cmd::remote::host::Host;
use crate::cmd::stat::source::{self, Kernel};
use crate::kernel::lines::LinesArgs;
use crate::session::scope::{exit_status, gate, not_run};
use crate::show::output::{self, Format, Sink};
use crate::show::text;

/// Why a search ends that somebody has ended.
pub const INTERRUPTED: &str = "it was interrupted";

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
  jifl search --budget 1 --threshold disk=1 -f json
  jifl --host db1 search --for 20s")]
pub struct SearchArgs {
    /// Only this process, and its descendants
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pid: Option<i32>,
    /// End the search after this time, with what is known by then
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    time: Duration,
    /// Percent of the processors' time that inserted code may take
    #[arg(long, value_name = "PERCENT", default_value_t = order::BUDGET)]
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

impl SearchArgs {
    fn order(&self) -> Order {
        Order {
            pid: self.pid,
            for_ms: u64::try_from(self.time.as_millis())
                .unwrap_or(u64::MAX)
                .max(1),
            budget: self.budget,
            thresholds: self.threshold.clone(),
        }
    }

    fn write(&self, sink: &mut Sink, grown: &Grown) -> Result<(), Failure> {
        match self.format {
            Format::Text => sink.write(&grown.text),
            Format::Json => sink.write(&text::json(&grown.report)),
        }
    }
}

/// Runs the command; the result is the exit status. `host`: whose machine is searched; without it
/// this one.
///
/// # Errors
/// The machine cannot, or an argument makes no sense.
pub fn run(args: &SearchArgs, host: Option<&Host>) -> Result<u8, Failure> {
    let order = args.order();
    order.understand()?;
    if let Some(host) = host {
        return remote::run(args, &order, host);
    }
    source::check()?;
    // Before the sink is opened, which empties a file.
    order.check_process()?;
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
    let ways = Ways {
        source: Kernel::default(),
        stop: Box::new(move || is_readable(&interrupt).then_some(INTERRUPTED)),
        tell: Box::new(|found| note(&found.json())),
    };
    let (found, world) = order.search(ways, child, &args.lines)?;
    let grown = Grown::of(&found);
    args.write(&mut sink, &grown)?;
    let own = if grown.is_cut_short() { LIMIT } else { DONE };
    Ok(world.finish()?.map_or(own, exit_status))
}

/// Tells a person what is being done.
fn note(report: &Json) {
    if let Some(doing) = report["doing"].as_str()
        && std::io::stderr().is_terminal()
    {
        let seconds = report["elapsed_ns"].as_f64().unwrap_or(0.0) / 1e9;
        output::note(&format!("# {seconds:.1} s: {doing}"));
    }
}

fn is_readable(stream: &UnixStream) -> bool {
    let mut events = [PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let polled = rustix::event::poll(&mut events, Some(&at_once));
    polled.is_ok() && !events[0].revents().is_empty()
}
