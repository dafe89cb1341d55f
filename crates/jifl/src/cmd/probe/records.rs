// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of `--record`: taken from the module while the session runs, put in order, and written.

use std::sync::Mutex;
use std::time::Duration;

use jifl_sys::abi::{HIT_MAX, Hit, HitRead};
use jifl_sys::device::{Door, Request};
use rustix::time::ClockId;
use serde_json::Value;

use super::Format;
use super::program::{Field, Layout};
use super::writer::Writer;
use crate::base::clock;
use crate::base::exit::Failure;
use crate::expr::{Kind, Shown};
use crate::kernel::symbols::Symbols;
use crate::session::device;
use crate::show::output::Sink;

/// Room for what one request takes.
const ROOM: usize = 256 << 10;
/// A record is written so long after its time. By then each processor has written what it has from
/// before: a program runs for less.
const SETTLED: Duration = Duration::from_millis(20);

/// What is known of places.
pub struct Told<'a> {
    /// Names of places, in the module's order.
    pub names: Vec<&'a str>,
    /// What the program of each place writes.
    pub layouts: Vec<&'a Layout>,
    /// Names of callers.
    pub symbols: &'a Symbols,
}

/// A return address: `name+0x12 [module]`.
pub fn frame(symbols: &Symbols, address: u64) -> String {
    // The call may be the last instruction of its function.
    match symbols.function(address.wrapping_sub(1)) {
        Some(place) => {
            let module = place
                .module()
                .map_or_else(String::new, |name| format!(" [{name}]"));
            format!(
                "{}+{:#x}{module}",
                place.name(),
                address.wrapping_sub(place.start())
            )
        }
        None => format!("{address:#x}"),
    }
}

/// A value for a reader.
pub fn text(symbols: &Symbols, kind: &Kind, value: Shown<'_>) -> String {
    match (kind, value) {
        (Kind::Code, Shown::Number(address)) => frame(symbols, address),
        _ => kind.text(value),
    }
}

/// A value for programs: null if it is unknown.
pub fn json(symbols: &Symbols, kind: &Kind, value: Shown<'_>) -> Value {
    match (kind, value) {
        (Kind::Code, Shown::Number(address)) => Value::from(frame(symbols, address)),
        _ => kind.json(value),
    }
}

/// A value of a record.
pub enum Part<'a> {
    /// A number.
    Number(u64),
    /// A string.
    Bytes(&'a [u8]),
    /// The callers of a stack.
    Frames(Vec<u64>),
    /// It could not be read.
    Unknown,
}

/// Takes and writes the records of a session.
pub struct Records<'a, D: Door> {
    door: &'a D,
    told: &'a Told<'a>,
    /// Requests that take at least what a CPU's two rings have room for.
    rounds: usize,
    state: Mutex<State<'a>>,
}

struct State<'a> {
    writer: Writer<'a>,
    sink: Sink,
    room: Vec<u8>,
    /// Taken and not written: time, and the record.
    waiting: Vec<(u64, Vec<u8>)>,
    written: u64,
    lost: Vec<u64>,
    failure: Option<Failure>,
}

/// What has become of the records of a session.
pub struct Ended<'a> {
    /// Where they were written.
    pub sink: Sink,
    /// How many there were.
    pub written: u64,
    /// How many found no room.
    pub lost: u64,
    writer: Writer<'a>,
}

impl Ended<'_> {
    /// Writes what the form has behind all records; `about`: the session's report.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn close(&mut self, about: &Value) -> Result<(), Failure> {
        let mut out = Vec::new();
        self.writer.end(&mut out, about);
        self.sink.write_bytes(&out)
    }
}

impl<'a, D: Door> Records<'a, D> {
    /// Of the session of a door, on so many processors. ring: bytes that were asked for as the room
    /// of each ring.
    pub fn new(
        door: &'a D,
        told: &'a Told<'a>,
        (format, sink): (Format, Sink),
        cpus: usize,
        ring: u32,
    ) -> Records<'a, D> {
        // The module rounds the room up.
        let room = ring.max(2 * HIT_MAX as u32).next_power_of_two() as usize;
        let state = State {
            writer: Writer::new(told, format),
            sink,
            room: vec![0; ROOM],
            waiting: Vec::new(),
            written: 0,
            lost: vec![0; cpus],
            failure: None,
        };
        Records {
            door,
            told,
            rounds: 2 * room.div_ceil(ROOM - HIT_MAX) + 1,
            state: Mutex::new(state),
        }
    }

    /// Takes what there is, and writes what is settled. Of a CPU whose places write faster than
    /// records are taken it takes a bounded number: else it would never return.
    pub fn turn(&self) {
        let now = clock::now(ClockId::Monotonic);
        let settled = now.saturating_sub(SETTLED.as_nanos() as u64);
        self.take(settled, self.rounds);
    }

    /// Writes the rest. The session has ended, so nothing is added to the rings any more.
    ///
    /// # Errors
    /// The module did not give them, or they could not be written.
    pub fn end(self) -> Result<Ended<'a>, Failure> {
        self.take(u64::MAX, usize::MAX);
        let state = self.state.into_inner();
        let state = state.unwrap_or_else(std::sync::PoisonError::into_inner);
        match state.failure {
            Some(failure) => Err(failure),
            None => Ok(Ended {
                sink: state.sink,
                written: state.written,
                lost: state.lost.iter().sum(),
                writer: state.writer,
            }),
        }
    }

    fn take(&self, until: u64, rounds: usize) {
        let mut state = self
            .state
            .lock()
            .expect("nothing panics while it is locked");
        if state.failure.is_some() {
            return;
        }
        let done = self.try_take(&mut state, until, rounds);
        state.failure = done.err();
    }

    fn try_take(
        &self,
        state: &mut State<'a>,
        mut until: u64,
        rounds: usize,
    ) -> Result<(), Failure> {
        for cpu in 0..state.lost.len() {
            if let Some(time) = self.take_cpu(state, cpu, rounds)? {
                until = until.min(time);
            }
        }
        state.waiting.sort_by_key(|(time, _)| *time);
        let settled = state.waiting.partition_point(|(time, _)| *time < until);
        let mut out = Vec::new();
        for (_, record) in state.waiting.drain(..settled) {
            let Some((hit, parts, _)) = Hit::split(&record) else {
                continue;
            };
            state.written += 1;
            let place = hit.place as usize;
            if let (Some(name), Some(layout)) =
                (self.told.names.get(place), self.told.layouts.get(place))
            {
                let values = split(&layout.fields, hit.unknown, parts);
                let writer = &mut state.writer;
                writer.record(&hit, name, &layout.fields, &values, &mut out);
            }
        }
        match out.is_empty() {
            true => Ok(()),
            false => state.sink.write_bytes(&out),
        }
    }

    /// Takes records of a CPU by so many requests at most. `None`: there are no more of that time.
    /// Else the records that are left are not older than the result: what a request leaves in the
    /// ring with which it ended is newer than its last record, and it ends in either of the two.
    fn take_cpu(
        &self,
        state: &mut State<'a>,
        cpu: usize,
        rounds: usize,
    ) -> Result<Option<u64>, Failure> {
        let mut oldest = None;
        for _ in 0..rounds {
            let mut asked = HitRead::of(cpu as u32);
            self.door
                .call(Request::Hits(&mut asked, &mut state.room))
                .map_err(|error| device::failed("reading records", &error))?;
            state.lost[cpu] = asked.lost;
            let mut rest = &state.room[..asked.bytes as usize];
            let mut last = None;
            while let Some((hit, _, behind)) = Hit::split(rest) {
                let record = rest[..hit.size as usize].to_vec();
                state.waiting.push((hit.time, record));
                last = Some(hit.time);
                rest = behind;
            }
            // There was room for another one.
            if asked.bytes as usize + HIT_MAX <= state.room.len() {
                return Ok(None);
            }
            oldest = oldest.into_iter().chain(last).min();
        }
        Ok(oldest)
    }
}

/// The values of a record, as `struct jifl_hit` has them. Those behind its end are unknown.
fn split<'a>(fields: &[Field], unknown: u64, mut parts: &'a [u8]) -> Vec<Part<'a>> {
    let mut take = |bytes: usize| {
        let (taken, rest) = parts.split_at_checked(bytes)?;
        parts = rest;
        Some(taken)
    };
    let mut one = |(at, field): (usize, &Field)| {
        let word = take(8)?
            .first_chunk()
            .map(|word| u64::from_ne_bytes(*word))?;
        let value = match field.kind {
            Kind::Number(_) | Kind::Code => Part::Number(word),
            Kind::String { .. } => {
                let length = usize::try_from(word).ok()?;
                Part::Bytes(take(length.checked_next_multiple_of(8)?)?.get(..length)?)
            }
            Kind::Stack => {
                let frames = take(usize::try_from(word).ok()?.checked_mul(8)?)?;
                let frames = frames.chunks_exact(8);
                let frame = |bytes: &[u8]| {
                    bytes
                        .first_chunk()
                        .map_or(0, |word| u64::from_ne_bytes(*word))
                };
                Part::Frames(frames.map(frame).collect())
            }
        };
        Some(if unknown >> at & 1 == 1 {
            Part::Unknown
        } else {
            value
        })
    };
    let all = fields.iter().enumerate();
    all.map(|part| one(part).unwrap_or(Part::Unknown)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::values;
    use crate::session::fake::Fake;
    use serde_json::json;

    fn field(label: &str, kind: Kind) -> Field {
        Field {
            label: label.into(),
            kind,
            bytes: 0,
        }
    }

    fn layout() -> Layout {
        let number = values::Kind::Int {
            size: 4,
            signed: true,
        };
        Layout {
            fields: vec![
                field("n", Kind::Number(number)),
                field("name", Kind::String { max: 16 }),
                field("stack", Kind::Stack),
            ],
            ..Layout::default()
        }
    }

    fn told<'a>(layout: &'a Layout, symbols: &'a Symbols) -> Told<'a> {
        Told {
            names: vec!["fn:x"],
            layouts: vec![layout],
            symbols,
        }
    }

    /// A record of place 0, as the module writes it.
    fn record(time: u64, unknown: u64) -> Vec<u8> {
        let mut parts: Vec<u8> = Vec::new();
        for word in [
            u64::MAX,
            3,
            u64::from_ne_bytes(*b"abc\0\0\0\0\0"),
            2,
            0x1005,
            0x2003,
        ] {
            parts.extend(word.to_ne_bytes());
        }
        let mut bytes = Vec::new();
        for word in [56 + parts.len() as u32, 0] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(time.to_ne_bytes());
        for word in [1u32, 0, 7, 8] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(unknown.to_ne_bytes());
        bytes.extend(*b"sh\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        bytes.extend(parts);
        bytes
    }

    /// What is written of the records of two processors.
    fn written(format: Format) -> String {
        let fake = Fake::default();
        fake.state().hits = vec![[record(3, 0), record(5, 2)].concat(), record(4, 0)];
        let (layout, symbols) = (layout(), Symbols::parse("1000 T f\n2000 T g\t[m]\n"));
        let told = told(&layout, &symbols);
        let name = format!("jifl-records-{}-{format:?}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let sink = Sink::file(&path).unwrap();
        let records = Records::new(&fake, &told, (format, sink), 2, 1 << 20);
        records.turn();
        let mut ended = records.end().unwrap();
        assert_eq!((ended.written, ended.lost), (3, 0));
        ended.close(&json!({"missed": 0})).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        text
    }

    #[test]
    fn records_of_all_processors_come_in_the_order_of_time() {
        let text = written(Format::Text);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + 3 * 3);
        assert!(lines[1].starts_with("0.000000003 ") && lines[4].starts_with("0.000000004 "));
        assert!(
            lines[1].ends_with("      8  fn:x n=-1 name=\"abc\""),
            "{}",
            lines[1]
        );
        assert_eq!(&lines[2..4], ["        f+0x5", "        g+0x3 [m]"]);
        assert!(lines[7].ends_with("n=-1 name=?"), "{}", lines[7]);
    }

    #[test]
    fn a_turn_ends_where_records_come_faster_than_they_are_taken() {
        let fake = Fake::default();
        // What is far behind on CPU 0 comes later than this one.
        fake.state().hits = vec![Vec::new(), record(1_000_000, 0)];
        let mut number = 0;
        fake.state().refill = Some(Box::new(move || {
            number += 1;
            record(number, 0)
        }));
        let (layout, symbols) = (layout(), Symbols::default());
        let told = told(&layout, &symbols);
        let path = std::env::temp_dir().join(format!("jifl-faster-{}", std::process::id()));
        let sink = (Format::Ndjson, Sink::file(&path).unwrap());
        let records = Records::new(&fake, &told, sink, 2, 4096);
        records.turn();
        let times = || {
            let text = std::fs::read_to_string(&path).unwrap();
            let time = |line: &str| {
                let value: Value = serde_json::from_str(line).unwrap();
                value["time_ns"].as_u64().unwrap()
            };
            text.lines().map(time).collect::<Vec<u64>>()
        };
        let first = times();
        assert!(!first.is_empty() && !first.contains(&1_000_000));
        records.turn();
        assert!(times().len() > first.len());
        fake.state().refill = None;
        let ended = records.end().unwrap();
        let all = times();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(all.len() as u64, ended.written);
        assert!(all.is_sorted() && all.contains(&1_000_000));
    }

    #[test]
    fn records_for_programs_have_types() {
        let text = written(Format::Ndjson);
        assert_eq!(
            text.lines().next().unwrap(),
            "{\"time_ns\":3,\"cpu\":1,\"level\":\"task\",\"pid\":7,\"tid\":8,\"comm\":\"sh\",\
             \"place\":\"fn:x\",\"values\":{\"n\":-1,\"name\":\"abc\",\
             \"stack\":[\"f+0x5\",\"g+0x3 [m]\"]}}"
        );
        assert!(text.lines().nth(2).unwrap().contains("\"name\":null"));
    }

    #[test]
    fn records_for_spreadsheets_have_a_column_for_each_value() {
        assert_eq!(
            written(Format::Csv),
            "time_ns,cpu,level,pid,tid,comm,place,n,name,stack\n\
             3,1,task,7,8,sh,fn:x,-1,abc,f+0x5;g+0x3 [m]\n\
             4,1,task,7,8,sh,fn:x,-1,abc,f+0x5;g+0x3 [m]\n\
             5,1,task,7,8,sh,fn:x,-1,,f+0x5;g+0x3 [m]\n"
        );
    }

    #[test]
    fn records_for_viewers_are_instants() {
        let value: Value = serde_json::from_str(&written(Format::Chrome)).unwrap();
        let events = value["traceEvents"].as_array().unwrap();
        let instants: Vec<&Value> = events.iter().filter(|one| one["ph"] == "i").collect();
        assert_eq!(instants.len(), 3);
        assert_eq!(
            (&instants[0]["pid"], &instants[0]["tid"]),
            (&json!(7), &json!(8))
        );
        assert_eq!(instants[0]["args"]["name"], "abc");
        assert_eq!(instants[2]["args"]["name"], "?");
        assert_eq!(value["otherData"]["missed"], 0);
    }
}
