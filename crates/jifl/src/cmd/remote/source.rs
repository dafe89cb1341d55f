// SPDX-License-Identifier: MIT OR Apache-2.0
//! A daemon as a source of rows: what `stat` and `top` show of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use hyper::Method;
use jifl_sys::abi::{LEVELS, TIMES_ELAPSED};
use serde_json::Value as Json;

use super::client::Client;
use super::host::Host;
use super::plain;
use crate::base::exit::Failure;
use crate::cmd::serve::order::Order;
use crate::cmd::serve::wire::{Begun, Refusal, Rows};
use crate::cmd::stat::sheet::{Counted, Row};
use crate::cmd::stat::source::{Below, Ended, Opened, Plan, Running, Source};

/// How long the end of a session is waited for.
const ENDING: Duration = Duration::from_secs(60);
/// The same if the daemon did not take the request to end it. It may have just ended by itself: then
/// its last event has come, or is on its way.
const LAST: Duration = Duration::from_secs(5);

/// How often it is looked whether it is left.
const LOOK: Duration = Duration::from_millis(50);

/// What a daemon says of a session.
#[derive(Debug)]
pub enum Event {
    /// All that was counted until now.
    Rows(Rows),
    /// So many events did not come, because this end was too slow.
    Dropped(u64),
    /// The end.
    End(Ended, String),
    /// It is lost.
    Failed(Failure),
}

/// A session of a daemon.
pub struct Session {
    /// What the daemon has answered.
    pub begun: Begun,
    /// Its functions.
    pub rows: Vec<Row>,
    /// What it says, until [`Event::End`] or [`Event::Failed`].
    pub events: mpsc::Receiver<Event>,
    client: Client,
    /// When the daemon was asked to end it, and why it did not take that.
    left: Option<(Instant, Option<Failure>)>,
}

impl Session {
    /// Begins it.
    ///
    /// # Errors
    /// The daemon is not there, or refuses.
    pub fn begin(host: &Host, order: &Order) -> Result<Session, Failure> {
        let client = Client::new(host.clone())?;
        let body = serde_json::to_vec(order)
            .map_err(|error| Failure::usage(format!("the order: {error}")))?;
        let begun: Begun = client.ask(Method::POST, "/v1/stat", Some(body))?;
        let rows = begun.functions.iter().map(|one| Row {
            function: one.function.clone(),
            module: one.module.clone(),
            address: 0,
            target: one.row,
            ..Row::default()
        });
        let rows = rows.collect();
        let (to, events) = mpsc::channel();
        let (host, path) = (host.clone(), format!("/v1/stat/{}/events", begun.id));
        // It ends with the events; they end when nobody takes them.
        thread::spawn(move || {
            let read = Client::new(host).and_then(|client| {
                client.events(Method::GET, &path, None, |event, data| {
                    match event_of(event, data) {
                        Some(event) => to.send(event).is_ok(),
                        None => true,
                    }
                })
            });
            let failure = read.err().unwrap_or_else(|| {
                Failure::failed("the daemon has ended without the session's last figures")
            });
            let _ = to.send(Event::Failed(failure));
        });
        Ok(Session {
            begun,
            rows,
            events,
            client,
            left: None,
        })
    }

    /// Asks the daemon to end it. Its last event comes then.
    ///
    /// # Errors
    /// The daemon is not there, or refuses.
    pub fn end(&self) -> Result<(), Failure> {
        let path = format!("/v1/stat/{}", self.begun.id);
        let _: Json = self.client.ask(Method::DELETE, &path, None)?;
        Ok(())
    }

    /// Asks the daemon to end it, unless that was done; was it not? If the daemon does not take
    /// that, the last event is waited for all the same, for a short time.
    pub fn leave(&mut self) -> bool {
        let is_first = self.left.is_none();
        if is_first {
            let refused = self.end().err();
            self.left = Some((Instant::now(), refused));
        }
        is_first
    }

    /// Why no more events are waited for, if they are not.
    fn given_up(&self) -> Option<Failure> {
        let (since, refused) = self.left.as_ref()?;
        let patience = if refused.is_some() { LAST } else { ENDING };
        let not_ended = || Failure::failed("the daemon does not end the session");
        (since.elapsed() > patience).then(|| refused.clone().unwrap_or_else(not_ended))
    }

    /// The next event, if one comes within this time.
    pub fn next(&mut self, within: Duration) -> Option<Event> {
        match self.events.recv_timeout(within) {
            Ok(event @ (Event::End(..) | Event::Failed(_))) => Some(event),
            Ok(event) => Some(self.given_up().map_or(event, Event::Failed)),
            Err(mpsc::RecvTimeoutError::Timeout) => self.given_up().map(Event::Failed),
            Err(mpsc::RecvTimeoutError::Disconnected) => Some(Event::Failed(Failure::failed(
                "the session's events have ended",
            ))),
        }
    }
}

fn event_of(event: &str, data: &str) -> Option<Event> {
    let malformed = |error: serde_json::Error| {
        format!("the daemon's event {event} has another form: {error}; is it of another version?")
    };
    let rows = || {
        let rows: Rows = plain::read(data.as_bytes()).map_err(malformed)?;
        rows.believed()
    };
    let failed = |words: String| Event::Failed(Failure::failed(words));
    let unread = |error: serde_json::Error| failed(malformed(error));
    Some(match event {
        "rows" => rows().map_or_else(failed, Event::Rows),
        "end" => rows().map_or_else(failed, |rows| {
            let end = rows.end.clone().unwrap_or_default();
            let ended = Ended {
                counted: rows.counted(),
                rows: rows.rows(),
                start_ns: end.start_ns,
                end_ns: end.end_ns,
                cut_short: end.cut_short,
            };
            Event::End(ended, end.why)
        }),
        "dropped" => {
            let value: Result<Json, _> = plain::read(data.as_bytes());
            value.map_or_else(unread, |value| {
                Event::Dropped(value["samples"].as_u64().unwrap_or(0))
            })
        }
        "error" => plain::read(data.as_bytes()).map_or_else(unread, |refusal: Refusal| {
            Event::Failed(Failure {
                status: refusal.exit.max(1),
                message: refusal.error,
            })
        }),
        _ => return None,
    })
}

/// The order for a plan.
///
/// # Errors
/// The plan runs a command.
pub fn order(plan: &Plan, interval: Duration) -> Result<Order, Failure> {
    let levels = LEVELS.iter().enumerate();
    let contexts = levels.filter(|(at, _)| plan.levels & 1 << at != 0);
    let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
    Ok(Order {
        resources: plan.functions.clone(),
        metrics: plan.counters.clone(),
        by: plan.by.clone(),
        no_interrupts: plan.interrupts.is_some(),
        interval_ms: milliseconds(interval),
        for_ms: None,
        filters: plan.tasks.filters()?,
        contexts: contexts.map(|(_, name)| (*name).to_owned()).collect(),
        keep: false,
        yes: plan.confirmed,
        lenient: plan.lenient,
        below: false,
    })
}

/// A daemon as a source.
pub struct Remote {
    host: Host,
    /// From one event to the next.
    interval: Duration,
}

impl Remote {
    /// This one.
    pub fn new(host: Host, interval: Duration) -> Remote {
        Remote { host, interval }
    }
}

impl Source for Remote {
    fn open(&self, plan: &Plan) -> Result<Box<dyn Opened>, Failure> {
        let mut order = order(plan, self.interval)?;
        order.below = true;
        Ok(Box::new(Session::begin(&self.host, &order)?))
    }
}

impl Opened for Session {
    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn left_out(&self) -> &str {
        &self.begun.left_out
    }

    /// Always by name: a daemon tells no addresses.
    fn below(&self, _by_name: bool) -> Result<Below, Failure> {
        let all = self.begun.functions.iter();
        let one = |one: &crate::cmd::serve::wire::Named| (one.row, one.below.clone());
        let all: HashMap<usize, _> = all.map(one).collect();
        let known = all.into_iter();
        Ok(known
            .map(|(row, below)| (row, below.unwrap_or_default()))
            .collect())
    }

    fn run(mut self: Box<Self>, meanwhile: &mut dyn FnMut(&dyn Running)) -> Result<Ended, Failure> {
        let latest = Arc::new(Latest {
            id: self.begun.session,
            counted: Mutex::default(),
            has_ended: AtomicBool::new(false),
        });
        let seen = Arc::clone(&latest);
        let is_left = AtomicBool::new(false);
        thread::scope(|scope| {
            let (left, own) = (&is_left, &mut self);
            let reader = scope.spawn(move || own.follow(&seen, left));
            meanwhile(latest.as_ref());
            is_left.store(true, Ordering::Relaxed);
            let read = reader.join();
            read.unwrap_or_else(|_| Err(Failure::failed("reading the daemon's events")))
        })
    }
}

impl Session {
    /// Takes events until the end, for which it asks when `is_left`.
    fn follow(&mut self, latest: &Latest, is_left: &AtomicBool) -> Result<Ended, Failure> {
        loop {
            if is_left.load(Ordering::Relaxed) {
                self.leave();
            }
            match self.next(LOOK) {
                None => {}
                Some(Event::Rows(rows)) => latest.set(rows.counted()),
                Some(Event::Dropped(_)) => {}
                Some(Event::End(ended, _)) => {
                    latest.has_ended.store(true, Ordering::Relaxed);
                    return Ok(ended);
                }
                Some(Event::Failed(failure)) => {
                    latest.has_ended.store(true, Ordering::Relaxed);
                    return Err(failure);
                }
            }
        }
    }
}

/// What has come last.
struct Latest {
    id: u64,
    counted: Mutex<Counted>,
    has_ended: AtomicBool,
}

impl Latest {
    fn set(&self, counted: Counted) {
        let own = self.counted.lock();
        let mut own = own.unwrap_or_else(PoisonError::into_inner);
        if counted.rest[TIMES_ELAPSED] >= own.rest[TIMES_ELAPSED] {
            *own = counted;
        }
    }
}

impl Running for Latest {
    fn id(&self) -> u64 {
        self.id
    }

    fn counted(&self) -> Result<Counted, Failure> {
        let own = self.counted.lock();
        Ok(own.unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_machine_does_not_command_the_terminal() {
        let data = r#"{"elapsed_ns": 1, "unwatched": 0, "missed": 0, "functions": [{"row": 0,
            "function": "f\u001b[2J", "module": "m\u0007", "calls": 18446744073709551615,
            "wall_ns": 0, "cpu_ns": 0, "blocked_ns": 0, "runnable_ns": 0, "inside": 0, "adopted": 0,
            "died": 0, "jumped": 0, "strays": 0, "elapsed_ns": 1, "metrics": {},
            "by": {"shown": ["\u009b2Ja\n"], "values": ["\u001bc"]}}]}"#;
        let rows = match event_of("rows", data) {
            Some(Event::Rows(rows)) => rows.rows().unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(rows[0].function, "f[2J");
        assert_eq!(rows[0].module.as_deref(), Some("m"));
        assert_eq!(
            (&rows[0].keys.shown[0], &rows[0].keys.values[0]),
            (&"2Ja".into(), &"c".into())
        );
        match event_of("error", r#"{"error": "no\u001b[2J\n", "exit": 3}"#) {
            Some(Event::Failed(failure)) => assert_eq!(failure.message, "no[2J"),
            other => panic!("{other:?}"),
        }
    }
}
