// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the daemon knows of its machine beside sessions. Tests have another machine.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::paths;
use super::works::Work;
use crate::base::exit::Failure;
use crate::cmd::prof::paths::metric::Metric;
use crate::cmd::search::order::{Grown, Order};
use crate::cmd::search::world::Ways;
use crate::cmd::stat::source::Kernel;
use crate::kernel::functions::Functions;
use crate::kernel::lines::LinesArgs;
use crate::kernel::pattern::Pattern;

/// Functions that one answer names.
const NAMES_MAX: usize = 1000;

/// What lists functions that a word means.
pub type Lister = Box<dyn Fn(&str) -> Result<Json, Failure> + Send>;
/// What searches the machine, and tells the work what it knows by now.
pub type Searcher = Box<dyn Fn(&Order, &Arc<Work>) -> Result<Grown, Failure> + Send + Sync>;
/// What counts by call path.
pub type Counter =
    Box<dyn Fn(&paths::Order, Metric, &Arc<Work>) -> Result<paths::Counted, Failure> + Send + Sync>;

/// A machine.
pub struct Machine {
    /// Lists functions.
    pub functions: Lister,
    /// Searches for the bottleneck.
    pub search: Searcher,
    /// Counts by call path.
    pub paths: Counter,
}

impl Machine {
    /// This one. `source`: what opens the daemon's sessions, too.
    pub fn here(source: Kernel) -> Machine {
        Machine {
            functions: Box::new(functions),
            search: Box::new(move |order, work| search(&source, order, work)),
            paths: Box::new(paths::count),
        }
    }
}

/// Searches the machine. Source lines are those of the debug information that is where distributions
/// put it.
fn search(source: &Kernel, order: &Order, work: &Arc<Work>) -> Result<Grown, Failure> {
    let (stops, told) = (Arc::clone(work), Arc::clone(work));
    let ways = Ways {
        source: source.clone(),
        stop: Box::new(move || stops.over()),
        tell: Box::new(move |found| {
            // The first measurement says that this machine can measure.
            if found.ledger.calls > 0 {
                told.started();
            }
            told.tell("tree", &Grown::of(found));
        }),
    };
    let (found, _) = order.search(ways, None, &LinesArgs::default())?;
    Ok(Grown::of(&found))
}

/// The functions of the running kernel that a word means: a name, a glob, `fn:...`, `mod:...`.
///
/// # Errors
/// There is none.
fn functions(word: &str) -> Result<Json, Failure> {
    let word = match word {
        "" => "fn:*".to_owned(),
        word if word.contains(':') => word.to_owned(),
        name => format!("fn:{name}"),
    };
    let pattern = Pattern::parse(&word)
        .ok_or_else(|| Failure::usage(format!("{word}: give fn:NAME, fn:GLOB or mod:NAME")))?;
    let functions = Functions::of_kernel();
    functions.need_addresses(&word)?;
    let found = functions.select(&pattern);
    if found.is_empty() {
        return Err(Failure::failed(functions.unknown(&pattern)));
    }
    let names: Vec<Json> = found
        .iter()
        .take(NAMES_MAX)
        .map(|one| json!({ "function": one.name, "module": one.module, "word": one.target() }))
        .collect();
    Ok(json!({ "all": found.len(), "functions": names }))
}
