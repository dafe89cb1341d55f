// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stacks as folded text, the input of other tools for flame graphs.

use std::fmt::Write as _;

use crate::cmd::prof::frames::Stacks;

/// Lines of `kernel;vfs_read 120`, the largest number first.
pub fn folded(stacks: &Stacks) -> String {
    let mut sorted: Vec<(&Vec<String>, &u64)> = stacks.iter().collect();
    sorted.sort_by_key(|(stack, count)| (u64::MAX - *count, *stack));
    let mut text = String::new();
    for (stack, count) in sorted {
        let _ = writeln!(text, "{} {count}", stack.join(";"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::prof::paths::tree::Metric;
    use crate::cmd::prof::paths::tree::tests::sample;

    #[test]
    fn the_largest_line_is_the_first() {
        assert_eq!(
            folded(&sample().folded(Metric::Insn)),
            "sys:close;vfs_read 300\n\
             sys:read;vfs_read 100\n\
             sys:read;vfs_read;read_iter 70\n\
             sys:read;vfs_read;read_iter [nfs] 20\n\
             sys:read;vfs_read;read_iter;copy.isra.0 10\n"
        );
    }
}
