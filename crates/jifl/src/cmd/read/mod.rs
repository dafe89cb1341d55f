// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl read`: takes the records out of a plugin's ring and shows them as the lines that the
//! plugin makes of them. If the user wants it, source lines follow the places that these lines
//! name.

mod places;

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use jifl_sys::abi::{PluginRead, to_name};
use jifl_sys::device::{Door, Request};
use jifl_sys::os;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::time::ClockId;

use self::places::Places;
use crate::base::clock;
use crate::base::duration;
use crate::base::exit::{DONE, Failure};
use crate::cmd::plugin;
use crate::kernel::lines::{Build, Lines, LinesArgs};
use crate::kernel::symbols::Symbols;
use crate::session::device;
use crate::session::scope::{self, End};
use crate::show::output::{self, Sink};

/// Bytes of one request.
const ROOM: usize = 256 << 10;
/// Time between requests when there were no records.
const PERIOD: Duration = Duration::from_millis(20);

/// Arguments of `jifl read`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  jifl read calltrace
  jifl read calltrace --follow | less
  jifl read calltrace --for 10s -o calls.txt
  jifl read mine --lines")]
pub struct ReadArgs {
    /// Name of the plugin
    name: String,
    /// Go on until the plugin is stopped, or Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// Go on until the plugin is stopped, or Ctrl-C, but for this time at most (5s, 100ms, 2m, 1h)
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
    time: Option<Duration>,
    /// Show the source line behind each name+0x12/0x34 (%pS, %pB), where it is known
    #[arg(long)]
    lines: bool,
    #[command(flatten)]
    debug: LinesArgs,
    /// Write to FILE
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Sums of a run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sums {
    records: u64,
    lost: u64,
}

impl ReadArgs {
    /// Symbols and source lines, by which places get lines; empty if none are wanted.
    fn sources(&self) -> Result<(Symbols, Lines), Failure> {
        if !self.lines {
            self.debug.need_none()?;
            return Ok(Default::default());
        }
        let opened = self.debug.open(Build::running())?;
        let symbols = Symbols::of_kernel();
        let lines = opened.lines(&symbols);
        Ok((symbols, lines))
    }
}

/// Runs `jifl read`.
pub fn run(args: &ReadArgs) -> Result<u8, Failure> {
    let door = device::open()?;
    let mut sink = Sink::open(args.output.as_deref())?;
    let interrupt = os::catch_interrupts()
        .map_err(|error| Failure::failed(format!("catching Ctrl-C: {error}")))?;
    let end = args.time.and_then(|time| Instant::now().checked_add(time));
    let goes_on = || {
        if !(args.follow || args.time.is_some()) || end.is_some_and(|end| end <= Instant::now()) {
            return false;
        }
        let waited = scope::wait(None, interrupt.as_fd(), &[], Some(PERIOD));
        matches!(waited, Ok(End::Time)) && !(args.output.is_none() && is_closed(io::stdout()))
    };
    let (symbols, lines) = args.sources()?;
    let mut places = args.lines.then(|| Places::new(&symbols, &lines));
    let put = |text: &[u8]| match &mut places {
        Some(places) => sink.write_bytes(&places.with_lines(text)),
        None => sink.write_bytes(text),
    };
    let sums = read(&door, &args.name, put, goes_on)?;
    if let Some(places) = places {
        places.note();
    }
    output::note(&format!("# records {}, lost {}", sums.records, sums.lost));
    Ok(DONE)
}

/// True if the reader of the output has closed it.
fn is_closed(fd: impl AsFd) -> bool {
    let mut events = [PollFd::new(&fd, PollFlags::empty())];
    let now = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    rustix::event::poll(&mut events, Some(&now)).is_ok_and(|n| n > 0)
}

/// Takes all records, and takes more as long as the plugin is started and `goes_on` returns true.
fn read(
    door: &impl Door,
    name: &str,
    mut put: impl FnMut(&[u8]) -> Result<(), Failure>,
    mut goes_on: impl FnMut() -> bool,
) -> Result<Sums, Failure> {
    let mut room = vec![0; ROOM];
    let mut sums = Sums::default();
    loop {
        // The module's records have times of this clock.
        let mut until = clock::now(ClockId::Monotonic);
        loop {
            let got = take(door, name, until, &mut room)?;
            put(room.get(..got.n as usize).unwrap_or_default())?;
            sums.records += u64::from(got.records);
            sums.lost = got.lost;
            if got.records > 0 {
                continue;
            }
            match (got.started, until) {
                (0, 0) => return Ok(sums),
                // The plugin may have been stopped meanwhile; then no more records come.
                (0, _) => until = 0,
                _ => break,
            }
        }
        if !goes_on() {
            return Ok(sums);
        }
    }
}

fn take(door: &impl Door, name: &str, until: u64, room: &mut [u8]) -> Result<PluginRead, Failure> {
    let mut request = PluginRead::default();
    request.name = to_name(name.as_bytes())
        .ok_or_else(|| Failure::usage(format!("{name:?} is no plugin's name")))?;
    request.until = until;
    match door.call(Request::PluginRead(&mut request, room)) {
        Ok(()) => Ok(request),
        Err(error) => Err(match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => Failure::failed(plugin::no_plugin(door, name)),
            Some(Errno::NODATA) => Failure::failed(format!(
                "plugin {name} has no records to be read: `jifl start {name}` starts it; if it \
                 keeps none, its words are in the kernel's log (dmesg)"
            )),
            _ => device::failed(&format!("reading the records of {name}"), &error),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::fake::Fake;

    fn read_to_text(fake: &Fake, goes_on: impl FnMut() -> bool) -> Result<(String, Sums), Failure> {
        let mut text = Vec::new();
        let put = |bytes: &[u8]| {
            text.extend_from_slice(bytes);
            Ok(())
        };
        let sums = read(fake, "tool", put, goes_on)?;
        Ok((String::from_utf8(text).unwrap(), sums))
    }

    #[test]
    fn all_that_is_there_is_read_and_then_what_comes() {
        let fake = Fake::default();
        let put = |lines: &[&str]| {
            let lines = lines.iter().map(|line| (*line).to_owned()).collect();
            fake.state().lines.insert("tool".into(), (lines, 7));
        };
        let why = || read_to_text(&fake, || false).unwrap_err().message;
        assert!(why().contains("jifl load"));
        fake.state().plugins.push(("tool".into(), true));
        assert!(why().contains("dmesg"));

        put(&["one\n", "two\n"]);
        let sums = |records| Sums { records, lost: 7 };
        let got = read_to_text(&fake, || false).unwrap();
        assert_eq!(got, ("one\ntwo\n".into(), sums(2)));

        put(&["three\n"]);
        let mut asked = 0;
        let got = read_to_text(&fake, || {
            asked += 1;
            put(&["four\n"]);
            // The plugin stops; the rest of its records is read.
            fake.state().plugins[0].1 = asked < 3;
            true
        });
        let text = "three\nfour\nfour\nfour\n";
        assert_eq!(got.unwrap(), (text.into(), sums(4)));
    }

    #[test]
    fn a_reader_that_goes_away_is_noticed() {
        let (read, write) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(!is_closed(&write));
        drop(read);
        assert!(is_closed(&write));
    }
}
