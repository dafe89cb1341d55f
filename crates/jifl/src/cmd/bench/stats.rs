// SPDX-License-Identifier: MIT OR Apache-2.0
//! Medians, means and spreads.

/// The middle value; of an even number the mean of the two. 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// The geometric mean of positive values; `None` of none.
pub fn geomean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|value| *value <= 0.0) {
        return None;
    }
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    Some((sum / values.len() as f64).exp())
}

/// Least and largest; zeros of none.
pub fn spread(values: &[f64]) -> [f64; 2] {
    let mut all = values.iter().copied();
    let Some(first) = all.next() else {
        return [0.0; 2];
    };
    all.fold([first; 2], |[least, largest], value| {
        [least.min(value), largest.max(value)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn geometric_means_are_of_ratios() {
        assert_eq!(geomean(&[]), None);
        assert_eq!(geomean(&[1.0, 0.0]), None);
        assert!((geomean(&[0.5, 2.0]).unwrap() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_spread_holds_all() {
        assert_eq!(spread(&[]), [0.0; 2]);
        assert_eq!(spread(&[2.0, 1.0, 3.0]), [1.0, 3.0]);
    }
}
