// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl cover`: which code system calls have executed.

mod drcov;
mod lcov;

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::exit::Failure;
use crate::images;
use crate::output::{Format, Sink};
use crate::profile::{self, Function, Profile, ProfileArgs, Summary, View, percent};
use crate::report::{grouped, table_within};

/// Arguments of `jifl cover`.
#[derive(Debug, Args)]
#[command(after_help = "\
TARGET is sys:NAME, sys:GLOB or sys:NUMBER. Filters that are given must all match.

The session ends with CMD, after --for, or with Ctrl-C. With CMD the exit status is CMD's.
BLOCKS: executed, of those that were translated: code that lies behind a branch is, too.
COVERED: bytes executed of the function's, which end where the next function begins.

Examples:
  jifl cover sys:openat -- cat /etc/hostname
  jifl cover 'sys:*' --drcov kernel.drcov -- ./test
  jifl cover 'sys:*' --lcov kernel.info --vmlinux vmlinux -- ./test")]
pub struct CoverArgs {
    #[command(flatten)]
    options: CoverOptions,
    #[command(flatten)]
    profile: ProfileArgs,
}

/// What is special about it.
#[derive(Debug, Args)]
pub struct CoverOptions {
    /// Also write executed blocks in drcov's format
    #[arg(long, value_name = "FILE")]
    drcov: Option<PathBuf>,
    /// Also write lcov's format: functions, and lines with --vmlinux
    #[arg(long, value_name = "FILE")]
    lcov: Option<PathBuf>,
    /// The same kernel's, with debug information
    #[arg(long, value_name = "FILE", requires = "lcov")]
    vmlinux: Option<PathBuf>,
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
}

/// Runs the command; the result is the exit status.
pub fn run(args: &CoverArgs) -> Result<u8, Failure> {
    let view = args.options.view(&images::kernel_build_id())?;
    profile::run(&args.profile, 0, view)
}

impl CoverOptions {
    /// Whether some were given.
    pub fn are_given(&self) -> bool {
        self.drcov.is_some() || self.lcov.is_some()
    }

    /// Opens the files, of which vmlinux is to be the kernel's with this build id.
    pub fn view(&self, build_id: &str) -> Result<View<'_>, Failure> {
        let vmlinux = self.vmlinux.as_deref();
        let lines = vmlinux.map(|path| lcov::Lines::open(path, build_id));
        let lines = lines.transpose()?;
        let sink = |path: &Option<PathBuf>| {
            path.as_deref()
                .map(|path| Sink::open(Some(path)))
                .transpose()
        };
        let (mut to_drcov, mut to_lcov) = (sink(&self.drcov)?, sink(&self.lcov)?);
        if self.lcov.is_some() && lines.is_none() {
            crate::output::note(
                "jifl: lcov's file has functions only: lines need --vmlinux, with debug information",
            );
        }
        Ok(Box::new(move |profile, show| {
            let mut reached = profile::functions(&profile.blocks, &profile.symbols);
            if let Some(sink) = &mut to_lcov {
                sink.write(&lcov::render(profile, &reached, lines.as_ref()))?;
            }
            if let Some(sink) = &mut to_drcov {
                sink.write_bytes(&drcov::render(profile))?;
            }
            reached.retain(|function| function.executed() > 0);
            reached.sort_by(|a, b| (&a.name, a.address).cmp(&(&b.name, b.address)));
            let shown = show.limited(&reached);
            Ok(match show.format {
                Format::Text => text(profile, &reached, shown, show.width()),
                Format::Json => json(profile, shown),
            })
        }))
    }
}

fn text(
    profile: &Profile,
    reached: &[Function<'_>],
    shown: &[Function<'_>],
    width: Option<usize>,
) -> String {
    let titles = ["FUNCTION", "BLOCKS", "INSNS", "BYTES", "COVERED"];
    let mut lines = vec![titles.map(str::to_owned).to_vec()];
    lines.extend(shown.iter().map(|function| {
        vec![
            function.name.clone(),
            format!("{}/{}", function.executed(), function.blocks.len()),
            grouped(function.instructions()),
            format!("{}/{}", function.bytes(), function.size),
            percent(function.bytes(), function.size),
        ]
    }));
    let mut text = table_within(&lines, width);
    let _ = writeln!(
        text,
        "# {} functions reached{}; {} of {} blocks executed",
        grouped(reached.len() as u64),
        match shown.len() {
            n if n < reached.len() => format!(", {n} shown (--limit)"),
            _ => String::new(),
        },
        grouped(profile.executed().count() as u64),
        grouped(profile.blocks.len() as u64)
    );
    text + &profile.cost()
}

fn object<'a>(function: &'a Function<'_>) -> FunctionObject<'a> {
    FunctionObject {
        function: &function.name,
        address: format!("{:#x}", function.address),
        size: function.size,
        bytes_executed: function.bytes(),
        blocks: function.blocks.len(),
        blocks_executed: function.executed(),
        instructions: function.instructions(),
        calls: function.calls(),
    }
}

fn json(profile: &Profile, shown: &[Function<'_>]) -> String {
    profile::json(&Object {
        command: "cover",
        functions: shown.iter().map(object).collect(),
        summary: profile.summary(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use crate::profile::tests::sample;

    #[test]
    fn the_documented_lines_parse() {
        for line in [
            "sys:openat -- cat /etc/hostname",
            "sys:* --drcov kernel.drcov -- ./test",
            "sys:* --lcov kernel.info --vmlinux vmlinux -- ./test",
        ] {
            assert!(parse::<CoverArgs>(line).is_ok(), "{line}");
        }
        for line in ["", "sys:read --vmlinux x", "sys:read --drcov"] {
            assert!(parse::<CoverArgs>(line).is_err(), "{line}");
        }
    }

    #[test]
    fn functions_by_name() {
        let profile = sample();
        let mut reached = profile::functions(&profile.blocks, &profile.symbols);
        reached.reverse();
        assert_eq!(
            text(&profile, &reached, &reached[..1], None),
            "FUNCTION     BLOCKS  INSNS  BYTES  COVERED\n\
             inner [nfs]     2/2    121  12/12   100.0%\n\
             # 2 functions reached, 1 shown (--limit); 5 of 6 blocks executed\n\
             # translation 0 ns once, 0 blocks; native exits 0; missed 0\n\
             # blocks without a counter 2\n"
        );
        let value: serde_json::Value = serde_json::from_str(&json(&profile, &reached)).unwrap();
        let outer = &value["functions"][1];
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
