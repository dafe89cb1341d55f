// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that begin and end works.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Bytes};
use hyper::{Request, StatusCode};
use serde_json::json;

use super::{DELETED, Kind, begin};
use crate::cmd::serve::http::{Answer, Refused, body, json_of, refused, stream};
use crate::cmd::serve::hub::Hub;
use crate::cmd::serve::sse::Events;
use crate::cmd::serve::who::Who;
use crate::cmd::serve::{order, paths};

/// How long the end of a client's own work is waited for: it ends after the measurement that runs.
const PATIENCE: Duration = Duration::from_secs(10);

/// Searches for the bottleneck. The answer is the search's events.
pub async fn search<B>(hub: &Arc<Hub>, who: &Who, request: Request<B>) -> Result<Answer, Refused>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let order = order::search(&body(hub, request).await?)?;
    if !hub.variables && !who.is_root() {
        return Err(refused(
            StatusCode::FORBIDDEN,
            "a search tells what calls are about: files, locks, processes: it is root's on the \
             daemon's machine: have the daemon started with --variables",
        ));
    }
    let what = order.shown();
    hub.works.wait_for_own(Kind::Search, who, PATIENCE).await;
    let client = begin(hub, Kind::Search, who, what, move |hub, work| {
        (hub.search)(&order, work)
    })?;
    Ok(stream(Events::of_work(client, hub.limits.quiet)))
}

/// Counts by call path. The answer is its events; the last has what was counted.
pub async fn paths<B>(hub: &Arc<Hub>, who: &Who, request: Request<B>) -> Result<Answer, Refused>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (order, metric) = paths::Order::parse(&body(hub, request).await?)?;
    let what = order.shown();
    hub.works.wait_for_own(Kind::Paths, who, PATIENCE).await;
    let client = begin(hub, Kind::Paths, who, what, move |hub, work| {
        (hub.paths)(&order, metric, work)
    })?;
    Ok(stream(Events::of_work(client, hub.limits.quiet)))
}

/// Ends a work, for who may.
pub fn end(hub: &Hub, who: &Who, kind: Kind, id: &str) -> Result<Answer, Refused> {
    let word = kind.word();
    let work = id.parse().ok().and_then(|id| hub.works.find(kind, id));
    let work = work.ok_or_else(|| {
        let message = format!("no {word} {id}, or it has ended: GET /v1/sessions lists works");
        refused(StatusCode::NOT_FOUND, message)
    })?;
    if !who.may_end_what_is_of(&work.owner) {
        let message = format!(
            "{word} {id} is that of {}: ask them, or be root",
            work.owner
        );
        return Err(refused(StatusCode::FORBIDDEN, message));
    }
    work.end(DELETED);
    Ok(json_of(StatusCode::OK, &json!({ "id": work.id })))
}
