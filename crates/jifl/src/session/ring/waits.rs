// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls that wait at their end until records have been taken, so that no record is lost.

use clap::Args;
use jifl_sys::abi::{FLAG_WAIT, Records};
use serde::{Deserialize, Serialize};

use crate::base::duration;

/// An option of all commands that record.
#[derive(Debug, Args)]
pub struct WaitArgs {
    /// Never let threads wait at the ends of their calls until records have been taken; lose
    /// records instead
    #[arg(long)]
    no_wait: bool,
}

impl WaitArgs {
    /// For [`jifl_sys::abi::Start::flags`].
    pub fn flag(&self) -> u32 {
        if self.no_wait { 0 } else { FLAG_WAIT }
    }
}

/// Waits of threads.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// How often a thread waited.
    pub waits: u64,
    /// Their sum, in nanoseconds.
    pub waited_ns: u64,
}

impl Waits {
    /// Takes the module's last numbers.
    pub fn of(records: &Records) -> Waits {
        Waits {
            waits: records.waits,
            waited_ns: records.waited_ns,
        }
    }

    /// For people: an addition to other figures. Empty if no thread waited.
    pub fn text(&self) -> String {
        if self.waits == 0 {
            return String::new();
        }
        format!(
            "; threads waited {} times for records to be taken, {} in all",
            self.waits,
            duration::show(self.waited_ns)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_told_where_there_was_some() {
        assert_eq!(Waits::default().text(), "");
        let some = Waits {
            waits: 3,
            waited_ns: 12_000_000,
        };
        assert_eq!(
            some.text(),
            "; threads waited 3 times for records to be taken, 12 ms in all"
        );
    }
}
