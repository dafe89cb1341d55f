// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host's side: starts QEMU, speaks with the guest's init, and says how the machine ended.
//! Nothing is written to disk: the initramfs is a memfd, and the console is read through a socket.
//! So a killed run leaves nothing behind.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jifl_sys::os;
use serde_json::json;

use crate::console::Console;
use crate::frame::{self, Kind};
use crate::monitor::Monitor;
use crate::{Accel, Config, Outcome, cpus, heal, initramfs, kernel, qemu};

pub use crate::qemu::{MINIMUM as QEMU_MINIMUM, version as qemu_version};

/// What init needs to reach the host's file system.
const MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_console",
    "9pnet_virtio",
    "9p",
    "overlay",
];

/// What tells QEMU where the kernel is, for images of memory (`-device vmcoreinfo`).
const MEMORY_IMAGE_MODULE: &str = "qemu_fw_cfg";

/// Lines of the console shown with an error; an oops is long.
const CONSOLE_LINES: usize = 20;
const PANIC_LINES: usize = 80;

/// QEMU itself may die while the guest probes its PCI bus: with a thread for each
/// processor an access in flight is now and then dispatched to the wrong device
/// (seen with 10.0.2: an assertion in hw/pci/msix.c, once in some hundreds of
/// boots). And a processor's timer may not tick any more: a stock kernel boots on one processor
/// then, and RCU complains of the other (seen once, with 10.0.2 on a loaded host; why is not known,
/// `cpus::describe` shows what that processor's interrupt controller says). Nothing of the command
/// or of its modules has run by then, so the machine starts anew.
const STARTS: u32 = 3;

/// After the last line of a panic, a machine has ended in a moment. One in hundreds did not, on a
/// loaded host; why is not known, and `cpus::describe` shows where its CPUs are.
const PANIC_END: Duration = Duration::from_secs(20);

/// Says whether this machine can run `config` at all; the error is one line.
pub fn check(config: &Config) -> Result<(), String> {
    let (major, line) = qemu::version()?;
    if major < qemu::MINIMUM {
        return Err(format!(
            "{line} is too old, {} or later is needed: run `make setup`",
            qemu::MINIMUM
        ));
    }
    if !is_static(&config.init) {
        return Err(format!(
            "{} is not statically linked, so it cannot be the guest's init: run `make cli`",
            config.init.display()
        ));
    }
    Ok(())
}

/// A static ELF program has no interpreter; the name of glibc's dynamic linker
/// is the plainest sign of one.
fn is_static(path: &std::path::Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| {
        let head = &bytes[..bytes.len().min(4096)];
        !head.windows(8).any(|window| window == b"/ld-linu")
    })
}

/// What the other threads tell the main thread.
enum Event {
    Frame(Kind, Vec<u8>),
    Closed,
    OutputClosed,
    /// See [`crate::stale`].
    StaleBreakpoint,
    /// See [`Console::stall`].
    Stalled,
    /// See [`Console::panic_has_ended`].
    PanicHasEnded,
}

/// Runs the command. Everything the user must know beyond the command's own
/// output goes to standard error. Call it from the main thread.
///
/// # Errors
/// When the machine could not even be started: one line.
pub fn run(config: &Config) -> Result<Outcome, String> {
    let mut starts = 1;
    loop {
        let mut machine = Machine::start(config)?;
        let outcome = machine.converse(config);
        match machine.finish(config, outcome) {
            Ended::Reported(outcome) => return Ok(outcome),
            Ended::NotBegun(why) if starts == STARTS => {
                return Err(format!("the machine failed to boot {STARTS} times: {why}"));
            }
            Ended::NotBegun(why) => {
                eprintln!("jifl vm: the machine failed to boot, starting again: {why}");
            }
        }
        starts += 1;
    }
}

enum Ended {
    /// The user has been told.
    Reported(Outcome),
    /// QEMU aborted before the command began, with this message; or the kernel stalled before its
    /// init began, with this line.
    NotBegun(String),
}

struct Machine {
    qemu: Child,
    port: UnixStream,
    monitor: UnixStream,
    /// The guest's init has spoken.
    greeted: bool,
    events: mpsc::Receiver<Event>,
    console: Arc<Mutex<Console>>,
    console_reader: JoinHandle<()>,
    complaints: JoinHandle<String>,
}

impl Machine {
    fn start(config: &Config) -> Result<Machine, String> {
        let say = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
        let initramfs = make_initramfs(config)?;
        let (console, console_end) = UnixStream::pair().map_err(|e| say("socket", &e))?;
        let (port, port_end) = UnixStream::pair().map_err(|e| say("socket", &e))?;
        let (monitor, monitor_end) = UnixStream::pair().map_err(|e| say("socket", &e))?;
        let log = match &config.console {
            Some(path) => {
                let shown = path.display().to_string();
                Some(File::create(path).map_err(|e| say(&shown, &e))?)
            }
            None => None,
        };

        let watch = needs_watch(config)
            .then(Watch::new)
            .transpose()
            .map_err(|e| say("socket", &e))?;
        let fds = qemu::Inherited {
            initramfs: initramfs.as_raw_fd(),
            console: console_end.as_raw_fd(),
            port: port_end.as_raw_fd(),
            monitor: monitor_end.as_raw_fd(),
            watched: watch.as_ref().map(Watch::fds),
        };
        let mut command = qemu::command(config, &fds);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::piped());
        let watched = fds.watched.iter().flat_map(|fds| [fds.monitor, fds.stub]);
        let keep = [fds.initramfs, fds.console, fds.port, fds.monitor]
            .into_iter()
            .chain(watched);
        os::tie_to_parent(&mut command, &keep.collect::<Vec<_>>());
        let mut qemu = command.spawn().map_err(|e| say(qemu::PROGRAM, &e))?;

        let complaints = qemu.stderr.take();
        let complaints = thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(mut pipe) = complaints {
                let _ = pipe.read_to_end(&mut text);
            }
            String::from_utf8_lossy(&text).trim().to_owned()
        });
        let (sender, events) = mpsc::channel();
        let shared = Arc::new(Mutex::new(Console::default()));
        let console_reader = {
            let (shared, sender) = (Arc::clone(&shared), sender.clone());
            thread::spawn(move || read_console(console, log, &shared, &sender))
        };
        let reader = port.try_clone().map_err(|e| say("socket", &e))?;
        thread::spawn(move || read_port(reader, &sender));
        if let Some(watch) = watch {
            watch.start();
        }
        Ok(Machine {
            qemu,
            port,
            monitor,
            greeted: false,
            events,
            console: shared,
            console_reader,
            complaints,
        })
    }

    /// The whole conversation, until the command or the machine has ended.
    fn converse(&mut self, config: &Config) -> Outcome {
        let mut deadline = Some(Instant::now() + config.boot_timeout);
        let mut ready = false;
        let mut panicked: Option<Instant> = None;
        loop {
            let event = match [deadline, panicked].into_iter().flatten().min() {
                None => self.events.recv().map_err(|_| false),
                Some(at) => self
                    .events
                    .recv_timeout(at.saturating_duration_since(Instant::now()))
                    .map_err(|error| error == mpsc::RecvTimeoutError::Timeout),
            };
            match event {
                Ok(Event::Frame(Kind::Hello, _)) => {
                    self.greeted = true;
                    if let Err(error) = describe_job(&mut self.port, config) {
                        return Outcome::BootFailed(format!(
                            "the guest stopped listening: {error}"
                        ));
                    }
                }
                Ok(Event::Frame(Kind::Ready, _)) => {
                    ready = true;
                    deadline = config.timeout.map(|timeout| Instant::now() + timeout);
                    self.forward_stdin();
                }
                Ok(Event::Frame(Kind::Failed, why)) => {
                    return Outcome::BootFailed(String::from_utf8_lossy(&why).into_owned());
                }
                Ok(Event::Frame(Kind::Exit, status)) => {
                    return Outcome::Exited(status.first().copied().unwrap_or(255));
                }
                Ok(Event::Frame(..)) => {}
                Ok(Event::OutputClosed) => return Outcome::OutputClosed,
                // `finish` adds the place to the message.
                Ok(Event::StaleBreakpoint) => return Outcome::EmulatorFailed(String::new()),
                Ok(Event::Stalled) if self.greeted => {}
                Ok(Event::Stalled) => {
                    return Outcome::BootFailed("the kernel stalls".into());
                }
                Ok(Event::PanicHasEnded) => panicked = Some(Instant::now() + PANIC_END),
                Err(true) if panicked.is_some_and(|at| at <= Instant::now()) => {
                    panicked = None;
                    if lock(&self.console).panic_has_ended() {
                        return Outcome::Panicked("the machine did not end behind it".into());
                    }
                }
                Err(true) if ready => {
                    return Outcome::TimedOut(config.timeout.unwrap_or_default());
                }
                Err(true) => {
                    let seconds = config.boot_timeout.as_secs();
                    return Outcome::BootFailed(format!("not up within {seconds} s"));
                }
                Ok(Event::Closed) | Err(false) if ready => {
                    return Outcome::Panicked("the machine ended before the command did".into());
                }
                Ok(Event::Closed) | Err(false) => {
                    return Outcome::BootFailed("the machine ended at boot".into());
                }
            }
        }
    }

    /// Forwards our standard input, unless it is a terminal.
    fn forward_stdin(&self) {
        let Ok(mut port) = self.port.try_clone() else {
            return;
        };
        thread::spawn(move || {
            use std::io::IsTerminal;
            let mut stdin = io::stdin();
            let mut buffer = vec![0; 32 << 10];
            if !stdin.is_terminal() {
                while let Ok(count @ 1..) = stdin.read(&mut buffer) {
                    if frame::send(&mut port, Kind::Stdin, &buffer[..count]).is_err() {
                        return;
                    }
                }
            }
            let _ = frame::send(&mut port, Kind::Stdin, &[]);
        });
    }

    /// Writes the memory of the machine, which has stopped or is about to.
    fn dump(&mut self, path: &Path) -> io::Result<()> {
        let mut monitor = Monitor::open(self.monitor.try_clone()?)?;
        monitor.execute("stop", json!({}))?;
        let protocol = format!("file:{}", path.display());
        let arguments = json!({ "paging": false, "protocol": protocol });
        monitor.execute("dump-guest-memory", arguments)?;
        Ok(())
    }

    /// Ends the machine. Tells the user what the output does not tell.
    fn finish(mut self, config: &Config, mut outcome: Outcome) -> Ended {
        let stall = lock(&self.console).stall().map(str::to_owned);
        let stalled =
            stall.is_some() && matches!(outcome, Outcome::BootFailed(_) | Outcome::TimedOut(_));
        let mut describe = stalled;
        let ended_by_itself =
            !stalled && matches!(outcome, Outcome::Panicked(_) | Outcome::BootFailed(_));
        if let (true, Some(path)) = (ended_by_itself, &config.dump) {
            match self.dump(path) {
                Ok(()) => eprintln!("jifl vm: its memory is in {}", path.display()),
                Err(error) => eprintln!("jifl vm: {}: no dump: {error}", path.display()),
            }
        } else if ended_by_itself {
            // QEMU mostly ends by itself then. Its last output tells the cause.
            let ended = wait_at_most(&mut self.qemu, Duration::from_secs(5));
            describe = matches!(ended, Ok(false));
        }
        if describe {
            for line in cpus::describe(self.monitor) {
                eprintln!("jifl vm: {line}");
            }
        }
        let _ = self.qemu.kill();
        let signal = self.qemu.wait().ok().and_then(|status| status.signal());
        let _ = self.console_reader.join();
        let complaints = self.complaints.join().unwrap_or_default();
        let console = lock(&self.console);

        let abort = rustix::process::Signal::ABORT.as_raw();
        if matches!(outcome, Outcome::BootFailed(_)) && signal == Some(abort) {
            return Ended::NotBegun(complaints);
        }
        if let (Outcome::BootFailed(_), false, Some(line)) = (&outcome, self.greeted, stall) {
            return Ended::NotBegun(line);
        }
        if let (true, Some(line)) = (ended_by_itself, console.panic()) {
            outcome = Outcome::Panicked(line.to_owned());
        }
        let command_ended = matches!(outcome, Outcome::Exited(_) | Outcome::OutputClosed);
        if let (false, Some(place)) = (command_ended, console.stale_breakpoint()) {
            outcome = Outcome::EmulatorFailed(place.to_owned());
        }
        if let (Outcome::Exited(0), true, Some(line)) = (&outcome, config.strict, console.trouble())
        {
            outcome = Outcome::Dirty(line.to_owned());
        }
        report(&outcome, &console, &complaints);
        Ended::Reported(outcome)
    }
}

fn report(outcome: &Outcome, console: &Console, complaints: &str) {
    let status = outcome.status();
    let message = match outcome {
        Outcome::Exited(Outcome::EMULATOR_FAILED..=Outcome::BOOT_FAILED) => {
            eprintln!("jifl vm: the command itself ended with status {status}");
            return;
        }
        Outcome::Exited(_) | Outcome::OutputClosed => return,
        Outcome::Dirty(line) => format!("the kernel's log is not clean: {line}"),
        Outcome::Panicked(line) => format!("the guest panicked: {line}"),
        Outcome::EmulatorFailed(place) => format!(
            "QEMU still executes a breakpoint at {place}, which the kernel has removed \
             (docs/vm.md): run it again"
        ),
        Outcome::TimedOut(time) => format!("stopped after {} s, the time limit", time.as_secs()),
        Outcome::BootFailed(why) => format!("the machine failed to start: {why}"),
    };
    let panicked = matches!(outcome, Outcome::Panicked(_));
    let lines = console.tail(if panicked { PANIC_LINES } else { CONSOLE_LINES });
    eprintln!("jifl vm: {message} (exit status {status})");
    if !complaints.is_empty() {
        eprintln!("jifl vm: QEMU says: {complaints}");
    }
    if !lines.is_empty() {
        eprintln!("jifl vm: last lines of the console:");
        for line in lines {
            eprintln!("  | {line}");
        }
    }
}

/// Whether QEMU may execute what is not in memory: with a thread for each of several CPUs.
fn needs_watch(config: &Config) -> bool {
    config.accel == Accel::Tcg && !config.icount && config.smp > 1
}

/// The sockets of [`heal::watch`].
struct Watch {
    monitor: (UnixStream, UnixStream),
    stub: (UnixStream, UnixStream),
}

impl Watch {
    fn new() -> io::Result<Self> {
        Ok(Self {
            monitor: UnixStream::pair()?,
            stub: UnixStream::pair()?,
        })
    }

    /// QEMU's ends.
    fn fds(&self) -> qemu::Watched {
        qemu::Watched {
            monitor: self.monitor.1.as_raw_fd(),
            stub: self.stub.1.as_raw_fd(),
        }
    }

    /// Closes QEMU's ends, which QEMU has inherited.
    fn start(self) {
        let (monitor, stub) = (self.monitor.0, self.stub.0);
        thread::spawn(move || heal::watch(monitor, stub));
    }
}

fn make_initramfs(config: &Config) -> Result<File, String> {
    let init = std::fs::read(&config.init)
        .map_err(|error| format!("{}: {error}", config.init.display()))?;
    let mut wanted = MODULES.to_vec();
    wanted.extend(config.monitor.is_some().then_some(MEMORY_IMAGE_MODULE));
    let modules = match &config.kernel.modules {
        Some(directory) => kernel::resolve(directory, &wanted)?,
        None => Vec::new(), // a kernel with all of them built in
    };
    let archive = initramfs::build(&init, &modules)?;
    let fd = rustix::fs::memfd_create("initramfs", rustix::fs::MemfdFlags::CLOEXEC)
        .map_err(|error| format!("memfd_create: {error}"))?;
    let mut file = File::from(fd);
    file.write_all(&archive)
        .map_err(|error| format!("initramfs: {error}"))?;
    Ok(file)
}

/// Answers the guest's Hello.
fn describe_job(port: &mut UnixStream, config: &Config) -> io::Result<()> {
    for argument in &config.command {
        frame::send(port, Kind::Arg, argument.as_bytes())?;
    }
    for (name, value) in &config.env {
        let pair = [name.as_bytes(), b"=", value.as_bytes()].concat();
        frame::send(port, Kind::Env, &pair)?;
    }
    frame::send(port, Kind::Cwd, config.cwd.as_os_str().as_bytes())?;
    for directory in &config.writable {
        frame::send(port, Kind::Writable, directory.as_os_str().as_bytes())?;
    }
    if let Some(modules) = &config.kernel.modules {
        frame::send(port, Kind::ModuleDir, modules.as_os_str().as_bytes())?;
    }
    for module in &config.modules {
        frame::send(port, Kind::Module, module.as_os_str().as_bytes())?;
    }
    if same_output() {
        frame::send(port, Kind::Merge, &[])?;
    }
    frame::send(port, Kind::Go, &[])
}

/// Whether standard output and error are one file (`2>&1`, a terminal): then they
/// are one in the guest, too, and what is written to them keeps its order.
fn same_output() -> bool {
    let (out, err) = (io::stdout(), io::stderr());
    match (rustix::fs::fstat(out), rustix::fs::fstat(err)) {
        (Ok(out), Ok(err)) => (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino),
        _ => false,
    }
}

fn read_console(
    mut from: UnixStream,
    mut log: Option<File>,
    shared: &Mutex<Console>,
    events: &mpsc::Sender<Event>,
) {
    let mut buffer = vec![0; 16 << 10];
    let mut stalled = false;
    let mut panicked = false;
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let mut console = lock(shared);
        console.feed(&buffer[..count]);
        if console.stale_breakpoint().is_some() {
            let _ = events.send(Event::StaleBreakpoint);
        }
        if console.stall().is_some() && !stalled {
            stalled = true;
            let _ = events.send(Event::Stalled);
        }
        if console.panic_has_ended() && !panicked {
            panicked = true;
            let _ = events.send(Event::PanicHasEnded);
        }
        drop(console);
        if let Some(file) = &mut log {
            let _ = file.write_all(&buffer[..count]);
        }
    }
}

/// Hands the command's output on at once, and everything else to the main thread.
fn read_port(mut from: UnixStream, events: &mpsc::Sender<Event>) {
    loop {
        let event = match frame::receive(&mut from) {
            Ok(Some((Kind::Stdout, bytes))) => {
                let mut stdout = io::stdout().lock();
                match stdout.write_all(&bytes).and_then(|()| stdout.flush()) {
                    Ok(()) => continue,
                    Err(_) => Event::OutputClosed,
                }
            }
            Ok(Some((Kind::Stderr, bytes))) => {
                let _ = io::stderr().write_all(&bytes);
                continue;
            }
            Ok(Some((kind, payload))) => Event::Frame(kind, payload),
            Ok(None) | Err(_) => Event::Closed,
        };
        let last = matches!(event, Event::Closed | Event::OutputClosed);
        if events.send(event).is_err() || last {
            return;
        }
    }
}

fn wait_at_most(child: &mut Child, time: Duration) -> io::Result<bool> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(false)
}

fn lock(console: &Mutex<Console>) -> MutexGuard<'_, Console> {
    console.lock().unwrap_or_else(|poison| poison.into_inner())
}
