// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words of the command, and the functions that can be looked at.

use super::*;
use crate::base::parse::check;
use crate::cmd::probe::place::Spot;
use crate::expr::At;

#[test]
fn the_documented_lines_parse() {
    check::<StatArgs>(
        &[
            "fn:vfs_read fn:vfs_write --for 10s",
            "wall,blocked/wall fn:do_sys_openat2 -- ls -R /usr/share",
            "fn:ext4_* -p 1234 -i 1s",
            "calls/s,wall/calls fn:tcp_sendmsg --context task -f csv --for 5s",
        ],
        &["", "fn:f -i 0", "fn:f -f xml", "fn:f -p 1 -- ls"],
    );
}

#[test]
fn words_are_metrics_and_functions() {
    let words = |all: &[&str]| -> Vec<String> { all.iter().map(|one| one.to_string()).collect() };
    let asked = read(&words(&["wall,calls", "fn:f", "cpu", "mod:m"])).unwrap();
    let names: Vec<&str> = asked.metrics.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["wall", "calls", "cpu"]);
    let both: Vec<&str> = asked.places.iter().map(|one| one.word.as_str()).collect();
    assert_eq!(both, ["fn:f", "fn:f%return", "fn:*@m", "fn:*@m%return"]);
    assert_eq!(read(&words(&["fn:f"])).unwrap().metrics.len(), 7);
    for refused in [
        &["wall"][..],
        &["fn:f%return"],
        &["sys:read"],
        &["mod:"],
        &["mod:m call"],
        &["mod:m%return"],
        &["fn:f\tcall"],
        &["fn:f+0x3"],
    ] {
        assert!(read(&words(refused)).is_err(), "{refused:?}");
    }
}

#[test]
fn a_function_needs_its_beginning_and_an_end() {
    let splice = |address, target| Splice {
        address,
        target,
        ..Splice::default()
    };
    let spot = |at| Spot {
        name: String::new(),
        function: String::new(),
        at,
    };
    let words = ["fn:*", "fn:*%return"].map(|word| Word::parse(word).unwrap());
    let mut places = Places {
        splices: vec![
            splice(1, 0),
            splice(2, 0),
            splice(3, 1),
            splice(4, 2),
            splice(5, 3),
        ],
        names: vec![String::new(); 5],
        spots: vec![
            spot(At::Entry),
            spot(At::TailCall),
            spot(At::Entry),
            spot(At::Return),
            spot(At::Return),
        ],
        of_words: vec![vec![0, 2, 4], vec![1, 3, 4]],
        ..Places::default()
    };
    whole(&mut places, &words);
    let targets: Vec<u32> = places.splices.iter().map(|one| one.target).collect();
    assert_eq!(targets, [0, 0, 3]);
    let actions: Vec<u32> = places.splices.iter().map(|one| one.action).collect();
    assert_eq!(
        actions,
        [
            TIMES_ENTER,
            TIMES_LEAVE | TIMES_JUMP,
            TIMES_ENTER | TIMES_LEAVE
        ]
    );
}
