// SPDX-License-Identifier: MIT OR Apache-2.0
//! The code of the functions that were executed, in a recording (`jifl record --code`): with it
//! the recording is analysed anywhere (`jifl cfg`, `jifl analyze`).
//!
//! It is text as it stood when the session was over, without the patches of tracers and JIFL, with
//! names and the kernel's tables about it ([`jifl_code::part`]). All addresses are those of the
//! boot that was recorded, as text: JSON's numbers are not that exact everywhere. Bytes are in
//! hexadecimal, which zlib packs better than base64.
//!
//! Whatever stands here may be wrong. The analysis believes the bytes, and nothing else.

use std::collections::BTreeMap;

use jifl_code::image::{Fixup, Image, Symbol, Tables, Text};
use serde::{Deserialize, Serialize};

use crate::kernel::images::{KERNEL, hex};

/// Kernels have nothing below: the higher half of addresses.
const LOWEST: u64 = 1 << 63;

/// The code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// By the name of the module, `vmlinux` for the kernel: bytes, by the address of the first.
    text: BTreeMap<String, BTreeMap<Address, String>>,
    /// Names of functions in it, and of what they call; with `T` before a global one, else `t`.
    names: BTreeMap<Address, Vec<String>>,
    /// Fixups of exceptions: instruction, where it goes on, and what a register is set to.
    fixups: Vec<Entry>,
    /// ud2 that are warnings.
    warnings: Option<Vec<Address>>,
    /// Jump labels: where they stand, and where each leads when its key is the other way.
    keys: Vec<(Address, Address)>,
    /// Sites of static calls.
    static_calls: Vec<Address>,
    /// Text that nothing instruments.
    noinstr: Vec<(Address, Address)>,
}

type Entry = (Address, Address, Option<(u8, i64)>);

/// `0xffffffff81000000`
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Address(u64);

impl From<Address> for String {
    fn from(address: Address) -> String {
        format!("{:#x}", address.0)
    }
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Address, String> {
        let digits = text.strip_prefix("0x");
        let address = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        address.map(Address).ok_or(format!("{text}: no address"))
    }
}

/// The bytes of hexadecimal digits.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pair = |place| u8::from_str_radix(digits.get(place..place + 2)?, 16).ok();
    let all = (0..digits.len()).step_by(2).map(pair);
    all.collect::<Option<Vec<u8>>>()
        .filter(|_| digits.len() % 2 == 0)
}

impl Code {
    /// Of a part of the running kernel.
    pub fn of(part: &Image) -> Code {
        let mut code = Code::default();
        for text in &part.texts {
            let module = code.text.entry(part.modules[text.module].clone());
            module
                .or_default()
                .insert(Address(text.address), hex(&text.bytes));
        }
        for symbol in &part.symbols {
            let kind = if symbol.is_global { 'T' } else { 't' };
            let names = code.names.entry(Address(symbol.address)).or_default();
            names.push(format!("{kind}{}", symbol.name));
        }
        let list = |all: &[u64]| all.iter().copied().map(Address).collect::<Vec<_>>();
        let tables = &part.tables;
        let fixups = tables.fixups.iter();
        code.fixups = fixups
            .map(|own| (Address(own.at), Address(own.to), own.sets))
            .collect();
        code.warnings = tables.warnings.as_deref().map(list);
        let keys = tables.keys.iter();
        code.keys = keys.map(|(at, to)| (Address(*at), Address(*to))).collect();
        code.static_calls = list(&tables.static_calls);
        let ranges = tables.untouchable.iter();
        code.noinstr = ranges
            .map(|own| (Address(own.start), Address(own.end)))
            .collect();
        code
    }

    /// As an image, which can be analysed.
    pub fn image(&self) -> Image {
        // The kernel is the first, also where nothing of it was executed.
        let others = self.text.keys().filter(|module| *module != KERNEL);
        let mut image = Image {
            modules: [KERNEL.to_owned()]
                .into_iter()
                .chain(others.cloned())
                .collect(),
            ..Image::default()
        };
        for (module, texts) in &self.text {
            let index = image.modules.iter().position(|own| own == module);
            let index = index.unwrap_or(0);
            image
                .texts
                .extend(texts.iter().map(|(address, digits)| Text {
                    address: address.0,
                    bytes: bytes(digits).unwrap_or_default(),
                    module: index,
                    is_aside: false,
                }));
        }
        for (address, names) in &self.names {
            image.symbols.extend(names.iter().map(|name| Symbol {
                address: address.0,
                name: name.get(1..).unwrap_or_default().to_owned(),
                is_global: name.starts_with('T'),
            }));
        }
        let list = |all: &[Address]| all.iter().map(|own| own.0).collect::<Vec<_>>();
        let fixups = self.fixups.iter();
        let ranges = self.noinstr.iter();
        image.tables = Tables {
            fixups: fixups
                .map(|(at, to, sets)| Fixup {
                    at: at.0,
                    to: to.0,
                    sets: *sets,
                })
                .collect(),
            warnings: self.warnings.as_deref().map(list),
            keys: self.keys.iter().map(|(at, to)| (at.0, to.0)).collect(),
            static_calls: list(&self.static_calls),
            untouchable: ranges.map(|(from, to)| from.0..to.0).collect(),
            ..Tables::default()
        };
        image.put_in_order();
        image
    }

    /// Names are shown on terminals, bytes are pairs of digits, text is where a kernel's may be.
    pub fn is_plain(&self) -> bool {
        let fits = |(at, digits): (&Address, &String)| {
            at.0 >= LOWEST && at.0.checked_add(digits.len() as u64).is_some()
        };
        let plain = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic());
        self.text.keys().all(|module| plain(module))
            && self
                .names
                .values()
                .flatten()
                .all(|name| plain(name) && name.len() > 1)
            && self.text.values().flatten().all(fits)
            && self
                .text
                .values()
                .flat_map(BTreeMap::values)
                .all(|digits| bytes(digits).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jifl_code::part::part;

    fn image() -> Image {
        let mut image = Image::of_text(
            0xffff_ffff_8100_0000,
            vec![0x74, 0x01, 0xc3, 0x0f, 0x0b, 0xc3],
            &[(0xffff_ffff_8100_0000, "Tuple")],
        );
        image.symbols[0].is_global = false;
        let at = |offset: u64| 0xffff_ffff_8100_0000 + offset;
        let tables = &mut image.tables;
        tables.fixups = vec![Fixup {
            at: at(0),
            to: at(5),
            sets: Some((2, -14)),
        }];
        tables.warnings = Some(vec![at(3)]);
        tables.keys = vec![(at(0), at(3))];
        tables.static_calls = vec![at(2)];
        tables.untouchable = std::iter::once(at(0)..at(1)).collect();
        image
    }

    #[test]
    fn code_is_read_as_it_was_written() {
        let part = part(&image(), [0xffff_ffff_8100_0003].into_iter());
        let code = Code::of(&part);
        let json = serde_json::to_string(&code).unwrap();
        let read: Code = serde_json::from_str(&json).unwrap();
        assert!(read.is_plain() && read == code);
        assert_eq!(read.image(), part);
        assert_eq!(read.image().symbols, image().symbols);
        assert!(
            json.contains(r#""0xffffffff81000000":"7401c30f0bc3""#),
            "{json}"
        );
    }

    #[test]
    fn what_is_no_code_is_told() {
        let code = Code::of(&image());
        let mut odd = code.clone();
        odd.text
            .get_mut("vmlinux")
            .unwrap()
            .insert(Address(LOWEST), "c3c".into());
        let mut other = code.clone();
        other
            .text
            .get_mut("vmlinux")
            .unwrap()
            .insert(Address(LOWEST), "é".into());
        let mut control = code.clone();
        control.names.insert(Address(1), vec!["Ta\u{1b}".into()]);
        let mut none = code.clone();
        none.names.insert(Address(1), vec!["T".into()]);
        let mut low = code.clone();
        low.text
            .get_mut("vmlinux")
            .unwrap()
            .insert(Address(0x1000), "c3".into());
        let mut high = code.clone();
        high.text
            .get_mut("vmlinux")
            .unwrap()
            .insert(Address(u64::MAX), "c3".into());
        for wrong in [odd, other, control, none, low, high] {
            assert!(!wrong.is_plain(), "{wrong:?}");
            _ = wrong.image();
        }
        let wrong =
            r#"{"text":{},"names":{"81":[]},"fixups":[],"keys":[],"static_calls":[],"noinstr":[]}"#;
        assert!(serde_json::from_str::<Code>(wrong).is_err());
    }
}
