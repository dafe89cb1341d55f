// SPDX-License-Identifier: MIT OR Apache-2.0
//! The types of values, and what BTF knows of them.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;

use btf_rs::{Btf, BtfType, Type as BtfForm};
use jifl_sys::abi::LEVELS;

use super::written::{Base, TypeName};
use crate::kernel::btf::{bare, enumerators, kind, name};
use crate::kernel::values::Kind;

/// The type of a value, without typedefs and qualifiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Nothing; what a `void *` leads to.
    Void,
    /// `true` or `false`, in one byte.
    Bool,
    /// A byte of a string.
    Char {
        /// Whether it is signed.
        signed: bool,
    },
    /// A number.
    Int {
        /// 1, 2, 4 or 8.
        size: usize,
        /// Whether it is signed.
        signed: bool,
    },
    /// A number with names.
    Enum {
        /// Its number in BTF.
        id: u32,
        /// 1, 2, 4 or 8.
        size: usize,
        /// Whether it is signed.
        signed: bool,
    },
    /// An index into [`LEVELS`].
    Level,
    /// Where a function returns to.
    Code,
    /// The address of something.
    Pointer(Rc<Type>),
    /// So many of something.
    Array(Rc<Type>, usize),
    /// A structure or a union.
    Struct {
        /// Its number in BTF.
        id: u32,
        /// Bytes.
        size: usize,
        /// For users.
        name: Rc<str>,
    },
    /// A type that no value of 64 bits has, or whose definition is not known; its name.
    Opaque(Rc<str>),
}

/// The types of the kernel, or of one of its modules.
#[derive(Default)]
pub struct Types {
    pub(super) btf: Option<Rc<Btf>>,
    enumerators: OnceCell<HashMap<String, (i64, u32)>>,
}

impl Types {
    /// Types of BTF, or those of C alone.
    pub fn new(btf: Option<Rc<Btf>>) -> Types {
        Types {
            btf,
            ..Types::default()
        }
    }

    /// The type with a number in BTF.
    pub fn of(&self, id: u32) -> Type {
        let known = self.btf.as_ref().and_then(|btf| self.of_btf(btf, id));
        known.unwrap_or_else(|| Type::Opaque("a type that BTF does not describe".into()))
    }

    fn of_btf(&self, btf: &Btf, outer: u32) -> Option<Type> {
        let (id, found) = bare(btf, outer)?;
        let of_size = |size| matches!(size, 1 | 2 | 4 | 8);
        Some(match &found {
            BtfForm::Void => Type::Void,
            BtfForm::Int(int) if int.is_bool() => Type::Bool,
            BtfForm::Int(int) if name(btf, int) == "char" => Type::Char {
                signed: int.is_signed(),
            },
            BtfForm::Int(int) if of_size(int.size()) => Type::Int {
                size: int.size(),
                signed: int.is_signed(),
            },
            BtfForm::Int(int) => Type::Opaque(name(btf, int).into()),
            BtfForm::Enum(of) => Type::Enum {
                id,
                size: of.size(),
                signed: of.is_signed(),
            },
            BtfForm::Enum64(of) => Type::Enum {
                id,
                size: of.size(),
                signed: of.is_signed(),
            },
            BtfForm::Ptr(to) => Type::Pointer(Rc::new(self.of(to.get_type_id()?))),
            BtfForm::Array(of) => Type::Array(Rc::new(self.of(of.get_type_id()?)), of.len()),
            BtfForm::Struct(of) => self.structure(btf, (outer, id), "struct", of.size(), of),
            BtfForm::Union(of) => self.structure(btf, (outer, id), "union", of.size(), of),
            BtfForm::Fwd(of) => {
                let keyword = if of.is_union() { "union" } else { "struct" };
                let tag = name(btf, of);
                let whole = self.tagged(keyword, &tag);
                whole.unwrap_or_else(|| Type::Opaque(format!("{keyword} {tag}").into()))
            }
            BtfForm::Func(_) | BtfForm::FuncProto(_) => Type::Opaque("a function".into()),
            BtfForm::Float(of) => Type::Opaque(name(btf, of).into()),
            _ => return None,
        })
    }

    /// A structure, by its tag; one without a tag by the typedef that led to it.
    fn structure(
        &self,
        btf: &Btf,
        (outer, id): (u32, u32),
        keyword: &str,
        size: usize,
        of: &dyn BtfType,
    ) -> Type {
        let mut shown = name(btf, of);
        shown = match shown.is_empty() {
            false => format!("{keyword} {shown}"),
            true => typedef_of(btf, outer).unwrap_or_else(|| format!("{keyword} {{...}}")),
        };
        Type::Struct {
            id,
            size,
            name: shown.into(),
        }
    }

    /// The definition that has a tag.
    fn tagged(&self, keyword: &str, tag: &str) -> Option<Type> {
        let btf = self.btf.as_ref()?;
        let ids = btf.resolve_ids_by_name(tag).ok()?;
        let fits = |id: &u32| {
            let found = btf.resolve_type_by_id(*id);
            matches!(
                (keyword, found),
                ("struct", Ok(BtfForm::Struct(_)))
                    | ("union", Ok(BtfForm::Union(_)))
                    | ("enum", Ok(BtfForm::Enum(_) | BtfForm::Enum64(_)))
            )
        };
        ids.into_iter().find(fits).map(|id| self.of(id))
    }

    fn typedef(&self, name: &str) -> Option<u32> {
        let btf = self.btf.as_ref()?;
        let ids = btf.resolve_ids_by_name(name).ok()?;
        let is = |id: &u32| matches!(btf.resolve_type_by_id(*id), Ok(BtfForm::Typedef(_)));
        ids.into_iter().find(is)
    }

    /// Whether a name is that of a type by itself.
    pub fn is_typedef(&self, name: &str) -> bool {
        self.typedef(name).is_some()
    }

    /// The type that is written so.
    ///
    /// # Errors
    /// There is none.
    pub fn named(&self, written: &TypeName) -> Result<Type, String> {
        let base = match &written.base {
            Base::Void => Type::Void,
            Base::Bool => Type::Bool,
            Base::Char => self.char(),
            Base::Int { size, signed } => Type::Int {
                size: *size,
                signed: *signed,
            },
            Base::Named(name) => match self.typedef(name) {
                Some(id) => self.of(id),
                None => return Err(format!("there is no type `{name}`")),
            },
            Base::Tagged(keyword, tag) => match self.tagged(keyword, tag) {
                Some(found) => found,
                None => return Err(self.no_tag(keyword, tag)),
            },
        };
        let pointer = |to, _| Type::Pointer(Rc::new(to));
        Ok((0..written.pointers).fold(base, pointer))
    }

    fn char(&self) -> Type {
        let btf = self.btf.as_ref();
        let ids = btf.and_then(|btf| btf.resolve_ids_by_name("char").ok());
        let known = ids.into_iter().flatten().map(|id| self.of(id));
        let mut known = known.filter(|found| matches!(found, Type::Char { .. }));
        known.next().unwrap_or(Type::Char { signed: true })
    }

    fn no_tag(&self, keyword: &str, tag: &str) -> String {
        let others = ["struct", "union", "enum"].into_iter();
        let other = others.filter(|other| *other != keyword);
        let mut other = other.filter(|other| self.tagged(other, tag).is_some());
        match (&self.btf, other.next()) {
            (None, _) => {
                "this kernel does not describe its types (BTF), so there are none but C's \
                          integers"
                    .into()
            }
            (_, Some(other)) => format!("`{tag}` is of another kind: write {other} {tag}"),
            (_, None) if self.typedef(tag).is_some() => {
                format!("there is no `{keyword} {tag}`: `{tag}` is a typedef, write it alone")
            }
            _ => format!("there is no `{keyword} {tag}` in the types of the kernel or the module"),
        }
    }

    /// Whether a value names a file in its file system.
    pub fn is_path(&self, ty: &Type) -> bool {
        matches!(ty, Type::Struct { name, .. } if &**name == "struct path")
    }

    /// Bytes of a value; `None`: not known.
    pub fn size(&self, ty: &Type) -> Option<u64> {
        Some(match ty {
            // As GNU C has it.
            Type::Void | Type::Bool | Type::Char { .. } => 1,
            Type::Int { size, .. } | Type::Enum { size, .. } | Type::Struct { size, .. } => {
                *size as u64
            }
            Type::Level => 4,
            Type::Code => 8,
            Type::Pointer(_) => 8,
            Type::Array(of, n) => self.size(of)?.checked_mul(*n as u64)?,
            Type::Opaque(_) => return None,
        })
    }

    /// The value and the type of an enumerator of any enum.
    pub fn enumerator(&self, name: &str) -> Option<(i64, Type)> {
        let (value, id) = *self.enumerators.get_or_init(|| self.index()).get(name)?;
        Some((value, self.of(id)))
    }

    fn index(&self) -> HashMap<String, (i64, u32)> {
        let mut all = HashMap::new();
        let Some(btf) = self.btf.as_ref() else {
            return all;
        };
        let (_, last) = btf.split().unwrap_or_else(|| btf.base()).type_id_range();
        // A module's own stand behind the kernel's, and count before them.
        for id in (0..=last).rev() {
            let Ok(found @ (BtfForm::Enum(_) | BtfForm::Enum64(_))) = btf.resolve_type_by_id(id)
            else {
                continue;
            };
            for (value, name) in enumerators(btf, &found).into_iter().flatten() {
                all.entry(name).or_insert((value, id));
            }
        }
        all
    }

    /// The value of an enumerator of this enum.
    pub fn own_enumerator(&self, of: &Type, wanted: &str) -> Option<i64> {
        match self.kind(of) {
            Kind::Enum { names, .. } => {
                let mut names = names.into_iter();
                Some(names.find(|(_, name)| name == wanted)?.0)
            }
            _ => None,
        }
    }

    /// How a value is shown.
    pub fn kind(&self, ty: &Type) -> Kind {
        let int = |size, signed| Kind::Int { size, signed };
        match ty {
            Type::Bool => Kind::Bool,
            Type::Char { signed } => int(1, *signed),
            Type::Int { size, signed } => int(*size, *signed),
            Type::Enum { id, size, signed } => {
                let known = self.btf.as_ref().and_then(|btf| kind(btf, *id));
                known.flatten().unwrap_or_else(|| int(*size, *signed))
            }
            Type::Level => Kind::Enum {
                size: 4,
                signed: false,
                names: (0..).zip(LEVELS.iter().map(|&name| name.into())).collect(),
            },
            Type::Struct { size, .. } => Kind::Whole(*size),
            Type::Void | Type::Opaque(_) => Kind::Whole(0),
            Type::Pointer(_) | Type::Array(..) | Type::Code => Kind::Pointer,
        }
    }

    /// For users: the type as C has it, or nearly.
    pub fn name(&self, ty: &Type) -> String {
        match ty {
            Type::Void => "void".into(),
            Type::Bool => "bool".into(),
            Type::Char { .. } => "char".into(),
            Type::Int { size, signed } => {
                format!("{}{}", if *signed { "s" } else { "u" }, 8 * size)
            }
            Type::Enum { id, .. } => self.enum_name(*id),
            Type::Level => "level".into(),
            Type::Code => "code".into(),
            Type::Pointer(to) => match self.name(to) {
                to if to.ends_with('*') => format!("{to}*"),
                to => format!("{to} *"),
            },
            Type::Array(of, n) => format!("{}[{n}]", self.name(of)),
            Type::Struct { name, .. } | Type::Opaque(name) => name.to_string(),
        }
    }

    fn enum_name(&self, id: u32) -> String {
        let btf = self.btf.as_ref();
        let found = btf.and_then(|btf| Some((btf, btf.resolve_type_by_id(id).ok()?)));
        let known = found.and_then(|(btf, found)| Some(name(btf, found.as_btf_type()?)));
        match known {
            Some(known) if !known.is_empty() => format!("enum {known}"),
            _ => "enum".into(),
        }
    }
}

/// The last typedef on the way to a type.
fn typedef_of(btf: &Btf, outer: u32) -> Option<String> {
    let (mut id, mut last) = (outer, None);
    loop {
        let found = btf.resolve_type_by_id(id).ok()?;
        match &found {
            BtfForm::Typedef(of) => last = Some(name(btf, of)),
            BtfForm::Volatile(_) | BtfForm::Const(_) | BtfForm::Restrict(_) => {}
            BtfForm::TypeTag(_) => {}
            _ => return last,
        }
        id = found.as_btf_type()?.get_type_id()?;
    }
}
