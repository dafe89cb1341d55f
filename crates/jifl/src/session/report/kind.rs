// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of the things that sessions count, in recordings.

use jifl_sys::abi::Kind;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

pub fn serialize<S: Serializer>(kind: &Kind, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(kind.name())
}

pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Kind, D::Error> {
    let name = String::deserialize(from)?;
    let mut all = Kind::ALL.iter().copied();
    all.find(|kind| kind.name() == name)
        .ok_or_else(|| D::Error::custom(format!("{name:?} is nothing that is counted")))
}
