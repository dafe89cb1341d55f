// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structure of a kernel from its machine code.
//!
//! The stages, each from those before it:
//!
//! 1. [`image`]: what is analysed, from a file ([`vmlinux`], with the names of [`kallsyms`];
//!    modules, also compressed ones, [`packed`]) or from the kernel that runs ([`running`]), or
//!    from an image of its memory ([`vmcore`], also a compressed one, [`kdump`]), or some functions
//!    of one of these ([`part`]).
//! 2. [`layout`]: which text belongs to which function, by what [`names`] say.
//! 3. [`explore`]: a function's blocks, edges and calls, from the ways that execution can take.
//! 4. [`program`]: all functions together, and which of them never return.
//! 5. [`explained`]: which bytes that explains, and what the others are.
//! 6. [`depth`]: how deep the stack is at every instruction, compared with the ORC table.
//! 7. [`live`]: which registers and flags are live, across functions.
//!    [`dead`]: what is dead at each instruction, for tests that overwrite it.
//! 8. [`edges`]: counts of edges from counts of blocks.
//! 9. [`summary`]: the figures of a whole kernel.
//! 10. [`observed`]: what was seen to execute, which has to be in the structure.
//!
//! Beside that, [`kernel_file`] is what a kernel's file tells of the kernel, also a compressed one as
//! boot loaders take it, [`boot`].
//!
//! The method is that of the KernInst dissertation (Tamches 2001, chapter 3).

pub mod boot;
mod bytes;
pub mod dead;
pub mod depth;
pub mod edges;
pub mod effect;
pub mod explained;
pub mod explore;
pub mod flow;
pub mod graph;
pub mod image;
pub mod kallsyms;
pub mod kdump;
pub mod kernel_file;
mod ko;
pub mod layout;
pub mod live;
pub mod names;
pub mod observed;
pub mod packed;
pub mod part;
pub mod program;
pub mod running;
pub mod summary;
pub mod tables;
pub mod vmcore;
pub mod vmlinux;
