// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is analysed again after text has changed is what an analysis from the beginning finds.

mod common;
#[path = "common/random.rs"]
mod random;

use std::fs;

use jifl_code::image::{Image, Text};
use jifl_code::live::{Live, Trust};
use jifl_code::program::{Program, Renewed};
use jifl_code::vmlinux;
use random::Random;

/// Compares with an analysis from the beginning. Of liveness, nothing that is live may be called
/// dead.
fn compare(what: &str, renewed: &Program, live: &Live) {
    let whole = Program::of(renewed.image.clone());
    assert_eq!(renewed.functions.len(), whole.functions.len(), "{what}");
    let best = Live::of(&whole, Trust::Compiled);
    for (index, (own, other)) in renewed.functions.iter().zip(&whole.functions).enumerate() {
        let name = whole.name(other);
        assert_eq!(own.unit, other.unit, "{what}: {name}");
        assert_eq!(own.graph, other.graph, "{what}: {name}");
        assert_eq!(own.is_endless, other.is_endless, "{what}: {name}");
        let (ours, least) = (live.summary(index), best.summary(index));
        assert_eq!(least.uses & !ours.uses, 0, "{what}: {name}");
        assert_eq!(ours.defines & !least.defines, 0, "{what}: {name}");
        for block in 0..own.graph.blocks.len() {
            let (ours, least) = (live.at_block(index, block), best.at_block(index, block));
            assert_eq!(least & !ours, 0, "{what}: {name}: {block}");
        }
    }
}

/// Turns a jump label: a nop becomes a jump, or a jump a nop (arch/x86/kernel/jump_label.c).
fn turn(image: &mut Image, (at, to): (u64, u64)) {
    let bytes = image.bytes(at).unwrap();
    let is_jump = matches!(bytes[0], 0xeb | 0xe9);
    let is_short = matches!(bytes[..2], [0xeb, _] | [0x66, 0x90]);
    let away = |length: u64| to.wrapping_sub(at + length);
    match (is_jump, is_short) {
        (true, true) => image.patch(at, &[0x66, 0x90]),
        (true, false) => image.patch(at, &[0x0f, 0x1f, 0x44, 0, 0]),
        (false, true) => image.patch(at, &[0xeb, away(2) as u8]),
        (false, false) => {
            let offset = (away(5) as u32).to_le_bytes();
            image.patch(at, &[&[0xe9], &offset[..]].concat());
        }
    }
}

/// Any change of code at an address.
fn change(random: &mut Random, image: &mut Image, at: u64, anywhere: u64) {
    let away = (anywhere.wrapping_sub(at + 5) as u32).to_le_bytes();
    let to = |operation: u8| [&[operation], &away[..]].concat();
    let new = match random.below(7) {
        0 => vec![0xc3],
        1 => vec![0x0f, 0x0b],
        2 => to(0xe9),
        3 => to(0xe8),
        4 => vec![0x90; 5],
        5 => vec![0xeb, 0xfe],
        _ => (0..6).map(|_| random.below(256) as u8).collect(),
    };
    image.patch(at, &new);
}

/// Where blocks begin, and entries, of all functions.
fn places(program: &Program) -> Vec<u64> {
    let functions = program.functions.iter();
    let blocks = functions.flat_map(|own| own.graph.blocks.iter().map(|block| block.start));
    blocks.collect()
}

#[test]
fn a_kernel_whose_jump_labels_turn() {
    let path = common::kernels().pop().unwrap();
    let mut image = vmlinux::read(&fs::read(path).unwrap()).unwrap();
    let keys: Vec<(u64, u64)> = image.tables.keys.clone();
    let mut program = Program::of(image.clone());
    let mut live = Live::of(&program, Trust::Compiled);
    let (mut parts, mut all) = (0, 0);
    for key in keys.iter().step_by(keys.len() / 40) {
        turn(&mut image, *key);
        let renewed = program.renew(image.clone());
        let function = program.at(key.0);
        assert!(function.is_some_and(|own| renewed.functions.contains(&own)));
        live.renew(&program, &renewed);
        parts += usize::from(!renewed.is_whole);
        all += 1;
        if all % 10 == 0 {
            compare(&format!("{:x}", key.0), &program, &live);
        }
    }
    println!("{parts} of {all} jump labels in part");
    assert!(parts * 4 > all * 3, "{parts} of {all}");
    // The same text once more.
    assert_eq!(program.renew(image), Renewed::default());
}

/// Writes over code here and there. How often was only a part analysed again?
fn write_over(what: &str, mut image: Image, random: &mut Random, rounds: usize) -> usize {
    let mut program = Program::of(image.clone());
    let mut live = Live::of(&program, Trust::Compiled);
    let mut parts = 0;
    for round in 0..rounds {
        let places = places(&program);
        let mut any = || places[random.below(places.len() as u64) as usize];
        let (at, to) = (any(), any());
        change(random, &mut image, at, to);
        let renewed = program.renew(image.clone());
        live.renew(&program, &renewed);
        parts += usize::from(!renewed.is_whole);
        compare(&format!("{what}, {round}, {at:x}"), &program, &live);
    }
    parts
}

#[test]
fn code_that_is_written_over() {
    let modules = fs::read_dir(common::build().join("modules")).expect("`make` builds modules");
    let module = modules.map(|entry| entry.unwrap().path().join("jifl.ko"));
    let module = module.max().unwrap();
    let image = vmlinux::read(&fs::read(module).unwrap()).unwrap();
    let parts = write_over("jifl.ko", image, &mut Random(7), 60);
    assert!(parts >= 30, "{parts}");
    let mut parts = 0;
    for seed in 1..=30 {
        let random = &mut Random(0x9e37_79b9_7f4a_7c15 ^ seed << 8);
        let image = random::image(random, 6_000, 60);
        parts += write_over(&format!("seed {seed}"), image, random, 40);
    }
    println!("{parts} of 1,200 in part");
    assert!(parts > 100, "{parts}");
}

/// What depends on more than a function's own text: functions without names, and the ends of texts.
#[test]
fn what_more_depends_on() {
    // f and g; a function without a name is at 0x1010, behind f.
    let mut code = vec![0xcc; 0x60];
    code[0] = 0xc3;
    code[0x10..0x13].copy_from_slice(&[0x31, 0xc0, 0xc3]);
    code[0x20..0x26].copy_from_slice(&[0x53, 0x90, 0x90, 0x90, 0x90, 0x90]);
    code[0x26..0x28].copy_from_slice(&[0x5b, 0xc3]);
    code[0x40] = 0xc3;
    let names = [(0x1000, "f"), (0x1020, "g"), (0x1040, "h")];
    let of = |code: &[u8]| Image::of_text(0x1000, code.to_vec(), &names);
    let entries = |program: &Program| {
        let all = program.functions.iter();
        all.map(|own| own.unit.entry()).collect::<Vec<u64>>()
    };
    let mut called_before_it = code.clone();
    // f is: push, call h; what follows is taken for padding if nothing is behind it.
    called_before_it[..6].copy_from_slice(&[0x53, 0xe8, 0x3a, 0, 0, 0]);
    type Patch<'a> = (&'a [u8], u64, &'a [u8]);
    // f jumps to it, and so it is a part of f. Then f does not, and it is a function.
    let mut of_f = code.clone();
    of_f[..2].copy_from_slice(&[0xeb, 0x0e]);
    let patches: [Patch<'_>; 8] = [
        (&of_f, 0x1000, &[0xc3, 0xcc]),
        (&code, 0x1000, &[0xeb, 0x0e]), // f jumps to it
        (&code, 0x1021, &[0xe8, 0xea, 0xff, 0xff, 0xff]), // g calls it
        (&code, 0x1021, &[0xe9, 0xea, 0xff, 0xff, 0xff]), // g jumps to it
        (&code, 0x1002, &[0x90, 0x90]), // f has dead bytes before it
        (&code, 0x1010, &[0x06]),       // it is no code any more
        (&called_before_it, 0x1000, &[0x55]),
        (&code, 0x1021, &[0x48]), // g alone
    ];
    for (index, (code, at, new)) in patches.into_iter().enumerate() {
        let mut image = of(code);
        let mut program = Program::of(image.clone());
        let mut live = Live::of(&program, Trust::Compiled);
        assert_eq!(
            entries(&program).contains(&0x1010),
            *code != of_f,
            "{index}"
        );
        image.patch(at, new);
        let renewed = program.renew(image.clone());
        assert_eq!(renewed.is_whole, index < 7, "{index}");
        live.renew(&program, &renewed);
        compare(&format!("patch {index}"), &program, &live);
        assert_eq!(program.image, image, "{index}");
    }
    // f and g lead into the middle of each other, f from its entry, too. Then it does not.
    code[..5].copy_from_slice(&[0xe9, 0x23, 0, 0, 0]);
    code[0x8..0xd].copy_from_slice(&[0xe9, 0x1b, 0, 0, 0]);
    code[0x10..0x13].fill(0xcc);
    code[0x20] = 0xc3;
    code[0x28..0x2d].copy_from_slice(&[0xe9, 0xdb, 0xff, 0xff, 0xff]);
    let mut image = of(&code);
    let mut program = Program::of(image.clone());
    let blocks = |program: &Program| {
        let all = program.functions.iter();
        all.map(|own| own.graph.blocks.len())
            .collect::<Vec<usize>>()
    };
    assert_eq!(blocks(&program)[..2], [2, 2]);
    image.patch(0x1000, &[0xc3]);
    assert!(program.renew(image.clone()).is_whole);
    let live = Live::of(&program, Trust::Compiled);
    compare("a cycle", &program, &live);
    // Two texts that touch; the change does, too.
    let mut image = of(&code);
    let second = image.texts[0].bytes.split_off(0x20);
    image.texts.push(Text {
        address: 0x1020,
        bytes: second,
        ..image.texts[0].clone()
    });
    let mut newer = image.clone();
    newer.patch(0x101f, &[0x90]);
    newer.patch(0x1020, &[0x55]);
    let mut program = Program::of(image);
    let renewed = program.renew(newer.clone());
    let live = Live::of(&program, Trust::Compiled);
    compare("two texts", &program, &live);
    assert_eq!(
        (program.image, renewed.places),
        (newer, vec![0x101f..0x1020, 0x1020..0x1021])
    );
}

#[test]
fn names_that_come_and_go() {
    let code = [vec![0xc3], vec![0xcc; 15], vec![0x31, 0xc0, 0xc3]].concat();
    let of = |names: &[(u64, &str)]| Image::of_text(0x1000, code.clone(), names);
    let mut program = Program::of(of(&[(0x1000, "f")]));
    let renewed = program.renew(of(&[(0x1000, "f"), (0x1010, "g")]));
    assert!(renewed.is_whole);
    let own = renewed.come.iter();
    let own = own.map(|place| program.name(&program.functions[*place]).into_owned());
    // g was there without a name.
    assert_eq!(own.collect::<Vec<_>>(), ["g"]);
    let renewed = program.renew(of(&[(0x1010, "g")]));
    let [(gone, module)] = renewed.gone.as_slice() else {
        panic!("{renewed:?}");
    };
    assert_eq!((gone.as_str(), module.as_str()), ("f", "vmlinux"));
    assert_eq!((renewed.functions, renewed.come), (vec![], vec![]));
}
