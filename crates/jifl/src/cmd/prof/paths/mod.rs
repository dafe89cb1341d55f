// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tree of call paths with counted values, and the forms in which it is written.

pub mod base;
pub mod entries;
pub mod folded;
pub mod groups;
pub mod json;
pub mod metric;
pub mod perfetto;
pub mod pprof;
mod run;
pub mod speedscope;
pub mod svg;
pub mod text;
pub mod tree;
pub mod values;

pub use self::run::{Files, PathsArgs, run};
