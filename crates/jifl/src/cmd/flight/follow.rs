// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl flight follow`: new records as they come.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use clap::Args;
use jifl_sys::device::Door;
use jifl_sys::os;

use super::choice::Choice;
use super::lines;
use crate::base::duration;
use crate::base::exit::{DONE, Failure};
use crate::kernel::syscalls::Table;
use crate::session::device;
use crate::session::flight::door::Copied;
use crate::session::flight::{Counts, Entry, Flight, Head, NotRead, counter, merge, ring};
use crate::session::scope::{self, End};
use crate::show::output::{self, Sink};
use crate::show::text::grouped;

/// Arguments of `jifl flight follow`.
#[derive(Debug, Args)]
#[command(after_help = "\
New records are shown five times a second, each time by their times. It ends with the recording,
after --for, or with Ctrl-C. At the end it says what was overwritten before it was read.

Examples:
  jifl flight follow -e sched
  jifl flight follow -p 4321 --for 10s")]
pub struct FollowArgs {
    /// Only these events and groups, with commas between them
    #[arg(short, long, value_name = "EVENT|GROUP", value_delimiter = ',')]
    events: Vec<String>,
    /// Only records of this thread
    #[arg(short = 'p', long, value_name = "TID")]
    tid: Option<u32>,
    /// End after this time: 5s, 100ms, 2m
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
    time: Option<Duration>,
}

/// Between two looks.
const PERIOD: Duration = Duration::from_millis(200);
/// So many of the newest records of a CPU may be half written when they are read, and are read once
/// more.
const FRESH: u64 = 64;

/// Runs the command.
pub fn run(args: &FollowArgs) -> Result<u8, Failure> {
    let door = device::open()?;
    let interrupt = os::catch_interrupts()
        .map_err(|error| Failure::failed(format!("catching Ctrl-C: {error}")))?;
    let end = args.time.and_then(|time| Instant::now().checked_add(time));
    let mut follower = Follower::begin(&door)?;
    let choice = Choice::of(&args.events, args.tid, &follower.flight)?;
    let calls = Table::all();
    let mut sink = Sink::Stdout;
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let pause = left.map_or(PERIOD, |left| left.min(PERIOD));
        let waited = scope::wait(None, interrupt.as_fd(), &[], Some(pause));
        let is_over = left.is_some_and(|left| left <= PERIOD) || !matches!(waited, Ok(End::Time));
        let goes_on = match follower.look(&door, is_over) {
            Ok(goes_on) => goes_on,
            Err(error) => return Err(Failure::failed(format!("reading the recording: {error}"))),
        };
        let mut text = String::new();
        for entry in &follower.flight.entries {
            if choice.has(entry) {
                text += &lines::person(&follower.flight, entry, &calls);
            }
        }
        sink.write(&text)?;
        if !goes_on || is_over {
            output::note(&follower.said(goes_on));
            return Ok(DONE);
        }
    }
}

/// How far a recording has been read.
struct Follower {
    /// With the records of the last look.
    flight: Flight,
    /// Of each CPU, the number of the next record.
    next: Vec<u64>,
    /// Of each CPU, a record that was not whole at the last look.
    doubtful: Vec<Option<u64>>,
    seen: u64,
    sums: Counts,
}

impl Follower {
    /// Reads from now on.
    fn begin(door: &impl Door) -> Result<Follower, Failure> {
        let mut live = Copied::live(door)?;
        let mut flight = Flight::read(&mut live).map_err(NotRead::failure)?;
        flight.entries.clear();
        let cpus = flight.begun.len();
        Ok(Follower {
            next: flight.begun.clone(),
            doubtful: vec![None; cpus],
            seen: 0,
            sums: Counts::default(),
            flight,
        })
    }

    /// Reads what is new; false: the recording has ended, or another one runs. is_last: what is half
    /// written now will not be read once more.
    fn look(&mut self, door: &impl Door, is_last: bool) -> io::Result<bool> {
        self.flight.entries.clear();
        let Ok(mut live) = Copied::live(door) else {
            return Ok(false);
        };
        let same = |head: &Head| {
            let (now, then) = (head.raw(), self.flight.head.raw());
            (now.tsc, now.record_count) == (then.tsc, then.record_count)
        };
        match live.head() {
            Ok(Some(page)) if Head::of(&page.to_bytes()).is_ok_and(|head| same(&head)) => {}
            _ => return Ok(false),
        }
        let mut of_cpus = Vec::new();
        for cpu in 0..self.next.len() {
            let entries = self.look_at(&mut live, cpu, is_last)?;
            self.seen += entries.len() as u64;
            of_cpus.push(entries);
        }
        self.flight.entries = merge(of_cpus);
        Ok(true)
    }

    fn look_at<D: Door>(
        &mut self,
        live: &mut Copied<'_, D>,
        cpu: usize,
        is_last: bool,
    ) -> io::Result<Vec<Entry>> {
        let head = &self.flight.head;
        let count = counter(head, live, cpu as u32)?;
        let oldest = count.saturating_sub(u64::from(head.raw().record_count));
        let from = self.next[cpu].max(oldest);
        self.sums.overwritten += from - self.next[cpu];
        let mut entries = Vec::new();
        let mut counts = ring(head, live, cpu as u32, from..count, &mut entries);
        let mut end = count;
        // The first record that is not whole may be whole at the next look, once.
        let whole = entries.iter().zip(from..);
        let gap = from
            + whole
                .take_while(|(entry, number)| entry.number == *number)
                .count() as u64;
        let is_doubtful = gap < count && count - gap <= FRESH && self.doubtful[cpu] != Some(gap);
        if is_doubtful && !is_last {
            self.doubtful[cpu] = Some(gap);
            entries.retain(|entry| entry.number < gap);
            end = gap;
            counts = Counts::default();
        }
        self.next[cpu] = end;
        // What is read and is another's was overwritten meanwhile.
        self.sums.overwritten += counts.others;
        self.sums.torn += counts.torn + counts.empty + counts.missing;
        Ok(entries)
    }

    fn said(&self, goes_on: bool) -> String {
        let mut text = format!(
            "# records {}; overwritten before they were read {}, torn {}",
            grouped(self.seen),
            grouped(self.sums.overwritten),
            self.sums.torn
        );
        if !goes_on {
            text += "; the recording has ended: what came after the last look was not read";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::session::fake::Fake;
    use crate::session::flight::made::{Made, SOFTIRQ};

    #[test]
    fn new_records_come_once_and_half_written_ones_later() {
        let fake = Fake::default();
        let mut made = Made::new(2, 64);
        made.put(0, 1, SOFTIRQ, 1, &[1]);
        let set = |made: &Made| fake.state().flight.region = Some(made.region());
        set(&made);
        let mut follower = Follower::begin(&fake).unwrap();
        let is_last = Cell::new(false);
        let mut look = || {
            let goes_on = follower.look(&fake, is_last.get()).unwrap();
            let seen = follower.flight.entries.iter().map(|entry| entry.raw.arg[0]);
            (goes_on, seen.collect::<Vec<u64>>(), follower.sums)
        };
        assert_eq!(look(), (true, vec![], Counts::default()));
        made.put(0, 3, SOFTIRQ, 1, &[2]).put(1, 2, SOFTIRQ, 1, &[3]);
        let before = made.clone();
        made.put(0, 4, SOFTIRQ, 1, &[4]);
        let mut torn = made.clone();
        set(torn.tear(0));
        assert_eq!(look().1, [3, 2]);
        set(&made);
        assert_eq!(look().1, [4]);
        drop(before);
        // One that stays half written is given up.
        set(made
            .put(0, 5, SOFTIRQ, 1, &[5])
            .tear(0)
            .put(0, 6, SOFTIRQ, 1, &[6]));
        assert!(look().1.is_empty());
        let (_, seen, sums) = look();
        assert_eq!((seen, sums.torn), (vec![6], 1));
        for n in 0..100 {
            made.put(0, 10 + n, SOFTIRQ, 1, &[7]);
        }
        set(&made);
        let (_, seen, sums) = look();
        assert_eq!((seen.len(), sums.overwritten), (64, 36));
        // The last look gives up what is half written, and shows what is behind it.
        set(made
            .put(0, 200, SOFTIRQ, 1, &[8])
            .tear(0)
            .put(0, 201, SOFTIRQ, 1, &[9]));
        is_last.set(true);
        let (_, seen, sums) = look();
        assert_eq!((seen, sums.torn), (vec![9], 2));
        fake.state().flight.region = None;
        assert!(!look().0);
        let said = follower.said(false);
        assert!(
            said.ends_with("what came after the last look was not read"),
            "{said}"
        );
    }
}
