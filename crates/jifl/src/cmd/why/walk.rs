// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the blocks that a call executed to all its instructions, with the functions in which they
//! were executed and the way that each branch went.
//!
//! A record says where a block began, and the stack pointer there. So the code is decoded from one
//! block to the next. The next block tells which way a branch went, and its stack pointer tells
//! which calls have returned. Where two blocks do not fit, code ran natively in between, and the
//! output says so.

use jifl_code::flow::{Flow, Target};

use super::code::Code;
use super::effect::Effects;
use super::stack::{Registers, Stack};
use super::trail::Mark;

/// More instructions than any block has. A longer way does not lead to the next record.
const LONGEST: usize = 512;

/// The way on after an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The next instruction, or the target of a jump, call or return.
    On,
    /// Its condition held.
    Taken,
    /// Its condition did not hold.
    NotTaken,
    /// It called this function, or an unknown one, which ran natively and returned.
    Native(Option<u64>),
    /// Native code, until code in the cache ran again.
    Lost,
    /// An exception: the kernel's fixup went on natively.
    Fault,
    /// Nothing: the call ended.
    End,
}

/// An executed instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Its address.
    pub at: u64,
    /// Index of its frame.
    pub frame: usize,
    /// The word on the stack that is its operand, or that it pushes or pops.
    pub slot: Option<i64>,
    /// The way on.
    pub next: Next,
}

/// An execution of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The frame whose function called this one, or jumped to it.
    pub caller: Option<usize>,
    /// The step of that call.
    pub site: Option<usize>,
    /// Whether it was a jump.
    pub is_tail: bool,
    /// Address of the function.
    pub function: u64,
    /// The stack pointer at its entry.
    pub stack: i64,
}

/// All steps of a call.
#[derive(Debug, Default)]
pub struct Walk {
    /// Instructions in the order of their execution.
    pub steps: Vec<Step>,
    /// Functions in the order of their entry; the first is that of the system call.
    pub frames: Vec<Frame>,
}

/// A block's record.
#[derive(Clone, Copy)]
struct Stop {
    address: u64,
    stack: i64,
}

/// Walks along the marks of a call.
pub fn walk(marks: &[Mark], code: &Code<'_>) -> Walk {
    let mut walker = Walker {
        code,
        effects: Effects::default(),
        stack: Stack::default(),
        walk: Walk::default(),
        frame: 0,
        callers: Vec::new(),
    };
    let mut stops = marks
        .iter()
        .enumerate()
        .filter_map(|(index, mark)| match mark {
            Mark::Block(address, stack) => {
                let stop = Stop {
                    address: *address,
                    stack: i64::from(*stack),
                };
                Some((index, stop))
            }
            Mark::Fault(_) => None,
        });
    let mut now = stops.next();
    while let Some((index, stop)) = now {
        let fault = marks.get(index + 1).and_then(|mark| match mark {
            Mark::Fault(address) => Some(*address),
            Mark::Block(..) => None,
        });
        now = stops.next();
        walker.block(stop, now.map(|(_, next)| next), fault);
    }
    walker.walk
}

struct Walker<'a, 'b> {
    code: &'a Code<'b>,
    effects: Effects,
    stack: Stack,
    walk: Walk,
    frame: usize,
    /// For each frame, the registers when it was called. The caller has the preserved ones again
    /// when it returns, whether all its code was seen or not.
    callers: Vec<Registers>,
}

impl Walker<'_, '_> {
    fn block(&mut self, from: Stop, to: Option<Stop>, fault: Option<u64>) {
        if self.walk.frames.is_empty() {
            self.enter(None, false, from);
        }
        self.stack.at(from.stack);
        let mut at = from.address;
        for _ in 0..LONGEST {
            let Some(instruction) = self.code.at(at) else {
                break;
            };
            let slot = self.stack.operand(&instruction);
            let push = |walker: &mut Self, next| {
                let frame = walker.frame;
                walker.walk.steps.push(Step {
                    at,
                    frame,
                    slot,
                    next,
                });
            };
            if fault == Some(at) {
                push(self, Next::Fault);
                self.regain(to);
                return;
            }
            let flow = self.code.flow(&instruction);
            if flow != Flow::Next {
                let next = match fault {
                    Some(_) => Next::Lost,
                    None => self.next(flow, &instruction, to),
                };
                push(self, next);
                self.leave(flow, next, to);
                return;
            }
            push(self, Next::On);
            self.stack.step(&instruction, &mut self.effects);
            at = instruction.next_ip();
            // A block that is too long, or has changed meanwhile, continues in the next block.
            let goes_on = |to: &Stop| {
                to.address == at
                    && self
                        .stack
                        .pointer()
                        .is_none_or(|pointer| pointer == to.stack)
            };
            if fault.is_none() && to.as_ref().is_some_and(goes_on) {
                return;
            }
        }
        // The code has changed since the call.
        if let Some(last) = self.walk.steps.last_mut() {
            last.next = Next::Lost;
        }
        self.regain(to);
    }

    /// The way on after an instruction that may not go on with the next.
    fn next(&self, flow: Flow, instruction: &iced_x86::Instruction, to: Option<Stop>) -> Next {
        let Some(to) = to else {
            return match flow {
                Flow::Return | Flow::BranchReturn => Next::End,
                _ => Next::Lost,
            };
        };
        use Target::{Direct, Indirect};
        let behind = instruction.next_ip();
        let pointer = self.stack.pointer();
        let is_at = |offset: i64| pointer.is_none_or(|pointer| pointer + offset == to.stack);
        match flow {
            Flow::Branch(Direct(target)) if to.address == target && is_at(0) => Next::Taken,
            Flow::Branch(_) | Flow::BranchReturn if to.address == behind && is_at(0) => {
                Next::NotTaken
            }
            Flow::Branch(Indirect(_)) if is_at(0) => Next::Taken,
            Flow::BranchReturn if is_at(8) => Next::Taken,
            Flow::Jump(Direct(target)) if to.address == target && is_at(0) => Next::On,
            Flow::Jump(Indirect(_)) if is_at(0) => Next::On,
            Flow::Call(Direct(target)) if to.address == target && is_at(-8) => Next::On,
            Flow::Call(Indirect(_)) if to.address != behind && is_at(-8) => Next::On,
            Flow::Call(target) if to.address == behind && is_at(0) => Next::Native(match target {
                Direct(function) => Some(function),
                Indirect(_) => None,
            }),
            Flow::Return if is_at(8) => Next::On,
            _ => Next::Lost,
        }
    }

    /// Goes on to the frame of the next record.
    fn leave(&mut self, flow: Flow, next: Next, to: Option<Stop>) {
        let Some(to) = to else {
            return;
        };
        let site = self.walk.steps.len() - 1;
        match (flow, next) {
            (Flow::Call(_), Next::Native(_)) => self.stack.called(),
            (Flow::Call(_), Next::On) => {
                self.enter(Some(site), false, to);
                return;
            }
            (Flow::Jump(target), Next::On) | (Flow::Branch(target), Next::Taken)
                if self.is_tail(target) =>
            {
                self.enter(Some(site), true, to);
                return;
            }
            (_, Next::Lost) => self.stack.lose(),
            _ => {}
        }
        self.regain(Some(to));
    }

    /// Whether a jump leads to another function.
    fn is_tail(&self, target: Target) -> bool {
        let function = self.walk.frames[self.frame].function;
        match target {
            Target::Direct(to) => !self.code.is_of(function, to),
            Target::Indirect(_) => true,
        }
    }

    fn enter(&mut self, site: Option<usize>, is_tail: bool, to: Stop) {
        self.callers.push(if is_tail {
            self.callers[self.frame]
        } else {
            self.stack.registers()
        });
        self.walk.frames.push(Frame {
            caller: site.map(|_| self.frame),
            site,
            is_tail,
            function: self.code.function(to.address),
            stack: to.stack,
        });
        self.frame = self.walk.frames.len() - 1;
    }

    /// Frames whose return address lies below the stack pointer have been left.
    fn regain(&mut self, to: Option<Stop>) {
        let Some(to) = to else {
            return;
        };
        while self.walk.frames[self.frame].stack < to.stack
            && let Some(caller) = self.walk.frames[self.frame].caller
        {
            self.stack.returned(self.callers[self.frame]);
            self.frame = caller;
        }
    }
}

impl Walk {
    /// The frame, and its callers.
    pub fn chain(&self, frame: usize) -> Vec<usize> {
        let mut all = vec![frame];
        while let Some(caller) = all.last().and_then(|last| self.frames[*last].caller) {
            all.push(caller);
        }
        all.reverse();
        all
    }
}
