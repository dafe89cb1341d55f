// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl flight add`: places in the kernel's code, and values there, as an event of the recording
//! that runs.

use clap::Args;
use jifl_sys::abi::{
    Code, FLAG_ADOPT, FLIGHT_ARGS, Flight, FlightEvent, FlightOp, Kind as SessionKind, to_name,
};
use jifl_sys::device::{Door, Request};
use rustix::io::Errno;

use crate::base::exit::{DONE, Failure};
use crate::cmd::probe::place::Manner;
use crate::cmd::probe::program::{Asked, Compiled, Field, compile};
use crate::cmd::probe::word::Word;
use crate::cmd::probe::{find, note_left_out, settle};
use crate::expr::{Kind, Scopes};
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::kernel::values;
use crate::session::device;
use crate::session::flight::{door, fields};
use crate::session::measure::Session;
use crate::session::scope::Span;
use crate::show::output;

/// Arguments of `jifl flight add`.
#[derive(Debug, Default, Args)]
#[command(after_help = "\
PLACE and EXPR are those of `jifl probe`. The event is recorded until the recording ends. The
module stays loaded so long. Of several places the first value is which one it was.

Examples:
  jifl flight add fn:vfs_fsync_range --record 'start, end'
  jifl flight add fn:do_exit --if 'code & 0x7f' --stop")]
pub struct AddArgs {
    /// Where, as `jifl probe` takes it: fn:NAME, fn:NAME+0xOFFSET, 'fn:NAME%return'
    #[arg(required = true, value_name = "PLACE")]
    places: Vec<String>,
    /// Only executions where this holds
    #[arg(long = "if", value_name = "EXPR")]
    condition: Option<String>,
    /// Record these numbers: five, or four if there are several places
    #[arg(long, value_name = "EXPR,...")]
    record: Option<String>,
    /// What the event is called; without it, as the first place
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Stop recording when it comes
    #[arg(long)]
    stop: bool,
    /// Go on although more than 1,000 places are meant
    #[arg(short, long)]
    yes: bool,
}

/// Runs the command; the result is the exit status.
pub fn run(args: &AddArgs) -> Result<u8, Failure> {
    let door = device::open()?;
    door::Copied::live(&door)?;
    let words = args.places.iter().map(|word| Word::parse(word));
    let words: Vec<Word> = words.collect::<Result<_, _>>()?;
    let symbols = Symbols::of_kernel();
    let manner = Manner {
        confirmed: args.yes,
        programs: true,
        lenient: false,
        by_name: false,
    };
    let mut places = find(&words, None, manner, &symbols)?;
    let targets = std::mem::take(&mut places.targets);
    let mut session = Session::new(SessionKind::Probe, FLAG_ADOPT, targets);
    note_left_out(&settle(&mut session, &mut places, &words, &symbols)?);
    let several = places.splices.len() > 1;
    let asked = Asked::flight(args.condition.clone(), args.record.as_deref(), several)?;
    let mut compiled = compile(&asked, &mut places, &words, &Scopes::of_kernel())?;
    let event = args.event(&compiled)?;
    let added = add(&door, &event)?;
    session.programs = std::mem::take(&mut compiled.programs);
    for op in &mut session.programs.ops {
        if op.code == Code::Flight as u8 {
            op.arg = added.number;
            op.imm = added.recording.into();
        }
    }
    session.splices.clone_from(&places.splices);
    // Of the functions themselves, not of what they call.
    Span::default().scope().apply(&mut session)?;
    session.begin(&door, &Table::all())?;
    hold(&door, added, args.stop)?;
    output::note(&format!(
        "# recording {} at {} place{}",
        jifl_sys::abi::from_name(&event.name),
        places.splices.len(),
        if several { "s" } else { "" }
    ));
    Ok(DONE)
}

/// An event that was added.
#[derive(Debug, Clone, Copy)]
struct Added {
    number: u32,
    /// The recording that has it.
    recording: u32,
}

/// Adds the event. It is not recorded yet, so nothing has to be undone if what follows fails.
fn add(door: &impl Door, event: &FlightEvent) -> Result<Added, Failure> {
    let mut request = Flight::of(FlightOp::Add);
    door.call(Request::Flight(&mut request, &mut event.to_bytes()))
        .map_err(|error| refused(&error, "adding the event"))?;
    Ok(Added {
        number: request.added,
        recording: request.recording,
    })
}

/// Records the event from now on, and keeps the session of this file until the recording ends.
fn hold(door: &impl Door, added: Added, stop: bool) -> Result<(), Failure> {
    let mut request = Flight::of(FlightOp::Hold);
    request.added = added.number;
    request.recording = added.recording;
    request.stop_mask = stop.into();
    door::ask(door, &mut request)
        .map_err(|error| refused(&error, "keeping the session of the places"))
}

fn refused(error: &std::io::Error, what: &str) -> Failure {
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC) => Failure::failed(
            "there is no room for one more: a recording has 64 events, and 16 times `jifl flight \
             add`; `jifl flight stop` ends it, with all of them",
        ),
        Some(Errno::STALE) => Failure::failed(
            "another recording was started meanwhile: add the event to that one with the same \
             command",
        ),
        _ => door::refused(what, error),
    }
}

impl AddArgs {
    /// What the recording says of the event.
    fn event(&self, compiled: &Compiled) -> Result<FlightEvent, Failure> {
        let layouts = compiled.layouts();
        let first = &layouts.first().expect("there is a place").fields;
        let texts = |all: &[Field]| all.iter().map(field).collect::<Vec<_>>();
        let words = texts(first);
        if layouts.iter().any(|other| texts(&other.fields) != words) {
            return Err(Failure::usage(
                "--record: the values differ in kind from place to place: add the places one by \
                 one",
            ));
        }
        if first.iter().any(|field| !is_number(&field.kind)) {
            return Err(Failure::usage(
                "--record: a record of the flight recorder has numbers alone, no strings and no \
                 stacks",
            ));
        }
        if words.len() > FLIGHT_ARGS {
            return Err(Failure::usage(format!(
                "--record: a record has {FLIGHT_ARGS} numbers, and of several places the first is \
                 which one it was: ask for less"
            )));
        }
        let name = match &self.name {
            Some(name) if !fields::is_word(name) => {
                return Err(Failure::usage(format!(
                    "--name {name}: a name has letters, digits and underscores"
                )));
            }
            Some(name) => name.clone(),
            None => word(self.places[0].trim_start_matches("fn:")),
        };
        let long = |what: &str, most| {
            Failure::usage(format!("{what}: it is too long: {most} bytes at most"))
        };
        Ok(FlightEvent {
            name: match &self.name {
                Some(_) => to_name(name.as_bytes()).ok_or_else(|| long("--name", 23))?,
                None => to_name(&name.as_bytes()[..name.len().min(23)]).unwrap_or_default(),
            },
            group: *b"probe\0\0\0",
            fields: to_name(words.join(" ").as_bytes())
                .ok_or_else(|| long("--record: the names of all values", 87))?,
            reserved: 0,
        })
    }
}

fn is_number(kind: &Kind) -> bool {
    matches!(kind, Kind::Number(_) | Kind::Code)
}

/// A value as a word NAME:KIND.
fn field(field: &Field) -> String {
    let kind = match &field.kind {
        _ if field.label == Asked::AT => 'a',
        Kind::Code => 'a',
        kind if kind.is_signed() => 'd',
        Kind::Number(values::Kind::Int { .. } | values::Kind::Enum { .. }) => 'u',
        _ => 'x',
    };
    format!("{}:{kind}", word(&field.label))
}

/// A text as a name: what is no letter and no digit becomes an underscore.
fn word(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        match c {
            c if c.is_ascii_alphanumeric() => name.push(c),
            _ if !name.is_empty() && !name.ends_with('_') => name.push('_'),
            _ => {}
        }
    }
    match name.trim_end_matches('_') {
        "" => "value".into(),
        name => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::fake::Fake;
    use crate::session::flight::made::Made;

    #[test]
    fn an_event_is_held_for_the_recording_that_has_it() {
        let fake = Fake::default();
        let event = FlightEvent {
            name: to_name(b"reads").unwrap(),
            group: *b"probe\0\0\0",
            fields: to_name(b"count:u").unwrap(),
            reserved: 0,
        };
        let none = add(&fake, &event).unwrap_err();
        assert!(none.message.contains("jifl flight start --keep"));
        fake.state().flight.region = Some(Made::sample().region());
        let added = add(&fake, &event).unwrap();
        hold(&fake, added, true).unwrap();
        let asked = *fake.state().flight.asked.last().unwrap();
        assert_eq!(
            (asked.added, asked.recording, asked.stop_mask),
            (added.number, added.recording, 1)
        );
        let old = Added {
            recording: added.recording + 1,
            ..added
        };
        let message = hold(&fake, old, false).unwrap_err().message;
        assert!(message.contains("another recording"), "{message}");
    }

    #[test]
    fn values_have_names() {
        for (text, name) in [
            ("count", "count"),
            ("file->f_inode->i_ino", "file_f_inode_i_ino"),
            ("vfs_read+0x1c", "vfs_read_0x1c"),
            ("*(u64 *)(rdi+8)", "u64_rdi_8"),
            ("->", "value"),
        ] {
            assert_eq!(word(text), name);
            assert!(fields::is_word(name));
        }
    }
}
