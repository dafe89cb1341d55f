// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's tables, from their bytes. All of them hold offsets of 4 bytes, each from the
//! place where it stands itself.

use crate::image::{Alternative, Fixup, Orc, OrcBase};

/// Bytes of memory, and where they stand.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a> {
    /// Of the first byte.
    pub address: u64,
    /// All of them.
    pub bytes: &'a [u8],
}

impl Bytes<'_> {
    fn number<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.bytes.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    /// What the offset at a place leads to.
    fn target(&self, at: usize) -> Option<u64> {
        let offset = i32::from_le_bytes(self.number(at)?);
        let from = self.address.wrapping_add(at as u64);
        Some(from.wrapping_add_signed(offset.into()))
    }

    /// Where entries of a size begin.
    fn entries(&self, size: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.bytes.len() / size).map(move |index| index * size)
    }
}

/// The exception table (arch/x86/include/asm/extable.h, extable_fixup_types.h), up to an entry of
/// zeros. The third word says what to do, with which register, and from bit 16 on a number.
pub fn fixups(table: Bytes<'_>) -> Vec<Fixup> {
    const SIZE: usize = 12;
    const TYPE: i32 = 0xff;
    const SETS_REGISTER: i32 = 17;
    let is_there = |at: &usize| table.bytes[*at..at + SIZE].iter().any(|byte| *byte != 0);
    let entry = |at| {
        let data = i32::from_le_bytes(table.number(at + 8)?);
        let register = (data >> 8 & 0xf) as u8;
        let sets = (register, i64::from(data >> 16));
        Some(Fixup {
            at: table.target(at)?,
            to: table.target(at + 4)?,
            sets: (data & TYPE == SETS_REGISTER).then_some(sets),
        })
    };
    let all = table.entries(SIZE).take_while(is_there);
    all.filter_map(entry).collect()
}

/// The ud2 in the bug table that are warnings (include/asm-generic/bug.h, with
/// CONFIG_DEBUG_BUGVERBOSE and relative pointers): code goes on behind them. An entry has 12 bytes,
/// and 16 since 6.19, which tells the message, too: the size with which more of the table leads to
/// what `is_text` is. Of modules not all does: text of their initialization is freed.
pub fn warnings(table: Bytes<'_>, is_text: impl Fn(u64) -> bool) -> Vec<u64> {
    const WARNING: u16 = 1;
    let leads = |size: usize| {
        let places = table.entries(size).filter_map(|at| table.target(at));
        places.filter(|at| is_text(*at)).count() * size
    };
    let size = if leads(16) > leads(12) { 16 } else { 12 };
    // Its last word.
    let entry = |at| {
        let flags = u16::from_le_bytes(table.number(at + size - 2)?);
        table.target(at).filter(|_| flags & WARNING != 0)
    };
    table.entries(size).filter_map(entry).collect()
}

/// The jump labels (include/linux/jump_label.h): a place, and where it may jump.
pub fn keys(table: Bytes<'_>) -> Vec<(u64, u64)> {
    let entry = |at| Some((table.target(at)?, table.target(at + 4)?));
    table.entries(16).filter_map(entry).collect()
}

/// The sites of static calls (include/linux/static_call_types.h).
pub fn static_calls(table: Bytes<'_>) -> Vec<u64> {
    let sites = table.entries(8).filter_map(|at| table.target(at));
    sites.collect()
}

/// The alternatives. An entry has 14 bytes from 6.3 on, and 12 before: the one of which every
/// entry leads to a place that `is_text` is the kernel's.
pub fn alternatives(table: Bytes<'_>, is_text: impl Fn(u64) -> bool) -> Vec<Alternative> {
    let of_size = |size: usize| {
        let entry = |at: usize| {
            let found = Alternative {
                at: table.target(at)?,
                replacement: table.target(at + 4)?,
                length: table.bytes[at + size - 1],
            };
            is_text(found.at).then_some(found)
        };
        table.entries(size).map(entry).collect::<Option<Vec<_>>>()
    };
    let sizes = [14, 12].into_iter();
    let mut fitting = sizes.filter(|size| table.bytes.len() % *size == 0);
    fitting.find_map(of_size).unwrap_or_default()
}

/// The ORC table: addresses, and rows of 6 bytes. `type_is_call` is what `orc_entry.type` says of
/// an ordinary frame: 0 in 6.1, 2 from 6.4 on. The number of rsp is 5 in 6.12 and 3 in 7.3
/// (arch/x86/include/asm/orc_types.h): the one that more rows have, as most frames are found by it.
pub fn orc(places: Bytes<'_>, rows: &[u8], type_is_call: u8) -> Vec<Orc> {
    let base = |row: &[u8]| row[4] & 0xf;
    let rows_by = |register| {
        rows.chunks_exact(6)
            .filter(|row| base(row) == register)
            .count()
    };
    let sp = if rows_by(3) > rows_by(5) { 3 } else { 5 };
    let row = |(at, row): (usize, &[u8])| {
        let base = match base(row) {
            0 => OrcBase::Undefined,
            4 => OrcBase::Bp,
            register if register == sp => OrcBase::Sp,
            _ => OrcBase::Other,
        };
        // 6.1 has two bits of type, and then the end of the stack.
        let kind = row[5] & 7;
        Some(Orc {
            at: places.target(at)?,
            by: base,
            offset: i16::from_le_bytes([row[0], row[1]]).into(),
            is_call: kind == type_is_call,
        })
    };
    let all = places.entries(4).zip(rows.chunks_exact(6));
    all.filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries of so many bytes, each of an address and flags.
    fn bug_table(address: u64, size: usize, entries: &[(u64, u16)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (to, flags) in entries {
            let at = address + bytes.len() as u64;
            let mut entry = vec![0x40; size];
            entry[..4].copy_from_slice(&(to.wrapping_sub(at) as u32).to_le_bytes());
            entry[size - 2..].copy_from_slice(&flags.to_le_bytes());
            bytes.extend(entry);
        }
        bytes
    }

    #[test]
    fn warnings_are_found_whatever_size_an_entry_has() {
        let entries = [(0x1000, 1), (0x1010, 0), (0x9000, 1), (0x1020, 0x901)];
        for size in [12, 16] {
            let bytes = bug_table(0x8000, size, &entries);
            let table = Bytes {
                address: 0x8000,
                bytes: &bytes,
            };
            // The third is of text that is gone.
            let found = warnings(table, |at| (0x1000..0x2000).contains(&at));
            assert_eq!(found, [0x1000, 0x9000, 0x1020], "{size}");
        }
    }
}
