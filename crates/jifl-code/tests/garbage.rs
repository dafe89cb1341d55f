// SPDX-License-Identifier: MIT OR Apache-2.0
//! What makes no sense comes to an end, without a panic: text of random bytes, names that stand
//! anywhere, tables that lead anywhere, files that are cut short.

#[path = "common/random.rs"]
mod random;

use jifl_code::depth;
use jifl_code::image::{Image, Symbol, Text};
use jifl_code::live::{Live, Trust};
use jifl_code::program::Program;
use jifl_code::running;
use jifl_code::vmlinux;

use random::{BASE, Random, image};

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
        if let Ok(image) = running::image(running::Names::parse(&text), &[module], &mut noise) {
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
