// SPDX-License-Identifier: MIT OR Apache-2.0
//! One session of the daemon, as its thread and its clients share it: who reads it, what was read
//! last, and why it is to end.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use serde::Serialize;

use super::order::Order;
use super::queue::{Queue, Sample};
use super::who::Who;
use super::wire::Begun;
use crate::cmd::stat::metric::Metric;
use crate::cmd::stat::sheet::{Counted, Row};

/// Why a session is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Its time was up.
    Time,
    /// Somebody deleted it.
    Deleted,
    /// Nobody of its owner's reads its events.
    Left,
    /// Somebody has ended it in the module.
    Outside,
    /// The daemon ends.
    Daemon,
}

impl Why {
    /// As the protocol has it.
    pub fn word(self) -> &'static str {
        match self {
            Why::Time => "time",
            Why::Deleted => "deleted",
            Why::Left => "left",
            Why::Outside => "outside",
            Why::Daemon => "daemon",
        }
    }
}

/// What a session's thread and the clients share.
pub struct Watch {
    /// Its number here.
    pub id: u64,
    /// Who has begun it.
    pub owner: Who,
    /// What it is about.
    pub order: Order,
    /// Its functions.
    pub rows: Vec<Row>,
    /// The answer to the order.
    pub begun: Begun,
    /// When it began.
    pub since: Instant,
    /// What is shown.
    pub metrics: Vec<Metric>,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    queues: Vec<(u64, Arc<Queue>, bool)>,
    latest: Option<Arc<Counted>>,
    /// Connections of events so far.
    readers: u64,
    /// One of its owner's has read it.
    was_read: bool,
    /// Since when nobody of its owner's reads it.
    left_since: Option<Instant>,
    ends: Option<Why>,
    seq: u64,
}

impl Watch {
    /// A session that runs now, and that nobody reads yet.
    pub fn new(
        owner: Who,
        order: Order,
        rows: Vec<Row>,
        begun: Begun,
        metrics: Vec<Metric>,
    ) -> Watch {
        Watch {
            id: begun.id,
            owner,
            order,
            rows,
            begun,
            since: Instant::now(),
            metrics,
            state: Mutex::new(State {
                left_since: Some(Instant::now()),
                ..State::default()
            }),
            wake: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last that was read.
    pub fn latest(&self) -> Option<Arc<Counted>> {
        self.state().latest.clone()
    }

    /// It was read.
    pub fn set_latest(&self, counted: &Counted) {
        self.state().latest = Some(Arc::new(counted.clone()));
    }

    /// Why it ends, if it does.
    pub fn why(&self) -> Option<Why> {
        self.state().ends
    }

    /// How many read its events.
    pub fn readers(&self) -> usize {
        self.state().queues.len()
    }

    /// It is to end for this reason, if there is none yet.
    pub fn end(&self, why: Why) {
        self.state().ends.get_or_insert(why);
        self.wake.notify_all();
    }

    /// Somebody begins to read its events.
    pub fn attach(self: &Arc<Watch>, who: &Who) -> Reader {
        let is_owner = who.owns_what_is_of(&self.owner);
        let queue = Arc::new(Queue::default());
        let mut state = self.state();
        state.readers += 1;
        let number = state.readers;
        state.queues.push((number, Arc::clone(&queue), is_owner));
        if is_owner {
            state.left_since = None;
            state.was_read = true;
        }
        drop(state);
        Reader {
            queue,
            number,
            watch: Arc::clone(self),
        }
    }

    fn detach(&self, number: u64) {
        let mut state = self.state();
        state.queues.retain(|(own, ..)| *own != number);
        let is_left = !state.queues.iter().any(|(_, _, is_owner)| *is_owner);
        if is_left && state.left_since.is_none() {
            state.left_since = Some(Instant::now());
        }
        drop(state);
        self.wake.notify_all();
    }

    /// Waits until then, or until the session is to end; why, if it is.
    pub fn wait(&self, until: Instant, grace: Duration) -> Option<Why> {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            // Once its owner has read it, nobody waits for another connection.
            let patience = if state.was_read {
                Duration::ZERO
            } else {
                grace
            };
            let left = state.left_since.filter(|_| !self.order.keep);
            if left.is_some_and(|since| now >= since + patience) {
                state.ends.get_or_insert(Why::Left);
            }
            if state.ends.is_some() || now >= until {
                return state.ends;
            }
            let waited = self.wake.wait_timeout(state, until - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Gives an event to all who read; how many older ones were dropped.
    pub fn publish(&self, event: &'static str, data: &impl Serialize) -> u64 {
        let data = Bytes::from(serde_json::to_vec(data).unwrap_or_default());
        let mut state = self.state();
        state.seq += 1;
        let seq = state.seq;
        let sample = Arc::new(Sample { event, seq, data });
        state
            .queues
            .iter()
            .map(|(_, one, _)| one.put(&sample))
            .sum()
    }

    /// There will be no more events.
    pub fn close(&self) {
        self.state()
            .queues
            .iter()
            .for_each(|(_, one, _)| one.close());
    }
}

/// Somebody who reads a session's events. It ends with this value.
pub struct Reader {
    /// Where they come.
    pub queue: Arc<Queue>,
    /// Of this session.
    pub watch: Arc<Watch>,
    number: u64,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.watch.detach(self.number);
    }
}
