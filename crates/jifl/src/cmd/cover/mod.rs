// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl cover`: which code system calls have executed.

mod drcov;
mod html;
mod lcov;
mod source;

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use jifl_sys::abi::FLAG_BRANCHES;
use serde::Serialize;

use crate::base::exit::Failure;
use crate::kernel::lines::{Build, LinesArgs, Opened};
use crate::session::blocks::{self, Function, Profile, ProfileArgs, Shown, Summary, View};
use crate::show::output::{self, Format, Sink};
use crate::show::table::table_within;
use crate::show::text;
use crate::show::text::grouped;
use crate::show::text::percent;

/// Arguments of `jifl cover`.
#[derive(Debug, Args)]
#[command(after_help = "\
TARGET is sys:NAME, sys:GLOB or sys:NUMBER, or a function of the kernel: fn:NAME, fn:GLOB,
fn:NAME@MODULE, or mod:NAME for all functions of a module. Filters that are given must all match.

The session ends with CMD, after --for, or with Ctrl-C. With CMD the exit status is CMD's.
BLOCKS: executed blocks, of the translated ones. Code behind a branch is translated, too.
COVERED: executed bytes, of the function's, which ends where the next function begins.
EDGES: executed edges, of the two (taken and not taken) of each translated branch.

Examples:
  jifl cover sys:openat -- cat /etc/hostname
  jifl cover 'sys:*' --drcov kernel.drcov -- ./test
  jifl cover 'sys:*' --edges --html pages -- ./test
  jifl cover 'sys:*' --lcov kernel.info --vmlinux vmlinux -- ./test")]
pub struct CoverArgs {
    #[command(flatten)]
    options: CoverOptions,
    #[command(flatten)]
    lines: LinesArgs,
    #[command(flatten)]
    profile: ProfileArgs,
}

/// Options of `jifl cover` that `jifl report` has, too.
#[derive(Debug, Args)]
pub struct CoverOptions {
    /// Also write executed blocks in drcov's format
    #[arg(long, value_name = "FILE")]
    drcov: Option<PathBuf>,
    /// Also write lcov's format: functions, and lines where debug information is found
    #[arg(long, value_name = "FILE")]
    lcov: Option<PathBuf>,
    /// Also write pages into a directory: functions, and source lines where they are known
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
    /// Count edges of branches, too
    #[arg(long)]
    edges: bool,
}

#[derive(Serialize)]
struct Object<'a> {
    command: &'static str,
    functions: Vec<FunctionObject<'a>>,
    #[serde(flatten)]
    summary: Summary,
}

#[derive(Serialize)]
struct FunctionObject<'a> {
    function: &'a str,
    address: String,
    size: u64,
    bytes_executed: u64,
    blocks: usize,
    blocks_executed: usize,
    instructions: u64,
    calls: u64,
    edges: Option<usize>,
    edges_executed: Option<usize>,
}

/// Runs the command; the result is the exit status.
pub fn run(args: &CoverArgs) -> Result<u8, Failure> {
    let flags = if args.options.edges { FLAG_BRANCHES } else { 0 };
    let view = args.options.view(&args.lines, Build::running())?;
    blocks::run(&args.profile, flags, view)
}

impl CoverOptions {
    /// True if any option was given.
    pub fn are_given(&self) -> bool {
        self.drcov.is_some() || self.edges || self.want_lines()
    }

    fn want_lines(&self) -> bool {
        self.lcov.is_some() || self.html.is_some()
    }

    /// Opens the files, and the sources of the kernel with this build.
    pub fn view(&self, lines: &LinesArgs, build: Build) -> Result<View<'_>, Failure> {
        let opened = if self.want_lines() {
            Some(lines.open(build)?)
        } else {
            lines.need_none()?;
            None
        };
        let to_drcov = self.drcov.as_deref().map(Sink::file).transpose()?;
        let to_lcov = self.lcov.as_deref().map(Sink::file).transpose()?;
        self.html.as_deref().map_or(Ok(()), html::make)?;
        Ok(Box::new(move |profile, show| {
            let mut reached = blocks::functions(&profile.blocks, &profile.symbols);
            let drcov =
                to_drcov.map_or(Ok(()), |mut sink| sink.write_bytes(&drcov::render(profile)));
            let sources = opened.map_or(Ok(()), |opened| {
                self.write_sources(profile, &reached, opened, to_lcov)
            });
            reached.retain(|function| function.executed() > 0);
            reached.sort_by(|a, b| (&a.name, a.address).cmp(&(&b.name, b.address)));
            let shown = show.limited(&reached);
            let text = match show.format {
                Format::Text => {
                    let text = text(profile, &reached, shown, self.edges, show.width());
                    output::fit(text, show.width())
                }
                Format::Json => json(profile, shown, self.edges),
            };
            let files = drcov.and(sources);
            Ok(Shown { text, files })
        }))
    }

    /// Notes about source files.
    fn write_sources(
        &self,
        profile: &Profile,
        functions: &[Function<'_>],
        opened: Opened,
        to_lcov: Option<Sink>,
    ) -> Result<(), Failure> {
        let lines = opened.lines(&profile.symbols);
        let records = source::records(profile, functions, &lines, self.edges);
        lines.note(profile.modules(&profile.blocks));
        let lcov = to_lcov.map_or(Ok(()), |mut sink| {
            sink.write(&lcov::render(&records, &lines))
        });
        let html = self.html.as_deref().map_or(Ok(()), |dir| {
            html::write(dir, functions, self.edges, &records, &lines)
        });
        lcov.and(html)
    }
}

fn text(
    profile: &Profile,
    reached: &[Function<'_>],
    shown: &[Function<'_>],
    edges: bool,
    width: Option<usize>,
) -> String {
    let titles = ["FUNCTION", "BLOCKS", "EDGES", "INSNS", "BYTES", "COVERED"];
    let mut lines = vec![titles.map(str::to_owned).to_vec()];
    lines.extend(shown.iter().map(|function| {
        let (seen, known) = function.edges();
        vec![
            function.name.clone(),
            format!("{}/{}", function.executed(), function.blocks.len()),
            format!("{seen}/{known}"),
            grouped(function.instructions()),
            format!("{}/{}", function.bytes(), function.size),
            percent(function.bytes(), function.size),
        ]
    }));
    if !edges {
        for line in &mut lines {
            line.remove(2);
        }
    }
    let mut text = table_within(&lines, 1, width);
    let _ = writeln!(
        text,
        "# {} functions reached{}; {} of {} blocks executed{}",
        grouped(reached.len() as u64),
        match shown.len() {
            n if n < reached.len() => format!(", {n} shown (--limit)"),
            _ => String::new(),
        },
        grouped(profile.executed().count() as u64),
        grouped(profile.blocks.len() as u64),
        match blocks::edges(&profile.blocks) {
            (seen, known) if edges => {
                format!(
                    ", {} of {} edges",
                    grouped(seen as u64),
                    grouped(known as u64)
                )
            }
            _ => String::new(),
        }
    );
    text + &profile.cost()
}

fn object<'a>(function: &'a Function<'_>, edges: bool) -> FunctionObject<'a> {
    let counted = edges.then(|| function.edges());
    FunctionObject {
        function: &function.name,
        address: format!("{:#x}", function.address),
        size: function.size,
        bytes_executed: function.bytes(),
        blocks: function.blocks.len(),
        blocks_executed: function.executed(),
        instructions: function.instructions(),
        calls: function.calls(),
        edges: counted.map(|(_, known)| known),
        edges_executed: counted.map(|(seen, _)| seen),
    }
}

fn json(profile: &Profile, shown: &[Function<'_>], edges: bool) -> String {
    let object = |function| object(function, edges);
    text::json(&Object {
        command: "cover",
        functions: shown.iter().map(object).collect(),
        summary: profile.summary(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parse::{check, parse};
    use crate::session::blocks::tests::sample;

    #[test]
    fn the_documented_lines_parse() {
        check::<CoverArgs>(
            &[
                "sys:openat -- cat /etc/hostname",
                "sys:* --drcov kernel.drcov -- ./test",
                "sys:* --edges --html pages -- ./test",
                "sys:* --lcov kernel.info --vmlinux vmlinux -- ./test",
            ],
            &["", "sys:read --html", "sys:read --drcov"],
        );
        let unused: CoverArgs = parse("sys:read --vmlinux x").unwrap();
        assert_eq!(run(&unused).unwrap_err().status, crate::base::exit::USAGE);
    }

    #[test]
    fn functions_by_name() {
        let profile = sample();
        let mut reached = blocks::functions(&profile.blocks, &profile.symbols);
        reached.reverse();
        assert_eq!(
            text(&profile, &reached, &reached[..1], false, None),
            "FUNCTION     BLOCKS  INSNS  BYTES  COVERED\n\
             inner [nfs]     2/2    121  12/12   100.0%\n\
             # 2 functions reached, 1 shown (--limit); 5 of 6 blocks executed\n\
             # translation 0 ns once, 0 blocks; native exits 0; missed 0\n\
             # blocks without a counter 2\n"
        );
        let with_edges = text(&profile, &reached, &reached, true, None);
        assert!(with_edges.starts_with("FUNCTION     BLOCKS  EDGES  INSNS  BYTES  COVERED\n"));
        assert!(
            with_edges.contains("inner [nfs]     2/2    2/2    121"),
            "{with_edges}"
        );
        assert!(
            with_edges.contains(" blocks executed, 3 of 4 edges\n"),
            "{with_edges}"
        );
        let narrow = text(&profile, &reached, &reached, true, Some(44));
        assert!(
            narrow.contains("\ninner [nfs]     2/2    2/2    121  12/12   …\n"),
            "{narrow}"
        );
        let without = json(&profile, &reached, false);
        assert!(without.contains("\"edges\":null"), "{without}");
        let value: serde_json::Value =
            serde_json::from_str(&json(&profile, &reached, true)).unwrap();
        let outer = &value["functions"][1];
        assert_eq!(
            (&outer["edges"], &outer["edges_executed"]),
            (&2.into(), &1.into())
        );
        assert_eq!(outer["function"], "outer");
        assert_eq!(
            (&outer["blocks"], &outer["blocks_executed"]),
            (&4.into(), &3.into())
        );
        assert_eq!(
            (&outer["size"], &outer["bytes_executed"]),
            (&80.into(), &16.into())
        );
    }
}
