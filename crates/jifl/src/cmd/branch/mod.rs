// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl branch`: which way conditional branches went.

mod calls;

use clap::Args;
use jifl_code::names;
use jifl_sys::abi::{Count, FLAG_BRANCHES};
use serde::Serialize;

use self::calls::Differing;
use crate::base::exit::Failure;
use crate::session::blocks::{self, Profile, ProfileArgs, Shown, Summary, View, not_taken, site};
use crate::show::output::{self, Format};
use crate::show::table::table_within;
use crate::show::text;
use crate::show::text::grouped;
use crate::show::text::percent;

/// Fewer executions tell nothing about a layout.
const ENOUGH: u64 = 100;
/// A side that is taken in at most this share of the executions is rare.
const RARE: f64 = 0.1;

/// Arguments of `jifl branch`.
#[derive(Debug, Args)]
#[command(after_help = "\
TARGET is sys:NAME, sys:GLOB or sys:NUMBER, or a function of the kernel: fn:NAME, fn:GLOB,
fn:NAME@MODULE, or mod:NAME for all functions of a module. Filters that are given must all match.

The session ends with CMD, after --for, or with Ctrl-C. With CMD the exit status is CMD's.
With --hints: branches that were executed at least 100 times, and either go forward but fall
through in at most 10 % of the executions, or go into a .cold part in more.
COST: how often the wrong side was executed. HINT: the prefix that would tell a processor.
With --per-call: branches that go the way they are laid out for in one target, and the other way
in another. Each target has a session of its own, all at the same time.

Examples:
  jifl branch 'sys:*' -- ls -l /
  jifl branch --hints sys:read --for 10s
  jifl branch --per-call sys:read sys:write -- ./test")]
pub struct BranchArgs {
    #[command(flatten)]
    options: BranchOptions,
    #[command(flatten)]
    profile: ProfileArgs,
}

/// Options of `jifl branch` that `jifl report` has, too.
#[derive(Debug, Args)]
pub struct BranchOptions {
    /// Show only branches that the compiler has laid out against what happens
    #[arg(long)]
    hints: bool,
    /// Show only branches that go the right way for one target and the wrong way for another; not
    /// of a recording
    #[arg(long, conflicts_with = "hints")]
    per_call: bool,
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
    hint: Option<&'static str>,
    cost: u64,
}

#[derive(Serialize)]
struct PerCallObject<'a> {
    command: &'static str,
    branches: &'a [Differing],
    targets: Vec<TargetObject<'a>>,
}

#[derive(Serialize)]
struct TargetObject<'a> {
    target: &'a str,
    #[serde(flatten)]
    summary: Summary,
}

/// Runs the command; the result is the exit status.
pub fn run(args: &BranchArgs) -> Result<u8, Failure> {
    if args.options.per_call {
        return per_call(args);
    }
    blocks::run(&args.profile, FLAG_BRANCHES, args.options.view())
}

impl BranchOptions {
    /// True if any option was given.
    pub fn are_given(&self) -> bool {
        self.hints || self.per_call
    }

    /// Refuses an option for which a recording has no data.
    ///
    /// # Errors
    /// Such an option was given.
    pub fn need_no_kernel(&self) -> Result<(), Failure> {
        if !self.per_call {
            return Ok(());
        }
        Err(Failure::usage(
            "--per-call compares sessions, of which a recording has one: `jifl branch --per-call` \
             runs and compares them",
        ))
    }

    /// The view. It opens no files.
    pub fn view(&self) -> View<'_> {
        Box::new(|profile, show| {
            let mut branches = sorted(profile);
            if self.hints {
                branches.retain(|branch| verdict(profile, branch).is_some());
                branches.sort_by_key(|branch| (u64::MAX - cost(profile, branch), site(branch)));
            }
            let (branches, width) = (show.limited(&branches), show.width());
            Ok(Shown::text(match show.format {
                Format::Text => output::fit(text(profile, branches, self.hints, width), width),
                Format::Json => json(profile, branches),
            }))
        })
    }
}

/// Runs a session for each target.
fn per_call(args: &BranchArgs) -> Result<u8, Failure> {
    blocks::run_each(&args.profile, FLAG_BRANCHES, |profiles, show| {
        let branches = calls::differing(profiles);
        let (branches, width) = (show.limited(&branches), show.width());
        Ok(match show.format {
            Format::Text => {
                let mut text = calls::text(branches, profiles, width);
                for (target, profile) in profiles {
                    text += &format!(
                        "# {target}: missed {}; blocks without a counter {}\n",
                        grouped(profile.report.missed()),
                        grouped(profile.refused)
                    );
                }
                output::fit(text, width)
            }
            Format::Json => text::json(&PerCallObject {
                command: "branch",
                branches,
                targets: profiles
                    .iter()
                    .map(|(target, profile)| TargetObject {
                        target,
                        summary: profile.summary(),
                    })
                    .collect(),
            }),
        })
    })
}

/// One entry for each executed branch, the most executed first.
fn sorted(profile: &Profile) -> Vec<Count> {
    let mut branches = blocks::branches(profile.executed());
    branches.sort_by_key(|branch| (u64::MAX - branch.executed, site(branch)));
    branches
}

/// Whether the layout expects the branch to be taken. A branch backwards is a loop, and is expected
/// to be taken. After a branch forwards the compiler puts the code that it considers likely.
fn expects_taken(branch: &Count) -> bool {
    branch.target <= site(branch)
}

fn goes_into_cold(profile: &Profile, branch: &Count) -> bool {
    let function = profile.symbols.function(branch.target);
    function.is_some_and(|place| names::whole(place.name()).is_some())
}

/// What is wrong with the layout of the code, if anything is.
fn verdict(profile: &Profile, branch: &Count) -> Option<&'static str> {
    let share = branch.taken as f64 / branch.executed as f64;
    if branch.executed < ENOUGH {
        return None;
    }
    if goes_into_cold(profile, branch) && share > RARE {
        return Some("goes into a cold part");
    }
    // A branch backwards is a loop. Loops are taken about as often as not.
    (!expects_taken(branch) && share >= 1.0 - RARE).then_some("falls through rarely")
}

/// How often the branch did not go the way that it is laid out for.
fn cost(profile: &Profile, branch: &Count) -> u64 {
    if expects_taken(branch) && !goes_into_cold(profile, branch) {
        not_taken(branch)
    } else {
        branch.taken
    }
}

/// The prefix for the way that the branch nearly always goes, 3e for taken and 2e for not taken, if
/// a processor would predict the other way. Without knowledge of a branch, a processor predicts
/// that loops are taken and that other branches fall through.
fn hint(branch: &Count) -> Option<&'static str> {
    let share = branch.taken as f64 / branch.executed as f64;
    match (expects_taken(branch), branch.executed >= ENOUGH) {
        (false, true) if share >= 1.0 - RARE => Some("3e"),
        (true, true) if share <= RARE => Some("2e"),
        _ => None,
    }
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

fn text(profile: &Profile, branches: &[Count], hints: bool, width: Option<usize>) -> String {
    let mut lines = vec![TITLES.map(str::to_owned).to_vec()];
    lines.extend(branches.iter().map(|branch| cells(profile, branch)));
    if hints {
        lines[0].extend(["COST", "HINT", "VERDICT"].map(str::to_owned));
        for (line, branch) in lines[1..].iter_mut().zip(branches) {
            line.extend([
                grouped(cost(profile, branch)),
                hint(branch).unwrap_or("-").into(),
                verdict(profile, branch).unwrap_or_default().into(),
            ]);
        }
    }
    table_within(&lines, 2, width) + &profile.cost()
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
        hint: hint(branch),
        cost: cost(profile, branch),
    };
    text::json(&Object {
        command: "branch",
        branches: branches.iter().map(object).collect(),
        summary: profile.summary(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parse::{check, parse};
    use crate::session::blocks::tests::{AT, branch, sample};

    #[test]
    fn the_documented_lines_parse() {
        check::<BranchArgs>(
            &[
                "sys:* -- ls -l /",
                "--hints sys:read --for 10s",
                "--per-call sys:read sys:write -- ./test",
                "sys:read -f json",
            ],
            &["--hints", "--hints --per-call sys:read sys:write"],
        );
        for line in [
            "--per-call sys:read",
            "--per-call sys:read sys:write --record x",
        ] {
            let refused: BranchArgs = parse(line).unwrap();
            assert_eq!(run(&refused).unwrap_err().status, crate::base::exit::USAGE);
        }
    }

    #[test]
    fn the_most_executed_comes_first() {
        let profile = sample();
        assert_eq!(
            text(&profile, &sorted(&profile), false, None),
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
    fn layouts_are_judged() {
        let profile = sample();
        let judged = |to, executed, taken| verdict(&profile, &branch(0x10, to, executed, taken));
        assert_eq!(judged(0x40, 1000, 950), Some("falls through rarely"));
        assert_eq!(judged(0x40, 1000, 800), None);
        assert_eq!(judged(0x40, 99, 99), None);
        assert_eq!(judged(0x00, 1000, 990), None, "a loop");
        assert_eq!(judged(0x120, 1000, 200), Some("goes into a cold part"));
        assert_eq!(judged(0x120, 1000, 10), None);
        let costs = |to, taken| {
            let branch = branch(0x10, to, 1000, taken);
            (cost(&profile, &branch), hint(&branch))
        };
        assert_eq!(costs(0x40, 950), (950, Some("3e")));
        assert_eq!(costs(0x40, 800), (800, None));
        assert_eq!(costs(0x00, 10), (990, Some("2e")));
        assert_eq!(costs(0x120, 200), (200, None));
        let shown = text(&profile, &[branch(0x10, 0x40, 1000, 950)], true, None);
        assert!(
            shown.contains("95.0%   950    3e  falls through rarely\n"),
            "{shown}"
        );
    }
}
