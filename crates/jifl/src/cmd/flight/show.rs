// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl flight show`, and the options and forms that it shares with `extract` and `last`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::choice::Choice;
use super::{Source, control, ctf, lines, viewer};
use crate::base::duration;
use crate::base::exit::{DONE, Failure};
use crate::kernel::syscalls::Table;
use crate::session::device;
use crate::session::flight::door::Copied;
use crate::session::flight::{Counts, Entry, Flight, NotRead, file};
use crate::show::output::{self, Sink};
use crate::show::text;

/// How records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A line for each record
    Text,
    /// A JSON object in a line for each record
    Ndjson,
    /// Lines of comma-separated values
    Csv,
    /// Perfetto's own format, binary: a line for each CPU and thread in ui.perfetto.dev
    Perfetto,
    /// Chrome's trace events, JSON, for the same and for chrome://tracing
    Chrome,
    /// The Common Trace Format 1.8, a directory: for babeltrace2 and Trace Compass
    Ctf,
    /// One JSON object for the whole recording
    Json,
}

/// Which records, and how they are written.
#[derive(Debug, Clone, Default, Args)]
pub struct Wanted {
    /// Only so much time before the newest record: 100ms, 5s
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    last: Option<Duration>,
    /// Only these events and groups, with commas between them
    #[arg(short, long, value_name = "EVENT|GROUP", value_delimiter = ',')]
    events: Vec<String>,
    /// Only records of this thread
    #[arg(short = 'p', long, value_name = "TID")]
    tid: Option<u32>,
    /// How it is written
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub format: Option<Form>,
    /// Write the output to FILE; with -f ctf, to this directory
    #[arg(short, long, value_name = "FILE|DIR")]
    pub output: Option<PathBuf>,
}

/// Arguments of `jifl flight show`.
#[derive(Debug, Args)]
#[command(after_help = "\
A line has the time in seconds of CLOCK_MONOTONIC (as dmesg), the CPU, the thread that ran or was
interrupted, the level (task, softirq, irq), the event and its arguments.

Examples:
  jifl flight show --last 100ms
  jifl flight show -e sched,sys_exit -p 4321
  jifl flight show seen.flight -f perfetto -o seen.perfetto
  jifl flight show seen.flight -f ctf -o trace && babeltrace2 trace")]
pub struct ShowArgs {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    wanted: Wanted,
}

/// Runs the command.
pub fn run(args: &ShowArgs) -> Result<u8, Failure> {
    let flight = read(args.source.file.as_deref())?;
    write(flight, &args.wanted)
}

/// Reads a copy, or the recording that runs.
///
/// # Errors
/// It cannot be read.
pub fn read(path: Option<&Path>) -> Result<Flight, Failure> {
    let Some(path) = path else {
        let door = device::open()?;
        let mut live = Copied::live(&door)?;
        return Flight::read(&mut live).map_err(NotRead::failure);
    };
    let failed =
        |why: &dyn std::fmt::Display| Failure::failed(format!("{}: {why}", path.display()));
    let mut copy = File::open(path).map_err(|error| failed(&error))?;
    if !file::is_copy(&copy) {
        return Err(failed(
            &"it is no copy of a recording; if it is an image of memory, `jifl flight extract` \
              finds the recording in it",
        ));
    }
    Flight::read(&mut copy).map_err(|NotRead(why)| failed(&why))
}

/// Writes what is wanted of a recording, and notes what was not there.
///
/// # Errors
/// An event is unknown, or nothing can be written there.
pub fn write(mut flight: Flight, wanted: &Wanted) -> Result<u8, Failure> {
    let form = wanted.format.unwrap_or(Form::Text);
    let all = flight.total();
    let choice = wanted.select(&mut flight)?;
    match (form, &wanted.output) {
        (Form::Ctf, Some(folder)) => ctf::write(&flight, folder)?,
        (Form::Ctf, None) => {
            return Err(Failure::usage(
                "-f ctf is a directory: name one that is to be made, with -o DIR",
            ));
        }
        (_, output) => {
            let mut sink = Sink::open(output.as_deref())?;
            if form == Form::Perfetto && sink.is_terminal() {
                return Err(Failure::usage(
                    "-f perfetto is binary: write it to a file, with -o FILE",
                ));
            }
            put(&flight, &choice, form, |bytes| sink.write_bytes(bytes))?;
        }
    }
    let shown = flight.entries.iter().filter(|entry| choice.has(entry));
    output::note(&said(&all, shown.count()));
    Ok(DONE)
}

/// What there was, and what was not.
pub fn said(all: &Counts, shown: usize) -> String {
    let mut text = format!(
        "# records {} of {} shown; torn {}, never written {}, in wrong places {}",
        text::grouped(shown as u64),
        text::grouped(all.records),
        all.torn,
        all.empty,
        all.others
    );
    if all.missing > 0 {
        text += &format!(", not in the image {}", text::grouped(all.missing));
    }
    if all.unknown_cpus > 0 {
        text += &format!(", CPUs of which nothing can be read {}", all.unknown_cpus);
    }
    text + &format!(
        "; older ones overwritten {}",
        text::grouped(all.overwritten)
    )
}

impl Wanted {
    /// Leaves the records that are wanted. For viewers those of all events and threads are left:
    /// what runs on a CPU follows from all of its switches.
    ///
    /// # Errors
    /// An event is unknown.
    fn select(&self, flight: &mut Flight) -> Result<Choice, Failure> {
        if self.last.is_some() {
            flight.keep_last(control::nanoseconds(self.last));
        }
        let choice = Choice::of(&self.events, self.tid, flight)?;
        if !matches!(self.format, Some(Form::Perfetto | Form::Chrome)) {
            flight.entries.retain(|entry| choice.has(entry));
        }
        Ok(choice)
    }
}

/// Bytes that are written at once.
const PIECE: usize = 1 << 16;

/// Writes the records in a form that is one file.
fn put(
    flight: &Flight,
    choice: &Choice,
    form: Form,
    mut write: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let calls = Table::all();
    let line = match form {
        Form::Text => lines::person,
        Form::Csv => lines::csv,
        Form::Ndjson => |flight: &Flight, entry: &Entry, calls: &Table| {
            text::json(&lines::object(flight, entry, calls))
        },
        Form::Json => return write(text::json(&whole(flight, &calls)).as_bytes()),
        Form::Perfetto | Form::Chrome | Form::Ctf => {
            return viewer::write(flight, choice, form == Form::Chrome, &calls, write);
        }
    };
    if form == Form::Csv {
        write(lines::COLUMNS.as_bytes())?;
    }
    let mut piece = String::new();
    for entry in &flight.entries {
        piece += &line(flight, entry, &calls);
        if piece.len() >= PIECE {
            write(piece.as_bytes())?;
            piece.clear();
        }
    }
    write(piece.as_bytes())
}

/// What a head says, for programs.
pub fn about(flight: &Flight) -> Value {
    let head = &flight.head;
    json!({
        "release": head.release(),
        "boot_id": head.boot_id(),
        "build_id": head.build_id(),
        "cpus": head.raw().ncpus,
        "bytes": head.bytes(),
        "records_per_cpu": head.raw().record_count,
        "counts": flight.total(),
    })
}

fn whole(flight: &Flight, calls: &Table) -> Value {
    let records = flight.entries.iter();
    let records: Vec<Value> = records
        .map(|entry| lines::object(flight, entry, calls))
        .collect();
    let mut whole = about(flight);
    whole["command"] = "flight show".into();
    whole["records"] = records.into();
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::flight::made::Made;

    fn sample() -> Flight {
        Flight::read(&mut Made::sample().region()).unwrap()
    }

    fn written(form: Form) -> String {
        let mut all = Vec::new();
        put(&sample(), &Choice::default(), form, |bytes| {
            all.extend_from_slice(bytes);
            Ok(())
        })
        .unwrap();
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn each_form_has_all_records() {
        assert_eq!(written(Form::Text).lines().count(), 14);
        assert_eq!(written(Form::Csv).lines().count(), 15);
        let ndjson = written(Form::Ndjson);
        for line in ndjson.lines() {
            serde_json::from_str::<Value>(line).unwrap();
        }
        assert_eq!(ndjson.lines().count(), 14);
        let json: Value = serde_json::from_str(&written(Form::Json)).unwrap();
        assert_eq!(json["records"].as_array().unwrap().len(), 14);
        assert_eq!(json["counts"]["records"], 14);
        assert_eq!(json["release"], "6.12.0-made");
    }

    #[test]
    fn what_is_wanted_is_left() {
        let left = |wanted: Wanted| {
            let mut flight = sample();
            wanted.select(&mut flight).map(|_| flight.entries.len())
        };
        let sys = Wanted {
            events: vec!["sys".into()],
            ..Wanted::default()
        };
        assert_eq!(left(sys.clone()), Ok(4));
        let last = Some(Duration::from_nanos(1000));
        let viewed = Wanted {
            format: Some(Form::Perfetto),
            ..sys.clone()
        };
        assert_eq!(left(viewed), Ok(14));
        assert_eq!(left(Wanted { last, ..sys }), Ok(1));
        let tid = Some(102);
        assert_eq!(
            left(Wanted {
                tid,
                ..Wanted::default()
            }),
            Ok(3)
        );
        let wrong = Wanted {
            events: vec!["sys_entre".into()],
            ..Wanted::default()
        };
        assert!(left(wrong).unwrap_err().message.contains("sys_enter"));
    }

    #[test]
    fn what_was_not_there_is_said() {
        let counts = Counts {
            records: 1200,
            torn: 1,
            missing: 64,
            unknown_cpus: 2,
            ..Counts::default()
        };
        assert_eq!(
            said(&counts, 10),
            "# records 10 of 1,200 shown; torn 1, never written 0, in wrong places 0, not in the \
             image 64, CPUs of which nothing can be read 2; older ones overwritten 0"
        );
    }
}
