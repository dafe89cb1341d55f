// SPDX-License-Identifier: MIT OR Apache-2.0
//! Softirqs: their names, from /proc/softirqs, and the functions that the running kernel calls for
//! them, from its table softirq_vec.

use std::fs;

use crate::base::exit::Failure;
use crate::kernel::functions::{Function, Functions};
use crate::kernel::memory::{Kcore, Memory};
use crate::kernel::symbols::Symbols;

/// The kernel's table: an address for each softirq, in the order of /proc/softirqs.
const VECTOR: &str = "softirq_vec";
const ENTRY: usize = 8;

/// A softirq.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Softirq {
    /// Its number.
    pub nr: u32,
    /// As in /proc/softirqs: NET_RX.
    pub name: String,
    /// What the kernel calls; `None`: nothing has it.
    pub function: Option<Function>,
}

/// Those of the running kernel.
///
/// # Errors
/// The kernel's memory cannot be read.
pub fn of_kernel(functions: &Functions) -> Result<Vec<Softirq>, Failure> {
    let cannot = |why: &str| Failure::cannot(format!("the functions of softirqs: {why}"));
    let list = fs::read_to_string("/proc/softirqs")
        .map_err(|error| cannot(&format!("/proc/softirqs: {error}")))?;
    let names = names(&list);
    let at = Symbols::of_kernel().variable_at(VECTOR);
    let at = at.ok_or_else(|| cannot("/proc/kallsyms does not show softirq_vec"))?;
    let bytes = Kcore::open()?.read(at, names.len() * ENTRY);
    let bytes = bytes.ok_or_else(|| cannot("/proc/kcore does not have softirq_vec"))?;
    Ok(with(names, &bytes, functions))
}

/// The first words of all lines but the heading.
fn names(list: &str) -> Vec<String> {
    let words = list.lines().skip(1);
    let names = words.filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()));
    names.collect()
}

fn with(names: Vec<String>, vector: &[u8], functions: &Functions) -> Vec<Softirq> {
    let entries = vector.chunks_exact(ENTRY);
    let entries = entries.map(|entry| u64::from_le_bytes(entry.try_into().expect("eight bytes")));
    let softirq = |(nr, (name, address))| Softirq {
        nr: nr as u32,
        name,
        function: functions.at(address).cloned(),
    };
    let all = names.into_iter().zip(entries).enumerate();
    all.map(softirq).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::functions::tests::sample;

    #[test]
    fn names_and_functions_stand_in_one_order() {
        let list = "                CPU0       CPU1\n          HI:   1   0\n      NET_RX:  3   4\n";
        let names = names(list);
        assert_eq!(names, ["HI", "NET_RX"]);
        let vector: Vec<u8> = [0u64, 0x1010]
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect();
        let all = with(names, &vector, &sample());
        assert_eq!(all[0].function, None);
        assert_eq!(all[1].function.as_ref().unwrap().name, "vfs_read");
    }
}
