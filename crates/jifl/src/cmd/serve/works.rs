// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work that a client has the daemon do, and that has an end of its own: a search, or
//! the counting of call paths. Its events are the answer to the request that has begun it.
//!
//! Each work runs in a thread. It ends when its time is up, when it is deleted, when the connection
//! of its events ends, and with the daemon. One of a kind runs at a time, because two would disturb
//! what they measure.
//!
//! The end of a work, in this order: its line is written, it is in no list any more, its last event
//! waits for its client, the client's queue is closed, its thread is not counted any more. So a
//! client that has the last event finds nothing of the work left, and may begin another one.

pub mod http;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use serde::Serialize;

use super::audit::told;
use super::hub::Hub;
use super::queue::{Queue, Sample};
use super::sessions::Sessions;
use super::who::Who;
use super::wire::Refusal;
use crate::base::exit::{Failure, LIMIT};
use crate::cmd::search::INTERRUPTED;

/// The longest time for which a client may have work done.
pub const LONGEST: Duration = Duration::from_secs(600);

/// How often it is looked whether a work has ended.
const LOOK: Duration = Duration::from_millis(20);

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The bottleneck is searched.
    Search,
    /// Call paths are counted.
    Paths,
}

impl Kind {
    /// As the protocol has it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Search => "search",
            Kind::Paths => "paths",
        }
    }
}

/// One work, as its thread and its client share it.
pub struct Work {
    /// Its number here.
    pub id: u64,
    /// What is done.
    pub kind: Kind,
    /// Who has begun it.
    pub owner: Who,
    /// What it is about, in one line.
    pub what: String,
    /// When it began.
    pub since: Instant,
    /// Where its events wait for its client.
    pub queue: Arc<Queue>,
    ends: Mutex<Option<&'static str>>,
    seq: AtomicU64,
    has_started: AtomicBool,
    sessions: Arc<Sessions>,
}

impl Work {
    /// It measures now, and that is written. What fails before has cost nothing, so that a client
    /// could make it fail all the time: it is written as a refusal.
    pub fn started(&self) {
        if !self.has_started.swap(true, Ordering::Relaxed) {
            let text = format!("{} started: {}", self.name(), self.about());
            self.sessions.audit.note(&text);
        }
    }

    fn name(&self) -> String {
        format!("{} {}", self.kind.word(), self.id)
    }

    fn about(&self) -> String {
        format!("who {} what {}", self.owner, self.what)
    }

    /// Writes how it has ended.
    fn note_end<T>(&self, ended: &Result<T, Failure>) {
        let (name, about, audit) = (self.name(), self.about(), &self.sessions.audit);
        let why = match ended {
            Err(failure) if !self.has_started.load(Ordering::Relaxed) => {
                return audit.refused(&format!("{name}: {about}: {}", failure.message));
            }
            Err(failure) => format!("failed: {}", told(&failure.message)),
            Ok(_) => self.over().unwrap_or("done").to_owned(),
        };
        self.started();
        let seconds = self.since.elapsed().as_secs_f64();
        audit.note(&format!(
            "{name} ended: why {why} after {seconds:.3} s: {about}"
        ));
    }

    /// It is to end for this reason, if there is none yet.
    pub fn end(&self, why: &'static str) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.get_or_insert(why);
    }

    /// Why it is to end before its time, if it is.
    pub fn over(&self) -> Option<&'static str> {
        *self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an event to its client.
    pub fn tell(&self, event: &'static str, data: &impl Serialize) {
        let data = Bytes::from(serde_json::to_vec(data).unwrap_or_default());
        let seq = self.seq.fetch_add(1, Ordering::Relaxed) + 1;
        self.queue.put(&Arc::new(Sample { event, seq, data }));
    }
}

/// The client of a work: the work ends with this value.
pub struct Client(pub Arc<Work>);

impl Drop for Client {
    fn drop(&mut self) {
        self.0.end("its client left");
    }
}

/// All of it.
#[derive(Default)]
pub struct Works {
    all: Mutex<All>,
    gone: Condvar,
}

#[derive(Default)]
struct All {
    last: u64,
    running: BTreeMap<u64, Arc<Work>>,
    /// Of works whose last event may not wait for its client yet.
    threads: usize,
    is_over: bool,
}

impl Works {
    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What runs, in order of the numbers.
    pub fn running(&self) -> Vec<Arc<Work>> {
        self.all().running.values().cloned().collect()
    }

    /// One of them, if it is of this kind.
    pub fn find(&self, kind: Kind, id: u64) -> Option<Arc<Work>> {
        let one = self.all().running.get(&id).cloned();
        one.filter(|one| one.kind == kind)
    }

    /// Ends all, and waits until they have ended, at most so long.
    pub fn end_all(&self, patience: Duration) {
        let mut all = self.all();
        all.is_over = true;
        all.running
            .values()
            .for_each(|one| one.end("the daemon ended"));
        let waited = self
            .gone
            .wait_timeout_while(all, patience, |all| all.threads > 0);
        drop(waited);
    }

    /// Waits until a work of this kind has ended that is this client's, and is to end; at most so
    /// long. Who has just ended one may begin the next.
    pub async fn wait_for_own(&self, kind: Kind, who: &Who, patience: Duration) {
        let until = Instant::now() + patience;
        let is_own = |one: &Work| {
            one.kind == kind && who.owns_what_is_of(&one.owner) && one.over().is_some()
        };
        while Instant::now() < until && self.all().running.values().any(|one| is_own(one)) {
            tokio::time::sleep(LOOK).await;
        }
    }

    fn enter(
        &self,
        kind: Kind,
        owner: &Who,
        what: String,
        sessions: &Arc<Sessions>,
    ) -> Result<Arc<Work>, Failure> {
        let mut all = self.all();
        if all.is_over {
            return Err(Failure::failed("the daemon ends: ask again when it runs"));
        }
        if let Some(other) = all.running.values().find(|one| one.kind == kind) {
            return Err(Failure {
                status: LIMIT,
                message: format!(
                    "{} {} runs, of {}, and two would disturb each other: wait for its end",
                    kind.word(),
                    other.id,
                    other.owner
                ),
            });
        }
        all.last += 1;
        let work = Arc::new(Work {
            id: all.last,
            kind,
            owner: owner.clone(),
            what,
            since: Instant::now(),
            queue: Arc::default(),
            ends: Mutex::default(),
            seq: AtomicU64::new(0),
            has_started: AtomicBool::new(false),
            sessions: Arc::clone(sessions),
        });
        all.running.insert(work.id, Arc::clone(&work));
        all.threads += 1;
        Ok(work)
    }
}

/// Begins a work. `act` does it, in a thread of its own, and returns the data of its last event. It
/// calls [`Work::started`] when it measures.
///
/// # Errors
/// One of its kind runs, or there are no threads.
pub fn begin<T: Serialize>(
    hub: &Arc<Hub>,
    kind: Kind,
    owner: &Who,
    what: String,
    act: impl FnOnce(&Hub, &Arc<Work>) -> Result<T, Failure> + Send + 'static,
) -> Result<Client, Failure> {
    let work = hub.works.enter(kind, owner, what, &hub.sessions)?;
    let (own, to) = (Arc::clone(hub), Arc::clone(&work));
    let spawned = thread::Builder::new()
        .name("jifl serve".into())
        .spawn(move || {
            let gone = Gone(&own, &to);
            to.tell("begin", &serde_json::json!({ "id": to.id }));
            // Nothing of it is used after a panic but what locks guard.
            let acted = catch_unwind(AssertUnwindSafe(|| act(&own, &to)));
            let ended = acted.unwrap_or_else(|_| {
                Err(Failure::failed(
                    "it has died: the daemon's standard error says why",
                ))
            });
            to.note_end(&ended);
            own.works.all().running.remove(&to.id);
            match ended {
                Ok(last) => to.tell("end", &last),
                Err(failure) => to.tell("error", &Refusal::of(&failure)),
            }
            drop(gone);
        });
    if let Err(error) = spawned {
        drop(Gone(hub, &work));
        return Err(Failure::failed(format!("starting a thread: {error}")));
    }
    Ok(Client(work))
}

/// Why work ends that its owner has deleted, as the last event has it.
pub const DELETED: &str = INTERRUPTED;

/// A work's thread ends with this, however it ends.
struct Gone<'a>(&'a Hub, &'a Arc<Work>);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.1.queue.close();
        let mut all = self.0.works.all();
        all.running.remove(&self.1.id);
        all.threads -= 1;
        drop(all);
        self.0.works.gone.notify_all();
    }
}
