// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signs with one side or two. Numbers are computed in 64 bits: they are unsigned if a side is
//! unsigned in 64 bits, or a pointer.

use std::ops::Range;

use jifl_sys::abi::{Code, Op, STRING_MAX};

use super::code::{Left, Part, fold, long};
use super::compile::{Compiled, Compiler, is_signed, scaled, truth};
use super::lex::Error;
use super::parse::{Form, Node};
use super::types::Type;

/// Whether numbers of a type are unsigned in 64 bits.
fn is_unsigned(ty: &Type) -> bool {
    match ty {
        Type::Pointer(_) => true,
        Type::Int { size, signed } | Type::Enum { size, signed, .. } => *size == 8 && !*signed,
        _ => false,
    }
}

/// The type of a computed number.
fn promoted(ty: &Type) -> Type {
    long(!is_unsigned(ty))
}

impl Compiler<'_> {
    pub(super) fn unary(&mut self, sign: &str, inner: &Node) -> Compiled {
        let part = self.number(inner)?;
        if sign == "!" {
            return Ok(match part.known() {
                Some(known) => Part::constant((known == 0).into(), Type::Bool),
                None => part.then(Op::of(Code::Not), Type::Bool),
            });
        }
        self.integer(&part, &inner.span)?;
        let ty = promoted(&part.ty);
        if let Some(known) = part.known() {
            let value = match sign {
                "-" => known.wrapping_neg(),
                _ => !known,
            };
            return Ok(Part::constant(value, ty));
        }
        let code = if sign == "-" {
            Code::Negate
        } else {
            Code::Invert
        };
        Ok(part.then(Op::of(code), ty))
    }

    pub(super) fn binary(&mut self, sign: &'static str, left: &Node, right: &Node) -> Compiled {
        match sign {
            "&&" => return self.logical(Code::SkipZero, left, right),
            "||" => return self.logical(Code::SkipNonzero, left, right),
            _ => {}
        }
        let (mut l, mut r) = self.sides(left, right)?;
        if let Some(compared) = self.strings_compared(sign, (&l, left), (&r, right))? {
            return Ok(compared);
        }
        l = self.value(l, &left.span)?;
        r = self.value(r, &right.span)?;
        match sign {
            "==" | "!=" | "<" | "<=" | ">" | ">=" => self.compared(sign, (l, left), (r, right)),
            "+" | "-" if matches!(l.ty, Type::Pointer(_)) || matches!(r.ty, Type::Pointer(_)) => {
                self.pointers(sign, (l, left), (r, right))
            }
            _ => self.arithmetic(sign, (l, left), (r, right)),
        }
    }

    /// Both sides. A name beside an enum means the enumerator of that enum, if it has one.
    fn sides(&mut self, left: &Node, right: &Node) -> Result<(Part, Part), Error> {
        let bare = |node: &Node| match &node.form {
            Form::Name(name) if !self.is_variable(name) => Some(name.clone()),
            _ => None,
        };
        match (bare(left), bare(right)) {
            (None, Some(name)) => {
                let l = self.part(left)?;
                let r = self.enumerator_of(&l.ty, &name);
                let r = r.map_or_else(|| self.part(right), Ok)?;
                Ok((l, r))
            }
            (Some(name), None) => {
                let r = self.part(right)?;
                let l = self.enumerator_of(&r.ty, &name);
                let l = l.map_or_else(|| self.part(left), Ok)?;
                Ok((l, r))
            }
            _ => Ok((self.part(left)?, self.part(right)?)),
        }
    }

    fn enumerator_of(&self, ty: &Type, name: &str) -> Option<Part> {
        let value = self.scope.types.own_enumerator(ty, name)?;
        Some(Part::constant(value as u64, ty.clone()))
    }

    fn logical(&mut self, skip: Code, left: &Node, right: &Node) -> Compiled {
        let l = truth(self.number(left)?);
        let r = truth(self.number(right)?);
        if let Some(known) = l.known() {
            let decided = (known == 0) == (skip == Code::SkipZero);
            return Ok(if decided { l } else { r });
        }
        let mut ops = l.pushed();
        let right = r.pushed();
        ops.push(Op::with(skip, right.len() as u32, 0));
        ops.extend(right);
        Ok(Part::number(ops, Type::Bool))
    }

    /// The comparison of a string with one in the text; `None`: no side is a string of the text.
    fn strings_compared(
        &mut self,
        sign: &str,
        left: (&Part, &Node),
        right: (&Part, &Node),
    ) -> Result<Option<Part>, Error> {
        if !matches!(sign, "==" | "!=" | "<" | "<=" | ">" | ">=") {
            return Ok(None);
        }
        let (literal, other) = match (&left.0.left, &right.0.left) {
            (Left::Literal(_), Left::Literal(_)) => {
                let why = "one of two strings has to be str(...), comm or an array of char";
                return Err(Error::new(left.1.span.start, why));
            }
            (Left::Literal(literal), _) => (literal, right),
            (_, Left::Literal(literal)) => (literal, left),
            _ => return Ok(None),
        };
        let at = other.1.span.start;
        if sign != "==" && sign != "!=" {
            let why = format!("strings are compared with == and !=, and not with {sign}");
            return Err(Error::new(at, why));
        }
        let Some((address, max)) = self.as_string(other.0) else {
            let why = self.no_string(other);
            return Err(Error::new(at, why));
        };
        if max < STRING_MAX && literal.len() >= max {
            let why = format!(
                "{} has at most {} bytes, so it is never that string",
                self.quote(&other.1.span),
                max - 1
            );
            return Err(Error::new(at, why));
        }
        let op = if literal.is_empty() {
            // Its first byte is its end.
            let load = Op {
                width: 1,
                ..Op::of(Code::Load)
            };
            return Ok(Some(match sign {
                "==" => address
                    .then(load, long(false))
                    .then(Op::of(Code::Not), Type::Bool),
                _ => truth(address.then(load, long(false))),
            }));
        } else {
            let place = self.strings.add(literal);
            let place = place.map_err(|why| Error::new(at, why))?;
            // Of so many bytes none is the end: what is behind them is not looked at.
            let is_cut = max < STRING_MAX && literal.len() == max - 1;
            Op::with(Code::StrEq, literal.len() as u32, place).cut(is_cut)
        };
        let equal = address.then(op, Type::Bool);
        Ok(Some(match sign {
            "==" => equal,
            _ => equal.then(Op::of(Code::Not), Type::Bool),
        }))
    }

    fn no_string(&self, (part, node): (&Part, &Node)) -> String {
        let quoted = self.quote(&node.span);
        let name = self.scope.types.name(&part.ty);
        match &part.ty {
            Type::Pointer(to) if matches!(**to, Type::Char { .. } | Type::Int { size: 1, .. }) => {
                format!(
                    "{quoted} is the address of a string: write str({})",
                    &self.text[node.span.clone()]
                )
            }
            _ => format!("{quoted} is {name}, and no string"),
        }
    }

    fn compared(
        &mut self,
        sign: &str,
        (mut l, left): (Part, &Node),
        (mut r, right): (Part, &Node),
    ) -> Compiled {
        l = self.adapted(sign, l, &r, right)?;
        r = self.adapted(sign, r, &l, left)?;
        self.may_be_below(sign, (&l, left), &r)?;
        let signed = !is_unsigned(&l.ty) && !is_unsigned(&r.ty);
        let (code, l, r) = match sign {
            "==" => (Code::Eq, l, r),
            "!=" => (Code::Ne, l, r),
            "<" => (Code::Lt, l, r),
            "<=" => (Code::Le, l, r),
            ">" => (Code::Lt, r, l),
            _ => (Code::Le, r, l),
        };
        self.joined(code, l, r, signed, Type::Bool, &left.span)
    }

    /// A constant that is compared with a number of 32 bits or less, as one of its type: 0xffffffff
    /// is -1 of an int.
    fn adapted(&self, sign: &str, part: Part, other: &Part, node: &Node) -> Compiled {
        let Some(value) = part.known().filter(|_| other.known().is_none()) else {
            return Ok(part);
        };
        let (Type::Int { size, signed } | Type::Enum { size, signed, .. }) = other.ty else {
            return Ok(part);
        };
        if size == 8 || is_unsigned(&part.ty) || !matches!(sign, "==" | "!=") {
            return Ok(part);
        }
        let value = value as i64;
        let bits = 8 * size as u32;
        let (low, high) = match signed {
            true => (-1i64 << (bits - 1), (1i64 << (bits - 1)) - 1),
            false => (0, (1i64 << bits) - 1),
        };
        if (low..=high).contains(&value) {
            return Ok(part);
        }
        let wraps = size == 4 && (i64::from(i32::MIN)..=i64::from(u32::MAX)).contains(&value);
        if wraps {
            let value = match signed {
                true => i64::from(value as i32),
                false => i64::from(value as u32),
            };
            return Ok(Part::constant(value as u64, part.ty));
        }
        let why = format!(
            "{} is {}, from {low} to {high}, and never {value}",
            self.quote(&node.span),
            self.scope.types.name(&other.ty)
        );
        Err(Error::new(node.span.start, why))
    }

    /// Refuses to ask whether a number without a sign is below 0, which looks for errors.
    fn may_be_below(&self, sign: &str, (l, left): (&Part, &Node), r: &Part) -> Result<(), Error> {
        let asked = matches!(sign, "<" | ">=") && r.known() == Some(0) && l.known().is_none();
        if !asked || is_signed(&l.ty) {
            return Ok(());
        }
        let text = &self.text[left.span.clone()];
        let cast = match left.form {
            Form::Binary(..) if !text.starts_with('(') => format!("(long)({text})"),
            _ => format!("(long){text}"),
        };
        let why = format!(
            "`{text}` is {}, which is never below 0: cast it, as in {cast}",
            self.scope.types.name(&l.ty),
        );
        Err(Error::new(left.span.start, why))
    }

    fn pointers(
        &mut self,
        sign: &str,
        (l, left): (Part, &Node),
        (r, right): (Part, &Node),
    ) -> Compiled {
        let size = |part: &Part, node: &Node| match &part.ty {
            Type::Pointer(to) => self.scope.types.size(to).map(Some).ok_or_else(|| {
                let why = format!(
                    "{} leads to {}, whose size is not known: cast it first",
                    self.quote(&node.span),
                    self.scope.types.name(to)
                );
                Error::new(node.span.start, why)
            }),
            _ => Ok(None),
        };
        match (size(&l, left)?, size(&r, right)?, sign) {
            (Some(size), Some(_), "-") => {
                let bytes = self.joined(Code::Sub, l, r, true, long(true), &left.span)?;
                match size {
                    0 | 1 => Ok(bytes),
                    size => {
                        let size = Part::constant(size, long(true));
                        self.joined(Code::Div, bytes, size, true, long(true), &left.span)
                    }
                }
            }
            (Some(size), None, _) => {
                let code = if sign == "+" { Code::Add } else { Code::Sub };
                let ty = l.ty.clone();
                self.moved_by(code, l, r, size, ty, &left.span)
            }
            (None, Some(size), "+") => {
                let ty = r.ty.clone();
                self.moved_by(Code::Add, r, l, size, ty, &left.span)
            }
            _ => {
                let why = format!("a pointer cannot be the right side of this {sign}");
                Err(Error::new(right.span.start, why))
            }
        }
    }

    fn moved_by(
        &mut self,
        code: Code,
        pointer: Part,
        n: Part,
        size: u64,
        ty: Type,
        span: &Range<usize>,
    ) -> Compiled {
        let bytes = match n.known() {
            Some(n) => Part::constant(n.wrapping_mul(size), long(true)),
            None => Part::number(scaled(n, size), long(true)),
        };
        self.joined(code, pointer, bytes, false, ty, span)
    }

    fn arithmetic(
        &mut self,
        sign: &str,
        (l, left): (Part, &Node),
        (r, right): (Part, &Node),
    ) -> Compiled {
        self.integer(&l, &left.span)?;
        self.integer(&r, &right.span)?;
        let shifts = matches!(sign, "<<" | ">>");
        let signed = !is_unsigned(&l.ty) && (shifts || !is_unsigned(&r.ty));
        let code = match sign {
            "+" => Code::Add,
            "-" => Code::Sub,
            "*" => Code::Mul,
            "/" => Code::Div,
            "%" => Code::Mod,
            "&" => Code::And,
            "|" => Code::Or,
            "^" => Code::Xor,
            "<<" => Code::Shl,
            _ => Code::Shr,
        };
        if matches!(code, Code::Div | Code::Mod) && r.known() == Some(0) {
            return Err(Error::new(right.span.start, "this divides by 0"));
        }
        self.joined(code, l, r, signed, long(signed), &left.span)
    }

    /// An op on two numbers, or its result if both are known.
    fn joined(
        &self,
        code: Code,
        l: Part,
        r: Part,
        signed: bool,
        ty: Type,
        span: &Range<usize>,
    ) -> Compiled {
        if let (Some(l), Some(r)) = (l.known(), r.known()) {
            let why = "this has no value";
            let value = fold(code, l, r, signed).ok_or_else(|| Error::new(span.start, why))?;
            return Ok(Part::constant(value, ty));
        }
        let mut ops = l.pushed();
        ops.extend(r.pushed());
        let minds = matches!(
            code,
            Code::Div | Code::Mod | Code::Shr | Code::Lt | Code::Le
        );
        ops.push(Op::of(code).signed(signed && minds));
        Ok(Part::number(ops, ty))
    }
}
