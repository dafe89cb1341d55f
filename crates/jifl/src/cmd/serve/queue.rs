// SPDX-License-Identifier: MIT OR Apache-2.0
//! What waits for one client that reads a session's events.
//!
//! The session's thread puts samples in, and never waits. A client that reads slower than samples
//! come loses the oldest ones. That is counted, and told to it with the next one. Figures are sums
//! since the session's beginning, so what is lost is the time at which they grew, not what they are.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::body::Bytes;
use tokio::sync::Notify;

/// Samples that wait for a client at most.
pub const WAITING_MAX: usize = 16;

/// An event, ready to be sent: it is made once for all clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Its name in the protocol.
    pub event: &'static str,
    /// Which of the session's events it is.
    pub seq: u64,
    /// Its data: JSON on one line.
    pub data: Bytes,
}

/// The queue of one client.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Arc<Sample>>,
    /// Since the last one was taken.
    dropped: u64,
    is_closed: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a sample in; how many of older ones had to go, 0 or 1.
    pub fn put(&self, sample: &Arc<Sample>) -> u64 {
        let mut state = self.state();
        let is_full = state.waiting.len() >= WAITING_MAX;
        if is_full {
            state.waiting.pop_front();
            state.dropped += 1;
        }
        state.waiting.push_back(Arc::clone(sample));
        drop(state);
        self.wake.notify_one();
        u64::from(is_full)
    }

    /// No more will come.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.wake.notify_one();
    }

    /// The next sample, and how many were dropped before it. `None`: there will be no more.
    pub async fn next(&self) -> Option<(Arc<Sample>, u64)> {
        loop {
            // It is asked for before it is looked whether one is there: none is overlooked.
            let woken = self.wake.notified();
            {
                let mut state = self.state();
                if let Some(sample) = state.waiting.pop_front() {
                    return Some((sample, std::mem::take(&mut state.dropped)));
                }
                if state.is_closed {
                    return None;
                }
            }
            woken.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seq: u64) -> Arc<Sample> {
        Arc::new(Sample {
            event: "rows",
            seq,
            data: Bytes::from_static(b"{}"),
        })
    }

    #[tokio::test]
    async fn the_oldest_go_and_the_client_is_told_how_many() {
        let queue = Queue::default();
        let most = WAITING_MAX as u64;
        let dropped: u64 = (0..most + 5).map(|seq| queue.put(&sample(seq))).sum();
        assert_eq!(dropped, 5);
        let (first, lost) = queue.next().await.unwrap();
        assert_eq!((first.seq, lost), (5, 5));
        let (second, lost) = queue.next().await.unwrap();
        assert_eq!((second.seq, lost), (6, 0));
        queue.close();
        let mut last = 0;
        while let Some((one, _)) = queue.next().await {
            last = one.seq;
        }
        assert_eq!(last, most + 4);
    }

    #[tokio::test]
    async fn who_waits_is_woken() {
        let queue = Arc::new(Queue::default());
        let other = Arc::clone(&queue);
        let waits = tokio::spawn(async move { other.next().await.map(|(one, _)| one.seq) });
        tokio::task::yield_now().await;
        queue.put(&sample(3));
        assert_eq!(waits.await.unwrap(), Some(3));
        let other = Arc::clone(&queue);
        let waits = tokio::spawn(async move { other.next().await.is_none() });
        tokio::task::yield_now().await;
        queue.close();
        assert!(waits.await.unwrap());
    }
}
