// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the members of the kernel's structures are, by its own types (BTF), which are a part of
//! its read-only data.

use btf_rs::{Btf, Member, Type};

use crate::bytes::u32_at;

/// Typedefs and qualifiers before a type.
const MOST_NAMES: usize = 32;
/// Structures without names in each other.
const DEEPEST: usize = 8;
/// Members that are looked at for one of them.
const MOST_MEMBERS: usize = 1 << 16;
/// Letters of all names. Each of them may begin one.
const MOST_LETTERS: u32 = 8 << 20;
/// Where the header says how many there are (`struct btf_header`).
const LETTERS: usize = 20;

/// The types of a kernel.
pub struct Types(Btf);

impl Types {
    /// From the bytes between `__start_BTF` and `__stop_BTF`.
    pub fn read(bytes: &[u8]) -> Option<Types> {
        let letters = u32_at(bytes, LETTERS)?;
        let types = (letters <= MOST_LETTERS).then(|| Btf::from_bytes(bytes).ok())??;
        Some(Types(types))
    }

    /// How many bytes a structure has before a member, which may be one of a member, and so on:
    /// `module`, `core_layout.base`. `None`: there is none of that name.
    pub fn offset(&self, structure: &str, path: &str) -> Option<u64> {
        let all = self.0.resolve_types_by_name(structure).ok()?;
        all.iter().find_map(|own| {
            let mut members = members(own)?.to_vec();
            let (mut bits, mut left) = (0, MOST_MEMBERS);
            for name in path.split('.') {
                let (before, of) = self.member(&members, name, DEEPEST, &mut left)?;
                bits += before;
                let next = self.bare(of);
                members = next.as_ref().and_then(members_of).unwrap_or_default();
            }
            Some(bits / 8)
        })
    }

    /// Bytes of a structure.
    pub fn size(&self, structure: &str) -> Option<u64> {
        let all = self.0.resolve_types_by_name(structure).ok()?;
        all.iter().find_map(|own| match own {
            Type::Struct(own) => Some(own.size() as u64),
            _ => None,
        })
    }

    /// A member by its name, also of structures without a name: bits before it, and its type.
    fn member(
        &self,
        members: &[Member],
        name: &str,
        depth: usize,
        left: &mut usize,
    ) -> Option<(u64, u32)> {
        members.iter().find_map(|member| {
            *left = left.checked_sub(1)?;
            let own = self.0.resolve_name(member).unwrap_or_default();
            let of = btf_rs::BtfType::get_type_id(member)?;
            if own == name {
                return Some((member.bit_offset().into(), of));
            }
            if !own.is_empty() {
                return None;
            }
            let inner = members_of(&self.bare(of)?)?;
            let (bits, of) = self.member(&inner, name, depth.checked_sub(1)?, left)?;
            Some((u64::from(member.bit_offset()) + bits, of))
        })
    }

    /// The type behind typedefs and qualifiers.
    fn bare(&self, mut id: u32) -> Option<Type> {
        for _ in 0..MOST_NAMES {
            let found = self.0.resolve_type_by_id(id).ok()?;
            match &found {
                Type::Typedef(_)
                | Type::Volatile(_)
                | Type::Const(_)
                | Type::Restrict(_)
                | Type::TypeTag(_) => id = found.as_btf_type()?.get_type_id()?,
                _ => return Some(found),
            }
        }
        None
    }
}

fn members(of: &Type) -> Option<&[Member]> {
    match of {
        Type::Struct(own) | Type::Union(own) => Some(&own.members),
        _ => None,
    }
}

fn members_of(of: &Type) -> Option<Vec<Member>> {
    members(of).map(<[Member]>::to_vec)
}
