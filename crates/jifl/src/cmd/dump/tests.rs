// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::base::parse::parse;
use crate::session::fake::Fake;
use jifl_sys::abi::{
    BLOCK_DEAD, BLOCK_FALLS, BLOCK_LIVENESS, Block, RoutineInfo, SEGMENT_INLINED, SEGMENT_INSERTED,
    SEGMENT_ONWARD, SEGMENT_ORIGINAL, Segment, to_name,
};
use jifl_sys::device::BlockParts;

const TEXT: u64 = 0xffff_ffff_8100_0000;
const CACHE: u64 = 0xffff_ffff_c0a0_0000;
const KALLSYMS: &str = "ffffffff81000000 T vfs_read\nffffffff81000100 T fput\n\
                        ffffffffc0800000 t add_count\t[icount]\n\
                        ffffffffc0810000 b count\t[icount]\n34020 d jifl_cpu\t[jifl]\n";

/// A piece: its kind, original bytes, copied bytes.
type Made<'a> = (u8, &'a [u8], &'a [u8]);

/// A block of session 3. Before piece n flag n is live, and rax is dead.
fn block(orig: u64, cache: u64, flags: u32, pieces: &[Made<'_>]) -> (Block, BlockParts) {
    let mut parts = BlockParts::default();
    for (index, (kind, src, code)) in pieces.iter().enumerate() {
        parts.src.extend_from_slice(src);
        parts.code.extend_from_slice(code);
        parts.segments.push(Segment {
            code_len: code.len() as u16,
            src_len: src.len() as u8,
            kind: *kind,
            pushed: 0,
            live_flags: 1 << index,
            live_regs: 0xfffe,
        });
    }
    let mut block = Block::from(0, 0);
    (block.orig, block.cache) = (orig, cache);
    (block.flags, block.insns) = (flags, 3);
    block.sessions[0] = 3;
    (block, parts)
}

/// The code is: push, a test, a conditional jump to a block, a call that is not linked.
fn sample() -> [(Block, BlockParts); 2] {
    [
        block(
            TEXT,
            CACHE,
            BLOCK_LIVENESS | BLOCK_FALLS,
            &[
                (SEGMENT_ORIGINAL, &[0x55], &[0x55]),
                (
                    SEGMENT_INSERTED,
                    &[],
                    &[0x65, 0x48, 0x83, 0x04, 0x25, 0x20, 0x40, 0x03, 0x00, 0x03],
                ),
                (SEGMENT_ORIGINAL, &[0x85, 0xc0], &[0x85, 0xc0]),
                (
                    SEGMENT_ORIGINAL,
                    &[0x74, 0x0b],
                    &[0x0f, 0x84, 0xed, 0, 0, 0],
                ),
            ],
        ),
        block(
            TEXT + 0x10,
            CACHE + 0x100,
            BLOCK_DEAD,
            &[
                (SEGMENT_ORIGINAL, &[0x90], &[]),
                (
                    SEGMENT_ORIGINAL,
                    &[0xe8, 0xea, 0, 0, 0],
                    &[0xe8, 0, 8, 0, 0],
                ),
                (SEGMENT_ONWARD, &[], &[0x2e, 0xe9, 0, 9, 0, 0]),
            ],
        ),
    ]
}

fn fake_of(blocks: impl Into<Vec<(Block, BlockParts)>>) -> Fake {
    let fake = Fake::default();
    fake.add_session(3, "jifl");
    fake.state().blocks = blocks.into();
    fake
}

fn look_at(fake: &Fake, limit: Option<usize>) -> Result<Dump, Failure> {
    let sessions = device::sessions(fake).unwrap();
    look(fake, 3, &sessions, || Symbols::parse(KALLSYMS), limit)
}

#[test]
fn the_documented_lines_parse() {
    for line in [
        "sys:getppid -- sh -c :",
        "sys:read sys:write -n sh --kind block --for 1s --limit 5 -f json -o x",
        "--session 3 --limit 20",
    ] {
        assert!(parse::<DumpArgs>(line).is_ok(), "{line}");
    }
    for line in [
        "",
        "--session x",
        "--session 3 sys:read",
        "--session 3 -- true",
        "--session 3 -p 1",
        "sys:read --kind plugin",
    ] {
        assert!(parse::<DumpArgs>(line).is_err(), "{line}");
    }
}

#[test]
fn blocks_stand_beside_their_source() {
    let fake = fake_of(sample());
    let dump = look_at(&fake, None).unwrap();
    assert_eq!(
        render(&dump, Format::Text, None),
        "\
vfs_read:

vfs_read at 0xffffffff81000000, 5 bytes, 3 instructions; copy at 0xffffffffc0a00000, 19 bytes (falls, session 3)
  LIVE    DEAD  ORIGINAL            COPY
  C-----  rax   push %rbp           push %rbp
  ----P-  rax                     + addq $0x3,%gs:jifl_cpu [jifl]  ; counter of instructions
  -----A  rax   test %eax,%eax      test %eax,%eax
  -Z----  rax   je vfs_read+0x10    je vfs_read+0x10

vfs_read+0x10 at 0xffffffff81000010, 6 bytes; copy at 0xffffffffc0a00100, 11 bytes (dead, session 3)
  LIVE  DEAD  ORIGINAL     COPY
              nop
              call fput    call fput (not linked)
                         + jmp vfs_read+0x16 (not linked)  ; goes on
"
    );
}

/// Code inserted where a branch is taken: the branch goes round it, and it goes on to the target.
#[test]
fn both_edges_of_a_branch_are_told_apart() {
    let fake = fake_of([block(
        TEXT,
        CACHE,
        0,
        &[
            (
                SEGMENT_ORIGINAL,
                &[0x74, 0x0e],
                &[0x0f, 0x85, 0x0f, 0, 0, 0],
            ),
            (
                SEGMENT_INSERTED,
                &[],
                &[0x65, 0x48, 0x83, 0x04, 0x25, 0x20, 0x40, 0x03, 0x00, 0x03],
            ),
            (SEGMENT_ONWARD, &[], &[0xe9, 0, 9, 0, 0]),
            (SEGMENT_ONWARD, &[], &[0xe9, 0, 9, 0, 0]),
        ],
    )]);
    let dump = look_at(&fake, None).unwrap();
    let text = render(&dump, Format::Text, None);
    let lines: Vec<&str> = text.lines().skip(4).collect();
    assert!(
        lines[0].contains("je vfs_read+0x10") && lines[0].contains("jne .+0x15"),
        "{text}"
    );
    assert!(
        lines[2].ends_with("jmp vfs_read+0x10 (not linked)  ; is taken"),
        "{text}"
    );
    assert!(
        lines[3].ends_with("jmp vfs_read+0x2 (not linked)  ; goes on"),
        "{text}"
    );
}

#[test]
fn lines_fit_the_terminal() {
    let fake = fake_of(sample());
    let dump = look_at(&fake, None).unwrap();
    for width in [60, 80] {
        let text = render(&dump, Format::Text, Some(width));
        let lines = text.lines().filter(|line| line.starts_with("  "));
        for line in lines {
            assert!(line.chars().count() <= width, "{line}");
        }
        assert!(text.contains('~'), "{text}");
    }
}

#[test]
fn inserted_code_is_said_to_be_what_is_known() {
    let lock_add: &[u8] = &[0xf0, 0x48, 0x83, 0x04, 0x25, 0x00, 0x00, 0x81, 0xc0, 0x05];
    let call: &[u8] = &[0x50, 0xe8, 0xfb, 0xff, 0xdf, 0xff, 0x58];
    let pieces: &[Made<'_>] = &[
        (SEGMENT_INLINED, &[], lock_add),
        (SEGMENT_ORIGINAL, &[0x55], &[0x55]),
        (SEGMENT_INSERTED, &[], &[0x9c]),
        (SEGMENT_INLINED, &[], lock_add),
        (SEGMENT_INSERTED, &[], &[0x9d]),
        (SEGMENT_ORIGINAL, &[0xc3], &[0xc3]),
    ];
    let mut inlined = block(TEXT, CACHE, 0, pieces);
    inlined.1.segments[4].pushed = 1;
    let called = block(TEXT + 8, CACHE - 1, 0, &[(SEGMENT_INSERTED, &[], call)]);
    let fake = fake_of([inlined, called]);
    let by = |fake: &Fake, block: usize| {
        let views = look_at(fake, None).unwrap().views;
        let pieces = views[block].segments.iter();
        pieces
            .map(|piece| piece.by.clone().unwrap_or_default())
            .collect::<Vec<_>>()
    };
    fake.state()
        .routines
        .push(("add_count [icount]".into(), 2, 0, 0));
    let only = "add_count [icount], inlined";
    assert_eq!(by(&fake, 0), [only, "", "saves", only, "restores", ""]);
    assert_eq!(by(&fake, 1), ["call of add_count [icount]"]);
    // Two routines could have been inlined here: neither is named.
    fake.state()
        .routines
        .push(("other [icount]".into(), 1, 0, 0));
    assert_eq!(by(&fake, 0)[0], "inlined routine");
    // A routine that is only called is not a candidate.
    fake.state().routines[1].1 = 0;
    assert_eq!(by(&fake, 0)[0], only);
}

#[test]
fn conditions_are_shown() {
    // cmp $3, %edi; jne; and with memory, cmpq $-9, 0x70(%rdi)
    let if_3: &[u8] = &[0x83, 0xff, 0x03, 0x75, 0x0a];
    let if_bad: &[u8] = &[0x48, 0x83, 0x7f, 0x70, 0xf7, 0x75, 0x0a];
    // addq $1, %gs:0x80001000(, %r11, 8)
    let count: &[u8] = &[0x65, 0x4a, 0x83, 0x04, 0xdd, 0, 0x10, 0, 0x80, 1];
    let lock_add: &[u8] = &[0xf0, 0x48, 0x83, 0x04, 0x25, 0x00, 0x00, 0x81, 0xc0, 0x05];
    let conditional = [if_bad, count].concat();
    let pieces: &[Made<'_>] = &[
        (SEGMENT_INSERTED, &[], count),
        (SEGMENT_INSERTED, &[], &conditional),
        (SEGMENT_INSERTED, &[], if_3),
        (SEGMENT_INLINED, &[], lock_add),
        (SEGMENT_ORIGINAL, &[0xc3], &[0xc3]),
    ];
    let fake = fake_of([block(TEXT, CACHE, 0, pieces)]);
    let views = look_at(&fake, None).unwrap().views;
    let by: Vec<_> = views[0].segments.iter().map(|s| s.by.as_deref()).collect();
    let wanted = [
        Some("histogram"),
        Some("histogram, if 0x70(%rdi) is 0xfffffffffffffff7"),
        Some("if %edi is 0x3"),
        Some("inlined routine"),
        None,
    ];
    assert_eq!(by, wanted);
}

/// Blocks that consist of nops have no code, so other blocks begin at the same address.
#[test]
fn branches_have_the_names_of_the_original() {
    let jumps: &[Made<'_>] = &[
        (
            SEGMENT_ORIGINAL,
            &[0x74, 0x0e],
            &[0x0f, 0x84, 0xfa, 0, 0, 0],
        ),
        (
            SEGMENT_ORIGINAL,
            &[0x74, 0x1c],
            &[0x0f, 0x84, 0xf4, 0, 0, 0],
        ),
        (SEGMENT_ORIGINAL, &[0xff, 0xd0], &[0xe8, 0, 0x10, 0, 0]),
        (SEGMENT_ORIGINAL, &[0xff, 0x20], &[0xe9, 0, 0x10, 0, 0]),
    ];
    let fake = fake_of([
        block(TEXT, CACHE, 0, jumps),
        block(
            TEXT + 0x10,
            CACHE + 0x100,
            0,
            &[(SEGMENT_ORIGINAL, &[0x90], &[])],
        ),
        block(
            TEXT + 0x20,
            CACHE + 0x100,
            0,
            &[(SEGMENT_ORIGINAL, &[0xc3], &[0xc3])],
        ),
    ]);
    let views = look_at(&fake, None).unwrap().views;
    let copies: Vec<&str> = views[0]
        .segments
        .iter()
        .map(|s| s.copy[0].as_str())
        .collect();
    let wanted = [
        "je vfs_read+0x10",
        "je vfs_read+0x20",
        "call <inline cache>",
        "jmp <lookup>",
    ];
    assert_eq!(copies, wanted);
}

#[test]
fn programs_get_the_same() {
    let fake = fake_of(sample());
    let dump = look_at(&fake, Some(1)).unwrap();
    assert_eq!((dump.total, dump.views.len()), (2, 1));
    let value: serde_json::Value =
        serde_json::from_str(&render(&dump, Format::Json, Some(10))).unwrap();
    assert_eq!(
        (&value["command"], &value["session"]),
        (&"dump".into(), &3.into())
    );
    let block = &value["blocks"][0];
    assert_eq!(block["src"], "5585c0740b");
    assert_eq!(block["flags"][0], "falls");
    assert_eq!(block["insns"], 3);
    let piece = &block["segments"][1];
    assert_eq!(piece["kind"], "inserted");
    assert_eq!(piece["copy"][0], "addq $0x3,%gs:jifl_cpu [jifl]");
    assert_eq!(piece["live_flags"], "----P-");
    assert_eq!(piece["live_regs"][0], "rcx");
    assert!(piece["original"].is_null());
}

#[test]
fn nothing_to_show_is_one_line() {
    let fake = fake_of([]);
    for failure in [look_at(&fake, None).err(), of_session(&fake, 4, None).err()] {
        let failure = failure.unwrap();
        assert_eq!(failure.status, crate::base::exit::FAILED);
        assert!(failure.message.contains("no blocks") || failure.message.contains("no session 4"));
        assert!(!failure.message.contains('\n'));
    }
}

#[test]
fn names_of_routines_are_whole() {
    let routine = RoutineInfo {
        name: to_name(b"f [m]").unwrap(),
        copies: 1,
        ..RoutineInfo::default()
    };
    let mut viewer = Viewer::new(Symbols::default(), &[], &[], &[routine]);
    let (block, parts) = block(TEXT, CACHE, 0, &[(SEGMENT_INLINED, &[], &[0x90])]);
    let view = viewer.view(&block, &parts);
    assert_eq!(view.segments[0].by.as_deref(), Some("f [m], inlined"));
    assert_eq!(
        (view.function.as_str(), view.name.as_str()),
        ("?", "0xffffffff81000000")
    );
}

#[test]
fn cells_of_a_profile_are_named() {
    const ADD: [u8; 10] = [0xf0, 0x48, 0x83, 0x04, 0x25, 0, 0, 0x90, 0xc0, 1];
    let blocks = [block(
        TEXT,
        CACHE,
        0,
        &[
            (SEGMENT_INSERTED, &[], &ADD),
            (
                SEGMENT_ORIGINAL,
                &[0x74, 0x0b],
                &[0x0f, 0x84, 0xed, 0, 0, 0],
            ),
            (SEGMENT_INSERTED, &[], &ADD),
        ],
    )];
    let fake = fake_of(blocks);
    fake.state().sessions[0].kind = Kind::Profile as u32;
    let dump = look_at(&fake, None).unwrap();
    let by: Vec<Option<&str>> = dump.views[0]
        .segments
        .iter()
        .map(|segment| segment.by.as_deref())
        .collect();
    assert_eq!(
        by,
        [
            Some("counter of the block"),
            None,
            Some("counter of the branch, not taken")
        ]
    );
}
