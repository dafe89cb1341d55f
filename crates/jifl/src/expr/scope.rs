// SPDX-License-Identifier: MIT OR Apache-2.0
//! What names mean at a place: arguments, the result, registers.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use jifl_sys::abi::{REG_FLAGS, REG_RIP};

use super::types::{Type, Types};
use crate::kernel::prototypes::{Prototypes, Typed};

/// A value in a register.
#[derive(Debug, Clone)]
pub struct Variable {
    /// Its name in the source.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// By its number in instructions; `None`: it is on the stack, or no number.
    pub register: Option<u32>,
}

/// What names mean at a place.
pub struct Scope {
    /// The types of the function's module.
    pub types: Rc<Types>,
    /// The function's arguments.
    pub parameters: Vec<Variable>,
    /// That the arguments are where the function gets them, or why they are not.
    pub arguments: Result<(), String>,
    /// Why the arguments have no names, if so.
    pub unnamed: Option<String>,
    /// The type of what the function returns, in rax, or why there is none.
    pub result: Result<Type, String>,
    /// The place jumps to a function that returns it: it is not known yet.
    pub jumps: bool,
}

/// Where in its function a place is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum At {
    /// Its first instruction.
    Entry,
    /// Before it returns.
    Return,
    /// Before it jumps to a function that returns for it.
    TailCall,
    /// Anywhere else.
    Inside,
}

/// The registers of the first six arguments, by their numbers in instructions.
pub const ARGUMENTS: [u32; 6] = [7, 6, 2, 1, 8, 9];
/// The register of results.
pub const RESULT: u32 = 0;

/// Makes scopes of functions, which share the types of their module.
pub struct Scopes {
    prototypes: Result<Prototypes, String>,
    types: RefCell<HashMap<String, Rc<Types>>>,
}

impl Scopes {
    /// By what the running kernel says of its types. If it says nothing, arguments have no names.
    pub fn of_kernel() -> Scopes {
        Scopes::by(Prototypes::of_kernel())
    }

    /// By these prototypes, or without any.
    pub fn by(prototypes: Result<Prototypes, String>) -> Scopes {
        Scopes {
            prototypes,
            types: RefCell::default(),
        }
    }

    /// The types that the code of a function uses, `name` or `name [module]`.
    fn types(&self, function: &str) -> Rc<Types> {
        let label = function.split_once(" [").map_or("", |(_, label)| label);
        let open = || {
            let prototypes = self.prototypes.as_ref().ok();
            Rc::new(Types::new(prototypes.and_then(|all| all.types(function))))
        };
        let mut types = self.types.borrow_mut();
        types.entry(label.to_owned()).or_insert_with(open).clone()
    }

    /// What names mean at a place of a function, `name` or `name [module]`.
    pub fn of(&self, function: &str, at: At) -> Scope {
        let types = self.types(function);
        let known = match &self.prototypes {
            Ok(all) => all.find(function).ok_or_else(|| {
                "the kernel's types (BTF) tell nothing of this function, or of several with its \
                 name: use $arg0 to $arg5 with a cast"
                    .to_owned()
            }),
            Err(why) => Err(format!(
                "this kernel does not describe its types ({why}): use $arg0 to $arg5"
            )),
        };
        let result = match (at, &known) {
            (At::Return | At::TailCall, Ok(known)) if known.prototype.result.is_none() => {
                Err("the function returns nothing".into())
            }
            (At::Return | At::TailCall, Ok(known)) => Ok(types.of(known.result)),
            (At::Return | At::TailCall, Err(_)) => Ok(Type::Int {
                size: 8,
                signed: true,
            }),
            _ => Err(
                "what a function returns is known where it returns alone: the place is \
                      fn:NAME%return"
                    .into(),
            ),
        };
        Scope {
            jumps: at == At::TailCall,
            parameters: known
                .as_ref()
                .map_or_else(|_| Vec::new(), |known| variables(known, &types)),
            types,
            arguments: match at {
                At::Entry => Ok(()),
                _ => Err("arguments are known at the function's entry alone".into()),
            },
            unnamed: known.err(),
            result,
        }
    }
}

fn variables(known: &Typed, types: &Types) -> Vec<Variable> {
    let each = known.prototype.parameters.iter().zip(&known.parameters);
    each.map(|(parameter, id)| {
        let ty = types.of(*id);
        let number = !matches!(ty, Type::Struct { .. } | Type::Opaque(_));
        let register = parameter.register.filter(|_| number);
        Variable {
            name: parameter.name.clone(),
            ty,
            register: register.map(|register| ARGUMENTS[register]),
        }
    })
    .collect()
}

/// A part of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register {
    /// By its number in instructions.
    pub number: u32,
    /// Bytes.
    pub size: u8,
    /// Whether it is the second byte, as ah.
    pub high: bool,
}

/// The register with a name, as rax, eax, ax, al, ah, r8d, rip or rflags.
pub fn register(name: &str) -> Option<Register> {
    const LEGACY: [&str; 8] = ["ax", "cx", "dx", "bx", "sp", "bp", "si", "di"];
    let part = |number, size| Register {
        number,
        size,
        high: false,
    };
    match name {
        "rip" => return Some(part(REG_RIP, 8)),
        "rflags" => return Some(part(REG_FLAGS, 8)),
        _ => {}
    }
    for (number, two) in (0u32..).zip(LEGACY) {
        let low = match number {
            0..4 => format!("{}l", &two[..1]),
            _ => format!("{two}l"),
        };
        let size = match (name.strip_suffix(two), name == low) {
            (Some("r"), _) => 8,
            (Some("e"), _) => 4,
            (Some(""), _) => 2,
            (_, true) => 1,
            _ => continue,
        };
        return Some(part(number, size));
    }
    if let Some(number) = ["ah", "ch", "dh", "bh"]
        .iter()
        .position(|high| *high == name)
    {
        return Some(Register {
            number: number as u32,
            size: 1,
            high: true,
        });
    }
    let rest = name.strip_prefix('r')?;
    let digits = rest.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let size = match &rest[digits.len()..] {
        "" => 8,
        "d" => 4,
        "w" => 2,
        "b" => 1,
        _ => return None,
    };
    let number: u32 = digits.parse().ok()?;
    ((8..16).contains(&number) && !digits.starts_with('0')).then(|| part(number, size))
}

/// The 64-bit name of a register by its number in instructions.
pub fn register_name(number: u32) -> String {
    const LEGACY: [&str; 8] = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"];
    match LEGACY.get(number as usize) {
        Some(name) => (*name).to_owned(),
        None => format!("r{number}"),
    }
}
