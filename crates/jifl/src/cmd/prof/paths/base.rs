// SPDX-License-Identifier: MIT OR Apache-2.0
//! An earlier profile, for comparing: the folded text that was written of it.

use std::collections::BTreeMap;

use crate::base::exit::Failure;
use crate::cmd::prof::frames::Stacks;

/// Own values by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Base(pub Stacks);

impl Base {
    /// Reads lines of `A;B;C 123`. Equal paths are added up.
    ///
    /// # Errors
    /// A line is of another form.
    pub fn parse(text: &str) -> Result<Base, Failure> {
        let mut stacks = Stacks::new();
        for (index, line) in text.lines().enumerate() {
            let (path, value) = entry(line).ok_or_else(|| {
                Failure::failed(format!(
                    "line {} is not of the form `FUNCTION;FUNCTION NUMBER`: {line}",
                    index + 1
                ))
            })?;
            let sum = stacks.entry(path).or_default();
            *sum = u64::saturating_add(*sum, value);
        }
        Ok(Base(stacks))
    }

    /// By path, the sum of it and of all that it calls.
    pub fn inclusive(&self) -> BTreeMap<&[String], u64> {
        let mut sums: BTreeMap<&[String], u64> = BTreeMap::new();
        for (path, value) in &self.0 {
            for length in 1..=path.len() {
                let sum = sums.entry(&path[..length]).or_default();
                *sum = sum.saturating_add(*value);
            }
        }
        sums
    }

    /// Own values by what `key` makes of the functions' names.
    pub fn own<'a>(&'a self, key: impl Fn(&'a str) -> &'a str) -> BTreeMap<&'a str, u64> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (path, value) in &self.0 {
            let function = path.last().map_or("", |name| key(name));
            let sum = sums.entry(function).or_default();
            *sum = sum.saturating_add(*value);
        }
        sums
    }
}

fn entry(line: &str) -> Option<(Vec<String>, u64)> {
    let (path, value) = line.rsplit_once(' ')?;
    let path: Vec<String> = path.split(';').map(str::to_owned).collect();
    let named = path.iter().all(|name| !name.trim().is_empty());
    Some((path, value.parse().ok()?)).filter(|_| named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::prof::paths::folded::folded;
    use crate::cmd::prof::paths::tree::Metric;
    use crate::cmd::prof::paths::tree::tests::{path, sample};

    #[test]
    fn what_was_written_is_read() {
        let stacks = sample().folded(Metric::Insn);
        let base = Base::parse(&folded(&stacks)).unwrap();
        assert_eq!(base, Base(stacks));
        assert_eq!(base.inclusive()[&path("sys:read/vfs_read")[..]], 200);
    }

    #[test]
    fn a_wrong_line_is_told_by_its_number() {
        for wrong in ["b", "b 1.5", "b -1", ";b 1", "a;; 2", " 3", ""] {
            let failure = Base::parse(&format!("a;b 1\n{wrong}\nc 2\n")).unwrap_err();
            assert!(failure.message.starts_with("line 2 is not"), "{failure:?}");
        }
        assert_eq!(Base::parse("").unwrap(), Base::default());
    }
}
