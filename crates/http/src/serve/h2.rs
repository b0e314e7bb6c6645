//! A client connection that speaks HTTP/2: many requests at once, each in its own task.
//!
//! Framing, flow control and their limits come from the `h2` crate. The head of each request is written as an
//! HTTP/1.1 head and parsed by the same strict parser, so that both protocols mean the same to rules and servers.

mod ahead;
mod body;
mod delivery;
mod exchange;
mod frames;
mod head;
mod leave;
mod request;
mod room;
mod sent;
mod watched;

use crate::serve::attributes::Peer;
use crate::serve::clients::Account;
use crate::serve::presence::Presence;
use crate::serve::table::LiveFrontend;
use crate::serve::unsent::Tail;
use crate::serve::worker::Worker;
use bytes::Bytes;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
pub(crate) use leave::linger;
use paceline_net::buffer::{Buffer, Prefixed};
use paceline_net::stream::Stream;
use paceline_net::task;
use paceline_net::timer::Timer;
use sent::Outlet;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use watched::{Since, Watched};

/// Concurrent requests of one connection.
const STREAMS_MAX: u32 = 100;

/// Bytes that one stream may send before it is read.
const STREAM_WINDOW: u32 = 64 << 10;

/// Bytes that all streams of a connection may send. Streams of waiting requests are not read, so they must leave room
/// for the others.
const CONNECTION_WINDOW: u32 = STREAMS_MAX * STREAM_WINDOW;

/// Bytes of a response that `h2` keeps while its client does not read. It is given no more than that (`sent`).
const SEND_BUFFER: usize = 128 << 10;

/// How many more requests of a connection may be cancelled before their response begins than are answered. A client
/// that only resets its requests causes useless work.
const GIVEN_UP_MAX: u32 = 100;

/// Heads and trailers of all requests of a connection together. With HPACK a single byte can name a long field.
const HEADS_BYTES_MAX: usize = 1 << 20;

const HEADS_TOO_LONG: &str = "the heads of the requests of this connection take too much memory";

/// How long a client with an idle connection may take to confirm the shutdown; a request may be on its way.
const GOODBYE: Duration = Duration::from_secs(1);

/// What all tasks of a connection share.
struct Shared {
    worker: Rc<Worker>,
    peer: Rc<Peer>,
    is_tls: bool,
    /// Requests that are being served.
    active: Cell<usize>,
    /// Requests that were cancelled before their response began, minus requests that were answered.
    given_up: Cell<u32>,
    /// Whether the task of a request panicked: then the connection ends.
    is_faulty: Cell<bool>,
    /// Whether no frontend listens any more at the address of the connection: then the connection ends.
    is_closing: Cell<bool>,
    /// Bytes of the heads and trailers of its requests.
    heads: Cell<usize>,
    /// The account of its client.
    account: Arc<Account>,
    presence: Arc<Presence>,
    outlet: Rc<Outlet>,
}

/// The memory of a request's head and trailers, counted while they are kept.
struct KeptHead<'a>(&'a Cell<usize>, usize);

impl KeptHead<'_> {
    /// Counts more bytes. Returns whether there is room beside the heads of the connection's other requests.
    #[must_use]
    fn grow(&mut self, len: usize) -> bool {
        let heads = self.0.get() + len;
        if heads > HEADS_BYTES_MAX {
            return false;
        }
        self.0.set(heads);
        self.1 += len;
        true
    }
}

impl Drop for KeptHead<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - self.1);
    }
}

impl Shared {
    /// Counts a request that has ended.
    fn count(&self, is_given_up: bool) {
        let count = self.given_up.get();
        self.given_up.set(if is_given_up { count + 1 } else { count.saturating_sub(1) });
        if self.is_abused() {
            self.presence.wake();
        }
    }

    /// The task of a request panicked: the state that the other requests share with it may be inconsistent.
    fn end_by_fault(&self) {
        self.is_faulty.set(true);
        self.presence.wake();
    }

    const fn is_abused(&self) -> bool {
        self.given_up.get() > GIVEN_UP_MAX
    }
}

/// Serves a connection until it ends. If it ends for another one, its stream is returned, to `linger` after its place is
/// given back.
pub(crate) async fn run(
    worker: Rc<Worker>,
    mut frontend: Arc<LiveFrontend>,
    peer: Rc<Peer>,
    stream: Stream,
    buf: Buffer,
    presence: Arc<Presence>,
) -> Option<Stream> {
    let is_tls = stream.is_tls();
    let (since, outlet) = (Since::default(), Outlet::new());
    let stream = Rc::new(RefCell::new(Prefixed::new(buf, stream)));
    let watched = Watched::new(Rc::clone(&stream), Rc::clone(&since), Rc::clone(&outlet));
    let begun = Instant::now();
    let handshake = settings().handshake::<_, Bytes>(watched);
    let handshake = tokio::time::timeout(frontend.timeouts.header, handshake);
    // Over TLS the client may not have sent anything yet.
    let Some(Ok(Ok(mut connection))) = worker.before_request(&presence, handshake).await else {
        return None;
    };
    let account = worker.means.clients.account(peer.counted_as(&frontend.spec, None));
    let shared = Rc::new(Shared {
        worker,
        peer,
        account,
        is_tls,
        active: Cell::default(),
        given_up: Cell::default(),
        is_faulty: Cell::default(),
        is_closing: Cell::default(),
        heads: Cell::default(),
        presence,
        outlet,
    });
    let header = frontend.timeouts.header;
    let mut watch = Watch {
        timer: Timer::new(header),
        block_timer: Timer::new(header),
        since,
        first_by: Some(begun + header),
    };
    loop {
        match next(&shared, &mut connection, &stream, &mut watch, &frontend).await {
            Next::Request(accepted) => {
                let (request, respond) = *accepted;
                watch.first_by = None;
                match shared.worker.frontend(&shared.peer.place) {
                    Some(current) => frontend = current,
                    None => shared.is_closing.set(true),
                }
                let active = Active::new(&shared);
                let served = request::serve(active, Arc::clone(&frontend), request, respond);
                let shared = Rc::clone(&shared);
                task::spawn_or(served, move |_| shared.end_by_fault());
            }
            Next::Leave => {
                // Its client may still read what was sent: it is not idle.
                leave::run(connection, &stream, frontend.timeouts.body).await;
                return None;
            }
            Next::Displaced => {
                drop(connection);
                return Rc::into_inner(stream).map(|stream| stream.into_inner().inner);
            }
            Next::Cut => return None,
        }
    }
}

fn settings() -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(crate::limits::HEAD_BYTES_MAX as u32)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER);
    builder
}

/// Counts a request as being served.
struct Active(Rc<Shared>);

impl Active {
    fn new(shared: &Rc<Shared>) -> Self {
        debug_assert!(!shared.presence.is_displaced(), "a displaced connection begins no request");
        shared.active.set(shared.active.get() + 1);
        Self(Rc::clone(shared))
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.active.set(self.0.active.get() - 1);
    }
}

/// The timers of a connection.
struct Watch {
    timer: Timer,
    /// The time left for the rest of a header block.
    block_timer: Timer,
    /// When the current header block began.
    since: Since,
    /// The deadline of the first request, until it arrives.
    first_by: Option<Instant>,
}

type Wire = Connection<Watched<Prefixed<Stream>>, Bytes>;

/// What follows on a connection.
enum Next {
    Request(Box<(Request<RecvStream>, SendResponse<Bytes>)>),
    /// Nothing: it has ended.
    Leave,
    /// Nothing: it ends for another connection.
    Displaced,
    /// Nothing, and its client gets no more time.
    Cut,
}

/// Waits for the next request. A connection is shut down when it is idle, its worker drains or its frontend is gone.
/// A connection is closed at once when its client cancels too many requests or does not finish a head in time (D2).
async fn next(
    shared: &Shared,
    connection: &mut Wire,
    stream: &RefCell<Prefixed<Stream>>,
    watch: &mut Watch,
    frontend: &LiveFrontend,
) -> Next {
    let (mut is_ending, mut was_active, mut tail) = (false, true, Tail::default());
    let Watch { timer, block_timer, since, first_by } = watch;
    let next = poll_fn(|cx| {
        shared.presence.wait(cx);
        // From here on it may not end for another connection, until it has no request and none has come.
        if !shared.presence.begin() && !stays(shared, &mut tail, stream, frontend, cx) {
            let ended = cut(connection, Reason::NO_ERROR, cx);
            return if tail.is_stuck() { ended } else { Poll::Ready(Next::Displaced) };
        }
        let is_active = shared.active.get() > 0;
        if shared.is_abused() {
            return cut(connection, Reason::ENHANCE_YOUR_CALM, cx);
        }
        if shared.is_faulty.get() {
            return cut(connection, Reason::INTERNAL_ERROR, cx);
        }
        if (shared.worker.is_draining() || shared.is_closing.get()) && !is_ending {
            is_ending = true;
            connection.graceful_shutdown();
            // A client without requests may be slow to confirm the shutdown; it gets only the drain grace.
            timer.set(shared.worker.drain_grace());
        }
        if let Poll::Ready(next) = poll_accept(connection, cx) {
            return Poll::Ready(next);
        }
        if let Some(since) = since.get() {
            block_timer.set_at(since + frontend.timeouts.header);
            if block_timer.poll(cx).is_ready() {
                return cut(connection, Reason::ENHANCE_YOUR_CALM, cx);
            }
        }
        // While requests are served, their own timers apply; this one starts after the last request.
        if is_active || (was_active && !is_ending) {
            match first_by {
                Some(first_by) => timer.set_at(*first_by),
                None if is_ending => timer.set(frontend.timeouts.header),
                None => timer.set(frontend.timeouts.idle),
            }
        }
        was_active = is_active;
        while timer.poll(cx).is_ready() {
            if is_ending {
                return Poll::Ready(Next::Leave);
            }
            if first_by.is_some() {
                return cut(connection, Reason::NO_ERROR, cx);
            }
            is_ending = true;
            connection.graceful_shutdown();
            timer.set(GOODBYE);
            if let Poll::Ready(next) = poll_accept(connection, cx) {
                return Poll::Ready(next);
            }
        }
        if !is_active && tail.poll_idle(&mut stream.borrow_mut().inner, cx).is_ready() {
            shared.presence.set_idle();
        }
        Poll::Pending
    });
    let next = next.await;
    tail.forget(&stream.borrow().inner);
    next
}

/// Whether a connection does not end for another, because a response is still being sent.
fn stays(
    shared: &Shared,
    tail: &mut Tail,
    stream: &RefCell<Prefixed<Stream>>,
    frontend: &LiveFrontend,
    cx: &mut Context<'_>,
) -> bool {
    let stream = &mut stream.borrow_mut().inner;
    tail.stays(&shared.presence, stream, frontend.timeouts.body, cx)
}

fn poll_accept(connection: &mut Wire, cx: &mut Context<'_>) -> Poll<Next> {
    connection.poll_accept(cx).map(|accepted| match accepted {
        Some(Ok(accepted)) => Next::Request(Box::new(accepted)),
        Some(Err(_)) => Next::Cut,
        None => Next::Leave,
    })
}

/// Ends a connection at once, and sends the reason if the client can take it.
fn cut(connection: &mut Wire, why: Reason, cx: &mut Context<'_>) -> Poll<Next> {
    connection.abrupt_shutdown(why);
    let _ = connection.poll_accept(cx);
    Poll::Ready(Next::Cut)
}
