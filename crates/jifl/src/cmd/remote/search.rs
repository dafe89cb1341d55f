// SPDX-License-Identifier: MIT OR Apache-2.0
//! A search that a daemon makes of its machine.

use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use hyper::Method;
use serde_json::Value as Json;

use super::client::Client;
use super::host::Host;
use crate::base::exit::Failure;
use crate::cmd::search::order::{Grown, Order};
use crate::cmd::serve::wire::Refusal;

/// What a daemon says of a search.
#[derive(Debug)]
pub enum Event {
    /// What is known by now.
    Tree(Grown),
    /// The end.
    End(Grown),
    /// It is lost.
    Failed(Failure),
}

/// A search. It ends with this value.
pub struct Search {
    client: Client,
    events: mpsc::Receiver<Event>,
    /// Its number at the daemon, as soon as that is known.
    id: mpsc::Receiver<u64>,
    known: Mutex<Option<u64>>,
}

impl Search {
    /// Begins it. What the daemon refuses comes as an event.
    ///
    /// # Errors
    /// The order cannot be written.
    pub fn begin(host: &Host, order: &Order) -> Result<Search, Failure> {
        let client = Client::new(host.clone())?;
        let body = serde_json::to_vec(order)
            .map_err(|error| Failure::usage(format!("the order: {error}")))?;
        let (to, events) = mpsc::channel();
        let (tell_id, id) = mpsc::channel();
        let host = host.clone();
        // The search ends with the connection, and that with the first event that nobody takes.
        thread::spawn(move || {
            let read = Client::new(host).and_then(|client| {
                client.events(Method::POST, "/v1/search", Some(body), |event, data| {
                    if event == "begin" {
                        let begun: Json = serde_json::from_str(data).unwrap_or_default();
                        let _ = begun["id"].as_u64().map(|id| tell_id.send(id));
                    }
                    event_of(event, data).is_none_or(|event| to.send(event).is_ok())
                })
            });
            let failure = read.err().unwrap_or_else(|| {
                Failure::failed("the daemon has ended without the search's last words")
            });
            let _ = to.send(Event::Failed(failure));
        });
        Ok(Search {
            client,
            events,
            id,
            known: Mutex::default(),
        })
    }

    /// The next event, if one comes within this time.
    pub fn next(&self, within: Duration) -> Option<Event> {
        match self.events.recv_timeout(within) {
            Ok(event) => Some(event),
            Err(mpsc::RecvTimeoutError::Timeout) => None,
            Err(mpsc::RecvTimeoutError::Disconnected) => Some(Event::Failed(Failure::failed(
                "the search's events have ended",
            ))),
        }
    }

    /// Has the daemon end it, if it goes on, and waits for nothing.
    pub fn leave(&self) {
        let known = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = known.or_else(|| self.id.try_recv().ok()) {
            let path = format!("/v1/search/{id}");
            // It has ended, or the daemon has.
            let _: Result<Json, Failure> = self.client.ask(Method::DELETE, &path, None);
        }
    }

    /// Asks the daemon to end it. What is known comes as its last event.
    ///
    /// # Errors
    /// The daemon is not there, refuses, or has not begun.
    pub fn end(&self) -> Result<(), Failure> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let id = known.or_else(|| self.id.recv_timeout(Duration::from_secs(10)).ok());
        *known = id;
        let id = id.ok_or_else(|| Failure::failed("interrupted before the search began"))?;
        let path = format!("/v1/search/{id}");
        let _: Json = self.client.ask(Method::DELETE, &path, None)?;
        Ok(())
    }
}

fn event_of(event: &str, data: &str) -> Option<Event> {
    let malformed = |error: serde_json::Error| {
        Event::Failed(Failure::failed(format!(
            "the daemon's event {event} has another form: {error}; is it of another version?"
        )))
    };
    let grown = |make: fn(Grown) -> Event| {
        let grown: Result<Grown, _> = serde_json::from_str(data);
        grown.map_or_else(malformed, |mut grown| {
            grown.text = printable(&grown.text);
            make(grown)
        })
    };
    Some(match event {
        "tree" => grown(Event::Tree),
        "end" => grown(Event::End),
        "error" => serde_json::from_str(data).map_or_else(malformed, |refusal: Refusal| {
            Event::Failed(Failure {
                status: refusal.exit.max(1),
                message: refusal.error,
            })
        }),
        _ => return None,
    })
}

/// Lines without characters that terminals obey: another machine has made them.
fn printable(text: &str) -> String {
    let is_plain = |letter: &char| *letter == '\n' || !letter.is_control();
    text.chars().filter(is_plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_machine_does_not_command_the_terminal() {
        let data = r#"{"report": {"cut_short": null}, "text": "a\u001b[2J\n\u0007b\n"}"#;
        match event_of("end", data) {
            Some(Event::End(grown)) => {
                assert_eq!(grown.text, "a[2J\nb\n");
                assert!(!grown.is_cut_short());
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(event_of("end", "[]"), Some(Event::Failed(_))));
        assert!(event_of("later", "{}").is_none());
    }
}
