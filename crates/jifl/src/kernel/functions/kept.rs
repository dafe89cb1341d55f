// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of the running kernel and ftrace's sites as a file keeps them (`kernel::kept`).

use super::{Function, Functions, Sites};
use crate::kernel::kept::KeptFile;

/// The file.
pub const FILE: KeptFile = KeptFile {
    name: "functions",
    magic: "jifl functions 3",
};

/// `None`: not both lists are known.
pub fn bytes(functions: &Functions) -> Option<Vec<u8>> {
    let Sites::Addresses(sites) = &functions.sites else {
        return None;
    };
    let mut text = String::new();
    for one in functions.all.iter().chain(&functions.parts) {
        let module = one.module.as_deref().unwrap_or_default();
        text += &format!("{:x} {} {module}\n", one.address, one.name);
    }
    text += "\n";
    for site in sites {
        text += &format!("{site:x}\n");
    }
    Some(text.into_bytes())
}

/// `None`: these are no such bytes.
pub fn parsed(bytes: &[u8]) -> Option<Functions> {
    let (functions, sites) = std::str::from_utf8(bytes).ok()?.split_once("\n\n")?;
    let all: Option<Vec<Function>> = functions.lines().map(function).collect();
    let sites = sites.lines();
    let sites: Result<Vec<u64>, _> = sites.map(|line| u64::from_str_radix(line, 16)).collect();
    Some(Functions::of(
        all?.into_iter(),
        Sites::Addresses(sites.ok()?),
    ))
}

fn function(line: &str) -> Option<Function> {
    let mut words = line.split(' ');
    Some(Function {
        address: u64::from_str_radix(words.next()?, 16).ok()?,
        name: words.next()?.to_owned(),
        module: words
            .next()
            .filter(|name| !name.is_empty())
            .map(str::to_owned),
    })
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
        for one in &functions.all {
            assert_eq!(back.may_have_site(one), functions.may_have_site(one));
        }
    }

    #[test]
    fn without_sites_nothing_is_kept() {
        assert!(bytes(&Functions::default()).is_none());
    }
}
