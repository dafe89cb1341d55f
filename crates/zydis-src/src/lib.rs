// SPDX-License-Identifier: MIT OR Apache-2.0
//! Empty: this crate only pins the version of Zydis (see its Cargo.toml).
