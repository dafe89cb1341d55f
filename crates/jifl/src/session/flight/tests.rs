// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads made-up recordings: whole, torn, overwritten, scattered over images.

use std::fs::{self, File};
use std::path::PathBuf;

use jifl_sys::abi::{FLIGHT_PAGE, FlightRecord};

use super::door::{self, Copied};
use super::image::{Physical, find};
use super::made::{Made, SOFTIRQ, SYS_ENTER, TSC};
use super::{Flight, Memory, NotRead, file};
use crate::kernel::syscalls::Table;
use crate::session::fake::Fake;

const PAGE: usize = FLIGHT_PAGE;

pub(super) fn read(mut region: Vec<u8>) -> Result<Flight, NotRead> {
    Flight::read(&mut region)
}

fn records(flight: &Flight) -> Vec<FlightRecord> {
    let mut all = flight.entries.clone();
    all.sort_by_key(|entry| (entry.raw.cpu, entry.number));
    all.iter().map(|entry| entry.raw).collect()
}

/// A file that goes with the test.
pub(super) struct Scratch(pub(super) PathBuf);

impl Scratch {
    pub(super) fn new(name: &str, bytes: &[u8]) -> Scratch {
        let name = format!("jifl-flight-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, bytes).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// An ELF core of parts: physical address and bytes.
pub(super) fn elf(parts: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let half = |file: &mut Vec<u8>, number: u16| file.extend(number.to_le_bytes());
    let word = |file: &mut Vec<u8>, number: u32| file.extend(number.to_le_bytes());
    let long = |file: &mut Vec<u8>, number: u64| file.extend(number.to_le_bytes());
    half(&mut file, 4);
    half(&mut file, 62);
    word(&mut file, 1);
    long(&mut file, 0);
    long(&mut file, 64);
    long(&mut file, 0);
    word(&mut file, 0);
    for number in [64, 56, parts.len() as u16, 0, 0, 0] {
        half(&mut file, number);
    }
    let mut offset = 64 + 56 * parts.len() as u64;
    for (address, bytes) in parts {
        word(&mut file, 1);
        word(&mut file, 7);
        for number in [
            offset,
            0,
            *address,
            bytes.len() as u64,
            bytes.len() as u64,
            0,
        ] {
            long(&mut file, number);
        }
        offset += bytes.len() as u64;
    }
    parts.iter().for_each(|(_, bytes)| file.extend(bytes));
    file
}

/// The pages of a region as parts of memory, where the region says that they are.
pub(super) fn scattered(made: &Made) -> Vec<(u64, Vec<u8>)> {
    let region = made.region();
    let pages = region.chunks(PAGE).map(<[u8]>::to_vec);
    made.pages.iter().copied().zip(pages).collect()
}

/// Addresses of pages that lie one behind the other in no place.
pub(super) fn addresses(made: &Made, from: u64) -> Vec<u64> {
    let n = made.npages() as u64;
    (0..n)
        .map(|page| from + (n - page) * 3 * PAGE as u64)
        .collect()
}

fn image(bytes: &[u8], name: &str) -> (Scratch, Physical) {
    let scratch = Scratch::new(name, bytes);
    let physical = Physical::open(&scratch.0, false).unwrap();
    (scratch, physical)
}

#[test]
fn all_records_come_by_time() {
    let made = Made::sample();
    let flight = read(made.region()).unwrap();
    assert_eq!(records(&flight), made.written());
    let times: Vec<u64> = flight
        .entries
        .iter()
        .map(|entry| flight.time(entry))
        .collect();
    assert!(times.is_sorted());
    assert_eq!(times[0], super::made::MONOTONIC + 1000);
    let values = flight.values(&flight.entries[5], &Table::all());
    let shown: Vec<String> = values
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(flight.event_name(&flight.entries[5]), "block_rq_issue");
    assert_eq!(shown.join(" "), "device=8:1 sector=2048 bytes=4096");
    assert_eq!(
        flight.head.boot_id(),
        "30313233-3435-3637-3839-616263646566"
    );
    assert_eq!(flight.total().records, 14);
    assert_eq!(flight.head.release(), "6.12.0-made");
    let mut newest = flight.clone();
    newest.keep_last(1000);
    assert_eq!(newest.entries.len(), 3);
}

#[test]
fn rings_wrap_and_what_is_no_record_is_counted() {
    let mut made = Made::new(3, 64);
    for n in 0..150 {
        made.put(0, n, SOFTIRQ, 7, &[n as u64]);
        if n < 10 {
            made.put(2, n, SOFTIRQ, 8, &[n as u64]);
        }
    }
    // A writer that was interrupted in a slot that has an old record, one in a new slot, and one
    // that is half done.
    made.begin(0).begin(2).put(2, 50, SOFTIRQ, 8, &[50]).tear(2);
    let flight = read(made.region()).unwrap();
    assert_eq!(records(&flight), made.written());
    assert_eq!(flight.begun, [151, 0, 12]);
    let [first, second, third] = flight.counts[..] else {
        panic!()
    };
    assert_eq!(
        (first.records, first.others, first.overwritten),
        (63, 1, 87)
    );
    assert_eq!(second, Default::default());
    assert_eq!((third.records, third.empty, third.torn), (10, 1, 1));
    assert_eq!(
        flight
            .entries
            .iter()
            .find(|entry| entry.raw.cpu == 0)
            .unwrap()
            .number,
        87
    );
}

#[test]
fn what_interrupts_stays_behind_what_it_interrupted() {
    let mut made = Made::new(2, 64);
    made.put(0, 100, SYS_ENTER, 1, &[1])
        .put(0, 90, SOFTIRQ, 1, &[1])
        .put(1, 95, SOFTIRQ, 2, &[2])
        .put(0, 110, SYS_ENTER, 1, &[1])
        .put(1, 100, SOFTIRQ, 2, &[2]);
    let flight = read(made.region()).unwrap();
    let order: Vec<(u16, u64)> = flight
        .entries
        .iter()
        .map(|entry| (entry.raw.cpu, (entry.raw.time - TSC) / 2))
        .collect();
    assert_eq!(order, [(1, 95), (0, 100), (0, 90), (1, 100), (0, 110)]);
}

#[test]
fn heads_that_cannot_be_are_refused() {
    let region = Made::sample().region();
    let change = |at: usize, bytes: &[u8]| {
        let mut region = region.clone();
        region[at..at + bytes.len()].copy_from_slice(bytes);
        read(region).unwrap_err().0
    };
    assert!(change(0, b"x").contains("does not begin"));
    assert!(change(16, &[1]).contains("version 1"));
    for (at, bytes) in [
        (20, 0u32.to_le_bytes()),
        (20, u32::MAX.to_le_bytes()),
        (24, 65u32.to_le_bytes()),
        (28, 5u32.to_le_bytes()),
        (32, 96u32.to_le_bytes()),
        (32, (1u32 << 24).to_le_bytes()),
        (40, 1u32.to_le_bytes()),
        (48, 0u32.to_le_bytes()),
        (56, 0u32.to_le_bytes()),
        (76, u32::MAX.to_le_bytes()),
        (116, 0u32.to_le_bytes()),
    ] {
        assert!(change(at, &bytes).contains("damaged"), "{at}");
    }
    assert!(read(region[..100].to_vec()).is_err());
}

#[test]
fn the_module_and_files_have_the_same_memory() {
    let made = Made::sample();
    let fake = Fake::default();
    let none = Copied::live(&fake).err().unwrap();
    assert!(
        none.message.contains("jifl flight start"),
        "{}",
        none.message
    );
    fake.state().flight.events = super::made::events();
    fake.state().flight.region = Some(made.region());
    fake.state().flight.kept.insert("box".into(), made.region());
    fake.state().flight.kept.insert("void".into(), Vec::new());
    assert_eq!(door::events(&fake).unwrap()[2].name, "sched_switch");

    let mut live = Copied::live(&fake).unwrap();
    assert_eq!(records(&Flight::read(&mut live).unwrap()), made.written());
    let mut last = Copied::last(&fake, "box").unwrap();
    assert_eq!(records(&Flight::read(&mut last).unwrap()), made.written());
    let void = Copied::last(&fake, "void").err().unwrap();
    assert!(void.message.contains("no recording of another boot"));
    let gone = Copied::last(&fake, "gone").err().unwrap();
    assert_eq!(gone.status, crate::base::exit::CANNOT);

    let mut bytes = Vec::new();
    let missing = file::copy(&mut live, |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    });
    assert_eq!((missing, &bytes), (Ok(0), &made.region()));
    let scratch = Scratch::new("copy", &bytes);
    let mut copy = File::open(&scratch.0).unwrap();
    assert!(file::is_copy(&copy));
    assert_eq!(records(&Flight::read(&mut copy).unwrap()), made.written());
}

#[test]
fn a_recording_is_found_wherever_its_pages_are() {
    let mut made = Made::sample();
    made.pages = addresses(&made, 0x10_0000);
    let parts = scattered(&made);
    let (_scratch, physical) = image(&elf(&parts), "scattered");
    let mut found = find(&physical).unwrap();
    assert_eq!((found.address, found.older.len()), (made.pages[0], 0));
    let flight = Flight::read(&mut found.region).unwrap();
    assert_eq!(records(&flight), made.written());

    // A page of records that the dump leaves out, and one that it has twice.
    let mut holes = parts.clone();
    let last = holes.pop().unwrap();
    holes.push(holes[0].clone());
    let (_scratch, physical) = image(&elf(&holes), "holes");
    let flight = Flight::read(&mut find(&physical).unwrap().region).unwrap();
    let of_first: Vec<_> = made
        .written()
        .into_iter()
        .filter(|one| one.cpu == 0)
        .collect();
    assert_eq!(records(&flight), of_first);
    assert_eq!(
        flight.total().missing as usize,
        made.written().len() - of_first.len()
    );

    // The same as a flat file.
    let end = made.pages.iter().max().unwrap() + PAGE as u64;
    let mut flat = vec![0; end as usize];
    for (address, bytes) in parts.iter().take(parts.len() - 1).chain([&last]) {
        flat[*address as usize..][..PAGE].copy_from_slice(bytes);
    }
    let scratch = Scratch::new("flat", &flat);
    assert!(
        Physical::open(&scratch.0, false)
            .unwrap_err()
            .message
            .contains("--raw")
    );
    let physical = Physical::open(&scratch.0, true).unwrap();
    let flight = Flight::read(&mut find(&physical).unwrap().region).unwrap();
    assert_eq!(records(&flight), made.written());
}

#[test]
fn of_several_recordings_the_newest_is_taken_and_copies_are_none() {
    let (mut old, mut new, mut gone) = (Made::sample(), Made::sample(), Made::sample());
    old.realtime -= 3600 * 1_000_000_000;
    new.put(1, 20_000, SOFTIRQ, 9, &[1]);
    old.pages = addresses(&old, 0x20_0000);
    new.pages = addresses(&new, 0x40_0000);
    gone.pages = addresses(&gone, 0x60_0000);
    let mut parts = scattered(&old);
    parts.extend(scattered(&new));
    // A file of it in the page cache, and a head whose other pages are used again.
    parts.push((0x80_0000, new.region()));
    parts.push((gone.pages[0], gone.region()[..PAGE].to_vec()));
    let zeroes = gone.pages[1..].iter().map(|page| (*page, vec![0; PAGE]));
    parts.extend(zeroes);
    let (_scratch, physical) = image(&elf(&parts), "several");
    let mut found = find(&physical).unwrap();
    assert_eq!(found.address, new.pages[0]);
    assert_eq!(found.older, [old.pages[0]]);
    assert_eq!(found.damaged, [gone.pages[0], 0x80_0000]);
    assert_eq!(
        records(&Flight::read(&mut found.region).unwrap()),
        new.written()
    );

    let (_scratch, physical) = image(&elf(&parts[parts.len() - gone.pages.len()..]), "gone");
    assert!(find(&physical).err().unwrap().0.contains("leads elsewhere"));
    let (_scratch, physical) = image(&elf(&[(0x1000, vec![1; 3 * PAGE])]), "none");
    assert!(
        find(&physical)
            .err()
            .unwrap()
            .0
            .contains("jifl flight start")
    );
}

#[test]
fn dumps_of_other_forms_are_refused_with_a_way_out() {
    for (begin, way_out) in [
        (&b"KDUMP   \x06"[..], "cut short"),
        (b"makedumpfile\0\0", "cut short"),
        (b"DISKDUMP", "/proc/vmcore"),
        (b"JIFL flight data\x01", "jifl flight show"),
        (b"\x7fELF\x02\x01\x01", "damaged"),
        (b"", "--raw"),
    ] {
        let scratch = Scratch::new(&format!("other-{}", begin.len()), begin);
        let failure = Physical::open(&scratch.0, false).unwrap_err();
        assert!(failure.message.contains(way_out), "{}", failure.message);
        assert!(!failure.message.contains('\n'));
    }
}

#[test]
fn memory_ends_where_it_ends() {
    let mut bytes = vec![7; 10];
    let mut room = [0; 4];
    assert!(bytes.read(6, &mut room).is_ok());
    assert!(bytes.read(7, &mut room).is_err() && bytes.read(u64::MAX, &mut room).is_err());
}
