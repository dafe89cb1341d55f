// SPDX-License-Identifier: MIT OR Apache-2.0
//! BTF made by hand, as Documentation/bpf/btf.rst has it, so that tests know every offset.

use btf_rs::Btf;

pub const INT: u32 = 1;
pub const PTR: u32 = 2;
pub const STRUCT: u32 = 4;
pub const UNION: u32 = 5;
pub const TYPEDEF: u32 = 8;
pub const CONST: u32 = 10;
pub const TYPE_TAG: u32 = 18;

/// A member: its name, type, bit, and bits if it is a bit field.
pub type Member<'a> = (&'a str, u32, u32, u32);

/// Types that are added one by one.
pub struct Made {
    types: Vec<u8>,
    strings: Vec<u8>,
    first_string: u32,
    next: u32,
}

impl Made {
    pub fn new() -> Made {
        Made {
            types: Vec::new(),
            strings: vec![0],
            first_string: 0,
            next: 1,
        }
    }

    /// Types on top of these.
    pub fn on(base: &Made) -> Made {
        Made {
            types: Vec::new(),
            strings: Vec::new(),
            first_string: base.strings.len() as u32,
            next: base.next,
        }
    }

    fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let place = self.first_string + self.strings.len() as u32;
        self.strings.extend_from_slice(text.as_bytes());
        self.strings.push(0);
        place
    }

    fn words(&mut self, words: &[u32]) {
        self.types
            .extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    }

    /// A type's head: kind, flag, number of parts, name, and its size or what it is about.
    fn head(&mut self, kind: u32, flag: bool, parts: usize, name: &str, last: u32) -> u32 {
        let name = self.string(name);
        let info = kind << 24 | u32::from(flag) << 31 | parts as u32;
        self.words(&[name, info, last]);
        self.next += 1;
        self.next - 1
    }

    /// `encoding`: 1 signed, 4 bool.
    pub fn int(&mut self, name: &str, size: u32, encoding: u32) -> u32 {
        let id = self.head(INT, false, 0, name, size);
        self.words(&[encoding << 24 | (8 * size)]);
        id
    }

    /// Pointers, typedefs, qualifiers, tags.
    pub fn of(&mut self, kind: u32, name: &str, to: u32) -> u32 {
        self.head(kind, false, 0, name, to)
    }

    pub fn ptr(&mut self, to: u32) -> u32 {
        self.of(PTR, "", to)
    }

    pub fn array(&mut self, of: u32, n: u32) -> u32 {
        let id = self.head(3, false, 0, "", 0);
        self.words(&[of, 1, n]);
        id
    }

    pub fn composite(&mut self, kind: u32, name: &str, size: u32, members: &[Member]) -> u32 {
        let id = self.head(kind, true, members.len(), name, size);
        for (name, ty, bit, width) in members {
            let name = self.string(name);
            self.words(&[name, *ty, width << 24 | bit]);
        }
        id
    }

    pub fn enumeration(&mut self, name: &str, signed: bool, values: &[(&str, i32)]) -> u32 {
        let id = self.head(6, signed, values.len(), name, 4);
        for (name, value) in values {
            let name = self.string(name);
            self.words(&[name, *value as u32]);
        }
        id
    }

    pub fn forward(&mut self, name: &str) -> u32 {
        self.head(7, false, 0, name, 0)
    }

    pub fn function(&mut self, name: &str, result: u32, parameters: &[(&str, u32)]) -> u32 {
        let proto = self.head(13, false, parameters.len(), "", result);
        for (name, ty) in parameters {
            let name = self.string(name);
            self.words(&[name, *ty]);
        }
        self.head(12, false, 0, name, proto)
    }

    fn bytes(&self) -> Vec<u8> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let mut all = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, types, types, strings] {
            all.extend_from_slice(&u32::to_ne_bytes(word));
        }
        all.extend_from_slice(&self.types);
        all.extend_from_slice(&self.strings);
        all
    }

    pub fn btf(&self) -> Btf {
        Btf::from_bytes(&self.bytes()).unwrap()
    }

    pub fn split(&self, base: &Btf) -> Btf {
        Btf::from_split_bytes(&self.bytes(), base).unwrap()
    }
}
