// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::cmd::prof::paths::groups::Groups;
use crate::cmd::prof::paths::tree::Tree;
use crate::cmd::prof::paths::tree::tests::{path, recursion, sample};

fn page<'a>(tree: &Tree, metric: Metric, base: Option<&'a Base>) -> Page<'a> {
    Page {
        metric,
        total: tree.total(metric),
        base,
        limit: 30,
        width: None,
    }
}

#[test]
fn the_function_that_did_most_itself_comes_first() {
    let page = page(&sample(), Metric::Insn, None);
    assert_eq!(
        page.functions(&Groups::of(&sample()).functions),
        "FUNCTION         INSNS   SHARE  OWN  SHARE  CALLS  EACH\n\
         vfs_read           500  100.0%  400  80.0%     40  12.5\n\
         read_iter           80   16.0%   70  14.0%      7  11.4\n\
         read_iter [nfs]     20    4.0%   20   4.0%      2  10.0\n\
         copy.isra.0         10    2.0%   10   2.0%      1  10.0\n\
         sys:close          300   60.0%    0   0.0%      0     -\n\
         sys:read           200   40.0%    0   0.0%      0     -\n"
    );
}

#[test]
fn a_function_that_did_nothing_of_the_metric_has_no_line() {
    let none = page(&sample(), Metric::Runnable, None);
    assert_eq!(
        none.functions(&Groups::of(&sample()).functions),
        "FUNCTION  RUNNABLE NS  SHARE  OWN  SHARE  CALLS  EACH\n"
    );
}

#[test]
fn the_edge_that_took_most_comes_first() {
    let page = page(&recursion(), Metric::Wall, None);
    assert_eq!(
        page.edges(&Groups::of(&recursion()).edges),
        "EDGE            WALL NS   SHARE  CALLS\n\
         - -> a            1,500  100.0%      1\n\
         a -> b [m]        1,400   93.3%      6\n\
         b [m] -> a        1,200   80.0%      3\n\
         b [m] -> b [m]      500   33.3%      5\n"
    );
}

#[test]
fn the_module_that_did_most_comes_first() {
    let page = page(&recursion(), Metric::Insn, None);
    assert_eq!(
        page.modules(&Groups::of(&recursion()).modules),
        "MODULE  OWN  SHARE  CALLS\n\
         m       110  73.3%      6\n\
         kernel   40  26.7%      4\n"
    );
}

#[test]
fn what_is_not_shown_is_counted() {
    let groups = Groups::of(&sample());
    let mut page = page(&sample(), Metric::Insn, None);
    page.limit = 5;
    assert!(
        page.functions(&groups.functions)
            .ends_with("\n# and 1 function more\n")
    );
    assert!(
        page.edges(&groups.edges)
            .ends_with("\n# and 2 edges more\n")
    );
    page.limit = 0;
    assert!(
        page.modules(&groups.modules)
            .ends_with("\n# and 2 modules more\n")
    );
}

/// An earlier run in which `read_iter` of nfs did more, and functions that are gone.
fn base() -> Base {
    let mut stacks = sample().folded(Metric::Insn);
    stacks.insert(path("sys:close/read_iter [nfs]"), 1_500);
    stacks.insert(path("sys:gone/gone [ext4]"), 40);
    stacks.remove(&path("sys:read/vfs_read"));
    Base(stacks)
}

#[test]
fn a_base_tells_the_change_of_own_values() {
    let (base, groups) = (base(), Groups::of(&sample()));
    let page = page(&sample(), Metric::Insn, Some(&base));
    assert_eq!(
        page.functions(&groups.functions),
        "FUNCTION         INSNS   SHARE  OWN  CHANGE  SHARE  CALLS  EACH\n\
         vfs_read           500  100.0%  400    +100  80.0%     40  12.5\n\
         read_iter           80   16.0%   70       0  14.0%      7  11.4\n\
         read_iter [nfs]     20    4.0%   20  -1,500   4.0%      2  10.0\n\
         copy.isra.0         10    2.0%   10       0   2.0%      1  10.0\n\
         gone [ext4]          0    0.0%    0     -40   0.0%      0     -\n\
         sys:close          300   60.0%    0       0   0.0%      0     -\n\
         sys:read           200   40.0%    0       0   0.0%      0     -\n"
    );
}

#[test]
fn a_base_tells_the_change_of_modules() {
    let (base, groups) = (base(), Groups::of(&sample()));
    let page = page(&sample(), Metric::Insn, Some(&base));
    assert_eq!(
        page.modules(&groups.modules),
        "MODULE  OWN  CHANGE  SHARE  CALLS\n\
         kernel  480    +100  96.0%      0\n\
         nfs      20  -1,500   4.0%      2\n\
         ext4      0     -40   0.0%      0\n"
    );
}

#[test]
fn what_was_large_before_is_not_left_out() {
    let (base, groups) = (base(), Groups::of(&sample()));
    let mut page = page(&sample(), Metric::Insn, Some(&base));
    page.limit = 2;
    assert_eq!(
        page.functions(&groups.functions),
        "FUNCTION         INSNS   SHARE  OWN  CHANGE  SHARE  CALLS  EACH\n\
         vfs_read           500  100.0%  400    +100  80.0%     40  12.5\n\
         read_iter [nfs]     20    4.0%   20  -1,500   4.0%      2  10.0\n\
         # and 5 functions more\n"
    );
}
