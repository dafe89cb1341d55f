// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl trace`: which functions system calls enter, in their order.

mod calls;
mod clocks;
pub mod events;
mod folded;
mod names;
mod prototypes;
mod values;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use jifl_sys::abi::{FLAG_CLOCK, FLAG_VALUES, Kind, Start};
use serde::Serialize;
use serde_json::Value;

use self::calls::{Call, Entered};
use self::folded::Folded;
use self::names::Names;
use self::prototypes::Prototypes;
use crate::exit::Failure;
use crate::records::{self, Taken};
use crate::scope::{Outcome, Scope};
use crate::symbols::Symbols;
use crate::syscalls::Table;
use crate::{device, duration, errno, output, session, target};

/// How it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line for each call and each function, indented
    Text,
    /// A JSON object in a line for each call
    Ndjson,
    /// A line for each stack of functions, with how often its last was entered: for flame graphs
    Folded,
}

/// Arguments of `jifl trace`.
#[derive(Debug, Args)]
#[command(after_help = "\
TARGET is sys:NAME, sys:GLOB or sys:NUMBER. Filters that are given must all match.

The session ends with CMD, after --for, or with Ctrl-C; then the calls are written, in
the order of their ends. With CMD the exit status is CMD's. Functions that the compiler
has inlined are part of their callers; what runs natively is not seen (`jifl status`).

Examples:
  jifl trace sys:openat -- cat /etc/hostname
  jifl trace 'sys:*' -D 3 -n nginx --for 1s -o calls.txt
  jifl trace -A sys:lseek -- tail -n 1 /etc/passwd
  jifl trace -d sys:openat --threshold 10us -- ls
  jifl trace 'sys:*' --longer 10us -- ls
  jifl trace 'sys:*' -f folded -o stacks.txt -- ls")]
pub struct TraceArgs {
    /// System calls: sys:openat, sys:*at, sys:*
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    /// Show what functions get and return, by the kernel's BTF
    #[arg(short = 'A', long)]
    args: bool,
    /// Show how long functions take, too
    #[arg(short, long)]
    durations: bool,
    /// Show only functions, and calls, that took at least so long, such as 10us; with --durations
    #[arg(long, value_parser = duration::parse, value_name = "TIME")]
    threshold: Option<Duration>,
    /// Show functions down to this depth only
    #[arg(short = 'D', long, value_name = "DEPTH")]
    depth: Option<u32>,
    /// Show only calls that took longer, such as 10us, and those that did not end
    #[arg(long, value_parser = duration::parse, value_name = "TIME")]
    longer: Option<Duration>,
    /// Keep this many records, 8 bytes each; what comes later is lost
    #[arg(long, value_name = "N", default_value_t = 1 << 24)]
    limit: usize,
    /// How it is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    /// Write to FILE
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    scope: Scope,
}

/// Runs the command; the result is the exit status.
pub fn run(args: TraceArgs) -> Result<u8, Failure> {
    let table = Table::all();
    let mut start = Start {
        kind: Kind::Trace as u32,
        nrs: session::bits(&target::select(&args.targets, &table)?),
        ..Start::default()
    };
    args.scope.check()?;
    let mut sink = output::Sink::open(args.output.as_deref())?;
    let door = device::open()?;
    let prototypes = args.args.then(prototypes).flatten();
    if prototypes.is_some() {
        start.flags |= FLAG_VALUES;
    }
    if args.timed() {
        start.flags |= FLAG_CLOCK;
    }
    let (taken, outcome) = records::observe(&args.scope, &door, start, &table, args.limit)?;
    let symbols = Symbols::of_kernel();
    if symbols.is_empty() {
        output::note(
            "jifl: /proc/kallsyms shows no addresses here, so functions have no names: be root, and see kernel.kptr_restrict",
        );
    }
    let (pieces, stray) = records::pieces(taken.each());
    let names = Names::new(&symbols, prototypes.as_ref());
    let mut text = String::new();
    let mut folded = Folded::default();
    calls::each(&taken, &pieces, |call| {
        if !args.shows(call) {
            return Ok(());
        }
        match args.format {
            Format::Folded => folded.add(call, args.depth),
            _ => write_call(&mut text, call, &args, &table, &names),
        }
        if text.len() < 1 << 16 {
            return Ok(());
        }
        let result = sink.write(&text);
        text.clear();
        result
    })?;
    text += &folded.text(&table, &symbols);
    sink.write(&text)?;
    note_losses(&taken, stray, &outcome);
    Ok(outcome.exit_status())
}

/// What is needed for --args; it is said if there is none.
fn prototypes() -> Option<Prototypes> {
    match Prototypes::of_kernel() {
        Ok(found) => Some(found),
        Err(error) => {
            output::note(&format!(
                "jifl: no arguments and results of functions: the kernel tells no types ({error}); it needs CONFIG_DEBUG_INFO_BTF"
            ));
            None
        }
    }
}

impl TraceArgs {
    /// Are functions' times asked for?
    fn timed(&self) -> bool {
        self.durations || self.threshold.is_some()
    }

    /// Those that did not end always.
    fn shows(&self, call: &Call) -> bool {
        let took = call.duration().map(Duration::from_nanos);
        self.longer
            .is_none_or(|longer| took.is_none_or(|took| took > longer))
            && self.shows_time(call.duration())
    }

    fn shows_function(&self, entered: &Entered) -> bool {
        self.depth.is_none_or(|limit| entered.depth < limit) && self.shows_time(entered.duration)
    }

    fn shows_time(&self, nanoseconds: Option<u64>) -> bool {
        let took = nanoseconds.map(Duration::from_nanos);
        self.threshold
            .is_none_or(|least| took.is_none_or(|took| took >= least))
    }
}

fn write_call(text: &mut String, call: &Call, args: &TraceArgs, table: &Table, names: &Names) {
    let functions = call
        .functions
        .iter()
        .filter(|entered| args.shows_function(entered));
    if args.format == Format::Ndjson {
        let object = Object {
            thread: call.thread,
            syscall: table.name(call.nr),
            began_ns: call.began,
            duration_ns: call.duration(),
            result: call.result,
            functions: functions
                .map(|entered| Function::of(entered, args, names))
                .collect(),
        };
        *text += &serde_json::to_string(&object).expect("plain structures always serialize");
        text.push('\n');
        return;
    }
    let time = call
        .duration()
        .map_or_else(|| "did not end".into(), duration::show);
    let _ = writeln!(
        text,
        "[{}] sys:{}{}  {time}",
        call.thread,
        table.name(call.nr),
        call.result
            .map_or_else(String::new, |value| format!(" = {}", errno::result(value)))
    );
    for entered in functions {
        let indent = 2 * (entered.depth as usize + 1);
        let _ = write!(text, "{:indent$}{}", "", names.text(entered));
        if let Some(took) = entered.duration {
            let _ = write!(text, "  {}", duration::show(took));
        }
        text.push('\n');
    }
}

/// A line of ndjson.
#[derive(Serialize)]
struct Object<'a> {
    thread: u32,
    syscall: String,
    began_ns: u64,
    duration_ns: Option<u64>,
    result: Option<i64>,
    functions: Vec<Function<'a>>,
}

/// In it; null is what is not known, and what was not asked for is not there.
#[derive(Serialize)]
struct Function<'a> {
    depth: u32,
    name: Cow<'a, str>,
    #[serde(flatten)]
    values: Option<Values>,
    #[serde(flatten)]
    times: Option<Times>,
}

/// What it gets, by name, and returns.
#[derive(Serialize)]
struct Values {
    arguments: Value,
    result: Value,
}

/// When it was entered and how long it took.
#[derive(Serialize)]
struct Times {
    began_ns: Option<u64>,
    duration_ns: Option<u64>,
}

impl<'a> Function<'a> {
    fn of(entered: &Entered, args: &TraceArgs, names: &Names<'a>) -> Function<'a> {
        Function {
            depth: entered.depth,
            name: names.name(entered),
            values: names
                .values(entered)
                .map(|(arguments, result)| Values { arguments, result }),
            times: args.timed().then_some(Times {
                began_ns: entered.began,
                duration_ns: entered.duration,
            }),
        }
    }
}

/// Always: that nothing was lost is worth knowing, too.
fn note_losses(taken: &Taken, stray: u64, outcome: &Outcome) {
    let lost = taken.lost();
    let mut text = format!(
        "{} calls, {} functions entered; records lost {lost}, calls missed {}",
        outcome.report.rows.iter().map(|row| row.calls).sum::<u64>(),
        outcome.report.rows.iter().map(|row| row.sum).sum::<u64>(),
        outcome.report.missed()
    );
    if stray > 0 {
        let _ = write!(text, "; {stray} that follow lost ones are not shown");
    }
    if taken.refused > 0 {
        let _ = write!(text, "; {} beyond --limit are not shown", taken.refused);
    }
    output::note(&text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::parse::parse;
    use crate::records::pieces::tests::{enter, mark, result};
    use jifl_sys::abi::{RECORD_BEGIN, RECORD_END};

    #[test]
    fn the_documented_lines_parse() {
        for line in [
            "sys:openat -- cat /etc/hostname",
            "sys:* -D 3 -n nginx --for 1s -o calls.txt",
            "sys:read -f ndjson -p 1",
            "sys:* --longer 10us -- ls",
            "-d sys:openat --threshold 10us -- ls",
            "sys:* -f folded -o stacks.txt -- ls",
        ] {
            assert!(parse::<TraceArgs>(line).is_ok(), "{line}");
        }
        for line in ["", "sys:read -f xml", "sys:read -D x"] {
            assert!(parse::<TraceArgs>(line).is_err(), "{line}");
        }
    }

    fn written(line: &str) -> String {
        let fake = Fake::default();
        fake.state().records = vec![
            [
                &mark(RECORD_BEGIN, 257, 70, 1000)[..],
                &[enter(0, 900), enter(16, 800), result(-2)],
                &mark(RECORD_END, 257, 70, 3500),
            ]
            .concat(),
            Vec::new(),
        ];
        let taken = crate::records::tests::taken(&fake, 2);
        let symbols = Symbols::parse("ffffffff81000000 T outer\nffffffff81000010 t inner\t[nfs]\n");
        let (pieces, stray) = records::pieces(taken.each());
        assert_eq!(stray, 0);
        let mut text = String::new();
        let args = parse(line).unwrap();
        let names = Names::new(&symbols, None);
        calls::each(&taken, &pieces, |call| {
            write_call(&mut text, call, &args, &Table::all(), &names);
            Ok::<_, ()>(())
        })
        .unwrap();
        text
    }

    #[test]
    fn what_was_short_is_left_out() {
        let call = |ended| Call {
            began: 1000,
            ended,
            ..Call::default()
        };
        let longer = parse::<TraceArgs>("sys:read --longer 2us").unwrap();
        assert!(longer.shows(&call(Some(3001))) && longer.shows(&call(None)));
        assert!(!longer.shows(&call(Some(3000))));
        let least = parse::<TraceArgs>("sys:read --threshold 2us").unwrap();
        assert!(least.shows(&call(Some(3000))) && !least.shows(&call(Some(2999))));
        let entered = |duration| Entered {
            duration,
            ..Entered::default()
        };
        assert!(least.shows_function(&entered(Some(2000))) && least.shows_function(&entered(None)));
        assert!(!least.shows_function(&entered(Some(1999))));
    }

    #[test]
    fn calls_are_written_as_they_nest() {
        assert_eq!(
            written("sys:openat"),
            "[70] sys:openat = -ENOENT  2.5 us\n  outer\n    inner [nfs]\n"
        );
        assert_eq!(
            written("sys:openat -D 1"),
            "[70] sys:openat = -ENOENT  2.5 us\n  outer\n"
        );
        let value: serde_json::Value =
            serde_json::from_str(&written("sys:openat -f ndjson")).unwrap();
        assert_eq!(value["duration_ns"], 2500);
        assert_eq!(value["result"], -2);
        assert_eq!(
            value["functions"][1],
            serde_json::json!({"depth": 1, "name": "inner [nfs]"})
        );
    }
}
