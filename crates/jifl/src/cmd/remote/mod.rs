// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl --host`: `stat`, `top` and `search` of a daemon, `jifl serve`, here or elsewhere.

pub mod client;
pub mod host;
mod plain;
pub mod search;
pub mod source;
