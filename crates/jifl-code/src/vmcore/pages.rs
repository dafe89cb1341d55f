// SPDX-License-Identifier: MIT OR Apache-2.0
//! Virtual addresses by the kernel's own page tables (Intel SDM volume 3A, 4.5).

/// A page, and a table of as many bytes.
const PAGE: u64 = 4096;
/// An entry says where the next table, or the page, is.
const PRESENT: u64 = 1;
const LARGE: u64 = 1 << 7;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// The kernel's page tables.
#[derive(Debug, Clone, Copy)]
pub struct Tables {
    /// Physical address of the first one (`init_top_pgt`).
    pub top: u64,
    /// 5, or 4.
    pub levels: u32,
    /// Bits of entries that are no address: the encryption of AMD's SME.
    pub mask: u64,
}

impl Tables {
    /// The physical address of a virtual one. `entry` reads 8 bytes at a physical address.
    pub fn physical(&self, address: u64, entry: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let mut table = self.top;
        for level in (1..=self.levels).rev() {
            let shift = 12 + 9 * (level - 1);
            let index = address >> shift & 0x1ff;
            let found = entry(table.checked_add(8 * index)?)?;
            if found & PRESENT == 0 {
                return None;
            }
            let to = found & ADDRESS & !self.mask;
            let size = 1_u64 << shift;
            let is_page = level == 1 || matches!(level, 2 | 3) && found & LARGE != 0;
            if is_page {
                // Bit 12 of a large page's entry is no part of the address.
                return Some(to & !(size - 1) | address & (size - 1));
            }
            table = to;
        }
        None
    }
}

/// Cuts a range of virtual addresses at pages: where each part begins, and how many bytes of the
/// whole lie before it and in it.
pub fn parts(address: u64, length: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= length {
            return None;
        }
        let begin = address.checked_add(at as u64)?;
        let left = (PAGE - begin % PAGE) as usize;
        let part = at..length.min(at + left);
        at = part.end;
        Some((begin, part))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn addresses_are_found_in_pages_of_each_size() {
        let mut memory: HashMap<u64, u64> = HashMap::new();
        let virt = 0xffff_ffff_c012_3456_u64;
        let index = |level: u32| virt >> (12 + 9 * (level - 1)) & 0x1ff;
        for level in 2..=5 {
            let table = u64::from(level) << 20;
            memory.insert(
                table + 8 * index(level),
                (table - (1 << 20)) | 0x8000_0000_0000_0063,
            );
        }
        memory.insert((1 << 20) + 8 * index(1), 0x7_7000 | 0x61);
        let look = |tables: &Tables, memory: &HashMap<u64, u64>, at| {
            tables.physical(at, |place| Some(memory.get(&place).copied().unwrap_or(0)))
        };
        let of = |levels| Tables {
            top: u64::from(levels) << 20,
            levels,
            mask: 1 << 47,
        };
        for levels in [4, 5] {
            assert_eq!(look(&of(levels), &memory, virt), Some(0x7_7456));
            assert_eq!(look(&of(levels), &memory, virt + PAGE), None);
        }
        // The same entry as a page of 2 MiB, with its bit 12 set, and encrypted.
        let entry = (2 << 20) + 8 * index(2);
        memory.insert(entry, 0x4000_0000 | 1 << 47 | 1 << 12 | LARGE | PRESENT);
        let expected = 0x4000_0000 + virt % (2 << 20);
        assert_eq!(look(&of(5), &memory, virt), Some(expected));
        memory.insert((3 << 20) + 8 * index(3), 0x1_4000_0000 | LARGE | PRESENT);
        assert_eq!(
            look(&of(4), &memory, virt),
            Some(0x1_4000_0000 + virt % (1 << 30))
        );
        // A table that cannot be read.
        assert_eq!(of(4).physical(virt, |_| None), None);
    }

    #[test]
    fn ranges_are_cut_at_pages() {
        let all: Vec<_> = parts(0x1ffe, 0x1005).collect();
        assert_eq!(
            all,
            [
                (0x1ffe, 0..2),
                (0x2000, 2..0x1002),
                (0x3000, 0x1002..0x1005)
            ]
        );
        assert_eq!(parts(u64::MAX, 2).count(), 1);
        assert_eq!(parts(0x1000, 0).count(), 0);
    }
}
