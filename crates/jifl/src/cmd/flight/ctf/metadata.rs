// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of a trace, in TSDL.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use jifl_sys::abi::LEVELS;

use super::{PREFIX, fields_of};
use crate::kernel::syscalls::Table;
use crate::session::flight::Flight;
use crate::session::flight::fields::{Field, Kind, SOFTIRQS};

const TYPES: &str = "\
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 64; align = 8; signed = false; base = 16; } := hex64_t;
typealias integer { size = 32; align = 8; signed = true; } := int32_t;
typealias integer { size = 64; align = 8; signed = true; } := int64_t;

";

const STREAM: &str = "\
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := stamp_t;

stream {
\tid = 0;
\tpacket.context := struct {
\t\tstamp_t timestamp_begin;
\t\tstamp_t timestamp_end;
\t\tuint64_t content_size;
\t\tuint64_t packet_size;
\t\tuint64_t events_discarded;
\t\tuint32_t cpu_id;
\t};
\tevent.header := struct {
\t\tuint16_t id;
\t\tstamp_t timestamp;
\t};
\tevent.context := struct {
\t\tuint32_t _tid;
\t\tenum level _level;
\t};
};
";

/// All of it.
pub fn metadata(flight: &Flight) -> String {
    let raw = flight.head.raw();
    let mut text = format!("/* CTF 1.8 */\n\n{TYPES}");
    let _ = write!(
        text,
        "trace {{\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"{}\";\n\tbyte_order = le;\n\
         \tpacket.header := struct {{\n\t\tuint32_t magic;\n\t\tuint8_t uuid[16];\n\
         \t\tuint32_t stream_id;\n\t}};\n}};\n\n\
         env {{\n\tdomain = \"kernel\";\n\tsysname = \"Linux\";\n\tkernel_release = {};\n\
         \ttracer_name = \"jifl\";\n}};\n\n",
        flight.head.boot_id(),
        quoted(&flight.head.release())
    );
    let offset = raw.realtime_ns.saturating_sub(raw.monotonic_ns);
    let _ = write!(
        text,
        "clock {{\n\tname = monotonic;\n\tdescription = \"CLOCK_MONOTONIC\";\n\
         \tfreq = 1000000000;\n\toffset_s = {};\n\toffset = {};\n}};\n\n",
        offset / 1_000_000_000,
        offset % 1_000_000_000
    );
    let levels = LEVELS.iter().enumerate();
    text += &names(
        "level",
        "uint16_t",
        levels.map(|(level, name)| (level, *name)),
    );
    let calls = Table::all();
    let all = calls.iter().map(|(number, name)| (number as usize, name));
    text += &names("syscall", "uint64_t", all);
    text += &names("softirq", "uint64_t", SOFTIRQS.iter().copied().enumerate());
    text += STREAM;
    let seen = flight.entries.iter().map(|entry| entry.raw.event);
    let known = 0..flight.events.len() as u16;
    for number in seen.chain(known).collect::<BTreeSet<u16>>() {
        let event = flight.events.get(usize::from(number));
        let name = event.map_or_else(|| format!("event_{number}"), |event| event.name.clone());
        let _ = write!(
            text,
            "\nevent {{\n\tname = \"{name}\";\n\tid = {number};\n\tstream_id = 0;\n\
             \tfields := struct {{\n"
        );
        fields_of(flight, number)
            .iter()
            .for_each(|field| text += &declared(field));
        text += "\t};\n};\n";
    }
    text
}

/// An enumeration.
fn names<'a>(name: &str, of: &str, all: impl Iterator<Item = (usize, &'a str)>) -> String {
    let each = all.map(|(number, name)| format!("\t{} = {number}", quoted(name)));
    let each: Vec<String> = each.collect();
    format!("enum {name} : {of} {{\n{}\n}};\n\n", each.join(",\n"))
}

/// A field, as stream.rs writes it.
fn declared(field: &Field) -> String {
    let of = match field.kind {
        Kind::Signed | Kind::Result => "int64_t",
        Kind::Unsigned => "uint64_t",
        Kind::Thread => "int32_t",
        Kind::Hex | Kind::Address => "hex64_t",
        Kind::Syscall => "enum syscall",
        Kind::Softirq => "enum softirq",
        Kind::State | Kind::Text(_) => "string",
        Kind::Device => {
            let name = &field.name;
            return format!(
                "\t\tuint32_t {PREFIX}{name}_major;\n\t\tuint32_t {PREFIX}{name}_minor;\n"
            );
        }
    };
    format!("\t\t{of} {PREFIX}{};\n", field.name)
}

/// A string of TSDL: of letters that need no escape.
fn quoted(text: &str) -> String {
    let plain = |c: char| match c.is_ascii_graphic() && c != '"' && c != '\\' {
        true => c,
        false => '_',
    };
    format!("\"{}\"", text.chars().map(plain).collect::<String>())
}
