// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds recordings in physical memory: their heads by the magic at addresses of pages, everything
//! else by the addresses in the table of pages, which must lead back to the head.

use std::io;

use jifl_sys::abi::{FLIGHT_MAGIC, FLIGHT_PAGE};

use super::physical::Physical;
use crate::session::flight::decode::{self, counter};
use crate::session::flight::head::ADDRESSES;
use crate::session::flight::{Head, Memory, NotRead};

/// Bytes that are searched at once.
const PIECE: u64 = 4 << 20;
const PAGE: u64 = FLIGHT_PAGE as u64;
/// As many of the newest records of each ring say how new a recording is.
const NEWEST: u64 = 64;

/// What was found.
pub struct Found<'a> {
    /// The newest recording.
    pub region: Region<'a>,
    /// Where its head is.
    pub address: u64,
    /// Addresses of the heads of whole recordings that are older.
    pub older: Vec<u64>,
    /// Addresses of heads whose other parts are not there any more.
    pub damaged: Vec<u64>,
}

/// A recording whose pages lie anywhere.
pub struct Region<'a> {
    physical: &'a Physical,
    /// Of each page, in the region's order.
    pages: Vec<u64>,
}

impl Memory for Region<'_> {
    fn read(&mut self, mut offset: u64, mut room: &mut [u8]) -> io::Result<()> {
        while !room.is_empty() {
            let page = usize::try_from(offset / PAGE).ok();
            let page = page.and_then(|page| self.pages.get(page));
            let page = page.ok_or(io::ErrorKind::UnexpectedEof)?;
            let into = offset % PAGE;
            let length = (room.len() as u64).min(PAGE - into) as usize;
            let (now, rest) = room.split_at_mut(length);
            self.physical.read(page + into, now)?;
            room = rest;
            offset += length as u64;
        }
        Ok(())
    }
}

/// Finds the newest recording.
///
/// # Errors
/// There is none, or none whose parts are all there.
pub fn find(physical: &Physical) -> Result<Found<'_>, NotRead> {
    // An image may have a head in every page: of one recording alone more is kept than its address.
    let mut best: Option<(u64, u64, Region<'_>)> = None;
    let (mut older, mut damaged, mut first_why) = (Vec::new(), Vec::new(), None);
    for address in heads(physical) {
        match region(physical, address) {
            Ok((head, mut region)) => {
                let newest = newest(&head, &mut region);
                // Of several that are equally new, the first in memory.
                match &best {
                    Some((so_far, ..)) if *so_far >= newest => older.push(address),
                    _ => older.extend(best.replace((newest, address, region)).map(|last| last.1)),
                }
            }
            Err(why) => {
                damaged.push(address);
                first_why.get_or_insert((address, why));
            }
        }
    }
    let Some((_, address, region)) = best else {
        let why = match first_why {
            None => "no recording of the flight recorder is in it: none was made (`jifl flight \
                     start --keep`), or the dump leaves its memory out"
                .into(),
            Some((address, why)) => format!(
                "{} found, the first at {address:#x}, but {}",
                match damaged.len() {
                    1 => "a recording's head was".to_owned(),
                    n => format!("{n} recordings' heads were"),
                },
                why.0
            ),
        };
        return Err(NotRead(why));
    };
    Ok(Found {
        region,
        address,
        older,
        damaged,
    })
}

/// Addresses of pages that begin with the magic, in their order. What cannot be read has none.
fn heads(physical: &Physical) -> Vec<u64> {
    let mut heads = Vec::new();
    let mut bytes = Vec::new();
    for part in physical.parts() {
        let end = part.address + part.size;
        let mut at = match part.address.checked_next_multiple_of(PAGE) {
            Some(first) => first,
            None => continue,
        };
        while at < end {
            let length = PIECE.min(end - at);
            bytes.resize(length as usize, 0);
            if physical.read(at, &mut bytes).is_err() {
                // The file may be cut: page by page.
                for page in (at..at + length).step_by(FLIGHT_PAGE) {
                    let mut begin = [0; FLIGHT_MAGIC.len()];
                    if physical.read(page, &mut begin).is_ok() && begin == *FLIGHT_MAGIC {
                        heads.push(page);
                    }
                }
            } else {
                let pages = bytes.chunks(FLIGHT_PAGE).zip((at..).step_by(FLIGHT_PAGE));
                let of_heads = pages.filter(|(page, _)| page.starts_with(FLIGHT_MAGIC));
                heads.extend(of_heads.map(|(_, address)| address));
            }
            at += length;
        }
    }
    heads
}

/// The recording whose head is at an address.
fn region(physical: &Physical, address: u64) -> Result<(Head, Region<'_>), NotRead> {
    let lacking = |error: io::Error| NotRead(format!("its table of pages is not there: {error}"));
    let mut page = vec![0; FLIGHT_PAGE];
    physical
        .read(address, &mut page)
        .map_err(|error| NotRead(format!("its page is not there: {error}")))?;
    let head = Head::of(&page)?;
    let npages = head.raw().npages as usize;
    let mut pages = Vec::with_capacity(npages);
    for table in &head.raw().table[..npages.div_ceil(ADDRESSES)] {
        physical.read(*table, &mut page).map_err(lacking)?;
        let addresses = page.chunks_exact(8).take(npages - pages.len());
        pages.extend(addresses.map(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes)));
    }
    let first = (head.raw().pages_at / PAGE) as usize;
    let tables = &head.raw().table[..npages.div_ceil(ADDRESSES)];
    let leads_back = pages.first() == Some(&address)
        && pages.get(first..first + tables.len()) == Some(tables)
        && pages.iter().all(|page| page % PAGE == 0);
    match leads_back {
        true => Ok((head, Region { physical, pages })),
        false => Err(NotRead(
            "its table of pages leads elsewhere: it is a copy, or its memory was given back and is \
             used for something else"
                .into(),
        )),
    }
}

/// CLOCK_REALTIME of the newest record, in nanoseconds.
fn newest(head: &Head, region: &mut Region<'_>) -> u64 {
    let mut entries = Vec::new();
    for cpu in 0..head.raw().ncpus {
        let count = counter(head, region, cpu).unwrap_or(0);
        let from = count.saturating_sub(NEWEST.min(u64::from(head.raw().record_count)));
        decode::ring(head, region, cpu, from..count, &mut entries);
    }
    let times = entries
        .iter()
        .map(|entry| head.clock().realtime(entry.raw.time));
    times.max().unwrap_or(0)
}
