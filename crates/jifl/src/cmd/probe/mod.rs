// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl probe`: counts executions of places in the kernel's code, for all callers, in all
//! contexts.

mod bpf;
mod census;
pub mod code;
pub mod failures;
pub mod groups;
mod kprobe;
mod leads;
mod live;
mod optprobe;
pub mod place;
pub mod program;
pub mod records;
mod refused;
mod sheet;
pub mod word;
pub mod writer;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use jifl_code::program::Program;
use jifl_sys::abi::{FLAG_ADOPT, Kind, SPLICE_BEFORE, SPLICE_OWNED, SPLICE_SITE, Splice};
use serde::Serialize;

use self::groups::Groups;
use self::live::{Live, Shape};
use self::place::{Kernel, LeftOut, Manner, Places};
use self::program::{Actions, Compiled};
use self::records::{Records, Told};
use self::sheet::{Cost, Recorded, Sheet};
use self::word::{What, Word};
use crate::base::duration;
use crate::base::exit::{DONE, Failure};
use crate::cmd::analyze::Source;
use crate::expr::{Item, Scopes};
use crate::kernel::functions::Functions;
use crate::kernel::memory::{Kcore, Memory};
use crate::kernel::pattern::Pattern;
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::session::device;
use crate::session::measure::Session;
use crate::session::scope::{self, Outcome, Span};
use crate::session::table;
use crate::session::targets::Target;
use crate::show::output::{self, Sink, fit, width};
use crate::show::powers;
use crate::show::text::{grouped, json};

/// How the report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// One object on one line
    Json,
    /// An object on a line for each record of --record, and each interval of -i; then the report
    Ndjson,
    /// A line for each place, group, record, or place of an interval; the rest goes to stderr
    Csv,
    /// With --record: Chrome's trace events, JSON, for chrome://tracing and ui.perfetto.dev
    Chrome,
    /// With --record: Perfetto's own format, binary, for ui.perfetto.dev
    Perfetto,
}

impl Format {
    /// Is it one for viewers, which show records?
    fn is_of_viewers(self) -> bool {
        matches!(self, Format::Chrome | Format::Perfetto)
    }

    /// Is it one that has no place for the report?
    fn is_without_report(self) -> bool {
        matches!(self, Format::Csv | Format::Perfetto)
    }
}

/// Arguments of `jifl probe`.
#[derive(Debug, Args)]
#[command(after_help = "\
PLACE is in a function of the kernel:
  fn:NAME                    its entry
  fn:NAME+0xOFFSET           an instruction, as `jifl cfg fn:NAME` shows them
  fn:NAME+0xOFFSET:taken     the branch there, when it branches; :not-taken, when it does not
  fn:NAME%return             all its returns, also those by a jump to another function
  0xADDRESS                  the instruction at this address
  line:FILE:LINE             each range of the line's code, in all functions and inlined copies
  'fn:NAME call:CALLEE'      direct calls of a function, and jumps to it; CALLEE may be a glob
  'fn:NAME call:CALLEE:return'  the instructions behind these calls
  'fn:NAME call'             all calls; so load and store: instructions that access memory
  'fn:NAME MNEMONIC'         all instructions of a kind: cmpxchg, 'lock cmpxchg', lock, movl
  'fn:NAME insn'             all instructions
NAME may be NAME@MODULE, 0xADDRESS, or NAME.cold with an offset. Where all of something is meant,
and in fn:NAME, it may be a glob: all functions that can be probed are meant.

EXPR is C without what changes anything: arguments by name at a function's entry, $ret at
fn:NAME%return, registers, memory through casts, str(ADDRESS), pid, tid, comm, cpu, time, level,
current: 'file->f_inode->i_ino', '((struct file *)rdi)->f_flags & 2', '*(u64 *)(rdi+8)'. What cannot
be read is ?.

Executions by all tasks and in all interrupts are counted. The session ends with CMD, after --for,
or with Ctrl-C. With CMD the exit status is CMD's.

CAUGHT: how often a thread came to the instruction in native code, where a breakpoint stands
meanwhile. It is counted, too, and goes on in the code cache where that can be.

HITS are exact but for this: a thread counts twice if it is stopped between a counter and its
instruction, or at a fault of the instruction, and meanwhile the copy is given up. The text of the
block changes, a session that is about it starts or ends, or the cache is full. So it is with a
native instruction that faults. docs/command.md has all cases.

Examples:
  jifl probe fn:vfs_read --for 10s
  jifl probe fn:vfs_read+0x2c fn:vfs_read%return -- cat /etc/hostname
  jifl probe fn:vfs_read+0x2c:taken fn:vfs_read+0x2c:not-taken -f json --for 1s
  jifl probe line:fs/read_write.c:463 'fn:vfs_* call:rw_verify_area' --each --for 10s
  jifl probe fn:do_filp_open --record 'str(pathname->name), op->open_flag' --for 1s
  jifl probe fn:vfs_read%return --if '$ret < 0' --by 'comm, $ret' --stack -- ls /proc/1/fd
  jifl probe fn:vfs_read --hist count -- dd if=/dev/zero of=/dev/null count=100
  jifl probe 'fn:vfs_*' -i 1s
  jifl probe fn:vfs_read --record count -f perfetto -o reads.pftrace -- ls
  jifl probe --census mod:ext4")]
pub struct ProbeArgs {
    /// Where; with --census fn:GLOB or mod:GLOB, or nothing
    #[arg(required_unless_present = "census", value_name = "PLACE")]
    places: Vec<String>,
    /// Count in which way each instruction could be probed, by module
    #[arg(long, conflicts_with_all = ["count", "time", "command"])]
    census: bool,
    /// With --census: of this file, a vmlinux or a module, not of the kernel that runs. With
    /// line:FILE:LINE the kernel's vmlinux with debug information
    #[arg(long, value_name = "FILE")]
    vmlinux: Option<PathBuf>,
    /// A row for each place of a word that means several; with --census for each function
    #[arg(long)]
    each: bool,
    /// Go on although more than 1,000 places are meant
    #[arg(short, long, conflicts_with = "census")]
    yes: bool,
    /// Show which places are meant, and end
    #[arg(long, conflicts_with_all = ["census", "count", "time", "command"])]
    list: bool,
    /// Count executions: what is done if nothing else is asked for
    #[arg(long)]
    count: bool,
    #[command(flatten)]
    actions: Actions,
    /// Show each so long what has been counted since, too: 1s, 500ms
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse)]
    #[arg(conflicts_with_all = ["census", "list", "record", "kprobe"])]
    interval: Option<Duration>,
    /// How the report is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    /// Write the output to FILE
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    span: Span,
}

/// Runs the command; the result is the exit status.
pub fn run(args: &ProbeArgs) -> Result<u8, Failure> {
    if args.census {
        args.check_format(false)?;
        return run_census(args);
    }
    let symbols = Symbols::of_kernel();
    let (words, lines) = words(args, &symbols)?;
    let is_line = |word: &Word| matches!(word.what, What::Line(..));
    if args.vmlinux.is_some() && !words.iter().any(is_line) {
        return Err(Failure::usage(
            "--vmlinux goes with --census, and with line:FILE:LINE",
        ));
    }
    let asked = args.actions.read(lines)?;
    args.check_format(asked.records())?;
    let manner = Manner {
        confirmed: args.yes,
        programs: args.actions.is_any(),
        lenient: false,
        by_name: false,
    };
    let mut places = find(&words, args.vmlinux.clone(), manner, &symbols)?;
    let sink = args.sink()?;
    let calls = Table::all();
    let mut session = Session::new(Kind::Probe, FLAG_ADOPT, std::mem::take(&mut places.targets));
    note_left_out(&settle(&mut session, &mut places, &words, &symbols)?);
    if !manner.programs {
        derive(&mut session, &mut places)?;
    }
    if args.list {
        return list(args, &places, &session.targets, sink);
    }
    let mut compiled = match args.actions.is_any() {
        true => program::compile(&asked, &mut places, &words, &Scopes::of_kernel())?,
        false => Compiled::default(),
    };
    session.programs = std::mem::take(&mut compiled.programs);
    note_slow(places.splices.len(), session.programs.actions.is_empty());
    session.splices = places.splices.clone();
    let told = told(&words, &places, &compiled, &symbols);
    observe(
        args,
        session,
        (&words, &places),
        &told,
        sink,
        asked.records(),
        &calls,
    )
}

/// A kprobe for each of so many places takes more than seconds.
const MANY: usize = 2000;
/// Sessions with more places have breakpoints of the module's own.
const OWN: &str = "/sys/module/jifl/parameters/own_breakpoints";

/// Says that the start takes long, and what shortens it. `plain`: executions are counted, and no
/// more is done.
fn note_slow(places: usize, plain: bool) {
    let least = fs::read_to_string(OWN).unwrap_or_default();
    let least: usize = least.trim().parse().unwrap_or(0);
    if places <= MANY || least < places {
        return;
    }
    let way = match plain {
        true => format!(
            "where nobody else sets kprobes meanwhile, `echo 1000 > {OWN}` has the module set them \
             itself, in seconds"
        ),
        false => "a count alone can have breakpoints that are set in seconds".into(),
    };
    let places = grouped(places as u64);
    output::note(&format!(
        "jifl: a kprobe is set for each of {places} places, which may take minutes; {way}"
    ));
}

/// A place, without a session.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    place: &'a str,
    address: String,
    /// Where its function begins.
    function: String,
    /// What is counted for it, if it is the kernel's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    leads: Vec<String>,
}

/// All places.
#[derive(Debug, Serialize)]
struct List<'a> {
    command: &'static str,
    list: Vec<Listed<'a>>,
}

/// Shows the places.
fn list(
    args: &ProbeArgs,
    places: &Places,
    targets: &[Target],
    mut sink: Sink,
) -> Result<u8, Failure> {
    let function = |at: u32| {
        let begin = targets[at as usize].function().map_or(0, |one| one.address);
        format!("{begin:#x}")
    };
    // Without those that no word means, which lead to some that words mean.
    let all = places.names.iter().zip(&places.splices);
    let own = all.filter(|(name, _)| !name.is_empty());
    let own = own.map(|(name, splice)| Listed {
        place: name,
        address: format!("{:#x}", splice.address),
        function: function(splice.target),
        leads: Vec::new(),
    });
    let lead = |at: &usize| {
        let splice = &places.splices[*at];
        format!("{:#x}{}", splice.address, place::side(splice))
    };
    let derived = places.names[places.splices.len()..].iter();
    let derived = derived.zip(&places.derived).map(|(name, one)| Listed {
        place: name,
        address: format!("{:#x}", one.address),
        function: function(one.target),
        leads: one.leads.iter().map(lead).collect(),
    });
    let list = List {
        command: "probe",
        list: own.chain(derived).collect(),
    };
    sink.write(&match args.format {
        Format::Text => list
            .list
            .iter()
            .map(|one| {
                let leads = match one.leads.is_empty() {
                    true => String::new(),
                    false => format!(", by {}", one.leads.join(" and ")),
                };
                format!("{}  {}{leads}\n", one.address, one.place)
            })
            .collect(),
        _ => json(&list),
    })?;
    Ok(DONE)
}

/// For each word the values that its line of kprobe events records.
type Lines = Vec<Vec<Item>>;

/// The words of the command line, and for each of them what its line of kprobe events records.
fn words(args: &ProbeArgs, symbols: &Symbols) -> Result<(Vec<Word>, Option<Lines>), Failure> {
    if !args.actions.kprobe {
        let words = args.places.iter().map(|word| Word::parse(word));
        return Ok((words.collect::<Result<_, _>>()?, None));
    }
    let (mut words, mut lines) = (Vec::new(), Vec::new());
    for line in &args.places {
        let line = kprobe::parse(line, symbols)?;
        let mut word = Word::parse(&line.place)?;
        word.word = line.event;
        words.push(word);
        lines.push(line.fields);
    }
    Ok((words, Some(lines)))
}

/// Runs the session, and writes its report.
fn observe(
    args: &ProbeArgs,
    session: Session,
    (words, places): (&[Word], &Places),
    told: &Told<'_>,
    sink: Sink,
    records: bool,
    calls: &Table,
) -> Result<u8, Failure> {
    let door = device::open()?;
    let scope = args.span.scope();
    let run = |session, turn: Option<&(dyn Fn() + Sync)>, at_end: &dyn Fn()| {
        let (outcome, ()) = scope::observe(&scope, &door, session, calls, turn, |_| at_end())?;
        Ok::<Outcome, Failure>(outcome)
    };
    let sheet = |outcome: &Outcome, recorded| {
        let (hits, rest) = table::read(&door, "reading the counts")?;
        let hits = places.with_derived(hits);
        let mut sheet = Sheet::of(words, places, &hits, rest, outcome.report.duration_ns);
        sheet.groups = Groups::read(&door, told)?;
        sheet.records = recorded;
        sheet.cost = Cost::of(&outcome.report);
        Ok::<Sheet<'_>, Failure>(sheet)
    };
    if records {
        let cpus = device::info(&door)?.cpus as usize;
        let ring = session.programs.ring;
        let records = Records::new(&door, told, (args.format, sink), cpus, ring);
        let outcome = run(session, Some(&|| records.turn()), &|| ())?;
        let mut ended = records.end()?;
        let recorded = Recorded {
            written: ended.written,
            lost: ended.lost,
        };
        let sheet = sheet(&outcome, Some(recorded))?;
        ended.close(&sheet.object())?;
        if !args.format.is_without_report() && args.format != Format::Chrome {
            args.show(&sheet, &mut ended.sink)?;
        } else {
            let bar = powers::bar_within(None);
            output::note(sheet.text(args.each, bar).trim_end());
        }
        return Ok(outcome.exit_status());
    }
    let (outcome, mut sink) = match args.interval {
        Some(period) => {
            let live = Live::new(&door, (words, places), period, args.shape(), sink);
            let outcome = run(session, Some(&|| live.turn()), &|| live.last())?;
            let sink = live.end(Duration::from_nanos(outcome.report.duration_ns))?;
            (outcome, sink)
        }
        None => (run(session, None, &|| ())?, sink),
    };
    let sheet = sheet(&outcome, None)?;
    if args.interval.is_none() || args.format != Format::Csv {
        args.show(&sheet, &mut sink)?;
    }
    if args.format == Format::Csv {
        let other = sheet.groups.as_ref().map(Groups::notes);
        output::note((other.unwrap_or_default() + &sheet.notes()).trim_end());
    }
    Ok(outcome.exit_status())
}

impl ProbeArgs {
    /// Refuses forms that have no place for what is asked for.
    fn check_format(&self, records: bool) -> Result<(), Failure> {
        let refused = |why: &str| Err(Failure::usage(why.to_owned()));
        let plain = self.census || self.list;
        match self.format {
            Format::Json if records => refused(
                "--record does not go with -f json: a report in one object comes at the end; give \
                 -f ndjson",
            ),
            Format::Json if self.interval.is_some() => {
                refused("-i does not go with -f json: give -f ndjson")
            }
            format if format.is_of_viewers() && !records => {
                refused("-f chrome and -f perfetto show records: give --record")
            }
            Format::Csv if plain => refused("--list and --census go with -f text and -f json"),
            Format::Csv if self.interval.is_some() && self.actions.has_groups() => {
                refused("-i with -f csv shows places, and no groups: leave out one of them")
            }
            _ => Ok(()),
        }
    }

    /// Where the output goes. Binary output does not go to a terminal.
    fn sink(&self) -> Result<Sink, Failure> {
        let sink = Sink::open(self.output.as_deref())?;
        if self.format == Format::Perfetto && sink.is_terminal() {
            return Err(Failure::usage(
                "a Perfetto trace is binary and not for a terminal: write it to a file with -o \
                 FILE",
            ));
        }
        Ok(sink)
    }

    /// How intervals are written.
    fn shape(&self) -> Shape {
        Shape {
            format: self.format,
            each: self.each,
            width: width(self.output.as_deref()),
        }
    }

    /// Writes the report.
    fn show(&self, sheet: &Sheet<'_>, sink: &mut Sink) -> Result<(), Failure> {
        let width = width(self.output.as_deref());
        sink.write(&match self.format {
            Format::Text => {
                let bar = powers::bar_within(width);
                fit(sheet.text(self.each, bar), width)
            }
            format => sheet.render(format, self.each),
        })
    }
}

/// What is known of each place: its word's name, if the word means this place alone.
fn told<'a>(
    words: &'a [Word],
    places: &'a Places,
    compiled: &'a Compiled,
    symbols: &'a Symbols,
) -> Told<'a> {
    let mut names: Vec<&str> = places.names.iter().map(String::as_str).collect();
    for (word, of_word) in words.iter().zip(&places.of_words) {
        if let [place] = of_word.as_slice() {
            names[*place] = &word.word;
        }
    }
    Told {
        names,
        layouts: compiled.layouts(),
        symbols,
    }
}

/// Takes out what the module has against functions that globs mean, and instructions of the
/// kernel's own that forms mean. What is to be said of it; empty: nothing.
///
/// # Errors
/// Nothing is left.
pub fn settle(
    session: &mut Session,
    places: &mut Places,
    words: &[Word],
    symbols: &Symbols,
) -> Result<String, Failure> {
    let may_be_left_out = |target: &Target| match target {
        Target::Function(one) => one.may_be_left_out,
        Target::Syscall(_) => false,
    };
    let optional: Vec<bool> = session.targets.iter().map(may_be_left_out).collect();
    let address: Vec<u64> = (session.targets.iter())
        .map(|target| target.function().map_or(0, |function| function.address))
        .collect();
    let has_forms = words.iter().any(|word| matches!(word.what, What::All(_)));
    let mut knows_sites = false;
    while (has_forms || optional.contains(&true)) && !places.splices.is_empty() {
        session.splices = places.splices.clone();
        let tried = session.tried(&device::open()?)?;
        let before = places.splices.len();
        if !std::mem::replace(&mut knows_sites, true) {
            let at_sites = tried.places.iter().filter_map(|(at, (refused, _))| {
                let target = places.splices[*at].target as usize;
                (*refused == SPLICE_SITE && optional[target]).then_some(target)
            });
            let at_sites: Vec<usize> = at_sites.collect();
            let behind = behind_sites(session, &at_sites, symbols)?;
            places.behind_sites.extend(behind);
        }
        for (target, why) in tried
            .targets
            .iter()
            .filter(|(target, _)| optional[**target])
        {
            let left_out = places.left_out.entry(why).or_default();
            left_out.insert(address[*target]);
        }
        let named = places.named(words);
        // Places, and functions of which at most the door is left.
        let (mut alone, mut bodies) = (HashSet::new(), HashSet::new());
        for (at, (refused, why)) in &tried.places {
            let splice = &places.splices[*at];
            let target = splice.target as usize;
            if tried.targets.contains_key(&target) {
                continue;
            }
            if *refused == SPLICE_OWNED && !named[*at] {
                *places.kernels.entry(why).or_default() += 1;
            } else if *refused == SPLICE_SITE && places.behind_sites.contains_key(&splice.address) {
                // What is behind it counts: derive().
                continue;
            } else if optional[target] {
                let left_out = places.left_out.entry(why).or_default();
                left_out.insert(address[target]);
                bodies.insert(target);
            } else {
                continue;
            }
            alone.insert((splice.address, splice.where_));
        }
        places.keep(|one| {
            let target = one.target as usize;
            let is_refused = optional[target] && tried.targets.contains_key(&target);
            // A door counts where no instruction of the function can be probed.
            let is_like_it = bodies.contains(&target) && one.address != address[target];
            !is_refused && !is_like_it && !alone.contains(&(one.address, one.where_))
        });
        if places.splices.len() == before {
            break;
        }
    }
    let texts = [left_out(&places.left_out), kernels(&places.kernels)];
    let text: Vec<String> = texts.into_iter().flatten().collect();
    let text = text.join("; ");
    if places.splices.is_empty() {
        return Err(Failure::failed(format!(
            "nothing is left of what is to be probed: {text}"
        )));
    }
    Ok(text)
}

/// For the entries of these targets, whose sites are other tracers', the instructions behind these
/// sites, where places count instead. `at`: places in the session's targets.
///
/// # Errors
/// The kernel's memory cannot be read, or the module cannot be asked.
fn behind_sites(
    session: &mut Session,
    at: &[usize],
    symbols: &Symbols,
) -> Result<BTreeMap<u64, u64>, Failure> {
    if at.is_empty() {
        return Ok(BTreeMap::new());
    }
    let functions = Functions::of_kernel();
    let mut memory = Kcore::open()?;
    let mut kernel = Kernel::of(&functions, symbols, None, &mut memory);
    let behind = |at: &usize| {
        let function = session.targets[*at].function()?;
        let behind = kernel.behind_others_site(function)?;
        Some((behind, *at, function.address))
    };
    let mut all: Vec<(u64, usize, u64)> = at.iter().filter_map(behind).collect();
    all.sort_unstable();
    let place = |(address, target, _): &(u64, usize, u64)| Splice {
        address: *address,
        target: *target as u32,
        where_: SPLICE_BEFORE,
        ..Splice::default()
    };
    session.splices = all.iter().map(place).collect();
    let refused = match session.splices.is_empty() {
        true => BTreeMap::new(),
        false => session.tried(&device::open()?)?.places,
    };
    let all = all.iter().enumerate();
    let kept = all.filter(|(at, _)| !refused.contains_key(at));
    Ok(kept
        .map(|(_, (behind, _, entry))| (*entry, *behind))
        .collect())
}

/// Has instructions that words name, and at which nothing of the module's can stand, counted by
/// others: what the kernel keeps to itself by what leads there (leads.rs), an entry whose site is
/// another tracer's by the instruction behind the site. The others stay as they are: the session is
/// refused with the reason.
///
/// # Errors
/// The kernel's code cannot be read.
fn derive(session: &mut Session, places: &mut Places) -> Result<(), Failure> {
    let may_be_refused = |splice: &Splice| {
        let address = &splice.address;
        places.suspects.contains(address) || places.behind_sites.contains_key(address)
    };
    if !places.splices.iter().any(may_be_refused) {
        return Ok(());
    }
    session.splices = places.splices.clone();
    let tried = session.tried(&device::open()?)?;
    let refused = |reason| {
        let places = &*places;
        let all = tried.places.iter().filter(move |(at, (why, _))| {
            *why == reason && places.splices[**at].where_ == SPLICE_BEFORE
        });
        all.map(|(at, _)| (*at, places.splices[*at].address))
    };
    let behind = |(at, entry)| {
        let behind = places.behind_sites.get(&entry)?;
        Some((at, vec![(*behind, SPLICE_BEFORE)]))
    };
    let mut leads: BTreeMap<usize, Vec<(u64, u32)>> =
        refused(SPLICE_SITE).filter_map(behind).collect();
    let owned: Vec<(usize, u64)> = refused(SPLICE_OWNED).collect();
    if !owned.is_empty() {
        let program = Program::of(Source::of(None).open()?);
        leads.extend(owned.iter().filter_map(|(at, address)| {
            let function = &program.functions[program.at(*address)?];
            Some((
                *at,
                leads::leads(&program.image, &function.graph, *address)?,
            ))
        }));
    }
    places.derive(&leads);
    Ok(())
}

/// Says on stderr what [`settle`] has left out.
pub fn note_left_out(text: &str) {
    if !text.is_empty() {
        output::note(&format!("jifl: {text}"));
    }
}

/// How many instructions are left out, and why.
fn kernels(all: &BTreeMap<&'static str, usize>) -> Option<String> {
    let number: usize = all.values().sum();
    let why: Vec<&str> = all.keys().copied().collect();
    let are = if number == 1 { " is" } else { "s are" };
    (number > 0).then(|| {
        format!(
            "{} instruction{are} left out: {}",
            grouped(number as u64),
            why.join(", ")
        )
    })
}

/// How many functions are left out, and why.
fn left_out(all: &LeftOut) -> Option<String> {
    let number: usize = all.values().map(|functions| functions.len()).sum();
    let causes = all.iter();
    let causes =
        causes.map(|(why, functions)| format!("{why} ({})", grouped(functions.len() as u64)));
    let are = if number == 1 { " is" } else { "s are" };
    (number > 0).then(|| {
        format!(
            "{} function{are} left out: {}",
            grouped(number as u64),
            causes.collect::<Vec<_>>().join(", ")
        )
    })
}

fn run_census(args: &ProbeArgs) -> Result<u8, Failure> {
    let pattern = |word: &String| {
        Pattern::parse(word)
            .ok_or_else(|| Failure::usage(format!("{word}: --census takes fn:GLOB and mod:GLOB")))
    };
    let patterns = args.places.iter().map(pattern);
    let patterns: Vec<Pattern> = patterns.collect::<Result<_, _>>()?;
    let program = Program::of(Source::of(args.vmlinux.as_deref()).open()?);
    let listed = args.vmlinux.is_none().then(census::listed);
    let census = census::census(&program, &patterns, args.each, listed.as_deref())?;
    Sink::open(args.output.as_deref())?.write(&match args.format {
        Format::Text => fit(census.text(), width(args.output.as_deref())),
        _ => json(&census),
    })?;
    Ok(DONE)
}

/// The places in the running kernel, by these words, of which there is one at least.
///
/// # Errors
/// As for [`place::select`], or the kernel's memory cannot be read.
pub fn find(
    words: &[Word],
    vmlinux: Option<PathBuf>,
    manner: Manner,
    symbols: &Symbols,
) -> Result<Places, Failure> {
    find_in(words, vmlinux, manner, symbols, &mut Kcore::open()?)
}

/// The same, of the kernel's memory as it is told here.
///
/// # Errors
/// As for [`place::select`].
pub fn find_in(
    words: &[Word],
    vmlinux: Option<PathBuf>,
    manner: Manner,
    symbols: &Symbols,
    memory: &mut dyn Memory,
) -> Result<Places, Failure> {
    let functions = Functions::of_kernel();
    let kernel = Kernel::of(&functions, symbols, vmlinux, memory);
    place::select(words, kernel, manner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parse::check;

    #[test]
    fn the_documented_lines_parse() {
        check::<ProbeArgs>(
            &[
                "fn:vfs_read --for 10s",
                "fn:vfs_read+0x2c fn:vfs_read%return -- cat /etc/hostname",
                "fn:vfs_read+0x2c:taken fn:vfs_read+0x2c:not-taken -f json --for 1s",
                "fn:a+0x10 fn:b+0x2c --count",
                "line:fs/open.c:5 --vmlinux x --for 1s",
                "fn:vfs_*%return --each --yes",
                "fn:vfs_read --if count>4096 --record count,pos -f ndjson --ring 4M",
                "fn:vfs_read --hist count --by comm --stack",
                "fn:vfs_read --bpf /sys/fs/bpf/on_read",
                "--kprobe fn:a fn:b",
                "--census",
                "fn:vfs_*%return --list --yes -f json",
                "--census mod:ext4 -f json --vmlinux vmlinux",
                "--census fn:vfs_* mod:ext4 --each",
                "fn:vfs_* -i 1s",
                "fn:vfs_read --record count -f perfetto -o reads.pftrace -- ls",
                "fn:vfs_read --record count -f chrome --for 1s",
                "fn:vfs_read --by comm -f csv --for 1s",
            ],
            &[
                "",
                "fn:vfs_read -p 1",
                "fn:vfs_read -f xml",
                "fn:vfs_read -i 1s --record count",
                "fn:vfs_read -i 0",
                "--census --for 1s",
                "--census --yes",
                "fn:vfs_read --list -- ls",
                "fn:vfs_read --ring 0",
                "--kprobe fn:a --record count",
            ],
        );
    }
}
