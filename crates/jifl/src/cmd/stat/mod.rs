// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl stat`: how often functions are called, and how long tasks are in them: running, blocked,
//! or runnable.

mod below;
pub mod by;
pub mod counters;
pub mod distribution;
mod live;
pub mod metric;
mod remote;
pub mod sheet;
pub mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use jifl_sys::abi::{
    COUNTER_DISTRIBUTION, Counter, FILTER_LEVELS, Kind, Splice, TIMES_ENTER, TIMES_JUMP,
    TIMES_LEAVE,
};
use serde_json::{Value as Json, json};

use self::by::{By, Subject};
use self::counters::INTERRUPTS;
use self::live::{Live, Writer};
use self::metric::{Metric, USUAL};
use self::sheet::{Keys, Row, Sheet};
use self::source::Ended;
use crate::base::duration;
use crate::base::exit::Failure;
use crate::cmd::count::Context;
use crate::cmd::probe::place::{Manner, Places};
use crate::cmd::probe::word::Word;
use crate::cmd::probe::{find_in, note_left_out, settle};
use crate::cmd::remote::host::Host;
use crate::expr::At;
use crate::kernel::memory::{Kcore, Memory};
use crate::kernel::pattern::Pattern;
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::session::device;
use crate::session::measure::Session;
use crate::session::scope::{self, Outcome, Tasks};
use crate::session::targets::Target;
use crate::show::output::{self, Sink, width};
use crate::show::text::{self, grouped};

/// Functions of one session: bounds what the module keeps for each task.
pub const FUNCTIONS_MAX: usize = 512;

/// How the report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    Text,
    /// One object on one line
    Json,
    /// An object on a line for each interval of -i; then the report
    Ndjson,
    /// A line for each function; with -i for each in each interval
    Csv,
}

/// Arguments of `jifl stat`.
#[derive(Debug, Args)]
#[command(after_help = "\
METRIC, several with commas:
  calls        calls that began
  wall         time from the beginning of calls to their end, of all tasks together
  cpu          of that, the time in which the task ran
  blocked      the time in which it slept, until it was woken
  runnable     the time in which it could run and did not: it had been woken, or preempted
  concurrency  how many tasks were inside, on average
  interrupts   the time that interrupts and softirqs took meanwhile; it is in cpu, but with
               --no-interrupts
  tracepoint:SUBSYSTEM:NAME    how often the task came to this tracepoint meanwhile
  perf:EVENT                   what the processor counted while the task ran: perf:cycles,
                               perf:page-faults, as `perf list` names them, perf:rNNNN
  sum:EXPR                     a value of each call, added up if it is not below 0: sum:$ret,
                               sum:count; expressions as for `jifl probe --hist`
  hist:EXPR                    how such values are distributed, by powers of two; hist:wall,
                               hist:cpu, hist:blocked, hist:runnable: of the time of each call, in
                               nanoseconds
  vmstat:NAME, snmp:GROUP.NAME    the same of /proc/vmstat, /proc/net/snmp, /proc/net/netstat
  var:NAME                     how much this variable of the kernel grew, 8 bytes, by anybody; one
                               that each processor has: while the task ran there
  A/B          a ratio: wall/calls, blocked/wall; calls/s is a rate
wall = cpu + blocked + runnable, to the nanosecond.

A call ends where the function returns, or jumps to another function. What it calls is in its time.
Calls of one function inside each other are one time. Calls that had begun before count from the
session's beginning on, and those that have not ended count until its end.

Examples:
  jifl stat fn:vfs_read fn:vfs_write --for 10s
  jifl stat wall,blocked/wall fn:do_sys_openat2 -- ls -R /usr/share
  jifl stat 'fn:ext4_*' -p 1234 -i 1s
  jifl stat calls,tracepoint:kmem:kmem_cache_alloc/calls fn:vfs_read -- cat /etc/hostname
  jifl stat calls,hist:count,hist:wall fn:vfs_read -- cat /etc/hostname
  jifl stat calls/s,wall/calls fn:tcp_sendmsg --context task -f csv --for 5s")]
pub struct StatArgs {
    /// What to show, with commas; then fn:NAME, fn:GLOB, mod:NAME: functions
    #[arg(required = true, value_name = "[METRIC,...] FUNCTION")]
    words: Vec<String>,
    /// A row for each of what calls are about: 'file->f_inode->i_ino', caller, comm, or any EXPR
    #[arg(long, value_name = "EXPR,...")]
    by: Option<String>,
    /// The time of interrupts is in none of the figures of the task that they interrupt
    #[arg(long)]
    no_interrupts: bool,
    /// Only calls in these contexts
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CONTEXT")]
    context: Vec<Context>,
    /// Show each so long what has been counted since, too: 1s, 500ms
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse)]
    interval: Option<Duration>,
    /// How the report is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    /// Write the output to FILE
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Functions in text
    #[arg(long, value_name = "N", default_value_t = 30)]
    limit: usize,
    /// Go on although more than 1,000 places are meant
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    tasks: Tasks,
}

/// Runs the command; the result is the exit status. `host`: whose functions; without it those of
/// this machine.
///
/// # Errors
/// What is asked for cannot be, or the session is refused.
pub fn run(args: &StatArgs, host: Option<&Host>) -> Result<u8, Failure> {
    if args.format == Format::Json && args.interval.is_some() {
        return Err(Failure::usage(
            "-i does not go with -f json: give -f ndjson",
        ));
    }
    let mut asked = read(&args.words)?;
    if let Some(host) = host {
        return remote::run(args, &asked, host);
    }
    let interrupts = match args.no_interrupts {
        true => Some(without_interrupts(&mut asked.counters)?),
        false => None,
    };
    let mut memory = Kcore::open()?;
    let counters = counters::counters(&asked.counters, &mut memory)?;
    let levels = args.context.iter().fold(0, |all, one| all | one.bit());
    let manner = Manner {
        confirmed: args.yes,
        programs: true,
        lenient: false,
        by_name: false,
    };
    let by = args.by.as_deref();
    let mut looked = session(&asked.places, by, counters, manner, levels, &mut memory)?;
    looked.subject.interrupts = interrupts;
    note_left_out(&looked.left_out);
    let sink = Sink::open(args.output.as_deref())?;
    observe(args, &asked.metrics, &looked.subject, looked.session, sink)
}

/// The counter of the time of interrupts, which is to be taken off the times.
///
/// # Errors
/// The counters are too many, or one is about times that keep it.
pub fn without_interrupts(counters: &mut Vec<String>) -> Result<usize, Failure> {
    if let Some(one) = counters.iter().find(|one| counters::took(one).is_some()) {
        return Err(Failure::usage(format!(
            "{one} does not go with --no-interrupts: it is of each call's whole time"
        )));
    }
    metric::counted(INTERRUPTS, counters)
}

/// What the words ask for.
struct Asked {
    metrics: Vec<Metric>,
    /// Those that the metrics name.
    counters: Vec<String>,
    /// The functions, as words.
    functions: Vec<String>,
    /// For each function, or glob of functions, the words for its beginning and its ends.
    places: Vec<Word>,
}

fn read(words: &[String]) -> Result<Asked, Failure> {
    let (lists, functions): (Vec<_>, Vec<_>) = words.iter().partition(|word| Metric::is_list(word));
    let mut counters = Vec::new();
    let mut metrics = Vec::new();
    for list in &lists {
        metrics.extend(Metric::list(list, &mut counters)?);
    }
    if lists.is_empty() {
        metrics = Metric::list(USUAL, &mut counters)?;
    }
    let names: Vec<String> = functions
        .into_iter()
        .map(|word| function(word))
        .collect::<Result<_, _>>()?;
    if names.is_empty() {
        return Err(Failure::usage(
            "name the functions: fn:NAME, fn:GLOB, mod:NAME",
        ));
    }
    Ok(Asked {
        metrics,
        counters,
        places: both(&names)?,
        functions: names,
    })
}

/// Of functions, `fn:NAME`, the words for their beginnings and their ends.
///
/// # Errors
/// One of them is no name.
pub fn both(names: &[String]) -> Result<Vec<Word>, Failure> {
    let words = names
        .iter()
        .flat_map(|name| [name.clone(), format!("{name}%return")]);
    words.map(|word| Word::parse(&word)).collect()
}

/// The same functions as a word for places has them.
///
/// # Errors
/// It is no function, glob or module.
pub fn function(word: &str) -> Result<String, Failure> {
    let refused = || Failure::usage(format!("{word}: give fn:NAME, fn:GLOB or mod:NAME"));
    // These make words for places of names.
    let is_name =
        |name: &str| !name.contains(|one: char| ":+%".contains(one) || one.is_whitespace());
    if let Some(module) = word.strip_prefix("mod:") {
        return match !module.is_empty() && is_name(module) {
            true => Ok(format!("fn:*@{module}")),
            false => Err(refused()),
        };
    }
    match word.strip_prefix("fn:").is_some_and(is_name) && Pattern::parse(word).is_some() {
        true => Ok(word.to_owned()),
        false => Err(refused()),
    }
}

/// What is looked at.
pub struct Looked {
    /// The session.
    pub session: Session,
    /// What it is about.
    pub subject: Subject,
    /// What of the words is left out; empty: nothing.
    pub left_out: String,
    /// For sessions inside.
    pub known: Known,
}

/// Functions whose beginnings and ends are known. While a session is about them, its breakpoints
/// hide what stands there.
#[derive(Debug, Clone)]
pub struct Known {
    targets: Vec<Target>,
    places: Places,
    words: Vec<Word>,
}

impl Known {
    /// The session about one of them, by what its calls are about.
    ///
    /// # Errors
    /// `by` means nothing in the function.
    pub fn about(&self, row: &Row, by: &str) -> Result<Looked, Failure> {
        let is_it = |target: &Target| {
            let function = target.function();
            function.is_some_and(|one| one.address == row.address)
        };
        let Some(at) = self.targets.iter().position(is_it) else {
            return Err(Failure::failed(format!("{}: not known", row.shown())));
        };
        let mut places = self.places.clone();
        places.keep(|splice| splice.target as usize == at);
        for splice in &mut places.splices {
            splice.target = 0;
        }
        let known = Known {
            targets: vec![self.targets[at].clone()],
            places,
            words: self.words.clone(),
        };
        known.looked(Some(by), Vec::new(), 0, String::new())
    }

    fn looked(
        self,
        by: Option<&str>,
        counters: Vec<(String, Counter)>,
        levels: u32,
        left_out: String,
    ) -> Result<Looked, Failure> {
        let row = |(target, one): (usize, &Target)| {
            let function = one.function()?;
            Some(Row {
                function: function.name.clone(),
                module: function.module.as_ref().map(ToString::to_string),
                address: function.address,
                target,
                keys: Keys::default(),
            })
        };
        let functions = self.targets.iter().enumerate().filter_map(row).collect();
        let mut session = Session::new(Kind::Times, 0, self.targets.clone());
        if levels != 0 {
            session.start.filters |= FILTER_LEVELS;
            session.start.levels = levels;
        }
        let mut places = self.places.clone();
        let values = counters::values(&counters);
        let mut subject = None;
        if by.is_some() || !values.is_empty() {
            let targets = self.targets.len();
            let (by, programs) = By::of(by, values, &mut places, &self.words, targets)?;
            session.programs = programs;
            subject = by;
        }
        let by = subject;
        let is_one = |(_, one): &(String, Counter)| one.kind == COUNTER_DISTRIBUTION;
        let distributes = counters.iter().any(is_one);
        session.counters = counters;
        session.splices = places.splices;
        Ok(Looked {
            session,
            subject: Subject {
                functions,
                by,
                interrupts: None,
                distributes,
            },
            left_out,
            known: self,
        })
    }
}

/// The session about these functions. `words`: two for each function or glob, as
/// [`both`] makes them. by: what calls are about. counters: what is counted beside times. memory:
/// the kernel's.
///
/// # Errors
/// They mean no function that can be looked at, or too many. `by` means nothing in one of them.
pub fn session(
    words: &[Word],
    by: Option<&str>,
    counters: Vec<(String, Counter)>,
    manner: Manner,
    levels: u32,
    memory: &mut dyn Memory,
) -> Result<Looked, Failure> {
    let symbols = Symbols::of_kernel();
    let mut places = find_in(words, None, manner, &symbols, memory)?;
    let all = places.targets.len();
    whole(&mut places, words);
    places.targets = with_places(std::mem::take(&mut places.targets), &mut places.splices);
    let endless = all - places.targets.len();
    if places.targets.len() > FUNCTIONS_MAX {
        return Err(Failure::usage(format!(
            "these are {} functions, and a session has at most {}: give narrower patterns",
            grouped(places.targets.len() as u64),
            grouped(FUNCTIONS_MAX as u64)
        )));
    }
    let why = format!("{endless} functions are left out: they never return, or begin in a loop");
    if places.targets.is_empty() {
        return Err(Failure::usage(why));
    }
    let targets = std::mem::take(&mut places.targets);
    let mut session = Session::new(Kind::Times, 0, targets);
    let mut left_out = settle(&mut session, &mut places, words, &symbols)?;
    if endless > 0 {
        let before = if left_out.is_empty() { "" } else { "; " };
        left_out += before;
        left_out += &why;
    }
    let known = Known {
        targets: with_places(session.targets, &mut places.splices),
        places,
        words: words.to_vec(),
    };
    known.looked(by, counters, levels, left_out)
}

/// The targets that have places; these name them by their new numbers.
fn with_places(targets: Vec<Target>, splices: &mut [Splice]) -> Vec<Target> {
    let having: BTreeSet<u32> = splices.iter().map(|splice| splice.target).collect();
    for splice in splices {
        splice.target = having.range(..splice.target).count() as u32;
    }
    let all = targets.into_iter().zip(0..);
    let kept = all.filter(|(_, number)| having.contains(number));
    kept.map(|(target, _)| target).collect()
}

/// Says of each place what it is, and takes out the places of functions that have no beginning, or
/// no end, among them.
fn whole(places: &mut Places, words: &[Word]) {
    let mut actions = vec![0; places.splices.len()];
    for of_word in places.of_words.iter().take(words.len()).step_by(2) {
        of_word.iter().for_each(|at| actions[*at] |= TIMES_ENTER);
    }
    for (action, spot) in actions.iter_mut().zip(&places.spots) {
        *action |= match spot.at {
            At::Return => TIMES_LEAVE,
            At::TailCall => TIMES_LEAVE | TIMES_JUMP,
            At::Entry | At::Inside => 0,
        };
    }
    let having = |bit: u32| -> BTreeSet<usize> {
        let all = places.splices.iter().zip(&actions);
        let all = all.filter(|(_, action)| **action & bit != 0);
        all.map(|(splice, _)| splice.target as usize).collect()
    };
    let whole: BTreeSet<usize> = &having(TIMES_ENTER) & &having(TIMES_LEAVE);
    for (splice, action) in places.splices.iter_mut().zip(actions) {
        splice.action = action;
    }
    places.keep(|splice| whole.contains(&(splice.target as usize)));
}

/// Runs the session, and writes its report.
fn observe(
    args: &StatArgs,
    metrics: &[Metric],
    subject: &Subject,
    session: Session,
    mut sink: Sink,
) -> Result<u8, Failure> {
    let door = device::open()?;
    let calls = Table::all();
    let scope = args.tasks.scope();
    let run = |turn: Option<&(dyn Fn() + Sync)>, at_end: &dyn Fn()| {
        let (outcome, ()) = scope::observe(&scope, &door, session, &calls, turn, |_| at_end())?;
        Ok::<Outcome, Failure>(outcome)
    };
    let width = width(args.output.as_deref());
    let outcome = match args.interval {
        None => run(None, &|| ())?,
        Some(period) => {
            let shape = live::Shape {
                format: args.format,
                limit: args.limit,
                width,
            };
            let writer = Writer::new(metrics, subject.labels(), shape, sink);
            let live = Live::new(&door, subject, writer, period);
            let outcome = run(Some(&|| live.turn()), &|| live.last())?;
            sink = live.end()?;
            outcome
        }
    };
    let (rows, counted) = subject.read(&door)?;
    let ended = Ended {
        counted,
        rows: None,
        start_ns: outcome.report.start_ns,
        end_ns: outcome.report.end_ns,
        cut_short: outcome.report.cut_short,
    };
    write_report(args, metrics, (subject.labels(), &rows), &ended, &mut sink)?;
    Ok(outcome.exit_status())
}

/// Writes the report of a session that has ended.
fn write_report(
    args: &StatArgs,
    metrics: &[Metric],
    (labels, rows): (&[String], &[Row]),
    ended: &Ended,
    sink: &mut Sink,
) -> Result<(), Failure> {
    let sheet = Sheet::of(metrics, labels, rows, &ended.counted);
    match args.format {
        Format::Text => {
            sink.write(&sheet.text(args.limit, width(args.output.as_deref())))?;
            sink.write(&sheet.notes(args.tasks.begins()))
        }
        Format::Csv => {
            if args.interval.is_none() {
                sink.write(&Sheet::titles(metrics, labels))?;
                sink.write(&sheet.csv(""))?;
            }
            output::note(sheet.notes(args.tasks.begins()).trim_end());
            Ok(())
        }
        Format::Json | Format::Ndjson => sink.write(&text::json(&report(&sheet, ended))),
    }
}

/// The report, for programs.
fn report(sheet: &Sheet<'_>, ended: &Ended) -> Json {
    let [elapsed_ns, unwatched, missed] = ended.counted.rest;
    json!({
        "command": "stat",
        "functions": sheet.objects(),
        "elapsed_ns": elapsed_ns,
        "unwatched": unwatched,
        "missed": missed,
        "start_ns": ended.start_ns,
        "end_ns": ended.end_ns,
        "cut_short": ended.cut_short,
    })
}
