// SPDX-License-Identifier: MIT OR Apache-2.0
//! The place of the project's tree, for what is built there: modules and kernels.

use std::path::{Path, PathBuf};

/// The tree's root: `JIFL_ROOT`, or the nearest directory above this program
/// that looks like one.
pub fn find() -> Result<PathBuf, String> {
    if let Some(root) = std::env::var_os("JIFL_ROOT") {
        return Ok(root.into());
    }
    let program = std::env::current_exe().map_err(|error| format!("/proc/self/exe: {error}"))?;
    program
        .ancestors()
        .skip(1)
        .find(|directory| is_root(directory))
        .map(Path::to_path_buf)
        .ok_or_else(|| {
            format!(
                "no JIFL source tree above {}: set JIFL_ROOT to it",
                program.display()
            )
        })
}

fn is_root(directory: &Path) -> bool {
    directory.join("include/uapi/jifl.h").exists()
}

/// The module built for the kernel `release`.
pub fn module(root: &Path, release: &str) -> PathBuf {
    root.join("build/modules").join(release).join("jifl.ko")
}
