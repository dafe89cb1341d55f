// SPDX-License-Identifier: MIT OR Apache-2.0
//! The search itself: which test comes when. mod.rs says why it ends.

use std::collections::BTreeMap;
use std::time::Duration;

use jifl_sys::abi::Time;

use super::hypotheses::{Id, Thresholds, tests};
use super::ledger::Ledger;
use super::stacks::{Frame, Stack, Ticked, frames, hot_way, is_entry, reason, taker, ticked};
use super::tree::{Judge, Node, TRIES, Unit};
use super::vitals::Vitals;
use super::world::World;
use crate::base::exit::Failure;
use crate::cmd::stat::metric::wall;
use crate::cmd::stat::sheet::{Counted, Row};
use crate::cmd::stat::source::{Opened, Plan};
use crate::session::scope::Tasks;

/// How long a value is measured, if the budget allows it.
const WINDOW: Duration = Duration::from_millis(1000);
/// The same where each call costs much.
const SHORT: Duration = Duration::from_millis(500);
/// Call paths are counted for so long.
const PATHS: Duration = Duration::from_millis(100);
/// The first look at what a measurement has cost.
const FIRST_LOOK: Duration = Duration::from_millis(10);
/// A call that is part of it has at least this share of what is above it.
const MOST: f64 = 0.5;
/// Below a test that is true, a function is if it has this share of the threshold.
const BELOW: f64 = 0.75;
/// Functions of a way that are tested at a time: each takes time to set up.
const TESTED: usize = 6;
/// A call takes this at least, whatever was measured.
const LEAST_NS: u64 = 20;
/// By what a stack takes more than a call site (docs/performance.md).
const STACK_BY_CALLER: u64 = 7;
/// The whole search may know at most so many reads for measuring what a call costs.
const EXERCISE: u32 = 4_000;
/// A call of less bytes is small.
const SMALL_BYTES: f64 = 512.0;

/// The clock's interrupt comes here on each processor that does something.
const CLOCK: &str = "update_process_times";
/// All that sleeps, sleeps in this function.
const SLEEP: &str = "schedule";

/// Functions whose processor time is that of a hypothesis.
const ROOTS: [(Id, &str); 21] = [
    (Id::Interrupts, "hrtimer_interrupt"),
    (Id::Interrupts, "handle_irq_event"),
    (Id::Interrupts, "irq_work_run_list"),
    (Id::Interrupts, "generic_smp_call_function_single_interrupt"),
    (Id::Interrupts, "__flush_smp_call_function_queue"),
    (Id::Interrupts, "tasklet_action_common"),
    (Id::Interrupts, "net_rx_action"),
    (Id::Interrupts, "net_tx_action"),
    (Id::Interrupts, "run_timer_softirq"),
    (Id::Interrupts, "hrtimer_run_softirq"),
    (Id::Interrupts, "rcu_core"),
    (Id::Interrupts, "blk_done_softirq"),
    (Id::Interrupts, "run_rebalance_domains"),
    (Id::Interrupts, "sched_balance_softirq"),
    (Id::Faults, "handle_mm_fault"),
    (Id::Forks, "kernel_clone"),
    (Id::Forks, "bprm_execve"),
    (Id::Forks, "exit_mmap"),
    (Id::Spinning, "native_queued_spin_lock_slowpath"),
    (Id::Spinning, "queued_read_lock_slowpath"),
    (Id::Spinning, "queued_write_lock_slowpath"),
];

/// What calls of functions are about.
const ABOUT: [(&str, &str); 9] = [
    ("vfs_read", "file->f_path"),
    ("vfs_write", "file->f_path"),
    ("vfs_fsync_range", "file->f_path"),
    ("iterate_dir", "file->f_path"),
    ("do_unlinkat", "str(name->name)"),
    ("do_filp_open", "str(pathname->name)"),
    ("handle_mm_fault", "comm"),
    ("kernel_clone", "comm"),
    ("sock_sendmsg", "comm"),
];

/// What was measured.
struct Seen {
    rows: Vec<Row>,
    counted: Counted,
}

impl Seen {
    fn elapsed(&self) -> f64 {
        self.counted.elapsed().max(1) as f64
    }

    fn time(&self, row: &Row) -> Time {
        self.counted
            .times
            .get(row.target)
            .copied()
            .unwrap_or_default()
    }

    /// A value of a function: of all rows of its name.
    fn of(&self, function: &str, module: Option<&str>, value: impl Fn(&Time) -> u64) -> f64 {
        let own = |row: &&Row| row.function == function && row.module.as_deref() == module;
        let rows = self.rows.iter().filter(own);
        rows.map(|row| value(&self.time(row))).sum::<u64>() as f64 / self.elapsed()
    }

    /// Is the function among those that were looked at?
    fn has(&self, function: &str, module: Option<&str>) -> bool {
        let mut rows = self.rows.iter();
        rows.any(|row| row.function == function && row.module.as_deref() == module)
    }

    /// Rows with their values, the largest first.
    fn ranked(&self, value: impl Fn(&Time) -> u64) -> Vec<(&Row, f64)> {
        let value = |row| value(&self.time(row)) as f64 / self.elapsed();
        let mut all: Vec<_> = self.rows.iter().map(|row| (row, value(row))).collect();
        all.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        all
    }
}

/// What a search has found.
pub struct Found {
    /// The tests, in their order.
    pub tests: Vec<(Id, Node)>,
    /// What it has cost.
    pub ledger: Ledger,
    /// Nanoseconds of inserted code in a call.
    pub call_ns: u64,
    /// How long it took.
    pub elapsed_ns: u64,
    /// Nanoseconds of translation, before functions could be looked at.
    pub translation_ns: u64,
    /// Why it ended before its end.
    pub cut_short: Option<&'static str>,
    /// Processors that did something, and tasks that slept for a reason, on average.
    pub busy: f64,
}

/// A search.
pub struct Walk<'a> {
    world: &'a dyn World,
    ledger: Ledger,
    caller_ns: u64,
    call_ns: u64,
    translation_ns: u64,
    tests: Vec<(Id, Node)>,
    ticks: Vec<(Ticked, Stack)>,
    sleeps: Vec<(Id, Stack)>,
    busy: f64,
}

impl<'a> Walk<'a> {
    /// Nothing is tested yet.
    pub fn new(world: &'a dyn World, thresholds: &Thresholds, ledger: Ledger) -> Walk<'a> {
        Walk {
            world,
            ledger,
            caller_ns: LEAST_NS,
            call_ns: LEAST_NS,
            translation_ns: 0,
            tests: tests(thresholds),
            ticks: Vec::new(),
            sleeps: Vec::new(),
            busy: 0.0,
        }
    }

    /// Searches.
    ///
    /// # Errors
    /// Not even the first measurement could be made.
    pub fn search(mut self) -> Result<Found, Failure> {
        let before = (self.world.now_ns(), self.world.vitals());
        self.world.say("what a call costs here");
        self.calibrate()?;
        self.world.say("where tasks run");
        self.look_at_ticks();
        let after = (self.world.now_ns(), self.world.vitals());
        self.test_vitals(&before, &after);
        self.world.say("what tasks sleep for");
        self.test_sleeps();
        self.world.say("interrupts, faults, processes");
        self.test_roots();
        self.test_calls();
        self.refine();
        self.settle();
        let elapsed_ns = self.world.now_ns();
        Ok(Found {
            tests: self.tests,
            ledger: self.ledger,
            call_ns: self.call_ns,
            elapsed_ns,
            translation_ns: self.translation_ns,
            cut_short: self.world.over(),
            busy: self.busy,
        })
    }

    fn node(&mut self, id: Id) -> &mut Node {
        let all = self.tests.iter_mut();
        let mut own = all.filter(|(one, _)| *one == id).map(|(_, node)| node);
        own.next().expect("all hypotheses are there")
    }

    // --- measuring -----------------------------------------------------------------

    fn tasks(&self) -> Tasks {
        self.world.tasks()
    }

    /// Measures what a call of a function costs, by calling one often, without and with a session.
    fn calibrate(&mut self) -> Result<(), Failure> {
        let own = Tasks::of_thread(std::process::id() as i32);
        let plan = Plan {
            functions: vec!["fn:vfs_read".into()],
            tasks: own.clone(),
            ..Plan::default()
        };
        let world = self.world;
        let least = || (0..3).map(|_| world.exercise(EXERCISE)).min().unwrap_or(0);
        let opened = world.source().open(&plan)?;
        let (known, row) = (opened.known(), opened.rows().first().cloned());
        let without = least();
        let mut with = 0;
        opened.run(&mut |_| with = least())?;
        let each = |with: u64| (with.saturating_sub(without) / u64::from(EXERCISE)).max(LEAST_NS);
        self.call_ns = each(with);
        self.caller_ns = self.call_ns * 12;
        if let Some(row) = row
            && let Ok(about) = world.source().about(known.as_ref(), &row, "caller", &own)
        {
            about.run(&mut |_| with = least())?;
            self.caller_ns = each(with);
        }
        let calls = u64::from(3 * EXERCISE);
        self.ledger.spend(calls, self.call_ns);
        self.ledger.spend(calls, self.caller_ns);
        Ok(())
    }

    /// Runs a session for so long, or until it has cost what is left.
    fn watch(
        &mut self,
        opened: Box<dyn Opened>,
        each_ns: u64,
        window: Duration,
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
                step = (step * 2).min(window - elapsed).min(affordable);
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
    fn times(&mut self, functions: &[String], tasks: Tasks) -> Result<Seen, String> {
        let plan = Plan {
            functions: functions.to_vec(),
            tasks,
            confirmed: true,
            lenient: true,
            ..Plan::default()
        };
        let opened = self
            .world
            .source()
            .open(&plan)
            .map_err(|failure| failure.message)?;
        self.watch(opened, self.call_ns, WINDOW)
    }

    /// The same of one function, by what its calls are about.
    fn about(&mut self, function: &str, by: &str, tasks: Tasks) -> Result<Seen, String> {
        let plan = Plan {
            functions: vec![function.to_owned()],
            tasks: tasks.clone(),
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
        self.watch(about, cost, SHORT)
    }

    // --- the top -------------------------------------------------------------------

    /// What the clock's interrupts find. It says where to look: what is found there is measured.
    fn look_at_ticks(&mut self) {
        let (by, members) = match self.world.process() {
            None => ("stack,str(current->comm,16)", None),
            Some(root) => ("stack,current->tgid", Some(root)),
        };
        // Interrupts are of no task: those of a process are chosen here.
        let Ok(seen) = self.about(&format!("fn:{CLOCK}"), by, Tasks::default()) else {
            return;
        };
        let vitals = members.map(|root| (root, self.world.vitals()));
        let all: u64 = seen.counted.times.iter().map(|time| time.calls).sum();
        // Of processors that are idle the clock stands still: a tick is a part of the time of one.
        for row in &seen.rows {
            let [stack, who] = row.keys.shown.as_slice() else {
                continue;
            };
            let who = who.trim_matches('"').to_owned();
            if let Some((root, vitals)) = &vitals
                && !who
                    .parse()
                    .is_ok_and(|pid: i32| vitals.members(*root).contains(&pid))
            {
                continue;
            }
            let (what, frames) = ticked(&frames(stack));
            let calls = seen.time(row).calls;
            let value = calls as f64 / all.max(1) as f64;
            self.ticks.push((what, Stack { frames, who, value }));
        }
    }

    /// What /proc says of processors.
    fn test_vitals(&mut self, (from, before): &(u64, Vitals), (to, after): &(u64, Vitals)) {
        let elapsed = to.saturating_sub(*from).max(1) as f64;
        let system = after.system_ns.saturating_sub(before.system_ns) as f64 / elapsed;
        let user = after.user_ns.saturating_sub(before.user_ns) as f64 / elapsed;
        self.busy += system + user;
        self.node(Id::Cpu).decide(system);
        let rate = |from: u64, to: u64| to.saturating_sub(from) as f64 * 1e9 / elapsed;
        let forks = rate(before.forks, after.forks);
        let faults = rate(before.faults, after.faults);
        self.node(Id::Forks).objects = vec![format!("{forks:.0} processes a second")];
        self.node(Id::Faults).objects = vec![format!("{faults:.0} faults a second")];
        if self.world.process().is_some() {
            self.node(Id::Kthread)
                .leave("threads of the kernel are of no process");
            return;
        }
        let busiest = after.busiest_thread(before);
        let value = busiest.map_or(0.0, |(_, _, ns)| ns as f64 / elapsed);
        let who = busiest.map(|(pid, task, _)| format!("{} ({pid})", task.comm));
        let node = self.node(Id::Kthread);
        node.decide(value);
        node.objects.extend(who.filter(|_| node.holds()));
    }

    /// Why tasks sleep.
    fn test_sleeps(&mut self) {
        let reasons = [Id::Locks, Id::Disk, Id::Sync, Id::Network, Id::Delays];
        let mut judges: BTreeMap<Id, Judge> = BTreeMap::new();
        let mut why = String::new();
        for _ in 0..TRIES {
            match self.sleeps() {
                Ok(sleeps) => self.sleeps = sleeps,
                Err(failure) => {
                    why = failure;
                    break;
                }
            }
            let mut more = false;
            for id in reasons {
                let own = self.sleeps.iter().filter(|(one, _)| *one == id);
                let value = own.map(|(_, stack)| stack.value).sum();
                let threshold = self.node(id).threshold;
                let judge = judges.entry(id).or_default();
                judge.add(value);
                more |= judge.needs_more(threshold);
            }
            if !more {
                break;
            }
        }
        for id in reasons {
            match judges.get(&id) {
                Some(judge) => {
                    let value = judge.value();
                    self.busy += value;
                    self.node(id).decide(value);
                }
                None => self.node(id).leave(why.clone()),
            }
        }
    }

    /// Where tasks sleep, and how many.
    fn sleeps(&mut self) -> Result<Vec<(Id, Stack)>, String> {
        let before = self.world.sleepers();
        let by = "stack,str(current->comm,16)";
        let seen = self.about(&format!("fn:{SLEEP}"), by, self.tasks())?;
        let is_of_process = self.world.process().is_some();
        let mut all = Vec::new();
        for (row, value) in seen.ranked(|time| time.blocked_ns) {
            if let [stack, who] = row.keys.shown.as_slice() {
                let frames = frames(stack);
                let who = who.trim_matches('"').to_owned();
                all.push((reason(&frames, is_of_process), Stack { frames, who, value }));
            }
        }
        // Who slept before, and sleeps still, has slept all the time.
        for (tid, now) in self.world.sleepers() {
            if before.get(&tid) == Some(&now) {
                let Sleeping { frames, who } = Sleeping::of(now);
                let value = 1.0;
                all.push((reason(&frames, is_of_process), Stack { frames, who, value }));
            }
        }
        Ok(all)
    }

    /// What interrupts, faults and new processes take.
    fn test_roots(&mut self) {
        let is_of_process = self.world.process().is_some();
        let ids = [Id::Interrupts, Id::Faults, Id::Forks, Id::Spinning];
        let roots = ROOTS
            .iter()
            .filter(|(id, _)| !is_of_process || *id != Id::Interrupts);
        let words: Vec<String> = roots.map(|(_, name)| format!("fn:{name}")).collect();
        let mut judges: BTreeMap<Id, Judge> = BTreeMap::new();
        let mut last = None;
        for _ in 0..TRIES {
            let seen = match self.times(&words, self.tasks()) {
                Ok(seen) => seen,
                Err(why) => {
                    if last.is_none() {
                        ids.iter().for_each(|id| self.node(*id).leave(why.clone()));
                        return;
                    }
                    break;
                }
            };
            let mut more = false;
            for id in ids {
                let own = ROOTS.iter().filter(|(one, _)| *one == id);
                let value = own
                    .map(|(_, name)| seen.of(name, None, |time| time.cpu_ns))
                    .sum();
                let threshold = self.node(id).threshold;
                let judge = judges.entry(id).or_default();
                judge.add(value);
                more |= judge.needs_more(threshold);
            }
            last = Some(seen);
            if !more {
                break;
            }
        }
        for (id, judge) in judges {
            self.node(id).decide(judge.value());
        }
        if is_of_process {
            self.node(Id::Interrupts)
                .leave("interrupts are of no process");
        }
        let Some(seen) = last else { return };
        for id in ids {
            if !self.node(id).holds() {
                continue;
            }
            let threshold = self.node(id).threshold * BELOW;
            for (row, value) in seen.ranked(|time| time.cpu_ns) {
                let own = (id, row.function.as_str());
                if value >= threshold && ROOTS.contains(&own) {
                    let mut node = Node::new(&row.shown(), "its time", Unit::Processors, threshold);
                    node.decide(value);
                    self.node(id).children.push(node);
                }
            }
        }
    }

    /// Calls of system calls.
    fn test_calls(&mut self) {
        self.node(Id::Retries)
            .leave("the kernel does not compute much");
        if !self.node(Id::Cpu).holds() {
            self.node(Id::Calls)
                .leave("the kernel does not compute much");
            return;
        }
        self.world.say("how many system calls");
        let counts = match self.world.calls(PATHS) {
            Ok(counts) => counts,
            Err(failure) => {
                self.node(Id::Calls).leave(failure.message);
                return;
            }
        };
        self.ledger.spend(counts.entries, self.call_ns);
        let rate = |calls: u64| calls as f64 * 1e9 / counts.elapsed_ns.max(1) as f64;
        let first = counts.calls.iter().max_by_key(|(_, calls)| *calls).cloned();
        let (name, calls) = first.unwrap_or_default();
        self.node(Id::Calls).decide(rate(calls));
        self.node(Id::Retries).leave("returns are not looked at");
        if !self.node(Id::Calls).holds() {
            return;
        }
        let threshold = self.node(Id::Calls).threshold;
        let mut node = Node::new(&format!("sys:{name}"), "calls of it", Unit::Rate, threshold);
        node.decide(rate(calls));
        let function = match name.as_str() {
            "read" | "pread64" => "vfs_read",
            "write" | "pwrite64" => "vfs_write",
            _ => {
                self.node(Id::Calls).children.push(node);
                return;
            }
        };
        // Of calls that read and write, the size says whether they do little.
        if let Ok(seen) = self.about(
            &format!("fn:{function}"),
            "count,caller,file->f_path",
            self.tasks(),
        ) {
            let size = |row: &Row| row.keys.values.first().and_then(serde_json::Value::as_f64);
            let (mut bytes, mut calls) = (0.0, 0.0);
            let ranked = seen.ranked(|time| time.calls);
            for (row, rate) in &ranked {
                bytes += size(row).unwrap_or(0.0) * rate;
                calls += rate;
            }
            let mean = bytes / f64::max(calls, f64::MIN_POSITIVE);
            let mut child = Node::new(function, "its calls, by their bytes", Unit::Rate, threshold);
            child.decide(rate_of(&ranked));
            if let Some((row, _)) = ranked.first() {
                let site = row.keys.shown.get(1).and_then(|site| Frame::parse(site));
                child.line = site.and_then(|site| self.world.line(&site));
                child.site = row.keys.shown.get(1).cloned();
                child.objects = vec![format!("{mean:.0} bytes a call")];
                child
                    .objects
                    .extend(row.keys.shown.get(2).map(|file| format!("file {file}")));
            }
            if mean > SMALL_BYTES {
                self.node(Id::Calls).leave(format!(
                    "{name} has {mean:.0} bytes a call: that is not little"
                ));
                return;
            }
            node.children.push(child);
        }
        self.node(Id::Calls).children.push(node);
    }

    // --- refining ------------------------------------------------------------------

    /// Goes down from what is true, the largest first.
    fn refine(&mut self) {
        let mut order: Vec<(Id, f64)> = Vec::new();
        for (id, node) in &self.tests {
            if node.holds() {
                order.push((*id, node.value));
            }
        }
        // What says less comes last: if the time is up, the others are done.
        order.sort_by(|(a, x), (b, y)| (*a == Id::Cpu).cmp(&(*b == Id::Cpu)).then(y.total_cmp(x)));
        for (id, _) in order {
            if let Some(why) = self.world.over() {
                let mut node = Node::new("below", "which function", Unit::Processors, 0.0);
                node.leave(why);
                self.node(id).children.push(node);
                continue;
            }
            self.world
                .say(&format!("refining {}", self.node(id).name.clone()));
            match id {
                Id::Locks | Id::Disk | Id::Sync | Id::Network | Id::Delays => self.refine_sleep(id),
                Id::Cpu | Id::Kthread | Id::Faults | Id::Forks | Id::Spinning => {
                    self.refine_ticks(id)
                }
                Id::Interrupts => self.refine_interrupts(),
                Id::Calls | Id::Retries | Id::Idle => {}
            }
            self.finish(id);
        }
    }

    /// Down to the function that sleeps, and the place at which it does.
    fn refine_sleep(&mut self, id: Id) {
        let mut places: BTreeMap<Frame, (f64, Stack)> = BTreeMap::new();
        for (_, stack) in self.sleeps.iter().filter(|(one, _)| *one == id) {
            if let Some(frame) = stack.frames.get(taker(&stack.frames)) {
                let place = places
                    .entry(frame.clone())
                    .or_insert_with(|| (0.0, stack.clone()));
                place.0 += stack.value;
                if stack.value > place.1.value {
                    place.1 = stack.clone();
                }
            }
        }
        let mut places: Vec<(Frame, (f64, Stack))> = places.into_iter().collect();
        places.sort_by(|(_, (a, _)), (_, (b, _))| b.total_cmp(a));
        let threshold = self.node(id).threshold * BELOW;
        places.retain(|(_, (value, _))| *value >= threshold);
        places.truncate(TESTED);
        let words: Vec<String> = places.iter().map(|(frame, _)| frame.word()).collect();
        if words.is_empty() {
            return;
        }
        let seen = self.times(&words, self.tasks());
        let mut nodes = Vec::new();
        for (frame, (value, stack)) in places {
            let mut node = Node::new(&frame.name(), "tasks asleep in it", Unit::Tasks, threshold);
            let known = seen.as_ref().ok();
            let module = frame.module.as_deref();
            let known = known.filter(|seen| seen.has(&frame.function, module));
            // What cannot be measured by itself is known by its stacks, which are exact, too.
            let value = known.map_or(value, |seen| {
                seen.of(&frame.function, module, |time| time.blocked_ns)
            });
            node.decide(value);
            node.site = Some(frame.site());
            node.line = self.world.line(&frame);
            let at = taker(&stack.frames);
            node.path = stack.frames[at..].iter().map(Frame::site).collect();
            node.objects = vec![format!("by {}", stack.who)];
            nodes.push((node, stack));
        }
        nodes.sort_by(|(a, _), (b, _)| b.value.total_cmp(&a.value));
        if let Some((node, stack)) = nodes.first_mut() {
            let objects = self.objects(&stack.frames, |time| time.blocked_ns);
            node.objects.extend(objects);
            if id == Id::Locks {
                node.objects.extend(self.lock(&stack.frames));
            }
        }
        self.node(id).children = nodes.into_iter().map(|(node, _)| node).collect();
    }

    /// Which lock: what the function that waits for it was called with.
    fn lock(&mut self, frames: &[Frame]) -> Option<String> {
        let slow = frames.iter().find(|frame| {
            [
                "__mutex_lock",
                "rwsem_down_",
                "__down",
                "ww_mutex_lock",
                "rt_mutex_slowlock",
            ]
            .iter()
            .any(|begin| frame.function.starts_with(begin))
        })?;
        let word = slow.word();
        let seen = self.about(&word, "$arg0", self.tasks()).ok()?;
        let (row, _) = *seen.ranked(|time| time.blocked_ns).first()?;
        let address = row.keys.values.first()?.as_u64()?;
        let name = self.world.variable(address);
        Some(format!(
            "lock {}",
            name.unwrap_or_else(|| format!("{address:#x}"))
        ))
    }

    /// What calls of the functions on a stack are about.
    fn objects(&mut self, frames: &[Frame], value: impl Fn(&Time) -> u64) -> Vec<String> {
        let known = ABOUT
            .iter()
            .find(|(function, _)| frames.iter().any(|frame| frame.function == *function));
        let Some((function, by)) = known else {
            return Vec::new();
        };
        let Ok(seen) = self.about(&format!("fn:{function}"), by, self.tasks()) else {
            return Vec::new();
        };
        let ranked = seen.ranked(value);
        let named = ranked
            .iter()
            .filter(|(row, value)| *value > 0.0 && !row.keys.values.is_empty());
        let named = named.take(2).map(|(row, _)| row.keys.shown.join(" "));
        let all: Vec<String> = named.collect();
        match all.is_empty() {
            true => Vec::new(),
            false => vec![format!("{function} of {}", all.join(", "))],
        }
    }

    /// Down to the function that computes, by what the clock's interrupts have found.
    fn refine_ticks(&mut self, id: Id) {
        let who = self.node(id).objects.first().cloned();
        let roots: Vec<&str> = ROOTS
            .iter()
            .filter(|(one, _)| *one == id)
            .map(|(_, name)| *name)
            .collect();
        let is_of = |stack: &Stack| match id {
            Id::Kthread => who
                .as_ref()
                .is_some_and(|who| who.starts_with(&format!("{} (", stack.who))),
            Id::Cpu => true,
            _ => stack
                .frames
                .iter()
                .any(|frame| roots.contains(&frame.function.as_str())),
        };
        let ticks = self
            .ticks
            .iter()
            .filter(|(what, stack)| *what == Ticked::Task && is_of(stack));
        let ticks: Vec<Stack> = ticks.map(|(_, stack)| stack.clone()).collect();
        let mut way = hot_way(&ticks, MOST);
        if way.is_empty() {
            // Nothing has most of it: the largest of what there is.
            way = hot_way(&ticks, MOST / 3.0);
        }
        let tasks = match id {
            Id::Kthread => {
                let number = who.as_deref().and_then(|who| who.rsplit_once('('));
                let number =
                    number.and_then(|(_, number)| number.trim_end_matches(')').parse().ok());
                number.map_or_else(|| self.tasks(), Tasks::of_thread)
            }
            _ => self.tasks(),
        };
        self.refine_way(id, &way, &tasks);
    }

    /// Down from the interrupt that takes most, by its call paths.
    fn refine_interrupts(&mut self) {
        let first = self.node(Id::Interrupts).children.first().cloned();
        let Some(root) = first else { return };
        let Ok(counts) = self.world.paths(&[format!("fn:{}", root.name)], PATHS) else {
            return;
        };
        self.ledger.spend(counts.entries, self.call_ns * 4);
        self.translation_ns += counts.translation_ns;
        self.ledger.spend(1, counts.translation_ns);
        let way = hot_way(&counts.paths, MOST);
        let below: Vec<Frame> = way.into_iter().skip(1).collect();
        self.refine_way(Id::Interrupts, &below, &Tasks::default());
    }

    /// Tests functions on a way, each a part of the one before, and finds the call site of the last
    /// that is true.
    fn refine_way(&mut self, id: Id, way: &[Frame], tasks: &Tasks) {
        let tested = &way[way.len().saturating_sub(TESTED)..];
        let words: Vec<String> = tested.iter().map(Frame::word).collect();
        if words.is_empty() {
            return;
        }
        let threshold = self.node(id).threshold * BELOW;
        let seen = self.times(&words, tasks.clone());
        let mut nodes: Vec<Node> = Vec::new();
        let mut last = None;
        for (at, frame) in tested.iter().enumerate() {
            let mut node = Node::new(
                &frame.name(),
                "its time on processors",
                Unit::Processors,
                threshold,
            );
            let module = frame.module.as_deref();
            match &seen {
                Ok(seen) if seen.has(&frame.function, module) => {
                    node.decide(seen.of(&frame.function, module, |time| time.cpu_ns));
                }
                Ok(_) => node.leave("it cannot be looked at"),
                Err(why) => node.leave(why.clone()),
            }
            if node.holds() {
                last = Some((at, nodes.len()));
            }
            nodes.push(node);
        }
        if let Some((at, number)) = last {
            let frame = &tested[at];
            let site = self.site(frame, tasks);
            let begin = way.len() - tested.len();
            let caller = (begin + at).checked_sub(1).map(|up| way[up].clone());
            let node = &mut nodes[number];
            let site = site.or(caller.filter(|one| one.offset > 0));
            node.line = site.as_ref().and_then(|site| self.world.line(site));
            node.site = site.as_ref().map(Frame::site);
            node.path = way[..begin + at].iter().rev().map(Frame::site).collect();
            let objects = self.objects(way, |time| time.cpu_ns);
            nodes[number].objects = objects;
        }
        // Each is a part of the one before.
        let nested = nodes
            .into_iter()
            .rev()
            .fold(None, |below: Option<Node>, mut node| {
                node.children.extend(below);
                Some(node)
            });
        let Some(nested) = nested else { return };
        let is_deeper = !nested.way().is_empty();
        let node = self.node(id);
        match node.children.first_mut() {
            Some(root) if id == Id::Interrupts => root.children.push(nested),
            // Functions that are known already say more than a way on which none is true.
            Some(_) if !is_deeper => node.children.push(nested),
            _ => node.children.insert(0, nested),
        }
    }

    /// Of a function that is true and has nothing below it: its call site.
    fn finish(&mut self, id: Id) {
        let first = self.node(id).children.first();
        let first =
            first.filter(|node| node.holds() && node.way().len() == 1 && node.site.is_none());
        let Some(frame) = first.and_then(|node| Frame::parse(&node.name)) else {
            return;
        };
        let tasks = self.tasks();
        let site = self.site(&frame, &tasks);
        let line = site.as_ref().and_then(|site| self.world.line(site));
        let node = &mut self.node(id).children[0];
        node.site = site.as_ref().map(Frame::site);
        node.line = line;
    }

    /// From where a function takes most of its time.
    fn site(&mut self, frame: &Frame, tasks: &Tasks) -> Option<Frame> {
        let seen = self.about(&frame.word(), "caller", tasks.clone()).ok()?;
        let ranked = seen.ranked(wall);
        let named = ranked.iter().find(|(row, _)| !row.keys.values.is_empty())?;
        Frame::parse(named.0.keys.shown.first()?).filter(|site| !is_entry(site))
    }

    // --- the end -------------------------------------------------------------------

    /// Waits until what was spent is within the budget. A measurement can cost more than was known.
    fn settle(&mut self) {
        while self.ledger.share(self.world.now_ns()) > self.ledger.budget {
            if self.world.over().is_some() {
                return;
            }
            self.world.pause(Duration::from_millis(100));
        }
    }
}

fn rate_of(ranked: &[(&Row, f64)]) -> f64 {
    // Values are by the nanosecond.
    ranked.iter().map(|(_, value)| value).sum::<f64>() * 1e9
}

/// A task that slept all the time.
struct Sleeping {
    frames: Vec<Frame>,
    who: String,
}

impl Sleeping {
    fn of(one: super::world::Sleeper) -> Sleeping {
        // The same as stacks from `schedule` have it: without that.
        let own = |frame: &Frame| frame.function != SLEEP && frame.function != "__schedule";
        Sleeping {
            frames: one.frames.into_iter().filter(own).collect(),
            who: one.who,
        }
    }
}
