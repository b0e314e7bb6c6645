//! Server-sent events about requests, the locks of sessions, and the configuration.
//!
//! Events are written as text once, in pieces that all followers share, at most one piece per [`PIECE_PAUSE`] unless
//! there is much to write. So the cost of an event hardly depends on the number of followers. A client that reads
//! slowly misses events and receives their number; it does not delay the daemon.

use crate::App;
use crate::Shared;
use crate::identity::Identity;
use crate::respond::{Problem, reason};
use crate::sight::{OpenKeys, shortened, still_sees_all};
use crate::turns::take;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Frame;
use paceline_host::registry::Notice;
use paceline_host::{About, Configured, Control, Edited, Event, Granted};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, mpsc};
use tokio::time::Instant;

/// How often a comment is sent on an idle connection, so that the client knows it is alive.
const ALIVE: Duration = Duration::from_secs(15);

/// Bytes of events after which a piece ends.
const PIECE_BYTES: usize = 16 << 10;

/// How many pieces a client may lag behind before it misses the oldest.
const PIECES_MAX: usize = 256;

/// The time between two pieces that are not full.
const PIECE_PAUSE: Duration = Duration::from_millis(10);

/// Writes events for all followers, as long as there are any.
pub(crate) struct Press {
    pieces: broadcast::Sender<Piece>,
    /// `Some` while a task waits for events.
    sources: Mutex<Option<Sources>>,
}

/// Some events as text.
#[derive(Clone, Debug)]
struct Piece {
    /// The number of its first event.
    first: u64,
    count: u64,
    text: Bytes,
    /// The same for clients that may not see the keys of all checkpoints.
    limited: Bytes,
}

/// The sources of events.
struct Sources {
    control: Arc<Control>,
    keys: OpenKeys,
    requests: broadcast::Receiver<Event>,
    locks: broadcast::Receiver<Notice>,
    /// How many events were written.
    written: u64,
}

impl Press {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { pieces: broadcast::channel(PIECES_MAX).0, sources: Mutex::default() })
    }

    /// The pieces that are written from now on, and the number of the first event.
    fn follow(self: &Arc<Self>, app: &App) -> (broadcast::Receiver<Piece>, u64) {
        let mut state = self.sources();
        let sources = state.get_or_insert_with(|| {
            let sources = Sources::new(app);
            let woken = (sources.requests.resubscribe(), sources.locks.resubscribe());
            tokio::spawn(Arc::clone(self).run(woken));
            sources
        });
        // Earlier events are for clients that follow already.
        self.write(sources);
        (self.pieces.subscribe(), sources.written)
    }

    /// Writes events as they happen, until the last follower leaves.
    async fn run(
        self: Arc<Self>,
        (mut requests, mut locks): (broadcast::Receiver<Event>, broadcast::Receiver<Notice>),
    ) {
        let mut due = Instant::now();
        loop {
            // Only that an event happened matters here: the events are read from the sources.
            tokio::select! {
                _ = requests.recv() => {}
                _ = locks.recv() => {}
                () = tokio::time::sleep(ALIVE) => {}
            }
            tokio::time::sleep_until(due).await;
            (requests, locks) = (requests.resubscribe(), locks.resubscribe());
            let mut state = self.sources();
            match &mut *state {
                Some(sources) if self.pieces.receiver_count() > 0 => self.write(sources),
                _ => {
                    *state = None;
                    return;
                }
            }
            drop(state);
            due = Instant::now() + PIECE_PAUSE;
        }
    }

    /// Writes the events that were not written yet.
    fn write(&self, sources: &mut Sources) {
        while let Some(piece) = sources.next_piece() {
            // This fails if no client follows.
            let _ = self.pieces.send(piece);
        }
    }

    fn sources(&self) -> MutexGuard<'_, Option<Sources>> {
        self.sources.lock().unwrap_or_else(paceline_host::broken)
    }
}

impl Sources {
    fn new(app: &App) -> Self {
        let (requests, locks) = (app.host.control().listen(), app.registry.listen());
        let control = Arc::clone(app.host.control());
        let keys = OpenKeys::now(&control);
        Self { control, keys, requests, locks, written: 0 }
    }

    fn next_piece(&mut self) -> Option<Piece> {
        let (first, mut text) = (self.written, String::new());
        let mut limited: Option<String> = None;
        while text.len() < PIECE_BYTES
            && let Some((event, is_limited)) = self.next_text()
        {
            if is_limited.is_some() && limited.is_none() {
                limited = Some(text.clone());
            }
            if let Some(limited) = &mut limited {
                limited.push_str(is_limited.as_ref().unwrap_or(&event));
            }
            text.push_str(&event);
            self.written += 1;
        }
        let (count, text) = (self.written - first, Bytes::from(text));
        // The two are almost always the same text.
        let limited = limited.map_or_else(|| text.clone(), Bytes::from);
        (count > 0).then_some(Piece { first, count, text, limited })
    }

    /// The next event, and how it is shown to clients that may not see all of it, if that differs.
    fn next_text(&mut self) -> Option<(String, Option<String>)> {
        match self.requests.try_recv() {
            Ok(event) => return Some((of_request(&event), self.limited(event))),
            Err(TryRecvError::Lagged(count)) => return Some((missed(count), None)),
            Err(TryRecvError::Empty | TryRecvError::Closed) => {}
        }
        self.next_of_locks().map(|text| (text, None))
    }

    fn limited(&mut self, event: Event) -> Option<String> {
        let shown = match event {
            Event::Started { id, about } => Event::Started { id, about: limited(about.as_ref())? },
            Event::Waiting { id, about } => Event::Waiting { id, about: limited(about.as_ref())? },
            Event::Matched { id, rule, about } => {
                Event::Matched { id, rule, about: limited(Some(&about)).flatten()? }
            }
            Event::Refused { id, refusal, about } => {
                self.keys.renew(&self.control);
                let (other, own) = (self.keys.limited(&refusal), limited(about.as_ref()));
                if other.is_none() && own.is_none() {
                    return None;
                }
                let (refusal, about) = (other.unwrap_or(refusal), own.unwrap_or(about));
                Event::Refused { id, refusal, about }
            }
            Event::Settled { .. } | Event::Left { .. } | Event::Configured(_) => return None,
        };
        Some(of_request(&shown))
    }

    fn next_of_locks(&mut self) -> Option<String> {
        match self.locks.try_recv() {
            Ok(notice) => Some(of_lock(&notice)),
            Err(TryRecvError::Lagged(count)) => Some(missed(count)),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }
}

/// A request as clients see it that may not see its whole text, if that differs.
fn limited(about: Option<&Arc<About>>) -> Option<Option<Arc<About>>> {
    let about = about?;
    let text = shortened(&about.text, about.is_http);
    (text != about.text).then(|| Some(Arc::new(About { text, ..About::clone(about) })))
}

/// `GET /v1/events`
pub(crate) async fn follow(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
) -> Result<Response, Problem> {
    let place = take(Arc::clone(&app.followers), &identity)?;
    // Pieces wait where all followers share them, so only one is on its way to this client.
    let (sender, receiver) = mpsc::channel(1);
    let pieces = app.press.follow(&app);
    tokio::spawn(async move {
        tokio::select! {
            () = pump(&app, pieces, sender, &identity) => {}
            () = revoked(identity.granted.clone()) => {}
            () = app.closing() => {}
        }
        drop(place);
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, Body::new(Stream { receiver })).into_response())
}

/// The number of followers.
pub(crate) fn followers(app: &App) -> usize {
    app.followers.count()
}

/// Waits until a role is revoked; forever, if it cannot be.
async fn revoked(granted: Option<Arc<Granted>>) {
    match granted {
        Some(granted) => granted.revoked().await,
        None => std::future::pending().await,
    }
}

/// Passes on events until the client disconnects or its role is revoked.
async fn pump(
    app: &App,
    (mut pieces, mut number): (broadcast::Receiver<Piece>, u64),
    sender: mpsc::Sender<Bytes>,
    identity: &Identity,
) {
    let granted = &identity.granted;
    let mut next = Bytes::from_static(b": events of paceline\n\n");
    // The expiry of a token is checked before anything is sent.
    while !granted.as_ref().is_some_and(|granted| granted.is_over())
        && sender.send(next).await.is_ok()
    {
        next = tokio::select! {
            () = sender.closed() => break,
            piece = next_piece(&mut pieces) => match piece {
                Some(piece) => since(&piece, still_sees_all(app, identity), &mut number),
                None => break,
            },
            () = tokio::time::sleep(ALIVE) => Bytes::from_static(b": alive\n\n"),
        };
    }
}

/// The next piece that is still available; `None` if there are no more.
async fn next_piece(pieces: &mut broadcast::Receiver<Piece>) -> Option<Piece> {
    loop {
        match pieces.recv().await {
            Ok(piece) => return Some(piece),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return None,
        }
    }
}

/// A piece for a client that has read the events before `number`, preceded by the number of events it missed.
fn since(piece: &Piece, sees_all: bool, number: &mut u64) -> Bytes {
    let text = if sees_all { &piece.text } else { &piece.limited };
    let count = piece.first - *number;
    *number = piece.first + piece.count;
    match count {
        0 => text.clone(),
        _ => [missed(count).as_bytes(), text].concat().into(),
    }
}

fn text(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn missed(count: u64) -> String {
    text("missed", &json!({ "count": count }))
}

fn of_request(event: &Event) -> String {
    match event {
        Event::Started { id, about } => {
            text("started", &named(json!({ "request": id.0 }), about.as_deref()))
        }
        Event::Waiting { id, about } => {
            text("waiting", &named(json!({ "request": id.0 }), about.as_deref()))
        }
        Event::Refused { id, refusal, about } => {
            let (word, message) = (reason(&refusal.reason).0, refusal.to_string());
            let told = json!({ "request": id.0, "reason": word, "message": message });
            text("refused", &named(told, about.as_deref()))
        }
        Event::Settled { id } => text("settled", &json!({ "request": id.0 })),
        Event::Left { id } => text("settled", &json!({ "request": id.0, "left": true })),
        Event::Matched { id, rule, about } => {
            text("log", &named(json!({ "request": id.0, "rule": rule }), Some(about)))
        }
        Event::Configured(configured) => of_configuration(configured),
    }
}

/// Adds the user and the text of the request, if it has them.
fn named(mut data: Value, about: Option<&About>) -> Value {
    let Some(About { user, text, .. }) = about else { return data };
    for (name, value) in [("user", user), ("text", text)] {
        if !value.is_empty() {
            data[name] = Value::String(value.to_string());
        }
    }
    data
}

fn of_configuration(configured: &Configured) -> String {
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

fn of_lock(notice: &Notice) -> String {
    let Notice { lock, change, session } = notice;
    text("lock", &json!({ "lock": &**lock, "what": change.word(), "session": session }))
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

#[cfg(test)]
mod tests {
    use super::{Press, missed, next_piece, since};
    use crate::app_for_tests;
    use paceline_types::{Attributes, Request};

    /// An event is written once for all followers, in one piece with the events of the same time. A client
    /// receives no event from before it followed, and the number of events it missed.
    #[test]
    fn all_followers_share_what_is_written() {
        let (_runtime, app) = app_for_tests();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let press = Press::new();
            let spend = |count| {
                for _ in 0..count {
                    drop(app.host.control().admit(Request::new(Attributes::new())));
                }
            };
            let mut early = press.follow(&app);
            spend(10);
            let mut late = [press.follow(&app), press.follow(&app)];
            spend(10);
            let first = next_piece(&mut early.0).await.unwrap();
            assert_eq!((first.first, first.count), (0, 20), "started and settled");
            let second = next_piece(&mut early.0).await.unwrap();
            assert_eq!((second.first, second.count), (20, 20));
            for (pieces, number) in &mut late {
                let piece = next_piece(pieces).await.unwrap();
                assert_eq!(piece.text.as_ptr(), second.text.as_ptr(), "it is the same text");
                assert_eq!(since(&piece, false, number), second.text);
                assert_eq!(*number, 40);
            }
            let told = since(&second, true, &mut early.1);
            assert!(told.starts_with(missed(20).as_bytes()) && told.ends_with(&second.text));
        });
    }
}
