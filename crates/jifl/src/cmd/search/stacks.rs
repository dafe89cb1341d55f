// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a stack says: what a task waits for, and whose code it is in.

use std::collections::BTreeMap;

use super::hypotheses::Id;

/// A place on a stack.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frame {
    /// The function.
    pub function: String,
    /// Behind the call, from the function's beginning.
    pub offset: u64,
    /// Its module.
    pub module: Option<String>,
}

impl Frame {
    /// Reads `function+0x26 [module]`.
    pub fn parse(text: &str) -> Option<Frame> {
        let (place, module) = match text.trim().split_once(" [") {
            Some((place, module)) => (place, Some(module.trim_end_matches(']').to_owned())),
            None => (text.trim(), None),
        };
        let (function, offset) = place.rsplit_once("+0x").unwrap_or((place, "0"));
        let offset = offset.split('/').next().unwrap_or_default();
        Some(Frame {
            function: function.to_owned(),
            offset: u64::from_str_radix(offset, 16).ok()?,
            module,
        })
    }

    /// `fn:NAME` or `fn:NAME@MODULE`.
    pub fn word(&self) -> String {
        match &self.module {
            Some(module) => format!("fn:{}@{module}", self.function),
            None => format!("fn:{}", self.function),
        }
    }

    /// `NAME`, `NAME [MODULE]`.
    pub fn name(&self) -> String {
        match &self.module {
            Some(module) => format!("{} [{module}]", self.function),
            None => self.function.clone(),
        }
    }

    /// `NAME+0x26`, `NAME+0x26 [MODULE]`.
    pub fn site(&self) -> String {
        let place = format!("{}+{:#x}", self.function, self.offset);
        match &self.module {
            Some(module) => format!("{place} [{module}]"),
            None => place,
        }
    }
}

/// Where tasks were, and how much of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Stack {
    /// The innermost first.
    pub frames: Vec<Frame>,
    /// Who: the name of a process.
    pub who: String,
    /// Processors or tasks, on average.
    pub value: f64,
}

/// Reads a stack as rows have it: places with semicolons in between.
pub fn frames(text: &str) -> Vec<Frame> {
    text.split(';').filter_map(Frame::parse).collect()
}

/// What each reason for waiting is known by: a function that is on the stack begins so. The first
/// that fits counts.
const REASONS: [(Id, &[&str]); 6] = [
    (
        Id::Sync,
        &[
            "vfs_fsync_range",
            "do_fsync",
            "ksys_sync",
            "sync_filesystem",
            "balance_dirty_pages",
            "file_write_and_wait_range",
            "jbd2_log_wait_commit",
            "jbd2_complete_transaction",
            "folio_wait_writeback",
            "wait_on_page_writeback",
            "__filemap_fdatawait_range",
            "filemap_fdatawait",
            "blkdev_fsync",
            "blkdev_issue_flush",
        ],
    ),
    (
        Id::Locks,
        &[
            "__mutex_lock",
            "mutex_lock",
            "ww_mutex_lock",
            "rwsem_down_",
            "down_read",
            "down_write",
            "__down",
            "percpu_down_",
            "__percpu_down_",
            "percpu_rwsem_wait",
            "rt_mutex_",
            "__rt_mutex_",
        ],
    ),
    (
        Id::Network,
        &[
            "sk_stream_wait_memory",
            "sock_alloc_send_pskb",
            "sock_wait_for_wmem",
            "tcp_sendmsg",
            "unix_stream_sendmsg",
            "unix_dgram_sendmsg",
            "unix_wait_for_peer",
            "inet_wait_for_connect",
            "__inet_stream_connect",
            "unix_stream_connect",
        ],
    ),
    (
        Id::Disk,
        &[
            "io_schedule",
            "blk_io_schedule",
            "submit_bio_wait",
            "wait_on_buffer",
            "__wait_on_buffer",
            "folio_wait_bit",
            "bit_wait_io",
            "wait_for_completion_io",
            "blk_mq_get_tag",
            "rq_qos_wait",
            "read_cache_folio",
            "do_blockdev_direct_IO",
            "__blkdev_direct_IO",
            "iomap_dio_rw",
        ],
    ),
    // These sleep because a program asked for it, or has nothing to do.
    (
        Id::Idle,
        &[
            "do_nanosleep",
            "ep_poll",
            "do_epoll_wait",
            "do_poll",
            "poll_schedule_timeout",
            "do_select",
            "futex_wait",
            "do_sigtimedwait",
            "do_wait",
            "sigsuspend",
            "__do_sys_pause",
            "ptrace_stop",
            "do_signal_stop",
        ],
    ),
    (
        Id::Delays,
        &["msleep", "usleep_range", "schedule_timeout_uninterruptible"],
    ),
];

/// Functions that only wait for others: whose call of them is of interest.
const PLUMBING: [&str; 41] = [
    "schedule",
    "__schedule",
    "preempt_schedule",
    "__cond_resched",
    "io_schedule",
    "mutex_",
    "__mutex_",
    "ww_mutex_",
    "rwsem_",
    "down_",
    "__down",
    "percpu_down",
    "__percpu_down",
    "percpu_rwsem",
    "rt_mutex",
    "__rt_mutex",
    "bit_wait",
    "out_of_line_wait",
    "__wait_on_bit",
    "folio_wait",
    "__folio_lock",
    "wait_on_",
    "__wait_on_buffer",
    "wait_for_completion",
    "__wait_for_common",
    "msleep",
    "usleep_range",
    "blk_io_schedule",
    "submit_bio_wait",
    "sk_stream_wait",
    "sock_alloc_send",
    "sock_wait_for",
    "unix_wait_for",
    "wait_woken",
    "native_queued_",
    "queued_",
    "_raw_",
    "__pv_queued",
    "osq_",
    "do_wait_for_common",
    "__filemap_fdatawait",
];

/// What leads into the kernel and out of it, and says nothing.
const ENTRIES: [&str; 14] = [
    "entry_",
    "do_syscall_64",
    "x64_sys_call",
    "__x64_sys_",
    "__se_sys_",
    "__do_sys_",
    "asm_",
    "exc_",
    "sysvec_",
    "__sysvec_",
    "ret_from_fork",
    "kthread",
    "do_fast_syscall",
    "common_interrupt",
];

fn is_of(list: &[&str], frame: &Frame) -> bool {
    frame.module.is_none() && list.iter().any(|begin| frame.function.starts_with(begin))
}

/// Does it lead into the kernel only?
pub fn is_entry(frame: &Frame) -> bool {
    is_of(&ENTRIES, frame)
}

/// Is it a stack of a thread of the kernel?
fn is_kthread(frames: &[Frame]) -> bool {
    frames.iter().any(|frame| frame.function == "kthread")
}

/// What a task with this stack waits for. `is_of_process`: the search is about a process, whose
/// waiting for others' data counts.
pub fn reason(frames: &[Frame], is_of_process: bool) -> Id {
    let found = REASONS
        .iter()
        .find(|(_, begins)| frames.iter().any(|frame| is_of(begins, frame)));
    match found {
        // A thread of the kernel waits for a disk on behalf of others, or for work.
        Some((Id::Locks, _)) => Id::Locks,
        Some(_) | None if is_kthread(frames) => Id::Idle,
        Some((id, _)) => *id,
        None => {
            let receives = [
                "__skb_wait_for_more_packets",
                "sk_wait_data",
                "unix_stream_read_generic",
                "inet_csk_accept",
                "pipe_write",
                "pipe_read",
                // Their names since 6.16.
                "anon_pipe_write",
                "anon_pipe_read",
            ];
            match is_of_process && frames.iter().any(|frame| is_of(&receives, frame)) {
                true => Id::Network,
                false => Id::Idle,
            }
        }
    }
}

/// On a stack of a task that waits, the place from which it called what waits.
pub fn taker(frames: &[Frame]) -> usize {
    let own = |frame: &Frame| !is_of(&PLUMBING, frame);
    frames.iter().position(own).unwrap_or(0)
}

/// What a tick of the clock has interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ticked {
    /// A program.
    User,
    /// Nothing.
    Idle,
    /// The kernel, for a task.
    Task,
    /// A softirq or an interrupt.
    Interrupt,
}

/// The stack that the clock's interrupt found: without its own part, and without what a softirq
/// interrupted.
pub fn ticked(frames: &[Frame]) -> (Ticked, Vec<Frame>) {
    let entry = |frame: &Frame| frame.function.starts_with("asm_");
    let Some(at) = frames.iter().position(entry) else {
        return (Ticked::User, Vec::new());
    };
    let rest = &frames[at + 1..];
    let softirq = |frame: &Frame| {
        ["handle_softirqs", "__do_softirq", "__irq_exit_rcu"].contains(&frame.function.as_str())
    };
    if let Some(end) = rest.iter().position(softirq) {
        return (Ticked::Interrupt, rest[..end].to_vec());
    }
    if let Some(end) = rest.iter().position(entry) {
        return match rest[end].function.contains("page_fault") {
            true => (Ticked::Task, rest.to_vec()),
            false => (Ticked::Interrupt, rest[..end].to_vec()),
        };
    }
    let idle = [
        "do_idle",
        "cpu_startup_entry",
        "default_idle",
        "cpuidle_enter",
    ];
    match rest {
        [] => (Ticked::User, Vec::new()),
        _ if rest.iter().any(|frame| is_of(&idle, frame)) => (Ticked::Idle, Vec::new()),
        _ => (Ticked::Task, rest.to_vec()),
    }
}

/// From the outermost function on down, as long as one call has most of it: places, the outermost
/// first. Each is a call site of the next; of the last the offset means nothing.
pub fn hot_way(stacks: &[Stack], most: f64) -> Vec<Frame> {
    let total: f64 = stacks.iter().map(|stack| stack.value).sum();
    let mut way: Vec<Frame> = Vec::new();
    let cleaned: Vec<(Vec<&Frame>, f64)> = stacks
        .iter()
        .map(|stack| {
            let frames = stack.frames.iter().rev().filter(|frame| !is_entry(frame));
            (frames.collect(), stack.value)
        })
        .collect();
    let mut inside: Vec<usize> = (0..cleaned.len()).collect();
    loop {
        let depth = way.len();
        let mut next: BTreeMap<(&str, Option<&str>), f64> = BTreeMap::new();
        let key = |at: &usize| {
            let frame = cleaned[*at].0.get(depth)?;
            Some((frame.function.as_str(), frame.module.as_deref()))
        };
        for at in &inside {
            if let Some(key) = key(at) {
                *next.entry(key).or_default() += cleaned[*at].1;
            }
        }
        let first = next.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        let Some((name, value)) = first.filter(|(_, value)| **value >= total * most) else {
            return way;
        };
        if *value <= 0.0 {
            return way;
        }
        inside.retain(|at| key(at) == Some(*name));
        // The call site that most of it went through.
        let mut sites: BTreeMap<&Frame, f64> = BTreeMap::new();
        for at in &inside {
            *sites.entry(cleaned[*at].0[depth]).or_default() += cleaned[*at].1;
        }
        let site = sites.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        match site {
            Some((frame, _)) => way.push(frame.clone()),
            None => return way,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read() {
        let frame = Frame::parse("slow_read+0x26 [jifl_slow]").unwrap();
        assert_eq!((frame.function.as_str(), frame.offset), ("slow_read", 0x26));
        assert_eq!(frame.word(), "fn:slow_read@jifl_slow");
        assert_eq!(frame.site(), "slow_read+0x26 [jifl_slow]");
        assert_eq!(Frame::parse("f+0x10/0x40").unwrap().offset, 0x10);
        assert_eq!(frames("a+0x1;b.part.0+0x2").len(), 2);
    }

    #[test]
    fn a_stack_tells_what_is_waited_for() {
        let lock = frames(
            "schedule_preempt_disabled+0x11;__mutex_lock.constprop.0+0x39d;take+0x11 [m];\
             vfs_read+0xa5;do_syscall_64+0x5d",
        );
        assert_eq!(reason(&lock, false), Id::Locks);
        assert_eq!(lock[taker(&lock)].site(), "take+0x11 [m]");
        let sync = frames(
            "schedule+0x1;io_schedule+0x2;folio_wait_bit_common+0x3;\
            file_write_and_wait_range+0x7;ext4_sync_file+0x4;vfs_fsync_range+0x9",
        );
        assert_eq!(reason(&sync, false), Id::Sync);
        let disk =
            frames("io_schedule+0x2;folio_wait_bit_common+0x3;filemap_read+0x4;vfs_read+0x1");
        assert_eq!(reason(&disk, false), Id::Disk);
        assert_eq!(disk[taker(&disk)].function, "filemap_read");
        let idle = frames("worker_thread+0xaf;kthread+0xda;ret_from_fork+0x22");
        assert_eq!(reason(&idle, true), Id::Idle);
        let pipe = frames("pipe_read+0xaf;vfs_read+0xda");
        assert_eq!(reason(&pipe, false), Id::Idle);
        assert_eq!(reason(&pipe, true), Id::Network);
        let nap = frames("do_nanosleep+0x1;hrtimer_nanosleep+0x1");
        assert_eq!(reason(&nap, true), Id::Idle);
        let own = frames("usleep_range_state+0x60;slow+0x25 [m]");
        assert_eq!(reason(&own, false), Id::Delays);
    }

    #[test]
    fn a_tick_tells_what_it_interrupted() {
        let clock = "tick_sched_handle+0x22;hrtimer_interrupt+0xf4;sysvec_apic_timer_interrupt+0x6e;\
                     asm_sysvec_apic_timer_interrupt+0x16";
        let of = |rest: &str| {
            let (what, frames) = ticked(&frames(&format!("{clock}{rest}")));
            (what, frames.len())
        };
        assert_eq!(of(""), (Ticked::User, 0));
        assert_eq!(
            of(";walk+0x1 [m];vfs_read+0x2;entry_SYSCALL_64+0x1"),
            (Ticked::Task, 3)
        );
        assert_eq!(
            of(";x+0x1;run_timer_softirq+0x2;handle_softirqs+0x3;f+0x1"),
            (Ticked::Interrupt, 2)
        );
        assert_eq!(
            of(";pv_native_safe_halt+0x1;default_idle+0x2;do_idle+0x3"),
            (Ticked::Idle, 0)
        );
        assert_eq!(
            of(";clear_page+0x1;handle_mm_fault+0x1;asm_exc_page_fault+0x2"),
            (Ticked::Task, 3)
        );
    }

    #[test]
    fn the_hot_way_goes_down_while_one_call_has_most() {
        let stack = |text: &str, value| Stack {
            frames: frames(text),
            who: String::new(),
            value,
        };
        let stacks = [
            stack(
                "find+0x3 [m];walk+0x20 [m];vfs_read+0x9;do_syscall_64+0x5",
                0.7,
            ),
            stack(
                "find+0x8 [m];walk+0x20 [m];vfs_read+0x9;do_syscall_64+0x5",
                0.1,
            ),
            stack("other+0x8;vfs_read+0x5;do_syscall_64+0x5", 0.2),
        ];
        let way: Vec<String> = hot_way(&stacks, 0.5).iter().map(Frame::site).collect();
        assert_eq!(way, ["vfs_read+0x9", "walk+0x20 [m]", "find+0x3 [m]"]);
        assert_eq!(hot_way(&stacks, 0.9).len(), 1);
        assert!(hot_way(&[], 0.5).is_empty());
    }
}
