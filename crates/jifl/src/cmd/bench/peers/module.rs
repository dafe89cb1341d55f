// SPDX-License-Identifier: MIT OR Apache-2.0
//! The module of the peers: loads it, and uses its files (bench/peers/files.c).

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{Job, Missing, Progress, Tool};
use crate::base::exit::Failure;
use crate::base::root;
use crate::cmd::plugin;

/// Its name, as a module and as a plugin.
pub const NAME: &str = "jifl_bench_peers";
const C_NAME: &CStr = c"jifl_bench_peers";
const SITES: &str = "/proc/jifl_bench_peers/sites";
const PROBES: &str = "/proc/jifl_bench_peers/probes";

/// Loads the module, unless it is loaded.
pub fn load() -> Result<(), Failure> {
    if Path::new(SITES).exists() {
        return Ok(());
    }
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let jifl = root::module(&root::find().map_err(Failure::cannot)?, &release);
    plugin::insert(Some(&jifl.with_file_name(format!("{NAME}.ko"))), c"")
}

/// Unloads the module, if it is loaded.
///
/// # Errors
/// A peer is running.
pub fn unload() -> Result<(), Failure> {
    if !Path::new(SITES).exists() {
        return Ok(());
    }
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    rustix::system::delete_module(C_NAME, flags)
        .map_err(|errno| Failure::failed(format!("unloading {NAME}: {errno}")))
}

/// Results of the module's plugin, one text for each line.
pub fn read_sites() -> Result<String, Failure> {
    fs::read_to_string(SITES).map_err(|error| Failure::failed(format!("{SITES}: {error}")))
}

/// Probes of the module. They are removed when this is dropped.
pub struct Probes(File);

/// The module's numbers about its probes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct State {
    pub hits: u64,
    pub missed: u64,
    pub jumps: u64,
    pub refused: Vec<u64>,
}

impl Probes {
    pub fn open() -> Result<Probes, Missing> {
        File::options()
            .read(true)
            .write(true)
            .open(PROBES)
            .map(Probes)
            .map_err(|error| Missing(format!("{PROBES}: {error}; {NAME}.ko must be loaded")))
    }

    /// Puts probes at addresses, by `kprobe` or `ftrace`.
    pub fn add(&self, method: &str, job: Job, addresses: &[u64]) -> Result<(), Missing> {
        let job = match job {
            Job::CountBlocks | Job::CountCalls => "count",
            Job::TraceCalls => "trace",
        };
        let mut progress = Progress::new("probes", addresses.len());
        // The module takes at most a page in one request.
        for (i, some) in addresses.chunks(64).enumerate() {
            let words: Vec<String> = some.iter().map(|addr| format!("{addr:x}")).collect();
            self.request(&format!("{method} {job} {}", words.join(" ")))
                .map_err(|error| Missing(format!("{method}: {error}")))?;
            progress.at(i * 64 + some.len());
        }
        Ok(())
    }

    /// Makes another request.
    pub fn request(&self, text: &str) -> io::Result<()> {
        (&self.0).write_all(text.as_bytes())
    }

    pub fn state(&self) -> io::Result<State> {
        let mut text = Vec::new();
        let mut piece = [0; 4096];
        loop {
            match self.0.read_at(&mut piece, text.len() as u64)? {
                0 => return Ok(parse(&String::from_utf8_lossy(&text))),
                n => text.extend_from_slice(&piece[..n]),
            }
        }
    }
}

impl Tool for Probes {
    fn hits(&self) -> u64 {
        self.state().unwrap_or_default().hits
    }

    fn missed(&self) -> u64 {
        self.state().unwrap_or_default().missed
    }
}

fn parse(text: &str) -> State {
    let mut state = State::default();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (Some(name), Some(value)) = (words.next(), words.next()) else {
            continue;
        };
        let number = value.parse().unwrap_or(0);
        match name {
            "hits" => state.hits = number,
            "missed" => state.missed = number,
            "jumps" => state.jumps = number,
            "refused" => state
                .refused
                .push(u64::from_str_radix(value, 16).unwrap_or(0)),
            _ => {}
        }
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read() {
        let text = "hits 70\nmissed 2\njumps 3\nrefused ffffffff81000000 -22\n";
        let state = State {
            hits: 70,
            missed: 2,
            jumps: 3,
            refused: vec![0xffff_ffff_8100_0000],
        };
        assert_eq!(parse(text), state);
    }
}
