// SPDX-License-Identifier: MIT OR Apache-2.0
//! What words for places mean in the running kernel: functions as targets, and places in them.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use iced_x86::{Instruction, Mnemonic};
use jifl_code::flow::Thunks;
use jifl_code::running::Memory;
use jifl_sys::abi::{Hits, SPLICE_BEFORE, SPLICE_NOT_TAKEN, SPLICE_TAKEN, SPLICES_MAX, Splice};

use super::code::{Code, Parts};
use super::word::{FORMS, Form, What, Word};
use crate::base::exit::Failure;
use crate::base::glob;
use crate::expr::At;
use crate::kernel::functions::{Function, Functions};
use crate::kernel::images::KERNEL;
use crate::kernel::lines::LinesArgs;
use crate::kernel::pattern::{Pattern, source_name};
use crate::kernel::source::Source;
use crate::kernel::symbols::Symbols;
use crate::session::targets::{FunctionTarget, Target};
use crate::show::text::grouped;

/// Words may mean so many places; more must be confirmed with `--yes`.
const UNCONFIRMED: usize = 1000;
/// Bytes of an endbr64, in whatever form, and of a site.
const ENDBR64: u64 = 4;
const SITE: u64 = 5;

/// What the words mean.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The functions.
    pub targets: Vec<Target>,
    /// The places, in the module's order, each once.
    pub splices: Vec<Splice>,
    /// What they are called: `NAME+0x10`, `NAME+0x2c:taken`.
    pub names: Vec<String>,
    /// What programs there can name.
    pub spots: Vec<Spot>,
    /// For each word its places: indices into `splices`.
    pub of_words: Vec<Vec<usize>>,
    /// Functions that globs mean, and whose places are left out, by the reason.
    pub left_out: LeftOut,
    /// Instructions that forms mean, and that the kernel keeps to itself: how many for each reason.
    pub kernels: BTreeMap<&'static str, usize>,
    /// Instructions that words name, and that may be the kernel's own, as far as one sees: a nop, a
    /// jump, a call, a ud2.
    pub suspects: BTreeSet<u64>,
    /// Entries of functions whose site may be another tracer's, and the instruction behind that
    /// site: each execution of the function begins with it. Of globs' functions those alone whose
    /// site is another's.
    pub behind_sites: BTreeMap<u64, u64>,
    /// Instructions that are counted by what leads there. Behind `splices` in `names`, and in the
    /// indices of `of_words`.
    pub derived: Vec<Derived>,
}

/// An instruction of the kernel's own, whose executions are those of what leads there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derived {
    /// The instruction.
    pub address: u64,
    /// Its function: a place in the targets.
    pub target: u32,
    /// What leads there: indices into `splices`.
    pub leads: Vec<usize>,
}

/// What a program at a place can name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// What the place is called, for errors.
    pub name: String,
    /// Its function, `name` or `name [module]`.
    pub function: String,
    /// Where in it.
    pub at: At,
}

/// Addresses of functions, by the reason why they are left out.
pub type LeftOut = BTreeMap<&'static str, BTreeSet<u64>>;

/// How words are taken.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manner {
    /// They may mean more places than people mean to ask for.
    pub confirmed: bool,
    /// The places have programs, or what else sees registers.
    pub programs: bool,
    /// What cannot be is left out, also if a word names it.
    pub lenient: bool,
    /// Refusals name functions by name and module: who reads them may not know addresses.
    pub by_name: bool,
}

/// What is known of the running kernel.
pub struct Kernel<'a> {
    /// Functions, with ftrace's sites.
    pub functions: &'a Functions,
    /// Names of all text.
    pub symbols: &'a Symbols,
    /// What is put aside of functions.
    pub parts: Parts<'a>,
    /// What branches to thunks are.
    pub thunks: Thunks,
    /// Its memory.
    pub memory: &'a mut dyn Memory,
    /// Its source lines.
    pub source: Source<'a>,
    /// Names of functions by their addresses.
    pub names: OnceCell<HashMap<u64, Vec<&'a str>>>,
    /// See [`Places::suspects`].
    pub suspects: BTreeSet<u64>,
    /// See [`Manner::by_name`].
    pub by_name: bool,
}

/// Places in one function: addresses and `SPLICE_*`.
struct Found {
    function: Function,
    /// It is one of those that a glob means.
    may_be_left_out: bool,
    places: Vec<(u64, u32)>,
}

impl<'a> Kernel<'a> {
    /// The kernel that runs. `vmlinux`: its file, where source lines are looked up.
    pub fn of(
        functions: &'a Functions,
        symbols: &'a Symbols,
        vmlinux: Option<PathBuf>,
        memory: &'a mut dyn Memory,
    ) -> Kernel<'a> {
        Kernel {
            functions,
            symbols,
            parts: Parts::of(symbols),
            thunks: symbols.thunks(),
            memory,
            source: Source::new(LinesArgs::of(vmlinux, None), symbols),
            names: OnceCell::new(),
            suspects: BTreeSet::new(),
            by_name: false,
        }
    }
}

impl Kernel<'_> {
    /// The pattern of a word that means functions by a glob.
    fn glob(word: &Word) -> Option<Pattern> {
        Pattern::parse(&word.function).filter(Pattern::is_glob)
    }

    /// The one function that a word names.
    fn function(&self, word: &Word) -> Result<Function, Failure> {
        let digits = word.function["fn:".len()..].strip_prefix("0x");
        if let Some(address) = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            let known = self.functions.at(address).cloned();
            return known.ok_or_else(|| {
                Failure::usage(format!("{}: no function begins at {address:#x}", word.word))
            });
        }
        let Some(pattern) = Pattern::parse(&word.function) else {
            return Err(Failure::usage(format!("{}: {FORMS}", word.word)));
        };
        if pattern.is_glob() {
            return Err(Failure::usage(format!(
                "{}: name one function: an offset is a place in one",
                word.word
            )));
        }
        let mut found = self.functions.select(&pattern);
        let has_site = |one: &Function| self.functions.may_have_site(one);
        if found.iter().any(has_site) {
            found.retain(has_site);
        }
        let is_exact = |one: &Function| one.name == pattern.name();
        if found.iter().any(is_exact) {
            found.retain(is_exact);
        }
        match found.as_slice() {
            [] => Err(Failure::usage(self.functions.unknown(&pattern))),
            [one] => Ok(one.clone()),
            several => Err(ambiguous(&word.word, several, self.by_name)),
        }
    }

    fn code(&mut self, function: &Function) -> Option<Code> {
        Code::of(function, &self.parts, self.symbols, self.memory)
    }

    /// What a word means.
    fn found(
        &mut self,
        word: &Word,
        left_out: &mut LeftOut,
        confirmed: bool,
    ) -> Result<Vec<Found>, Failure> {
        match &word.what {
            What::Address(address) => {
                let function = self.owner(word, *address)?;
                let code = self.readable(word, &function)?;
                let place = self.instruction(word, &function, &code, *address, SPLICE_BEFORE)?;
                return Ok(vec![Found::one(function, vec![place])]);
            }
            What::Line(file, line) => return self.of_line(word, file, *line),
            _ => {}
        }
        match Self::glob(word) {
            Some(pattern) => self.of_glob(word, &pattern, left_out, confirmed),
            None => {
                let function = self.function(word)?;
                let places = self.places(word, &function)?;
                Ok(vec![Found::one(function, places)])
            }
        }
    }

    /// The function that an address lies in.
    fn owner(&self, word: &Word, address: u64) -> Result<Function, Failure> {
        let owner = self.functions.owner(self.symbols, address);
        owner
            .cloned()
            .map_err(|why| Failure::usage(format!("{}: {why}", word.word)))
    }

    /// All places of a line.
    fn of_line(&mut self, word: &Word, file: &str, line: u32) -> Result<Vec<Found>, Failure> {
        let mut all: BTreeMap<u64, Found> = BTreeMap::new();
        for address in self.source.stops(&word.word, file, line)? {
            let function = self.owner(word, address)?;
            let place = (self.breakable(&function, address)?, SPLICE_BEFORE);
            let known = all.entry(function.address);
            let known = known.or_insert_with(|| Found::one(function, Vec::new()));
            known.places.push(place);
        }
        Ok(all.into_values().collect())
    }

    /// The places of a word in all functions that a glob names.
    fn of_glob(
        &mut self,
        word: &Word,
        pattern: &Pattern,
        left_out: &mut LeftOut,
        confirmed: bool,
    ) -> Result<Vec<Found>, Failure> {
        let is_entry = match &word.what {
            What::At(part, offset, side) => {
                let is_entry = part.is_empty() && *offset == 0 && *side == SPLICE_BEFORE;
                if !is_entry || word.word.contains('+') {
                    return Err(Failure::usage(format!(
                        "{}: name one function: an offset is a place in one",
                        word.word
                    )));
                }
                true
            }
            _ => false,
        };
        let functions = self.functions.select(pattern);
        if functions.is_empty() {
            return Err(Failure::usage(self.functions.unknown(pattern)));
        }
        if is_entry {
            // Their code need not be read to count them.
            check_number(functions.len(), confirmed, Some(&word.word))?;
        }
        let number = functions.len();
        let mut all = Vec::new();
        // Of this word alone.
        let mut own: BTreeMap<&'static str, usize> = BTreeMap::new();
        for function in functions {
            let address = function.address;
            let mut leave_out = |why| {
                *own.entry(why).or_default() += 1;
                left_out.entry(why).or_default().insert(address);
            };
            if is_entry {
                match self.breakable(&function, function.address) {
                    Ok(entry) => all.push(Found::some(function, vec![(entry, SPLICE_BEFORE)])),
                    Err(_) => leave_out(UNREADABLE),
                }
                continue;
            }
            match self.code(&function) {
                None => leave_out(UNREADABLE),
                Some(code) if code.has_kprobes => leave_out(KPROBES),
                Some(code) => {
                    let places = self.matching(&word.what, &function, &code);
                    if !places.is_empty() {
                        all.push(Found::some(function, places));
                    }
                }
            }
        }
        if all.is_empty() {
            return Err(none_of(word, number, &own));
        }
        Ok(all)
    }

    /// Where a breakpoint for this address stands: behind the endbr64 of a function without a site.
    fn breakable(&mut self, function: &Function, address: u64) -> Result<u64, Failure> {
        // A door counts its endbr64. A breakpoint stands behind it.
        if address != function.address || self.functions.may_have_site(function) {
            return Ok(address);
        }
        let code = self
            .code(function)
            .ok_or_else(|| self.unreadable(function))?;
        Ok(code.behind_endbr64(address))
    }

    /// Why `code` has none.
    fn unreadable(&self, function: &Function) -> Failure {
        let name = &function.name;
        if self.symbols.end(function.address).is_none() {
            return Failure::cannot(format!(
                "where {name} ends is not known: no function of its module stands behind it"
            ));
        }
        Failure::cannot(format!(
            "the code of {name} cannot be read from /proc/kcore: be root"
        ))
    }

    fn readable(&mut self, word: &Word, function: &Function) -> Result<Code, Failure> {
        self.code(function).ok_or_else(|| {
            let failure = self.unreadable(function);
            Failure::cannot(format!("{}: {}", word.word, failure.message))
        })
    }

    /// The returns of a function, or its instructions of a form.
    fn matching(&self, what: &What, function: &Function, code: &Code) -> Vec<(u64, u32)> {
        let form = match what {
            What::All(form) => form,
            _ => return code.exits(&self.thunks),
        };
        let all = code.all(
            form,
            &self.thunks,
            self.site(function, code),
            |callee, at| self.is_called(callee, at),
        );
        let has_site = self.functions.may_have_site(function);
        let place = |at: u64| match at == function.address && !has_site {
            true => code.behind_endbr64(at),
            false => at,
        };
        let all = all.into_iter().map(|at| (place(at), SPLICE_BEFORE));
        all.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Where a function's site is.
    fn site(&self, function: &Function, code: &Code) -> Range<u64> {
        let begin = function.address;
        if !self.functions.may_have_site(function) {
            return begin..begin;
        }
        // The kernel may have put a nop in the endbr64's place.
        let first = code.at(begin).filter(|one| one.len() as u64 == ENDBR64);
        let site = begin + first.map_or(0, |_| ENDBR64);
        site..site + SITE
    }

    /// Does a function with such a name begin at an address?
    fn is_called(&self, name: &str, at: u64) -> bool {
        let all = self.names.get_or_init(|| {
            let mut all: HashMap<u64, Vec<&str>> = HashMap::new();
            for (own, _) in self.symbols.code() {
                all.entry(own.address).or_default().push(own.name);
            }
            all
        });
        let is_it = |own: &&str| glob::matches(name, own) || glob::matches(name, source_name(own));
        all.get(&at).is_some_and(|names| names.iter().any(is_it))
    }

    /// The places of a word in a function: addresses and `SPLICE_*`.
    fn places(&mut self, word: &Word, function: &Function) -> Result<Vec<(u64, u32)>, Failure> {
        let code = self.readable(word, function)?;
        let refused = |why: String| Failure::usage(format!("{}: {why}", word.word));
        if let What::At(part, offset, side) = &word.what {
            let address = code
                .address(part, *offset)
                .filter(|address| code.holds(*address))
                .ok_or_else(|| refused(format!("{} has no such place", function.name)))?;
            let place = self.instruction(word, function, &code, address, *side)?;
            return Ok(vec![place]);
        }
        if code.has_kprobes {
            return Err(refused(format!(
                "kprobes stand in {}, so its {} are not known for certain: end them and other \
                 `jifl probe` sessions that are about it first",
                function.name,
                match word.what {
                    What::Return => "returns",
                    _ => "instructions",
                }
            )));
        }
        let all = self.matching(&word.what, function, &code);
        if !all.is_empty() {
            return Ok(all);
        }
        Err(refused(match &word.what {
            What::All(Form::CallsOf(callee) | Form::BehindCallsOf(callee)) => {
                format!("{} calls no {callee} directly", function.name)
            }
            What::All(_) => format!("{} has no such instruction", function.name),
            _ => format!("{} never returns", function.name),
        }))
    }

    /// A place, if an instruction begins there.
    fn instruction(
        &mut self,
        word: &Word,
        function: &Function,
        code: &Code,
        address: u64,
        side: u32,
    ) -> Result<(u64, u32), Failure> {
        let refused = |why: String| Failure::usage(format!("{}: {why}", word.word));
        let address = match self.functions.may_have_site(function) {
            true => address,
            false => code.behind_endbr64(address),
        };
        // Where kprobes stand the kernel knows better.
        if code.at(address).is_none() && !code.has_kprobes {
            let near = code.neighbours(address).into_iter();
            let near: Vec<String> = near
                .map(|near| format!("fn:{}{}", function.name, code.place(near)))
                .collect();
            return Err(refused(format!(
                "no instruction begins there; the nearest are {}",
                near.join(" and ")
            )));
        }
        if side != SPLICE_BEFORE && !code.is_branch(address) && !code.has_kprobes {
            return Err(refused("no branch on a condition stands there".into()));
        }
        if code.at(address).is_none_or(may_be_kernels) {
            self.suspects.insert(address);
        }
        Ok((address, side))
    }

    /// Programs see no registers where a door stands: their place is right behind its site, and so
    /// is that of a function without one behind its endbr64.
    fn behind_site(&mut self, word: &Word, found: &mut Found) -> Result<(), Failure> {
        let code = self.readable(word, &found.function)?;
        let site = self.site(&found.function, &code);
        let entry = match site.is_empty() {
            true => code.behind_endbr64(found.function.address),
            false => site.end,
        };
        for (address, _) in &mut found.places {
            if !(found.function.address..entry).contains(address) {
                continue;
            }
            if code.is_jumped_to(entry) {
                return Err(Failure::usage(format!(
                    "{}: the first instruction of {} is in a loop, so its executions are not \
                     the calls: give one behind it, fn:{}+0xOFFSET",
                    word.word, found.function.name, found.function.name
                )));
            }
            *address = entry;
        }
        Ok(())
    }

    /// The instruction behind a function's site, if another tracer's call may stand there. `None`:
    /// nobody has the site, or not each execution of the instruction is known to be a call.
    pub fn behind_others_site(&mut self, function: &Function) -> Option<u64> {
        let code = self.code(function)?;
        let site = self.site(function, &code);
        let is_free = code.at(site.start)?.mnemonic() == Mnemonic::Nop && !leaves_sites();
        let is_in_loop = match code.has_kprobes {
            true => code.may_be_jumped_to(site.end),
            false => code.is_jumped_to(site.end),
        };
        (!site.is_empty() && !is_free && !is_in_loop).then_some(site.end)
    }

    /// What programs at these places, which are of one function, can name.
    fn spots(&mut self, function: &Function, splices: &[Splice]) -> Result<Vec<Spot>, Failure> {
        let code = self
            .code(function)
            .ok_or_else(|| self.unreadable(function))?;
        let site = self.site(function, &code);
        let entry = match site.is_empty() {
            true => code.behind_endbr64(function.address),
            false => site.end,
        };
        let exits = code.exits(&self.thunks);
        let at = |splice: &Splice| {
            if exits.contains(&(splice.address, splice.where_)) {
                return match code.returns(splice.address, &self.thunks) {
                    true => At::Return,
                    false => At::TailCall,
                };
            }
            match splice.address == entry {
                true => At::Entry,
                false => At::Inside,
            }
        };
        let spot = |splice| Spot {
            name: format!("fn:{}", self.name(function, splice)),
            function: function.shown(),
            at: at(splice),
        };
        Ok(splices.iter().map(spot).collect())
    }

    /// `NAME+0x10`, `NAME.cold@MODULE+0x3:taken`
    fn name(&self, function: &Function, splice: &Splice) -> String {
        let symbol = self.symbols.function(splice.address);
        let (name, start) = match &symbol {
            Some(symbol) if symbol.start() != function.address => (symbol.name(), symbol.start()),
            _ => (function.name.as_str(), function.address),
        };
        let module = function.module.as_ref();
        let module = module.map_or_else(String::new, |module| format!("@{module}"));
        let side = side(splice);
        let offset = splice.address.wrapping_sub(start);
        format!("{name}{module}+{offset:#x}{side}")
    }
}

/// Does the module leave sites to other tracers?
fn leaves_sites() -> bool {
    let sites = fs::read_to_string("/sys/module/jifl/parameters/sites");
    sites.is_ok_and(|sites| sites.trim() == "N")
}

/// How names of places end: with a way of a branch, or with nothing.
pub fn side(splice: &Splice) -> &'static str {
    match splice.where_ {
        SPLICE_TAKEN => ":taken",
        SPLICE_NOT_TAKEN => ":not-taken",
        _ => "",
    }
}

impl Found {
    fn one(function: Function, places: Vec<(u64, u32)>) -> Found {
        Found {
            function,
            may_be_left_out: false,
            places,
        }
    }

    fn some(function: Function, places: Vec<(u64, u32)>) -> Found {
        Found {
            may_be_left_out: true,
            ..Found::one(function, places)
        }
    }
}

/// May it be an instruction that the kernel changes itself, or that is a warning's?
fn may_be_kernels(one: &Instruction) -> bool {
    matches!(
        one.mnemonic(),
        Mnemonic::Nop | Mnemonic::Jmp | Mnemonic::Call | Mnemonic::Ud2
    )
}

/// Why functions of a glob are left out.
const UNREADABLE: &str = "their code cannot be read";
const KPROBES: &str = "kprobes stand in them";
const LOOPS: &str = "their first instruction is in a loop";

/// That a word means no place in any of so many functions. `left_out`: how many of them could not
/// be looked at, by the reason.
fn none_of(word: &Word, number: usize, left_out: &BTreeMap<&'static str, usize>) -> Failure {
    let shown = |number: usize| grouped(number as u64);
    let reasons = left_out.iter();
    let reasons: Vec<String> = reasons
        .map(|(why, number)| format!("{why} ({})", shown(*number)))
        .collect();
    let reasons = reasons.join(", ");
    let looked_at = number - left_out.values().sum::<usize>();
    let has = match word.what {
        What::Return => "returns",
        _ => "has such an instruction",
    };
    let found = match (looked_at, left_out.is_empty()) {
        (0, _) => format!("all {} functions are left out: {reasons}", shown(number)),
        (_, true) => format!("none of {} functions {has}", shown(number)),
        _ => format!(
            "none of {} functions {has}, and {} are left out: {reasons}",
            shown(looked_at),
            shown(number - looked_at)
        ),
    };
    let way_out = match () {
        () if left_out.contains_key(KPROBES) => {
            "; end the kprobes and other `jifl probe` sessions that are about them first"
        }
        () if left_out.contains_key(UNREADABLE) => "; be root, for /proc/kcore",
        () => "",
    };
    Failure::usage(format!("{}: {found}{way_out}", word.word))
}

/// That a word names several functions. Without `by_name` their addresses tell them apart, else
/// their modules.
fn ambiguous(word: &str, several: &[Function], by_name: bool) -> Failure {
    let number = several.len();
    let refused = |way_out: String| {
        Failure::usage(format!(
            "{word}: {number} functions have this name: {way_out}"
        ))
    };
    if !by_name {
        let one = |one: &Function| format!("fn:{:#x} ({})", one.address, one.shown());
        let all: Vec<String> = several.iter().map(one).collect();
        return refused(format!("give one of {}", all.join(", ")));
    }
    let one = |one: &Function| {
        let module = one.module.as_deref().unwrap_or(KERNEL);
        format!("fn:{}@{module}", one.name)
    };
    let named: BTreeSet<String> = several.iter().map(one).collect();
    let named: Vec<String> = named.into_iter().collect();
    match named.as_slice() {
        [_] => refused("their names do not tell them apart, and a glob means all of them".into()),
        several => refused(format!("give one of {}", several.join(", "))),
    }
}

/// Refuses too many places, of one word or of all.
fn check_number(number: usize, confirmed: bool, word: Option<&str>) -> Result<(), Failure> {
    let what = word.map_or_else(|| "these".into(), |word| format!("{word}: these"));
    let shown = grouped(number as u64);
    if number > SPLICES_MAX {
        return Err(Failure::usage(format!(
            "{what} are {shown} places, and a session has at most {}: give narrower patterns",
            grouped(SPLICES_MAX as u64)
        )));
    }
    if number > UNCONFIRMED && !confirmed {
        return Err(Failure::usage(format!(
            "{what} are {shown} places; each of them gets a breakpoint when the session starts: \
             give narrower patterns, or --yes"
        )));
    }
    Ok(())
}

/// What these words mean in the running kernel.
///
/// # Errors
/// One of them names no function or more than one, or no place that there is, or that a program can
/// have; there are too many places.
pub fn select(words: &[Word], mut kernel: Kernel<'_>, manner: Manner) -> Result<Places, Failure> {
    let mut last_failure = None;
    let Manner {
        confirmed,
        programs,
        lenient,
        by_name,
    } = manner;
    kernel.by_name = by_name;
    kernel.functions.need_addresses(&words[0].word)?;
    let mut left_out: LeftOut = BTreeMap::new();
    let mut functions: Vec<(Function, bool)> = Vec::new();
    let mut indices: HashMap<u64, usize> = HashMap::new();
    let mut found: Vec<(usize, Splice)> = Vec::new();
    let mut behind_sites = BTreeMap::new();
    for (index, word) in words.iter().enumerate() {
        let found_here = match kernel.found(word, &mut left_out, confirmed) {
            Err(failure) if lenient => {
                last_failure = Some(failure);
                continue;
            }
            found_here => found_here?,
        };
        for mut one in found_here {
            one.may_be_left_out |= lenient;
            if programs && let Err(failure) = kernel.behind_site(word, &mut one) {
                if !one.may_be_left_out {
                    return Err(failure);
                }
                let all = left_out.entry(LOOPS).or_default();
                all.insert(one.function.address);
                continue;
            }
            let entry = (one.function.address, SPLICE_BEFORE);
            if !one.may_be_left_out && one.places.contains(&entry) {
                let behind = kernel.behind_others_site(&one.function);
                behind_sites.extend(behind.map(|behind| (entry.0, behind)));
            }
            // A function may have several names.
            let target = *indices.entry(one.function.address).or_insert_with(|| {
                functions.push((one.function, true));
                functions.len() - 1
            });
            functions[target].1 &= one.may_be_left_out;
            for (address, side) in one.places {
                let splice = Splice {
                    address,
                    target: target as u32,
                    where_: side,
                    ..Splice::default()
                };
                found.push((index, splice));
            }
        }
    }
    if let (true, Some(failure)) = (found.is_empty(), last_failure) {
        return Err(failure);
    }
    let place = |splice: &Splice| (splice.address, splice.where_);
    let mut splices: Vec<Splice> = found.iter().map(|(_, splice)| *splice).collect();
    splices.sort_by_key(place);
    splices.dedup_by_key(|splice| place(splice));
    check_number(splices.len(), confirmed, None)?;
    let mut of_words = vec![Vec::new(); words.len()];
    for (word, splice) in &found {
        let at = splices.partition_point(|other| place(other) < place(splice));
        of_words[*word].push(at);
    }
    let name = |splice: &Splice| kernel.name(&functions[splice.target as usize].0, splice);
    let names = splices.iter().map(name).collect();
    let mut spots = Vec::new();
    if programs {
        for of_one in splices.chunk_by(|a, b| a.target == b.target) {
            spots.extend(kernel.spots(&functions[of_one[0].target as usize].0, of_one)?);
        }
    }
    let target = |(function, may_be_left_out)| {
        Target::Function(Arc::new(FunctionTarget {
            function,
            called: None,
            condition: None,
            may_be_left_out,
            value: 0,
            replacement: 0,
        }))
    };
    Ok(Places {
        targets: functions.into_iter().map(target).collect(),
        splices,
        names,
        spots,
        of_words,
        left_out,
        kernels: BTreeMap::new(),
        suspects: kernel.suspects,
        behind_sites,
        derived: Vec::new(),
    })
}

impl Places {
    /// For each place whether a word names it, not only a form that it has.
    pub fn named(&self, words: &[Word]) -> Vec<bool> {
        let mut named = vec![false; self.splices.len()];
        for (word, places) in words.iter().zip(&self.of_words) {
            if !matches!(word.what, What::All(_)) {
                places.iter().for_each(|at| named[*at] = true);
            }
        }
        named
    }

    /// Takes out the places of functions that turn out to be left out: each refused one tells.
    /// Nothing is derived yet.
    pub fn keep(&mut self, keeps: impl Fn(&Splice) -> bool) {
        let kept: Vec<bool> = self.splices.iter().map(keeps).collect();
        // For each place how many before it are kept.
        let before: Vec<usize> = (kept.iter())
            .scan(0, |sum, kept| {
                let before = *sum;
                *sum += usize::from(*kept);
                Some(before)
            })
            .collect();
        for places in &mut self.of_words {
            places.retain(|at| kept[*at]);
            places.iter_mut().for_each(|at| *at = before[*at]);
        }
        let mut at = kept.iter();
        self.splices.retain(|_| at.next().copied().unwrap_or(true));
        let mut at = kept.iter();
        self.names.retain(|_| at.next().copied().unwrap_or(true));
        let mut at = kept.iter();
        self.spots.retain(|_| at.next().copied().unwrap_or(true));
    }

    /// Has instructions counted by what leads there, instead of by places of their own, which are
    /// taken out. `leads`: addresses and `SPLICE_*` for each of these places, by its index.
    pub fn derive(&mut self, leads: &BTreeMap<usize, Vec<(u64, u32)>>) {
        let place = |splice: &Splice| (splice.address, splice.where_);
        let is_own = |at: &usize| !leads.contains_key(at);
        let own = (0..self.splices.len()).filter(is_own);
        let mut named: BTreeMap<(u64, u32), (Splice, String)> = own
            .map(|at| {
                (
                    place(&self.splices[at]),
                    (self.splices[at], self.names[at].clone()),
                )
            })
            .collect();
        for (at, all) in leads {
            let target = self.splices[*at].target;
            for (address, where_) in all {
                let splice = Splice {
                    address: *address,
                    target,
                    where_: *where_,
                    ..Splice::default()
                };
                // No word names it, so it is shown nowhere.
                named
                    .entry(place(&splice))
                    .or_insert((splice, String::new()));
            }
        }
        let at_of: HashMap<(u64, u32), usize> = named.keys().copied().zip(0..).collect();
        let derived: HashMap<usize, usize> = leads.keys().copied().zip(named.len()..).collect();
        let names = leads
            .keys()
            .map(|at| self.names[*at].clone())
            .collect::<Vec<_>>();
        let old = std::mem::take(&mut self.splices);
        for places in &mut self.of_words {
            let new = |at: &usize| {
                derived
                    .get(at)
                    .copied()
                    .unwrap_or_else(|| at_of[&place(&old[*at])])
            };
            *places = places.iter().map(new).collect();
        }
        self.derived = leads
            .iter()
            .map(|(at, all)| Derived {
                address: old[*at].address,
                target: old[*at].target,
                leads: all.iter().map(|place| at_of[place]).collect(),
            })
            .collect();
        (self.splices, self.names) = named.into_values().unzip();
        self.names.extend(names);
    }

    /// The counts of all places, and behind them those of what is derived.
    pub fn with_derived(&self, mut hits: Vec<Hits>) -> Vec<Hits> {
        for one in &self.derived {
            let sum = one.leads.iter().fold(Hits::default(), |sum, at| Hits {
                hits: sum.hits + hits[*at].hits,
                caught: sum.caught + hits[*at].caught,
                ..Hits::default()
            });
            hits.push(sum);
        }
        hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_are_left_out_leave_the_others_in_their_words() {
        let splice = |address, target| Splice {
            address,
            target,
            ..Splice::default()
        };
        let mut places = Places {
            splices: vec![splice(1, 0), splice(2, 1), splice(3, 0), splice(4, 2)],
            names: ["a", "b", "c", "d"].map(str::to_owned).to_vec(),
            of_words: vec![vec![0, 1, 3], vec![1], vec![2, 3]],
            ..Places::default()
        };
        places.keep(|splice| splice.target != 1);
        assert_eq!(places.of_words, [vec![0, 2], vec![], vec![1, 2]]);
        assert_eq!(places.names, ["a", "c", "d"]);
        let kept: Vec<u64> = places.splices.iter().map(|one| one.address).collect();
        assert_eq!(kept, [1, 3, 4]);
    }

    #[test]
    fn what_leads_to_an_instruction_counts_for_it() {
        let splice = |address| Splice {
            address,
            ..Splice::default()
        };
        let mut places = Places {
            splices: vec![splice(1), splice(5), splice(9)],
            names: ["f+0x1", "f+0x5", "f+0x9"].map(str::to_owned).to_vec(),
            of_words: vec![vec![0, 1], vec![2], vec![1]],
            ..Places::default()
        };
        // To 5 leads what is before it, which has a word of its own, and a branch.
        let leads = [(1, vec![(1, SPLICE_BEFORE), (7, SPLICE_TAKEN)])];
        places.derive(&leads.into_iter().collect());
        let now: Vec<_> = places
            .splices
            .iter()
            .map(|one| (one.address, one.where_))
            .collect();
        assert_eq!(
            now,
            [(1, SPLICE_BEFORE), (7, SPLICE_TAKEN), (9, SPLICE_BEFORE)]
        );
        assert_eq!(places.names, ["f+0x1", "", "f+0x9", "f+0x5"]);
        assert_eq!(places.of_words, [vec![0, 3], vec![2], vec![3]]);
        let hits = |hits| Hits {
            hits,
            ..Hits::default()
        };
        let all = places.with_derived(vec![hits(10), hits(3), hits(8)]);
        let all: Vec<u64> = all.iter().map(|one| one.hits).collect();
        assert_eq!(all, [10, 3, 8, 13]);
    }

    #[test]
    fn a_glob_that_means_no_place_says_why() {
        let message = |word: &str, number, left_out: &[(&'static str, usize)]| {
            let word = Word::parse(word).unwrap();
            none_of(&word, number, &left_out.iter().copied().collect()).message
        };
        assert_eq!(
            message("fn:f* lock", 1200, &[]),
            "fn:f* lock: none of 1,200 functions has such an instruction"
        );
        assert_eq!(
            message("fn:f*%return", 2, &[]),
            "fn:f*%return: none of 2 functions returns"
        );
        let all = message("fn:f*%return", 2, &[(KPROBES, 2)]);
        assert!(
            all.starts_with(
                "fn:f*%return: all 2 functions are left out: kprobes stand in them (2)"
            ) && all.ends_with("first"),
            "{all}"
        );
        let some = message("fn:f* call", 5, &[(KPROBES, 1), (UNREADABLE, 1)]);
        assert!(
            some.contains("none of 3 functions has such an instruction, and 2 are left out: ")
                && some.contains("kprobes stand in them (1), their code cannot be read (1)"),
            "{some}"
        );
    }

    /// Who may not know addresses is told modules.
    #[test]
    fn functions_of_one_name_are_told_apart() {
        let function = |address, module: Option<&str>| Function {
            address,
            name: "read".into(),
            module: module.map(str::to_owned),
        };
        let (first, second) = (0xffff_ffff_8100_0000, 0xffff_ffff_c000_0000);
        let several = [
            function(first, None),
            function(first + 16, None),
            function(second, Some("nfs")),
        ];
        let message = |several: &[Function], by_name| {
            let refused = ambiguous("fn:read", several, by_name);
            assert_eq!(refused.message.contains("0xffffffff"), !by_name);
            refused.message
        };
        assert_eq!(
            message(&several[1..], false),
            "fn:read: 2 functions have this name: give one of fn:0xffffffff81000010 (read), \
             fn:0xffffffffc0000000 (read [nfs])"
        );
        assert_eq!(
            message(&several, true),
            "fn:read: 3 functions have this name: give one of fn:read@nfs, fn:read@vmlinux"
        );
        let same = message(&several[..2], true);
        assert!(same.ends_with("and a glob means all of them"), "{same}");
    }

    #[test]
    fn many_places_must_be_confirmed() {
        assert!(check_number(1000, false, None).is_ok());
        let message = |number, confirmed| {
            let refused = check_number(number, confirmed, Some("fn:*")).unwrap_err();
            refused.message
        };
        let many = message(1001, false);
        assert!(many.starts_with("fn:*: these are 1,001 places") && many.ends_with("or --yes"));
        assert!(check_number(65_536, true, None).is_ok());
        assert!(message(65_537, true).contains("at most 65,536"));
    }
}
