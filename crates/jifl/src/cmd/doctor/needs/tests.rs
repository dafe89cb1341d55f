// SPDX-License-Identifier: MIT OR Apache-2.0
//! That the list is what host/kernel asks for, and what the docs and the packages say.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files below a folder whose names end so: their paths in it, and their texts.
fn files(folder: &Path, ends: &[&str]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(own) = folders.pop() {
        for entry in fs::read_dir(&own).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if ends.iter().any(|end| path.to_str().unwrap().ends_with(end)) {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
                all.push((name.to_owned(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    all
}

fn host() -> Vec<(String, String)> {
    files(&root().join("host/kernel"), &[".c", ".h"])
}

/// What stands behind each `begin`, up to `end`.
fn each<'a>(text: &'a str, begin: &str, end: char) -> Vec<&'a str> {
    let behind = text
        .match_indices(begin)
        .map(|(at, _)| &text[at + begin.len()..]);
    behind.map(|rest| rest.split(end).next().unwrap()).collect()
}

/// The strings in a piece of C.
fn strings(code: &str) -> impl Iterator<Item = &str> {
    code.split('"').skip(1).step_by(2)
}

/// The rows `{ "name", rest }` of tables whose rest begins so.
fn rows<'a>(text: &'a str, rest: &'a str) -> impl Iterator<Item = &'a str> {
    each(text, "{ \"", '}').into_iter().filter_map(move |row| {
        let (name, behind) = row.split_once("\", ")?;
        behind.starts_with(rest).then_some(name)
    })
}

/// The rows of tables of hooks: names, and whether the module does not load without them.
fn hooks(text: &str) -> Vec<(&str, bool)> {
    let tables = each(text, "struct jifl_hook hooks[] = {", ';');
    let rows = tables
        .into_iter()
        .flat_map(|table| each(table, "{ \"", '}'));
    rows.map(|row| {
        let (name, rest) = row.split_once("\", ").unwrap();
        (name, rest.trim_end().ends_with("true"))
    })
    .collect()
}

/// The imports of compat/import.h: names, and whether the module does not load without them.
fn imports() -> Vec<(String, bool)> {
    let text = read("host/kernel/compat/import.h");
    let of = |word: &str, is_needed: bool| {
        let names = each(&text, &format!("X({word}, "), ')');
        names
            .iter()
            .map(|name| ((*name).to_owned(), is_needed))
            .collect::<Vec<_>>()
    };
    [of("NEEDED", true), of("OPTIONAL", false)].concat()
}

/// All names that the module asks for.
fn asked_for() -> BTreeSet<String> {
    let mut names: BTreeSet<String> = imports().into_iter().map(|(name, _)| name).collect();
    let mut points = BTreeSet::new();
    for (file, text) in host() {
        names.extend(
            each(&text, "jifl_ksym(\"", '"')
                .into_iter()
                .map(str::to_owned),
        );
        points.extend(
            each(&text, "jifl_compat_tracepoint(\"", '"')
                .into_iter()
                .map(str::to_owned),
        );
        names.extend(hooks(&text).into_iter().map(|(name, _)| name.to_owned()));
        let mut add = |code: Vec<&str>| {
            names.extend(code.into_iter().flat_map(strings).map(str::to_owned));
        };
        match file.as_str() {
            "text/text.c" => {
                add(each(&text, "add_thunks(", ';'));
                names.extend(rows(&text, "JIFL_TEXT_").map(str::to_owned));
            }
            "text/blacklist.c" => add(each(&text, "add_section(b", ';')),
            "enter/function.c" => add(each(&text, "static const char *const names[] =", ';')),
            "tools/lock/lock.c" => names.extend(rows(&text, "JIFL_LOCK_").map(str::to_owned)),
            "tools/times/counter.c" => add(each(&text, "jifl_times_is_between(at", ')')),
            "tools/times/switch.c" => points.extend(rows(&text, "jifl_times_").map(str::to_owned)),
            "tools/times/interrupts.c" => {
                let handlers = each(&text, "jifl_times_handlers[] = {", '}');
                for name in handlers.into_iter().flat_map(strings) {
                    points.extend([format!("{name}_entry"), format!("{name}_exit")]);
                }
            }
            "flight/event.c" => points.extend(
                each(&text, "\tX(", '"')
                    .into_iter()
                    .map(|row| row.split(", ").nth(2).unwrap().to_owned()),
            ),
            _ => {}
        }
    }
    names.extend(points.iter().map(|point| format!("__tracepoint_{point}")));
    names
}

/// A new table of names in host/kernel would not be read above: it stands here first.
#[test]
fn names_are_asked_for_where_they_are_looked_for() {
    let by_variable = |begin: &str| -> BTreeSet<String> {
        let is_one = |text: &str| {
            let mut calls = text.match_indices(begin);
            calls.any(|(at, _)| !text[at + begin.len()..].starts_with('"'))
        };
        let files = host().into_iter();
        // A plugin asks for what it likes.
        let files = files.filter(|(file, text)| !file.starts_with("plugin/") && is_one(text));
        files.map(|(file, _)| file).collect()
    };
    let known = |files: &[&str]| files.iter().map(|file| (*file).to_owned()).collect();
    let files: BTreeSet<String> = known(&[
        "compat/import.c",
        "compat/ksym.c",
        "compat/ksym.h",
        "enter/function.c",
        "flight/calls.c",
        "text/blacklist.c",
        "text/hooks.c",
        "text/text.c",
        "tools/lock/lock.c",
        "tools/times/counter.c",
    ]);
    assert_eq!(by_variable("jifl_ksym("), files);
    let files: BTreeSet<String> = known(&[
        "compat/compat.h",
        "compat/tracepoint.c",
        "flight/event.c",
        // Of an option of the user's.
        "tools/times/counter.c",
        "tools/times/interrupts.c",
        "tools/times/switch.c",
    ]);
    assert_eq!(by_variable("jifl_compat_tracepoint("), files);
}

#[test]
fn the_symbols_are_those_that_the_module_asks_for() {
    let asked = asked_for();
    assert!(asked.len() > 150, "{}", asked.len());
    let listed = symbols::WANTED.iter().flat_map(|wanted| wanted.any_of);
    let mut seen = BTreeSet::new();
    for name in listed {
        assert!(seen.insert((*name).to_owned()), "{name} is listed twice");
    }
    let unlisted: Vec<&String> = asked.difference(&seen).collect();
    assert!(unlisted.is_empty(), "not in symbols.rs: {unlisted:?}");
    let stale: Vec<&String> = seen.difference(&asked).collect();
    assert!(stale.is_empty(), "host/kernel does not ask for {stale:?}");
}

#[test]
fn what_the_module_does_not_load_without_is_told_so() {
    let listed = |name: &str| {
        let mut all = symbols::WANTED.iter();
        all.find(|wanted| wanted.any_of.contains(&name)).unwrap()
    };
    let needed = imports().into_iter().filter(|(_, is_needed)| *is_needed);
    for (name, _) in needed {
        assert_eq!(listed(&name).need, Need::Load, "{name}");
    }
    for (_, text) in host() {
        for (name, is_needed) in hooks(&text) {
            assert_eq!(listed(name).is_hooked, is_needed, "{name}");
        }
    }
    for wanted in symbols::WANTED {
        let is_load = wanted.need == Need::Load;
        assert_eq!(is_load, !wanted.why.is_empty(), "{:?}", wanted.any_of);
        assert!(is_load || !wanted.is_hooked, "{:?}", wanted.any_of);
    }
    assert!(hooked().count() >= 10);
}

#[test]
fn types_are_those_that_commands_ask_for() {
    let mut asked = BTreeSet::new();
    for room in ["cmd", "kernel"] {
        let folder = root().join("crates/jifl/src").join(room);
        for (file, text) in files(&folder, &[".rs"]) {
            if file != "doctor/needs/tests.rs" {
                let names = each(&text, "resolve_ids_by_name(\"", '"');
                asked.extend(names.into_iter().map(str::to_owned));
            }
        }
    }
    let listed: BTreeSet<String> = TYPES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(asked, listed);
}

#[test]
fn packages_ask_for_the_same_options() {
    let lack = read("packaging/module/lack");
    let words = each(&lack, "\nfor option in ", ';');
    let words = words[0].split_whitespace().filter(|word| *word != "\\");
    let asked: Vec<String> = words.map(|word| format!("CONFIG_{word}")).collect();
    let wanted = options::WANTED.iter();
    let wanted: Vec<&str> = wanted
        .filter(|wanted| wanted.need == Need::Load)
        .map(|wanted| wanted.name)
        .collect();
    assert_eq!(asked, wanted);
}

/// The tables of docs/kernels.md have each option, each symbol that is needed, and each part.
#[test]
fn the_docs_say_the_same() {
    let docs = read("docs/kernels.md");
    for wanted in options::WANTED {
        let need = match wanted.need {
            Need::Part(of) => of,
            _ => "all",
        };
        let row = format!("| {} | {} | {need} |", wanted.name, wanted.why);
        assert!(docs.contains(&row), "docs/kernels.md has no row\n{row}");
    }
    for unwanted in options::UNWANTED {
        let row = format!(
            "| {} | {}: {} |",
            unwanted.name, unwanted.what, unwanted.does
        );
        assert!(docs.contains(&row), "docs/kernels.md has no row\n{row}");
    }
    let mut rows = BTreeSet::new();
    for wanted in symbols::WANTED
        .iter()
        .filter(|wanted| wanted.need != Need::Hint)
    {
        let names = wanted.any_of.join(" or ");
        match wanted.need {
            Need::Part(of) => assert!(docs.contains(&format!("| {of} |")), "docs: {of}"),
            _ => {
                rows.insert(names);
            }
        }
    }
    for names in rows {
        assert!(
            docs.contains(&format!("| {names} |")),
            "docs/kernels.md has no {names}"
        );
    }
    for ((major, minor), tested) in versions::TESTED {
        let all = docs
            .lines()
            .find(|line| line.starts_with(&format!("| {major}.{minor} |")));
        let all = all.unwrap_or_else(|| panic!("docs/kernels.md has no {major}.{minor}"));
        assert_eq!(
            all.ends_with("| all |"),
            *tested == versions::Tested::Whole,
            "{all}"
        );
    }
}

#[test]
fn each_lack_of_an_option_is_one_finding() {
    let line = |wanted: &options::Wanted| format!("{}=y\n", wanted.name);
    for lacking in options::WANTED {
        let text: String = options::WANTED
            .iter()
            .filter(|wanted| wanted.name != lacking.name)
            .map(line)
            .collect();
        let findings = of_options(&Config::parse(&text).unwrap(), "made");
        let found = findings
            .iter()
            .find(|own| own.what == lacking.name)
            .unwrap();
        let is_load = lacking.need == Need::Load;
        assert_eq!(found.verdict == Verdict::Bad, is_load, "{}", lacking.name);
        assert!(!found.remedy.is_empty());
        assert_eq!(findings.len(), 2, "{findings:?}");
    }
    let all: String = options::WANTED.iter().map(line).collect();
    let findings = of_options(&Config::parse(&all).unwrap(), "made");
    assert!(findings.len() == 1 && findings[0].verdict == Verdict::Ok);
    for unwanted in options::UNWANTED {
        let text = format!("{all}{}=y\n", unwanted.name);
        let findings = of_options(&Config::parse(&text).unwrap(), "made");
        assert_eq!(findings.len(), 2);
        assert_eq!(findings[1].verdict, unwanted.verdict);
        assert!(findings[1].found.contains(unwanted.name));
    }
}

#[test]
fn each_lack_of_a_symbol_is_told() {
    let version = (6, 1);
    let all = of_symbols(version, |_| true);
    assert!(all.len() == 1 && all[0].verdict == Verdict::Ok, "{all:?}");
    for lacking in symbols::WANTED {
        let findings = of_symbols(version, |name| !lacking.any_of.contains(&name));
        let found = &findings[0];
        match lacking.need {
            Need::Load => {
                assert_eq!(
                    (found.what, found.verdict),
                    (lacking.any_of[0], Verdict::Bad)
                );
                assert!(found.remedy.contains(lacking.why));
            }
            Need::Part(of) => {
                assert_eq!(found.verdict, Verdict::Note);
                assert!(found.found.contains(lacking.any_of[0]) && found.remedy.contains(of));
            }
            Need::Hint => assert_eq!(found.verdict, Verdict::Ok),
        }
        assert_eq!(findings.len(), 1, "{findings:?}");
        // One of several is enough.
        for only in lacking.any_of {
            let has = |name: &str| name == *only || !lacking.any_of.contains(&name);
            assert_eq!(of_symbols(version, has), all);
        }
    }
    // It is not asked for where it is not needed.
    let later = of_symbols((6, 12), |name| name != "rethook_add_node");
    assert_eq!(later[0].verdict, Verdict::Ok);
    assert!(
        of_symbols((6, 6), |name| name != "rethook_add_node")[0]
            .found
            .contains("rethook_add_node")
    );
}

#[test]
fn a_kernel_without_names_of_data_has_one_finding() {
    let found = of_symbols((6, 12), |name| !VARIABLES.contains(&name));
    assert_eq!((found.len(), found[0].verdict), (1, Verdict::Bad));
    assert!(found[0].remedy.contains("CONFIG_KALLSYMS_ALL"));
    let listed = |name: &&str| symbols::WANTED.iter().any(|own| own.any_of.contains(name));
    assert!(VARIABLES.iter().all(listed));
}

#[test]
fn a_release_tells_its_series() {
    for (release, version) in [
        ("6.1.0-9-amd64", (6, 1)),
        ("6.12.117+deb12-amd64", (6, 12)),
        ("7.3-rc1", (7, 3)),
        ("7.3+deb13", (7, 3)),
        ("mainline", (0, 0)),
    ] {
        assert_eq!(versions::of(release), version, "{release}");
    }
    let verdict = |release: &str| versions::check(release).verdict;
    assert_eq!(verdict("5.10.0-9-amd64"), Verdict::Bad);
    assert_eq!(verdict("6.1.0-9-amd64"), Verdict::Ok);
    let unknown = versions::check("6.18.44");
    assert_eq!(unknown.verdict, Verdict::Note);
    assert!(unknown.found.contains("not tested") && unknown.found.contains("6.12"));
    assert!(
        versions::check("7.3.4+deb13-amd64")
            .found
            .contains("a part")
    );
}
