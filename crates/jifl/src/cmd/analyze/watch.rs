// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl analyze --watch`: what changes in the text of the kernel that runs, while it runs. The
//! functions concerned are analysed again, and no others.
//!
//! What tracers, live patches and JIFL lead elsewhere at the beginning of functions is undone in what
//! is looked at (jifl-code's running.rs): it is no change. What is left are jump labels, static
//! calls, breakpoints, modules and BPF programs that come and go, and what nobody has announced.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use jifl_code::flow;
use jifl_code::image::Image;
use jifl_code::program::{Function, Program, Renewed};
use jifl_sys::os;
use serde::Serialize;

use super::Form;
use super::input::Scope;
use crate::base::exit::{DONE, Failure};
use crate::kernel::running;
use crate::session::scope::{self, End};
use crate::show::output::{self, Sink};
use crate::show::text::grouped;

/// A change of the kernel's text.
#[derive(Debug, Serialize, PartialEq)]
#[serde(tag = "change", rename_all = "snake_case")]
enum Change {
    /// Text of a function is another one, or its structure is.
    Function {
        seconds: f64,
        function: String,
        module: String,
        places: Vec<Place>,
        blocks: usize,
        instructions: u32,
    },
    /// Text of no function is another one.
    Elsewhere {
        seconds: f64,
        address: u64,
        bytes: u64,
    },
    /// Functions have come.
    Came {
        seconds: f64,
        module: String,
        functions: usize,
    },
    /// Functions are there no more.
    Went {
        seconds: f64,
        module: String,
        functions: usize,
    },
}

/// A place in a function that changed.
#[derive(Debug, Serialize, PartialEq)]
struct Place {
    /// Of the instruction, from the function's beginning.
    offset: u64,
    /// In words.
    what: String,
}

/// Runs it.
pub fn run(
    scope: &Scope,
    interval: Duration,
    time: Option<Duration>,
    form: Form,
) -> Result<u8, Failure> {
    if matches!(form, Form::Csv) {
        return Err(Failure::usage(
            "--watch writes lines as they come: -f text or json".to_owned(),
        ));
    }
    let interrupt = os::catch_interrupts()
        .map_err(|error| Failure::failed(format!("catching Ctrl-C: {error}")))?;
    let mut program = Program::of(running::image(Path::new("/"))?);
    if let Scope::Functions(_) = scope {
        scope.functions(&program)?;
    }
    let begin = Instant::now();
    let end = time.and_then(|time| begin.checked_add(time));
    output::note(&format!(
        "# {} functions; what changes in them is told until Ctrl-C{}",
        grouped(program.functions.len() as u64),
        time.map_or_else(String::new, |_| " or the end of --for".into()),
    ));
    let mut sink = Sink::Stdout;
    let stdout = io::stdout();
    let (mut looks, mut changed, mut took) = (0_u64, 0_u64, Duration::ZERO);
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let pause = left.map_or(interval, |left| left.min(interval));
        // Nobody reads any more: that is an end, too.
        let waited = scope::wait(None, interrupt.as_fd(), &[stdout.as_fd()], Some(pause))
            .map_err(|error| Failure::failed(format!("waiting: {error}")))?;
        let look = Instant::now();
        let image = settled(&program)?;
        let renewed = program.renew(image);
        took += look.elapsed();
        looks += 1;
        for change in changes(&program, &renewed, scope, begin.elapsed()) {
            changed += 1;
            sink.write(&change.line(form))?;
        }
        let is_over = left.is_some_and(|left| left <= interval);
        if is_over || !matches!(waited, End::Time) {
            output::note(&format!(
                "# {} changes in {:.1} s; a look took {:.3} s. What changes and changes back \
                 between two looks is not seen",
                grouped(changed),
                begin.elapsed().as_secs_f64(),
                took.as_secs_f64() / looks as f64
            ));
            return Ok(DONE);
        }
    }
}

/// The kernel's image. Where the kernel writes text it puts a breakpoint there until it has done so
/// (smp_text_poke, arch/x86/kernel/alternative.c): a new one is looked at again.
fn settled(program: &Program) -> Result<Image, Failure> {
    const LOOKS: usize = 5;
    const PAUSE: Duration = Duration::from_millis(20);
    let mut image = running::image(Path::new("/"))?;
    for _ in 1..LOOKS {
        let places = program.image.text_changes(&image).unwrap_or_default();
        let is_breakpoint =
            |place: &Range<u64>| image.bytes(place.start).and_then(<[u8]>::first) == Some(&0xcc);
        if !places.iter().any(is_breakpoint) {
            break;
        }
        thread::sleep(PAUSE);
        image = running::image(Path::new("/"))?;
    }
    Ok(image)
}

impl Change {
    fn line(&self, form: Form) -> String {
        if matches!(form, Form::Json) {
            return serde_json::to_string(self).unwrap_or_default() + "\n";
        }
        match self {
            Change::Function {
                seconds,
                function,
                module,
                places,
                ..
            } => {
                let words = places.iter();
                let words = words.map(|place| format!("+{:#x} {}", place.offset, place.what));
                let words: Vec<String> = words.collect();
                let words = match words.is_empty() {
                    true => "other ways lead through it".into(),
                    false => words.join(", "),
                };
                format!("{seconds:>9.3}  {function} [{module}]  {words}\n")
            }
            Change::Elsewhere {
                seconds,
                address,
                bytes,
            } => format!("{seconds:>9.3}  {address:#x}  {bytes} bytes of no function changed\n"),
            Change::Came {
                seconds,
                module,
                functions,
            } => number(*seconds, module, "came", *functions),
            Change::Went {
                seconds,
                module,
                functions,
            } => number(*seconds, module, "went", *functions),
        }
    }
}

/// The line of a module whose functions came or went.
fn number(seconds: f64, module: &str, what: &str, functions: usize) -> String {
    let functions = grouped(functions as u64);
    format!("{seconds:>9.3}  [{module}]  functions that {what}: {functions}\n")
}

/// What was analysed again, as far as it is meant.
fn changes(program: &Program, renewed: &Renewed, scope: &Scope, at: Duration) -> Vec<Change> {
    let seconds = (at.as_secs_f64() * 1000.0).round() / 1000.0;
    let module = |function: &Function| program.image.modules[function.unit.module].clone();
    let is_meant = |name: &str, module: &str| match scope {
        Scope::All => true,
        Scope::Functions(pattern) => pattern.matches(name, module),
        Scope::Modules(pattern) => pattern.matches_module(module),
    };
    let meant = |places: &[usize]| -> Vec<usize> {
        let is_meant = |place: &&usize| {
            let function = &program.functions[**place];
            is_meant(&program.name(function), &module(function))
        };
        places.iter().filter(is_meant).copied().collect()
    };
    let mut all = Vec::new();
    let mut sums: BTreeMap<(String, bool), usize> = BTreeMap::new();
    for place in meant(&renewed.come) {
        *sums
            .entry((module(&program.functions[place]), true))
            .or_default() += 1;
    }
    let gone = renewed.gone.iter();
    for (_, module) in gone.filter(|(name, module)| is_meant(name, module)) {
        *sums.entry((module.clone(), false)).or_default() += 1;
    }
    for ((module, has_come), functions) in sums {
        all.push(match has_come {
            true => Change::Came {
                seconds,
                module,
                functions,
            },
            false => Change::Went {
                seconds,
                module,
                functions,
            },
        });
    }
    for place in meant(&renewed.functions) {
        let function = &program.functions[place];
        let blocks = &function.graph.blocks;
        all.push(Change::Function {
            seconds,
            function: program.name(function).into_owned(),
            module: module(function),
            places: places(program, function, &renewed.places),
            blocks: blocks.len(),
            instructions: blocks.iter().map(|block| block.instructions).sum(),
        });
    }
    if matches!(scope, Scope::All) {
        let is_known = |place: &&Range<u64>| program.at(place.start).is_some();
        for place in renewed.places.iter().filter(|place| !is_known(place)) {
            all.push(Change::Elsewhere {
                seconds,
                address: place.start,
                bytes: place.end - place.start,
            });
        }
    }
    all
}

/// The instructions of a function in places that changed.
fn places(program: &Program, function: &Function, changed: &[Range<u64>]) -> Vec<Place> {
    let entry = function.unit.entry();
    let mut all: Vec<Place> = Vec::new();
    for piece in &function.unit.pieces {
        let own = changed
            .iter()
            .map(|place| place.start.max(piece.start)..place.end.min(piece.end));
        for place in own.filter(|place| !place.is_empty()) {
            let mut at = place.start;
            while at < place.end {
                let (begin, behind) = instruction(program, function, at);
                let found = Place {
                    offset: begin.wrapping_sub(entry),
                    what: what(program, begin..behind),
                };
                // One instruction may have changed in several places.
                if all.last() != Some(&found) {
                    all.push(found);
                }
                at = behind;
            }
        }
    }
    all
}

/// Where the instruction begins and ends that an address lies in; a byte where none is known.
fn instruction(program: &Program, function: &Function, address: u64) -> (u64, u64) {
    let found = function.graph.block(address).and_then(|block| {
        let block = &function.graph.blocks[block];
        let bytes = program.image.bytes(block.start)?;
        let length = (block.length as usize).min(bytes.len());
        let mut all = flow::instructions(&bytes[..length], block.start);
        all.find(|one| address < one.next_ip())
    });
    found.map_or((address, address + 1), |one| (one.ip(), one.next_ip()))
}

/// What a changed instruction is now.
fn what(program: &Program, place: Range<u64>) -> String {
    let at = place.start;
    let tables = &program.image.tables;
    let bytes = program.image.bytes(at).unwrap_or_default();
    let bytes = &bytes[..bytes.len().min((place.end - at) as usize)];
    let first = tables.keys.partition_point(|key| key.0 < at);
    let is_key = tables.keys.get(first).is_some_and(|key| key.0 == at);
    if is_key && bytes.first() != Some(&0xcc) {
        let jumps = matches!(bytes.first(), Some(0xeb | 0xe9));
        let now = if jumps { "jumps" } else { "does not jump" };
        return format!("jump label {now}");
    }
    if tables.static_calls.binary_search(&at).is_ok() {
        let to = flow::decode(bytes, at).and_then(|one| flow::direct(&one));
        let name = to.and_then(|to| program.entered(to));
        let name = name.map(|to| program.name(&program.functions[to]).into_owned());
        return match (name, to) {
            (Some(name), _) => format!("static call of {name}"),
            (None, Some(to)) => format!("static call of {to:#x}"),
            (None, None) => "static call does nothing".into(),
        };
    }
    match bytes.first() {
        Some(0xcc) => "breakpoint".into(),
        _ => {
            let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("code {}", bytes.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::pattern::Pattern;

    /// f has a jump label at 1, a static call at 3; g follows it.
    fn image(label: [u8; 2], callee: u8, names: &[(u64, &str)]) -> Image {
        let mut bytes = vec![0xcc; 0x40];
        bytes[0] = 0x53;
        bytes[1..3].copy_from_slice(&label);
        bytes[3..8].copy_from_slice(&[0xe8, callee, 0, 0, 0]);
        bytes[8..10].copy_from_slice(&[0x5b, 0xc3]);
        for begin in [0x10, 0x20] {
            bytes[begin..begin + 3].copy_from_slice(&[0x31, 0xc0, 0xc3]);
        }
        let mut image = Image::of_text(0x1000, bytes, names);
        image.tables.keys = vec![(0x1001, 0x1008)];
        image.tables.static_calls = vec![0x1003];
        image
    }

    const NAMES: [(u64, &str); 3] = [(0x1000, "f"), (0x1010, "g"), (0x1020, "h")];
    const NOP: [u8; 2] = [0x66, 0x90];

    #[test]
    fn changes_are_told_by_what_they_are() {
        let told = |scope: &Scope, image: Image| {
            let mut program = Program::of(self::image(NOP, 8, &NAMES));
            let renewed = program.renew(image);
            let all = changes(&program, &renewed, scope, Duration::from_millis(1500));
            all.iter()
                .map(|one| one.line(Form::Text))
                .collect::<String>()
        };
        let all = |image| told(&Scope::All, image);
        assert_eq!(all(image(NOP, 8, &NAMES)), "");
        assert_eq!(
            all(image([0xeb, 5], 0x18, &NAMES)),
            "    1.500  f [vmlinux]  +0x1 jump label jumps, +0x3 static call of h\n"
        );
        let mut other = image(NOP, 8, &NAMES);
        other.texts[0].bytes[0x11] = 0xcc;
        other.texts[0].bytes[0x20] = 0xcc;
        assert_eq!(
            all(other.clone()),
            "    1.500  g [vmlinux]  +0x0 code 31 cc\n    1.500  h [vmlinux]  +0x0 breakpoint\n"
        );
        // The last byte of one function, and the first of the next; padding.
        let mut both = image(NOP, 8, &NAMES);
        both.texts[0].bytes[0x1f..0x21].copy_from_slice(&[0x90, 0x90]);
        assert_eq!(
            all(both),
            "    1.500  g [vmlinux]  +0xf code 90\n    1.500  h [vmlinux]  +0x0 code 90\n"
        );
        let padding = [
            (0x1000, "f"),
            (0x1010, "g"),
            (0x1020, "h"),
            (0x1030, "__pfx_i"),
        ];
        let before = self::image(NOP, 8, &padding);
        let mut after = before.clone();
        after.texts[0].bytes[0x35] = 0x90;
        let mut program = Program::of(before);
        let renewed = program.renew(after);
        let elsewhere = changes(&program, &renewed, &Scope::All, Duration::ZERO);
        let elsewhere = elsewhere.iter().map(|one| one.line(Form::Text));
        assert_eq!(
            elsewhere.collect::<String>(),
            "    0.000  0x1035  1 bytes of no function changed\n"
        );
        let only = Scope::Functions(Pattern::parse("fn:h").unwrap());
        assert_eq!(
            told(&only, other),
            "    1.500  h [vmlinux]  +0x0 breakpoint\n"
        );
        let renamed = [(0x1000, "f"), (0x1010, "g"), (0x1020, "i")];
        assert_eq!(
            all(image(NOP, 8, &renamed)),
            "    1.500  [vmlinux]  functions that went: 1\n    \
             1.500  [vmlinux]  functions that came: 1\n"
        );
    }
}
