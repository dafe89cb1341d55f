// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the trace that was written, by its own description.

use std::collections::HashMap;

use super::*;
use crate::session::flight::made::{self, Made};

/// The fields of each event by its number, as the metadata declares them: type and name.
fn events(metadata: &str) -> HashMap<u16, (String, Vec<(String, String)>)> {
    let mut all = HashMap::new();
    for event in metadata.split("\nevent {").skip(1) {
        let quoted = event.split('"').nth(1).unwrap().to_owned();
        let after = |word: &str| event.split(word).nth(1).unwrap();
        let id = after("\tid = ").split(';').next().unwrap().parse().unwrap();
        let body = after("struct {\n").split("\t};").next().unwrap();
        let fields = body.lines().map(|line| {
            let line = line.trim().strip_suffix(';').unwrap();
            let (of, name) = line.rsplit_once(' ').unwrap();
            (of.to_owned(), name.to_owned())
        });
        assert!(all.insert(id, (quoted, fields.collect())).is_none());
    }
    all
}

/// Takes the first bytes.
fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (first, rest) = bytes.split_first_chunk().unwrap();
    *bytes = rest;
    *first
}

/// The records of a packet, each as a line.
fn records(metadata: &str, mut bytes: &[u8], cpu: u32) -> Vec<String> {
    let events = events(metadata);
    let bits = bytes.len() as u64 * 8;
    assert_eq!(u32::from_le_bytes(take(&mut bytes)), 0xc1fc_1fc1);
    let uuid: String = take::<16>(&mut bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let declared = metadata
        .split("uuid = \"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    assert_eq!(uuid, declared.replace('-', ""));
    assert_eq!(u32::from_le_bytes(take(&mut bytes)), 0);
    let context: [u64; 5] = std::array::from_fn(|_| u64::from_le_bytes(take(&mut bytes)));
    assert_eq!(context[2..], [bits, bits, 0]);
    assert_eq!(u32::from_le_bytes(take(&mut bytes)), cpu);
    let (mut lines, mut times) = (Vec::new(), Vec::new());
    while !bytes.is_empty() {
        let (name, fields) = &events[&u16::from_le_bytes(take(&mut bytes))];
        let time = u64::from_le_bytes(take(&mut bytes));
        let tid = u32::from_le_bytes(take(&mut bytes));
        assert_eq!(u16::from_le_bytes(take(&mut bytes)), 0);
        times.push(time);
        let mut line = format!("{} {tid} {name}", time - made::MONOTONIC);
        for (of, name) in fields {
            let value = match of.as_str() {
                "int32_t" => i32::from_le_bytes(take(&mut bytes)).to_string(),
                "uint32_t" => u32::from_le_bytes(take(&mut bytes)).to_string(),
                "int64_t" => i64::from_le_bytes(take(&mut bytes)).to_string(),
                "uint64_t" | "hex64_t" | "enum syscall" | "enum softirq" => {
                    u64::from_le_bytes(take(&mut bytes)).to_string()
                }
                "string" => {
                    let end = bytes.iter().position(|byte| *byte == 0).unwrap();
                    let text = String::from_utf8(bytes[..end].to_vec()).unwrap();
                    bytes = &bytes[end + 1..];
                    text
                }
                other => panic!("{other}"),
            };
            line += &format!(" {}={value}", name.strip_prefix('_').unwrap());
        }
        lines.push(line);
    }
    assert!(times.is_sorted());
    assert_eq!([context[0], context[1]], [times[0], times[times.len() - 1]]);
    lines
}

#[test]
fn the_trace_says_what_was_recorded() {
    let mut made = Made::sample();
    // An event that the table does not have, and one that comes before the one it interrupted.
    made.put(1, 11_000, 40, 103, &[1, 2, 3, 4, 5])
        .put(1, 10_500, made::TIMER, 103, &[9, u64::MAX]);
    let flight = Flight::read(&mut made.region()).unwrap();
    let folder = std::env::temp_dir().join(format!("jifl-ctf-{}", std::process::id()));
    write(&flight, &folder).unwrap();
    let again = write(&flight, &folder).unwrap_err();
    let metadata = fs::read_to_string(folder.join("metadata")).unwrap();
    let streams = [0, 1].map(|cpu| fs::read(folder.join(format!("cpu_{cpu}"))).unwrap());
    fs::remove_dir_all(&folder).unwrap();
    assert!(again.message.contains("not empty"));

    assert!(metadata.starts_with("/* CTF 1.8 */"));
    assert!(metadata.contains("\t\"openat\" = 257,\n"));
    assert!(metadata.contains("offset_s = 1699999500;\n\toffset = 0;"));
    let first = records(&metadata, &streams[0], 0);
    assert_eq!(first.len(), 9);
    assert_eq!(
        first[0],
        "1000 0 sched_switch prev_state=R next=101 next_comm=tar"
    );
    assert_eq!(first[3], "4000 101 sys_exit call=257 result=-2");
    let second = records(&metadata, &streams[1], 1);
    assert_eq!(
        second,
        [
            "2500 0 sched_switch prev_state=R next=102 next_comm=dd",
            "4500 102 block_rq_issue device_major=8 device_minor=1 sector=2048 bytes=4096",
            "7500 102 warn text=a \"bad\" thing, indeed",
            "8000 102 sched_switch prev_state=R+ next=103 next_comm=cc1",
            "10000 103 odd one=17 two=18",
            "10500 103 timer_expire function=9 late=-1",
            "11000 103 event_40 arg0=1 arg1=2 arg2=3 arg3=4 arg4=5",
        ]
    );
}

#[test]
fn cpus_without_records_have_no_file() {
    let mut made = Made::new(2, 64);
    made.put(1, 0, made::WARN, 1, &made::words("x"));
    let flight = Flight::read(&mut made.region()).unwrap();
    let folder = std::env::temp_dir().join(format!("jifl-ctf-one-{}", std::process::id()));
    write(&flight, &folder).unwrap();
    let files = fs::read_dir(&folder).unwrap();
    let mut names: Vec<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    fs::remove_dir_all(&folder).unwrap();
    names.sort();
    assert_eq!(names, ["cpu_1", "metadata"]);
}
