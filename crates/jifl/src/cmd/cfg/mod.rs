// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl cfg`: the control flow graphs of functions, from a kernel's file or from the memory of the
//! kernel that runs. The module is needed for a session alone; privileges are needed for the
//! running kernel.

mod dot;
mod drawing;
mod form;
mod svg;
mod text;

use std::path::PathBuf;
use std::rc::Rc;

use clap::{Args, ValueEnum};
use jifl_code::live::{Live, Trust};
use jifl_code::program::Program;
use jifl_sys::abi::FLAG_BRANCHES;

use self::form::Former;
use crate::base::exit::{DONE, Failure};
use crate::cmd::analyze::{self, Counted, Source};
use crate::kernel::disasm::Disassembler;
use crate::kernel::images;
use crate::kernel::lines::{self, Build, Lines, LinesArgs};
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::session::blocks;
use crate::session::recording::Recording;
use crate::session::scope::Scope;
use crate::show::output::{self, Sink};
use crate::show::text::json;

/// How a graph is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people: block for block
    Text,
    /// One object on one line
    Json,
    /// For Graphviz
    Dot,
    /// A picture
    Svg,
}

/// Arguments of `jifl cfg`.
#[derive(Debug, Args)]
#[command(after_help = "\
fn:0xADDRESS is the function that has this address: several functions may have one name.

Without --vmlinux it is the kernel that runs, with its modules, as its text stands now: that takes
root. With a recording of `jifl record --code` it is the code that this has. Live registers are those whose value may still be used at the beginning of a block. Source
lines are shown where debug information is found.

With CMD, --for, --count or a filter of tasks a session runs first, and its executions are shown:
that takes the module. With CMD the exit status is CMD's.

Examples:
  jifl cfg fn:vfs_read
  jifl cfg fn:vfs_read -- cat /etc/hostname
  jifl cfg fn:vfs_read --count sys:read --for 5s -f svg -o vfs_read.svg
  jifl cfg fn:vfs_read --vmlinux vmlinux -f dot -o vfs_read.dot
  jifl cfg fn:vfs_read --recording recording.jifl -f svg -o vfs_read.svg")]
pub struct CfgArgs {
    /// fn:NAME, or fn:0xADDRESS; several are quicker in one command than in several
    #[arg(required = true, value_name = "FUNCTION")]
    functions: Vec<String>,
    /// Of this file, a vmlinux, a module or a recording, not of the kernel that runs
    #[arg(long, value_name = "FILE")]
    vmlinux: Option<PathBuf>,
    /// Show how often blocks and edges were executed in this recording of `jifl record`
    #[arg(long, value_name = "FILE")]
    recording: Option<PathBuf>,
    /// Run a session first, and show how often blocks and edges are executed under this target,
    /// such as sys:read. Without it a session is about the functions themselves
    #[arg(long, value_name = "TARGET", conflicts_with_all = ["recording", "vmlinux"])]
    count: Vec<String>,
    /// The kernel's source tree
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
    /// How it is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Form,
    /// Write the output to FILE
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    scope: Scope,
}

/// Runs the command; the result is the exit status.
pub fn run(args: &CfgArgs) -> Result<u8, Failure> {
    let patterns: Vec<_> = args
        .functions
        .iter()
        .map(|function| analyze::function_name(function))
        .collect::<Result<_, _>>()?;
    // Its patches are gone from the text when that is read.
    let session = args.session()?;
    let source = Source::of_recording(args.vmlinux.as_deref(), args.recording.as_deref())?;
    let program = Program::of(source.open()?);
    let mut found = Vec::new();
    for pattern in &patterns {
        let mut named = analyze::functions_named(&program, pattern)?;
        named.retain(|index| !found.contains(index));
        found.extend(named);
    }
    let counted = match (&session, &args.recording) {
        (Some((recording, _)), _) => Some((Counted::of(recording, &program), "the session".into())),
        (None, Some(path)) => {
            let counted = Counted::read(path, &source, &program)?;
            Some((counted, path.display().to_string()))
        }
        (None, None) => None,
    };
    if let Some((counted, name)) = &counted {
        let notes = counted.notes(name);
        notes.iter().for_each(|note| output::note(note));
    }
    let symbols = Rc::new(symbols(&source, &program));
    let lines = args.lines(&source, &symbols)?;
    let live = Live::of(&program, Trust::Compiled);
    let mut former = Former {
        program: &program,
        live: &live,
        names: Disassembler::new(symbols),
        lines: &lines,
        counted: counted.as_ref().map(|(counted, _)| counted),
    };
    let graphs: Vec<form::Graph> = found.iter().map(|index| former.form(*index)).collect();
    let shown = match args.format {
        Form::Text => {
            let all: Vec<String> = graphs
                .iter()
                .map(|graph| text::text(graph, &lines))
                .collect();
            output::fit(all.join("\n"), output::width(args.output.as_deref()))
        }
        Form::Json => json(&form::Object {
            command: "cfg",
            functions: &graphs,
        }),
        Form::Dot => graphs.iter().map(dot::dot).collect(),
        Form::Svg => picture(&graphs)?,
    };
    Sink::open(args.output.as_deref())?.write(&shown)?;
    Ok(session.map_or(DONE, |(_, status)| status))
}

/// Names of addresses: the running kernel's, or those of the file.
fn symbols(source: &Source, program: &Program) -> Symbols {
    match source {
        Source::Running => Symbols::of_kernel(),
        Source::File(_) => Symbols::parse(&analyze::kallsyms(program)),
    }
}

/// A picture has one graph.
fn picture(graphs: &[form::Graph]) -> Result<String, Failure> {
    if let [graph] = graphs {
        return svg::svg(graph);
    }
    let all: Vec<String> = graphs
        .iter()
        .map(|graph| format!("fn:{}", graph.address))
        .collect();
    Err(Failure::usage(format!(
        "-f svg draws one function, and these are {}: {}",
        graphs.len(),
        all.join(", ")
    )))
}

impl CfgArgs {
    /// The session that was asked for, when it is over, and the exit status.
    fn session(&self) -> Result<Option<(Recording, u8)>, Failure> {
        if self.count.is_empty() && !self.scope.is_given() {
            return Ok(None);
        }
        if self.recording.is_some() || self.vmlinux.is_some() {
            return Err(Failure::usage(
                "a session is about the kernel that runs, and its own executions: leave out \
                 --recording and --vmlinux, or what says whose executions are counted",
            ));
        }
        let targets = if self.count.is_empty() {
            &self.functions
        } else {
            &self.count
        };
        let table = Table::all();
        let session = blocks::start(targets, FLAG_BRANCHES, &table, &self.scope)?;
        self.scope.check()?;
        let (profile, status) = blocks::observe(&self.scope, session, &table, Symbols::of_kernel)?;
        Ok(Some((Recording::of_profile(&profile), status)))
    }

    /// Lines of the file, if it has debug information; else from where distributions have it.
    fn lines(&self, source: &Source, symbols: &Symbols) -> Result<Lines, Failure> {
        let build = match source {
            Source::Running => Build::running(),
            Source::File(_) => Build {
                build_id: source.build_id(),
                ..Build::default()
            },
        };
        let kernel = build.build_id == images::kernel_build_id() && !build.build_id.is_empty();
        let build = Build {
            release: if kernel {
                Build::running().release
            } else {
                build.release
            },
            ..build
        };
        let own = self.vmlinux.clone().filter(|path| lines::has_lines(path));
        let opened = LinesArgs::of(own, self.source.clone()).open(build)?;
        Ok(opened.lines(symbols))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::exit::USAGE;
    use crate::base::parse::{check, parse};

    #[test]
    fn the_documented_lines_parse() {
        check::<CfgArgs>(
            &[
                "fn:vfs_read fn:ksys_*",
                "fn:vfs_read --vmlinux vmlinux -f dot -o vfs_read.dot",
                "fn:vfs_read --recording recording.jifl -f svg -o vfs_read.svg",
                "fn:vfs_read -- cat /etc/hostname",
                "fn:vfs_read --count sys:read --for 5s -f svg -o vfs_read.svg",
            ],
            &["", "fn:a -f csv", "fn:a --count sys:read --recording x"],
        );
        let both: CfgArgs = parse("fn:a --recording x -- true").unwrap();
        assert_eq!(run(&both).unwrap_err().status, USAGE);
        let wrong: CfgArgs = parse("vfs_read --vmlinux x").unwrap();
        let failure = run(&wrong).unwrap_err();
        assert_eq!(failure.status, USAGE);
        assert!(failure.message.contains("fn:vfs_read"), "{failure:?}");
    }
}
