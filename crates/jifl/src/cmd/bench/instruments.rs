// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of the sheets: a table of instrumentations, how each is switched on, and how its own
//! count is read.

use std::cmp::Reverse;
use std::collections::HashMap;

use jifl_sys::abi::{
    FLAG_BRANCHES, FLAG_CLOCK, FLAG_FUNCTION, FLAG_NO_INLINING, FLAG_NO_LIVENESS, FLAG_VALUES,
};
use jifl_sys::abi::{Kind, Stat, Status, Stop};
use jifl_sys::device::{Device, Door, Request};

pub use super::peers::Sites;
use super::peers::{self, Job, Method, Peer};
use super::sheet::NATIVE;
use crate::base::exit::Failure;
use crate::kernel::functions::{Function, Functions};
use crate::kernel::syscalls::Table;
use crate::session::device;
use crate::session::measure::Session;
use crate::session::targets::{self, Target};

/// How the names of system calls' functions begin. Those without arguments have all three
/// (arch/x86/include/asm/syscall_wrapper.h).
const SYSCALL_FUNCTIONS: [&str; 3] = ["__x64_sys_", "__ia32_sys_", "__do_sys_"];
/// Number of functions of the row that has the busiest.
const BUSIEST: usize = 50;
/// Their addresses. They take no memory that would keep the allocator from giving the rest back.
pub type Busiest = [u64; BUSIEST];
/// Maximum of a peer row's probes.
const PLACES_MAX: usize = 2000;

/// The instrumentation of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// None.
    Native,
    /// A session over every system call, with `FLAG_*` of the ABI.
    Session(Kind, u32),
    /// The same, started anew for every round, so that all code is translated again.
    Cold(Kind),
    /// A session over the functions of all system calls, whose doors are at the functions.
    Functions(Kind),
    /// A session over all functions of the kernel, each without what it calls.
    All(Kind),
    /// A session over the functions that the set's operations call most, each without what it
    /// calls.
    Busiest(Kind),
    /// A tool that a user would take instead.
    Peer(Method, Job),
}

/// A row.
#[derive(Debug, Clone, Copy)]
pub struct Instrument {
    /// Its short name in options, headings and JSON.
    pub key: &'static str,
    /// In words.
    pub title: &'static str,
    /// Its instrumentation.
    pub what: What,
}

/// The key of the row in which all code is translated again and again.
pub const COLD: &str = "cold";

/// The rows of all sets but effect. A kind of session is one line here.
#[rustfmt::skip]
pub const INSTRUMENTS: &[Instrument] = &[
    row(NATIVE, "uninstrumented", What::Native),
    row("none", "nothing inserted", What::Session(Kind::None, 0)),
    row("call", "call count", What::Session(Kind::Call, 0)),
    row("block", "block count", What::Session(Kind::Block, 0)),
    row("insn", "instruction count", What::Session(Kind::Insn, 0)),
    row("trace", "call trace", What::Session(Kind::Trace, 0)),
    row("values", "call trace with arguments and results", What::Session(Kind::Trace, FLAG_VALUES)),
    row("times", "call trace with functions' times", What::Session(Kind::Trace, FLAG_CLOCK)),
    row("path", "path of blocks", What::Session(Kind::Path, 0)),
    row("blocks", "executions of each block", What::Session(Kind::Profile, 0)),
    row("branches", "the same, and of branches not taken", What::Session(Kind::Profile, FLAG_BRANCHES)),
    row("lock", "waits for locks, retries", What::Session(Kind::Lock, 0)),
    row("mem", "loads and stores, recorded", What::Session(Kind::Mem, 0)),
    row("fn-none", "functions as targets, nothing inserted", What::Functions(Kind::None)),
    row("fn-call", "functions as targets, call count", What::Functions(Kind::Call)),
    row("fn-block", "functions as targets, block count", What::Functions(Kind::Block)),
    row("fn-all", "all functions of the kernel alone, call count", What::All(Kind::Call)),
    row("fn-busy", "the set's 50 busiest functions alone, nothing inserted", What::Busiest(Kind::None)),
    row(COLD, "block count, a new session for each call", What::Cold(Kind::Block)),
    row("int3-call", "kprobes (int3), call count", What::Peer(Method::KprobeInt3, Job::CountCalls)),
    row("int3-trace", "kprobes (int3), call trace", What::Peer(Method::KprobeInt3, Job::TraceCalls)),
    row("int3-block", "kprobes (int3), block count", What::Peer(Method::KprobeInt3, Job::CountBlocks)),
    row("opt-call", "kprobes (optimised), call count", What::Peer(Method::KprobeOptimised, Job::CountCalls)),
    row("opt-trace", "kprobes (optimised), call trace", What::Peer(Method::KprobeOptimised, Job::TraceCalls)),
    row("opt-block", "kprobes (optimised), block count", What::Peer(Method::KprobeOptimised, Job::CountBlocks)),
    row("ftrace-call", "function tracer, call count", What::Peer(Method::FunctionTracer, Job::CountCalls)),
    row("ftrace-trace", "function tracer, call trace", What::Peer(Method::FunctionTracer, Job::TraceCalls)),
    row("bpf-call", "BPF fentry, call count", What::Peer(Method::BpfFentry, Job::CountCalls)),
    row("bpf-trace", "BPF fentry, call trace", What::Peer(Method::BpfFentry, Job::TraceCalls)),
];

/// The rows of the effect set, which shows the gain of liveness and inlining. Blocks are counted by
/// a C function, and by the engine's own addition.
#[rustfmt::skip]
pub const EFFECTS: &[Instrument] = &[
    row(NATIVE, "uninstrumented", What::Native),
    row("neither", "by a function: called, all saved", effect(FLAG_FUNCTION | FLAG_NO_INLINING | FLAG_NO_LIVENESS)),
    row("liveness", "by a function: liveness", effect(FLAG_FUNCTION | FLAG_NO_INLINING)),
    row("inlining", "by a function: inlining", effect(FLAG_FUNCTION | FLAG_NO_LIVENESS)),
    row("both", "by a function: liveness and inlining", effect(FLAG_FUNCTION)),
    row("add-saved", "by an addition: all saved", effect(FLAG_NO_LIVENESS)),
    row("add", "by an addition: liveness", effect(0)),
];

const fn effect(flags: u32) -> What {
    What::Session(Kind::Block, flags)
}

const fn row(key: &'static str, title: &'static str, what: What) -> Instrument {
    Instrument { key, title, what }
}

/// What is found out by running the work, before any row is measured, where a row needs it.
#[derive(Default)]
pub struct Known {
    /// The addresses that it executes: for peers.
    pub sites: Option<Result<Sites, String>>,
    /// The functions that it calls most.
    pub busiest: Option<Result<Busiest, String>>,
}

/// Counts up to a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls, in the order of the numbers asked for; empty if they are not counted.
    pub calls: Vec<u64>,
    /// Counts inside calls.
    pub inside: Option<u64>,
    /// Calls or hits that are known to be missed.
    pub missed: u64,
    /// Basic blocks translated since the module was loaded.
    pub translated: Option<u64>,
}

/// An instrumentation that is switched on, until it is dropped.
pub enum Live {
    /// No instrumentation.
    Native,
    /// A session of JIFL.
    Session(Device, Kind),
    /// A session over functions, and the places of these among its targets by their names.
    Functions(Device, Kind, HashMap<String, u32>),
    /// A session over so many functions, which need not be those of system calls.
    Alone(Device, Kind, u32),
    /// A peer.
    Peer(Peer),
}

impl Live {
    /// Switches an instrumentation on.
    ///
    /// # Errors
    /// Why this kernel, or this machine, lacks it: one line.
    pub fn start(what: What, known: &Known) -> Result<Live, String> {
        match what {
            What::Native => Ok(Live::Native),
            What::Session(kind, flags) => start_session(kind, flags).map_err(|error| error.message),
            What::Cold(kind) => start_session(kind, 0).map_err(|error| error.message),
            What::Functions(kind) => start_functions(kind, SYSCALL_FUNCTIONS[0], false),
            What::All(kind) => start_functions(kind, "", true),
            What::Busiest(kind) => match &known.busiest {
                Some(Ok(found)) => start_busiest(kind, found).map_err(|error| error.message),
                Some(Err(why)) => Err(why.clone()),
                None => Err("only the micro set has it".into()),
            },
            What::Peer(method, job) => match &known.sites {
                Some(Ok(sites)) => start_peer(method, job, sites),
                Some(Err(why)) => Err(why.clone()),
                None => Err("its addresses are not known".into()),
            },
        }
    }

    /// Turns kprobes that are breakpoints into jumps.
    ///
    /// # Errors
    /// Why they do not: one line.
    pub fn optimise(&mut self) -> Result<(), String> {
        match self {
            Live::Peer(peer) => peer.optimise().map_err(|missing| missing.0),
            _ => Err("only kprobes become jumps".into()),
        }
    }

    /// How often a peer must be hit where it is, if the work that [`sites`] was given is repeated.
    pub fn expected(&self) -> Option<u64> {
        match self {
            Live::Peer(peer) => Some(peer.coverage().expected),
            _ => None,
        }
    }

    /// The counts of these system calls.
    pub fn counts(&self, numbers: &[u32]) -> Result<Counts, String> {
        match self {
            Live::Native => Ok(Counts::default()),
            Live::Session(door, kind) => session_counts(door, *kind, numbers),
            Live::Functions(door, kind, places) => {
                let table = Table::all();
                let places: Option<Vec<u32>> = numbers
                    .iter()
                    .map(|nr| place_of(&table.name(*nr), places))
                    .collect();
                let places = places.ok_or("a system call has a function of another name")?;
                session_counts(door, *kind, &places)
            }
            Live::Alone(door, kind, n) => {
                session_counts(door, *kind, &(0..*n).collect::<Vec<u32>>())
            }
            Live::Peer(peer) => Ok(Counts {
                inside: Some(peer.hits()),
                missed: peer.missed(),
                ..Counts::default()
            }),
        }
    }
}

/// The addresses that `work` executes, for [`Live::start`].
pub fn sites(work: &mut dyn FnMut()) -> Result<Sites, String> {
    peers::collect(work).map_err(|error| error.message)
}

/// Blocks translated since the module was loaded; `None` without the module.
pub fn translated() -> Option<u64> {
    status().ok().map(|status| status.translated_blocks)
}

/// The module's totals.
pub fn status() -> Result<Status, String> {
    let status = device::open().and_then(|door| device::status(&door));
    status.map_err(|failure| failure.message)
}

/// The counts of a session, over all system calls.
pub fn all_counts(live: &Live) -> Result<Counts, String> {
    let Live::Session(door, _) = live else {
        return live.counts(&[]);
    };
    // Calls that this kernel lacks have no statistics. A call's index is its number
    // (start_session).
    let known = |nr: &u32| door.call(Request::Stat(&mut Stat::of(*nr), None)).is_ok();
    let targets = Target::all_syscalls();
    let numbers = targets.iter().filter_map(Target::nr);
    let numbers: Vec<u32> = numbers.filter(known).collect();
    live.counts(&numbers)
}

/// For each kprobe the kernel decodes the whole function.
fn start_peer(method: Method, job: Job, sites: &Sites) -> Result<Live, String> {
    let places = match job {
        Job::CountBlocks => sites.blocks().0,
        Job::TraceCalls => sites.functions().0,
        Job::CountCalls => sites.calls().0,
    };
    if places > PLACES_MAX {
        return Err(format!(
            "it would take {places} probes, which the kernel needs minutes to place; at most \
             {PLACES_MAX} are tried"
        ));
    }
    let peer = Peer::start(method, job, sites).map_err(|missing| missing.0)?;
    Ok(Live::Peer(peer))
}

fn start_session(kind: Kind, flags: u32) -> Result<Live, Failure> {
    let door = device::open()?;
    // In this list the index of a call is its number.
    Session::new(kind, flags, Target::all_syscalls()).begin(&door, &Table::all())?;
    Ok(Live::Session(door, kind))
}

/// A session over the functions whose names begin so. `only`: without what they call.
fn start_functions(kind: Kind, begin: &str, only: bool) -> Result<Live, String> {
    let started = try_functions(kind, begin, only);
    // A fork copies what describes this process's memory: the names of all functions are megabytes.
    jifl_sys::os::give_memory_back();
    started.map_err(|error| error.message)
}

/// The functions whose names begin so.
fn functions(begin: &str, table: &Table) -> Result<Vec<Target>, Failure> {
    let words = [format!("fn:{begin}*")];
    Ok(targets::select(&words, table, Functions::of_kernel, true)?.targets)
}

fn start_busiest(kind: Kind, addresses: &Busiest) -> Result<Live, Failure> {
    let door = device::open()?;
    let function = |address: &u64| Function {
        address: *address,
        name: format!("{address:#x}"),
        module: None,
    };
    let one = |address| targets::one(function(address), 0).targets;
    let targets = addresses.iter().flat_map(one).collect();
    let mut session = Session::new(kind, 0, targets);
    session.only = true;
    session.begin(&door, &Table::all())?;
    Ok(Live::Alone(door, kind, addresses.len() as u32))
}

/// The functions that are called most while `work` runs.
///
/// # Errors
/// Why they cannot be counted: one line.
pub fn busiest(work: &mut dyn FnMut()) -> Result<Busiest, String> {
    let found = count_all(work);
    jifl_sys::os::give_memory_back();
    found.map_err(|error| error.message)
}

fn count_all(work: &mut dyn FnMut()) -> Result<Busiest, Failure> {
    let door = device::open()?;
    let table = Table::all();
    let targets = functions("", &table)?;
    let mut session = Session::new(Kind::Call, 0, targets.clone());
    session.only = true;
    session.begin(&door, &table)?;
    work();
    // Reading is a system call for each of them, which is not to be counted.
    door.call(Request::Stop(&mut Stop::default()))
        .map_err(|error| device::failed("stopping the session", &error))?;
    let calls = |(place, target): (u32, &Target)| {
        let mut stat = Stat::of(place);
        // Functions that cannot be entered have no statistics.
        door.call(Request::Stat(&mut stat, None)).ok()?;
        Some((Reverse(stat.calls), target.function()?.address))
    };
    let mut counted: Vec<_> = (0..).zip(&targets).filter_map(calls).collect();
    counted.sort_unstable();
    let addresses: Vec<u64> = counted.iter().map(|(_, address)| *address).collect();
    let most = addresses.first_chunk::<BUSIEST>();
    most.copied()
        .ok_or_else(|| Failure::failed("there are fewer functions than the row has"))
}

fn try_functions(kind: Kind, begin: &str, only: bool) -> Result<Live, Failure> {
    let door = device::open()?;
    let table = Table::all();
    let targets = functions(begin, &table)?;
    let mut names = HashMap::new();
    // A system call's functions may be several. The first prefix is that of the one that is called.
    for prefix in SYSCALL_FUNCTIONS.iter().rev() {
        names.extend(targets.iter().zip(0..).filter_map(|(target, place)| {
            let name = target.function()?.name.strip_prefix(prefix)?;
            Some((name.to_owned(), place))
        }));
    }
    let mut session = Session::new(kind, 0, targets);
    session.only = only;
    session.begin(&door, &table)?;
    Ok(Live::Functions(door, kind, names))
}

/// Where the function of a system call is. A kernel may have a function of the call's own name,
/// too, which only 32-bit programs call.
fn place_of(syscall: &str, places: &HashMap<String, u32>) -> Option<u32> {
    // arch/x86/entry/syscalls/syscall_64.tbl
    let function = match syscall {
        "stat" | "fstat" | "lstat" | "uname" => format!("new{syscall}"),
        "sendfile" => "sendfile64".to_owned(),
        other => other.to_owned(),
    };
    places.get(&function).copied()
}

/// The counts of the targets at these places.
fn session_counts(door: &Device, kind: Kind, places: &[u32]) -> Result<Counts, String> {
    let status = device::status(door).map_err(|failure| failure.message)?;
    let mut counts = Counts {
        translated: Some(status.translated_blocks),
        ..Counts::default()
    };
    let inside = matches!(kind, Kind::Block | Kind::Insn | Kind::Trace);
    let mut sum = 0;
    for place in places {
        let mut stat = Stat::of(*place);
        door.call(Request::Stat(&mut stat, None))
            .map_err(|error| device::failed("reading the statistics", &error).message)?;
        sum += stat.sum;
        counts.missed += stat.missed;
        if kind != Kind::None {
            counts.calls.push(stat.calls);
        }
    }
    // A profile counts all calls together, including the calls that read it.
    counts.inside = inside.then_some(sum);
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_are_unique_and_the_native_row_is_first() {
        for rows in [INSTRUMENTS, EFFECTS] {
            let keys: BTreeSet<&str> = rows.iter().map(|row| row.key).collect();
            assert_eq!(keys.len(), rows.len());
            assert_eq!(rows[0].what, What::Native);
        }
    }

    #[test]
    fn a_system_call_has_the_function_that_64_bit_programs_call() {
        let names = ["stat", "newstat", "read", "sendfile", "sendfile64"];
        let places = names
            .iter()
            .map(|name| (*name).to_owned())
            .zip(0..)
            .collect();
        let found = ["stat", "read", "sendfile", "uname"].map(|name| place_of(name, &places));
        assert_eq!(found, [Some(1), Some(2), Some(4), None]);
    }

    #[test]
    fn nothing_counts_nothing() {
        let live = Live::start(What::Native, &Known::default()).unwrap();
        assert_eq!(live.counts(&[0, 1]).unwrap(), Counts::default());
    }
}
