// SPDX-License-Identifier: MIT OR Apache-2.0
//! How output looks and where it goes.

pub mod output;
pub mod table;
pub mod text;
