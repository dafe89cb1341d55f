// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a function takes and returns, in words that can be compared: from the kernel's types (BTF),
//! and from the debug information in the file of a module, which has no BTF if it was built without
//! a vmlinux.
//!
//! Both kinds of words are made by the same rules. Typedefs and qualifiers are left out, numbers are
//! told by their size and sign, structures and enums by their names. So a difference in a name
//! counts as one, and a difference in what a structure of that name has does not.

use btf_rs::{Btf, BtfType, FuncProto, Type};
use gimli::{AttributeValue, DwTag, Dwarf, EntriesTreeNode, Reader, Unit, UnitOffset};
use gimli::{DW_AT_abstract_origin, DW_AT_byte_size, DW_AT_encoding, DW_AT_name, DW_AT_type};

use super::btf;
use super::lines::debug_of;

/// Types within types are looked at so deep: more than any prototype has.
const DEPTH: usize = 16;

/// `RESULT (TYPE, TYPE, ...)`
fn text(result: &str, parameters: &[String], variadic: bool) -> String {
    let mut all = parameters.to_vec();
    if variadic {
        all.push("...".into());
    }
    format!("{result} ({})", all.join(", "))
}

fn number(bytes: u64, signed: bool) -> String {
    format!("{}{}", if signed { "s" } else { "u" }, bytes * 8)
}

fn pointer(to: &str) -> String {
    format!("{to} *")
}

/// What is called by a name, which typedefs give to what has none of its own.
fn named(what: &str, own: &str, typedef: &str) -> String {
    let name = match own {
        "" => typedef,
        own => own,
    };
    format!("{what} {name}").trim_end().to_owned()
}

// --- BTF -----------------------------------------------------------------------------------------

/// A function's, from BTF; `None`: a type is not known.
pub fn of_btf(types: &Btf, proto: &FuncProto) -> Option<String> {
    let word = |id| btf_word(types, id, "", DEPTH);
    let is_fixed = |one: &&btf_rs::Parameter| !one.is_variadic();
    let parameters = proto.parameters.iter().filter(is_fixed);
    let parameters: Option<Vec<String>> = parameters.map(|one| word(one.get_type_id()?)).collect();
    let variadic = proto.parameters.iter().any(btf_rs::Parameter::is_variadic);
    Some(text(&word(proto.return_type_id())?, &parameters?, variadic))
}

/// `typedef`: the last one on the way here.
fn btf_word(types: &Btf, id: u32, typedef: &str, depth: usize) -> Option<String> {
    let found = types.resolve_type_by_id(id).ok()?;
    let depth = depth.checked_sub(1)?;
    let to = |typedef: &str| btf_word(types, found.as_btf_type()?.get_type_id()?, typedef, depth);
    Some(match &found {
        Type::Void => "void".into(),
        Type::Int(int) if int.is_bool() => "bool".into(),
        Type::Int(int) => number(int.size() as u64, int.is_signed()),
        Type::Float(of) => format!("float{}", of.size() * 8),
        Type::Ptr(_) => pointer(&to("")?),
        Type::Array(_) => "array".into(),
        Type::FuncProto(_) => "function".into(),
        Type::Struct(of) => named("struct", &btf::name(types, of), typedef),
        Type::Union(of) => named("union", &btf::name(types, of), typedef),
        Type::Fwd(of) => {
            let what = if of.is_union() { "union" } else { "struct" };
            named(what, &btf::name(types, of), typedef)
        }
        Type::Enum(of) => named("enum", &btf::name(types, of), typedef),
        Type::Enum64(of) => named("enum", &btf::name(types, of), typedef),
        Type::Typedef(of) => to(&btf::name(types, of))?,
        Type::Const(_) | Type::Volatile(_) | Type::Restrict(_) | Type::TypeTag(_) => to(typedef)?,
        _ => return None,
    })
}

// --- debug information ---------------------------------------------------------------------------

/// A function's, from the debug information in a module's file. `None`: it has none, or does not
/// tell.
pub fn of_file(bytes: &[u8], function: &str) -> Option<String> {
    let dwarf = debug_of(bytes)?;
    let mut units = dwarf.units();
    while let Some(header) = units.next().ok()? {
        let unit = dwarf.unit(header).ok()?;
        if let Some(found) = in_unit(&dwarf, &unit, function) {
            return Some(found);
        }
    }
    None
}

fn in_unit<R: Reader>(dwarf: &Dwarf<R>, unit: &Unit<R>, function: &str) -> Option<String> {
    let mut tree = unit.entries_tree(None).ok()?;
    let mut top = tree.root().ok()?.children();
    while let Some(node) = top.next().ok()? {
        let entry = node.entry();
        if entry.tag() != gimli::DW_TAG_subprogram
            || name_of(dwarf, unit, entry).as_deref() != Some(function)
            || entry.attr(gimli::DW_AT_declaration).ok()?.is_some()
            || entry.attr(DW_AT_abstract_origin).ok()?.is_some()
        {
            continue;
        }
        let result = word_behind(dwarf, unit, entry, "", DEPTH)?;
        return parameters(dwarf, unit, node)
            .map(|(parameters, variadic)| text(&result, &parameters, variadic));
    }
    None
}

fn parameters<R: Reader>(
    dwarf: &Dwarf<R>,
    unit: &Unit<R>,
    node: EntriesTreeNode<'_, '_, '_, R>,
) -> Option<(Vec<String>, bool)> {
    let (mut all, mut variadic) = (Vec::new(), false);
    let mut children = node.children();
    while let Some(child) = children.next().ok()? {
        let entry = child.entry();
        match entry.tag() {
            gimli::DW_TAG_formal_parameter => {
                all.push(word_behind(dwarf, unit, entry, "", DEPTH)?);
            }
            gimli::DW_TAG_unspecified_parameters => variadic = true,
            _ => {}
        }
    }
    Some((all, variadic))
}

type Entry<'a, 'u, R> = gimli::DebuggingInformationEntry<'a, 'u, R>;

fn name_of<R: Reader>(
    dwarf: &Dwarf<R>,
    unit: &Unit<R>,
    entry: &Entry<'_, '_, R>,
) -> Option<String> {
    let value = entry.attr_value(DW_AT_name).ok()??;
    let name = dwarf.attr_string(unit, value).ok()?;
    Some(name.to_string_lossy().ok()?.into_owned())
}

/// The word of the type that an entry names; without one it is void.
fn word_behind<R: Reader>(
    dwarf: &Dwarf<R>,
    unit: &Unit<R>,
    entry: &Entry<'_, '_, R>,
    typedef: &str,
    depth: usize,
) -> Option<String> {
    match entry.attr_value(DW_AT_type).ok()? {
        None => Some("void".into()),
        Some(AttributeValue::UnitRef(at)) => dwarf_word(dwarf, unit, at, typedef, depth),
        Some(_) => None,
    }
}

fn dwarf_word<R: Reader>(
    dwarf: &Dwarf<R>,
    unit: &Unit<R>,
    at: UnitOffset<R::Offset>,
    typedef: &str,
    depth: usize,
) -> Option<String> {
    let entry = unit.entry(at).ok()?;
    let depth = depth.checked_sub(1)?;
    let own = name_of(dwarf, unit, &entry).unwrap_or_default();
    let to = |typedef: &str| word_behind(dwarf, unit, &entry, typedef, depth);
    Some(match entry.tag() {
        gimli::DW_TAG_base_type => base(&entry)?,
        gimli::DW_TAG_pointer_type => pointer(&to("")?),
        gimli::DW_TAG_array_type => "array".into(),
        gimli::DW_TAG_subroutine_type => "function".into(),
        gimli::DW_TAG_structure_type => named("struct", &own, typedef),
        gimli::DW_TAG_union_type => named("union", &own, typedef),
        gimli::DW_TAG_enumeration_type => named("enum", &own, typedef),
        gimli::DW_TAG_typedef => to(&own)?,
        tag if is_qualifier(tag) => to(typedef)?,
        _ => return None,
    })
}

fn is_qualifier(tag: DwTag) -> bool {
    [
        gimli::DW_TAG_const_type,
        gimli::DW_TAG_volatile_type,
        gimli::DW_TAG_restrict_type,
        gimli::DW_TAG_atomic_type,
    ]
    .contains(&tag)
}

fn base<R: Reader>(entry: &Entry<'_, '_, R>) -> Option<String> {
    let bytes = entry.attr_value(DW_AT_byte_size).ok()??.udata_value()?;
    let Some(AttributeValue::Encoding(encoding)) = entry.attr_value(DW_AT_encoding).ok()? else {
        return None;
    };
    Some(match encoding {
        gimli::DW_ATE_boolean => "bool".into(),
        gimli::DW_ATE_float => format!("float{}", bytes * 8),
        gimli::DW_ATE_signed | gimli::DW_ATE_signed_char => number(bytes, true),
        gimli::DW_ATE_unsigned | gimli::DW_ATE_unsigned_char => number(bytes, false),
        _ => return None,
    })
}
