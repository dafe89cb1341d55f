// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends a byte to another process and back: through pipes, a UNIX socket, TCP.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use super::Round;
use super::call::{self, check};

/// The other process sends back what it gets, until there is no more.
struct PingPong {
    from: Option<File>,
    to: Option<File>,
    partner: Option<libc::pid_t>,
}

impl PingPong {
    /// `ours` and `theirs`: the descriptors for reading and for writing of each.
    fn start(ours: [OwnedFd; 2], theirs: [OwnedFd; 2]) -> io::Result<Box<dyn Round>> {
        let fds = theirs.each_ref().map(AsRawFd::as_raw_fd);
        let not_theirs = ours.each_ref().map(AsRawFd::as_raw_fd);
        // SAFETY: the child makes only system calls and never returns.
        let partner = unsafe { libc::fork() };
        if partner == 0 {
            echo(fds, not_theirs);
        }
        check(i64::from(partner))?;
        let [from, to] = ours;
        Ok(Box::new(PingPong {
            from: Some(from.into()),
            to: Some(to.into()),
            partner: Some(partner),
        }))
    }
}

/// Runs in the child, and ends with it.
fn echo([from, to]: [RawFd; 2], close: [RawFd; 2]) -> ! {
    let mut byte = 0u8;
    // SAFETY: one byte is read and written; the descriptors are this process's.
    unsafe {
        for fd in close {
            libc::close(fd);
        }
        let mut moved = 1;
        while moved == 1 {
            moved = libc::read(from, (&raw mut byte).cast(), 1);
            if moved == 1 {
                moved = libc::write(to, (&raw const byte).cast(), 1);
            }
        }
        // At the end of its input the partner ends with status 0.
        libc::_exit(if moved == 0 {
            0
        } else {
            *libc::__errno_location()
        })
    }
}

impl Round for PingPong {
    fn once(&mut self) -> io::Result<()> {
        let (Some(from), Some(to)) = (&mut self.from, &mut self.to) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let mut byte = [1];
        let done = to
            .write_all(&byte)
            .and_then(|()| from.read_exact(&mut byte));
        done.map_err(|error| self.explain(&error))
    }
}

impl PingPong {
    /// The partner ends when one of its calls fails; its status is the error.
    fn explain(&mut self, error: &io::Error) -> io::Error {
        let status = self.end();
        let why = match libc::WEXITSTATUS(status) {
            _ if libc::WIFSIGNALED(status) => {
                format!("killed by signal {}", libc::WTERMSIG(status))
            }
            0 => "at the end of its input".into(),
            errno => io::Error::from_raw_os_error(errno).to_string(),
        };
        io::Error::other(format!("{error}; the other process ended: {why}"))
    }

    /// Closes what the partner reads, and waits for its end.
    fn end(&mut self) -> libc::c_int {
        drop((self.from.take(), self.to.take()));
        let mut status = 0;
        if let Some(partner) = self.partner.take() {
            // SAFETY: waits for a child of ours.
            unsafe { libc::waitpid(partner, &mut status, 0) };
        }
        status
    }
}

impl Drop for PingPong {
    fn drop(&mut self) {
        self.end();
    }
}

pub(super) fn pipe() -> io::Result<Box<dyn Round>> {
    let [here, there_to] = call::pipe()?;
    let [there, here_to] = call::pipe()?;
    PingPong::start([here, here_to], [there, there_to])
}

pub(super) fn unix() -> io::Result<Box<dyn Round>> {
    let (here, there) = UnixStream::pair()?;
    PingPong::start(
        [here.try_clone()?.into(), here.into()],
        [there.try_clone()?.into(), there.into()],
    )
}

pub(super) fn tcp() -> io::Result<Box<dyn Round>> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let here = TcpStream::connect(listener.local_addr()?)?;
    let (there, _) = listener.accept()?;
    for end in [&here, &there] {
        end.set_nodelay(true)?;
    }
    PingPong::start(
        [here.try_clone()?.into(), here.into()],
        [there.try_clone()?.into(), there.into()],
    )
}
