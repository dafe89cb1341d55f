// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording in an image of a machine's physical memory: an ELF core (kdump's /proc/vmcore,
//! QEMU's `dump-guest-memory`), a compressed dump (makedumpfile), or a flat file that begins at
//! address 0.
//!
//! The image may be larger than this machine's memory, and have holes. Nothing of it is believed
//! that does not lead back to where it was found.

mod find;
mod physical;

pub use self::find::{Found, find};
pub use self::physical::Physical;
