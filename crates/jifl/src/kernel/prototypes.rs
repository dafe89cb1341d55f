// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments and results of functions, from the kernel's own description of its types (BTF).

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use btf_rs::{Btf, BtfType, Type};

use super::values::{Kind, Prototype};

/// The kernel's own types, and the types of modules by the modules' names.
const FOLDER: &str = "/sys/kernel/btf";

/// Prototypes that have been asked for.
#[derive(Default)]
pub struct Prototypes {
    kernel: Option<Btf>,
    modules: RefCell<HashMap<String, Option<Rc<Btf>>>>,
    known: RefCell<HashMap<String, Option<Rc<Prototype>>>>,
}

impl Prototypes {
    /// The types of the running kernel.
    ///
    /// # Errors
    /// Why nothing is known.
    pub fn of_kernel() -> Result<Prototypes, String> {
        let path = Path::new(FOLDER).join("vmlinux");
        let data = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Prototypes::parse(&data).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn parse(data: &[u8]) -> Result<Prototypes, btf_rs::Error> {
        Ok(Prototypes {
            kernel: Some(Btf::from_bytes(data)?),
            ..Prototypes::default()
        })
    }

    /// The prototype of a function, `name` or `name [module]`. `None` if it is unknown: the
    /// function is of assembly, or a part that the compiler has cut off or specialised, or several
    /// have the name.
    pub fn of(&self, function: &str) -> Option<Rc<Prototype>> {
        if let Some(known) = self.known.borrow().get(function) {
            return known.clone();
        }
        let found = self.find(function).map(Rc::new);
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

    fn find(&self, function: &str) -> Option<Prototype> {
        let kernel = self.kernel.as_ref()?;
        let Some((name, label)) = function.split_once(" [") else {
            return prototype(kernel, &kernel.resolve_ids_by_name(function).ok()?);
        };
        let module = self.module(label.trim_end_matches(']'))?;
        let ids = module.split()?.resolve_ids_by_name(name).ok()?;
        prototype(&module, &ids)
    }

    fn module(&self, name: &str) -> Option<Rc<Btf>> {
        let mut modules = self.modules.borrow_mut();
        let open = || {
            let data = std::fs::read(Path::new(FOLDER).join(name)).ok()?;
            Some(Rc::new(
                Btf::from_split_bytes(&data, self.kernel.as_ref()?).ok()?,
            ))
        };
        modules.entry(name.to_owned()).or_insert_with(open).clone()
    }
}

/// The prototype of the function, if the types of a name contain exactly one.
fn prototype(btf: &Btf, ids: &[u32]) -> Option<Prototype> {
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
    let Type::FuncProto(proto) = btf.resolve_chained_type(&function).ok()? else {
        return None;
    };
    let mut parameters = Vec::new();
    for (index, parameter) in proto.parameters.iter().enumerate() {
        if parameter.is_variadic() {
            continue;
        }
        let name = btf.resolve_name(parameter).unwrap_or_default();
        let name = if name.is_empty() {
            format!("arg{index}")
        } else {
            name
        };
        parameters.push((name, kind(btf, parameter.get_type_id()?)??));
    }
    let variadic = proto.parameters.iter().any(btf_rs::Parameter::is_variadic);
    Some(Prototype::new(
        parameters,
        variadic,
        kind(btf, proto.return_type_id())?,
    ))
}

/// The type behind typedefs and qualifiers; `Some(None)`: void. `None` if it is unknown.
fn kind(btf: &Btf, id: u32) -> Option<Option<Kind>> {
    let mut found = btf.resolve_type_by_id(id).ok()?;
    while let Type::Typedef(_)
    | Type::Volatile(_)
    | Type::Const(_)
    | Type::Restrict(_)
    | Type::TypeTag(_) = &found
    {
        found = btf.resolve_chained_type(found.as_btf_type()?).ok()?;
    }
    let name = |member: &dyn BtfType| btf.resolve_name(member).unwrap_or_default();
    Some(Some(match found {
        Type::Void => return Some(None),
        Type::Int(int) if int.is_bool() => Kind::Bool,
        Type::Int(int) if int.size() > 8 => Kind::Whole(int.size()),
        Type::Int(int) => Kind::Int {
            size: int.size(),
            signed: int.is_signed(),
        },
        Type::Enum(of) => Kind::Enum {
            size: of.size(),
            signed: of.is_signed(),
            names: of
                .members
                .iter()
                .map(|member| {
                    let value = member.val();
                    let value = if of.is_signed() {
                        i64::from(value as i32)
                    } else {
                        i64::from(value)
                    };
                    (value, name(member))
                })
                .collect(),
        },
        Type::Enum64(of) => Kind::Enum {
            size: of.size(),
            signed: of.is_signed(),
            names: of
                .members
                .iter()
                .map(|member| (member.val() as i64, name(member)))
                .collect(),
        },
        Type::Ptr(_) | Type::Array(_) => Kind::Pointer,
        Type::Struct(of) | Type::Union(of) => Kind::Whole(of.size()),
        _ => return None,
    }))
}
