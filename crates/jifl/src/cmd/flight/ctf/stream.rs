// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of a CPU, as one packet.

use super::{MAGIC, fields_of};
use crate::kernel::syscalls::Table;
use crate::session::flight::fields::{Kind, Value};
use crate::session::flight::{Counts, Entry, Flight};

/// Where the packet's sizes are.
const SIZES_AT: usize = 4 + 16 + 4 + 8 + 8;

/// The packet; `None`: there are no records. Times must not go back, so records that interrupted
/// the writing of others stand where their times belong.
pub fn packet(
    flight: &Flight,
    cpu: u32,
    counts: &Counts,
    mut entries: Vec<&Entry>,
) -> Option<Vec<u8>> {
    entries.sort_by_key(|entry| entry.raw.time);
    let (first, last) = (entries.first()?, entries.last()?);
    let mut bytes = Vec::new();
    bytes.extend(MAGIC.to_le_bytes());
    bytes.extend(flight.head.raw().boot_id);
    bytes.extend(0u32.to_le_bytes());
    bytes.extend(flight.time(first).to_le_bytes());
    bytes.extend(flight.time(last).to_le_bytes());
    // Sizes of content and packet, in bits; below.
    bytes.extend([0; 16]);
    let discarded = counts.torn + counts.empty + counts.others + counts.missing;
    bytes.extend(discarded.to_le_bytes());
    bytes.extend(cpu.to_le_bytes());
    let calls = Table::all();
    for entry in entries {
        bytes.extend(entry.raw.event.to_le_bytes());
        bytes.extend(flight.time(entry).to_le_bytes());
        bytes.extend(entry.raw.tid.to_le_bytes());
        bytes.extend(entry.raw.level().to_le_bytes());
        for field in fields_of(flight, entry.raw.event) {
            let number = entry.raw.arg[field.at];
            match field.kind {
                Kind::Thread => bytes.extend((number as u32).to_le_bytes()),
                Kind::State | Kind::Text(_) => {
                    let text = match field.value(&entry.raw.arg, &calls) {
                        Value::Text(text) | Value::Name(text) => text,
                        other => other.to_string(),
                    };
                    bytes.extend(text.bytes());
                    bytes.push(0);
                }
                Kind::Device => {
                    let number = number as u32;
                    bytes.extend((number >> 20).to_le_bytes());
                    bytes.extend((number & 0xf_ffff).to_le_bytes());
                }
                _ => bytes.extend(number.to_le_bytes()),
            }
        }
    }
    let bits = (bytes.len() as u64 * 8).to_le_bytes();
    bytes[SIZES_AT..SIZES_AT + 8].copy_from_slice(&bits);
    bytes[SIZES_AT + 8..SIZES_AT + 16].copy_from_slice(&bits);
    Some(bytes)
}
