// SPDX-License-Identifier: MIT OR Apache-2.0
//! The search itself: which test comes when. mod.rs says why it ends.

mod measure;
mod refine;
mod top;

use std::time::Duration;

use super::hypotheses::{Id, Thresholds, tests};
use super::ledger::Ledger;
use super::stacks::{Stack, Ticked};
use super::tree::Node;
use super::world::World;
use crate::base::exit::Failure;

/// Call paths are counted for so long.
const PATHS: Duration = Duration::from_millis(100);
/// Below a test that is true, a function is if it has this share of the threshold.
const BELOW: f64 = 0.75;
/// All that sleeps, sleeps in this function.
const SLEEP: &str = "schedule";
/// Functions whose processor time is that of a hypothesis.
const ROOTS: [(Id, &str); 22] = [
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
    // In guests of hypervisors that let who waits for a spinlock sleep.
    (Id::Spinning, "__pv_queued_spin_lock_slowpath"),
    (Id::Spinning, "queued_read_lock_slowpath"),
    (Id::Spinning, "queued_write_lock_slowpath"),
];
/// Of them, those that call others of them. Times of both have the time of the latter.
const NESTED: [(Id, &[&str], &[&str]); 3] = [
    (
        Id::Interrupts,
        &["generic_smp_call_function_single_interrupt"],
        &["__flush_smp_call_function_queue"],
    ),
    // The end of the memory that a process had before.
    (Id::Forks, &["bprm_execve"], &["exit_mmap"]),
    // Who waits for a read-write lock spins for the spinlock in it.
    (
        Id::Spinning,
        &["queued_read_lock_slowpath", "queued_write_lock_slowpath"],
        &[
            "native_queued_spin_lock_slowpath",
            "__pv_queued_spin_lock_slowpath",
        ],
    ),
];

/// What a search has found, at its end or until now.
pub struct Found {
    /// What it does now; `None`: it is at its end.
    pub doing: Option<String>,
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
            caller_ns: 1,
            call_ns: 1,
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
        self.say("what a call costs here");
        self.calibrate()?;
        self.say("where tasks run");
        self.look_at_ticks();
        self.say("what tasks sleep for");
        self.test_sleeps();
        self.say("interrupts, faults, processes");
        self.test_roots();
        self.test_calls();
        self.refine();
        self.settle();
        self.tests.iter_mut().for_each(|(_, node)| node.close());
        Ok(self.found(None))
    }

    /// What is known now.
    fn found(&self, doing: Option<&str>) -> Found {
        Found {
            doing: doing.map(str::to_owned),
            tests: self.tests.clone(),
            ledger: self.ledger.clone(),
            call_ns: self.call_ns,
            elapsed_ns: self.world.now_ns(),
            translation_ns: self.translation_ns,
            cut_short: self.world.over(),
            busy: self.busy,
        }
    }

    /// Tells what is done now, and what is known.
    fn say(&self, doing: &str) {
        self.world.say(&self.found(Some(doing)));
    }

    fn node(&mut self, id: Id) -> &mut Node {
        let all = self.tests.iter_mut();
        let mut own = all.filter(|(one, _)| *one == id).map(|(_, node)| node);
        own.next().expect("all hypotheses are there")
    }

    /// Waits until what was spent is within the budget. A measurement can cost more than was known.
    fn settle(&mut self) {
        self.say("whether the cost is within the budget");
        while self.ledger.share(self.world.now_ns()) > self.ledger.budget {
            if self.world.over().is_some() {
                return;
            }
            self.world.pause(Duration::from_millis(100));
        }
    }
}
