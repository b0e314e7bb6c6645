//! A client connection that speaks HTTP/1: one request after the other.
//!
//! The whole head of a request is read and the request is admitted before a server is connected to. While the request
//! waits, no more of it is read, and it ends at once if the client disconnects.

mod exchange;

use crate::respond::{How, Reply};
use crate::serve::admit::{Submitted, granted_to, submit};
use crate::serve::attributes::{self, Peer};
use crate::serve::clients::WaitCount;
use crate::serve::log::Record;
use crate::serve::lost::{Lost, Stop};
use crate::serve::orphan::{self, Orphan, Unfinished};
use crate::serve::presence::Presence;
use crate::serve::server_half::{Asked, ServerHalf};
use crate::serve::table::LiveFrontend;
use crate::serve::tunnel;
use crate::serve::unsent::Tail;
use crate::serve::upstream::Upstream;
use crate::serve::worker::Worker;
use crate::wire::{
    Framing, HeadError, RequestHead, RequestWriter, ResponseHead, check_beginning, head_end,
    leading_blank,
};
pub(crate) use exchange::ClientHalf;
use exchange::{End, Exchange, Spoken};
use paceline_host::{Permit, wall_ms};
use paceline_net::buffer::{Buffer, Outgoing};
use paceline_net::stream::Stream;
use paceline_net::timer::Timer;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncWrite;

/// How long a refused client may continue to send data, which is discarded.
const LINGER: Duration = Duration::from_secs(5);

/// How much of that data is read, so that closing the connection does not lose the response.
const LINGER_BYTES_MAX: usize = 256 << 20;

/// The preface of every HTTP/2 connection (RFC 9113 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A client connection.
#[derive(Debug)]
pub(crate) struct Connection {
    worker: Rc<Worker>,
    frontend: Arc<LiveFrontend>,
    peer: Rc<Peer>,
    client: ClientHalf,
    head: RequestHead,
    response: ResponseHead,
    sent: Outgoing,
    presence: Arc<Presence>,
}

/// What follows on a connection.
#[derive(Debug)]
enum Next {
    /// A head of so many bytes.
    Head(usize),
    /// The HTTP/2 preface.
    Http2,
    /// Nothing: the connection ends.
    End,
}

/// What becomes of a connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// It waits for the next request.
    Next,
    /// It is closed in order: the client can read everything that was sent.
    Close,
    /// It is cut off, so that the client notices that data is missing.
    Cut,
}

/// A request whose head was read.
#[derive(Debug)]
struct Begun {
    record: Record,
    asked: Asked,
    spoken: Spoken,
    /// The form of the response if it does not come from a server.
    form: ReplyForm,
    submitted: Result<Submitted, Box<Stop>>,
}

/// The form of a response that the daemon makes itself.
#[derive(Clone, Copy, Debug, Default)]
struct ReplyForm {
    is_json: bool,
    is_head: bool,
    /// Whether the connection stays open after it.
    keeps: bool,
}

impl Connection {
    pub fn new(
        worker: Rc<Worker>,
        frontend: Arc<LiveFrontend>,
        peer: Rc<Peer>,
        stream: Stream,
        buf: Buffer,
        presence: Arc<Presence>,
    ) -> Self {
        let timer = Timer::new(frontend.timeouts.header);
        let client = ClientHalf { stream, buf, out: Outgoing::default(), timer };
        let (head, response, sent) = Default::default();
        Self { worker, frontend, peer, client, head, response, sent, presence }
    }

    /// Serves the connection until it ends or switches to HTTP/2. In that case it is returned with the bytes that
    /// were already read.
    pub async fn run(mut self) -> Option<(Stream, Buffer)> {
        let mut is_first = true;
        loop {
            let next = match self.next(is_first).await {
                Ok(next) => next,
                Err(reply) => {
                    self.refuse_head(*reply).await;
                    self.linger().await;
                    return None;
                }
            };
            match next {
                Next::End => {
                    self.say_goodbye().await;
                    return None;
                }
                Next::Http2 => return Some((self.client.stream, self.client.buf)),
                Next::Head(len) => match self.serve(len).await {
                    After::Next => {}
                    After::Close => {
                        self.linger().await;
                        return None;
                    }
                    After::Cut => return None,
                },
            }
            is_first = false;
        }
    }

    /// Waits for the next head.
    async fn next(&mut self, is_first: bool) -> Result<Next, Box<Reply>> {
        let mut scanned = 0;
        let (mut has_begun, mut has_passed_blank, mut is_ending) = (false, false, false);
        let wait =
            if is_first { self.frontend.timeouts.header } else { self.frontend.timeouts.idle };
        self.client.timer.set(wait);
        let mut tail = Tail::default();
        let next = poll_fn(|cx| {
            // Its place may be another connection's already. So it ends, even if a request has arrived since, unless a
            // response is still being sent. From here on it may not end for another, until nothing has come.
            if !self.presence.begin() {
                let (body, stream) = (self.frontend.timeouts.body, &mut self.client.stream);
                if !tail.stays(&self.presence, stream, body, cx) {
                    return Poll::Ready(Ok(Next::End));
                }
            }
            loop {
                if scanned == 0 && !has_passed_blank {
                    // RFC 9112 2.2: one empty line before a request is skipped.
                    let blank = leading_blank(self.client.buf.bytes());
                    has_passed_blank = blank > 0;
                    self.client.buf.consume(blank);
                }
                let bytes = self.client.buf.bytes();
                if is_first && self.frontend.spec.http2 && is_preface(bytes) && !bytes.is_empty() {
                    if bytes.len() >= PREFACE.len() {
                        return Poll::Ready(Ok(Next::Http2));
                    }
                } else if let Some(len) = head_end(bytes, &mut scanned).map_err(bad_head)? {
                    return Poll::Ready(Ok(Next::Head(len)));
                } else if !bytes.is_empty() {
                    check_beginning(bytes).map_err(bad_head)?;
                }
                if !bytes.is_empty() && !has_begun {
                    has_begun = true;
                    self.client.timer.set(self.frontend.timeouts.header);
                }
                match self.client.buf.poll_fill(&mut self.client.stream, cx) {
                    // A client that disconnects within a head gets no response.
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Ok(Next::End)),
                    Poll::Ready(Ok(_)) => {}
                    Poll::Pending => return self.poll_idle(&mut is_ending, &mut tail, cx),
                }
            }
        });
        let next = next.await;
        tail.forget(&self.client.stream);
        next
    }

    /// Nothing has arrived: decides whether the connection ends. `is_ending` is set once the daemon is known to end.
    fn poll_idle(
        &mut self,
        is_ending: &mut bool,
        tail: &mut Tail,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Next, Box<Reply>>> {
        let is_empty = self.client.buf.is_empty();
        if is_empty {
            self.client.buf.release();
            self.client.out.release();
            self.sent.release();
            self.presence.wait(cx);
            // Only once: if it were set on each wake, the timer would never expire.
            if self.worker.is_draining() && !*is_ending {
                *is_ending = true;
                self.client.timer.set(self.worker.drain_grace());
            }
        }
        match self.client.timer.poll(cx) {
            Poll::Pending => {
                if is_empty && tail.poll_idle(&mut self.client.stream, cx).is_ready() {
                    self.presence.set_idle();
                }
                Poll::Pending
            }
            Poll::Ready(()) if is_empty => Poll::Ready(Ok(Next::End)),
            Poll::Ready(()) => Poll::Ready(Err(Box::new(Reply::slow_head()))),
        }
    }

    /// Serves the request whose head has `len` bytes.
    async fn serve(&mut self, len: usize) -> After {
        debug_assert!(!self.presence.is_displaced(), "a displaced connection begins no request");
        let begun = match self.begin(len) {
            Ok(begun) => begun,
            Err(error) => {
                self.refuse_head(Reply::bad_head(error)).await;
                return After::Close;
            }
        };
        let Begun { mut record, asked, spoken, form, submitted } = begun;
        let outcome = match submitted {
            Ok(Submitted::Runs(permit, waits)) => Ok((permit, waits)),
            Ok(Submitted::Waits(waiting, waits)) => {
                let socket = self.client.stream.socket();
                granted_to(&self.worker, (waiting, waits), socket).await
            }
            Err(stop) => Err(*stop),
        };
        let (mut permit, waits) = match outcome {
            Ok(admitted) => admitted,
            Err(Stop::Left) => {
                self.frontend.tally.left.fetch_add(1, Ordering::Relaxed);
                record.end_left(&self.worker, None, None);
                return After::Cut;
            }
            Err(Stop::Reply(reply)) => {
                let after;
                (after, record.bytes.1) = self.reply(&reply, form).await;
                record.end_reply(&self.worker, &reply);
                return after;
            }
        };
        record.admitted();
        match self.exchange(&mut permit, waits, asked, spoken, &mut record).await {
            Ok((after, orphan)) => {
                record.end(&self.worker, Some(&permit), self.response.status, None);
                orphan::settle(&self.worker, permit, orphan);
                after
            }
            Err(lost) => self.lost(lost, permit, record, form).await,
        }
    }

    /// Reads the head of `len` bytes, writes it for the server, and submits the request. This is not part of a
    /// future, so its memory is free while the request waits.
    fn begin(&mut self, len: usize) -> Result<Begun, HeadError> {
        let frontend = self.worker.frontend(&self.peer.place);
        let is_open = frontend.is_some();
        if let Some(frontend) = frontend {
            self.frontend = frontend;
        }
        let frontend = &*self.frontend;
        let bytes = &self.client.buf.bytes()[..len];
        self.head.read(bytes)?;
        frontend.tally.requests.fetch_add(1, Ordering::Relaxed);
        let mut record = Record::begin(frontend, &self.peer, &self.head, bytes);
        let asked = self.asked(bytes);
        let spoken = Spoken { is_11: self.head.is_11, keeps: self.head.keeps && is_open };
        let form = ReplyForm {
            is_json: crate::serve::wants_json(&self.head, bytes),
            is_head: asked.is_head,
            keeps: spoken.keeps && asked.framing == Framing::None,
        };
        let forwarded = self.peer.forwarded(&frontend.spec, self.client.stream.is_tls());
        let upgrades = asked.upgrades;
        let writer = RequestWriter { head: &self.head, bytes, forwarded, upgrades };
        let mut request = attributes::request(&self.worker.control, frontend, &self.peer, &writer);
        if let Ok(asking) = &mut request {
            record.keep(frontend, asking);
        }
        self.sent.clear();
        writer.write(&mut self.sent.bytes);
        let too_long = matches!(asked.framing, Framing::Length(len) if len > asked.body_bytes_max);
        let stopped = |reply| Err(Box::new(Stop::Reply(reply)));
        let submitted = match request {
            _ if !is_open => stopped(Reply::no_frontend()),
            _ if too_long => stopped(Reply::body_too_long()),
            Err(error) => stopped(Reply::unfit(&error)),
            Ok(asking) => submit(&self.worker, asking),
        };
        self.client.buf.consume(len);
        Ok(Begun { record, asked, spoken, form, submitted })
    }

    /// Ends a request that got no complete response.
    async fn lost(
        &mut self,
        lost: Lost,
        permit: Permit,
        mut record: Record,
        form: ReplyForm,
    ) -> After {
        let (tally, Lost { stop, status, orphan }) = (&self.frontend.tally, lost);
        match (stop, status) {
            (Stop::Left, status) => {
                tally.left.fetch_add(1, Ordering::Relaxed);
                record.end_left(&self.worker, Some(&permit), status);
                orphan::settle(&self.worker, permit, orphan);
                After::Cut
            }
            (Stop::Reply(reply), Some(status)) => {
                tally.cut(status);
                let is_open = matches!(self.response.framing, Framing::Chunked | Framing::Close);
                if !self.head.is_11 && is_open {
                    self.client.stream.socket().reset_at_end();
                }
                record.end(&self.worker, Some(&permit), status, Some(reply.word));
                orphan::settle(&self.worker, permit, orphan);
                After::Cut
            }
            (Stop::Reply(reply), None) => {
                // The slot is released before a slow client has read the response.
                record.settle(&self.worker, &permit);
                orphan::settle(&self.worker, permit, orphan);
                let after;
                (after, record.bytes.1) = self.reply(&reply, form).await;
                record.end_reply(&self.worker, &reply);
                after
            }
        }
    }

    /// What the exchange must know about the request.
    fn asked(&self, bytes: &[u8]) -> Asked {
        let (head, frontend) = (&self.head, &self.frontend);
        // With a body, the start of the other protocol would be unknown.
        let upgrade = head.upgrade.filter(|_| head.framing == Framing::None);
        let upgrades = upgrade.is_some_and(|protocol| {
            let protocol = protocol.of_bytes(bytes);
            let is_allowed = |allowed: &str| protocol.eq_ignore_ascii_case(allowed.as_bytes());
            frontend.spec.upgrades.iter().any(|allowed| is_allowed(allowed))
        });
        Asked {
            framing: head.framing,
            is_head: head.method(bytes) == b"HEAD",
            upgrades,
            is_repeatable: head.is_repeatable(bytes),
            body_bytes_max: frontend.spec.body_bytes_max.unwrap_or(u64::MAX),
            body_wait: frontend.timeouts.body,
        }
    }

    /// Sends the request and forwards the response.
    async fn exchange(
        &mut self,
        permit: &mut Permit,
        mut waits: WaitCount,
        asked: Asked,
        spoken: Spoken,
        record: &mut Record,
    ) -> Result<(After, Option<Orphan>), Lost> {
        let mut is_fresh = false;
        loop {
            let mut upstream = tokio::select! {
                biased;
                connected = self.worker.connect(permit, &mut waits, is_fresh) => connected?,
                () = self.client.stream.socket().left() => return Err(Stop::Left.into()),
            };
            let server = ServerHalf::new(&mut upstream, &mut self.sent, &mut self.response, asked);
            let (client, is_draining) = (&mut self.client, self.worker.draining());
            let mut exchange = Exchange::new(client, server, asked.framing, spoken, is_draining);
            let ended = poll_fn(|cx| exchange.poll(cx)).await;
            record.bytes = exchange.bytes();
            let is_answered = ended.is_err() && exchange.is_too_late();
            let unfinished = exchange.unfinished();
            match ended {
                Err(failure) if asked.is_repeatable && failure.is_of_idle(&upstream) => {
                    is_fresh = true;
                    self.sent.rewind();
                }
                Ok(end) => return Ok(self.ended(end, upstream).await),
                Err(failure) => {
                    let status = is_answered.then_some(self.response.status);
                    return Err(Lost::new(failure, status, upstream, unfinished));
                }
            }
        }
    }

    /// Decides what becomes of the connection, and of the server if it is still working.
    async fn ended(&mut self, end: End, mut upstream: Upstream) -> (After, Option<Orphan>) {
        self.frontend.tally.respond(self.response.status);
        match end {
            End::Whole { keeps, reuses } => {
                if reuses {
                    self.worker.keep(upstream);
                }
                (if keeps { After::Next } else { After::Close }, None)
            }
            End::Upgraded => {
                let timeouts = &self.frontend.timeouts;
                let (idle, ending) = (timeouts.tunnel, timeouts.body);
                let ended = tunnel::run(&mut self.client, &mut upstream, idle, ending).await;
                let orphan = ended.is_err().then(|| Orphan::new(upstream, Unfinished::Unknown));
                (After::Cut, orphan)
            }
        }
    }

    /// Answers a request whose head cannot be parsed, and closes the connection (H1).
    async fn refuse_head(&mut self, reply: Reply) {
        self.frontend.tally.requests.fetch_add(1, Ordering::Relaxed);
        let mut record = Record::without_head(&self.frontend, &self.peer);
        (_, record.bytes.1) = self.reply(&reply, ReplyForm::default()).await;
        record.end_reply(&self.worker, &reply);
    }

    /// Sends a response of the daemon after what is still to be written. Returns what becomes of the connection, and
    /// how many bytes of the body were written.
    async fn reply(&mut self, reply: &Reply, form: ReplyForm) -> (After, u64) {
        let ReplyForm { is_json, is_head, keeps } = form;
        let keeps = keeps && !self.worker.is_draining();
        self.frontend.tally.respond(reply.status);
        let page = self.frontend.pages.get(&reply.status);
        let how = How { page, is_json, is_head, keeps, is_11: self.head.is_11, wall_ms: wall_ms() };
        let body = reply.write(how, &mut self.client.out.bytes);
        self.client.timer.set(self.frontend.timeouts.body);
        let written = poll_fn(|cx| {
            let client = &mut self.client;
            match client.out.poll_write_all(&mut client.stream, cx) {
                Poll::Ready(written) => Poll::Ready(written.is_ok()),
                Poll::Pending => client.timer.poll(cx).map(|()| false),
            }
        })
        .await;
        let before = self.client.out.bytes.len() - body;
        let sent = self.client.out.written().saturating_sub(before) as u64;
        self.client.out.clear();
        let after = match (written, keeps) {
            (false, _) => After::Cut,
            (true, false) => After::Close,
            (true, true) => After::Next,
        };
        (after, sent)
    }

    /// Closes the TLS session without waiting for the client.
    async fn say_goodbye(&mut self) {
        poll_fn(|cx| {
            let _ = std::pin::Pin::new(&mut self.client.stream).poll_shutdown(cx);
            Poll::Ready(())
        })
        .await;
    }

    /// Shuts down the sending side, and for a while reads what the client still sends. Closing a socket with unread
    /// bytes would discard the response.
    async fn linger(&mut self) {
        let client = &mut self.client;
        let mut left = LINGER_BYTES_MAX;
        client.timer.set(LINGER);
        let mut is_shut = false;
        poll_fn(|cx| {
            loop {
                if !is_shut {
                    let shut = std::pin::Pin::new(&mut client.stream).poll_shutdown(cx);
                    is_shut = shut.is_ready();
                }
                let len = client.buf.bytes().len();
                client.buf.consume(len);
                left = left.saturating_sub(len);
                match client.buf.poll_fill(&mut client.stream, cx) {
                    _ if left == 0 => return Poll::Ready(()),
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                    Poll::Ready(Ok(_)) => {}
                    Poll::Pending => return client.timer.poll(cx),
                }
            }
        })
        .await;
    }
}

fn bad_head(error: HeadError) -> Box<Reply> {
    Box::new(Reply::bad_head(error))
}

fn is_preface(bytes: &[u8]) -> bool {
    let len = bytes.len().min(PREFACE.len());
    bytes[..len] == PREFACE[..len]
}
