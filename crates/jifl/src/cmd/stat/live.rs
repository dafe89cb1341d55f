// SPDX-License-Identifier: MIT OR Apache-2.0
//! What has been counted in each interval, while the session runs.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use jifl_sys::abi::TIMES_ELAPSED;
use jifl_sys::device::Door;
use serde_json::json;

use super::Format;
use super::by::Source;
use super::metric::Metric;
use super::sheet::{Counted, Sheet};
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

/// Writes what each interval has counted.
pub struct Live<'a, D: Door> {
    door: &'a D,
    metrics: &'a [Metric],
    source: &'a Source,
    period: Duration,
    shape: Shape,
    state: Mutex<State>,
}

struct State {
    sink: Sink,
    /// When the next interval is over.
    next: Option<Instant>,
    last: Counted,
    is_last: bool,
    failure: Option<Failure>,
}

impl<'a, D: Door> Live<'a, D> {
    /// Of the session of a door.
    pub fn new(
        door: &'a D,
        (metrics, source): (&'a [Metric], &'a Source),
        period: Duration,
        shape: Shape,
        sink: Sink,
    ) -> Live<'a, D> {
        Live {
            door,
            metrics,
            source,
            period,
            shape,
            state: Mutex::new(State {
                sink,
                next: None,
                last: Counted::default(),
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
        Ok(state
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .sink)
    }

    fn write(&self, state: &mut State) -> Result<(), Failure> {
        let (rows, now) = self.source.read(self.door)?;
        let now = now.not_below(&state.last);
        let since = now.since(&state.last);
        let is_first = state.last.times.is_empty();
        let labels = self.source.labels();
        let sheet = Sheet::of(self.metrics, labels, &rows, &since);
        let seconds = format!("{:.3}", now.rest[TIMES_ELAPSED] as f64 / 1e9);
        let text = match self.shape.format {
            Format::Text => {
                let table = sheet.text(self.shape.limit, self.shape.width);
                format!("# {seconds} s\n{table}\n")
            }
            Format::Csv => {
                let title = match is_first {
                    true => format!("seconds,{}", Sheet::titles(self.metrics, labels)),
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
        state.last = now;
        state.sink.write(&text)
    }
}
