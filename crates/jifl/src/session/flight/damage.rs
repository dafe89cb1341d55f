// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings and images with flipped bits, and cut ones: what was not written is never shown.

use std::collections::HashSet;

use jifl_sys::abi::FLIGHT_PAGE as PAGE;

use super::Flight;
use super::image::{Physical, find};
use super::made::{Made, SOFTIRQ, SWITCH};
use super::tests::{Scratch, addresses, elf, read, scattered};
use crate::kernel::syscalls::Table;

/// Numbers that look random, the same each time (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// A recording whose rings have wrapped, as images have it.
fn wrapped() -> Made {
    let mut made = Made::new(2, 64);
    for n in 0..200 {
        let event = if n % 3 == 0 { SWITCH } else { SOFTIRQ };
        made.put(
            n % 2,
            n as i64 * 10,
            event,
            n as u32,
            &[n as u64, u64::MAX, 3],
        );
    }
    made
}

#[test]
fn a_flipped_bit_makes_no_record() {
    let made = wrapped();
    let region = made.region();
    let written: HashSet<Vec<u8>> = made.written().iter().map(|one| one.to_bytes()).collect();
    let from = region.len() - 2 * PAGE;
    let (mut numbers, calls) = (Numbers(0x5eed), Table::all());
    for _ in 0..10_000 {
        let bit = numbers.below(region.len() * 8);
        let mut flipped = region.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let Ok(flight) = read(flipped) else { continue };
        let mut got: HashSet<Vec<u8>> = HashSet::new();
        for entry in &flight.entries {
            assert!(got.insert(entry.raw.to_bytes()), "bit {bit}: twice");
            // Whatever the table of events says now, values are made of it.
            flight.values(entry, &calls);
        }
        assert!(
            got.is_subset(&written),
            "bit {bit}: a record that was not written"
        );
        if bit / 8 >= from {
            // All of the last two pages are records, and one of them is hit.
            assert_eq!(got.len(), written.len() - 1, "bit {bit}");
            assert_eq!(flight.total().torn, 1);
        }
    }
}

#[test]
fn damaged_and_cut_images_are_read_as_far_as_they_are_sound() {
    let mut made = wrapped();
    made.pages = addresses(&made, 0x10_0000);
    let whole = elf(&scattered(&made));
    let written: HashSet<Vec<u8>> = made.written().iter().map(|one| one.to_bytes()).collect();
    let mut numbers = Numbers(0xf11e);
    let mut read_at_all = 0;
    for round in 0..1500 {
        let mut bytes = whole.clone();
        match round % 3 {
            0 => bytes.truncate(numbers.below(whole.len())),
            _ => {
                // Headers are a small part of the file, so they are hit more often.
                let end = if round % 3 == 1 {
                    64 + 56 * 7
                } else {
                    whole.len()
                };
                bytes[numbers.below(end)] ^= 1 << numbers.below(8);
            }
        }
        let scratch = Scratch::new("damaged", &bytes);
        let Ok(physical) = Physical::open(&scratch.0, false) else {
            continue;
        };
        let Ok(mut found) = find(&physical) else {
            continue;
        };
        let Ok(flight) = Flight::read(&mut found.region) else {
            continue;
        };
        read_at_all += 1;
        for entry in &flight.entries {
            assert!(written.contains(&entry.raw.to_bytes()), "round {round}");
        }
    }
    assert!(read_at_all > 100, "{read_at_all}");
}
