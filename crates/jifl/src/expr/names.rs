// SPDX-License-Identifier: MIT OR Apache-2.0
//! What names, registers and calls compile to.

use std::rc::Rc;

use jifl_sys::abi::{COMM_MAX, Code, Get, Op, STRING_MAX};

use super::code::{Left, Part, long};
use super::compile::{Compiled, Compiler};
use super::lex::Error;
use super::members::list;
use super::parse::Node;
use super::scope::{ARGUMENTS, RESULT, Variable, register, register_name};
use super::types::Type;
use super::written::{Base, TypeName};
use crate::base::nearest::nearest;
use crate::kernel::errno;

/// Names that stand for the state of the CPU and its task.
const BUILTINS: [&str; 13] = [
    "pid", "tid", "cpu", "time", "level", "comm", "current", "cgroup", "uid", "ppid", "caller",
    "stack", "str",
];

/// Names that are short for others.
const SHORT: [(&str, &str); 3] = [
    ("cgroup", "current->cgroups->dfl_cgrp->kn->id"),
    ("uid", "current->cred->uid.val"),
    ("ppid", "current->real_parent->tgid"),
];

/// What C's headers define, and not its types.
fn constant(name: &str) -> Option<Part> {
    Some(match name {
        "NULL" => Part::constant(0, Type::Pointer(Rc::new(Type::Void))),
        "true" | "false" => Part::constant((name == "true").into(), Type::Bool),
        _ => Part::constant(errno::constant(name)? as u64, long(true)),
    })
}

impl Compiler<'_> {
    /// The argument with a name, where arguments are known.
    fn parameter(&self, name: &str) -> Option<&Variable> {
        self.scope.arguments.as_ref().ok()?;
        self.scope.parameters.iter().find(|one| one.name == name)
    }

    /// Whether a name stands for a value without any type's help.
    pub(super) fn is_variable(&self, name: &str) -> bool {
        self.parameter(name).is_some() || BUILTINS.contains(&name) || register(name).is_some()
    }

    pub(super) fn named(&mut self, name: &str, at: usize) -> Compiled {
        if let Some(parameter) = self.parameter(name) {
            let Some(number) = parameter.register else {
                let why = format!(
                    "`{name}` is {}, which is in no register: it is passed on the stack or by its \
                     members; see what is at rsp",
                    self.scope.types.name(&parameter.ty)
                );
                return Err(Error::new(at, why));
            };
            return Ok(self.in_register(number, parameter.ty.clone()));
        }
        if let Some((_, path)) = SHORT.iter().find(|(short, _)| *short == name) {
            return self.short(path, name, at);
        }
        if let Some(part) = self.builtin(name) {
            return Ok(part);
        }
        if let Some(register) = register(name) {
            let whole = Part::number(vec![Op::with(Code::Reg, register.number, 0)], long(false));
            let ty = Type::Int {
                size: register.size.into(),
                signed: false,
            };
            return Ok(match (register.high, register.size) {
                (true, _) => whole.then(Op::with(Code::Bits, 8, 8), ty),
                (false, 8) => whole,
                (false, _) => self.narrowed(whole, ty),
            });
        }
        if let Some(part) = constant(name) {
            return Ok(part);
        }
        match self.scope.types.enumerator(name) {
            Some((value, ty)) => Ok(Part::constant(value as u64, ty)),
            None => Err(Error::new(at, self.unknown(name))),
        }
    }

    /// A value of this type that a register has.
    fn in_register(&self, number: u32, ty: Type) -> Part {
        let raw = Part::number(vec![Op::with(Code::Reg, number, 0)], long(false));
        match ty {
            Type::Pointer(_) | Type::Array(..) => Part { ty, ..raw },
            ty => self.narrowed(raw, ty),
        }
    }

    fn builtin(&mut self, name: &str) -> Option<Part> {
        let int = |size, signed| Type::Int { size, signed };
        let (get, ty) = match name {
            "pid" => (Get::Pid, int(4, true)),
            "tid" => (Get::Tid, int(4, true)),
            "cpu" => (Get::Cpu, int(4, false)),
            // As it is shown in decimal digits.
            "time" => (Get::Time, int(8, true)),
            "level" => (Get::Level, Type::Level),
            "comm" => (Get::Comm, Type::Void),
            "caller" => (Get::Caller, Type::Code),
            "current" => (Get::Task, self.task()),
            "stack" => {
                return Some(Part {
                    ops: Vec::new(),
                    left: Left::Stack,
                    ty: Type::Void,
                });
            }
            _ => return None,
        };
        let mut part = Part::number(vec![Op::with(Code::Get, get as u32, 0)], ty);
        if get == Get::Comm {
            part.left = Left::String(COMM_MAX);
        }
        Some(part)
    }

    /// `struct task_struct *`
    fn task(&self) -> Type {
        let written = TypeName {
            span: 0..0,
            base: Base::Tagged("struct", "task_struct".into()),
            pointers: 0,
        };
        let known = self.scope.types.named(&written);
        Type::Pointer(Rc::new(known.unwrap_or(Type::Opaque(
            "struct task_struct, which the kernel's types (BTF) do not describe".into(),
        ))))
    }

    /// A name that is short for a path from the task.
    fn short(&mut self, path: &str, name: &str, at: usize) -> Compiled {
        // A parameter may be called `current`; this one is the task all the same.
        let scope = super::scope::Scope {
            types: self.scope.types.clone(),
            parameters: Vec::new(),
            arguments: Ok(()),
            unnamed: None,
            result: Err(String::new()),
            jumps: false,
        };
        let mut inner = Compiler::new(path, &scope, self.strings);
        let found = inner.tree(path).and_then(|tree| inner.number(&tree));
        found.map_err(|why| {
            let why = format!(
                "`{name}` is {path}, and this kernel lacks it: {}",
                why.message
            );
            Error::new(at, why)
        })
    }

    fn unknown(&self, name: &str) -> String {
        let scope = self.scope;
        let hidden = scope.parameters.iter().find(|one| one.name == name);
        if let (Some(hidden), Err(why)) = (hidden, &scope.arguments) {
            let register = hidden.register.map_or("rdi".into(), register_name);
            return format!(
                "`{name}`: {why}; where a register has it still, use a cast: ({}){register}",
                scope.types.name(&hidden.ty)
            );
        }
        let parameters = scope.parameters.iter().map(|one| one.name.as_str());
        let names: Vec<&str> = match scope.arguments {
            Ok(()) => parameters.collect(),
            Err(_) => Vec::new(),
        };
        let near = nearest(name, names.iter().copied().chain(BUILTINS));
        let mut text = format!("`{name}` is unknown");
        match (&near[..], &names[..]) {
            ([], []) => {}
            ([], names) => {
                let names = list(names.iter().copied());
                text += &format!("; the arguments are {names}");
            }
            (near, _) => text += &format!("; the nearest are {}", list(near.iter().copied())),
        }
        match (&scope.unnamed, &scope.arguments) {
            (Some(why), _) => text += &format!("; arguments have no names here: {why}"),
            (None, Err(why)) => text += &format!("; {why}"),
            (None, Ok(())) => {}
        }
        if near.is_empty() {
            text += &format!(
                "; else there are {}, registers, errors as ENOENT, and the names of enums",
                BUILTINS.join(", ")
            );
        }
        text
    }

    pub(super) fn dollar(&mut self, name: &str, at: usize) -> Compiled {
        let refused = |why: String| Err(Error::new(at, why));
        if name == "ret" || name == "retval" {
            return match &self.scope.result {
                Ok(ty) => match ty {
                    Type::Struct { .. } | Type::Opaque(_) | Type::Void => refused(format!(
                        "`${name}` is {}, and no number: see the registers rax and rdx",
                        self.scope.types.name(ty)
                    )),
                    ty if self.scope.jumps => Ok(unknown(ty.clone())),
                    ty => Ok(self.in_register(RESULT, ty.clone())),
                },
                Err(why) => refused(format!("`${name}`: {why}")),
            };
        }
        let digits = name.strip_prefix("arg");
        let n: Option<usize> = digits.and_then(|digits| digits.parse().ok());
        match (n.and_then(|n| ARGUMENTS.get(n)), &self.scope.arguments) {
            (Some(number), Ok(())) => Ok(self.in_register(*number, long(false))),
            (Some(number), Err(why)) => refused(format!(
                "`${name}`: {why}; it was in {}, use this register where it has it still",
                register_name(*number)
            )),
            (None, _) => refused(format!(
                "`${name}` is unknown: there are $ret and $arg0 to $arg5"
            )),
        }
    }

    pub(super) fn call(&mut self, name: &str, arguments: &[Node], at: usize) -> Compiled {
        if name != "str" {
            let why = format!("`{name}()` is unknown: str(ADDRESS) and sizeof(TYPE) are all calls");
            return Err(Error::new(at, why));
        }
        let (of, max) = match arguments {
            [of] => (of, STRING_MAX),
            [of, n] => {
                let known = self.number(n)?.known();
                let fits = known.filter(|n| (1..STRING_MAX as u64).contains(n));
                let Some(n) = fits else {
                    let why = format!(
                        "str(ADDRESS, N) reads N bytes, a number from 1 to {}",
                        STRING_MAX - 1
                    );
                    return Err(Error::new(n.span.start, why));
                };
                (of, n as usize + 1)
            }
            _ => return Err(Error::new(at, "str takes an address: str(name)")),
        };
        let part = self.part(of)?;
        if let Some((part, room)) = self.as_string(&part) {
            return Ok(Part {
                left: Left::String(room.min(max)),
                ..part
            });
        }
        let part = self.value(part, &of.span)?;
        let bytes = match &part.ty {
            Type::Pointer(to) => matches!(
                **to,
                Type::Void | Type::Char { .. } | Type::Int { size: 1, .. }
            ),
            Type::Int { size: 8, .. } => true,
            _ => false,
        };
        if !bytes {
            let why = format!(
                "{} is {}, and no address of a string: cast it, as in str((char *)...)",
                self.quote(&of.span),
                self.scope.types.name(&part.ty)
            );
            return Err(Error::new(of.span.start, why));
        }
        Ok(Part {
            ops: part.pushed(),
            left: Left::String(max),
            ty: Type::Void,
        })
    }
}

/// A value that nobody has: nothing is divided by 0.
fn unknown(ty: Type) -> Part {
    let zero = Op::with(Code::Const, 0, 0);
    let raw = Part::number(vec![zero, zero, Op::of(Code::Div)], long(false));
    Part { ty, ..raw }
}
