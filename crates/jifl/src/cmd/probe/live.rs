// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts while a session runs: what has been counted in each interval.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use jifl_sys::abi::Hits;
use jifl_sys::device::Door;
use serde::Serialize;

use super::Format;
use super::place::Places;
use super::sheet::{self, Row};
use super::word::Word;
use crate::base::exit::Failure;
use crate::session::table;
use crate::show::output::{Sink, fit};
use crate::show::text::{csv, grouped, json};

/// Columns that hits take at least, in text.
const FIGURE: usize = 9;

/// Writes what each interval has counted.
pub struct Live<'a, D: Door> {
    counted: Counted<'a, D>,
    period: Duration,
    state: Mutex<State>,
}

/// What is counted, and how it is shown.
struct Counted<'a, D: Door> {
    door: &'a D,
    words: &'a [Word],
    places: &'a Places,
    shape: Shape,
}

/// How it is written.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Text, ndjson or CSV.
    pub format: Format,
    /// With the places of words that mean several.
    pub each: bool,
    /// Columns of the terminal.
    pub width: Option<usize>,
}

struct State {
    sink: Sink,
    /// When the session began, and when the next interval is over.
    times: Option<(Instant, Instant)>,
    /// The counts at the end of the last interval.
    last: Vec<Hits>,
    titled: bool,
    /// The interval that is not over ends with the session.
    is_last: bool,
    failure: Option<Failure>,
}

/// An interval, for programs.
#[derive(Serialize)]
struct Interval<'a> {
    command: &'static str,
    /// From the beginning of the session to the end of the interval.
    until_ns: u64,
    interval: Vec<Row<'a>>,
}

impl<'a, D: Door> Live<'a, D> {
    /// Of the session of a door, which is about these places.
    pub fn new(
        door: &'a D,
        (words, places): (&'a [Word], &'a Places),
        period: Duration,
        shape: Shape,
        sink: Sink,
    ) -> Live<'a, D> {
        Live {
            counted: Counted {
                door,
                words,
                places,
                shape,
            },
            period,
            state: Mutex::new(State {
                sink,
                times: None,
                last: vec![Hits::default(); places.splices.len() + places.derived.len()],
                titled: false,
                is_last: false,
                failure: None,
            }),
        }
    }

    /// Writes an interval that is over.
    pub fn turn(&self) {
        let mut state = self
            .state
            .lock()
            .expect("nothing panics while it is locked");
        let now = Instant::now();
        let (began, next) = *state.times.get_or_insert((now, now + self.period));
        if now < next || state.is_last || state.failure.is_some() {
            return;
        }
        let written = self.counted.write(&mut state, now - began, true);
        state.failure = written.err();
        // Those that nobody had time for are one.
        let periods = (now - began).as_nanos() / self.period.as_nanos().max(1) + 1;
        let behind = u32::try_from(periods).map(|periods| self.period.saturating_mul(periods));
        let next = behind.ok().and_then(|behind| began.checked_add(behind));
        state.times = Some((began, next.unwrap_or(now + self.period)));
    }

    /// The session is about to end, and with it the interval that is not over.
    pub fn last(&self) {
        let state = self.state.lock();
        state.expect("nothing panics while it is locked").is_last = true;
    }

    /// Writes what has been counted since the last interval, if that is anything. The sink for the
    /// report.
    ///
    /// # Errors
    /// The module did not tell the counts, or they could not be written.
    pub fn end(self, duration: Duration) -> Result<Sink, Failure> {
        let Live { counted, state, .. } = self;
        let state = state.into_inner();
        let mut state = state.unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        counted.write(&mut state, duration, false)?;
        if counted.shape.format == Format::Text {
            state.sink.write("\n")?;
        }
        Ok(state.sink)
    }
}

impl<D: Door> Counted<'_, D> {
    /// `always`: also if nothing has been counted.
    fn write(&self, state: &mut State, until: Duration, always: bool) -> Result<(), Failure> {
        let (hits, _) = table::read::<Hits>(self.door, "reading the counts")?;
        let hits = self.places.with_derived(hits);
        let since = differences(&hits, &state.last);
        state.last = hits;
        if !always && since.iter().all(|one| one.hits + one.caught == 0) {
            return Ok(());
        }
        let rows = sheet::rows(self.words, self.places, &since);
        let titled = std::mem::replace(&mut state.titled, true);
        state.sink.write(&self.text(rows, until, titled))
    }

    fn text(&self, rows: Vec<Row<'_>>, until: Duration, titled: bool) -> String {
        let each = self.shape.each;
        let lines: Vec<_> = rows.iter().flat_map(|row| row.lines(each)).collect();
        let seconds = format!("{:.3}", until.as_secs_f64());
        let mut text = String::new();
        match self.shape.format {
            Format::Csv => {
                if !titled {
                    text += "seconds,place,hits,caught\n";
                }
                for (place, hits, caught) in lines {
                    text += &format!("{seconds},{},{hits},{caught}\n", csv(place));
                }
                text
            }
            Format::Text => {
                let places = lines.iter().map(|(place, ..)| place.chars().count());
                let room = places.max().unwrap_or(0).max("PLACE".len());
                let mut line = |seconds: &str, place: &str, hits: &str, caught: &str| {
                    text += &format!(
                        "{seconds:>FIGURE$}  {place:<room$}  {hits:>FIGURE$}  {caught:>FIGURE$}\n"
                    );
                };
                if !titled {
                    line("SECONDS", "PLACE", "HITS", "CAUGHT");
                }
                for (place, hits, caught) in lines {
                    line(&seconds, place, &grouped(hits), &grouped(caught));
                }
                fit(text, self.shape.width)
            }
            _ => json(&Interval {
                command: "probe",
                until_ns: until.as_nanos() as u64,
                interval: rows,
            }),
        }
    }
}

/// What has been counted between two readings.
fn differences(now: &[Hits], before: &[Hits]) -> Vec<Hits> {
    let each = now.iter().zip(before);
    each.map(|(now, before)| Hits {
        hits: now.hits.saturating_sub(before.hits),
        caught: now.caught.saturating_sub(before.caught),
        ..*now
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::fake::Fake;
    use jifl_sys::abi::Splice;

    const HOUR: Duration = Duration::from_secs(3600);

    /// What is written of a place that is hit seven times before the end.
    fn written(format: Format, period: Duration) -> String {
        let fake = Fake::default();
        let hits = Hits {
            hits: 7,
            caught: 1,
            ..Hits::default()
        };
        fake.add_table(vec![hits], [0; 3]);
        let words = [Word::parse("fn:f").unwrap()];
        let places = Places {
            splices: vec![Splice::default()],
            names: vec!["f+0x0".into()],
            of_words: vec![vec![0]],
            ..Places::default()
        };
        let name = format!("jifl-live-{}-{format:?}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let shape = Shape {
            format,
            each: false,
            width: None,
        };
        let sink = Sink::file(&path).unwrap();
        let live = Live::new(&fake, (&words, &places), period, shape, sink);
        // The first interval is not over, or ends with the session.
        if period < HOUR {
            live.last();
        }
        live.turn();
        live.turn();
        live.end(Duration::from_millis(1500)).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        text
    }

    #[test]
    fn what_an_interval_has_counted_has_its_time() {
        for period in [HOUR, Duration::from_nanos(1)] {
            assert_eq!(
                written(Format::Text, period),
                "  SECONDS  PLACE       HITS     CAUGHT\n    \
                   1.500  fn:f           7          1\n\n"
            );
            assert_eq!(
                written(Format::Csv, period),
                "seconds,place,hits,caught\n1.500,fn:f,7,1\n"
            );
            let line = written(Format::Ndjson, period);
            assert!(
                line.starts_with("{\"command\":\"probe\",\"until_ns\":1500000000,"),
                "{line}"
            );
            assert!(line.contains("\"hits\":7"), "{line}");
        }
    }

    #[test]
    fn intervals_add_up() {
        let fake = Fake::default();
        let hits = |hits| Hits {
            hits,
            ..Hits::default()
        };
        let words = [Word::parse("fn:f").unwrap()];
        let places = Places {
            names: vec!["f+0x0".into()],
            of_words: vec![vec![0]],
            ..Places::default()
        };
        let counted = Counted {
            door: &fake,
            words: &words,
            places: &places,
            shape: Shape {
                format: Format::Csv,
                each: true,
                width: None,
            },
        };
        let since = |now: u64, before: u64| {
            let rows = sheet::rows(&words, &places, &differences(&[hits(now)], &[hits(before)]));
            counted.text(rows, Duration::from_secs(2), true)
        };
        assert_eq!(since(9, 4), "2.000,fn:f,5,0\n");
    }
}
