// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl flight start`: begins a recording, which goes on alone, or ends with the command.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use jifl_sys::abi::{Flight, FlightOp, FlightRecord};
use jifl_sys::device::Door;
use jifl_sys::os;
use rustix::io::Errno;

use super::{choice, control, copy, slow, status};
use crate::base::exit::{DONE, Failure};
use crate::base::{duration, size};
use crate::kernel::errno;
use crate::kernel::syscalls::Table;
use crate::session::device;
use crate::session::flight::door::{self, Copied};
use crate::session::flight::{Event, Flight as Recording, NotRead};
use crate::session::scope::{self, End};
use crate::show::output;
use crate::show::text::grouped;

/// Arguments of `jifl flight start`.
#[derive(Debug, Default, Args)]
#[command(after_help = "\
Without -e all events are recorded but those of timers, whose names begin with timer_. Without
--keep the recording ends with CMD, after --for, or with Ctrl-C, and what it has is gone: -o copies
it before. With CMD the exit status is CMD's; what all tasks do is recorded.

With --memory the records are in memory that outlives a restart of the machine; without --size they
take all of it. docs/flight.md says how a kernel gets such memory.

Examples:
  jifl flight start --keep --on-warn --after 100ms
  jifl flight start -e sched,sys --size 32M --keep
  jifl flight start --memory flight --keep
  jifl flight start --stop-errno ENOSPC -o full.flight -- make install
  jifl flight start --keep --slow sched_wakeup..sched_switch:50ms --after 10ms")]
pub struct StartArgs {
    /// Record these events and groups, with commas between them
    #[arg(short, long, value_name = "EVENT|GROUP", value_delimiter = ',')]
    events: Vec<String>,
    /// Bytes of the records of each CPU; 8M unless given. They are a power of two
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    size: Option<u32>,
    /// Return at once; the recording goes on until `jifl flight stop`
    #[arg(long, conflicts_with_all = ["time", "command", "output"])]
    keep: bool,
    /// Record into this memory, which outlives a restart
    #[arg(long, value_name = "NAME")]
    memory: Option<String>,
    /// Stop recording when one of these events comes
    #[arg(long, value_name = "EVENT|GROUP", value_delimiter = ',')]
    stop_at: Vec<String>,
    /// Stop recording when a system call returns this error: ENOSPC, or its number
    #[arg(long, value_name = "ERRNO")]
    stop_errno: Option<String>,
    /// Stop recording when this system call takes longer than that, or one event comes so long
    /// after another: openat:10ms, all:1s, sched_wakeup..sched_switch:20ms
    #[arg(long, value_name = "CALL|EVENT..EVENT:TIME", value_parser = slow::parse)]
    slow: Option<(String, Duration)>,
    /// Record for so long after that: 100ms, 5s
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    after: Option<Duration>,
    /// Stop recording when the kernel warns; the same as --stop-at warn
    #[arg(long)]
    on_warn: bool,
    /// Copy the recording to FILE when it ends
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// End after this time: 5s, 100ms, 2m
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
    time: Option<Duration>,
    /// Run this command, and end with it
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Bytes of the records unless they are given.
const SIZE: u32 = 8 << 20;
/// The fewest and the most records of a ring.
const FEWEST: u32 = 64;
const MOST: u32 = 1 << 24;

/// Runs the command; the result is the exit status.
pub fn run(args: &StartArgs) -> Result<u8, Failure> {
    let door = device::open()?;
    let cpus = device::info(&door)?.cpus.max(1);
    let request = args.request(&door::events(&door)?, cpus)?;
    if args.keep {
        begin(&door, args, request)?;
        let mut live = Copied::live(&door)?;
        let recording = Recording::read(&mut live).map_err(NotRead::failure)?;
        output::note(&format!(
            "# recording into {} bytes",
            grouped(recording.head.bytes())
        ));
        return Ok(DONE);
    }
    let failed = |what: &str, error: &io::Error| Failure::failed(format!("{what}: {error}"));
    let interrupt = os::catch_interrupts().map_err(|error| failed("catching Ctrl-C", &error))?;
    let gated = match args.command.as_slice() {
        [] => None,
        command => Some(scope::gate(command)?),
    };
    begin(&door, args, request)?;
    let child = gated.map(os::Gated::open).transpose();
    let mut child = child.map_err(|error| scope::not_run(&args.command, &error))?;
    let end = scope::wait(child.as_mut(), interrupt.as_fd(), &[], args.time)
        .map_err(|error| failed("waiting", &error))?;
    finish(&door, args)?;
    let status = match (child, end) {
        (_, End::Command(status)) => Some(status),
        (Some(mut child), _) => {
            let status = child.wait();
            Some(status.map_err(|error| failed("waiting for the command", &error))?)
        }
        (None, _) => None,
    };
    Ok(status.map_or(DONE, scope::exit_status))
}

impl StartArgs {
    /// What the module is asked for, on a machine of so many possible CPUs.
    ///
    /// # Errors
    /// An event or an error is unknown.
    fn request(&self, events: &[Event], cpus: u32) -> Result<Flight, Failure> {
        let mut stop_at = self.stop_at.clone();
        if self.on_warn {
            stop_at.push("warn".into());
        }
        let mut request = Flight::of(FlightOp::Start);
        request.mask = match self.events.as_slice() {
            [] => choice::usual(events),
            words => choice::chosen("-e", words, events)?,
        };
        request.stop_mask = choice::chosen("--stop-at", &stop_at, events)?;
        // An event that it stops at has to be recorded.
        request.mask |= request.stop_mask;
        if let Some(word) = &self.stop_errno {
            let number = errno::parse(word).map_err(|failure| Failure {
                message: failure.message.replacen("-x", "--stop-errno", 1),
                ..failure
            })?;
            request.stop_errno = -(number as i32);
        }
        if let Some(slow) = &self.slow {
            slow::ask(&mut request, slow, events, &Table::all())?;
        }
        let stops = request.stop_mask != 0 || request.stop_errno != 0 || request.slow_ns != 0;
        if self.after.is_some() && !stops {
            return Err(Failure::usage(
                "--after is the time after what the recording stops at: give --stop-at, \
                 --stop-errno, --slow or --on-warn, too",
            ));
        }
        request.after_ns = control::nanoseconds(self.after);
        request.keep = u32::from(self.keep);
        if let Some(name) = &self.memory {
            request.memory = door::memory_name(name)?;
        }
        request.record_count = match (self.size, &self.memory) {
            (None, Some(_)) => most_records(u32::MAX, cpus),
            (size, _) => most_records(size.unwrap_or(SIZE), 1),
        };
        Ok(request)
    }
}

/// Records for each CPU of which all together have so many bytes at most, if they can be so few.
fn most_records(bytes: u32, cpus: u32) -> u32 {
    let each = bytes / FlightRecord::SIZE as u32 / cpus;
    let power = 1 << each.max(1).ilog2();
    power.clamp(FEWEST, MOST)
}

/// Starts the recording. Memory of a name whose size was not said is filled as far as it goes.
fn begin(door: &impl Door, args: &StartArgs, mut request: Flight) -> Result<(), Failure> {
    let halves = args.memory.is_some() && args.size.is_none();
    loop {
        let error = match door::ask(door, &mut request) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let too_small = [Errno::NXIO, Errno::NOMEM, Errno::TOOBIG].map(Some);
        let too_small = too_small.contains(&Errno::from_io_error(&error));
        if !(halves && too_small) || request.record_count <= FEWEST {
            return Err(not_begun(args, &error));
        }
        request.record_count /= 2;
    }
}

fn not_begun(args: &StartArgs, error: &io::Error) -> Failure {
    let name = args.memory.as_deref().unwrap_or_default();
    match Errno::from_io_error(error) {
        Some(Errno::BUSY) => Failure::failed(
            "a recording runs already: `jifl flight status` shows it, `jifl flight mask` changes \
             its events, `jifl flight stop` ends it",
        ),
        Some(Errno::NOMEM) => Failure::failed(
            "there is not enough free memory for the recording: give a smaller --size",
        ),
        Some(Errno::TOOBIG) => Failure::failed(
            "a recording has some 760 MiB at most, for all CPUs: give a smaller --size",
        ),
        Some(Errno::INVAL) => Failure::failed(
            "it is to stop at what it does not record, or this kernel has none of the events: \
             `jifl flight status` lists them",
        ),
        Some(Errno::NXIO) => door::no_memory(name),
        Some(Errno::EXIST) => Failure::failed(format!(
            "--memory {name}: it has the recording of another boot: `jifl flight last --memory \
             {name} -o FILE` copies it, and with --forget it frees the memory"
        )),
        _ => door::refused("starting the recording", error),
    }
}

/// Copies what was recorded, says what it is, and ends it.
fn finish(door: &impl Door, args: &StartArgs) -> Result<(), Failure> {
    let mut live = Copied::live(door)?;
    if let Some(path) = &args.output {
        copy::copy(&mut live, path)?;
    }
    let recording = Recording::read(&mut live).map_err(NotRead::failure)?;
    status::note(&recording);
    door::ask(door, &mut Flight::of(FlightOp::End))
        .map_err(|error| door::refused("ending the recording", &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parse::parse;
    use crate::session::fake::Fake;
    use crate::session::flight::made::{self, Made};

    fn request(line: &str) -> Result<Flight, Failure> {
        let args: StartArgs = parse(line).unwrap();
        args.request(&Event::all(&made::events()), 4)
    }

    #[test]
    fn what_is_asked_is_what_was_said() {
        let usual = request("--keep").unwrap();
        assert_eq!(
            (usual.mask, usual.keep, usual.stop_mask),
            (0b1_0111_1111, 1, 0)
        );
        assert_eq!(usual.record_count, (8 << 20) / 64);
        let asked = request("-e sched --on-warn --after 100ms --size 1M").unwrap();
        assert_eq!((asked.mask, asked.stop_mask), (1 << 2 | 1 << 6, 1 << 6));
        assert_eq!((asked.after_ns, asked.record_count), (100_000_000, 1 << 14));
        assert_eq!(request("--stop-errno ENOSPC").unwrap().stop_errno, -28);
        for (line, hint) in [
            ("--stop-errno ENOSPX", "--stop-errno ENOSPX: no such error"),
            ("--stop-at warm", "nearest is warn"),
            ("--after 1s", "--stop-at"),
            ("-e nothing", "no such event"),
        ] {
            let failure = request(line).unwrap_err();
            assert!(failure.message.contains(hint), "{}", failure.message);
            assert_eq!(failure.status, crate::base::exit::USAGE);
        }
        assert_eq!(
            [most_records(1, 8), most_records(u32::MAX, 1)],
            [64, 1 << 24]
        );
    }

    #[test]
    fn each_refusal_has_its_way_out() {
        let fake = Fake::default();
        let begin = |line: &str| {
            let args: StartArgs = parse(line).unwrap();
            let request = args.request(&Event::all(&made::events()), 4).unwrap();
            begin(&fake, &args, request)
        };
        let refused = |line: &str| begin(line).unwrap_err().message;
        fake.state().flight.kept.insert("full".into(), vec![1]);
        fake.state().flight.kept.insert("free".into(), Vec::new());
        fake.state().flight.made = Made::sample().region();
        assert!(refused("--memory none").contains("reserve_mem="));
        // Each half was tried.
        assert!(fake.state().flight.asked.len() > 10);
        assert!(refused("--memory full").contains("--forget"));
        begin("--memory free").unwrap();
        assert!(refused("--keep").contains("jifl flight stop"));
        let args = StartArgs::default();
        assert!(
            not_begun(&args, &Errno::NOMEM.into())
                .message
                .contains("--size")
        );
        finish(&fake, &args).unwrap();
        assert!(fake.state().flight.region.is_none());
    }
}
