// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forks processes and waits for them, with and without a new program.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::Round;
use super::call::{check, memory_file};

/// The name under which this program is started to end at once.
pub const EXIT_AT_ONCE: &CStr = c"jifl-bench-exit";

/// Whether this process is one that `fork+exec` started. A program that does
/// the operation must ask first thing, and then exit.
pub fn exits_at_once() -> bool {
    let name = std::env::args_os().next();
    name.is_some_and(|name| name.as_encoded_bytes() == EXIT_AT_ONCE.to_bytes())
}

/// Forks a child that does `then` and ends, and waits for it.
fn fork(then: impl FnOnce()) -> io::Result<()> {
    let mut status = 0;
    // SAFETY: the child makes only system calls and never returns; the parent
    // waits for it.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            then();
            libc::_exit(127);
        }
        check(i64::from(child))?;
        check(i64::from(libc::waitpid(child, &mut status, 0)))?;
    }
    match libc::WEXITSTATUS(status) {
        _ if !libc::WIFEXITED(status) => Err(io::Error::other("the child was killed")),
        0 => Ok(()),
        status => Err(io::Error::other(format!(
            "the child ended with status {status}"
        ))),
    }
}

struct ForkExit;

impl Round for ForkExit {
    fn once(&mut self) -> io::Result<()> {
        // SAFETY: ends the child.
        fork(|| unsafe { libc::_exit(0) })
    }
}

pub(super) fn fork_exit() -> io::Result<Box<dyn Round>> {
    Ok(Box::new(ForkExit))
}

/// The program is a copy of this one in memory. So its file system, which may be any, does not
/// count.
struct ForkExec {
    _program: File,
    path: CString,
}

impl Round for ForkExec {
    fn once(&mut self) -> io::Result<()> {
        let arguments = [EXIT_AT_ONCE.as_ptr(), std::ptr::null()];
        let environment = [std::ptr::null::<libc::c_char>()];
        fork(|| {
            // SAFETY: both lists end with a null pointer, as does each string.
            unsafe {
                libc::execve(self.path.as_ptr(), arguments.as_ptr(), environment.as_ptr());
            }
        })
    }
}

pub(super) fn fork_exec() -> io::Result<Box<dyn Round>> {
    let mut program = memory_file()?;
    io::copy(&mut File::open("/proc/self/exe")?, &mut program)?;
    // The kernel executes no file that is open for writing.
    let path = format!("/proc/self/fd/{}", program.as_raw_fd());
    let program = File::open(path)?;
    let path = CString::new(format!("/proc/self/fd/{}", program.as_raw_fd()))?;
    Ok(Box::new(ForkExec {
        _program: program,
        path,
    }))
}
