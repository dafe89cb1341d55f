// SPDX-License-Identifier: MIT OR Apache-2.0
//! Softirqs and hard interrupts, in which calls are made.

use std::fmt;

use jifl_sys::abi::LEVELS;
use serde::{Deserialize, Serialize};

/// A context of a processor that interrupts threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Interrupt {
    /// What kind of context it is.
    pub context: Kind,
    /// The processor's number.
    pub cpu: u32,
}

/// What interrupts threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Softirqs, in ksoftirqd too.
    Softirq = 1,
    /// Hard interrupts.
    Irq = 2,
}

impl Interrupt {
    /// That of a level, an index into [`LEVELS`]; `None`: it is that of tasks.
    pub fn of(level: u32, cpu: usize) -> Option<Interrupt> {
        let context = match level {
            1 => Kind::Softirq,
            2 => Kind::Irq,
            _ => return None,
        };
        let cpu = cpu as u32;
        Some(Interrupt { context, cpu })
    }

    /// A number that no thread has: threads' end at 4,194,304 (`PID_MAX_LIMIT`).
    pub fn number(self) -> u32 {
        (self.context as u32) << 30 | self.cpu
    }
}

impl Kind {
    /// As `--context` has it.
    pub fn name(self) -> &'static str {
        LEVELS[self as usize]
    }
}

/// `softirq/1`: as threads of the kernel that a processor has for itself are called.
impl fmt::Display for Interrupt {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}/{}", self.context.name(), self.cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_above_tasks_has_a_name_and_a_number() {
        assert_eq!(Interrupt::of(0, 3), None);
        let shown = [1, 2].map(|level| Interrupt::of(level, 3).unwrap());
        assert_eq!(
            shown.map(|one| one.to_string()),
            ["softirq/3", "irq/3"].map(str::to_owned)
        );
        assert_eq!(shown.map(Interrupt::number), [0x4000_0003, 0x8000_0003_u32]);
    }
}
