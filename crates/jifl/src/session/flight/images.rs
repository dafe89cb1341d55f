// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the code of the recorded kernel lies: addresses as names, whichever kernel reads them.

use std::fs;
use std::sync::OnceLock;

use jifl_sys::abi::{FLIGHT_PAGE, FlightImage, from_name};

use super::Memory;
use super::fields;
use super::head::Head;
use crate::kernel::images;
use crate::kernel::symbols::Symbols;

/// A piece of code.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Image {
    /// vmlinux, or the module.
    name: String,
    base: u64,
    size: u64,
}

/// The kernel, and its modules, loaded when it ended or earlier.
#[derive(Debug, Clone, Default)]
pub struct Images {
    all: Vec<Image>,
    /// The running kernel has the same code.
    is_own: bool,
}

/// The running kernel's symbols.
fn symbols() -> &'static Symbols {
    static SYMBOLS: OnceLock<Symbols> = OnceLock::new();
    SYMBOLS.get_or_init(Symbols::of_kernel)
}

impl Images {
    /// Those of a recording. They are for names alone: those that cannot be read are left out.
    pub fn of(head: &Head, memory: &mut impl Memory) -> Images {
        let raw = head.raw();
        let mut table = vec![0; raw.nimages as usize * FlightImage::SIZE];
        for (page, at) in table
            .chunks_mut(FLIGHT_PAGE)
            .zip((0..).step_by(FLIGHT_PAGE))
        {
            if memory.read(raw.images_at + at, page).is_err() {
                page.fill(0);
            }
        }
        let recorded = head.build_id();
        Images {
            is_own: recorded.is_some_and(|id| id == images::kernel_build_id()),
            ..Images::parse(&table)
        }
    }

    fn parse(table: &[u8]) -> Images {
        let all = table.chunks_exact(FlightImage::SIZE);
        let all = all.filter_map(FlightImage::from_bytes);
        let all = all.filter(|image| image.size > 0).map(|image| Image {
            name: from_name(&image.name),
            base: image.base,
            size: image.size.into(),
        });
        Images {
            // A name becomes part of a path, and is shown: the bytes may be anybody's.
            all: all.filter(|image| fields::is_word(&image.name)).collect(),
            is_own: false,
        }
    }

    /// An address of code by name: the function and the offset where the symbols are those of the
    /// running kernel, else the image and the offset. `None`: no code lies there.
    pub fn name(&self, address: u64) -> Option<String> {
        let holds = |image: &&Image| address.wrapping_sub(image.base) < image.size;
        let image = self.all.iter().find(holds)?;
        let offset = address.wrapping_sub(image.base);
        let own = self.is_own.then(|| image.running()).flatten();
        let named = own.and_then(|base| {
            let place = symbols().function(base.wrapping_add(offset))?;
            Some(place.shown())
        });
        Some(named.unwrap_or_else(|| format!("{}+{offset:#x}", image.name)))
    }
}

impl Image {
    /// Where the same code lies now.
    fn running(&self) -> Option<u64> {
        if self.name == "vmlinux" {
            return symbols().address("_stext");
        }
        // The text of a module begins with its section .text, at a page.
        let path = format!("/sys/module/{}/sections/.text", self.name);
        let text = fs::read_to_string(path).ok()?;
        let text = u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()?;
        (text != 0).then_some(text & !0xfff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::flight::made::Made;

    #[test]
    fn an_address_is_an_image_and_an_offset() {
        let mut region = Made::sample().region();
        let head = Head::of(&region[..4096]).unwrap();
        let images = Images::of(&head, &mut region);
        for (address, name) in [
            (0xffff_ffff_8100_0000, Some("vmlinux+0x0")),
            (0xffff_ffff_c000_1234, Some("ext4+0x1234")),
            (0xffff_ffff_c008_0000, None),
            (0, None),
        ] {
            assert_eq!(images.name(address).as_deref(), name);
        }
    }

    #[test]
    fn images_of_anybody_do_no_harm() {
        let image = |name: &[u8], base| {
            let mut bytes = [0; 48];
            bytes[..name.len()].copy_from_slice(name);
            let image = FlightImage {
                base,
                size: 0x1000,
                reserved: 0,
                name: bytes,
            };
            image.to_bytes()
        };
        let table = [
            image(b"../../../etc/passwd", 0x1_0000),
            image(b"a\x1b[2J", 0x2_0000),
            image(b"", 0x3_0000),
            // It would end behind the last address.
            image(b"odd", u64::MAX - 0xff),
        ];
        let images = Images::parse(&table.concat());
        for (address, name) in [
            (0x1_0000, None),
            (0x2_0000, None),
            (0x3_0000, None),
            (u64::MAX, Some("odd+0xff")),
            (0xeff, Some("odd+0xfff")),
            (0xf00, None),
        ] {
            assert_eq!(images.name(address).as_deref(), name, "{address:#x}");
        }
    }
}
