// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accesses added up: by kind of memory, by object, by cache line.

use std::collections::{BTreeSet, HashMap};

use super::accessed::{Accessed, Event, Sink};
use crate::kernel::symbols::Symbols;
use crate::session::ring::Piece;

/// Bytes of a cache line.
pub const LINE: u64 = 64;
/// The kernel's image and its modules begin here (Documentation/arch/x86/x86_64/mm.rst).
const IMAGE: u64 = 0xffff_ffff_8000_0000;
/// Size of the space after the kernel's own per-CPU variables that the kernel keeps for those of
/// modules, `PERCPU_MODULE_RESERVE`.
const PERCPU_OF_MODULES: u64 = 8192;
/// User addresses are below this.
const KERNEL: u64 = 1 << 63;

/// A kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Region {
    /// Memory of the process.
    User,
    /// Kernel stacks, if accessed relative to the stack pointer.
    Stack,
    /// Per-CPU data, if accessed relative to gs.
    Percpu,
    /// Variables, constants and code of the kernel and of modules.
    Static,
    /// All other memory: allocations, pages, other stacks, devices.
    Dynamic,
}

impl Region {
    /// All kinds, in the order in which they are shown.
    pub const ALL: [Region; 5] = [
        Region::User,
        Region::Stack,
        Region::Percpu,
        Region::Static,
        Region::Dynamic,
    ];

    /// Name for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Region::User => "user",
            Region::Stack => "stack",
            Region::Percpu => "per-CPU",
            Region::Static => "static",
            Region::Dynamic => "dynamic",
        }
    }

    fn of(accessed: &Accessed) -> Region {
        if accessed.stack {
            Region::Stack
        } else if accessed.percpu.is_some() {
            Region::Percpu
        } else if accessed.address < KERNEL {
            Region::User
        } else if accessed.address >= IMAGE {
            Region::Static
        } else {
            Region::Dynamic
        }
    }
}

/// Numbers of accesses, and bytes. A repetition counts as an access.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    pub loads: u64,
    pub stores: u64,
    pub loaded: u64,
    pub stored: u64,
}

impl Sums {
    fn add(&mut self, accessed: &Accessed) {
        if accessed.loads {
            self.loads += accessed.times;
            self.loaded += accessed.bytes();
        }
        if accessed.stores {
            self.stores += accessed.times;
            self.stored += accessed.bytes();
        }
    }

    /// Accesses.
    pub fn all(&self) -> u64 {
        self.loads + self.stores
    }
}

/// The accesses of a cache line.
#[derive(Debug, Default)]
pub struct Line {
    pub loads: u64,
    pub stores: u64,
    pub threads: BTreeSet<u32>,
    pub cpus: BTreeSet<usize>,
    /// The kind of its first access.
    region: Option<Region>,
}

impl Line {
    /// Accesses.
    pub fn all(&self) -> u64 {
        self.loads + self.stores
    }
}

/// All accesses, added up.
pub struct Summary<'a> {
    symbols: &'a Symbols,
    /// End of the static per-CPU data. Dynamic per-CPU data follow it.
    percpu_end: u64,
    regions: HashMap<Region, Sums>,
    objects: HashMap<String, Sums>,
    lines: HashMap<u64, Line>,
    /// Of the current piece: the thread, if it is not interrupted, and the CPU.
    thread: Option<u32>,
    cpu: usize,
}

impl<'a> Summary<'a> {
    /// An empty summary.
    pub fn new(symbols: &'a Symbols) -> Summary<'a> {
        Summary {
            symbols,
            percpu_end: symbols
                .address("__per_cpu_end")
                .map_or(u64::MAX, |end| end + PERCPU_OF_MODULES),
            regions: HashMap::new(),
            objects: HashMap::new(),
            lines: HashMap::new(),
            thread: None,
            cpu: 0,
        }
    }

    /// Accesses of a kind of memory.
    pub fn region(&self, region: Region) -> Sums {
        self.regions.get(&region).copied().unwrap_or_default()
    }

    /// All accesses.
    pub fn total(&self) -> Sums {
        let mut total = Sums::default();
        for sums in self.regions.values() {
            total.loads += sums.loads;
            total.stores += sums.stores;
            total.loaded += sums.loaded;
            total.stored += sums.stored;
        }
        total
    }

    /// Variables, the most accessed first.
    pub fn objects(&self) -> Vec<(&str, Sums)> {
        let mut all: Vec<_> = self
            .objects
            .iter()
            .map(|(name, sums)| (name.as_str(), *sums))
            .collect();
        all.sort_by_key(|(name, sums)| (u64::MAX - sums.all(), *name));
        all
    }

    /// Cache lines, the most accesses first.
    pub fn lines(&self) -> Vec<(u64, &Line)> {
        let mut all: Vec<_> = self.lines.iter().map(|(at, line)| (*at, line)).collect();
        all.sort_by_key(|(at, line)| (u64::MAX - line.all(), *at));
        all
    }

    /// The content of a cache line: the variable in which it begins, or the kind of memory.
    pub fn content(&self, at: u64, line: &Line) -> String {
        match line.region {
            Some(Region::Static) => self
                .symbols
                .variable(at)
                .map_or_else(|| Region::Static.name().into(), |place| place.shown()),
            Some(region) => region.name().into(),
            None => String::new(),
        }
    }

    /// Memory that can have a name.
    fn object(&self, region: Region, accessed: &Accessed) -> Option<String> {
        let at = match region {
            Region::Percpu => accessed.percpu.filter(|at| *at < self.percpu_end)?,
            Region::Static => accessed.address,
            _ => return None,
        };
        let place = self.symbols.variable(at)?;
        Some(place.function().to_owned())
    }

    fn add_lines(&mut self, region: Region, accessed: &Accessed) {
        let size = u64::from(accessed.size).max(1);
        let end = accessed
            .address
            .saturating_add(size.saturating_mul(accessed.times));
        let mut at = accessed.address & !(LINE - 1);
        while at < end {
            let times = overlapping(accessed.address, size, accessed.times, at);
            let line = self.lines.entry(at).or_default();
            line.loads += if accessed.loads { times } else { 0 };
            line.stores += if accessed.stores { times } else { 0 };
            line.threads.extend(self.thread);
            line.cpus.insert(self.cpu);
            line.region.get_or_insert(region);
            let Some(next) = at.checked_add(LINE) else {
                break;
            };
            at = next;
        }
    }
}

/// How many of `times` elements of `size` bytes from `address` on touch the line at `line`.
fn overlapping(address: u64, size: u64, times: u64, line: u64) -> u64 {
    let first = line.saturating_sub(address + size - 1).div_ceil(size);
    let last = (line + (LINE - 1)).saturating_sub(address) / size;
    last.min(times - 1) + 1 - first.min(times)
}

impl Sink for Summary<'_> {
    fn piece(&mut self, piece: &Piece<Event>) {
        self.thread = piece.interrupt.is_none().then_some(piece.thread);
        self.cpu = piece.cpu;
    }

    fn instruction(&mut self, operands: &[Accessed]) {
        for accessed in operands {
            let region = Region::of(accessed);
            self.regions.entry(region).or_default().add(accessed);
            if let Some(object) = self.object(region, accessed) {
                self.objects.entry(object).or_default().add(accessed);
            }
            self.add_lines(region, accessed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_counted_in_each_line_that_they_touch() {
        // The expected counts were found by hand, element by element.
        for (address, size, times) in [
            (0, 8, 100),
            (60, 8, 3),
            (5, 1, 200),
            (63, 3, 50),
            (128, 64, 4),
        ] {
            for line in (0..1024).step_by(LINE as usize) {
                let touches = |k: &u64| {
                    let from = address + k * size;
                    from < line + LINE && from + size > line
                };
                let expected = (0..times).filter(touches).count() as u64;
                if expected > 0 {
                    assert_eq!(
                        overlapping(address, size, times, line),
                        expected,
                        "{address} {size} {times} {line}"
                    );
                }
            }
        }
    }
}
