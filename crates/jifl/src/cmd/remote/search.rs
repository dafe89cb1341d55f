// SPDX-License-Identifier: MIT OR Apache-2.0
//! A search that a daemon makes of its machine.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use hyper::Method;
use serde_json::Value as Json;

use super::client::Client;
use super::host::Host;
use super::plain::{self, make_plain, plain, printable};
use crate::base::exit::Failure;
use crate::cmd::search::order::{Grown, Order};
use crate::cmd::serve::wire::Refusal;

/// How long the beginning of a search is waited for, to end it. The daemon waits as long for the end
/// of the search before.
const BEGINNING: Duration = Duration::from_secs(12);

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
    host: Host,
    events: mpsc::Receiver<Event>,
    shared: Arc<Shared>,
}

/// What the thread that reads events shares with who wants them.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The search's number at the daemon, as soon as that is known.
    id: Option<u64>,
    /// Nobody wants it any more.
    is_left: bool,
    /// Its last event has come.
    is_over: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }
}

impl Search {
    /// Begins it. What the daemon refuses comes as an event.
    ///
    /// # Errors
    /// The order cannot be written.
    pub fn begin(host: &Host, order: &Order) -> Result<Search, Failure> {
        let body = serde_json::to_vec(order)
            .map_err(|error| Failure::usage(format!("the order: {error}")))?;
        let (to, events) = mpsc::channel();
        let shared: Arc<Shared> = Arc::default();
        let (own, at) = (Arc::clone(&shared), host.clone());
        // The search ends with the connection, and that with the first event that nobody takes.
        thread::spawn(move || {
            let read = Client::new(at).and_then(|client| {
                client.events(Method::POST, "/v1/search", Some(body), |event, data| {
                    if event == "begin" {
                        let begun: Json = serde_json::from_str(data).unwrap_or_default();
                        own.change(|state| state.id = begun["id"].as_u64());
                        // Who left before its number was known could delete nothing.
                        return !own.state().is_left;
                    }
                    if event == "end" || event == "error" {
                        own.change(|state| state.is_over = true);
                    }
                    event_of(event, data).is_none_or(|event| to.send(event).is_ok())
                })
            });
            own.change(|state| state.is_over = true);
            let failure = read.err().unwrap_or_else(|| {
                Failure::failed("the daemon has ended without the search's last words")
            });
            let _ = to.send(Event::Failed(plain(failure)));
        });
        Ok(Search {
            host: host.clone(),
            events,
            shared,
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

    /// Has the daemon end it, if it goes on, and waits for nothing. If its number is not known yet,
    /// it ends when that comes.
    pub fn leave(&self) {
        let mut state = self.shared.state();
        let is_done = state.is_left || state.is_over;
        state.is_left = true;
        let Some(id) = state.id.filter(|_| !is_done) else {
            return;
        };
        drop(state);
        let host = self.host.clone();
        // It has ended, or the daemon has: then there is nothing to say.
        let delete = move || drop(delete(host, id));
        let _ = thread::Builder::new().spawn(delete);
    }

    /// Asks the daemon to end it, if it goes on. What is known comes as its last event.
    ///
    /// # Errors
    /// The daemon is not there, refuses, or has not begun. The last event may come all the same.
    pub fn end(&self) -> Result<(), Failure> {
        let is_unknown = |state: &mut State| state.id.is_none() && !state.is_over;
        let waited =
            self.shared
                .changed
                .wait_timeout_while(self.shared.state(), BEGINNING, is_unknown);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let (id, is_over) = (state.id, state.is_over);
        drop(state);
        if is_over {
            return Ok(());
        }
        let id = id.ok_or_else(|| Failure::failed("interrupted before the search began"))?;
        delete(self.host.clone(), id)
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        self.leave();
    }
}

fn delete(host: Host, id: u64) -> Result<(), Failure> {
    let path = format!("/v1/search/{id}");
    let _: Json = Client::new(host)?.ask(Method::DELETE, &path, None)?;
    Ok(())
}

fn event_of(event: &str, data: &str) -> Option<Event> {
    let malformed = |error: serde_json::Error| {
        Event::Failed(plain(Failure::failed(format!(
            "the daemon's event {event} has another form: {error}; is it of another version?"
        ))))
    };
    let grown = |make: fn(Grown) -> Event| {
        let grown: Result<Grown, _> = serde_json::from_str(data);
        grown.map_or_else(malformed, |mut grown| {
            grown.text = printable(&grown.text);
            make_plain(&mut grown.report);
            make(grown)
        })
    };
    Some(match event {
        "tree" => grown(Event::Tree),
        "end" => grown(Event::End),
        "error" => plain::read(data.as_bytes()).map_or_else(malformed, |refusal: Refusal| {
            Event::Failed(Failure {
                status: refusal.exit.max(1),
                message: refusal.error,
            })
        }),
        _ => return None,
    })
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
        let data = r#"{"report": {"doing": "\u009b2Ja", "tests": [{"b\u001bc": "\u0085d", "e": 1}]},
            "text": ""}"#;
        match event_of("tree", data) {
            Some(Event::Tree(grown)) => {
                let plain = serde_json::json!({"doing": "2Ja", "tests": [{"bc": "d", "e": 1}]});
                assert_eq!(grown.report, plain);
            }
            other => panic!("{other:?}"),
        }
        match event_of("error", r#"{"error": "no\u001b[2J", "exit": 3}"#) {
            Some(Event::Failed(failure)) => {
                assert_eq!((failure.message.as_str(), failure.status), ("no[2J", 3));
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(event_of("end", "[]"), Some(Event::Failed(_))));
        assert!(event_of("later", "{}").is_none());
    }
}
