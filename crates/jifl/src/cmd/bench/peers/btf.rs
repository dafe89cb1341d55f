// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions' numbers in the kernel's type information (BTF). BPF programs name by these numbers
//! where they attach. Documentation/bpf/btf.rst describes the format.

use std::collections::{HashMap, HashSet};

/// The file in which the kernel shows its BTF.
pub const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u16 = 0xeb9f;
const KIND_FUNC: u32 = 12;

/// The numbers of the functions among `names`, if they are unambiguous. `None`: this is no BTF, or
/// it has kinds that came later.
pub fn functions<'a>(btf: &[u8], names: &HashSet<&'a str>) -> Option<HashMap<&'a str, u32>> {
    let header = Header::read(btf)?;
    let mut found: HashMap<&str, Vec<u32>> = HashMap::new();
    let mut rest = header.types;
    let mut id = 0;
    while !rest.is_empty() {
        id += 1;
        let info = word(rest, 4)?;
        let (kind, vlen) = (info >> 24 & 0x1f, info & 0xffff);
        if kind == KIND_FUNC {
            let name = header.string(word(rest, 0)?)?;
            if let Some(name) = names.get(name) {
                found.entry(name).or_default().push(id);
            }
        }
        rest = rest.get(12 + extra(kind, vlen)?..)?;
    }
    let unique = |(name, ids): (&'a str, Vec<u32>)| match ids[..] {
        [id] => Some((name, id)),
        _ => None,
    };
    Some(found.into_iter().filter_map(unique).collect())
}

/// Bytes that follow the three words of a type.
fn extra(kind: u32, vlen: u32) -> Option<usize> {
    let vlen = vlen as usize;
    Some(match kind {
        1 | 14 | 17 => 4,                      // int, variable, declaration tag
        3 => 12,                               // array
        4 | 5 | 15 | 19 => 12 * vlen,          // structure, union, section, 64-bit enum
        6 | 13 => 8 * vlen,                    // enum, prototype
        2 | 7..=11 | KIND_FUNC | 16 | 18 => 0, // pointer, names of others, function, float
        _ => return None,
    })
}

struct Header<'a> {
    types: &'a [u8],
    strings: &'a [u8],
}

impl Header<'_> {
    fn read(btf: &[u8]) -> Option<Header<'_>> {
        if btf.get(..2)? != MAGIC.to_ne_bytes() {
            return None;
        }
        let rest = btf.get(word(btf, 4)? as usize..)?;
        let section = |at| -> Option<&[u8]> {
            let start = word(btf, at)? as usize;
            rest.get(start..start + word(btf, at + 4)? as usize)
        };
        Some(Header {
            types: section(8)?,
            strings: section(16)?,
        })
    }

    fn string(&self, at: u32) -> Option<&str> {
        let text = self.strings.get(at as usize..)?;
        let end = text.iter().position(|&byte| byte == 0)?;
        std::str::from_utf8(&text[..end]).ok()
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_behind_other_types() {
        let mut types: Vec<u32> = Vec::new();
        types.extend([1, 1 << 24, 4, 32]); // an int
        types.extend([3, KIND_FUNC << 24, 1]); // f
        types.extend([0, 4 << 24 | 2, 16, 0, 1, 0, 0, 1, 64]); // a structure of two
        types.extend([5, KIND_FUNC << 24, 1]); // g
        types.extend([3, 13 << 24 | 1, 1, 0, 1]); // a prototype with f's name
        types.extend([7, KIND_FUNC << 24, 1, 7, KIND_FUNC << 24, 1]); // h, twice
        let strings = b"\0a\0f\0g\0h\0";
        let size = types.len() as u32 * 4;
        let head = [MAGIC.into(), 24, 0, size, size, strings.len() as u32];
        let words = head.iter().chain(&types);
        let mut btf: Vec<u8> = words.flat_map(|word: &u32| word.to_ne_bytes()).collect();
        btf.extend(strings);
        let names = HashSet::from(["f", "g", "h", "a", "none"]);
        let found = functions(&btf, &names).unwrap();
        assert_eq!(found, HashMap::from([("f", 2), ("g", 4)]));
        assert_eq!(functions(&btf[1..], &names), None);
        assert_eq!(functions(&btf[..60], &names), None);
    }
}
