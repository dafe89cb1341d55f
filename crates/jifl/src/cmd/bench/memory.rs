// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory set: a compile's throughput with a session over every system call, against the memory
//! given to the cache. The module is loaded anew with each size, and at the end with its former
//! parameters.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::path::Path;

use super::instruments::{self, Counts, Instrument, Known, Live, What};
use super::programs::Compile;
use super::series::{self, Series, Trouble};
use super::sheet::Row;
use super::stats::median;
use crate::base::environment::release;
use crate::base::exit::Failure;
use crate::cmd::plugin;
use crate::show::output;

/// Sizes: KiB of code, and as many of tables.
pub const SIZES: [u64; 5] = [1024, 1536, 2048, 4096, 8192];

/// The least size of tables, in KiB.
const LEAST_SIDE: u64 = 64;
/// Number of compiles that are measured, after a first one.
const TIMES: usize = 2;

/// The result.
pub struct Found {
    /// Rows, with a cell for each size.
    pub rows: Vec<Row>,
    /// Notes, one line each.
    pub notes: Vec<String>,
}

/// The name of the operation with this size.
pub fn op_name(size: u64) -> String {
    format!("{size} KB")
}

/// Measures the rows that are sessions, with each size.
///
/// # Errors
/// The module, as loaded now, cannot be unloaded.
pub fn measure(rows: &[Instrument], sizes: &[u64]) -> Result<Found, Failure> {
    let before = parameters(Path::new("/sys/module/jifl/parameters"));
    if before.is_some() {
        plugin::remove("jifl")?;
    }
    let kept = before.clone().unwrap_or_default();
    let wanted: Vec<&Instrument> = rows
        .iter()
        .filter(|row| matches!(row.what, What::Native | What::Session(..)))
        .collect();
    let mut notes = Vec::new();
    let columns: Vec<(String, Vec<Series>)> = match native() {
        Ok((compile, native)) => sizes
            .iter()
            .map(|size| {
                (
                    op_name(*size),
                    measure_size(&mut notes, &wanted, &compile, &native, (*size, &kept)),
                )
            })
            .collect(),
        Err(why) => {
            let missing = Series::without(Trouble::Missing(why));
            vec![(op_name(sizes[0]), vec![missing; wanted.len()])]
        }
    };
    if let Some(before) = before {
        insert(&before)?;
    }
    let rows = wanted.iter().enumerate().map(|(index, row)| {
        let found = columns
            .iter()
            .map(|(op, column)| (op.as_str(), &column[index]));
        series::row(row, &found.collect::<Vec<_>>())
    });
    Ok(Found {
        rows: rows.collect(),
        notes,
    })
}

/// Values of the module's parameters, by their names.
type Parameters = BTreeMap<String, String>;

/// Parameters of the loaded module, by files of this directory. Those that cannot be read are left
/// out, and empty ones: these are what they are at a load without them.
fn parameters(directory: &Path) -> Option<Parameters> {
    let files = fs::read_dir(directory).ok()?.flatten();
    let read = |file: fs::DirEntry| {
        let value = fs::read_to_string(file.path()).ok()?.trim().to_owned();
        Some((file.file_name().into_string().ok()?, value))
    };
    let all = files.filter_map(read);
    Some(all.filter(|(_, value)| !value.is_empty()).collect())
}

/// The same with this size.
fn sized(kept: &Parameters, size: u64) -> Parameters {
    let mut all = kept.clone();
    all.insert("cache_kb".into(), size.to_string());
    // The module refuses smaller tables.
    all.insert("side_kb".into(), size.max(LEAST_SIDE).to_string());
    all
}

/// Parameters as a load takes them. The kernel takes quotes for values with blanks.
fn words(parameters: &Parameters) -> String {
    let word = |(name, value): (&String, &String)| {
        if value.contains(char::is_whitespace) {
            format!("{name}=\"{value}\"")
        } else {
            format!("{name}={value}")
        }
    };
    parameters.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn insert(parameters: &Parameters) -> Result<(), Failure> {
    let text = CString::new(words(parameters));
    plugin::insert(None, &text.unwrap_or_default())
}

fn native() -> Result<(Compile, Vec<f64>), String> {
    let compile = Compile::new()?;
    compile.cost()?;
    let costs: Result<Vec<f64>, String> = (0..=TIMES).map(|_| compile.cost()).collect();
    Ok((compile, costs?))
}

fn measure_size(
    notes: &mut Vec<String>,
    wanted: &[&Instrument],
    compile: &Compile,
    native: &[f64],
    (size, kept): (u64, &Parameters),
) -> Vec<Series> {
    let op = op_name(size);
    output::note(&format!("jifl bench: memory, {}: {op}", release()));
    let loaded = insert(&sized(kept, size));
    let found = wanted.iter().map(|row| {
        let costs = match (&loaded, row.what) {
            (_, What::Native) => Ok((native.to_vec(), None)),
            (Err(failure), _) => Err(Trouble::Void(format!(
                "this size cannot be had: {}",
                failure.message
            ))),
            (Ok(()), what) => session_costs(compile, what),
        };
        match costs {
            Ok((costs, note)) => {
                notes.extend(note.map(|note| format!("{op}, {}: {note}", row.title)));
                Series::of(&costs, median(native))
            }
            Err(trouble) => Series::without(trouble),
        }
    });
    let found = found.collect();
    if loaded.is_ok() {
        notes.extend(plugin::remove("jifl").err().map(|failure| failure.message));
    }
    found
}

/// Costs, and a line if the cache was too small for all code that ran.
fn session_costs(compile: &Compile, what: What) -> Result<(Vec<f64>, Option<String>), Trouble> {
    let before = instruments::status().map_err(Trouble::Void)?;
    let live = Live::start(what, &Known::default()).map_err(Trouble::Missing)?;
    compile.cost().map_err(Trouble::Void)?;
    let from = instruments::all_counts(&live).map_err(Trouble::Void)?;
    let costs: Result<Vec<f64>, String> = (0..TIMES).map(|_| compile.cost()).collect();
    let costs = costs.map_err(Trouble::Void)?;
    let to = instruments::all_counts(&live).map_err(Trouble::Void)?;
    let after = instruments::status().map_err(Trouble::Void)?;
    let flushes = after.flushes - before.flushes;
    let translated = after.translated_blocks - before.translated_blocks;
    judge(translated, flushes, &from, &to).map_err(Trouble::Void)?;
    let line = format!("the cache was emptied {flushes} times");
    Ok((costs, (flushes > 0).then_some(line)))
}

/// Missed calls cost nothing, so a figure with many missed calls is void.
fn judge(translated: u64, flushes: u64, from: &Counts, to: &Counts) -> Result<(), String> {
    const MISSED: f64 = 0.01;
    if translated == 0 {
        return Err("too small to hold one block: nothing was translated".into());
    }
    if to.calls.is_empty() {
        return Ok(());
    }
    let calls = |counts: &Counts| counts.calls.iter().sum::<u64>();
    let (counted, missed) = (calls(to) - calls(from), to.missed - from.missed);
    if calls(to) == 0 {
        return Err("too small to hold the code of one call: nothing was counted".into());
    }
    let share = missed as f64 / (counted + missed).max(1) as f64;
    if share > MISSED {
        return Err(format!(
            "missed {:.1} % of the calls, and the cache was emptied {flushes} times",
            100.0 * share
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(calls: u64, missed: u64) -> Counts {
        Counts {
            calls: vec![calls],
            missed,
            ..Counts::default()
        }
    }

    #[test]
    fn the_module_gets_all_its_parameters_back() {
        let directory = std::env::temp_dir().join(format!("jifl-memory-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        for (name, value) in [
            ("cache_kb", "512\n"),
            ("side_kb", "1024\n"),
            ("count_keys", "9\n"),
            ("sites", "N\n"),
            ("plant", "\n"),
        ] {
            fs::write(directory.join(name), value).unwrap();
        }
        let mut kept = parameters(&directory).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(
            words(&kept),
            "cache_kb=512 count_keys=9 side_kb=1024 sites=N"
        );
        let least = sized(&kept, 16);
        assert_eq!(words(&least), "cache_kb=16 count_keys=9 side_kb=64 sites=N");
        kept.insert("plant".into(), "a b".into());
        assert!(words(&kept).contains("plant=\"a b\" "));
        assert_eq!(parameters(&directory), None, "it is not loaded");
        assert_eq!(
            words(&sized(&Parameters::new(), 128)),
            "cache_kb=128 side_kb=128"
        );
    }

    #[test]
    fn a_size_that_holds_nothing_is_void() {
        let none = counts(0, 0);
        for (translated, to, why) in [
            (0, counts(0, 0), "one block"),
            (9, counts(0, 100), "one call"),
            (9, counts(50, 50), "missed 50.0 %"),
        ] {
            let error = judge(translated, 3, &none, &to).unwrap_err();
            assert!(error.contains(why) && !error.contains('\n'), "{error}");
        }
        assert_eq!(judge(9, 1, &none, &counts(1000, 5)), Ok(()));
        // A session that inserts nothing has a count of 0.
        assert_eq!(judge(9, 1, &Counts::default(), &Counts::default()), Ok(()));
    }
}
