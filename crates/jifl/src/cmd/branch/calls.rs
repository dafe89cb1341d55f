// SPDX-License-Identifier: MIT OR Apache-2.0
//! Branches that go one way in one system call and the other way in another: no layout is right
//! for both.

use std::collections::BTreeMap;

use jifl_sys::abi::Count;
use serde::Serialize;

use super::{ENOUGH, RARE, expects_taken, sorted};
use crate::session::blocks::{self, Profile, site};
use crate::show::table::table_within;
use crate::show::text::grouped;
use crate::show::text::percent;

/// A branch.
#[derive(Debug, Serialize)]
pub struct Differing {
    site: String,
    address: String,
    target: String,
    target_address: String,
    /// Its behaviour in each of the targets, in the order in which they were given.
    calls: Vec<Side>,
    /// How often it went the way that it is not laid out for.
    cost: u64,
}

/// Its behaviour in one target.
#[derive(Debug, Serialize)]
struct Side {
    target: String,
    executed: u64,
    taken: u64,
    /// Whether it goes the way that it is laid out for; null if it goes both ways, or was executed
    /// too seldom.
    right: Option<bool>,
}

/// All such branches. Those that go the wrong way most often come first.
pub fn differing(profiles: &[(&str, Profile)]) -> Vec<Differing> {
    let mut sites: BTreeMap<(u64, u64), Vec<Option<Count>>> = BTreeMap::new();
    for (index, (_, profile)) in profiles.iter().enumerate() {
        for branch in sorted(profile) {
            let key = (site(&branch), branch.target);
            let known = sites
                .entry(key)
                .or_insert_with(|| vec![None; profiles.len()]);
            known[index] = Some(branch);
        }
    }
    let found = sites
        .values()
        .filter_map(|branches| judged(profiles, branches));
    let mut found: Vec<Differing> = found.collect();
    found.sort_by_key(|branch| u64::MAX - branch.cost);
    found
}

fn judged(profiles: &[(&str, Profile)], branches: &[Option<Count>]) -> Option<Differing> {
    let known = branches.iter().flatten().next()?;
    let expected = expects_taken(known);
    let sides: Vec<Side> = profiles
        .iter()
        .zip(branches)
        .map(|((target, _), branch)| Side {
            target: (*target).to_owned(),
            executed: branch.map_or(0, |branch| branch.executed),
            taken: branch.map_or(0, |branch| branch.taken),
            right: branch
                .and_then(|branch| goes(&branch))
                .map(|taken| taken == expected),
        })
        .collect();
    let has = |wanted| sides.iter().any(|side| side.right == Some(wanted));
    if !(has(true) && has(false)) {
        return None;
    }
    let wrong = |branch: &Count| {
        if expected {
            blocks::not_taken(branch)
        } else {
            branch.taken
        }
    };
    let names = &profiles[0].1;
    Some(Differing {
        site: names.name(site(known)),
        address: format!("{:#x}", site(known)),
        target: names.name(known.target),
        target_address: format!("{:#x}", known.target),
        calls: sides,
        cost: branches.iter().flatten().map(wrong).sum(),
    })
}

/// Whether it is taken, if it nearly always goes the same way.
fn goes(branch: &Count) -> Option<bool> {
    let share = branch.taken as f64 / branch.executed as f64;
    match share {
        _ if branch.executed < ENOUGH => None,
        share if share >= 1.0 - RARE => Some(true),
        share if share <= RARE => Some(false),
        _ => None,
    }
}

/// A table: for each target, how often the branch was taken, of how many executions.
pub fn text(branches: &[Differing], profiles: &[(&str, Profile)], width: Option<usize>) -> String {
    let mut titles = vec!["BRANCH".to_owned(), "TARGET".to_owned(), "COST".to_owned()];
    titles.extend(profiles.iter().map(|(target, _)| (*target).to_owned()));
    let mut lines = vec![titles];
    for branch in branches {
        let mut line = vec![
            branch.site.clone(),
            branch.target.clone(),
            grouped(branch.cost),
        ];
        line.extend(branch.calls.iter().map(cell));
        lines.push(line);
    }
    table_within(&lines, 2, width)
}

/// `98.3% of 1,000 wrong`
fn cell(side: &Side) -> String {
    if side.executed == 0 {
        return "-".into();
    }
    let verdict = match side.right {
        Some(true) => " right",
        Some(false) => " wrong",
        None => "",
    };
    let share = percent(side.taken, side.executed);
    format!("{share} of {}{verdict}", grouped(side.executed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::blocks::tests::{branch, sample};

    fn of(branches: &[Count]) -> Profile {
        let mut profile = sample();
        profile.blocks = branches.to_vec();
        profile
    }

    #[test]
    fn branches_that_agree_are_left_out() {
        let read = of(&[
            branch(0x00, 0x40, 1000, 990),
            branch(0x10, 0x40, 1000, 990),
            branch(0x20, 0x40, 1000, 990),
            branch(0x30, 0x20, 1000, 999),
        ]);
        let write = of(&[
            branch(0x00, 0x40, 2000, 0),
            branch(0x10, 0x40, 2000, 2000),
            branch(0x20, 0x40, 99, 0),
            branch(0x30, 0x20, 500, 20),
        ]);
        let profiles = [("sys:read", read), ("sys:write", write)];
        let found = differing(&profiles);
        assert_eq!(
            text(&found, &profiles, None),
            "BRANCH          TARGET  COST              sys:read            sys:write\n\
             outer+0x6   outer+0x40   990  99.0% of 1,000 wrong  0.0% of 2,000 right\n\
             outer+0x36  outer+0x20   481  99.9% of 1,000 right    4.0% of 500 wrong\n"
        );
        let value = serde_json::to_value(&found).unwrap();
        assert_eq!(value[0]["calls"][0]["right"], false);
        assert_eq!(value[0]["calls"][1]["executed"], 2000);
    }
}
