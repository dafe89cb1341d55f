// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms by powers of two, as people know them from bpftrace.

use serde::Serialize;

use super::text::grouped;

/// Characters of the longest bar, if there is room, and of the rest of its line.
pub const BAR: usize = 52;
const BESIDE_BAR: usize = 31;

/// Values from `low` on, below `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// The lowest value.
    pub low: u64,
    /// Above the highest value.
    pub high: u64,
    /// How many values.
    pub count: u64,
}

/// Buckets from the first to the last that is not empty, without a gap. counts: by the number of
/// bits of the values.
pub fn buckets(counts: &[u64]) -> Vec<Bucket> {
    let first = counts.iter().position(|count| *count > 0);
    let last = counts.iter().rposition(|count| *count > 0);
    let (Some(first), Some(last)) = (first, last) else {
        return Vec::new();
    };
    let bucket = |bits: usize| Bucket {
        low: if bits == 0 { 0 } else { 1 << (bits - 1) },
        high: 1u64.checked_shl(bits as u32).unwrap_or(u64::MAX),
        count: counts[bits],
    };
    (first..=last).map(bucket).collect()
}

/// The lines of a histogram. negative: how many values are below 0; bar: characters of the longest
/// bar.
pub fn lines(buckets: &[Bucket], negative: u64, bar: usize) -> String {
    let counts = buckets.iter().map(|bucket| bucket.count);
    let most = counts.chain([negative]).max().unwrap_or(0);
    let mut text = String::new();
    if negative > 0 {
        text += &line("(..., 0)", negative, most, bar);
    }
    for bucket in buckets {
        text += &line(&label(bucket), bucket.count, most, bar);
    }
    text
}

/// Characters of the longest bar on a terminal with this many columns.
pub fn bar_within(width: Option<usize>) -> usize {
    width.map_or(BAR, |width| width.saturating_sub(BESIDE_BAR).clamp(1, BAR))
}

fn line(label: &str, count: u64, most: u64, bar: usize) -> String {
    let length = (u128::from(count) * bar as u128 / u128::from(most.max(1))) as usize;
    format!(
        "{label:<16} {:>11} |{:<bar$}|\n",
        grouped(count),
        "@".repeat(length)
    )
}

/// `[0]`, `[1]`, `[2, 4)`, `[1K, 2K)`
fn label(bucket: &Bucket) -> String {
    if bucket.high - bucket.low <= 1 {
        return format!("[{}]", bucket.low);
    }
    format!("[{}, {})", short(bucket.low), short(bucket.high))
}

/// A power of two as text.
fn short(number: u64) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    let unit = (number.trailing_zeros() / 10) as usize;
    format!("{}{}", number >> (10 * unit), UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short() {
        let of = |bits: usize| {
            let mut counts = [0; 65];
            counts[bits] = 1;
            label(&buckets(&counts)[0])
        };
        assert_eq!(
            [0, 1, 2, 10, 11, 63].map(of),
            ["[0]", "[1]", "[2, 4)", "[512, 1K)", "[1K, 2K)", "[4E, 8E)"]
        );
        assert!(buckets(&[0; 65]).is_empty());
    }
}
