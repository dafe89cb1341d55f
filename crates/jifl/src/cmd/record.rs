// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl record`: counts now, to be shown later and elsewhere.

use std::path::PathBuf;

use clap::Args;

use crate::base::exit::Failure;
use crate::session::blocks;
use crate::session::recording::FILE;
use crate::session::scope::Scope;
use crate::session::targets;

/// Arguments of `jifl record`.
#[derive(Debug, Args)]
#[command(after_help = "\
TARGET is sys:NAME, sys:GLOB or sys:NUMBER, or a function of the kernel: fn:NAME, fn:GLOB,
fn:NAME@MODULE, or mod:NAME for all functions of a module. Filters that are given must all match.

The session ends with CMD, after --for, or with Ctrl-C. With CMD the exit status is CMD's.
FILE is written when the session is over. Until then it keeps its old content.

Examples:
  jifl record 'sys:*' -- make
  jifl record sys:openat -n nginx --for 10s -o nginx.jifl")]
pub struct RecordArgs {
    #[arg(required = true, value_name = "TARGET", help = targets::HELP)]
    targets: Vec<String>,
    /// Write to FILE
    #[arg(short, long, value_name = "FILE", default_value = FILE)]
    output: PathBuf,
    /// Keep the code of the executed functions, too: `jifl cfg` and `jifl analyze` then need
    /// nothing else, on any machine
    #[arg(long)]
    code: bool,
    #[command(flatten)]
    scope: Scope,
}

/// Runs the command; the result is the exit status.
pub fn run(args: &RecordArgs) -> Result<u8, Failure> {
    blocks::record(&args.targets, &args.scope, &args.output, args.code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parse::parse;
    use std::path::Path;

    #[test]
    fn the_documented_lines_parse() {
        let args: RecordArgs = parse("sys:* --code -- make -o x").unwrap();
        assert!(args.code);
        assert_eq!(args.output, Path::new(FILE));
        let args: RecordArgs = parse("sys:openat -n nginx --for 10s -o nginx.jifl").unwrap();
        assert_eq!(args.output, Path::new("nginx.jifl"));
        assert!(parse::<RecordArgs>("-o x").is_err());
    }
}
