// SPDX-License-Identifier: MIT OR Apache-2.0
//! Targets in the notation of users: `sys:openat`, `sys:*at`, `sys:257`.

use std::collections::BTreeSet;

use jifl_sys::abi::{NR_MAX, TargetSpec};

use crate::base::exit::Failure;
use crate::base::glob;
use crate::base::nearest::nearest;
use crate::kernel::syscalls::Table;

/// A place at which a thread can enter the code cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A system call, by its number.
    Syscall(u32),
}

impl Target {
    /// All system calls, whether the running kernel has them or not.
    pub fn all_syscalls() -> Vec<Target> {
        (0..NR_MAX as u32).map(Target::Syscall).collect()
    }

    /// Its number.
    pub fn nr(self) -> u32 {
        let Target::Syscall(nr) = self;
        nr
    }

    /// The target in the module's form.
    pub fn spec(self) -> TargetSpec {
        TargetSpec::syscall(self.nr())
    }

    /// The target in the notation of users.
    pub fn shown(self, table: &Table) -> String {
        format!("sys:{}", table.name(self.nr()))
    }
}

/// The targets that `targets` name, each once.
///
/// # Errors
/// One name matches no target.
pub fn select(targets: &[String], table: &Table) -> Result<Vec<Target>, Failure> {
    let mut found = BTreeSet::new();
    for target in targets {
        found.extend(select_one(target, table)?);
    }
    Ok(found.into_iter().collect())
}

fn select_one(target: &str, table: &Table) -> Result<Vec<Target>, Failure> {
    let Some(pattern) = target.strip_prefix("sys:") else {
        return Err(not_a_target(target, table));
    };
    if let Ok(nr) = pattern.parse::<u32>() {
        if (nr as usize) < NR_MAX {
            return Ok(vec![Target::Syscall(nr)]);
        }
        return Err(Failure::usage(format!(
            "{target}: system calls have numbers below {NR_MAX}"
        )));
    }
    let found: Vec<Target> = table
        .iter()
        .filter(|(_, name)| glob::matches(pattern, name))
        .map(|(nr, _)| Target::Syscall(nr))
        .collect();
    if found.is_empty() {
        let mut message = format!("{target}: no such system call");
        if glob::is_pattern(pattern) {
            message = format!("{target}: matches no system call");
        }
        return Err(Failure::usage(message + &did_you_mean(pattern, table)));
    }
    Ok(found)
}

fn not_a_target(target: &str, table: &Table) -> Failure {
    if table.iter().any(|(_, name)| glob::matches(target, name)) {
        return Failure::usage(format!(
            "{target}: a target says of what kind it is: sys:{target}"
        ));
    }
    Failure::usage(format!(
        "{target}: targets are system calls, sys:NAME or sys:GLOB{}",
        did_you_mean(target, table)
    ))
}

fn did_you_mean(name: &str, table: &Table) -> String {
    let near = nearest(name, table.iter().map(|(_, known)| known));
    if near.is_empty() {
        return "; `jifl list` shows all".into();
    }
    let near: Vec<String> = near.iter().map(|name| format!("sys:{name}")).collect();
    format!("; the nearest are {}", near.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(targets: &[&str]) -> Result<Vec<u32>, Failure> {
        let targets: Vec<String> = targets.iter().map(|t| t.to_string()).collect();
        select(&targets, &Table::all()).map(|found| found.into_iter().map(Target::nr).collect())
    }

    #[test]
    fn names_globs_and_numbers() {
        assert_eq!(pick(&["sys:read"]).unwrap(), [0]);
        assert_eq!(pick(&["sys:write", "sys:read", "sys:1"]).unwrap(), [0, 1]);
        assert_eq!(pick(&["sys:openat*"]).unwrap(), [257, 437]);
        assert!(pick(&["sys:*"]).unwrap().len() > 330);
    }

    #[test]
    fn what_is_unknown_gets_the_nearest_names() {
        let error = pick(&["sys:opnat"]).unwrap_err();
        assert_eq!(error.status, crate::base::exit::USAGE);
        assert!(error.message.contains("sys:openat"), "{}", error.message);
        for (target, hint) in [
            ("openat", "sys:openat"),
            ("sys:zzzzzz", "jifl list"),
            ("sys:zz*", "matches no"),
            ("sys:512", "below 512"),
            ("fn:vfs_read", "sys:NAME"),
        ] {
            let message = pick(&[target]).unwrap_err().message;
            assert!(message.contains(hint), "{target}: {message}");
            assert!(!message.contains('\n'));
        }
    }
}
