// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of sessions: counts of blocks, accesses, keys and locks.

use super::*;

abi_struct! {
    /// `struct jifl_table_read`: reads entries of a table of this file's session.
    TableRead {
        /// Of this structure.
        pub size: u32,
        /// In: which table. Set by [`crate::device`].
        pub table: u32,
        /// In: bytes of an entry. Set by [`crate::device`].
        pub entry: u32,
        /// In: the first to read.
        pub from: u32,
        /// Out: how many came. In: set by [`crate::device`].
        pub n: u32,
        /// In: of tables that ask for one; else 0.
        pub cpu: u32,
        /// In: where they go. Set by [`crate::device`] alone: the kernel writes there.
        pub(crate) buf: u64,
        /// Out: what stands in no entry, by table.
        pub rest: [u64; 3],
    }
}

impl TableRead {
    /// The question for entries from a number on, and for a CPU, if the table asks for one.
    pub fn from(from: u32, cpu: u32) -> TableRead {
        TableRead {
            from,
            cpu,
            ..TableRead::default()
        }
    }
}

/// [`Entry::TABLE`] of [`Key`].
pub const TABLE_KEYS: u32 = 0x8000_0000;

/// An entry of a table.
///
/// # Safety
/// It is the structure that the ABI has for the table, `repr(C)`, and all its members are integers
/// or arrays of them: the kernel writes any bytes into it.
pub unsafe trait Entry: Copy + Default + 'static {
    /// The kind of the table's sessions, or [`TABLE_KEYS`].
    const TABLE: u32;
}

/// `struct jifl_count`: how often a block was executed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Count {
    /// Its original address.
    pub orig: u64,
    /// Times that it was.
    pub executed: u64,
    /// Of these, times that its branch was taken.
    pub taken: u64,
    /// Where its branch leads.
    pub target: u64,
    /// Bytes of the original.
    pub src_len: u32,
    /// Original instructions that it stands for.
    pub insns: u32,
    /// Offset of the branch on a condition that ends it, or [`NO_BRANCH`].
    pub branch: u32,
    /// FNV-1a of its bytes as they were translated.
    pub hash: u32,
}

// SAFETY: it is `struct jifl_count`, as the test of the ABI holds, of integers.
unsafe impl Entry for Count {
    const TABLE: u32 = Kind::Profile as u32;
}

/// In [`TableRead::rest`] of [`Count`]: copies of blocks made without a counter, for want of room.
pub const COUNT_REFUSED: usize = 0;

/// Of [`Count::branch`].
pub const NO_BRANCH: u32 = 0xffff_ffff;

/// `struct jifl_warm_block`: a block that is to be translated before a call comes to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct WarmBlock {
    /// Its original address.
    pub orig: u64,
    /// Bytes of the original.
    pub src_len: u32,
    /// Original instructions that it stands for.
    pub insns: u32,
    /// As [`Count::hash`]; 0: not known.
    pub hash: u32,
    /// [`WARM_LAY`] and so on.
    pub flags: u32,
}

/// Of [`WarmBlock::flags`]: made anew if it exists, with nothing behind it but the blocks that
/// follow.
pub const WARM_LAY: u32 = 1;
/// Of [`WarmBlock::flags`], only with [`WARM_LAY`]: right behind the block before it in the list, if
/// that block leads to it.
pub const WARM_FOLLOWS: u32 = 2;

/// Blocks that one request may have.
pub const WARM_MAX: usize = 4096;

abi_struct! {
    /// `struct jifl_warm`: translates blocks for this file's session.
    Warm {
        /// Of this structure.
        pub size: u32,
        /// In: set by [`crate::device`].
        pub n: u32,
        /// In: where they are. Set by [`crate::device`] alone: the kernel reads there.
        pub(crate) buf: u64,
        /// Out: of these, in the cache now.
        pub present: u32,
        /// Out: of these, not what stands there.
        pub other: u32,
        /// Out: of these, not looked at, for want of room.
        pub left: u32,
        /// Out: targets whose entry piece is there.
        pub entries: u32,
        /// Out: blocks translated, with those that lay behind them.
        pub blocks: u64,
        /// Out: original instructions in these.
        pub insns: u64,
        /// Out: time spent translating.
        pub translate_ns: u64,
    }
}

/// [`Access::flags`]: it loads.
pub const ACCESS_LOAD: u8 = 1 << 0;
/// It stores.
pub const ACCESS_STORE: u8 = 1 << 1;
/// Where the CPU's own data are is to be added.
pub const ACCESS_PERCPU: u8 = 1 << 2;
/// Repetitions go to lower addresses.
pub const ACCESS_BACKWARDS: u8 = 1 << 3;
/// [`Access::repeats`] is the number of a bit: the word that has it is accessed.
pub const ACCESS_BITS: u8 = 1 << 4;
/// Of [`Access::base`], [`Access::repeats`] and [`Access::left`]: no word.
pub const ACCESS_NO_WORD: u8 = 0xff;
/// Of [`Access::base`]: the stack pointer at the record.
pub const ACCESS_STACK: u8 = 0xfe;

/// `struct jifl_access`: an operand in memory of an instruction of a block, and where its address
/// is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Access {
    /// The instruction's address.
    pub insn: u64,
    /// Is added to the base.
    pub disp: i64,
    /// Number of the first record of its block.
    pub block: u32,
    /// Of the record whose word is the base.
    pub record: u32,
    /// Of the record whose word is [`Access::repeats`].
    pub repeats_record: u32,
    /// Of the record whose word is [`Access::left`].
    pub left_record: u32,
    /// Bytes of one repetition; 0: not fixed.
    pub size: u16,
    /// Word of the record, [`ACCESS_STACK`] or [`ACCESS_NO_WORD`].
    pub base: u8,
    /// `ACCESS_*`
    pub flags: u8,
    /// Word: how often it is repeated.
    pub repeats: u8,
    /// Word: how often less.
    pub left: u8,
    /// Bytes of the instruction.
    pub insn_len: u16,
}

// SAFETY: it is `struct jifl_access`, as the test of the ABI holds, of integers.
unsafe impl Entry for Access {
    const TABLE: u32 = Kind::Mem as u32;
}

/// In [`TableRead::rest`] of [`Access`]: where the own data of the CPU are that was asked for.
pub const ACCESS_PERCPU_BASE: usize = 0;
/// In [`TableRead::rest`] of [`Access`]: copies of blocks that are not recorded, for want of room.
pub const ACCESS_REFUSED: usize = 1;

/// `struct jifl_key`: what a command name, process, CPU or level has of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Key {
    /// Number of the CPU.
    pub cpu: u32,
    /// The process.
    pub tgid: i32,
    /// The command name.
    pub comm: [u8; COMM_MAX],
    /// Calls.
    pub calls: u64,
    /// What was counted in them.
    pub sum: u64,
    /// The level, an index into [`super::LEVELS`].
    pub level: u32,
    /// 1: the calls had begun before the session.
    pub adopted: u32,
}

// SAFETY: it is `struct jifl_key`, as the test of the ABI holds, of integers.
unsafe impl Entry for Key {
    const TABLE: u32 = TABLE_KEYS;
}

/// In [`TableRead::rest`] of [`Key`]: calls of keys that there was no room for.
pub const KEY_OTHER_CALLS: usize = 0;
/// In [`TableRead::rest`] of [`Key`]: what was counted in these.
pub const KEY_OTHER_SUM: usize = 1;
/// In [`TableRead::rest`] of [`Key`]: calls without room that had begun before the session.
pub const KEY_OTHER_ADOPTED: usize = 2;

/// What locks are called, by [`Lock::kind`], as perf has them; the last is none, but a locked
/// cmpxchg that failed and is tried again.
pub const LOCK_TYPES: [&str; 10] = [
    "spinlock",
    "rwlock:R",
    "rwlock:W",
    "mutex",
    "rwsem:R",
    "rwsem:W",
    "semaphore",
    "rt-mutex",
    "pcpu-sem",
    "cmpxchg",
];
/// The last of them.
pub const LOCK_CMPXCHG: u32 = 9;

/// `struct jifl_lock`: one lock, where it is taken and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Lock {
    /// Its address; 0: not known.
    pub lock: u64,
    /// Of per-CPU data: the variable's, as in kallsyms; else 0.
    pub percpu: u64,
    /// Return address in who takes it; 0: not known.
    pub caller: u64,
    /// Address of the cmpxchg, or where the slow path begins.
    pub site: u64,
    /// Times that it was not got at once, or retries.
    pub contended: u64,
    /// Of these, waits whose end was seen.
    pub ended: u64,
    /// All those together.
    pub wait_ns: u64,
    /// The longest of them.
    pub max_ns: u64,
    /// Index into [`LOCK_TYPES`].
    pub kind: u32,
    /// With `percpu`: whose it is.
    pub cpu: u32,
}

// SAFETY: it is `struct jifl_lock`, as the test of the ABI holds, of integers.
unsafe impl Entry for Lock {
    const TABLE: u32 = Kind::Lock as u32;
}

/// In [`TableRead::rest`] of [`Lock`]: times that locks without room were waited for.
pub const LOCK_OTHER_CONTENDED: usize = 0;
/// In [`TableRead::rest`] of [`Lock`]: how long.
pub const LOCK_OTHER_WAIT_NS: usize = 1;
/// In [`TableRead::rest`] of [`Lock`]: waits that found no room for the time they began at.
pub const LOCK_UNTIMED: usize = 2;

/// `struct jifl_hits`: how often a place was executed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Hits {
    /// Executions; with a program, what its `HIT` counts.
    pub hits: u64,
    /// Threads that came to the instruction in native code.
    pub caught: u64,
    /// `HITS_NO_ROOM`, `HITS_SWITCHED_OFF`.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
    /// With a program: executions where the condition of its `IF` was unknown.
    pub untested: u64,
    /// With a program: executions inside a program, for which it has not run.
    pub nested: u64,
    /// Of `BPF`: a program ran on the CPU, so it did not run.
    pub unrun: u64,
}

// SAFETY: it is `struct jifl_hits`, as the test of the ABI holds, of integers.
unsafe impl Entry for Hits {
    const TABLE: u32 = Kind::Probe as u32;
}

/// In [`TableRead::rest`] of [`Hits`]: threads that a breakpoint has led into the code cache.
pub const HITS_MOVED: usize = 0;
/// In [`TableRead::rest`] of [`Hits`]: executions that were not counted.
pub const HITS_MISSED: usize = 1;
/// In [`Hits::flags`]: a copy has no counter for the place, for want of room.
pub const HITS_NO_ROOM: u32 = 1 << 0;
/// In [`Hits::flags`]: kprobes were switched off for a time.
pub const HITS_SWITCHED_OFF: u32 = 1 << 1;

/// What a session counts beside times, at most.
pub const COUNTERS_MAX: usize = 4;
/// Room for a tracepoint's name, with the NUL behind it.
pub const COUNTER_NAME_MAX: usize = 64;

/// In [`Counter::kind`]: how often the task has come to a tracepoint.
pub const COUNTER_TRACEPOINT: u32 = 1;
/// In [`Counter::kind`]: 8 bytes of the kernel's data.
pub const COUNTER_VARIABLE: u32 = 2;
/// In [`Counter::kind`]: 4 or 8 bytes that the kernel has for each processor.
pub const COUNTER_PROCESSOR: u32 = 3;
/// In [`Counter::kind`]: an event of /proc/vmstat.
pub const COUNTER_VMSTAT: u32 = 4;
/// In [`Counter::kind`]: a number of /proc/net/snmp or netstat.
pub const COUNTER_SNMP: u32 = 5;
/// In [`Counter::kind`]: what perf counts.
pub const COUNTER_PERF: u32 = 6;
/// In [`Counter::kind`]: what programs add up.
pub const COUNTER_VALUE: u32 = 7;
/// In [`Counter::kind`]: nanoseconds of interrupts and softirqs.
pub const COUNTER_INTERRUPTS: u32 = 8;
/// In [`Counter::kind`]: how many values a distribution has, of [`Counter::type_`].
pub const COUNTER_DISTRIBUTION: u32 = 9;
/// In [`Counter::type_`] of [`COUNTER_DISTRIBUTION`]: what programs add up.
pub const DISTRIBUTION_VALUE: u32 = 0;
/// In [`Counter::type_`] of [`COUNTER_DISTRIBUTION`]: all time of each call.
pub const DISTRIBUTION_WALL: u32 = 1;
/// In [`Counter::type_`] of [`COUNTER_DISTRIBUTION`]: of that, the time in which the task ran.
pub const DISTRIBUTION_CPU: u32 = 2;
/// In [`Counter::type_`] of [`COUNTER_DISTRIBUTION`]: the time in which it slept.
pub const DISTRIBUTION_BLOCKED: u32 = 3;
/// In [`Counter::type_`] of [`COUNTER_DISTRIBUTION`]: the time in which it could have run.
pub const DISTRIBUTION_RUNNABLE: u32 = 4;
/// In [`Counter::type_`] of [`COUNTER_SNMP`]: Ip and IpExt.
pub const COUNTER_IP: u32 = 0;
/// In [`Counter::type_`] of [`COUNTER_SNMP`]: Tcp.
pub const COUNTER_TCP: u32 = 1;
/// In [`Counter::type_`] of [`COUNTER_SNMP`]: TcpExt.
pub const COUNTER_TCP_EXT: u32 = 2;
/// In [`Counter::type_`] of [`COUNTER_SNMP`]: Udp.
pub const COUNTER_UDP: u32 = 3;
/// In [`Counter::type_`] of [`COUNTER_SNMP`]: UdpLite.
pub const COUNTER_UDP_LITE: u32 = 4;

/// `struct jifl_counter`: a number that only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Counter {
    /// Of a tracepoint its name; else empty.
    pub tracepoint: [u8; COUNTER_NAME_MAX],
    /// `COUNTER_*`.
    pub kind: u32,
    /// As the kind has it; else 0.
    pub type_: u32,
    /// As the kind has it; else 0.
    pub value: u64,
}

impl Counter {
    /// One without a name.
    pub fn new(kind: u32, type_: u32, value: u64) -> Counter {
        Counter {
            tracepoint: [0; COUNTER_NAME_MAX],
            kind,
            type_,
            value,
        }
    }
}

/// In [`Time::counted`]: it is not known.
pub const COUNTED_UNKNOWN: u64 = u64::MAX;

/// `struct jifl_time`: how often a function was called, and how long tasks were in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Time {
    /// Calls that began while the session ran.
    pub calls: u64,
    /// Calls that had begun before.
    pub adopted: u64,
    /// Of both, those that have not ended.
    pub inside: u64,
    /// Of both, those in which the task ended.
    pub died: u64,
    /// Of both, those that ended with a jump to another function.
    pub jumped: u64,
    /// Ends without a beginning: in none of the others.
    pub strays: u64,
    /// Nanoseconds that tasks ran.
    pub cpu_ns: u64,
    /// Nanoseconds that they slept, until they were woken.
    pub blocked_ns: u64,
    /// Nanoseconds that they could have run, and did not.
    pub runnable_ns: u64,
    /// Nanoseconds since the session began, when all this was read.
    pub elapsed_ns: u64,
    /// How much the session's counters grew inside.
    pub counted: [u64; COUNTERS_MAX],
}

// SAFETY: it is `struct jifl_time`, as the test of the ABI holds, of integers.
unsafe impl Entry for Time {
    const TABLE: u32 = Kind::Times as u32;
}

/// In [`TableRead::rest`] of [`Time`]: nanoseconds since the session began, or until it ended.
pub const TIMES_ELAPSED: usize = 0;
/// In [`TableRead::rest`] of [`Time`]: times that a task found no room for what it does.
pub const TIMES_UNWATCHED: usize = 1;
/// In [`TableRead::rest`] of [`Time`]: executions of places that were not seen.
pub const TIMES_MISSED: usize = 2;

/// [`Entry::TABLE`] of [`Object`].
pub const TABLE_OBJECTS: u32 = 0x8000_0003;
/// In [`Object::unknown`]: all other calls of the function.
pub const OBJECT_OTHERS: u32 = u32::MAX;

/// In [`TableRead::rest`] of [`Object`]: calls whose objects found no room.
pub const OBJECT_REFUSED: usize = 0;

/// `struct jifl_object`: calls of a function about one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Object {
    /// Index of the function among the session's targets.
    pub target: u32,
    /// Bit n: the nth part of its name is unknown; or [`OBJECT_OTHERS`].
    pub unknown: u32,
    /// What the ops of groups have put there; behind it 0.
    pub name: [u8; GROUP_MAX],
    /// Of these calls.
    pub time: Time,
}

impl Default for Object {
    fn default() -> Object {
        Object {
            target: 0,
            unknown: 0,
            name: [0; GROUP_MAX],
            time: Time::default(),
        }
    }
}

// SAFETY: it is `struct jifl_object`, as the test of the ABI holds, of integers.
unsafe impl Entry for Object {
    const TABLE: u32 = TABLE_OBJECTS;
}

/// [`Entry::TABLE`] of [`Distribution`].
pub const TABLE_DISTRIBUTIONS: u32 = 0x8000_0004;

/// `struct jifl_distribution`: how values of calls are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Distribution {
    /// Index of the function among the session's targets; or of the [`Object`].
    pub row: u32,
    /// Of the session's counters.
    pub counter: u32,
    /// Values by their number of bits; the last are below 0.
    pub bucket: [u64; GROUP_BUCKETS],
}

impl Default for Distribution {
    fn default() -> Distribution {
        Distribution {
            row: 0,
            counter: 0,
            bucket: [0; GROUP_BUCKETS],
        }
    }
}

// SAFETY: it is `struct jifl_distribution`, as the test of the ABI holds, of integers.
unsafe impl Entry for Distribution {
    const TABLE: u32 = TABLE_DISTRIBUTIONS;
}

/// `struct jifl_path`: a function, called by the path of its parent, without what it calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CallPath {
    /// Its address; 0: calls of targets that found no room.
    pub function: u64,
    /// Calls of it on this path.
    pub calls: u64,
    /// Instructions executed.
    pub insns: u64,
    /// Nanoseconds from beginning to end, with those below. With `FLAG_CLOCK`, as they are.
    pub wall_ns: u64,
    /// Nanoseconds that tasks slept, until they were woken.
    pub blocked_ns: u64,
    /// Nanoseconds that they could have run, and did not.
    pub runnable_ns: u64,
    /// Index of its caller's entry, which stands before it, plus 1; 0: the target was called.
    pub parent: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: it is `struct jifl_path`, as the test of the ABI holds, of integers.
unsafe impl Entry for CallPath {
    const TABLE: u32 = Kind::Tree as u32;
}

/// In [`TableRead::rest`] of [`CallPath`]: calls that are counted as parts of their callers, for want
/// of room.
pub const PATH_REFUSED: usize = 0;
/// In [`TableRead::rest`] of [`CallPath`]: returns that were none of a function on the path.
pub const PATH_STRAYS: usize = 1;
/// In [`TableRead::rest`] of [`CallPath`]: calls of targets without times.
pub const PATH_UNTIMED: usize = 2;
