// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the tree to ops: members, pointers, casts.

use std::ops::Range;
use std::rc::Rc;

use jifl_sys::abi::{Code, Op};

use super::code::{Left, Part, extended, long};
use super::lex::Error;
use super::objects::moved;
use super::parse::{Form, Node, parse};
use super::scope::Scope;
use super::show::Kind;
use super::strings::Strings;
use super::types::Type;
use super::written::TypeName;

/// Compiles one text.
pub struct Compiler<'a> {
    pub(super) text: &'a str,
    pub(super) scope: &'a Scope,
    pub(super) strings: &'a mut Strings,
}

pub(super) type Compiled = Result<Part, Error>;

impl Compiler<'_> {
    /// For a text.
    pub fn new<'a>(text: &'a str, scope: &'a Scope, strings: &'a mut Strings) -> Compiler<'a> {
        Compiler {
            text,
            scope,
            strings,
        }
    }

    /// The ops of the whole text, and what they leave.
    pub fn whole(&mut self) -> Result<(Vec<Op>, Kind), Error> {
        let node = self.tree(self.text)?;
        let part = self.part(&node)?;
        if let Left::Stack = part.left {
            return Ok((Vec::new(), Kind::Stack));
        }
        if let Left::Literal(_) = part.left {
            let why = "a string of the text alone says nothing: compare it with ==";
            return Err(Error::new(node.span.start, why));
        }
        if let Some((part, max)) = self.as_string(&part) {
            return Ok((part.pushed(), Kind::String { max }));
        }
        if let Type::Array(of, n) = &part.ty {
            let why = format!(
                "{} is an array of {n} {}: name one, as in [0]",
                self.quote(&node.span),
                self.scope.types.name(of)
            );
            return Err(Error::new(node.span.start, why));
        }
        if self.scope.types.is_path(&part.ty) {
            let name = format!("str(({}).dentry->d_name.name)", self.text);
            let named = Compiler::new(&name, self.scope, self.strings).whole();
            if named.is_ok() {
                return named;
            }
        }
        let part = self.value(part, &node.span)?;
        if part.ty == Type::Code {
            return Ok((part.pushed(), Kind::Code));
        }
        let kind = Kind::Number(self.scope.types.kind(&part.ty));
        Ok((part.pushed(), kind))
    }

    pub(super) fn tree(&self, text: &str) -> Result<Node, Error> {
        let is_typedef = |name: &str| !self.is_variable(name) && self.scope.types.is_typedef(name);
        parse(text, &is_typedef)
    }

    pub(super) fn quote(&self, span: &Range<usize>) -> String {
        format!("`{}`", &self.text[span.clone()])
    }

    /// A part of the tree: a number, memory, a string or the stack.
    pub(super) fn part(&mut self, node: &Node) -> Compiled {
        let at = node.span.start;
        match &node.form {
            Form::Number(value) => Ok(Part::constant(*value, long(*value <= i64::MAX as u64))),
            Form::Text(text) => Ok(Part {
                ops: Vec::new(),
                left: Left::Literal(text.clone()),
                ty: Type::Void,
            }),
            Form::Name(name) => self.named(name, at),
            Form::Dollar(name) => self.dollar(name, at),
            Form::Member {
                base,
                arrow,
                name,
                at,
            } => self.member(base, *arrow, name, *at),
            Form::Index(base, index) => self.index(base, index),
            Form::Unary("*", inner) => {
                let pointer = self.number(inner)?;
                self.behind(pointer, &inner.span)
            }
            Form::Unary("&", inner) => self.address_of(inner),
            Form::Unary(sign, inner) => self.unary(sign, inner),
            Form::Binary(sign, left, right) => self.binary(sign, left, right),
            Form::Cast(to, inner) => self.cast(to, inner),
            Form::SizeOfType(of) => {
                let ty = self.ty(of)?;
                self.size(&ty, &of.span)
            }
            Form::SizeOf(inner) => {
                let part = self.part(inner)?;
                match part.left {
                    Left::Memory { bits: None, .. } | Left::Number | Left::Constant(_) => {
                        self.size(&part.ty, &inner.span)
                    }
                    _ => Err(Error::new(at, "this has no size")),
                }
            }
            Form::Call(name, arguments) => self.call(name, arguments, at),
        }
    }

    /// A part of the tree as a number.
    pub(super) fn number(&mut self, node: &Node) -> Compiled {
        let part = self.part(node)?;
        self.value(part, &node.span)
    }

    fn ty(&self, written: &TypeName) -> Result<Type, Error> {
        let found = self.scope.types.named(written);
        found.map_err(|why| Error::new(written.span.start, why))
    }

    pub(super) fn size(&self, ty: &Type, span: &Range<usize>) -> Compiled {
        match self.scope.types.size(ty) {
            Some(size) => Ok(Part::constant(size, long(false))),
            None => {
                let why = format!("the size of {} is not known", self.quote(span));
                Err(Error::new(span.start, why))
            }
        }
    }

    fn address_of(&mut self, inner: &Node) -> Compiled {
        let part = self.part(inner)?;
        let refused = |why: String| Err(Error::new(inner.span.start, why));
        let quoted = self.quote(&inner.span);
        match part.left {
            Left::Memory { bits: Some(_), .. } => {
                refused(format!("{quoted} is a bit field, which has no address"))
            }
            Left::Memory { offset, .. } => {
                let ty = Type::Pointer(Rc::new(part.ty.clone()));
                Ok(moved(part, offset, ty))
            }
            _ => refused(format!("{quoted} is not in memory, so it has no address")),
        }
    }

    fn cast(&mut self, to: &TypeName, inner: &Node) -> Compiled {
        let ty = self.ty(to)?;
        let part = self.part(inner)?;
        // A string's address is a number, too.
        let value = match part.left {
            Left::String(_) => Part {
                left: Left::Number,
                ..part
            },
            _ => self.value(part, &inner.span)?,
        };
        match &ty {
            Type::Bool => Ok(truth(value)),
            Type::Pointer(_) => Ok(Part { ty, ..value }),
            Type::Struct { .. } | Type::Array(..) | Type::Void | Type::Opaque(_) => {
                let name = self.scope.types.name(&ty);
                let why = format!("a value cannot be {name}: cast to {name} *");
                Err(Error::new(to.span.start, why))
            }
            ty => Ok(self.narrowed(value, ty.clone())),
        }
    }

    /// A number as one of a type of numbers.
    pub(super) fn narrowed(&self, value: Part, ty: Type) -> Part {
        let size = self.scope.types.size(&ty).unwrap_or(8);
        let signed = is_signed(&ty);
        if let Some(known) = value.known() {
            return Part::constant(extended(known, size as usize, signed), ty);
        }
        let has = self.scope.types.size(&value.ty).unwrap_or(8);
        let fits = has < size && (signed || !is_signed(&value.ty));
        let same = has == size && signed == is_signed(&value.ty);
        if size == 8 || fits || same {
            return Part { ty, ..value };
        }
        let extend = Op {
            width: size as u8,
            ..Op::of(Code::Extend).signed(signed)
        };
        value.then(extend, ty)
    }

    /// That a number is no pointer.
    pub(super) fn integer(&self, part: &Part, span: &Range<usize>) -> Result<(), Error> {
        match &part.ty {
            Type::Pointer(_) => Err(Error::new(
                span.start,
                format!(
                    "{} is a pointer: cast it first, as in (u64)...",
                    self.quote(span)
                ),
            )),
            _ => Ok(()),
        }
    }
}

/// Ops that leave a number of objects in bytes.
pub(super) fn scaled(n: Part, size: u64) -> Vec<Op> {
    if let Some(n) = n.known() {
        return vec![Op::with(Code::Const, 0, n.wrapping_mul(size))];
    }
    let mut ops = n.pushed();
    if size != 1 {
        ops.extend([Op::with(Code::Const, 0, size), Op::of(Code::Mul)]);
    }
    ops
}

/// 0 or 1.
pub(super) fn truth(value: Part) -> Part {
    match (value.known(), &value.ty) {
        (Some(known), _) => Part::constant((known != 0).into(), Type::Bool),
        (None, Type::Bool) => value,
        (None, _) => value
            .then(Op::of(Code::Not), Type::Bool)
            .then(Op::of(Code::Not), Type::Bool),
    }
}

/// Whether numbers of a type can be below 0.
pub(super) fn is_signed(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Char { signed: true }
            | Type::Int { signed: true, .. }
            | Type::Enum { signed: true, .. }
    )
}
