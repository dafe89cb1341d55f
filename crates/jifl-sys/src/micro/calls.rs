// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations that are plain system calls.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::Round;
use super::call::{pipe, raw};

type Prepared = io::Result<Box<dyn Round>>;

const PATH: &std::ffi::CStr = c"/dev/null";

/// One system call, always the same.
struct Call {
    nr: libc::c_long,
    arguments: [usize; 5],
    /// What the arguments point to or name.
    _file: Option<File>,
    _buffer: Box<[u8]>,
}

impl Call {
    fn prepare(
        nr: libc::c_long,
        file: Option<File>,
        arguments: impl FnOnce(usize, usize) -> [usize; 5],
    ) -> Prepared {
        let mut buffer = vec![0; 4096].into_boxed_slice();
        let fd = file.as_ref().map_or(0, |file| file.as_raw_fd() as usize);
        Ok(Box::new(Call {
            nr,
            arguments: arguments(fd, buffer.as_mut_ptr() as usize),
            _file: file,
            _buffer: buffer,
        }))
    }
}

impl Round for Call {
    fn once(&mut self) -> io::Result<()> {
        // SAFETY: addresses among the arguments are of the buffer, which lives as
        // long as this and is larger than what any of the calls writes, or of a
        // constant.
        unsafe { raw(self.nr, self.arguments) }.map(drop)
    }
}

pub(super) fn null() -> Prepared {
    Call::prepare(libc::SYS_getppid, None, |_, _| [0; 5])
}

pub(super) fn read() -> Prepared {
    let file = File::open("/dev/zero")?;
    Call::prepare(libc::SYS_read, Some(file), |fd, to| [fd, to, 1, 0, 0])
}

pub(super) fn write() -> Prepared {
    let file = File::options().write(true).open("/dev/null")?;
    Call::prepare(libc::SYS_write, Some(file), |fd, from| [fd, from, 1, 0, 0])
}

pub(super) fn stat() -> Prepared {
    let path = PATH.as_ptr() as usize;
    Call::prepare(libc::SYS_stat, None, |_, to| [path, to, 0, 0, 0])
}

pub(super) fn fstat() -> Prepared {
    let file = File::open("/dev/null")?;
    Call::prepare(libc::SYS_fstat, Some(file), |fd, to| [fd, to, 0, 0, 0])
}

struct OpenClose;

impl Round for OpenClose {
    fn once(&mut self) -> io::Result<()> {
        let at = libc::AT_FDCWD as usize;
        let path = PATH.as_ptr() as usize;
        let flags = libc::O_RDONLY as usize;
        // SAFETY: the path is a constant; what is closed was opened here.
        unsafe {
            let fd = raw(libc::SYS_openat, [at, path, flags, 0, 0])?;
            raw(libc::SYS_close, [fd, 0, 0, 0, 0]).map(drop)
        }
    }
}

pub(super) fn open_close() -> Prepared {
    Ok(Box::new(OpenClose))
}

const SELECTED: usize = 100;

/// Looks at pipes that contain nothing to read.
struct Select {
    _pipes: Vec<OwnedFd>,
    wanted: libc::fd_set,
    end: usize,
}

impl Round for Select {
    fn once(&mut self) -> io::Result<()> {
        let mut set = self.wanted;
        let mut time = [0i64; 2];
        let (set, time) = ((&raw mut set) as usize, (&raw mut time) as usize);
        // SAFETY: the set has room for all descriptors below `end`, the time is
        // two integers; both live until the call returns.
        unsafe { raw(libc::SYS_select, [self.end, set, 0, 0, time]) }.map(drop)
    }
}

pub(super) fn select() -> Prepared {
    let [reader, writer] = pipe()?;
    let mut pipes = vec![writer];
    for _ in 1..SELECTED {
        pipes.push(reader.try_clone()?);
    }
    pipes.push(reader);
    // SAFETY: all zeroes are an empty set.
    let mut wanted: libc::fd_set = unsafe { std::mem::zeroed() };
    let mut end = 0;
    for fd in pipes[1..].iter().map(AsRawFd::as_raw_fd) {
        if fd as usize >= libc::FD_SETSIZE {
            return Err(io::Error::other("too many files are open for select"));
        }
        // SAFETY: the descriptor is within the set.
        unsafe { libc::FD_SET(fd, &mut wanted) };
        end = end.max(fd as usize + 1);
    }
    Ok(Box::new(Select {
        _pipes: pipes,
        wanted,
        end,
    }))
}
