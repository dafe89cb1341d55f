// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::base::parse::parse;
use crate::kernel::values::{Kind as Type, Prototype};
use crate::session::fake::Fake;
use crate::session::ring::pieces::tests::{enter, mark, result};
use jifl_sys::abi::{
    RECORD_ARGUMENTS, RECORD_BEGIN, RECORD_CLOCK, RECORD_END, RECORD_ENTERED, RECORD_LEFT,
    RECORD_RETURNED, Record, record_words,
};

/// A thread id that no machine has: ids end at 4,194,304.
pub const GONE: u32 = 5_000_000;

#[test]
fn the_documented_lines_parse() {
    for line in [
        "sys:openat -- cat /etc/hostname",
        "sys:* -D 3 -n nginx --for 1s -o calls.txt",
        "sys:read -f ndjson -p 1",
        "sys:* --longer 10us -- ls",
        "-d sys:openat --threshold 10us -- ls",
        "sys:* -f folded -o stacks.txt -- ls",
        "sys:* -f chrome -o ls.json -- ls",
        "-A sys:* -f perfetto -o ls.pftrace -- ls",
    ] {
        assert!(parse::<TraceArgs>(line).is_ok(), "{line}");
    }
    for line in ["", "sys:read -f xml", "sys:read -D x"] {
        assert!(parse::<TraceArgs>(line).is_err(), "{line}");
    }
}

/// A record with a word behind it.
fn word(what: u32, stack: u32, word: u64) -> [Record; 2] {
    let record = |what, value| Record { what, value };
    [
        record(what, stack),
        record(word as u32, (word >> 32) as u32),
    ]
}

/// A call of 2.5 us that enters a function, which enters another, which returns natively.
/// Counters have ten ticks in a nanosecond.
fn records(args: &TraceArgs) -> Vec<Record> {
    let clock = |when: u64| word(RECORD_CLOCK, 0, 10 * when);
    let mut all = mark(RECORD_BEGIN, 257, GONE, 1000).to_vec();
    all.extend(clock(1000));
    all.push(enter(0, 900));
    if args.args {
        all.extend(word(RECORD_ARGUMENTS, 900, 7));
        all.extend([Record::default(); 5]);
    }
    all.extend(word(RECORD_ENTERED, 900, 11_000));
    all.push(enter(16, 800));
    all.extend(word(RECORD_ENTERED, 800, 15_000));
    if args.args {
        all.extend(word(RECORD_RETURNED, 900, -2i64 as u64));
    }
    all.extend(word(RECORD_LEFT, 900, 31_000));
    all.push(result(-2));
    all.extend(mark(RECORD_END, 257, GONE, 3500));
    all.extend(clock(3500));
    let timed =
        |record: &Record| ![RECORD_CLOCK, RECORD_ENTERED, RECORD_LEFT].contains(&record.what);
    if args.timed() {
        all
    } else {
        without(&all, timed)
    }
}

/// The kept calls, with their words.
fn without(all: &[Record], kept: impl Fn(&Record) -> bool) -> Vec<Record> {
    let (mut left, mut at) = (Vec::new(), 0);
    while let Some(record) = all.get(at) {
        let end = at + 1 + record_words(record.what);
        if kept(record) {
            left.extend(&all[at..end]);
        }
        at = end;
    }
    left
}

/// The output for this trace.
pub fn written(line: &str) -> Vec<u8> {
    let args: TraceArgs = parse(line).unwrap();
    let fake = Fake::default();
    fake.state().records = vec![records(&args), Vec::new()];
    let taken = crate::session::ring::tests::taken(&fake, 2);
    let symbols = Symbols::parse("ffffffff81000000 T outer\nffffffff81000010 t inner\t[nfs]\n");
    let (pieces, stray) = taken.pieces();
    assert_eq!(stray, 0);
    let int = Type::Int {
        size: 4,
        signed: true,
    };
    let parameters = [("x".into(), int.clone()), ("y".into(), Type::Whole(24))];
    let outer = Prototype::new(parameters, false, Some(int));
    let known = Prototypes::known([("outer".to_owned(), outer)]);
    let view = View {
        table: &Table::all(),
        names: Names::new(&symbols, args.args.then_some(&known)),
        timed: args.timed(),
    };
    let moment = Moment::default();
    let form = args.format.form(view.timed, moment, Threads::default());
    let (mut form, mut out) = (form, Vec::new());
    form.begin(&mut out);
    calls::each(&taken, &pieces, |call| {
        if let Some(shown) = args.choice.shown(call) {
            form.call(&mut out, &shown, &view);
        }
        Ok::<_, ()>(())
    })
    .unwrap();
    let losses = Losses {
        lost: 3,
        ..Losses::default()
    };
    form.end(&mut out, &view, &losses);
    let (kept, functions) = keep(&taken, &pieces, &view, moment, &losses);
    assert_eq!(again(&args, &symbols, &kept, &functions), out);
    out
}

/// The output for what was kept of the trace.
fn again(args: &TraceArgs, symbols: &Symbols, kept: &Kept, functions: &[u64]) -> Vec<u8> {
    assert!(kept.fits(functions.len()));
    let text = serde_json::to_string(kept).unwrap();
    let kept: Kept = serde_json::from_str(&text).unwrap();
    let name = format!(
        "jifl-kept-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    );
    let path = std::env::temp_dir().join(name.replace(['(', ')'], ""));
    let sink = crate::show::output::Sink::file(&path).unwrap();
    kept.write(symbols, functions, &args.choice, (args.format, sink))
        .unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    bytes
}

fn text(line: &str) -> String {
    String::from_utf8(written(line)).unwrap()
}

#[test]
fn calls_are_written_as_they_nest() {
    let head = format!("[{GONE}] sys:openat = -ENOENT  2.5 us\n");
    assert_eq!(
        text("sys:openat"),
        format!("{head}  outer\n    inner [nfs]\n")
    );
    assert_eq!(text("sys:openat -D 1"), format!("{head}  outer\n"));
    assert_eq!(
        text("sys:openat -d -A"),
        format!("{head}  outer(x=7, y=...) = -2 (ENOENT)  2.0 us\n    inner(?) [nfs]\n")
    );
    let value: serde_json::Value = serde_json::from_str(&text("sys:openat -f ndjson")).unwrap();
    assert_eq!(value["duration_ns"], 2500);
    assert_eq!(value["result"], -2);
    assert_eq!(
        value["functions"][1],
        serde_json::json!({"depth": 1, "name": "inner [nfs]"})
    );
}

#[test]
fn stacks_have_counts_or_their_own_time() {
    assert_eq!(
        text("sys:openat -f folded"),
        "sys:openat;outer 1\nsys:openat;outer;inner [nfs] 1\n"
    );
    assert_eq!(
        text("sys:openat -f folded -d"),
        "sys:openat 500\nsys:openat;outer 2000\n"
    );
}
