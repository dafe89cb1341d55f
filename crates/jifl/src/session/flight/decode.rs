// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records: from the rings of all CPUs to one sequence.
//!
//! A slot of a ring has a record if its check is right, and if it has the number and the CPU that
//! belong there. Everything else is counted by what it looks like, and left out.

use std::io;
use std::ops::Range;

use jifl_sys::abi::{FlightRecord, FlightRing};
use serde::Serialize;

use super::head::{Event, Head, NotRead};
use super::images::Images;
use super::{Memory, fields};
use crate::kernel::syscalls::Table;

/// Records that are read at once: 1 MiB.
const PIECE: usize = 1 << 14;

/// What became of the places where records of the newest times belong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Whole records.
    pub records: u64,
    /// The check is wrong: half written, or damaged.
    pub torn: u64,
    /// A whole record of another time or place: overwritten while it was read, or its writer was
    /// interrupted for good.
    pub others: u64,
    /// Zeroes: begun, and never written.
    pub empty: u64,
    /// The memory is not there.
    pub missing: u64,
    /// Older records, which newer ones have replaced.
    pub overwritten: u64,
    /// CPUs whose counter is not there: nothing is known of their records.
    pub unknown_cpus: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.records += other.records;
        self.torn += other.torn;
        self.others += other.others;
        self.empty += other.empty;
        self.missing += other.missing;
        self.overwritten += other.overwritten;
        self.unknown_cpus += other.unknown_cpus;
    }
}

/// A record, in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its number on its CPU, from 0 on.
    pub number: u64,
    /// As it was written.
    pub raw: FlightRecord,
}

/// A recording that was read.
#[derive(Debug, Clone)]
pub struct Flight {
    /// Its head.
    pub head: Head,
    /// Its events, by their numbers.
    pub events: Vec<Event>,
    /// Where code lies.
    pub images: Images,
    /// Of each CPU, how many records were begun since the beginning; 0 if that cannot be read.
    pub begun: Vec<u64>,
    /// Of each CPU.
    pub counts: Vec<Counts>,
    /// All records, by time.
    pub entries: Vec<Entry>,
}

/// Reads the records of a ring: those of these numbers that the ring still has.
/// Records that cannot be read are counted.
pub fn ring(
    head: &Head,
    memory: &mut impl Memory,
    cpu: u32,
    numbers: Range<u64>,
    entries: &mut Vec<Entry>,
) -> Counts {
    let count = u64::from(head.raw().record_count);
    let (_, at) = head.ring_at(cpu);
    let mut counts = Counts::default();
    let mut number = numbers.start;
    let mut bytes = Vec::new();
    while number < numbers.end {
        let slot = number % count;
        let n = (numbers.end - number).min(count - slot).min(PIECE as u64);
        bytes.resize(n as usize * FlightRecord::SIZE, 0);
        let from = at + slot * FlightRecord::SIZE as u64;
        if memory.read(from, &mut bytes).is_ok() {
            for (index, bytes) in bytes.chunks_exact(FlightRecord::SIZE).enumerate() {
                let one = number + index as u64;
                place(bytes, cpu, one, &mut counts, entries);
            }
        } else {
            one_by_one(memory, from, cpu, number..number + n, &mut counts, entries);
        }
        number += n;
    }
    counts
}

/// The same where not all of the memory is there.
fn one_by_one(
    memory: &mut impl Memory,
    from: u64,
    cpu: u32,
    numbers: Range<u64>,
    counts: &mut Counts,
    entries: &mut Vec<Entry>,
) {
    let mut bytes = [0; FlightRecord::SIZE];
    let first = numbers.start;
    for number in numbers {
        let at = from + (number - first) * FlightRecord::SIZE as u64;
        match memory.read(at, &mut bytes) {
            Ok(()) => place(&bytes, cpu, number, counts, entries),
            Err(_) => counts.missing += 1,
        }
    }
}

/// Takes what is in the place of a record.
fn place(bytes: &[u8], cpu: u32, number: u64, counts: &mut Counts, entries: &mut Vec<Entry>) {
    let Ok(bytes) = <&[u8; FlightRecord::SIZE]>::try_from(bytes) else {
        return;
    };
    let Some(raw) = FlightRecord::from_bytes(bytes) else {
        return;
    };
    if raw.check != FlightRecord::sum(bytes) {
        match bytes.iter().all(|byte| *byte == 0) {
            true => counts.empty += 1,
            false => counts.torn += 1,
        }
    } else if raw.number != number as u32 || u32::from(raw.cpu) != cpu {
        counts.others += 1;
    } else {
        counts.records += 1;
        entries.push(Entry { number, raw });
    }
}

impl Flight {
    /// Reads a whole recording.
    ///
    /// # Errors
    /// There is none, or its head or its table of events cannot be read.
    pub fn read(memory: &mut impl Memory) -> Result<Flight, NotRead> {
        let lacking = |what: &str, error: io::Error| {
            NotRead(format!("{what} of the recording cannot be read: {error}"))
        };
        let mut page = vec![0; jifl_sys::abi::FLIGHT_PAGE];
        memory
            .read(0, &mut page)
            .map_err(|error| lacking("the head", error))?;
        let head = Head::of(&page)?;
        let events = head
            .events(memory)
            .map_err(|error| lacking("the table of events", error))?;
        let mut flight = Flight {
            events,
            images: Images::of(&head, memory),
            begun: Vec::new(),
            counts: Vec::new(),
            entries: Vec::new(),
            head,
        };
        let mut of_cpus = Vec::new();
        for cpu in 0..flight.head.raw().ncpus {
            let known = counter(&flight.head, memory, cpu).ok();
            let count = known.unwrap_or(0);
            let oldest = count.saturating_sub(u64::from(flight.head.raw().record_count));
            let mut entries = Vec::new();
            let mut counts = ring(&flight.head, memory, cpu, oldest..count, &mut entries);
            counts.overwritten = oldest;
            counts.unknown_cpus = known.is_none().into();
            flight.begun.push(count);
            flight.counts.push(counts);
            of_cpus.push(entries);
        }
        flight.entries = merge(of_cpus);
        Ok(flight)
    }

    /// Keeps what is not older than so many nanoseconds before the newest record.
    pub fn keep_last(&mut self, nanoseconds: u64) {
        let ticks = self.head.clock().ticks(nanoseconds);
        let newest = self.entries.iter().map(|entry| entry.raw.time).max();
        let from = newest.unwrap_or(0).saturating_sub(ticks);
        self.entries.retain(|entry| entry.raw.time >= from);
    }

    /// The sums of all CPUs.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.counts.iter().for_each(|counts| total += *counts);
        total
    }

    /// The event of a record; `None`: its number is none of the table's.
    pub fn event(&self, entry: &Entry) -> Option<&Event> {
        self.events.get(usize::from(entry.raw.event))
    }

    /// Its name.
    pub fn event_name(&self, entry: &Entry) -> String {
        match self.event(entry) {
            Some(event) => event.name.clone(),
            None => format!("event_{}", entry.raw.event),
        }
    }

    /// Its arguments, by their names.
    pub fn values(&self, entry: &Entry, calls: &Table) -> Vec<(String, fields::Value)> {
        let unknown;
        let all = match self.event(entry) {
            Some(event) => &event.fields,
            None => {
                unknown = fields::unknown();
                &unknown
            }
        };
        let value = |field: &fields::Field| {
            let value = field.value(&entry.raw.arg, calls);
            let named = match (field.kind, &value) {
                (fields::Kind::Address, fields::Value::Hex(address)) => self.images.name(*address),
                _ => None,
            };
            (field.name.clone(), named.map_or(value, fields::Value::Name))
        };
        all.iter().map(value).collect()
    }

    /// CLOCK_MONOTONIC of a record, in nanoseconds.
    pub fn time(&self, entry: &Entry) -> u64 {
        self.head.clock().monotonic(entry.raw.time)
    }
}

/// How many records of a CPU were begun.
///
/// # Errors
/// The counter cannot be read.
pub fn counter(head: &Head, memory: &mut impl Memory, cpu: u32) -> io::Result<u64> {
    let mut bytes = [0; FlightRing::SIZE];
    memory.read(head.ring_at(cpu).0, &mut bytes)?;
    Ok(FlightRing::from_bytes(&bytes).map_or(0, |ring| ring.count))
}

/// One sequence by time. Records of one CPU stay in the order of their numbers: one that
/// interrupted the writing of another comes behind it, although it may have an earlier time.
pub fn merge(of_cpus: Vec<Vec<Entry>>) -> Vec<Entry> {
    let mut keyed = Vec::with_capacity(of_cpus.iter().map(Vec::len).sum());
    for entries in of_cpus {
        let mut latest = 0;
        for entry in entries {
            latest = latest.max(entry.raw.time);
            keyed.push((latest, entry));
        }
    }
    // Stable: of one time, by CPU, then by number.
    keyed.sort_by_key(|(latest, _)| *latest);
    keyed.into_iter().map(|(_, entry)| entry).collect()
}
