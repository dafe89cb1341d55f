// SPDX-License-Identifier: MIT OR Apache-2.0
//! The search behind the key `w`: it runs beside what is looked at, here or on the machine of a
//! daemon, and its tree is shown as it grows.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::base::exit::Failure;
use crate::cmd::remote::host::Host;
use crate::cmd::remote::search::{Event, Search};
use crate::cmd::search::INTERRUPTED;
use crate::cmd::search::order::{Grown, Order};
use crate::cmd::search::world::Ways;
use crate::cmd::stat::source::Kernel;
use crate::kernel::lines::LinesArgs;

/// Where searches are made.
pub enum Place {
    /// On this machine. The kernel opens the other sessions, too.
    Here(Kernel),
    /// On that of a daemon.
    There(Host),
}

/// A search that runs, or has ended. It ends with this value.
pub enum Running {
    /// In a thread of this process.
    Here {
        /// What it tells, and what it was at the end.
        told: mpsc::Receiver<Result<Grown, Failure>>,
        /// It is to end.
        ends: Arc<AtomicBool>,
        /// Where it runs.
        thread: Option<JoinHandle<()>>,
    },
    /// A daemon makes it.
    There(Box<Search>),
}

impl Place {
    /// Begins a search of the machine, or of a process and its descendants. `before`: the search
    /// before, which ends first. Nobody waits for that here: the new search does, or the daemon.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn begin(&self, pid: Option<i32>, before: Option<Running>) -> Result<Running, Failure> {
        let order = Order {
            pid,
            ..Order::default()
        };
        match self {
            Place::There(host) => Ok(Running::There(Box::new(Search::begin(host, &order)?))),
            Place::Here(kernel) => here(kernel.clone(), order, before),
        }
    }
}

fn here(source: Kernel, order: Order, before: Option<Running>) -> Result<Running, Failure> {
    if let Some(before) = &before {
        before.end();
    }
    let (to, told) = mpsc::channel();
    let ends = Arc::new(AtomicBool::new(false));
    let stops = Arc::clone(&ends);
    let spawned = thread::Builder::new()
        .name("jifl search".into())
        .spawn(move || {
            drop(before);
            if stops.load(Ordering::Relaxed) {
                return;
            }
            let tell = to.clone();
            let ways = Ways {
                source,
                stop: Box::new(move || stops.load(Ordering::Relaxed).then_some(INTERRUPTED)),
                // Who has left wants to know nothing.
                tell: Box::new(move |found| drop(tell.send(Ok(Grown::of(found))))),
            };
            let found = order.search(ways, None, &LinesArgs::default());
            let _ = to.send(found.map(|(found, _)| Grown::of(&found)));
        });
    let thread = spawned.map_err(|error| Failure::failed(format!("starting a thread: {error}")))?;
    Ok(Running::Here {
        told,
        ends,
        thread: Some(thread),
    })
}

impl Running {
    /// It is to end. Nobody waits for that.
    pub fn end(&self) {
        match self {
            Running::Here { ends, .. } => ends.store(true, Ordering::Relaxed),
            Running::There(search) => search.leave(),
        }
    }

    /// What is known by now, if that is more than before; and whether it is the last.
    pub fn next(&self) -> Option<(Result<Grown, Failure>, bool)> {
        let last = self.last()?;
        let is_end = match &last {
            Ok(grown) => grown.report["doing"].is_null(),
            Err(_) => true,
        };
        Some((last, is_end))
    }

    fn last(&self) -> Option<Result<Grown, Failure>> {
        match self {
            Running::Here { told, .. } => told.try_iter().last(),
            Running::There(search) => {
                let mut last = None;
                while let Some(event) = search.next(Duration::ZERO) {
                    match event {
                        Event::Tree(grown) => last = Some(Ok(grown)),
                        Event::End(grown) => return Some(Ok(grown)),
                        Event::Failed(failure) => return Some(Err(failure)),
                    }
                }
                last
            }
        }
    }
}

impl Drop for Running {
    /// The search leaves nothing in the kernel: its thread is waited for.
    fn drop(&mut self) {
        self.end();
        if let Running::Here { thread, .. } = self {
            let _ = thread.take().map(JoinHandle::join);
        }
    }
}
