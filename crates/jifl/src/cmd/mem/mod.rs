// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl mem`: what system calls load and store.

mod accessed;
mod drmemtrace;
mod layout;
mod summary;

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use jifl_sys::abi::Kind;
use serde::Serialize;

use self::drmemtrace::Trace;
use self::layout::Layout;
use self::summary::{Region, Summary};
use crate::base::exit::Failure;
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::session::blocks::Show;
use crate::session::device;
use crate::session::measure::Session;
use crate::session::report;
use crate::session::ring::{self, WaitArgs, Waits};
use crate::session::scope::{Outcome, Scope};
use crate::session::targets;
use crate::show::output::{self, Format};
use crate::show::table::table_within;
use crate::show::text;
use crate::show::text::grouped;

/// Arguments of `jifl mem`.
#[derive(Debug, Args)]
#[command(after_help = "\
TARGET is sys:NAME, sys:GLOB or sys:NUMBER, or a function of the kernel: fn:NAME, fn:GLOB,
fn:NAME@MODULE, or mod:NAME for all functions of a module. Filters that are given must all match.

The session ends with CMD, after --for, or with Ctrl-C. With CMD the exit status is CMD's.
Each repetition of a string instruction counts as an access. Memory that an instruction both
loads and stores counts as both. Functions that run natively are not seen (`jifl status`).

Examples:
  jifl mem sys:read -- cat /etc/hostname
  jifl mem 'sys:*' -n nginx --for 100ms
  jifl mem sys:openat --drmemtrace DIR -- ls")]
pub struct MemArgs {
    #[arg(required = true, value_name = "TARGET", help = targets::HELP)]
    targets: Vec<String>,
    /// Also write all accesses to DIR, a file for each thread, for DynamoRIO's drmemtrace tools
    #[arg(long, value_name = "DIR")]
    drmemtrace: Option<PathBuf>,
    /// Keep this many records, 8 bytes each; later records are lost
    #[arg(long, value_name = "N", default_value_t = 1 << 25)]
    records: usize,
    #[command(flatten)]
    show: Show,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    scope: Scope,
}

/// Runs the command; the result is the exit status.
pub fn run(args: &MemArgs) -> Result<u8, Failure> {
    let table = Table::all();
    let targets = targets::select_here(&args.targets, &table, args.scope.yes)?;
    let session = Session::of(Kind::Mem, args.wait.flag(), targets);
    args.scope.check()?;
    let mut sink = args.show.extent.sink()?;
    let mut trace = args.drmemtrace.as_deref().map(Trace::create).transpose()?;
    let door = device::open()?;
    let (taken, outcome) = ring::observe(&args.scope, &door, session, &table, args.records)?;
    let layout = Layout::of(&door, taken.each().count())?;
    let symbols = Symbols::of_kernel();
    let mut summary = Summary::new(&symbols);
    let (pieces, stray) = taken.pieces();
    let mut sinks: Vec<&mut dyn accessed::Sink> = vec![&mut summary];
    if let Some(trace) = &mut trace {
        sinks.push(trace);
    }
    let untold = accessed::tell(&taken, &layout, &pieces, &mut sinks);
    let losses = Losses {
        lost: taken.lost(),
        beyond_records: taken.refused,
        stray: stray + untold.records + untold.blocks,
        unrecorded_blocks: layout.refused,
        missed: outcome.report.missed(),
        waits: taken.waits,
    };
    let width = args.show.width();
    sink.write(&match args.show.format {
        Format::Text => output::fit(text(&summary, &args.show, width), width),
        Format::Json => json(&summary, &args.show, &outcome, &losses),
    })?;
    note(&summary, &outcome, &losses);
    output::note_lines(&report::adopted(&outcome.report));
    if let Some(trace) = trace {
        trace.finish()?;
    }
    Ok(outcome.exit_status())
}

/// What the figures lack.
#[derive(Serialize)]
struct Losses {
    /// Records and words that were overwritten before they could be taken.
    lost: u64,
    /// Records and words for which there was no room.
    beyond_records: u64,
    /// Records and words after these losses, whose thread is unknown.
    stray: u64,
    /// Copies of blocks made without records.
    unrecorded_blocks: u64,
    /// System calls.
    missed: u64,
    /// Waits that were needed to lose none.
    #[serde(flatten)]
    waits: Waits,
}

impl Losses {
    fn are_none(&self) -> bool {
        self.lost + self.beyond_records + self.stray + self.unrecorded_blocks + self.missed == 0
    }
}

#[derive(Serialize)]
struct Object<'a> {
    command: &'static str,
    calls: u64,
    loads: u64,
    stores: u64,
    bytes_loaded: u64,
    bytes_stored: u64,
    regions: Vec<SumsObject<'a>>,
    objects: Vec<SumsObject<'a>>,
    lines: Vec<LineObject>,
    #[serde(flatten)]
    losses: &'a Losses,
}

#[derive(Serialize)]
struct SumsObject<'a> {
    name: &'a str,
    loads: u64,
    stores: u64,
    bytes_loaded: u64,
    bytes_stored: u64,
}

#[derive(Serialize)]
struct LineObject {
    address: String,
    content: String,
    loads: u64,
    stores: u64,
    threads: usize,
    cpus: usize,
}

fn sums_object<'a>(name: &'a str, sums: &summary::Sums) -> SumsObject<'a> {
    SumsObject {
        name,
        loads: sums.loads,
        stores: sums.stores,
        bytes_loaded: sums.loaded,
        bytes_stored: sums.stored,
    }
}

fn json(summary: &Summary<'_>, show: &Show, outcome: &Outcome, losses: &Losses) -> String {
    let total = summary.total();
    let regions = Region::ALL.map(|region| (region.name(), summary.region(region)));
    text::json(&Object {
        command: "mem",
        calls: calls(outcome),
        loads: total.loads,
        stores: total.stores,
        bytes_loaded: total.loaded,
        bytes_stored: total.stored,
        regions: regions
            .iter()
            .map(|(name, sums)| sums_object(name, sums))
            .collect(),
        objects: show
            .limited(&summary.objects())
            .iter()
            .map(|(name, sums)| sums_object(name, sums))
            .collect(),
        lines: show
            .limited(&summary.lines())
            .iter()
            .map(|(at, line)| LineObject {
                address: format!("{at:#x}"),
                content: summary.content(*at, line),
                loads: line.loads,
                stores: line.stores,
                threads: line.threads.len(),
                cpus: line.cpus.len(),
            })
            .collect(),
        losses,
    })
}

fn calls(outcome: &Outcome) -> u64 {
    outcome.report.rows.iter().map(|row| row.calls).sum()
}

fn header(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn cells(name: &str, sums: &summary::Sums) -> Vec<String> {
    vec![
        name.to_owned(),
        grouped(sums.loads),
        grouped(sums.stores),
        grouped(sums.loaded),
        grouped(sums.stored),
    ]
}

/// Three tables: kinds of memory, variables, cache lines.
fn text(summary: &Summary<'_>, show: &Show, width: Option<usize>) -> String {
    let sums = ["LOADS", "STORES", "LOADED", "STORED"];
    let mut regions = vec![header(&[&["MEMORY"][..], &sums].concat())];
    regions.extend(Region::ALL.map(|region| cells(region.name(), &summary.region(region))));
    regions.push(cells("all", &summary.total()));
    let mut objects = vec![header(&[&["VARIABLE"][..], &sums].concat())];
    let all = summary.objects();
    objects.extend(
        show.limited(&all)
            .iter()
            .map(|(name, sums)| cells(name, sums)),
    );
    let mut lines = vec![header(&[
        "LINE", "CONTENT", "LOADS", "STORES", "THREADS", "CPUS",
    ])];
    lines.extend(show.limited(&summary.lines()).iter().map(|(at, line)| {
        vec![
            format!("{at:#x}"),
            summary.content(*at, line),
            grouped(line.loads),
            grouped(line.stores),
            grouped(line.threads.len() as u64),
            grouped(line.cpus.len() as u64),
        ]
    }));
    [(regions, 1), (objects, 1), (lines, 2)]
        .map(|(lines, names)| table_within(&lines, names, width))
        .join("\n")
}

/// Shown even if nothing was lost: that is worth knowing, too.
fn note(summary: &Summary<'_>, outcome: &Outcome, losses: &Losses) {
    let total = summary.total();
    let mut text = format!(
        "{} calls, {} loads, {} stores; records lost {}, calls missed {}",
        grouped(calls(outcome)),
        grouped(total.loads),
        grouped(total.stores),
        grouped(losses.lost),
        grouped(losses.missed)
    );
    for (n, what) in [
        (losses.beyond_records, "beyond --records are not shown"),
        (losses.stray, "that follow lost ones are not shown"),
        (
            losses.unrecorded_blocks,
            "copies of blocks are not recorded, for want of room",
        ),
    ] {
        if n > 0 {
            let _ = write!(text, "; {} {what}", grouped(n));
        }
    }
    if !losses.are_none() {
        text += ": the figures are too low";
    }
    output::note(&(text + &losses.waits.text()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parse::parse;

    #[test]
    fn the_documented_lines_parse() {
        for line in [
            "sys:read -- cat /etc/hostname",
            "sys:* -n nginx --for 100ms",
            "sys:openat --drmemtrace DIR -- ls",
            "sys:openat --records 1000 --limit 3 -f json",
        ] {
            assert!(parse::<MemArgs>(line).is_ok(), "{line}");
        }
        assert!(parse::<MemArgs>("").is_err());
    }
}
