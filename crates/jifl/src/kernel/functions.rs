// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of the running kernel and its modules, and which of them have an ftrace site.
//!
//! Names come from /proc/kallsyms. The sites come from tracefs, where it is mounted: since 6.5 the
//! kernel lists their addresses (available_filter_functions_addrs), and before that their functions
//! (available_filter_functions). Of functions that share a name, the names do not tell which has a
//! site; then all of them may have one, and the module decides.

mod kept;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::Path;

use jifl_code::names::{self, Line};

use super::images::KERNEL;
use super::kept::is_made;
use super::pattern::{Pattern, is_part, source_name};
use super::symbols::Symbols;
use crate::base::exit::Failure;
use crate::base::nearest::nearest;

/// Where tracefs is mounted.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// The module that entries of sessions lead through.
pub const OWN: &str = "jifl";
/// A site stands behind the endbr64 of its function, if it has one.
const ENDBR64: u64 = 4;

/// A function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// Where it begins.
    pub address: u64,
    /// Its name without the module.
    pub name: String,
    /// `None` for the kernel itself.
    pub module: Option<String>,
}

impl Function {
    /// `name [module]`
    pub fn shown(&self) -> String {
        match &self.module {
            Some(module) => format!("{} [{module}]", self.name),
            None => self.name.clone(),
        }
    }

    /// `fn:name@module`
    pub fn target(&self) -> String {
        self.behind("fn:")
    }

    /// `name@module` with a prefix.
    pub fn behind(&self, prefix: &str) -> String {
        match &self.module {
            Some(module) => format!("{prefix}{}@{module}", self.name),
            None => format!("{prefix}{}", self.name),
        }
    }

    fn unit(&self) -> &str {
        self.module.as_deref().unwrap_or(KERNEL)
    }
}

/// What the kernel tells about ftrace's sites.
#[derive(Debug, Default)]
enum Sites {
    /// Nothing.
    #[default]
    Unknown,
    /// Their addresses, or those of the functions that have one, in order.
    Addresses(Vec<u64>),
}

impl Sites {
    fn of_kernel(all: &[Function]) -> Sites {
        let read = |name: &str| {
            let mut files = TRACEFS.iter().map(|root| Path::new(root).join(name));
            files.find_map(|path| fs::read_to_string(path).ok())
        };
        if let Some(text) = read("available_filter_functions_addrs") {
            return Sites::addresses(&text);
        }
        read("available_filter_functions").map_or(Sites::Unknown, |text| Sites::names(&text, all))
    }

    /// Lines `ADDRESS NAME [MODULE]`. Addresses that are hidden tell nothing.
    fn addresses(text: &str) -> Sites {
        let first = |line: &str| u64::from_str_radix(line.split_whitespace().next()?, 16).ok();
        let all = text.lines().filter_map(first);
        Sites::at(all.filter(|at| *at > 0).collect())
    }

    /// Lines `NAME [MODULE]`. Of a function with several names only one is there.
    fn names(text: &str, all: &[Function]) -> Sites {
        let listed: HashSet<&str> = text.lines().collect();
        // Most are the kernel's own: their names are compared as they stand.
        let is_listed = |one: &&Function| match one.module {
            None => listed.contains(one.name.as_str()),
            Some(_) => listed.contains(one.shown().as_str()),
        };
        let all = all.iter().filter(is_listed);
        Sites::at(all.map(|one| one.address).collect())
    }

    fn at(mut all: Vec<u64>) -> Sites {
        all.sort_unstable();
        match all.is_empty() {
            true => Sites::Unknown,
            false => Sites::Addresses(all),
        }
    }

    /// May the function have a site?
    fn may_be_in(&self, function: &Function) -> bool {
        let begin = function.address;
        match self {
            Sites::Unknown => true,
            Sites::Addresses(all) => {
                let at = all.partition_point(|site| *site < begin);
                all.get(at).is_some_and(|site| *site <= begin + ENDBR64)
            }
        }
    }
}

/// All functions, in order of their addresses.
#[derive(Debug, Default)]
pub struct Functions {
    all: Vec<Function>,
    /// What compilers have put aside of functions (`f.cold`), in order of the addresses.
    parts: Vec<Function>,
    sites: Sites,
}

impl Functions {
    /// Those of the running kernel; empty if addresses are hidden.
    pub fn of_kernel() -> Functions {
        let told = || {
            let functions = Functions::listed(&Symbols::of_kernel());
            Functions {
                sites: Sites::of_kernel(&functions.all),
                ..functions
            }
        };
        kept::FILE.get(kept::parsed, told, kept::bytes).0
    }

    /// Those among all symbols, without sites. The padding before functions, trampolines of static
    /// calls, and code that the kernel makes while it runs, are none. Of several names of one
    /// address the global ones come first.
    fn listed(symbols: &Symbols) -> Functions {
        let is_none = |name: &str| names::is_padding(name) || names::is_trampoline(name);
        let is_one = |one: &Line<'_>| !one.module.is_some_and(is_made) && !is_none(one.name);
        let mut all: Vec<_> = symbols.code().filter(|(one, _)| is_one(one)).collect();
        all.sort_by(|(a, a_global), (b, b_global)| {
            (a.address, b_global, a.name).cmp(&(b.address, a_global, b.name))
        });
        let all = all.into_iter().map(|(one, _)| Function {
            address: one.address,
            name: one.name.to_owned(),
            module: one.module.map(str::to_owned),
        });
        Functions::of(all, Sites::Unknown)
    }

    /// Functions and parts of functions.
    fn of(all: impl Iterator<Item = Function>, sites: Sites) -> Functions {
        let (parts, all) = all.partition(|one| is_part(&one.name));
        Functions { all, parts, sites }
    }

    /// Refuses to look for what a word means where addresses of functions are hidden.
    ///
    /// # Errors
    /// They are.
    pub fn need_addresses(&self, word: &str) -> Result<(), Failure> {
        if !self.all.is_empty() {
            return Ok(());
        }
        Err(Failure::cannot(format!(
            "{word}: /proc/kallsyms does not show where functions are: be root, with \
             kernel.kptr_restrict 0 or 1"
        )))
    }

    /// Those that are no module's, in order of their addresses. A function is there by each name.
    pub fn of_kernel_itself(&self) -> impl Iterator<Item = &Function> {
        self.all.iter().filter(|one| one.module.is_none())
    }

    /// The function that begins at an address.
    pub fn at(&self, address: u64) -> Option<&Function> {
        let at = self.all.partition_point(|one| one.address < address);
        self.all.get(at).filter(|one| one.address == address)
    }

    /// From where to where a function of the kernel itself lies, by its name in the source. Of what
    /// a compiler has made of it, all.
    pub fn ranges(&self, name: &str) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        for (at, one) in self.all.iter().enumerate() {
            if one.module.is_some() || source_name(&one.name) != name {
                continue;
            }
            let behind = self.all[at..].iter();
            let next = behind
                .map(|next| next.address)
                .find(|next| *next > one.address);
            all.extend(next.map(|next| (one.address, next)));
        }
        all.dedup();
        all
    }

    /// What compilers have put aside of these functions. Of several functions of one name it is not
    /// known whose a part is: it is there if all of them are.
    pub fn parts<'a>(&self, of: impl Iterator<Item = &'a Function>) -> Vec<&Function> {
        let of: HashSet<u64> = of.map(|one| one.address).collect();
        let mut are_all: HashMap<(&str, Option<&str>), bool> = HashMap::new();
        for one in &self.all {
            let all = are_all.entry((&one.name, one.module.as_deref()));
            *all.or_insert(true) &= of.contains(&one.address);
        }
        let is_of = |part: &&Function| {
            let name = names::whole(&part.name);
            name.and_then(|name| are_all.get(&(name, part.module.as_deref()))) == Some(&true)
        };
        self.parts.iter().filter(is_of).collect()
    }

    /// The one function of this name and module. `None`: there is none, or there are several.
    pub fn named(&self, name: &str, module: Option<&str>) -> Option<&Function> {
        let is_it = |one: &&Function| one.name == name && one.module.as_deref() == module;
        let mut all = self.all.iter().filter(is_it);
        let first = all.next()?;
        all.next().is_none().then_some(first)
    }

    /// The function that an address lies in, or in whose cold part it lies.
    ///
    /// # Errors
    /// What is against it, with the place.
    pub fn owner(&self, symbols: &Symbols, address: u64) -> Result<&Function, String> {
        let symbol = symbols.function(address);
        let symbol =
            symbol.ok_or_else(|| format!("no function of the kernel is at {address:#x}"))?;
        if !is_part(symbol.name()) {
            let function = self.at(symbol.start());
            return function.ok_or_else(|| format!("{} is no function", symbol.shown()));
        }
        let whole = names::whole(symbol.name());
        let function = whole.and_then(|name| self.named(name, symbol.module()));
        function.ok_or_else(|| {
            format!(
                "{address:#x} is in {}, and that belongs to no function, or to one of several of \
                 its name",
                symbol.shown()
            )
        })
    }

    /// The names of a module's functions.
    pub fn of_module(&self, module: &str) -> impl Iterator<Item = &str> {
        let all = self.all.iter();
        let own = all.filter(move |one| one.module.as_deref() == Some(module));
        own.map(|one| one.name.as_str())
    }

    /// May the function have an ftrace site?
    pub fn may_have_site(&self, function: &Function) -> bool {
        self.sites.may_be_in(function)
    }

    /// The functions that a pattern means, in order of their addresses. A function with several
    /// names is found by each, and once. This project's own are none.
    pub fn select(&self, pattern: &Pattern) -> Vec<Function> {
        let mut matching: BTreeMap<u64, &Function> = BTreeMap::new();
        let all = self.all.iter().filter(|one| one.unit() != OWN);
        for function in all.filter(|one| pattern.matches(&one.name, one.unit())) {
            matching.entry(function.address).or_insert(function);
        }
        matching.into_values().cloned().collect()
    }

    /// That a pattern means no function, in one line, with what may be meant.
    pub fn unknown(&self, pattern: &Pattern) -> String {
        let word = pattern.word();
        if pattern.module() == Some(OWN) {
            return format!("{word}: JIFL needs its own functions itself");
        }
        let modules: BTreeSet<&str> = self.all.iter().map(Function::unit).collect();
        if let Some(module) = pattern.module() {
            if !modules.iter().any(|known| pattern.matches_module(known)) {
                let near = nearest(module, modules.iter().copied());
                let near = near.iter().map(|near| match pattern.is_module() {
                    true => format!("mod:{near}"),
                    false => format!("{}{}@{near}", pattern.prefix(), pattern.name()),
                });
                let hint = list(near, "`lsmod` shows those that are loaded");
                return format!("{word}: no module {module} has functions here{hint}");
            }
        }
        if is_part(pattern.name()) && !pattern.is_glob() {
            return format!(
                "{word}: it is a part of a function, and not entered by itself: give the function"
            );
        }
        let of_module = self.all.iter();
        let of_module = of_module.filter(|one| pattern.matches_module(one.unit()));
        let near = nearest(pattern.name(), of_module.map(|one| one.name.as_str()));
        let near = near.iter().map(|near| match pattern.module() {
            Some(module) => format!("{}{near}@{module}", pattern.prefix()),
            None => format!("{}{near}", pattern.prefix()),
        });
        let what = match pattern.is_glob() {
            true => "matches no function",
            false => "no such function",
        };
        let hint = list(near, "`jifl list 'fn:*'` shows all");
        format!("{word}: {what}{hint}")
    }
}

/// The end of a line that says that a name is unknown.
pub fn list(near: impl Iterator<Item = String>, or: &str) -> String {
    let near: Vec<String> = near.collect();
    match near.as_slice() {
        [] => format!("; {or}"),
        near => format!("; the nearest are {}", near.join(", ")),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    const KALLSYMS: &str = "\
        1000 T _stext\n1000 t __pfx_vfs_read\n1010 T vfs_read\n1040 t vfs_read.cold\n\
        1050 t vfs_write.isra.0\n1080 t vfs_bare\n10a0 t twice\n10c0 t twice\n10e0 T known\n\
        10e0 t known_too\n2000 d vfs_data\n3000 t read_page\t[nfs]\n3040 t twice\t[nfs]\n\
        4000 t bpf_prog_1\t[bpf]\n5000 t made\t[__builtin__ftrace]\n\
        6000 T __SCT__might_resched\n";

    fn parsed(kallsyms: &str) -> Functions {
        Functions::listed(&Symbols::parse(kallsyms))
    }

    /// A made-up kernel; all but `vfs_bare` have a site.
    pub fn sample() -> Functions {
        of(
            "1010 vfs_read\n1054 vfs_write.isra.0\n10a0 twice\n10c4 twice\n10e0 known\n\
            3000 read_page [nfs]\n3040 twice [nfs]\n",
        )
    }

    /// The same kernel with the beginnings of some system calls.
    pub fn with_calls() -> Functions {
        const CALLS: &str = "\
            1100 T __ia32_sys_read\n1120 T __x64_sys_read\n1140 T __ia32_compat_sys_open\n\
            1160 T __ia32_sys_getpid\n1160 T __x64_sys_getpid\n1160 t __do_sys_getpid\n\
            1180 T ia32_sys_call\n11a0 T behind_it\n";
        parsed(&format!("{KALLSYMS}{CALLS}"))
    }

    /// So many functions, of the kernel alone.
    pub fn numbered(number: u64) -> Functions {
        let line = |index| format!("{:x} t f{index}\n", 0x1000 + 16 * index);
        parsed(&(0..number).map(line).collect::<String>())
    }

    fn of(sites: &str) -> Functions {
        Functions {
            sites: Sites::addresses(sites),
            ..parsed(KALLSYMS)
        }
    }

    fn names(functions: &Functions, word: &str) -> Vec<String> {
        let found = functions.select(&Pattern::parse(word).unwrap());
        found.iter().map(Function::target).collect()
    }

    /// Those of the functions that may have a site.
    fn with_site(functions: &Functions, word: &str) -> Vec<String> {
        let mut found = functions.select(&Pattern::parse(word).unwrap());
        found.retain(|one| functions.may_have_site(one));
        found.iter().map(Function::target).collect()
    }

    #[test]
    fn names_globs_and_modules() {
        let all = sample();
        for (word, expected) in [
            ("fn:vfs_read", &["fn:vfs_read"][..]),
            ("fn:vfs_write", &["fn:vfs_write.isra.0"]),
            (
                "fn:vfs_*",
                &["fn:vfs_read", "fn:vfs_write.isra.0", "fn:vfs_bare"],
            ),
            ("fn:vfs_bare", &["fn:vfs_bare"]),
            ("fn:twice", &["fn:twice", "fn:twice", "fn:twice@nfs"]),
            ("fn:twice@vmlinux", &["fn:twice", "fn:twice"]),
            ("fn:known_too", &["fn:known_too"]),
            ("fn:known*", &["fn:known"]),
            ("mod:nfs", &["fn:read_page@nfs", "fn:twice@nfs"]),
            ("fn:made", &[]),
            ("fn:__SCT__might_resched", &[]),
            ("fn:vfs_data", &[]),
            ("fn:vfs_read.cold", &[]),
        ] {
            assert_eq!(names(&all, word), expected, "{word}");
        }
    }

    #[test]
    fn sites_are_known_by_address_or_by_name_or_not_at_all() {
        let all = parsed(KALLSYMS);
        let by_name = Functions {
            sites: Sites::names("vfs_read\ntwice\nknown_too\n", &all.all),
            ..all
        };
        // Which of both has the site, the name does not tell.
        assert_eq!(with_site(&by_name, "fn:twice*"), ["fn:twice"; 2]);
        assert_eq!(with_site(&by_name, "fn:known"), ["fn:known"]);
        assert_eq!(with_site(&sample(), "fn:vfs_bare"), [""; 0]);
        assert_eq!(with_site(&of(""), "fn:vfs_*").len(), 3);
        assert_eq!(with_site(&of("10c0 twice\n"), "fn:twice@vmlinux").len(), 1);
        assert!(matches!(Sites::addresses("0 f\n0 g\n"), Sites::Unknown));
    }

    #[test]
    fn what_is_unknown_gets_the_nearest() {
        let all = sample();
        for (word, hint) in [
            (
                "fn:vfs_reed",
                "no such function; the nearest are fn:vfs_read",
            ),
            ("fn:zzzz", "jifl list 'fn:*'"),
            ("fn:zz*", "matches no function"),
            ("fn:read_pages@nfs", "the nearest are fn:read_page@nfs"),
            (
                "fn:read@nfsd",
                "no module nfsd has functions here; the nearest are fn:read@nfs",
            ),
            ("mod:nfsd", "the nearest are mod:nfs"),
            ("mod:zzzz", "lsmod"),
            ("fn:vfs_read.cold", "a part of a function"),
            ("mod:jifl", "itself"),
        ] {
            let message = all.unknown(&Pattern::parse(word).unwrap());
            assert!(message.contains(hint), "{word}: {message}");
            assert!(
                message.starts_with(word) && !message.contains('\n'),
                "{message}"
            );
        }
    }

    #[test]
    fn hidden_addresses_are_none() {
        assert!(parsed("0000000000000000 T vfs_read\n").all.is_empty());
    }

    #[test]
    fn parts_belong_to_functions_of_their_names() {
        let all = parsed(&format!(
            "{KALLSYMS}10f0 t twice.cold\n3050 t twice.cold.1\t[nfs]\n"
        ));
        let of = |words: &[&str]| -> Vec<String> {
            let patterns = words.iter().map(|word| Pattern::parse(word).unwrap());
            let found = patterns.flat_map(|pattern| all.select(&pattern));
            let found: Vec<Function> = found.collect();
            let parts = all.parts(found.iter()).into_iter();
            parts.map(|part| part.behind("")).collect()
        };
        assert_eq!(of(&["fn:vfs_read", "fn:known"]), ["vfs_read.cold"]);
        assert_eq!(of(&["fn:twice"]), ["twice.cold", "twice.cold.1@nfs"]);
        assert_eq!(of(&["fn:twice@nfs"]), ["twice.cold.1@nfs"]);
        // It may be the other one's.
        let one = all.at(0x10a0).cloned();
        assert_eq!(all.parts(one.iter()), Vec::<&Function>::new());
    }
}
