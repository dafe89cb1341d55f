// SPDX-License-Identifier: MIT OR Apache-2.0
//! The symbols of the running kernel as a file keeps them (`kernel::kept`), without those of code
//! that the kernel makes while it runs.
//!
//! Numbers stand in columns, and names in one piece of text: so 170,000 symbols are there at once.

use prost::Message;

use super::Symbols;
use super::list::{List, Symbol};
use crate::kernel::kept::{KeptFile, is_made};

/// The file.
pub const FILE: KeptFile = KeptFile {
    name: "symbols",
    magic: "jifl symbols 1",
};

#[derive(Clone, PartialEq, Message)]
struct Columns {
    #[prost(fixed64, repeated, tag = "1")]
    addresses: Vec<u64>,
    /// Bytes of names with their modules; one behind the other they are `names`.
    #[prost(fixed32, repeated, tag = "2")]
    lengths: Vec<u32>,
    /// Bytes of names without the modules, and whether they are global in bit 31.
    #[prost(fixed32, repeated, tag = "3")]
    own: Vec<u32>,
    #[prost(string, tag = "4")]
    names: String,
}

#[derive(Clone, PartialEq, Message)]
struct Lists {
    #[prost(message, required, tag = "1")]
    text: Columns,
    #[prost(message, required, tag = "2")]
    data: Columns,
}

const GLOBAL: u32 = 1 << 31;

/// `None`: addresses are hidden, so nothing is worth keeping.
pub fn bytes(symbols: &Symbols) -> Option<Vec<u8>> {
    let lists = || Lists {
        text: columns(&symbols.text),
        data: columns(&symbols.data),
    };
    (!symbols.is_empty()).then(|| lists().encode_to_vec())
}

fn columns(list: &List) -> Columns {
    let mut columns = Columns::default();
    for one in list.each().filter(|one| !one.module().is_some_and(is_made)) {
        columns.addresses.push(one.addr);
        columns.lengths.push(one.full.len() as u32);
        let global = if one.global { GLOBAL } else { 0 };
        columns.own.push(one.name_len as u32 | global);
        columns.names.push_str(one.full);
    }
    columns
}

/// `None`: these are no such bytes.
pub fn parsed(bytes: &[u8]) -> Option<Symbols> {
    let lists = Lists::decode(bytes).ok()?;
    Some(Symbols {
        text: list(lists.text)?,
        data: list(lists.data)?,
        ..Symbols::default()
    })
}

fn list(columns: Columns) -> Option<List> {
    let mut at = 0_u32;
    let mut all = Vec::with_capacity(columns.addresses.len());
    let sizes = columns.lengths.iter().zip(&columns.own);
    for (addr, (len, own)) in columns.addresses.iter().zip(sizes) {
        let name_len = own & !GLOBAL;
        let end = at.checked_add(*len)?;
        let names = &columns.names;
        // Each name can be cut out.
        if name_len > *len || !names.is_char_boundary((at + name_len) as usize) {
            return None;
        }
        names.is_char_boundary(end as usize).then_some(())?;
        all.push(Symbol {
            addr: *addr,
            at,
            len: u16::try_from(*len).ok()?,
            name_len: name_len as u16,
            global: own & GLOBAL != 0,
        });
        at = end;
    }
    let is_whole = [columns.lengths.len(), columns.own.len()] == [all.len(); 2];
    (is_whole && all.is_sorted_by_key(|one| one.addr)).then_some(List {
        names: columns.names,
        all,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &str = "1000 T _text\n1000 t f\n1010 T g\n1020 d var\n\
        ffffffffc0000000 t m\t[mod]\nffffffffc0000010 t n\t[mod]\n\
        ffffffffc0001000 t bpf_prog\t[bpf]\nffffffffc0002000 d theirs\t[mod]\n";

    #[test]
    fn the_same_comes_back_without_made_code() {
        let symbols = Symbols::parse(KALLSYMS);
        let back = parsed(&bytes(&symbols).unwrap()).unwrap();
        let without = Symbols::parse(&KALLSYMS.replace("ffffffffc0001000 t bpf_prog\t[bpf]\n", ""));
        for (a, b) in [(&back.text, &without.text), (&back.data, &without.data)] {
            assert!(a.each().eq(b.each()));
        }
    }

    #[test]
    fn what_is_hidden_is_not_kept() {
        assert!(bytes(&Symbols::parse("0000000000000000 T _text\n")).is_none());
    }

    #[test]
    fn what_is_damaged_is_nothing() {
        let good = columns(&Symbols::parse(KALLSYMS).text);
        assert!(list(good.clone()).is_some());
        let damages: [fn(&mut Columns); 6] = [
            |one| one.names.truncate(3),
            |one| one.lengths[0] += 1000,
            |one| one.own[0] = 100,
            |one| one.own.truncate(2),
            |one| one.lengths.truncate(2),
            |one| one.addresses.swap(0, 3),
        ];
        for (index, damage) in damages.iter().enumerate() {
            let mut bad = good.clone();
            damage(&mut bad);
            assert!(list(bad).is_none(), "{index}");
        }
        assert!(parsed(b"other bytes").is_none());
    }

    #[test]
    fn what_may_have_changed_is_asked_anew() {
        let mut symbols = parsed(&bytes(&Symbols::parse(KALLSYMS)).unwrap()).unwrap();
        symbols.is_kept = true;
        symbols.now = Box::new(Symbols::parse(KALLSYMS)).into();
        let name = |addr| symbols.function(addr).map(|place| place.name());
        assert_eq!(name(0x1014), Some("g"));
        assert_eq!(name(0xffff_ffff_c000_0004), Some("m"));
        // The last of a module may end anywhere.
        assert_eq!(name(0xffff_ffff_c000_1004), Some("bpf_prog"));
        let all = symbols.around([0x1014, 0xffff_ffff_c000_1004].into_iter());
        let names: Vec<&str> = all.iter().map(|line| line.name).collect();
        assert!(
            names.contains(&"g") && names.contains(&"bpf_prog"),
            "{names:?}"
        );
    }
}
