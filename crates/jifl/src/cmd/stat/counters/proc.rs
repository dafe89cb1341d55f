// SPDX-License-Identifier: MIT OR Apache-2.0
//! What /proc/vmstat, /proc/net/snmp and /proc/net/netstat count, by the names in these files.

use jifl_sys::abi::{
    COUNTER_IP, COUNTER_SNMP, COUNTER_TCP, COUNTER_TCP_EXT, COUNTER_UDP, COUNTER_UDP_LITE,
    COUNTER_VMSTAT, Counter,
};

use super::Kernel;
use crate::base::exit::Failure;
use crate::base::nearest::nearest;
use crate::kernel::btf::{All, enumerators};
use crate::kernel::memory::Memory;

/// How counters of /proc/vmstat begin.
pub const VMSTAT: &str = "vmstat:";
/// How counters of /proc/net/snmp and netstat begin.
pub const SNMP: &str = "snmp:";

const FILE: &str = "/proc/vmstat";

/// The event of the virtual memory that the file shows under this name.
///
/// # Errors
/// It shows none, or a level that also falls.
pub fn vmstat(name: &str, own: &str, kernel: &mut Kernel<'_>) -> Result<Counter, Failure> {
    let text = std::fs::read_to_string(FILE);
    let text = text.map_err(|error| Failure::cannot(format!("{name}: {FILE}: {error}")))?;
    let events = events(kernel.types(name)?);
    let events = events.filter(|events| !events.is_empty());
    let events = events.ok_or_else(|| {
        Failure::cannot(format!(
            "{name}: the kernel's types (BTF) have no such events"
        ))
    })?;
    let event = event(&text, &events, own);
    let event = event.map_err(|why| Failure::usage(format!("{name}: {why}")))?;
    Ok(Counter::new(COUNTER_VMSTAT, 0, event))
}

/// The events, by their numbers.
fn events(types: &All) -> Option<Vec<(i64, String)>> {
    let btf = types.kernel();
    let mut ids = btf.resolve_ids_by_name("vm_event_item").ok()?.into_iter();
    ids.find_map(|id| enumerators(&btf, &btf.resolve_type_by_id(id).ok()?))
}

/// The number of an event. In the file events come last, in the order of their numbers; behind
/// them is what is always 0.
fn event(text: &str, events: &[(i64, String)], wanted: &str) -> Result<u64, String> {
    let names = text.lines().filter_map(|line| line.split(' ').next());
    let names: Vec<&str> = names.filter(|name| *name != "nr_unstable").collect();
    let number = |name: &str| events.iter().find(|(_, own)| own == name).map(|one| one.0);
    let end = number("NR_VM_EVENT_ITEMS").and_then(|n| usize::try_from(n).ok());
    let first = end.and_then(|end| names.len().checked_sub(end));
    let is_so = |first: usize| {
        let known = ["PGPGIN", "PGFAULT", "PGMAJFAULT"];
        known.iter().all(|known| {
            let at = number(known).and_then(|at| names.get(first + usize::try_from(at).ok()?));
            at.is_some_and(|at| at.to_uppercase() == **known)
        })
    };
    let first = first
        .filter(|first| is_so(*first))
        .ok_or("this kernel lists its events in another way")?;
    let Some(at) = names.iter().position(|name| *name == wanted) else {
        return Err(match &nearest(wanted, names.iter().copied())[..] {
            [] => format!("{FILE} has no such name"),
            near => format!(
                "{FILE} has no such name: the nearest are {}",
                near.join(", ")
            ),
        });
    };
    match at.checked_sub(first) {
        None => Err(format!(
            "that is a level, which also falls: what only grows stands from {} on in {FILE}",
            names[first]
        )),
        Some(event) => Ok(event as u64),
    }
}

/// Where the kernel has the names of numbers: by the names in front, as in the files.
const MIBS: [(&str, &str, u32); 6] = [
    ("Ip", "snmp4_ipstats_list", COUNTER_IP),
    ("IpExt", "snmp4_ipextstats_list", COUNTER_IP),
    ("Tcp", "snmp4_tcp_list", COUNTER_TCP),
    ("TcpExt", "snmp4_net_list", COUNTER_TCP_EXT),
    ("Udp", "snmp4_udp_list", COUNTER_UDP),
    ("UdpLite", "snmp4_udp_list", COUNTER_UDP_LITE),
];

/// What does not only grow.
const LEVELS: [&str; 5] = ["RtoAlgorithm", "RtoMin", "RtoMax", "MaxConn", "CurrEstab"];

/// Numbers of one list, at most; bytes of a name.
const NAMES_MAX: u64 = 512;
const NAME_MAX: usize = 48;

/// The number that the files show as `GROUP: NAME`.
///
/// # Errors
/// They show none, or one that also falls.
pub fn snmp(name: &str, own: &str, kernel: &mut Kernel<'_>) -> Result<Counter, Failure> {
    let (group, own) = own.split_once('.').unwrap_or((own, ""));
    let Some((_, list, which)) = MIBS.iter().find(|(known, ..)| *known == group) else {
        let known: Vec<&str> = MIBS.iter().map(|(known, ..)| *known).collect();
        return Err(Failure::usage(format!(
            "{name}: give snmp:GROUP.NAME, as /proc/net/snmp and /proc/net/netstat have them; \
             GROUP is {}",
            known.join(", ")
        )));
    };
    let at = kernel.symbols().variable_at(list);
    let names = at.map(|at| names(at, kernel.memory)).unwrap_or_default();
    if names.is_empty() {
        return Err(Failure::cannot(format!(
            "{name}: the kernel's list of these names ({list}) cannot be read"
        )));
    }
    if LEVELS.contains(&own) {
        return Err(Failure::usage(format!(
            "{name}: that is a level, which also falls, or never changes"
        )));
    }
    match names.iter().find(|(known, _)| known == own) {
        Some((_, number)) => Ok(Counter::new(COUNTER_SNMP, *which, *number)),
        None => {
            let near = nearest(own, names.iter().map(|(known, _)| known.as_str()));
            let hint = match &near[..] {
                [] => String::new(),
                near => format!(": the nearest are {}", near.join(", ")),
            };
            Err(Failure::usage(format!(
                "{name}: {group} has no such number{hint}"
            )))
        }
    }
}

/// A list of `struct snmp_mib`: the address of a name, and the number of what it names.
fn names(at: u64, memory: &mut dyn Memory) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    for entry in (at..).step_by(16).take(NAMES_MAX as usize) {
        let Some(bytes) = memory.read(entry, 16) else {
            break;
        };
        let word = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes);
        let (Ok(name), Ok(number)) = (word(0), word(8)) else {
            break;
        };
        if name == 0 {
            break;
        }
        let text = memory.read(name, NAME_MAX).unwrap_or_default();
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = String::from_utf8_lossy(text).into_owned();
        // An int, and nothing behind it.
        all.push((text, number & 0xffff_ffff));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Vec<(i64, String)> {
        let names = ["PGPGIN", "PGFAULT", "PGMAJFAULT", "NR_VM_EVENT_ITEMS"];
        (0..).zip(names.map(str::to_owned)).collect()
    }

    #[test]
    fn events_come_last_in_the_file() {
        let text =
            "nr_free_pages 7\nnuma_hit 8\npgpgin 1\npgfault 2\npgmajfault 3\nnr_unstable 0\n";
        let of = |wanted: &str| event(text, &events(), wanted);
        assert_eq!(of("pgfault"), Ok(1));
        assert_eq!(of("pgmajfault"), Ok(2));
        assert!(of("nr_free_pages").unwrap_err().contains("a level"));
        assert!(
            of("pgfaults")
                .unwrap_err()
                .contains("the nearest are pgfault")
        );
        let other = "pgfault 2\npgmajfault 3\npgpgin 1\n";
        let refused = event(other, &events(), "pgfault").unwrap_err();
        assert!(refused.contains("in another way"), "{refused}");
    }

    #[test]
    fn numbers_have_the_names_of_the_kernel() {
        let mut bytes = Vec::new();
        for (name, number) in [(0x1040_u64, 8_u64), (0x1048, 3), (0, 0)] {
            bytes.extend(name.to_le_bytes());
            bytes.extend(number.to_le_bytes());
        }
        bytes.resize(0x40, 0);
        bytes.extend(b"InSegs\0\0Out\0");
        bytes.resize(0x100, 0);
        let known = names(0x1000, &mut (0x1000, bytes));
        assert_eq!(known, [("InSegs".to_owned(), 8), ("Out".to_owned(), 3)]);
        assert_eq!(names(0x1000, &mut (0, Vec::new())), []);
    }
}
