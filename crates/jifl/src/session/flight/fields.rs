// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of events: what they are, by an event's words NAME:KIND, and how they are shown.

use std::fmt;

use jifl_sys::abi::FLIGHT_ARGS;
use serde_json::Value as Json;

use crate::kernel::errno;
use crate::kernel::syscalls::Table;

/// The softirqs of Linux, by number (include/linux/interrupt.h).
pub const SOFTIRQS: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// Letters of a task's state, by bit, as the kernel's event sched_switch shows them
/// (include/trace/events/sched.h).
const STATES: [char; 8] = ['S', 'D', 'T', 't', 'X', 'Z', 'P', 'I'];
/// The bit behind those: it was running, and another task had to.
const PREEMPTED: u64 = 1 << 8;

/// How an argument is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A signed number.
    Signed,
    /// An unsigned number.
    Unsigned,
    /// A number that is shown in hexadecimal, and everything whose kind is not known.
    Hex,
    /// A thread's number.
    Thread,
    /// A result: an error below 0.
    Result,
    /// A system call's number.
    Syscall,
    /// A softirq's number.
    Softirq,
    /// A task's state.
    State,
    /// An address of the kernel.
    Address,
    /// A device.
    Device,
    /// A string in so many arguments.
    Text(usize),
}

/// An argument, or several that are a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// How it is meant.
    pub kind: Kind,
    /// The first argument.
    pub at: usize,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A signed number, and a thread's.
    Signed(i64),
    /// An unsigned number.
    Unsigned(u64),
    /// A number or an address in hexadecimal.
    Hex(u64),
    /// A result.
    Result(i64),
    /// What has a name.
    Name(String),
    /// Major and minor number.
    Device(u32, u32),
    /// A string.
    Text(String),
}

/// Only letters, digits, underscores?
pub fn is_word(text: &str) -> bool {
    let mut all = text.bytes();
    !text.is_empty() && all.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The fields that an event's words say. There are no more than its arguments.
pub fn parse(words: &str) -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::new();
    let mut at = 0;
    for word in words.split_whitespace() {
        let (name, kind) = word.split_once(':').unwrap_or((word, ""));
        let kind = Kind::of(kind);
        if at + kind.arguments() > FLIGHT_ARGS {
            break;
        }
        let name = match is_word(name) && fields.iter().all(|field| field.name != name) {
            true => name.to_owned(),
            false => format!("arg{at}"),
        };
        fields.push(Field { name, kind, at });
        at += kind.arguments();
    }
    fields
}

/// The fields of an event of which nothing is known.
pub fn unknown() -> Vec<Field> {
    parse("arg0 arg1 arg2 arg3 arg4")
}

impl Kind {
    fn of(word: &str) -> Kind {
        match word {
            "d" => Kind::Signed,
            "u" => Kind::Unsigned,
            "t" => Kind::Thread,
            "e" => Kind::Result,
            "n" => Kind::Syscall,
            "v" => Kind::Softirq,
            "S" => Kind::State,
            "a" => Kind::Address,
            "D" => Kind::Device,
            "s2" => Kind::Text(2),
            "s3" => Kind::Text(3),
            "s4" => Kind::Text(4),
            "s5" => Kind::Text(5),
            _ => Kind::Hex,
        }
    }

    /// How many arguments it takes.
    pub fn arguments(self) -> usize {
        match self {
            Kind::Text(number) => number,
            _ => 1,
        }
    }
}

impl Field {
    /// The value among a record's arguments.
    pub fn value(&self, arg: &[u64; FLIGHT_ARGS], calls: &Table) -> Value {
        let number = arg[self.at];
        match self.kind {
            Kind::Signed => Value::Signed(number as i64),
            Kind::Unsigned => Value::Unsigned(number),
            Kind::Thread => Value::Signed(i64::from(number as i32)),
            Kind::Hex | Kind::Address => Value::Hex(number),
            Kind::Result => Value::Result(number as i64),
            Kind::Syscall => match u32::try_from(number) {
                Ok(number) => Value::Name(calls.name(number)),
                Err(_) => Value::Hex(number),
            },
            Kind::Softirq => match SOFTIRQS.get(number as usize) {
                Some(name) => Value::Name((*name).into()),
                None => Value::Unsigned(number),
            },
            Kind::State => Value::Name(state(number)),
            Kind::Device => Value::Device((number >> 20) as u32 & 0xfff, number as u32 & 0xf_ffff),
            Kind::Text(words) => Value::Text(text(&arg[self.at..self.at + words])),
        }
    }
}

/// The letters of a state; `R`: it can run.
fn state(state: u64) -> String {
    let set = STATES
        .iter()
        .enumerate()
        .filter(|(bit, _)| state >> bit & 1 == 1);
    let letters: Vec<String> = set.map(|(_, letter)| letter.to_string()).collect();
    let own = match letters.is_empty() {
        true => "R".to_owned(),
        false => letters.join("|"),
    };
    match state & PREEMPTED != 0 {
        true => own + "+",
        false => own,
    }
}

/// A string, which ends with its room or at a 0.
fn text(words: &[u64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    jifl_sys::abi::from_name(&bytes)
}

impl fmt::Display for Value {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Signed(number) => write!(to, "{number}"),
            Value::Unsigned(number) => write!(to, "{number}"),
            Value::Hex(number) => write!(to, "{number:#x}"),
            Value::Result(number) => to.write_str(&errno::result(*number)),
            Value::Name(name) => to.write_str(name),
            Value::Device(major, minor) => write!(to, "{major}:{minor}"),
            Value::Text(text) => write!(to, "\"{}\"", text.escape_debug()),
        }
    }
}

impl Value {
    /// For programs: numbers as numbers; addresses, names and devices as text.
    pub fn json(&self) -> Json {
        match self {
            Value::Signed(number) | Value::Result(number) => (*number).into(),
            Value::Unsigned(number) => (*number).into(),
            Value::Hex(_) | Value::Device(..) => self.to_string().into(),
            Value::Name(text) | Value::Text(text) => text.clone().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_shown_as_what_it_is() {
        let long = u64::from_le_bytes(*b"a \"name\"");
        for (kind, arg, shown) in [
            ("d", u64::MAX, "-1"),
            ("u", u64::MAX, "18446744073709551615"),
            ("x", 255, "0xff"),
            ("t", 4321, "4321"),
            ("e", -2i64 as u64, "-ENOENT"),
            ("e", 7, "7"),
            ("n", 257, "openat"),
            ("n", 400, "nr_400"),
            ("n", u64::MAX, "0xffffffffffffffff"),
            ("v", 3, "NET_RX"),
            ("v", 10, "10"),
            ("S", 0, "R"),
            ("S", 1, "S"),
            ("S", 0x100, "R+"),
            ("S", 0x82, "D|I"),
            ("a", 0xffff_ffff_8100_0000, "0xffffffff81000000"),
            ("D", 8 << 20 | 1, "8:1"),
            ("s2", long, "\"a \\\"name\\\"\""),
            ("?", 16, "0x10"),
            ("", 16, "0x10"),
        ] {
            let fields = parse(&format!("it:{kind}"));
            let value = fields[0].value(&[arg, 0, 0, 0, 0], &Table::all());
            assert_eq!(value.to_string(), shown, "{kind}");
        }
    }

    #[test]
    fn strings_take_several_arguments_and_no_more_than_there_are() {
        let fields = parse("prev:S comm:s2 next:t last:s2 more:d");
        let at: Vec<usize> = fields.iter().map(|field| field.at).collect();
        assert_eq!(at, [0, 1, 3]);
        let fields = parse("a:d a:d b,c:d");
        let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["a", "arg1", "arg2"]);
        assert_eq!(unknown().len(), FLIGHT_ARGS);
    }
}
