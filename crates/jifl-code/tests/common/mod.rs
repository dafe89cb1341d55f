// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tests of kernels share.

use std::fs;
use std::path::{Path, PathBuf};

/// The directory of what `make` has made and fetched.
pub fn build() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build")
}

/// The files of kernels that `make setup` fetches.
pub fn kernels() -> Vec<PathBuf> {
    let entries = fs::read_dir(build().join("kernels/boot")).expect("`make setup` fetches kernels");
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_kernel = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("vmlinux-") && name.ends_with("-amd64")
    };
    let mut all: Vec<PathBuf> = paths.filter(is_kernel).collect();
    all.sort();
    assert!(!all.is_empty(), "`make setup` fetches kernels");
    all
}
