// SPDX-License-Identifier: MIT OR Apache-2.0
//! Targets in the notation of users: `sys:openat`, `sys:*at`, `sys:257`; `fn:vfs_read`,
//! `fn:vfs_*@ext4`, `mod:ext4`; functions by other names (kinds.rs), as `softirq:NET_RX`, and by
//! their source (files.rs), as `file:fs/open.c`.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jifl_sys::abi::{
    COMM_MAX, CONDITIONS_MAX, Condition, NR_MAX, TARGET_OPTIONAL, TARGETS_MAX, TargetSpec,
    UNDER_MAX,
};

use crate::base::exit::Failure;
use crate::base::glob;
use crate::base::nearest::nearest;
use crate::kernel::functions::{Function, Functions};
use crate::kernel::pattern::Pattern;
use crate::kernel::syscalls::Table;
use crate::session::files::Files;
use crate::session::kinds::{self, Kernel, Kind};
use crate::show::text::grouped;

/// A pattern may mean so many functions; more must be confirmed with `--yes`.
const UNCONFIRMED: usize = 1000;

/// The help text of TARGET.
pub const HELP: &str = "\
    System calls: sys:openat, sys:*at, sys:*; of 32-bit programs: sys32:open; functions: \
    fn:vfs_read, fn:vfs_*, mod:ext4, by their source file:fs/ext4/*.c, line:fs/open.c:1390; \
    interrupts: irq:24, softirq:NET_RX; what is put off: work:FUNCTION, timer:FUNCTION; threads of \
    the kernel: kthread:NAME";

/// A place at which a thread can enter the code cache.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A system call, by its number.
    Syscall(u32),
    /// A function of the kernel.
    Function(Arc<FunctionTarget>),
}

/// A function as a target.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FunctionTarget {
    /// The function.
    pub function: Function,
    /// What users call it, if not by its name: `softirq:NET_RX`.
    pub called: Option<String>,
    /// Which of its calls are meant; `None`: all.
    pub condition: Option<Condition>,
    /// It is one of several that a word means. If it cannot be entered, it is left out. Otherwise
    /// the session is refused.
    pub may_be_left_out: bool,
    /// The type of its value in the module's form: `TARGET_SIGNED` and so on.
    pub value: u32,
    /// Where the function begins that replaces it; 0: nothing does.
    pub replacement: u64,
}

impl Target {
    /// All system calls, whether the running kernel has them or not.
    pub fn all_syscalls() -> Vec<Target> {
        (0..NR_MAX as u32).map(Target::Syscall).collect()
    }

    /// The number of a system call.
    pub fn nr(&self) -> Option<u32> {
        match self {
            Target::Syscall(nr) => Some(*nr),
            Target::Function(_) => None,
        }
    }

    /// Its number among all targets of a session, where it has the index `index`: that of the
    /// system call, or one that no system call has.
    pub fn number(&self, index: u32) -> u32 {
        self.nr().unwrap_or(NR_MAX as u32 + index)
    }

    /// The function.
    pub fn function(&self) -> Option<&Function> {
        match self {
            Target::Syscall(_) => None,
            Target::Function(target) => Some(&target.function),
        }
    }

    /// The module of a function that goes by its own name.
    pub fn module(&self) -> Option<&String> {
        match self {
            Target::Function(one) if one.called.is_none() => one.function.module.as_ref(),
            _ => None,
        }
    }

    /// The target in the module's form.
    pub fn spec(&self) -> TargetSpec {
        match self {
            Target::Syscall(nr) => TargetSpec::syscall(*nr),
            Target::Function(target) => {
                let function = &target.function;
                let mut spec = TargetSpec::function(function.address, &function.name);
                spec.flags |= target.value;
                spec.id = target.replacement;
                if target.may_be_left_out {
                    spec.flags |= TARGET_OPTIONAL;
                }
                spec
            }
        }
    }

    /// The target in the notation of users.
    pub fn shown(&self, table: &Table) -> String {
        match self {
            Target::Syscall(nr) => format!("sys:{}", table.name(*nr)),
            Target::Function(target) => target.shown(),
        }
    }
}

impl FunctionTarget {
    /// In the notation of users.
    pub fn shown(&self) -> String {
        match &self.called {
            Some(called) => called.clone(),
            None => self.function.target(),
        }
    }
}

/// The targets in the module's form, with the conditions that they name.
///
/// # Errors
/// There are too many conditions.
pub fn specs(targets: &[Target]) -> Result<(Vec<TargetSpec>, Vec<Condition>), Failure> {
    let mut conditions = Vec::new();
    let mut known: BTreeMap<Condition, u32> = BTreeMap::new();
    let mut spec_of = |target: &Target| {
        let mut spec = target.spec();
        if let Target::Function(one) = target
            && let Some(condition) = one.condition
        {
            spec.condition = *known.entry(condition).or_insert_with(|| {
                conditions.push(condition);
                conditions.len() as u32
            });
        }
        spec
    };
    let specs = targets.iter().map(&mut spec_of).collect();
    if conditions.len() > CONDITIONS_MAX {
        return Err(Failure::usage(format!(
            "these targets are {} interrupts, and a session has at most {}: give narrower patterns",
            grouped(conditions.len() as u64),
            grouped(CONDITIONS_MAX as u64)
        )));
    }
    Ok((specs, conditions))
}

/// The names of targets in reports, in their order, without the kind and the module. Functions
/// of one name are numbered in the order of their addresses: `f#1`, `f#2`. A function that users
/// call by another name has that one, with its kind.
pub fn names(targets: &[Target], table: &Table) -> Vec<String> {
    let mut all: HashMap<String, Vec<u64>> = HashMap::new();
    let key = |one: &FunctionTarget| match &one.called {
        Some(called) => called.clone(),
        None => one.function.shown(),
    };
    for target in targets {
        if let Target::Function(one) = target {
            all.entry(key(one)).or_default().push(one.function.address);
        }
    }
    for addresses in all.values_mut() {
        addresses.sort_unstable();
    }
    let name = |target: &Target| {
        let one = match target {
            Target::Syscall(nr) => return table.name(*nr),
            Target::Function(one) => one,
        };
        let name = one.called.as_ref().unwrap_or(&one.function.name);
        match all[&key(one)].as_slice() {
            [_] => name.clone(),
            several => {
                let place = several.partition_point(|address| *address < one.function.address);
                format!("{name}#{}", place + 1)
            }
        }
    };
    targets.iter().map(name).collect()
}

/// The names of functions among targets, with their modules, by their numbers.
pub fn functions(targets: &[Target], table: &Table) -> BTreeMap<u32, String> {
    let all = targets.iter().zip(names(targets, table)).enumerate();
    let functions = all.filter_map(|(index, (target, name))| {
        target.function()?;
        let name = match target.module() {
            Some(module) => format!("{name}@{module}"),
            None => name,
        };
        Some((target.number(index as u32), name))
    });
    functions.collect()
}

/// What the words of a command line mean.
#[derive(Debug, Default)]
pub struct Selected {
    /// The targets, each once.
    pub targets: Vec<Target>,
    /// The targets are threads, whose names are like this: the module's filter by names.
    pub threads: Option<[u8; COMM_MAX]>,
    /// What compilers have put aside of the functions.
    pub parts: Vec<Function>,
}

/// The targets that `words` name: system calls and functions. `kernel` is asked for the functions
/// of the running kernel if a word is about functions. `confirmed`: a pattern may mean any number
/// of functions.
///
/// # Errors
/// One word matches no target, or too many; addresses of functions are hidden; or two words call
/// one function by different names.
pub fn select(
    words: &[String],
    table: &Table,
    kernel: impl Kernel,
    confirmed: bool,
) -> Result<Selected, Failure> {
    let (mut syscalls, mut of_functions) = (BTreeSet::new(), Vec::new());
    for word in words {
        match Word::of(word)? {
            Some(read) => of_functions.push((word, read)),
            None => syscalls.extend(syscalls_of(word, table)?),
        }
    }
    let mut selected = Selected {
        targets: syscalls.into_iter().map(Target::Syscall).collect(),
        ..Selected::default()
    };
    if of_functions.is_empty() {
        return Ok(selected);
    }
    let mut found = Found {
        functions: kernel.functions(),
        confirmed,
        targets: BTreeMap::new(),
    };
    found.functions.need_addresses(of_functions[0].0)?;
    for (word, read) in &of_functions {
        match read {
            Word::Pattern(pattern) => found.add(pattern, None)?,
            Word::Files(files) => found.add_files(files, &kernel)?,
            Word::Named(kind) => {
                selected.threads = kind.name_filter(word)?;
                if selected.threads.is_some() && words.len() > 1 {
                    return Err(Failure::usage(format!(
                        "{word}: it selects threads by their names, for all targets of the \
                         session: give it alone"
                    )));
                }
                found.add_named(*kind, word, &kernel)?
            }
            Word::CalledBy => found.add_called_by(word)?,
        }
    }
    let functions = found.targets.values().map(|target| &target.function);
    selected.parts = found
        .functions
        .parts(functions)
        .into_iter()
        .cloned()
        .collect();
    let functions = found.targets.into_values();
    (selected.targets).extend(functions.map(|target| Target::Function(Arc::new(target))));
    if selected.targets.len() > TARGETS_MAX {
        return Err(Failure::usage(format!(
            "these are {} targets, and a session has at most {}: give narrower patterns",
            grouped(selected.targets.len() as u64),
            grouped(TARGETS_MAX as u64)
        )));
    }
    Ok(selected)
}

/// How a word names functions.
enum Word {
    Pattern(Pattern),
    Files(Files),
    Named(Kind),
    CalledBy,
}

impl Word {
    /// `None`: it names none.
    fn of(word: &str) -> Result<Option<Word>, Failure> {
        if let Some(pattern) = Pattern::parse(word) {
            return Ok(Some(Word::Pattern(pattern)));
        }
        if let Some((kind, _)) = Kind::of(word) {
            return Ok(Some(Word::Named(kind)));
        }
        if kinds::called_by(word).is_some() {
            return Ok(Some(Word::CalledBy));
        }
        Ok(Files::parse(word)?.map(Word::Files))
    }
}

/// A function, to be replaced by the one that begins at an address.
pub fn one(function: Function, replacement: u64) -> Selected {
    Selected {
        targets: vec![Target::Function(Arc::new(FunctionTarget {
            function,
            called: None,
            condition: None,
            may_be_left_out: false,
            value: 0,
            replacement,
        }))],
        ..Selected::default()
    }
}

/// Functions that were found so far.
struct Found {
    functions: Functions,
    confirmed: bool,
    targets: BTreeMap<u64, FunctionTarget>,
}

impl Found {
    /// Adds the calls of functions that come from certain others, as `work:NAME`.
    fn add_called_by(&mut self, word: &str) -> Result<(), Failure> {
        let Some((pattern, callers)) = kinds::called_by(word) else {
            return Ok(());
        };
        // A pattern would mean what those functions call themselves, too.
        if pattern.is_glob() {
            return Err(Failure::usage(format!(
                "{word}: name one function: which functions these run is known only when they do"
            )));
        }
        let condition = kinds::from(callers, &self.functions);
        let condition = condition.ok_or_else(|| {
            let callers = callers.join(", ");
            Failure::cannot(format!(
                "{word}: this kernel has no {callers}, which calls it"
            ))
        })?;
        self.add(&pattern, Some(condition))
    }

    /// Adds what a pattern means, or with a condition some calls of that.
    fn add(&mut self, pattern: &Pattern, condition: Option<Condition>) -> Result<(), Failure> {
        let found = self.functions.select(pattern);
        if found.is_empty() {
            return Err(Failure::usage(self.functions.unknown(pattern)));
        }
        self.check_number(pattern.word(), found.len())?;
        let may_be_left_out = pattern.is_glob() || found.len() > 1;
        for function in found {
            let called = condition.map(|_| function.behind(pattern.prefix()));
            self.add_one(function, called, condition, may_be_left_out)?;
        }
        Ok(())
    }

    /// Adds the functions that have code of source files.
    fn add_files(&mut self, files: &Files, kernel: &impl Kernel) -> Result<(), Failure> {
        let all = kernel.of_files(files, &self.functions)?;
        self.check_number(files.word(), all.len())?;
        let may_be_left_out = files.is_glob() || all.len() > 1;
        for function in all {
            self.add_one(function, None, None, may_be_left_out)?;
        }
        Ok(())
    }

    /// Refuses that a word means very many functions, unless that was confirmed.
    fn check_number(&self, word: &str, number: usize) -> Result<(), Failure> {
        match number > UNCONFIRMED && !self.confirmed {
            true => Err(Failure::usage(many(word, number))),
            false => Ok(()),
        }
    }

    /// Adds what a word of such a kind means.
    fn add_named(&mut self, kind: Kind, word: &str, kernel: &impl Kernel) -> Result<(), Failure> {
        let all = kind.all(&self.functions, kernel)?;
        let found = kind.select(word, &all)?;
        let may_be_left_out = found.len() > 1;
        for one in found {
            let Ok(function) = one.function else { continue };
            let called = format!("{}{}", kind.prefix(), one.name);
            self.add_one(function, Some(called), one.condition, may_be_left_out)?;
        }
        Ok(())
    }

    /// A function that several words mean is one target. It has one name.
    fn add_one(
        &mut self,
        function: Function,
        called: Option<String>,
        condition: Option<Condition>,
        may_be_left_out: bool,
    ) -> Result<(), Failure> {
        let target = FunctionTarget {
            function,
            called,
            condition,
            may_be_left_out,
            value: 0,
            replacement: 0,
        };
        let known = match self.targets.entry(target.function.address) {
            Entry::Vacant(place) => {
                place.insert(target);
                return Ok(());
            }
            Entry::Occupied(known) => known.into_mut(),
        };
        let is_same = known.called == target.called;
        // Of one target are all calls, or those of one condition. None is dropped without a word.
        let both =
            known.condition == target.condition && (known.may_be_left_out || may_be_left_out);
        if !is_same && !both {
            return Err(Failure::usage(format!(
                "{} and {} are one function, {}: give one of them",
                known.shown(),
                target.shown(),
                target.function.name
            )));
        }
        // The name of a word that means this one alone is the better one.
        if !is_same && known.may_be_left_out && !may_be_left_out {
            *known = target;
        }
        known.may_be_left_out &= may_be_left_out;
        Ok(())
    }
}

/// [`select`] from what the running kernel has.
///
/// # Errors
/// As for [`select`].
pub fn select_here(words: &[String], table: &Table, confirmed: bool) -> Result<Selected, Failure> {
    select(words, table, Functions::of_kernel, confirmed)
}

/// What calls can be made under, in the module's form: system calls, and functions by any name that
/// means all their calls.
///
/// # Errors
/// As for [`select`], and for functions of which some calls are meant.
pub fn under(words: &[String], table: &Table, confirmed: bool) -> Result<Vec<TargetSpec>, Failure> {
    let selected = select_here(words, table, confirmed)?;
    let is_some = |target: &&Target| match target {
        Target::Function(one) => one.condition.is_some() || selected.threads.is_some(),
        Target::Syscall(_) => false,
    };
    if let Some(target) = selected.targets.iter().find(is_some) {
        return Err(Failure::usage(format!(
            "--under {}: give the function: --under takes system calls and all calls of functions",
            target.shown(table)
        )));
    }
    let specs = under_specs(&selected);
    if specs.len() > UNDER_MAX {
        return Err(Failure::usage(format!(
            "--under: these are {} targets with their parts, and calls can be made under at most \
             {}: give narrower patterns",
            grouped(specs.len() as u64),
            grouped(UNDER_MAX as u64)
        )));
    }
    Ok(specs)
}

/// A function is on the stack, too, while it stands in what the compiler has put aside of it.
fn under_specs(selected: &Selected) -> Vec<TargetSpec> {
    let function = |one: &Function| TargetSpec::function(one.address, &one.name);
    let spec = |target: &Target| match target {
        Target::Syscall(nr) => TargetSpec::syscall(*nr),
        Target::Function(one) => function(&one.function),
    };
    let parts = selected.parts.iter().map(function);
    selected.targets.iter().map(spec).chain(parts).collect()
}

fn many(word: &str, number: usize) -> String {
    format!(
        "{word}: {} functions match; each call of each of them will run in the cache, and all are \
         patched when the session starts and ends: give a narrower pattern, or --yes",
        grouped(number as u64)
    )
}

fn syscalls_of(word: &str, table: &Table) -> Result<Vec<u32>, Failure> {
    let Some(pattern) = word.strip_prefix("sys:") else {
        return Err(not_a_target(word, table));
    };
    if let Ok(nr) = pattern.parse::<u32>() {
        if (nr as usize) < NR_MAX {
            return Ok(vec![nr]);
        }
        return Err(Failure::usage(format!(
            "{word}: system calls have numbers below {NR_MAX}"
        )));
    }
    let matching = table
        .iter()
        .filter(|(_, name)| glob::matches(pattern, name));
    let found: Vec<u32> = matching.map(|(nr, _)| nr).collect();
    if found.is_empty() {
        let mut message = format!("{word}: no such system call");
        if glob::is_pattern(pattern) {
            message = format!("{word}: matches no system call");
        }
        return Err(Failure::usage(message + &did_you_mean(pattern, table)));
    }
    Ok(found)
}

fn not_a_target(word: &str, table: &Table) -> Failure {
    if table.iter().any(|(_, name)| glob::matches(word, name)) {
        return Failure::usage(format!(
            "{word}: a target says of what kind it is: sys:{word}"
        ));
    }
    Failure::usage(format!(
        "{word}: targets are system calls, sys:NAME, sys:GLOB or sys32:NAME, functions, fn:NAME, \
         fn:GLOB or mod:NAME, by their source file:GLOB or line:FILE:LINE, and what interrupts \
         and puts off work: irq:NUMBER, softirq:NAME, work:FUNCTION, timer:FUNCTION, and threads \
         of the kernel, kthread:NAME{}",
        did_you_mean(word, table)
    ))
}

fn did_you_mean(name: &str, table: &Table) -> String {
    let near = nearest(name, table.iter().map(|(_, known)| known));
    if near.is_empty() {
        return "; `jifl list` shows all".into();
    }
    let near: Vec<String> = near.iter().map(|name| format!("sys:{name}")).collect();
    format!("; the nearest are {}", near.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::functions::tests::{numbered, sample};

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn pick(targets: &[&str]) -> Result<Vec<u32>, Failure> {
        select(&words(targets), &Table::all(), Functions::default, false)
            .map(|found| found.targets.iter().filter_map(Target::nr).collect())
    }

    fn pick_all(targets: &[&str], confirmed: bool) -> Result<Selected, Failure> {
        select(&words(targets), &Table::all(), sample, confirmed)
    }

    #[test]
    fn names_globs_and_numbers() {
        assert_eq!(pick(&["sys:read"]).unwrap(), [0]);
        assert_eq!(pick(&["sys:write", "sys:read", "sys:1"]).unwrap(), [0, 1]);
        assert_eq!(pick(&["sys:openat*"]).unwrap(), [257, 437]);
        assert!(pick(&["sys:*"]).unwrap().len() > 330);
    }

    #[test]
    fn what_is_unknown_gets_the_nearest_names() {
        let error = pick(&["sys:opnat"]).unwrap_err();
        assert_eq!(error.status, crate::base::exit::USAGE);
        assert!(error.message.contains("sys:openat"), "{}", error.message);
        for (target, hint) in [
            ("openat", "sys:openat"),
            ("sys:zzzzzz", "jifl list"),
            ("sys:zz*", "matches no"),
            ("sys:512", "below 512"),
        ] {
            let message = pick(&[target]).unwrap_err().message;
            assert!(message.contains(hint), "{target}: {message}");
            assert!(!message.contains('\n'));
        }
    }

    #[test]
    fn functions_stand_behind_system_calls_and_each_once() {
        let asked = ["fn:vfs_*", "sys:read", "fn:vfs_read", "fn:twice", "mod:nfs"];
        let selected = pick_all(&asked, false).unwrap();
        let shown: Vec<(String, bool)> = selected
            .targets
            .iter()
            .map(|target| match target {
                Target::Syscall(_) => (target.shown(&Table::all()), false),
                Target::Function(one) => (target.shown(&Table::all()), one.may_be_left_out),
            })
            .collect();
        let expected = [
            ("sys:read", false),
            ("fn:vfs_read", false),
            ("fn:vfs_write.isra.0", true),
            ("fn:vfs_bare", true),
            ("fn:twice", true),
            ("fn:twice", true),
            ("fn:read_page@nfs", true),
            ("fn:twice@nfs", true),
        ];
        assert_eq!(shown, expected.map(|(name, out)| (name.to_owned(), out)));
        let names = names(&selected.targets, &Table::all());
        let expected = ["read", "vfs_read", "vfs_write.isra.0", "vfs_bare"];
        assert_eq!(names[..4], expected);
        assert_eq!(names[4..], ["twice#1", "twice#2", "read_page", "twice"]);
    }

    #[test]
    fn functions_are_refused_in_one_line_each() {
        for (target, hint) in [
            ("fn:vfs_reed", "the nearest are fn:vfs_read"),
            ("fn:vfs_bax*", "matches no function"),
            ("mod:zzzz", "no module zzzz"),
            ("vfs_read", "fn:NAME"),
        ] {
            let failure = pick_all(&[target], false).unwrap_err();
            assert_eq!(failure.status, crate::base::exit::USAGE);
            assert!(failure.message.contains(hint), "{}", failure.message);
            assert!(!failure.message.contains('\n'));
        }
        let none = Functions::default;
        let hidden = select(&words(&["fn:vfs_read"]), &Table::all(), none, false).unwrap_err();
        assert_eq!(hidden.status, crate::base::exit::CANNOT);
        assert!(hidden.message.contains("kptr_restrict"));
    }

    #[test]
    fn functions_of_files_are_targets_by_their_own_names() {
        use crate::session::kinds::tests::Sample;
        let pick = |asked: &[&str]| select(&words(asked), &Table::all(), Sample, false);
        let shown = |selected: &Selected| -> Vec<(String, bool)> {
            let all = selected.targets.iter().map(|target| match target {
                Target::Syscall(_) => (target.shown(&Table::all()), false),
                Target::Function(one) => (one.shown(), one.may_be_left_out),
            });
            all.collect()
        };
        let of = |name: &str, out| (name.to_owned(), out);
        let all = pick(&["sys:read", "file:fs/*.c", "fn:vfs_read"]).unwrap();
        let expected = [
            of("sys:read", false),
            of("fn:vfs_read", false),
            of("fn:vfs_bare", true),
            of("fn:read_page@nfs", true),
        ];
        assert_eq!(shown(&all), expected);
        let one = pick(&["line:fs/read.c:1"]).unwrap();
        assert_eq!(shown(&one), [of("fn:vfs_read", false)]);
        let two = pick(&["line:fs/read.c:2"]).unwrap();
        assert_eq!(
            shown(&two),
            [of("fn:vfs_read", true), of("fn:vfs_bare", true)]
        );
        let wrong = pick(&["line:fs/read.c"]).unwrap_err();
        assert!(
            wrong.message.contains("line:fs/open.c:1390"),
            "{}",
            wrong.message
        );
    }

    #[test]
    fn calls_are_under_parts_of_functions_too() {
        let selected = pick_all(&["sys:read", "fn:vfs_read", "fn:known"], false).unwrap();
        let all = under_specs(&selected).into_iter().map(|spec| spec.address);
        assert_eq!(all.collect::<Vec<u64>>(), [0, 0x1010, 0x10e0, 0x1040]);
    }

    #[test]
    fn many_functions_are_confirmed() {
        let asked = |words_: &[&str], number, confirmed| {
            let all = || numbered(number);
            select(&words(words_), &Table::all(), all, confirmed)
        };
        let failure = asked(&["fn:*"], 1001, false).unwrap_err();
        assert!(
            failure.message.contains("1,001 functions match"),
            "{}",
            failure.message
        );
        assert!(failure.message.contains("--yes"));
        assert_eq!(asked(&["fn:*"], 1001, true).unwrap().targets.len(), 1001);
        assert_eq!(asked(&["fn:*"], 1000, false).unwrap().targets.len(), 1000);
    }

    #[test]
    fn functions_are_not_read_for_system_calls() {
        let read = || -> Functions { panic!("they are not needed") };
        let selected = select(&words(&["sys:read"]), &Table::all(), read, false).unwrap();
        assert_eq!(selected.targets, [Target::Syscall(0)]);
    }
}
