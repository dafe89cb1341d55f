// SPDX-License-Identifier: MIT OR Apache-2.0
//! Certificates of both sides, made here: who is let in, who is not, and what both are told.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc;
use std::sync::{Arc, atomic::Ordering};

use hyper::Method;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd,
};
use rustls::pki_types::ServerName;
use serde_json::{Value as Json, json};

use super::daemon::{Daemon, PATIENCE, hub, hub_of, path};
use crate::base::exit::Failure;
use crate::cmd::remote::client::{Client, Patience};
use crate::cmd::remote::host::{Host, Way};
use crate::cmd::remote::source::{Event, Session};
use crate::cmd::serve::http::{Serves, answer};
use crate::cmd::serve::hub::Hub;
use crate::cmd::serve::limits::Limits;
use crate::cmd::serve::listen::Listener;
use crate::cmd::serve::order::Order;
use crate::cmd::serve::tls::{self, Pair};

/// An authority, with a folder for its files.
struct Authority {
    folder: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let folder = path("ca");
        fs::create_dir(&folder).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, folder.display().to_string());
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(folder.join("ca.crt"), issuer.pem()).unwrap();
        Authority { folder, issuer }
    }

    fn ca(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// A certificate for `name` and its key; `until`: the year in which it ends.
    fn sign(&self, name: &str, until: i32) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["daemon.test".into()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = ["crt", "key"].map(|end| self.folder.join(format!("{name}-{until}.{end}")));
        fs::write(&files[0], certificate.pem()).unwrap();
        fs::write(&files[1], key.serialize_pem()).unwrap();
        let [cert, key] = files;
        (cert, key)
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn pair((cert, key): &(PathBuf, PathBuf)) -> Pair<'_> {
    Pair { cert, key }
}

/// A daemon with a certificate of this authority, which takes clients of the same.
fn daemon(authority: &Authority, limits: Limits) -> (Daemon, SocketAddr) {
    let config = tls::server(&pair(&authority.sign("daemon", 2100)), &authority.ca()).unwrap();
    let (to, address) = mpsc::channel();
    let daemon = Daemon::with(limits, move || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        to.send(listener.local_addr().unwrap()).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        vec![Listener::Tls(listener, config, Serves::All)]
    });
    (daemon, address.recv_timeout(PATIENCE).unwrap())
}

/// The way to a daemon for the holder of a certificate, who trusts an authority.
fn host(to: SocketAddr, own: &(PathBuf, PathBuf), trusted: &Authority, name: &str) -> Host {
    Host {
        name: "daemon".into(),
        way: Way::Tls {
            to: vec![to],
            name: ServerName::try_from(name.to_owned()).unwrap(),
            config: tls::client(&pair(own), &trusted.ca()).unwrap(),
        },
    }
}

fn info(host: Host) -> Result<Json, Failure> {
    Client::new(host)?.ask(Method::GET, "/v1/info", None)
}

#[test]
fn who_has_a_certificate_is_served_by_its_subject() {
    let authority = Authority::new();
    let (daemon, address) = daemon(&authority, Limits::default());
    let own = authority.sign("alice", 2100);
    let host = host(address, &own, &authority, "daemon.test");
    let you = info(host.clone()).unwrap()["you"].clone();
    let you = you.as_str().unwrap();
    assert!(
        you.starts_with("certificate \"CN=alice\" from 127.0.0.1:"),
        "{you}"
    );
    let order = Order::parse(br#"{"resources": ["fn:f"], "interval_ms": 20}"#);
    let mut session = Session::begin(&host, &order.unwrap()).unwrap();
    let mut has_asked = false;
    let why = loop {
        match session.next(PATIENCE).unwrap() {
            Event::End(_, why) => break why,
            Event::Failed(failure) => panic!("{failure:?}"),
            // Its figures come, so its end will.
            Event::Rows(_) if !has_asked => {
                session.end().unwrap();
                has_asked = true;
            }
            _ => {}
        }
    };
    assert_eq!(why, "deleted");
    assert!(daemon.has_line("started: who certificate \"CN=alice\""));
}

#[test]
fn wrong_certificates_are_refused_on_both_sides() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (daemon, address) = daemon(&authority, Limits::default());
    let good = authority.sign("alice", 2100);
    for (what, host, part) in [
        (
            "expired",
            host(
                address,
                &authority.sign("old", 2021),
                &authority,
                "daemon.test",
            ),
            "xpired",
        ),
        (
            "another's",
            host(address, &other.sign("eve", 2100), &authority, "daemon.test"),
            "",
        ),
        (
            "untrusted",
            host(address, &good, &other, "daemon.test"),
            "UnknownIssuer",
        ),
        (
            "other name",
            host(address, &good, &authority, "other.test"),
            "not valid for name",
        ),
    ] {
        let failure = info(host).unwrap_err();
        assert!(
            failure.message.contains(part),
            "{what}: {}",
            failure.message
        );
        assert!(
            failure.message.contains("look at the certificates"),
            "{what}: {}",
            failure.message
        );
        assert!(!failure.message.contains('\n'), "{what}");
    }
    daemon.wait_for("their lines", |daemon| {
        let lines = daemon.lines.lock().unwrap();
        let about = |part: &str| {
            lines
                .iter()
                .any(|line| line.contains("TLS") && line.contains(part))
        };
        about("xpired") && about("UnknownIssuer")
    });
    assert!(info(host(address, &good, &authority, "daemon.test")).is_ok());
    assert_eq!(daemon.running.load(Ordering::SeqCst), 0);
}

/// One that takes connections and is silent there does not take the time of the next.
#[test]
fn each_address_of_a_daemon_has_its_time() {
    let authority = Authority::new();
    let (_daemon, address) = daemon(&authority, Limits::default());
    let own = authority.sign("alice", 2100);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut host = host(address, &own, &authority, "daemon.test");
    if let Way::Tls { to, .. } = &mut host.way {
        to.insert(0, silent.local_addr().unwrap());
    }
    let patience = Patience {
        connecting: std::time::Duration::from_secs(2),
        ..Patience::default()
    };
    let client = Client::with(host, patience).unwrap();
    let info: Json = client.ask(Method::GET, "/v1/info", None).unwrap();
    assert!(info["you"].is_string());
}

#[test]
fn holders_of_certificates_without_a_subject_are_not_the_same() {
    let subject_of = |name: DistinguishedName| {
        let mut params = CertificateParams::default();
        params.distinguished_name = name;
        let signed = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        tls::subject(signed.der())
    };
    let [one, other] = [(); 2].map(|()| subject_of(DistinguishedName::new()));
    assert_ne!(one, other);
    for subject in [&one, &other, &tls::subject(&b"no certificate"[..].into())] {
        assert_eq!((&subject[..7], subject.len()), ("sha256:", 7 + 64));
    }
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, "alice");
    assert_eq!(subject_of(named), "CN=alice");
}

#[test]
fn who_speaks_no_tls_is_not_served() {
    let authority = Authority::new();
    let limits = Limits {
        handshake: std::time::Duration::from_millis(200),
        ..Limits::default()
    };
    let (daemon, address) = daemon(&authority, limits);
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    use std::io::{Read, Write};
    stream
        .write_all(b"GET /v1/info HTTP/1.1\r\nHost: j\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    // One that says nothing is not waited for.
    let mut silent = std::net::TcpStream::connect(address).unwrap();
    silent.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(silent.read(&mut [0; 1]).unwrap_or(0), 0);
    daemon.wait_for("its line", |daemon| daemon.has_line("it took too long"));
}

#[test]
fn files_that_are_none_are_told() {
    let authority = Authority::new();
    let (cert, key) = authority.sign("a", 2100);
    let missing = authority.folder.join("missing");
    for (cert, key, part) in [
        (&missing, &key, "missing: No such file"),
        (&key, &key, "no certificate in PEM"),
        (&cert, &cert, "no private key in PEM"),
    ] {
        let failure = tls::server(&Pair { cert, key }, &authority.ca()).unwrap_err();
        assert!(failure.message.contains(part), "{}", failure.message);
        assert!(!failure.message.contains('\n'), "{}", failure.message);
    }
    let other = authority.sign("b", 2100);
    let mixed = tls::server(
        &Pair {
            cert: &cert,
            key: &other.1,
        },
        &authority.ca(),
    );
    assert!(mixed.is_err(), "a key of another certificate");
}

#[tokio::test]
async fn nobody_ends_what_is_anothers() {
    // All may search, and still nobody ends what is another's.
    let (searching, lines, _) = hub_of(Limits::default(), true);
    let (hub, ..) = hub(Limits::default());
    let ask_of = |hub: &Arc<Hub>, who, method: &str, path: &str, body: &str| {
        let request = hyper::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(http_body_util::Full::<hyper::body::Bytes>::from(
                body.to_owned(),
            ))
            .unwrap();
        let hub = Arc::clone(hub);
        async move {
            let answer = answer(&hub, &who, &Serves::All, request).await;
            (answer.status().as_u16(), answer)
        }
    };
    let ask = |who, method: &'static str, path: &'static str, body: &str| {
        let answer = ask_of(&hub, who, method, path, body);
        async { answer.await.0 }
    };
    let local = |uid| crate::cmd::serve::who::Who::Local { uid, pid: None };
    let order = json!({"resources": ["fn:f"], "keep": true}).to_string();
    assert_eq!(ask(local(7), "POST", "/v1/stat", &order).await, 201);
    assert_eq!(ask(local(8), "DELETE", "/v1/stat/1", "").await, 403);
    assert_eq!(hub.sessions.running().len(), 1);
    assert_eq!(ask(local(0), "DELETE", "/v1/stat/1", "").await, 200);
    // Variables of the kernel are root's, as reading the kernel's memory is.
    let order = json!({"resources": ["fn:f"], "metrics": ["var:jiffies_64"]}).to_string();
    assert_eq!(ask(local(7), "POST", "/v1/stat", &order).await, 403);
    assert_eq!(ask(local(0), "POST", "/v1/stat", &order).await, 201);
    assert_eq!(ask(local(7), "POST", "/v1/search", "{}").await, 403);
    assert_eq!(ask(local(0), "POST", "/v1/search", "{}").await, 200);
    let (status, events) = ask_of(&searching, local(7), "POST", "/v1/search", "{}").await;
    assert_eq!(status, 200);
    let end = |uid| ask_of(&searching, local(uid), "DELETE", "/v1/search/1", "");
    assert_eq!(end(8).await.0, 403);
    assert_eq!(searching.works.running()[0].over(), None);
    assert_eq!(end(0).await.0, 200);
    drop(events);
    for ending in [hub, searching] {
        let ended = tokio::task::spawn_blocking(move || {
            ending.works.end_all(PATIENCE);
            ending.sessions.end_all(PATIENCE);
        });
        ended.await.unwrap();
    }
    let why = "search 1 ended: why it was interrupted";
    assert!(lines.lock().unwrap().iter().any(|line| line.contains(why)));
}
