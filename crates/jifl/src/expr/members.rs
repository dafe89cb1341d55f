// SPDX-License-Identifier: MIT OR Apache-2.0
//! The members of structures.

use btf_rs::{BtfType, Type as BtfForm};

use super::types::{Type, Types};
use crate::base::nearest::nearest;
use crate::kernel::btf::{bare, name};

/// A member of a structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Where it begins, in bits.
    pub bit: u32,
    /// Its bits, if it is a bit field.
    pub width: Option<u32>,
    /// Its type.
    pub ty: Type,
}

impl Types {
    /// A member of a structure, also of those without a name in it.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn member(&self, of: &Type, wanted: &str) -> Result<Member, String> {
        let Type::Struct { id, name, .. } = of else {
            return Err("there is no structure".into());
        };
        if let Some(found) = self.find(*id, wanted, 0) {
            return Ok(found);
        }
        let known = self.members(of);
        let near = nearest(wanted, known.iter().map(String::as_str));
        let hint = match (&near[..], &known[..]) {
            ([], []) => String::new(),
            ([], known) => format!(": it has {}", list(known.iter().map(String::as_str))),
            ([one], _) => format!(": the nearest is {one}"),
            (near, _) => format!(": the nearest are {}", list(near.iter().copied())),
        };
        Err(format!("{name} has no member `{wanted}`{hint}"))
    }

    fn find(&self, id: u32, wanted: &str, from: u32) -> Option<Member> {
        let btf = self.btf.as_ref()?;
        let (_, BtfForm::Struct(of) | BtfForm::Union(of)) = bare(btf, id)? else {
            return None;
        };
        of.members.iter().find_map(|member| {
            let bit = from + member.bit_offset();
            let of = member.get_type_id()?;
            match name(btf, member) {
                known if known == wanted => Some(Member {
                    bit,
                    width: member.bitfield_size().filter(|width| *width > 0),
                    ty: self.of(of),
                }),
                known if known.is_empty() => self.find(of, wanted, bit),
                _ => None,
            }
        })
    }

    /// The members of a structure, also of those without a name in it.
    pub fn members(&self, of: &Type) -> Vec<String> {
        let mut all = Vec::new();
        if let Type::Struct { id, .. } = of {
            self.collect(*id, &mut all);
        }
        all
    }

    fn collect(&self, id: u32, all: &mut Vec<String>) {
        let Some(btf) = self.btf.as_ref() else {
            return;
        };
        let Some((_, BtfForm::Struct(of) | BtfForm::Union(of))) = bare(btf, id) else {
            return;
        };
        for member in &of.members {
            match (name(btf, member), member.get_type_id()) {
                (name, Some(inner)) if name.is_empty() => self.collect(inner, all),
                (name, _) => all.push(name),
            }
        }
    }
}

/// Up to eight names.
pub fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.take(9).collect();
    if names.len() == 9 {
        names[8] = "...";
    }
    names.join(", ")
}
