// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses a subcommand's arguments from a line, for unit tests.

use clap::{Args, Parser};

#[derive(Parser)]
struct Cli<A: Args> {
    #[command(flatten)]
    args: A,
}

/// Lines as the documentation has them are taken, others are refused.
pub fn check<A: Args>(taken: &[&str], refused: &[&str]) {
    for line in taken {
        assert!(parse::<A>(line).is_ok(), "{line}");
    }
    for line in refused {
        assert!(parse::<A>(line).is_err(), "{line}");
    }
}

/// What stands behind the subcommand's name.
pub fn parse<A: Args>(line: &str) -> Result<A, clap::Error> {
    let words = std::iter::once("jifl").chain(line.split_whitespace());
    Cli::try_parse_from(words).map(|cli| cli.args)
}
