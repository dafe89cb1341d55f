// SPDX-License-Identifier: MIT OR Apache-2.0
//! The look of output and its destination.

pub mod output;
pub mod powers;
pub mod table;
pub mod text;
