// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl count`: what system calls execute.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use jifl_sys::abi::{
    FILTER_CGROUP, FILTER_CHILDREN, FILTER_COMM, FILTER_PID, FILTER_TGID, FLAG_REPEATS, Kind,
    Start, to_name,
};
use jifl_sys::os::{self, Gated};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};

use crate::exit::{DONE, Failure, LIMIT};
use crate::report::{Format, Report};
use crate::syscalls::Table;
use crate::{device, duration, output, session, target};

/// What is counted.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    /// Instructions executed
    Insn,
    /// Basic blocks executed
    Block,
    /// The calls alone
    Call,
    /// Nothing: what the code cache itself costs
    None,
}

impl What {
    fn kind(self) -> Kind {
        match self {
            What::Insn => Kind::Insn,
            What::Block => Kind::Block,
            What::Call => Kind::Call,
            What::None => Kind::None,
        }
    }
}

/// Arguments of `jifl count`.
#[derive(Debug, Args)]
#[command(after_help = "\
TARGET is sys:NAME, sys:GLOB or sys:NUMBER. Filters that are given must all match.

The session ends with CMD, after --for, or with Ctrl-C. The report goes to stdout
(after CMD's own output) or to FILE. With CMD the exit status is CMD's.

Examples:
  jifl count insn sys:clone --for 10s
  jifl count insn 'sys:*' -f json -o counts.json -- make
  jifl count block sys:read sys:write -p 1234")]
pub struct CountArgs {
    /// What to count
    #[arg(value_enum)]
    what: What,
    /// System calls: sys:openat, sys:*at, sys:*
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    /// Only this process, all its threads
    #[arg(short, long, value_name = "PID")]
    pid: Option<i32>,
    /// Only this thread
    #[arg(short, long, value_name = "TID")]
    tid: Option<i32>,
    /// Only tasks of this command name
    #[arg(short = 'n', long = "name", value_name = "COMM")]
    comm: Option<OsString>,
    /// Only tasks in this cgroup or below it; relative to /sys/fs/cgroup
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// With insn: count a repeated string instruction once more for every
    /// repetition, as processor clocks that tick per iteration see it
    #[arg(long)]
    repeats: bool,
    /// End after this time: 5s, 100ms, 2m
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
    time: Option<Duration>,
    /// How the report is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    /// Write the report to FILE
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Run this, and count it and its descendants only
    #[arg(last = true, value_name = "CMD", conflicts_with_all = ["pid", "tid"])]
    command: Vec<OsString>,
}

/// Why a session ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// Its time was up.
    Time,
    /// Ctrl-C, or SIGTERM.
    Interrupt,
    /// The command ended.
    Command(ExitStatus),
}

/// Runs the command; the result is the exit status.
pub fn run(args: CountArgs) -> Result<u8, Failure> {
    let table = Table::all();
    let numbers = target::select(&args.targets, &table)?;
    let mut start = Start {
        kind: args.what.kind() as u32,
        flags: if args.repeats { FLAG_REPEATS } else { 0 },
        nrs: session::bits(&numbers),
        ..Start::default()
    };
    if args.repeats && !matches!(args.what, What::Insn) {
        return Err(Failure::usage("--repeats goes with `count insn` only"));
    }
    set_filters(&args, &mut start)?;
    // Before anything is started: a report nobody can read is none.
    let mut sink = output::Sink::open(args.output.as_deref())?;
    let door = device::open()?;
    let interrupt = os::catch_interrupts()
        .map_err(|error| Failure::failed(format!("catching Ctrl-C: {error}")))?;

    if args.command.is_empty() {
        let (report, end) = session::measure(&door, start, &table, || {
            wait(None, interrupt.as_fd(), args.time)
        })?;
        let end = end.map_err(|error| Failure::failed(format!("waiting: {error}")))?;
        note_end(&report, &end);
        note_absent(&report, &args.targets, &table);
        write_report(&report, args.format, &mut sink)?;
        return Ok(if report.cut_short { LIMIT } else { DONE });
    }

    let gated = gate(&args.command)?;
    start.filters |= FILTER_TGID | FILTER_CHILDREN;
    start.tgid = gated.pid() as i32;
    let (report, end) = session::measure(&door, start, &table, || {
        let mut child = gated.open()?;
        let end = wait(Some(&mut child), interrupt.as_fd(), args.time)?;
        Ok::<_, io::Error>((child, end))
    })?;
    let (mut child, end) = end.map_err(|error| not_run(&args.command, &error))?;
    note_end(&report, &end);
    note_absent(&report, &args.targets, &table);
    let status = match end {
        End::Command(status) => status,
        // The session is over, its command goes on to its own end.
        End::Time | End::Interrupt => child
            .wait()
            .map_err(|error| Failure::failed(format!("waiting for the command: {error}")))?,
    };
    write_report(&report, args.format, &mut sink)?;
    Ok(exit_status(status))
}

fn set_filters(args: &CountArgs, start: &mut Start) -> Result<(), Failure> {
    if let Some(pid) = args.pid {
        exists(pid)?;
        start.filters |= FILTER_TGID;
        start.tgid = pid;
    }
    if let Some(tid) = args.tid {
        exists(tid)?;
        start.filters |= FILTER_PID;
        start.pid = tid;
    }
    if let Some(comm) = &args.comm {
        let shown = comm.to_string_lossy();
        start.filters |= FILTER_COMM;
        start.comm = to_name(comm.as_encoded_bytes())
            .filter(|_| !comm.is_empty())
            .ok_or_else(|| {
                Failure::usage(format!(
                    "-n {shown}: command names have 1 to 15 bytes (see /proc/PID/comm)"
                ))
            })?;
    }
    if let Some(path) = &args.cgroup {
        start.filters |= FILTER_CGROUP;
        start.cgroup = cgroup_id(path)?;
    }
    Ok(())
}

fn exists(pid: i32) -> Result<(), Failure> {
    if pid > 0 && Path::new(&format!("/proc/{pid}")).exists() {
        return Ok(());
    }
    Err(Failure::failed(format!("no process or thread {pid}")))
}

/// The id that the kernel knows a cgroup by: its directory's inode number.
fn cgroup_id(path: &Path) -> Result<u64, Failure> {
    let mounted = Path::new("/sys/fs/cgroup");
    let full = if path.starts_with(mounted) {
        path.to_owned()
    } else {
        mounted.join(path.strip_prefix("/").unwrap_or(path))
    };
    let about = |error: &dyn std::fmt::Display| {
        Failure::failed(format!("--cgroup {}: {error}", full.display()))
    };
    if !full.join("cgroup.procs").exists() {
        return Err(about(&"no cgroup (of version 2) there"));
    }
    std::fs::metadata(&full)
        .map(|meta| meta.ino())
        .map_err(|error| about(&error))
}

fn gate(command: &[OsString]) -> Result<Gated, Failure> {
    let mut process = Command::new(&command[0]);
    process.args(&command[1..]);
    Gated::new(process).map_err(|error| Failure::failed(format!("starting a process: {error}")))
}

/// The statuses that shells give to what cannot be run.
fn not_run(command: &[OsString], error: &io::Error) -> Failure {
    let missing = error.kind() == io::ErrorKind::NotFound;
    Failure {
        status: if missing { 127 } else { 126 },
        message: format!("{}: {error}", command[0].to_string_lossy()),
    }
}

/// Waits for what comes first: the child's end, an interrupt, the time.
fn wait(
    child: Option<&mut Child>,
    interrupt: std::os::fd::BorrowedFd<'_>,
    time: Option<Duration>,
) -> io::Result<End> {
    let end = time.map(|time| Instant::now() + time);
    let pidfd = match &child {
        Some(child) => {
            let pid = Pid::from_raw(child.id() as i32).ok_or(io::ErrorKind::InvalidInput)?;
            Some(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
        }
        None => None,
    };
    let mut events = vec![PollFd::from_borrowed_fd(interrupt, PollFlags::IN)];
    if let Some(pidfd) = &pidfd {
        events.push(PollFd::new(pidfd, PollFlags::IN));
    }
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let timeout = left.map(|left| Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        match rustix::event::poll(&mut events, timeout.as_ref()) {
            Ok(0) => return Ok(End::Time),
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let ended = events.get(1).is_some_and(|fd| !fd.revents().is_empty());
    match child {
        Some(child) if ended => Ok(End::Command(child.wait()?)),
        _ => Ok(End::Interrupt),
    }
}

/// Says on stderr how a session ended that did not end with its command.
fn note_end(report: &Report, end: &End) {
    if *end == End::Interrupt {
        output::note(&format!(
            "Detaching... {} {} draining, done in {}. missed {}.",
            report.draining,
            if report.draining == 1 {
                "thread"
            } else {
                "threads"
            },
            duration::show(report.drain_ns),
            report.missed()
        ));
    }
}

/// Names the calls that were asked for one by one and are not in this kernel.
fn note_absent(report: &Report, targets: &[String], table: &Table) {
    for nr in &report.absent {
        let name = format!("sys:{}", table.name(*nr));
        if targets.contains(&name) || targets.contains(&format!("sys:{nr}")) {
            output::note(&format!("jifl: this kernel has no {name}"));
        }
    }
}

fn write_report(report: &Report, format: Format, sink: &mut output::Sink) -> Result<(), Failure> {
    if report.cut_short {
        output::note(
            "jifl: the session was ended from outside (`jifl detach`); this is what it had counted",
        );
    }
    if report.rows.is_empty() && report.kind != Kind::None {
        output::note("jifl: none of the targets was called by what the filters select");
    }
    sink.write(&report.render(format))?;
    if let Some(notes) = report.notes(format) {
        output::note(notes.trim_end());
    }
    Ok(())
}

fn exit_status(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.unwrap_or(255) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        count: CountArgs,
    }

    fn parse(line: &str) -> Result<CountArgs, clap::Error> {
        let words = std::iter::once("count").chain(line.split_whitespace());
        Cli::try_parse_from(words).map(|cli| cli.count)
    }

    #[test]
    fn the_documented_lines_parse() {
        for line in [
            "insn sys:clone",
            "block sys:* -p 1 --for 5s",
            "insn sys:read sys:write -n bash --cgroup system.slice -f json -o x",
            "call sys:read -- make -j2",
            "none sys:read --for 100ms -f csv",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
        for line in [
            "",
            "insn",
            "bogus sys:read",
            "insn sys:read --for 5x",
            "insn sys:read -p 1 -- true",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn filters_are_set() {
        let mut start = Start::default();
        let own = std::process::id();
        let args = parse(&format!("insn sys:read -p {own} -n bash")).unwrap();
        set_filters(&args, &mut start).unwrap();
        assert_eq!(start.filters, FILTER_TGID | FILTER_COMM);
        assert_eq!(start.tgid, own as i32);
        assert_eq!(&start.comm[..5], b"bash\0");
        for bad in ["-n sixteen-bytes-xx", "-p 999999999", "--cgroup no/such"] {
            let args = parse(&format!("insn sys:read {bad}")).unwrap();
            assert!(set_filters(&args, &mut Start::default()).is_err(), "{bad}");
        }
    }

    #[test]
    fn waiting_ends_with_the_first_event() {
        let (read, mut write) = UnixStream::pair().unwrap();
        let short = Some(Duration::from_millis(20));
        assert_eq!(wait(None, read.as_fd(), short).unwrap(), End::Time);
        let mut child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        match wait(Some(&mut child), read.as_fd(), None).unwrap() {
            End::Command(status) => assert_eq!(exit_status(status), 3),
            other => panic!("{other:?}"),
        }
        write.write_all(b"!").unwrap();
        assert_eq!(wait(None, read.as_fd(), None).unwrap(), End::Interrupt);
    }
}
