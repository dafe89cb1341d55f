// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl probe`: counts executions of places in the kernel's code, for all callers, in all
//! contexts.

mod census;
mod code;
mod place;

use std::path::PathBuf;

use clap::Args;
use jifl_code::program::Program;
use jifl_sys::abi::{
    FLAG_ADOPT, HITS_MISSED, HITS_MOVED, HITS_NO_ROOM, HITS_SWITCHED_OFF, Hits, Kind,
};
use serde::Serialize;

use self::place::{Kernel, Places, Word};
use crate::base::exit::{DONE, Failure};
use crate::cmd::analyze::Source;
use crate::kernel::functions::Functions;
use crate::kernel::memory::Kcore;
use crate::kernel::pattern::Pattern;
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use crate::session::device;
use crate::session::measure::Session;
use crate::session::scope::{self, Span};
use crate::session::table::{self, Rest};
use crate::show::output::{Format, Sink, fit, width};
use crate::show::table::table;
use crate::show::text::{grouped, json};

/// Arguments of `jifl probe`.
#[derive(Debug, Args)]
#[command(after_help = "\
PLACE is in a function of the kernel:
  fn:NAME                    its entry
  fn:NAME+0xOFFSET           an instruction, as `jifl cfg fn:NAME` shows them
  fn:NAME+0xOFFSET:taken     the branch there, when it branches; :not-taken, when it does not
  fn:NAME%return             all its returns, also those by a jump to another function
NAME may be NAME@MODULE, 0xADDRESS, or NAME.cold with an offset.

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
  jifl probe --census mod:ext4")]
pub struct ProbeArgs {
    /// Where; with --census fn:GLOB or mod:GLOB, or nothing
    #[arg(required_unless_present = "census", value_name = "PLACE")]
    places: Vec<String>,
    /// Count in which way each instruction could be probed, by module
    #[arg(long, conflicts_with_all = ["count", "time", "command"])]
    census: bool,
    /// With --census: of this file, a vmlinux or a module, not of the kernel that runs
    #[arg(long, value_name = "FILE", requires = "census")]
    vmlinux: Option<PathBuf>,
    /// Count executions: what is done if nothing else is asked for
    #[arg(long)]
    count: bool,
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
        return run_census(args);
    }
    let words: Vec<Word> = (args.places.iter())
        .map(|word| Word::parse(word))
        .collect::<Result<_, _>>()?;
    let places = find(&words)?;
    let mut sink = Sink::open(args.output.as_deref())?;
    let calls = Table::all();
    let mut session = Session::new(Kind::Probe, FLAG_ADOPT, places.targets);
    session.splices = places.splices;
    let door = device::open()?;
    let (outcome, ()) = scope::observe(&args.span.scope(), &door, session, &calls, None, |_| ())?;
    let (hits, rest) = table::read(&door, "reading the counts")?;
    let sheet = Sheet::of(
        &words,
        &places.of_words,
        &hits,
        rest,
        outcome.report.duration_ns,
    );
    sink.write(&match args.format {
        Format::Text => fit(sheet.text(), width(args.output.as_deref())),
        Format::Json => json(&sheet),
    })?;
    Ok(outcome.exit_status())
}

fn run_census(args: &ProbeArgs) -> Result<u8, Failure> {
    let pattern = match args.places.as_slice() {
        [] => None,
        [word] => Some(Pattern::parse(word).ok_or_else(|| {
            Failure::usage(format!("{word}: --census takes fn:GLOB or mod:GLOB"))
        })?),
        _ => return Err(Failure::usage("--census takes one fn:GLOB or mod:GLOB")),
    };
    let program = Program::of(Source::of(args.vmlinux.as_deref()).open()?);
    let census = census::census(&program, pattern.as_ref())?;
    Sink::open(args.output.as_deref())?.write(&match args.format {
        Format::Text => fit(census.text(), width(args.output.as_deref())),
        Format::Json => json(&census),
    })?;
    Ok(DONE)
}

/// The places in the running kernel.
fn find(words: &[Word]) -> Result<Places, Failure> {
    let functions = Functions::of_kernel();
    let symbols = Symbols::of_kernel();
    let mut memory = Kcore::open()?;
    let kernel = Kernel {
        functions: &functions,
        symbols: &symbols,
        thunks: symbols.thunks(),
        memory: &mut memory,
    };
    place::select(words, kernel)
}

/// What is shown.
#[derive(Debug, Serialize)]
struct Sheet<'a> {
    command: &'static str,
    places: Vec<Row<'a>>,
    /// Of those that were caught, threads that went on in the code cache.
    moved: u64,
    /// Executions that were not counted: in the handler of a kprobe.
    missed: u64,
    /// Places that some copy has no counter for.
    incomplete: u64,
    /// Places whose breakpoint was gone for a time, as kprobes were switched off.
    switched_off: u64,
    duration_ns: u64,
}

/// A word of the command line.
#[derive(Debug, Serialize)]
struct Row<'a> {
    place: &'a str,
    /// Instructions, or ways of branches, that it means.
    places: usize,
    hits: u64,
    caught: u64,
}

impl<'a> Sheet<'a> {
    fn of(
        words: &'a [Word],
        of_words: &[Vec<usize>],
        hits: &[Hits],
        rest: Rest,
        duration_ns: u64,
    ) -> Sheet<'a> {
        let row = |(word, places): (&'a Word, &Vec<usize>)| {
            let of = |what: fn(&Hits) -> u64| places.iter().map(|at| what(&hits[*at])).sum();
            Row {
                place: &word.word,
                places: places.len(),
                hits: of(|hits| hits.hits),
                caught: of(|hits| hits.caught),
            }
        };
        let with = |flag| hits.iter().filter(|hits| hits.flags & flag != 0).count() as u64;
        Sheet {
            command: "probe",
            places: words.iter().zip(of_words).map(row).collect(),
            moved: rest[HITS_MOVED],
            missed: rest[HITS_MISSED],
            incomplete: with(HITS_NO_ROOM),
            switched_off: with(HITS_SWITCHED_OFF),
            duration_ns,
        }
    }

    fn text(&self) -> String {
        let mut lines = vec![["PLACE", "HITS", "CAUGHT"].map(str::to_owned).to_vec()];
        for row in &self.places {
            lines.push(vec![
                row.place.to_owned(),
                grouped(row.hits),
                grouped(row.caught),
            ]);
        }
        let mut text = table(&lines);
        text += &format!(
            "# missed {}; threads led into the cache {}\n",
            grouped(self.missed),
            grouped(self.moved)
        );
        if self.incomplete > 0 {
            text += &format!(
                "# {} places have too few hits: a copy of their block had no room for a counter\n",
                grouped(self.incomplete)
            );
        }
        if self.switched_off > 0 {
            text += &format!(
                "# {} places may have too few hits: kprobes were switched off meanwhile; leave 1 \
                 in /sys/kernel/debug/kprobes/enabled\n",
                grouped(self.switched_off)
            );
        }
        text
    }
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
                "--census",
                "--census mod:ext4 -f json --vmlinux vmlinux",
            ],
            &[
                "",
                "fn:vfs_read -p 1",
                "fn:vfs_read -f csv",
                "fn:vfs_read --vmlinux x",
                "--census --for 1s",
            ],
        );
    }

    #[test]
    fn a_word_has_the_hits_of_all_its_places() {
        let words = ["fn:f%return", "fn:f+0x3"].map(|word| Word::parse(word).unwrap());
        let hit = |hits, caught| Hits {
            hits,
            caught,
            ..Hits::default()
        };
        let sheet = Sheet::of(
            &words,
            &[vec![0, 2], vec![1]],
            &[hit(5, 1), hit(7, 0), hit(1000, 2)],
            [3, 1, 0],
            5,
        );
        assert_eq!(
            sheet.text(),
            "PLACE         HITS  CAUGHT\n\
             fn:f%return  1,005       3\n\
             fn:f+0x3         7       0\n\
             # missed 1; threads led into the cache 3\n"
        );
    }

    #[test]
    fn what_is_not_complete_is_said() {
        let words = [Word::parse("fn:f%return").unwrap()];
        let hit = |flags| Hits {
            flags,
            ..Hits::default()
        };
        let all = [hit(HITS_NO_ROOM), hit(HITS_SWITCHED_OFF | HITS_NO_ROOM)];
        let text = Sheet::of(&words, &[vec![0, 1]], &all, [0; 3], 5).text();
        assert!(
            text.contains("\n# 2 places have too few hits: a copy"),
            "{text}"
        );
        assert!(
            text.contains("\n# 1 places may have too few hits: kprobes"),
            "{text}"
        );
    }
}
