// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records as lines: for people, as JSON, as CSV.

use std::fmt::Write as _;

use jifl_sys::abi::LEVELS;
use serde_json::{Map, Value, json};

use crate::kernel::syscalls::Table;
use crate::session::flight::time::seconds;
use crate::session::flight::{Entry, Flight};
use crate::show::text;

/// The names of CSV's columns.
pub const COLUMNS: &str = "time_ns,realtime_ns,cpu,number,tid,level,event,arguments\n";

/// The name of a record's level.
pub fn level(entry: &Entry) -> &'static str {
    LEVELS[usize::from(entry.raw.level())]
}

/// The arguments as NAME=VALUE.
fn arguments(flight: &Flight, entry: &Entry, calls: &Table) -> String {
    let each = flight.values(entry, calls);
    let each: Vec<String> = each
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    each.join(" ")
}

/// A line for people: time, CPU, thread, level, event, arguments.
pub fn person(flight: &Flight, entry: &Entry, calls: &Table) -> String {
    let mut line = format!(
        "{} {:>3} {:>7} {:<7} {:<18} {}",
        seconds(flight.time(entry)),
        entry.raw.cpu,
        entry.raw.tid,
        level(entry),
        flight.event_name(entry),
        arguments(flight, entry, calls)
    );
    line.truncate(line.trim_end().len());
    line + "\n"
}

/// A record for programs.
pub fn object(flight: &Flight, entry: &Entry, calls: &Table) -> Value {
    let values = flight.values(entry, calls);
    let arguments: Map<String, Value> = values
        .into_iter()
        .map(|(name, value)| (name, value.json()))
        .collect();
    json!({
        "time_ns": flight.time(entry),
        "realtime_ns": flight.head.clock().realtime(entry.raw.time),
        "cpu": entry.raw.cpu,
        "number": entry.number,
        "tid": entry.raw.tid,
        "level": level(entry),
        "event": flight.event_name(entry),
        "group": flight.event(entry).map(|event| event.group.as_str()),
        "arguments": arguments,
    })
}

/// A line of CSV.
pub fn csv(flight: &Flight, entry: &Entry, calls: &Table) -> String {
    let mut line = String::new();
    let _ = writeln!(
        line,
        "{},{},{},{},{},{},{},{}",
        flight.time(entry),
        flight.head.clock().realtime(entry.raw.time),
        entry.raw.cpu,
        entry.number,
        entry.raw.tid,
        level(entry),
        flight.event_name(entry),
        text::csv(&arguments(flight, entry, calls))
    );
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::flight::made::Made;

    #[test]
    fn records_are_lines() {
        let flight = Flight::read(&mut Made::sample().region()).unwrap();
        let calls = Table::all();
        let text: String = flight
            .entries
            .iter()
            .map(|entry| person(&flight, entry, &calls))
            .collect();
        let line = |n: usize| text.lines().nth(n).unwrap();
        assert_eq!(
            line(0),
            "  500.000001   0       0 task    sched_switch       prev_state=R next=101 \
             next_comm=\"tar\""
        );
        assert_eq!(
            line(4),
            "  500.000004   0     101 task    sys_exit           call=openat result=-ENOENT"
        );
        assert_eq!(
            line(9),
            "  500.000007   1     102 task    warn               text=\"a \\\"bad\\\" thing, \
             indeed\""
        );
        assert!(line(13).ends_with("odd                one=0x11 two=0x12"));
        let object = object(&flight, &flight.entries[4], &calls);
        assert_eq!(object["arguments"], json!({"call": "openat", "result": -2}));
        assert_eq!(
            csv(&flight, &flight.entries[9], &calls),
            "500000007500,1700000000000007500,1,2,102,task,warn,\
             \"text=\"\"a \\\"\"bad\\\"\" thing, indeed\"\"\"\n"
        );
    }
}
