// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which branch decided that a function returned an error, or NULL, which here counts as one.
//!
//! The deciding branch is the last one executed in that function whose other way could have led to
//! something else than an error.
//!
//! - Before the error is set: the other way can reach a return that sets no error.
//! - Behind: on the other way a different value is returned. Compilers like to set an error first
//!   and then branch to the place where it is returned.
//!
//! A branch behind these that leads to an error either way (cleaning up, or another error), and a
//! branch that asks for the error itself, decide nothing. A function without a deciding branch
//! always returns an error. Then the branch of its caller is looked for that led to its call.

use std::collections::{BTreeSet, HashSet};

use iced_x86::Instruction;
use jifl_code::flow::{Flow, Target};

use super::code::Code;
use super::effect::{self, CALLER_SAVED, Effect, Effects, Place, RAX};
use super::origin::Origin;
use super::stack::Stack;
use super::walk::{Next, Walk};
use crate::kernel::errno;

/// Maximum of instructions that are examined for one branch. A branch that needs more counts as one
/// that has another way.
const EFFORT: usize = 200_000;

/// Places that hold the value, or a constant error: compilers keep one for each of several ways to
/// the same return.
type Held = BTreeSet<Place>;

/// The decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The branch, or the instruction that selects by flags: an index of the walk's steps.
    pub step: usize,
    /// The last instruction that set the flags which it asked for.
    pub flags: Option<usize>,
}

/// The instruction by which a function gets the value.
struct Source {
    /// The instruction's address.
    at: u64,
    /// The value's place after that; `None` if this instruction leaves the function.
    place: Option<Place>,
}

/// An executed instruction that may have decided.
struct Candidate {
    step: usize,
    flags: Option<usize>,
    /// Whether it asked for the value itself.
    asks: bool,
    held: Held,
    stack: Stack,
}

/// Finds the decision, in the function where the error comes from or in one that called it.
/// `result`: of the call, 0 for NULL.
pub fn decision(walk: &Walk, origin: &Origin, result: i64, code: &Code<'_>) -> Option<Decision> {
    let mut decider = Decider {
        walk,
        code,
        is_null: result == 0,
        effects: Effects::default(),
    };
    let mut step = origin.step;
    let mut source = Source {
        at: walk.steps[step].at,
        place: Some(origin.place),
    };
    loop {
        let frame = walk.frames[walk.steps[step].frame];
        if let Some(found) = decider.in_frame(step, &source, &origin.chosen) {
            return Some(found);
        }
        step = frame.site?;
        source = Source {
            at: walk.steps[step].at,
            place: (!frame.is_tail).then_some(Place::Register(RAX)),
        };
    }
}

struct Decider<'a, 'b> {
    walk: &'a Walk,
    code: &'a Code<'b>,
    /// NULL is looked for, and no error.
    is_null: bool,
    effects: Effects,
}

impl Decider<'_, '_> {
    /// The decision in the frame of the step from which the value comes.
    fn in_frame(&mut self, step: usize, source: &Source, chosen: &[usize]) -> Option<Decision> {
        let candidates = self.candidates(step, source, chosen);
        let function = self.walk.frames[self.walk.steps[step].frame].function;
        candidates
            .into_iter()
            .rev()
            .find(|candidate| !candidate.asks && self.has_other_way(candidate, source, function))
            .map(|found| Decision {
                step: found.step,
                flags: found.flags,
            })
    }

    /// Candidates for the decision, in the order of execution.
    fn candidates(&mut self, from: usize, source: &Source, chosen: &[usize]) -> Vec<Candidate> {
        let frame = self.walk.steps[from].frame;
        let mut all = Vec::new();
        let mut stack = Stack::default();
        stack.at(self.walk.frames[frame].stack);
        let mut held = Held::new();
        let mut flags: Option<(usize, bool)> = None;
        // The value appears once, even if the instruction was executed several times before.
        for (index, step) in self.walk.steps.iter().enumerate() {
            if step.frame != frame {
                continue;
            }
            let Some(instruction) = self.code.at(step.at) else {
                continue;
            };
            let by_flags = chosen.contains(&index);
            if matches!(step.next, Next::Taken | Next::NotTaken) || by_flags {
                all.push(Candidate {
                    step: index,
                    flags: flags.map(|(index, _)| index),
                    asks: flags.is_some_and(|(_, asks)| asks),
                    held: held.clone(),
                    stack: stack.clone(),
                });
            }
            let flow = self.code.flow(&instruction);
            if effect::writes_flags(&instruction) {
                let asks = self.effects.reads(&instruction, step.slot, &held);
                flags = Some((index, asks));
            }
            self.pass(&instruction, flow, &mut held, &mut stack);
            if index == from {
                held.extend(source.place);
            } else if index > from && by_flags {
                held.extend(effect::destination(&instruction, step.slot));
            }
            if matches!(flow, Flow::Call(_)) {
                flags = None;
            }
        }
        all
    }

    /// Applies the effect of an instruction to the places that hold the value, and to the stack.
    fn pass(&mut self, instruction: &Instruction, flow: Flow, held: &mut Held, stack: &mut Stack) {
        if let Flow::Call(_) = flow {
            held.retain(|place| match place {
                Place::Register(number) => CALLER_SAVED >> number & 1 == 0,
                Place::Slot(_) => true,
            });
            stack.called();
            return;
        }
        let slot = stack.operand(instruction);
        let to = effect::destination(instruction, slot);
        let comes = to.is_some_and(|to| match self.effects.of(instruction, slot, to) {
            Effect::Copies(from) => held.contains(&from),
            // Whichever of the two it selects.
            Effect::Selects(from) => held.contains(&from) && held.contains(&to),
            Effect::Sets(value) if self.is_null => value == 0,
            Effect::Sets(value) => errno::is_error(i64::from(value as i32)),
            Effect::Keeps => held.contains(&to),
            _ => false,
        });
        let effects = &mut self.effects;
        held.retain(|place| effects.of(instruction, slot, *place) == Effect::Keeps);
        if comes {
            held.extend(to);
        }
        if flow == Flow::Next {
            stack.step(instruction, &mut self.effects);
        }
    }

    /// True if the other way of the candidate can return something else.
    fn has_other_way(&mut self, candidate: &Candidate, source: &Source, function: u64) -> bool {
        let step = self.walk.steps[candidate.step];
        let Some(instruction) = self.code.at(step.at) else {
            return false;
        };
        let other = match step.next {
            Next::Taken => instruction.next_ip(),
            Next::NotTaken => instruction.near_branch_target(),
            // An instruction that selects by flags could have selected another value.
            _ => return true,
        };
        let mut todo = vec![(other, candidate.held.clone(), candidate.stack.clone())];
        let mut seen = HashSet::new();
        let mut effort = 0;
        while let Some((at, held, stack)) = todo.pop() {
            if !self.code.is_of(function, at) {
                // A jump to another function, which may return any value.
                return true;
            }
            if !seen.insert((at, held.clone(), stack.pointer())) {
                continue;
            }
            match self.straight(at, held, stack, source, &mut effort) {
                Way::Returns { value: false } => return true,
                Way::Returns { value: true } | Way::Ends => {}
                Way::On(next) => todo.extend(next),
            }
            if effort > EFFORT {
                return true;
            }
        }
        false
    }

    /// Follows straight code up to the next branch.
    fn straight(
        &mut self,
        mut at: u64,
        mut held: Held,
        mut stack: Stack,
        source: &Source,
        effort: &mut usize,
    ) -> Way {
        loop {
            *effort += 1;
            let Some(instruction) = self.code.at(at) else {
                return Way::Ends;
            };
            if at == source.at && source.place.is_none() {
                return Way::Returns { value: true };
            }
            let flow = self.code.flow(&instruction);
            match flow {
                Flow::Return => {
                    return Way::Returns {
                        value: held.contains(&Place::Register(RAX)),
                    };
                }
                Flow::BranchReturn if !held.contains(&Place::Register(RAX)) => {
                    return Way::Returns { value: false };
                }
                Flow::Jump(Target::Indirect(_)) | Flow::Branch(Target::Indirect(_)) => {
                    return Way::Returns { value: false };
                }
                Flow::Trap | Flow::Stop => return Way::Ends,
                Flow::Jump(Target::Direct(target)) => return Way::On(vec![(target, held, stack)]),
                Flow::Branch(Target::Direct(target)) => {
                    let behind = (instruction.next_ip(), held.clone(), stack.clone());
                    return Way::On(vec![(target, held, stack), behind]);
                }
                Flow::Call(Target::Direct(to)) if self.code.is_endless(to) => return Way::Ends,
                Flow::Next | Flow::Call(_) | Flow::BranchReturn => {}
            }
            self.pass(&instruction, flow, &mut held, &mut stack);
            if at == source.at {
                held.extend(source.place);
            }
            at = instruction.next_ip();
            if *effort > EFFORT {
                return Way::Returns { value: false };
            }
        }
    }
}

/// The end of straight code.
enum Way {
    Returns { value: bool },
    On(Vec<(u64, Held, Stack)>),
    Ends,
}
