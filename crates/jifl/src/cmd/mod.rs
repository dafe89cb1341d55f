// SPDX-License-Identifier: MIT OR Apache-2.0
//! The subcommands: one file or folder each.

pub mod analyze;
pub mod bench;
pub mod branch;
pub mod cfg;
pub mod count;
pub mod cover;
pub mod demo;
pub mod diff;
pub mod doctor;
pub mod dump;
pub mod flight;
pub mod generate;
pub mod list;
pub mod lock;
pub mod mem;
pub mod merge;
pub mod optimize;
pub mod plugin;
pub mod probe;
pub mod prof;
pub mod read;
pub mod record;
pub mod remote;
pub mod replace;
pub mod report;
pub mod restore;
pub mod search;
pub mod serve;
pub mod stat;
pub mod status;
pub mod top;
pub mod trace;
pub mod vm;
pub mod why;
