// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hypotheses: what is measured for each.

use std::collections::BTreeMap;
use std::time::Duration;

use super::measure::Seen;
use super::{BELOW, NESTED, PATHS, ROOTS, SLEEP, Walk};
use crate::cmd::search::hypotheses::Id;
use crate::cmd::search::sleepers::Sleepers;
use crate::cmd::search::stacks::{Frame, Stack, frames, reason, ticked};
use crate::cmd::search::tree::{Judge, Node, TRIES, Unit};
use crate::cmd::search::vitals::Vitals;
use crate::cmd::stat::sheet::Row;
use crate::kernel::pattern::source_name;
use crate::kernel::{errno, syscalls};
use crate::session::scope::Tasks;

/// The clock's interrupt comes here on each processor that does something.
const CLOCK: &str = "update_process_times";
/// What /proc counts is read from here on in the time of a measurement.
const LATE: Duration = Duration::from_millis(350);
/// System calls whose errors are looked at.
const FAILING: usize = 2;
/// The functions that have the results of system calls whose handlers jump to them.
const FUNCTIONS: [(&str, &str); 8] = [
    ("read", "vfs_read"),
    ("write", "vfs_write"),
    ("pread64", "vfs_read"),
    ("openat", "do_sys_openat2"),
    ("recvfrom", "__sys_recvfrom"),
    ("sendto", "__sys_sendto"),
    ("futex", "do_futex"),
    ("connect", "__sys_connect"),
];
/// A call of less bytes is small.
const SMALL_BYTES: f64 = 512.0;

impl Walk<'_> {
    /// What the clock's interrupts find. It says where to look: what is found there is measured.
    pub(super) fn look_at_ticks(&mut self) {
        let (by, members) = match self.world.process() {
            None => ("stack,str(current->comm,16)", None),
            Some(root) => ("stack,current->tgid", Some(root)),
        };
        // What /proc counts is read in the same time: in it the search itself does little.
        let (world, mut vitals) = (self.world, Vec::new());
        let mut beside = |elapsed: u64| {
            if elapsed > 0 && (vitals.is_empty() || elapsed >= LATE.as_nanos() as u64) {
                vitals.truncate(1);
                vitals.push((world.now_ns(), world.vitals()));
            }
        };
        // Interrupts are of no task: those of a process are chosen here.
        let function = format!("fn:{CLOCK}");
        let seen = self.about_beside(&function, by, Tasks::default(), &mut beside);
        match <[_; 2]>::try_from(vitals) {
            Ok([first, last]) => self.test_vitals(&first, &last),
            Err(_) => self.test_vitals_apart(),
        }
        let Ok(seen) = seen else {
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

    /// The same where the clock's session was refused, or too short for it.
    fn test_vitals_apart(&mut self) {
        let world = self.world;
        let first = (world.now_ns(), world.vitals());
        world.pause(LATE);
        if let Some(why) = world.over() {
            self.node(Id::Cpu).leave(why);
            self.node(Id::Kthread).leave(why);
            return;
        }
        self.test_vitals(&first, &(world.now_ns(), world.vitals()));
    }

    /// What /proc says of processors.
    pub(super) fn test_vitals(
        &mut self,
        (from, before): &(u64, Vitals),
        (to, after): &(u64, Vitals),
    ) {
        let elapsed = to.saturating_sub(*from).max(1) as f64;
        let (system, user) = after.since(before);
        let (system, user) = (system as f64 / elapsed, user as f64 / elapsed);
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
    pub(super) fn test_sleeps(&mut self) {
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
    pub(super) fn sleeps(&mut self) -> Result<Vec<(Id, Stack)>, String> {
        let is_of_process = self.world.process().is_some();
        let world = self.world;
        let mut sleepers = None;
        let seen = self.about_beside(
            &format!("fn:{SLEEP}"),
            "stack,str(current->comm,16)",
            self.tasks(),
            &mut |elapsed| match &mut sleepers {
                None => sleepers = Some(Sleepers::before(world)),
                Some(sleepers) => sleepers.look(world, elapsed),
            },
        )?;
        let mut all = Vec::new();
        for (row, value) in seen.ranked(|time| time.blocked_ns) {
            if let [stack, who] = row.keys.shown.as_slice() {
                let frames = frames(stack);
                let who = who.trim_matches('"').to_owned();
                all.push(Stack { frames, who, value });
            }
        }
        all.extend(sleepers.map_or_else(Vec::new, |all| all.unseen(seen.elapsed())));
        let named = all
            .into_iter()
            .map(|stack| (reason(&stack.frames, is_of_process), stack));
        Ok(named.collect())
    }

    /// What interrupts, faults and new processes take.
    pub(super) fn test_roots(&mut self) {
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
                let Some(value) = of_roots(id, &seen) else {
                    continue;
                };
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
        for id in ids {
            match judges.get(&id) {
                Some(judge) => self.node(id).decide(judge.value()),
                None => self.node(id).leave("its functions cannot be looked at"),
            }
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
                let own = (id, source_name(&row.function));
                if value >= threshold && ROOTS.contains(&own) {
                    let mut node = Node::new(&row.shown(), "its time", Unit::Processors, threshold);
                    node.decide(value);
                    self.node(id).children.push(node);
                }
            }
        }
    }

    /// Errors of the system calls that are made often.
    fn test_failures(&mut self, calls: &[(String, u64)], rate: impl Fn(u64) -> f64) {
        if self.world.process().is_some() {
            self.node(Id::Retries)
                .leave("errors are counted for the whole machine only");
            return;
        }
        let threshold = self.node(Id::Retries).threshold;
        let mut often: Vec<&(String, u64)> = calls.iter().collect();
        often.sort_by_key(|(_, calls)| std::cmp::Reverse(*calls));
        often.retain(|(_, calls)| rate(*calls) >= threshold);
        let (mut all, mut not_measured) = (0.0, None);
        for (name, calls) in often.into_iter().take(FAILING) {
            let known = FUNCTIONS.iter().find(|(own, _)| own == name);
            let handler = || format!("__x64_sys_{}", syscalls::handler(name));
            let function = known.map_or_else(handler, |(_, function)| (*function).to_owned());
            let mut node = Node::new(&function, "calls of it that fail", Unit::Rate, threshold);
            let failures = self.world.failures(&format!("fn:{function}"), PATHS);
            if let Some(why) = self.world.over() {
                self.node(Id::Retries).leave(why);
                return;
            }
            match failures {
                Ok(errors) => {
                    let failing: f64 = errors.iter().map(|(_, rate)| rate).sum();
                    let window = PATHS.as_secs_f64();
                    // A program at a return costs what one at an entry does.
                    self.ledger
                        .spend((rate(*calls) * window) as u64, self.caller_ns);
                    all = f64::max(all, failing);
                    node.decide(failing);
                    let named = errors.iter().take(2);
                    let named =
                        named.map(|(error, rate)| format!("{rate:.0} {}", errno::name(-error)));
                    let named: Vec<String> = named.collect();
                    if !named.is_empty() {
                        node.objects
                            .push(format!("by the second {}", named.join(", ")));
                    }
                }
                Err(failure) => {
                    not_measured.get_or_insert_with(|| failure.message.clone());
                    node.leave(failure.message);
                }
            }
            self.node(Id::Retries).children.push(node);
        }
        match not_measured {
            // What was not measured may be above the threshold.
            Some(why) if all < threshold => self.node(Id::Retries).leave(why),
            _ => self.node(Id::Retries).decide(all),
        }
    }

    /// Calls of system calls.
    pub(super) fn test_calls(&mut self) {
        if !self.node(Id::Cpu).holds() {
            let why = match self.node(Id::Cpu).is_tested() {
                true => "the kernel does not compute much",
                false => "cpu was not tested",
            };
            self.node(Id::Calls).leave(why);
            self.node(Id::Retries).leave(why);
            return;
        }
        self.say("how many system calls");
        let counts = match self.world.calls(PATHS) {
            Ok(counts) => counts,
            Err(failure) => {
                self.node(Id::Calls).leave(failure.message.clone());
                self.node(Id::Retries).leave(failure.message);
                return;
            }
        };
        self.ledger.spend(counts.entries, self.call_ns);
        // Calls count from the session's start on, so of a window that ended early the rate is wrong.
        if let Some(why) = self.world.over() {
            self.node(Id::Calls).leave(why);
            self.node(Id::Retries).leave(why);
            return;
        }
        let rate = |calls: u64| calls as f64 * 1e9 / counts.elapsed_ns.max(1) as f64;
        let first = counts.calls.iter().max_by_key(|(_, calls)| *calls).cloned();
        let (name, calls) = first.unwrap_or_default();
        self.node(Id::Calls).decide(rate(calls));
        self.test_failures(&counts.calls, rate);
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
}

/// What the functions of a hypothesis take of processors, the time of those inside others once.
/// `None`: none of them was looked at, and that says nothing.
fn of_roots(id: Id, seen: &Seen) -> Option<f64> {
    let value = |name: &&str| seen.of(name, None, |time| time.cpu_ns);
    let sum = |names: &[&str]| names.iter().map(value).sum::<f64>();
    let roots = ROOTS.iter().filter(|(one, _)| *one == id);
    let roots: Vec<&str> = roots.map(|(_, name)| *name).collect();
    let nested = NESTED.iter().filter(|(one, ..)| *one == id);
    // How much of the outer ones is in the inner ones is not known: all that can be.
    let twice: f64 = nested
        .map(|(_, outer, inner)| sum(outer).min(sum(inner)))
        .sum();
    let is_seen = roots.iter().any(|name| seen.has(name, None));
    is_seen.then(|| sum(&roots) - twice)
}

fn rate_of(ranked: &[(&Row, f64)]) -> f64 {
    // Values are by the nanosecond.
    ranked.iter().map(|(_, value)| value).sum::<f64>() * 1e9
}
