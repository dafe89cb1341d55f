// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of sheets: text, charts and JSON, of each sheet as soon as there is one. A run takes
//! an hour, and the sheets that are written are not lost when it ends early.

use std::path::{Path, PathBuf};

use super::results::Results;
use super::sheet::Sheet;
use super::{BenchArgs, chart, text};
use crate::base::exit::{DONE, FAILED, Failure};
use crate::show::output::{self, Format, Sink};

/// The output of one run.
pub struct Report<'a> {
    args: &'a BenchArgs,
    file: Option<Sink>,
    results: Results,
}

impl Report<'_> {
    /// Opens the output files.
    ///
    /// # Errors
    /// A file cannot be written. That shows before an hour is spent on measuring.
    pub fn new(args: &BenchArgs) -> Result<Report<'_>, Failure> {
        let file = args.json.as_deref().map(Sink::file).transpose()?;
        if let Some(directory) = &args.svg {
            std::fs::create_dir_all(directory)
                .map_err(|error| Failure::failed(format!("{}: {error}", directory.display())))?;
        }
        Ok(Report {
            args,
            file,
            results: Results::new(Vec::new()),
        })
    }

    /// Shows a sheet.
    pub fn add(&mut self, sheet: Sheet) -> Result<(), Failure> {
        if self.args.format == Format::Text {
            output::print(&(text::render(&sheet) + "\n"))?;
        }
        if let Some(directory) = &self.args.svg {
            for (name, svg) in chart::draw(&sheet).map_err(Failure::failed)? {
                Sink::file(&directory.join(name))?.write(&svg)?;
            }
        }
        self.results.sheets.push(sheet);
        if let Some(file) = &mut self.file {
            file.cut(0, b"");
            file.write(&self.results.json())?;
        }
        Ok(())
    }

    /// Shows sheets of earlier runs.
    pub fn add_earlier(&mut self, all: Vec<Results>) -> Result<(), Failure> {
        let mut commits: Vec<&str> = all.iter().map(|one| one.commit.as_str()).collect();
        commits.dedup();
        self.results.commit = commits.join(", ");
        for sheet in all.into_iter().flat_map(|one| one.sheets) {
            self.add(sheet)?;
        }
        Ok(())
    }

    /// The exit status.
    pub fn end(self) -> Result<u8, Failure> {
        if self.args.format == Format::Json {
            output::print(&self.results.json())?;
        }
        Ok(match self.results.sheets.is_empty() {
            true => FAILED,
            false => DONE,
        })
    }
}

/// Results of earlier runs.
///
/// # Errors
/// A file cannot be read, or was not written by this command.
pub fn read_all(files: &[PathBuf]) -> Result<Vec<Results>, Failure> {
    files.iter().map(|file| read(file)).collect()
}

fn read(file: &Path) -> Result<Results, Failure> {
    let failed =
        |why: &dyn std::fmt::Display| Failure::failed(format!("{}: {why}", file.display()));
    let text = std::fs::read(file).map_err(|error| failed(&error))?;
    serde_json::from_slice(&text)
        .map_err(|error| failed(&format!("not what `jifl bench --json` writes: {error}")))
}
