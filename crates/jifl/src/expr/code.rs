// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pieces of programs, and what they leave.

use jifl_sys::abi::{Code, Op};

use super::types::Type;

/// Ops, and what they leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The ops; of constants, literals and the stack none.
    pub ops: Vec<Op>,
    /// What they leave.
    pub left: Left,
    /// Its type.
    pub ty: Type,
}

/// What ops leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// Nothing yet: the number is known.
    Constant(u64),
    /// A number.
    Number,
    /// An address. The object is so many bytes behind it.
    Memory {
        /// Bytes, modulo 2^64.
        offset: u64,
        /// Of a bit field: its first bit behind that byte, and its bits.
        bits: Option<(u32, u32)>,
    },
    /// Nothing yet: a string in the text.
    Literal(Vec<u8>),
    /// The address of a string of at most so many bytes, with its end.
    String(usize),
    /// Nothing: the stack.
    Stack,
}

/// A number of 8 bytes.
pub const fn long(signed: bool) -> Type {
    Type::Int { size: 8, signed }
}

impl Part {
    /// A number that is known.
    pub fn constant(value: u64, ty: Type) -> Part {
        Part {
            ops: Vec::new(),
            left: Left::Constant(value),
            ty,
        }
    }

    /// A number that ops leave.
    pub fn number(ops: Vec<Op>, ty: Type) -> Part {
        Part {
            ops,
            left: Left::Number,
            ty,
        }
    }

    /// The number, if it is known.
    pub fn known(&self) -> Option<u64> {
        match self.left {
            Left::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// Ops that leave the number.
    pub fn pushed(self) -> Vec<Op> {
        match self.left {
            Left::Constant(value) => vec![Op::with(Code::Const, 0, value)],
            _ => self.ops,
        }
    }

    /// The same number with one more op on it.
    pub fn then(self, op: Op, ty: Type) -> Part {
        let mut ops = self.pushed();
        ops.push(op);
        Part::number(ops, ty)
    }
}

/// Numbers on the stack where it is deepest.
pub fn deepest(ops: &[Op]) -> usize {
    let mut depth = 0usize;
    let mut deepest = 0;
    for op in ops {
        match Code::from_number(op.code) {
            Some(Code::Const | Code::Reg | Code::Get) => depth += 1,
            // Where they skip, they keep what the ops that are skipped leave.
            Some(Code::SkipZero | Code::SkipNonzero) => depth -= 1,
            Some(code) if takes_two(code) => depth -= 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn takes_two(code: Code) -> bool {
    use Code::{Add, And, Div, Eq, Le, Lt, Mod, Mul, Ne, Or, Shl, Shr, Sub, Xor};
    matches!(
        code,
        Add | Sub | Mul | Div | Mod | And | Or | Xor | Shl | Shr | Eq | Ne | Lt | Le
    )
}

/// The number that an op of two sides leaves; `None`: none, as it divides by 0.
pub fn fold(code: Code, left: u64, right: u64, signed: bool) -> Option<u64> {
    let (l, r) = (left as i64, right as i64);
    Some(match code {
        Code::Add => left.wrapping_add(right),
        Code::Sub => left.wrapping_sub(right),
        Code::Mul => left.wrapping_mul(right),
        Code::Div | Code::Mod if right == 0 => return None,
        // The processor has no quotient of the lowest number and -1, either.
        Code::Div if signed => l.checked_div(r)? as u64,
        Code::Div => left / right,
        Code::Mod if signed => l.checked_rem(r)? as u64,
        Code::Mod => left % right,
        Code::And => left & right,
        Code::Or => left | right,
        Code::Xor => left ^ right,
        Code::Shl => left.wrapping_shl(right as u32),
        Code::Shr if signed => l.wrapping_shr(right as u32) as u64,
        Code::Shr => left.wrapping_shr(right as u32),
        Code::Eq => u64::from(left == right),
        Code::Ne => u64::from(left != right),
        Code::Lt if signed => u64::from(l < r),
        Code::Lt => u64::from(left < right),
        Code::Le if signed => u64::from(l <= r),
        Code::Le => u64::from(left <= right),
        _ => return None,
    })
}

/// The low bytes of a number, as a number.
pub fn extended(value: u64, size: usize, signed: bool) -> u64 {
    let above = 64 - 8 * size.clamp(1, 8) as u32;
    let raised = value << above;
    match signed {
        true => (raised as i64 >> above) as u64,
        false => raised >> above,
    }
}
