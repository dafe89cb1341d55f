// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own description of its types (BTF), and those of its modules.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::rc::Rc;

use btf_rs::{Backend, Btf, BtfType, Type};
use rustix::fs::{MemfdFlags, memfd_create};

use super::values::Kind;

/// The kernel's own types, and the types of modules by the modules' names.
const FOLDER: &str = "/sys/kernel/btf";

/// So many times the kernel's types are asked for before all of them are parsed. To look for a name
/// among types that are not parsed takes about a hundredth of parsing them.
const MANY: u32 = 64;

/// The types of the kernel, and of its modules as far as they have been asked for.
pub struct All {
    kernel: RefCell<Rc<Btf>>,
    /// What the kernel's types are parsed from, one by one.
    unparsed: Option<File>,
    asked: Cell<u32>,
    modules: RefCell<HashMap<String, Option<Rc<Btf>>>>,
}

impl All {
    /// The types of the running kernel.
    ///
    /// # Errors
    /// Why nothing is known.
    pub fn of_kernel() -> Result<All, String> {
        let path = Path::new(FOLDER).join("vmlinux");
        let data = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if let Some((kernel, unparsed)) = mapped(&data) {
            return Ok(All {
                unparsed: Some(unparsed),
                ..All::of(kernel)
            });
        }
        let kernel = Btf::from_bytes(&data);
        let kernel = kernel.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(All::of(kernel))
    }

    /// These types of a kernel.
    pub fn of(kernel: Btf) -> All {
        All {
            kernel: RefCell::new(Rc::new(kernel)),
            unparsed: None,
            asked: Cell::default(),
            modules: RefCell::default(),
        }
    }

    /// The kernel's, to look for a name.
    pub fn kernel(&self) -> Rc<Btf> {
        self.asked.set(self.asked.get() + 1);
        if self.asked.get() == MANY {
            let unparsed = self.unparsed.as_ref();
            let whole = unparsed.and_then(|file| Btf::from_file(path(file)).ok());
            if let Some(whole) = whole {
                self.kernel.replace(Rc::new(whole));
            }
        }
        self.kernel.borrow().clone()
    }

    /// A module's, on top of the kernel's; `None`: it has none.
    pub fn module(&self, name: &str) -> Option<Rc<Btf>> {
        let mut modules = self.modules.borrow_mut();
        let open = || {
            let data = std::fs::read(Path::new(FOLDER).join(name)).ok()?;
            Some(Rc::new(
                Btf::from_split_bytes(&data, &self.kernel.borrow()).ok()?,
            ))
        };
        modules.entry(name.to_owned()).or_insert_with(open).clone()
    }

    /// Types of a module that is not asked for at the kernel.
    #[cfg(test)]
    pub fn add(&self, module: &str, btf: Btf) {
        let mut modules = self.modules.borrow_mut();
        modules.insert(module.to_owned(), Some(Rc::new(btf)));
    }
}

/// The types, each parsed when it is asked for, which a kernel has 130,000 of; and the file that
/// they are in. A file of /sys cannot be mapped on kernels before 6.16, and a copy in memory can.
fn mapped(data: &[u8]) -> Option<(Btf, File)> {
    let copy = memfd_create("btf", MemfdFlags::CLOEXEC).ok()?;
    let mut copy = File::from(copy);
    copy.write_all(data).ok()?;
    let types = Btf::from_file_with_backend(path(&copy), Backend::Mmap).ok()?;
    Some((types, copy))
}

/// A path under which this process can open the file again.
fn path(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// The type behind typedefs and qualifiers, and its number. `None` if it is unknown.
pub fn bare(btf: &Btf, id: u32) -> Option<(u32, Type)> {
    let mut id = id;
    loop {
        let found = btf.resolve_type_by_id(id).ok()?;
        let (Type::Typedef(_)
        | Type::Volatile(_)
        | Type::Const(_)
        | Type::Restrict(_)
        | Type::TypeTag(_)) = &found
        else {
            return Some((id, found));
        };
        id = found.as_btf_type()?.get_type_id()?;
    }
}

/// The name of a type, a member or an enumerator; empty if it has none.
pub fn name(btf: &Btf, of: &dyn BtfType) -> String {
    btf.resolve_name(of).unwrap_or_default()
}

/// The values of an enum by their names, in their order; `None`: the type is none.
pub fn enumerators(btf: &Btf, of: &Type) -> Option<Vec<(i64, String)>> {
    Some(match of {
        Type::Enum(of) => {
            let value = |value: u32| match of.is_signed() {
                true => i64::from(value as i32),
                false => i64::from(value),
            };
            let members = of.members.iter();
            members
                .map(|member| (value(member.val()), name(btf, member)))
                .collect()
        }
        Type::Enum64(of) => {
            let members = of.members.iter();
            members
                .map(|member| (member.val() as i64, name(btf, member)))
                .collect()
        }
        _ => return None,
    })
}

/// The type behind typedefs and qualifiers; `Some(None)`: void. `None` if it is unknown.
pub fn kind(btf: &Btf, id: u32) -> Option<Option<Kind>> {
    let (_, found) = bare(btf, id)?;
    let names = enumerators(btf, &found).unwrap_or_default();
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
            names,
        },
        Type::Enum64(of) => Kind::Enum {
            size: of.size(),
            signed: of.is_signed(),
            names,
        },
        Type::Ptr(_) | Type::Array(_) => Kind::Pointer,
        Type::Struct(of) | Type::Union(of) => Kind::Whole(of.size()),
        _ => return None,
    }))
}
