// SPDX-License-Identifier: MIT OR Apache-2.0
//! `include/uapi/jifl_action.h` in Rust: programs at places, their records and their tables.

use super::*;

/// Maximum of the ops of one program.
pub const OPS_MAX: usize = 256;
/// Numbers that the stack of a program has room for.
pub const OP_STACK: usize = 16;
/// Maximum of programs in one session.
pub const ACTIONS_MAX: usize = 4096;
/// Maximum of the bytes of a session's strings.
pub const STRINGS_MAX: usize = 65536;
/// Maximum of the bytes of one string that is read, its end included.
pub const STRING_MAX: usize = 256;
/// Bytes of the name of a group.
pub const GROUP_MAX: usize = 64;
/// Maximum of the frames of a stack.
pub const FRAMES_MAX: usize = 32;
/// Maximum of the bytes of a record, its head included.
pub const HIT_MAX: usize = 2048;
/// Maximum of the bytes of records for each CPU.
pub const RING_MAX: u32 = 256 << 20;
/// Of [`Op::flags`]: numbers are signed.
pub const OP_SIGNED: u8 = 1 << 0;
/// Of [`Op::flags`] with [`Code::StrEq`]: what is behind the bytes is not read.
pub const OP_CUT: u8 = 1 << 1;
/// Of [`Op::arg`] with [`Code::Reg`]: the instruction's address.
pub const REG_RIP: u32 = 16;
/// Of [`Op::arg`] with [`Code::Reg`]: the flags.
pub const REG_FLAGS: u32 = 17;

/// Declares an enum of numbers that the header has, too: doc, name, number, name in the header.
macro_rules! numbers {
    (
        $(#[$outer:meta])* $enum:ident: $type:ty;
        $( $(#[$meta:meta])* $name:ident = $number:literal, $text:literal; )*
    ) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr($type)]
        pub enum $enum { $( $(#[$meta])* $name = $number, )* }

        impl $enum {
            /// All of them, in the order of their numbers.
            pub const ALL: &[$enum] = &[ $( $enum::$name, )* ];

            /// Its name in the header.
            pub fn name(self) -> &'static str {
                match self { $( $enum::$name => $text, )* }
            }

            /// The one with this number, if there is one.
            pub fn from_number(number: $type) -> Option<$enum> {
                match number { $( $number => Some($enum::$name), )* _ => None }
            }
        }
    };
}

numbers! {
    /// What an op does: [`Op::code`].
    Code: u8;
    /// Pushes `imm`.
    Const = 1, "CONST";
    /// Pushes the register `arg`.
    Reg = 2, "REG";
    /// Pushes what [`Get`] says.
    Get = 3, "GET";
    /// Top becomes the memory at top and `imm`.
    Load = 4, "LOAD";
    /// Top becomes its low bytes.
    Extend = 5, "EXTEND";
    /// Top becomes `arg` bits of it, from bit `imm` on.
    Bits = 6, "BITS";
    /// Top becomes -top.
    Negate = 7, "NEGATE";
    /// Top becomes ~top.
    Invert = 8, "INVERT";
    /// Top becomes !top.
    Not = 9, "NOT";
    /// Left + right.
    Add = 10, "ADD";
    /// Left - right.
    Sub = 11, "SUB";
    /// Left * right.
    Mul = 12, "MUL";
    /// Left / right.
    Div = 13, "DIV";
    /// Left % right.
    Mod = 14, "MOD";
    /// Left & right.
    And = 15, "AND";
    /// Left | right.
    Or = 16, "OR";
    /// Left ^ right.
    Xor = 17, "XOR";
    /// Left << right.
    Shl = 18, "SHL";
    /// Left >> right.
    Shr = 19, "SHR";
    /// Left == right.
    Eq = 20, "EQ";
    /// Left != right.
    Ne = 21, "NE";
    /// Left < right.
    Lt = 22, "LT";
    /// Left <= right.
    Le = 23, "LE";
    /// Whether the string at top is the `arg` bytes at `imm` of the session's strings.
    StrEq = 24, "STR_EQ";
    /// Skips `arg` ops and keeps top if it is 0, else takes it.
    SkipZero = 25, "SKIP_ZERO";
    /// Skips `arg` ops and keeps top if it is not 0, else takes it.
    SkipNonzero = 26, "SKIP_NONZERO";
    /// Ends the program unless what it takes is known and not 0.
    If = 64, "IF";
    /// Counts an execution of the place.
    Hit = 65, "HIT";
    /// 8 bytes of the group's name.
    Group = 66, "GROUP";
    /// `arg` bytes of the group's name: a string.
    GroupStr = 67, "GROUP_STR";
    /// 8 bytes of the group's name: the stack.
    GroupStack = 68, "GROUP_STACK";
    /// The value that [`Code::Sum`] adds up.
    Value = 69, "VALUE";
    /// Adds the hit and its value to its group.
    Sum = 70, "SUM";
    /// 8 bytes of the record.
    Out = 71, "OUT";
    /// A string in the record, of `arg` bytes at most, its end included.
    OutStr = 72, "OUT_STR";
    /// The stack in the record.
    OutStack = 73, "OUT_STACK";
    /// Writes the record.
    Record = 74, "RECORD";
    /// Runs the action's BPF program.
    Bpf = 75, "BPF";
    /// The call that begins here is about what the groups say.
    Object = 76, "OBJECT";
    /// Of [`super::Kind::Times`]: takes one, and adds it to a counter of the function.
    AddUp = 77, "ADD_UP";
    /// Writes what OUT has written as event `arg` of recording `imm` of the flight recorder.
    Flight = 78, "FLIGHT";
}

numbers! {
    /// What [`Code::Get`] pushes.
    Get: u32;
    /// The process; 0 in interrupts.
    Pid = 0, "PID";
    /// The thread; 0 in interrupts.
    Tid = 1, "TID";
    /// Number of the CPU.
    Cpu = 2, "CPU";
    /// Nanoseconds of CLOCK_MONOTONIC.
    Time = 3, "TIME";
    /// The level, an index into [`super::LEVELS`].
    Level = 4, "LEVEL";
    /// Address of `struct task_struct` of the task that runs or is interrupted.
    Task = 5, "TASK";
    /// Address of the command's name.
    Comm = 6, "COMM";
    /// Where the function returns to.
    Caller = 7, "CALLER";
}

/// `struct jifl_op`: one op of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct Op {
    /// A [`Code`].
    pub code: u8,
    /// Bytes of what is loaded or extended; else 0.
    pub width: u8,
    /// `OP_*`.
    pub flags: u8,
    /// Zero.
    pub reserved: u8,
    /// By code.
    pub arg: u32,
    /// By code.
    pub imm: u64,
}

impl Op {
    /// An op without width, flags and arguments.
    pub fn of(code: Code) -> Op {
        Op {
            code: code as u8,
            ..Op::default()
        }
    }

    /// An op with these arguments.
    pub fn with(code: Code, arg: u32, imm: u64) -> Op {
        Op {
            arg,
            imm,
            ..Op::of(code)
        }
    }

    /// The same op on signed numbers, or on unsigned ones.
    pub fn signed(self, signed: bool) -> Op {
        let flags = if signed { OP_SIGNED } else { 0 };
        Op { flags, ..self }
    }

    /// The same comparison of strings with the end of the string, or without.
    pub fn cut(self, cut: bool) -> Op {
        let flags = if cut { OP_CUT } else { 0 };
        Op { flags, ..self }
    }
}

/// `struct jifl_action`: a program, by its place in the session's ops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Action {
    /// Its first op.
    pub from: u32,
    /// Number of its ops.
    pub n: u32,
    /// With [`Code::Bpf`]: file of a program of type KPROBE; else -1.
    pub bpf: i32,
    /// Zero.
    pub reserved: u32,
}

impl Action {
    /// A program without BPF.
    pub fn of(from: u32, n: u32) -> Action {
        Action {
            from,
            n,
            bpf: -1,
            reserved: 0,
        }
    }
}

/// `struct jifl_hit`: the head of a record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Hit {
    /// Bytes of the record, with this head.
    pub size: u32,
    /// Index in the session's list of places.
    pub place: u32,
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub time: u64,
    /// Number of the CPU.
    pub cpu: u32,
    /// The level, an index into [`super::LEVELS`].
    pub level: u32,
    /// The process; 0 in interrupts.
    pub pid: i32,
    /// The thread; 0 in interrupts.
    pub tid: i32,
    /// Bit n: the nth part is unknown.
    pub unknown: u64,
    /// The command name.
    pub comm: [u8; COMM_MAX],
}

impl Hit {
    /// The first record in bytes that the module has written: its head, what follows in it, and the
    /// bytes behind it. `None`: there is no whole record.
    pub fn split(bytes: &[u8]) -> Option<(Hit, &[u8], &[u8])> {
        let (head, _) = bytes.split_first_chunk::<{ size_of::<Hit>() }>()?;
        let word = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
        let low = |at: usize| u32::from_ne_bytes(word(at));
        let long = |at: usize| u64::from(low(at)) | u64::from(low(at + 4)) << 32;
        let mut hit = Hit {
            size: low(0),
            place: low(4),
            time: long(8),
            cpu: low(16),
            level: low(20),
            pid: i32::from_ne_bytes(word(24)),
            tid: i32::from_ne_bytes(word(28)),
            unknown: long(32),
            comm: [0; COMM_MAX],
        };
        hit.comm.copy_from_slice(&head[40..]);
        let (record, rest) = bytes.split_at_checked(hit.size as usize)?;
        Some((hit, record.get(head.len()..)?, rest))
    }
}

abi_struct! {
    /// `struct jifl_hit_read`: takes records of this file's session on one CPU.
    HitRead {
        /// Of this structure.
        pub size: u32,
        /// In: of which CPU.
        pub cpu: u32,
        /// In: room, set by [`crate::device`]; out: bytes of records.
        pub bytes: u32,
        /// Zero.
        pub reserved: u32,
        /// In: where they go. Set by [`crate::device`] alone: the kernel writes there.
        pub(crate) buf: u64,
        /// Out: records of this CPU since the start that found no room in the ring.
        pub lost: u64,
    }
}

impl HitRead {
    /// A request for the records of a CPU.
    pub fn of(cpu: u32) -> HitRead {
        HitRead {
            cpu,
            ..HitRead::default()
        }
    }
}

/// [`Entry::TABLE`] of [`Group`].
pub const TABLE_GROUPS: u32 = 0x8000_0001;
/// [`Entry::TABLE`] of [`Frames`].
pub const TABLE_STACKS: u32 = 0x8000_0002;
/// In [`TableRead::rest`] of [`Group`]: hits of groups that there was no room for.
pub const GROUP_OTHER: usize = 0;
/// Buckets of a group: 0; by the highest bit of an unsigned value; below 0.
pub const GROUP_BUCKETS: usize = 66;
/// The bucket of values below 0.
pub const GROUP_NEGATIVE: usize = 65;

/// `struct jifl_group`: the hits of a group, and the sum of its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Group {
    /// Index in the session's list of places.
    pub place: u32,
    /// Bit n: the nth part of its name is unknown.
    pub unknown: u32,
    /// What the ops of groups have put there; behind it 0.
    pub name: [u8; GROUP_MAX],
    /// Hits.
    pub hits: u64,
    /// Of the values that are known.
    pub sum: u64,
    /// How many these are.
    pub known: u64,
    /// Hits by value.
    pub bucket: [u64; GROUP_BUCKETS],
}

impl Default for Group {
    fn default() -> Group {
        Group {
            place: 0,
            unknown: 0,
            name: [0; GROUP_MAX],
            hits: 0,
            sum: 0,
            known: 0,
            bucket: [0; GROUP_BUCKETS],
        }
    }
}

// SAFETY: it is `struct jifl_group`, as the test of the ABI holds, of integers.
unsafe impl Entry for Group {
    const TABLE: u32 = TABLE_GROUPS;
}

/// `struct jifl_frames`: a stack, whose number is its index + 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Frames {
    /// Of the callers, innermost first; 0 behind the last.
    pub address: [u64; FRAMES_MAX],
}

// SAFETY: it is `struct jifl_frames`, as the test of the ABI holds, of integers.
unsafe impl Entry for Frames {
    const TABLE: u32 = TABLE_STACKS;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_split_and_halves_are_not() {
        let mut bytes = Vec::new();
        for place in [3u32, 4] {
            bytes.extend_from_slice(&64u32.to_ne_bytes());
            bytes.extend_from_slice(&place.to_ne_bytes());
            bytes.extend_from_slice(&0x1_0000_0002u64.to_ne_bytes());
            bytes.extend_from_slice(&[1u32, 2, 77, 78].map(u32::to_ne_bytes).concat());
            bytes.extend_from_slice(&(1u64 << 40).to_ne_bytes());
            bytes.extend_from_slice(b"sh\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
            bytes.extend_from_slice(&u64::from(place).to_ne_bytes());
        }
        let (hit, parts, rest) = Hit::split(&bytes).unwrap();
        assert_eq!((hit.place, hit.cpu, hit.level), (3, 1, 2));
        assert_eq!((hit.pid, hit.tid, hit.unknown), (77, 78, 1 << 40));
        assert_eq!(
            (hit.time, from_name(&hit.comm).as_str()),
            (0x1_0000_0002, "sh")
        );
        assert_eq!(parts, 3u64.to_ne_bytes());
        let (hit, _, rest) = Hit::split(rest).unwrap();
        assert_eq!((hit.place, rest), (4, &[][..]));
        assert!(Hit::split(&bytes[..63]).is_none());
        assert!(Hit::split(&[0; 64]).is_none());
    }
}
