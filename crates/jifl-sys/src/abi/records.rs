// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of sessions, CPU by CPU.

use super::*;

/// `struct jifl_record`: of a session of [`Kind::Trace`] or [`Kind::Path`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// Never 0. A function's or a block's address, its low half, or `RECORD_*`.
    pub what: u32,
    /// Its meaning depends on `what`.
    pub value: u32,
}

impl Record {
    /// The record as a word behind another record: 64 bits.
    pub const fn word(self) -> u64 {
        (self.value as u64) << 32 | self.what as u64
    }
}

/// From here on [`Record::what`] is the address of a function or a block, and [`Record::value`] is
/// its stack pointer.
pub const RECORD_FUNCTION: u32 = 0x8000_0000;
/// Mask of the `RECORD_*` below.
pub const RECORD_TYPE: u32 = 0xf000_0000;
/// With `level << RECORD_LEVEL_SHIFT` (an index into [`LEVELS`]) and the index of a target: the
/// thread, or what interrupts it, enters the target.
pub const RECORD_BEGIN: u32 = 0x1000_0000;
/// The thread goes on in its call; [`Record::value`] is 0 for one that is in no call.
pub const RECORD_RESUME: u32 = 0x2000_0000;
/// As a [`RECORD_BEGIN`]: the call has come to its end.
pub const RECORD_END: u32 = 0x3000_0000;
/// Of [`RECORD_BEGIN`] and [`RECORD_END`].
pub const RECORD_LEVEL_SHIFT: u32 = 26;
/// In a [`RECORD_BEGIN`]: the thread comes to run in a call that had begun before the session.
pub const RECORD_ADOPTED: u32 = 0x0200_0000;
/// A call in an interrupt returns that has no [`RECORD_END`].
pub const RECORD_CUT: u32 = 0x0100_0000;
/// The function returns; [`Record::value`] is the same as at its entry.
pub const RECORD_RETURN: u32 = 0x5000_0000;
/// With bits 32 to 58 of the call's result; [`Record::value`] has the bits below.
pub const RECORD_RESULT: u32 = 0x0800_0000;
/// Mask of these bits of [`RECORD_RESULT`].
pub const RECORD_HIGH: u32 = 0x07ff_ffff;
/// Behind a [`RECORD_RESULT`] whose bits 59 to 63 are not all as its bit 58. [`Record::value`] has
/// these bits, shifted down.
pub const RECORD_TOP: u32 = 0x0200_0000;
/// In place of the instruction at [`Record::value`] the kernel's fixup of its exception goes on.
pub const RECORD_FAULT: u32 = 0x0400_0000;
/// With the low 28 bits of nanoseconds; [`Record::value`] has the bits above.
pub const RECORD_TIME: u32 = 0x4000_0000;
/// Of [`Kind::Mem`], behind a [`RECORD_BEGIN`]: the high half of the stack pointer.
pub const RECORD_STACK: u32 = 0x6000_0000;
/// With `words << 25` and a number: what a block accesses. As many words follow the record.
pub const RECORD_ACCESS: u32 = 0x7000_0000;
/// Of [`Kind::Trace`] with [`FLAG_VALUES`], after a function's entry: six registers.
pub const RECORD_ARGUMENTS: u32 = 0x7c00_0000;
/// Of [`Kind::Trace`] with [`FLAG_VALUES`], before a [`RECORD_RETURN`]: rax.
pub const RECORD_RETURNED: u32 = 0x7200_0001;
/// With [`FLAG_CLOCK`], after a function's entry: the time stamp counter.
pub const RECORD_ENTERED: u32 = 0x7200_0002;
/// With [`FLAG_CLOCK`], in place of a [`RECORD_RETURN`]: the time stamp counter.
pub const RECORD_LEFT: u32 = 0x7200_0003;
/// With [`FLAG_CLOCK`], before a function jumps to another: the time stamp counter.
pub const RECORD_JUMPED: u32 = 0x7200_0004;
/// With [`FLAG_CLOCK`], after each [`RECORD_TIME`]: the time stamp counter at that time.
pub const RECORD_CLOCK: u32 = 0x7200_0005;
/// Mask of the number in a [`RECORD_ACCESS`].
pub const RECORD_NUMBER: u32 = 0x01ff_ffff;
/// Maximum of words behind a record.
pub const RECORD_WORDS_MAX: usize = 6;

/// Number of words, 64 bits each, behind a record.
pub const fn record_words(what: u32) -> usize {
    if what & RECORD_TYPE == RECORD_ACCESS {
        (what >> 25 & 7) as usize
    } else {
        0
    }
}

abi_struct! {
    /// `struct jifl_records`: takes what has been recorded on one CPU.
    Records {
        /// Of this structure.
        pub size: u32,
        /// In: the CPU.
        pub cpu: u32,
        /// Out: number of records. In: set by [`crate::device`].
        pub n: u32,
        /// Zero.
        pub reserved: u32,
        /// In: address for the records. Set by [`crate::device`] alone: the kernel writes there.
        pub(crate) buf: u64,
        /// Out: overwritten before they were taken.
        pub lost: u64,
        /// Out: how often threads have waited for room, on all CPUs.
        pub waits: u64,
        /// Out: sum of these waits, in nanoseconds.
        pub waited_ns: u64,
    }
}

impl Records {
    /// A request for the records of one CPU.
    pub fn of(cpu: u32) -> Records {
        Records {
            cpu,
            ..Records::default()
        }
    }
}
