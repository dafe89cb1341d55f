// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measurements: sessions that run until they have told enough, or cost enough.

use std::time::Duration;

use jifl_sys::abi::Time;

use super::Walk;
use crate::base::exit::Failure;
use crate::cmd::stat::sheet::{Counted, Row};
use crate::cmd::stat::source::{Opened, Plan};
use crate::kernel::pattern::source_name;
use crate::session::scope::Tasks;

/// How long a value is measured, if the budget allows it.
const WINDOW: Duration = Duration::from_millis(1000);
/// The same where each call costs much.
const SHORT: Duration = Duration::from_millis(500);
/// Looks at what a measurement has cost are at most so far apart.
const LONGEST_STEP: Duration = Duration::from_millis(100);
/// The first look at what a measurement has cost.
const FIRST_LOOK: Duration = Duration::from_millis(10);
/// A read of a byte executes so many times the instructions of a call that is looked at, and such a
/// call with its call site so many times those of one without (docs/performance.md).
const READ_BY_CALL: u64 = 8;
const CALLER_BY_CALL: u64 = 11;
/// By what a stack takes more than a call site (docs/performance.md).
const STACK_BY_CALLER: u64 = 7;
/// Reads in a row, and how often, for measuring what a call costs.
const EXERCISE: u32 = 200;
const BATCHES: u32 = 40;

/// What was measured.
pub(super) struct Seen {
    pub(super) rows: Vec<Row>,
    pub(super) counted: Counted,
}

impl Seen {
    pub(super) fn elapsed(&self) -> f64 {
        self.counted.elapsed().max(1) as f64
    }

    pub(super) fn time(&self, row: &Row) -> Time {
        self.counted
            .times
            .get(row.target)
            .copied()
            .unwrap_or_default()
    }

    /// The rows of a function. A compiler may have made another one of it, as `f.isra.0`: that
    /// counts if `f` itself is not there, because what is made of it may also be called by it.
    fn rows_of(&self, function: &str, module: Option<&str>) -> Vec<&Row> {
        let of = |name: fn(&str) -> &str| -> Vec<&Row> {
            let is_own =
                |row: &&Row| name(&row.function) == function && row.module.as_deref() == module;
            self.rows.iter().filter(is_own).collect()
        };
        let own = of(|name| name);
        match own.is_empty() {
            true => of(source_name),
            false => own,
        }
    }

    /// A value of a function: of all rows of its name.
    pub(super) fn of(
        &self,
        function: &str,
        module: Option<&str>,
        value: impl Fn(&Time) -> u64,
    ) -> f64 {
        let rows = self.rows_of(function, module).into_iter();
        rows.map(|row| value(&self.time(row))).sum::<u64>() as f64 / self.elapsed()
    }

    /// Is the function among those that were looked at?
    pub(super) fn has(&self, function: &str, module: Option<&str>) -> bool {
        !self.rows_of(function, module).is_empty()
    }

    /// Rows with their values, the largest first.
    pub(super) fn ranked(&self, value: impl Fn(&Time) -> u64) -> Vec<(&Row, f64)> {
        let value = |row| value(&self.time(row)) as f64 / self.elapsed();
        let mut all: Vec<_> = self.rows.iter().map(|row| (row, value(row))).collect();
        all.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        all
    }
}

/// The calling thread. The search may run in one of a daemon's.
fn thread() -> i32 {
    let link = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    let own = link
        .file_name()
        .and_then(|name| name.to_str()?.parse().ok());
    own.unwrap_or(std::process::id() as i32)
}

impl Walk<'_> {
    pub(super) fn tasks(&self) -> Tasks {
        self.world.tasks()
    }

    /// Measures what a call of a function costs, by calling one often, without and with a session.
    /// The least of many short times is that of one which nobody else has disturbed.
    pub(super) fn calibrate(&mut self) -> Result<(), Failure> {
        let own = Tasks::of_thread(thread());
        // By name, here and below: the report may be a daemon's.
        let plan = Plan {
            functions: vec!["fn:vfs_read".into()],
            tasks: own.clone(),
            by_name: true,
            ..Plan::default()
        };
        let world = self.world;
        let least = || {
            let times = (0..BATCHES).map(|_| world.exercise(EXERCISE));
            times.min().unwrap_or(0) / u64::from(EXERCISE)
        };
        let opened = world.source().open(&plan)?;
        let (known, row) = (opened.known(), opened.rows().first().cloned());
        let plain = least();
        let mut with = 0;
        opened.run(&mut |_| with = least())?;
        // Not less than by the instructions that both execute.
        self.call_ns = with.saturating_sub(plain).max(plain / READ_BY_CALL).max(1);
        self.caller_ns = self.call_ns * CALLER_BY_CALL;
        if let Some(row) = row
            && let Ok(about) = world.source().about(known.as_ref(), &row, "caller", &own)
        {
            about.run(&mut |_| with = least())?;
            self.caller_ns = with.saturating_sub(plain).max(plain).max(self.call_ns);
        }
        let calls = u64::from(BATCHES * EXERCISE);
        self.ledger.spend(calls, self.call_ns);
        self.ledger.spend(calls, self.caller_ns);
        Ok(())
    }

    /// Runs a session for so long, or until it has cost what is left.
    pub(super) fn watch(
        &mut self,
        opened: Box<dyn Opened>,
        each_ns: u64,
        window: Duration,
        beside: &mut dyn FnMut(u64),
    ) -> Result<Seen, String> {
        loop {
            let wait = self.ledger.wait(self.world.now_ns());
            if let Some(why) = self.world.over() {
                return Err(why.into());
            }
            if wait.is_zero() {
                break;
            }
            self.world.pause(wait);
        }
        let left = self.ledger.left(self.world.now_ns());
        let mut seen = Seen {
            rows: opened.rows().to_vec(),
            counted: Counted::default(),
        };
        let world = self.world;
        let (mut failure, mut is_early) = (None, false);
        beside(0);
        let calls = |counted: &Counted| counted.times.iter().map(|time| time.calls).sum::<u64>();
        let ended = opened.run(&mut |running| {
            let mut step = FIRST_LOOK;
            loop {
                world.pause(step);
                match running.read() {
                    Ok((rows, counted)) => {
                        seen.rows = rows.unwrap_or_else(|| std::mem::take(&mut seen.rows));
                        seen.counted = counted;
                    }
                    Err(error) => {
                        failure = Some(error.message);
                        return;
                    }
                }
                let elapsed = Duration::from_nanos(seen.counted.elapsed());
                beside(seen.counted.elapsed());
                let spent = calls(&seen.counted) * each_ns;
                if elapsed >= window || world.over().is_some() || running.has_ended() {
                    return;
                }
                // At this rate, with the same again kept back for the end of the session.
                let rate = spent as f64 / elapsed.as_nanos().max(1) as f64;
                let rest = left as f64 / 2.0 - spent as f64;
                if rest <= 0.0 {
                    is_early = true;
                    return;
                }
                let affordable = Duration::from_nanos((rest / rate.max(1e-9)).min(1e10) as u64);
                step = (step * 2)
                    .min(LONGEST_STEP)
                    .min(window - elapsed)
                    .min(affordable);
            }
        });
        let ended = ended.map_err(|failure| failure.message)?;
        let all = calls(&seen.counted).max(calls(&ended.counted));
        self.ledger.spend(all, each_ns);
        self.ledger.shortened += u64::from(is_early);
        match failure {
            Some(failure) => Err(failure),
            None if seen.counted.elapsed() == 0 => Err("nothing could be measured".into()),
            None => Ok(seen),
        }
    }

    /// Times of functions; those that cannot be looked at are not among them.
    pub(super) fn times(&mut self, functions: &[String], tasks: Tasks) -> Result<Seen, String> {
        let plan = Plan {
            functions: functions.to_vec(),
            tasks,
            confirmed: true,
            lenient: true,
            by_name: true,
            ..Plan::default()
        };
        let opened = self
            .world
            .source()
            .open(&plan)
            .map_err(|failure| failure.message)?;
        self.watch(opened, self.call_ns, WINDOW, &mut |_| ())
    }

    /// The same of one function, by what its calls are about.
    pub(super) fn about(&mut self, function: &str, by: &str, tasks: Tasks) -> Result<Seen, String> {
        self.about_beside(function, by, tasks, &mut |_| ())
    }

    /// The same. `beside` is called just before the session with 0, and now and then with the
    /// nanoseconds since its beginning.
    pub(super) fn about_beside(
        &mut self,
        function: &str,
        by: &str,
        tasks: Tasks,
        beside: &mut dyn FnMut(u64),
    ) -> Result<Seen, String> {
        let plan = Plan {
            functions: vec![function.to_owned()],
            tasks: tasks.clone(),
            by_name: true,
            ..Plan::default()
        };
        let source = self.world.source();
        let opened = source.open(&plan).map_err(|failure| failure.message)?;
        let row = opened.rows().first().cloned();
        let row = row.ok_or_else(|| format!("{function}: no such function"))?;
        let known = opened.known();
        drop(opened);
        let about = source.about(known.as_ref(), &row, by, &tasks);
        let about = about.map_err(|failure| failure.message)?;
        let cost = match by.contains("stack") {
            true => self.caller_ns * STACK_BY_CALLER,
            false => self.caller_ns,
        };
        self.watch(about, cost, SHORT, beside)
    }
}
