// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is counted beside times: tracepoints and variables of the kernel, what perf, /proc/vmstat
//! and /proc/net/snmp count.

mod perf;
mod proc;

use jifl_sys::abi::{
    COUNTER_DISTRIBUTION, COUNTER_INTERRUPTS, COUNTER_NAME_MAX, COUNTER_PROCESSOR,
    COUNTER_TRACEPOINT, COUNTER_VALUE, COUNTER_VARIABLE, Counter, DISTRIBUTION_BLOCKED,
    DISTRIBUTION_CPU, DISTRIBUTION_RUNNABLE, DISTRIBUTION_VALUE, DISTRIBUTION_WALL,
};

pub use self::perf::PERF;
use self::proc::{SNMP, VMSTAT};
use crate::base::exit::Failure;
use crate::expr::part;
use crate::kernel::btf::All;
use crate::kernel::memory::Memory;
use crate::kernel::symbols::Symbols;

/// How counters of tracepoints begin.
pub const TRACEPOINT: &str = "tracepoint:";
/// How counters of variables begin.
pub const VARIABLE: &str = "var:";
/// How sums of values that calls have begin.
pub const SUM: &str = "sum:";
/// How distributions of such values, and of times of calls, begin.
pub const HIST: &str = "hist:";

/// The time of interrupts.
pub const INTERRUPTS: &str = "interrupts";

/// What distributions are of that is no expression.
const TOOK: [(&str, u32); 4] = [
    ("wall", DISTRIBUTION_WALL),
    ("cpu", DISTRIBUTION_CPU),
    ("blocked", DISTRIBUTION_BLOCKED),
    ("runnable", DISTRIBUTION_RUNNABLE),
];

/// Below are offsets of variables that each processor has; above, addresses.
const DATA: u64 = 1 << 63;

/// Does each processor have its own? Since 6.15 these have addresses, too.
fn is_of_processors(address: u64, symbols: &Symbols) -> bool {
    let bound = |name| symbols.variable_at(name).unwrap_or(0);
    address < DATA || (bound("__per_cpu_start")..bound("__per_cpu_end")).contains(&address)
}

/// Is this the name of a counter, by its beginning?
pub fn is_counter(name: &str) -> bool {
    let all = [TRACEPOINT, VARIABLE, SUM, HIST, PERF, VMSTAT, SNMP];
    all.iter().any(|one| name.starts_with(one)) || name == INTERRUPTS
}

/// Is what it counts nanoseconds?
pub fn is_time(name: &str) -> bool {
    perf::is_time(name) || name == INTERRUPTS
}

/// The time of calls whose distribution a name means.
pub fn took(name: &str) -> Option<u32> {
    let own = name.strip_prefix(HIST)?;
    let known = TOOK.iter().find(|(time, _)| *time == own);
    known.map(|(_, number)| *number)
}

/// The expression in the name of a counter, if it is one of values of calls.
pub fn expression(name: &str) -> Option<&str> {
    let of_values = name.strip_prefix(SUM).or_else(|| name.strip_prefix(HIST))?;
    took(name).is_none().then_some(of_values)
}

/// Those among the counters that are of values: the expressions, and their numbers.
pub fn values(counters: &[(String, Counter)]) -> Vec<(String, u32)> {
    let value =
        |(at, (name, _)): (u32, &(String, Counter))| Some((expression(name)?.to_owned(), at));
    (0..).zip(counters).filter_map(value).collect()
}

/// What is asked to find counters, once it is needed.
struct Kernel<'a> {
    symbols: Option<Symbols>,
    types: Option<Result<All, String>>,
    memory: &'a mut dyn Memory,
}

impl Kernel<'_> {
    fn symbols(&mut self) -> &Symbols {
        self.symbols.get_or_insert_with(Symbols::of_kernel)
    }

    /// For the counter of this name.
    fn types(&mut self, name: &str) -> Result<&All, Failure> {
        let types = self.types.get_or_insert_with(All::of_kernel).as_ref();
        types.map_err(|why| {
            Failure::cannot(format!(
                "{name}: it is found by the kernel's types (BTF): {why}"
            ))
        })
    }
}

/// The counters of these names, as the module has them. memory: the kernel's.
///
/// # Errors
/// There is none of one of these names.
pub fn counters(
    names: &[String],
    memory: &mut dyn Memory,
) -> Result<Vec<(String, Counter)>, Failure> {
    let mut kernel = Kernel {
        symbols: None,
        types: None,
        memory,
    };
    let each = names.iter();
    each.map(|name| Ok((name.clone(), counter(name, &mut kernel)?)))
        .collect()
}

fn counter(name: &str, kernel: &mut Kernel<'_>) -> Result<Counter, Failure> {
    if let Some(variable) = name.strip_prefix(VARIABLE) {
        return of_variable(name, variable, kernel);
    }
    if name == INTERRUPTS {
        return Ok(Counter::new(COUNTER_INTERRUPTS, 0, 0));
    }
    // What it means is known where its function is.
    if name.starts_with(SUM) {
        return Ok(Counter::new(COUNTER_VALUE, 0, 0));
    }
    if name.starts_with(HIST) {
        let of = took(name).unwrap_or(DISTRIBUTION_VALUE);
        return Ok(Counter::new(COUNTER_DISTRIBUTION, of, 0));
    }
    if name.starts_with(PERF) {
        return perf::counter(name);
    }
    if let Some(own) = name.strip_prefix(VMSTAT) {
        return proc::vmstat(name, own, kernel);
    }
    match name.strip_prefix(SNMP) {
        Some(own) => proc::snmp(name, own, kernel),
        None => of_tracepoint(name),
    }
}

fn of_variable(name: &str, variable: &str, kernel: &mut Kernel<'_>) -> Result<Counter, Failure> {
    let (variable, path) = part::split(variable);
    let all = kernel.symbols().variables(variable);
    // Symbols with hidden addresses are left out.
    if all.is_empty() && kernel.symbols().is_empty() {
        return Err(Failure::cannot(format!(
            "{name}: addresses are hidden: set kernel.kptr_restrict=1, and be root"
        )));
    }
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
        _ if is_of_processors(address, kernel.symbols()) => {
            let btf = kernel.types(name)?.kernel();
            let part = part::part(btf, variable, path);
            let part = part.map_err(|why| Failure::usage(format!("{name}: {why}")))?;
            let at = address + part.offset;
            Ok(Counter::new(COUNTER_PROCESSOR, part.size as u32, at))
        }
        _ if !path.is_empty() => Err(Failure::usage(format!(
            "{name}: the kernel describes only variables that each processor has; of others give \
             the name alone: they are 8 bytes"
        ))),
        address => Ok(Counter::new(COUNTER_VARIABLE, 0, address)),
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
    let mut counter = Counter::new(COUNTER_TRACEPOINT, 0, 0);
    counter.tracepoint[..own.len()].copy_from_slice(own.as_bytes());
    Ok(counter)
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
    fn times_of_calls_are_no_expressions() {
        assert_eq!(expression("sum:wall"), Some("wall"));
        assert_eq!(expression("hist:(wall)"), Some("(wall)"));
        assert_eq!(expression("hist:$ret"), Some("$ret"));
        assert_eq!(expression("hist:wall"), None);
        assert_eq!(expression("var:wall"), None);
        assert_eq!(took("hist:blocked"), Some(DISTRIBUTION_BLOCKED));
        assert_eq!(took("sum:blocked"), None);
    }

    #[test]
    fn a_variable_is_known_by_its_address() {
        let of = |list: &str, variable: &str| {
            let mut kernel = Kernel {
                symbols: Some(Symbols::parse(list)),
                types: Some(Err("none".into())),
                memory: &mut (0, Vec::new()),
            };
            of_variable("var:x", variable, &mut kernel)
        };
        let known = of(
            "ffffffff82000000 D jiffies_64\nffffffff82000008 D x\n",
            "jiffies_64",
        );
        let known = known.unwrap();
        assert_eq!(
            (known.kind, known.value),
            (COUNTER_VARIABLE, 0xffff_ffff_8200_0000)
        );
        let refused = |list: &str, variable: &str| of(list, variable).unwrap_err().message;
        let none = refused("ffffffff81000000 T f\nffffffff82000008 D x\n", "y");
        assert!(none.contains("no variable of that name"), "{none}");
        let two = refused("ffffffff82000000 d x\nffffffff82000008 b x\n", "x");
        assert!(two.contains("2 variables of that name"), "{two}");
        let part = refused("ffffffff82000000 d x\n", "x.y");
        assert!(part.contains("the name alone"), "{part}");
        let own = refused("0000000000010000 D x\n", "x");
        assert!(own.contains("types (BTF): none"), "{own}");
        let hidden = refused("0000000000000000 D x\n", "x");
        assert!(hidden.contains("kptr_restrict"), "{hidden}");
    }
}
