// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon through its sockets, with a source of rows that is made up.

mod daemon;
mod fake;
mod garbage;
mod limits;
mod listeners;
mod paths;
mod protocol;
mod search;
mod trust;

pub use self::daemon::path;
