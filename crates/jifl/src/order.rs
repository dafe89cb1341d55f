// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds the order of the folders: each folder uses those before it in [`ROOMS`], and none behind
//! it.

use std::fs;
use std::path::{Path, PathBuf};

/// The lowest first.
const ROOMS: [&str; 6] = ["base", "show", "kernel", "expr", "session", "cmd"];

/// What a file in `room` names of the crate although it must not.
fn refused(room: &str, text: &str) -> Vec<String> {
    let own = ROOMS.iter().position(|name| *name == room).unwrap();
    let may = |named: &str| match ROOMS.iter().position(|name| *name == named) {
        Some(other) => other <= own,
        // `Cli` is the definition of the whole command; manual pages are made from it.
        None => room == "cmd" && named == "Cli",
    };
    let word = |text: &str| -> String {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
        text[..end.unwrap_or(text.len())].to_owned()
    };
    let mut bad = Vec::new();
    // `crate::{...}` yields no word, and is refused: a group would hide the rooms in it.
    for (at, begin) in text.match_indices("crate::") {
        let named = word(&text[at + begin.len()..]);
        if !may(&named) {
            bad.push(format!("crate::{named}"));
        }
    }
    // In the first file of a room, `super` is the root of the crate.
    for (at, begin) in text.match_indices("super::") {
        let named = word(&text[at + begin.len()..]);
        if ROOMS.contains(&named.as_str()) && !may(&named) {
            bad.push(format!("super::{named}"));
        }
    }
    bad
}

/// All Rust files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .collect()
}

#[test]
fn folders_use_only_those_before_them() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut bad = Vec::new();
    for room in ROOMS {
        let all = files(&source.join(room));
        assert!(!all.is_empty(), "{room}");
        for file in all {
            let text = fs::read_to_string(&file).unwrap();
            let file = file.strip_prefix(&source).unwrap().display().to_string();
            let named = refused(room, &text);
            bad.extend(named.iter().map(|named| format!("{file} uses {named}")));
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// A folder without a place in the order would not be checked.
#[test]
fn each_folder_has_a_place_and_no_file_stands_outside() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let entries = fs::read_dir(source).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut others: Vec<String> = names
        .filter(|name| !ROOMS.contains(&name.as_str()))
        .collect();
    others.sort();
    assert_eq!(others, ["main.rs", "order.rs"]);
}

#[test]
fn an_upward_use_is_refused() {
    for (room, text, expected) in [
        ("kernel", "use crate::session::device;", "crate::session"),
        ("session", "fn f() { crate::cmd::vm::run() }", "crate::cmd"),
        ("base", "use crate::show::output;", "crate::show"),
        ("show", "use crate::{base, cmd};", "crate::"),
        ("session", "use crate::Cli;", "crate::Cli"),
        ("kernel", "use super::super::cmd::vm;", "super::cmd"),
    ] {
        assert_eq!(refused(room, text), [expected], "{text}");
    }
    for (room, text) in [
        ("cmd", "use crate::session::device; use crate::Cli;"),
        ("session", "use crate::kernel::lines; use super::ring;"),
        ("session", "use crate::session::ring;"),
        ("cmd", "use super::show; use super::super::rows;"),
    ] {
        assert!(refused(room, text).is_empty(), "{text}");
    }
}
