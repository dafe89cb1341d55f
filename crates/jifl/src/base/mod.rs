// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every other folder may use. This folder knows neither the kernel nor a session.

pub mod clock;
pub mod duration;
pub mod environment;
pub mod exit;
pub mod glob;
pub mod module;
pub mod nearest;
#[cfg(test)]
pub mod parse;
pub mod root;
pub mod size;
