// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all connections of the daemon share.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hyper::StatusCode;
use serde_json::Value as Json;
use tokio::sync::Semaphore;

use super::http::{Answer, plain};
use super::limits::Limits;
use super::machine::{Counter, Lister, Machine, Searcher};
use super::metrics::{self, Shown};
use super::sessions::Sessions;
use super::who::Who;
use super::works::Works;
use crate::base::exit::Failure;

/// What connections share.
pub struct Hub {
    /// All sessions.
    pub sessions: Arc<Sessions>,
    /// What a client may take.
    pub limits: Limits,
    /// The kernel's release.
    pub kernel: String,
    /// All clients may count variables of the kernel, and search.
    pub variables: bool,
    /// Searches, and what else ends by itself.
    pub works: Works,
    /// What searches.
    pub search: Searcher,
    /// What counts by call path.
    pub paths: Counter,
    /// Lists functions. Lists are large: one at a time is made.
    functions: Mutex<Lister>,
    /// Who has its permit may list. Others wait for it where nothing but their connection keeps
    /// them: a request that its client has left waits no more, and takes no thread.
    listing: Arc<Semaphore>,
    clients: AtomicUsize,
    /// Of them, those of whom nobody knows who they are before they ask something.
    unproven: AtomicUsize,
    /// Clients that were refused because there were too many.
    pub turned_away: AtomicU64,
    shown: Mutex<Shown>,
}

impl Hub {
    /// Without connections.
    pub fn new(sessions: Sessions, limits: Limits, variables: bool, machine: Machine) -> Hub {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
        Hub {
            sessions: Arc::new(sessions),
            limits,
            kernel: release.unwrap_or_default().trim().to_owned(),
            variables,
            works: Works::default(),
            search: machine.search,
            paths: machine.paths,
            functions: Mutex::new(machine.functions),
            listing: Arc::new(Semaphore::new(1)),
            clients: AtomicUsize::new(0),
            unproven: AtomicUsize::new(0),
            turned_away: AtomicU64::new(0),
            shown: Mutex::default(),
        }
    }

    /// The functions that a word means.
    ///
    /// # Errors
    /// There is none.
    pub async fn list(self: &Arc<Hub>, word: String) -> Result<Json, Failure> {
        let died = |error: &dyn std::fmt::Display| Failure::failed(format!("listing: {error}"));
        let permit = Arc::clone(&self.listing).acquire_owned().await;
        let permit = permit.map_err(|error| died(&error))?;
        let hub = Arc::clone(self);
        // A list that has begun is made to its end, so its permit goes with it.
        let listed = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let lister = hub.functions.lock();
            (lister.unwrap_or_else(PoisonError::into_inner))(&word)
        });
        listed.await.map_err(|error| died(&error))?
    }

    /// Connections that are served now.
    pub fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// Room for one more connection, for as long as the result lives; `None`: there is none. Those
    /// of whom nobody knows who they are get half of the room, so that they cannot keep out others.
    pub fn admit(self: &Arc<Hub>, who: &Who) -> Option<Slot> {
        let slot = Slot {
            hub: Arc::clone(self),
            is_unproven: matches!(who, Who::Page { .. } | Who::Unknown { .. }),
        };
        let before = self.clients.fetch_add(1, Ordering::Relaxed);
        let unproven = self
            .unproven
            .fetch_add(usize::from(slot.is_unproven), Ordering::Relaxed);
        let has_room = !slot.is_unproven || unproven < self.limits.clients.div_ceil(2);
        if before < self.limits.clients && has_room {
            return Some(slot);
        }
        self.turned_away.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// All figures, for what collects them.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn metrics(&self) -> Result<Answer, Failure> {
        let shown = self.shown.lock();
        let mut shown = shown.unwrap_or_else(PoisonError::into_inner);
        let text = metrics::text(self, &mut shown)
            .map_err(|error| Failure::failed(format!("writing metrics: {error}")))?;
        Ok(plain(StatusCode::OK, metrics::KIND, text))
    }
}

/// Room for a connection.
pub struct Slot {
    hub: Arc<Hub>,
    is_unproven: bool,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.hub.clients.fetch_sub(1, Ordering::Relaxed);
        let unproven = usize::from(self.is_unproven);
        self.hub.unproven.fetch_sub(unproven, Ordering::Relaxed);
    }
}
