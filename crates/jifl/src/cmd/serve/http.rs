// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests and their answers: which paths there are, who may ask what, and which status an error
//! has. No socket is known here.

use std::convert::Infallible;
use std::sync::Arc;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes};
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::hub::Hub;
use super::order::{BODY_MAX, Order};
use super::page;
use super::sse::Events;
use super::watch::{Watch, Why};
use super::who::Who;
use super::wire::{Refusal, VERSION};
use super::works::http as works;
use super::works::{Kind, Work};
use crate::base::exit::{CANNOT, Failure, LIMIT, USAGE};

/// The body of an answer.
pub type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// What a socket serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Serves {
    /// Everything.
    All,
    /// Everything, to those who have this token.
    WithToken(String),
    /// /metrics alone.
    Metrics,
}

/// An error with its status.
#[derive(Debug)]
pub(super) struct Refused(pub(super) StatusCode, pub(super) Failure);

impl From<Failure> for Refused {
    /// The status for the exit status that the command has.
    fn from(failure: Failure) -> Refused {
        let status = match failure.status {
            USAGE => StatusCode::BAD_REQUEST,
            CANNOT => StatusCode::SERVICE_UNAVAILABLE,
            LIMIT => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Refused(status, failure)
    }
}

pub(super) fn refused(status: StatusCode, message: impl Into<String>) -> Refused {
    Refused(status, Failure::failed(message))
}

/// Answers a request.
pub async fn answer<B>(hub: &Arc<Hub>, who: &Who, serves: &Serves, request: Request<B>) -> Answer
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let path = request.uri().path().to_owned();
    let what = format!("{} {path}", request.method());
    let mut answer = match route(hub, who, serves, request).await {
        Ok(answer) => answer,
        Err(Refused(status, failure)) => {
            if status == StatusCode::FORBIDDEN || status == StatusCode::UNAUTHORIZED {
                let line = format!("who {who} what {what}: {}", failure.message);
                hub.sessions.audit.refused(&line);
            }
            refusal(status, &failure)
        }
    };
    page::guard(answer.headers_mut());
    answer
}

/// An answer that refuses: one line.
pub fn refusal(status: StatusCode, failure: &Failure) -> Answer {
    json_of(status, &Refusal::of(failure))
}

pub(super) fn json_of(status: StatusCode, value: &impl Serialize) -> Answer {
    let mut text = serde_json::to_string(value).unwrap_or_default();
    text.push('\n');
    plain(status, "application/json", text)
}

/// An answer whose text is all there.
pub fn plain(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Answer {
    let body = Full::new(text.into()).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

async fn route<B>(
    hub: &Arc<Hub>,
    who: &Who,
    serves: &Serves,
    request: Request<B>,
) -> Result<Answer, Refused>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let method = request.method().clone();
    let uri = request.uri().clone();
    let path = uri.path();
    if *serves == Serves::Metrics && path != "/metrics" {
        return Err(refused(
            StatusCode::NOT_FOUND,
            format!("{path}: this address serves /metrics alone"),
        ));
    }
    if method == Method::GET {
        if let Some(file) = page::file(path) {
            return Ok(file);
        }
    }
    if let Serves::WithToken(token) = serves {
        check_token(token, uri.query(), request.headers())?;
    }
    let words: Vec<&str> = path.trim_matches('/').split('/').collect();
    match (&method, words.as_slice()) {
        (&Method::GET, [""]) => Ok(page::index()),
        (&Method::GET, ["metrics"]) => hub.metrics().map_err(Refused::from),
        (&Method::GET, ["v1", "info"]) => Ok(json_of(StatusCode::OK, &info(hub, who))),
        (&Method::GET, ["v1", "functions"]) => functions(hub, uri.query()).await,
        (&Method::GET, ["v1", "sessions"]) => Ok(json_of(StatusCode::OK, &sessions(hub, who))),
        (&Method::POST, ["v1", "stat"]) => begin(hub, who, request).await,
        (&Method::POST, ["v1", "search"]) => works::search(hub, who, request).await,
        (&Method::DELETE, ["v1", "search", id]) => works::end(hub, who, Kind::Search, id),
        (&Method::POST, ["v1", "paths"]) => works::paths(hub, who, request).await,
        (&Method::DELETE, ["v1", "paths", id]) => works::end(hub, who, Kind::Paths, id),
        (&Method::GET, ["v1", "stat", id, "events"]) => {
            find(hub, id).map(|one| events(hub, who, &one))
        }
        (&Method::DELETE, ["v1", "stat", id]) => find(hub, id).and_then(|one| end(who, &one)),
        (_, ["" | "metrics"])
        | (
            _,
            [
                "v1",
                "info" | "functions" | "sessions" | "stat" | "search" | "paths",
            ],
        )
        | (_, ["v1", "stat" | "search" | "paths", _])
        | (_, ["v1", "stat", _, "events"]) => Err(refused(
            StatusCode::METHOD_NOT_ALLOWED,
            format!("{path} does not take {method}: docs/serve.md has the requests"),
        )),
        _ => Err(refused(
            StatusCode::NOT_FOUND,
            format!("{path}: no such path; docs/serve.md has the requests"),
        )),
    }
}

/// Refuses who does not have the token: it is in the query, or in the header of authorization.
fn check_token(token: &str, query: Option<&str>, headers: &HeaderMap) -> Result<(), Refused> {
    let of_query = parameter(query, "token");
    let of_header = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let given = of_header.or(of_query.as_deref()).unwrap_or_default();
    match is_same(given.as_bytes(), token.as_bytes()) {
        true => Ok(()),
        false => Err(refused(
            StatusCode::UNAUTHORIZED,
            "the token is missing or wrong: open the address that `jifl serve` has printed",
        )),
    }
}

/// The time that it takes says nothing about the bytes.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differ = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && differ == 0
}

/// The value of a parameter of a query, without what percent signs stand for.
fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let pairs = query?.split('&');
    let value = pairs
        .filter_map(|pair| pair.split_once('='))
        .find(|(own, _)| *own == name)?
        .1;
    let mut bytes = Vec::new();
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        let decoded = match byte {
            b'%' => {
                let mut digit = || (rest.next()? as char).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                (high * 16 + low) as u8
            }
            b'+' => b' ',
            byte => byte,
        };
        bytes.push(decoded);
    }
    String::from_utf8(bytes).ok()
}

fn info(hub: &Hub, who: &Who) -> Json {
    json!({
        "protocol": VERSION,
        "version": env!("CARGO_PKG_VERSION"),
        "kernel": hub.kernel,
        "you": who.to_string(),
        "sessions": hub.sessions.running().len(),
        "clients": hub.clients(),
        "max_clients": hub.limits.clients,
    })
}

fn sessions(hub: &Hub, who: &Who) -> Json {
    let one = |watch: &Arc<Watch>| {
        json!({
            "id": watch.id,
            "session": watch.begun.session,
            "owner": watch.owner.to_string(),
            "yours": who.owns_what_is_of(&watch.owner),
            "what": watch.order.shown(),
            "functions": watch.rows.len(),
            "interval_ms": watch.order.interval_ms,
            "keep": watch.order.keep,
            "readers": watch.readers(),
            "seconds": watch.since.elapsed().as_secs(),
        })
    };
    let all: Vec<Json> = hub.sessions.running().iter().map(one).collect();
    let work = |work: &Arc<Work>| {
        json!({
            "id": work.id,
            "kind": work.kind.word(),
            "owner": work.owner.to_string(),
            "yours": who.owns_what_is_of(&work.owner),
            "what": work.what,
            "seconds": work.since.elapsed().as_secs(),
        })
    };
    let works: Vec<Json> = hub.works.running().iter().map(work).collect();
    json!({ "sessions": all, "works": works })
}

async fn functions(hub: &Arc<Hub>, query: Option<&str>) -> Result<Answer, Refused> {
    let glob = parameter(query, "glob").unwrap_or_default();
    Ok(json_of(StatusCode::OK, &hub.list(glob).await?))
}

/// The body of a request that orders something.
pub(super) async fn body<B>(hub: &Hub, request: Request<B>) -> Result<Bytes, Refused>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    // A page of another site can make a browser send text, and cannot make it send this.
    let kind = request.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        return Err(refused(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "an order is JSON: give the header Content-Type: application/json",
        ));
    }
    let body = Limited::new(request.into_body(), BODY_MAX).collect();
    let body = tokio::time::timeout(hub.limits.body, body)
        .await
        .map_err(|_| {
            refused(
                StatusCode::REQUEST_TIMEOUT,
                "the body did not come: send it",
            )
        })?
        .map_err(|error| match error.is::<LengthLimitError>() {
            true => refused(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the body has more than {BODY_MAX} bytes: give patterns, as fn:vfs_*"),
            ),
            false => refused(
                StatusCode::BAD_REQUEST,
                format!("reading the body: {error}"),
            ),
        })?;
    Ok(body.to_bytes())
}

async fn begin<B>(hub: &Arc<Hub>, who: &Who, request: Request<B>) -> Result<Answer, Refused>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let order = Order::parse(&body(hub, request).await?)?;
    let understood = order.understand()?;
    if order.has_variables() && !hub.variables && !who.is_root() {
        return Err(refused(
            StatusCode::FORBIDDEN,
            "var:NAME, sum:EXPR, hist:EXPR and by read the kernel's memory, perf:EVENT the \
             processors' counters: they are root's on the daemon's machine: leave them out, or \
             have the daemon started with --variables",
        ));
    }
    let answer = hub.sessions.begin(who.clone(), order, understood)?.await;
    let begun = answer.map_err(|_| {
        refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the session's thread has died: the daemon's standard error says why",
        )
    })?;
    Ok(json_of(StatusCode::CREATED, &begun?))
}

fn find(hub: &Hub, id: &str) -> Result<Arc<Watch>, Refused> {
    let known = id.parse().ok().and_then(|id| hub.sessions.find(id));
    known.ok_or_else(|| {
        refused(
            StatusCode::NOT_FOUND,
            format!("no session {id}, or it has ended: GET /v1/sessions lists those that run"),
        )
    })
}

fn events(hub: &Hub, who: &Who, watch: &Arc<Watch>) -> Answer {
    stream(Events::of(watch.attach(who), hub.limits.quiet))
}

/// An answer that goes on as long as there are events.
pub(super) fn stream(events: Events) -> Answer {
    let mut answer = Response::new(events.boxed_unsync());
    let headers = answer.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

fn end(who: &Who, watch: &Watch) -> Result<Answer, Refused> {
    if !who.may_end_what_is_of(&watch.owner) {
        return Err(refused(
            StatusCode::FORBIDDEN,
            format!(
                "session {} is that of {}: ask them, or be root",
                watch.id, watch.owner
            ),
        ));
    }
    watch.end(Why::Deleted);
    Ok(json_of(StatusCode::OK, &json!({ "id": watch.id })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::exit::FAILED;

    #[test]
    fn parameters_are_decoded() {
        let query = Some("a=1&glob=fn%3Avfs_%2A&b=x+y&bad=%4&worse=%zz&no=%ff");
        assert_eq!(parameter(query, "glob").as_deref(), Some("fn:vfs_*"));
        assert_eq!(parameter(query, "b").as_deref(), Some("x y"));
        for name in ["bad", "worse", "no", "none"] {
            assert_eq!(parameter(query, name), None, "{name}");
        }
        assert_eq!(parameter(None, "glob"), None);
    }

    #[test]
    fn a_token_is_all_of_it() {
        assert!(is_same(b"abc", b"abc"));
        for other in ["", "ab", "abd", "abcd"] {
            assert!(!is_same(other.as_bytes(), b"abc"), "{other}");
        }
    }

    #[test]
    fn each_exit_status_has_its_own_status() {
        let of = |status| {
            let failure = Failure {
                status,
                message: String::new(),
            };
            Refused::from(failure).0.as_u16()
        };
        assert_eq!([USAGE, CANNOT, LIMIT, FAILED].map(of), [400, 503, 429, 422]);
    }
}
