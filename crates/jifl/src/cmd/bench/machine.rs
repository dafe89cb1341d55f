// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures in throwaway machines: this program starts itself inside one, for one set and clock,
//! and reads the results from its output.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use super::clock::Clock;
use super::results::Results;
use super::sheet::Sheet;
use super::{BenchArgs, Set, front_end};
use crate::base::exit::Failure;
use crate::show::output;

/// A set by one clock on one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The kernel, as in `jifl vm --kernel`.
    pub kernel: String,
    /// What to measure.
    pub set: Set,
    /// The clock.
    pub clock: Clock,
}

/// The jobs, set by set.
fn jobs(args: &BenchArgs) -> Vec<Job> {
    let mut jobs = Vec::new();
    for set in args.sets() {
        for kernel in &args.kernel {
            for clock in set.clocks(&args.clock) {
                jobs.push(Job {
                    kernel: kernel.clone(),
                    set,
                    clock,
                });
            }
        }
    }
    jobs
}

/// Number of machines that run side by side if the clock counts instructions: other load does not
/// change these counts.
const SIDE_BY_SIDE: usize = 2;

/// Runs all jobs. Jobs whose clock shows time come last, each alone. `show` gets the result of each
/// job as it ends.
pub fn run_all(
    args: &BenchArgs,
    mut show: impl FnMut(Sheet) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let jobs = jobs(args);
    let (exact, timed): (Vec<Job>, Vec<Job>) =
        jobs.into_iter().partition(|job| job.clock != Clock::Time);
    let count = exact.len() + timed.len();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(SIDE_BY_SIDE) {
            let sender = sender.clone();
            scope.spawn(|| {
                let sender = sender;
                while let Some(job) = exact.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // The receiver is gone when the results cannot be shown.
                    if sender.send(run(job, args, &ended, count)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        receiver.into_iter().flatten().try_for_each(&mut show)
    })?;
    let timed = timed.iter().flat_map(|job| run(job, args, &ended, count));
    timed.into_iter().try_for_each(&mut show)
}

/// Runs one job. A machine that fails leaves one line and no sheet.
fn run(job: &Job, args: &BenchArgs, ended: &AtomicUsize, of: usize) -> Vec<Sheet> {
    let name = format!(
        "{} by {} on {}",
        job.set.name(),
        job.clock.name(),
        job.kernel
    );
    output::note(&format!("jifl bench: {name} begins"));
    let began = Instant::now();
    let sheets = measure(job, args).unwrap_or_else(|why| {
        output::note(&format!("jifl bench: no {name}: {why}"));
        Vec::new()
    });
    let ended = ended.fetch_add(1, Ordering::Relaxed) + 1;
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    output::note(&format!(
        "jifl bench: {name} took {minutes:.1} minutes; {ended} of {of} done"
    ));
    sheets
}

fn measure(job: &Job, args: &BenchArgs) -> Result<Vec<Sheet>, String> {
    let program = std::env::current_exe().map_err(|error| format!("/proc/self/exe: {error}"))?;
    let counts = match job.clock {
        Clock::FrontEnd => Some(FrontEnd::new()?),
        _ => None,
    };
    let mut command = Command::new(&program);
    command.args(machine_words(job, args));
    if let Some(counts) = &counts {
        command.args(counts.machine_words());
    }
    command.arg("--").arg(&program).args(inner_words(job, args));
    if let Some(counts) = &counts {
        // The guest gets the environment of its caller.
        command.env(front_end::DIRECTORY, &counts.directory);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    // The machine ends with this process, even if this process is killed.
    jifl_sys::os::tie_to_parent(&mut command, &[]);
    let ended = command
        .spawn()
        .and_then(|child| child.wait_with_output())
        .map_err(|error| error.to_string())?;
    if !ended.status.success() {
        return Err(format!("the machine: {}", ended.status));
    }
    let results: Results = serde_json::from_slice(&ended.stdout)
        .map_err(|error| format!("what it printed is no result: {error}"))?;
    Ok(results.sheets)
}

/// The plugin, and a directory for its counts, which is deleted when this is dropped.
struct FrontEnd {
    plugin: PathBuf,
    directory: PathBuf,
}

impl FrontEnd {
    fn new() -> Result<FrontEnd, String> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let own = crate::base::root::find()?.join("build/front-end");
        let plugin = own.join("front-end.so");
        if !plugin.exists() {
            let plugin = plugin.display();
            return Err(format!("{plugin} is not there: run `make front-end`"));
        }
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = own.join(format!("counts-{}-{next}", std::process::id()));
        std::fs::create_dir(&directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        Ok(FrontEnd { plugin, directory })
    }

    /// Options of the machine. The guest gets the directory, to see what the plugin writes.
    fn machine_words(&self) -> Vec<OsString> {
        let plugin = format!("{},out={}", self.plugin.display(), self.directory.display());
        let directory = self.directory.clone().into();
        vec!["--plugin".into(), plugin.into(), "--rw".into(), directory]
    }
}

impl Drop for FrontEnd {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn machine_words(job: &Job, args: &BenchArgs) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["vm".into(), "--kernel".into(), job.kernel.clone().into()];
    match job.clock {
        Clock::Instructions | Clock::FrontEnd => words.push("--icount".into()),
        Clock::Time => words.extend(["--smp".into(), "2".into()]),
    }
    if job.set == Set::Memory {
        // The memory set itself loads the module, once for each size.
        words.push("--no-module".into());
    }
    for append in &args.append {
        words.extend(["--append".into(), append.into()]);
    }
    words.extend(["--timeout".into(), args.timeout.to_string().into()]);
    words
}

fn inner_words(job: &Job, args: &BenchArgs) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["bench", "--here", "-f", "json"].map(Into::into).into();
    words.extend(["--set".into(), job.set.name().into()]);
    words.extend(["--clock".into(), job.clock.name().into()]);
    for (option, values) in [("--op", &args.op), ("--row", &args.row)] {
        for value in values {
            words.extend([option.into(), value.into()]);
        }
    }
    for size in &args.cache_kb {
        words.extend(["--cache-kb".into(), size.to_string().into()]);
    }
    for (option, value) in [("--rounds", args.rounds), ("--repeats", args.repeats)] {
        if let Some(value) = value {
            words.extend([option.into(), value.to_string().into()]);
        }
    }
    words
}
