// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values out of the device's histograms (JIFL_HIST_* in include/uapi/jifl.h).

use jifl_sys::abi::{HIST_BUCKETS, HIST_EXACT, HIST_SUB, HIST_SUB_BITS};

/// The lowest and the highest value that is counted in a bucket.
pub fn bounds(bucket: usize) -> (u64, u64) {
    let bucket = bucket as u64;
    if bucket < HIST_EXACT {
        return (bucket, bucket);
    }
    let octave = (bucket - HIST_EXACT) / HIST_SUB;
    let part = (bucket - HIST_EXACT) % HIST_SUB;
    // 2^(SUB_BITS + 1 + octave) is cut into SUB parts of 2^(octave + 1) each.
    let width = 1 << (octave + 1);
    let low = (1 << (u64::from(HIST_SUB_BITS) + 1 + octave)) + part * width;
    if bucket as usize == HIST_BUCKETS - 1 {
        return (low, u64::MAX); // greater values are counted here, too
    }
    (low, low + width - 1)
}

/// All buckets, from those that are not empty. Numbers of no bucket are left out.
pub fn dense(filled: &[(usize, u64)]) -> Vec<u64> {
    let mut all = vec![0; HIST_BUCKETS];
    for (bucket, count) in filled {
        if let Some(place) = all.get_mut(*bucket) {
            *place = *count;
        }
    }
    all
}

/// The value that `percent` of all counted values do not exceed: the middle of its bucket, kept
/// between `min` and `max`, which are exact. `None` when nothing was counted.
pub fn percentile(histogram: &[u64], percent: u64, min: u64, max: u64) -> Option<u64> {
    let total: u64 = histogram.iter().sum();
    if total == 0 {
        return None;
    }
    // The nearest-rank percentile: the smallest value such that at least this share of all values
    // is not greater.
    let rank = (u128::from(total) * u128::from(percent))
        .div_ceil(100)
        .max(1);
    let mut seen = 0u128;
    for (bucket, count) in histogram.iter().enumerate() {
        seen += u128::from(*count);
        if seen >= rank {
            let (low, high) = bounds(bucket);
            let middle = low + (high.min(max.max(low)) - low) / 2;
            return Some(middle.clamp(min, max.max(min)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bucket of a value, computed as in the module (host/kernel/store/histogram.h).
    fn bucket_of(value: u64) -> usize {
        if value < HIST_EXACT {
            return value as usize;
        }
        let top = 63 - value.leading_zeros();
        let octave = u64::from(top - HIST_SUB_BITS - 1);
        let part = (value >> (top - HIST_SUB_BITS)) & (HIST_SUB - 1);
        ((HIST_EXACT + octave * HIST_SUB + part) as usize).min(HIST_BUCKETS - 1)
    }

    #[test]
    fn buckets_join_without_gap_or_overlap() {
        assert_eq!(bounds(0), (0, 0));
        for bucket in 1..HIST_BUCKETS {
            assert_eq!(bounds(bucket).0, bounds(bucket - 1).1 + 1, "{bucket}");
        }
        assert_eq!(bounds(HIST_BUCKETS - 1).1, u64::MAX);
    }

    #[test]
    fn bounds_are_what_the_module_counts() {
        for bucket in 0..HIST_BUCKETS {
            let (low, high) = bounds(bucket);
            assert_eq!(bucket_of(low), bucket);
            assert_eq!(bucket_of(high), bucket);
        }
    }

    #[test]
    fn the_middle_is_within_a_thirtysecond() {
        for value in (1..100_000u64).step_by(7) {
            let mut histogram = vec![0; HIST_BUCKETS];
            histogram[bucket_of(value)] = 1;
            let middle = percentile(&histogram, 50, 0, u64::MAX).unwrap();
            assert!(
                middle.abs_diff(value) * 32 <= value.max(32),
                "{value} {middle}"
            );
        }
    }

    #[test]
    fn percentiles_by_nearest_rank() {
        let mut histogram = vec![0; HIST_BUCKETS];
        assert_eq!(percentile(&histogram, 50, 0, 0), None);
        for value in 1..=20u64 {
            histogram[bucket_of(value)] += 5; // 100 values
        }
        assert_eq!(percentile(&histogram, 50, 1, 20), Some(10));
        assert_eq!(percentile(&histogram, 99, 1, 20), Some(20));
        assert_eq!(percentile(&histogram, 1, 1, 20), Some(1));
    }

    #[test]
    fn equal_values_are_exact() {
        let mut histogram = vec![0; HIST_BUCKETS];
        histogram[bucket_of(674)] = 1000;
        assert_eq!(percentile(&histogram, 50, 674, 674), Some(674));
        let mut histogram = vec![0; HIST_BUCKETS];
        histogram[HIST_BUCKETS - 1] = 1;
        assert_eq!(percentile(&histogram, 50, 1 << 50, 1 << 50), Some(1 << 50));
    }
}
