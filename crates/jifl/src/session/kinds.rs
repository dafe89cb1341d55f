// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of targets that are functions under names of their own: `sys32:read`, `softirq:NET_RX`.
//! The running kernel says which function a name means.

use crate::base::exit::Failure;
use crate::base::glob;
use crate::base::nearest::nearest;
use crate::kernel::functions::{self, Function, Functions};
use crate::kernel::softirqs::{self, Softirq};
use crate::kernel::syscalls32;

/// A kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A system call of 32-bit programs.
    Syscall32,
    /// A softirq.
    Softirq,
}

/// All kinds, as they are listed.
const KINDS: [Kind; 2] = [Kind::Syscall32, Kind::Softirq];

/// What a name of a kind means here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The name, without the kind.
    pub name: String,
    /// Its number, if users may write that instead.
    nr: Option<u32>,
    /// The function, or why there is none.
    pub function: Result<Function, &'static str>,
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
}

impl<F: Fn() -> Functions> Kernel for F {
    fn functions(&self) -> Functions {
        self()
    }

    fn softirqs(&self, functions: &Functions) -> Result<Vec<Softirq>, Failure> {
        softirqs::of_kernel(functions)
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
        }
    }

    fn what(self) -> &'static str {
        match self {
            Kind::Syscall32 => "system call of 32-bit programs",
            Kind::Softirq => "softirq",
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
                Ok(calls.into_iter().map(syscall32).collect())
            }
            Kind::Softirq => {
                let all = kernel.softirqs(functions)?;
                Ok(all.into_iter().map(softirq).collect())
            }
        }
    }

    /// Those of `all` that a pattern means, `word` in full; nothing behind the kind means all.
    ///
    /// # Errors
    /// None does, or the one that is named cannot be a target.
    pub fn select(self, word: &str, all: &[Named]) -> Result<Vec<Named>, Failure> {
        let pattern = match &word[self.prefix().len()..] {
            "" => "*",
            pattern => pattern,
        };
        let upper = pattern.to_uppercase();
        let pattern = match self {
            Kind::Softirq => upper.as_str(),
            Kind::Syscall32 => pattern,
        };
        let nr: Option<u32> = pattern.parse().ok();
        let means =
            |one: &&Named| glob::matches(pattern, &one.name) || nr.is_some() && one.nr == nr;
        let found: Vec<&Named> = all.iter().filter(means).collect();
        if found.is_empty() {
            return Err(Failure::usage(self.unknown(word, pattern, all)));
        }
        if let ([one], false) = (found.as_slice(), glob::is_pattern(pattern))
            && let Err(why) = &one.function
        {
            return Err(Failure::usage(format!("{word}: {why}")));
        }
        Ok(found
            .into_iter()
            .filter(|one| one.function.is_ok())
            .cloned()
            .collect())
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

fn syscall32(call: syscalls32::Call) -> Named {
    Named {
        name: call.name.to_owned(),
        nr: Some(call.nr),
        function: match call.is_shared {
            true => Err("64-bit programs call the same function"),
            false => Ok(call.function),
        },
    }
}

fn softirq(softirq: Softirq) -> Named {
    let none = "this kernel has no function for it now";
    Named {
        name: softirq.name,
        nr: None,
        function: softirq.function.ok_or(none),
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
                name: name.into(),
                function: functions.at(address).cloned(),
            };
            Ok([("NET_RX", 0x1010), ("IRQ_POLL", 0)].map(softirq).into())
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
                &["read __ia32_sys_read", "open __ia32_compat_sys_open"],
            ),
            ("sys32:*e?", &["open __ia32_compat_sys_open"]),
            ("softirq:net_rx", &["NET_RX vfs_read"]),
            ("softirq:*", &["NET_RX vfs_read"]),
        ] {
            assert_eq!(select(word).unwrap(), expected, "{word}");
        }
        assert_eq!(Kind::of("sys:read"), None);
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
            ("sys32:getpid", "64-bit programs call the same function"),
            (
                "softirq:net_tx",
                "no such softirq; the nearest are softirq:NET_RX",
            ),
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
