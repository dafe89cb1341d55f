// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel that runs, with its modules, from its memory: alternatives, jump labels and static
//! calls are as they stand there now.
//!
//! The caller gives the memory, the text of /proc/kallsyms, and where the sections of each module
//! are. The tables of alternatives and the code of the kernel's start are freed after boot, and are
//! not read. What tracers and JIFL have patched in is undone in the copy ([`Beneath`]):
//!
//! - The call at a function's beginning that leads to a tracer becomes the nop that it was.
//! - The call in do_syscall_64 that leads to JIFL's entry leads to x64_sys_call again.
//!
//! Of BPF programs the names say where they begin, and nothing says where they end. The text of one
//! is what can be read up to the next name, without what fills up between them. All of them are
//! in a module of the name that /proc/kallsyms gives them, `bpf`.
//!
//! A breakpoint of a kprobe stays: the byte beneath it is known to the kernel alone.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::flow::{self, LONGEST};
use crate::image::{Error, Fixup, Image, NAME, Symbol, Tables, Text};
use crate::kallsyms;
use crate::names;
use crate::tables::{self, Bytes};

/// JIFL's own module.
const OWN: &str = "jifl";
/// What the kernel calls the owner of translated BPF programs, and how their names begin.
const BPF: (&str, &str) = ("bpf", "bpf_prog_");
/// None is longer (BPF_JIT's image of a million instructions is not, either).
const MOST_BPF: u64 = 1 << 20;
/// So many bytes of int3 fill up behind a program. None has as many in it, one behind the other.
const FILLING: [u8; 12] = [0xcc; 12];
const PAGE: u64 = 4096;
/// How the kernel's names of owners of code begin that it makes itself, between modules.
const BUILT_IN: &str = "__builtin__";
/// What the kernel calls the owner of its trampolines for tracers.
const TRACERS: &str = "__builtin__ftrace";
/// `call`, with its displacement of 4 bytes.
const CALL: usize = 5;
const NOP: [u8; CALL] = [0x0f, 0x1f, 0x44, 0, 0];

/// The kernel's memory.
pub trait Memory {
    /// `length` bytes from an address on; `None` if one of them cannot be read.
    fn read(&mut self, address: u64, length: usize) -> Option<Vec<u8>>;

    /// A large range at once. In it may be zeros in place of what cannot be read; `None` if none
    /// of it can be read.
    fn bulk(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
        self.read(address, length)
    }
}

/// Bytes in this process, from an address on.
impl Memory for (u64, Vec<u8>) {
    fn read(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
        let from = usize::try_from(address.checked_sub(self.0)?).ok()?;
        let to = from.checked_add(length)?;
        self.1.get(from..to).map(<[u8]>::to_vec)
    }
}

/// A loaded module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Module {
    /// Its name.
    pub name: String,
    /// Size of all its memory.
    pub size: u64,
    /// Addresses and names of its sections, also of those that were freed. Without a name: where its
    /// memory ends.
    pub sections: Vec<(u64, String)>,
}

/// Names of /proc/kallsyms.
#[derive(Debug, Default)]
pub struct Names {
    /// Names of code, and the module of each; those of the kernel have none.
    text: Vec<(Symbol, Option<Arc<str>>)>,
    /// The kernel's marks, of code and data.
    marks: HashMap<String, u64>,
}

impl Names {
    /// Reads the text of /proc/kallsyms.
    pub fn parse(kallsyms: &str) -> Names {
        let mut names = Names::default();
        let mut module: Option<Arc<str>> = None;
        for line in names::told(kallsyms) {
            let symbol = Symbol {
                address: line.address,
                name: line.name.to_owned(),
                is_global: line.kind.is_ascii_uppercase(),
            };
            // Names of one module follow each other.
            if module.as_deref() != line.module {
                module = line.module.map(Arc::from);
            }
            names.add(line.kind, symbol, module.clone());
        }
        names
    }

    /// Those of the kernel's own table, which has no names of modules.
    pub fn of(all: Vec<kallsyms::Entry>) -> Names {
        let mut names = Names::default();
        for entry in all {
            names.add(entry.kind, entry.symbol, None);
        }
        names
    }

    /// Adds one; the kernel's own are of no module.
    pub(crate) fn add(&mut self, kind: char, symbol: Symbol, module: Option<Arc<str>>) {
        if module.is_none() && names::is_bound(&symbol.name) {
            self.marks.insert(symbol.name.clone(), symbol.address);
        }
        if names::is_text(kind) {
            self.text.push((symbol, module));
        }
    }

    fn mark(&self, name: &str) -> Option<u64> {
        self.marks.get(name).copied()
    }

    fn between(&self, begin: &str, end: &str) -> Option<Range<u64>> {
        between(&|name| self.mark(name), begin, end)
    }

    fn address(&self, name: &str) -> Option<u64> {
        let mut own = self.text.iter().filter(|(_, module)| module.is_none());
        own.find(|(symbol, _)| symbol.name == name)
            .map(|(symbol, _)| symbol.address)
    }
}

fn between(mark: &dyn Fn(&str) -> Option<u64>, begin: &str, end: &str) -> Option<Range<u64>> {
    let range = mark(begin)?..mark(end)?;
    (range.start < range.end).then_some(range)
}

/// The exception tables of the kernel and of its modules. `mark` tells the addresses of the
/// kernel's own marks.
///
/// The tables are sorted by the addresses of the instructions (lib/extable.c). A module's table
/// ends where the next section begins, or where its order ends: the kernel tells only where it
/// begins, and zeros may follow it up to the end of the page (kernel/module/main.c). Entries that
/// do not lead into the text of the same module are left out: they are of its initialization, and
/// stay when that text is freed.
pub fn fixups(
    mark: &dyn Fn(&str) -> Option<u64>,
    modules: &[Module],
    memory: &mut dyn Memory,
) -> Vec<Fixup> {
    let core = between(mark, "_stext", "_etext");
    let own = between(mark, "__start___ex_table", "__stop___ex_table");
    let bounds = bounds(core.as_ref(), modules);
    let mut places: Vec<_> = own.zip(core.map(|core| vec![core])).into_iter().collect();
    places.extend(modules.iter().filter_map(|module| {
        let sections = Sections::of(module, &bounds);
        Some((sections.place("__ex_table")?, sections.texts()))
    }));
    let mut all = Vec::new();
    for (place, texts) in places {
        let bytes = read(memory, &place).unwrap_or_default();
        let table = tables::fixups(Bytes {
            address: place.start,
            bytes: &bytes,
        });
        let mut last = 0;
        let sorted = table.into_iter().take_while(|fixup| {
            let is_behind = fixup.at >= last;
            last = fixup.at;
            is_behind
        });
        all.extend(sorted.filter(|fixup| texts.iter().any(|text| text.contains(&fixup.to))));
    }
    all
}

fn read(memory: &mut dyn Memory, range: &Range<u64>) -> Option<Vec<u8>> {
    let length = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
    memory.bulk(range.start, length)
}

/// The image of the running kernel.
///
/// # Errors
/// The names do not say where the kernel's text is, or the text cannot be read.
pub fn image(names: Names, modules: &[Module], memory: &mut dyn Memory) -> Result<Image, Error> {
    let hidden = || {
        Error(
            "/proc/kallsyms does not say where the kernel's text is: be root, with \
             kernel.kptr_restrict 0 or 1"
                .into(),
        )
    };
    let core = names.between("_stext", "_etext").ok_or_else(hidden)?;
    let mut image = Image {
        modules: vec![NAME.into()],
        tables: Tables {
            warnings: Some(Vec::new()),
            ..Tables::default()
        },
        ..Image::default()
    };
    let mut reader = Reader {
        memory,
        image: &mut image,
    };
    if !reader.text(&core, 0) {
        return Err(Error("the kernel's text cannot be read".into()));
    }
    reader.kernel(&names);
    reader.image.tables.fixups = fixups(&|name| names.mark(name), modules, reader.memory);
    let mut bounds = bounds(Some(&core), modules);
    let others = names.text.iter().filter(|(_, module)| {
        let module = module.as_deref().unwrap_or_default();
        module.starts_with(BUILT_IN) || module == BPF.0
    });
    bounds.extend(others.map(|(symbol, _)| symbol.address));
    bounds.sort_unstable();
    for module in modules {
        reader.module(module, &bounds);
    }
    reader.programs(&names);
    image.put_in_order();
    let beneath = Beneath::new(&names, &image);
    image.symbols = names.text.into_iter().map(|(name, _)| name).collect();
    image.put_in_order();
    beneath.restore(&mut image);
    Ok(image)
}

/// Where anything begins: no text and no table reaches over one of these. What was freed is none of
/// them: /sys still has it, and something else may be there by now.
fn bounds(core: Option<&Range<u64>>, modules: &[Module]) -> Vec<u64> {
    let sections = modules.iter().flat_map(|module| &module.sections);
    let sections = sections.filter(|(_, name)| !is_freed(name));
    let mut all: Vec<u64> = sections.map(|(address, _)| *address).collect();
    all.extend(core.map(|core| core.start));
    all.sort_unstable();
    all
}

/// Where the sections of a module are, in the order of addresses.
struct Sections<'a> {
    all: Vec<&'a (u64, String)>,
    size: u64,
    bounds: &'a [u64],
}

impl<'a> Sections<'a> {
    fn of(module: &'a Module, bounds: &'a [u64]) -> Sections<'a> {
        let mut all: Vec<_> = module.sections.iter().collect();
        all.sort_unstable();
        let size = module.size;
        Sections { all, size, bounds }
    }

    /// From where one section begins to where what begins at `last` ends at the latest.
    fn range(&self, begin: u64, last: u64) -> Range<u64> {
        let most = begin.saturating_add(self.size);
        let next = self.bounds.partition_point(|bound| *bound <= last);
        let own = self.all.partition_point(|(address, _)| *address <= last);
        let own = self.all.get(own).map(|(address, _)| address);
        let next = self.bounds.get(next).into_iter().chain(own);
        begin..next.fold(most, |end, bound| end.min(*bound))
    }

    fn place(&self, name: &str) -> Option<Range<u64>> {
        let mut all = self.all.iter();
        let (begin, _) = all.find(|(_, section)| section == name)?;
        Some(self.range(*begin, *begin))
    }

    /// Sections of text that follow each other are one range.
    fn texts(&self) -> Vec<Range<u64>> {
        let runs = self.all.chunk_by(|a, b| is_code(&a.1) && is_code(&b.1));
        let runs = runs.filter(|run| is_code(&run[0].1));
        let range = |run: &[&(u64, String)]| self.range(run[0].0, run[run.len() - 1].0);
        runs.map(range).collect()
    }
}

/// Reads parts of the image.
struct Reader<'a> {
    memory: &'a mut dyn Memory,
    image: &'a mut Image,
}

impl Reader<'_> {
    fn read(&mut self, range: &Range<u64>) -> Option<Vec<u8>> {
        read(self.memory, range)
    }

    /// Adds a range of text, without the zeros and int3 that fill up at its end, of which the last
    /// instruction may have some. From 6.16 on modules share large pages, which are filled with int3.
    fn text(&mut self, range: &Range<u64>, module: usize) -> bool {
        let Some(mut bytes) = self.read(range) else {
            return false;
        };
        let end = bytes.iter().rposition(|byte| !matches!(byte, 0 | 0xcc));
        bytes.truncate(end.map_or(0, |last| last + LONGEST));
        self.image.texts.push(Text {
            address: range.start,
            bytes,
            module,
            is_aside: false,
        });
        true
    }

    /// The kernel's own tables.
    fn kernel(&mut self, names: &Names) {
        let table =
            |name: &str| names.between(&format!("__start_{name}"), &format!("__stop_{name}"));
        self.tables([
            table("__bug_table"),
            table("__jump_table"),
            table("static_call_sites"),
        ]);
        if let Some(rodata) = names.between("__start_rodata", "__end_rodata") {
            let bytes = self.read(&rodata);
            self.image
                .data
                .extend(bytes.map(|bytes| (rodata.start, bytes)));
        }
        let untouchable = [
            ("__noinstr_text_start", "__noinstr_text_end"),
            ("__entry_text_start", "__entry_text_end"),
        ];
        let ranges = untouchable.iter();
        self.image.tables.untouchable = ranges
            .filter_map(|(begin, end)| names.between(begin, end))
            .collect();
    }

    /// The tables of warnings, of jump labels and of static calls. Entries that do not lead from
    /// and to text are what stands behind a table.
    fn tables(&mut self, places: [Option<Range<u64>>; 3]) {
        let bytes = places.map(|place| {
            let place = place?;
            Some((place.start, self.read(&place)?))
        });
        let [warnings, keys, calls] = bytes.each_ref().map(|place| {
            place.as_ref().map(|(address, bytes)| Bytes {
                address: *address,
                bytes,
            })
        });
        // They are not in order yet.
        let texts = &self.image.texts;
        let is_text = |at| {
            let mut all = texts.iter();
            all.any(|text| (text.address..text.end()).contains(&at))
        };
        let warnings = warnings.map_or_else(Vec::new, |table| tables::warnings(table, is_text));
        let tables = &mut self.image.tables;
        tables.keys.extend(keys.map_or_else(Vec::new, tables::keys));
        tables.warnings.get_or_insert_default().extend(warnings);
        let calls = calls.map_or_else(Vec::new, tables::static_calls);
        tables.static_calls.extend(calls);
    }

    /// The translated BPF programs.
    fn programs(&mut self, names: &Names) {
        let of_bpf = names.text.iter();
        let of_bpf = of_bpf.filter(|(_, module)| module.as_deref() == Some(BPF.0));
        let mut begins: Vec<(u64, bool)> = of_bpf
            .map(|(symbol, _)| (symbol.address, symbol.name.starts_with(BPF.1)))
            .collect();
        begins.sort_unstable();
        let index = self.image.modules.len();
        let before = self.image.texts.len();
        for (place, (begin, is_program)) in begins.iter().enumerate() {
            let most = begin.saturating_add(MOST_BPF);
            let next = begins.get(place + 1).map_or(most, |next| next.0.min(most));
            if *is_program && *begin != 0 {
                self.program(*begin..next, index);
            }
        }
        if self.image.texts.len() > before {
            self.image.modules.push(BPF.0.to_owned());
        }
    }

    /// The text of one, page by page as far as it can be read.
    fn program(&mut self, range: Range<u64>, module: usize) {
        let mut bytes = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at | (PAGE - 1)).saturating_add(1));
            // In one page: all of it is read, or nothing.
            let Some(page) = read(self.memory, &(at..end)) else {
                break;
            };
            bytes.extend(page);
            at = end;
            // What fills up may lie in two pages, and ends the program in either.
            let mut fillings = bytes.windows(FILLING.len());
            if let Some(length) = fillings.position(|window| window == FILLING) {
                bytes.truncate(length);
                break;
            }
        }
        if !bytes.is_empty() {
            self.image.texts.push(Text {
                address: range.start,
                bytes,
                module,
                is_aside: false,
            });
        }
    }

    /// A module's text and tables. Neither the sections of its start, which are freed, nor
    /// replacements, which are copied elsewhere before they run, are text.
    fn module(&mut self, module: &Module, bounds: &[u64]) {
        let sections = Sections::of(module, bounds);
        let index = self.image.modules.len();
        let texts = sections.texts();
        let read = texts.iter().filter(|text| self.text(text, index));
        if read.count() == 0 {
            return;
        }
        self.image.modules.push(module.name.clone());
        self.tables([
            sections.place("__bug_table"),
            sections.place("__jump_table"),
            sections.place(".static_call_sites"),
        ]);
        let data = sections.place(".rodata");
        let data = data.and_then(|place| Some((place.start, self.read(&place)?)));
        self.image.data.extend(data);
    }
}

/// Does the kernel free the section when the module's initialization is over? Its names for that
/// are those of module_init_section and layout_symtab (kernel/module).
fn is_freed(section: &str) -> bool {
    section.starts_with(".init") || [".symtab", ".strtab"].contains(&section)
}

fn is_code(section: &str) -> bool {
    let is_text = section.starts_with(".text") || section.ends_with(".text");
    is_text && !is_freed(section)
}

/// Calls that JIFL leads to functions of its own (enter/call_site.c, flight/calls.c): in which
/// functions, of which function, and where they lead.
const REDIRECTED: [(&[&str], &str, &[&str]); 3] = [
    (
        &["do_syscall_64"],
        "x64_sys_call",
        &[
            "jifl_entry_stub",
            "jifl_entry_stub_counts",
            "jifl_flight_front",
        ],
    ),
    (
        &[
            "do_int80_emulation",
            "do_int80_syscall_32",
            "__do_fast_syscall_32",
            "do_SYSENTER_32",
        ],
        "ia32_sys_call",
        &["jifl_flight_front_32"],
    ),
    (
        &["syscall_exit_to_user_mode"],
        "syscall_exit_to_user_mode_prepare",
        &["jifl_flight_result"],
    ),
];

/// One of them, by addresses.
struct Redirected {
    callers: Vec<u64>,
    callee: u64,
    leads_to: Vec<u64>,
}

/// What stands beneath patches.
struct Beneath {
    /// Functions of tracers, in the kernel's text.
    tracers: Vec<u64>,
    redirected: Vec<Redirected>,
}

impl Beneath {
    fn new(names: &Names, image: &Image) -> Beneath {
        let of = |module: Option<&str>| module == Some(OWN) || module == Some(TRACERS);
        let is_tracer = |(symbol, module): &&(Symbol, Option<Arc<str>>)| {
            let in_text = image.text(symbol.address).is_some();
            let name = symbol.name.as_str();
            of(module.as_deref())
                || matches!(name, "__fentry__" | "ftrace_caller" | "ftrace_regs_caller") && in_text
                || name.starts_with("bpf_trampoline_")
        };
        let address = |(symbol, _): &(Symbol, Option<Arc<str>>)| symbol.address;
        let mut tracers: Vec<u64> = names.text.iter().filter(is_tracer).map(address).collect();
        tracers.sort_unstable();
        let own = |wanted: &[&str]| {
            let is_one = |(symbol, module): &&(Symbol, Option<Arc<str>>)| {
                module.as_deref() == Some(OWN) && wanted.contains(&symbol.name.as_str())
            };
            names.text.iter().filter(is_one).map(address).collect()
        };
        let redirected = REDIRECTED.iter().filter_map(|(callers, callee, leads_to)| {
            let callers = callers.iter().filter_map(|name| names.address(name));
            Some(Redirected {
                callers: callers.collect(),
                callee: names.address(callee)?,
                leads_to: own(leads_to),
            })
        });
        Beneath {
            tracers,
            redirected: redirected.collect(),
        }
    }

    fn restore(&self, image: &mut Image) {
        let symbols = image.symbols.iter();
        let mut starts: Vec<u64> = symbols.map(|symbol| symbol.address).collect();
        starts.dedup();
        for start in starts {
            self.tracer(image, start);
        }
        for one in &self.redirected {
            for caller in &one.callers {
                one.restore(image, *caller);
            }
        }
    }

    /// Makes a nop of the call of a tracer at the beginning of a function.
    fn tracer(&self, image: &mut Image, start: u64) {
        let Some(bytes) = image.bytes(start) else {
            return;
        };
        let skipped = flow::endbr64(bytes);
        let at = start + skipped as u64;
        let Some(to) = target(at, &bytes[skipped..]) else {
            return;
        };
        let is_foreign = image.text(to).is_none() && !is_thunk(image, to);
        if self.tracers.binary_search(&to).is_ok() || is_foreign {
            image.patch(at, &NOP);
        }
    }
}

impl Redirected {
    /// Leads the calls of JIFL's functions in the caller to the kernel's function.
    fn restore(&self, image: &mut Image, caller: u64) {
        let symbols = &image.symbols;
        let next = symbols.partition_point(|symbol| symbol.address <= caller);
        let end = symbols.get(next).map_or(caller, |symbol| symbol.address);
        for at in caller..end {
            let to = image.bytes(at).and_then(|bytes| target(at, bytes));
            if to.is_some_and(|to| self.leads_to.contains(&to)) {
                let offset = self.callee.wrapping_sub(at + CALL as u64) as u32;
                let [a, b, c, d] = offset.to_le_bytes();
                image.patch(at, &[0xe8, a, b, c, d]);
            }
        }
    }
}

/// The kernel's thunks have names that say so.
fn is_thunk(image: &Image, address: u64) -> bool {
    let symbols = &image.symbols;
    let from = symbols.partition_point(|symbol| symbol.address < address);
    let same = symbols[from..]
        .iter()
        .take_while(|symbol| symbol.address == address);
    same.into_iter()
        .any(|symbol| symbol.name.starts_with("__x86_"))
}

/// Where the call that bytes begin with leads.
fn target(at: u64, bytes: &[u8]) -> Option<u64> {
    let bytes: &[u8; CALL] = bytes.first_chunk()?;
    let [0xe8, a, b, c, d] = *bytes else {
        return None;
    };
    let offset = i32::from_le_bytes([a, b, c, d]);
    Some(
        at.wrapping_add(CALL as u64)
            .wrapping_add_signed(offset.into()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Target;
    use crate::program::Program;

    const CORE: u64 = 0xffff_ffff_8100_0000;
    const MODULE: u64 = 0xffff_ffff_c000_1000;
    const NAMES: &str = "\
        ffffffff81000000 T _stext\nffffffff81000000 T do_syscall_64\nffffffff81000040 T x64_sys_call\n\
        ffffffff81000060 T ftrace_caller\nffffffff81000080 T traced\nffffffff810000a0 T sealed\n\
        ffffffff810000e0 T _etext\n\
        ffffffff81002000 R __start___ex_table\nffffffff8100200c R __stop___ex_table\n\
        ffffffffc0001000 t theirs\t[theirs]\nffffffffc0009000 t jifl_entry_stub\t[jifl]\n\
        ffffffffc0009100 t jifl_flight_result\t[jifl]\n\
        ffffffff810000c8 T syscall_exit_to_user_mode\n\
        ffffffff810000d8 t syscall_exit_to_user_mode_prepare\n\
        0000000000000000 t hidden\n";

    /// Pages that are zeros where nothing was put.
    struct Pages(Vec<(u64, Vec<u8>)>);

    impl Pages {
        fn put(&mut self, address: u64, new: &[u8]) {
            let page = |(begin, bytes): &&mut (u64, Vec<u8>)| {
                address >= *begin && address < *begin + bytes.len() as u64
            };
            let (begin, bytes) = self.0.iter_mut().find(page).unwrap();
            let at = (address - *begin) as usize;
            bytes[at..at + new.len()].copy_from_slice(new);
        }

        fn call(&mut self, at: u64, to: u64) {
            let offset = (to.wrapping_sub(at + 5) as u32).to_le_bytes();
            self.put(at, &[0xe8]);
            self.put(at + 1, &offset);
        }
    }

    impl Memory for Pages {
        fn read(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
            let holds = |(begin, bytes): &&(u64, Vec<u8>)| {
                address >= *begin && address + length as u64 <= *begin + bytes.len() as u64
            };
            let (begin, bytes) = self.0.iter().find(holds)?;
            Some(bytes[(address - begin) as usize..][..length].to_vec())
        }
    }

    /// A kernel under a session of JIFL's, with a tracer at `traced`, and a module.
    fn pages() -> Pages {
        let mut pages = Pages(vec![(CORE, vec![0; 0x3000]), (MODULE, vec![0; 0x3000])]);
        pages.put(CORE, &[0x53]);
        pages.call(CORE + 1, 0xffff_ffff_c000_9000);
        pages.put(CORE + 6, &[0x5b, 0xc3]);
        pages.put(CORE + 0x40, &[0xc3]);
        pages.put(CORE + 0x60, &[0xc3]);
        pages.call(CORE + 0x80, CORE + 0x60);
        // A load, with a fixup behind the return.
        pages.put(CORE + 0x85, &[0x8b, 0x07, 0xc3, 0x31, 0xc0, 0xc3]);
        for (field, to) in [(0x2000, 0x85), (0x2004, 0x88)] {
            let offset = (to as u32).wrapping_sub(field as u32);
            pages.put(CORE + field, &offset.to_le_bytes());
        }
        // The endbr64 is a nop, as nothing calls the function indirectly.
        pages.put(CORE + 0xa0, &[0x66, 0x0f, 0x1f, 0x00]);
        pages.call(CORE + 0xa4, CORE + 0x60);
        pages.put(CORE + 0xa9, &[0xc3]);
        pages.put(CORE + 0xc8, &[0x53]);
        pages.call(CORE + 0xc9, 0xffff_ffff_c000_9100);
        pages.put(CORE + 0xce, &[0x5b, 0xc3]);
        pages.put(CORE + 0xd8, &[0xc3]);
        // theirs: a call of a tracer that has no name, and a jump whose displacement ends in zeros.
        pages.call(MODULE, 0xffff_ffff_c001_0000);
        pages.put(MODULE + 5, &[0xe9, 1, 0, 0, 0, 0x90, 0xc3]);
        pages.put(MODULE + 0x1000, &[1; 16]);
        pages
    }

    fn module() -> Module {
        let section = |(offset, name): (u64, &str)| (MODULE + offset, name.to_owned());
        let all = [(0, ".text"), (0x1000, ".data"), (0x2000, ".init.text")];
        Module {
            name: "theirs".into(),
            size: 0x3000,
            sections: all.map(section).into(),
        }
    }

    #[test]
    fn patches_of_tracers_and_of_jifl_are_undone() {
        let program = Program::of(image(Names::parse(NAMES), &[module()], &mut pages()).unwrap());
        let graph = |at| &program.functions[program.entered(at).unwrap()].graph;
        let targets = |at| {
            graph(at)
                .calls
                .iter()
                .map(|call| call.target)
                .collect::<Vec<_>>()
        };
        assert_eq!(targets(CORE), [Target::Direct(CORE + 0x40)]);
        assert_eq!(targets(CORE + 0xc8), [Target::Direct(CORE + 0xd8)]);
        assert_eq!(targets(CORE + 0x80), []);
        assert_eq!(targets(CORE + 0xa0), []);
        assert_eq!(targets(MODULE), []);
        for at in [CORE + 0x80, CORE + 0xa0] {
            let traced = program.entered(at).unwrap();
            assert!(program.is_compiled(&program.functions[traced]));
        }
        // The fixup is known, and all of the module's text is its own, its last zeros too.
        assert_eq!(graph(CORE + 0x80).edges.len(), 3);
        assert!(graph(MODULE).is_whole(), "{:?}", graph(MODULE));
        assert_eq!(program.image.modules, ["vmlinux", "theirs"]);
        assert!(program.image.text(MODULE + 0x1000).is_none());
        assert!(program.image.text(MODULE + 0x2000).is_none());
    }

    /// Memory of a module's initialization is another module's text by now.
    #[test]
    fn what_was_freed_does_not_end_texts() {
        let early = |name: &str, at: u64| Module {
            name: name.into(),
            size: 0x1000,
            sections: vec![(0xffff_ffff_c100_0000, ".text".into()), (at, name.into())],
        };
        let texts = |name: &str| {
            let modules = [module(), early(name, MODULE + 4)];
            let image = image(Names::parse(NAMES), &modules, &mut pages()).unwrap();
            let text = image.text(MODULE).unwrap();
            image.texts[text].bytes.len()
        };
        assert_eq!(texts(".data"), 4);
        for name in [".init.text", ".init.data", ".symtab", ".strtab"] {
            assert!(texts(name) >= 12, "{name}");
        }
    }

    /// A trampoline for tracers behind a module's text is no part of it.
    #[test]
    fn what_the_kernel_makes_between_modules_ends_texts() {
        let line = format!(
            "{:x} t ftrace_trampoline\t[__builtin__ftrace]\n",
            MODULE + 0x800
        );
        let texts = |names: &str| {
            let mut pages = pages();
            pages.put(MODULE + 0x800, &[0x53; 16]);
            pages.call(CORE + 0x80, MODULE + 0x800);
            let image = image(Names::parse(names), &[module()], &mut pages).unwrap();
            let program = Program::of(image);
            let traced = program.entered(CORE + 0x80).unwrap();
            let calls = program.functions[traced].graph.calls.len();
            let text = program.image.text(MODULE).unwrap();
            (program.image.texts[text].bytes.len() < 0x800, calls)
        };
        assert_eq!(texts(&(NAMES.to_owned() + &line)), (true, 0));
        assert_eq!(texts(NAMES), (false, 1));
    }

    #[test]
    fn what_cannot_be_read_is_said_or_left_out() {
        let mut none = Pages(Vec::new());
        assert!(image(Names::parse(""), &[], &mut pages()).is_err());
        assert!(image(Names::parse(NAMES), &[module()], &mut none).is_err());
        let mut far = module();
        far.sections[0].0 = 0xffff_ffff_d000_0000;
        let found = image(Names::parse(NAMES), &[far], &mut pages()).unwrap();
        assert_eq!(found.modules, ["vmlinux"]);
        let hidden = Names::parse("0000000000000000 T _stext\n0000000000000000 T _etext\n");
        let error = image(hidden, &[], &mut pages()).unwrap_err();
        assert!(error.0.contains("kptr_restrict"), "{error}");
    }

    #[test]
    fn translated_programs_are_functions_of_their_own() {
        let first = MODULE + 0x2100;
        let mut pages = pages();
        let mut put = |at: u64, code: &[u8]| pages.put(at, code);
        // xor %eax,%eax; test %edi,%edi; je +2; mov $2,%al; ret; and what fills up.
        let code = [0x31, 0xc0, 0x85, 0xff, 0x74, 0x02, 0xb0, 0x02, 0xc3];
        put(first, &code);
        put(first + code.len() as u64, &[0xcc; 16]);
        // The next one: up to the end of what can be read.
        put(
            MODULE + 0x2ff8,
            &[0x31, 0xc0, 0xc3, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc],
        );
        let line = |at: u64, name: &str| format!("{at:x} t {name}\t[bpf]\n");
        let lines = [
            line(first, "bpf_prog_0123_a"),
            line(first + 0x40, "bpf_trampoline_1"),
            line(MODULE + 0x2ff8, "bpf_prog_0123_b"),
            line(0xffff_ffff_d000_0000, "bpf_prog_gone"),
            line(0, "bpf_prog_hidden"),
        ];
        let names = Names::parse(&(NAMES.to_owned() + &lines.concat()));
        let program = Program::of(image(names, &[module()], &mut pages).unwrap());
        assert_eq!(program.image.modules, ["vmlinux", "theirs", "bpf"]);
        let blocks = |at| {
            program.functions[program.entered(at).unwrap()]
                .graph
                .blocks
                .len()
        };
        assert_eq!((blocks(first), blocks(MODULE + 0x2ff8)), (3, 1));
        let texts = program.image.texts.iter().filter(|text| text.module == 2);
        let lengths: Vec<usize> = texts.map(|text| text.bytes.len()).collect();
        assert_eq!(lengths, [code.len(), 8]);
    }

    const ENTRY: u64 = 12;
    const TABLE: u64 = MODULE + 0x2010;

    /// A table of entries: instruction, address of the fixup, and third word.
    fn table(begin: u64, entries: &[(u64, u64, i32)]) -> (u64, Vec<u8>) {
        let mut bytes = Vec::new();
        for (at, to, data) in entries {
            for target in [at, to] {
                let from = begin + bytes.len() as u64;
                bytes.extend((target.wrapping_sub(from) as u32).to_le_bytes());
            }
            bytes.extend(data.to_le_bytes());
        }
        (begin, bytes)
    }

    /// The table of a module, and what follows it.
    fn of_module() -> (u64, Vec<u8>) {
        let mut table = table(
            TABLE,
            &[
                (MODULE - 0x800, MODULE - 0x700, 3), // freed
                (MODULE + 0x8, MODULE + 0x20, 3),
                (MODULE + 0x10, MODULE + 0x12, 17 | 2 << 8 | -14 << 16),
                (MODULE + 0x18, MODULE + 0x8000, 3), // leads into another module
                (MODULE + 0x104, MODULE + 0x120, 3),
                (MODULE + 0x30, MODULE + 0x40, 3), // out of order
                (MODULE + 0x140, MODULE + 0x150, 3),
            ],
        );
        table.1.resize(0x2000, 0);
        table
    }

    /// Offsets of the module's instructions that have a fixup.
    fn known(size: u64, sections: &[(u64, &str)], memory: &mut (u64, Vec<u8>)) -> Vec<u64> {
        let section = |(address, name): &(u64, &str)| (*address, (*name).to_owned());
        let module = Module {
            name: "theirs".into(),
            size,
            sections: sections.iter().map(section).collect(),
        };
        let all = fixups(&|_| None, &[module], memory);
        all.iter().map(|fixup| fixup.at - MODULE).collect()
    }

    #[test]
    fn tables_of_exceptions_end_where_their_order_or_their_section_does() {
        let (text, begins) = ((MODULE, ".text"), (TABLE, "__ex_table"));
        let of = |size, sections: &[(u64, &str)]| known(size, sections, &mut of_module());
        let next = (TABLE + 5 * ENTRY, ".data");
        assert_eq!(of(0x1000, &[text, begins, next]), [0x8, 0x10, 0x104]);
        // Only the order of the entries tells where the table ends, then only the module's size.
        assert_eq!(of(0x1000, &[begins, text]), [0x8, 0x10, 0x104]);
        assert_eq!(of(4 * ENTRY, &[begins, text]), [0x8, 0x10]);
        // A section of the module's initialization is in the middle of it.
        let early = (TABLE + 2 * ENTRY + 4, ".init.data");
        assert_eq!(of(0x1000, &[begins, text, early]), [0x8]);
        assert!(of(0x1000, &[text]).is_empty());
        // The address is hidden, or the table would end at an address that does not exist.
        assert!(of(0x1000, &[text, (0, "__ex_table")]).is_empty());
        assert!(of(0x1000, &[text, (u64::MAX - 5, "__ex_table")]).is_empty());
        // Neither a part of an entry nor an entry of zeros counts.
        let mut memory = of_module();
        memory.1[2 * ENTRY as usize..].fill(0);
        assert_eq!(known(0x1000, &[text, begins], &mut memory), [0x8]);
    }

    #[test]
    fn entries_of_the_exception_table_say_what_is_done() {
        let names = Names::parse(NAMES);
        let at = CORE + 0x85;
        let sets = 17 | 2 << 8 | -14 << 16;
        let mut memory = table(CORE + 0x2000, &[(at, at + 8, sets)]);
        let found = fixups(&|name| names.mark(name), &[], &mut memory);
        let (to, sets) = (at + 8, Some((2, -14)));
        assert_eq!(found, [Fixup { at, to, sets }]);
        memory.1[8] = 3;
        let found = fixups(&|name| names.mark(name), &[], &mut memory);
        assert_eq!(found, [Fixup::new(at, at + 8)]);
        memory.1.pop();
        assert!(fixups(&|name| names.mark(name), &[], &mut memory).is_empty());
    }
}
