// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types as C writes them.

use std::ops::Range;

/// A type as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeName {
    /// Where it stands.
    pub span: Range<usize>,
    /// What pointers lead to, or the type itself.
    pub base: Base,
    /// Number of `*`.
    pub pointers: usize,
}

/// A type without `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// `struct`, `union` or `enum`, and the name behind it.
    Tagged(&'static str, String),
    /// A typedef.
    Named(String),
    /// An integer.
    Int {
        /// Bytes.
        size: usize,
        /// Whether it is signed.
        signed: bool,
    },
    /// `char`
    Char,
    /// `bool`
    Bool,
    /// `void`
    Void,
}

/// The integer types that have a name of one word without any definition.
pub fn integer(name: &str) -> Option<Base> {
    let (size, signed) = match name.trim_start_matches("__") {
        "u8" | "uint8_t" => (1, false),
        "u16" | "uint16_t" => (2, false),
        "u32" | "uint32_t" => (4, false),
        "u64" | "uint64_t" | "size_t" | "uintptr_t" => (8, false),
        "s8" | "int8_t" => (1, true),
        "s16" | "int16_t" => (2, true),
        "s32" | "int32_t" => (4, true),
        "s64" | "int64_t" | "ssize_t" => (8, true),
        _ => return None,
    };
    Some(Base::Int { size, signed })
}

/// Whether a name is always part of a type.
pub fn is_word_of_types(name: &str) -> bool {
    matches!(
        name,
        "struct" | "union" | "enum" | "const" | "volatile" | "unsigned" | "signed" | "int" | "char"
    ) || matches!(name, "short" | "long" | "void" | "bool" | "_Bool")
}

/// The type that words as `unsigned`, `long`, `int` make.
pub fn of_words(words: &[String]) -> Option<Base> {
    let count = |word: &str| words.iter().filter(|one| *one == word).count();
    let (long, short, int) = (count("long"), count("short"), count("int"));
    let (signed, unsigned) = (count("signed"), count("unsigned"));
    let signs = signed + unsigned;
    let sized = |size, signed| Some(Base::Int { size, signed });
    match (words, count("char")) {
        ([one], _) if one == "void" => Some(Base::Void),
        ([one], _) if one == "bool" || one == "_Bool" => Some(Base::Bool),
        ([_], 1) => Some(Base::Char),
        ([_, _], 1) if signs == 1 => sized(1, signed == 1),
        (_, 0) if signs <= 1 && int <= 1 && words.len() == signs + int + long + short => {
            match (long, short) {
                (0, 0) if words.is_empty() => None,
                (0, 0) => sized(4, unsigned == 0),
                (1 | 2, 0) => sized(8, unsigned == 0),
                (0, 1) => sized(2, unsigned == 0),
                _ => None,
            }
        }
        _ => None,
    }
}
