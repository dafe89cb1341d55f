// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl prof`: where instructions were executed, by function and block, or by call path. The
//! numbers are counted, not sampled.

mod annotate;
mod frames;
pub mod paths;
mod tables;

use std::path::PathBuf;

use clap::Args;
use jifl_sys::abi::FLAG_BRANCHES;
use serde::Serialize;

use self::annotate::{Annotated, Annotator};
use self::frames::Inlined;
use self::paths::folded::folded;
use self::paths::metric::Metric;
use self::paths::svg::svg;
use self::paths::{Files, PathsArgs};
use crate::base::exit::Failure;
use crate::kernel::disasm::Disassembler;
use crate::kernel::lines::{Build, LinesArgs, Opened};
use crate::kernel::memory::{Kcore, Memory};
use crate::session::blocks::{self, Function, Profile, ProfileArgs, Show, Shown, Summary, View};
use crate::show::output::{self, Format, Sink};
use crate::show::text::json;

/// Arguments of `jifl prof`.
#[derive(Debug, Args)]
#[command(after_help = "\
TARGET is sys:NAME, sys:GLOB or sys:NUMBER, or a function of the kernel: fn:NAME, fn:GLOB,
fn:NAME@MODULE, or mod:NAME for all functions of a module. Filters that are given must all match.

The session ends with CMD, after --for, or with Ctrl-C. With CMD the exit status is CMD's.
Every instruction counts for the function that contains it. CALLS: how often a function's first
instruction was executed; `-` if the function was entered only elsewhere.

Examples:
  jifl prof 'sys:*' -- ls -l /
  jifl prof sys:read sys:write -p 1234 --for 10s --limit 100
  jifl prof 'sys:*' -n nginx --for 5s --folded nginx.folded
  jifl prof 'sys:*' --inlined --svg flames.svg -- ls -l /
  jifl prof sys:read --annotate vfs_read -- cat /etc/passwd
  jifl prof 'sys:*' --paths --svg flames.svg -- ls -l /
  jifl prof 'sys:*' --paths=cpu --group function -- ls -l /etc
  jifl prof sys:fsync --paths=wall --pprof fsync.pb.gz -p 1234 --for 10s")]
pub struct ProfArgs {
    #[command(flatten)]
    options: ProfOptions,
    #[command(flatten)]
    lines: LinesArgs,
    #[command(flatten)]
    paths: PathsArgs,
    #[command(flatten)]
    profile: ProfileArgs,
}

/// Options of `jifl prof` that `jifl report` has, too.
#[derive(Debug, Args)]
pub struct ProfOptions {
    /// Also write lines of `kernel;FUNCTION INSTRUCTIONS`, for flame graphs
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,
    /// Also write a flame graph
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// With inlined functions in both, if debug information is found
    #[arg(long)]
    inlined: bool,
    /// Instead of tables, show this function's instructions, each with its executions; for the
    /// running kernel only
    #[arg(long, value_name = "FUNCTION")]
    annotate: Option<String>,
}

#[derive(Serialize)]
struct AnnotatedObject {
    command: &'static str,
    annotated: Vec<Annotated>,
    #[serde(flatten)]
    summary: Summary,
}

/// Files for stacks.
struct Sinks {
    folded: Option<Sink>,
    svg: Option<Sink>,
}

/// Sources that tell of single instructions.
struct Sources {
    /// `None` for a recording.
    kcore: Option<Kcore>,
    lines: Opened,
}

/// Runs the command; the result is the exit status.
pub fn run(args: &ProfArgs) -> Result<u8, Failure> {
    if args.paths.metric().is_some() {
        return by_path(args);
    }
    let flags = match args.options.annotate {
        Some(_) => FLAG_BRANCHES,
        None => 0,
    };
    let view = args.options.view(&args.lines, Build::running())?;
    blocks::run(&args.profile, flags, view)
}

/// Counts by call path.
fn by_path(args: &ProfArgs) -> Result<u8, Failure> {
    args.lines.need_none()?;
    if args.options.inlined || args.options.annotate.is_some() {
        return Err(Failure::usage(
            "--inlined and --annotate are about blocks, and --paths counts by function: leave one \
             of them out",
        ));
    }
    let files = Files {
        folded: args.options.folded.as_deref(),
        svg: args.options.svg.as_deref(),
    };
    let (targets, scope) = args.profile.unrecorded("--paths")?;
    paths::run(targets, &args.paths, &files, &args.profile.show, scope)
}

impl ProfOptions {
    /// True if any option was given.
    pub fn are_given(&self) -> bool {
        self.folded.is_some() || self.svg.is_some() || self.inlined || self.annotate.is_some()
    }

    /// Refuses an option for which a recording has no data.
    ///
    /// # Errors
    /// Such an option was given.
    pub fn need_no_kernel(&self) -> Result<(), Failure> {
        match self.annotate {
            None => Ok(()),
            Some(_) => Err(Failure::usage(
                "--annotate shows the code that runs, which a recording does not have: `jifl prof \
                 --annotate` counts and shows it",
            )),
        }
    }

    /// Opens the files, and the sources of the kernel with this build.
    pub fn view(&self, lines: &LinesArgs, build: Build) -> Result<View<'_>, Failure> {
        let sinks = Sinks {
            folded: self.folded.as_deref().map(Sink::file).transpose()?,
            svg: self.svg.as_deref().map(Sink::file).transpose()?,
        };
        let sources = if self.inlined || self.annotate.is_some() {
            Some(Sources {
                kcore: build.runs.then(Kcore::open).transpose()?,
                lines: lines.open(build)?,
            })
        } else {
            lines.need_none()?;
            None
        };
        Ok(Box::new(move |profile, show| {
            let inlined = sources.map(|sources| sources.of(profile));
            self.show(profile, show, sinks, inlined)
        }))
    }

    fn show(
        &self,
        profile: &Profile,
        show: &Show,
        sinks: Sinks,
        mut inlined: Option<Inlined>,
    ) -> Result<Shown, Failure> {
        let functions = tables::sorted_functions(profile);
        let of_stacks = inlined.as_mut().filter(|_| self.inlined);
        let files = write_stacks(profile, &functions, of_stacks, sinks);
        if let Some(inlined) = inlined.as_ref().filter(|_| self.inlined) {
            inlined.lines.note(profile.modules(&profile.blocks));
        }
        if let (Some(name), Some(inlined)) = (&self.annotate, &mut inlined) {
            let text = annotated(profile, show, &functions, name, inlined)?;
            return Ok(Shown { text, files });
        }
        let blocks = tables::sorted_blocks(profile);
        let (functions, blocks) = (show.limited(&functions), show.limited(&blocks));
        let text = match show.format {
            Format::Text => {
                let text = tables::text(profile, functions, blocks, show.width());
                output::fit(text, show.width())
            }
            Format::Json => tables::json(profile, functions, blocks),
        };
        Ok(Shown { text, files })
    }
}

impl Sources {
    fn of(self, profile: &Profile) -> Inlined {
        let code: Box<dyn Memory> = match self.kcore {
            Some(kcore) => Box::new(kcore),
            None => Box::new(self.lines.text(&profile.symbols)),
        };
        Inlined {
            code,
            lines: self.lines.lines(&profile.symbols),
        }
    }
}

fn write_stacks(
    profile: &Profile,
    functions: &[Function<'_>],
    inlined: Option<&mut Inlined>,
    sinks: Sinks,
) -> Result<(), Failure> {
    if sinks.folded.is_none() && sinks.svg.is_none() {
        return Ok(());
    }
    let stacks = frames::stacks(profile, functions, inlined);
    let of_folded = sinks
        .folded
        .map_or(Ok(()), |mut sink| sink.write(&folded(&stacks)));
    let of_svg = sinks.svg.map_or(Ok(()), |mut sink| {
        sink.write(&svg(&stacks, Metric::Insn, None)?)
    });
    of_folded.and(of_svg)
}

fn annotated(
    profile: &Profile,
    show: &Show,
    functions: &[Function<'_>],
    name: &str,
    inlined: &mut Inlined,
) -> Result<String, Failure> {
    let Inlined { code, lines } = inlined;
    let mut annotator = Annotator {
        profile,
        code: code.as_mut(),
        lines,
    };
    let mut names = Disassembler::new(profile.symbols.clone());
    let named = annotate::named(functions, name)?;
    let found = named
        .iter()
        .map(|function| annotator.annotate(&mut names, function));
    let found = found.collect::<Result<Vec<Annotated>, Failure>>()?;
    let blocks = named.iter().flat_map(|function| function.blocks);
    lines.note(profile.modules(blocks));
    Ok(match show.format {
        Format::Text => {
            let width = show.width();
            annotate::text(&found, lines, width) + &output::fit(profile.cost(), width)
        }
        Format::Json => json(&AnnotatedObject {
            command: "prof",
            annotated: found,
            summary: profile.summary(),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parse::{check, parse};

    #[test]
    fn the_documented_lines_parse() {
        check::<ProfArgs>(
            &[
                "sys:* -- ls -l /",
                "sys:read sys:write -p 1234 --for 10s --limit 100",
                "sys:* -n nginx --for 5s --folded nginx.folded",
                "sys:* --inlined --svg flames.svg -- ls -l /",
                "sys:read --annotate vfs_read -- cat /etc/passwd",
                "sys:* -f json -o x",
                "sys:* --paths=cpu --group function -- ls -l /etc",
            ],
            &[
                "",
                "sys:read -f csv",
                "sys:read --limit x",
                "sys:read --group edge",
                "sys:read --paths --group caller",
            ],
        );
        let unused: ProfArgs = parse("sys:read --vmlinux x").unwrap();
        assert_eq!(run(&unused).unwrap_err().status, crate::base::exit::USAGE);
        let edges: ProfArgs = parse("sys:read --paths --group edge --base x").unwrap();
        assert_eq!(run(&edges).unwrap_err().status, crate::base::exit::USAGE);
    }
}
