// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is dead before each instruction: what a test overwrites in a kernel that runs.
//!
//! An instruction may be in two blocks, where code jumps over a prefix, and in two functions, where
//! one goes on in the other. What is dead there is dead in all of them.

use rayon::prelude::*;

use crate::effect::{ALL, RSP};
use crate::live::{Live, Space};
use crate::program::Program;

/// The instruction's address, and what is dead right before it: a mask of [`crate::effect`].
pub type Place = (u64, u32);

/// All instructions at which something is dead, in the order of addresses. rsp never is.
pub fn places(program: &Program, live: &Live) -> Vec<Place> {
    let all: Vec<usize> = (0..program.functions.len()).collect();
    let of = |space: &mut Space, index: &usize| {
        let mut places: Vec<Place> = Vec::new();
        for block in 0..program.functions[*index].graph.blocks.len() {
            let within = live.within(program, *index, block, space).iter();
            places.extend(within.map(|(at, live)| (*at, ALL & !live & !RSP)));
        }
        places
    };
    let places: Vec<Vec<Place>> = all.par_iter().map_init(Space::default, of).collect();
    let mut places = places.concat();
    places.par_sort_unstable();
    places.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0;
        kept.1 &= if is_same { next.1 } else { ALL };
        is_same
    });
    places.retain(|(_, dead)| *dead != 0);
    places
}

/// Is a place one of those that are drawn, of a hundred so many? The seed says which.
pub fn is_drawn(at: u64, seed: u64, percent: u64) -> bool {
    // The finalizer of splitmix64.
    let mut mixed = at ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 31) % 100 < percent
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::names;
    use crate::image::Image;
    use crate::live::Trust;

    #[test]
    fn what_is_overwritten_later_is_dead() {
        // mov %edi,%eax; mov $1,%ecx; add %ecx,%eax; ret
        let bytes = [0x89, 0xf8, 0xb9, 1, 0, 0, 0, 0x01, 0xc8, 0xc3];
        let program = Program::of(Image::of_text(0x1000, bytes.to_vec(), &[(0x1000, "f")]));
        let live = Live::of(&program, Trust::Nothing);
        let places = places(&program, &live);
        let all: Vec<_> = places
            .iter()
            .map(|(at, dead)| (*at, names(*dead)))
            .collect();
        let flags = ["cf", "pf", "af", "zf", "sf", "of"];
        let with = |registers: &[&'static str]| [registers, &flags].concat();
        let expected = [
            (0x1000, with(&["rax", "rcx"])),
            (0x1002, with(&["rcx"])),
            (0x1007, flags.to_vec()),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn an_instruction_of_two_blocks_has_what_is_dead_in_both() {
        // je +1: over the lock; lock incl (%rdi); ret
        let bytes = [0x74, 0x01, 0xf0, 0xff, 0x07, 0xc3];
        let program = Program::of(Image::of_text(0x1000, bytes.to_vec(), &[(0x1000, "f")]));
        let live = Live::of(&program, Trust::Nothing);
        let places = places(&program, &live);
        assert!(
            places.windows(2).all(|pair| pair[0].0 < pair[1].0),
            "{places:x?}"
        );
    }

    #[test]
    fn the_seed_says_which_are_drawn() {
        let drawn = |seed, percent| -> Vec<u64> {
            let all = 0..10_000;
            all.filter(|at| is_drawn(*at, seed, percent)).collect()
        };
        let some = drawn(1, 25);
        assert!((2300..2700).contains(&some.len()), "{}", some.len());
        assert_eq!(some, drawn(1, 25));
        assert_ne!(some, drawn(2, 25));
        assert_eq!((drawn(3, 100).len(), drawn(3, 0).len()), (10_000, 0));
    }
}
