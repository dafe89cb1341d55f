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
use crate::base::exit::{Failure, LIMIT, USAGE};
use crate::cmd::serve::sse::Parser;
use crate::cmd::serve::wire::Refusal;

/// Until a connection is there.
const CONNECTING: Duration = Duration::from_secs(10);
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
}

impl Client {
    /// To this daemon. Nothing is sent yet.
    ///
    /// # Errors
    /// The kernel gives no descriptors.
    pub fn new(host: Host) -> Result<Client, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        Ok(Client {
            host,
            runtime: runtime.map_err(|error| Failure::failed(format!("a client: {error}")))?,
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
            let answer = self.send(method, path, body).await?;
            let bytes = self.whole(answer).await?;
            serde_json::from_slice(&bytes).map_err(|error| self.about(&error))
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
        Failure::failed(format!("{}: {what}", self.host.name))
    }

    async fn connect(&self) -> Result<Pin<Box<dyn Stream>>, Failure> {
        match &self.host.way {
            Way::Unix(path) => match UnixStream::connect(path).await {
                Ok(stream) => Ok(Box::pin(stream)),
                Err(error) => Err(self.not_there(&error, &path.display())),
            },
            Way::Tls { to, name, config } => {
                let mut last = None;
                for address in to {
                    match TcpStream::connect(address).await {
                        Ok(stream) => {
                            let _ = stream.set_nodelay(true);
                            let connector = TlsConnector::from(config.clone());
                            let stream = connector.connect(name.clone(), stream).await;
                            let stream = stream.map_err(|error| self.not_trusted(&error))?;
                            return Ok(Box::pin(stream));
                        }
                        Err(error) => last = Some(self.not_there(&error, address)),
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
        let stream = timeout(CONNECTING, self.connect()).await;
        let stream = stream.map_err(|_| self.about(&"no connection within 10 s"))??;
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
        let answer = sender.send_request(request).await;
        // With TLS 1.3, who is refused learns it only now.
        let answer = answer.map_err(|error| self.lost(&error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        let bytes = self.whole(answer).await?;
        Err(match serde_json::from_slice::<Refusal>(&bytes) {
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

    async fn whole(&self, answer: Response<Incoming>) -> Result<Bytes, Failure> {
        let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await;
        body.map(|body| body.to_bytes())
            .map_err(|error| self.about(&error))
    }
}
