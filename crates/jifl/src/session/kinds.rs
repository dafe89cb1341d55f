// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of targets that are functions under names of their own: `sys32:read`, `softirq:NET_RX`,
//! `irq:24`, `kthread:kswapd0`; or that are some calls of a function: `work:NAME`, `timer:NAME`.
//! The running kernel says which function a name means. Where the function is called by others,
//! too, a condition says which of its calls are meant.

use std::collections::BTreeMap;

use jifl_sys::abi::{COMM_MAX, Caller, Condition, VALUES_MAX, to_name};

use crate::base::exit::Failure;
use crate::base::glob;
use crate::base::nearest::nearest;
use crate::kernel::functions::{self, Function, Functions};
use crate::kernel::pattern::Pattern;
use crate::kernel::softirqs::{self, Softirq};
use crate::kernel::syscalls32;
use crate::kernel::threads::{self, Thread};
use crate::session::files::{self, Files};
use crate::session::interrupts::{self, Interrupt};

/// A kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A system call of 32-bit programs.
    Syscall32,
    /// A softirq.
    Softirq,
    /// An interrupt of a device.
    Irq,
    /// A thread of the kernel.
    Kthread,
}

/// All kinds, as they are listed.
const KINDS: [Kind; 4] = [Kind::Syscall32, Kind::Softirq, Kind::Irq, Kind::Kthread];

/// Words for calls of a function that come from certain functions: what they begin with, and these
/// functions, as kernels have or had them.
const CALLED_BY: [(&str, &[&str]); 2] = [
    ("work:", &["process_one_work"]),
    (
        "timer:",
        &["call_timer_fn", "__run_hrtimer", "__hrtimer_run_queues"],
    ),
];

/// What runs as the handler of an interrupt that is handled by a thread alone.
const THREAD_ALONE: &str = "irq_default_primary_handler";

/// A pattern of functions for a word as `work:NAME`, and those that call them.
pub fn called_by(word: &str) -> Option<(Pattern, &'static [&'static str])> {
    let mut all = CALLED_BY.iter();
    all.find_map(|(prefix, callers)| Some((Pattern::behind(prefix, word)?, *callers)))
}

/// The calls that come from these functions. `None`: the kernel has none of them.
pub fn from(callers: &[&str], functions: &Functions) -> Option<Condition> {
    let ranges = callers.iter().flat_map(|name| functions.ranges(name));
    let callers: Vec<Caller> = ranges.map(|(begin, end)| Caller { begin, end }).collect();
    Condition::new(&callers, &[])
}

/// What a name of a kind means here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The name, without the kind.
    pub name: String,
    /// Its number, if users may write that instead.
    pub nr: Option<u32>,
    /// The function, or why there is none.
    pub function: Result<Function, String>,
    /// Which of its calls are meant; `None`: all.
    pub condition: Option<Condition>,
}

/// What is asked of the running kernel. A function that reads functions does in tests.
pub trait Kernel {
    /// Its functions.
    fn functions(&self) -> Functions;
    /// Its softirqs.
    ///
    /// # Errors
    /// They cannot be read.
    fn softirqs(&self, functions: &Functions) -> Result<Vec<Softirq>, Failure>;
    /// Its interrupts.
    ///
    /// # Errors
    /// They cannot be asked for.
    fn interrupts(&self) -> Result<Vec<Interrupt>, Failure>;
    /// Its threads.
    fn threads(&self) -> Vec<Thread>;
    /// The functions that have code of source files. There is one at least.
    ///
    /// # Errors
    /// There is none, or it is not known here.
    fn of_files(&self, files: &Files, functions: &Functions) -> Result<Vec<Function>, Failure>;
}

impl<F: Fn() -> Functions> Kernel for F {
    fn functions(&self) -> Functions {
        self()
    }

    fn softirqs(&self, functions: &Functions) -> Result<Vec<Softirq>, Failure> {
        softirqs::of_kernel(functions)
    }

    fn interrupts(&self) -> Result<Vec<Interrupt>, Failure> {
        interrupts::of_kernel()
    }

    fn threads(&self) -> Vec<Thread> {
        threads::of_kernel()
    }

    fn of_files(&self, files: &Files, functions: &Functions) -> Result<Vec<Function>, Failure> {
        files::functions(files, functions)
    }
}

impl Kind {
    /// The kind of a word, and what stands behind it.
    pub fn of(word: &str) -> Option<(Kind, &str)> {
        let strip = |kind: Kind| Some((kind, word.strip_prefix(kind.prefix())?));
        KINDS.into_iter().find_map(strip)
    }

    /// What a word of it begins with.
    pub fn prefix(self) -> &'static str {
        match self {
            Kind::Syscall32 => "sys32:",
            Kind::Softirq => "softirq:",
            Kind::Irq => "irq:",
            Kind::Kthread => "kthread:",
        }
    }

    fn what(self) -> &'static str {
        match self {
            Kind::Syscall32 => "system call of 32-bit programs",
            Kind::Softirq => "softirq",
            Kind::Irq => "interrupt of a device",
            Kind::Kthread => "thread of the kernel",
        }
    }

    /// All that the kernel has, in the kernel's order.
    ///
    /// # Errors
    /// The kernel does not let it be read, or has nothing of the kind.
    pub fn all(self, functions: &Functions, kernel: &impl Kernel) -> Result<Vec<Named>, Failure> {
        match self {
            Kind::Syscall32 => {
                let calls = syscalls32::of(functions);
                if calls.is_empty() {
                    return Err(Failure::cannot(
                        "sys32: this kernel runs no 32-bit programs (CONFIG_IA32_EMULATION)",
                    ));
                }
                let shared = from(&syscalls32::CALLERS, functions);
                Ok(calls
                    .into_iter()
                    .map(|call| syscall32(call, shared))
                    .collect())
            }
            Kind::Softirq => {
                let all = kernel.softirqs(functions)?;
                Ok(all.into_iter().map(softirq).collect())
            }
            Kind::Irq => {
                let all = kernel.interrupts()?;
                Ok(all
                    .into_iter()
                    .map(|one| interrupt(one, functions))
                    .collect())
            }
            Kind::Kthread => {
                let all = kernel.threads();
                Ok(all.into_iter().map(|one| thread(one, functions)).collect())
            }
        }
    }

    /// Those of `all` that a pattern means, `word` in full; nothing behind the kind means all.
    ///
    /// # Errors
    /// None does.
    pub fn matching<'a>(self, word: &str, all: &'a [Named]) -> Result<Vec<&'a Named>, Failure> {
        let pattern = self.pattern(word);
        let nr: Option<u32> = pattern.parse().ok();
        let means =
            |one: &&Named| glob::matches(&pattern, &one.name) || nr.is_some() && one.nr == nr;
        let found: Vec<&Named> = all.iter().filter(means).collect();
        match found.is_empty() {
            true => Err(Failure::usage(self.unknown(word, &pattern, all))),
            false => Ok(found),
        }
    }

    /// The targets that a word means, each of another function.
    ///
    /// # Errors
    /// None does, or the one that is named cannot be a target.
    pub fn select(self, word: &str, all: &[Named]) -> Result<Vec<Named>, Failure> {
        let found = self.matching(word, all)?;
        if let [
            Named {
                function: Err(why), ..
            },
        ] = found.as_slice()
            && !glob::is_pattern(&self.pattern(word))
        {
            return Err(Failure::usage(format!("{word}: {why}")));
        }
        let found = found.into_iter().filter(|one| one.function.is_ok());
        let found: Vec<Named> = found.cloned().collect();
        if found.is_empty() {
            return Err(Failure::usage(format!(
                "{word}: none of these has a function that can be a target"
            )));
        }
        match self {
            Kind::Irq => self.by_function(word, found, all),
            Kind::Kthread => Ok(self.once_each(word, found)),
            _ => Ok(found),
        }
    }

    /// Each function that these threads run. It is called by the name of the thread if only one
    /// runs it, else by the pattern.
    fn once_each(self, word: &str, found: Vec<Named>) -> Vec<Named> {
        let mut all: BTreeMap<Function, Named> = BTreeMap::new();
        for one in found {
            let Ok(function) = one.function.clone() else {
                continue;
            };
            all.entry(function)
                .and_modify(|known| known.name = self.pattern(word))
                .or_insert(one);
        }
        all.into_values().collect()
    }

    /// What the names of the threads are like that a word means: the module's filter by names.
    /// `None`: the word is of another kind.
    ///
    /// # Errors
    /// It is too long for the name of a thread.
    pub fn name_filter(self, word: &str) -> Result<Option<[u8; COMM_MAX]>, Failure> {
        if self != Kind::Kthread {
            return Ok(None);
        }
        let name = to_name(self.pattern(word).as_bytes());
        let name = name.ok_or_else(|| {
            Failure::usage(format!(
                "{word}: names of threads, and their patterns, have at most 15 bytes"
            ))
        })?;
        Ok(Some(name))
    }

    /// Interrupts that one function handles are one target. Its name has all their numbers. If they
    /// are all that the function handles, all its calls are meant.
    fn by_function(
        self,
        word: &str,
        found: Vec<Named>,
        all: &[Named],
    ) -> Result<Vec<Named>, Failure> {
        let by_number = self.pattern(word).parse::<u32>().is_ok();
        let mut handlers: BTreeMap<Function, Vec<Named>> = BTreeMap::new();
        for one in found {
            if let Ok(function) = &one.function {
                handlers.entry(function.clone()).or_default().push(one);
            }
        }
        let together = |(function, several): (Function, Vec<Named>)| {
            let numbers = numbers(&several);
            let handled = all
                .iter()
                .filter(|one| one.function.as_ref() == Ok(&function));
            let is_all = handled.count() == several.len();
            let condition = Condition::new(&[], &numbers);
            if condition.is_none() && !is_all {
                return Err(Failure::usage(format!(
                    "{word}: {} handles {} of these interrupts and others, and one target has at \
                     most {VALUES_MAX}: give a narrower pattern",
                    function.name,
                    numbers.len()
                )));
            }
            let name = match several.as_slice() {
                [one] if !by_number => one.name.clone(),
                _ => shown(&numbers),
            };
            Ok(Named {
                name,
                nr: None,
                function: Ok(function),
                condition,
            })
        };
        handlers.into_iter().map(together).collect()
    }

    /// What a word says of names, as these are written.
    fn pattern(self, word: &str) -> String {
        match (self, &word[self.prefix().len()..]) {
            (_, "") => "*".into(),
            (Kind::Softirq, pattern) => pattern.to_uppercase(),
            (_, pattern) => pattern.into(),
        }
    }

    fn unknown(self, word: &str, pattern: &str, all: &[Named]) -> String {
        let prefix = self.prefix();
        let near = nearest(pattern, all.iter().map(|one| one.name.as_str()));
        let near = near.iter().map(|near| format!("{prefix}{near}"));
        let hint = functions::list(near, &format!("`jifl list {prefix}` shows all"));
        match glob::is_pattern(pattern) {
            true => format!("{word}: matches no {}{hint}", self.what()),
            false => format!("{word}: no such {}{hint}", self.what()),
        }
    }
}

fn syscall32(call: syscalls32::Call, shared: Option<Condition>) -> Named {
    let none = "64-bit programs call the same function, and from where is not known here";
    Named {
        name: call.name.to_owned(),
        nr: Some(call.nr),
        function: match call.is_shared && shared.is_none() {
            true => Err(none.into()),
            false => Ok(call.function),
        },
        condition: shared.filter(|_| call.is_shared),
    }
}

fn softirq(softirq: Softirq) -> Named {
    let none = || "this kernel has no function for it now".to_owned();
    Named {
        name: softirq.name,
        nr: Some(softirq.nr),
        function: softirq.function.ok_or_else(none),
        condition: None,
    }
}

/// Its function is called for other interrupts, too. The number is the first argument.
fn interrupt(one: Interrupt, functions: &Functions) -> Named {
    let mut function = functions.at(one.handler);
    if function.is_some_and(|function| function.name == THREAD_ALONE) {
        function = functions.at(one.thread);
    }
    let none = || "/proc/kallsyms does not show the function that handles it".to_owned();
    Named {
        name: one.name,
        nr: Some(one.nr),
        function: function.cloned().ok_or_else(none),
        condition: Condition::new(&[], &[one.nr.into()]),
    }
}

/// Several threads may run one function. A session tells them apart by their names.
fn thread(one: Thread, functions: &Functions) -> Named {
    let function = match &one.function {
        None => Err("it runs all the time, so its stack cannot be read: try again".to_owned()),
        Some((name, module)) => {
            let named = functions.named(name, module.as_deref());
            named.ok_or_else(|| format!("several functions are called {name}"))
        }
    };
    Named {
        name: one.name,
        nr: None,
        function: function.cloned(),
        condition: None,
    }
}

/// The numbers of interrupts, in their order, each once.
fn numbers(interrupts: &[Named]) -> Vec<u64> {
    let numbers = interrupts.iter().filter_map(|one| one.nr);
    let mut numbers: Vec<u64> = numbers.map(u64::from).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// `24,25,30`, and of more than a target's condition can have the first and the last: `24..87`.
fn shown(numbers: &[u64]) -> String {
    match numbers {
        [first, .., last] if numbers.len() > VALUES_MAX => format!("{first}..{last}"),
        _ => numbers
            .iter()
            .map(u64::to_string)
            .collect::<Vec<_>>()
            .join(","),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::kernel::functions::tests::with_calls;

    /// A made-up kernel with two softirqs and some system calls of 32-bit programs.
    pub struct Sample;

    impl Kernel for Sample {
        fn functions(&self) -> Functions {
            with_calls()
        }

        fn softirqs(&self, functions: &Functions) -> Result<Vec<Softirq>, Failure> {
            let softirq = |(name, address): (&str, u64)| Softirq {
                nr: 3,
                name: name.into(),
                function: functions.at(address).cloned(),
            };
            Ok([("NET_RX", 0x1010), ("IRQ_POLL", 0)].map(softirq).into())
        }

        fn interrupts(&self) -> Result<Vec<Interrupt>, Failure> {
            let interrupt = |(nr, name, handler): (u32, &str, u64)| Interrupt {
                nr,
                name: name.into(),
                handler,
                thread: 0,
            };
            let all = [
                (4, "ttyS0", 0x1010),
                (24, "virtio0-in", 0x3000),
                (25, "virtio0-out", 0x3000),
            ];
            Ok(all.map(interrupt).into())
        }

        fn threads(&self) -> Vec<Thread> {
            let thread = |(tid, name, function, module): (u32, &str, &str, Option<&str>)| Thread {
                tid,
                name: name.into(),
                function: Some((function.into(), module.map(str::to_owned))),
            };
            let all = [
                (40, "kswapd0", "vfs_read", None),
                (41, "nfsd/0", "read_page", Some("nfs")),
                (42, "nfsd/1", "read_page", Some("nfs")),
                (43, "unclear", "twice", None),
            ];
            all.map(thread).into()
        }

        /// Of a file its functions, of line 1 the first.
        fn of_files(&self, files: &Files, functions: &Functions) -> Result<Vec<Function>, Failure> {
            let all = [0x1010, 0x1080, 0x3000].map(|at| functions.at(at).cloned());
            let all = all.into_iter().flatten();
            match files {
                Files::All { .. } => Ok(all.collect()),
                Files::Line { line, .. } => Ok(all.take(*line as usize).collect()),
            }
        }
    }

    fn select(word: &str) -> Result<Vec<String>, String> {
        let (kind, _) = Kind::of(word).unwrap();
        let all = kind.all(&Sample.functions(), &Sample).unwrap();
        let found = kind.select(word, &all).map_err(|failure| failure.message)?;
        let shown = |one: Named| format!("{} {}", one.name, one.function.unwrap().name);
        Ok(found.into_iter().map(shown).collect())
    }

    #[test]
    fn names_numbers_and_globs() {
        for (word, expected) in [
            ("sys32:read", &["read __ia32_sys_read"][..]),
            ("sys32:3", &["read __ia32_sys_read"]),
            (
                "sys32:",
                &[
                    "read __ia32_sys_read",
                    "open __ia32_compat_sys_open",
                    "getpid __ia32_sys_getpid",
                ],
            ),
            ("sys32:*e?", &["open __ia32_compat_sys_open"]),
            ("softirq:net_rx", &["NET_RX vfs_read"]),
            ("softirq:*", &["NET_RX vfs_read"]),
            ("irq:4", &["4 vfs_read"]),
            ("irq:ttyS0", &["ttyS0 vfs_read"]),
            ("irq:virtio0-out", &["virtio0-out read_page"]),
            ("irq:virtio*", &["24,25 read_page"]),
            ("kthread:kswapd0", &["kswapd0 vfs_read"]),
            ("kthread:nfsd/*", &["nfsd/* read_page"]),
            ("kthread:*0", &["kswapd0 vfs_read", "nfsd/0 read_page"]),
        ] {
            assert_eq!(select(word).unwrap(), expected, "{word}");
        }
        assert_eq!(Kind::of("sys:read"), None);
    }

    #[test]
    fn conditions_tell_calls_apart() {
        let functions = Sample.functions();
        let all = Kind::Syscall32.all(&functions, &Sample).unwrap();
        let caller = Caller {
            begin: 0x1180,
            end: 0x11a0,
        };
        let of = |name| all.iter().find(|one| one.name == name).unwrap().condition;
        assert_eq!(of("getpid"), Condition::new(&[caller], &[]));
        assert_eq!(of("read"), None);
        let all = Kind::Irq.all(&functions, &Sample).unwrap();
        let found = Kind::Irq.select("irq:virtio*", &all).unwrap();
        assert_eq!(found[0].condition, Condition::new(&[], &[24, 25]));
        // More than a condition can have: all of a function, or too many.
        let function = functions.at(0x3000).cloned();
        let of = |nr: u32| Named {
            name: format!("queue{nr}"),
            nr: Some(nr),
            function: function.clone().ok_or_else(String::new),
            condition: None,
        };
        let all: Vec<Named> = (30..40).map(of).collect();
        let found = Kind::Irq.select("irq:", &all).unwrap();
        assert_eq!(
            (found[0].name.as_str(), found[0].condition),
            ("30..39", None)
        );
        let some: Vec<Named> = all.iter().cloned().chain([of(50)]).collect();
        let failure = Kind::Irq.select("irq:queue3*", &some).unwrap_err();
        assert!(
            failure
                .message
                .contains("10 of these interrupts and others"),
            "{failure:?}"
        );
        let (pattern, callers) = called_by("work:vfs_*").unwrap();
        assert_eq!(
            (pattern.name(), callers),
            ("vfs_*", &["process_one_work"][..])
        );
        assert_eq!(from(callers, &functions), None);
        assert_eq!(called_by("fn:vfs_read"), None);
    }

    #[test]
    fn callers_are_those_that_plugins_have() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = std::fs::read_to_string(root.join("host/kernel/plugin/kinds.c")).unwrap();
        for (word, callers) in CALLED_BY {
            let list = format!("{}_callers[] = {{", word.trim_end_matches(':'));
            let (_, list) = text.split_once(&list).unwrap();
            let (list, _) = list.split_once('}').unwrap();
            let theirs: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
            assert_eq!(theirs, callers, "{word}");
        }
    }

    #[test]
    fn what_is_no_target_is_said_in_one_line() {
        for (word, hint) in [
            (
                "sys32:raed",
                "no such system call of 32-bit programs; the nearest are sys32:read",
            ),
            (
                "sys32:zz*",
                "matches no system call of 32-bit programs; `jifl list sys32:`",
            ),
            (
                "softirq:net_tx",
                "no such softirq; the nearest are softirq:NET_RX",
            ),
            (
                "irq:ttyS1",
                "no such interrupt of a device; the nearest are irq:ttyS0",
            ),
            (
                "kthread:kswapd",
                "no such thread of the kernel; the nearest are kthread:kswapd0",
            ),
            ("kthread:unclear", "several functions are called twice"),
            ("softirq:irq_poll", "this kernel has no function for it now"),
        ] {
            let message = select(word).unwrap_err();
            assert!(
                message.starts_with(word) && message.contains(hint),
                "{message}"
            );
        }
        let none = Kind::Syscall32
            .all(&Functions::default(), &Sample)
            .unwrap_err();
        assert!(none.message.contains("CONFIG_IA32_EMULATION"));
    }
}
