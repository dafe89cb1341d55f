// SPDX-License-Identifier: MIT OR Apache-2.0
//! `include/uapi/jifl.h` in Rust. That header explains every member. A test compares sizes, offsets
//! and constants with those that the C compiler computes from the header.

/// Version of the ABI this program was built for.
pub const ABI_VERSION: u32 = 29;
/// Path of the device.
pub const DEVICE: &str = "/dev/jifl";
/// System call numbers below this can be targets.
pub const NR_MAX: usize = 512;
/// Maximum of targets in one session.
pub const TARGETS_MAX: usize = 1 << 18;
/// Maximum of the callers in a [`Condition`].
pub const CALLERS_MAX: usize = 8;
/// Maximum of the values in a [`Condition`].
pub const VALUES_MAX: usize = 8;
/// Maximum of conditions in one session.
pub const CONDITIONS_MAX: usize = 1 << 12;
/// Targets that the calls of a session can be made under.
pub const UNDER_MAX: usize = 1 << 12;
/// Of [`TargetSpec::kind`]: a system call, by its number.
pub const TARGET_SYSCALL: u32 = 1;
/// Of [`TargetSpec::kind`]: a function, by the address where it begins.
pub const TARGET_FUNCTION: u32 = 2;
/// Of [`TargetSpec::flags`]: it is left out if it cannot be entered.
pub const TARGET_OPTIONAL: u32 = 1 << 0;
/// Of [`TargetSpec::flags`]: the value is signed.
pub const TARGET_SIGNED: u32 = 1 << 1;
/// Of [`TargetSpec::flags`]: the function returns nothing.
pub const TARGET_VOID: u32 = 1 << 2;

/// Of [`TargetSpec::flags`]: the value has this many bytes: 1, 2, 4 or 8.
pub const fn target_bytes(n: u32) -> u32 {
    n << 8
}

/// Of [`TargetSpec::flags`]: the value is this argument, by its register, 0 to 5.
pub const fn target_arg(n: u32) -> u32 {
    (n + 1) << 16
}

/// Of [`TargetSpec::scope`]: the target and all that it calls.
pub const SCOPE_UNDER: u32 = 0;
/// Of [`TargetSpec::scope`]: the function alone. What it calls runs natively.
pub const SCOPE_ONLY: u32 = 1;
/// Size of a name, its NUL included.
pub const NAME_MAX: usize = 32;
/// Size of a function's name, its NUL included.
pub const SYMBOL_MAX: usize = 64;
/// Bytes of a line that a plugin makes of a record, its end included.
pub const PLUGIN_LINE_MAX: usize = 1024;
/// Size of a command name, its NUL included.
pub const COMM_MAX: usize = 16;

/// Names of the causes of native exits, by their index into
/// [`Status::native_exits`]; the first is no exit.
pub const CAUSES: &[&str] = &[
    "none",
    "schedule",
    "ud2",
    "int3",
    "stack-switch",
    "privileged",
    "undecoded",
    "noinstr",
    "tracer",
    "foreign",
    "own",
    "memory",
    "stale",
    "replaced",
];
/// Whether a call of an analysis routine was inlined, or why not, by [`RoutineInfo::reason`].
pub const INLINES: &[&str] = &[
    "inlined",
    "too long",
    "uses the stack",
    "branches out of itself, or indirectly",
    "has code that the kernel may change",
    "has an instruction that cannot be copied",
    "calls others, which want an aligned stack",
    "called at entry or exit of a system call",
    "given all registers",
];
/// Room for causes in the ABI.
pub const CAUSES_MAX: usize = 32;
/// Why calls were not counted, by their index into [`Status::missed`].
pub const MISSES: &[&str] = &[
    "cache-full",
    "flush",
    "session-end",
    "text-change",
    "native",
    "no-room",
    "nested",
    "softirq",
    "interrupt",
    "nmi",
    "idle",
    "stopper",
    "own",
    "condition",
];
/// Room for reasons in the ABI.
pub const MISSES_MAX: usize = 16;
/// Why a task that was inside a function at the start goes on natively, by [`Start::left`].
pub const LEFT: &[&str] = &["traced", "stack", "other-session", "code", "own", "no-room"];
/// Room for reasons in the ABI.
pub const LEFT_MAX: usize = 8;
/// Why a function cannot be a target, by [`TargetSpec::refused`]. The first says that it is one.
pub const REFUSALS: &[&str] = &[
    "none",
    "no function begins there",
    "it has no call of the tracer (fentry) at its beginning, and nothing can stand there in its place",
    "a BPF program or another tracer has its fentry site, and nothing can stand behind it",
    "the kernel forbids probes in it (noinstr, kprobe blacklist)",
    "it switches tasks or stacks",
    "idle tasks and interrupts' entries run it",
    "it changes the kernel's text, or is needed to do so",
    "it stops the machine",
    "it waits for tasks to leave freed code (RCU tasks)",
    "JIFL itself needs it",
    "its code cannot be copied",
    "one session has it with what it calls, and one without (--only)",
    "this kernel lacks direct calls of ftrace or return hooks (rethook)",
    "another session replaces it: `jifl replace` shows which",
    "what is to replace it is replaced by it",
    "what is to replace it is no function of a loaded module with an fentry site",
    "a live patch has replaced it: name the function that is called now",
];

/// Why a place in a function cannot be probed, by [`Splice::refused`]. The first says that it can.
pub const SPLICE_REFUSALS: &[&str] = &[
    "none",
    "it is not in the function",
    "no instruction begins there",
    "no branch on a condition stands there",
    "the kernel allows no breakpoint there: it changes the instruction itself (static key, static \
     call, alternative), or it is a warning's",
    "the kernel could not set a breakpoint there",
    "JIFL itself calls the function when a thread meets a breakpoint",
    "a program sees no registers there: use the instruction behind the call of the tracer",
    "kprobes are switched off: write 1 to /sys/kernel/debug/kprobes/enabled",
    "the function's fentry site is another tracer's, and nothing is counted there: use the \
     instruction behind it",
];
/// Of [`SPLICE_REFUSALS`]: no instruction begins there.
pub const SPLICE_BOUNDARY: u32 = 2;
/// Of [`SPLICE_REFUSALS`]: the kernel changes the instruction itself.
pub const SPLICE_OWNED: u32 = 4;

/// Of [`SPLICE_REFUSALS`]: JIFL itself calls the function.
pub const SPLICE_OWN: u32 = 6;
/// Of [`SPLICE_REFUSALS`]: another tracer has the function's fentry site.
pub const SPLICE_SITE: u32 = 9;

/// Of [`REFUSALS`]: the function has no fentry site.
pub const REFUSED_SITE: u32 = 2;
/// Of [`REFUSALS`]: it switches tasks or stacks.
pub const REFUSED_SCHEDULE: u32 = 5;
/// Of [`REFUSALS`]: idle tasks and interrupts' entries run it.
pub const REFUSED_IDLE: u32 = 6;
/// Of [`REFUSALS`]: it changes the kernel's text.
pub const REFUSED_PATCHING: u32 = 7;
/// Of [`REFUSALS`]: it stops the machine.
pub const REFUSED_STOP: u32 = 8;
/// Of [`REFUSALS`]: it waits for RCU tasks.
pub const REFUSED_RCU_TASKS: u32 = 9;
/// Of [`REFUSALS`]: JIFL itself needs it.
pub const REFUSED_OWN: u32 = 10;

/// Thread id.
pub const FILTER_PID: u32 = 1 << 0;
/// Process id.
pub const FILTER_TGID: u32 = 1 << 1;
/// Command name.
pub const FILTER_COMM: u32 = 1 << 2;
/// Control group, descendants included.
pub const FILTER_CGROUP: u32 = 1 << 3;
/// With [`FILTER_TGID`]: descendants too.
pub const FILTER_CHILDREN: u32 = 1 << 4;
/// Levels, see [`Start::levels`].
pub const FILTER_LEVELS: u32 = 1 << 5;
/// In which contexts targets are entered, by `enum jifl_level`: [`Key::level`], and bits of
/// [`Start::levels`].
pub const LEVELS: &[&str] = &["task", "softirq", "irq"];
/// Count the repetitions of repeated string instructions too.
pub const FLAG_REPEATS: u32 = 1 << 0;
/// Counts are added by an analysis function.
pub const FLAG_FUNCTION: u32 = 1 << 1;
/// No register or flag counts as dead.
pub const FLAG_NO_LIVENESS: u32 = 1 << 2;
/// The analysis function is called wherever it could be inlined.
pub const FLAG_NO_INLINING: u32 = 1 << 3;
/// With [`Kind::Profile`]: conditional branches, too.
pub const FLAG_BRANCHES: u32 = 1 << 4;
/// Sums for each command name; see [`Keys`].
pub const FLAG_BY_COMM: u32 = 1 << 5;
/// Sums for each process.
pub const FLAG_BY_PID: u32 = 1 << 6;
/// Sums for each CPU.
pub const FLAG_BY_CPU: u32 = 1 << 7;
/// With [`Kind::Call`]: how long calls last, in nanoseconds.
pub const FLAG_DURATION: u32 = 1 << 8;
/// With [`Kind::Call`]: return values.
pub const FLAG_RETVAL: u32 = 1 << 9;

/// With [`Kind::Call`]: an argument, 0 to 5.
pub const fn flag_arg(n: u32) -> u32 {
    1 << (10 + n)
}

/// With [`Kind::Trace`]: records of arguments and return values.
pub const FLAG_VALUES: u32 = 1 << 16;
/// With [`Kind::Trace`]: records of the times of entries and exits.
pub const FLAG_CLOCK: u32 = 1 << 17;
/// With [`Kind::Trace`], [`Kind::Path`] and [`Kind::Mem`]: a thread waits at the end of its call if
/// the ring is half full, until the ring has been read.
pub const FLAG_WAIT: u32 = 1 << 18;

/// Sums for each level; see [`Key::level`].
pub const FLAG_BY_LEVEL: u32 = 1 << 19;
/// All of `FLAG_BY_*`.
pub const FLAGS_BY: u32 = FLAG_BY_COMM | FLAG_BY_PID | FLAG_BY_CPU | FLAG_BY_LEVEL;
/// With NONE, INSN, BLOCK, PROFILE: tasks inside a function at the start go on in the cache.
pub const FLAG_ADOPT: u32 = 1 << 20;

/// All flags that ask for a value of each call.
pub const FLAGS_VALUE: u32 = FLAG_DURATION | FLAG_RETVAL | (0x3f * flag_arg(0));

/// Names of the flags in [`Segment::live_flags`], by their bits.
pub const LIVE_FLAGS: [char; 7] = ['C', 'P', 'A', 'Z', 'S', 'O', 'D'];
/// Of [`Block::flags`]: its source has changed.
pub const BLOCK_DEAD: u32 = 1 << 0;
/// [`Block::flags`]: it counts a native exit and leaves.
pub const BLOCK_NATIVE: u32 = 1 << 1;
/// [`Block::flags`]: native code enters through it.
pub const BLOCK_ENTRY: u32 = 1 << 2;
/// [`Block::flags`]: it runs into the next block.
pub const BLOCK_FALLS: u32 = 1 << 3;
/// [`Block::flags`]: its liveness is known.
pub const BLOCK_LIVENESS: u32 = 1 << 4;
/// Maximum of sessions whose inserts a block can have.
pub const BLOCK_SESSIONS: usize = 4;

/// [`Segment::kind`]: the copy of one instruction.
pub const SEGMENT_ORIGINAL: u8 = 0;
/// [`Segment::kind`]: inserted code.
pub const SEGMENT_INSERTED: u8 = 1;
/// [`Segment::kind`]: inserted: the body of an analysis routine, or of a record.
pub const SEGMENT_INLINED: u8 = 2;
/// [`Segment::kind`]: goes on to what follows the original block.
pub const SEGMENT_ONWARD: u8 = 3;

/// Log2 of the buckets that each power of two is cut into.
pub const HIST_SUB_BITS: u32 = 4;
/// Buckets that each power of two is cut into.
pub const HIST_SUB: u64 = 1 << HIST_SUB_BITS;
/// Each value below this has a bucket of its own.
pub const HIST_EXACT: u64 = HIST_SUB << 1;
/// Number of buckets.
pub const HIST_BUCKETS: usize = 640;
/// The bucket of arguments and results below 0. It follows those of the powers of two.
pub const HIST_NEGATIVE: usize = 64;

/// Declares a structure of the ABI: all bytes zero but `size`, which the
/// module checks first.
macro_rules! abi_struct {
    (
        $(#[$meta:meta])*
        $name:ident { $( $(#[$fmeta:meta])* $vis:vis $field:ident : $type:ty, )* }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        #[repr(C)]
        pub struct $name { $( $(#[$fmeta])* $vis $field: $type, )* }

        impl Default for $name {
            fn default() -> Self {
                let mut all = $name { $( $field: zeroed::<$type>(), )* };
                all.size = std::mem::size_of::<$name>() as u32;
                all
            }
        }

        #[cfg(test)]
        impl $name {
            /// Offset and size of each member, then the size of the whole.
            pub(crate) fn layout() -> Vec<(&'static str, usize, usize)> {
                let mut all = vec![ $( (
                    stringify!($field),
                    std::mem::offset_of!($name, $field),
                    std::mem::size_of::<$type>(),
                ), )* ];
                all.push(("", 0, std::mem::size_of::<$name>()));
                all
            }
        }
    };
}

/// Types of members: integers and arrays of them.
trait Zeroed {
    fn value() -> Self;
}

fn zeroed<T: Zeroed>() -> T {
    T::value()
}

macro_rules! zeroed_integers {
    ($($type:ty)*) => { $(
        impl Zeroed for $type {
            fn value() -> Self { 0 }
        }
        impl<const N: usize> Zeroed for [$type; N] {
            fn value() -> Self { [0; N] }
        }
    )* };
}
zeroed_integers!(u8 u16 u32 i32 u64);

abi_struct! {
    /// `struct jifl_info`: the module that answers.
    Info {
        /// Of this structure.
        pub size: u32,
        /// Version of the ABI the module speaks.
        pub abi_version: u32,
        /// Version of the module, NUL-terminated.
        pub version: [u8; NAME_MAX],
        /// Possible CPUs.
        pub cpus: u32,
        /// Zero.
        pub reserved: u32,
    }
}

abi_struct! {
    /// `struct jifl_start`: starts a session.
    Start {
        /// Of this structure.
        pub size: u32,
        /// A [`Kind`].
        pub kind: u32,
        /// `FILTER_*` that all must match.
        pub filters: u32,
        /// Thread id in the caller's namespace.
        pub pid: i32,
        /// Process id in the caller's namespace.
        pub tgid: i32,
        /// Out, with EBUSY: index of a target that another session has; with EOPNOTSUPP: of a
        /// function that cannot be entered.
        pub busy_target: u32,
        /// Out, with EBUSY: that session; 0 is this file's own.
        pub busy_session: u64,
        /// Inode number of the group's directory.
        pub cgroup: u64,
        /// Command name.
        pub comm: [u8; COMM_MAX],
        /// `FLAG_*`.
        pub flags: u32,
        /// Number of targets. Set by [`crate::device`] alone, like the next member.
        pub(crate) ntargets: u32,
        /// In: where they are.
        pub(crate) targets: u64,
        /// Out: number of the session.
        pub session: u64,
        /// With [`FILTER_LEVELS`]: a bit for each of [`LEVELS`], one or more.
        pub levels: u32,
        /// Number of conditions. Set by [`crate::device`] alone, like the next member.
        pub(crate) nconditions: u32,
        /// In: where they are.
        pub(crate) conditions: u64,
        /// Out, with [`FLAG_ADOPT`]: tasks that were inside a function, and go on in the cache.
        pub adopted: u32,
        /// Number of targets that calls are made under; 0: under anything. Set by [`crate::device`]
        /// alone, like the next member.
        pub(crate) nunder: u32,
        /// In: where they are.
        pub(crate) under: u64,
        /// Number of places. Set by [`crate::device`] alone, like [`Start::splices`].
        pub(crate) nsplices: u32,
        /// Number of counters. Set by [`crate::device`] alone, like [`Start::counters`].
        pub(crate) ncounters: u32,
        /// Out, with [`FLAG_ADOPT`]: tasks that were inside, and go on natively, by [`LEFT`].
        pub left: [u32; LEFT_MAX],
        /// In: where they are.
        pub(crate) splices: u64,
        /// Number of programs. Set by [`crate::device`] alone, like the next two members.
        pub(crate) nactions: u32,
        /// Number of their ops.
        pub(crate) nops: u32,
        /// Bytes of their strings.
        pub(crate) nstrings: u32,
        /// Bytes of records for each CPU; 0: nothing is recorded.
        pub ring: u32,
        /// In: where the programs are. Set by [`crate::device`] alone, like the next two members.
        pub(crate) actions: u64,
        /// In: where their ops are.
        pub(crate) ops: u64,
        /// In: where their strings are.
        pub(crate) strings: u64,
        /// Out, with EBADRQC: index of a program that is none.
        pub bad_action: u32,
        /// Out, with EBADRQC: index of the op in it.
        pub bad_op: u32,
        /// In: where the counters are. Set by [`crate::device`] alone.
        pub(crate) counters: u64,
        /// Out, with ENXIO: index of a counter that is not there.
        pub bad_counter: u32,
        /// Zero.
        pub reserved: u32,
    }
}

/// Part of `struct jifl_condition`: a range of code. A call from it returns above its begin, and
/// not above its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct Caller {
    /// Where it begins.
    pub begin: u64,
    /// Where it ends.
    pub end: u64,
}

/// `struct jifl_condition`: which calls of a function are meant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct Condition {
    pub(crate) callers: u32,
    pub(crate) values: u32,
    pub(crate) caller: [Caller; CALLERS_MAX],
    pub(crate) value: [u64; VALUES_MAX],
}

impl Condition {
    /// Calls from one of these ranges, if there are any, whose first argument is one of these
    /// values, if there are any. `None`: these are too many, or none at all.
    pub fn new(callers: &[Caller], values: &[u64]) -> Option<Condition> {
        let mut condition = Condition {
            callers: callers.len() as u32,
            values: values.len() as u32,
            ..Condition::default()
        };
        if callers.is_empty() && values.is_empty() {
            return None;
        }
        condition
            .caller
            .get_mut(..callers.len())?
            .copy_from_slice(callers);
        condition
            .value
            .get_mut(..values.len())?
            .copy_from_slice(values);
        Some(condition)
    }
}

/// `struct jifl_target_spec`: a target in the list of a session. Everywhere else its index in this
/// list stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct TargetSpec {
    /// `TARGET_*`.
    pub kind: u32,
    /// `SCOPE_*`.
    pub scope: u32,
    /// By kind.
    pub id: u64,
    /// Of kinds that are functions.
    pub address: u64,
    /// Of kinds that are known by names, NUL-terminated.
    pub name: [u8; SYMBOL_MAX],
    /// `TARGET_OPTIONAL` and so on, of functions.
    pub flags: u32,
    /// Out, of functions: an index into [`REFUSALS`].
    pub refused: u32,
    /// Of functions: which calls are meant; 1 is the first condition, 0 none.
    pub condition: u32,
    /// Zero.
    pub reserved: u32,
}

impl TargetSpec {
    /// A system call.
    pub fn syscall(nr: u32) -> TargetSpec {
        TargetSpec {
            kind: TARGET_SYSCALL,
            scope: SCOPE_UNDER,
            id: nr.into(),
            address: 0,
            name: [0; SYMBOL_MAX],
            flags: 0,
            refused: 0,
            condition: 0,
            reserved: 0,
        }
    }

    /// A function that begins at `address`. `name` may be cut.
    pub fn function(address: u64, name: &str) -> TargetSpec {
        let mut spec = TargetSpec {
            kind: TARGET_FUNCTION,
            scope: SCOPE_UNDER,
            id: 0,
            address,
            name: [0; SYMBOL_MAX],
            flags: 0,
            refused: 0,
            condition: 0,
            reserved: 0,
        };
        for (to, from) in spec.name[..SYMBOL_MAX - 1].iter_mut().zip(name.bytes()) {
            *to = from;
        }
        spec
    }
}

/// Of [`Splice::action`] with [`Kind::Times`]: calls of the function come here where they begin.
pub const TIMES_ENTER: u32 = 1 << 0;
/// Of [`Splice::action`] with [`Kind::Times`]: the function returns here.
pub const TIMES_LEAVE: u32 = 1 << 1;
/// Of [`Splice::action`] with [`Kind::Times`] and [`TIMES_LEAVE`]: to another function, by a jump.
pub const TIMES_JUMP: u32 = 1 << 2;
/// In [`Splice::action`] with [`TIMES_ENTER`]: times the number, from 1 on, of the program that
/// tells what a call is about.
pub const TIMES_PROGRAM: u32 = 1 << 8;
/// Of [`Splice::where_`]: executions of the instruction.
pub const SPLICE_BEFORE: u32 = 0;
/// Of [`Splice::where_`]: the branch there is taken.
pub const SPLICE_TAKEN: u32 = 1;
/// Of [`Splice::where_`]: the branch there is not taken.
pub const SPLICE_NOT_TAKEN: u32 = 2;
/// Maximum of places in one session.
pub const SPLICES_MAX: usize = 1 << 16;

/// `struct jifl_splice`: a place in the code of a function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct Splice {
    /// Of an instruction.
    pub address: u64,
    /// Index of the function in the list of targets.
    pub target: u32,
    /// `SPLICE_*`.
    pub where_: u32,
    /// Out: an index into [`SPLICE_REFUSALS`].
    pub refused: u32,
    /// Its program: 1 is the session's first; 0: executions are counted.
    pub action: u32,
}

abi_struct! {
    /// `struct jifl_irq`: what handles an interrupt.
    Irq {
        /// Of this structure.
        pub size: u32,
        /// In: its number.
        pub irq: u32,
        /// In: which of those that share it, from 0.
        pub action: u32,
        /// Zero.
        pub reserved: u32,
        /// Out: the function that is called in the interrupt.
        pub handler: u64,
        /// Out: what a thread calls afterwards; 0: none.
        pub thread: u64,
        /// Out: as in /proc/interrupts, NUL-terminated; may be cut.
        pub name: [u8; SYMBOL_MAX],
    }
}

/// Room for the threads of a [`Replacement`].
pub const THREADS_MAX: usize = 8;

/// `struct jifl_thread`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Thread {
    /// In the first pid namespace.
    pub pid: i32,
    /// Its command name, NUL-terminated.
    pub comm: [u8; COMM_MAX],
}

impl Zeroed for [Thread; THREADS_MAX] {
    fn value() -> Self {
        [Thread::default(); THREADS_MAX]
    }
}

abi_struct! {
    /// `struct jifl_replacement`: one replacement, for listings.
    Replacement {
        /// Of this structure.
        pub size: u32,
        /// Zero.
        pub unused: u32,
        /// In: number of the last session seen, first 0. Out: number of its session.
        pub session: u64,
        /// Out: where the replaced function begins.
        pub address: u64,
        /// Out: where the replacing function begins.
        pub with: u64,
        /// Out: whether its session has ended.
        pub ended: u32,
        /// Out: threads inside the replaced function; of an ended session, in the module of the
        /// replacing one.
        pub inside: u32,
        /// Out: of these, as their stacks cannot be read.
        pub unread: u32,
        /// Zero.
        pub reserved: u32,
        /// Out: the first of these.
        pub threads: [Thread; THREADS_MAX],
    }
}

abi_struct! {
    /// `struct jifl_stop`: ends this file's session.
    Stop {
        /// Of this structure.
        pub size: u32,
        /// Out: threads that were inside.
        pub draining: u32,
        /// Out: time until no thread was inside.
        pub drain_ns: u64,
    }
}

abi_struct! {
    /// `struct jifl_stat`: one target's statistics.
    Stat {
        /// Of this structure.
        pub size: u32,
        /// In: its index.
        pub target: u32,
        /// Calls counted to their end.
        pub calls: u64,
        /// Of these, calls in which the task died.
        pub no_return: u64,
        /// Instructions or blocks, by the session's kind.
        pub sum: u64,
        /// Of one call.
        pub min: u64,
        /// Of one call.
        pub max: u64,
        /// Calls not counted.
        pub missed: u64,
        /// Blocks translated for this target first.
        pub blocks: u64,
        /// In: where the histogram goes. Set by [`crate::device`] alone: the
        /// kernel writes there.
        pub(crate) hist: u64,
        /// Calls not counted, by [`MISSES`].
        pub missed_by: [u64; MISSES_MAX],
        /// Calls that had begun before the session, which [`Stat::calls`] does not contain.
        pub adopted: u64,
        /// What was counted in those of them that have ended since.
        pub adopted_sum: u64,
    }
}

impl Stat {
    /// A request for the statistics of one target.
    pub fn of(target: u32) -> Stat {
        Stat {
            target,
            ..Stat::default()
        }
    }
}

abi_struct! {
    /// `struct jifl_status`: totals of the whole module.
    Status {
        /// Of this structure.
        pub size: u32,
        /// Running.
        pub sessions: u32,
        /// Live in the cache.
        pub blocks: u64,
        /// Ever.
        pub translated_blocks: u64,
        /// Ever; original instructions.
        pub translated_insns: u64,
        /// Time spent translating.
        pub translate_ns: u64,
        /// Times the dispatcher ran.
        pub dispatches: u64,
        /// Exits linked to blocks, ever.
        pub links: u64,
        /// Bytes of code cache in use.
        pub code_used: u64,
        /// Bytes of code cache in all.
        pub code_size: u64,
        /// Bytes of each page of its executable mapping.
        pub code_page: u64,
        /// Bytes of side tables in use.
        pub side_used: u64,
        /// Bytes of side tables in all.
        pub side_size: u64,
        /// Generations freed.
        pub flushes: u64,
        /// Blocks dropped because the kernel's text changed.
        pub invalidated: u64,
        /// Threads moved out of such blocks, ever.
        pub traps: u64,
        /// Exceptions taken on cache addresses.
        pub faults: u64,
        /// Calls not counted, all sessions ever, see [`MISSES`].
        pub missed: [u64; MISSES_MAX],
        /// By cause, see [`CAUSES`].
        pub native_exits: [u64; CAUSES_MAX],
    }
}

abi_struct! {
    /// `struct jifl_session_info`: one session, for listings.
    SessionInfo {
        /// Of this structure.
        pub size: u32,
        /// Out: a [`Kind`].
        pub kind: u32,
        /// In: find the first above this; out: its number.
        pub id: u64,
        /// Out: process id of the opener, 0 for a plugin.
        pub owner: i32,
        /// Out: number of system calls.
        pub targets: u32,
        /// Out: calls finished so far; 0 for kinds that do not count.
        pub calls: u64,
        /// Out: opener's command name, or plugin.
        pub name: [u8; NAME_MAX],
    }
}

abi_struct! {
    /// `struct jifl_detach`: ends other files' sessions.
    Detach {
        /// Of this structure.
        pub size: u32,
        /// Out: how many ended.
        pub ended: u32,
        /// In: which, 0 for all.
        pub id: u64,
        /// Out: time until no thread was inside.
        pub drain_ns: u64,
    }
}

abi_struct! {
    /// `struct jifl_plugin_ctl`: starts or stops a plugin.
    PluginCtl {
        /// Of this structure.
        pub size: u32,
        /// 1 starts, 0 stops.
        pub start: u32,
        /// Of the plugin.
        pub name: [u8; NAME_MAX],
    }
}

abi_struct! {
    /// `struct jifl_plugin_info`: one loaded plugin, for listings.
    PluginInfo {
        /// Of this structure.
        pub size: u32,
        /// In: from 0 until ENOENT.
        pub index: u32,
        /// Out: whether it runs.
        pub started: u32,
        /// Zero.
        pub reserved: u32,
        /// Out.
        pub name: [u8; NAME_MAX],
    }
}

abi_struct! {
    /// `struct jifl_plugin_read`: takes records out of a plugin's ring, as lines.
    PluginRead {
        /// Of this structure.
        pub size: u32,
        /// In: bytes of the buffer; out: bytes of lines.
        pub n: u32,
        /// Of the plugin.
        pub name: [u8; NAME_MAX],
        pub(crate) buf: u64,
        /// In: no records that are newer than this CLOCK_MONOTONIC, in nanoseconds; 0: all.
        pub until: u64,
        /// Out: records that found no room since the plugin's start.
        pub lost: u64,
        /// Out: number of records.
        pub records: u32,
        /// Out: 1: more may come.
        pub started: u32,
    }
}

abi_struct! {
    /// `struct jifl_routine_info`: how the calls of an analysis routine were inserted.
    RoutineInfo {
        /// Of this structure.
        pub size: u32,
        /// In: from 0 until ENOENT.
        pub index: u32,
        /// Out: places where it was inlined.
        pub copies: u64,
        /// Out: places where it is called.
        pub calls: u64,
        /// Out: index into [`INLINES`], of the last such place.
        pub reason: u32,
        /// Zero.
        pub reserved: u32,
        /// Out.
        pub name: [u8; SYMBOL_MAX],
    }
}

/// `struct jifl_segment`: a piece of a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Segment {
    /// Bytes of the copy.
    pub code_len: u16,
    /// Bytes of the original instruction.
    pub src_len: u8,
    /// `SEGMENT_*`.
    pub kind: u8,
    /// Words of inserted code on the stack at its beginning.
    pub pushed: u8,
    /// Live before it, by bit; see [`LIVE_FLAGS`].
    pub live_flags: u8,
    /// Live registers before it: 1 << hardware number of the register.
    pub live_regs: u16,
}

abi_struct! {
    /// `struct jifl_block`: one block of the code cache.
    Block {
        /// Of this structure.
        pub size: u32,
        /// In: the first index to look at; out: the block's index.
        pub index: u32,
        /// In: the session whose inserts it has; 0 for any.
        pub session: u64,
        /// Out: address of the original code.
        pub orig: u64,
        /// Out: address of the copy.
        pub cache: u64,
        /// Out: the sessions whose inserts it has.
        pub sessions: [u64; BLOCK_SESSIONS],
        /// Out: `BLOCK_*`.
        pub flags: u32,
        /// Out: original instructions that it stands for.
        pub insns: u32,
        /// Room for the original code, and its length. [`crate::device`] sets this and all that
        /// follow, because the kernel writes there.
        pub(crate) src_len: u32,
        pub(crate) code_len: u32,
        pub(crate) nsegments: u32,
        pub(crate) reserved: u32,
        pub(crate) src: u64,
        pub(crate) code: u64,
        pub(crate) segments: u64,
    }
}

impl Block {
    /// A request for the first block of a session from an index on.
    pub fn from(index: u32, session: u64) -> Block {
        Block {
            index,
            session,
            ..Block::default()
        }
    }
}

// Below the macros, because both modules use them.
#[macro_use]
mod actions;
mod flight;
mod kinds;
mod records;
mod tables;

pub use actions::*;
pub use flight::*;
pub use kinds::*;
pub use records::*;
pub use tables::*;

/// Copies `text` into a NUL-terminated member; `None` when it does not fit.
pub fn to_name<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut name = [0; N];
    if text.len() >= N || text.contains(&0) {
        return None;
    }
    name[..text.len()].copy_from_slice(text);
    Some(name)
}

/// The text in a NUL-terminated member.
pub fn from_name(name: &[u8]) -> String {
    let end = name
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

/// Numbers of the requests, as `_IOWR` of linux/ioctl.h builds them.
pub(crate) const fn request(nr: u32, size: usize) -> u32 {
    const READ_WRITE: u32 = 3;
    const MAGIC: u32 = 0xf1;
    READ_WRITE << 30 | (size as u32) << 16 | MAGIC << 8 | nr
}
