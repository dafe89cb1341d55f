// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl prof --paths`: the session that counts by call path, and the files that show it.

use std::path::{Path, PathBuf};

use clap::Args;
use jifl_sys::abi::{CallPath, FLAG_CLOCK, Kind, PATH_REFUSED, PATH_STRAYS, PATH_UNTIMED};
use serde::Serialize;

use super::base::Base;
use super::entries::tree;
use super::folded::folded;
use super::groups::text::Page;
use super::groups::{Group, Groups};
use super::json::Paths;
use super::metric::Metric;
use super::perfetto::perfetto;
use super::pprof::pprof;
use super::speedscope::speedscope;
use super::svg::svg;
use super::text::text;
use super::tree::Tree;
use crate::base::exit::Failure;
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::session::blocks::Show;
use crate::session::measure::Session;
use crate::session::report::{self, Report};
use crate::session::scope::{self, Scope};
use crate::session::{device, table, targets};
use crate::show::output::{self, Format, Sink};
use crate::show::text::{grouped, json};

/// Options of `jifl prof` for call paths.
#[derive(Debug, Args)]
pub struct PathsArgs {
    /// Count by call path, and order the paths by METRIC, which is insn if none is given
    #[arg(
        long,
        value_enum,
        value_name = "METRIC",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "insn"
    )]
    paths: Option<Metric>,
    /// What the text has a line for
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        default_value_t,
        requires = "paths"
    )]
    group: Group,
    /// Compare with FILE, which --folded has written of the same metric
    #[arg(long, value_name = "FILE", requires = "paths")]
    base: Option<PathBuf>,
    /// Also write FILE for `go tool pprof`
    #[arg(long, value_name = "FILE", requires = "paths")]
    pprof: Option<PathBuf>,
    /// Also write FILE for speedscope
    #[arg(long, value_name = "FILE", requires = "paths")]
    speedscope: Option<PathBuf>,
    /// Also write FILE for Perfetto: a slice for each path, as wide as METRIC is large
    #[arg(long, value_name = "FILE", requires = "paths")]
    perfetto: Option<PathBuf>,
}

/// What is written beside the report.
pub struct Files<'a> {
    /// Folded stacks.
    pub folded: Option<&'a Path>,
    /// A flame graph.
    pub svg: Option<&'a Path>,
}

/// The files, open.
struct Sinks {
    folded: Option<Sink>,
    svg: Option<Sink>,
    pprof: Option<Sink>,
    speedscope: Option<Sink>,
    perfetto: Option<Sink>,
}

/// What was counted.
struct Counted {
    tree: Tree,
    report: Report,
    /// Calls that found no path of their own.
    refused: u64,
    /// Returns of no function on the path.
    strays: u64,
    /// Calls of targets without times.
    untimed: u64,
}

#[derive(Serialize)]
struct Object {
    command: &'static str,
    metric: &'static str,
    total: u64,
    #[serde(flatten)]
    paths: Paths,
    #[serde(flatten)]
    groups: Groups,
    calls: u64,
    missed: u64,
    without_path: u64,
    stray_returns: u64,
    without_times: u64,
    cut_short: bool,
    duration_ns: u64,
}

impl PathsArgs {
    /// The metric, if paths are wanted.
    pub fn metric(&self) -> Option<Metric> {
        self.paths
    }

    /// Refuses options that do not go together.
    fn check(&self) -> Result<(), Failure> {
        match (&self.base, self.group) {
            (Some(_), Group::Edge) => Err(Failure::usage(
                "--base goes with --group path, function and module",
            )),
            _ => Ok(()),
        }
    }

    fn base(&self) -> Result<Option<Base>, Failure> {
        let Some(path) = self.base.as_deref() else {
            return Ok(None);
        };
        let named = |why: String| Failure::failed(format!("{}: {why}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| named(error.to_string()))?;
        let base = Base::parse(&text).map_err(|failure| named(failure.message))?;
        Ok(Some(base))
    }

    fn open(&self, files: &Files<'_>) -> Result<Sinks, Failure> {
        let open = |path: Option<&Path>| path.map(Sink::file).transpose();
        Ok(Sinks {
            folded: open(files.folded)?,
            svg: open(files.svg)?,
            pprof: open(self.pprof.as_deref())?,
            speedscope: open(self.speedscope.as_deref())?,
            perfetto: open(self.perfetto.as_deref())?,
        })
    }
}

/// Runs the session and writes what it has counted. The result is the exit status.
///
/// # Errors
/// The session is refused, the command cannot be run, or something cannot be read or written.
pub fn run(
    names: &[String],
    args: &PathsArgs,
    files: &Files<'_>,
    show: &Show,
    scope: &Scope,
) -> Result<u8, Failure> {
    let metric = args.metric().unwrap_or(Metric::Insn);
    args.check()?;
    let calls = Table::all();
    let selected = targets::select_here(names, &calls, scope.yes)?;
    let flags = if metric.is_time() { FLAG_CLOCK } else { 0 };
    let session = Session::of(Kind::Tree, flags, selected);
    scope.check()?;
    let base = args.base()?;
    let mut sink = show.extent.sink()?;
    let sinks = args.open(files)?;
    let door = device::open()?;
    let (outcome, ()) = scope::observe(scope, &door, session, &calls, None, |_| ())?;
    let status = outcome.exit_status();
    let (entries, rest) = table::read::<CallPath>(&door, "reading the call paths")?;
    let counted = Counted {
        tree: tree(&entries, &Symbols::of_kernel()),
        report: outcome.report,
        refused: rest[PATH_REFUSED],
        strays: rest[PATH_STRAYS],
        untimed: rest[PATH_UNTIMED],
    };
    counted.note();
    let written = sinks.write(&counted.tree, metric, base.as_ref());
    sink.write(&counted.shown(metric, args.group, base.as_ref(), show))
        .and(written)?;
    Ok(status)
}

impl Sinks {
    fn write(self, tree: &Tree, metric: Metric, base: Option<&Base>) -> Result<(), Failure> {
        let text = |sink: Option<Sink>, text: &dyn Fn() -> Result<String, Failure>| {
            sink.map_or(Ok(()), |mut sink| sink.write(&text()?))
        };
        let bytes = |sink: Option<Sink>, bytes: &dyn Fn() -> Vec<u8>| {
            sink.map_or(Ok(()), |mut sink| sink.write_bytes(&bytes()))
        };
        let stacks = tree.folded(metric);
        let all = [
            text(self.folded, &|| Ok(folded(&stacks))),
            text(self.svg, &|| svg(&stacks, metric, base)),
            text(self.speedscope, &|| Ok(speedscope(tree, metric))),
            bytes(self.pprof, &|| pprof(tree, metric)),
            bytes(self.perfetto, &|| perfetto(tree, metric)),
        ];
        all.into_iter().collect()
    }
}

impl Counted {
    /// What is to be known beside the data.
    fn note(&self) {
        self.report.note();
        if self.refused > 0 {
            output::note(&format!(
                "jifl: {} calls found no room for a path, and are parts of their callers: load the \
                 module with a larger tree_nodes",
                grouped(self.refused)
            ));
        }
    }

    fn shown(&self, metric: Metric, group: Group, base: Option<&Base>, show: &Show) -> String {
        match show.format {
            Format::Text => {
                let table = self.table(metric, group, base, show);
                table + &output::fit(self.cost(metric), show.width())
            }
            Format::Json => json(&Object {
                command: "prof",
                metric: metric.name(),
                total: self.tree.total(metric),
                paths: Paths::of(&self.tree),
                groups: Groups::of(&self.tree),
                calls: self.report.rows.iter().map(|row| row.calls).sum(),
                missed: self.report.missed(),
                without_path: self.refused,
                stray_returns: self.strays,
                without_times: self.untimed,
                cut_short: self.report.cut_short,
                duration_ns: self.report.duration_ns,
            }),
        }
    }

    /// The lines that a text begins with.
    fn table(&self, metric: Metric, group: Group, base: Option<&Base>, show: &Show) -> String {
        let (limit, width) = (show.extent.lines(true), show.width());
        let groups = || Groups::of(&self.tree);
        let page = Page {
            metric,
            total: self.tree.total(metric),
            base,
            limit,
            width,
        };
        match group {
            Group::Path => text(&self.tree, metric, base, limit, width),
            Group::Function => page.functions(&groups().functions),
            Group::Edge => page.edges(&groups().edges),
            Group::Module => page.modules(&groups().modules),
        }
    }

    /// The lines that a text ends with.
    fn cost(&self, metric: Metric) -> String {
        let mut text = format!(
            "# {} {} in all; calls without a path of their own {}, stray returns {}",
            grouped(self.tree.total(metric)),
            metric.unit(),
            grouped(self.refused),
            grouped(self.strays),
        );
        if metric.is_time() {
            text += &format!(", calls without times {}", grouped(self.untimed));
        }
        text + "\n" + &report::cost(&self.report)
    }
}
