// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations that `jifl bench` measures, in the manner of lmbench: each is one system call, a
//! few system calls, or an exception. Each is prepared once, then done again and again. [`OPS`] is
//! the table of all operations.

mod call;
mod calls;
mod faults;
mod memory;
mod partner;
mod process;
mod signals;

use std::io;

pub use call::Pinned;
pub use process::{EXIT_AT_ONCE, exits_at_once};

/// The work of one round, and all that it needs. Dropping it gives that back.
pub trait Round {
    /// One round. This is timed.
    fn once(&mut self) -> io::Result<()>;

    /// Work between two rounds, not timed.
    fn between(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One operation.
#[derive(Clone, Copy)]
pub struct Op {
    /// The name, after lmbench.
    pub name: &'static str,
    /// System calls that one round makes, in all its processes together: number and how often.
    pub calls: &'static [(u32, u64)],
    /// The operation's share of rounds, in per cent: small if a round is long, large if it takes
    /// long until rounds are alike.
    pub share: u64,
    /// Prepares it.
    pub prepare: fn() -> io::Result<Box<dyn Round>>,
}

const fn op(
    name: &'static str,
    calls: &'static [(u32, u64)],
    share: u64,
    prepare: fn() -> io::Result<Box<dyn Round>>,
) -> Op {
    Op {
        name,
        calls,
        share,
        prepare,
    }
}

const READ: u32 = libc::SYS_read as u32;
const WRITE: u32 = libc::SYS_write as u32;
const CLONE: u32 = libc::SYS_clone as u32;
const WAIT: u32 = libc::SYS_wait4 as u32;
const EXIT: u32 = libc::SYS_exit_group as u32;
const EXECVE: u32 = libc::SYS_execve as u32;
const SIGRETURN: u32 = libc::SYS_rt_sigreturn as u32;

/// All operations.
#[rustfmt::skip]
pub const OPS: &[Op] = &[
    op("null", &[(libc::SYS_getppid as u32, 1)], 100, calls::null),
    op("read", &[(READ, 1)], 100, calls::read),
    op("write", &[(WRITE, 1)], 100, calls::write),
    op("stat", &[(libc::SYS_stat as u32, 1)], 100, calls::stat),
    op("fstat", &[(libc::SYS_fstat as u32, 1)], 100, calls::fstat),
    op("open+close", &[(libc::SYS_openat as u32, 1), (libc::SYS_close as u32, 1)], 100, calls::open_close),
    op("select", &[(libc::SYS_select as u32, 1)], 100, calls::select),
    op("sig install", &[(libc::SYS_rt_sigaction as u32, 1)], 100, signals::install),
    op("sig handle", &[(libc::SYS_kill as u32, 1), (SIGRETURN, 1)], 100, signals::handle),
    op("pipe", &[(READ, 2), (WRITE, 2)], 100, partner::pipe),
    // Many rounds: it takes long until the kernel always uses the same memory for a byte.
    op("unix", &[(READ, 2), (WRITE, 2)], 400, partner::unix),
    op("tcp", &[(READ, 2), (WRITE, 2)], 50, partner::tcp),
    op("fork+exit", &[(CLONE, 1), (EXIT, 1), (WAIT, 1)], 20, process::fork_exit),
    op("fork+exec", &[(CLONE, 1), (EXECVE, 1), (EXIT, 1), (WAIT, 1)], 10, process::fork_exec),
    op("mmap+munmap", &[(libc::SYS_mmap as u32, 1), (libc::SYS_munmap as u32, 1)], 100, memory::mmap_munmap),
    op("prot fault", &[(SIGRETURN, 1)], 100, faults::protection),
    // A page fault makes no system call. The operation makes the counted one between rounds.
    op("page fault", &[(libc::SYS_getppid as u32, 1)], 100, faults::page),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The operations are tested one after the other: they share signal handlers and children.
    #[test]
    fn every_operation_can_be_done() {
        for op in OPS.iter().filter(|op| op.name != "fork+exec") {
            let mut round = (op.prepare)().unwrap();
            for n in 0..300 {
                round
                    .once()
                    .unwrap_or_else(|error| panic!("{} {n}: {error}", op.name));
                round.between().unwrap();
            }
        }
    }

    #[test]
    fn names_are_unique_and_each_has_calls() {
        let names: std::collections::BTreeSet<&str> = OPS.iter().map(|op| op.name).collect();
        assert_eq!(names.len(), OPS.len());
        assert!(OPS.iter().all(|op| !op.calls.is_empty() && op.share > 0));
    }
}
