// SPDX-License-Identifier: MIT OR Apache-2.0
//! What names say of a kernel's text, and the text of /proc/kallsyms.

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

/// The lines of /proc/kallsyms. Hidden addresses, which are 0, are left out.
pub fn lines(kallsyms: &str) -> impl Iterator<Item = Line<'_>> {
    kallsyms.split('\n').filter_map(|line| {
        let (address, rest) = line.split_once(' ')?;
        let address = u64::from_str_radix(address, 16).ok()?;
        let (kind, rest) = rest.split_once(' ')?;
        let (name, module) = match rest.split_once(['\t', ' ']) {
            Some((name, module)) => (name, module.trim().trim_matches(['[', ']'])),
            None => (rest.trim_end(), ""),
        };
        (address > 0 && !name.is_empty()).then_some(Line {
            address,
            kind: kind.chars().next()?,
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
