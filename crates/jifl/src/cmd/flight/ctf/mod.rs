// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Common Trace Format 1.8 (<https://diamon.org/ctf/v1.8.3/>): a directory with `metadata`,
//! which describes the rest in its own language (TSDL), and a file of records for each CPU.

mod metadata;
mod stream;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use crate::base::exit::Failure;
use crate::session::flight::fields::{self, Field};
use crate::session::flight::{Entry, Flight};
use crate::show::output::Sink;

/// What begins every packet.
const MAGIC: u32 = 0xc1fc_1fc1;
/// What begins the name of each field: without it, fields could not have the names of TSDL's words.
/// Readers leave it out.
const PREFIX: char = '_';

/// Writes a trace into a directory that is new, or empty.
///
/// # Errors
/// It has files already, or nothing can be written there.
pub fn write(flight: &Flight, folder: &Path) -> Result<(), Failure> {
    let failed =
        |why: &dyn std::fmt::Display| Failure::failed(format!("{}: {why}", folder.display()));
    fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    let mut files = fs::read_dir(folder).map_err(|error| failed(&error))?;
    if files.next().is_some() {
        return Err(failed(
            &"the directory is not empty: name one that is to be made",
        ));
    }
    let metadata = metadata::metadata(flight);
    Sink::file(&folder.join("metadata"))?.write(&metadata)?;
    for (cpu, counts) in flight.counts.iter().enumerate() {
        let of_cpu = flight.entries.iter();
        let entries: Vec<&Entry> = of_cpu
            .filter(|entry| usize::from(entry.raw.cpu) == cpu)
            .collect();
        // A packet without records would have no times.
        if let Some(packet) = stream::packet(flight, cpu as u32, counts, entries) {
            Sink::file(&folder.join(format!("cpu_{cpu}")))?.write_bytes(&packet)?;
        }
    }
    Ok(())
}

/// The fields of records of an event's number.
fn fields_of(flight: &Flight, event: u16) -> Vec<Field> {
    let known = flight.events.get(usize::from(event));
    known.map_or_else(fields::unknown, |event| event.fields.clone())
}
