// SPDX-License-Identifier: MIT OR Apache-2.0
//! What names say of a kernel's text, and the text of /proc/kallsyms.

use std::ops::Range;

use rustc_hash::FxHashSet;

/// A line of /proc/kallsyms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Where it stands.
    pub address: u64,
    /// As `nm` writes it.
    pub kind: char,
    /// Without the module.
    pub name: &'a str,
    /// `None` for the kernel itself.
    pub module: Option<&'a str>,
}

/// Where the kernel has its variables, by the names that it gives to beginning and end.
///
/// From 6.16 on the kernel calls them code, because their section is executable in its file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables(Range<u64>);

impl Variables {
    /// `address` finds the address of a name.
    pub fn between(address: impl Fn(&str) -> Option<u64>) -> Variables {
        let range = address("_sdata").zip(address("_edata"));
        Variables(range.map_or(0..0, |(begin, end)| begin..end))
    }

    /// The kind of the kernel's own symbol at an address of which the kernel says that kind.
    pub fn kind(&self, kind: char, address: u64) -> char {
        match kind {
            't' | 'w' if self.0.contains(&address) => 'd',
            'T' | 'W' if self.0.contains(&address) => 'D',
            _ => kind,
        }
    }
}

/// The address in the line of the kernel's own symbol of this name.
fn address_of(kallsyms: &str, name: &str) -> Option<u64> {
    let end = kallsyms.find(&format!(" {name}\n"))?;
    let line = kallsyms[..end].rsplit('\n').next()?;
    u64::from_str_radix(line.split(' ').next()?, 16).ok()
}

/// The lines of /proc/kallsyms as the kernel tells them, without functions that it has freed.
///
/// Those are functions of modules' initialization. If they could be traced, the kernel still has
/// their names, behind all modules (ftrace_mod_get_kallsym, kernel/trace/ftrace.c), and something
/// else may be at the address by now. All other lines of a module follow each other.
pub fn told(kallsyms: &str) -> impl Iterator<Item = Line<'_>> {
    let mut modules = Modules::default();
    lines(kallsyms).filter(move |line| !modules.has_ended(line.module))
}

/// Modules whose lines have been seen.
#[derive(Default)]
struct Modules<'a> {
    all: FxHashSet<&'a str>,
    last: Option<&'a str>,
}

impl<'a> Modules<'a> {
    /// Is the next line of a module behind those of others?
    fn has_ended(&mut self, module: Option<&'a str>) -> bool {
        if module == self.last {
            return false;
        }
        let has_ended = module.is_some_and(|name| self.all.contains(name));
        self.last = module.filter(|_| !has_ended);
        self.all.extend(module);
        has_ended
    }
}

/// Lines like those of /proc/kallsyms. Hidden addresses, which are 0, are left out.
pub fn lines(kallsyms: &str) -> impl Iterator<Item = Line<'_>> {
    let variables = Variables::between(|name| address_of(kallsyms, name));
    kallsyms.split('\n').filter_map(move |line| {
        let (address, rest) = line.split_once(' ')?;
        let address = u64::from_str_radix(address, 16).ok()?;
        let (kind, rest) = rest.split_once(' ')?;
        let (name, module) = match rest.split_once(['\t', ' ']) {
            Some((name, module)) => (name, module.trim().trim_matches(['[', ']'])),
            None => (rest.trim_end(), ""),
        };
        let kind = kind.chars().next()?;
        (address > 0 && !name.is_empty()).then_some(Line {
            address,
            kind: match module {
                "" => variables.kind(kind, address),
                _ => kind,
            },
            name,
            module: (!module.is_empty()).then_some(module),
        })
    })
}

/// Is a symbol of this kind code?
pub fn is_text(kind: char) -> bool {
    matches!(kind, 't' | 'T' | 'w' | 'W')
}

/// Is it only a mark of where something begins or ends: `__entry_text_start`? The address of a mark
/// may have another name, which is that of what stands there.
pub fn is_mark(name: &str) -> bool {
    name.starts_with("__") && (name.ends_with("_start") || name.ends_with("_end"))
        || matches!(
            name,
            "_text" | "_stext" | "_etext" | "_sinittext" | "_einittext"
        )
}

/// May it say where text or a table of the kernel begins or ends: `_stext`,
/// `__start___ex_table`, `__noinstr_text_end`?
pub fn is_bound(name: &str) -> bool {
    let words = ["start", "stop", "end", "_stext", "_etext"];
    name.starts_with('_') && words.iter().any(|word| name.contains(word))
}

/// Is it the padding before a function (scripts/link-vmlinux.sh, from 6.2 on)?
pub fn is_padding(name: &str) -> bool {
    name.starts_with("__pfx_")
}

/// Is it where a static call begins that is not made in line: a jump, which the kernel changes
/// (include/linux/static_call.h)?
pub fn is_trampoline(name: &str) -> bool {
    name.starts_with("__SCT__")
}

/// What a cold part is of: `f` of `f.cold` and `f.cold.12`.
pub fn whole(name: &str) -> Option<&str> {
    let (base, rest) = name.rsplit_once(".cold")?;
    let is_number = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
    (rest.is_empty() || rest.strip_prefix('.').is_some_and(is_number)).then_some(base)
}

/// Functions of the kernel that never return (tools/objtool/noreturns.h). Where a whole kernel is
/// analysed this turns out by itself; these are for modules, and for functions looked at alone.
const ENDLESS: [&str; 12] = [
    "__fortify_panic",
    "__module_put_and_kthread_exit",
    "__stack_chk_fail",
    "do_exit",
    "do_group_exit",
    "fortify_panic",
    "kthread_complete_and_exit",
    "kthread_exit",
    "make_task_dead",
    "panic",
    "rewind_stack_and_make_dead",
    "usercopy_abort",
];

/// Does the kernel's function of this name never return?
pub fn is_endless(name: &str) -> bool {
    ENDLESS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_no_code_whatever_the_kernel_says() {
        let text = "1000 T f\n3000 T _sdata\n3010 t var\n4000 T _edata\n3020 t f\t[mod]\n";
        let kinds: Vec<(&str, char)> = lines(text).map(|line| (line.name, line.kind)).collect();
        let own = [("f", 'T'), ("_sdata", 'D'), ("var", 'd'), ("_edata", 'T')];
        assert_eq!(kinds, [&own[..], &[("f", 't')]].concat());
    }

    #[test]
    fn functions_that_were_freed_are_not_told() {
        let text = "1000 T f\n2000 t g\t[a]\n2100 d v\t[a]\n3000 t h\t[b]\n3000 T init\t[a]\n\
                    2000 T init\t[b]\n4000 t prog\t[bpf]\n4100 t other\t[bpf]\n";
        let names: Vec<&str> = told(text).map(|line| line.name).collect();
        assert_eq!(names, ["f", "g", "v", "h", "prog", "other"]);
        assert_eq!(lines(text).count(), 8);
    }

    #[test]
    fn lines_without_an_address_are_left_out() {
        let text = "1000 T f\n0000000000000000 t hidden\n2000 d var\t[mod]\nx T g\n3000 t\n";
        let line = |address, kind, name, module| Line {
            address,
            kind,
            name,
            module,
        };
        let found: Vec<Line<'_>> = lines(text).collect();
        assert_eq!(
            found,
            [
                line(0x1000, 'T', "f", None),
                line(0x2000, 'd', "var", Some("mod"))
            ]
        );
        assert!(is_text('w') && !is_text('d'));
    }

    #[test]
    fn names_say_what_stands_there() {
        assert!(is_mark("__entry_text_start") && is_mark("_stext") && !is_mark("f_start"));
        assert!(is_bound("__stop___ex_table") && is_bound("_etext") && !is_bound("start"));
        assert_eq!(whole("f.part.0.cold.3"), Some("f.part.0"));
        assert_eq!((whole("f.cold"), whole("f.colder")), (Some("f"), None));
        assert!(
            is_padding("__pfx_f")
                && is_trampoline("__SCT__f")
                && is_endless("panic")
                && !is_endless("panic_on_oops")
        );
    }
}
