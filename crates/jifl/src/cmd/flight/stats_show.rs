// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl flight stats`: the sums, as tables or as JSON.

use std::cmp::Reverse;

use clap::Args;

use super::stats::{Call, Stats};
use super::{Source, show};
use crate::base::duration;
use crate::base::exit::{DONE, Failure};
use crate::session::flight::Flight;
use crate::show::output::{self, Extent, Format};
use crate::show::table::table_within;
use crate::show::text::{self, grouped, percent};

/// Arguments of `jifl flight stats`.
#[derive(Debug, Args)]
#[command(after_help = "\
All figures are of the records that are in memory. Times of tasks and CPUs are made of sched_switch,
those of system calls of their entries and exits on one thread. A task is runnable from its wakeup
on if sched_wakeup is recorded; else the time until it runs counts for the state before. Times over
which records are missing do not count: TIME of a CPU is that of which it is known what ran.

Examples:
  jifl flight stats
  jifl flight stats crash.flight --limit 10
  jifl flight stats -f json -o stats.json")]
pub struct StatsArgs {
    #[command(flatten)]
    source: Source,
    /// How it is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    #[command(flatten)]
    extent: Extent,
}

/// Runs the command.
pub fn run(args: &StatsArgs) -> Result<u8, Failure> {
    let flight = show::read(args.source.file.as_deref())?;
    let stats = Stats::of(&flight);
    let mut sink = args.extent.sink()?;
    sink.write(&match args.format {
        Format::Text => people(&stats, args.extent.lines(true), args.extent.width()),
        Format::Json => text::json(&program(&flight, &stats)),
    })?;
    output::note(&show::said(&flight.total(), flight.entries.len()));
    Ok(DONE)
}

fn program(flight: &Flight, stats: &Stats) -> serde_json::Value {
    let mut object = show::about(flight);
    object["command"] = "flight stats".into();
    object["stats"] = serde_json::to_value(stats).expect("plain structures always serialize");
    object
}

type Lines = Vec<Vec<String>>;

fn heading(words: &str) -> Lines {
    vec![words.split(' ').map(str::to_owned).collect()]
}

/// Tables of `limit` lines at most.
fn people(stats: &Stats, limit: usize, width: Option<usize>) -> String {
    let tables = [events(stats), cpus(stats), tasks(stats), calls(stats)];
    let mut text = format!("{} of records\n", duration::show(stats.span_ns));
    for mut lines in tables {
        if lines.len() > 1 {
            let left_out = lines.len().saturating_sub(1 + limit);
            lines.truncate(1 + limit);
            text += &format!("\n{}", table_within(&lines, 1, width));
            if left_out > 0 {
                text += &format!("# {left_out} more lines: --limit\n");
            }
        }
    }
    text
}

fn events(stats: &Stats) -> Lines {
    let mut lines = heading("EVENT RECORDS PER-SECOND");
    let mut all: Vec<_> = stats.events.iter().collect();
    all.sort_by_key(|(_, count)| Reverse(**count));
    lines.extend(all.into_iter().map(|(name, count)| {
        let rate = stats.rate(*count).round() as u64;
        vec![name.clone(), grouped(*count), grouped(rate)]
    }));
    lines
}

fn cpus(stats: &Stats) -> Lines {
    let mut lines = heading("CPU BUSY TIME SWITCHES");
    for (cpu, of) in stats.cpus.iter().enumerate() {
        // Without a switch it is not known which tasks ran.
        if of.switches > 0 {
            lines.push(vec![
                cpu.to_string(),
                percent(of.busy_ns, of.known_ns),
                duration::show(of.known_ns),
                grouped(of.switches),
            ]);
        }
    }
    lines
}

fn tasks(stats: &Stats) -> Lines {
    let mut lines = heading("TASK TID RUNNING SWITCHES RUNNABLE SLEEPING BLOCKED OTHER");
    let mut all: Vec<_> = stats.tasks.iter().collect();
    let running = |states: &std::collections::BTreeMap<String, u64>| {
        states.get("running").copied().unwrap_or(0)
    };
    all.sort_by_key(|(_, task)| Reverse(running(&task.states)));
    for (tid, task) in all {
        let sum = |is: fn(&str) -> bool| {
            let times = task.states.iter().filter(|(state, _)| is(state));
            duration::show(times.map(|(_, time)| time).sum())
        };
        lines.push(vec![
            task.name.clone().unwrap_or_else(|| "?".into()),
            tid.to_string(),
            sum(|state| state == "running"),
            grouped(task.switches),
            sum(|state| state == "runnable"),
            sum(|state| state.starts_with('S')),
            sum(|state| state.starts_with('D')),
            sum(|state| !state.starts_with(['S', 'D', 'r'])),
        ]);
    }
    lines
}

fn calls(stats: &Stats) -> Lines {
    let mut lines = heading("SYSCALL CALLS ERRORS TIME MEAN");
    let mut all: Vec<_> = stats.calls.iter().collect();
    let count = |call: &Call| call.entered.max(call.returned);
    all.sort_by_key(|(_, call)| Reverse((call.total_ns, count(call))));
    for (name, call) in all {
        let mean = call.total_ns.checked_div(call.timed);
        lines.push(vec![
            name.clone(),
            grouped(count(call)),
            grouped(call.errors),
            duration::show(call.total_ns),
            mean.map_or_else(|| "-".into(), duration::show),
        ]);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::flight::made::Made;

    #[test]
    fn tables_begin_with_what_matters_most() {
        let flight = Flight::read(&mut Made::sample().region()).unwrap();
        let stats = Stats::of(&flight);
        let text = people(&stats, 30, None);
        let words: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        let behind = |heading: &str| {
            let at = words
                .iter()
                .position(|line| line.first() == Some(&heading))
                .unwrap();
            words[at + 1].join(" ")
        };
        assert_eq!(words[0].join(" "), "9.0 us of records");
        assert_eq!(behind("EVENT"), "sched_switch 5 555,556");
        assert_eq!(behind("CPU"), "0 76.5% 8.5 us 3");
        assert_eq!(behind("TASK"), "tar 101 6.5 us 2 0 ns 2.0 us 0 ns 0 ns");
        assert_eq!(behind("SYSCALL"), "read 1 0 3.5 us 3.5 us");
        assert!(people(&stats, 1, None).contains("# 2 more lines: --limit"));
        let object = program(&flight, &stats);
        assert_eq!(object["stats"]["calls"]["openat"]["errors"], 1);
    }
}
