// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions of the module: their targets, how they run, what they have found, and the file that
//! keeps it.

pub mod blocks;
pub mod calls;
pub mod device;
#[cfg(test)]
pub mod fake;
pub mod files;
pub mod filters;
pub mod flight;
pub mod histogram;
pub mod interrupts;
pub mod kinds;
pub mod measure;
pub mod recording;
pub mod report;
pub mod ring;
pub mod scope;
pub mod table;
pub mod targets;
pub mod types;
