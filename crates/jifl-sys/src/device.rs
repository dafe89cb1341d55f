// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one door to `/dev/jifl`. [`Door`] takes one enum of all requests, so that a test can stand
//! in for the whole device.

use std::any::Any;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use crate::abi::{
    Action, Block, Condition, Counter, Detach, Entry, Flight, HIST_BUCKETS, HitRead, Info, Irq, Op,
    PluginCtl, PluginInfo, PluginRead, Record, Records, Replacement, RoutineInfo, Segment,
    SessionInfo, Splice, Start, Stat, Status, Stop, TableRead, TargetSpec, Warm, WarmBlock,
    request,
};

/// Room for one histogram.
pub type Histogram = [u64; HIST_BUCKETS];

/// What a block is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockParts {
    /// The original code as it is now.
    pub src: Vec<u8>,
    /// The copy.
    pub code: Vec<u8>,
    /// Piece by piece.
    pub segments: Vec<Segment>,
}

/// Room for entries of a table. [`Door::call`] fills it, and the answer says how many came.
pub struct Rows<'a> {
    table: u32,
    entry: u32,
    n: u32,
    address: u64,
    entries: &'a mut dyn Any,
}

impl<'a> Rows<'a> {
    /// As much room as there are entries.
    pub fn new<E: Entry>(entries: &'a mut Vec<E>) -> Rows<'a> {
        Rows {
            table: E::TABLE,
            entry: size_of::<E>() as u32,
            n: u32::try_from(entries.len()).unwrap_or(u32::MAX),
            address: entries.as_mut_ptr() as u64,
            entries,
        }
    }

    /// The room itself, if its entries are of this type: for what stands in for the device.
    pub fn of<E: Entry>(&mut self) -> Option<&mut [E]> {
        let entries: &mut Vec<E> = self.entries.downcast_mut()?;
        Some(entries)
    }
}

impl std::fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} entries of table {:#x}", self.n, self.table)
    }
}

/// What a session is about. The module writes `refused` of functions and places.
#[derive(Debug, Default)]
pub struct Lists<'a> {
    /// Its targets.
    pub targets: &'a mut [TargetSpec],
    /// The conditions of these.
    pub conditions: &'a [Condition],
    /// What their calls are made under.
    pub under: &'a [TargetSpec],
    /// Places in the targets.
    pub splices: &'a mut [Splice],
    /// The programs of the places.
    pub actions: &'a [Action],
    /// The ops of the programs.
    pub ops: &'a [Op],
    /// The strings that the ops compare with.
    pub strings: &'a [u8],
    /// What is counted beside times.
    pub counters: &'a [Counter],
}

/// Everything that can be asked of the device; see `include/uapi/jifl.h`.
#[derive(Debug)]
pub enum Request<'a> {
    /// Which module answers.
    Info(&'a mut Info),
    /// Starts a session on this file.
    Start(&'a mut Start, Lists<'a>),
    /// Ends it.
    Stop(&'a mut Stop),
    /// Reads one target's statistics, with its histogram if wanted.
    Stat(&'a mut Stat, Option<&'a mut Histogram>),
    /// Totals of the module.
    Status(&'a mut Status),
    /// The next session after an id.
    Session(&'a mut SessionInfo),
    /// Ends others' sessions.
    Detach(&'a mut Detach),
    /// Starts or stops a plugin.
    PluginCtl(&'a mut PluginCtl),
    /// One loaded plugin.
    Plugin(&'a mut PluginInfo),
    /// Takes lines out of a plugin's ring, as many as there is room for.
    PluginRead(&'a mut PluginRead, &'a mut [u8]),
    /// What became of the calls of one analysis routine.
    Routine(&'a mut RoutineInfo),
    /// The next block of the code cache, from an index on.
    Block(&'a mut Block, &'a mut BlockParts),
    /// What this file's session has recorded on a CPU, as much as there is room for.
    Records(&'a mut Records, &'a mut [Record]),
    /// What the programs of this file's session have recorded on a CPU, whole records, as much as
    /// there is room for: [`crate::abi::HIT_MAX`] bytes or more.
    Hits(&'a mut HitRead, &'a mut [u8]),
    /// Entries of a table of this file's session, as many as there is room for.
    Table(&'a mut TableRead, Rows<'a>),
    /// Translates blocks for this file's session, at most [`crate::abi::WARM_MAX`].
    Warm(&'a mut Warm, &'a [WarmBlock]),
    /// What handles an interrupt.
    Irq(&'a mut Irq),
    /// The next replacement after a session, with the threads that are inside.
    Replacement(&'a mut Replacement),
    /// What the flight recorder is to do; the bytes that it copies go to the room.
    Flight(&'a mut Flight, &'a mut [u8]),
}

/// What answers requests.
pub trait Door {
    /// Carries out one request; the answer is in its structure, with an error too.
    fn call(&self, request: Request<'_>) -> io::Result<()>;

    /// What poll(2) tells of: POLLHUP when the session has ended, which others may do. Nothing
    /// where that cannot be waited for.
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// The device itself. Dropping it ends its session.
#[derive(Debug)]
pub struct Device(File);

impl Device {
    /// Opens the device.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Device> {
        File::options()
            .read(true)
            .write(true)
            .open(path)
            .map(Device)
    }

    fn ioctl<T>(&self, nr: u32, argument: &mut T) -> io::Result<()> {
        let number = request(nr, size_of::<T>());
        // SAFETY: the kernel reads and writes size_of::<T>() bytes (the size is
        // part of the request's number), all within `argument`, whose type
        // holds integers only, so any bytes are valid. Start, Stat, Records, TableRead,
        // HitRead, PluginRead, Warm and Block can contain pointers. These pointers are private to
        // this crate; `call`, `fill` and `block` below set them.
        let result = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                number as libc::Ioctl,
                &raw mut *argument,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// A request whose answer goes to `room`; `place`: where its structure has that one's address
    /// and length.
    fn fill<T, R>(
        &self,
        nr: u32,
        argument: &mut T,
        room: &mut [R],
        place: fn(&mut T) -> (&mut u64, &mut u32),
    ) -> io::Result<()> {
        // The buffer outlives the call; its elements are of integers only.
        let (buf, n) = place(argument);
        *buf = room.as_mut_ptr() as u64;
        *n = u32::try_from(room.len()).unwrap_or(u32::MAX);
        let result = self.ioctl(nr, argument);
        *place(argument).0 = 0;
        result
    }

    fn start(&self, argument: &mut Start, lists: Lists<'_>) -> io::Result<()> {
        // The lists outlive the call. Targets and places are borrowed mutably: the kernel writes
        // `refused`. It only reads the others.
        let length = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        argument.ntargets = length(lists.targets.len());
        argument.targets = lists.targets.as_mut_ptr() as u64;
        argument.nconditions = length(lists.conditions.len());
        argument.conditions = lists.conditions.as_ptr() as u64;
        argument.nunder = length(lists.under.len());
        argument.under = lists.under.as_ptr() as u64;
        argument.nsplices = length(lists.splices.len());
        argument.splices = lists.splices.as_mut_ptr() as u64;
        argument.nactions = length(lists.actions.len());
        argument.actions = lists.actions.as_ptr() as u64;
        argument.nops = length(lists.ops.len());
        argument.ops = lists.ops.as_ptr() as u64;
        argument.nstrings = length(lists.strings.len());
        argument.strings = lists.strings.as_ptr() as u64;
        argument.ncounters = length(lists.counters.len());
        argument.counters = lists.counters.as_ptr() as u64;
        let result = self.ioctl(1, argument);
        (argument.targets, argument.conditions) = (0, 0);
        (argument.under, argument.splices) = (0, 0);
        (argument.actions, argument.ops, argument.strings) = (0, 0, 0);
        argument.counters = 0;
        result
    }

    fn block(&self, argument: &mut Block, parts: &mut BlockParts) -> io::Result<()> {
        // More than blocks commonly need. For a larger block the answer says how much it needs.
        let (mut src, mut code, mut segments) = (1024, 4096, 256);
        loop {
            parts.src.resize(src, 0);
            parts.code.resize(code, 0);
            parts.segments.resize(segments, Segment::default());
            // The buffers outlive the call; their lengths are what the kernel is told.
            argument.src = parts.src.as_mut_ptr() as u64;
            argument.code = parts.code.as_mut_ptr() as u64;
            argument.segments = parts.segments.as_mut_ptr() as u64;
            argument.src_len = parts.src.len() as u32;
            argument.code_len = parts.code.len() as u32;
            argument.nsegments = parts.segments.len() as u32;
            let result = self.ioctl(10, argument);
            (argument.src, argument.code, argument.segments) = (0, 0, 0);
            let has = [argument.src_len, argument.code_len, argument.nsegments];
            let has = has.map(|length| length as usize);
            match result {
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                    (src, code, segments) =
                        (src.max(has[0]), code.max(has[1]), segments.max(has[2]));
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    parts.src.truncate(has[0]);
                    parts.code.truncate(has[1]);
                    parts.segments.truncate(has[2]);
                    return Ok(());
                }
            }
        }
    }
}

impl Door for Device {
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn call(&self, request: Request<'_>) -> io::Result<()> {
        match request {
            Request::Info(argument) => self.ioctl(0, argument),
            Request::Start(argument, lists) => self.start(argument, lists),
            Request::Stop(argument) => self.ioctl(2, argument),
            Request::Irq(argument) => self.ioctl(15, argument),
            Request::Replacement(argument) => self.ioctl(17, argument),
            Request::Flight(argument, room) => {
                // The room outlives the call, and is as long as the kernel is told.
                argument.buf = room.as_mut_ptr() as u64;
                argument.length = room.len() as u64;
                let result = self.ioctl(18, argument);
                argument.buf = 0;
                result
            }
            Request::Stat(argument, histogram) => {
                // The buffer outlives the call, and is as long as the ABI says.
                argument.hist = histogram.map_or(0, |buffer| &raw mut *buffer as u64);
                let result = self.ioctl(3, argument);
                argument.hist = 0;
                result
            }
            Request::Status(argument) => self.ioctl(4, argument),
            Request::Session(argument) => self.ioctl(5, argument),
            Request::Detach(argument) => self.ioctl(6, argument),
            Request::PluginCtl(argument) => self.ioctl(7, argument),
            Request::Plugin(argument) => self.ioctl(8, argument),
            Request::PluginRead(argument, room) => {
                self.fill(13, argument, room, |read| (&mut read.buf, &mut read.n))
            }
            Request::Routine(argument) => self.ioctl(9, argument),
            Request::Block(argument, parts) => self.block(argument, parts),
            Request::Records(argument, room) => self.fill(11, argument, room, |records| {
                (&mut records.buf, &mut records.n)
            }),
            Request::Hits(argument, room) => {
                self.fill(16, argument, room, |read| (&mut read.buf, &mut read.bytes))
            }
            Request::Table(argument, rows) => {
                // The rows borrow their entries, which outlive the call.
                argument.table = rows.table;
                argument.entry = rows.entry;
                argument.n = rows.n;
                argument.buf = rows.address;
                let result = self.ioctl(12, argument);
                argument.buf = 0;
                result
            }
            Request::Warm(argument, blocks) => {
                // The blocks outlive the call; the kernel reads them only.
                argument.buf = blocks.as_ptr() as u64;
                argument.n = u32::try_from(blocks.len()).unwrap_or(u32::MAX);
                let result = self.ioctl(14, argument);
                argument.buf = 0;
                result
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_jifl_device_says_enotty() {
        let device = Device::open("/dev/null").unwrap();
        let error = device.call(Request::Info(&mut Info::default()));
        assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::ENOTTY));
    }
}
