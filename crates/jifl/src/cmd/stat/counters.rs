// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is counted beside times: tracepoints and variables of the kernel.

use jifl_sys::abi::{COUNTER_NAME_MAX, Counter};

use super::metric::{TRACEPOINT, VARIABLE};
use crate::base::exit::Failure;
use crate::kernel::symbols::Symbols;

/// Below are offsets of variables that each processor has; above, addresses.
const DATA: u64 = 1 << 63;

/// The counters of these names, as the module has them.
///
/// # Errors
/// There is no such variable, or the name is too long.
pub fn counters(names: &[String]) -> Result<Vec<(String, Counter)>, Failure> {
    let mut symbols = None;
    let counters = names.iter().map(|name| {
        let counter = match name.strip_prefix(VARIABLE) {
            Some(variable) => {
                let symbols = symbols.get_or_insert_with(Symbols::of_kernel);
                of_variable(name, variable, symbols)
            }
            None => of_tracepoint(name),
        };
        Ok((name.clone(), counter?))
    });
    counters.collect()
}

fn of_variable(name: &str, variable: &str, symbols: &Symbols) -> Result<Counter, Failure> {
    let all = symbols.variables(variable);
    let [address] = all[..] else {
        return Err(Failure::usage(format!(
            "{name}: the kernel has {} of that name",
            match all.len() {
                0 => "no variable".to_owned(),
                several => format!("{several} variables"),
            }
        )));
    };
    match address {
        0..DATA => Err(Failure::usage(format!(
            "{name}: each processor has its own, or addresses are hidden (kernel.kptr_restrict)"
        ))),
        address => Ok(Counter {
            tracepoint: [0; COUNTER_NAME_MAX],
            variable: address,
        }),
    }
}

/// Tracepoints have names of their own. The subsystem in front is for people.
fn of_tracepoint(name: &str) -> Result<Counter, Failure> {
    let own = name.strip_prefix(TRACEPOINT).unwrap_or(name);
    let own = own.rsplit(':').next().unwrap_or_default();
    if own.is_empty() || own.len() >= COUNTER_NAME_MAX {
        return Err(Failure::usage(format!(
            "{name}: give tracepoint:SUBSYSTEM:NAME, as in /sys/kernel/tracing/available_events"
        )));
    }
    let mut tracepoint = [0; COUNTER_NAME_MAX];
    tracepoint[..own.len()].copy_from_slice(own.as_bytes());
    Ok(Counter {
        tracepoint,
        variable: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracepoint_is_known_by_its_own_name() {
        let of = |name: &str| of_tracepoint(name).map(|one| one.tracepoint);
        let plain = of("tracepoint:sched_switch").unwrap();
        assert!(plain.starts_with(b"sched_switch\0"));
        assert_eq!(of("tracepoint:sched:sched_switch").unwrap(), plain);
        for wrong in ["tracepoint:", "tracepoint:sched:", &"x".repeat(64)] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_variable_is_known_by_its_address() {
        let symbols = Symbols::parse("ffffffff82000000 D jiffies_64\nffffffff82000008 D x\n");
        let known = of_variable("var:jiffies_64", "jiffies_64", &symbols).unwrap();
        assert_eq!(known.variable, 0xffff_ffff_8200_0000);
        assert!(of_variable("var:y", "y", &symbols).is_err());
        let refused = |list: &str| {
            let symbols = Symbols::parse(list);
            of_variable("var:x", "x", &symbols).unwrap_err().message
        };
        let two = refused("ffffffff82000000 d x\nffffffff82000008 b x\n");
        assert!(two.contains("2 variables of that name"), "{two}");
        let own = refused("0000000000010000 D x\n");
        assert!(own.contains("each processor has its own"), "{own}");
    }
}
