// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals: installs a handler, and has it called.

use std::io;

use super::Round;
use super::call::{check, raw};

const SIGNAL: libc::c_int = libc::SIGUSR1;

extern "C" fn on_signal(_signal: libc::c_int) {}

/// Puts the handler in place until it is dropped.
struct Handler;

impl Handler {
    fn set(handler: usize) -> io::Result<()> {
        // SAFETY: all zeroes are a valid sigaction; the handler does nothing.
        let result = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler;
            libc::sigaction(SIGNAL, &action, std::ptr::null_mut())
        };
        check(i64::from(result)).map(drop)
    }

    fn install() -> io::Result<()> {
        Handler::set(on_signal as extern "C" fn(libc::c_int) as usize)
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        let _ = Handler::set(libc::SIG_IGN);
    }
}

struct Install {
    _handler: Handler,
}

impl Round for Install {
    fn once(&mut self) -> io::Result<()> {
        Handler::install()
    }
}

pub(super) fn install() -> io::Result<Box<dyn Round>> {
    Ok(Box::new(Install { _handler: Handler }))
}

/// The signal is handled before the call that sends it returns to user code.
struct Handle {
    pid: usize,
    _handler: Handler,
}

impl Round for Handle {
    fn once(&mut self) -> io::Result<()> {
        let arguments = [self.pid, SIGNAL as usize, 0, 0, 0];
        // SAFETY: no memory is concerned; the handler is in place.
        unsafe { raw(libc::SYS_kill, arguments) }.map(drop)
    }
}

pub(super) fn handle() -> io::Result<Box<dyn Round>> {
    Handler::install()?;
    Ok(Box::new(Handle {
        pid: std::process::id() as usize,
        _handler: Handler,
    }))
}
