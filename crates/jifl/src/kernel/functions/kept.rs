// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of the running kernel and ftrace's sites as a file keeps them (`kernel::kept`).
//!
//! Numbers stand in columns, and names in one piece of text: so 50,000 functions are there at once.

use prost::Message;

use super::{Function, Functions, Sites};
use crate::kernel::kept::KeptFile;

/// The file.
pub const FILE: KeptFile = KeptFile {
    name: "functions",
    magic: "jifl functions 5",
};

#[derive(Clone, PartialEq, Message)]
struct Columns {
    #[prost(fixed64, repeated, tag = "1")]
    addresses: Vec<u64>,
    /// Bytes of names; one behind the other they are `names`.
    #[prost(fixed32, repeated, tag = "2")]
    lengths: Vec<u32>,
    /// Places in `module_names`, behind 0 for the kernel itself.
    #[prost(fixed32, repeated, tag = "3")]
    modules: Vec<u32>,
    #[prost(string, tag = "4")]
    names: String,
    #[prost(string, repeated, tag = "5")]
    module_names: Vec<String>,
    #[prost(fixed64, repeated, tag = "6")]
    sites: Vec<u64>,
}

/// `None`: not both lists are known.
pub fn bytes(functions: &Functions) -> Option<Vec<u8>> {
    let Sites::Addresses(sites) = &functions.sites else {
        return None;
    };
    let mut columns = Columns {
        sites: sites.clone(),
        ..Columns::default()
    };
    let mut known: Vec<&str> = Vec::new();
    for one in functions.all.iter().chain(&functions.parts) {
        columns.addresses.push(one.address);
        columns.lengths.push(one.name.len() as u32);
        columns.names += &one.name;
        let place = one.module.as_deref().map_or(0, |module| {
            let place = known.iter().rposition(|name| *name == module);
            place.unwrap_or_else(|| {
                known.push(module);
                known.len() - 1
            }) + 1
        });
        columns.modules.push(place as u32);
    }
    columns.module_names = known.into_iter().map(str::to_owned).collect();
    Some(columns.encode_to_vec())
}

/// `None`: these are no such bytes.
pub fn parsed(bytes: &[u8]) -> Option<Functions> {
    let columns = Columns::decode(bytes).ok()?;
    let number = columns.addresses.len();
    if [columns.lengths.len(), columns.modules.len()] != [number; 2] {
        return None;
    }
    let mut all = Vec::with_capacity(number);
    let mut names = columns.names.as_str();
    let rest = columns.lengths.iter().zip(&columns.modules);
    for (address, (length, module)) in columns.addresses.iter().zip(rest) {
        let (name, behind) = names.split_at_checked(*length as usize)?;
        names = behind;
        let module = match (*module as usize).checked_sub(1) {
            Some(place) => Some(columns.module_names.get(place)?.clone()),
            None => None,
        };
        all.push(Function {
            address: *address,
            name: name.to_owned(),
            module,
        });
    }
    Some(Functions::of(
        all.into_iter(),
        Sites::Addresses(columns.sites),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn the_same_comes_back() {
        let functions = sample();
        let back = parsed(&bytes(&functions).unwrap()).unwrap();
        assert_eq!(back.all, functions.all);
        assert_eq!(back.parts, functions.parts);
        assert!(!back.parts.is_empty());
        assert!(back.all.iter().any(|one| one.module.is_some()));
        for one in &functions.all {
            assert_eq!(back.may_have_site(one), functions.may_have_site(one));
        }
    }

    #[test]
    fn without_sites_nothing_is_kept() {
        assert!(bytes(&Functions::default()).is_none());
    }

    #[test]
    fn what_is_damaged_is_nothing() {
        let good = Columns::decode(bytes(&sample()).unwrap().as_slice()).unwrap();
        assert!(parsed(&good.encode_to_vec()).is_some());
        let damages: [fn(&mut Columns); 5] = [
            |one| one.names.truncate(3),
            |one| one.lengths[0] += 1000,
            |one| one.modules[0] = 100,
            |one| one.lengths.truncate(2),
            |one| one.modules.truncate(2),
        ];
        for (index, damage) in damages.iter().enumerate() {
            let mut bad = good.clone();
            damage(&mut bad);
            assert!(parsed(&bad.encode_to_vec()).is_none(), "{index}");
        }
        assert!(parsed(b"other bytes").is_none());
    }
}
