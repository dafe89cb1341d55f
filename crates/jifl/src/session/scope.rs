// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tasks of a session and its duration: the options that all commands with a session share, and
//! the session that they describe.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use jifl_sys::abi::{
    FILTER_CGROUP, FILTER_CHILDREN, FILTER_COMM, FILTER_PID, FILTER_TGID, FLAG_BY_CPU,
    FLAG_BY_LEVEL, Start, to_name,
};
use jifl_sys::device::Door;
use jifl_sys::os::{self, Gated};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};

use crate::base::duration;
use crate::base::exit::{DONE, Failure, LIMIT};
use crate::kernel::syscalls::Table;
use crate::session::measure::{self, Session};
use crate::session::recording::Warm;
use crate::session::report::Report;
use crate::session::targets;
use crate::show::output;

/// Options that select tasks, duration and functions.
#[derive(Debug, Default, Args)]
pub struct Scope {
    #[command(flatten)]
    tasks: Tasks,
    /// Translate the blocks of this recording (`jifl record`) first, so that first calls are as
    /// fast as later ones
    #[arg(long, value_name = "FILE")]
    warm: Option<PathBuf>,
    /// Only the functions themselves. What they call runs natively, and is not counted
    #[arg(long, conflicts_with = "warm")]
    only: bool,
    /// Only calls that are made under this: in this system call, or called by this function, at
    /// whatever distance. Of several one is enough
    #[arg(long, value_name = "TARGET")]
    under: Vec<String>,
    /// Refuse to start if tasks that are inside a function of the targets already cannot be taken
    /// over. Without it they are where that is possible
    #[arg(long, conflicts_with = "warm")]
    adopt: bool,
    /// Leave tasks alone that are inside a function of the targets already
    #[arg(long, conflicts_with = "adopt")]
    no_adopt: bool,
    /// Go on although a pattern matches more than 1,000 functions
    #[arg(short, long)]
    pub yes: bool,
    /// The command only says how long: what all tasks do is counted.
    #[arg(skip)]
    everyone: bool,
}

/// Options that select a duration alone.
#[derive(Debug, Default, Args)]
pub struct Span {
    /// End after this time: 5s, 100ms, 2m
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
    time: Option<Duration>,
    /// End with this command. All tasks are counted
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl Span {
    /// All tasks, for so long, in functions alone, those too that are inside at the start.
    pub fn scope(&self) -> Scope {
        Scope {
            tasks: Tasks {
                time: self.time,
                command: self.command.clone(),
                ..Tasks::default()
            },
            only: true,
            adopt: true,
            everyone: true,
            ..Scope::default()
        }
    }
}

/// Options that select tasks and a duration.
#[derive(Debug, Default, Clone, Args)]
pub struct Tasks {
    /// Only this process, with all its threads
    #[arg(short, long, value_name = "PID")]
    pub(super) pid: Option<i32>,
    /// Only this thread
    #[arg(short, long, value_name = "TID")]
    pub(super) tid: Option<i32>,
    /// Only tasks of this command name, or of names that match a pattern: 'kworker/*'
    #[arg(short = 'n', long = "name", value_name = "COMM")]
    pub(super) comm: Option<OsString>,
    /// Only tasks in this cgroup or below it; relative to /sys/fs/cgroup
    #[arg(long, value_name = "PATH")]
    pub(super) cgroup: Option<PathBuf>,
    /// End after this time: 5s, 100ms, 2m
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
    pub(super) time: Option<Duration>,
    /// Run this command, and count only it and its descendants
    #[arg(last = true, value_name = "CMD", conflicts_with_all = ["pid", "tid"])]
    pub(super) command: Vec<OsString>,
    /// Of the process, its descendants, too.
    #[arg(skip)]
    pub(super) descendants: bool,
}

impl Tasks {
    /// A process that runs, and its descendants.
    pub fn of_process(pid: i32) -> Tasks {
        Tasks {
            pid: Some(pid),
            descendants: true,
            ..Tasks::default()
        }
    }

    /// A thread that runs.
    pub fn of_thread(tid: i32) -> Tasks {
        Tasks {
            tid: Some(tid),
            ..Tasks::default()
        }
    }

    /// The same for a session about what its targets call, too.
    pub fn whole_scope(&self) -> Scope {
        Scope {
            tasks: self.clone(),
            ..Scope::default()
        }
    }

    /// The process that it is about, if it is about one.
    pub fn process(&self) -> Option<i32> {
        self.pid
    }

    /// Is it about a command that begins with the session?
    pub fn begins(&self) -> bool {
        !self.command.is_empty()
    }

    /// The same for a session about functions alone.
    pub fn scope(&self) -> Scope {
        Scope {
            tasks: self.clone(),
            only: true,
            ..Scope::default()
        }
    }
}

/// Why a session ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// Its time was up.
    Time,
    /// Ctrl-C, or SIGTERM.
    Interrupt,
    /// The command ended.
    Command(ExitStatus),
    /// All sessions were ended from outside.
    Detached,
}

/// The result of a session.
pub struct Outcome {
    /// Its counts.
    pub report: Report,
    /// The exit status of the command that was run, if one was.
    pub status: Option<u8>,
}

impl Outcome {
    /// Exit status of this program: that of the command; without one, whether the session ran to
    /// its end.
    pub fn exit_status(&self) -> u8 {
        let own = if self.report.cut_short { LIMIT } else { DONE };
        self.status.unwrap_or(own)
    }
}

/// Period of the calls of `beside`.
const BESIDE_PERIOD: Duration = Duration::from_millis(5);

/// Runs a session, from its start to its end. `beside` is called again and again meanwhile, and
/// once more when nothing is instrumented any longer. `at_end` is called once, with the session's
/// number, when it is about to end.
///
/// # Errors
/// The session is refused, or the command cannot be run.
pub fn observe<T>(
    scope: &Scope,
    door: &(impl Door + Sync),
    mut session: Session,
    table: &Table,
    beside: Option<&(dyn Fn() + Sync)>,
    at_end: impl FnOnce(u64) -> T,
) -> Result<(Outcome, T), Failure> {
    let warm = scope.warm.as_deref().map(Warm::of).transpose()?;
    let watch = Watch::new(scope, std::slice::from_mut(&mut session), table)?;
    let (mut report, run) = measure::measure(door, session, table, |id| {
        let warmed = warm.as_ref().map(|warm| warm.carry_out(door)).transpose()?;
        let ended = while_doing(beside, || watch.wait(std::slice::from_ref(door)))
            .map_err(|error| not_ended(scope, &error))?;
        Ok::<_, Failure>((ended, warmed, at_end(id)))
    })?;
    let (ended, warmed, seen) = run?;
    note_end(std::slice::from_ref(&report), &ended.1);
    if let (Some(warm), Some(warmed)) = (&warm, &warmed) {
        report.cost.leave_out(warmed);
        warm.note(warmed);
    }
    if let Some(beside) = beside {
        beside();
    }
    let status = status_of(ended)?;
    Ok((Outcome { report, status }, seen))
}

/// Runs a session as [`observe`] does. `at_start` is called with its number as soon as it runs.
///
/// # Errors
/// As for [`observe`].
pub fn hold(
    scope: &Scope,
    door: &impl Door,
    mut session: Session,
    table: &Table,
    at_start: impl FnOnce(u64),
) -> Result<Outcome, Failure> {
    let watch = Watch::new(scope, std::slice::from_mut(&mut session), table)?;
    let (report, ended) = measure::measure(door, session, table, |id| {
        at_start(id);
        watch.wait(std::slice::from_ref(door))
    })?;
    let ended = ended.map_err(|error| not_ended(scope, &error))?;
    note_end(std::slice::from_ref(&report), &ended.1);
    Ok(Outcome {
        report,
        status: status_of(ended)?,
    })
}

/// How waiting beside sessions of a caller's own ended.
pub struct Waited(Ended);

impl Waited {
    /// As if the sessions of a command had been ended from outside.
    #[cfg(test)]
    pub fn detached(command: Child) -> Waited {
        Waited((Some(command), End::Detached))
    }

    /// Waits until the command has run to its own end, if one was run.
    pub fn wait(self) {
        // The caller has a failure to tell of, and this one would hide it.
        let _ = status_of(self.0);
    }

    /// The outcome, with the report of the last of these sessions.
    ///
    /// # Errors
    /// The command cannot be waited for.
    pub fn outcome(self, report: Report) -> Result<Outcome, Failure> {
        note_end(std::slice::from_ref(&report), &self.0.1);
        Ok(Outcome {
            report,
            status: status_of(self.0)?,
        })
    }
}

/// Waits as [`observe`] does, for sessions that the caller begins and ends, one after the other.
/// `begin` is called with `session` once it has the filters, before CMD runs, and `step` again and
/// again from then on. It ends, too, when the other end of `over` is closed.
///
/// # Errors
/// A filter cannot be, the command cannot be run, or `begin` fails.
pub fn beside(
    scope: &Scope,
    mut session: Session,
    table: &Table,
    over: &UnixStream,
    begin: impl FnOnce(&Session) -> Result<(), Failure>,
    step: impl Fn() + Sync,
) -> Result<Waited, Failure> {
    let watch = Watch::new(scope, std::slice::from_mut(&mut session), table)?;
    begin(&session)?;
    let ended = while_doing(Some(&step), || watch.wait_for(&[over.as_fd()]));
    ended.map(Waited).map_err(|error| not_ended(scope, &error))
}

/// Runs several sessions about the same tasks at the same time, each through its own door. The
/// reports are in the order of the sessions; the status is that of the command, if one was run.
///
/// # Errors
/// As for [`observe`].
pub fn observe_each(
    scope: &Scope,
    doors: &[impl Door + Sync],
    mut sessions: Vec<Session>,
    table: &Table,
) -> Result<(Vec<Report>, Option<u8>), Failure> {
    if scope.warm.is_some() {
        return Err(Failure::usage(
            "--warm does not go with several sessions at once: each would translate the blocks of \
             all",
        ));
    }
    let watch = Watch::new(scope, &mut sessions, table)?;
    let (mut watch, mut ended) = (Some(watch), None);
    let mut wait = || ended = watch.take().map(|watch| watch.wait(doors));
    let mut reports = Vec::new();
    measure_each(doors, &sessions, table, &mut wait, &mut reports)?;
    // The last session to start is the first to end.
    reports.reverse();
    let ended = ended.expect("all sessions were started, so it was waited");
    let ended = ended.map_err(|error| not_ended(scope, &error))?;
    note_end(&reports, &ended.1);
    Ok((reports, status_of(ended)?))
}

/// Measures each session inside the one before it.
fn measure_each(
    doors: &[impl Door],
    sessions: &[Session],
    table: &Table,
    wait: &mut dyn FnMut(),
    reports: &mut Vec<Report>,
) -> Result<(), Failure> {
    let (Some(door), Some(session)) = (doors.first(), sessions.first()) else {
        wait();
        return Ok(());
    };
    let (report, inner) = measure::measure(door, session.clone(), table, |_| {
        measure_each(&doors[1..], &sessions[1..], table, wait, reports)
    })?;
    inner?;
    reports.push(report);
    Ok(())
}

/// What sessions wait for. It is made before they start, so that their filters can name the
/// command's process.
struct Watch {
    interrupt: UnixStream,
    gated: Option<Gated>,
    time: Option<Duration>,
}

impl Watch {
    /// Sets the filters of the sessions before they start.
    fn new(scope: &Scope, sessions: &mut [Session], table: &Table) -> Result<Watch, Failure> {
        let under = match scope.under.as_slice() {
            [] => Vec::new(),
            words => targets::under(words, table, scope.yes)?,
        };
        for session in sessions.iter_mut() {
            session.under.clone_from(&under);
            session.check_under()?;
            scope.apply(session)?;
        }
        let interrupt = os::catch_interrupts()
            .map_err(|error| Failure::failed(format!("catching Ctrl-C: {error}")))?;
        let gated = match scope.tasks.command.as_slice() {
            [] => None,
            command => Some(gate(command)?),
        };
        if let Some(gated) = gated.as_ref().filter(|_| !scope.everyone) {
            for Session { start, .. } in sessions {
                start.filters |= FILTER_TGID | FILTER_CHILDREN;
                start.tgid = gated.pid() as i32;
            }
        }
        Ok(Watch {
            interrupt,
            gated,
            time: scope.tasks.time,
        })
    }

    /// Lets the command run, and waits for the end.
    fn wait(self, doors: &[impl Door]) -> io::Result<Ended> {
        let sessions: Vec<_> = doors.iter().filter_map(Door::poll_fd).collect();
        self.wait_for(&sessions)
    }

    /// The same for what [`Door::poll_fd`] gives.
    fn wait_for(self, sessions: &[BorrowedFd<'_>]) -> io::Result<Ended> {
        let mut child = self.gated.map(Gated::open).transpose()?;
        let end = wait(child.as_mut(), self.interrupt.as_fd(), sessions, self.time)?;
        Ok((child, end))
    }
}

/// The command, if one was run, and why the sessions end.
type Ended = (Option<Child>, End);

fn not_ended(scope: &Scope, error: &io::Error) -> Failure {
    match scope.tasks.command.as_slice() {
        [] => Failure::failed(format!("waiting: {error}")),
        command => not_run(command, error),
    }
}

/// The exit status of the command, if one was run. If only the session is over, the command runs to
/// its own end.
fn status_of((child, end): Ended) -> Result<Option<u8>, Failure> {
    let Some(mut child) = child else {
        return Ok(None);
    };
    let status = match end {
        End::Command(status) => status,
        End::Time | End::Interrupt | End::Detached => child
            .wait()
            .map_err(|error| Failure::failed(format!("waiting for the command: {error}")))?,
    };
    Ok(Some(exit_status(status)))
}

/// Calls `beside` from a thread of its own until `work` is done.
fn while_doing<T>(beside: Option<&(dyn Fn() + Sync)>, work: impl FnOnce() -> T) -> T {
    let Some(beside) = beside else {
        return work();
    };
    let done = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                beside();
                thread::sleep(BESIDE_PERIOD);
            }
        });
        let value = work();
        done.store(true, Ordering::Relaxed);
        value
    })
}

impl Scope {
    /// Refuses filters that cannot be, before anything is started.
    pub fn check(&self) -> Result<(), Failure> {
        self.set_filters(&mut Start::default())
    }

    /// Was any of its options given that says what is looked at, and how long?
    pub fn is_given(&self) -> bool {
        let is_made = !self.under.is_empty() || self.only || self.adopt || self.no_adopt;
        is_made || self.selects_tasks() || self.tasks.time.is_some() || self.warm.is_some()
    }

    /// Gives a session its filters, and says of it how functions run and who is taken over.
    ///
    /// # Errors
    /// A filter cannot be, or the session's kind does not go with the options.
    pub fn apply(&self, session: &mut Session) -> Result<(), Failure> {
        self.set_filters(&mut session.start)?;
        session.only = self.only;
        session.check_only()?;
        session.adopt = self.adopts(session)?;
        Ok(())
    }

    /// Was `--warm` given?
    pub fn warms(&self) -> bool {
        self.warm.is_some()
    }

    /// Do calls count under system calls alone?
    pub fn is_under_system_calls_alone(&self) -> bool {
        !self.under.is_empty() && self.under.iter().all(|word| word.starts_with("sys:"))
    }

    /// Does it leave out tasks?
    pub fn selects_tasks(&self) -> bool {
        self.tasks.pid.is_some()
            || self.tasks.tid.is_some()
            || self.tasks.comm.is_some()
            || self.tasks.cgroup.is_some()
            || !self.tasks.command.is_empty()
    }

    /// Does the session take tasks over that are inside already?
    ///
    /// # Errors
    /// It cannot, and has to.
    fn adopts(&self, session: &Session) -> Result<bool, Failure> {
        let may = session.may_adopt();
        // Such a command begins with the session. What holds it back until then is inside functions.
        let begins = !self.tasks.command.is_empty() && !self.everyone;
        if self.adopt && begins {
            return Err(Failure::usage(
                "--adopt is about tasks that are inside functions already, and CMD begins with the \
                 session: leave out --adopt, or give -p, -n or --cgroup",
            ));
        }
        if self.adopt {
            may?;
            return Ok(true);
        }
        if !session.of_threads {
            return Ok(may.is_ok() && !begins && !self.no_adopt && self.warm.is_none());
        }
        // Such a thread does not come in by the door: it is inside for all its life.
        if self.no_adopt || self.warm.is_some() {
            return Err(Failure::usage(
                "kthread: threads are inside their functions already: leave out --no-adopt and \
                 --warm",
            ));
        }
        // What such a thread has executed is known at the end, when it has been on many CPUs.
        if session.start.flags & (FLAG_BY_CPU | FLAG_BY_LEVEL) != 0 {
            return Err(Failure::usage(
                "kthread: does not go with --by cpu and context, which are known of calls that \
                 end: --by comm,pid has a row for each thread",
            ));
        }
        may.map_err(|_| {
            Failure::usage(
                "kthread: goes with trace, mem, lock, prof without --paths, cover, branch and \
                 count insn, block and none: all else needs the beginning of a call; give a function that the thread calls, as \
                 fn:balance_pgdat",
            )
        })?;
        Ok(true)
    }

    fn set_filters(&self, start: &mut Start) -> Result<(), Failure> {
        if let Some(pid) = self.tasks.pid {
            exists(pid)?;
            is_process(pid)?;
            start.filters |= FILTER_TGID;
            if self.tasks.descendants {
                start.filters |= FILTER_CHILDREN;
            }
            start.tgid = pid;
        }
        if let Some(tid) = self.tasks.tid {
            exists(tid)?;
            start.filters |= FILTER_PID;
            start.pid = tid;
        }
        if let Some(comm) = &self.tasks.comm {
            if start.filters & FILTER_COMM != 0 {
                return Err(Failure::usage(
                    "-n does not go with kthread:, which selects threads by their names itself",
                ));
            }
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
        if let Some(path) = &self.tasks.cgroup {
            start.filters |= FILTER_CGROUP;
            start.cgroup = cgroup_id(path)?;
        }
        Ok(())
    }
}

fn exists(pid: i32) -> Result<(), Failure> {
    if pid > 0 && Path::new(&format!("/proc/{pid}")).exists() {
        return Ok(());
    }
    Err(Failure::failed(format!("no process or thread {pid}")))
}

/// A thread that is not its process's first has a number that no process has.
fn is_process(pid: i32) -> Result<(), Failure> {
    let status = fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    match of_process(&String::from_utf8_lossy(&status)) {
        Some(process) if process != pid => Err(Failure::failed(format!(
            "{pid} is a thread of process {process}: give -p {process}, or -t {pid}"
        ))),
        _ => Ok(()),
    }
}

/// The process in a thread's /proc/PID/status.
fn of_process(status: &str) -> Option<i32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok()
}

/// The kernel's id of a cgroup: the inode number of its directory.
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
    // A daemon's clients may not look outside.
    if full.components().any(|one| one == Component::ParentDir) {
        return Err(about(&"a cgroup's path has no `..`"));
    }
    if !full.join("cgroup.procs").exists() {
        return Err(about(&"no cgroup (of version 2) there"));
    }
    std::fs::metadata(&full)
        .map(|meta| meta.ino())
        .map_err(|error| about(&error))
}

/// The process of a command, which waits.
///
/// # Errors
/// There can be none.
pub fn gate(command: &[OsString]) -> Result<Gated, Failure> {
    let mut process = Command::new(&command[0]);
    process.args(&command[1..]);
    Gated::new(process).map_err(|error| Failure::failed(format!("starting a process: {error}")))
}

/// The exit statuses of shells for commands that cannot be run.
pub fn not_run(command: &[OsString], error: &io::Error) -> Failure {
    let missing = error.kind() == io::ErrorKind::NotFound;
    Failure {
        status: if missing { 127 } else { 126 },
        message: format!("{}: {error}", command[0].to_string_lossy()),
    }
}

/// Waits for the first of these: the child's end, an interrupt, the end of all of `sessions` (of
/// [`Door::poll_fd`]), the time.
pub fn wait(
    mut child: Option<&mut Child>,
    interrupt: BorrowedFd<'_>,
    sessions: &[BorrowedFd<'_>],
    time: Option<Duration>,
) -> io::Result<End> {
    // A time too long for the clock means no end.
    let end = time.and_then(|time| Instant::now().checked_add(time));
    let pidfd = match &child {
        Some(child) => {
            let pid = Pid::from_raw(child.id() as i32).ok_or(io::ErrorKind::InvalidInput)?;
            Some(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
        }
        None => None,
    };
    let mut events = vec![PollFd::from_borrowed_fd(interrupt, PollFlags::IN)];
    events.extend(pidfd.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
    let before_sessions = events.len();
    events.extend(
        sessions
            .iter()
            .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::empty())),
    );
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let timeout = left.map(|left| Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        match rustix::event::poll(&mut events, timeout.as_ref()) {
            Ok(0) => return Ok(End::Time),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        if let Some(child) = &mut child
            && !events[1].revents().is_empty()
        {
            return Ok(End::Command(child.wait()?));
        }
        if !events[0].revents().is_empty() {
            return Ok(End::Interrupt);
        }
        let running = events.split_off(before_sessions);
        events.extend(running.into_iter().filter(|fd| fd.revents().is_empty()));
        if events.len() == before_sessions {
            return Ok(End::Detached);
        }
    }
}

/// Tells on stderr why a session ended, unless it ended with its command.
fn note_end(reports: &[Report], end: &End) {
    if *end == End::Interrupt {
        let draining: u32 = reports.iter().map(|report| report.draining).sum();
        let missed: u64 = reports.iter().map(Report::missed).sum();
        output::note(&format!(
            "Detaching... {draining} {} draining, done in {}. missed {missed}.",
            if draining == 1 { "thread" } else { "threads" },
            duration::show(reports.iter().map(|report| report.drain_ns).sum())
        ));
    }
}

/// Has the session of a door ended, by whomever?
pub fn has_ended(door: &impl Door) -> bool {
    let Some(fd) = door.poll_fd() else {
        return false;
    };
    let mut events = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
    rustix::event::poll(&mut events, Some(&Timespec::default())).is_ok_and(|found| found > 0)
}

/// The exit status of a command as shells have it: 128 + signal where that killed it.
pub fn exit_status(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.unwrap_or(255) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parse::parse;
    use std::io::Write;

    #[test]
    fn a_thread_names_its_process() {
        assert_eq!(of_process("Name:\tx\nTgid:\t12\nNgid:\t0\n"), Some(12));
        assert_eq!(of_process(""), None);
        let own = std::process::id() as i32;
        assert!(is_process(own).is_ok());
    }

    #[test]
    fn filters_are_set() {
        let mut start = Start::default();
        let own = std::process::id();
        let scope: Scope = parse(&format!("-p {own} -n bash")).unwrap();
        scope.set_filters(&mut start).unwrap();
        assert_eq!(start.filters, FILTER_TGID | FILTER_COMM);
        assert_eq!(start.tgid, own as i32);
        assert_eq!(&start.comm[..5], b"bash\0");
        for bad in ["-n sixteen-bytes-xx", "-p 999999999", "--cgroup no/such"] {
            assert!(parse::<Scope>(bad).unwrap().check().is_err(), "{bad}");
        }
        for path in ["../../../tmp", "a/../b", "/sys/fs/cgroup/.."] {
            let refused = cgroup_id(Path::new(path)).unwrap_err();
            assert!(
                refused.message.ends_with("has no `..`"),
                "{}",
                refused.message
            );
        }
    }

    #[test]
    fn waiting_ends_with_the_first_event() {
        let (read, mut write) = UnixStream::pair().unwrap();
        let short = Some(Duration::from_millis(20));
        assert_eq!(wait(None, read.as_fd(), &[], short).unwrap(), End::Time);
        let ages = Some(Duration::from_secs(u64::MAX));
        let mut child = Command::new("true").spawn().unwrap();
        let ended = wait(Some(&mut child), read.as_fd(), &[], ages).unwrap();
        assert!(matches!(ended, End::Command(_)));
        let mut child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        match wait(Some(&mut child), read.as_fd(), &[], None).unwrap() {
            End::Command(status) => assert_eq!(exit_status(status), 3),
            other => panic!("{other:?}"),
        }
        // Sessions count as ended when the last one has ended.
        let (one, one_end) = UnixStream::pair().unwrap();
        let (other, other_end) = UnixStream::pair().unwrap();
        let sessions = [one.as_fd(), other.as_fd()];
        drop(one_end);
        assert_eq!(
            wait(None, read.as_fd(), &sessions, short).unwrap(),
            End::Time
        );
        drop(other_end);
        assert_eq!(
            wait(None, read.as_fd(), &sessions, None).unwrap(),
            End::Detached
        );
        write.write_all(b"!").unwrap();
        assert_eq!(wait(None, read.as_fd(), &[], None).unwrap(), End::Interrupt);
    }
}
