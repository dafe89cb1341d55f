// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a call's error comes from. The returned value is followed back through the executed
//! instructions, from register to register and over words of the stack, to the place where it was
//! set.

use super::code::Code;
use super::effect::{CALLER_SAVED, Effect, Effects, Math, Place, RAX};
use super::fixup;
use super::walk::{Next, Walk};

/// How deep selections are looked into on both sides.
const DEPTH: u32 = 4;

/// What there is where it could be followed no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The error as a constant: this is where it was set.
    Constant,
    /// Made of flags, without a branch.
    Flags,
    /// It was read from memory.
    Memory,
    /// This returned it, or nobody knows what, and ran natively.
    Native(Option<u64>),
    /// What came behind ran natively, and returned it.
    Lost,
    /// An exception, in place of which the kernel's fixup returned it, set there if that is known.
    Fault(Option<u64>),
    /// It was computed in a way that is not looked into.
    Computed,
    /// It was there before all that was seen.
    Unknown,
}

/// Where the value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// What it is there.
    pub kind: Kind,
    /// The instruction; a place in the walk's steps.
    pub step: usize,
    /// Where the value is behind it.
    pub place: Place,
    /// Instructions that chose it, by flags, instead of another.
    pub chosen: Vec<usize>,
}

/// Follows what the call returned, `wanted`.
pub fn origin(walk: &Walk, wanted: i64, code: &Code<'_>) -> Option<Origin> {
    if walk.steps.is_empty() {
        return None;
    }
    let mut follower = Follower {
        walk,
        code,
        wanted,
        effects: Effects::default(),
    };
    Some(follower.follow(walk.steps.len(), Place::Register(RAX), DEPTH))
}

struct Follower<'a, 'b> {
    walk: &'a Walk,
    code: &'a Code<'b>,
    wanted: i64,
    effects: Effects,
}

/// Arithmetic on the way.
#[derive(Default)]
struct Way {
    /// The last executed first.
    math: Vec<Math>,
    /// Where that is, and where the value is behind it.
    top: Option<(usize, Place)>,
}

impl Way {
    fn end(&self, kind: Kind, step: usize, place: Place) -> Origin {
        let (step, place) = self.top.unwrap_or((step, place));
        Origin {
            kind,
            step,
            place,
            chosen: Vec::new(),
        }
    }
}

impl Follower<'_, '_> {
    /// From where it is in `place` before the step `behind`.
    fn follow(&mut self, behind: usize, mut place: Place, depth: u32) -> Origin {
        let mut way = Way::default();
        let mut index = behind;
        while index > 0 {
            index -= 1;
            let step = self.walk.steps[index];
            let volatile = matches!(place, Place::Register(n) if CALLER_SAVED >> n & 1 == 1);
            match step.next {
                Next::Native(target) if volatile => {
                    return way.end(Kind::Native(target), index, place);
                }
                Next::Lost | Next::Fault => match self.before_gap(index, volatile) {
                    Some(before) => {
                        index = before;
                        continue;
                    }
                    None => return way.end(self.of_gap(index), index, place),
                },
                _ => {}
            }
            let Some(instruction) = self.code.at(step.at) else {
                continue;
            };
            match self.effects.of(&instruction, step.slot, place) {
                Effect::Keeps => {}
                Effect::Copies(from) => place = from,
                Effect::Sets(value) => {
                    let kind = if self.is_wanted(value, &way.math) {
                        Kind::Constant
                    } else {
                        Kind::Computed
                    };
                    return way.end(kind, index, place);
                }
                Effect::Computes(Math::Or(with), _) if self.is_wanted(with, &way.math) => {
                    return way.end(Kind::Constant, index, place);
                }
                Effect::Computes(math, from) => {
                    way.top = way.top.or(Some((index, place)));
                    way.math.push(math);
                    place = from;
                }
                Effect::Selects(other) if depth > 0 && way.math.is_empty() => {
                    return self.select(index, place, other, depth - 1);
                }
                Effect::Flags => {
                    let mut found = way.end(Kind::Flags, index, place);
                    found.chosen.push(index);
                    return found;
                }
                Effect::Loads => return way.end(Kind::Memory, index, place),
                Effect::Selects(_) | Effect::Changes => {
                    return way.end(Kind::Computed, index, place);
                }
            }
        }
        way.end(Kind::Unknown, 0, place)
    }

    fn is_wanted(&self, value: i64, math: &[Math]) -> bool {
        let value = math
            .iter()
            .rev()
            .try_fold(value, |value, math| math.of(value));
        value.is_some_and(|value| value as i32 == self.wanted as i32)
    }

    fn of_gap(&self, index: usize) -> Kind {
        let step = self.walk.steps[index];
        match step.next {
            Next::Fault => Kind::Fault(fixup::returns(step.at, self.wanted, self.code)),
            _ => Kind::Lost,
        }
    }

    /// Behind a step came native code. Where that returned to a caller, what a function keeps for
    /// it is what it was at the call: the step to go on before. `None`: it comes from the native code.
    fn before_gap(&self, index: usize, volatile: bool) -> Option<usize> {
        if volatile {
            return None;
        }
        let to = self.walk.steps.get(index + 1)?.frame;
        let mut frame = self.walk.steps[index].frame;
        let mut site = None;
        while frame != to {
            let left = self.walk.frames[frame];
            site = left.site;
            frame = left.caller?;
        }
        site
    }

    /// A selection chose the side that leads to what was wanted, if one does.
    fn select(&mut self, index: usize, place: Place, other: Place, depth: u32) -> Origin {
        let kept = self.follow(index, place, depth);
        let moved = self.follow(index, other, depth);
        let is = |side: &Origin| side.kind == Kind::Constant;
        // A side that is another constant is not the origin.
        let is_not = |side: &Origin| side.kind == Kind::Computed;
        let mut found = match (is(&kept), is(&moved)) {
            (true, _) => kept,
            (false, true) => moved,
            _ if is_not(&kept) && !is_not(&moved) => moved,
            _ if is_not(&moved) && !is_not(&kept) => kept,
            _ => Origin {
                kind: Kind::Computed,
                step: index,
                place,
                chosen: Vec::new(),
            },
        };
        found.chosen.push(index);
        found
    }
}
