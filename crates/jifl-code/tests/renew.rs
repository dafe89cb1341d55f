// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is analysed again after text has changed is what an analysis from the beginning finds.

mod common;
#[path = "common/random.rs"]
mod random;

use std::fs;

use jifl_code::image::Image;
use jifl_code::live::{Live, Trust};
use jifl_code::program::{Program, Renewed};
use jifl_code::vmlinux;
use random::Random;

/// Compares with an analysis from the beginning. Of liveness, nothing that is live may be called
/// dead; how many blocks have something that is called live and is dead?
fn compare(what: &str, renewed: &Program, live: &Live) -> usize {
    let whole = Program::of(renewed.image.clone());
    assert_eq!(renewed.functions.len(), whole.functions.len(), "{what}");
    let best = Live::of(&whole, Trust::Compiled);
    let mut cautious = 0;
    for (index, (own, other)) in renewed.functions.iter().zip(&whole.functions).enumerate() {
        let name = whole.name(other);
        assert_eq!(own.unit, other.unit, "{what}: {name}");
        assert_eq!(own.graph, other.graph, "{what}: {name}");
        assert_eq!(own.is_endless, other.is_endless, "{what}: {name}");
        for block in 0..own.graph.blocks.len() {
            let (ours, best) = (live.at_block(index, block), best.at_block(index, block));
            assert_eq!(best & !ours, 0, "{what}: {name}: {block}");
            cautious += usize::from(ours != best);
        }
    }
    cautious
}

/// Writes bytes into the text of an image.
fn patch(image: &mut Image, at: u64, new: &[u8]) {
    let text = image.text(at).unwrap();
    let text = &mut image.texts[text];
    let offset = (at - text.address) as usize;
    if let Some(bytes) = text.bytes.get_mut(offset..offset + new.len()) {
        bytes.copy_from_slice(new);
    }
}

/// Turns a jump label: a nop becomes a jump, or a jump a nop (arch/x86/kernel/jump_label.c).
fn turn(image: &mut Image, (at, to): (u64, u64)) {
    let bytes = image.bytes(at).unwrap();
    let is_jump = matches!(bytes[0], 0xeb | 0xe9);
    let is_short = matches!(bytes[..2], [0xeb, _] | [0x66, 0x90]);
    let away = |length: u64| to.wrapping_sub(at + length);
    match (is_jump, is_short) {
        (true, true) => patch(image, at, &[0x66, 0x90]),
        (true, false) => patch(image, at, &[0x0f, 0x1f, 0x44, 0, 0]),
        (false, true) => patch(image, at, &[0xeb, away(2) as u8]),
        (false, false) => {
            let offset = (away(5) as u32).to_le_bytes();
            patch(image, at, &[&[0xe9], &offset[..]].concat());
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
    patch(image, at, &new);
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
    let mut number = 0;
    for key in keys.iter().step_by(keys.len() / 40) {
        turn(&mut image, *key);
        let renewed = program.renew(image.clone());
        assert!(!renewed.is_whole, "{:x}", key.0);
        let function = program.at(key.0);
        assert!(function.is_some_and(|own| renewed.functions.contains(&own)));
        live.renew(&program, &renewed);
        number += 1;
    }
    assert!(number >= 40, "{number}");
    let cautious = compare("jump labels", &program, &live);
    println!("{number} jump labels: {cautious} blocks with more live than there is");
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
    for seed in 1..=30 {
        let random = &mut Random(0x9e37_79b9_7f4a_7c15 ^ seed << 8);
        let image = random::image(random, 6_000, 60);
        let parts = write_over(&format!("seed {seed}"), image, random, 40);
        println!("seed {seed}: {parts} of 40 in part");
    }
}

#[test]
fn names_that_come_and_go() {
    let code = [vec![0xc3], vec![0xcc; 15], vec![0x31, 0xc0, 0xc3]].concat();
    let of = |names: &[(u64, &str)]| Image::of_text(0x1000, code.clone(), names);
    let mut program = Program::of(of(&[(0x1000, "f")]));
    let renewed = program.renew(of(&[(0x1000, "f"), (0x1010, "g")]));
    assert!(renewed.is_whole);
    let own = renewed.functions.iter();
    let own = own.map(|place| program.name(&program.functions[*place]).into_owned());
    // g was there without a name.
    assert_eq!(own.collect::<Vec<_>>(), ["g"]);
    let renewed = program.renew(of(&[(0x1010, "g")]));
    let [(gone, module)] = renewed.gone.as_slice() else {
        panic!("{renewed:?}");
    };
    assert_eq!((gone.as_str(), module.as_str()), ("f", "vmlinux"));
    assert_eq!(renewed.functions, []);
}
