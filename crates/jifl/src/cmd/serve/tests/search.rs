// SPDX-License-Identifier: MIT OR Apache-2.0
//! Searches: their events, their ends, and who may have one.

use std::io::Write;
use std::os::unix::net::UnixStream;

use serde_json::{Value as Json, json};

use super::daemon::{Daemon, PATIENCE, read_until};
use super::fake::{FAILS, PANICS, SLOW};
use crate::base::exit::{CANNOT, FAILED, Failure, LIMIT};
use crate::cmd::remote::search::{Event, Search};
use crate::cmd::search::order::{Grown, Order};

/// Longer than any test.
const LONG: u64 = 600_000;

fn order(for_ms: u64) -> Order {
    Order {
        for_ms,
        ..Order::default()
    }
}

/// A search's end; how many trees came before.
fn end(search: &Search) -> (Result<Grown, Failure>, u64) {
    let mut trees = 0;
    loop {
        match search.next(PATIENCE).expect("an event in time") {
            Event::Tree(grown) => {
                let known = grown.report["known"].as_u64().unwrap();
                assert!(known > trees && grown.text == format!("known {known}\n"));
                trees = known;
            }
            Event::End(grown) => return (Ok(grown), trees),
            Event::Failed(failure) => return (Err(failure), trees),
        }
    }
}

/// A search by hand: it is there as long as the connection is.
fn by_hand(daemon: &Daemon) -> UnixStream {
    let mut stream = daemon.connect();
    let body = json!({ "for_ms": LONG }).to_string();
    let head = format!(
        "POST /v1/search HTTP/1.1\r\nHost: jifl\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    let text = read_until(&mut stream, "event: tree");
    assert!(
        text.contains("text/event-stream") && text.contains("event: begin"),
        "{text}"
    );
    stream
}

#[test]
fn the_tree_comes_while_it_grows() {
    let daemon = Daemon::searching();
    let search = Search::begin(&daemon.host(), &order(200)).unwrap();
    let (ended, trees) = end(&search);
    let ended = ended.unwrap();
    assert!(trees > 0 && ended.report["known"].as_u64().unwrap() >= trees);
    assert!(!ended.is_cut_short());
    assert!(daemon.has_line("search 1 started: who uid "));
    // Who has the end finds the line, and nothing of the search.
    assert!(daemon.has_line("search 1 ended: why done after"));
    assert!(daemon.hub.works.running().is_empty());
    assert!(daemon.has_line("what search for 0.2 s budget 2 %"));
}

#[test]
fn a_search_ends_early_with_what_is_known() {
    let daemon = Daemon::searching();
    let search = Search::begin(&daemon.host(), &order(LONG)).unwrap();
    assert!(matches!(search.next(PATIENCE), Some(Event::Tree(_))));
    search.end().unwrap();
    let ended = end(&search).0.unwrap();
    assert_eq!(ended.report["cut_short"], "it was interrupted");
    let search = Search::begin(&daemon.host(), &order(LONG)).unwrap();
    assert!(matches!(search.next(PATIENCE), Some(Event::Tree(_))));
    daemon.hub.works.end_all(PATIENCE);
    let ended = end(&search).0.unwrap();
    assert_eq!(ended.report["cut_short"], "the daemon ended");
}

#[test]
fn a_client_that_is_gone_ends_its_search() {
    let daemon = Daemon::searching();
    let events = by_hand(&daemon);
    let (_, _, list) = daemon.ask("GET /v1/sessions HTTP/1.1", "");
    let list: Json = serde_json::from_str(&list).unwrap();
    assert_eq!(list["works"][0]["kind"], "search");
    assert_eq!(list["works"][0]["yours"], true);
    drop(events);
    daemon.wait_for("its line", |daemon| {
        daemon.has_line("search 1 ended: why its client left")
    });
    daemon.wait_for("its end", |daemon| daemon.hub.works.running().is_empty());
}

#[test]
fn one_search_runs_at_a_time() {
    let daemon = Daemon::searching();
    let first = by_hand(&daemon);
    let second = Search::begin(&daemon.host(), &order(LONG)).unwrap();
    let failure = end(&second).0.unwrap_err();
    assert_eq!(failure.status, LIMIT);
    assert!(
        failure.message.contains("search 1 runs, of uid"),
        "{}",
        failure.message
    );
    drop(first);
    daemon.wait_for("room", |daemon| daemon.hub.works.running().is_empty());
    let third = Search::begin(&daemon.host(), &order(1)).unwrap();
    assert!(end(&third).0.is_ok());
}

#[test]
fn what_fails_has_the_exit_status_of_the_command() {
    let daemon = Daemon::searching();
    let fails = Order {
        pid: Some(FAILS),
        ..order(LONG)
    };
    let failure = end(&Search::begin(&daemon.host(), &fails).unwrap()).0;
    let failure = failure.unwrap_err();
    assert_eq!(failure.status, CANNOT);
    assert!(!failure.message.contains('\n'), "{}", failure.message);
    // It has measured nothing.
    assert!(daemon.has_line("refused: search 1: who uid "));
    let panics = Order {
        pid: Some(PANICS),
        ..order(LONG)
    };
    let failure = end(&Search::begin(&daemon.host(), &panics).unwrap()).0;
    let failure = failure.unwrap_err();
    assert_eq!(failure.status, FAILED);
    assert!(
        failure.message.contains("standard error"),
        "{}",
        failure.message
    );
    daemon.wait_for("its line", |daemon| daemon.has_line("it has died"));
    assert!(!daemon.has_line(" started: "));
    let wrong = Order {
        budget: 1000.0,
        ..order(LONG)
    };
    let failure = end(&Search::begin(&daemon.host(), &wrong).unwrap()).0;
    assert!(failure.unwrap_err().message.contains("give percent"));
    for (head, expected) in [
        ("GET /v1/search HTTP/1.1", 405),
        ("POST /v1/search HTTP/1.1", 415),
        ("GET /v1/search/1 HTTP/1.1", 405),
        ("DELETE /v1/search/9 HTTP/1.1", 404),
    ] {
        assert_eq!(daemon.ask(head, "").0, expected, "{head}");
    }
}

/// A search that has been told to end, and takes its time.
fn slow_to_end(daemon: &Daemon) -> Search {
    let slow = Order {
        pid: Some(SLOW),
        ..order(LONG)
    };
    let first = Search::begin(&daemon.host(), &slow).unwrap();
    assert!(matches!(first.next(PATIENCE), Some(Event::Tree(_))));
    first.end().unwrap();
    first
}

#[test]
fn who_has_ended_a_search_begins_the_next_at_once() {
    let daemon = Daemon::searching();
    let first = slow_to_end(&daemon);
    let second = Search::begin(&daemon.host(), &order(1)).unwrap();
    assert!(end(&second).0.is_ok());
    assert!(end(&first).0.is_ok());
    // One that has ended by itself is ended without an error.
    second.end().unwrap();
}

#[test]
fn who_leaves_before_the_beginning_leaves_no_search() {
    let daemon = Daemon::searching();
    let first = slow_to_end(&daemon);
    // The daemon lets this one wait for the end of the first.
    drop(Search::begin(&daemon.host(), &order(LONG)).unwrap());
    assert!(end(&first).0.is_ok());
    daemon.wait_for("its line", |daemon| daemon.has_line("search 2 ended: why "));
}
