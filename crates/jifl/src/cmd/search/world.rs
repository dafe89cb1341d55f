// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a search knows of the machine: sessions, what /proc counts, the time. Tests have another.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::process::{Child, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use jifl_sys::abi::{CallPath, Kind};

use super::stacks::{Frame, Stack};
use super::vitals::Vitals;
use super::walk::Found;
use crate::base::exit::Failure;
use crate::cmd::probe::failures::failures;
use crate::cmd::prof::paths::entries;
use crate::cmd::prof::paths::tree::Metric;
use crate::cmd::stat::source::{Kernel, Source};
use crate::kernel::functions::Functions;
use crate::kernel::lines::{Build, Lines, LinesArgs};
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::session::measure::{self, Session};
use crate::session::scope::Tasks;
use crate::session::{device, table, targets};
use crate::show::text::one_line;

/// A session that is no [`Source`]'s.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Nanoseconds that it ran.
    pub elapsed_ns: u64,
    /// Calls of system calls, by their names.
    pub calls: Vec<(String, u64)>,
    /// Call paths, with instructions as values.
    pub paths: Vec<Stack>,
    /// Calls of functions that were looked at.
    pub entries: u64,
    /// Nanoseconds of translation.
    pub translation_ns: u64,
}

/// A task that sleeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sleeper {
    /// How often it has slept.
    pub switches: u64,
    /// The name of its process.
    pub who: String,
    /// Where.
    pub frames: Vec<Frame>,
}

/// What a search knows of the machine.
pub trait World {
    /// What opens sessions of times.
    fn source(&self) -> &dyn Source;
    /// Whose calls.
    fn tasks(&self) -> Tasks;
    /// Processes that are looked at; `None`: all.
    fn process(&self) -> Option<i32>;
    /// What /proc counts.
    fn vitals(&self) -> Vitals;
    /// Tasks that sleep, by their numbers.
    fn sleepers(&self) -> BTreeMap<i32, Sleeper>;
    /// A task, if it sleeps.
    fn sleeper(&self, tid: i32) -> Option<Sleeper>;
    /// Calls of each system call.
    ///
    /// # Errors
    /// The session is refused.
    fn calls(&self, window: Duration) -> Result<Counts, Failure>;
    /// Errors that a function returns, to anybody, and how often by the second.
    ///
    /// # Errors
    /// The session is refused.
    fn failures(&self, function: &str, window: Duration) -> Result<Vec<(i64, f64)>, Failure>;
    /// Call paths below functions.
    ///
    /// # Errors
    /// The session is refused.
    fn paths(&self, targets: &[String], window: Duration) -> Result<Counts, Failure>;
    /// Nanoseconds since the search began.
    fn now_ns(&self) -> u64;
    /// Lets time pass.
    fn pause(&self, time: Duration);
    /// Calls a function often: `vfs_read`, at the least so often. Nanoseconds.
    fn exercise(&self, calls: u32) -> u64;
    /// Whether the search has to end, and why.
    fn over(&self) -> Option<&'static str>;
    /// The source line of a place.
    fn line(&self, frame: &Frame) -> Option<String>;
    /// The variable that is at an address.
    fn variable(&self, address: u64) -> Option<String>;
    /// Tells what is known by now, and what is being done.
    fn say(&self, found: &Found);
}

/// Why a search is to end before its time, if it is.
pub type Stop = Box<dyn Fn() -> Option<&'static str>>;
/// Takes what is known by now.
pub type Tell = Box<dyn Fn(&Found)>;

/// What a search has from who runs it.
pub struct Ways {
    /// What opens sessions.
    pub source: Kernel,
    /// Whether it is to end.
    pub stop: Stop,
    /// Who is told what is known.
    pub tell: Tell,
}

/// This machine.
pub struct Here {
    ways: Ways,
    tasks: Tasks,
    process: Option<i32>,
    began: Instant,
    end: Duration,
    child: RefCell<Option<Child>>,
    ended: RefCell<Option<ExitStatus>>,
    symbols: Symbols,
    lines: Lines,
}

impl Here {
    /// About a process and its descendants, or about all tasks, for so long at most. `child`: a
    /// command that runs, with whose end the search ends.
    ///
    /// # Errors
    /// A file with debug information that was named cannot be used.
    pub fn new(
        process: Option<i32>,
        end: Duration,
        ways: Ways,
        child: Option<Child>,
        lines: &LinesArgs,
    ) -> Result<Here, Failure> {
        let symbols = Symbols::of_kernel();
        let lines = lines.open(Build::running())?.lines(&symbols);
        Ok(Here {
            ways,
            tasks: process.map_or_else(Tasks::default, Tasks::of_process),
            process,
            began: Instant::now(),
            end,
            child: RefCell::new(child),
            ended: RefCell::default(),
            symbols,
            lines,
        })
    }

    /// The command's end, if one was run: it runs to its own.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub fn finish(&self) -> Result<Option<ExitStatus>, Failure> {
        if let Some(status) = self.ended.take() {
            return Ok(Some(status));
        }
        let Some(mut child) = self.child.take() else {
            return Ok(None);
        };
        let status = child.wait();
        let failed = |error| Failure::failed(format!("waiting for the command: {error}"));
        status.map(Some).map_err(failed)
    }

    /// Runs a session of a kind with targets.
    fn count(
        &self,
        kind: Kind,
        flags: u32,
        words: &[String],
        window: Duration,
    ) -> Result<Counts, Failure> {
        let calls = Table::all();
        let selected = targets::select_here(words, &calls, true)?;
        let mut session = Session::of(kind, flags, selected);
        self.tasks.whole_scope().apply(&mut session)?;
        let door = device::open()?;
        let (report, elapsed) = measure::measure(&door, session, &calls, |_| {
            let began = Instant::now();
            self.pause(window);
            began.elapsed()
        })?;
        let elapsed_ns = elapsed.as_nanos() as u64;
        let mut counts = Counts {
            elapsed_ns,
            translation_ns: report.cost.translate_ns,
            ..Counts::default()
        };
        if kind == Kind::Tree {
            let (paths, _) = table::read::<CallPath>(&door, "reading the call paths")?;
            let tree = entries::tree(&paths, &self.symbols);
            for (at, node) in tree.nodes.iter().enumerate() {
                let up = tree.path(at).into_iter().rev().map(|at| &tree.nodes[at]);
                let frame = |node: &crate::cmd::prof::paths::tree::Node| Frame {
                    function: node.function.clone(),
                    offset: 0,
                    module: node.module.clone(),
                };
                counts.entries += node.own.calls;
                counts.paths.push(Stack {
                    frames: up.map(frame).collect(),
                    who: String::new(),
                    value: Metric::Insn.of(&node.own) as f64,
                });
            }
        } else {
            let rows = report.rows.iter();
            counts.calls = rows.map(|row| (row.name.clone(), row.calls)).collect();
            counts.entries = report.rows.iter().map(|row| row.calls).sum();
        }
        Ok(counts)
    }
}

impl World for Here {
    fn source(&self) -> &dyn Source {
        &self.ways.source
    }

    fn tasks(&self) -> Tasks {
        self.tasks.clone()
    }

    fn process(&self) -> Option<i32> {
        self.process
    }

    fn vitals(&self) -> Vitals {
        Vitals::read(self.process)
    }

    fn sleepers(&self) -> BTreeMap<i32, Sleeper> {
        let mut all = BTreeMap::new();
        for pid in self.vitals().tasks.keys() {
            let threads = fs::read_dir(format!("/proc/{pid}/task"));
            for thread in threads.into_iter().flatten().flatten() {
                let name = thread.file_name();
                if let Some(tid) = name.to_str().and_then(|name| name.parse().ok()) {
                    all.extend(sleeper(tid).map(|one| (tid, one)));
                }
            }
        }
        all
    }

    fn sleeper(&self, tid: i32) -> Option<Sleeper> {
        sleeper(tid)
    }

    fn calls(&self, window: Duration) -> Result<Counts, Failure> {
        self.count(Kind::Call, 0, &["sys:*".to_owned()], window)
    }

    fn failures(&self, function: &str, window: Duration) -> Result<Vec<(i64, f64)>, Failure> {
        let mut elapsed = 0.0;
        let errors = failures(function, || {
            let began = Instant::now();
            self.pause(window);
            elapsed = began.elapsed().as_secs_f64();
        })?;
        let rate = |(error, hits)| (error, hits as f64 / f64::max(elapsed, 1e-9));
        Ok(errors.into_iter().map(rate).collect())
    }

    fn paths(&self, targets: &[String], window: Duration) -> Result<Counts, Failure> {
        // Instructions: times would have that of translation in them.
        self.count(Kind::Tree, 0, targets, window)
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        while self.over().is_none() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            sleep(left.min(Duration::from_millis(20)));
        }
    }

    fn exercise(&self, calls: u32) -> u64 {
        let Ok(mut zero) = fs::File::open("/dev/zero") else {
            return 0;
        };
        let began = Instant::now();
        for _ in 0..calls {
            let _ = zero.read(&mut [0; 1]);
        }
        began.elapsed().as_nanos() as u64
    }

    fn over(&self) -> Option<&'static str> {
        if self.began.elapsed() >= self.end {
            return Some("the time was up");
        }
        if let Some(why) = (self.ways.stop)() {
            return Some(why);
        }
        if self.ended.borrow().is_some() {
            return Some("the command ended");
        }
        let ended = self
            .child
            .borrow_mut()
            .as_mut()
            .and_then(|child| child.try_wait().ok())?;
        *self.ended.borrow_mut() = ended;
        ended.map(|_| "the command ended")
    }

    fn line(&self, frame: &Frame) -> Option<String> {
        let functions = Functions::of_kernel();
        let function = functions.named(&frame.function, frame.module.as_deref())?;
        // The call is before the place to which it returns.
        let place = function.address + frame.offset.saturating_sub(1);
        let frames = self.lines.frames(frame.module.as_deref(), place);
        let line = frames.first()?;
        Some(format!("{}:{}", line.file, line.line))
    }

    fn variable(&self, address: u64) -> Option<String> {
        self.symbols.variable(address).map(|place| place.shown())
    }

    fn say(&self, found: &Found) {
        (self.ways.tell)(found);
    }
}

/// A thread, if it sleeps.
fn sleeper(tid: i32) -> Option<Sleeper> {
    let status = fs::read(format!("/proc/{tid}/status")).ok()?;
    sleeper_of(&status, || fs::read(format!("/proc/{tid}/stack")).ok())
}

/// The same by its files in /proc. A task gives itself its name: it may be no text, and have what
/// terminals obey.
fn sleeper_of(status: &[u8], stack: impl FnOnce() -> Option<Vec<u8>>) -> Option<Sleeper> {
    let status = String::from_utf8_lossy(status);
    let of = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    if !of("State:")?.starts_with(['S', 'D', 'K']) {
        return None;
    }
    let switches = of("voluntary_ctxt_switches:")?.parse().ok()?;
    let stack = stack()?;
    let stack = String::from_utf8_lossy(&stack);
    let place = |line: &str| Frame::parse(line.split_once("] ")?.1);
    Some(Sleeper {
        switches,
        who: one_line(of("Name:")?),
        frames: stack.lines().filter_map(place).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_is_a_name() {
        let status = b"Name:\ta\x1b[2J\xff\nState:\tS (sleeping)\nvoluntary_ctxt_switches:\t7\n";
        let stack = || Some(b"[<0>] do_nanosleep+0x6a/0x1a0\n".to_vec());
        let sleeper = sleeper_of(status, stack).unwrap();
        assert_eq!(
            (sleeper.who.as_str(), sleeper.switches),
            ("a\\u{1b}[2J\u{fffd}", 7)
        );
        assert_eq!(sleeper.frames[0].function, "do_nanosleep");
        let running = b"Name:\ta\nState:\tR (running)\nvoluntary_ctxt_switches:\t7\n";
        assert!(sleeper_of(running, stack).is_none());
    }
}
