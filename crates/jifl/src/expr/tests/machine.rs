// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs ops as include/uapi/jifl_action.h says, over memory and registers that a test has made.

use std::collections::BTreeMap;

use jifl_sys::abi::{Code, Get, OP_CUT, OP_SIGNED, OP_STACK, Op};

/// What ops see.
#[derive(Default)]
pub struct Machine {
    /// Bytes that are there. All other memory faults.
    pub memory: BTreeMap<u64, u8>,
    pub registers: [u64; 18],
    pub gets: [u64; 7],
    pub strings: Vec<u8>,
}

impl Machine {
    pub fn poke(&mut self, address: u64, bytes: &[u8]) {
        self.memory.extend((address..).zip(bytes.iter().copied()));
    }

    pub fn poke32(&mut self, address: u64, value: u32) {
        self.poke(address, &value.to_le_bytes());
    }

    pub fn poke64(&mut self, address: u64, value: u64) {
        self.poke(address, &value.to_le_bytes());
    }

    pub fn get(&mut self, get: Get, value: u64) {
        self.gets[get as usize] = value;
    }

    fn string(&self, address: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for at in address.. {
            match *self.memory.get(&at)? {
                0 => break,
                byte => bytes.push(byte),
            }
        }
        Some(bytes)
    }

    fn begins(&self, address: u64, wanted: &[u8]) -> Option<bool> {
        for (at, byte) in (address..).zip(wanted) {
            if self.memory.get(&at)? != byte {
                return Some(false);
            }
        }
        Some(true)
    }

    /// The number that the ops leave; `None`: it is unknown. Panics if they leave more or less.
    pub fn run(&self, ops: &[Op]) -> Option<u64> {
        let mut stack: Vec<u64> = Vec::new();
        let mut next = 0;
        while let Some(op) = ops.get(next) {
            next += 1;
            assert_eq!(op.reserved, 0);
            let signed = op.flags & OP_SIGNED != 0;
            let code = Code::from_number(op.code).unwrap();
            match code {
                Code::Const => stack.push(op.imm),
                Code::Reg => stack.push(self.registers[op.arg as usize]),
                Code::Get => stack.push(self.gets[op.arg as usize]),
                Code::SkipZero | Code::SkipNonzero => {
                    let top = *stack.last().unwrap();
                    if (top == 0) == (code == Code::SkipZero) {
                        next += op.arg as usize;
                        assert!(next <= ops.len());
                    } else {
                        stack.pop();
                    }
                }
                Code::Load => {
                    let from = stack.pop().unwrap().wrapping_add(op.imm);
                    let mut value = 0;
                    for byte in 0..u64::from(op.width) {
                        let there = *self.memory.get(&from.wrapping_add(byte))?;
                        value |= u64::from(there) << (8 * byte);
                    }
                    stack.push(low(value, 8 * u32::from(op.width), signed));
                }
                Code::Extend => {
                    let value = stack.pop().unwrap();
                    stack.push(low(value, 8 * u32::from(op.width), signed));
                }
                Code::Bits => {
                    let value = stack.pop().unwrap() >> op.imm;
                    assert!(op.imm + u64::from(op.arg) <= 64 && op.arg > 0);
                    stack.push(low(value, op.arg, signed));
                }
                Code::Negate => one(&mut stack, |top| 0u64.wrapping_sub(top)),
                Code::Invert => one(&mut stack, |top| !top),
                Code::Not => one(&mut stack, |top| u64::from(top == 0)),
                Code::StrEq => {
                    let from = stack.pop().unwrap();
                    let at = op.imm as usize;
                    let wanted = &self.strings[at..at + op.arg as usize];
                    let is = match op.flags & OP_CUT {
                        0 => self.string(from)? == wanted,
                        _ => self.begins(from, wanted)?,
                    };
                    stack.push(u64::from(is));
                }
                _ => {
                    let right = stack.pop().unwrap();
                    let left = stack.pop().unwrap();
                    stack.push(two(code, left, right, signed)?);
                }
            }
            assert!(stack.len() <= OP_STACK);
        }
        assert_eq!(stack.len(), 1, "{ops:?}");
        stack.pop()
    }
}

fn one(stack: &mut [u64], op: impl Fn(u64) -> u64) {
    let top = stack.last_mut().unwrap();
    *top = op(*top);
}

fn low(value: u64, bits: u32, signed: bool) -> u64 {
    let mask = if bits == 64 { !0 } else { (1 << bits) - 1 };
    let sign = value >> (bits - 1) & 1;
    if signed && sign == 1 {
        value | !mask
    } else {
        value & mask
    }
}

fn two(code: Code, left: u64, right: u64, signed: bool) -> Option<u64> {
    let order = match signed {
        true => (left as i64).cmp(&(right as i64)),
        false => left.cmp(&right),
    };
    Some(match code {
        Code::Add => left.wrapping_add(right),
        Code::Sub => left.wrapping_sub(right),
        Code::Mul => left.wrapping_mul(right),
        Code::Div if signed => (left as i64).checked_div(right as i64)? as u64,
        Code::Div => left.checked_div(right)?,
        Code::Mod if signed => (left as i64).checked_rem(right as i64)? as u64,
        Code::Mod => left.checked_rem(right)?,
        Code::And => left & right,
        Code::Or => left | right,
        Code::Xor => left ^ right,
        Code::Shl => left << (right % 64),
        Code::Shr if signed => (left as i64 >> (right % 64)) as u64,
        Code::Shr => left >> (right % 64),
        Code::Eq => u64::from(left == right),
        Code::Ne => u64::from(left != right),
        Code::Lt => u64::from(order.is_lt()),
        Code::Le => u64::from(order.is_le()),
        _ => panic!("{code:?} is no op of an expression"),
    })
}
