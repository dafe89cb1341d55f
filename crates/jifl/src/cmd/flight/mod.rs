// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl flight`: the flight recorder. The module records what the kernel does into memory, all the
//! time; here recording is started and stopped, and read: live, after a restart, from a dump.

mod add;
mod choice;
mod control;
mod copy;
mod ctf;
mod follow;
mod lines;
mod running;
mod show;
mod slow;
mod start;
mod stats;
mod stats_show;
mod status;
mod viewer;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::base::exit::Failure;

/// Arguments of `jifl flight`.
#[derive(Debug, Args)]
#[command(after_help = "\
The module records events of the kernel into a ring for each CPU: the newest records replace the
oldest. The memory describes itself, so it can be read while it is written, after a panic from a
dump, or after a restart where the memory outlives that. docs/flight.md has the setting up.

Examples:
  jifl flight start --keep --on-warn
  jifl flight show --last 100ms
  jifl flight extract /proc/vmcore")]
pub struct FlightArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Record from now on
    Start(start::StartArgs),
    /// Record executions of places in the kernel's code, too, as an event with values
    Add(add::AddArgs),
    /// End recording, and give its memory back
    Stop,
    /// Record these events from now on, and no others
    Mask(control::MaskArgs),
    /// Stop recording, and keep what is recorded
    Freeze(control::FreezeArgs),
    /// Record again after `freeze`, or after what it was to stop at
    Thaw,
    /// Show what is recorded since when, how fast, and why it stopped
    Status(status::StatusArgs),
    /// Show the records of the recording that runs, or of a copy
    Show(show::ShowArgs),
    /// Show new records as they come
    Follow(follow::FollowArgs),
    /// Copy the recording into a file
    Dump(copy::DumpArgs),
    /// Find a recording in an image of a machine's memory, and show or copy it
    Extract(copy::ExtractArgs),
    /// Show, copy or forget the recording of the boot before this one
    Last(copy::LastArgs),
    /// Show how often events came, what tasks and CPUs did, and the system calls
    Stats(stats_show::StatsArgs),
}

/// A copy of a recording; without it: the recording that runs.
#[derive(Debug, Args)]
struct Source {
    /// A copy (`jifl flight dump`, `extract -o`); without it, the recording that runs
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Runs the command; the result is the exit status.
pub fn run(args: &FlightArgs) -> Result<u8, Failure> {
    match &args.action {
        Action::Start(args) => start::run(args),
        Action::Add(args) => add::run(args),
        Action::Stop => control::stop(),
        Action::Mask(args) => control::mask(args),
        Action::Freeze(args) => control::freeze(args),
        Action::Thaw => control::thaw(),
        Action::Status(args) => status::run(args),
        Action::Show(args) => show::run(args),
        Action::Follow(args) => follow::run(args),
        Action::Dump(args) => copy::dump(args),
        Action::Extract(args) => copy::extract(args),
        Action::Last(args) => copy::last(args),
        Action::Stats(args) => stats_show::run(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parse::check;

    #[test]
    fn the_documented_lines_parse() {
        check::<FlightArgs>(
            &[
                "start --keep --on-warn",
                "start -e sched,io --size 16M --stop-at warn,oops --after 100ms --keep",
                "start --stop-errno ENOSPC -o seen.flight -- tar -cf x y",
                "start --memory flight --keep",
                "start --for 5s",
                "stop",
                "mask -e sched,sys",
                "freeze --after 1s",
                "thaw",
                "status -f json",
                "show",
                "show seen.flight --last 100ms -e sys -p 12 -f ndjson -o out",
                "show -f ctf -o trace",
                "follow -e sched -p 1 --for 2s",
                "dump -o seen.flight",
                "dump --memory flight -o seen.flight",
                "extract /proc/vmcore -o seen.flight",
                "extract memory.bin --raw --last 1s -f perfetto -o x",
                "last --memory flight",
                "last --memory flight --forget",
                "stats seen.flight -f json",
            ],
            &[
                "",
                "start --keep --for 5s",
                "start --keep -- true",
                "start --size 0",
                "mask",
                "show a b",
                "show -f xml",
                "dump",
                "extract",
                "last",
                "last --memory flight --forget -f text",
            ],
        );
    }
}
