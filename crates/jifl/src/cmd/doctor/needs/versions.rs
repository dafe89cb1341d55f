// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which versions of the kernel JIFL is tested on. docs/kernels.md has the same.

use super::super::finding::{Finding, Verdict, finding, ok};

/// The oldest kernel that JIFL is made for.
const OLDEST: Version = (6, 1);

/// A series of kernels: the first two numbers of a release.
pub type Version = (u32, u32);

/// How much is tested on a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tested {
    /// All.
    Whole,
    /// A part.
    Part,
}

/// The series that are tested, as Debian builds them.
pub const TESTED: &[(Version, Tested)] = &[
    ((6, 1), Tested::Whole),
    ((6, 12), Tested::Whole),
    ((7, 3), Tested::Part),
];

/// The series of a release; (0, 0) where it has no numbers.
pub fn of(release: &str) -> Version {
    let mut numbers = release.split(['.', '-', '+']).map(|part| part.parse().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor),
        _ => (0, 0),
    }
}

/// What is to be said of a release.
pub fn check(release: &str) -> Finding {
    let what = "kernel";
    let version = of(release);
    if version < OLDEST {
        return finding(what, Verdict::Bad, release)
            .mend("Linux 6.1 or later is needed; `jifl vm` brings a kernel of its own");
    }
    let (major, minor) = version;
    let known = TESTED.iter().find(|(series, _)| *series == version);
    match known.map(|(_, tested)| tested) {
        Some(Tested::Whole) => ok(what, format!("{release}: all is tested on {major}.{minor}")),
        Some(Tested::Part) => finding(
            what,
            Verdict::Note,
            format!(
                "{release}: a part of JIFL is tested on {major}.{minor} (docs/kernels.md has which)"
            ),
        ),
        None => finding(
            what,
            Verdict::Note,
            format!(
                "{release}: not tested (tested are {} as Debian builds them); what follows was \
                 looked up in this kernel instead",
                series()
            ),
        ),
    }
}

/// `6.1, 6.12, a part on 7.3`
fn series() -> String {
    let name = |((major, minor), tested): &(Version, Tested)| match tested {
        Tested::Whole => format!("{major}.{minor}"),
        Tested::Part => format!("a part on {major}.{minor}"),
    };
    TESTED.iter().map(name).collect::<Vec<_>>().join(", ")
}
