// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modules' files. What their relocations say of calls is a second source, which the analysis does
//! not use to find calls.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jifl_code::flow::Target;
use jifl_code::image::Image;
use jifl_code::live::{Live, Trust};
use jifl_code::packed;
use jifl_code::program::Program;
use jifl_code::vmlinux;
use object::elf::{R_X86_64_PC32, R_X86_64_PLT32};
use object::{
    Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionKind, SymbolKind,
};

/// Of so many modules one is looked at; in the soak each is.
const SHARE: usize = 40;
/// A damaged module comes to its end in this time, on a machine that does other work, too.
const PATIENCE: Duration = Duration::from_secs(60);

fn all_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            all_below(&path, found);
        } else if path
            .extension()
            .is_some_and(|end| end == "ko" || end == "xz")
        {
            found.push(path);
        }
    }
}

/// Those of 6.1, those of 6.12, which are compressed, and our own of all kernels.
fn modules() -> Vec<PathBuf> {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build");
    let mut all = Vec::new();
    all_below(&build.join("kernels/lib/modules"), &mut all);
    all.sort();
    let share = if std::env::var_os("JIFL_SOAK").is_some() {
        1
    } else {
        SHARE
    };
    let mut all: Vec<PathBuf> = all.into_iter().step_by(share).collect();
    let own = fs::read_dir(build.join("modules")).into_iter().flatten();
    let own = own.map(|entry| entry.unwrap().path().join("jifl.ko"));
    all.extend(own.filter(|path| path.exists()));
    assert!(all.len() > 50, "`make setup` fetches kernels");
    all
}

/// How often functions call what is not in the module: by the names of both.
type Calls = BTreeMap<(String, String), usize>;

/// What is of `f` is also in `f.cold`.
fn whole(name: &str) -> &str {
    name.split(".cold").next().unwrap_or(name)
}

/// Thunks are what they stand for.
fn is_thunk(name: &str) -> bool {
    name.starts_with("__x86_indirect") || name == "__x86_return_thunk"
}

/// By the relocations of calls and jumps. A function reaches as far as its symbol says.
fn of_relocations(file: &[u8]) -> Calls {
    let file = object::File::parse(file).unwrap();
    let mut calls = Calls::new();
    for section in file
        .sections()
        .filter(|own| own.kind() == SectionKind::Text)
    {
        if section.name().unwrap().starts_with(".altinstr") {
            continue;
        }
        let code = section.data().unwrap();
        let own = file.symbols().filter(|symbol| {
            symbol.section_index() == Some(section.index()) && symbol.kind() == SymbolKind::Text
        });
        let own: Vec<_> = own.collect();
        for (offset, relocation) in section.relocations() {
            let RelocationTarget::Symbol(index) = relocation.target() else {
                continue;
            };
            let to = file.symbol_by_index(index).unwrap();
            let kind = relocation.flags();
            let is_branch = [R_X86_64_PLT32, R_X86_64_PC32]
                .iter()
                .any(|r_type| kind == RelocationFlags::Elf { r_type: *r_type });
            let before = &code[offset.saturating_sub(2) as usize..offset as usize];
            let is_branch = is_branch
                && (matches!(before, [.., 0xe8 | 0xe9]) || matches!(before, [0x0f, 0x80..=0x8f]));
            if !to.is_undefined() || !is_branch || relocation.addend() != -4 {
                continue;
            }
            let holds = |symbol: &&object::Symbol<'_, '_>| {
                let begin = symbol.address();
                (begin..begin + symbol.size()).contains(&offset)
            };
            // Of several names a global one, init_module, and the first in their order.
            let names = own.iter().filter(holds);
            let Some(function) =
                names.max_by_key(|own| (own.is_global(), Reverse(own.name().unwrap())))
            else {
                continue;
            };
            let callee = to.name().unwrap().to_owned();
            if !is_thunk(&callee) {
                let caller = whole(function.name().unwrap()).to_owned();
                *calls.entry((caller, callee)).or_insert(0) += 1;
            }
        }
    }
    calls
}

/// By the analysis.
fn of_analysis(program: &Program) -> Calls {
    let mut calls = Calls::new();
    for function in &program.functions {
        if function.unit.symbol.is_none() {
            continue;
        }
        let caller = program.name(function);
        for call in &function.graph.calls {
            let Target::Direct(to) = call.target else {
                continue;
            };
            if program.image.text(to).is_some() {
                continue;
            }
            let symbols = &program.image.symbols;
            let place = symbols.binary_search_by_key(&to, |symbol| symbol.address);
            let callee = place.map_or("?".into(), |place| symbols[place].name.clone());
            let caller = whole(&caller).to_owned();
            *calls.entry((caller, callee)).or_insert(0) += 1;
        }
    }
    calls
}

#[test]
fn calls_are_those_of_the_relocations() {
    let (mut sum, mut wrong) = (0, Vec::new());
    for path in modules() {
        let file = fs::read(&path).unwrap();
        let file = packed::unpack(&file).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let image = vmlinux::read(&file).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let program = Program::of(image);
        let (expected, found) = (of_relocations(&file), of_analysis(&program));
        let differ = expected
            .iter()
            .filter(|(pair, n)| found.get(*pair) != Some(n));
        let differ: Vec<_> = differ.map(|(pair, n)| (pair, n, found.get(pair))).collect();
        let more = found
            .iter()
            .filter(|(pair, _)| !expected.contains_key(*pair));
        let more: Vec<_> = more.collect();
        if !differ.is_empty() || !more.is_empty() {
            wrong.push(format!("{path:?}: {differ:?}, {more:?}"));
        }
        sum += expected.values().sum::<usize>();
    }
    println!("{sum} calls");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(sum > 5000, "{sum} calls");
}

fn own() -> Vec<u8> {
    let path = modules().pop().unwrap();
    assert!(path.ends_with("jifl.ko"));
    fs::read(path).unwrap()
}

/// It comes to an end, and liveness too.
fn analyse(image: Image) -> Program {
    let program = Program::of(image);
    Live::of(&program, Trust::Compiled);
    program
}

#[test]
fn damaged_modules_come_to_an_end() {
    let file = own();
    let begin = Instant::now();
    for part in 0..40 {
        let _ = vmlinux::read(&file[..file.len() * part / 40]).map(analyse);
    }
    // Bytes of its tables, and then of all of it.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for round in 0..60 {
        let mut damaged = file.clone();
        let (from, length) = match round % 3 {
            0 => (0, 64),
            1 => (file.len() - 8192, 8192),
            _ => (0, file.len()),
        };
        for _ in 0..1 + round * 8 {
            damaged[from + random(length)] = random(256) as u8;
        }
        println!("round {round}");
        let _ = vmlinux::read(&damaged).map(analyse);
    }
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
}

#[test]
fn compressed_modules_that_are_damaged_are_refused() {
    let all = modules();
    let path = all.iter().find(|path| path.extension().unwrap() == "xz");
    let file = fs::read(path.unwrap()).unwrap();
    for part in 1..16 {
        let error = vmlinux::read(&file[..file.len() * part / 16]).unwrap_err();
        assert!(error.0.starts_with("the xz file is damaged or cut short: "));
        let mut damaged = file.clone();
        damaged[file.len() * part / 16] ^= 0x10;
        let error = vmlinux::read(&damaged).unwrap_err();
        assert!(error.0.starts_with("the xz file is damaged or cut short: "));
    }
}

#[test]
fn a_stripped_module_is_refused_and_data_is_not_explained() {
    let file = own();
    let mut stripped = file.clone();
    // Its header says that it has no section of symbols: kind 2 of each section becomes 0.
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let number = u16::from_le_bytes([file[60], file[61]]);
    for index in 0..usize::from(number) {
        let kind = word(40) + 64 * index + 4;
        if stripped[kind] == 2 {
            stripped[kind] = 0;
        }
    }
    let error = vmlinux::read(&stripped).unwrap_err();
    assert!(error.0.contains("no symbols"), "{error}");

    // A function that is data: no instruction begins with 06.
    let mut image = vmlinux::read(&file).unwrap();
    let name = |name: &str| {
        let mut all = image.symbols.iter();
        all.find(|own| own.name == name).unwrap().address
    };
    let at = name("jifl_engine_dispatch");
    let text = image.text(at).unwrap();
    let offset = (at - image.texts[text].address) as usize;
    image.texts[text].bytes[offset..offset + 64].fill(6);
    let program = analyse(image);
    let function = &program.functions[program.entered(at).unwrap()];
    assert!(!function.graph.is_whole());
    let accounts = program.account();
    let holes = accounts.iter().flat_map(|account| &account.holes);
    let mut own = holes.filter(|hole| hole.range.contains(&at));
    assert!(own.next().is_some());
}
