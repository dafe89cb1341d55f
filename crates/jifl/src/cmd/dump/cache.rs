// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the blocks of the code cache through any [`Door`].

use std::io;

use jifl_sys::abi::Block;
use jifl_sys::device::{BlockParts, Door, Request};
use rustix::io::Errno;

use crate::base::exit::Failure;
use crate::session::device;

/// Maximum of attempts. The cache is emptied at most once a second, so this many failures are
/// unlikely.
const TRIES: u32 = 3;

/// All blocks with inserts of a session, in the order in which they were made.
pub fn read(door: &impl Door, session: u64) -> Result<Vec<(Block, BlockParts)>, Failure> {
    for _ in 0..TRIES {
        let before = device::status(door)?.flushes;
        let blocks = read_once(door, session)?;
        if device::status(door)?.flushes == before {
            return Ok(blocks);
        }
    }
    Err(Failure::failed(
        "the code cache is emptied again and again, it is too small for this: load the module \
         with a larger one (cache_kb, side_kb)",
    ))
}

fn read_once(door: &impl Door, session: u64) -> Result<Vec<(Block, BlockParts)>, Failure> {
    let mut all: Vec<(Block, BlockParts)> = Vec::new();
    loop {
        let next = all.last().map_or(0, |(last, _)| last.index + 1);
        let mut block = Block::from(next, session);
        let mut parts = BlockParts::default();
        match door.call(Request::Block(&mut block, &mut parts)) {
            Ok(()) => all.push((block, parts)),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => return Ok(all),
            Err(error) => return Err(refused(&error)),
        }
    }
}

fn refused(error: &io::Error) -> Failure {
    match Errno::from_io_error(error) {
        Some(Errno::ACCESS) => {
            Failure::cannot("reading the code cache: kernel lockdown forbids it")
        }
        Some(Errno::PERM) => Failure::cannot(
            "reading the code cache: the kernel hides its addresses: sysctl \
             kernel.kptr_restrict=1, and be root",
        ),
        _ => device::failed("reading the code cache", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::fake::Fake;

    fn block_of(session: u64) -> (Block, BlockParts) {
        let mut block = Block::from(0, 0);
        block.sessions[0] = session;
        (block, BlockParts::default())
    }

    #[test]
    fn all_blocks_of_a_session_are_read() {
        let fake = Fake::default();
        fake.state().blocks = [1, 2, 1, 0, 2].map(block_of).into();
        let read = |session| {
            let blocks = read(&fake, session).unwrap();
            blocks
                .iter()
                .map(|(block, _)| block.index)
                .collect::<Vec<_>>()
        };
        assert_eq!(read(0), [0, 1, 2, 3, 4]);
        assert_eq!(read(1), [0, 2]);
        assert_eq!(read(2), [1, 4]);
        assert!(read(3).is_empty());
    }

    #[test]
    fn refusals_are_one_line_and_status_3() {
        let fake = Fake::default();
        for (errno, hint) in [(Errno::ACCESS, "lockdown"), (Errno::PERM, "kptr_restrict")] {
            fake.state().hidden = Some(errno);
            let failure = read(&fake, 0).unwrap_err();
            assert_eq!(failure.status, crate::base::exit::CANNOT);
            assert!(failure.message.contains(hint), "{}", failure.message);
            assert!(!failure.message.contains('\n'));
        }
    }
}
