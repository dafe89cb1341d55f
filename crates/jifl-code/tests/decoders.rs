// SPDX-License-Identifier: MIT OR Apache-2.0
//! A second decoder finds the same calls. The analysis decodes by iced-x86. Zydis is another
//! program, by other people: it decodes all text of the kernels that tests run on again.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use jifl_code::flow::{self, Target, Thunks};
use jifl_code::graph::CallKind;
use jifl_code::program::Program;
use jifl_code::vmlinux;

/// What the second decoder says of a branch, or of a run of code.
const CALL: u64 = 1;
const RUN: u64 = 4;
const WORD: usize = 8;

/// An address and a target.
type Branch = (u64, u64);

/// The second decoder as a program.
fn second() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/second/branches.c");
    let zydis = common::build().join("zydis");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("branches");
    let time = |path: &Path| fs::metadata(path).and_then(|own| own.modified()).ok();
    if time(&program) > time(&source) {
        return program;
    }
    let parts = [
        "Decoder",
        "DecoderData",
        "SharedData",
        "Register",
        "Mnemonic",
        "MetaInfo",
        "Utils",
        "Segment",
    ];
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-w", "-DZYDIS_STATIC_BUILD", "-DZYCORE_STATIC_BUILD"]);
    gcc.args(["-DZYDIS_DISABLE_FORMATTER", "-DZYDIS_DISABLE_ENCODER", "-o"]);
    gcc.arg(&program).arg(&source);
    for folder in ["include", "src", "dependencies/zycore/include"] {
        gcc.arg("-I").arg(zydis.join(folder));
    }
    gcc.args(parts.map(|part| zydis.join(format!("src/{part}.c"))));
    assert!(gcc.status().unwrap().success(), "{gcc:?}");
    program
}

/// What the second decoder says of runs of code: calls, jumps, and of each run where it ends and
/// how many instructions it has.
struct Said {
    calls: BTreeSet<Branch>,
    jumps: BTreeSet<Branch>,
    runs: Vec<Branch>,
}

/// The instructions that only iced-x86 knows, by name, with how many there are. Behind each one the
/// second decoder is asked again.
type Newer = BTreeMap<String, u64>;

/// As [`ask`], behind instructions that it does not know, too.
fn ask_all(program: &Program, runs: &[(u64, u64)]) -> (Said, Newer) {
    let mut said = ask(program, runs);
    let mut newer = Newer::new();
    let mut left: Vec<usize> = (0..runs.len()).collect();
    loop {
        let mut places = Vec::new();
        left.retain(|index| {
            let (start, length) = runs[*index];
            let at = said.runs[*index].0;
            let bytes = program.image.bytes(at).unwrap_or_default();
            let rest = (start + length - at) as usize;
            let known = flow::decode(&bytes[..rest.min(bytes.len())], at);
            let is_more = rest > 0 && known.is_some();
            if let Some(known) = known.filter(|_| is_more) {
                let name = format!("{:?}", known.mnemonic()).to_lowercase();
                *newer.entry(name).or_default() += 1;
                places.push((known.next_ip(), start + length - known.next_ip()));
            }
            is_more
        });
        if left.is_empty() {
            return (said, newer);
        }
        let more = ask(program, &places);
        said.calls.extend(more.calls);
        said.jumps.extend(more.jumps);
        for (index, (end, number)) in left.iter().zip(more.runs) {
            said.runs[*index] = (end, said.runs[*index].1 + 1 + number);
        }
    }
}

fn ask(program: &Program, runs: &[(u64, u64)]) -> Said {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (runs_file, said_file) = (folder.join("runs"), folder.join("said"));
    let mut data = Vec::new();
    for (start, length) in runs {
        let bytes = &program.image.bytes(*start).unwrap()[..*length as usize];
        data.extend([*start, *length].map(u64::to_le_bytes).concat());
        data.extend(bytes);
    }
    fs::write(&runs_file, data).unwrap();
    let mut command = Command::new(second());
    command.args([&runs_file, &said_file]);
    assert!(command.status().unwrap().success(), "{command:?}");
    let data = fs::read(said_file).unwrap();
    let words = data.chunks_exact(WORD);
    let words = words.map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let words: Vec<u64> = words.collect();
    let mut said = Said {
        calls: BTreeSet::new(),
        jumps: BTreeSet::new(),
        runs: Vec::new(),
    };
    for row in words.chunks_exact(3) {
        let branch = (row[0], row[1]);
        match row[2] {
            CALL => _ = said.calls.insert(branch),
            RUN => said.runs.push(branch),
            _ => _ = said.jumps.insert(branch),
        }
    }
    assert_eq!(said.runs.len(), runs.len());
    said
}

/// Calls, and jumps to other functions, that the graphs have, where the code names the target.
fn graphs(program: &Program) -> (BTreeSet<Branch>, BTreeSet<Branch>) {
    let (mut calls, mut jumps) = (BTreeSet::new(), BTreeSet::new());
    let functions = program.functions.iter();
    for call in functions.flat_map(|function| &function.graph.calls) {
        if let Target::Direct(to) = call.target {
            match call.kind {
                CallKind::Call | CallKind::NoReturn => _ = calls.insert((call.at, to)),
                CallKind::Tail => _ = jumps.insert((call.at, to)),
                CallKind::Into => {}
            }
        }
    }
    (calls, jumps)
}

#[test]
fn a_second_decoder_finds_the_same_calls() {
    for path in common::kernels() {
        let kernel = path.file_name().unwrap().to_str().unwrap().to_owned();
        let program = Program::of(vmlinux::read(&fs::read(&path).unwrap()).unwrap());
        let thunks = Thunks::of(&program.image);
        blocks(&kernel, &program, &thunks);
        text(&kernel, &program, &thunks);
    }
}

/// In the blocks both find the same instructions, calls and jumps to other functions.
fn blocks(kernel: &str, program: &Program, thunks: &Thunks) {
    let functions = program.functions.iter();
    let blocks: Vec<_> = functions.flat_map(|own| own.graph.blocks.iter()).collect();
    let runs: Vec<(u64, u64)> = blocks
        .iter()
        .map(|block| (block.start, block.length.into()))
        .collect();
    let (said, newer) = ask_all(program, &runs);
    // Of FRED (Intel, 2023), which kernels from 6.9 on can use.
    let known = |name: &String| ["lkgs", "erets", "eretu"].contains(&name.as_str());
    assert!(newer.keys().all(known), "{kernel}: {newer:?}");
    for (block, run) in blocks.iter().zip(&said.runs) {
        let own = (block.behind(), u64::from(block.instructions));
        assert_eq!(own, *run, "{kernel}: {:#x}", block.start);
    }
    let (calls, jumps) = graphs(program);
    // A call of a thunk is a call through a register, or none at all.
    let is_real = |branch: &&Branch| !thunks.is_direct(&program.image, branch.0);
    let theirs: BTreeSet<Branch> = said.calls.iter().filter(is_real).copied().collect();
    same(kernel, "calls in blocks", &calls, &theirs);
    let unknown: Vec<_> = jumps.difference(&said.jumps).collect();
    assert_eq!(unknown, Vec::<&Branch>::new(), "{kernel}: jumps to others");
    // All other jumps are edges.
    let starts: BTreeSet<u64> = blocks.iter().map(|block| block.start).collect();
    let other = said.jumps.difference(&jumps).filter(is_real);
    let lost: Vec<_> = other.filter(|(_, to)| !starts.contains(to)).collect();
    assert_eq!(lost, Vec::<&Branch>::new(), "{kernel}: jumps");
    println!(
        "{kernel}: {} calls, {} jumps to other functions: no difference in {} blocks; not known \
         there: {newer:?}",
        calls.len(),
        jumps.len(),
        blocks.len()
    );
}

fn same(kernel: &str, what: &str, own: &BTreeSet<Branch>, theirs: &BTreeSet<Branch>) {
    let only = |a: &BTreeSet<Branch>, b| a.difference(b).copied().collect::<Vec<Branch>>();
    let (ours, others) = (only(own, theirs), only(theirs, own));
    assert!(
        ours.is_empty() && others.is_empty(),
        "{kernel}: {what}: only here {ours:x?}, only there {others:x?}"
    );
}

/// All of each function's text from its beginning to its end, whether or not execution comes there:
/// each call is in the graph, or stands in what execution does not reach.
fn text(kernel: &str, program: &Program, thunks: &Thunks) {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for function in &program.functions {
        for piece in &function.unit.pieces {
            runs.push((piece.start, piece.end - piece.start));
        }
    }
    let (said, _) = ask_all(program, &runs);
    let (calls, _) = graphs(program);
    let is_real = |branch: &&Branch| !thunks.is_direct(&program.image, branch.0);
    let theirs: BTreeSet<Branch> = said.calls.iter().filter(is_real).copied().collect();
    let mut covered: BTreeMap<u64, u64> = BTreeMap::new();
    let functions = program.functions.iter();
    for block in functions.flat_map(|function| &function.graph.blocks) {
        let end = covered.entry(block.start).or_default();
        *end = block.behind().max(*end);
    }
    let is_reached = |at: u64| {
        let mut before = covered.range(..=at).rev().take(4);
        before.any(|(_, end)| at < *end)
    };
    let lost = calls.difference(&theirs).count();
    let more: Vec<_> = theirs.difference(&calls).collect();
    let reached: Vec<_> = more.iter().filter(|(at, _)| is_reached(*at)).collect();
    println!(
        "{kernel}: {} calls in all text; {} where execution does not come, {} in what it reaches \
         at other addresses, {lost} only in the graphs",
        theirs.len(),
        more.len() - reached.len(),
        reached.len()
    );
    let all = theirs.len();
    assert!((more.len() + lost) * 1000 < all, "{kernel}: {more:x?}");
}
