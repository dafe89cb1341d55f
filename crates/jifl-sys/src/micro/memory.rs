// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory: a file that is mapped, read and unmapped; and the memory that the faults need.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::Round;
use super::call::{check, memory_file};

pub(super) const PAGE: usize = 4096;

/// A mapping, unmapped when it is dropped.
pub(super) struct Mapping {
    pub(super) address: *mut u8,
    size: usize,
}

impl Mapping {
    /// `fd` -1: anonymous memory.
    pub(super) fn new(
        size: usize,
        protection: libc::c_int,
        fd: libc::c_int,
    ) -> io::Result<Mapping> {
        let flags = match fd {
            -1 => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            _ => libc::MAP_SHARED,
        };
        // SAFETY: the kernel chooses an address that nothing else has.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, flags, fd, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping {
            address: address.cast(),
            size,
        })
    }

    /// Gives the kernel advice about the mapping.
    pub(super) fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: the mapping is ours, and nothing in it is relied upon.
        let result = unsafe { libc::madvise(self.address.cast(), self.size, advice) };
        check(i64::from(result)).map(drop)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nobody keeps addresses of it.
        unsafe { libc::munmap(self.address.cast(), self.size) };
    }
}

const SIZE: usize = 64 << 10;
/// Distance of the bytes that are read, as in lmbench.
const STRIDE: usize = 16 << 10;

struct MapFile(File);

impl Round for MapFile {
    fn once(&mut self) -> io::Result<()> {
        let mapping = Mapping::new(SIZE, libc::PROT_READ, self.0.as_raw_fd())?;
        for offset in (0..SIZE).step_by(STRIDE) {
            // SAFETY: within the mapping, whose file is as long.
            unsafe { mapping.address.add(offset).read_volatile() };
        }
        Ok(())
    }
}

pub(super) fn mmap_munmap() -> io::Result<Box<dyn Round>> {
    let file = memory_file()?;
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![1; SIZE], 0)?;
    Ok(Box::new(MapFile(file)))
}
