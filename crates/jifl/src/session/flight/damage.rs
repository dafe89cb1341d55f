// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings and images with flipped bits, and cut ones: what was not written is never shown.

use std::collections::HashSet;

use jifl_sys::abi::FLIGHT_PAGE as PAGE;

use super::image::{Physical, find};
use super::made::{FAULT, Made, SOFTIRQ, SWITCH};
use super::tests::{Scratch, addresses, elf, read, scattered};
use super::{Flight, Head};
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

/// Reads the recording of an image.
fn of_image(bytes: &[u8]) -> Flight {
    let scratch = Scratch::new("absent", bytes);
    let physical = Physical::open(&scratch.0, false).unwrap();
    Flight::read(&mut find(&physical).unwrap().region).unwrap()
}

#[test]
fn an_absent_page_takes_no_more_than_what_was_in_it() {
    let mut made = Made::new(65, 64);
    made.put(0, 1, FAULT, 101, &[0xffff_ffff_8100_0010, 2]).put(
        64,
        2,
        FAULT,
        102,
        &[0xffff_ffff_8100_0020, 2],
    );
    made.pages = addresses(&made, 0x10_0000);
    let head = Head::of(&made.region()[..PAGE]).unwrap();
    let (images, rings) = (head.raw().images_at, head.raw().rings_at);
    let without = |at: u64| {
        let mut parts = scattered(&made);
        parts.remove(at as usize / PAGE);
        of_image(&elf(&parts))
    };
    let first = |flight: &Flight| {
        let (_, value) = &flight.values(&flight.entries[0], &Table::all())[0];
        value.to_string()
    };
    let flight = of_image(&elf(&scattered(&made)));
    assert_eq!(first(&flight), "vmlinux+0x10");
    // Addresses have no names, and that is all.
    let flight = without(images);
    assert_eq!(
        (flight.entries.len(), first(&flight)),
        (2, "0xffffffff81000010".into())
    );
    // The first page of counters has those of 64 CPUs.
    let flight = without(rings);
    assert_eq!(flight.total().unknown_cpus, 64);
    assert_eq!(first(&flight), "vmlinux+0x20");
    assert_eq!(flight.counts[63].unknown_cpus, 1);
    assert_eq!(flight.counts[64].records, 1);
}

#[test]
fn a_core_has_zeroes_where_it_has_memory_without_bytes() {
    let mut made = Made::new(1, 64);
    made.put(0, 1, SOFTIRQ, 101, &[1]);
    made.pages = addresses(&made, 0x10_0000);
    let mut parts = scattered(&made);
    parts.last_mut().unwrap().1.clear();
    let mut core = elf(&parts);
    assert_eq!(of_image(&core).total().missing, 1);
    let size = 64 + 56 * (parts.len() - 1) + 40;
    core[size..size + 8].copy_from_slice(&(PAGE as u64).to_le_bytes());
    let total = of_image(&core).total();
    assert_eq!((total.missing, total.empty), (0, 1));
}

#[test]
fn a_device_that_does_not_say_its_size_is_refused() {
    let why = Physical::open("/dev/zero".as_ref(), true).unwrap_err();
    assert!(
        why.message.contains("its size is not known: copy it"),
        "{}",
        why.message
    );
}
