// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first page of a recording and its table of events: checked, so that all that follows can be
//! read by them.

use std::io;

use jifl_sys::abi::{
    FLIGHT_EVENTS_MAX, FLIGHT_IMAGES, FLIGHT_MAGIC, FLIGHT_PAGE, FLIGHT_TABLE_MAX, FLIGHT_VERSION,
    FlightEvent, FlightHead, FlightImage, FlightRecord, FlightRing, from_name,
};

use super::Memory;
use super::fields::{self, Field};
use super::time::Clock;
use crate::base::exit::Failure;

/// Addresses in a page of the table of pages.
pub const ADDRESSES: usize = FLIGHT_PAGE / 8;
/// The fewest and the most records of a ring.
const RECORDS: std::ops::RangeInclusive<u32> = 64..=1 << 24;
/// More CPUs than any machine has.
const MOST_CPUS: u32 = 1 << 16;
/// More images than any module makes a table for.
const MOST_IMAGES: usize = 8 * FLIGHT_IMAGES;

/// Why memory is not read as a recording: in words, with the way out where there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotRead(pub String);

impl NotRead {
    /// As the reason for which the command ends.
    pub fn failure(self) -> Failure {
        Failure::failed(self.0)
    }
}

/// A head that makes sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head(FlightHead);

/// An event that is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `sched_switch`
    pub name: String,
    /// `sched`
    pub group: String,
    /// What its arguments are.
    pub fields: Vec<Field>,
}

fn not_read<T>(why: impl Into<String>) -> Result<T, NotRead> {
    Err(NotRead(why.into()))
}

impl Head {
    /// A head, from the bytes of its page.
    ///
    /// # Errors
    /// It is no head of a version that is known, or its parts cannot be where it says.
    pub fn of(page: &[u8]) -> Result<Head, NotRead> {
        let Some(head) = FlightHead::from_bytes(page) else {
            return not_read("it is too short to be a recording");
        };
        if head.magic != *FLIGHT_MAGIC {
            return not_read("it does not begin as a recording does");
        }
        if head.version != FLIGHT_VERSION {
            return not_read(format!(
                "the recording is of version {} of the format, this command reads version \
                 {FLIGHT_VERSION}: use the command that belongs to the module that recorded",
                head.version
            ));
        }
        let head = Head(head);
        match head.is_sound() {
            true => Ok(head),
            false => not_read("the recording's head is damaged: its parts cannot be where it says"),
        }
    }

    /// Do all parts lie behind each other, each from a page on, in the region?
    fn is_sound(&self) -> bool {
        let head = &self.0;
        let sizes = [
            (
                head.events_at,
                u64::from(head.nevents) * FlightEvent::SIZE as u64,
            ),
            (
                head.images_at,
                u64::from(head.nimages) * FlightImage::SIZE as u64,
            ),
            (
                head.rings_at,
                u64::from(head.ncpus) * FlightRing::SIZE as u64,
            ),
            (head.pages_at, u64::from(head.npages) * 8),
            (
                head.records_at,
                self.ring_bytes().saturating_mul(u64::from(head.ncpus)),
            ),
        ];
        let mut from = FLIGHT_PAGE as u64;
        for (at, size) in sizes {
            if at < from || at % FLIGHT_PAGE as u64 != 0 {
                return false;
            }
            let Some(end) = at.checked_add(size) else {
                return false;
            };
            from = end;
        }
        from <= self.bytes()
            && (1..=MOST_CPUS).contains(&head.ncpus)
            && (1..=FLIGHT_EVENTS_MAX as u32).contains(&head.nevents)
            && head.nimages as usize <= MOST_IMAGES
            && head.npages as usize <= FLIGHT_TABLE_MAX * ADDRESSES
            && head.record_count.is_power_of_two()
            && RECORDS.contains(&head.record_count)
            && head.tsc_khz > 0
    }

    /// The head itself.
    pub fn raw(&self) -> &FlightHead {
        &self.0
    }

    /// Bytes of the region.
    pub fn bytes(&self) -> u64 {
        u64::from(self.0.npages) * FLIGHT_PAGE as u64
    }

    /// Bytes of the records of a CPU.
    pub fn ring_bytes(&self) -> u64 {
        u64::from(self.0.record_count) * FlightRecord::SIZE as u64
    }

    /// Where the counter of a CPU's ring is, and where its records are.
    pub fn ring_at(&self, cpu: u32) -> (u64, u64) {
        let counter = self.0.rings_at + u64::from(cpu) * FlightRing::SIZE as u64;
        let records = self.0.records_at + u64::from(cpu) * self.ring_bytes();
        (counter, records)
    }

    /// What its times mean.
    pub fn clock(&self) -> Clock {
        Clock {
            tsc: self.0.tsc,
            khz: self.0.tsc_khz,
            monotonic: self.0.monotonic_ns,
            realtime: self.0.realtime_ns,
        }
    }

    /// `uname -r`.
    pub fn release(&self) -> String {
        from_name(&self.0.release)
    }

    /// As in /proc/sys/kernel/random/boot_id.
    pub fn boot_id(&self) -> String {
        let hex = hex(&self.0.boot_id);
        [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ]
        .join("-")
    }

    /// The kernel's build id; `None`: unknown.
    pub fn build_id(&self) -> Option<String> {
        (self.0.build_id != [0; 20]).then(|| hex(&self.0.build_id))
    }

    /// Reads the table of events.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn events(&self, memory: &mut impl Memory) -> io::Result<Vec<Event>> {
        let mut bytes = vec![0; self.0.nevents as usize * FlightEvent::SIZE];
        memory.read(self.0.events_at, &mut bytes)?;
        Ok(Event::all(&bytes))
    }
}

/// Bytes as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Event {
    /// All events of a table. One without a sound name gets its number for one.
    pub fn all(table: &[u8]) -> Vec<Event> {
        let entries = table.chunks_exact(FlightEvent::SIZE).enumerate();
        entries
            .filter_map(|(index, bytes)| Some((index, FlightEvent::from_bytes(bytes)?)))
            .map(|(index, raw)| Event {
                name: word(&raw.name).unwrap_or_else(|| format!("event_{index}")),
                group: word(&raw.group).unwrap_or_else(|| "unknown".into()),
                fields: fields::parse(&from_name(&raw.fields)),
            })
            .collect()
    }
}

/// A name of letters, digits and underscores.
fn word(bytes: &[u8]) -> Option<String> {
    let text = from_name(bytes);
    fields::is_word(&text).then_some(text)
}
