// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a call's error comes from. The returned value is followed back through the executed
//! instructions, from register to register and over words of the stack, to the place where it was
//! set.

use super::code::Code;
use super::effect::{CALLER_SAVED, Effect, Effects, Math, Place, RAX};
use super::fixup;
use super::walk::{Next, Walk};

/// Maximum depth of selections whose two sides are followed.
const DEPTH: u32 = 4;

/// The place where the value could not be followed further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The error as a constant: here it was set.
    Constant,
    /// Computed from flags, without a branch.
    Flags,
    /// Read from memory.
    Memory,
    /// The called function returned it, and ran natively. `None`: the function is unknown.
    Native(Option<u64>),
    /// The code after this ran natively, and returned it.
    Lost,
    /// An exception: the kernel's fixup returned it, and set it at this address, if that is known.
    Fault(Option<u64>),
    /// Computed in a way that is not examined.
    Computed,
    /// It existed before the recorded code.
    Unknown,
}

/// The origin of the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Its kind.
    pub kind: Kind,
    /// The instruction: an index of the walk's steps.
    pub step: usize,
    /// The value's place after it.
    pub place: Place,
    /// Instructions that chose the value by flags.
    pub chosen: Vec<usize>,
}

/// Follows the call's result, `wanted`.
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

/// Arithmetic between the followed value and the returned one.
#[derive(Default)]
struct Way {
    /// Operations, the last executed first.
    math: Vec<Math>,
    /// Step of the last executed operation, and the value's place after it.
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
    /// Follows the value in `place` backwards from the step `behind`.
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

    /// After a step came native code. If that returned to a caller, registers and words that a
    /// function preserves have their values from the call: the result is the step before which to
    /// go on. `None`: the value comes from the native code.
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

    /// A selection chose the side that leads to the wanted value, if one does.
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
