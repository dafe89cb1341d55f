// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chrome's trace event format (the object form of its document "Trace Event Format"), for
//! chrome://tracing, ui.perfetto.dev and similar viewers.

use std::io::Write as _;

use serde::Serialize;
use serde_json::{Value, json};

use super::form::{Described, Form, Shown, View};
use super::instant::{Instant, Track};
use super::spans::{Span, spans};
use crate::session::calls::Call;
use crate::session::calls::losses::Losses;
use crate::session::calls::threads::{Thread, Threads};

const HEAD: &[u8] = b"{\"traceEvents\":[";

/// What makes a whole of a file that was cut behind an event.
const ENDING: &[u8] = b"\n]}\n";

/// Events, each on a line.
pub struct Chrome {
    threads: Threads,
    /// Whether an event was written: the next one needs a comma before it.
    some: bool,
}

impl Chrome {
    /// A form with these names of threads.
    pub fn new(threads: Threads) -> Chrome {
        Chrome {
            threads,
            some: false,
        }
    }
}

impl Form for Chrome {
    /// Without a displayTimeUnit: old versions of Perfetto took it for the unit of the times.
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend(HEAD);
    }

    fn call(&mut self, out: &mut Vec<u8>, shown: &Shown, view: &View) {
        let call = shown.call;
        let (process, number) = match call.interrupt {
            Some(interrupt) => self.meet(out, &Track::Interrupt(interrupt)),
            None => self.find(out, call),
        };
        for span in spans(shown) {
            let described = view.describe(shown, span.function);
            self.event(out, &event(&described, &span, process, number));
        }
    }

    fn end(&mut self, out: &mut Vec<u8>, _view: &View, losses: &Losses) {
        let data = json!({
            "clock": "CLOCK_MONOTONIC",
            "calls": losses.calls,
            "functions": losses.functions,
            "records_lost": losses.lost + losses.stray + losses.refused,
            "calls_missed": losses.missed,
        });
        Chrome::close(out, &data);
    }

    /// Length of the output up to the last event behind which the ending has room, if the beginning
    /// was written.
    fn whole(&self, last: &[u8], part: &[u8]) -> Option<(usize, &'static [u8])> {
        if last.is_empty() && (part.is_empty() || part.starts_with(&HEAD[..1])) {
            return None;
        }
        let both = [last, part].concat();
        let room = both.len().saturating_sub(ENDING.len());
        let mut commas = both.windows(2).take(room + 1);
        let events = commas.rposition(|two| two == b",\n");
        Some((events.unwrap_or(0), ENDING))
    }
}

impl Chrome {
    /// Writes an event without a duration.
    pub fn instant(&mut self, out: &mut Vec<u8>, instant: &Instant<'_>) {
        self.lasting(out, instant, None);
    }

    /// Writes an event that lasts so many nanoseconds.
    pub fn slice(&mut self, out: &mut Vec<u8>, begin: &Instant<'_>, duration: u64) {
        self.lasting(out, begin, Some(duration));
    }

    fn lasting(&mut self, out: &mut Vec<u8>, instant: &Instant<'_>, duration: Option<u64>) {
        let (process, number) = self.meet(out, &instant.track);
        let span = Span {
            function: None,
            from: instant.time,
            duration,
            level: 0,
        };
        let event = event(&instant.described, &span, process, number);
        self.event(out, &event);
    }

    /// Process and number of a track, which gets its name if that is new.
    fn meet(&mut self, out: &mut Vec<u8>, track: &Track<'_>) -> (u32, u32) {
        let thread = track.thread();
        let number = match *track {
            Track::Cpu(cpu) => cpu,
            _ => track.number(),
        };
        if self.threads.meet(track.number(), &thread) {
            let names = names(&thread, number);
            names.iter().for_each(|name| self.event(out, name));
        }
        (thread.process, number)
    }

    /// The same of the thread that made a call.
    fn find(&mut self, out: &mut Vec<u8>, call: &Call) -> (u32, u32) {
        let (thread, new) = self.threads.find(call.thread, call.began);
        let process = thread.process;
        if new {
            let names = names(thread, call.thread);
            names.iter().for_each(|name| self.event(out, name));
        }
        (process, call.thread)
    }

    /// Writes the end of the object.
    pub fn close(out: &mut Vec<u8>, data: &Value) {
        let _ = writeln!(out, "\n],\"otherData\":{data}}}");
    }

    fn event(&mut self, out: &mut Vec<u8>, event: &str) {
        let comma = if self.some { "," } else { "" };
        let _ = write!(out, "{comma}\n{event}");
        self.some = true;
    }
}

/// A complete event, or an instant where there is no end.
fn event(described: &Described, span: &Span, process: u32, thread: u32) -> String {
    let mut text = format!(
        "{{\"name\":{},\"cat\":\"{}\",\"pid\":{process},\"tid\":{thread},\"ts\":{}",
        quoted(&described.name),
        described.category,
        microseconds(span.from)
    );
    text += &match span.duration {
        Some(duration) => format!(",\"ph\":\"X\",\"dur\":{}", microseconds(duration)),
        None => ",\"ph\":\"i\",\"s\":\"t\"".to_owned(),
    };
    if !described.details.is_empty() {
        text = text + ",\"args\":" + &quoted(&described.details);
    }
    text + "}"
}

/// Metadata that name a thread and its process.
fn names(thread: &Thread, number: u32) -> Vec<String> {
    let named = |what, name: &Option<String>| {
        let name = name.as_ref()?;
        let event = json!({
            "name": what,
            "ph": "M",
            "pid": thread.process,
            "tid": number,
            "args": { "name": name },
        });
        Some(event.to_string())
    };
    let both = [
        named("process_name", &thread.process_name),
        named("thread_name", &thread.name),
    ];
    both.into_iter().flatten().collect()
}

/// A call or function as JSON.
fn quoted(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts and maps of texts always serialize")
}

/// Microseconds with three digits after the point. A double could not hold the times of a machine
/// that has run for months.
fn microseconds(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::trace::tests::{GONE, written};

    #[test]
    fn calls_and_functions_are_events() {
        let text = written("sys:openat -f chrome -A");
        let value: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(
            value["traceEvents"],
            json!([
                {"name": "sys:openat", "cat": "syscall", "ph": "X", "pid": GONE, "tid": GONE,
                 "ts": 1.0, "dur": 2.5, "args": {"result": -2, "error": "ENOENT"}},
                {"name": "outer", "cat": "function", "ph": "X", "pid": GONE, "tid": GONE,
                 "ts": 1.1, "dur": 2.0, "args": {"arguments": {"x": 7, "y": "..."}, "result": -2}},
                // This function returns natively.
                {"name": "inner [nfs]", "cat": "function", "ph": "i", "s": "t", "pid": GONE, "tid": GONE,
                 "ts": 1.5},
            ])
        );
        assert_eq!(value["otherData"]["records_lost"], 3);
        assert!(
            std::str::from_utf8(&text)
                .unwrap()
                .contains("\"ts\":1.100,")
        );
    }

    #[test]
    fn wherever_it_is_cut_the_rest_is_a_whole() {
        let text = written("sys:openat -f chrome");
        let head = text.iter().position(|byte| *byte == b'[').unwrap() + 1;
        assert_eq!(
            Chrome::new(Threads::default()).whole(&[], &text[..head]),
            None
        );
        let form = Chrome::new(Threads::default());
        let first = text.windows(2).position(|two| two == b",\n").unwrap();
        let mut events = 0;
        for end in head + 1..text.len() {
            let middle = (head + end) / 2;
            let (keep, closing) = form.whole(&text[head..middle], &text[middle..end]).unwrap();
            let room = head + keep + closing.len() <= end;
            assert!(
                room || end < first + closing.len(),
                "no room for the ending"
            );
            let cut = [&text[..head + keep], closing].concat();
            let value: Value = serde_json::from_slice(&cut).unwrap();
            events = value["traceEvents"].as_array().unwrap().len();
        }
        assert_eq!(events, 2);
    }
}
