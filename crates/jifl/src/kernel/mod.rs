// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel that runs, or the kernel of a recording: its symbols, images, source lines, code,
//! types.

pub mod beneath;
pub mod btf;
pub mod disasm;
pub mod errno;
pub mod functions;
pub mod images;
pub mod kept;
pub mod lines;
pub mod memory;
pub mod pattern;
pub mod prototypes;
pub mod running;
pub mod sections;
pub mod signature;
pub mod softirqs;
pub mod source;
pub mod symbols;
pub mod syscalls;
pub mod syscalls32;
pub mod threads;
pub mod values;
