// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl flight status`: since when is recorded, how much, how fast, and why not any more.

use std::collections::BTreeMap;

use clap::Args;
use jifl_sys::abi::FlightStop;
use rustix::time::ClockId;
use serde_json::{Value, json};

use super::show;
use crate::base::exit::{DONE, Failure};
use crate::base::{clock, duration};
use crate::session::device;
use crate::session::flight::door::Copied;
use crate::session::flight::time::date;
use crate::session::flight::{Flight, NotRead};
use crate::show::output::{self, Format};
use crate::show::table::table;
use crate::show::text::{self, grouped};

/// Arguments of `jifl flight status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// How it is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
}

/// Runs the command.
pub fn run(args: &StatusArgs) -> Result<u8, Failure> {
    let door = device::open()?;
    let flight = Flight::read(&mut Copied::live(&door)?).map_err(NotRead::failure)?;
    let now = clock::now(ClockId::Monotonic);
    output::print(&match args.format {
        Format::Text => people(&flight, now),
        Format::Json => text::json(&program(&flight, now)),
    })?;
    Ok(DONE)
}

/// Why it is not recorded any more; `None`: it is.
pub fn stopped(flight: &Flight) -> Option<String> {
    let raw = flight.head.raw();
    if raw.stop_at == u64::MAX {
        return None;
    }
    let event = flight.events.get(raw.stop_event as usize);
    let event = event.map_or_else(|| raw.stop_event.to_string(), |event| event.name.clone());
    Some(match FlightStop::from_number(raw.stop_why) {
        Some(FlightStop::Runs) | None => format!("for reason {}", raw.stop_why),
        Some(FlightStop::AtRequest) => "by a request".into(),
        Some(FlightStop::AtEvent) => format!("at event {event}"),
        Some(FlightStop::AtSlow) => format!("at event {event}, which came too late"),
        Some(FlightStop::AtErrno) => "at a system call's error".into(),
        Some(FlightStop::AtPanic) => "at the kernel's panic".into(),
    })
}

/// When it is stopped from on, in nanoseconds of CLOCK_MONOTONIC.
fn stops_at(flight: &Flight) -> u64 {
    flight.head.clock().monotonic(flight.head.raw().stop_at)
}

/// Records of each event on each CPU that are in memory.
fn by_event(flight: &Flight) -> BTreeMap<String, Vec<u64>> {
    let mut all: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for entry in &flight.entries {
        let counts = all.entry(flight.event_name(entry)).or_default();
        counts.resize(flight.counts.len(), 0);
        counts[usize::from(entry.raw.cpu)] += 1;
    }
    all
}

/// Names of the events that are recorded now.
fn recorded(flight: &Flight) -> Vec<&str> {
    let mask = flight.head.raw().mask;
    let set = flight
        .events
        .iter()
        .enumerate()
        .filter(|(bit, _)| mask >> bit & 1 == 1);
    set.map(|(_, event)| event.name.as_str()).collect()
}

/// First and last time of the records in memory.
fn span(flight: &Flight) -> Option<(u64, u64)> {
    let times = || flight.entries.iter().map(|entry| flight.time(entry));
    Some((times().min()?, times().max()?))
}

/// Events in a second, in the time of the records in memory.
fn rate(flight: &Flight) -> Option<f64> {
    let (first, last) = span(flight)?;
    let seconds = (last - first) as f64 / 1e9;
    (seconds > 0.0).then(|| flight.entries.len() as f64 / seconds)
}

/// For people; `now`: CLOCK_MONOTONIC.
fn people(flight: &Flight, now: u64) -> String {
    let raw = flight.head.raw();
    let mut text = format!(
        "since {} ({} ago), {} CPUs, {} records each, {} bytes\n",
        date(raw.realtime_ns),
        duration::show(now.saturating_sub(raw.monotonic_ns)),
        raw.ncpus,
        grouped(u64::from(raw.record_count)),
        grouped(flight.head.bytes())
    );
    text += &match stopped(flight) {
        Some(why) if stops_at(flight) > now => format!(
            "stops {why} in {}\n",
            duration::show(stops_at(flight) - now)
        ),
        Some(why) => format!(
            "stopped {why}, {} ago: `jifl flight thaw` records again\n",
            duration::show(now.saturating_sub(stops_at(flight)))
        ),
        None => format!("records {}\n", recorded(flight).join(", ")),
    };
    text += &format!("recorded {} events", grouped(flight.begun.iter().sum()));
    if let Some((first, _)) = span(flight) {
        text += &format!(
            ", in memory {}, the oldest of {} ago",
            grouped(flight.entries.len() as u64),
            duration::show(now.saturating_sub(first))
        );
    }
    if let Some(rate) = rate(flight) {
        text += &format!("; {} a second", grouped(rate.round() as u64));
    }
    let mut lines = vec![vec!["EVENT".to_owned(), "RECORDS".into()]];
    lines[0].extend((0..flight.counts.len()).map(|cpu| format!("CPU{cpu}")));
    let mut counts: Vec<_> = by_event(flight).into_iter().collect();
    counts.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.iter().sum::<u64>()));
    for (name, counts) in counts {
        let mut line = vec![name, grouped(counts.iter().sum())];
        line.extend(counts.iter().map(|count| grouped(*count)));
        lines.push(line);
    }
    text + "\n" + &table(&lines)
}

fn program(flight: &Flight, now: u64) -> Value {
    let raw = flight.head.raw();
    let oldest = span(flight).map(|(first, _)| now.saturating_sub(first));
    let mut object = show::about(flight);
    let more = json!({
        "command": "flight status",
        "since_realtime_ns": raw.realtime_ns,
        "since_monotonic_ns": raw.monotonic_ns,
        "recorded_events": recorded(flight),
        "stopped": stopped(flight),
        "stop_monotonic_ns": stopped(flight).map(|_| stops_at(flight)),
        "begun": flight.begun,
        "in_memory": by_event(flight),
        "rate_per_second": rate(flight),
        "oldest_age_ns": oldest,
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        object[name] = value.clone();
    }
    object
}

/// Says what a recording has, when it ends.
pub fn note(flight: &Flight) {
    let total = flight.total();
    let mut text = format!(
        "# recorded {} events, of which {} are in memory",
        grouped(flight.begun.iter().sum()),
        grouped(total.records)
    );
    if let Some((first, last)) = span(flight) {
        text += &format!(": the last {}", duration::show(last - first));
    }
    if let Some(why) = stopped(flight) {
        text += &format!("; stopped {why}");
    }
    output::note(&text);
    let mut counts: Vec<(String, u64)> = by_event(flight)
        .into_iter()
        .map(|(name, counts)| (name, counts.iter().sum()))
        .collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let counts: Vec<String> = counts
        .iter()
        .map(|(name, n)| format!("{name} {n}"))
        .collect();
    if !counts.is_empty() {
        output::note(&format!("# {}", counts.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::flight::made::{MONOTONIC, Made, TSC};

    fn with(stop: Option<(u64, u32, u32)>) -> Flight {
        let mut region = Made::sample().region();
        if let Some((at, why, event)) = stop {
            region[216..224].copy_from_slice(&at.to_le_bytes());
            region[224..228].copy_from_slice(&why.to_le_bytes());
            region[228..232].copy_from_slice(&event.to_le_bytes());
        }
        Flight::read(&mut region).unwrap()
    }

    #[test]
    fn what_is_recorded_is_said() {
        let text = people(&with(None), MONOTONIC + 2_000_000_000);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "since 2023-11-14 22:13:20.000000 UTC (2.0 s ago), 2 CPUs, 64 records each, \
             28,672 bytes"
        );
        assert!(lines[1].starts_with("records sys_enter, sys_exit, sched_switch"));
        assert_eq!(
            lines[2],
            "recorded 14 events, in memory 14, the oldest of 2.0 s ago; 1,555,556 a second"
        );
        assert_eq!(
            lines[3].split_whitespace().collect::<Vec<_>>(),
            ["EVENT", "RECORDS", "CPU0", "CPU1"]
        );
        assert!(lines[4].starts_with("sched_switch") && lines[4].ends_with("5     3     2"));
        let object = program(&with(None), MONOTONIC);
        assert_eq!(object["in_memory"]["sys_exit"], json!([2, 0]));
        assert_eq!(
            (&object["stopped"], &object["begun"]),
            (&Value::Null, &json!([9, 5]))
        );
    }

    #[test]
    fn why_it_stopped_is_said() {
        let at = TSC + 2_000_000_000;
        let stopped = with(Some((at, 2, 6)));
        let text = people(&stopped, MONOTONIC + 3_000_000_000);
        assert!(
            text.contains("stopped at event warn, 2.0 s ago: `jifl flight thaw`"),
            "{text}"
        );
        let text = people(&stopped, MONOTONIC);
        assert!(text.contains("stops at event warn in 1.0 s"), "{text}");
        for (why, word) in [
            (1, "request"),
            (3, "error"),
            (4, "panic"),
            (5, "too late"),
            (9, "reason 9"),
        ] {
            let text = super::stopped(&with(Some((at, why, 0)))).unwrap();
            assert!(text.contains(word), "{text}");
        }
    }
}
