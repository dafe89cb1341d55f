// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls, always through the same instructions, and a few calls that several operations
//! need.

use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Keeps the calling thread, and what it forks meanwhile, on its CPU, until this is dropped.
/// Processes that the thread wakes there do not preempt it.
///
/// Otherwise that would depend on how long both have run before, and an operation of two processes
/// would have two costs.
pub struct Pinned {
    cpus: libc::cpu_set_t,
    policy: libc::c_int,
}

impl Pinned {
    /// Takes effect now.
    pub fn here() -> io::Result<Pinned> {
        // SAFETY: all zeroes are a valid, empty set, and the calls stay within it.
        unsafe {
            let (mut before, mut one): (libc::cpu_set_t, libc::cpu_set_t) = std::mem::zeroed();
            let size = size_of::<libc::cpu_set_t>();
            check(i64::from(libc::sched_getaffinity(0, size, &mut before)))?;
            libc::CPU_SET(libc::sched_getcpu().max(0) as usize, &mut one);
            check(i64::from(libc::sched_setaffinity(0, size, &one)))?;
            let policy = libc::sched_getscheduler(0);
            set_policy(libc::SCHED_BATCH);
            Ok(Pinned {
                cpus: before,
                policy,
            })
        }
    }
}

/// If the policy may not be set, the old one stays.
fn set_policy(policy: libc::c_int) {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is only read.
    unsafe { libc::sched_setscheduler(0, policy, &param) };
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: the set that the kernel gave us; it is only read.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &self.cpus) };
        if self.policy >= 0 {
            set_policy(self.policy);
        }
    }
}

/// A result of the C library: negative with errno set.
pub(super) fn check(result: i64) -> io::Result<i64> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// Makes a system call.
///
/// # Safety
/// The arguments must be such that the call is sound.
#[inline(never)]
pub(super) unsafe fn raw(nr: libc::c_long, arguments: [usize; 5]) -> io::Result<usize> {
    let [a, b, c, d, e] = arguments;
    let result: isize;
    // SAFETY: the instruction changes rcx, r11, rax and what the call writes to;
    // the rest is the caller's promise.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") nr as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    if (-4095..0).contains(&result) {
        return Err(io::Error::from_raw_os_error(-result as i32));
    }
    Ok(result as usize)
}

/// A pipe: its ends for reading and for writing.
pub(super) fn pipe() -> io::Result<[OwnedFd; 2]> {
    let mut fds = [-1; 2];
    // SAFETY: the call writes two descriptors, which are nobody else's.
    unsafe {
        check(i64::from(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC)))?;
        Ok(fds.map(|fd| OwnedFd::from_raw_fd(fd)))
    }
}

/// An empty file in memory.
pub(super) fn memory_file() -> io::Result<File> {
    // SAFETY: a constant name; the descriptor is nobody else's.
    unsafe {
        let fd = libc::memfd_create(c"jifl-bench".as_ptr(), libc::MFD_CLOEXEC);
        check(i64::from(fd))?;
        Ok(File::from_raw_fd(fd))
    }
}
