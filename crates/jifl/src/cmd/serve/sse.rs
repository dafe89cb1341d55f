// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of a session or a work as the body of an answer: server-sent events, as browsers read
//! them.
//!
//! The connection polls the body only while there is room for more, so a client that reads slowly
//! leaves its events in its queue. The body is dropped with the connection, and with it the reader.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame};

use super::queue::{Queue, Sample};
use super::watch::Reader;
use super::works::Client;

/// What is sent when there is no event, so that a connection that is lost shows.
const ALIVE: &[u8] = b": alive\n\n";

type Next = Pin<Box<dyn Future<Output = Option<Bytes>> + Send + Sync>>;

/// The body.
pub struct Events {
    queue: Arc<Queue>,
    /// Who reads: a session, or a work, is told when this ends.
    _reader: Box<dyn Send + Sync>,
    /// How long nothing may be sent.
    quiet: Duration,
    first: Option<Bytes>,
    next: Option<Next>,
}

impl Events {
    /// All events from now on. The first one says what the session is.
    pub fn of(reader: Reader, quiet: Duration) -> Events {
        let begun = serde_json::to_string(&reader.watch.begun).unwrap_or_default();
        Events {
            first: Some(format!("event: begin\ndata: {begun}\n\n").into()),
            queue: Arc::clone(&reader.queue),
            _reader: Box::new(reader),
            quiet,
            next: None,
        }
    }

    /// All events of a work, from its beginning to its end.
    pub fn of_work(client: Client, quiet: Duration) -> Events {
        Events {
            first: None,
            queue: Arc::clone(&client.0.queue),
            _reader: Box::new(client),
            quiet,
            next: None,
        }
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let (queue, quiet) = (Arc::clone(&self.queue), self.quiet);
        let next = self
            .next
            .get_or_insert_with(|| Box::pin(next(queue, quiet)));
        let Poll::Ready(bytes) = next.as_mut().poll(cx) else {
            return Poll::Pending;
        };
        self.next = None;
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// The next event, or a sign of life.
async fn next(queue: Arc<Queue>, quiet: Duration) -> Option<Bytes> {
    match tokio::time::timeout(quiet, queue.next()).await {
        Err(_) => Some(Bytes::from_static(ALIVE)),
        Ok(None) => None,
        Ok(Some((sample, dropped))) => Some(text(&sample, dropped)),
    }
}

fn text(sample: &Sample, dropped: u64) -> Bytes {
    let mut text = Vec::with_capacity(sample.data.len() + 100);
    if dropped > 0 {
        text.extend(format!("event: dropped\ndata: {{\"samples\":{dropped}}}\n\n").bytes());
    }
    text.extend(format!("event: {}\nid: {}\ndata: ", sample.event, sample.seq).bytes());
    text.extend_from_slice(&sample.data);
    text.extend_from_slice(b"\n\n");
    text.into()
}

/// What a client reads of a stream of events, in whatever pieces it comes.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    event: String,
    data: String,
    is_too_long: bool,
}

/// Bytes of an event that a client believes.
const EVENT_MAX: usize = 16 << 20;

impl Parser {
    /// Takes a piece; the events that end in it, as name and data.
    ///
    /// # Errors
    /// An event has no end.
    pub fn take(&mut self, piece: &[u8]) -> Result<Vec<(String, String)>, String> {
        let mut events = Vec::new();
        for byte in piece {
            if *byte != b'\n' {
                self.line.push(*byte);
                self.is_too_long |= self.line.len() + self.data.len() > EVENT_MAX;
                continue;
            }
            let line = String::from_utf8_lossy(&self.line).into_owned();
            self.line.clear();
            let line = line.strip_suffix('\r').unwrap_or(&line);
            if line.is_empty() {
                let event = std::mem::take(&mut self.event);
                let data = std::mem::take(&mut self.data);
                if !data.is_empty() {
                    events.push((event, data));
                }
            } else if let Some(event) = line.strip_prefix("event:") {
                self.event = event.trim_start().to_owned();
            } else if let Some(data) = line.strip_prefix("data:") {
                self.data += data.trim_start();
            }
        }
        match self.is_too_long {
            true => Err(format!("an event of more than {} MB came", EVENT_MAX >> 20)),
            false => Ok(events),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_in_any_pieces() {
        let sample = |event, seq, data: &str| Sample {
            event,
            seq,
            data: Bytes::from(data.to_owned()),
        };
        let mut all = text(&sample("rows", 7, r#"{"a":"b"}"#), 3).to_vec();
        all.extend_from_slice(ALIVE);
        all.extend_from_slice(&text(&sample("end", 8, "{}"), 0));
        let expected = [
            ("dropped", r#"{"samples":3}"#),
            ("rows", r#"{"a":"b"}"#),
            ("end", "{}"),
        ];
        for size in 1..all.len() {
            let mut parser = Parser::default();
            let mut events = Vec::new();
            for piece in all.chunks(size) {
                events.extend(parser.take(piece).unwrap());
            }
            let events: Vec<_> = events
                .iter()
                .map(|(event, data)| (event.as_str(), data.as_str()))
                .collect();
            assert_eq!(events, expected, "{size}");
        }
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut parser = Parser::default();
        let piece = vec![b'a'; 1 << 20];
        let mut pieces = 0;
        while parser.take(&piece).is_ok() {
            pieces += 1;
            assert!(pieces < 100);
        }
        assert!(pieces >= 16);
    }
}
