// SPDX-License-Identifier: MIT OR Apache-2.0
//! What has been counted in each interval, while the session runs.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use jifl_sys::abi::TIMES_ELAPSED;
use jifl_sys::device::Door;
use serde_json::json;

use super::Format;
use super::by::Subject;
use super::metric::Metric;
use super::sheet::{Counted, Row, Sheet};
use crate::base::exit::Failure;
use crate::show::output::Sink;
use crate::show::text;

/// How it is written.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Text, ndjson or CSV.
    pub format: Format,
    /// Functions in text.
    pub limit: usize,
    /// Columns of the terminal.
    pub width: Option<usize>,
}

/// Writes intervals, one after the other.
pub struct Writer<'a> {
    metrics: &'a [Metric],
    labels: &'a [String],
    shape: Shape,
    sink: Sink,
    last: Counted,
    has_title: bool,
}

impl<'a> Writer<'a> {
    /// Of rows with these keys. Nothing is written yet.
    pub fn new(
        metrics: &'a [Metric],
        labels: &'a [String],
        shape: Shape,
        sink: Sink,
    ) -> Writer<'a> {
        Writer {
            metrics,
            labels,
            shape,
            sink,
            last: Counted::default(),
            has_title: false,
        }
    }

    /// Writes the interval that ends with what was counted until now.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&mut self, rows: &[Row], now: Counted) -> Result<(), Failure> {
        let now = now.not_below(&self.last);
        let since = now.since(&self.last);
        let sheet = Sheet::of(self.metrics, self.labels, rows, &since);
        let seconds = format!("{:.3}", now.rest[TIMES_ELAPSED] as f64 / 1e9);
        let text = match self.shape.format {
            Format::Text => {
                let table = sheet.text(self.shape.limit, self.shape.width);
                format!("# {seconds} s\n{table}\n")
            }
            Format::Csv => {
                let title = match !std::mem::replace(&mut self.has_title, true) {
                    true => format!("seconds,{}", Sheet::titles(self.metrics, self.labels)),
                    false => String::new(),
                };
                title + &sheet.csv(&format!("{seconds},"))
            }
            Format::Json | Format::Ndjson => text::json(&json!({
                "command": "stat",
                "until_ns": now.rest[TIMES_ELAPSED],
                "interval": sheet.objects(),
            })),
        };
        self.last = now;
        self.sink.write(&text)
    }

    /// Where more can be written.
    pub fn sink(self) -> Sink {
        self.sink
    }
}

/// Writes what each interval has counted, while a session of this machine runs.
pub struct Live<'a, D: Door> {
    door: &'a D,
    subject: &'a Subject,
    period: Duration,
    state: Mutex<State<'a>>,
}

struct State<'a> {
    writer: Writer<'a>,
    /// When the next interval is over.
    next: Option<Instant>,
    is_last: bool,
    failure: Option<Failure>,
}

impl<'a, D: Door> Live<'a, D> {
    /// Of the session of a door.
    pub fn new(
        door: &'a D,
        subject: &'a Subject,
        writer: Writer<'a>,
        period: Duration,
    ) -> Live<'a, D> {
        Live {
            door,
            subject,
            period,
            state: Mutex::new(State {
                writer,
                next: None,
                is_last: false,
                failure: None,
            }),
        }
    }

    /// Writes an interval that is over.
    pub fn turn(&self) {
        let state = self.state.lock();
        let mut state = state.expect("nothing panics while it is locked");
        let now = Instant::now();
        let next = *state.next.get_or_insert(now + self.period);
        if now < next || state.is_last || state.failure.is_some() {
            return;
        }
        // Intervals that nobody had time for are one.
        state.next = Some(next.max(now - self.period / 2) + self.period);
        state.failure = self.write(&mut state).err();
    }

    /// The session is about to end, and with it the interval that is not over.
    pub fn last(&self) {
        let state = self.state.lock();
        state.expect("nothing panics while it is locked").is_last = true;
    }

    /// Writes the interval that the session's end has cut off. The sink for the report.
    ///
    /// # Errors
    /// The module did not tell the times, or they could not be written.
    pub fn end(self) -> Result<Sink, Failure> {
        let state = self.state.lock();
        let mut state = state.expect("nothing panics while it is locked");
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        self.write(&mut state)?;
        drop(state);
        let state = self.state.into_inner();
        let state = state.unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(state.writer.sink())
    }

    fn write(&self, state: &mut State<'_>) -> Result<(), Failure> {
        let (rows, counted) = self.subject.read(self.door)?;
        state.writer.write(&rows, counted)
    }
}
