//! A client's connection that speaks HTTP/2: many requests at once, each a task of its own.
//!
//! The framing, its flow control and its limits are those of the `h2` crate. The head of each request is
//! written as one of HTTP/1.1 and read back by the same strict reader, so that both protocols mean the
//! same to rules and servers.

mod delivery;
mod exchange;
mod frames;
mod head;
mod leave;
mod sent;
mod watched;

use crate::date;
use crate::respond::Reply;
use crate::serve::admit::{Stop, admit_until};
use crate::serve::attributes::{self, Peer};
use crate::serve::buffer::{Buffer, Outgoing, Prefixed};
use crate::serve::exchange::Failure;
use crate::serve::gone::{Gone, Lost};
use crate::serve::log::Record;
use crate::serve::orphan;
use crate::serve::stream::Stream;
use crate::serve::table::Gate;
use crate::serve::task;
use crate::serve::timer::Timer;
use crate::serve::worker::{Presence, Worker};
use crate::wire::{Framing, RequestHead, RequestWriter, ResponseHead};
use bytes::Bytes;
use delivery::Delivery;
use exchange::{Answer, Exchange};
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use paceline_host::{Permit, wall_ms};
use sent::{Flow, Outlet};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use watched::{Since, Watched};

/// Requests of one connection at a time.
const STREAMS_MAX: u32 = 100;

/// What one stream may send before it is read.
const STREAM_WINDOW: u32 = 64 << 10;

/// What all of a connection may. Those that wait for their turn are not read: they must leave room for
/// those that are.
const CONNECTION_WINDOW: u32 = STREAMS_MAX * STREAM_WINDOW;

/// What `h2` keeps of a response that its client does not read. It is given no more than that (`sent`).
const SEND_BUFFER: usize = 128 << 10;

/// So many more requests of a connection may be given up before their response begins than are answered:
/// whoever asks only to give up makes work for nothing.
const GIVEN_UP_MAX: u32 = 100;

/// Heads of all requests of a connection together: a client can name long fields by a byte.
const HEADS_BYTES_MAX: usize = 1 << 20;

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
    /// Bytes of the heads of its requests.
    heads: Cell<usize>,
    presence: Rc<Presence>,
    outlet: Rc<Outlet>,
}

/// The head of a request, which counts while it is kept.
struct KeptHead<'a>(&'a Cell<usize>, usize);

impl Drop for KeptHead<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - self.1);
    }
}

impl Shared {
    /// Counts the head of a request; none if those of the connection are too long together.
    fn keep_head(&self, len: usize) -> Option<KeptHead<'_>> {
        let heads = self.heads.get() + len;
        (heads <= HEADS_BYTES_MAX).then(|| {
            self.heads.set(heads);
            KeptHead(&self.heads, len)
        })
    }

    /// A request is over.
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
    mut gate: Arc<Gate>,
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
    let Ok(Ok(mut connection)) = tokio::time::timeout(gate.timeouts.header, handshake).await else {
        return;
    };
    let shared = Rc::new(Shared {
        worker,
        peer,
        is_tls,
        active: Cell::default(),
        given_up: Cell::default(),
        is_faulty: Cell::default(),
        is_closing: Cell::default(),
        heads: Cell::default(),
        presence,
        outlet,
    });
    let header = gate.timeouts.header;
    let mut watch = Watch {
        timer: Timer::new(header),
        block_timer: Timer::new(header),
        since,
        first_by: Some(begun + header),
    };
    loop {
        match next(&shared, &mut connection, &mut watch, &gate).await {
            Next::Request(accepted) => {
                let (request, respond) = *accepted;
                watch.first_by = None;
                match shared.worker.gate(&shared.peer.place) {
                    Some(current) => gate = current,
                    None => shared.is_closing.set(true),
                }
                let active = Active::new(&shared);
                let served = serve(active, Arc::clone(&gate), request, respond);
                let shared = Rc::clone(&shared);
                task::spawn_or(served, move |_| shared.end_by_fault());
            }
            Next::Leave => return leave::run(connection, &stream, gate.timeouts.body).await,
            Next::Cut => return,
        }
    }
}

/// That a request is being served.
struct Active(Rc<Shared>);

impl Active {
    fn new(shared: &Rc<Shared>) -> Self {
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
    /// Nothing: it is over.
    Leave,
    /// Nothing, and its client gets no more time.
    Cut,
}

/// The next request. A connection on which nothing happens, whose worker drains or whose frontend is gone is told to end. One whose
/// client gives up too much or does not come to the end of a head (D2) is cut off.
async fn next(shared: &Shared, connection: &mut Wire, watch: &mut Watch, gate: &Gate) -> Next {
    let (mut is_ending, mut was_active) = (false, true);
    let Watch { timer, block_timer, since, first_by } = watch;
    poll_fn(|cx| {
        shared.presence.wait(cx);
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
            block_timer.set_at(since + gate.timeouts.header);
            if block_timer.poll(cx).is_ready() {
                return cut(connection, Reason::ENHANCE_YOUR_CALM, cx);
            }
        }
        // As long as requests are served, their own timers count; this one begins behind the last.
        let is_active = shared.active.get() > 0;
        if is_active || (was_active && !is_ending) {
            match first_by {
                Some(first_by) => timer.set_at(*first_by),
                None if is_ending => timer.set(gate.timeouts.header),
                None => timer.set(gate.timeouts.idle),
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

/// Serves one request.
async fn serve(
    active: Active,
    gate: Arc<Gate>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    gate.tally.requests.fetch_add(1, Ordering::Relaxed);
    let flow = Flow::new(&active.0.outlet, respond.stream_id().as_u32());
    let mut stream = One {
        shared: &active.0,
        gate: &gate,
        respond: &mut respond,
        flow,
        replied: None,
        is_json: false,
        is_head: false,
    };
    let is_given_up = stream.run(request).await;
    if let Some((delivery, mut record, reply)) = stream.replied.take() {
        // Whether it was read is nobody's concern, only when it is over, and how much of it was written.
        let _ = delivery.see_out(&mut stream.flow, gate.timeouts.body).await;
        record.bytes.1 = stream.flow.bytes();
        record.end_reply(&active.0.worker, &reply);
    }
    active.0.count(is_given_up);
}

/// Has the system asked what has come by now, and the tasks that it concerns run, before this one goes on.
async fn catch_up() {
    // One that yields goes behind those that the runtime's next look at the sockets wakes.
    tokio::task::yield_now().await;
}

/// One request on its way.
struct One<'a> {
    shared: &'a Shared,
    gate: &'a Gate,
    respond: &'a mut SendResponse<Bytes>,
    flow: Flow,
    /// A response of our own that is on its way, with what is to be logged when it is over.
    replied: Option<(Delivery, Record, Reply)>,
    is_json: bool,
    is_head: bool,
}

impl One<'_> {
    /// Serves it; tells whether it was given up before its response began.
    async fn run(&mut self, request: Request<RecvStream>) -> bool {
        let (parts, body) = request.into_parts();
        let (worker, peer) = (&self.shared.worker, &self.shared.peer);
        let (text, mut head) = (head::text(&parts, body.is_end_stream()), RequestHead::default());
        // It is kept once while it waits.
        drop(parts);
        let read = match &text {
            Ok(text) => head.read(text).map_err(Reply::bad_head),
            Err(error) => Err(Reply::bad_request(*error)),
        };
        if let Err(reply) = read {
            self.reply(reply, Record::without_head(self.gate, peer));
            return false;
        }
        let bytes = text.as_deref().unwrap_or_default();
        let mut record = Record::begin(self.gate, peer, &head, bytes);
        record.is_http2();
        self.is_json = crate::serve::wants_json(&head, bytes);
        self.is_head = head.method(bytes) == b"HEAD";
        let limit = self.gate.spec.body_bytes_max.unwrap_or(u64::MAX);
        let is_too_long = matches!(head.framing, Framing::Length(len) if len > limit);
        let forwarded = peer.forwarded(&self.gate.spec, self.shared.is_tls);
        let writer = RequestWriter { head: &head, bytes, forwarded, upgrades: false };
        let shared = self.shared;
        let kept = shared.keep_head(bytes.len());
        let outcome = match attributes::request(&worker.control, self.gate, peer, &writer) {
            _ if self.shared.is_closing.get() => Err(Stop::Reply(Reply::no_frontend())),
            _ if kept.is_none() => Err(Stop::Reply(Reply::heads_too_long())),
            _ if is_too_long => Err(Stop::Reply(Reply::body_too_long())),
            Err(error) => Err(Stop::Reply(Reply::unfit(&error))),
            Ok(request) => self.admit(request).await,
        };
        let mut permit = match outcome {
            Ok(permit) => permit,
            Err(Stop::Left) => {
                self.gate.tally.left.fetch_add(1, Ordering::Relaxed);
                record.end_left(worker, None, None);
                return true;
            }
            Err(Stop::Reply(reply)) => {
                self.reply(reply, record);
                return false;
            }
        };
        record.admitted();
        let exchanged = self.exchange(&mut permit, writer, body, &mut record).await;
        drop(kept);
        match exchanged {
            Ok((status, delivery)) => {
                // The server is done, whatever its client does.
                record.settle(worker, &permit);
                drop(permit);
                self.see_out(status, delivery, record).await;
                false
            }
            Err(lost) => self.lost(lost, permit, record),
        }
    }

    /// Has it walk the path.
    async fn admit(&mut self, asking: attributes::Asking) -> Result<Permit, Stop> {
        let left = poll_fn(|cx| self.respond.poll_reset(cx).map(|_| ()));
        let permit = admit_until(&self.shared.worker, asking, left, || false).await?;
        // It may have been given up in the moment of the grant.
        if self.is_given_up(&permit).await {
            permit.withdraw();
            return Err(Stop::Left);
        }
        Ok(permit)
    }

    /// Waits until a server's response has left.
    async fn see_out(&mut self, status: u16, delivery: Delivery, mut record: Record) {
        let (worker, tally) = (&self.shared.worker, &self.gate.tally);
        let seen = delivery.see_out(&mut self.flow, self.gate.timeouts.body).await;
        record.bytes.1 = self.flow.bytes();
        match seen.map_err(|failure| Reply::failed(&failure)) {
            Ok(()) => {
                tally.respond(status);
                record.end(worker, None, status, None);
            }
            Err(Some(reply)) => {
                tally.cut(status);
                record.end(worker, None, status, Some(reply.word));
            }
            Err(None) => {
                tally.left.fetch_add(1, Ordering::Relaxed);
                let status = self.flow.has_no_head().then_some(status);
                record.end_left(worker, None, status);
            }
        }
    }

    /// Ends one that has no whole response; tells whether it was given up before that began.
    fn lost(&mut self, lost: Lost, permit: Permit, mut record: Record) -> bool {
        let worker = &self.shared.worker;
        let Lost { gone, status, orphan } = lost;
        let is_given_up = matches!(gone, Gone::Left) && status.is_none();
        match gone {
            Gone::Left => {
                self.gate.tally.left.fetch_add(1, Ordering::Relaxed);
                let status = status.filter(|_| self.flow.has_no_head());
                record.end_left(worker, Some(&permit), status);
            }
            Gone::Cut(status, word) => {
                self.gate.tally.cut(status);
                record.end(worker, Some(&permit), status, Some(word));
            }
            Gone::Reply(reply) => {
                record.settle(worker, &permit);
                self.reply(reply, record);
            }
        }
        orphan::settle(worker, permit, orphan);
        is_given_up
    }

    /// Whether it was given up by now. What came while it waited may not have been read yet.
    async fn is_given_up(&mut self, permit: &Permit) -> bool {
        if permit.grant().since > permit.grant().arrival {
            catch_up().await;
        }
        poll_fn(|cx| Poll::Ready(self.respond.poll_reset(cx).is_ready())).await
    }

    /// Sends the request and passes the response on until the server is done; answers its status, and what is
    /// on its way.
    async fn exchange(
        &mut self,
        permit: &mut Permit,
        writer: RequestWriter<'_>,
        mut body: RecvStream,
        record: &mut Record,
    ) -> Result<(u16, Delivery), Lost> {
        let worker = &self.shared.worker;
        let RequestWriter { head, bytes, .. } = writer;
        let mut sent = Outgoing::default();
        writer.write(&mut sent.bytes);
        let is_idempotent = head.is_idempotent(bytes);
        let mut is_fresh = false;
        let mut response = ResponseHead::default();
        loop {
            let connected = tokio::select! {
                biased;
                connected = worker.connect(permit, is_fresh) => connected,
                _ = poll_fn(|cx| self.respond.poll_reset(cx)) => Err(Gone::Left),
            };
            let mut upstream = connected?;
            let answer = Answer {
                respond: self.respond,
                flow: &mut self.flow,
                head: &mut response,
                is_head: self.is_head,
            };
            let mut exchange =
                Exchange::new(answer, &mut body, &mut upstream, &mut sent, head.framing, self.gate);
            let ended = poll_fn(|cx| exchange.poll(cx)).await;
            let (is_answered, unfinished) = (exchange.is_answered(), exchange.unfinished());
            record.bytes = exchange.bytes();
            match ended {
                Err(Failure::Broken(_))
                    if upstream.is_reused && is_idempotent && head.framing == Framing::None =>
                {
                    is_fresh = true;
                    sent.rewind();
                }
                Ok(answered) => {
                    if answered.reuses {
                        worker.keep(upstream);
                    }
                    return Ok((response.status, answered.delivery));
                }
                Err(failure) => {
                    if is_answered {
                        self.respond.send_reset(Reason::INTERNAL_ERROR);
                    }
                    let status = is_answered.then_some(response.status);
                    return Err(Lost::new(failure, status, upstream, unfinished));
                }
            }
        }
    }

    /// Sends a response of our own. It is logged when it is over.
    fn reply(&mut self, reply: Reply, record: Record) {
        self.gate.tally.respond(reply.status);
        match self.send_reply(&reply) {
            Some(delivery) => self.replied = Some((delivery, record, reply)),
            None => record.end_reply(&self.shared.worker, &reply),
        }
    }

    /// The same; nothing if the stream is gone.
    fn send_reply(&mut self, reply: &Reply) -> Option<Delivery> {
        let page = self.gate.pages.get(&reply.status);
        let (body, content_type) = reply.body(page, self.is_json);
        let mut response = http::Response::builder()
            .status(reply.status)
            .header("date", date::http(wall_ms()))
            .header("content-type", content_type)
            .header("content-length", body.len())
            .header("cache-control", "no-store");
        for (name, value) in reply.fields() {
            response = response.header(name.to_ascii_lowercase(), value);
        }
        // The parts are ours, so they fit together; a stream that is gone needs no answer.
        let response = response.body(()).ok()?;
        let mut stream = self.respond.send_response(response, self.is_head).ok()?;
        self.flow.give_head();
        if !self.is_head {
            let len = body.len();
            stream.send_data(Bytes::from(body.into_owned()), true).ok()?;
            self.flow.give(len);
        }
        Some(Delivery::queued(stream))
    }
}

#[cfg(test)]
mod tests {
    use super::catch_up;
    use std::cell::Cell;
    use std::io::Write as _;
    use std::rc::Rc;

    /// On a worker's runtime: the task that reads a connection is told first.
    #[test]
    fn what_has_come_by_now_is_read_before_a_grant_is_used() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let local = tokio::task::LocalSet::new();
        let served = local.spawn_local(async {
            let (mut near, far) = std::os::unix::net::UnixStream::pair().unwrap();
            far.set_nonblocking(true).unwrap();
            let far = tokio::net::UnixStream::from_std(far).unwrap();
            let is_read = Rc::new(Cell::new(false));
            let theirs = Rc::clone(&is_read);
            tokio::task::spawn_local(async move {
                far.readable().await.unwrap();
                theirs.set(true);
            });
            catch_up().await;
            near.write_all(b"x").unwrap();
            assert!(!is_read.get(), "the system knows, the task does not");
            catch_up().await;
            assert!(is_read.get());
        });
        local.block_on(&runtime, served).unwrap();
    }
}
