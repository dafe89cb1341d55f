// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl analyze`, `jifl callers`, `jifl callees`: what a kernel's machine code consists of, from
//! its file. Neither the module nor privileges are needed.

mod calls;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use jifl_code::image::Image;
use jifl_code::live::{Live, Trust};
use jifl_code::program::Program;
use jifl_code::summary;
use jifl_code::vmlinux;

use crate::base::exit::{DONE, Failure};
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
The code is analysed as it stands in the file, before the kernel patches itself at boot. Names are
those of the file's symbol table, or the kernel's own.

Examples:
  jifl analyze vmlinux
  jifl analyze vmlinux --unexplained
  jifl analyze vmlinux -f csv")]
pub struct AnalyzeArgs {
    /// A vmlinux
    file: PathBuf,
    /// List what is not explained: bytes, and functions with the reason
    #[arg(long)]
    unexplained: bool,
    /// Believe that nothing is dead behind a return, as KernInst had it
    #[arg(long)]
    no_abi: bool,
    /// How it is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Form,
}

/// Arguments of `jifl callers` and `jifl callees`.
#[derive(Debug, Args)]
#[command(after_help = "\
Calls through registers and memory have no known target: they are counted, and not followed.

Examples:
  jifl callers fn:vfs_read --vmlinux vmlinux
  jifl callees fn:vfs_read --vmlinux vmlinux -d 2")]
pub struct CallersArgs {
    /// fn:NAME
    function: String,
    /// The kernel's file
    #[arg(long, value_name = "FILE")]
    vmlinux: PathBuf,
    /// Follow calls so many steps
    #[arg(short, long, default_value_t = 1, value_name = "N")]
    depth: usize,
    /// How it is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
}

/// Runs `jifl analyze`.
pub fn run(args: &AnalyzeArgs) -> Result<u8, Failure> {
    let program = Program::of(open(&args.file)?);
    let accounts = program.account();
    if args.unexplained {
        let all = tables::unexplained(&program, &accounts);
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
    let live = Live::of(&program, trust);
    let (modules, total) = summary::sums(&program, &live, &accounts);
    let rows = tables::rows(&program, &modules, &total);
    output::print(&match args.format {
        Form::Text => tables::text(&rows),
        Form::Json => tables::json(&rows),
        Form::Csv => tables::csv(&rows),
    })?;
    Ok(DONE)
}

/// Runs `jifl callers`, or `jifl callees`.
pub fn run_calls(args: &CallersArgs, callers: bool) -> Result<u8, Failure> {
    let Some(name) = args.function.strip_prefix("fn:") else {
        let function = &args.function;
        return Err(Failure::usage(format!(
            "{function}: a function is given with its kind: fn:{function}"
        )));
    };
    let program = Program::of(open(&args.vmlinux)?);
    let starts = calls::named(&program, name);
    if starts.is_empty() {
        return Err(Failure::usage(calls::unknown(&program, name)));
    }
    let found = calls::follow(&program, &starts, callers, args.depth);
    output::print(&match args.format {
        Format::Text => calls::text(&found),
        Format::Json => calls::json(&found, callers),
    })?;
    Ok(DONE)
}

fn open(path: &Path) -> Result<Image, Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::failed(format!("{}: {error}", path.display()));
    let file = fs::read(path).map_err(|error| failed(&error))?;
    vmlinux::read(&file).map_err(|error| failed(&error))
}
