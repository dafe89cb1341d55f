// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace in the form that DynamoRIO's drmemtrace tools and simulators read: a file for each
//! thread, of entries of a type, a size and a number (clients/drcachesim/common/trace_entry.h).
//! Instructions that access no memory are not in the file: its type says that it is filtered in
//! this way.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::accessed::{Accessed, Event, Sink};
use super::summary::LINE;
use crate::base::exit::Failure;
use crate::session::ring::Piece;

/// `TRACE_TYPE_*`
mod entry {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const INSTR: u16 = 10;
    pub const THREAD: u16 = 22;
    pub const THREAD_EXIT: u16 = 23;
    pub const PID: u16 = 24;
    pub const HEADER: u16 = 25;
    pub const FOOTER: u16 = 26;
    pub const MARKER: u16 = 28;
    pub const INSTR_NO_FETCH: u16 = 29;
}

/// `TRACE_MARKER_TYPE_*`
mod marker {
    pub const TIMESTAMP: u16 = 2;
    pub const CPU_ID: u16 = 3;
    pub const FILETYPE: u16 = 9;
    pub const CACHE_LINE_SIZE: u16 = 10;
    pub const VERSION: u16 = 12;
    pub const PAGE_SIZE: u16 = 18;
}

/// `TRACE_ENTRY_VERSION_KERNEL_PC`: the last without the instructions' bytes.
const VERSION: u64 = 3;
/// `OFFLINE_FILE_TYPE_ARCH_X86_64`, `OFFLINE_FILE_TYPE_IFILTERED`
const FILETYPE: u64 = 0x40 | 0x80;
const PAGE: u64 = 4096;

/// The files of a trace. Errors of writing are told at the end.
pub struct Trace {
    dir: PathBuf,
    threads: HashMap<u32, BufWriter<File>>,
    thread: u32,
    error: Option<Failure>,
}

impl Trace {
    /// Makes the directory, which must be new or empty.
    ///
    /// # Errors
    /// It cannot be made, or is not empty.
    pub fn create(path: &Path) -> Result<Trace, Failure> {
        let about = |error: std::io::Error| Failure::failed(format!("{}: {error}", path.display()));
        let dir = path.join("trace");
        fs::create_dir_all(&dir).map_err(about)?;
        if fs::read_dir(&dir).map_err(about)?.next().is_some() {
            return Err(Failure::failed(format!(
                "{}: there is a trace already: name another directory",
                path.display()
            )));
        }
        Ok(Trace {
            dir,
            threads: HashMap::new(),
            thread: 0,
            error: None,
        })
    }

    /// Ends the files and returns their number.
    ///
    /// # Errors
    /// Something could not be written.
    pub fn finish(mut self) -> Result<usize, Failure> {
        let threads: Vec<u32> = self.threads.keys().copied().collect();
        for thread in &threads {
            self.thread = *thread;
            self.put(entry::THREAD_EXIT, 0, u64::from(*thread));
            self.put(entry::FOOTER, 0, 0);
        }
        for file in self.threads.values_mut() {
            if let Err(error) = file.flush() {
                let cannot = || Failure::failed(format!("{}: {error}", self.dir.display()));
                self.error.get_or_insert_with(cannot);
            }
        }
        match self.error {
            Some(error) => Err(error),
            None => Ok(threads.len()),
        }
    }

    fn open(&mut self, thread: u32) {
        let path = self.dir.join(format!("jifl.{thread}.trace"));
        match File::create(&path) {
            Ok(file) => {
                self.threads.insert(thread, BufWriter::new(file));
            }
            Err(error) => {
                let cannot = || Failure::failed(format!("{}: {error}", path.display()));
                self.error.get_or_insert_with(cannot);
                return;
            }
        }
        self.thread = thread;
        self.put(entry::HEADER, 0, VERSION);
        self.put(entry::MARKER, marker::VERSION, VERSION);
        self.put(entry::MARKER, marker::FILETYPE, FILETYPE);
        self.put(entry::THREAD, 0, thread.into());
        // The recording does not tell the process, so the thread stands for it.
        self.put(entry::PID, 0, thread.into());
        self.put(entry::MARKER, marker::CACHE_LINE_SIZE, LINE);
        self.put(entry::MARKER, marker::PAGE_SIZE, PAGE);
    }

    fn put(&mut self, kind: u16, size: u16, number: u64) {
        let Some(file) = self.threads.get_mut(&self.thread) else {
            return;
        };
        let mut bytes = [0; 12];
        bytes[..2].copy_from_slice(&kind.to_le_bytes());
        bytes[2..4].copy_from_slice(&size.to_le_bytes());
        bytes[4..].copy_from_slice(&number.to_le_bytes());
        if let Err(error) = file.write_all(&bytes) {
            let cannot = || Failure::failed(format!("{}: {error}", self.dir.display()));
            self.error.get_or_insert_with(cannot);
        }
    }
}

impl Sink for Trace {
    fn piece(&mut self, piece: &Piece<Event>) {
        let thread = piece
            .interrupt
            .map_or(piece.thread, |interrupt| interrupt.number());
        if self.error.is_none() && !self.threads.contains_key(&thread) {
            self.open(thread);
        }
        self.thread = thread;
        self.put(entry::MARKER, marker::TIMESTAMP, piece.time / 1000);
        self.put(entry::MARKER, marker::CPU_ID, piece.cpu as u64);
    }

    /// A repetition counts as an instruction that is not fetched again.
    fn instruction(&mut self, operands: &[Accessed]) {
        let times = operands.iter().map(|operand| operand.times).max();
        for k in 0..times.unwrap_or(0) {
            let kind = if k == 0 {
                entry::INSTR
            } else {
                entry::INSTR_NO_FETCH
            };
            self.put(kind, operands[0].insn_len, operands[0].insn);
            for operand in operands.iter().filter(|operand| k < operand.times) {
                let address = operand
                    .address
                    .wrapping_add(k.wrapping_mul(operand.size.into()));
                if operand.loads {
                    self.put(entry::READ, operand.size, address);
                }
                if operand.stores {
                    self.put(entry::WRITE, operand.size, address);
                }
            }
            if self.error.is_some() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_fetched_once_and_operands_stand_behind_their_instruction() {
        let dir = std::env::temp_dir().join(format!("jifl-drmemtrace-{}", std::process::id()));
        let mut trace = Trace::create(&dir).unwrap();
        trace.piece(&Piece {
            time: 5_000_000,
            thread: 70,
            interrupt: None,
            cpu: 1,
            events: Vec::new(),
        });
        let from = Accessed {
            insn: 0x10,
            insn_len: 3,
            address: 0x1000,
            size: 8,
            times: 2,
            loads: true,
            stores: false,
            stack: false,
            percpu: None,
        };
        let to = Accessed {
            address: 0x2000,
            loads: false,
            stores: true,
            ..from
        };
        trace.instruction(&[to, from]);
        assert_eq!(trace.finish().unwrap(), 1);
        let bytes = fs::read(dir.join("trace/jifl.70.trace")).unwrap();
        let again = Trace::create(&dir);
        fs::remove_dir_all(&dir).unwrap();
        assert!(again.is_err());
        let entries: Vec<(u16, u16, u64)> = bytes
            .chunks(12)
            .map(|entry| {
                let half = |at| u16::from_le_bytes([entry[at], entry[at + 1]]);
                let number = u64::from_le_bytes(entry[4..].try_into().unwrap());
                (half(0), half(2), number)
            })
            .collect();
        let own = entries.iter().position(|entry| entry.0 == entry::INSTR);
        assert_eq!(
            entries[own.unwrap()..],
            [
                (entry::INSTR, 3, 0x10),
                (entry::WRITE, 8, 0x2000),
                (entry::READ, 8, 0x1000),
                (entry::INSTR_NO_FETCH, 3, 0x10),
                (entry::WRITE, 8, 0x2008),
                (entry::READ, 8, 0x1008),
                (entry::THREAD_EXIT, 0, 70),
                (entry::FOOTER, 0, 0),
            ]
        );
        assert_eq!(entries[0], (entry::HEADER, 0, VERSION));
        assert!(entries.contains(&(entry::MARKER, marker::TIMESTAMP, 5000)));
    }
}
