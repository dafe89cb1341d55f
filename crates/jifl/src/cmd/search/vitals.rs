// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel counts anyway, in /proc: it costs nothing to look there first.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::show::text::one_line;

/// A tick of the times in /proc.
const TICK_NS: u64 = 10_000_000;
/// In the flags of /proc/PID/stat.
const KTHREAD: u64 = 0x0020_0000;

/// What was counted until a moment.
#[derive(Debug, Clone, Default)]
pub struct Vitals {
    /// Nanoseconds of processors in the kernel: of all tasks, softirqs and interrupts, or of those
    /// that are looked at.
    pub system_ns: u64,
    /// The same of programs.
    pub user_ns: u64,
    /// Processes that were made; of the machine.
    pub forks: u64,
    /// Page faults; of the machine.
    pub faults: u64,
    /// The search itself.
    pub own: Task,
    /// The processes.
    pub tasks: BTreeMap<i32, Task>,
}

/// A process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Task {
    /// Its name.
    pub comm: String,
    /// Who made it.
    pub parent: i32,
    /// Is it a thread of the kernel?
    pub is_kthread: bool,
    /// Nanoseconds in programs.
    pub user_ns: u64,
    /// Nanoseconds in the kernel.
    pub system_ns: u64,
}

impl Vitals {
    /// Of the whole machine; `of`: of this process and its descendants.
    pub fn read(of: Option<i32>) -> Vitals {
        let text = |path: &str| text_of(&fs::read(path).unwrap_or_default());
        let mut vitals = Vitals::of_text(&text("/proc/stat"), &text("/proc/vmstat"));
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            let Some(pid) = pid else { continue };
            if let Some(task) = task(&text(&format!("/proc/{pid}/stat"))) {
                vitals.tasks.insert(pid, task);
            }
        }
        // What the search does itself is not what it looks for.
        let own = vitals.tasks.remove(&(std::process::id() as i32));
        vitals.own = own.unwrap_or_default();
        if let Some(root) = of {
            let members = vitals.members(root);
            vitals.tasks.retain(|pid, _| members.contains(pid));
            vitals.system_ns = vitals.tasks.values().map(|task| task.system_ns).sum();
            vitals.user_ns = vitals.tasks.values().map(|task| task.user_ns).sum();
            vitals.own = Task::default();
        }
        vitals
    }

    /// A process and its descendants.
    pub fn members(&self, root: i32) -> BTreeSet<i32> {
        let mut members = BTreeSet::from([root]);
        loop {
            let children = self
                .tasks
                .iter()
                .filter(|(_, task)| members.contains(&task.parent));
            let all: BTreeSet<i32> = children.map(|(pid, _)| *pid).collect();
            let before = members.len();
            members.extend(all);
            if members.len() == before {
                return members;
            }
        }
    }

    fn of_text(stat: &str, vmstat: &str) -> Vitals {
        let mut vitals = Vitals::default();
        for line in stat.lines() {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default();
            let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
            match (name, numbers.as_slice()) {
                ("cpu", [user, nice, system, _, _, irq, softirq, ..]) => {
                    vitals.user_ns = (user + nice) * TICK_NS;
                    vitals.system_ns = (system + irq + softirq) * TICK_NS;
                }
                ("processes", [forks, ..]) => vitals.forks = *forks,
                _ => {}
            }
        }
        let faults = vmstat
            .lines()
            .find_map(|line| line.strip_prefix("pgfault "));
        vitals.faults = faults.and_then(|number| number.parse().ok()).unwrap_or(0);
        vitals
    }

    /// Nanoseconds in the kernel and in programs since another moment, without the search's.
    ///
    /// The machine's times are counted in ticks, those of tasks are exact. Where ticks are lost, as
    /// in a machine that is itself made to wait, the former are too small. Tasks that have ended
    /// meanwhile are in the former only. So it is the larger of the two.
    pub fn since(&self, before: &Vitals) -> (u64, u64) {
        let larger = |all: fn(&Vitals) -> u64, of: fn(&Task) -> u64| {
            let own = of(&self.own).saturating_sub(of(&before.own));
            let ticks = all(self).saturating_sub(all(before)).saturating_sub(own);
            let each = self.tasks.iter().map(|(pid, task)| {
                let then = before.tasks.get(pid).map_or(0, of);
                of(task).saturating_sub(then)
            });
            ticks.max(each.sum())
        };
        (
            larger(|all| all.system_ns, |task| task.system_ns),
            larger(|all| all.user_ns, |task| task.user_ns),
        )
    }

    /// The thread of the kernel that took most time since another moment, and how much.
    pub fn busiest_thread(&self, before: &Vitals) -> Option<(i32, &Task, u64)> {
        let threads = self.tasks.iter().filter(|(_, task)| task.is_kthread);
        let since = threads.map(|(pid, task)| {
            let then = before.tasks.get(pid).map_or(0, |task| task.system_ns);
            (*pid, task, task.system_ns.saturating_sub(then))
        });
        since
            .max_by_key(|(_, _, ns)| *ns)
            .filter(|(_, _, ns)| *ns > 0)
    }
}

/// A task gives itself its name, which may be no text.
fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What /proc/PID/stat says.
fn task(stat: &str) -> Option<Task> {
    let (before, after) = stat.rsplit_once(')')?;
    let comm = one_line(before.split_once('(')?.1);
    let words: Vec<&str> = after.split_whitespace().collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    Some(Task {
        comm,
        parent: words.get(1)?.parse().ok()?,
        is_kthread: number(6)? & KTHREAD != 0,
        user_ns: number(11)? * TICK_NS,
        system_ns: number(12)? * TICK_NS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read() {
        let stat = "cpu  10 2 30 400 5 6 7 0 0 0\ncpu0 1 1 1\nctxt 9\nprocesses 77\n";
        let vitals = Vitals::of_text(stat, "nr_free 4\npgfault 1234\npgmajfault 3\n");
        assert_eq!(
            (vitals.user_ns, vitals.system_ns),
            (120_000_000, 430_000_000)
        );
        assert_eq!((vitals.forks, vitals.faults), (77, 1234));
        let line = "12 (a b) c) R 2 0 0 0 -1 2129984 0 0 0 0 7 8 0 0 20 0 1 0 1";
        let task = task(line).unwrap();
        assert_eq!(
            (task.comm.as_str(), task.parent, task.is_kthread),
            ("a b) c", 2, true)
        );
        assert_eq!((task.user_ns, task.system_ns), (70_000_000, 80_000_000));
        assert!(super::task("").is_none());
        let line = text_of(b"12 (a\x1b\xff) R 2 0 0 0 -1 0 0 0 0 0 7 8 0 0 20 0 1 0 1");
        assert_eq!(super::task(&line).unwrap().comm, "a\\u{1b}\u{fffd}");
    }

    #[test]
    fn lost_ticks_do_not_hide_what_tasks_did() {
        let of = |ticks_ms: u64, task_ms: u64, own_ms: u64| {
            let task = |ms: u64| Task {
                system_ns: ms * 1_000_000,
                ..Task::default()
            };
            Vitals {
                system_ns: ticks_ms * 1_000_000,
                own: task(own_ms),
                tasks: BTreeMap::from([(5, task(task_ms))]),
                ..Vitals::default()
            }
        };
        let since = |after: Vitals| after.since(&of(1000, 500, 100)).0 / 1_000_000;
        assert_eq!(since(of(1900, 1300, 200)), 800);
        assert_eq!(since(of(1050, 1300, 800)), 800, "ticks were lost");
        assert_eq!(since(of(1900, 500, 200)), 800, "tasks have ended");
    }

    #[test]
    fn descendants_are_members() {
        let mut vitals = Vitals::default();
        for (pid, parent) in [(5, 1), (6, 5), (7, 6), (8, 1)] {
            let task = Task {
                parent,
                ..Task::default()
            };
            vitals.tasks.insert(pid, task);
        }
        assert_eq!(vitals.members(5), BTreeSet::from([5, 6, 7]));
    }
}
