// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl branch`: which way branches on a condition went.

use clap::Args;
use jifl_sys::abi::{Count, FLAG_BRANCHES, NO_BRANCH};
use serde::Serialize;

use crate::exit::Failure;
use crate::output::Format;
use crate::profile::{self, Profile, ProfileArgs, Summary, View, percent};
use crate::report::{grouped, table_within};

/// Fewer executions tell nothing about a layout.
const ENOUGH: u64 = 100;
/// A side that is taken in at most this share of the executions is rare.
const RARE: f64 = 0.1;

/// Arguments of `jifl branch`.
#[derive(Debug, Args)]
#[command(after_help = "\
TARGET is sys:NAME, sys:GLOB or sys:NUMBER. Filters that are given must all match.

The session ends with CMD, after --for, or with Ctrl-C. With CMD the exit status is CMD's.
With --hints: branches forward whose other side, which lies behind them, is the rare one
(10 % at most), and branches into .cold parts that are not; executed 100 times at least.

Examples:
  jifl branch 'sys:*' -- ls -l /
  jifl branch --hints sys:read --for 10s")]
pub struct BranchArgs {
    #[command(flatten)]
    options: BranchOptions,
    #[command(flatten)]
    profile: ProfileArgs,
}

/// What is special about it.
#[derive(Debug, Args)]
pub struct BranchOptions {
    /// Only those that the compiler has laid out against what happens
    #[arg(long)]
    hints: bool,
}

#[derive(Serialize)]
struct Object {
    command: &'static str,
    branches: Vec<BranchObject>,
    #[serde(flatten)]
    summary: Summary,
}

#[derive(Serialize)]
struct BranchObject {
    site: String,
    address: String,
    target: String,
    target_address: String,
    executed: u64,
    taken: u64,
    not_taken: u64,
    verdict: Option<&'static str>,
}

/// Runs the command; the result is the exit status.
pub fn run(args: &BranchArgs) -> Result<u8, Failure> {
    profile::run(&args.profile, FLAG_BRANCHES, args.options.view())
}

impl BranchOptions {
    /// Whether some were given.
    pub fn are_given(&self) -> bool {
        self.hints
    }

    /// There is nothing to open.
    pub fn view(&self) -> View<'_> {
        Box::new(|profile, show| {
            let mut branches = sorted(profile);
            if self.hints {
                branches.retain(|branch| verdict(profile, branch).is_some());
            }
            let branches = show.limited(&branches);
            Ok(match show.format {
                Format::Text if self.hints => hints(profile, branches, show.width()),
                Format::Text => text(profile, branches, show.width()),
                Format::Json => json(profile, branches),
            })
        })
    }
}

/// Where it stands.
fn site(block: &Count) -> u64 {
    block.orig + u64::from(block.branch)
}

/// One for each branch, the most executed first. Several blocks may end in the same: a jump
/// into one makes another.
fn sorted(profile: &Profile) -> Vec<Count> {
    let ran = profile.executed();
    let mut blocks: Vec<Count> = ran
        .filter(|block| block.branch != NO_BRANCH)
        .copied()
        .collect();
    blocks.sort_by_key(|block| (site(block), block.target));
    let mut branches: Vec<Count> = Vec::new();
    for block in blocks {
        match branches.last_mut() {
            Some(last) if (site(last), last.target) == (site(&block), block.target) => {
                last.executed += block.executed;
                last.taken += block.taken;
            }
            _ => branches.push(block),
        }
    }
    branches.sort_by_key(|branch| (u64::MAX - branch.executed, site(branch)));
    branches
}

fn not_taken(branch: &Count) -> u64 {
    branch.executed.saturating_sub(branch.taken)
}

/// What is wrong with how the code is laid out, if something is.
fn verdict(profile: &Profile, branch: &Count) -> Option<&'static str> {
    let share = branch.taken as f64 / branch.executed as f64;
    if branch.executed < ENOUGH {
        return None;
    }
    let function = profile.symbols.function(branch.target);
    let is_cold = function.is_some_and(|place| is_cold(place.function()));
    if is_cold && share > RARE {
        return Some("goes into a cold part");
    }
    // Backwards it is a loop, which goes round as often as not.
    let is_forward = branch.target > site(branch);
    (is_forward && share >= 1.0 - RARE).then_some("falls through rarely")
}

/// `name.cold`, `name.cold.3 [module]`
fn is_cold(function: &str) -> bool {
    let name = function.split(' ').next().unwrap_or(function);
    name.ends_with(".cold") || name.contains(".cold.")
}

fn cells(profile: &Profile, branch: &Count) -> Vec<String> {
    vec![
        profile.name(site(branch)),
        profile.name(branch.target),
        grouped(branch.executed),
        grouped(branch.taken),
        grouped(not_taken(branch)),
        percent(branch.taken, branch.executed),
    ]
}

const TITLES: [&str; 6] = [
    "BRANCH",
    "TARGET",
    "EXECUTED",
    "TAKEN",
    "NOT TAKEN",
    "TAKEN%",
];

fn text(profile: &Profile, branches: &[Count], width: Option<usize>) -> String {
    let mut lines = vec![TITLES.map(str::to_owned).to_vec()];
    lines.extend(branches.iter().map(|branch| cells(profile, branch)));
    table_within(&lines, width) + &profile.cost()
}

fn hints(profile: &Profile, branches: &[Count], width: Option<usize>) -> String {
    let mut lines = vec![TITLES.map(str::to_owned).to_vec()];
    lines[0].push("VERDICT".into());
    lines.extend(branches.iter().map(|branch| {
        let mut line = cells(profile, branch);
        line.push(verdict(profile, branch).unwrap_or_default().into());
        line
    }));
    table_within(&lines, width) + &profile.cost()
}

fn json(profile: &Profile, branches: &[Count]) -> String {
    let object = |branch: &Count| BranchObject {
        site: profile.name(site(branch)),
        address: format!("{:#x}", site(branch)),
        target: profile.name(branch.target),
        target_address: format!("{:#x}", branch.target),
        executed: branch.executed,
        taken: branch.taken,
        not_taken: not_taken(branch),
        verdict: verdict(profile, branch),
    };
    profile::json(&Object {
        command: "branch",
        branches: branches.iter().map(object).collect(),
        summary: profile.summary(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use crate::profile::tests::{AT, branch, sample};

    #[test]
    fn the_documented_lines_parse() {
        for line in [
            "sys:* -- ls -l /",
            "--hints sys:read --for 10s",
            "sys:read -f json",
        ] {
            assert!(parse::<BranchArgs>(line).is_ok(), "{line}");
        }
        assert!(parse::<BranchArgs>("--hints").is_err());
    }

    #[test]
    fn the_most_executed_comes_first() {
        let profile = sample();
        assert_eq!(
            text(&profile, &sorted(&profile), None),
            "BRANCH               TARGET  EXECUTED  TAKEN  NOT TAKEN  TAKEN%\n\
             inner+0x6 [nfs]  outer.cold        40     39          1   97.5%\n\
             outer+0x6        outer+0x40        10     10          0  100.0%\n\
             # translation 0 ns once, 0 blocks; native exits 0; missed 0\n\
             # blocks without a counter 2\n"
        );
        let value: serde_json::Value =
            serde_json::from_str(&json(&profile, &sorted(&profile))).unwrap();
        assert_eq!(value["branches"][0]["not_taken"], 1);
        assert_eq!(value["branches"][0]["target"], "outer.cold");
        assert_eq!(
            value["branches"][0]["address"],
            format!("{:#x}", AT + 0x106)
        );
    }

    #[test]
    fn blocks_that_end_in_the_same_branch_are_one() {
        let mut profile = sample();
        let mut inside = branch(0x102, 0x120, 5, 1);
        inside.branch = 4;
        profile.blocks.push(inside);
        let found = sorted(&profile);
        assert_eq!((found[0].executed, found[0].taken), (45, 40));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn layouts_are_judged() {
        let profile = sample();
        let judged = |to, executed, taken| verdict(&profile, &branch(0x10, to, executed, taken));
        assert_eq!(judged(0x40, 1000, 950), Some("falls through rarely"));
        assert_eq!(judged(0x40, 1000, 800), None);
        assert_eq!(judged(0x40, 99, 99), None);
        assert_eq!(judged(0x00, 1000, 990), None, "a loop");
        assert_eq!(judged(0x120, 1000, 200), Some("goes into a cold part"));
        assert_eq!(judged(0x120, 1000, 10), None);
        assert!(is_cold("f.cold.3 [nfs]") && !is_cold("f.colder"));
    }
}
