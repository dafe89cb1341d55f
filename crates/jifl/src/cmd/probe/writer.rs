// SPDX-License-Identifier: MIT OR Apache-2.0
//! The forms in which records of `--record` are written.

use jifl_sys::abi::{Hit, LEVELS, from_name};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::Format;
use super::program::Field;
use super::records::{self, Part, Told, frame};
use crate::base::clock::Moment;
use crate::cmd::trace::{Described, Instant, Track, Viewer};
use crate::expr::Shown;
use crate::show;
use crate::show::text::csv;

const NANO: u64 = 1_000_000_000;
const TITLE: &str = "TIME             CPU COMM                 TID  PLACE VALUES\n";
/// What each record has, as columns of CSV.
const COLUMNS: &str = "time_ns,cpu,level,pid,tid,comm,place";
/// Between the callers of a stack, where it is one cell.
const CALLERS: &str = ";";

/// Writes records one after the other.
pub struct Writer<'a> {
    told: &'a Told<'a>,
    format: Format,
    /// The names of values, of all places together.
    columns: Vec<&'a str>,
    viewer: Option<Viewer>,
    begun: bool,
}

impl<'a> Writer<'a> {
    /// A writer in this form.
    pub fn new(told: &'a Told<'a>, format: Format) -> Writer<'a> {
        let mut columns: Vec<&str> = Vec::new();
        for field in told.layouts.iter().flat_map(|layout| &layout.fields) {
            if !columns.contains(&field.label.as_str()) {
                columns.push(&field.label);
            }
        }
        Writer {
            told,
            format,
            columns,
            viewer: match format {
                Format::Chrome => Some(Viewer::chrome()),
                Format::Perfetto => Some(Viewer::perfetto(Moment::now())),
                _ => None,
            },
            begun: false,
        }
    }

    /// Writes what comes before all records, once. For people it comes with the first record.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        match &mut self.viewer {
            Some(viewer) => viewer.begin(out),
            None if self.format == Format::Csv => {
                let names = self.columns.iter().map(|name| csv(name));
                let cells: Vec<String> = [COLUMNS.to_owned()].into_iter().chain(names).collect();
                out.extend((cells.join(",") + "\n").into_bytes());
            }
            None if self.format == Format::Text => out.extend(TITLE.as_bytes()),
            None => {}
        }
    }

    /// Writes a record of a place with this name.
    pub fn record(
        &mut self,
        hit: &Hit,
        name: &str,
        fields: &[Field],
        values: &[Part<'_>],
        out: &mut Vec<u8>,
    ) {
        self.begin(out);
        let all = fields.iter().zip(values);
        if let Some(viewer) = &mut self.viewer {
            let details = all.map(|(field, value)| {
                let value = match self.told.json(field, value) {
                    Value::Null => "?".into(),
                    value => value,
                };
                (field.label.clone(), value)
            });
            let details: Map<String, Value> = details.collect();
            viewer.instant(out, &instant(hit, &from_name(&hit.comm), name, details));
            return;
        }
        let text = match self.format {
            Format::Csv => self.cells(hit, name, fields, values),
            Format::Text => self.line(hit, name, fields, values),
            _ => {
                let json = |(field, value): (&Field, &Part<'_>)| {
                    (field.label.clone(), self.told.json(field, value))
                };
                show::text::json(&Object {
                    time_ns: hit.time,
                    cpu: hit.cpu,
                    level: level(hit),
                    pid: hit.pid,
                    tid: hit.tid,
                    comm: from_name(&hit.comm),
                    place: name,
                    values: all.map(json).collect(),
                })
            }
        };
        out.extend(text.into_bytes());
    }

    /// Writes what comes behind all records; `about`: the session's report.
    pub fn end(&mut self, out: &mut Vec<u8>, about: &Value) {
        if self.format != Format::Text {
            self.begin(out);
        }
        if let Some(viewer) = &mut self.viewer {
            viewer.end(out, about);
        }
    }

    fn line(&self, hit: &Hit, name: &str, fields: &[Field], values: &[Part<'_>]) -> String {
        let mut text = format!(
            "{:<16} {:>3} {:<16} {:>7}  {name}",
            format!("{}.{:09}", hit.time / NANO, hit.time % NANO),
            hit.cpu,
            from_name(&hit.comm),
            hit.tid,
        );
        let mut frames: &[u64] = &[];
        for (field, value) in fields.iter().zip(values) {
            match value {
                Part::Frames(all) => frames = all,
                value => {
                    let value = records::text(self.told.symbols, &field.kind, value.shown());
                    text += &format!(" {}={value}", field.label);
                }
            }
        }
        text.push('\n');
        for address in frames {
            text += &format!("        {}\n", frame(self.told.symbols, *address));
        }
        text
    }

    fn cells(&self, hit: &Hit, name: &str, fields: &[Field], values: &[Part<'_>]) -> String {
        let mut text = format!(
            "{},{},{},{},{},{},{}",
            hit.time,
            hit.cpu,
            level(hit),
            hit.pid,
            hit.tid,
            csv(&from_name(&hit.comm)),
            csv(name)
        );
        for column in &self.columns {
            text.push(',');
            let mut all = fields.iter().zip(values);
            if let Some((field, value)) = all.find(|(field, _)| field.label == *column) {
                text += &cell(&self.told.json(field, value));
            }
        }
        text + "\n"
    }
}

impl Told<'_> {
    /// A value for programs: null if it is unknown.
    fn json(&self, field: &Field, value: &Part<'_>) -> Value {
        match value {
            Part::Frames(all) => {
                let names = all.iter().map(|address| frame(self.symbols, *address));
                json!(names.collect::<Vec<_>>())
            }
            value => records::json(self.symbols, &field.kind, value.shown()),
        }
    }
}

impl Part<'_> {
    fn shown(&self) -> Shown<'_> {
        match self {
            Part::Number(number) => Shown::Number(*number),
            Part::Bytes(bytes) => Shown::Bytes(bytes),
            Part::Frames(_) | Part::Unknown => Shown::Unknown,
        }
    }
}

/// A value as a cell of CSV; an unknown one is empty.
pub fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => csv(text),
        Value::Array(all) => {
            let texts: Vec<&str> = all.iter().filter_map(Value::as_str).collect();
            csv(&texts.join(CALLERS))
        }
        other => other.to_string(),
    }
}

fn level(hit: &Hit) -> &'static str {
    LEVELS.get(hit.level as usize).copied().unwrap_or_default()
}

fn instant<'a>(hit: &Hit, comm: &'a str, name: &str, details: Map<String, Value>) -> Instant<'a> {
    Instant {
        track: match (u32::try_from(hit.tid), u32::try_from(hit.pid)) {
            (Ok(thread @ 1..), Ok(process)) => Track::Thread {
                thread,
                process,
                name: comm,
            },
            // In an interrupt, and in the idle task.
            _ => Track::Cpu(hit.cpu),
        },
        time: hit.time,
        described: Described {
            name: name.to_owned().into(),
            category: level(hit),
            details,
        },
    }
}

/// A record for programs.
#[derive(Serialize)]
struct Object<'a> {
    time_ns: u64,
    cpu: u32,
    level: &'static str,
    pid: i32,
    tid: i32,
    comm: String,
    place: &'a str,
    #[serde(serialize_with = "in_order")]
    values: Vec<(String, Value)>,
}

/// Writes names and values as an object, in their order.
pub fn in_order<S: Serializer>(
    values: &[(String, Value)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(values.iter().map(|(name, value)| (name, value)))
}
