// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random numbers, and images of random bytes.

use jifl_code::image::{Alternative, Fixup, Image, Symbol, Tables, Text};

/// Numbers that look random and are the same each time (xorshift64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

pub const BASE: u64 = 0xffff_ffff_8100_0000;

/// An image of random bytes. A part of them are instructions that branch nearby.
pub fn image(random: &mut Random, length: u64, names: u64) -> Image {
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
