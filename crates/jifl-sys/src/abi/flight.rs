// SPDX-License-Identifier: MIT OR Apache-2.0
//! `include/uapi/jifl_flight.h` in Rust: what the flight recorder leaves in memory, and how it is
//! asked. That header explains every member. The structures in memory are read from bytes, which
//! may be anybody's, and written as bytes by tests.

use super::*;

/// Bytes of a page of a recording.
pub const FLIGHT_PAGE: usize = 4096;
/// The first bytes of a recording.
pub const FLIGHT_MAGIC: &[u8; 16] = b"JIFL flight data";
/// The version of the format that this program reads.
pub const FLIGHT_VERSION: u32 = 2;
/// Arguments of a record.
pub const FLIGHT_ARGS: usize = 5;
/// Of [`FlightRecord::context`]: it is a softirq, if it is no interrupt.
pub const FLIGHT_SOFTIRQ: u16 = 1;
/// Of [`FlightRecord::context`]: it is an interrupt or an NMI, if one of these is set.
pub const FLIGHT_IRQ: u16 = 0x0f00;
/// Of [`FlightRecord::context`], with [`FLIGHT_IRQ`]: it is an NMI, if one is set.
pub const FLIGHT_NMI: u16 = 0xf000;
/// With this the sum of a record's words, and 1, is multiplied for its check.
pub const FLIGHT_FACTOR: u64 = 0x0001_0001_0001_0001;
/// Pages of the table of pages.
pub const FLIGHT_TABLE_MAX: usize = 384;
/// Entries of the table of images that the module makes.
pub const FLIGHT_IMAGES: usize = 512;
/// Maximum of events.
pub const FLIGHT_EVENTS_MAX: usize = 64;

numbers! {
    /// [`Flight::op`].
    FlightOp: u32;
    /// Begins a recording.
    Start = 1, "JIFL_FLIGHT_START";
    /// Ends it.
    End = 2, "JIFL_FLIGHT_END";
    /// Copies bytes of the recording that runs.
    Copy = 3, "JIFL_FLIGHT_COPY";
    /// Copies bytes of the recording of another boot.
    Last = 4, "JIFL_FLIGHT_LAST";
    /// Says which events are recorded from now on.
    Mask = 5, "JIFL_FLIGHT_MASK";
    /// Stops recording.
    Freeze = 6, "JIFL_FLIGHT_FREEZE";
    /// Records again.
    Thaw = 7, "JIFL_FLIGHT_THAW";
    /// Forgets the recording of another boot.
    Forget = 8, "JIFL_FLIGHT_FORGET";
    /// Copies the events that the module knows.
    Events = 9, "JIFL_FLIGHT_EVENTS";
    /// Keeps this file, and its session, until the recording ends, and records its event.
    Hold = 10, "JIFL_FLIGHT_HOLD";
    /// Adds an event that programs of places can record.
    Add = 11, "JIFL_FLIGHT_ADD";
}

numbers! {
    /// [`FlightHead::stop_why`].
    FlightStop: u32;
    /// It records.
    Runs = 0, "JIFL_FLIGHT_RUNS";
    /// By a request.
    AtRequest = 1, "JIFL_FLIGHT_AT_REQUEST";
    /// An event came that it was to stop at.
    AtEvent = 2, "JIFL_FLIGHT_AT_EVENT";
    /// A system call returned the error.
    AtErrno = 3, "JIFL_FLIGHT_AT_ERRNO";
    /// The kernel is panicking.
    AtPanic = 4, "JIFL_FLIGHT_AT_PANIC";
    /// There was too much time between two events.
    AtSlow = 5, "JIFL_FLIGHT_AT_SLOW";
}

numbers! {
    /// [`Flight::slow_from_key`]: what two events have in common that belong together.
    FlightKey: u32;
    /// The thread that runs.
    Thread = 0, "JIFL_FLIGHT_KEY_THREAD";
    /// The first argument.
    Arg0 = 1, "JIFL_FLIGHT_KEY_ARG0";
    /// The second one.
    Arg1 = 2, "JIFL_FLIGHT_KEY_ARG1";
    /// The CPU.
    Cpu = 3, "JIFL_FLIGHT_KEY_CPU";
}

abi_struct! {
    /// `struct jifl_flight`: what the flight recorder is to do.
    Flight {
        /// Of this structure.
        pub size: u32,
        /// A [`FlightOp`].
        pub op: u32,
        /// With Start and Mask: a bit for each event.
        pub mask: u64,
        /// With Start: records of each CPU, a power of two.
        pub record_count: u32,
        /// With Start: 1: it goes on when the file is closed.
        pub keep: u32,
        pub(crate) buf: u64,
        /// With Copy and Last: bytes before those that are wanted.
        pub offset: u64,
        /// Out: how many bytes came.
        pub length: u64,
        /// With Start: a bit for each event that it stops at; with Hold: 1: it stops at this one.
        pub stop_mask: u64,
        /// With Start: it stops at a system call that returns this, below 0; 0: none.
        pub stop_errno: i32,
        /// Zero.
        pub reserved: u32,
        /// With Start and Freeze: nanoseconds for which it records after that.
        pub after_ns: u64,
        /// With Start, Last and Forget: the name of memory, NUL-terminated; empty: ordinary memory.
        pub memory: [u8; 48],
        /// With Start: it stops if there is more time than this between two events; 0: none.
        pub slow_ns: u64,
        /// With Start: the first one's first argument; all ones: any.
        pub slow_value: u64,
        /// With Start: the number of the first one.
        pub slow_from: u16,
        /// With Start: that of the second one.
        pub slow_to: u16,
        /// With Start: a [`FlightKey`].
        pub slow_from_key: u8,
        /// With Start: a [`FlightKey`].
        pub slow_to_key: u8,
        /// Zero.
        pub slow_reserved: [u8; 2],
        /// Out, with Add, and with Hold: the event's number.
        pub added: u32,
        /// The same: which recording it is.
        pub recording: u32,
    }
}

impl Flight {
    /// A request without any more to it.
    pub fn of(op: FlightOp) -> Flight {
        Flight {
            op: op as u32,
            ..Flight::default()
        }
    }
}

/// A member of a structure in memory.
trait Member: Sized {
    fn take(bytes: &mut &[u8]) -> Self;
    fn put(&self, bytes: &mut Vec<u8>);
}

fn front<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (first, rest) = bytes.split_first_chunk().expect("the structure's size");
    *bytes = rest;
    *first
}

macro_rules! member_integers {
    ($($type:ty)*) => { $(
        impl Member for $type {
            fn take(bytes: &mut &[u8]) -> Self { <$type>::from_le_bytes(front(bytes)) }
            fn put(&self, bytes: &mut Vec<u8>) { bytes.extend(self.to_le_bytes()) }
        }
    )* };
}
member_integers!(u8 u16 u32 u64);

impl<T: Member, const N: usize> Member for [T; N] {
    fn take(bytes: &mut &[u8]) -> Self {
        std::array::from_fn(|_| T::take(bytes))
    }
    fn put(&self, bytes: &mut Vec<u8>) {
        self.iter().for_each(|one| one.put(bytes));
    }
}

/// Declares a structure in memory, without padding.
macro_rules! memory_struct {
    (
        $(#[$meta:meta])*
        $name:ident { $( $(#[$fmeta:meta])* $field:ident : $type:ty, )* }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(C)]
        pub struct $name { $( $(#[$fmeta])* pub $field: $type, )* }

        impl $name {
            /// Its bytes.
            pub const SIZE: usize = std::mem::size_of::<$name>();

            /// From its bytes; `None`: there are too few.
            pub fn from_bytes(bytes: &[u8]) -> Option<$name> {
                let mut bytes = bytes.get(..Self::SIZE)?;
                Some($name { $( $field: Member::take(&mut bytes), )* })
            }

            /// As bytes.
            pub fn to_bytes(&self) -> Vec<u8> {
                let mut bytes = Vec::with_capacity(Self::SIZE);
                $( self.$field.put(&mut bytes); )*
                bytes
            }

            #[cfg(test)]
            pub(crate) fn layout() -> Vec<(&'static str, usize, usize)> {
                let mut all = vec![ $( (
                    stringify!($field),
                    std::mem::offset_of!($name, $field),
                    std::mem::size_of::<$type>(),
                ), )* ];
                all.push(("", 0, Self::SIZE));
                all
            }
        }
    };
}

memory_struct! {
    /// `struct jifl_flight_head`: the first page.
    FlightHead {
        /// [`FLIGHT_MAGIC`].
        magic: [u8; 16],
        /// [`FLIGHT_VERSION`].
        version: u32,
        /// Possible CPUs.
        ncpus: u32,
        /// Events.
        nevents: u32,
        /// Pages of the region, with this one.
        npages: u32,
        /// Records of each ring: a power of two.
        record_count: u32,
        /// Entries of the table of images.
        nimages: u32,
        /// Where the table of events is.
        events_at: u64,
        /// Where the table of images is.
        images_at: u64,
        /// Where the rings' counters are.
        rings_at: u64,
        /// Where the table of pages is.
        pages_at: u64,
        /// Where the records are.
        records_at: u64,
        /// The boot's id.
        boot_id: [u8; 16],
        /// The kernel's build id; 0: unknown.
        build_id: [u8; 20],
        /// Ticks in a millisecond.
        tsc_khz: u32,
        /// The time stamp counter at one moment.
        tsc: u64,
        /// CLOCK_MONOTONIC then.
        monotonic_ns: u64,
        /// CLOCK_REALTIME then.
        realtime_ns: u64,
        /// `uname -r`.
        release: [u8; 64],
        /// Events that are recorded now.
        mask: u64,
        /// Not recorded from this value of the counter on; all ones: it is recorded.
        stop_at: u64,
        /// A [`FlightStop`].
        stop_why: u32,
        /// With [`FlightStop::AtEvent`] and [`FlightStop::AtSlow`]: which one.
        stop_event: u32,
        /// Physical addresses of the pages of the table of pages.
        table: [u64; FLIGHT_TABLE_MAX],
    }
}

memory_struct! {
    /// `struct jifl_flight_event`: an event.
    FlightEvent {
        /// Its name, NUL-terminated unless it fills the member.
        name: [u8; 24],
        /// Its group.
        group: [u8; 8],
        /// Its arguments: words of NAME:KIND.
        fields: [u8; 88],
        /// Zero.
        reserved: u64,
    }
}

memory_struct! {
    /// `struct jifl_flight_image`: where code lies.
    FlightImage {
        /// Its first address.
        base: u64,
        /// Bytes; 0: there is none.
        size: u32,
        /// Zero.
        reserved: u32,
        /// vmlinux, or the module's name.
        name: [u8; 48],
    }
}

memory_struct! {
    /// `struct jifl_flight_ring`: of a CPU.
    FlightRing {
        /// Records that were begun.
        count: u64,
        /// Zero.
        reserved: [u64; 7],
    }
}

memory_struct! {
    /// `struct jifl_flight_record`: a record.
    FlightRecord {
        /// The time stamp counter.
        time: u64,
        /// The low half of its number.
        number: u32,
        /// Index of the event.
        event: u16,
        /// The CPU.
        cpu: u16,
        /// The task that ran, or was interrupted.
        tid: u32,
        /// Where the thread was: [`FlightRecord::level`].
        context: u16,
        /// What [`FlightRecord::sum`] says.
        check: u16,
        /// The event's arguments.
        arg: [u64; FLIGHT_ARGS],
    }
}

impl FlightRecord {
    /// Index into [`LEVELS`].
    pub fn level(&self) -> u16 {
        match self.context {
            interrupted if interrupted & FLIGHT_IRQ != 0 => 2,
            softirq => softirq & FLIGHT_SOFTIRQ,
        }
    }

    /// The check of a record of these bytes, whose own check does not matter.
    pub fn sum(bytes: &[u8; FlightRecord::SIZE]) -> u16 {
        const TID: usize = std::mem::offset_of!(FlightRecord, tid) / 8;
        let word = |at: usize| {
            let bytes = bytes[8 * at..8 * at + 8].try_into();
            u64::from_le_bytes(bytes.expect("eight bytes"))
        };
        let (tid, context) = (word(TID) as u32, (word(TID) >> 32) as u16);
        let sum = (0..FlightRecord::SIZE / 8)
            .filter(|at| *at != TID)
            .fold(u64::from(tid) + u64::from(context), |sum, at| {
                sum.wrapping_add(word(at))
            });
        (sum.wrapping_add(1).wrapping_mul(FLIGHT_FACTOR) >> 48) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_seen() {
        let record = FlightRecord {
            time: 0xffff_ffff_0000_0001,
            number: u32::MAX,
            event: 3,
            cpu: 1,
            tid: 77,
            context: 0,
            check: 0,
            arg: [0, u64::MAX, 1 << 63, 0x8000_0000, 5],
        };
        let mut bytes: [u8; FlightRecord::SIZE] = record.to_bytes().try_into().unwrap();
        let check = FlightRecord::sum(&bytes);
        assert_ne!(
            FlightRecord::sum(&[0; FlightRecord::SIZE]),
            0,
            "zeroes are no record"
        );
        let at = std::mem::offset_of!(FlightRecord, check);
        bytes[at..at + 2].copy_from_slice(&check.to_le_bytes());
        for bit in 0..FlightRecord::SIZE * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            let read = FlightRecord::from_bytes(&flipped).unwrap();
            assert_ne!(read.check, FlightRecord::sum(&flipped), "bit {bit}");
            assert_eq!(read.to_bytes(), flipped);
        }
        assert_eq!(FlightRecord::from_bytes(&bytes[1..]), None);
    }
}
