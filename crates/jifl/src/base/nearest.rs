// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that a mistyped one may mean.

/// Likeness of two names by Jaro and Winkler, from which on one is worth showing.
const ALIKE: f64 = 0.8;

/// Up to three of the `known` names that look like `name`, the nearest first, each once.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut ranked: Vec<(f64, &str)> = known
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    ranked.dedup();
    ranked.into_iter().take(3).map(|(_, known)| known).collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_nearest_come_first_and_others_not_at_all() {
        let known = ["openat", "open", "openat2", "openat", "opens", "close"];
        assert_eq!(
            nearest("openat", known.into_iter()),
            ["openat", "openat2", "open"]
        );
        assert!(nearest("zzz", known.into_iter()).is_empty());
    }
}
