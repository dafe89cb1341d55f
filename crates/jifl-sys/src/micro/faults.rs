// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exceptions. They are no system calls, so no session instruments them. These operations show what
//! the instrumentation of system calls costs exceptions.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Round;
use super::call::{check, raw};
use super::memory::{Mapping, PAGE};

/// The write-protected page; 0: none.
static PROTECTED: AtomicUsize = AtomicUsize::new(0);

/// Length of the store in `write_protected`.
const STORE: libc::greg_t = 3;

/// Goes on after the store. Other faults get their default effect: the instruction faults again.
extern "C" fn on_fault(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes both; the context is a ucontext_t that the
    // return from the handler restores.
    unsafe {
        if (*info).si_addr() as usize == PROTECTED.load(Ordering::Relaxed) {
            let context = context.cast::<libc::ucontext_t>();
            (*context).uc_mcontext.gregs[libc::REG_RIP as usize] += STORE;
        } else {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

struct Protection {
    page: Mapping,
    before: libc::sigaction,
}

impl Round for Protection {
    fn once(&mut self) -> io::Result<()> {
        // SAFETY: the store does not happen: it faults, and the handler skips it.
        unsafe {
            core::arch::asm!(
                ".byte 0xc6, 0x07, 0x00", // movb $0, (%rdi)
                in("rdi") self.page.address,
                options(nostack),
            );
        }
        Ok(())
    }
}

impl Drop for Protection {
    fn drop(&mut self) {
        PROTECTED.store(0, Ordering::Relaxed);
        // SAFETY: what the kernel gave us when the handler was installed.
        unsafe { libc::sigaction(libc::SIGSEGV, &self.before, std::ptr::null_mut()) };
    }
}

pub(super) fn protection() -> io::Result<Box<dyn Round>> {
    let page = Mapping::new(PAGE, libc::PROT_READ, -1)?;
    PROTECTED.store(page.address as usize, Ordering::Relaxed);
    // SAFETY: all zeroes are a valid sigaction; the handler keeps to what is
    // async-signal-safe.
    let before = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault
            as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void)
            as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        check(i64::from(libc::sigaction(
            libc::SIGSEGV,
            &action,
            &mut before,
        )))?;
        before
    };
    Ok(Box::new(Protection { page, before }))
}

/// Each round is the first store to a page. After the store the page is given back.
struct FirstTouch(Mapping);

impl Round for FirstTouch {
    fn once(&mut self) -> io::Result<()> {
        // SAFETY: within the mapping.
        unsafe { self.0.address.write_volatile(1) };
        Ok(())
    }

    fn between(&mut self) -> io::Result<()> {
        self.0.advise(libc::MADV_DONTNEED)?;
        // SAFETY: no memory is concerned.
        unsafe { raw(libc::SYS_getppid, [0; 5]) }.map(drop)
    }
}

pub(super) fn page() -> io::Result<Box<dyn Round>> {
    let page = Mapping::new(PAGE, libc::PROT_READ | libc::PROT_WRITE, -1)?;
    Ok(Box::new(FirstTouch(page)))
}
