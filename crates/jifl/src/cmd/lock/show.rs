// SPDX-License-Identifier: MIT OR Apache-2.0
//! How locks are shown.

use jifl_sys::abi::{
    LOCK_CMPXCHG, LOCK_OTHER_CONTENDED, LOCK_OTHER_WAIT_NS, LOCK_TYPES, LOCK_UNTIMED, Lock,
};
use serde::Serialize;

use super::rows::Rows;
use super::{By, LockArgs};
use crate::base::duration;
use crate::kernel::symbols::Symbols;
use crate::session::report::{self, Report};
use crate::session::table::Rest;
use crate::show::output;
use crate::show::table::table_within;
use crate::show::text::grouped;
use crate::show::text::json;

/// What a session has found.
pub struct Found {
    pub rows: Rows,
    /// What the module says beside.
    pub rest: Rest,
    pub report: Report,
    pub symbols: Symbols,
}

/// A line of ndjson. Of a cmpxchg there are retries alone, of others everything else.
#[derive(Serialize)]
struct Object<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    lock: Option<String>,
    lock_address: Option<String>,
    caller: Option<String>,
    caller_address: Option<String>,
    cmpxchg: Option<String>,
    cmpxchg_address: Option<String>,
    contended: Option<u64>,
    unfinished: Option<u64>,
    wait_ns: Option<u64>,
    max_ns: Option<u64>,
    retries: Option<u64>,
}

fn kind(lock: &Lock) -> &'static str {
    LOCK_TYPES.get(lock.kind as usize).copied().unwrap_or("?")
}

fn address(address: u64) -> Option<String> {
    (address != 0).then(|| format!("{address:#x}"))
}

impl Found {
    /// What is to be known beside the data.
    pub fn note(&self) {
        if self.report.cut_short {
            output::note(
                "jifl: the session was ended from outside (`jifl detach`); this is what it had \
                 seen",
            );
        }
        if self.symbols.is_empty() {
            output::note(
                "jifl: /proc/kallsyms shows no addresses here, so locks and callers have no names: \
                 be root, and see kernel.kptr_restrict",
            );
        }
        if self.rest[LOCK_OTHER_CONTENDED] > 0 {
            output::note(&format!(
                "jifl: {} waits and retries, {} of waiting, are of locks and callers that found no \
                 room, and not in this: load the module with a larger lock_cells",
                grouped(self.rest[LOCK_OTHER_CONTENDED]),
                duration::show(self.rest[LOCK_OTHER_WAIT_NS])
            ));
        }
        if self.rest[LOCK_UNTIMED] > 0 {
            output::note(&format!(
                "jifl: {} waits have no time: too many waited at once",
                grouped(self.rest[LOCK_UNTIMED])
            ));
        }
    }

    /// A variable, where it is one; else the address.
    fn lock(&self, lock: &Lock) -> String {
        if lock.lock == 0 {
            return "(unknown)".into();
        }
        if lock.percpu != 0 {
            let variable = self.symbols.variable(lock.percpu);
            let name =
                variable.map_or_else(|| format!("{:#x}", lock.percpu), |place| place.shown());
            return format!("{name} of CPU {}", lock.cpu);
        }
        match self.symbols.variable(lock.lock) {
            Some(place) => place.shown(),
            None => format!("{:#x}", lock.lock),
        }
    }

    fn code(&self, address: u64) -> String {
        match self.symbols.function(address) {
            _ if address == 0 => "(unknown)".into(),
            Some(place) => place.shown(),
            None => format!("{address:#x}"),
        }
    }

    /// The columns that tell rows from each other.
    fn names(&self, lock: &Lock, by: &[By]) -> Vec<String> {
        let mut names = Vec::new();
        if by.contains(&By::Lock) {
            names.push(self.lock(lock));
        }
        if by.contains(&By::Caller) {
            names.push(self.code(lock.caller));
        }
        names
    }

    fn heading(by: &[By], titles: &[&str]) -> Vec<String> {
        let names = [(By::Lock, "LOCK"), (By::Caller, "CALLER")];
        let names = names.iter().filter(|(name, _)| by.contains(name));
        let names = names.map(|(_, title)| *title);
        names
            .chain(titles.iter().copied())
            .map(str::to_owned)
            .collect()
    }

    /// The tables that there is something in, and what the session cost.
    pub fn text(&self, args: &LockArgs, width: Option<usize>) -> String {
        let tables = [self.waits(args), self.retries(args)];
        let tables = tables.iter().filter(|table| table.len() > 1);
        let tables: Vec<String> = tables
            .map(|table| table_within(table, args.by.len(), width))
            .collect();
        tables.join("\n") + &self.summary() + "\n" + &report::cost(&self.report)
    }

    fn waits(&self, args: &LockArgs) -> Vec<Vec<String>> {
        let titles = ["TYPE", "CONTENDED", "TOTAL WAIT", "MAX WAIT", "AVG WAIT"];
        let mut lines = vec![Found::heading(&args.by, &titles)];
        for lock in self.rows.waits.iter().take(args.limit()) {
            let mut line = self.names(lock, &args.by);
            line.extend([kind(lock).to_owned(), grouped(lock.contended)]);
            line.extend(times(lock));
            lines.push(line);
        }
        lines
    }

    fn retries(&self, args: &LockArgs) -> Vec<Vec<String>> {
        let mut lines = vec![Found::heading(&args.by, &["CMPXCHG", "RETRIES"])];
        for lock in self.rows.retries.iter().take(args.limit()) {
            let mut line = self.names(lock, &args.by);
            line.extend([self.code(lock.site), grouped(lock.contended)]);
            lines.push(line);
        }
        lines
    }

    /// One line, which says so where there is nothing.
    pub fn summary(&self) -> String {
        let calls: u64 = self.report.rows.iter().map(|row| row.calls).sum();
        let (calls, waits) = (grouped(calls), &self.rows.waits);
        if waits.is_empty() && self.rows.retries.is_empty() && self.rest[LOCK_OTHER_CONTENDED] == 0
        {
            return format!("# no lock was waited for and nothing tried again in {calls} calls");
        }
        let of = |figure: fn(&Lock) -> u64| grouped(waits.iter().map(figure).sum());
        let retries = self.rows.retries.iter().map(|lock| lock.contended).sum();
        format!(
            "# {calls} calls; locks waited for {} times, {} in all; waits whose end was not seen \
             {}; retries {}",
            of(|lock| lock.contended),
            duration::show(waits.iter().map(|lock| lock.wait_ns).sum()),
            of(unfinished),
            grouped(retries)
        )
    }

    /// A line for each row.
    pub fn ndjson(&self, args: &LockArgs) -> String {
        let rows = [&self.rows.waits, &self.rows.retries];
        let rows = rows.iter().flat_map(|rows| rows.iter().take(args.limit()));
        rows.map(|lock| json(&self.object(lock, &args.by)))
            .collect()
    }

    fn object(&self, lock: &Lock, by: &[By]) -> Object<'static> {
        let retried = lock.kind == LOCK_CMPXCHG;
        let waited = |value| (!retried).then_some(value);
        Object {
            kind: kind(lock),
            lock: by.contains(&By::Lock).then(|| self.lock(lock)),
            lock_address: address(lock.lock),
            caller: by.contains(&By::Caller).then(|| self.code(lock.caller)),
            caller_address: address(lock.caller),
            cmpxchg: retried.then(|| self.code(lock.site)),
            cmpxchg_address: address(lock.site),
            contended: waited(lock.contended),
            unfinished: waited(unfinished(lock)),
            wait_ns: waited(lock.wait_ns),
            max_ns: waited(lock.max_ns),
            retries: retried.then_some(lock.contended),
        }
    }
}

fn unfinished(lock: &Lock) -> u64 {
    lock.contended.saturating_sub(lock.ended)
}

/// All together, the longest and the mean; of waits whose end was seen.
fn times(lock: &Lock) -> [String; 3] {
    if lock.ended == 0 {
        return ["-", "-", "-"].map(str::to_owned);
    }
    [lock.wait_ns, lock.max_ns, lock.wait_ns / lock.ended].map(duration::show)
}

#[cfg(test)]
mod tests {
    use super::super::rows::{rows, tests::lock};
    use super::*;
    use crate::base::parse::parse;
    use jifl_sys::abi::Kind;

    fn found(locks: &[Lock], args: &LockArgs) -> Found {
        Found {
            rows: rows(locks, &args.by),
            rest: [0; 3],
            report: report::tests::empty(Kind::Lock),
            symbols: Symbols::parse(
                "1f000 A runqueues\nffffffff81000000 T outer\nffffffff81000100 t inner\t[nfs]\n\
                 ffffffff82000000 D the_mutex\n",
            ),
        }
    }

    const MUTEX: u64 = 0xffff_ffff_8200_0000;
    const CALLER: u64 = 0xffff_ffff_8100_0010;

    fn sample() -> [Lock; 3] {
        let queue = Lock {
            percpu: 0x1f000,
            cpu: 3,
            ended: 0,
            ..lock(0, 0xffff_8880_0001_f000, CALLER, 0)
        };
        let retry = Lock {
            site: CALLER + 0x100,
            ..lock(LOCK_CMPXCHG, 0, CALLER, 0)
        };
        [queue, lock(3, MUTEX, CALLER, 1_500_000), retry]
    }

    #[test]
    fn waits_and_retries_have_a_table_each() {
        let args: LockArgs = parse("sys:read").unwrap();
        assert_eq!(
            found(&sample(), &args).text(&args, None),
            "LOCK                    CALLER      TYPE  CONTENDED  TOTAL WAIT  MAX WAIT  AVG WAIT\n\
             the_mutex           outer+0x10     mutex          1      1.5 ms    1.5 ms    1.5 ms\n\
             runqueues of CPU 3  outer+0x10  spinlock          1           -         -         -\n\
             \n\
             LOCK           CALLER           CMPXCHG  RETRIES\n\
             (unknown)  outer+0x10  inner+0x10 [nfs]        1\n\
             # 0 calls; locks waited for 2 times, 1.5 ms in all; waits whose end was not seen 1; retries 1\n\
             # translation 0 ns once, 0 blocks; native exits 0; missed 0\n"
        );
        let args: LockArgs = parse("sys:read --by lock --limit 1").unwrap();
        let text = found(&sample(), &args).text(&args, None);
        assert!(text.starts_with("LOCK        TYPE  CONTENDED"), "{text}");
        assert!(!text.contains("runqueues"), "{text}");
    }

    #[test]
    fn where_nothing_was_waited_for_one_line_says_so() {
        let args: LockArgs = parse("sys:read").unwrap();
        let text = found(&[], &args).text(&args, None);
        let first = text.lines().next().unwrap();
        assert_eq!(
            first,
            "# no lock was waited for and nothing tried again in 0 calls"
        );
    }

    #[test]
    fn programs_get_an_object_for_each() {
        let args: LockArgs = parse("sys:read -f ndjson").unwrap();
        let text = found(&sample(), &args).ndjson(&args);
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0]["type"], "mutex");
        assert_eq!(lines[0]["lock_address"], "0xffffffff82000000");
        assert_eq!(
            (&lines[0]["wait_ns"], &lines[0]["unfinished"]),
            (&1_500_000.into(), &0.into())
        );
        assert_eq!(lines[1]["unfinished"], 1);
        assert_eq!(
            (&lines[2]["retries"], &lines[2]["contended"]),
            (&1.into(), &serde_json::Value::Null)
        );
        assert_eq!(lines[2]["cmpxchg"], "inner+0x10 [nfs]");
    }
}
