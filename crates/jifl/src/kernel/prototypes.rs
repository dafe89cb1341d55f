// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments and results of functions, from the kernel's own description of its types (BTF).

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use btf_rs::{Btf, BtfType, FuncProto, Type};

use super::btf::{self, All, kind};
use super::values::Prototype;

/// Prototypes that have been asked for.
#[derive(Default)]
pub struct Prototypes {
    all: Option<All>,
    known: RefCell<HashMap<String, Option<Rc<Prototype>>>>,
}

/// A function with the numbers of its types, which [`Prototypes::types`] has.
pub struct Typed {
    /// Its arguments and its result.
    pub prototype: Prototype,
    /// The type of each argument, in the order of the prototype's.
    pub parameters: Vec<u32>,
    /// The type of the result.
    pub result: u32,
}

impl Prototypes {
    /// The types of the running kernel.
    ///
    /// # Errors
    /// Why nothing is known.
    pub fn of_kernel() -> Result<Prototypes, String> {
        All::of_kernel().map(Prototypes::of_all)
    }

    /// The functions that these types describe.
    pub fn of_all(all: All) -> Prototypes {
        Prototypes {
            all: Some(all),
            ..Prototypes::default()
        }
    }

    /// The prototype of a function, `name` or `name [module]`. `None` if it is unknown: the
    /// function is of assembly, or a part that the compiler has cut off or specialised, or several
    /// have the name.
    pub fn of(&self, function: &str) -> Option<Rc<Prototype>> {
        if let Some(known) = self.known.borrow().get(function) {
            return known.clone();
        }
        let found = self.find(function).map(|found| Rc::new(found.prototype));
        self.known
            .borrow_mut()
            .insert(function.to_owned(), found.clone());
        found
    }

    /// Prototypes of these functions only, by name.
    pub fn known(known: impl IntoIterator<Item = (String, Prototype)>) -> Prototypes {
        let known = known
            .into_iter()
            .map(|(name, prototype)| (name, Some(Rc::new(prototype))));
        Prototypes {
            known: RefCell::new(known.collect()),
            ..Prototypes::default()
        }
    }

    /// The types that a function's code uses: those of its module if these are known, else the
    /// kernel's.
    pub fn types(&self, function: &str) -> Option<Rc<Btf>> {
        let all = self.all.as_ref()?;
        let module = function.split_once(" [");
        let module = module.and_then(|(_, label)| all.module(label.trim_end_matches(']')));
        Some(module.unwrap_or_else(|| all.kernel()))
    }

    /// As [`Prototypes::of`], with the numbers of the types.
    pub fn find(&self, function: &str) -> Option<Typed> {
        let btf = self.types(function)?;
        prototype(&btf, &ids(&btf, function)?)
    }

    /// The function's types, and its own among them.
    pub fn proto(&self, function: &str) -> Option<(Rc<Btf>, FuncProto)> {
        let btf = self.types(function)?;
        let proto = proto(&btf, &ids(&btf, function)?)?;
        Some((btf, proto))
    }
}

/// The types that have the name of a function, `name` or `name [module]`.
fn ids(btf: &Btf, function: &str) -> Option<Vec<u32>> {
    // A function of the kernel may have the name of one in a module without types.
    let (name, section) = match function.split_once(" [") {
        Some((name, _)) => (name, btf.split()?),
        None => (function, btf.base()),
    };
    section.resolve_ids_by_name(name).ok()
}

/// The prototype of the function, if the types of a name contain exactly one.
fn prototype(btf: &Btf, ids: &[u32]) -> Option<Typed> {
    let proto = proto(btf, ids)?;
    let types: Option<Vec<u32>> = fixed(&proto).map(|(_, one)| one.get_type_id()).collect();
    let types = types?;
    let mut parameters = Vec::new();
    for ((index, parameter), id) in fixed(&proto).zip(&types) {
        let name = btf::name(btf, parameter);
        let name = match name.is_empty() {
            true => format!("arg{index}"),
            false => name,
        };
        parameters.push((name, kind(btf, *id)??));
    }
    let variadic = proto.parameters.iter().any(btf_rs::Parameter::is_variadic);
    let result = proto.return_type_id();
    Some(Typed {
        prototype: Prototype::new(parameters, variadic, kind(btf, result)?),
        parameters: types,
        result,
    })
}

/// The type of the one function among the types of a name.
fn proto(btf: &Btf, ids: &[u32]) -> Option<FuncProto> {
    let mut functions = ids
        .iter()
        .filter_map(|id| match btf.resolve_type_by_id(*id) {
            Ok(Type::Func(function)) => Some(function),
            _ => None,
        });
    let function = functions.next()?;
    if functions.next().is_some() {
        return None;
    }
    match btf.resolve_chained_type(&function).ok()? {
        Type::FuncProto(proto) => Some(proto),
        _ => None,
    }
}

/// The parameters with types, and their places.
fn fixed(proto: &FuncProto) -> impl Iterator<Item = (usize, &btf_rs::Parameter)> {
    let all = proto.parameters.iter().enumerate();
    all.filter(|(_, parameter)| !parameter.is_variadic())
}
