// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stand-in for the device, for unit tests.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard};

use jifl_sys::abi::{
    ABI_VERSION, Block, Entry, HIT_MAX, Hit, Record, Replacement, SessionInfo, Start, Stat, Status,
    TARGET_FUNCTION, TARGET_OPTIONAL, TableRead, TargetSpec, WarmBlock, to_name,
};
use jifl_sys::device::{BlockParts, Door, Histogram, Request, Rows};
use rustix::io::Errno;

/// What the stand-in knows and was told.
pub struct State {
    pub abi_version: u32,
    pub started: Option<jifl_sys::abi::Start>,
    /// Of that session.
    pub targets: Vec<TargetSpec>,
    /// Answer to Start: EBUSY with this call and session.
    pub busy: Option<(u32, u64)>,
    pub running: bool,
    /// Calls that the made-up kernel does not have.
    pub lacking: Vec<u32>,
    pub stats: BTreeMap<u32, (Stat, Vec<(usize, u64)>)>,
    /// Calls of functions, by their addresses.
    pub functions: BTreeMap<u64, u64>,
    /// Functions that cannot be entered, by their addresses, with the reason.
    pub refusals: BTreeMap<u64, u32>,
    /// Totals while no session of ours runs; `after` once it has run.
    pub before: Status,
    pub after: Status,
    pub sessions: Vec<SessionInfo>,
    pub plugins: Vec<(String, bool)>,
    /// Lines of each plugin's ring, and how many are lost; none without a ring.
    pub lines: BTreeMap<String, (Vec<String>, u64)>,
    pub replacements: Vec<Replacement>,
    pub flight: super::flight::fake::Recorder,
    /// Analysis routines: name, copies, calls, reason.
    pub routines: Vec<(String, u64, u64, u32)>,
    /// The cache; an index is a place here.
    pub blocks: Vec<(Block, BlockParts)>,
    /// Answer to Block.
    pub hidden: Option<Errno>,
    /// Of each CPU, what has not been taken.
    pub records: Vec<Vec<Record>>,
    /// Of each CPU, what programs have recorded and has not been taken; none: nothing is recorded.
    pub hits: Vec<Vec<u8>>,
    /// Makes one more record of CPU 0, whenever it is asked for records: they never end.
    pub refill: Option<Refill>,
    /// Answer to Start: EBADRQC with this program and op.
    pub bad_program: Option<(u32, u32)>,
    /// Of tables: each fills room for entries of its own type.
    tables: Vec<TableAnswer>,
    /// Blocks that were to be translated; those of an odd length are other code.
    pub warmed: Vec<WarmBlock>,
    /// Answer to the next Warm.
    pub warm_fails: Option<Errno>,
    pub draining: u32,
    pub drain_ns: u64,
}

type Refill = Box<dyn FnMut() -> Vec<u8> + Send>;
type TableAnswer = Box<dyn Fn(&mut TableRead, &mut Rows<'_>) + Send>;

/// The stand-in.
pub struct Fake(Mutex<State>);

impl Default for Fake {
    fn default() -> Fake {
        Fake(Mutex::new(State {
            abi_version: ABI_VERSION,
            started: None,
            targets: Vec::new(),
            busy: None,
            running: false,
            lacking: Vec::new(),
            stats: BTreeMap::new(),
            functions: BTreeMap::new(),
            refusals: BTreeMap::new(),
            before: Status::default(),
            after: Status::default(),
            sessions: Vec::new(),
            plugins: Vec::new(),
            lines: BTreeMap::new(),
            replacements: Vec::new(),
            flight: Default::default(),
            routines: Vec::new(),
            blocks: Vec::new(),
            hidden: None,
            records: Vec::new(),
            hits: Vec::new(),
            refill: None,
            bad_program: None,
            tables: Vec::new(),
            warmed: Vec::new(),
            warm_fails: None,
            draining: 0,
            drain_ns: 0,
        }))
    }
}

impl Fake {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub fn add_session(&self, id: u64, name: &str) {
        self.state().sessions.push(SessionInfo {
            id,
            kind: 2,
            owner: 100 + id as i32,
            targets: 1,
            calls: 7,
            name: to_name(name.as_bytes()).unwrap(),
            ..SessionInfo::default()
        });
    }

    /// `calls` calls of the function at an address.
    pub fn add_function(&self, address: u64, calls: u64) {
        self.state().functions.insert(address, calls);
    }

    /// The table of these entries, and what is beside them.
    pub fn add_table<E: Entry + Send>(&self, entries: Vec<E>, rest: [u64; 3]) {
        let answer = move |asked: &mut TableRead, rows: &mut Rows<'_>| {
            let Some(room) = rows.of::<E>() else { return };
            let behind = entries.get(asked.from as usize..).unwrap_or_default();
            let n = behind.len().min(room.len());
            room[..n].copy_from_slice(&behind[..n]);
            (asked.n, asked.rest) = (n as u32, rest);
        };
        self.state().tables.push(Box::new(answer));
    }

    /// `calls` calls of `nr`, each of them `value`.
    pub fn add_stat(&self, nr: u32, calls: u64, value: u64, bucket: usize) {
        let mut stat = Stat::default();
        (stat.calls, stat.sum, stat.blocks) = (calls, calls * value, 10);
        (stat.min, stat.max) = (value, value);
        self.state().stats.insert(nr, (stat, vec![(bucket, calls)]));
    }
}

/// What the module does with targets that are functions.
fn refuse_functions(
    refusals: &BTreeMap<u64, u32>,
    start: &mut Start,
    targets: &mut [TargetSpec],
) -> Option<Errno> {
    for target in targets.iter_mut() {
        target.refused = refusals.get(&target.address).copied().unwrap_or(0);
    }
    let refused = |target: &TargetSpec| target.refused != 0;
    let fatal = |target: &TargetSpec| refused(target) && target.flags & TARGET_OPTIONAL == 0;
    if let Some(index) = targets.iter().position(fatal) {
        start.busy_target = index as u32;
        return Some(Errno::OPNOTSUPP);
    }
    targets.iter().all(refused).then_some(Errno::INVAL)
}

fn refuse(errno: Errno) -> io::Result<()> {
    Err(errno.into())
}

impl Door for Fake {
    fn call(&self, request: Request<'_>) -> io::Result<()> {
        let mut state = self.state();
        match request {
            Request::Info(info) => {
                info.abi_version = state.abi_version;
                info.version = to_name(b"0.1.0").unwrap();
            }
            Request::Start(start, lists) => {
                let targets = lists.targets;
                if let Some((nr, session)) = state.busy {
                    let busy = targets.iter().position(|target| target.id == u64::from(nr));
                    start.busy_target = busy.unwrap_or_default() as u32;
                    start.busy_session = session;
                    return refuse(Errno::BUSY);
                }
                if let Some(errno) = refuse_functions(&state.refusals, start, targets) {
                    return refuse(errno);
                }
                if let Some((action, op)) = state.bad_program {
                    (start.bad_action, start.bad_op) = (action, op);
                    return refuse(Errno::BADRQC);
                }
                start.session = 42;
                state.started = Some(*start);
                state.targets = targets.to_vec();
                state.running = true;
            }
            Request::Stop(stop) => {
                if !state.running {
                    return refuse(Errno::NOENT);
                }
                state.running = false;
                stop.draining = state.draining;
                stop.drain_ns = state.drain_ns;
            }
            Request::Stat(stat, histogram) => {
                let target = state.targets.get(stat.target as usize);
                let Some(target) = target.filter(|target| target.refused == 0) else {
                    return refuse(Errno::NOENT);
                };
                if target.kind == TARGET_FUNCTION {
                    stat.calls = *state.functions.get(&target.address).unwrap_or(&0);
                    return Ok(());
                }
                let nr = target.id as u32;
                if state.lacking.contains(&nr) {
                    return refuse(Errno::NOENT);
                }
                if let Some((known, counts)) = state.stats.get(&nr) {
                    *stat = *known;
                    fill(histogram, counts);
                }
            }
            Request::Status(status) => {
                *status = if state.started.is_some() {
                    state.after
                } else {
                    state.before
                };
            }
            Request::Session(info) => {
                let next = state.sessions.iter().find(|known| known.id > info.id);
                match next {
                    Some(known) => *info = *known,
                    None => return refuse(Errno::NOENT),
                }
            }
            Request::Detach(detach) => {
                let before = state.sessions.len();
                let id = detach.id;
                state.sessions.retain(|known| id != 0 && known.id != id);
                detach.ended = (before - state.sessions.len()) as u32;
                detach.drain_ns = state.drain_ns;
                if id != 0 && detach.ended == 0 {
                    return refuse(Errno::NOENT);
                }
            }
            Request::PluginCtl(ctl) => {
                let name = jifl_sys::abi::from_name(&ctl.name);
                let start = ctl.start == 1;
                match state.plugins.iter_mut().find(|known| known.0 == name) {
                    None => return refuse(Errno::NOENT),
                    Some((_, started)) if *started == start => return refuse(Errno::ALREADY),
                    Some((_, started)) => *started = start,
                }
            }
            Request::Plugin(info) => match state.plugins.get(info.index as usize) {
                Some((name, started)) => {
                    info.name = to_name(name.as_bytes()).unwrap();
                    info.started = u32::from(*started);
                }
                None => return refuse(Errno::NOENT),
            },
            Request::PluginRead(read, room) => {
                let name = jifl_sys::abi::from_name(&read.name);
                let known = state.plugins.iter().find(|known| known.0 == name);
                read.started = match known {
                    Some((_, started)) => u32::from(*started),
                    None => return refuse(Errno::NOENT),
                };
                let Some((lines, lost)) = state.lines.get_mut(&name) else {
                    return refuse(Errno::NODATA);
                };
                // One line at a time, so that the caller must ask again.
                let line = if lines.is_empty() {
                    String::new()
                } else {
                    lines.remove(0)
                };
                room[..line.len()].copy_from_slice(line.as_bytes());
                read.n = line.len() as u32;
                read.records = u32::from(!line.is_empty());
                read.lost = *lost;
            }
            Request::Records(records, room) => {
                let Some(all) = state.records.get_mut(records.cpu as usize) else {
                    return refuse(Errno::INVAL);
                };
                let n = all.len().min(room.len());
                room[..n].copy_from_slice(&all[..n]);
                all.drain(..n);
                records.n = n as u32;
            }
            Request::Hits(read, room) => {
                let State { hits, refill, .. } = &mut *state;
                let none = if hits.is_empty() {
                    Errno::NOENT
                } else {
                    Errno::INVAL
                };
                let Some(all) = hits.get_mut(read.cpu as usize) else {
                    return refuse(none);
                };
                if let Some(refill) = refill.as_mut().filter(|_| read.cpu == 0) {
                    while all.len() < room.len() + HIT_MAX {
                        all.extend(refill());
                    }
                }
                let mut n = 0;
                while let Some((hit, ..)) = Hit::split(&all[n..]) {
                    if n + hit.size as usize > room.len() {
                        break;
                    }
                    n += hit.size as usize;
                }
                room[..n].copy_from_slice(&all[..n]);
                all.drain(..n);
                read.bytes = n as u32;
            }
            Request::Table(asked, mut rows) => {
                asked.n = 0;
                for answer in &state.tables {
                    answer(asked, &mut rows);
                }
            }
            // Two devices share interrupt 4. No other is handled.
            Request::Irq(irq) => match (irq.irq, irq.action) {
                (4, 0 | 1) => {
                    irq.handler = 0x1010 + u64::from(irq.action);
                    irq.name = to_name(b"ttyS0").unwrap();
                }
                _ => return refuse(Errno::NOENT),
            },
            Request::Replacement(asked) => {
                let mut all = state.replacements.iter();
                match all.find(|known| known.session > asked.session) {
                    Some(known) => *asked = *known,
                    None => return refuse(Errno::NOENT),
                }
            }
            Request::Flight(asked, room) => return state.flight.answer(asked, room),
            Request::Warm(warm, blocks) => {
                if let Some(errno) = state.hidden.or(state.warm_fails.take()) {
                    return refuse(errno);
                }
                state.warmed.extend_from_slice(blocks);
                let other = blocks.iter().filter(|block| block.src_len % 2 == 1);
                warm.other = other.count() as u32;
                warm.present = blocks.len() as u32 - warm.other;
                warm.blocks = u64::from(warm.present) + 1;
            }
            Request::Routine(info) => match state.routines.get(info.index as usize) {
                Some((name, copies, calls, reason)) => {
                    info.name = to_name(name.as_bytes()).unwrap();
                    info.copies = *copies;
                    info.calls = *calls;
                    info.reason = *reason;
                }
                None => return refuse(Errno::NOENT),
            },
            Request::Block(block, parts) => {
                if let Some(errno) = state.hidden {
                    return refuse(errno);
                }
                let mut from = state.blocks.iter().enumerate().skip(block.index as usize);
                let session = block.session;
                let of = |block: &Block| session == 0 || block.sessions.contains(&session);
                match from.find(|(_, (known, _))| of(known)) {
                    Some((index, (known, known_parts))) => {
                        *block = *known;
                        block.index = index as u32;
                        *parts = known_parts.clone();
                    }
                    None => return refuse(Errno::NOENT),
                }
            }
        }
        Ok(())
    }
}

fn fill(histogram: Option<&mut Histogram>, counts: &[(usize, u64)]) {
    if let Some(histogram) = histogram {
        histogram.fill(0);
        for (bucket, count) in counts {
            histogram[*bucket] = *count;
        }
    }
}
