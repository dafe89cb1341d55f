// SPDX-License-Identifier: MIT OR Apache-2.0
//! Objects in memory: members, elements, what pointers lead to, and how they are loaded.

use std::ops::Range;

use jifl_sys::abi::{Code, Op, STRING_MAX};

use super::code::{Left, Part};
use super::compile::{Compiled, Compiler, is_signed, scaled};
use super::lex::Error;
use super::members::list;
use super::parse::Node;
use super::types::Type;

impl Compiler<'_> {
    /// The number that a part is, loaded from memory if it is there.
    pub(super) fn value(&self, part: Part, span: &Range<usize>) -> Compiled {
        let refused = |why: String| Err(Error::new(span.start, why));
        let (offset, bits) = match part.left {
            Left::Constant(_) | Left::Number => return Ok(part),
            Left::Literal(_) => {
                return refused(
                    "a string is compared with == and != alone, with str(...), comm \
                                or an array of char"
                        .into(),
                );
            }
            Left::String(_) => {
                return refused(format!(
                    "{} is a string, where a number is wanted",
                    self.quote(span)
                ));
            }
            Left::Stack => {
                return refused("the stack stands in a list alone, as in pid,stack".into());
            }
            Left::Memory { offset, bits } => (offset, bits),
        };
        let types = &self.scope.types;
        let (size, signed) = match &part.ty {
            Type::Array(of, _) => {
                let ty = Type::Pointer(of.clone());
                return Ok(moved(part, offset, ty));
            }
            Type::Struct { name, .. } => {
                let members = types.members(&part.ty);
                return refused(format!(
                    "{} is a {name}, and no number: name a member of it ({})",
                    self.quote(span),
                    list(members.iter().map(String::as_str))
                ));
            }
            Type::Void => {
                return refused(format!(
                    "{} is void: cast the pointer first, as in *(u64 *)...",
                    self.quote(span)
                ));
            }
            Type::Opaque(name) => {
                return refused(format!(
                    "{} is no number of at most 64 bits: it is {name}",
                    self.quote(span)
                ));
            }
            ty => (types.size(ty).unwrap_or(8), is_signed(ty)),
        };
        let ty = part.ty.clone();
        let load = |width: u64, offset: u64, signed: bool| Op {
            width: width as u8,
            ..Op::with(Code::Load, 0, offset).signed(signed)
        };
        let Some((first, width)) = bits else {
            return Ok(part.then(load(size, offset, signed), ty));
        };
        let Some((unit, begin)) = unit(first, width) else {
            return refused(format!(
                "{} lies in more than 8 bytes: it cannot be loaded at once",
                self.quote(span)
            ));
        };
        let whole = width == 8 * unit;
        let from = offset.wrapping_add(u64::from(begin));
        let loaded = part.then(load(unit.into(), from, signed && whole), ty.clone());
        if whole {
            return Ok(loaded);
        }
        let bits = Op::with(Code::Bits, width, u64::from(first - 8 * begin)).signed(signed);
        Ok(loaded.then(bits, ty))
    }

    /// The address of a string, and the room that it takes, if the part is one.
    pub(super) fn as_string(&self, part: &Part) -> Option<(Part, usize)> {
        match (&part.left, &part.ty) {
            (Left::String(max), _) => Some((part.clone(), *max)),
            (Left::Memory { offset, bits: None }, Type::Array(of, n)) => match **of {
                Type::Char { .. } => {
                    let ty = Type::Pointer(of.clone());
                    // An array whose end is not written is `[0]`, or `[1]` in old code.
                    let max = if *n <= 1 { STRING_MAX } else { *n + 1 };
                    Some((moved(part.clone(), *offset, ty), max.min(STRING_MAX)))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// What a pointer leads to.
    pub(super) fn behind(&self, pointer: Part, span: &Range<usize>) -> Compiled {
        let why = match &pointer.ty {
            Type::Pointer(to) => match &**to {
                Type::Void => format!(
                    "{} is a void pointer: cast it first, as in *(u64 *)...",
                    self.quote(span)
                ),
                Type::Opaque(name) => format!(
                    "{} leads to {name}, of which nothing is known here: cast it first",
                    self.quote(span)
                ),
                to => {
                    let (left, ty) = (at_offset(0), to.clone());
                    let ops = pointer.pushed();
                    return Ok(Part { ops, left, ty });
                }
            },
            ty => format!(
                "{} is no pointer but {}: cast it first, as in *(u64 *)...",
                self.quote(span),
                self.scope.types.name(ty)
            ),
        };
        Err(Error::new(span.start, why))
    }

    pub(super) fn member(&mut self, base: &Node, arrow: bool, name: &str, at: usize) -> Compiled {
        let types = self.scope.types.clone();
        let part = self.part(base)?;
        let leads = match &part.ty {
            Type::Pointer(to) | Type::Array(to, _) => Some(to.clone()),
            _ => None,
        };
        let quoted = self.quote(&base.span);
        let refused = |why: String| Err(Error::new(at, why));
        let object = match (arrow, leads) {
            (true, Some(to)) => match &*to {
                Type::Struct { .. } => {
                    let pointer = self.value(part, &base.span)?;
                    self.behind(pointer, &base.span)?
                }
                Type::Void => {
                    return refused(format!(
                        "{quoted} is a void pointer: cast it first, as in ((struct file \
                         *){})->{name}",
                        &self.text[base.span.clone()]
                    ));
                }
                Type::Opaque(of) => {
                    return refused(format!(
                        "{quoted} leads to {of}, whose members are not known here"
                    ));
                }
                to => {
                    return refused(format!(
                        "{quoted} leads to {}, which has no members",
                        types.name(to)
                    ));
                }
            },
            (true, None) => match part.ty {
                Type::Struct { .. } => {
                    return refused(format!("{quoted} is no pointer: write .{name}"));
                }
                ty => {
                    return refused(format!(
                        "{quoted} is no pointer but {}: cast it first, as in ((struct file \
                         *){})->{name}",
                        types.name(&ty),
                        &self.text[base.span.clone()]
                    ));
                }
            },
            (false, Some(_)) => return refused(format!("{quoted} is a pointer: write ->{name}")),
            (false, None) => part,
        };
        let (Left::Memory { offset, .. }, Type::Struct { .. }) = (&object.left, &object.ty) else {
            return refused(format!("{quoted} has no members"));
        };
        let found = types.member(&object.ty, name);
        let found = found.map_err(|why| Error::new(at, why))?;
        let (byte, bit) = (found.bit / 8, found.bit % 8);
        let left = match found.width {
            Some(width) => Left::Memory {
                offset: *offset,
                bits: Some((found.bit, width)),
            },
            None if bit == 0 => at_offset(offset.wrapping_add(byte.into())),
            None => return refused(format!("`{name}` does not begin at a byte")),
        };
        Ok(Part {
            ops: object.ops,
            left,
            ty: found.ty,
        })
    }

    pub(super) fn index(&mut self, base: &Node, index: &Node) -> Compiled {
        let part = self.part(base)?;
        let bound = match &part.ty {
            Type::Array(_, n) => Some(*n),
            _ => None,
        };
        let pointer = self.value(part.clone(), &base.span)?;
        let object = self.behind(pointer, &base.span)?;
        let size = match self.scope.types.size(&object.ty) {
            Some(size) => size,
            None => return self.size(&object.ty, &base.span),
        };
        let n = self.number(index)?;
        self.integer(&n, &index.span)?;
        // The address of an array has its offset added already: take the part as it was.
        let (ops, offset) = match (bound, part.left) {
            (Some(_), Left::Memory { offset, .. }) => (part.ops, offset),
            _ => (object.ops, 0),
        };
        if let Some(n) = n.known() {
            // Old code writes [1] for an array whose end is not known.
            if let Some(bound) = bound.filter(|bound| *bound > 1 && n >= *bound as u64) {
                let why = format!(
                    "{} has {bound} elements, from [0] to [{}]",
                    self.quote(&base.span),
                    bound - 1
                );
                return Err(Error::new(index.span.start, why));
            }
            let left = at_offset(offset.wrapping_add(n.wrapping_mul(size)));
            return Ok(Part {
                ops,
                left,
                ty: object.ty,
            });
        }
        let mut ops = ops;
        ops.extend(scaled(n, size));
        ops.push(Op::of(Code::Add));
        Ok(Part {
            ops,
            left: at_offset(offset),
            ty: object.ty,
        })
    }
}

/// An object at an address.
pub(super) fn at_offset(offset: u64) -> Left {
    Left::Memory { offset, bits: None }
}

/// The address of an object.
pub(super) fn moved(part: Part, offset: u64, ty: Type) -> Part {
    let mut ops = part.ops;
    if offset != 0 {
        ops.extend([Op::with(Code::Const, 0, offset), Op::of(Code::Add)]);
    }
    Part::number(ops, ty)
}

/// The bytes to load for a bit field: how many, and the first. They are aligned, if they can be, so
/// that they end where the structure does or before.
fn unit(first: u32, width: u32) -> Option<(u32, u32)> {
    let last = first + width - 1;
    let aligned = [1, 2, 4, 8].into_iter();
    let mut aligned = aligned.filter(|size| first / (8 * size) == last / (8 * size));
    if let Some(size) = aligned.next() {
        return Some((size, first / (8 * size) * size));
    }
    (last / 8 - first / 8 < 8).then_some((8, first / 8))
}
