// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much a client may take of the daemon.

use std::time::Duration;

/// Times and numbers; tests have shorter ones.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at a time, on all sockets together.
    pub clients: usize,
    /// From accepting a connection to the end of its handshake.
    pub handshake: Duration,
    /// Until a request's head is there; also how long a connection may be idle.
    pub head: Duration,
    /// Until a request's body is there.
    pub body: Duration,
    /// How long a client may take nothing of what is written to it.
    pub stalled: Duration,
    /// How long a stream of events is quiet: then it has a sign of life.
    pub quiet: Duration,
    /// How long a session waits for its first reader.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            clients: 64,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(60),
            body: Duration::from_secs(10),
            stalled: Duration::from_secs(60),
            quiet: Duration::from_secs(15),
            grace: Duration::from_secs(10),
        }
    }
}

/// Bytes of a request's head.
pub const HEAD_MAX: usize = 16 << 10;
/// Connections beyond the limit that are told so at a time; others are closed without a word.
pub const TOLD_MAX: usize = 16;
