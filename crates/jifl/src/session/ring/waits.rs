// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls that wait at their end until records have been taken, so that no record is lost.

use clap::Args;
use jifl_sys::abi::{FLAG_WAIT, Records};
use serde::{Deserialize, Serialize};

use crate::base::duration;

/// Argument of all commands that record.
#[derive(Debug, Args)]
pub struct WaitArgs {
    /// Let records be lost rather than threads wait, at the ends of their calls, until some have been taken
    #[arg(long)]
    no_wait: bool,
}

impl WaitArgs {
    /// For [`jifl_sys::abi::Start::flags`].
    pub fn flag(&self) -> u32 {
        if self.no_wait { 0 } else { FLAG_WAIT }
    }
}

/// What waiting there was.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// How often a thread waited.
    pub waits: u64,
    /// All together, in nanoseconds.
    pub waited_ns: u64,
}

impl Waits {
    /// As the module last said.
    pub fn of(records: &Records) -> Waits {
        Waits {
            waits: records.waits,
            waited_ns: records.waited_ns,
        }
    }

    /// For people: what stands behind other figures. Nothing if there was none.
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
