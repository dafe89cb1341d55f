// SPDX-License-Identifier: MIT OR Apache-2.0
//! What makes no sense comes to an end, without a panic: text of random bytes, names that stand
//! anywhere, tables that lead anywhere, files that are cut short.

use jifl_code::depth;
use jifl_code::image::{Alternative, Fixup, Image, Symbol, Tables, Text};
use jifl_code::live::{Live, Trust};
use jifl_code::program::Program;
use jifl_code::running;
use jifl_code::vmlinux;

/// Numbers that look random and are the same each time (xorshift64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

const BASE: u64 = 0xffff_ffff_8100_0000;

/// An image of random bytes. A part of them are instructions that branch nearby.
fn image(random: &mut Random, length: u64, names: u64) -> Image {
    let mut bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
    for _ in 0..length / 16 {
        let at = random.below(length) as usize;
        let near = (random.below(4096) as i32 - 2048).to_le_bytes();
        let branch = [[0xe8], [0xe9], [0xeb], [0x74], [0xc3], [0x90]][random.below(6) as usize];
        let branch = branch.into_iter().chain(near);
        for (byte, new) in bytes[at..].iter_mut().zip(branch) {
            *byte = new;
        }
    }
    let mut anywhere = || match random.below(20) {
        0 => random.next(),
        _ => BASE + random.below(length),
    };
    let mut pairs = || {
        (0..200)
            .map(|_| (anywhere(), anywhere()))
            .collect::<Vec<_>>()
    };
    let (fixups, keys) = (pairs(), pairs());
    let alternatives = pairs().into_iter().map(|(at, replacement)| Alternative {
        at,
        replacement,
        length: at as u8,
    });
    let tables = Tables {
        fixups: fixups
            .into_iter()
            .map(|(at, to)| Fixup::new(at, to))
            .collect(),
        keys,
        warnings: Some(pairs().into_iter().map(|(at, _)| at).collect()),
        alternatives: alternatives.collect(),
        replacements: (BASE, bytes.clone()),
        ..Tables::default()
    };
    let symbols = (0..names).map(|index| Symbol {
        address: anywhere(),
        name: match index % 7 {
            0 => format!("f{}.cold", index / 7),
            1 => "__x86_indirect_thunk_rax".into(),
            2 => format!("__pfx_f{index}"),
            _ => format!("f{}", index / 7),
        },
        is_global: index % 2 == 0,
    });
    let symbols = symbols.collect();
    let text = |from: u64, to: u64, is_aside| Text {
        address: BASE + from,
        bytes: bytes[from as usize..to as usize].to_vec(),
        module: 0,
        is_aside,
    };
    let mut image = Image {
        modules: vec!["noise".into()],
        texts: vec![
            text(0, length / 2, false),
            text(length / 2, length, true),
            text(8, 64, false),
        ],
        symbols,
        data: vec![(BASE, bytes.clone())],
        tables,
    };
    image.put_in_order();
    image
}

/// Bytes are accounted for once each.
fn check(program: &Program) {
    depth::compare(program);
    let live = Live::of(program, Trust::Compiled);
    for (index, function) in program.functions.iter().enumerate().take(50) {
        for block in 0..function.graph.blocks.len() {
            live.in_block(program, index, block);
        }
    }
    let accounts = program.account();
    for (text, account) in program.image.texts.iter().zip(accounts) {
        let sum = account.code + account.padding + account.unexplained();
        assert_eq!(sum, text.bytes.len() as u64);
    }
}

#[test]
fn random_bytes_come_to_an_end() {
    for seed in 1..=60 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed << 8);
        let length = 1 << (8 + seed % 9);
        let names = random.below(200);
        println!("seed {seed}");
        check(&Program::of(image(&mut random, length, names)));
    }
}

/// Memory that has random bytes wherever it is read.
struct Noise(Random);

impl running::Memory for Noise {
    fn read(&mut self, _: u64, length: usize) -> Option<Vec<u8>> {
        let is_there = self.0.below(8) != 0;
        is_there.then(|| (0..length).map(|_| self.0.next() as u8).collect())
    }
}

/// Names, sections and memory of a running kernel that make no sense together.
#[test]
fn running_kernels_of_random_bytes_come_to_an_end() {
    for seed in 1..=40 {
        println!("seed {seed}");
        let mut random = Random(0x1234_5678_9abc_def1 ^ seed << 16);
        let mut text = format!("{BASE:x} T _stext\n{:x} T _etext\n", BASE + 0x8000);
        for name in [
            "__start___ex_table",
            "__stop___ex_table",
            "__start___jump_table",
        ] {
            text += &format!("{:x} R {name}\n", BASE + random.below(0x9000));
        }
        for index in 0..200 {
            let label = ["", "\t[m]", "\t[jifl]", "\t["][random.below(4) as usize];
            text += &format!("{:x} t f{index}{label}\n", BASE + random.below(0xa000));
        }
        let mut section = |name: &str| (BASE + random.below(0x20000), name.to_owned());
        let names = [
            ".text",
            ".text.unlikely",
            "__ex_table",
            "__bug_table",
            ".rodata",
        ];
        let module = running::Module {
            name: "m".into(),
            size: 0x3000,
            sections: names.map(&mut section).into(),
        };
        let mut noise = Noise(random);
        if let Ok(image) = running::image(&running::Names::parse(&text), &[module], &mut noise) {
            check(&Program::of(image));
        }
    }
}

#[test]
fn ten_megabytes_of_random_bytes_come_to_an_end() {
    let mut random = Random(2001);
    check(&Program::of(image(&mut random, 10 << 20, 5000)));
}

#[test]
fn text_at_the_end_of_memory_has_an_end() {
    let mut text = Image {
        modules: vec!["top".into()],
        texts: vec![Text {
            address: u64::MAX - 31,
            bytes: vec![0x90; 31],
            module: 0,
            is_aside: false,
        }],
        ..Image::default()
    };
    text.symbols.push(Symbol {
        address: u64::MAX - 31,
        name: "top".into(),
        is_global: true,
    });
    text.put_in_order();
    check(&Program::of(text));
    check(&Program::of(Image::default()));
}

#[test]
fn files_that_are_no_kernels_are_refused() {
    let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    for length in [0, 1, 63, 64, 100, 1000, own.len() / 2] {
        assert!(vmlinux::read(&own[..length]).is_err(), "{length} bytes");
    }
    assert!(vmlinux::read(&[0x7f; 100_000]).is_err());
}
