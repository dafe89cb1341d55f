// SPDX-License-Identifier: MIT OR Apache-2.0
//! One counting session from its start to the report, through any [`Door`].

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use jifl_sys::abi::{
    Action, COUNTER_PERF, COUNTER_PROCESSOR, COUNTER_SNMP, COUNTER_VARIABLE, COUNTER_VMSTAT, Code,
    Counter, FILTER_COMM, FLAG_ADOPT, FLAGS_VALUE, Fact, HIST_BUCKETS, Kind, LEFT, MISSES, Op,
    REFUSALS, SCOPE_ONLY, SPLICE_REFUSALS, SPLICES_MAX, Splice, Start, Stat, Status, Stop,
    TARGET_FUNCTION, TargetSpec,
};
use jifl_sys::device::{Door, Histogram, Lists, Request};
use rustix::io::Errno;

use crate::base::exit::Failure;
use crate::kernel::syscalls::Table;
use crate::session::device;
use crate::session::histogram;
use crate::session::report::{Adoption, Cost, Functions, Report, Row};
use crate::session::targets::{self, Selected, Target};
use crate::show::text::grouped;

/// What is done where the places of a session are executed.
#[derive(Debug, Clone, Default)]
pub struct Programs {
    /// The programs, by their ops; [`Splice::action`] is 1 for the first.
    pub actions: Vec<Action>,
    /// The ops of all of them.
    pub ops: Vec<Op>,
    /// The strings that ops compare with.
    pub strings: Vec<u8>,
    /// Bytes of records for each CPU; 0: nothing is recorded.
    pub ring: u32,
}

/// Arguments of a session.
#[derive(Debug, Clone)]
pub struct Session {
    /// Its kind, flags and filters.
    pub start: Start,
    /// Its list of targets. Everywhere else a target is its index in this list.
    pub targets: Vec<Target>,
    /// Its functions run alone, without what they call.
    pub only: bool,
    /// Calls count if they are made under one of these.
    pub under: Vec<TargetSpec>,
    /// Tasks that are inside its functions at the start go on in the cache.
    pub adopt: bool,
    /// Its targets are threads of the kernel, which are inside their functions for all their lives.
    pub of_threads: bool,
    /// Places in its functions, in the module's order.
    pub splices: Vec<Splice>,
    /// The programs of these places.
    pub programs: Programs,
    /// What is counted beside times, and its names.
    pub counters: Vec<(String, Counter)>,
    /// Functions that patterns match, and that are not in the list for other reasons: how many for
    /// each.
    pub unfit: BTreeMap<&'static str, u64>,
}

/// What the module has against a session.
#[derive(Debug, Default)]
pub struct Tried {
    /// Targets that cannot be entered, and why.
    pub targets: BTreeMap<usize, &'static str>,
    /// Places that cannot be probed, and why: `SPLICE_*`, and in words.
    pub places: BTreeMap<usize, (u32, &'static str)>,
}

impl Session {
    /// A session of this kind, about all tasks.
    pub fn new(kind: Kind, flags: u32, targets: Vec<Target>) -> Session {
        let mut start = Start::default();
        start.kind = kind as u32;
        start.flags = flags;
        Session {
            start,
            targets,
            only: false,
            under: Vec::new(),
            adopt: false,
            of_threads: false,
            splices: Vec::new(),
            programs: Programs::default(),
            counters: Vec::new(),
            unfit: BTreeMap::new(),
        }
    }

    /// A session of this kind, about all tasks, and about what was selected.
    pub fn of(kind: Kind, flags: u32, selected: Selected) -> Session {
        let mut session = Session::new(kind, flags, selected.targets);
        if let Some(comm) = selected.threads {
            session.of_threads = true;
            session.start.filters |= FILTER_COMM;
            session.start.comm = comm;
        }
        session
    }

    /// Starts the session on this file. The result is about the functions among its targets, if
    /// there are any.
    ///
    /// # Errors
    /// The session is refused.
    pub fn begin(&mut self, door: &impl Door, table: &Table) -> Result<Option<Functions>, Failure> {
        let (mut specs, conditions) = targets::specs(&self.targets)?;
        if self.only {
            specs.iter_mut().for_each(|spec| spec.scope = SCOPE_ONLY);
        }
        if self.adopt {
            self.start.flags |= FLAG_ADOPT;
        }
        let mut splices = std::mem::take(&mut self.splices);
        self.start.ring = self.programs.ring;
        let counters: Vec<Counter> = self.counters.iter().map(|(_, counter)| *counter).collect();
        let lists = Lists {
            targets: &mut specs,
            conditions: &conditions,
            under: &self.under,
            splices: &mut splices,
            actions: &self.programs.actions,
            ops: &self.programs.ops,
            strings: &self.programs.strings,
            counters: &counters,
        };
        let started = door.call(Request::Start(&mut self.start, lists));
        self.splices = splices;
        started.map_err(|error| refused(door, self, &specs, table, &error))?;
        if self.targets.iter().all(|target| target.nr().is_some()) {
            return Ok(None);
        }
        Ok(Some(self.entered(&specs)))
    }

    /// What the module has against the places, as far as it tells before it sets a breakpoint.
    /// Nothing is started: one more place, which is in no function, is always refused.
    ///
    /// # Errors
    /// As for [`Session::begin`], before the module is asked.
    pub fn tried(&self, door: &impl Door) -> Result<Tried, Failure> {
        let (mut specs, conditions) = targets::specs(&self.targets)?;
        specs.iter_mut().for_each(|spec| spec.scope = SCOPE_ONLY);
        let mut start = self.start;
        let mut splices = self.splices.clone();
        splices.truncate(SPLICES_MAX - 1);
        let last = splices.len();
        splices.push(Splice {
            address: u64::MAX,
            ..Splice::default()
        });
        let lists = Lists {
            targets: &mut specs,
            conditions: &conditions,
            under: &self.under,
            splices: &mut splices,
            ..Lists::default()
        };
        let request = Request::Start(&mut start, lists);
        let is_place = |error: &io::Error| Errno::from_io_error(error) == Some(Errno::ILSEQ);
        let refused = door.call(request).err().filter(is_place);
        // Without such an answer the module has not come to the places.
        let asked = &splices[..refused.map_or(0, |_| last)];
        let specs = specs.iter().enumerate();
        Ok(Tried {
            targets: specs
                .filter(|(_, spec)| spec.refused != 0)
                .map(|(index, spec)| (index, refusal(spec.refused)))
                .collect(),
            places: (asked.iter().enumerate())
                .filter(|(_, splice)| splice.refused != 0)
                .map(|(at, splice)| {
                    let why = SPLICE_REFUSALS.get(splice.refused as usize);
                    let unknown = "for a reason that is not known here";
                    (at, (splice.refused, why.copied().unwrap_or(unknown)))
                })
                .collect(),
        })
    }

    /// Refuses `only` for a session that needs what its targets call.
    ///
    /// # Errors
    /// Its kind records, or one of its targets is a system call.
    pub fn check_only(&self) -> Result<(), Failure> {
        if !self.only {
            return Ok(());
        }
        if !self.is(Fact::Alone) {
            return Err(Failure::usage(
                "--only goes with count, prof, cover and branch: all else follows what a function \
                 calls",
            ));
        }
        if self.targets.iter().any(|target| target.nr().is_some()) {
            return Err(Failure::usage(
                "--only is about functions: name the function that the system call runs, as \
                 fn:ksys_read for sys:read",
            ));
        }
        Ok(())
    }

    /// Refuses `under` for a session about system calls.
    ///
    /// # Errors
    /// One of its targets is a system call.
    pub fn check_under(&self) -> Result<(), Failure> {
        if !self.under.is_empty() && self.targets.iter().any(|target| target.nr().is_some()) {
            return Err(Failure::usage(
                "--under is about calls of functions: name the function that the system call runs, \
                 as fn:ksys_read for sys:read",
            ));
        }
        Ok(())
    }

    /// Whether it can take over calls in their middle.
    ///
    /// # Errors
    /// It needs the beginning of each call, or it has no function.
    pub fn may_adopt(&self) -> Result<(), Failure> {
        if !self.is(Fact::Adopts) {
            return Err(Failure::usage(
                "--adopt goes with trace, mem, lock, prof without --paths, cover, branch and \
                 count insn, block and none: all else needs the beginning of a call",
            ));
        }
        if self.targets.iter().all(|target| target.nr().is_some()) {
            return Err(Failure::usage(
                "--adopt is about functions: name the function in which tasks are, as \
                 fn:do_epoll_wait for sys:epoll_wait",
            ));
        }
        Ok(())
    }

    /// Whether this is so of sessions of its kind.
    fn is(&self, fact: Fact) -> bool {
        is(&self.start, fact)
    }

    /// That a place cannot be probed, and why.
    fn refused_splice(&self) -> String {
        let splice = self.splices.get(self.start.busy_target as usize);
        let Some(splice) = splice else {
            return "a place cannot be probed".into();
        };
        let function = self.targets.get(splice.target as usize);
        let place = match function.and_then(Target::function) {
            Some(function) if splice.address >= function.address => format!(
                "{}+{:#x}",
                function.target(),
                splice.address - function.address
            ),
            _ => format!("{:#x}", splice.address),
        };
        let why = SPLICE_REFUSALS.get(splice.refused as usize);
        let why = why.unwrap_or(&"for a reason that is not known here");
        format!("{place} cannot be probed: {why}")
    }

    /// That the module takes no such program, and at which op it stopped.
    fn refused_program(&self) -> String {
        let (action, op) = (self.start.bad_action, self.start.bad_op);
        let program = self.programs.actions.get(action as usize);
        let place = program.and_then(|program| program.from.checked_add(op));
        let code = place.and_then(|place| self.programs.ops.get(place as usize));
        let code = code.and_then(|op| Code::from_number(op.code));
        format!(
            "the module refused op {op} ({}) of program {action}: were it and this command built \
             from the same tree?",
            code.map_or("none", Code::name)
        )
    }

    /// The tasks that were inside at the start.
    fn adoption(&self) -> Option<Adoption> {
        let counts = self.start.left.iter().enumerate();
        let counts = counts.filter(|(_, count)| **count > 0);
        self.adopt.then(|| Adoption {
            tasks: self.start.adopted.into(),
            left: counts
                .map(|(why, count)| (left(why), (*count).into()))
                .collect(),
        })
    }

    /// The functions that were entered, and why others were left out.
    fn entered(&self, specs: &[TargetSpec]) -> Functions {
        let mut functions = Functions::default();
        let mut left_out: BTreeMap<u32, u64> = BTreeMap::new();
        for spec in specs.iter().filter(|spec| spec.kind == TARGET_FUNCTION) {
            match spec.refused {
                0 => functions.entered += 1,
                reason => *left_out.entry(reason).or_default() += 1,
            }
        }
        let left_out = left_out.into_iter();
        functions.left_out = left_out
            .map(|(reason, count)| (refusal(reason).to_owned(), count))
            .collect();
        let unfit = self.unfit.iter();
        functions
            .left_out
            .extend(unfit.map(|(why, count)| ((*why).to_owned(), *count)));
        functions.left_out.sort_by_key(|(_, count)| Reverse(*count));
        functions
    }
}

/// Whether this is so of sessions of this one's kind.
fn is(start: &Start, fact: Fact) -> bool {
    Kind::from_number(start.kind).is_some_and(|kind| kind.is(fact))
}

/// Why a function is no target; words of this command for a reason that a newer module added.
fn refusal(reason: u32) -> &'static str {
    let known = REFUSALS.get(reason as usize);
    known
        .copied()
        .unwrap_or("for a reason that is not known here")
}

/// Why a task was left alone; a number for a reason that a newer module added.
fn left(why: usize) -> String {
    let known = LEFT.get(why);
    known.map_or_else(|| format!("reason-{why}"), |name| (*name).to_owned())
}

/// A session that was started here.
pub struct Running {
    session: Session,
    before: Status,
    functions: Option<Functions>,
    start_ns: u64,
    began: Instant,
}

impl Running {
    /// Starts a session.
    ///
    /// # Errors
    /// It is refused.
    pub fn begin(
        door: &impl Door,
        mut session: Session,
        table: &Table,
    ) -> Result<Running, Failure> {
        let before = device::status(door)?;
        let starting = Instant::now();
        let functions = session.begin(door, table)?;
        Ok(Running {
            session,
            before,
            functions,
            start_ns: starting.elapsed().as_nanos() as u64,
            began: Instant::now(),
        })
    }

    /// As it was started, with its number.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// How long it has run.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Ends the session, and reads its counts.
    ///
    /// # Errors
    /// It cannot be ended, or read.
    pub fn end(self, door: &impl Door, table: &Table) -> Result<Report, Failure> {
        let duration = self.elapsed();
        let session = self.session;
        let adoption = session.adoption();
        let start = &session.start;
        let mut stop = Stop::default();
        let mut cut_short = false;
        let ending = Instant::now();
        let stopped = door.call(Request::Stop(&mut stop));
        let end_ns = ending.elapsed().as_nanos() as u64;
        if let Err(error) = stopped {
            // `jifl detach` has ended the session. Its counts until then can still be read.
            cut_short = Errno::from_io_error(&error) == Some(Errno::NOENT);
            if !cut_short {
                return Err(device::failed("ending the session", &error));
            }
        }
        let after = device::status(door)?;

        let kind = Kind::from_number(start.kind).unwrap_or(Kind::None);
        let (mut rows, mut absent) = (Vec::new(), Vec::new());
        let names = targets::names(&session.targets, table);
        for (index, (target, name)) in session.targets.iter().zip(names).enumerate() {
            match read_row(door, start, index as u32, target, name)? {
                Some(row) if row.calls > 0 || row.missed > 0 || row.adopted > 0 => rows.push(row),
                Some(_) => {}
                None => absent.extend(target.nr()),
            }
        }
        rows.sort_by(Row::order);
        Ok(Report {
            kind,
            rows,
            absent,
            functions: self.functions,
            adoption,
            cut_short,
            cost: Cost::between(&self.before, &after),
            duration_ns: duration.as_nanos() as u64,
            start_ns: self.start_ns,
            end_ns,
            drain_ns: stop.drain_ns,
            draining: stop.draining,
        })
    }
}

/// Starts a session, calls `meanwhile` with it, ends the session and reads its counts. The session
/// also ends, and is read, when `meanwhile` fails.
///
/// # Errors
/// As for [`Running`].
pub fn measure<T>(
    door: &impl Door,
    session: Session,
    table: &Table,
    meanwhile: impl FnOnce(u64) -> T,
) -> Result<(Report, T), Failure> {
    let running = Running::begin(door, session, table)?;
    let value = meanwhile(running.session().start.session);
    Ok((running.end(door, table)?, value))
}

/// The row of a target; `None` if this kernel does not have it, or if it was left out.
fn read_row(
    door: &impl Door,
    start: &Start,
    index: u32,
    target: &Target,
    name: String,
) -> Result<Option<Row>, Failure> {
    let mut stat = Stat::of(index);
    // Of thousands of functions most are never called; a histogram is large.
    let short = target.function().is_some();
    if short && !ask(door, &mut stat, None)? {
        return Ok(None);
    }
    let mut buckets = Vec::new();
    if !short || stat.calls > 0 {
        let mut counts = Box::new([0; HIST_BUCKETS]);
        if !ask(door, &mut stat, Some(&mut counts))? {
            return Ok(None);
        }
        buckets = counts.to_vec();
    }
    let inside = is(start, Fact::Value) || start.flags & FLAGS_VALUE != 0;
    let percentile = |percent| {
        let value = histogram::percentile(&buckets, percent, stat.min, stat.max);
        value.filter(|_| inside)
    };
    let causes = stat.missed_by.iter().enumerate();
    let causes = causes.filter(|(_, count)| **count > 0);
    Ok(Some(Row {
        name,
        nr: target.nr(),
        module: target.module().cloned(),
        calls: stat.calls,
        sum: if inside { stat.sum } else { 0 },
        min: stat.min,
        max: stat.max,
        p50: percentile(50),
        p99: percentile(99),
        blocks: stat.blocks,
        no_return: stat.no_return,
        missed: stat.missed,
        missed_by: causes.map(|(cause, count)| (miss(cause), *count)).collect(),
        adopted: stat.adopted,
        adopted_sum: stat.adopted_sum,
        histogram: filled(&buckets),
    }))
}

/// Reads the statistics; false: this kernel does not have the target.
fn ask(door: &impl Door, stat: &mut Stat, counts: Option<&mut Histogram>) -> Result<bool, Failure> {
    match door.call(Request::Stat(stat, counts)) {
        Ok(()) => Ok(true),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => Ok(false),
        Err(error) => Err(device::failed("reading the statistics", &error)),
    }
}

/// The name of a cause of missed calls; a number for one that a newer module added.
fn miss(cause: usize) -> String {
    let known = MISSES.get(cause);
    known.map_or_else(|| format!("cause-{cause}"), |name| (*name).to_owned())
}

/// Buckets that are not empty.
fn filled(counts: &[u64]) -> Vec<(usize, u64)> {
    let all = counts.iter().copied().enumerate();
    all.filter(|(_, count)| *count > 0).collect()
}

fn has_functions(session: &Session) -> bool {
    let mut targets = session.targets.iter();
    targets.any(|target| target.function().is_some())
}

/// Why a session was refused.
fn refused(
    door: &impl Door,
    session: &Session,
    specs: &[TargetSpec],
    table: &Table,
    error: &io::Error,
) -> Failure {
    let start = &session.start;
    let place = start.busy_target as usize;
    let busy = session.targets.get(place);
    match Errno::from_io_error(error) {
        Some(Errno::BUSY) if start.busy_session != 0 => Failure::failed(format!(
            "{} is being instrumented by as many sessions as can be, one of them {}: wait for its \
             end, or `jifl detach {}`",
            busy.map_or_else(|| "a target".into(), |target| target.shown(table)),
            holder(door, start.busy_session),
            start.busy_session
        )),
        Some(Errno::OPNOTSUPP) if busy.is_some() => {
            let reason = specs.get(place).map_or(0, |spec| spec.refused);
            let target = busy.map_or_else(String::new, |target| target.shown(table));
            Failure::failed(format!("{target} cannot be a target: {}", refusal(reason)))
        }
        Some(Errno::ILSEQ) => Failure::failed(session.refused_splice()),
        Some(Errno::BADRQC) => Failure::failed(session.refused_program()),
        // This file is new, so it has no session of its own.
        Some(Errno::BUSY) => Failure::failed(
            "starting the session: somebody else has redirected the kernel's call of \
             x64_sys_call: remove that first; the kernel's log (dmesg) names it",
        ),
        Some(Errno::PERM) if start.kind == Kind::Replace as u32 => Failure::cannot(
            "a function is replaced only for users who may load modules (CAP_SYS_MODULE is needed), \
             and see kernel addresses (kernel.kptr_restrict)",
        ),
        Some(Errno::PERM) if is(start, Fact::Addresses) || has_functions(session) => {
            Failure::cannot(
                "functions are shown only to users who may see kernel addresses: set \
                 kernel.kptr_restrict=1, and be root",
            )
        }
        Some(Errno::ALREADY) => Failure::failed(format!(
            "{} records already, and one session at a time can: wait for its end, or `jifl detach \
             {}`",
            holder(door, start.busy_session),
            start.busy_session
        )),
        Some(Errno::ACCESS) => {
            Failure::cannot(format!("starting the session: {}", device::LOCKED_DOWN))
        }
        // The command builds only valid kinds, sizes and filters, so other causes are left.
        Some(Errno::INVAL) if has_functions(session) => Failure::failed(none_left(session, specs)),
        Some(Errno::INVAL) => Failure::failed(
            "starting the session: this kernel has none of these system calls, or the loaded \
             module is not of this command's tree",
        ),
        Some(Errno::NODEV) if [Kind::Times as u32, Kind::Tree as u32].contains(&start.kind) => {
            Failure::failed(
                "times are made of the processors' time stamp counters, and here these stop, or differ \
             from each other (dmesg: tsc): nothing else will do",
            )
        }
        Some(Errno::NXIO) if !session.counters.is_empty() => no_counter(session),
        Some(Errno::NOSPC) if !session.counters.is_empty() => Failure::failed(format!(
            "{}: others have all counters of the processors: end what uses them (`perf`; the NMI \
             watchdog: kernel.nmi_watchdog=0), or count less at once",
            bad_counter(session).0
        )),
        Some(Errno::NOMEM) => {
            Failure::failed("starting the session: the module got no memory for it")
        }
        Some(Errno::SRCH) => Failure::failed("starting the session: no such process"),
        _ => device::failed("starting the session", error),
    }
}

/// The name and the kind of the counter that the module has refused.
fn bad_counter(session: &Session) -> (&str, u32) {
    let bad = session.counters.get(session.start.bad_counter as usize);
    bad.map_or(("a counter", 0), |(name, counter)| (name, counter.kind))
}

/// That a counter is not there.
fn no_counter(session: &Session) -> Failure {
    let (name, kind) = bad_counter(session);
    match kind {
        COUNTER_PERF => Failure::cannot(format!(
            "{name}: this machine's processors do not count that: many virtual machines have no \
             hardware counters; `perf list` has what can be counted, perf:page-faults can always"
        )),
        COUNTER_VMSTAT | COUNTER_SNMP => {
            Failure::failed(format!("{name}: this kernel does not count that"))
        }
        COUNTER_PROCESSOR | COUNTER_VARIABLE => Failure::usage(format!(
            "{name}: it is no number of 8 bytes of the kernel itself, and none of 4 or 8 bytes \
             that each processor has"
        )),
        _ => Failure::usage(format!(
            "{name}: the kernel itself has no such tracepoint; \
             /sys/kernel/tracing/available_events lists events: those of modules cannot be \
             counted, those of syscalls are raw_syscalls:sys_enter and raw_syscalls:sys_exit"
        )),
    }
}

/// That no function can be entered, with the reasons.
fn none_left(session: &Session, specs: &[TargetSpec]) -> String {
    let reasons = session.entered(specs).left_out.into_iter();
    let reasons = reasons.map(|(reason, count)| format!("{reason} ({})", grouped(count)));
    let reasons: Vec<String> = reasons.collect();
    match reasons.as_slice() {
        [] => {
            "starting the session: the module refused its targets as malformed; were it and this \
               command built from the same tree?"
                .into()
        }
        reasons => format!(
            "none of these functions can be a target: {}",
            reasons.join("; ")
        ),
    }
}

fn holder(door: &impl Door, id: u64) -> String {
    let sessions = device::sessions(door).unwrap_or_default();
    match sessions.iter().find(|session| session.id == id) {
        Some(session) => {
            let name = jifl_sys::abi::from_name(&session.name);
            if session.owner == 0 {
                format!("plugin {name} (session {id})")
            } else {
                format!("session {id} ({name}, process {})", session.owner)
            }
        }
        None => format!("session {id}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::functions::tests::sample;
    use crate::session::fake::Fake;
    use jifl_sys::abi::REFUSED_SITE;

    fn session_of(numbers: &[u32]) -> Session {
        let targets = numbers.iter().copied().map(Target::Syscall);
        Session::new(Kind::Insn, 0, targets.collect())
    }

    #[test]
    fn calls_that_were_made_are_reported_largest_first() {
        let fake = Fake::default();
        fake.add_stat(0, 10, 5, 5);
        fake.add_stat(257, 2, 100, 90);
        fake.state().after.translated_blocks = 20;
        fake.state().drain_ns = 77;
        let session = session_of(&[0, 1, 257]);
        let inside = std::cell::Cell::new(false);
        let (report, value) = measure(&fake, session, &Table::all(), |_| {
            inside.set(fake.state().running);
            "value"
        })
        .unwrap();
        assert!(inside.get() && !fake.state().running);
        assert_eq!(value, "value");
        let names: Vec<&str> = report.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["openat", "read"]);
        assert_eq!(report.rows[1].p99, Some(5));
        assert_eq!((report.cost.blocks, report.drain_ns), (20, 77));
    }

    #[test]
    fn a_busy_call_names_its_holder() {
        let fake = Fake::default();
        fake.add_session(7, "bash");
        fake.state().busy = Some((0, 7));
        let failure = measure(&fake, session_of(&[0]), &Table::all(), |_| ()).unwrap_err();
        assert_eq!(failure.status, crate::base::exit::FAILED);
        for part in ["sys:read", "session 7", "bash", "107", "jifl detach 7"] {
            assert!(failure.message.contains(part), "{}", failure.message);
        }
    }

    #[test]
    fn a_program_that_the_module_refuses_is_named_by_its_op() {
        let fake = Fake::default();
        fake.state().bad_program = Some((1, 1));
        let mut session = session_of(&[0]);
        session.programs.actions = vec![Action::of(0, 1), Action::of(1, 2)];
        session.programs.ops = [Code::Hit, Code::Hit, Code::StrEq].map(Op::of).to_vec();
        let failure = measure(&fake, session, &Table::all(), |_| ()).unwrap_err();
        let wanted = "refused op 1 (STR_EQ) of program 1";
        assert!(failure.message.contains(wanted), "{}", failure.message);
    }

    #[test]
    fn a_session_ended_from_outside_is_reported_as_cut_short() {
        let fake = Fake::default();
        fake.add_stat(0, 3, 5, 5);
        let (report, ()) = measure(&fake, session_of(&[0]), &Table::all(), |_| {
            fake.state().running = false;
        })
        .unwrap();
        assert!(report.cut_short);
        assert_eq!(report.rows[0].calls, 3);
    }

    #[test]
    fn calls_that_the_kernel_lacks_are_named_not_reported() {
        let fake = Fake::default();
        fake.add_stat(0, 1, 5, 5);
        fake.state().lacking.push(462);
        let (report, ()) = measure(&fake, session_of(&[0, 462]), &Table::all(), |_| ()).unwrap();
        assert_eq!(report.rows.len(), 1);
        assert_eq!(report.absent, [462]);
    }

    fn session_of_functions(words: &[&str]) -> Session {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let selected = targets::select(&words, &Table::all(), sample, false).unwrap();
        Session::of(Kind::Call, 0, selected)
    }

    #[test]
    fn functions_that_cannot_be_entered_are_left_out_or_refused() {
        let fake = Fake::default();
        fake.add_function(0x1010, 5);
        for address in [0x1050, 0x1080] {
            fake.state().refusals.insert(address, REFUSED_SITE);
        }
        let session = session_of_functions(&["fn:vfs_*", "sys:read"]);
        let (report, ()) = measure(&fake, session, &Table::all(), |_| ()).unwrap();
        let functions = report.functions.unwrap();
        assert_eq!(functions.entered, 1);
        let reason = REFUSALS[REFUSED_SITE as usize].to_owned();
        assert_eq!(functions.left_out, [(reason, 2)]);
        assert_eq!(report.rows.len(), 1);
        assert_eq!(
            (report.rows[0].target(), report.rows[0].calls),
            ("fn:vfs_read".into(), 5)
        );
        assert!(report.absent.is_empty());

        let session = session_of_functions(&["fn:vfs_write"]);
        let failure = measure(&fake, session, &Table::all(), |_| ()).unwrap_err();
        let wanted = "fn:vfs_write.isra.0 cannot be a target: it has no";
        assert!(failure.message.contains(wanted), "{}", failure.message);
        assert!(!failure.message.contains('\n'));
    }

    #[test]
    fn if_no_function_is_left_the_reasons_are_told() {
        let fake = Fake::default();
        for address in [0x10a0, 0x10c0] {
            fake.state().refusals.insert(address, REFUSED_SITE);
        }
        let session = session_of_functions(&["fn:twice@vmlinux"]);
        let failure = measure(&fake, session, &Table::all(), |_| ()).unwrap_err();
        let wanted = "none of these functions can be a target: it has no";
        assert!(failure.message.contains(wanted), "{}", failure.message);
        assert!(failure.message.contains("(2)"), "{}", failure.message);
    }

    #[test]
    fn functions_of_one_name_are_numbered() {
        let fake = Fake::default();
        for (address, calls) in [(0x10a0, 1), (0x10c0, 2), (0x3040, 3)] {
            fake.add_function(address, calls);
        }
        let session = session_of_functions(&["fn:twice"]);
        let (report, ()) = measure(&fake, session, &Table::all(), |_| ()).unwrap();
        let names: Vec<String> = report.rows.iter().map(Row::shown).collect();
        assert_eq!(names, ["twice [nfs]", "twice#2", "twice#1"]);
    }

    #[test]
    fn a_missed_call_is_listed_although_none_was_counted() {
        let fake = Fake::default();
        fake.add_stat(0, 0, 0, 0);
        fake.state().stats.get_mut(&0).unwrap().0.missed = 1;
        fake.state().stats.get_mut(&0).unwrap().0.missed_by[1] = 1;
        let (report, ()) = measure(&fake, session_of(&[0]), &Table::all(), |_| ()).unwrap();
        assert_eq!(report.missed(), 1);
        assert_eq!(report.missed_by(), [("flush".to_owned(), 1)]);
    }
}
