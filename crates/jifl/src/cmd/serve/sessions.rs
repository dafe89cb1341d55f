// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sessions of the daemon. Each has a thread, which opens it, reads it at intervals, and gives
//! what it read to all who want it.
//!
//! A session ends when its time is up, when it is deleted, when the last of its owner's connections
//! of events has ended (unless its order says `keep`), when somebody ends it from outside, and with
//! the daemon. In the module it ends with its file, so that nothing of it outlives this process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::audit::Audit;
use super::order::{Order, Understood};
use super::watch::{Watch, Why};
use super::who::Who;
use super::wire::{self, Begun, EndOf, Rows};
use crate::base::exit::{Failure, LIMIT};
use crate::cmd::stat::sheet::Counted;
use crate::cmd::stat::source::{Ended, Opened, Running, Source};

/// Sessions at a time.
pub const SESSIONS_MAX: usize = 16;
/// How often a session's thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// All sessions.
pub struct Sessions {
    source: Box<dyn Source>,
    /// Its lines.
    pub audit: Audit,
    /// How long a session waits for its first reader.
    grace: Duration,
    /// Samples that were dropped, of all clients.
    pub dropped: AtomicU64,
    /// Finding functions takes a processor: one session at a time.
    opening: Mutex<()>,
    all: Mutex<All>,
    gone: Condvar,
}

#[derive(Default)]
struct All {
    last: u64,
    /// Those that have a thread.
    threads: usize,
    running: BTreeMap<u64, Arc<Watch>>,
    is_over: bool,
}

/// What a session's thread says first.
type First = oneshot::Sender<Result<Begun, Failure>>;

impl Sessions {
    /// None yet.
    pub fn new(source: Box<dyn Source>, audit: Audit, grace: Duration) -> Sessions {
        Sessions {
            source,
            audit,
            grace,
            dropped: AtomicU64::new(0),
            opening: Mutex::new(()),
            all: Mutex::default(),
            gone: Condvar::new(),
        }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that run, in order of their numbers.
    pub fn running(&self) -> Vec<Arc<Watch>> {
        self.all().running.values().cloned().collect()
    }

    /// One of them.
    pub fn find(&self, id: u64) -> Option<Arc<Watch>> {
        self.all().running.get(&id).cloned()
    }

    /// Begins a session. The answer comes when it runs, or is refused.
    ///
    /// # Errors
    /// There are too many.
    pub fn begin(
        self: &Arc<Sessions>,
        who: Who,
        order: Order,
        understood: Understood,
    ) -> Result<oneshot::Receiver<Result<Begun, Failure>>, Failure> {
        let mut all = self.all();
        if all.is_over {
            return Err(Failure::failed("the daemon ends: ask again when it runs"));
        }
        if all.threads >= SESSIONS_MAX {
            return Err(Failure {
                status: LIMIT,
                message: format!(
                    "{SESSIONS_MAX} sessions run, and these are the most: end one (GET /v1/sessions \
                     lists them)"
                ),
            });
        }
        all.threads += 1;
        all.last += 1;
        let id = all.last;
        drop(all);
        let (first, answer) = oneshot::channel();
        let own = Arc::clone(self);
        let spawned = thread::Builder::new()
            .name("jifl serve".into())
            .spawn(move || {
                let _gone = Gone(&own, id);
                own.carry_out(id, who, order, &understood, first);
            });
        if let Err(error) = spawned {
            drop(Gone(self, id));
            return Err(Failure::failed(format!("starting a thread: {error}")));
        }
        Ok(answer)
    }

    /// A session, from its beginning to its end.
    fn carry_out(&self, id: u64, who: Who, order: Order, asked: &Understood, first: First) {
        let what = format!("who {who} what {}", order.shown());
        let mut first = Some(first);
        let mut watch = None;
        let ended = self.open(&order, asked).and_then(|(opened, named)| {
            let (rows, left_out) = (opened.rows().to_vec(), opened.left_out().to_owned());
            let labels = opened.labels().to_vec();
            opened.run(&mut |running| {
                let begun = Begun {
                    id,
                    session: running.id(),
                    interval_ms: order.interval_ms,
                    functions: named.clone(),
                    left_out: left_out.clone(),
                    labels: labels.clone(),
                };
                self.audit.note(&format!(
                    "session {id} started: {what} session in the module {}",
                    running.id()
                ));
                let own = Arc::new(Watch::new(
                    who.clone(),
                    order.clone(),
                    rows.clone(),
                    begun.clone(),
                    asked.metrics.clone(),
                ));
                watch = Some(Arc::clone(&own));
                let is_over = {
                    let mut all = self.all();
                    all.running.insert(id, Arc::clone(&own));
                    all.is_over
                };
                if is_over {
                    own.end(Why::Daemon);
                }
                // Who has left without the answer does not know the number, so that nobody would
                // end a session that is kept.
                if first
                    .take()
                    .is_none_or(|first| first.send(Ok(begun)).is_err())
                {
                    own.end(Why::Left);
                }
                self.watch(&own, running, asked.interval);
            })
        });
        match (watch, ended) {
            (Some(watch), ended) => self.finish(&watch, ended, &what),
            (None, Err(failure)) => {
                self.audit.refused(&format!("{what}: {}", failure.message));
                if let Some(first) = first {
                    let _ = first.send(Err(failure));
                }
            }
            // The source has run nothing.
            (None, Ok(_)) => {}
        }
    }

    fn open(
        &self,
        order: &Order,
        asked: &Understood,
    ) -> Result<(Box<dyn Opened>, Vec<wire::Named>), Failure> {
        let _one_at_a_time = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = self.source.open(&asked.plan)?;
        let mut named = wire::named(opened.rows());
        if order.below {
            let mut below = opened.below(true)?;
            for one in &mut named {
                one.below = Some(below.remove(&one.row).unwrap_or_default());
            }
        }
        Ok((opened, named))
    }

    /// Reads the session at intervals until it is to end.
    fn watch(&self, watch: &Arc<Watch>, running: &dyn Running, interval: Duration) {
        let until = watch.order.for_ms.map(Duration::from_millis);
        let until = until.and_then(|time| watch.since.checked_add(time));
        let mut before = Counted::default();
        let mut next = Instant::now() + interval;
        loop {
            let look = next.min(Instant::now() + LOOK);
            let wake = until.map_or(look, |until| until.min(look));
            if watch.wait(wake, self.grace).is_some() {
                return;
            }
            let now = Instant::now();
            if until.is_some_and(|until| now >= until) {
                return watch.end(Why::Time);
            }
            if running.has_ended() {
                return watch.end(Why::Outside);
            }
            if now < next {
                continue;
            }
            // Intervals that there was no time for are one.
            next = next.max(now - interval / 2) + interval;
            let (rows, counted) = match running.read() {
                Ok((rows, counted)) => (rows, counted.not_below(&before)),
                Err(failure) => {
                    self.audit
                        .refused(&format!("session {}: {}", watch.id, failure.message));
                    return watch.end(Why::Outside);
                }
            };
            let rows = rows.as_ref().unwrap_or(&watch.rows);
            let rows = Rows::of(rows, &watch.metrics, &counted, &before);
            watch.set_latest(&counted);
            before = counted;
            let dropped = watch.publish("rows", &rows);
            self.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
    }

    /// Tells the last figures, and that there will be no more.
    fn finish(&self, watch: &Arc<Watch>, ended: Result<Ended, Failure>, what: &str) {
        let why = watch.why().unwrap_or(Why::Outside);
        let before = watch.latest();
        let before = before.as_deref().cloned().unwrap_or_default();
        match ended {
            Ok(ended) => {
                let counted = ended.counted.not_below(&before);
                let rows = ended.rows.as_ref().unwrap_or(&watch.rows);
                let mut rows = Rows::of(rows, &watch.metrics, &counted, &before);
                rows.end = Some(EndOf {
                    why: why.word().to_owned(),
                    start_ns: ended.start_ns,
                    end_ns: ended.end_ns,
                    cut_short: ended.cut_short,
                });
                watch.publish("end", &rows);
            }
            Err(failure) => {
                watch.publish("error", &wire::Refusal::of(&failure));
            }
        }
        watch.close();
        self.audit.note(&format!(
            "session {} ended: why {} after {:.3} s: {what}",
            watch.id,
            why.word(),
            watch.since.elapsed().as_secs_f64()
        ));
    }

    /// Ends all sessions, and waits until they have ended, at most so long.
    pub fn end_all(&self, patience: Duration) {
        let mut all = self.all();
        all.is_over = true;
        all.running.values().for_each(|one| one.end(Why::Daemon));
        let waited = self
            .gone
            .wait_timeout_while(all, patience, |all| all.threads > 0);
        drop(waited);
    }
}

/// A session's thread ends with this, however it ends.
struct Gone<'a>(&'a Sessions, u64);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        let mut all = self.0.all();
        all.threads -= 1;
        if let Some(watch) = all.running.remove(&self.1) {
            watch.close();
        }
        drop(all);
        self.0.gone.notify_all();
    }
}
