// SPDX-License-Identifier: MIT OR Apache-2.0
//! ftrace: the tracer `function` writes into the ring buffer of an instance of its own, so that it
//! does not meet the tracing of other users. For counting there is no such tracer: there the module
//! has a callback.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use super::module::Probes;
use super::sites::Site;
use super::{Job, Missing, Progress, Started, Tool};
use crate::show::output;

const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Size for each CPU. Overwritten records count, too.
const BUFFER_KB: &str = "4096";

/// Traces, or counts, each site's function.
pub fn start(job: Job, sites: &[Site]) -> Result<Started<'_>, Missing> {
    match job {
        Job::CountBlocks => Err(Missing(
            "ftrace sees functions, not basic blocks: kprobes do those".into(),
        )),
        Job::CountCalls => start_callback(job, sites),
        Job::TraceCalls => start_tracer(sites),
    }
}

// --- the callback -----------------------------------------------------------------------

fn start_callback(job: Job, sites: &[Site]) -> Result<Started<'_>, Missing> {
    let probes = Probes::open()?;
    let addresses: Vec<u64> = sites.iter().map(|site| site.addr).collect();
    probes.add("ftrace", job, &addresses)?;
    probes
        .request("start")
        .map_err(|error| Missing(format!("ftrace: {error}")))?;
    let state = probes.state().map_err(|error| Missing(error.to_string()))?;
    let refused: HashSet<u64> = state.refused.into_iter().collect();
    let covered = sites
        .iter()
        .filter(|site| !refused.contains(&site.addr))
        .collect();
    Started::new(probes, covered)
}

// --- the tracer -------------------------------------------------------------------------

fn start_tracer(sites: &[Site]) -> Result<Started<'_>, Missing> {
    let instance = Instance::create()?;
    let covered = instance.filter(sites)?;
    // Without a filter the tracer would trace every function.
    if !covered.is_empty() {
        instance.write("buffer_size_kb", BUFFER_KB)?;
        instance.write("current_tracer", "function")?;
    }
    Started::new(Tracer::new(instance)?, covered)
}

/// A directory of tracefs with a ring buffer and a tracer of its own.
struct Instance(PathBuf);

impl Instance {
    fn create() -> Result<Instance, Missing> {
        let tracefs = TRACEFS
            .iter()
            .map(PathBuf::from)
            .find(|path| path.join("available_tracers").exists())
            .ok_or_else(|| {
                Missing(format!(
                    "no tracefs: mount -t tracefs tracefs {}; else the kernel has no \
                     tracers (CONFIG_FUNCTION_TRACER)",
                    TRACEFS[0]
                ))
            })?;
        let tracers = fs::read_to_string(tracefs.join("available_tracers")).unwrap_or_default();
        if !tracers.split_whitespace().any(|name| name == "function") {
            return Err(Missing(
                "this kernel was built without the function tracer (CONFIG_FUNCTION_TRACER)".into(),
            ));
        }
        let path = tracefs.join(format!("instances/jifl-bench-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| Missing(format!("{}: {error}", path.display())))?;
        Ok(Instance(path))
    }

    fn write(&self, file: &str, text: &str) -> Result<(), Missing> {
        let path = self.0.join(file);
        fs::write(&path, text).map_err(|error| Missing(format!("{}: {error}", path.display())))
    }

    /// Has only the sites' functions traced; returns the sites that can be.
    fn filter<'a>(&self, sites: &'a [Site]) -> Result<Vec<&'a Site>, Missing> {
        let read = |error: io::Error| Missing(format!("filter of the function tracer: {error}"));
        let tracefs = self.0.join("../../available_filter_functions");
        let available = fs::read_to_string(tracefs).map_err(read)?;
        let numbers = numbers(&available, sites);
        let path = self.0.join("set_ftrace_filter");
        let mut file = File::options().append(true).open(path).map_err(read)?;
        let mut progress = Progress::new("functions", sites.len());
        let mut covered = Vec::new();
        for (i, site) in sites.iter().enumerate() {
            let all = site
                .names
                .iter()
                .filter_map(|name| numbers.get(name.as_str()));
            // One number in each write: the kernel takes one word at a time.
            let mut written = all
                .flatten()
                .map(|number| file.write_all(format!("{number}\n").as_bytes()));
            if written.next().is_some_and(|first| first.is_ok()) && written.all(|next| next.is_ok())
            {
                covered.push(site);
            }
            progress.at(i + 1);
        }
        Ok(covered)
    }

    /// A sum of all CPUs' statistics.
    fn sum(&self, names: &[&str]) -> u64 {
        let per_cpu = fs::read_dir(self.0.join("per_cpu")).into_iter().flatten();
        per_cpu
            .flatten()
            .filter_map(|cpu| fs::read_to_string(cpu.path().join("stats")).ok())
            .map(|stats| sum_of(&stats, names))
            .sum()
    }
}

/// The numbers that the filter takes instead of names; this is much faster. They are numbers of
/// lines of the list. If a name stands for several functions, all are traced: functions that the
/// operation does not execute cost it nothing.
fn numbers<'a>(available: &str, sites: &'a [Site]) -> HashMap<&'a str, Vec<usize>> {
    let mut numbers: HashMap<&str, Vec<usize>> = HashMap::new();
    for site in sites {
        numbers.extend(site.names.iter().map(|name| (name.as_str(), Vec::new())));
    }
    for (i, line) in available.lines().enumerate() {
        let name = line.split_whitespace().next().unwrap_or_default();
        if let Some(all) = numbers.get_mut(name) {
            all.push(i + 1);
        }
    }
    numbers
}

fn sum_of(stats: &str, names: &[&str]) -> u64 {
    let values = stats.lines().filter_map(|line| line.split_once(": "));
    values
        .filter(|(name, _)| names.contains(name))
        .filter_map(|(_, value)| value.trim().parse::<u64>().ok())
        .sum()
}

/// The tracer at work in an instance.
struct Tracer {
    /// `tracing_on`, kept open: to open it each time would hit much more than to write to it. It is
    /// closed before the instance is removed, which would otherwise be in use.
    switch: File,
    /// The sum of all readings. Each reading empties the buffer.
    hits: Cell<u64>,
    missed: Cell<u64>,
    instance: Instance,
}

impl Tracer {
    fn new(instance: Instance) -> Result<Tracer, Missing> {
        let path = instance.0.join("tracing_on");
        let switch = File::options()
            .write(true)
            .open(&path)
            .map_err(|error| Missing(format!("{}: {error}", path.display())))?;
        let (hits, missed) = (Cell::new(0), Cell::new(0));
        Ok(Tracer {
            switch,
            hits,
            missed,
            instance,
        })
    }

    /// Adds what the buffer's statistics say, and empties the buffer.
    ///
    /// Tracing is off meanwhile: the CPUs' numbers are read one after the other, and the hits of
    /// reading them would be in some numbers and not in others. The kernel resets the statistics
    /// when this tracer is switched on again (function_trace_start). They are reset here, so that
    /// the sum does not depend on that.
    fn take(&self) -> io::Result<()> {
        (&self.switch).write_all(b"0")?;
        let add = |cell: &Cell<u64>, names| cell.set(cell.get() + self.instance.sum(names));
        add(&self.hits, &["entries", "overrun"]);
        add(&self.missed, &["commit overrun", "dropped events"]);
        File::create(self.instance.0.join("trace"))?;
        (&self.switch).write_all(b"1")
    }
}

impl Tool for Tracer {
    fn hits(&self) -> u64 {
        if let Err(error) = self.take() {
            let instance = self.instance.0.display();
            output::note(&format!("bench: {instance}: {error}"));
        }
        self.hits.get()
    }

    /// The sum up to the last [`Tool::hits`].
    fn missed(&self) -> u64 {
        self.missed.get()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let stopped = self.write("current_tracer", "nop");
        if let Err(error) = fs::remove_dir(&self.0) {
            let why = stopped.err().map_or(error.to_string(), |missing| missing.0);
            output::note(&format!("bench: {}: {why}", self.0.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_the_numbers_of_their_lines() {
        let site = |name: &str| Site {
            addr: 0,
            probe: 0,
            executions: 1,
            names: vec![name.into()],
            own_names: Vec::new(),
        };
        let sites = [site("b"), site("twin"), site("none")];
        let found = numbers("a\nb [mod]\ntwin\nc\ntwin\n", &sites);
        assert_eq!(found["b"], [2]);
        assert_eq!(found["twin"], [3, 5]);
        assert!(found["none"].is_empty());
    }

    #[test]
    fn statistics_are_summed() {
        let stats = "entries: 12\noverrun: 30\ncommit overrun: 0\nbytes: 99\ndropped events: 4\n";
        assert_eq!(sum_of(stats, &["entries", "overrun"]), 42);
        assert_eq!(sum_of(stats, &["commit overrun", "dropped events"]), 4);
    }
}
