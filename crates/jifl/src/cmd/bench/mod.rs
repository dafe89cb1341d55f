// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl bench`: the cost of instrumentation, by JIFL and by its peers.

mod chart;
mod clock;
mod cold;
mod front_end;
mod goals;
mod here;
mod instruments;
mod machine;
mod memory;
mod micro;
mod pace;
pub mod peers;
mod peers_command;
mod programs;
mod report;
mod results;
mod series;
mod sheet;
mod stats;
mod text;
mod validity;
mod web;

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jifl_sys::micro::{OPS, Op};
pub use peers_command::{PeersArgs, run as run_peers};

use crate::base::environment::Environment;
use crate::base::exit::Failure;
use crate::show::output::Format;
use clock::Clock;
use instruments::{EFFECTS, INSTRUMENTS, Instrument, What};
use peers::Job;
use report::Report;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Set {
    /// Operations of few system calls each, in the steady state
    Micro,
    /// The same under a block count, with and without liveness and inlining
    Effect,
    /// What it costs to begin, and to translate
    Cold,
    /// A compile, against the memory given to the cache
    Memory,
    /// A web server's throughput and latency
    Web,
}

impl Set {
    /// Its name, in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Set::Micro => "micro",
            Set::Effect => "effect",
            Set::Cold => "cold",
            Set::Memory => "memory",
            Set::Web => "web",
        }
    }

    /// Its possible rows.
    fn rows(self) -> &'static [Instrument] {
        match self {
            Set::Effect => EFFECTS,
            Set::Micro | Set::Cold | Set::Memory | Set::Web => INSTRUMENTS,
        }
    }

    /// True if it has this row when no rows are asked for. Under an emulator (`slow`), time tells
    /// little about rows that differ by a few instructions.
    fn has_by_itself(self, row: &Instrument, slow: bool) -> bool {
        let keys: &[&str] = match self {
            Set::Micro if slow => &["none", "call", "block", "trace", "blocks"],
            Set::Memory => &["none", "call", "block", "insn", "trace"],
            Set::Web => &["none", "call", "block", "trace"],
            Set::Micro | Set::Effect | Set::Cold => return true,
        };
        match row.what {
            What::Native => true,
            What::Peer(_, job) => self != Set::Web || job == Job::TraceCalls,
            What::Session(..)
            | What::Cold(_)
            | What::Functions(_)
            | What::All(_)
            | What::Busiest(_) => keys.contains(&row.key),
        }
    }

    /// The clocks for this set; if `wanted` is empty, those that suit it.
    fn clocks(self, wanted: &[Clock]) -> Vec<Clock> {
        let suits = match self {
            Set::Micro => vec![Clock::Instructions, Clock::Time],
            Set::Effect | Set::Cold | Set::Memory => vec![Clock::Instructions],
            Set::Web => vec![Clock::Time],
        };
        // The front-end clock's counts come round by round, from the micro set only.
        let others: Vec<Clock> = wanted
            .iter()
            .copied()
            .filter(|clock| *clock != Clock::FrontEnd || self == Set::Micro)
            .collect();
        match wanted {
            [] => suits,
            _ if others.is_empty() => others,
            // The web set can be measured by time only.
            _ if self == Set::Web => suits,
            _ => others,
        }
    }
}

/// Arguments of `jifl bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Runs in throwaway machines, as `jifl vm` makes them; with --here on this machine, as root and
with the module loaded. A row is void if its instrumentation did not count what it should. A row
is missing if this kernel lacks its instrumentation. The output says why.

Examples:
  jifl bench --set micro --clock instructions --json costs.json --svg charts
  jifl bench --kernel 6.12 --op null --op read --row block
  jifl bench --here --set micro")]
pub struct BenchArgs {
    /// Measure this machine, not throwaway ones
    #[arg(long)]
    here: bool,
    /// Kernels of the machines, as `jifl vm` takes them; may be given several times
    #[arg(
        long,
        value_name = "6.1|6.12|PATH",
        default_value = "6.1",
        conflicts_with = "here"
    )]
    kernel: Vec<String>,
    /// Measure nothing: show, draw and join results that were written to FILE as JSON; may be given
    /// several times
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "here", "kernel", "set", "clock", "op", "row", "cache_kb", "rounds", "repeats",
            "append",
        ]
    )]
    from: Vec<PathBuf>,
    /// What to measure; may be given several times [default: all]
    #[arg(long, value_enum, value_name = "SET")]
    set: Vec<Set>,
    /// The clock to measure by; may be given several times [default: clocks that suit the set]
    #[arg(long, value_enum, value_name = "CLOCK")]
    clock: Vec<Clock>,
    /// In the micro and effect sets, measure only this operation; may be given several times
    #[arg(long, value_name = "NAME")]
    op: Vec<String>,
    /// Measure only this row and the uninstrumented one; may be given several times
    #[arg(long, value_name = "KEY")]
    row: Vec<String>,
    /// For the memory set: KiB of code, and as many of tables; may be given several times
    #[arg(long, value_name = "KB", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    cache_kb: Vec<u64>,
    /// Rounds of an operation under an instrumentation; for the web set, requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// With --clock time: how often the instrumentations take turns
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    repeats: Option<u64>,
    /// More kernel parameters of the machines; may be given several times
    #[arg(
        long,
        value_name = "ARGS",
        allow_hyphen_values = true,
        conflicts_with = "here"
    )]
    append: Vec<String>,
    /// Stop a machine after S seconds; 0: never
    #[arg(long, value_name = "S", default_value_t = 3600)]
    timeout: u64,
    /// How results are written to stdout
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    /// Write the results to FILE as JSON, too; after each table, all results so far
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw a chart of each table into DIRECTORY
    #[arg(long, value_name = "DIRECTORY")]
    svg: Option<PathBuf>,
}

impl BenchArgs {
    fn sets(&self) -> Vec<Set> {
        match self.set.as_slice() {
            [] => Set::value_variants().to_vec(),
            sets => sets.to_vec(),
        }
    }

    fn sizes(&self) -> Vec<u64> {
        match self.cache_kb.as_slice() {
            [] => memory::SIZES.to_vec(),
            sizes => sizes.to_vec(),
        }
    }

    fn ops(&self) -> Result<Vec<Op>, Failure> {
        if self.op.is_empty() {
            return Ok(OPS.to_vec());
        }
        let find = |name: &String| {
            let found = OPS.iter().find(|op| op.name == name);
            found.copied().ok_or_else(|| {
                let names: Vec<&str> = OPS.iter().map(|op| op.name).collect();
                Failure::usage(format!(
                    "no operation {name:?}: there are {}",
                    names.join(", ")
                ))
            })
        };
        self.op.iter().map(find).collect()
    }

    /// Of the sets together: each takes what is its own.
    fn check_rows(&self) -> Result<(), Failure> {
        let mut all: Vec<&str> = Vec::new();
        for set in self.sets() {
            all.extend(set.rows().iter().map(|row| row.key));
        }
        let lacking = self.row.iter().find(|key| !all.contains(&key.as_str()));
        lacking.map_or(Ok(()), |key| {
            let mut seen = BTreeSet::new();
            all.retain(|key| seen.insert(*key));
            let all = all.join(", ");
            Err(Failure::usage(format!("no row {key:?}: there are {all}")))
        })
    }

    /// The uninstrumented one comes first, whether it is asked for or not.
    fn rows(&self, set: Set, clock: Clock) -> Vec<Instrument> {
        let slow = clock == Clock::Time && Environment::here().accelerator == "tcg";
        let wanted = |row: &&Instrument| match self.row.as_slice() {
            [] if clock == Clock::FrontEnd => {
                row.what == What::Native || ["none", "call", "block"].contains(&row.key)
            }
            [] => set.has_by_itself(row, slow),
            keys => row.what == What::Native || keys.iter().any(|key| key == row.key),
        };
        set.rows().iter().filter(wanted).copied().collect()
    }
}

/// Runs the command; the result is the exit status.
pub fn run(args: BenchArgs) -> Result<u8, Failure> {
    args.ops()?;
    args.check_rows()?;
    if args.here && front_end::directory().is_none() && args.clock.contains(&Clock::FrontEnd) {
        return Err(Failure::usage(
            "--clock front-end is a model in the machine that runs the kernel: not with --here",
        ));
    }
    // Read before anything is written: the results may go to the same file.
    let earlier = report::read_all(&args.from)?;
    let mut report = Report::new(&args)?;
    if !args.from.is_empty() {
        report.add_earlier(earlier)?;
    } else if args.here {
        here::measure(&args, |sheet| report.add(sheet))?;
    } else {
        machine::run_all(&args, |sheet| report.add(sheet))?;
    }
    report.end()
}
