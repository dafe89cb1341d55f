// SPDX-License-Identifier: MIT OR Apache-2.0
//! For tests: is what sessions have observed in the structure? With a planted bug it is not.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use jifl_code::graph::{Edge, EdgeKind};
use jifl_code::observed::{self, Place};
use jifl_code::program::Program;

use super::input::Source;
use crate::base::exit::{DONE, FAILED, Failure};
use crate::show::output;

/// So many exceptions are shown.
const SHOWN: usize = 50;

/// Arguments of `jifl check-structure`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// A kernel's file, or a directory that `jifl analyze --keep` has made
    kernel: PathBuf,
    /// A line for each fact (jifl_code::observed)
    facts: PathBuf,
    /// Without edges, or calls, of this kind
    #[arg(long, value_enum)]
    plant: Option<Plant>,
}

/// What is dropped from the structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Plant {
    /// Edges to the code behind a block.
    Fall,
    /// Edges of conditional branches that are taken.
    Taken,
    /// Edges of jumps.
    Jump,
    /// Edges to fixups.
    Exception,
    /// Calls, and jumps to other functions.
    Calls,
    /// Blocks that end in a return.
    Returns,
}

impl Plant {
    /// Drops it.
    pub fn spoil(self, program: &mut Program) {
        let kind = match self {
            Plant::Fall => EdgeKind::Fall,
            Plant::Taken => EdgeKind::Taken,
            Plant::Jump => EdgeKind::Jump,
            Plant::Exception => EdgeKind::Exception,
            Plant::Calls => {
                let functions = program.functions.iter_mut();
                return functions.for_each(|function| function.graph.calls.clear());
            }
            Plant::Returns => {
                let functions = program.functions.iter_mut();
                let blocks = functions.flat_map(|function| &mut function.graph.blocks);
                return blocks
                    .filter(|block| block.end == jifl_code::graph::End::Return)
                    .for_each(|block| block.end = jifl_code::graph::End::Stop);
            }
        };
        let keep = |edge: &Edge| edge.kind != kind;
        let functions = program.functions.iter_mut();
        functions.for_each(|function| function.graph.edges.retain(keep));
    }
}

/// Runs `jifl check-structure`.
pub fn run(args: &CheckArgs) -> Result<u8, Failure> {
    let mut program = Program::of(Source::of(Some(&args.kernel)).open()?);
    if let Some(plant) = args.plant {
        plant.spoil(&mut program);
    }
    check(&program, &args.facts)
}

/// Looks for each fact of a file in the structure.
fn check(program: &Program, path: &Path) -> Result<u8, Failure> {
    let failed = |error: String| Failure::failed(format!("{}: {error}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let facts = observed::parse(&text).map_err(failed)?;
    let mut places: BTreeMap<Place, u64> = BTreeMap::new();
    let mut missing = Vec::new();
    for fact in facts {
        match observed::find(program, fact) {
            Ok(place) => *places.entry(place).or_insert(0) += 1,
            Err(why) => missing.push((fact, why)),
        }
    }
    let mut text = String::new();
    for (place, count) in &places {
        text += &format!("{count} {place:?}\n");
    }
    for (fact, why) in missing.iter().take(SHOWN) {
        let function = |at| match program.at(at) {
            Some(index) => program.name(&program.functions[index]).into_owned(),
            None => "?".into(),
        };
        text += &format!("missing: {fact} ({}): {why}\n", function(fact.at()));
    }
    text += &format!("{} missing\n", missing.len());
    output::print(&text)?;
    Ok(if missing.is_empty() { DONE } else { FAILED })
}
