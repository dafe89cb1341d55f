// SPDX-License-Identifier: MIT OR Apache-2.0
//! Follows errors through hand-made code.

use super::cause::{self, Cause};
use super::code::Code;
use super::origin::Kind;
use super::trail::{Failed, Mark};
use super::walk::Next;
use super::{WhyArgs, text};
use crate::base::parse::parse;
use crate::kernel::disasm::Disassembler;
use crate::kernel::errno;
use crate::kernel::lines::Lines;
use crate::kernel::symbols::Symbols;
use crate::kernel::syscalls::Table;
use std::cell::RefCell;
use std::rc::Rc;

const AT: u64 = 0xffff_ffff_8100_0000;

const NAMES: &str = "\
    ffffffff81000000 T _stext\nffffffff81001000 T _etext\nffffffff81000000 T hoisted\nffffffff81000010 T outer\nffffffff81000030 T inner\n\
    ffffffff81000040 T native\nffffffff81000050 T sbb\nffffffff81000060 T cmov\n\
    ffffffff81000070 T slot\nffffffff81000090 T store\nffffffff810000a0 T calls\n\
    ffffffff810000b0 T always\nffffffff810000c0 T tail\nffffffff810000d0 T faults\n\
    ffffffff810000f0 R __start___ex_table\nffffffff810000fc R __stop___ex_table\n\
    ffffffff81000100 T chooses\n";

#[rustfmt::skip]
const CODE: [u8; 278] = [
    // push %rbx; mov $-22,%ebx; test %edi,%edi; je out; xor %ebx,%ebx; out: mov %ebx,%eax;
    // pop %rbx; ret
    0x53, 0xbb, 0xea, 0xff, 0xff, 0xff, 0x85, 0xff, 0x74, 0x02, 0x31, 0xdb, 0x89, 0xd8, 0x5b, 0xc3,
    // push %rbx; call inner; mov %eax,%ebx; test %eax,%eax; js err; xor %ebx,%ebx;
    // err: test %rdi,%rdi; je out; call native; out: mov %ebx,%eax; pop %rbx; ret
    0x53, 0xe8, 0x1a, 0x00, 0x00, 0x00, 0x89, 0xc3, 0x85, 0xc0, 0x78, 0x02, 0x31, 0xdb, 0x48, 0x85,
    0xff, 0x74, 0x05, 0xe8, 0x18, 0x00, 0x00, 0x00, 0x89, 0xd8, 0x5b, 0xc3, 0x0f, 0x1f, 0x40, 0x00,
    // cmp $4,%esi; ja err; xor %eax,%eax; ret; err: mov $-2,%rax; ret
    0x83, 0xfe, 0x04, 0x77, 0x03, 0x31, 0xc0, 0xc3, 0x48, 0xc7, 0xc0, 0xfe, 0xff, 0xff, 0xff, 0xc3,
    // ret
    0xc3, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0f, 0x1f, 0x40, 0x00,
    // cmp $1,%edi; sbb %eax,%eax; and $-14,%eax; ret
    0x83, 0xff, 0x01, 0x19, 0xc0, 0x83, 0xe0, 0xf2, 0xc3, 0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00,
    // mov $-22,%edx; xor %eax,%eax; test %edi,%edi; cmove %edx,%eax; ret
    0xba, 0xea, 0xff, 0xff, 0xff, 0x31, 0xc0, 0x85, 0xff, 0x0f, 0x44, 0xc2, 0xc3, 0x0f, 0x1f, 0x00,
    // sub $24,%rsp; lea 12(%rsp),%rdi; call store; mov 12(%rsp),%eax; add $24,%rsp; ret
    0x48, 0x83, 0xec, 0x18, 0x48, 0x8d, 0x7c, 0x24, 0x0c, 0xe8, 0x12, 0x00, 0x00, 0x00, 0x8b, 0x44,
    0x24, 0x0c, 0x48, 0x83, 0xc4, 0x18, 0xc3, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00,
    // test %rsi,%rsi; jne out; movl $-5,(%rdi); out: xor %eax,%eax; ret
    0x48, 0x85, 0xf6, 0x75, 0x06, 0xc7, 0x07, 0xfb, 0xff, 0xff, 0xff, 0x31, 0xc0, 0xc3, 0x66, 0x90,
    // push %rbx; call native; pop %rbx; ret
    0x53, 0xe8, 0x9a, 0xff, 0xff, 0xff, 0x5b, 0xc3, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00,
    // mov $-38,%rax; ret
    0x48, 0xc7, 0xc0, 0xda, 0xff, 0xff, 0xff, 0xc3, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00,
    // test %edi,%edi; je always; xor %eax,%eax; ret
    0x85, 0xff, 0x74, 0xec, 0x31, 0xc0, 0xc3, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00,
    // mov %rdi,%rdx; mov (%rdx),%eax; xor %eax,%eax; ret; xor %edx,%edx; mov $-14,%rax; ret
    0x48, 0x89, 0xfa, 0x8b, 0x02, 0x31, 0xc0, 0xc3, 0x31, 0xd2, 0x48, 0xc7, 0xc0, 0xf2, 0xff, 0xff,
    0xff, 0xc3, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0f, 0x1f, 0x00,
    // .long at - ., fixup - ., 3
    0xe3, 0xff, 0xff, 0xff, 0xe4, 0xff, 0xff, 0xff, 0x03, 0x00, 0x00, 0x00,
    0xcc, 0xcc, 0xcc, 0xcc,
    // test %edi,%edi; je bad; xor %eax,%eax; ret; bad: mov $-22,%eax; test %esi,%esi; je out;
    // mov $-1,%eax; out: ret
    0x85, 0xff, 0x74, 0x03, 0x31, 0xc0, 0xc3, 0xb8, 0xea, 0xff, 0xff, 0xff, 0x85, 0xf6, 0x74, 0x05,
    0xb8, 0xff, 0xff, 0xff, 0xff, 0xc3,
];

/// The record: blocks by their offset and stack pointer.
fn blocks(all: &[(u64, u32)]) -> Vec<Mark> {
    all.iter()
        .map(|(offset, stack)| Mark::Block(AT + offset, *stack))
        .collect()
}

fn failed(marks: Vec<Mark>, error: i64) -> Failed {
    Failed {
        nr: 3,
        result: -error,
        marks,
        ..Failed::default()
    }
}

fn with<T>(call: &Failed, then: impl FnOnce(&Cause, &Code<'_>) -> T) -> T {
    let symbols = Symbols::parse(NAMES);
    let mut memory = (AT, CODE.to_vec());
    let code = Code::new(&mut memory, &symbols, Vec::new);
    then(&cause::of(call, &code), &code)
}

/// Kind and place of the origin, and place of the decision.
fn found(marks: Vec<Mark>, error: i64) -> (Option<Kind>, Option<String>, Option<String>) {
    with(&failed(marks, error), |cause, code| {
        let name = |step: usize| {
            let place = code.symbols.function(cause.walk.steps[step].at);
            place.map(|place| place.shown())
        };
        let origin = cause.origin.as_ref();
        (
            origin.map(|origin| origin.kind),
            origin.and_then(|origin| name(origin.step)),
            cause.decision.and_then(|decision| name(decision.step)),
        )
    })
}

fn is(marks: Vec<Mark>, error: i64, kind: Kind, set: &str, decided: Option<&str>) {
    let wanted = (Some(kind), Some(set.to_owned()), decided.map(str::to_owned));
    assert_eq!(found(marks, error), wanted);
}

#[test]
fn an_error_may_be_set_before_it_is_decided() {
    let marks = blocks(&[(0, 1000), (0xc, 992)]);
    is(
        marks,
        22,
        Kind::Constant,
        "hoisted+0x1",
        Some("hoisted+0x8"),
    );
}

#[test]
fn it_is_followed_into_what_was_called_and_cleaning_up_decides_nothing() {
    let mut marks = blocks(&[
        (0x10, 1000),
        (0x30, 984),
        (0x38, 984),
        (0x16, 992),
        (0x1e, 992),
    ]);
    // First without a cleanup, then with one.
    let mut cleaned = marks.clone();
    marks.extend(blocks(&[(0x28, 992)]));
    is(marks, 2, Kind::Constant, "inner+0x8", Some("inner+0x3"));
    cleaned.extend(blocks(&[(0x23, 992), (0x28, 992)]));
    is(cleaned, 2, Kind::Constant, "inner+0x8", Some("inner+0x3"));
}

#[test]
fn selections_without_a_branch_decide() {
    is(
        blocks(&[(0x50, 1000)]),
        14,
        Kind::Flags,
        "sbb+0x5",
        Some("sbb+0x3"),
    );
    is(
        blocks(&[(0x60, 1000)]),
        22,
        Kind::Constant,
        "cmov",
        Some("cmov+0x9"),
    );
}

#[test]
fn it_is_followed_over_the_stack_by_a_pointer() {
    let marks = blocks(&[(0x70, 1000), (0x90, 968), (0x95, 968), (0x7e, 976)]);
    is(marks, 5, Kind::Constant, "store+0x5", Some("store+0x3"));
}

#[test]
fn what_ran_natively_is_named() {
    let marks = blocks(&[(0xa0, 1000), (0xa6, 992)]);
    is(marks, 2, Kind::Native(Some(AT + 0x40)), "calls+0x1", None);
    // The function is called and recorded, and leaves natively in its middle.
    let marks = blocks(&[
        (0x10, 1000),
        (0x30, 984),
        (0x16, 992),
        (0x1e, 992),
        (0x28, 992),
    ]);
    is(marks, 2, Kind::Lost, "inner+0x3", None);
}

#[test]
fn where_it_is_returned_always_the_caller_decided() {
    is(blocks(&[(0xb0, 1000)]), 38, Kind::Constant, "always", None);
    let marks = blocks(&[(0xc0, 1000), (0xb0, 1000)]);
    is(marks, 38, Kind::Constant, "always", Some("tail+0x2"));
}

#[test]
fn what_chooses_between_errors_comes_behind() {
    let taken = blocks(&[(0x100, 1000), (0x107, 1000), (0x115, 1000)]);
    is(
        taken,
        22,
        Kind::Constant,
        "chooses+0x7",
        Some("chooses+0x2"),
    );
    let not_taken = blocks(&[(0x100, 1000), (0x107, 1000), (0x110, 1000), (0x115, 1000)]);
    is(
        not_taken,
        1,
        Kind::Constant,
        "chooses+0x10",
        Some("chooses+0x2"),
    );
}

#[test]
fn what_stands_before_a_function_is_of_it() {
    let symbols = Symbols::parse("1000 t f\n1030 t __pfx_g\n1040 t g\n1060 t g.cold\n");
    let mut memory = (0, Vec::new());
    let code = Code::new(&mut memory, &symbols, Vec::new);
    assert_eq!(
        (code.function(0x1034), code.function(0x1044)),
        (0x1040, 0x1040)
    );
    assert_eq!(code.function(0x100f), 0x1000);
    assert!(
        code.is_of(0x1040, 0x1034) && code.is_of(0x1040, 0x1064) && !code.is_of(0x1000, 0x1034)
    );
}

#[test]
fn exceptions_end_in_what_the_table_says() {
    let mut marks = blocks(&[(0xd0, 1000)]);
    marks.push(Mark::Fault(AT + 0xd3));
    is(marks, 14, Kind::Fault(Some(AT + 0xda)), "faults+0x3", None);
}

#[test]
fn code_that_is_not_there_is_no_panic() {
    is(
        blocks(&[(0x2000, 1000), (0, 1000)]),
        22,
        Kind::Lost,
        "hoisted+0x8",
        None,
    );
    assert_eq!(found(Vec::new(), 2), (None, None, None));
    assert_eq!(found(vec![Mark::Fault(AT)], 2), (None, None, None));
}

#[test]
fn the_way_of_each_branch_is_known() {
    let marks = blocks(&[(0, 1000), (0xa, 992), (0xc, 992)]);
    let ways = with(&failed(marks, 22), |cause, _| {
        let steps = cause.walk.steps.iter();
        steps
            .map(|step| step.next)
            .filter(|next| *next != Next::On)
            .collect::<Vec<_>>()
    });
    assert_eq!(ways, [Next::NotTaken, Next::End]);
}

fn shown(call: Failed, path: bool) -> String {
    let symbols = Rc::new(Symbols::parse(NAMES));
    let mut memory = (AT, CODE.to_vec());
    let code = Code::new(&mut memory, &symbols, Vec::new);
    let mut names = Disassembler::new(symbols.clone());
    let mut shower = super::Shower {
        table: &Table::all(),
        code: &code,
        lines: &Lines::default(),
        names: &mut names,
        sources: RefCell::default(),
        spots: RefCell::default(),
    };
    let calls = [call];
    let groups = cause::groups(&calls, false, &code);
    let shown = shower.of(&groups[0], path);
    assert!(serde_json::from_str::<serde_json::Value>(&shown.json()).is_ok());
    text::text(&shown, path)
}

#[test]
fn it_is_written_for_people() {
    let marks = blocks(&[
        (0x10, 1000),
        (0x30, 984),
        (0x38, 984),
        (0x16, 992),
        (0x1e, 992),
        (0x28, 992),
    ]);
    assert_eq!(
        shown(failed(marks.clone(), 2), false),
        "close = -ENOENT (No such file or directory)\n\
         \x20 outer+0x1 calls\n\
         \x20 inner\n\
         \x20   +0x3  cmp $0x4,%esi; ja +0x8        taken  <-- decided here\n\
         \x20   +0x8  mov $0xfffffffffffffffe,%rax  -ENOENT\n"
    );
    let path = shown(failed(marks, 2), true);
    for line in [
        "    outer\n",
        "      inner\n",
        "      +0xa",
        "js +0xe",
        "<-- decided here",
    ] {
        assert!(path.contains(line), "{line}\n{path}");
    }
    let always = shown(failed(blocks(&[(0xb0, 1000)]), 38), false);
    assert!(
        always.ends_with("  no branch decided: it is returned always\n"),
        "{always}"
    );
}

#[test]
fn alike_calls_are_one_unless_each_is_wanted() {
    let symbols = Symbols::parse(NAMES);
    let mut memory = (AT, CODE.to_vec());
    let code = Code::new(&mut memory, &symbols, Vec::new);
    let early = blocks(&[(0, 1000), (0xc, 992)]);
    let elsewhere = blocks(&[(0, 2000), (0xc, 1992)]);
    let other = blocks(&[(0xb0, 1000)]);
    let calls = [failed(early, 22), failed(elsewhere, 22), failed(other, 38)];
    let sizes = |each| {
        let groups = cause::groups(&calls, each, &code);
        groups.iter().map(|group| group.calls).collect::<Vec<_>>()
    };
    assert_eq!(sizes(false), [2, 1]);
    assert_eq!(sizes(true), [1, 1, 1]);
}

#[test]
fn the_documented_lines_parse() {
    for line in [
        "-x ENOTDIR sys:openat -- cat /etc/hostname/x",
        "-x EACCES sys:* -p 1234 --for 10s",
        "--all --path sys:bpf -- ./prog",
        "-f ndjson -o why.ndjson sys:* -- make",
    ] {
        assert!(parse::<WhyArgs>(line).is_ok(), "{line}");
    }
    for line in ["", "sys:read -f json", "sys:read --limit x"] {
        assert!(parse::<WhyArgs>(line).is_err(), "{line}");
    }
    assert!(errno::parse("EXIT").is_err());
}
