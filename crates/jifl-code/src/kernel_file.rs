// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the file of a kernel tells of the kernel: its version, its symbols, its configuration, its
//! types, and which functions can be traced. The file is a bzImage or a vmlinux.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;

use flate2::read::GzDecoder;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use memchr::memmem;
use object::elf::{EM_X86_64, ET_REL};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol, SymbolKind};

use crate::boot;
use crate::image::Error;
use crate::kallsyms;
use crate::packed;
use crate::vmlinux::{self, Section};

/// What stands before the release in a kernel's own words about itself.
const BANNER: &[u8] = b"Linux version ";
/// Before and behind a configuration that is in the kernel (kernel/configs.c).
const CONFIG: (&[u8], &[u8]) = (b"IKCFG_ST", b"IKCFG_ED");
/// A configuration has so many bytes at most. Debian's have 0.3 MB.
const LONGEST_CONFIG: u64 = 16 << 20;

/// Why a file is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It is a kernel, or a program, for another architecture: its name.
    Machine(String),
    /// It is no kernel, or it cannot be read.
    File(String),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::File(error.0)
    }
}

/// Addresses by names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Symbols(HashMap<String, u64>);

impl Symbols {
    /// The address of a name.
    pub fn address(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// These. The first of several with one name counts, as it does for the kernel.
    pub fn of(all: impl IntoIterator<Item = (String, u64)>) -> Symbols {
        let mut symbols = HashMap::new();
        for (name, address) in all {
            symbols.entry(name).or_insert(address);
        }
        Symbols(symbols)
    }
}

/// What a kernel's file tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelFile {
    /// `Linux version 6.1.0-9-amd64 (builder) (compiler) #1 SMP ...`, as /proc/version has it.
    pub banner: String,
    /// Why there are none: the file has no symbol table, and the kernel none of its own.
    pub symbols: Result<Symbols, Error>,
    /// The configuration, where the kernel has it in itself (CONFIG_IKCONFIG).
    pub config: Option<String>,
    /// Its description of its types (CONFIG_DEBUG_INFO_BTF).
    pub btf: Option<Vec<u8>>,
    /// The places that the function tracer can patch, in order; `None`: the kernel has no list.
    pub sites: Option<Vec<u64>>,
    /// How many direct calls of x64_sys_call do_syscall_64 has; `None`: one of them has no name.
    pub door_calls: Option<usize>,
}

/// Reads a bzImage or a vmlinux.
///
/// # Errors
/// Why the file is refused.
pub fn read(file: &[u8]) -> Result<KernelFile, Refusal> {
    let elf: Cow<'_, [u8]> = if boot::is_boot_image(file) {
        Cow::Owned(boot::parse(file)?.unpack()?)
    } else {
        packed::unpack(file)?
    };
    check_machine(&elf)?;
    let elf: ElfFile64<'_, Endianness> =
        ElfFile64::parse(&*elf).map_err(|error| cut_short(&error))?;
    if elf.elf_header().e_type.get(elf.endian()) == ET_REL {
        return Err(Refusal::File(
            "a module or an object file, no kernel".into(),
        ));
    }
    let sections = vmlinux::sections(&elf, false).map_err(|error| cut_short(&error))?;
    let sections: Vec<Section<'_>> = sections.into_iter().map(|(_, own)| own).collect();
    let symbols = symbols(&elf, &sections);
    let names = symbols.as_ref().ok();
    let banner = banner(&sections, names)
        .ok_or_else(|| Refusal::File("no Linux kernel: it tells no version of Linux".into()))?;
    let section = |name: &str| sections.iter().find(|section| section.name == name);
    Ok(KernelFile {
        banner,
        config: section(".rodata").and_then(|section| config(&section.bytes)),
        btf: section(".BTF").map(|section| section.bytes.to_vec()),
        sites: names.and_then(|names| sites(&sections, names)),
        door_calls: names.and_then(|names| door_calls(&sections, names)),
        symbols,
    })
}

fn cut_short(error: &dyn std::fmt::Display) -> Refusal {
    Refusal::File(format!("the ELF file is damaged or cut short: {error}"))
}

/// Refuses what is not for x86-64, and what is no program at all.
fn check_machine(file: &[u8]) -> Result<(), Refusal> {
    let has = |at: usize, bytes: &[u8]| file.get(at..at + bytes.len()) == Some(bytes);
    // Headers of images that are not ELF files: Documentation/arch/{arm64,riscv}, drivers/firmware/
    // efi/libstub/zboot-header.S.
    for (at, bytes, name) in [
        (0x38, b"ARM\x64", "arm64"),
        (0x38, b"RSC\x05", "RISC-V"),
        (4, b"zimg", "another architecture (EFI zboot)"),
    ] {
        if has(at, bytes) {
            return Err(Refusal::Machine(name.into()));
        }
    }
    if !has(0, b"\x7fELF") {
        return Err(Refusal::File(
            "no kernel: neither a bzImage nor an ELF file".into(),
        ));
    }
    let Some(&[first, second]) = file.get(18..20) else {
        return Err(Refusal::File(
            "the ELF file is cut short in its header".into(),
        ));
    };
    let machine = match file[5] {
        2 => u16::from_be_bytes([first, second]),
        _ => u16::from_le_bytes([first, second]),
    };
    match machine {
        EM_X86_64 => Ok(()),
        object::elf::EM_386 => Err(Refusal::Machine("32-bit x86".into())),
        object::elf::EM_AARCH64 => Err(Refusal::Machine("arm64".into())),
        object::elf::EM_ARM => Err(Refusal::Machine("32-bit ARM".into())),
        object::elf::EM_RISCV => Err(Refusal::Machine("RISC-V".into())),
        object::elf::EM_PPC64 => Err(Refusal::Machine("64-bit PowerPC".into())),
        object::elf::EM_S390 => Err(Refusal::Machine("s390".into())),
        object::elf::EM_LOONGARCH => Err(Refusal::Machine("LoongArch".into())),
        other => Err(Refusal::Machine(format!("ELF machine {other}"))),
    }
}

/// The names of the file's symbol table; those of the kernel's own where it has none.
fn symbols(elf: &ElfFile64<'_, Endianness>, sections: &[Section<'_>]) -> Result<Symbols, Error> {
    let of_table = elf.symbols().filter_map(|symbol| {
        let is_one = matches!(
            symbol.kind(),
            SymbolKind::Text | SymbolKind::Data | SymbolKind::Unknown
        );
        let name = symbol.name().ok().filter(|name| !name.is_empty())?;
        is_one.then(|| (name.to_owned(), symbol.address()))
    });
    let of_table = Symbols::of(of_table);
    if !of_table.0.is_empty() {
        return Ok(of_table);
    }
    let rodata = sections.iter().find(|section| section.name == ".rodata");
    let (data, address) = rodata.map_or((&[][..], 0), |own| (&own.bytes, own.address));
    let own = kallsyms::read(data, address)?;
    let own = own.into_iter().map(|entry| entry.symbol);
    Ok(Symbols::of(own.map(|symbol| (symbol.name, symbol.address))))
}

/// The bytes from an address on to the end of its section.
fn bytes_at<'a>(sections: &'a [Section<'_>], address: u64) -> Option<&'a [u8]> {
    sections.iter().find_map(|section| {
        let offset = usize::try_from(address.checked_sub(section.address)?).ok()?;
        section.bytes.get(offset..).filter(|rest| !rest.is_empty())
    })
}

fn banner(sections: &[Section<'_>], names: Option<&Symbols>) -> Option<String> {
    let line = |bytes: &[u8]| {
        let end = bytes.iter().position(|byte| matches!(byte, 0 | b'\n'))?;
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    };
    let named = names
        .and_then(|names| names.address("linux_banner"))
        .and_then(|address| bytes_at(sections, address))
        .filter(|bytes| bytes.starts_with(BANNER));
    if let Some(bytes) = named {
        return line(bytes);
    }
    sections.iter().find_map(|section| {
        let mut places = memmem::find_iter(&section.bytes, BANNER);
        places.find_map(|at| {
            // A format of the same words begins otherwise.
            let number = section.bytes.get(at + BANNER.len())?;
            number
                .is_ascii_digit()
                .then(|| line(&section.bytes[at..]))?
        })
    })
}

fn config(rodata: &[u8]) -> Option<String> {
    let begin = memmem::find(rodata, CONFIG.0)? + CONFIG.0.len();
    let length = memmem::find(&rodata[begin..], CONFIG.1)?;
    let packed = GzDecoder::new(&rodata[begin..begin + length]);
    let mut text = String::new();
    packed
        .take(LONGEST_CONFIG)
        .read_to_string(&mut text)
        .ok()
        .map(|_| text)
}

/// The list that the function tracer reads at boot (include/asm-generic/vmlinux.lds.h,
/// MCOUNT_REC). Entries of functions that the linker has dropped are 0 from 6.15 on.
fn sites(sections: &[Section<'_>], names: &Symbols) -> Option<Vec<u64>> {
    let begin = names.address("__start_mcount_loc")?;
    let size = names.address("__stop_mcount_loc")?.checked_sub(begin)?;
    let bytes = bytes_at(sections, begin)?.get(..usize::try_from(size).ok()?)?;
    let words = bytes.chunks_exact(8);
    let words = words.map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
    let mut sites: Vec<u64> = words.filter(|site| *site != 0).collect();
    sites.sort_unstable();
    (!sites.is_empty()).then_some(sites)
}

/// As the module counts them (host/kernel/enter/call_site.c).
fn door_calls(sections: &[Section<'_>], names: &Symbols) -> Option<usize> {
    let begin = names.address("do_syscall_64")?;
    let function = names.address("x64_sys_call")?;
    let later = names.0.values().filter(|address| **address > begin);
    let end = *later.min()?;
    let size = usize::try_from(end - begin).ok()?;
    let bytes = bytes_at(sections, begin)?.get(..size)?;
    let mut decoder = Decoder::with_ip(64, bytes, begin, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut calls = 0;
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let is_call = instruction.flow_control() == FlowControl::Call;
        calls += usize::from(is_call && instruction.near_branch_target() == function);
    }
    Some(calls)
}

#[cfg(test)]
mod tests;
