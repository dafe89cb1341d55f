// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sum of recordings of the same kernel build. Addresses are those of the first recording. Code
//! that only other recordings have (modules, code that belongs to no module) gets addresses where
//! the first has nothing. The sum has no code: its addresses are those of one boot.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{At, Block, Image, Recording, Symbol};
use crate::base::exit::Failure;
use crate::session::histogram;
use crate::session::report::{Functions, Report, Row};

/// Code that gets new addresses begins at a multiple of this.
const PAGE: u64 = 4096;

/// Whether two recordings are of the same kernel build and of the same kind.
///
/// # Errors
/// They are not.
pub fn comparable(a: (&str, &Recording), b: (&str, &Recording)) -> Result<(), Failure> {
    let (kernel_a, kernel_b) = (&a.1.header.kernel, &b.1.header.kernel);
    if kernel_a != kernel_b {
        return Err(Failure::failed(format!(
            "{}: of another kernel build ({}) than {} ({})",
            b.0,
            kernel_b.shown(),
            a.0,
            kernel_a.shown()
        )));
    }
    if let Some((name, _)) = [a, b].into_iter().find(|one| one.1.trace.is_some()) {
        return Err(Failure::failed(format!(
            "{name}: of `jifl trace`: of calls one by one there is no sum and no difference"
        )));
    }
    if a.1.report.kind != b.1.report.kind {
        return Err(Failure::failed(format!(
            "{}: of kind {}, but {} is of kind {}",
            b.0,
            b.1.kind(),
            a.0,
            a.1.kind()
        )));
    }
    Ok(())
}

/// The sum of two comparable recordings.
///
/// # Errors
/// The sum would be no recording that could be read.
pub fn add(mut sum: Recording, other: Recording) -> Result<Recording, String> {
    let moved = add_images(&mut sum.images, &other.images)?;
    let at = |at: At| At {
        image: moved[at.image],
        ..at
    };
    let symbols = other.symbols.into_iter().map(|symbol| Symbol {
        at: at(symbol.at),
        ..symbol
    });
    let symbols: BTreeSet<Symbol> = sum.symbols.drain(..).chain(symbols).collect();
    sum.symbols = symbols.into_iter().collect();
    let blocks = other.blocks.into_iter().map(|mut block| {
        block.at = at(block.at);
        if let Some(branch) = &mut block.branch {
            branch.to = at(branch.to);
        }
        block
    });
    add_blocks(&mut sum.blocks, blocks);
    add_report(&mut sum.report, other.report);
    sum.code = None;
    sum.without_counter = sum.without_counter.saturating_add(other.without_counter);
    sum.header.recordings = sum
        .header
        .recordings
        .saturating_add(other.header.recordings);
    super::checks::check(&sum).map(|()| sum)
}

/// For each image of the other recording, its index in the sum.
fn add_images(images: &mut Vec<Image>, others: &[Image]) -> Result<Vec<usize>, String> {
    let mut places = Vec::new();
    for other in others {
        let same = |image: &Image| (&image.name, &image.build_id) == (&other.name, &other.build_id);
        let place = match images.iter().position(same) {
            Some(place) => place,
            None => {
                let base = free_base(images, other).ok_or("corrupt: no room for its modules")?;
                images.push(Image {
                    base,
                    ..other.clone()
                });
                images.len() - 1
            }
        };
        // Two recordings may have seen different ends of the same image.
        images[place].size = images[place].size.max(other.size);
        places.push(place);
    }
    Ok(places)
}

/// The image's own base, if it is free; otherwise an address below all others.
fn free_base(images: &[Image], other: &Image) -> Option<u64> {
    let end = |image: &Image| image.base.saturating_add(image.size);
    let overlaps = |image: &Image| image.base < end(other) && other.base < end(image);
    if !images.iter().any(overlaps) {
        return Some(other.base);
    }
    let lowest = images.iter().map(|image| image.base).min()?;
    let base = lowest.checked_sub(other.size)?;
    Some(base - base % PAGE)
}

/// Identity of a block: all but its counts. Code that changes at run time gives other blocks at the
/// same place.
type Shape = (At, u32, u32, Option<(u32, At)>);

fn shape(block: &Block) -> Shape {
    let branch = block.branch.as_ref();
    let branch = branch.map(|branch| (branch.offset, branch.to));
    (block.at, block.bytes, block.insns, branch)
}

fn add_blocks(blocks: &mut Vec<Block>, others: impl Iterator<Item = Block>) {
    let shapes = blocks.iter().map(shape).enumerate();
    let known: HashMap<Shape, usize> = shapes.map(|(index, shape)| (shape, index)).collect();
    for other in others {
        let Some(index) = known.get(&shape(&other)) else {
            blocks.push(other);
            continue;
        };
        let block = &mut blocks[*index];
        block.executed = block.executed.saturating_add(other.executed);
        // Hashes differ if the kernel was at another address, or if the text has changed.
        if block.hash != other.hash {
            block.hash = 0;
        }
        if let (Some(branch), Some(other)) = (&mut block.branch, &other.branch) {
            branch.taken = branch.taken.saturating_add(other.taken);
        }
    }
    blocks.sort_by_key(|block| (block.at, block.bytes));
}

fn add_report(report: &mut Report, other: Report) {
    for row in other.rows {
        match report.rows.iter_mut().find(|known| known.is_of_same(&row)) {
            Some(known) => add_row(known, &row),
            None => report.rows.push(row),
        }
    }
    report.rows.sort_by(Row::order);
    report.functions = match (report.functions.take(), other.functions) {
        (Some(a), Some(b)) => Some(add_functions(a, b)),
        (a, b) => a.or(b),
    };
    report.absent.extend(other.absent);
    report.absent.sort_unstable();
    report.absent.dedup();
    report.adoption = match (report.adoption.take(), other.adoption) {
        (Some(mut a), Some(b)) => {
            a.tasks = a.tasks.saturating_add(b.tasks);
            add_counts(&mut a.left, b.left);
            Some(a)
        }
        (a, b) => a.or(b),
    };
    report.start_ns = report.start_ns.saturating_add(other.start_ns);
    report.end_ns = report.end_ns.saturating_add(other.end_ns);
    report.cut_short |= other.cut_short;
    report.duration_ns = report.duration_ns.saturating_add(other.duration_ns);
    report.drain_ns = report.drain_ns.saturating_add(other.drain_ns);
    report.draining = report.draining.saturating_add(other.draining);
    let (cost, other) = (&mut report.cost, other.cost);
    cost.translate_ns = cost.translate_ns.saturating_add(other.translate_ns);
    cost.blocks = cost.blocks.saturating_add(other.blocks);
    cost.insns = cost.insns.saturating_add(other.insns);
    cost.module_wide |= other.module_wide;
    add_counts(&mut cost.native_exits, other.native_exits);
}

fn add_counts(counts: &mut Vec<(String, u64)>, others: Vec<(String, u64)>) {
    for (name, count) in others {
        match counts.iter_mut().find(|known| known.0 == name) {
            Some(known) => known.1 = known.1.saturating_add(count),
            None => counts.push((name, count)),
        }
    }
}

/// Sessions may have had the same functions: there were as many as in the larger one, at least.
fn add_functions(mut a: Functions, b: Functions) -> Functions {
    a.entered = a.entered.max(b.entered);
    for (reason, count) in b.left_out {
        match a.left_out.iter_mut().find(|known| known.0 == reason) {
            Some(known) => known.1 = known.1.max(count),
            None => a.left_out.push((reason, count)),
        }
    }
    a
}

fn add_row(row: &mut Row, other: &Row) {
    // Each row has percentiles whose calls were counted inside.
    let lacks = |row: &Row| row.calls > 0 && row.p50.is_none();
    let has_percentiles = !lacks(row) && !lacks(other);
    (row.min, row.max) = match (row.calls, other.calls) {
        (_, 0) => (row.min, row.max),
        (0, _) => (other.min, other.max),
        _ => (row.min.min(other.min), row.max.max(other.max)),
    };
    row.histogram = add_histograms(row, other);
    let histogram = histogram::dense(&row.histogram);
    [row.p50, row.p99] = [50, 99].map(|percent| {
        histogram::percentile(&histogram, percent, row.min, row.max).filter(|_| has_percentiles)
    });
    row.calls = row.calls.saturating_add(other.calls);
    row.sum = row.sum.saturating_add(other.sum);
    row.blocks = row.blocks.saturating_add(other.blocks);
    row.no_return = row.no_return.saturating_add(other.no_return);
    row.missed = row.missed.saturating_add(other.missed);
    add_counts(&mut row.missed_by, other.missed_by.clone());
    row.adopted = row.adopted.saturating_add(other.adopted);
    row.adopted_sum = row.adopted_sum.saturating_add(other.adopted_sum);
}

/// The sum of each bucket. Empty if the calls of one row have no histogram, as in recordings of an
/// earlier jifl.
fn add_histograms(a: &Row, b: &Row) -> Vec<(usize, u64)> {
    let lacks = |row: &Row| row.calls > 0 && row.histogram.is_empty();
    if lacks(a) || lacks(b) {
        return Vec::new();
    }
    let mut sums: BTreeMap<usize, u64> = BTreeMap::new();
    for (bucket, count) in a.histogram.iter().chain(&b.histogram) {
        let sum = sums.entry(*bucket).or_default();
        *sum = sum.saturating_add(*count);
    }
    sums.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::recorded;
    use super::*;
    use crate::session::blocks;
    use crate::session::report::Adoption;
    use crate::session::report::tests::sample;
    use jifl_sys::abi::Kind;

    /// The sample after another boot: all addresses differ, and nfs is before the kernel.
    fn after_another_boot() -> Recording {
        let mut recording = recorded();
        for image in &mut recording.images {
            image.base = match image.name.as_str() {
                "vmlinux" => 0xffff_ffff_9340_0000,
                "nfs" => 0xffff_ffff_8100_0080,
                _ => 0xffff_ffff_8100_0180,
            };
        }
        recording.header.boot_id = "another".into();
        recording.images[2].build_id = "another".into();
        recording
    }

    #[test]
    fn who_was_inside_is_added_up() {
        let adopted = |tasks, why: &str| {
            let mut report = sample(Kind::Insn);
            let left = vec![(why.to_owned(), 1)];
            report.adoption = Some(Adoption { tasks, left });
            report
        };
        let mut sum = adopted(1, "a");
        add_report(&mut sum, adopted(2, "a"));
        let found = sum.adoption.clone().unwrap();
        assert_eq!((found.tasks, found.left[0].1), (3, 2));
        add_report(&mut sum, sample(Kind::Insn));
        assert_eq!(sum.adoption, Some(found));
    }

    fn shown(recording: &Recording) -> Vec<(String, u64, u64)> {
        let profile = recording.profile();
        let functions = blocks::functions(&profile.blocks, &profile.symbols);
        let each = functions.iter();
        each.map(|f| (f.name.clone(), f.calls(), f.instructions()))
            .collect()
    }

    #[test]
    fn counts_add_up_wherever_the_code_lay() {
        let sum = add(recorded(), after_another_boot()).unwrap();
        let twice: Vec<_> = shown(&recorded())
            .into_iter()
            .map(|(name, calls, insns)| (name, 2 * calls, 2 * insns))
            .collect();
        assert_eq!(shown(&sum), twice);
        assert_eq!(sum.header.recordings, 2);
        assert_eq!(sum.without_counter, 4);
        let taken: u64 = sum
            .blocks
            .iter()
            .filter_map(|b| Some(b.branch.as_ref()?.taken))
            .sum();
        assert!(taken >= 2 * 39, "{taken}");
    }

    #[test]
    fn what_only_the_second_has_is_laid_where_nothing_is() {
        let mut other = after_another_boot();
        let nfs = other
            .images
            .iter_mut()
            .find(|image| image.name == "nfs")
            .unwrap();
        (nfs.build_id, nfs.base) = ("other".into(), 0xffff_ffff_8100_0000);
        let sum = add(recorded(), other).unwrap();
        let found = shown(&sum);
        let inner = found.iter().filter(|(name, ..)| name == "inner [nfs]");
        assert_eq!(
            inner.map(|(_, calls, _)| *calls).collect::<Vec<_>>(),
            [40, 40]
        );
        assert!(found.contains(&("outer".into(), 20, 110)), "{found:?}");
        for (i, a) in sum.images.iter().enumerate() {
            for b in &sum.images[..i] {
                assert!(
                    a.base + a.size <= b.base || b.base + b.size <= a.base,
                    "{a:?} {b:?}"
                );
            }
        }
    }

    #[test]
    fn rows_of_counts_add_up() {
        let mut sum = sample(Kind::Insn);
        let mut other = sample(Kind::Insn);
        (sum.rows[0].min, other.rows[0].min) = (3, 2);
        other.rows.remove(1);
        sum.rows[0].histogram = vec![(3, 1204)];
        other.rows[0].histogram = vec![(2, 4), (3, 1200)];
        other.cost.native_exits.push(("hlt".into(), 1));
        add_report(&mut sum, other);
        let clone = &sum.rows[0];
        assert_eq!((clone.calls, clone.sum, clone.min), (2408, 76_422_696, 2));
        assert_eq!(clone.histogram, [(2, 4), (3, 2404)]);
        assert_eq!((clone.p50, clone.p99), (Some(3), Some(3)));
        let mut earlier = clone.clone();
        earlier.histogram.clear();
        assert!(add_histograms(clone, &earlier).is_empty());
        let mut both = clone.clone();
        add_row(&mut both, &earlier);
        assert_eq!((both.calls, both.p50, both.p99), (4816, None, None));
        assert_eq!((sum.rows[1].calls, sum.cost.exits()), (3, 25));
    }

    #[test]
    fn other_kernels_and_kinds_are_refused_in_one_line() {
        let (a, mut b) = (recorded(), recorded());
        assert!(comparable(("a", &a), ("b", &b)).is_ok());
        b.header.kernel.build_id = "beef".into();
        let other_kernel = comparable(("a", &a), ("b", &b)).unwrap_err().message;
        assert!(
            other_kernel.contains("b: of another kernel build") && other_kernel.contains("beef")
        );
        let mut b = recorded();
        b.report.kind = Kind::Insn;
        let other_kind = comparable(("a", &a), ("b", &b)).unwrap_err().message;
        assert_eq!(other_kind, "b: of kind insn, but a is of kind profile");
    }
}
