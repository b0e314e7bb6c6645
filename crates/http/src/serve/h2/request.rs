//! One request of an HTTP/2 connection, from its head until its response was sent.

use super::body::Body;
use super::delivery::Delivery;
use super::exchange::{Answer, Exchange};
use super::head;
use super::sent::Flow;
use super::{Active, HEADS_TOO_LONG, KeptHead, Shared};
use crate::date;
use crate::respond::Reply;
use crate::serve::admit::{Submitted, granted, submit};
use crate::serve::attributes;
use crate::serve::clients::WaitCount;
use crate::serve::log::Record;
use crate::serve::lost::{Failure, Lost, Stop};
use crate::serve::orphan;
use crate::serve::server_half::{Asked, CUT_SHORT, ServerHalf};
use crate::serve::table::LiveFrontend;
use crate::wire::{Framing, RequestHead, RequestWriter, ResponseHead};
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::Request;
use paceline_host::{Permit, wall_ms};
use paceline_net::buffer::Outgoing;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

/// Memory of a waiting request besides its head and its attributes: its task, what the engine and `h2` keep of it,
/// its log line. Measured: 5.2 KB with a short head.
const STREAM_BYTES: usize = 5 << 10;

/// Serves one request. The head as `h2` read it is not kept, because many requests may wait for a long time.
pub(super) fn serve(
    active: Active,
    frontend: Arc<LiveFrontend>,
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
) -> impl Future<Output = ()> {
    let (parts, body) = request.into_parts();
    let text = head::text(&parts, body.is_end_stream());
    serve_text(active, frontend, text, body, respond)
}

async fn serve_text(
    active: Active,
    frontend: Arc<LiveFrontend>,
    text: Result<Vec<u8>, &'static str>,
    body: RecvStream,
    mut respond: SendResponse<Bytes>,
) {
    frontend.tally.requests.fetch_add(1, Ordering::Relaxed);
    let flow = Flow::new(&active.0.outlet, respond.stream_id().as_u32());
    let mut stream = One {
        shared: &active.0,
        frontend: &frontend,
        respond: &mut respond,
        flow,
        replied: None,
        is_json: false,
        is_head: false,
    };
    let is_given_up = stream.run(text, body).await;
    if let Some(replied) = stream.replied.take() {
        Box::pin(stream.see_out_reply(*replied)).await;
    }
    active.0.count(is_given_up);
}

/// Lets the runtime poll the sockets and run the tasks that are ready before this task continues.
async fn catch_up() {
    // A task that yields runs after the tasks that the next poll of the sockets wakes.
    tokio::task::yield_now().await;
}

type Replied = (Delivery, Record, Reply);

/// One request in progress.
struct One<'a> {
    shared: &'a Shared,
    frontend: &'a LiveFrontend,
    respond: &'a mut SendResponse<Bytes>,
    flow: Flow,
    /// A response of the daemon that is being sent, and its log record for when it has ended.
    replied: Option<Box<Replied>>,
    is_json: bool,
    is_head: bool,
}

impl One<'_> {
    /// Serves the request. Returns whether the client cancelled it before its response began.
    async fn run(&mut self, text: Result<Vec<u8>, &'static str>, stream: RecvStream) -> bool {
        let (worker, peer) = (&self.shared.worker, &self.shared.peer);
        let mut head = RequestHead::default();
        let read = match &text {
            Ok(text) => head.read(text).map_err(Reply::bad_head),
            Err(error) => Err(Reply::bad_request(*error)),
        };
        if let Err(reply) = read {
            self.reply(reply, Record::without_head(self.frontend, peer));
            return false;
        }
        let bytes = text.as_deref().unwrap_or_default();
        let mut record = Record::begin(self.frontend, peer, &head, bytes);
        record.is_http2();
        self.is_json = crate::serve::wants_json(&head, bytes);
        self.is_head = head.method(bytes) == b"HEAD";
        let limit = self.frontend.spec.body_bytes_max.unwrap_or(u64::MAX);
        let is_too_long = matches!(head.framing, Framing::Length(len) if len > limit);
        let forwarded = peer.forwarded(&self.frontend.spec, self.shared.is_tls);
        let writer = RequestWriter { head: &head, bytes, forwarded, upgrades: false };
        let shared = self.shared;
        let mut kept = KeptHead(&shared.heads, 0);
        let is_kept = kept.grow(bytes.len());
        let mut body = Body::new(stream, kept, &shared.account);
        let refused = match () {
            () if self.shared.is_closing.get() => Some(Reply::no_frontend()),
            () if !is_kept => Some(Reply::no_room(HEADS_TOO_LONG)),
            () if is_too_long => Some(Reply::body_too_long()),
            () => None,
        };
        let outcome = match self.submit(&writer, refused, &mut record) {
            Ok(submitted) => self.admit(submitted, &mut body).await,
            Err(stop) => Err(*stop),
        };
        match outcome {
            // Boxed, so that a waiting request does not hold the memory that only forwarding needs.
            Ok(admitted) => Box::pin(self.forward(admitted, writer, body, record)).await,
            Err(Stop::Left) => {
                self.frontend.tally.left.fetch_add(1, Ordering::Relaxed);
                record.end_left(worker, None, None);
                true
            }
            Err(Stop::Reply(reply)) => {
                self.reply(reply, record);
                false
            }
        }
    }

    /// Submits the request, unless it was `refused` before.
    fn submit(
        &self,
        writer: &RequestWriter<'_>,
        refused: Option<Reply>,
        record: &mut Record,
    ) -> Result<Submitted, Box<Stop>> {
        let (worker, peer) = (&self.shared.worker, &self.shared.peer);
        let mut request = attributes::request(&worker.control, self.frontend, peer, writer);
        if let Ok(asking) = &mut request {
            record.keep(self.frontend, asking);
        }
        let stopped = |reply| Err(Box::new(Stop::Reply(reply)));
        let mut asking = match (request, refused) {
            (_, Some(reply)) => return stopped(reply),
            (Err(error), None) => return stopped(Reply::unfit(&error)),
            (Ok(asking), None) => asking,
        };
        // The log keeps a copy of parts of the head.
        let head = writer.bytes.len() + writer.head.fields.memory();
        asking.request.kept_bytes += STREAM_BYTES + head;
        submit(worker, asking)
    }

    /// Serves an admitted request. Returns whether the client cancelled it before its response began.
    async fn forward(
        &mut self,
        (mut permit, waits): (Permit, WaitCount),
        writer: RequestWriter<'_>,
        body: Body<'_>,
        mut record: Record,
    ) -> bool {
        let worker = &self.shared.worker;
        record.admitted();
        match self.exchange(&mut permit, waits, writer, body, &mut record).await {
            Ok((status, delivery)) => {
                // The server is done, whatever the client does.
                record.settle(worker, &permit);
                drop(permit);
                self.see_out(status, delivery, record).await;
                false
            }
            Err(lost) => self.lost(lost, permit, record),
        }
    }

    /// Waits for the permit of the request.
    async fn admit(
        &mut self,
        submitted: Submitted,
        body: &mut Body<'_>,
    ) -> Result<(Permit, WaitCount), Stop> {
        let worker = &self.shared.worker;
        let stop = async {
            let reply = poll_fn(|cx| self.poll_stopped(body, cx)).await;
            reply.map_or(Stop::Left, Stop::Reply)
        };
        let (permit, waits) = match submitted {
            Submitted::Runs(permit, waits) => (permit, waits),
            Submitted::Waits(waiting, waits) => {
                granted(worker, (waiting, waits), stop, || false).await?
            }
        };
        // The client may have cancelled it at the moment of the grant.
        if self.is_given_up(&permit).await {
            permit.withdraw();
            return Err(Stop::Left);
        }
        Ok((permit, waits))
    }

    /// Stores what arrives of a body that cannot be forwarded yet. Returns none if the client cancels the request,
    /// and a response if too much has arrived.
    fn poll_stopped(&mut self, body: &mut Body<'_>, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        if self.respond.poll_reset(cx).is_ready() {
            return Poll::Ready(None);
        }
        match body.take_early(cx) {
            Ok(()) => Poll::Pending,
            Err(failure) => Poll::Ready(Reply::failed(&failure)),
        }
    }

    /// Waits until a server's response was sent.
    async fn see_out(&mut self, status: u16, delivery: Delivery, mut record: Record) {
        let (worker, tally) = (&self.shared.worker, &self.frontend.tally);
        let seen = delivery.see_out(&mut self.flow, self.frontend.timeouts.body).await;
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
                let status = self.flow.has_begun().then_some(status);
                record.end_left(worker, None, status);
            }
        }
    }

    /// Ends a request that got no complete response. Returns whether the client cancelled it before the response
    /// began.
    fn lost(&mut self, lost: Lost, permit: Permit, mut record: Record) -> bool {
        let worker = &self.shared.worker;
        let Lost { stop, status, orphan } = lost;
        let is_given_up = matches!(stop, Stop::Left) && status.is_none();
        match (stop, status) {
            (Stop::Left, status) => {
                self.frontend.tally.left.fetch_add(1, Ordering::Relaxed);
                let status = status.filter(|_| self.flow.has_begun());
                record.end_left(worker, Some(&permit), status);
            }
            (Stop::Reply(reply), Some(status)) => {
                self.frontend.tally.cut(status);
                record.end(worker, Some(&permit), status, Some(reply.word));
            }
            (Stop::Reply(reply), None) => {
                record.settle(worker, &permit);
                self.reply(reply, record);
            }
        }
        orphan::settle(worker, permit, orphan);
        is_given_up
    }

    /// Whether the client has cancelled the request by now. A cancellation that arrived while it waited may not have
    /// been read yet.
    async fn is_given_up(&mut self, permit: &Permit) -> bool {
        if permit.grant().since > permit.grant().arrival {
            catch_up().await;
        }
        poll_fn(|cx| Poll::Ready(self.respond.poll_reset(cx).is_ready())).await
    }

    /// Sends the request and forwards the response until the server is done. Returns its status, and the response on
    /// its way.
    async fn exchange(
        &mut self,
        permit: &mut Permit,
        mut waits: WaitCount,
        writer: RequestWriter<'_>,
        mut body: Body<'_>,
        record: &mut Record,
    ) -> Result<(u16, Delivery), Lost> {
        let worker = &self.shared.worker;
        let RequestWriter { head, bytes, .. } = writer;
        let mut sent = Outgoing::default();
        writer.write(&mut sent.bytes);
        let asked = Asked {
            framing: head.framing,
            is_head: self.is_head,
            upgrades: false,
            is_repeatable: head.is_repeatable(bytes),
            body_bytes_max: self.frontend.spec.body_bytes_max.unwrap_or(u64::MAX),
            body_wait: self.frontend.timeouts.body,
        };
        let mut is_fresh = false;
        let mut response = ResponseHead::default();
        loop {
            let connected = tokio::select! {
                biased;
                connected = worker.connect(permit, &mut waits, is_fresh) => connected,
                reply = poll_fn(|cx| self.poll_stopped(&mut body, cx)) => {
                    Err(reply.map_or(Stop::Left, Stop::Reply))
                }
            };
            let mut upstream = connected?;
            body.connected();
            let answer = Answer { respond: self.respond, flow: &mut self.flow };
            let server = ServerHalf::new(&mut upstream, &mut sent, &mut response, asked);
            let mut exchange = Exchange::new(answer, &mut body, server, asked.body_wait);
            let ended = poll_fn(|cx| exchange.poll(cx)).await;
            let (is_answered, unfinished) = (exchange.is_answered(), exchange.unfinished());
            record.bytes = exchange.bytes();
            match ended {
                Err(failure) if asked.is_repeatable && failure.is_of_idle(&upstream) => {
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
                    // A head that has not left is dropped with the reset. So a malformed response that did not begin is
                    // logged as an error alone; of any other, the log shows the status that was cut short.
                    let is_malformed =
                        matches!(failure, Failure::Response(why) if why != CUT_SHORT);
                    let has_begun = is_answered && (!is_malformed || self.flow.has_begun());
                    let status = has_begun.then_some(response.status);
                    return Err(Lost::new(failure, status, upstream, unfinished));
                }
            }
        }
    }

    /// Waits until a response of the daemon was sent. The log needs the time and the bytes written, not whether the
    /// client read them.
    async fn see_out_reply(&mut self, replied: Replied) {
        let (delivery, mut record, reply) = replied;
        let _ = delivery.see_out(&mut self.flow, self.frontend.timeouts.body).await;
        record.bytes.1 = self.flow.bytes();
        record.end_reply(&self.shared.worker, &reply);
    }

    /// Sends a response of the daemon. It is logged when it has ended.
    fn reply(&mut self, reply: Reply, record: Record) {
        self.frontend.tally.respond(reply.status);
        match self.send_reply(&reply) {
            Some(delivery) => self.replied = Some(Box::new((delivery, record, reply))),
            None => record.end_reply(&self.shared.worker, &reply),
        }
    }

    /// Sends a response of the daemon; none if the stream is gone.
    fn send_reply(&mut self, reply: &Reply) -> Option<Delivery> {
        let page = self.frontend.pages.get(&reply.status);
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
        // All parts are the daemon's own, so building cannot fail. A stream that is gone needs no response.
        let response = response.body(()).ok()?;
        self.flow.give_head(response.headers());
        let mut stream = self.respond.send_response(response, self.is_head).ok()?;
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
    use super::{STREAM_BYTES, catch_up, serve_text};
    use std::cell::Cell;
    use std::io::Write as _;
    use std::rc::Rc;

    fn size<A, B, C, D, E, F>(_: impl FnOnce(A, B, C, D, E) -> F) -> usize {
        size_of::<F>()
    }

    /// The other half is for the engine, `h2` and the log.
    #[test]
    fn the_task_of_a_waiting_request_is_small_d1() {
        assert!(size(serve_text) <= STREAM_BYTES / 2, "{} bytes", size(serve_text));
    }

    /// On a worker's runtime: the task that reads a connection runs first.
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
