// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call paths: what comes at the end, and who ends them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use serde_json::{Value as Json, json};

use super::daemon::{Daemon, PATIENCE, read_until};

/// Orders call paths; the answer comes on the connection.
fn order(daemon: &Daemon, for_ms: u64) -> UnixStream {
    order_of(daemon, "sys:*", for_ms)
}

fn order_of(daemon: &Daemon, target: &str, for_ms: u64) -> UnixStream {
    let mut stream = daemon.connect();
    let body = json!({ "targets": [target], "for_ms": for_ms }).to_string();
    let head = format!(
        "POST /v1/paths HTTP/1.1\r\nHost: jifl\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    stream
}

/// The data of the last event.
fn end(stream: &mut UnixStream) -> Json {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (_, end) = text.split_once("event: end").expect(&text);
    let data = end.lines().find_map(|line| line.strip_prefix("data: "));
    serde_json::from_str(data.unwrap()).unwrap()
}

#[test]
fn what_was_counted_comes_when_the_time_is_up() {
    let daemon = Daemon::new();
    let counted = end(&mut order(&daemon, 50));
    assert_eq!(
        (&counted["metric"], &counted["unit"], &counted["cut_short"]),
        (&json!("insn"), &json!("instructions"), &json!(false))
    );
    let folded = counted["folded"].as_str().unwrap();
    assert!(folded.starts_with("sys:read;vfs_read 600\n"), "{folded}");
    daemon.wait_for("its line", |daemon| {
        daemon.has_line("paths 1 ended: why done after")
    });
    assert!(daemon.has_line("paths 1 started: who uid "));
    assert!(daemon.has_line("what insn by call path of sys:* for 0.05 s"));
}

#[test]
fn they_end_when_they_are_deleted_or_left() {
    let daemon = Daemon::new();
    let mut first = order(&daemon, 60_000);
    read_until(&mut first, "event: begin");
    let second = read_until(&mut order(&daemon, 60_000), "wait for its end");
    assert!(
        second.contains("429") && second.contains("paths 1 runs"),
        "{second}"
    );
    assert_eq!(daemon.ask("DELETE /v1/search/1 HTTP/1.1", "").0, 404);
    assert_eq!(daemon.ask("DELETE /v1/paths/1 HTTP/1.1", "").0, 200);
    assert_eq!(end(&mut first)["cut_short"], true);
    daemon.wait_for("room", |daemon| daemon.hub.works.running().is_empty());
    let mut third = order(&daemon, 60_000);
    read_until(&mut third, "event: begin");
    drop(third);
    daemon.wait_for("its line", |daemon| {
        daemon.has_line("paths 2 ended: why its client left")
    });
    daemon.hub.works.end_all(PATIENCE);
    let refused = read_until(&mut order(&daemon, 1), "ends");
    assert!(refused.contains("422"), "{refused}");
}

/// What fails before it measures costs nothing, so a client can order it all the time.
#[test]
fn orders_that_fail_do_not_fill_the_journal() {
    let daemon = Daemon::new();
    let begun = Instant::now();
    for _ in 0..1000 {
        let answer = read_until(
            &mut order_of(&daemon, "sys:nosuch", 1),
            "no such system call",
        );
        assert!(answer.contains("event: error"), "{answer}");
    }
    let windows = 1 + begun.elapsed().as_secs() as usize / 5;
    let lines = daemon.lines.lock().unwrap();
    let about = |line: &&String| line.contains("sys:nosuch");
    assert!(
        lines[0].contains("refused: paths 1: who uid "),
        "{}",
        lines[0]
    );
    assert!(lines.iter().filter(about).count() <= 20 * windows);
    // The rest are those that say how many were left out.
    assert!(lines.len() < 21 * windows, "{}", lines.len());
}
