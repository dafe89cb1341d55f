// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests to a daemon, from code that waits for the answers.

use std::pin::Pin;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::host::{Host, Way};
use super::plain;
use crate::base::exit::{Failure, LIMIT, USAGE};
use crate::cmd::serve::sse::Parser;
use crate::cmd::serve::wire::Refusal;

/// How long a client waits.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Until a connection is there, at each address of the daemon; and as long for TLS there.
    pub connecting: Duration,
    /// Until the answer begins, and from there until it is whole. A daemon opens one session at a
    /// time, and that takes seconds where functions are many.
    pub answer: Duration,
    /// The same where something is to end. Its end is told elsewhere.
    pub ending: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            connecting: Duration::from_secs(10),
            answer: Duration::from_secs(120),
            ending: Duration::from_secs(5),
        }
    }
}

impl Patience {
    /// With the answer to such a request.
    fn with(&self, method: &Method) -> Duration {
        match *method {
            Method::DELETE => self.ending,
            _ => self.answer,
        }
    }
}

/// How long events may be quiet. The daemon has a sign of life every 15 seconds.
const QUIET: Duration = Duration::from_secs(60);
/// Bytes of an answer that a client believes.
const ANSWER_MAX: usize = 16 << 20;

trait Stream: AsyncRead + AsyncWrite + Send {}
impl<S: AsyncRead + AsyncWrite + Send> Stream for S {}

/// What sends requests.
pub struct Client {
    host: Host,
    runtime: Runtime,
    patience: Patience,
}

impl Client {
    /// To this daemon. Nothing is sent yet.
    ///
    /// # Errors
    /// The kernel gives no descriptors.
    pub fn new(host: Host) -> Result<Client, Failure> {
        Client::with(host, Patience::default())
    }

    /// The same, that waits so long.
    ///
    /// # Errors
    /// The kernel gives no descriptors.
    pub fn with(host: Host, patience: Patience) -> Result<Client, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        Ok(Client {
            host,
            runtime: runtime.map_err(|error| Failure::failed(format!("a client: {error}")))?,
            patience,
        })
    }

    /// Sends a request, and reads its answer.
    ///
    /// # Errors
    /// The daemon is not there, or refuses.
    pub fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<T, Failure> {
        self.runtime.block_on(async {
            let patience = self.patience.with(&method);
            let answer = self.send(method, path, body).await?;
            let bytes = self.whole(answer, patience).await?;
            plain::read(&bytes).map_err(|error| self.about(&error))
        })
    }

    /// Reads the events that are the answer to a request, until there are no more, or `take`
    /// returns false.
    ///
    /// # Errors
    /// The daemon is not there, refuses, or is gone before the end.
    pub fn events(
        &self,
        method: Method,
        path: &str,
        order: Option<Vec<u8>>,
        mut take: impl FnMut(&str, &str) -> bool,
    ) -> Result<(), Failure> {
        self.runtime.block_on(async {
            let mut body = self.send(method, path, order).await?.into_body();
            let mut parser = Parser::default();
            loop {
                let frame = timeout(QUIET, body.frame()).await;
                let frame = frame.map_err(|_| self.about(&"it is silent: is the network down?"))?;
                let Some(frame) = frame else {
                    return Ok(());
                };
                let frame = frame.map_err(|error| self.about(&error))?;
                let Some(data) = frame.data_ref() else {
                    continue;
                };
                let events = parser.take(data).map_err(|error| self.about(&error))?;
                for (event, data) in events {
                    if !take(&event, &data) {
                        return Ok(());
                    }
                }
            }
        })
    }

    fn about(&self, what: &dyn std::fmt::Display) -> Failure {
        plain::plain(Failure::failed(format!("{}: {what}", self.host.name)))
    }

    /// That something has not come in time.
    fn silent(&self, what: &str, waited: Duration) -> Failure {
        let seconds = waited.as_secs_f64();
        self.about(&format!(
            "{what} within {seconds} s: is the network down, or `jifl serve` stopped?"
        ))
    }

    async fn connect(&self) -> Result<Pin<Box<dyn Stream>>, Failure> {
        let time = self.patience.connecting;
        match &self.host.way {
            Way::Unix(path) => match timeout(time, UnixStream::connect(path)).await {
                Ok(Ok(stream)) => Ok(Box::pin(stream)),
                Ok(Err(error)) => Err(self.not_there(&error, &path.display())),
                Err(_) => Err(self.silent("no connection", time)),
            },
            Way::Tls { to, name, config } => {
                let mut last = None;
                for address in to {
                    let stream = match timeout(time, TcpStream::connect(address)).await {
                        Ok(Ok(stream)) => stream,
                        Ok(Err(error)) => {
                            last = Some(self.not_there(&error, address));
                            continue;
                        }
                        Err(_) => {
                            last = Some(self.silent(&format!("{address}: no connection"), time));
                            continue;
                        }
                    };
                    let _ = stream.set_nodelay(true);
                    let connector = TlsConnector::from(config.clone());
                    let hands = connector.connect(name.clone(), stream);
                    match timeout(time, hands).await {
                        Ok(stream) => {
                            let stream = stream.map_err(|error| self.not_trusted(&error))?;
                            return Ok(Box::pin(stream));
                        }
                        Err(_) => {
                            last = Some(self.silent(&format!("{address}: no handshake"), time));
                        }
                    }
                }
                Err(last.unwrap_or_else(|| self.about(&"it has no address")))
            }
        }
    }

    fn not_there(&self, error: &std::io::Error, place: &dyn std::fmt::Display) -> Failure {
        let way_out = match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => {
                "`jifl serve` does not run there: start it"
            }
            std::io::ErrorKind::PermissionDenied => {
                "you are not in the group of the socket (`jifl serve --group`), nor root"
            }
            _ => "does `jifl serve` run there?",
        };
        self.about(&format!("{place}: {error}: {way_out}"))
    }

    fn not_trusted(&self, error: &std::io::Error) -> Failure {
        self.about(&format!(
            "{error}: look at the certificates (openssl x509 -text): who signed them, their names, \
             their dates"
        ))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Response<Incoming>, Failure> {
        let patience = self.patience.with(&method);
        let stream = self.connect().await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.about(&error))?;
        self.runtime.spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "jifl");
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(|error| self.about(&error))?;
        let answer = timeout(patience, sender.send_request(request)).await;
        let answer = answer.map_err(|_| self.silent("no answer", patience))?;
        // With TLS 1.3, who is refused learns it only now.
        let answer = answer.map_err(|error| self.lost(&error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        let bytes = self.whole(answer, patience).await?;
        Err(match plain::read::<Refusal>(&bytes) {
            Ok(refusal) => Failure {
                // A daemon says nothing that this command does not know.
                status: refusal.exit.clamp(1, LIMIT),
                message: format!("{}: {}", self.host.name, refusal.error),
            },
            Err(_) => Failure {
                status: if status.is_client_error() { USAGE } else { 1 },
                message: format!("{}: HTTP status {status}", self.host.name),
            },
        })
    }

    fn lost(&self, error: &hyper::Error) -> Failure {
        let mut causes = Vec::new();
        let mut cause: Option<&dyn std::error::Error> = Some(error);
        while let Some(one) = cause {
            causes.push(one.to_string());
            cause = one.source();
        }
        let why = causes.join(": ");
        match self.host.way {
            Way::Tls { .. } => self.not_trusted(&std::io::Error::other(why)),
            Way::Unix(_) => self.about(&why),
        }
    }

    async fn whole(
        &self,
        answer: Response<Incoming>,
        patience: Duration,
    ) -> Result<Bytes, Failure> {
        let body = Limited::new(answer.into_body(), ANSWER_MAX).collect();
        let body = timeout(patience, body).await;
        let body = body.map_err(|_| self.silent("no whole answer", patience))?;
        body.map(|body| body.to_bytes())
            .map_err(|error| self.about(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;
    use std::thread;
    use std::time::Instant;

    /// What a client says of a daemon that reads the request, writes this, and is silent then.
    fn failure_with(method: Method, answer: &'static str, patience: Patience) -> Failure {
        let path = crate::cmd::serve::test_path("silent");
        let listener = UnixListener::bind(&path).unwrap();
        let daemon = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut all = Vec::new();
            while !all.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                all.push(byte[0]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            // It ends when the client has gone.
            let _ = stream.read(&mut [0]);
        });
        let host = Host {
            name: "daemon".into(),
            way: Way::Unix(path.clone()),
        };
        let client = Client::with(host, patience).unwrap();
        let asked: Result<serde_json::Value, Failure> = client.ask(method, "/v1/stat/1", None);
        drop(client);
        daemon.join().unwrap();
        let _ = std::fs::remove_file(&path);
        asked.unwrap_err()
    }

    #[test]
    fn a_silent_daemon_is_not_waited_for() {
        let (short, long) = (Duration::from_millis(100), Duration::from_secs(600));
        let begun = Instant::now();
        let patience = |answer, ending| Patience {
            connecting: long,
            answer,
            ending,
        };
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        for (method, answer, patience, part) in [
            (
                Method::GET,
                "",
                patience(short, long),
                "no answer within 0.1 s",
            ),
            (
                Method::GET,
                head,
                patience(short, long),
                "no whole answer within",
            ),
            (
                Method::DELETE,
                "",
                patience(long, short),
                "no answer within 0.1 s",
            ),
        ] {
            let failure = failure_with(method, answer, patience);
            assert!(failure.message.contains(part), "{}", failure.message);
        }
        assert!(begun.elapsed() < long);
    }

    /// Whatever another machine tells, a terminal only shows it.
    #[test]
    fn what_a_daemon_refuses_with_is_plain() {
        let answer = "HTTP/1.1 400 Bad Request\r\nContent-Length: 41\r\n\r\n\
                      {\"error\": \"no\\u001b[2J\\nmore\", \"exit\": 2}";
        let failure = failure_with(Method::GET, answer, Patience::default());
        assert_eq!(
            (failure.message.as_str(), failure.status),
            ("daemon: no[2Jmore", 2)
        );
    }
}
