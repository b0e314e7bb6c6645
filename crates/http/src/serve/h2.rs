//! A client's connection that speaks HTTP/2: many requests at once, each a task of its own.
//!
//! The framing, its flow control and its limits are those of the `h2` crate. The head of each request is
//! written as one of HTTP/1.1 and read back by the same strict reader, so that both protocols mean the
//! same to rules and servers.

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
use crate::serve::buffer::{Buffer, Prefixed};
use crate::serve::clients::Account;
use crate::serve::stream::Stream;
use crate::serve::table::LiveFrontend;
use crate::serve::task;
use crate::serve::timer::Timer;
use crate::serve::worker::{Presence, Worker};
use bytes::Bytes;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use sent::Outlet;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use watched::{Since, Watched};

/// Requests of one connection at a time.
const STREAMS_MAX: u32 = 100;

/// What one stream may send before it is read.
const STREAM_WINDOW: u32 = 64 << 10;

/// What all streams of a connection may send. Streams that wait for their turn are not read: they must leave room for
/// the others.
const CONNECTION_WINDOW: u32 = STREAMS_MAX * STREAM_WINDOW;

/// What `h2` keeps of a response that its client does not read. It is given no more than that (`sent`).
const SEND_BUFFER: usize = 128 << 10;

/// So many more requests of a connection may be given up before their response begins than are answered: a client that
/// only resets its requests makes work for nothing.
const GIVEN_UP_MAX: u32 = 100;

/// Heads and trailers of all requests of a connection together: a client can name long fields by a byte.
const HEADS_BYTES_MAX: usize = 1 << 20;

const HEADS_TOO_LONG: &str = "the heads of the requests of this connection take too much memory";

/// How long a client on whose connection nothing happens may take to agree that it ends: a request may be
/// on its way.
const GOODBYE: Duration = Duration::from_secs(1);

/// What all tasks of a connection share.
struct Shared {
    worker: Rc<Worker>,
    peer: Rc<Peer>,
    is_tls: bool,
    /// Requests that are being served.
    active: Cell<usize>,
    /// Requests that were given up before their response began, beyond those that were answered.
    given_up: Cell<u32>,
    /// Whether the task of a request panicked: then the connection ends.
    is_faulty: Cell<bool>,
    /// Whether no frontend listens any more where it came in: then the connection ends.
    is_closing: Cell<bool>,
    /// Bytes of the heads and trailers of its requests.
    heads: Cell<usize>,
    /// What its client has.
    account: Arc<Account>,
    presence: Rc<Presence>,
    outlet: Rc<Outlet>,
}

/// The head of a request and its trailers, which count while they are kept.
struct KeptHead<'a>(&'a Cell<usize>, usize);

impl KeptHead<'_> {
    /// Counts more of it. Returns whether there is room beside the heads of the connection's other requests.
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
    /// A request has ended.
    fn count(&self, is_given_up: bool) {
        let count = self.given_up.get();
        self.given_up.set(if is_given_up { count + 1 } else { count.saturating_sub(1) });
        if self.is_abused() {
            self.presence.wake();
        }
    }

    /// The task of a request panicked: what the others share with it may not be whole.
    fn end_by_fault(&self) {
        self.is_faulty.set(true);
        self.presence.wake();
    }

    const fn is_abused(&self) -> bool {
        self.given_up.get() > GIVEN_UP_MAX
    }
}

/// Serves a connection until it ends.
pub(crate) async fn run(
    worker: Rc<Worker>,
    mut frontend: Arc<LiveFrontend>,
    peer: Rc<Peer>,
    stream: Stream,
    buf: Buffer,
    presence: Rc<Presence>,
) {
    let is_tls = stream.is_tls();
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(crate::limits::HEAD_BYTES_MAX as u32)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER);
    let (since, outlet) = (Since::default(), Outlet::new());
    let stream = Rc::new(RefCell::new(Prefixed::new(buf, stream)));
    let watched = Watched::new(Rc::clone(&stream), Rc::clone(&since), Rc::clone(&outlet));
    let begun = Instant::now();
    let handshake = builder.handshake::<_, Bytes>(watched);
    let Ok(Ok(mut connection)) = tokio::time::timeout(frontend.timeouts.header, handshake).await
    else {
        return;
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
        match next(&shared, &mut connection, &mut watch, &frontend).await {
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
                // Its client may still read what was sent.
                shared.presence.set_idle(false);
                return leave::run(connection, &stream, frontend.timeouts.body).await;
            }
            Next::Cut => return,
        }
    }
}

/// That a request is being served.
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

/// What a connection is waited for with.
struct Watch {
    timer: Timer,
    /// For the rest of a header block.
    block_timer: Timer,
    /// Since when one is under way.
    since: Since,
    /// When the first request must be there, until it is.
    first_by: Option<Instant>,
}

type Wire = Connection<Watched<Prefixed<Stream>>, Bytes>;

/// What comes next on a connection.
enum Next {
    Request(Box<(Request<RecvStream>, SendResponse<Bytes>)>),
    /// Nothing: it has ended.
    Leave,
    /// Nothing, and its client gets no more time.
    Cut,
}

/// The next request. A connection that is idle, whose worker drains or whose frontend is gone is shut down. A connection
/// whose client gives up too many requests or does not finish a head in time (D2) is cut off.
async fn next(
    shared: &Shared,
    connection: &mut Wire,
    watch: &mut Watch,
    frontend: &LiveFrontend,
) -> Next {
    let (mut is_ending, mut was_active) = (false, true);
    let Watch { timer, block_timer, since, first_by } = watch;
    poll_fn(|cx| {
        shared.presence.wait(cx);
        let is_active = shared.active.get() > 0;
        shared.presence.set_idle(!is_active);
        if shared.presence.is_displaced() && !is_active {
            return cut(connection, Reason::NO_ERROR, cx);
        }
        if shared.is_abused() {
            return cut(connection, Reason::ENHANCE_YOUR_CALM, cx);
        }
        if shared.is_faulty.get() {
            return cut(connection, Reason::INTERNAL_ERROR, cx);
        }
        if (shared.worker.is_draining() || shared.is_closing.get()) && !is_ending {
            is_ending = true;
            connection.graceful_shutdown();
            // A client that has nothing here may take its time with the goodbye, but not ours.
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
        // As long as requests are served, their own timers count; this one begins behind the last.
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
        Poll::Pending
    })
    .await
}

fn poll_accept(connection: &mut Wire, cx: &mut Context<'_>) -> Poll<Next> {
    connection.poll_accept(cx).map(|accepted| match accepted {
        Some(Ok(accepted)) => Next::Request(Box::new(accepted)),
        Some(Err(_)) => Next::Cut,
        None => Next::Leave,
    })
}

/// Ends a connection at once, with a word if the client takes it.
fn cut(connection: &mut Wire, why: Reason, cx: &mut Context<'_>) -> Poll<Next> {
    connection.abrupt_shutdown(why);
    let _ = connection.poll_accept(cx);
    Poll::Ready(Next::Cut)
}
