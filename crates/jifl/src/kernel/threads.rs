// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads of the kernel, and the function that each runs for all its life: the outermost on its
//! stack, below what starts threads. Workers of io_uring are such threads, although they belong to
//! a process.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// In the flags of /proc/PID/stat (the kernel's PF_IO_WORKER and PF_KTHREAD).
const IO_WORKER: u64 = 0x10;
const KTHREAD: u64 = 0x0020_0000;
/// What begins a thread's stack.
const STARTERS: [&str; 3] = ["kthread", "ret_from_fork", "ret_from_fork_asm"];
/// The stack of a thread that runs cannot be read. So it is tried so often.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(2);

/// A thread of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its number.
    pub tid: u32,
    /// Its name in the kernel: of a worker without the work that /proc adds to it.
    pub name: String,
    /// The function that it runs, and the module of that; `None`: its stack did not show it.
    pub function: Option<(String, Option<String>)>,
}

/// All that the running kernel has, in the order of their numbers.
pub fn of_kernel() -> Vec<Thread> {
    let numbers = |path: &str| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
    };
    let mut all = Vec::new();
    for process in numbers("/proc") {
        for tid in numbers(&format!("/proc/{process}/task")) {
            let at = format!("/proc/{process}/task/{tid}");
            let stat = fs::read_to_string(format!("{at}/stat")).unwrap_or_default();
            all.extend(name(&stat).map(|name| Thread {
                tid,
                name,
                function: function(&at),
            }));
        }
    }
    all.sort_by_key(|thread| thread.tid);
    by_their_like(&mut all);
    all
}

/// A thread that runs all the time runs what all of its like do, if these agree: `kworker/0:1` what
/// `kworker/1:0` does.
fn by_their_like(all: &mut [Thread]) {
    let like = |name: &str| name.split(['/', ':']).next().unwrap_or(name).to_owned();
    let mut known: BTreeMap<String, BTreeSet<_>> = BTreeMap::new();
    for thread in all.iter() {
        let of = known.entry(like(&thread.name)).or_default();
        of.extend(thread.function.clone());
    }
    for thread in all.iter_mut().filter(|thread| thread.function.is_none()) {
        let known = &known[&like(&thread.name)];
        if known.len() == 1 {
            thread.function = known.first().cloned();
        }
    }
}

/// The function of a thread whose directory this is.
fn function(at: &str) -> Option<(String, Option<String>)> {
    for _ in 0..TRIES {
        let stack = fs::read_to_string(format!("{at}/stack")).ok()?;
        if let Some(found) = outermost(&stack) {
            return Some(found);
        }
        sleep(PAUSE);
    }
    None
}

/// The name of a thread by its stat; `None`: it is no thread of the kernel.
fn name(stat: &str) -> Option<String> {
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1;
    let flags: u64 = after.split_whitespace().nth(6)?.parse().ok()?;
    (flags & (KTHREAD | IO_WORKER) != 0).then(|| own_name(name).to_owned())
}

/// /proc adds to a worker's name what it works at: `kworker/0:1-events`, `kworker/u4:0+flush`. It
/// does not to that of a rescuer, `kworker/R-mld`.
fn own_name(name: &str) -> &str {
    let is_worker = name.starts_with("kworker/") && name.contains(':');
    match name.find(['-', '+']) {
        Some(end) if is_worker => &name[..end],
        _ => name,
    }
}

/// The outermost function on a stack as /proc/PID/stack shows it, that does not just start threads.
fn outermost(stack: &str) -> Option<(String, Option<String>)> {
    let mut frames = stack.lines().rev().filter_map(|line| {
        let (_, place) = line.split_once("] ")?;
        let (name, rest) = place.split_once('+')?;
        let module = rest.split_once('[');
        let module = module.map(|(_, name)| name.trim_end_matches(']').to_owned());
        Some((name.to_owned(), module))
    });
    // Without what starts threads the stack has not been read to its end.
    let first = frames.next()?;
    let started = STARTERS.contains(&first.0.as_str());
    started.then(|| frames.find(|(name, _)| !STARTERS.contains(&name.as_str())))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_kernel_by_their_flags() {
        let stat = |name: &str, flags| format!("12 ({name}) S 2 0 0 0 -1 {flags} 0 0");
        let named = |of: &str, flags| name(&stat(of, flags));
        assert_eq!(named("kswapd0", 2_359_360).as_deref(), Some("kswapd0"));
        assert_eq!(named("a) (b", 0x10).as_deref(), Some("a) (b"));
        assert_eq!(named("bash", 4_194_304), None);
        for (shown, own) in [
            ("kworker/0:1-events", "kworker/0:1"),
            ("kworker/u4:0+flush-8:0", "kworker/u4:0"),
            ("kworker/R-mld", "kworker/R-mld"),
            ("jbd2/vda1-8", "jbd2/vda1-8"),
        ] {
            assert_eq!(named(shown, 0x0020_0000).as_deref(), Some(own));
        }
    }

    #[test]
    fn who_runs_all_the_time_does_what_its_like_do() {
        let thread = |name: &str, function: Option<&str>| Thread {
            tid: 1,
            name: name.into(),
            function: function.map(|name| (name.to_owned(), None)),
        };
        let mut all = [
            thread("kworker/0:1", Some("worker_thread")),
            thread("kworker/1:0", None),
            thread("rcu_sched", None),
        ];
        by_their_like(&mut all);
        assert_eq!(all[1].function, all[0].function);
        assert_eq!(all[2].function, None);
    }

    #[test]
    fn the_outermost_function_of_a_stack() {
        let module = "[<0>] kjournald2+0x1f/0x2a0 [jbd2]\n[<0>] kthread+0xe6/0x110\n\
                      [<0>] ret_from_fork+0x1f/0x30\n";
        let found =
            |name: &str, module: Option<&str>| Some((name.to_owned(), module.map(str::to_owned)));
        assert_eq!(outermost(module), found("kjournald2", Some("jbd2")));
        let kswapd = "[<0>] kswapd+0x3c0/0x3d0\n[<0>] kthread+0xe6/0x110\n\
                      [<0>] ret_from_fork+0x34/0x50\n[<0>] ret_from_fork_asm+0x1a/0x30\n";
        assert_eq!(outermost(kswapd), found("kswapd", None));
        for stack in [
            "",
            "[<0>] 0x0\n",
            "[<0>] schedule+0x1/0x2\n",
            "[<0>] kthread+0x1/0x2\n",
        ] {
            assert_eq!(outermost(stack), None, "{stack}");
        }
    }
}
