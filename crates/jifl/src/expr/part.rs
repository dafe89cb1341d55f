// SPDX-License-Identifier: MIT OR Apache-2.0
//! A part of a variable that each processor has: `irq_stat.apic_timer_irqs`,
//! `kernel_cpustat.cpustat[2]`. BTF describes these variables, and no others.

use std::rc::Rc;

use btf_rs::{Btf, BtfType, Type as BtfForm};

use super::types::{Type, Types};

/// Where it is, and what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Bytes behind the variable's beginning.
    pub offset: u64,
    /// Bytes that it has.
    pub size: usize,
}

/// The name that a text begins with, and what follows: `.member`, `[number]`.
pub fn split(text: &str) -> (&str, &str) {
    text.split_at(text.find(['.', '[']).unwrap_or(text.len()))
}

/// The part of the variable `name` that `path` leads to. It is a number.
///
/// # Errors
/// One line: there is no such part, or it is no number.
pub fn part(btf: Rc<Btf>, name: &str, path: &str) -> Result<Part, String> {
    let ids = btf.resolve_ids_by_name(name).unwrap_or_default();
    let mut ids = ids.into_iter();
    let ty = ids.find_map(|id| match btf.resolve_type_by_id(id) {
        Ok(BtfForm::Var(of)) => of.get_type_id(),
        _ => None,
    });
    let ty = ty.ok_or("its type is not known (BTF)")?;
    let types = Types::new(Some(btf));
    let (mut ty, mut offset, mut rest) = (types.of(ty), 0, path);
    while !rest.is_empty() {
        let (step, size, behind) = step(&types, &ty, rest)?;
        (ty, offset, rest) = (step, offset + size, behind);
    }
    match (&ty, types.size(&ty)) {
        (Type::Int { .. } | Type::Enum { .. }, Some(size @ (4 | 8))) => Ok(Part {
            offset,
            size: size as usize,
        }),
        (Type::Struct { .. }, _) => Err(format!(
            "it is a {}: say which number in it: {}",
            types.name(&ty),
            super::members::list(types.members(&ty).iter().map(String::as_str))
        )),
        _ => Err(format!(
            "it is a {}: a number of 4 or 8 bytes can be counted",
            types.name(&ty)
        )),
    }
}

/// A member, or an element: its type, where it is, and what of the path is left.
fn step<'a>(types: &Types, of: &Type, path: &'a str) -> Result<(Type, u64, &'a str), String> {
    let wrong = || format!("`{path}`: a part is .MEMBER, or [NUMBER]");
    if let Some(path) = path.strip_prefix('.') {
        let (name, rest) = split(path);
        let member = types.member(of, name)?;
        return match member.width {
            None => Ok((member.ty, u64::from(member.bit / 8), rest)),
            Some(_) => Err(format!("{name} is a bit field")),
        };
    }
    let inner = path.strip_prefix('[').and_then(|path| path.split_once(']'));
    let (number, rest) = inner.ok_or_else(wrong)?;
    let number: usize = number.parse().map_err(|_| wrong())?;
    match of {
        Type::Array(element, n) if number < *n => {
            let size = types.size(element).ok_or_else(wrong)?;
            Ok(((**element).clone(), size * number as u64, rest))
        }
        Type::Array(_, n) => Err(format!("[{number}]: there are {n}")),
        _ => Err(format!("[{number}]: there is no array")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_begins_behind_the_name() {
        assert_eq!(split("x"), ("x", ""));
        assert_eq!(split("x.y[3].z"), ("x", ".y[3].z"));
        assert_eq!(split("x[3]"), ("x", "[3]"));
    }

    #[test]
    fn steps_are_members_and_elements() {
        let types = Types::new(None);
        let int = Type::Int {
            size: 4,
            signed: false,
        };
        let array = Type::Array(Rc::new(int.clone()), 3);
        assert_eq!(step(&types, &array, "[2].y"), Ok((int, 8, ".y")));
        for wrong in ["[3]", "[", "[x]", "[1", "y", ".y"] {
            assert!(step(&types, &array, wrong).is_err(), "{wrong}");
        }
    }
}
