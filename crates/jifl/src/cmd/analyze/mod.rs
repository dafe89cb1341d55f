// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl analyze`, `jifl callers`, `jifl callees`: what a kernel's machine code consists of, from
//! its file or from the memory of the kernel that runs. The module is not needed; privileges are
//! needed for the running kernel.

mod calls;
mod counted;
mod dead;
mod derived;
mod input;
mod observed;
mod path;
mod stages;
mod tables;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use jifl_code::live::{Live, Trust};
use jifl_code::program::Program;
use jifl_code::summary;

#[cfg(test)]
pub use self::counted::tests as counted_tests;
pub use self::counted::{Counted, EdgeCounts};
pub use self::dead::{DeadArgs, run as run_dead};
use self::input::Scope;
pub use self::input::Source;
pub use self::observed::{CheckArgs, run as run_check};
pub use self::path::{PathArgs, run as run_path};
use self::stages::Stages;
use crate::base::duration;
use crate::base::exit::{DONE, Failure};
use crate::kernel::images::KERNEL;
use crate::kernel::pattern::Pattern;
use crate::show::output::{self, Format};

/// How tables are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people
    Text,
    /// One object on one line
    Json,
    /// One table, with all columns
    Csv,
}

/// Arguments of `jifl analyze`.
#[derive(Debug, Args)]
#[command(after_help = "\
TARGET is fn:NAME, fn:GLOB, fn:NAME@MODULE, mod:NAME or mod:GLOB. Without FILE the kernel that runs
is analysed, with its modules, as its text stands now: that takes root. A file is analysed as it
stands before the kernel patches itself at boot. Names are those of the file's symbol table, or the
kernel's own.

Examples:
  jifl analyze
  jifl analyze 'fn:vfs_*'
  jifl analyze mod:ext4
  jifl analyze ext4.ko.xz
  jifl analyze vmlinux --unexplained
  jifl analyze /proc/vmcore
  jifl analyze --watch
  jifl analyze --watch mod:nf_tables --for 1m
  jifl analyze --recording recording.jifl
  jifl analyze fn:vfs_read --vmlinux vmlinux -f csv")]
pub struct AnalyzeArgs {
    /// fn:GLOB, mod:GLOB, or a file: a vmlinux, a module, also compressed by xz or zstd, an image
    /// of memory (vmcore), a recording of `jifl record --code`, or a directory that --keep has made
    #[arg(value_name = "TARGET|FILE")]
    what: Option<String>,
    /// Of this file, not of the kernel that runs
    #[arg(long, value_name = "FILE")]
    vmlinux: Option<PathBuf>,
    /// List what is not explained: bytes, and functions with the reason
    #[arg(long)]
    unexplained: bool,
    /// Believe that nothing is dead behind a return, as KernInst had it
    #[arg(long)]
    no_abi: bool,
    /// Compare the counts of edges that follow from those of blocks in this recording with those
    /// that it has counted; of fn:NAME show each edge
    #[arg(long, value_name = "FILE", conflicts_with_all = ["unexplained", "keep"])]
    recording: Option<PathBuf>,
    /// Only copy what is read of the running kernel into a new directory, which can be given as
    /// FILE
    #[arg(long, value_name = "DIR", conflicts_with = "vmlinux")]
    keep: Option<PathBuf>,
    /// Say what each stage has taken
    #[arg(long, conflicts_with_all = ["unexplained", "keep", "recording"])]
    times: bool,
    /// Tell what changes in the text of the kernel that runs: jump labels, static calls, modules,
    /// breakpoints. What tracers, live patches and JIFL lead elsewhere at functions' beginnings is
    /// no change
    #[arg(long, conflicts_with_all = ["unexplained", "keep", "recording", "times", "vmlinux"])]
    watch: bool,
    /// With --watch, the time between two looks
    #[arg(short, long, default_value = "1s", value_name = "TIME", value_parser = duration::parse)]
    #[arg(requires = "watch")]
    interval: Duration,
    /// With --watch, end after this time: 5s, 100ms, 2m
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse, requires = "watch")]
    time: Option<Duration>,
    /// How it is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Form,
}

/// Arguments of `jifl callers` and `jifl callees`.
#[derive(Debug, Args)]
#[command(after_help = "\
Calls through registers and memory have no known target: they are counted, and not followed.

Without --vmlinux it is the kernel that runs, with its modules: that takes root.

Examples:
  jifl callers fn:vfs_read
  jifl callees fn:vfs_read --vmlinux vmlinux -d 2")]
pub struct CallersArgs {
    /// fn:NAME
    function: String,
    /// Of this file, not of the kernel that runs
    #[arg(long, value_name = "FILE")]
    vmlinux: Option<PathBuf>,
    /// Follow calls so many steps
    #[arg(short, long, default_value_t = 1, value_name = "N")]
    depth: usize,
    /// How it is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
}

/// Runs `jifl analyze`.
pub fn run(args: &AnalyzeArgs) -> Result<u8, Failure> {
    let (source, scope) = input::parse(args.what.as_deref(), args.vmlinux.as_deref())?;
    if args.watch {
        return match source {
            Source::Running => watch::run(&scope, args.interval, args.time, args.format),
            Source::File(_) => Err(Failure::usage(
                "--watch looks at the kernel that runs: give no file".to_owned(),
            )),
        };
    }
    let source = match source {
        Source::Running => Source::of_recording(None, args.recording.as_deref())?,
        source => source,
    };
    if let Some(directory) = &args.keep {
        source.keep(directory)?;
        return Ok(DONE);
    }
    let mut stages = Stages::begin();
    let image = source.open()?;
    stages.end("reading");
    let program = Program::of(image);
    stages.end("control flow and calls");
    let functions = scope.functions(&program)?;
    if let Some(path) = &args.recording {
        let counted = Counted::read(path, &source, &program)?;
        let notes = counted.notes(&path.display().to_string());
        notes.iter().for_each(|note| output::note(note));
        output::print(&derived::render(
            &program,
            &counted,
            &functions,
            matches!(scope, Scope::Functions(_)),
            args.format,
        ))?;
        return Ok(DONE);
    }
    let accounts = program.account();
    if args.unexplained {
        let is_meant = |function: Option<usize>| match scope {
            Scope::All => true,
            _ => function.is_some_and(|index| functions.binary_search(&index).is_ok()),
        };
        let all = tables::unexplained(&program, &accounts, is_meant);
        output::print(&match args.format {
            Form::Text => tables::unexplained_text(&all),
            Form::Json => tables::unexplained_json(&all),
            Form::Csv => tables::unexplained_csv(&all),
        })?;
        return Ok(DONE);
    }
    let trust = if args.no_abi {
        Trust::Nothing
    } else {
        Trust::Compiled
    };
    stages.end("explained bytes");
    let live = Live::of(&program, trust);
    stages.end("live registers");
    let rows = match &scope {
        Scope::Functions(_) => {
            let (sums, total) = summary::sums_of(&program, &live, &accounts, &functions);
            tables::rows_of_functions(&program, &functions, &sums, &total)
        }
        Scope::Modules(pattern) => {
            let (modules, _) = summary::sums(&program, &live, &accounts);
            tables::rows_of_modules(&program, &modules, pattern)
        }
        Scope::All => {
            let (modules, total) = summary::sums(&program, &live, &accounts);
            tables::rows(&program, &modules, &total)
        }
    };
    stages.end("figures, with what is live at each instruction");
    if args.times {
        analyze_again(program, live, &mut stages);
        stages.tell();
    }
    output::print(&match args.format {
        Form::Text => tables::text(&rows),
        Form::Json => tables::json(&rows),
        Form::Csv => tables::csv(&rows),
    })?;
    Ok(DONE)
}

/// Analyses functions again, one by one, as if their text had changed.
fn analyze_again(mut program: Program, mut live: Live, stages: &mut Stages) {
    const NUMBER: usize = 200;
    let step = program.functions.len().div_ceil(NUMBER).max(1);
    let functions = program.functions.iter().step_by(step);
    let entries: Vec<u64> = functions.map(|function| function.unit.entry()).collect();
    let name = "one function again, with its live registers";
    stages.mean(name, &entries, |entry| {
        let byte = program.image.bytes(*entry).and_then(<[u8]>::first);
        let Some(byte) = byte.copied() else {
            return false;
        };
        let renewed = program.patch(&[(*entry, vec![byte])]);
        live.renew(&program, &renewed);
        // Where more depends on a function, all was analysed again.
        !renewed.is_whole
    });
}

/// Reads `fn:vfs_read`.
///
/// # Errors
/// It is not of that form.
pub fn function_name(target: &str) -> Result<Pattern, Failure> {
    let pattern = Pattern::parse(target).filter(|pattern| !pattern.is_module());
    pattern.ok_or_else(|| {
        Failure::usage(format!(
            "{target}: a function is given with its kind: fn:{target}"
        ))
    })
}

/// The functions of a name, or the one that has an address, given as `0x...`: places in
/// [`Program::functions`]. Where a function has just this name, what the compiler has made of it
/// under other names (`NAME.part.0`) is not meant.
///
/// # Errors
/// There is none.
pub fn functions_named(program: &Program, pattern: &Pattern) -> Result<Vec<usize>, Failure> {
    let digits = pattern.name().strip_prefix("0x");
    let address = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let mut found = match address {
        Some(address) => program.at(address).into_iter().collect(),
        None => calls::named(program, pattern),
    };
    let is_exact = |index: &usize| program.name(&program.functions[*index]) == pattern.name();
    if found.iter().any(is_exact) {
        found.retain(is_exact);
    }
    match found.is_empty() {
        true => Err(Failure::usage(calls::unknown(program, pattern))),
        false => Ok(found),
    }
}

/// The names of a program as the kernel would show them.
pub fn kallsyms(program: &Program) -> String {
    let image = &program.image;
    let line = |symbol: &jifl_code::image::Symbol| {
        let text = image.text(symbol.address);
        let module = text.map_or("", |text| image.modules[image.texts[text].module].as_str());
        let module = match module {
            "" | KERNEL => String::new(),
            module => format!("\t[{module}]"),
        };
        let kind = if symbol.is_global { 'T' } else { 't' };
        format!("{:x} {kind} {}{module}\n", symbol.address, symbol.name)
    };
    image.symbols.iter().map(line).collect()
}

/// Runs `jifl callers`, or `jifl callees`.
pub fn run_calls(args: &CallersArgs, callers: bool) -> Result<u8, Failure> {
    let pattern = function_name(&args.function)?;
    let program = Program::of(Source::of(args.vmlinux.as_deref()).open()?);
    let starts = functions_named(&program, &pattern)?;
    let found = calls::follow(&program, &starts, callers, args.depth);
    output::print(&match args.format {
        Format::Text => calls::text(&found),
        Format::Json => calls::json(&found, callers),
    })?;
    Ok(DONE)
}
