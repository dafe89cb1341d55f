// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which daemon is meant, and what it takes to talk to it: options, and a file of the user's.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use clap::Args;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::Deserialize;

use crate::base::exit::Failure;
use crate::cmd::serve::{SOCKET, tls};

/// The port of https:// without one.
const PORT: u16 = 7443;

/// Options before the subcommand.
#[derive(Debug, Clone, Default, Args)]
pub struct HostArgs {
    /// For `stat`, `top` and `search`: show the machine of this daemon of `jifl serve`:
    /// unix:PATH, https://NAME:PORT, or a NAME of ~/.config/jifl/hosts.toml
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// With --host https://: your certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "host")]
    host_cert: Option<PathBuf>,
    /// Its private key, in PEM
    #[arg(long, value_name = "FILE", requires = "host")]
    host_key: Option<PathBuf>,
    /// The certificate of the authority that has signed that of the host, in PEM
    #[arg(long, value_name = "FILE", requires = "host")]
    host_ca: Option<PathBuf>,
}

/// A daemon.
#[derive(Debug, Clone)]
pub struct Host {
    /// What it is called in messages.
    pub name: String,
    /// The way there.
    pub way: Way,
}

/// The way to a daemon.
#[derive(Debug, Clone)]
pub enum Way {
    /// On this machine.
    Unix(PathBuf),
    /// With certificates of both sides.
    Tls {
        /// Addresses, to be tried one after the other.
        to: Vec<SocketAddr>,
        /// Whose certificate it has to be.
        name: ServerName<'static>,
        /// The client's own.
        config: Arc<ClientConfig>,
    },
}

/// An entry of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// `unix:PATH` or `https://NAME:PORT`.
    url: String,
    /// Where that is, if no name service says so.
    address: Option<SocketAddr>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    ca: Option<PathBuf>,
}

impl HostArgs {
    /// The daemon that is meant; `None`: none was given.
    ///
    /// # Errors
    /// It is not known, or what it takes is missing.
    pub fn host(&self) -> Result<Option<Host>, Failure> {
        let Some(name) = &self.host else {
            return Ok(None);
        };
        let is_url = name.contains(':');
        let mut entry = match is_url {
            true => Entry {
                url: name.clone(),
                ..Entry::default()
            },
            false => entry_of(name)?,
        };
        for (own, given) in [
            (&mut entry.cert, &self.host_cert),
            (&mut entry.key, &self.host_key),
            (&mut entry.ca, &self.host_ca),
        ] {
            if given.is_some() {
                own.clone_from(given);
            }
        }
        let way = entry.way()?;
        let name = match &way {
            Way::Unix(path) if is_url => format!("unix:{}", path.display()),
            _ => name.clone(),
        };
        Ok(Some(Host { name, way }))
    }
}

/// The file, and the folder that its paths are relative to.
fn file() -> Option<PathBuf> {
    let folder = env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty());
    let folder = folder.map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".config")))?;
    Some(folder.join("jifl/hosts.toml"))
}

fn entry_of(name: &str) -> Result<Entry, Failure> {
    let path = file().ok_or_else(|| Failure::usage("--host: HOME is not set: give a URL"))?;
    let text = fs::read_to_string(&path).map_err(|error| {
        Failure::usage(format!(
            "--host {name}: {}: {error}; give unix:PATH or https://NAME:PORT, or make that file",
            path.display()
        ))
    })?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    entry_in(&text, name, folder)
        .map_err(|what| Failure::usage(format!("{}: {what}", path.display())))
}

fn entry_in(text: &str, name: &str, folder: &Path) -> Result<Entry, String> {
    let all: Result<BTreeMap<String, Entry>, _> = toml::from_str(text);
    let mut all = all.map_err(|error| {
        let place = error.span().map_or(0, |span| span.start);
        let line = text.get(..place).unwrap_or(text).matches('\n').count() + 1;
        format!("line {line}: {}", error.message().replace('\n', " "))
    })?;
    let known = all.keys().cloned().collect::<Vec<_>>().join(", ");
    let mut entry = all
        .remove(name)
        .ok_or_else(|| format!("it has no [{name}]; it has: {known}"))?;
    for path in [&mut entry.cert, &mut entry.key, &mut entry.ca] {
        *path = path.take().map(|path| folder.join(path));
    }
    Ok(entry)
}

impl Entry {
    fn way(&self) -> Result<Way, Failure> {
        let url = self.url.as_str();
        if let Some(path) = url.strip_prefix("unix:") {
            return Ok(Way::Unix(match path.is_empty() {
                true => PathBuf::from(SOCKET),
                false => PathBuf::from(path),
            }));
        }
        let Some(rest) = url.strip_prefix("https://") else {
            return Err(Failure::usage(format!(
                "{url}: a host is unix:PATH or https://NAME:PORT: without TLS nobody is served"
            )));
        };
        let (name, port) = split(rest.trim_end_matches('/'))
            .ok_or_else(|| Failure::usage(format!("{url}: give https://NAME:PORT")))?;
        let (Some(cert), Some(key), Some(ca)) = (&self.cert, &self.key, &self.ca) else {
            return Err(Failure::usage(format!(
                "{url}: it takes a certificate: give --host-cert, --host-key and --host-ca, or \
                 cert, key and ca in hosts.toml"
            )));
        };
        let config = tls::client(&tls::Pair { cert, key }, ca)?;
        let to = match self.address {
            Some(address) => vec![address],
            None => addresses(name, port)?,
        };
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| Failure::usage(format!("{url}: {name} is no name of a host")))?;
        Ok(Way::Tls { to, name, config })
    }
}

/// `NAME`, `NAME:PORT`, `[ADDRESS]:PORT`.
fn split(text: &str) -> Option<(&str, u16)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (name, port) = rest.split_once(']')?;
        return Some(match port.strip_prefix(':') {
            Some(port) => (name, port.parse().ok()?),
            None => (name, PORT),
        });
    }
    let (name, port) = match text.split_once(':') {
        Some((name, port)) => (name, port.parse().ok()?),
        None => (text, PORT),
    };
    (!name.is_empty() && !name.contains('/')).then_some((name, port))
}

/// The addresses of a name. The static program has no name service, so `getent` asks it.
fn addresses(name: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let unknown = |why: String| {
        Failure::failed(format!(
            "{name}: {why}; give its address: https://10.0.0.5:{port}, or address = \
             \"10.0.0.5:{port}\" in hosts.toml"
        ))
    };
    let asked = Command::new("getent")
        .args(["ahosts", "--", name])
        .output()
        .map_err(|error| unknown(format!("`getent` looks names up, and: {error}")))?;
    let text = String::from_utf8_lossy(&asked.stdout);
    let all = addresses_in(&text, port);
    match all.is_empty() {
        true => Err(unknown("no such host".into())),
        false => Ok(all),
    }
}

fn addresses_in(text: &str, port: u16) -> Vec<SocketAddr> {
    let one = |line: &str| line.split_whitespace().next()?.parse::<IpAddr>().ok();
    let mut all: Vec<SocketAddr> = Vec::new();
    for address in text.lines().filter_map(one) {
        let address = SocketAddr::new(address, port);
        if !all.contains(&address) {
            all.push(address);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split() {
        for (text, expected) in [
            ("host", Some(("host", PORT))),
            ("host:1", Some(("host", 1))),
            ("10.0.0.5:7", Some(("10.0.0.5", 7))),
            ("[::1]:7", Some(("::1", 7))),
            ("[::1]", Some(("::1", PORT))),
            ("host:x", None),
            ("host:99999", None),
            ("a/b", None),
            ("", None),
        ] {
            assert_eq!(split(text), expected, "{text}");
        }
    }

    #[test]
    fn the_file_names_hosts() {
        let text = "[db1]\nurl = \"https://db1:7443\"\ncert = \"me.crt\"\nkey = \"/k\"\n\
                    ca = \"ca.crt\"\naddress = \"10.0.0.5:7443\"\n[here]\nurl = \"unix:\"\n";
        let entry = entry_in(text, "db1", Path::new("/etc/j")).unwrap();
        assert_eq!(entry.cert, Some("/etc/j/me.crt".into()));
        assert_eq!(entry.key, Some("/k".into()));
        assert_eq!(entry.address, Some("10.0.0.5:7443".parse().unwrap()));
        let here = entry_in(text, "here", Path::new("/")).unwrap();
        assert!(matches!(here.way(), Ok(Way::Unix(path)) if path == Path::new(SOCKET)));
        let unknown = entry_in(text, "db2", Path::new("/")).unwrap_err();
        assert_eq!(unknown, "it has no [db2]; it has: db1, here");
        let wrong = entry_in("[a]\nurl = \"unix:\"\ncrt = 1\n", "a", Path::new("/"));
        let wrong = wrong.unwrap_err();
        assert!(
            wrong.starts_with("line 3: ") && !wrong.contains('\n'),
            "{wrong}"
        );
    }

    #[test]
    fn what_it_takes_is_said() {
        let way = |url: &str| {
            let entry = Entry {
                url: url.into(),
                ..Entry::default()
            };
            entry.way().unwrap_err().message
        };
        assert!(way("https://db1").contains("--host-cert"));
        assert!(way("http://db1").contains("without TLS nobody is served"));
    }

    #[test]
    fn addresses_are_those_of_getent() {
        let text = "10.0.0.5        STREAM db1\n10.0.0.5        DGRAM\nfe80::1 STREAM\n";
        let all = addresses_in(text, 7);
        assert_eq!(
            all,
            ["10.0.0.5:7", "[fe80::1]:7"].map(|one| one.parse().unwrap())
        );
    }
}
