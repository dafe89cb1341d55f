// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine as files, so that a test can invent a machine.

use std::path::{Path, PathBuf};

/// A machine: its files below a root, and what uname says.
pub struct Host {
    root: PathBuf,
    /// `uname -m`.
    pub machine: String,
    /// `uname -r`.
    pub release: String,
}

impl Host {
    /// This machine.
    pub fn real() -> Host {
        let uname = rustix::system::uname();
        Host {
            root: "/".into(),
            machine: uname.machine().to_string_lossy().into_owned(),
            release: uname.release().to_string_lossy().into_owned(),
        }
    }

    /// This machine, as if another kernel ran on it.
    pub fn other(release: &str) -> Host {
        Host {
            root: "/".into(),
            machine: "x86_64".into(),
            release: release.into(),
        }
    }

    /// A machine whose files are below `root`.
    #[cfg(test)]
    pub fn made_up(root: &Path, machine: &str, release: &str) -> Host {
        Host {
            root: root.to_owned(),
            machine: machine.into(),
            release: release.into(),
        }
    }

    /// Whether this is the real machine: only there devices and programs are asked.
    pub fn is_real(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Its root directory.
    pub fn top(&self) -> &Path {
        &self.root
    }

    /// The text of a file without its last newline; `None` when it cannot be read.
    pub fn read(&self, path: &str) -> Option<String> {
        let text = std::fs::read(self.path(path)).ok()?;
        Some(String::from_utf8_lossy(&text).trim_end().to_owned())
    }

    /// Whether a file exists.
    pub fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Where a file of the machine is for this process.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}
