//! Server-sent events: what happens to requests, the locks of sessions and the configuration.
//!
//! One that reads slowly misses events and is told how many, instead of holding the daemon up.

use crate::App;
use crate::Shared;
use crate::identity::Identity;
use crate::respond::{Problem, reason};
use crate::turns::take;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Frame;
use paceline_host::registry::Notice;
use paceline_host::{Configured, Edited, Event, Granted};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};

/// How often a client that hears nothing else hears that the connection is alive.
const ALIVE: Duration = Duration::from_secs(15);

/// Events on their way to one client beyond those that it may miss.
const BACKLOG_MAX: usize = 64;

/// `GET /v1/events`
pub(crate) async fn follow(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
) -> Result<Response, Problem> {
    let place = take(Arc::clone(&app.followers), &identity)?;
    let (sender, receiver) = mpsc::channel(BACKLOG_MAX);
    let (requests, locks) = (app.host.control().listen(), app.registry.listen());
    tokio::spawn(async move {
        let pump = pump(requests, locks, sender, identity.granted.clone());
        tokio::select! {
            () = pump => {}
            () = revoked(identity.granted) => {}
            () = app.closing() => {}
        }
        drop(place);
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, Body::new(Stream { receiver })).into_response())
}

/// How many follow.
pub(crate) fn followers(app: &App) -> usize {
    app.followers.count()
}

/// Waits until a role is taken away; for ever, if it cannot be.
async fn revoked(granted: Option<Arc<Granted>>) {
    match granted {
        Some(granted) => granted.revoked().await,
        None => std::future::pending().await,
    }
}

/// Passes on what happens until the client is gone or may not look any more.
async fn pump(
    mut requests: broadcast::Receiver<Event>,
    mut locks: broadcast::Receiver<Notice>,
    sender: mpsc::Sender<Bytes>,
    granted: Option<Arc<Granted>>,
) {
    let mut next = Bytes::from_static(b": events of paceline\n\n");
    // A token that ends with time is looked at before anything is sent.
    while !granted.as_ref().is_some_and(|granted| granted.is_over())
        && sender.send(next).await.is_ok()
    {
        next = tokio::select! {
            () = sender.closed() => break,
            event = requests.recv() => match event {
                Ok(event) => of_request(&event),
                Err(RecvError::Lagged(count)) => missed(count),
                Err(RecvError::Closed) => break,
            },
            notice = locks.recv() => match notice {
                Ok(notice) => of_lock(&notice),
                Err(RecvError::Lagged(count)) => missed(count),
                Err(RecvError::Closed) => break,
            },
            () = tokio::time::sleep(ALIVE) => Bytes::from_static(b": alive\n\n"),
        };
    }
}

fn text(name: &str, data: &Value) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

fn missed(count: u64) -> Bytes {
    text("missed", &json!({ "count": count }))
}

fn of_request(event: &Event) -> Bytes {
    match event {
        Event::Started { id } => text("started", &json!({ "request": id.0 })),
        Event::Waiting { id } => text("waiting", &json!({ "request": id.0 })),
        Event::Refused { id, refusal } => {
            let (word, message) = (reason(&refusal.reason).0, refusal.to_string());
            text("refused", &json!({ "request": id.0, "reason": word, "message": message }))
        }
        Event::Settled { id } => text("settled", &json!({ "request": id.0 })),
        Event::Left { id } => text("settled", &json!({ "request": id.0, "left": true })),
        Event::Matched { id, rule } => text("log", &json!({ "request": id.0, "rule": rule })),
        Event::Configured(configured) => of_configuration(configured),
    }
}

fn of_configuration(configured: &Configured) -> Bytes {
    let changes = configured.changes.iter();
    let changes: Vec<Value> = changes
        .map(|Edited { op, table, row }| json!({ "op": op, "table": table, "row": row }))
        .collect();
    let mut data = json!({ "who": configured.who, "changes": changes });
    if configured.more > 0 {
        data["more"] = configured.more.into();
    }
    text("config", &data)
}

fn of_lock(notice: &Notice) -> Bytes {
    let Notice { lock, what, session } = notice;
    text("lock", &json!({ "lock": &**lock, "what": what, "session": session }))
}

/// A body that ends when the pump does.
struct Stream {
    receiver: mpsc::Receiver<Bytes>,
}

impl hyper::body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.receiver.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
