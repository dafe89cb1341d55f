// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl merge`: the sum of recordings of the same kernel build.

use std::path::PathBuf;

use clap::Args;

use crate::base::exit::{DONE, Failure};
use crate::session::recording::sum::{add, comparable};
use crate::session::recording::{Destination, Recording, keep};

/// Arguments of `jifl merge`.
#[derive(Debug, Args)]
#[command(after_help = "\
Counts are added up, block by block, wherever the kernel and its modules lay in memory.
The recordings must be of the same kernel build, and of the same kind.

Example:
  jifl merge -o all.jifl first.jifl second.jifl")]
pub struct MergeArgs {
    /// Write to FILE
    #[arg(short, long, value_name = "FILE", required = true)]
    output: PathBuf,
    /// Recordings
    #[arg(required = true, num_args = 2.., value_name = "RECORDING")]
    files: Vec<PathBuf>,
}

/// Runs the command; the result is the exit status.
pub fn run(args: &MergeArgs) -> Result<u8, Failure> {
    let name = |path: &PathBuf| path.display().to_string();
    let mut sum = Recording::read(&args.files[0])?;
    for path in &args.files[1..] {
        let other = Recording::read(path)?;
        comparable((&name(&args.files[0]), &sum), (&name(path), &other))?;
        sum = add(sum, other)
            .map_err(|what| Failure::failed(format!("{}: {what}", path.display())))?;
    }
    keep(Destination::open(&args.output)?, &sum)?;
    Ok(DONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parse::parse;

    #[test]
    fn the_documented_line_parses() {
        assert!(parse::<MergeArgs>("-o all.jifl first.jifl second.jifl").is_ok());
        for line in ["a b", "-o x a", "-o x"] {
            assert!(parse::<MergeArgs>(line).is_err(), "{line}");
        }
    }
}
