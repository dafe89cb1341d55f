// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes, as requests and as orders: each is answered or refused, and nothing panics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::daemon::{PATIENCE, hub};
use crate::cmd::serve::http::Serves;
use crate::cmd::serve::limits::Limits;
use crate::cmd::serve::listen::connection;
use crate::cmd::serve::order::Order;
use crate::cmd::serve::who::Who;

/// How long each part goes on.
const TIME: Duration = Duration::from_millis(700);

/// A generator whose seed a failure prints (xorshift64*).
struct Random(u64);

impl Random {
    fn new() -> Random {
        let time = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let seed = std::env::var("JIFL_TEST_SEED").ok();
        let seed = seed.map_or(time.as_nanos() as u64 | 1, |seed| seed.parse().unwrap());
        println!("replay with JIFL_TEST_SEED={seed}");
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() >> 33) as usize % most
    }

    /// Bytes; or one of the texts with some of its bytes changed, doubled or cut off.
    fn bytes(&mut self, texts: &[&str]) -> Vec<u8> {
        if self.below(4) == 0 {
            let length = self.below(200);
            return (0..length).map(|_| self.next() as u8).collect();
        }
        let at = self.below(texts.len());
        let mut bytes = texts[at].as_bytes().to_vec();
        for _ in 0..self.below(6) {
            let at = self.below(bytes.len().max(1));
            match self.below(4) {
                0 if at < bytes.len() => bytes[at] = self.next() as u8,
                1 => bytes.truncate(at),
                2 => bytes.extend_from_within(at.min(bytes.len())..),
                _ => bytes.insert(at.min(bytes.len()), b" {}[]\",:\r\n0-"[self.below(12)]),
            }
        }
        bytes
    }
}

#[test]
fn any_bytes_are_an_order_or_none() {
    let texts = [
        r#"{"resources":["fn:vfs_*","mod:ext4"],"metrics":["calls,wall/calls"],"interval_ms":100}"#,
        r#"{"resources":["fn:f@m"],"filters":{"pid":7,"name":"a","cgroup":"/a"},"keep":true}"#,
        r#"{"resources":["fn:a"],"metrics":["tracepoint:a:b/calls"],"contexts":["irq"],"for_ms":1}"#,
    ];
    let mut random = Random::new();
    let begun = Instant::now();
    let (mut good, mut bad) = (0, 0);
    while begun.elapsed() < TIME {
        let bytes = random.bytes(&texts);
        match Order::parse(&bytes).and_then(|order| order.understand()) {
            Ok(_) => good += 1,
            Err(failure) => {
                bad += 1;
                assert!(!failure.message.is_empty());
            }
        }
    }
    assert!(good > 0 && bad > 0, "{good} {bad}");
}

#[tokio::test]
async fn any_bytes_are_a_request_or_none() {
    let limits = Limits {
        head: Duration::from_secs(5),
        body: Duration::from_secs(5),
        grace: Duration::ZERO,
        ..Limits::default()
    };
    let (hub, ..) = hub(limits);
    let order = r#"{"resources":["fn:f"],"for_ms":1}"#;
    let post = format!(
        "POST /v1/stat HTTP/1.1\r\nHost: j\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{order}",
        order.len()
    );
    let texts = [
        post.as_str(),
        "GET /v1/stat/1/events HTTP/1.1\r\nHost: j\r\n\r\n",
        "GET /v1/functions?glob=fn%3a%2a&token=%41 HTTP/1.1\r\nHost: j\r\n\r\n",
        "DELETE /v1/stat/1 HTTP/1.1\r\nHost: j\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        "GET /metrics HTTP/1.0\r\nAuthorization: Bearer x\r\n\r\n",
    ];
    let who = Who::Local { uid: 1, pid: None };
    let mut random = Random::new();
    let begun = Instant::now();
    let mut answers = 0;
    while begun.elapsed() < TIME {
        let bytes = random.bytes(&texts);
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let serves = match random.below(3) {
            0 => Serves::WithToken("secret".into()),
            1 => Serves::Metrics,
            _ => Serves::All,
        };
        let served = tokio::spawn(connection(
            Arc::clone(&hub),
            hub.admit(&who),
            server,
            who.clone(),
            serves,
        ));
        // It may have ended after the first of the bytes.
        let _ = client.write_all(&bytes).await;
        let _ = client.shutdown().await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(PATIENCE, client.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "{:?}", String::from_utf8_lossy(&bytes));
        answers += usize::from(answer.starts_with(b"HTTP/1."));
        drop(client);
        let ended = tokio::time::timeout(PATIENCE, served).await;
        assert!(
            ended.is_ok_and(|ended| ended.is_ok()),
            "{:?}",
            String::from_utf8_lossy(&bytes)
        );
    }
    assert!(answers > 0);
    assert_eq!(hub.clients(), 0);
    hub.sessions.end_all(PATIENCE);
}
