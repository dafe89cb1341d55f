// SPDX-License-Identifier: MIT OR Apache-2.0
//! What JIFL costs, beside what a user would take instead.

pub mod peers;
mod peers_command;

pub use peers_command::{PeersArgs, run as run_peers};
