//! One client: drives the relay between its socket and the server that it is linked to.
//!
//! ```text
//! Exchange --Admit--> Permit --granted--> Exchange --Link--> Server --linked--> Exchange
//!    `--client gone--> Orphan, while its server ends the batch --> End
//! ```
//!
//! In `Exchange` both sockets are read and written as far as the other side takes it; in `Permit` and `Server` the session waits,
//! and notices when its client disconnects or cancels. Promises bounded memory: a side is read only while little waits
//! to be written to the other one (D1). The permit is held until the relay settles it, also when the client is gone.

mod admit;
mod wait;

use crate::limits::{
    ANSWER_BYTES_MAX, CANCEL_MAX, MESSAGE_BYTES_MAX, ORPHAN_MAX, UNSENT_BYTES_MAX,
};
use crate::respond;
use crate::serve::attributes::Who;
use crate::serve::cancel::Registered;
use crate::serve::inbox::Inbox;
use crate::serve::pool::{Connection, Linked, Pool};
use crate::serve::target::{PoolKey, Proof};
use crate::serve::worker::Worker;
use paceline_host::{Permit, Waiting};
use paceline_net::buffer::Outgoing;
use paceline_net::stream::Stream;
use paceline_net::task;
use paceline_net::timer::Timer;
use paceline_postgres::relay::{Effect, Relay, Reuse, Server};
use paceline_postgres::wire::backend::Status;
use paceline_postgres::wire::frame::{Framed, HEAD_BYTES, LENGTH_MAX, Side, Walk};
use paceline_postgres::wire::kind::client;
use paceline_postgres::wire::report::Report;
use paceline_types::RequestId;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

/// The smallest part of a message that is forwarded before the rest has arrived.
const PART_BYTES_MIN: usize = 16 << 10;

/// What is read of a client whose messages cannot be handled yet.
const AHEAD_BYTES_MAX: usize = 16 << 10;

/// What is kept of the memory for a message.
const MESSAGE_KEPT_BYTES_MAX: usize = 8 << 10;

/// A client whose login is complete.
pub(crate) struct Session {
    pub worker: Rc<Worker>,
    pub pool: Rc<Pool>,
    pub key: PoolKey,
    pub proof: Option<Proof>,
    pub who: Who,
    pub registered: Registered,
    pub stream: Stream,
    pub inbox: Inbox,
    pub out: Outgoing,
    pub relay: Relay,
}

/// A session at work.
struct Work {
    session: Session,
    step: Step,
    connection: Option<Connection>,
    permit: Option<Permit>,
    waiting: Option<(RequestId, Waiting)>,
    /// What of a client's message is still to come.
    client_rest: Rest,
    /// How many bytes of a server's message, of which a part was forwarded, are still to come.
    server_rest: usize,
    /// The message of the present call.
    message: Vec<u8>,
    is_gone: bool,
    cancels: mpsc::UnboundedReceiver<()>,
    cancel_done: mpsc::UnboundedSender<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Exchange,
    /// Waits for the permit.
    Permit,
    /// Waits for a server.
    Server,
    /// The client is gone, and the server ends its batch.
    Orphan,
    /// What was written is sent, then the connection is closed.
    Closing,
    End,
}

/// What remains of a message whose start was forwarded or dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    None,
    Forward(usize),
    Drop(usize),
}

/// A call of the relay that follows from its effects.
enum Call {
    None,
    Admitted,
    Refused(Box<Report>),
    Checked(Option<Box<Report>>),
    Linked(Box<Server>),
    LinkFailed(Box<Report>),
}

impl Session {
    /// Serves the client until it leaves.
    pub async fn run(self) {
        let (cancel_done, cancels) = mpsc::unbounded_channel();
        let mut work = Work {
            session: self,
            step: Step::Exchange,
            connection: None,
            permit: None,
            waiting: None,
            client_rest: Rest::None,
            server_rest: 0,
            message: vec![],
            is_gone: false,
            cancels,
            cancel_done,
        };
        loop {
            match work.step {
                Step::Exchange => poll_fn(|cx| work.poll_exchange(cx)).await,
                Step::Permit => work.wait_for_permit().await,
                Step::Server => work.wait_for_server().await,
                Step::Orphan => work.see_out().await,
                Step::Closing => {
                    work.flush().await;
                    work.step = Step::End;
                }
                Step::End => return,
            }
        }
    }
}

impl Work {
    /// Moves bytes in both directions until the session has to wait for something else.
    fn poll_exchange(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.step == Step::Exchange {
            let mut moved = self.poll_told(cx);
            moved |= self.poll_server(cx);
            moved |= self.poll_client(cx);
            moved |= self.poll_write(cx);
            if !moved {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    /// What others tell the session: to cancel, that a cancel request has ended, that the daemon ends.
    fn poll_told(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        while self.session.registered.0.take_cancel(cx) {
            self.session.relay.cancel();
            self.perform();
            moved = true;
        }
        while let Poll::Ready(Some(())) = self.cancels.poll_recv(cx) {
            self.session.relay.cancel_ended();
            self.perform();
            moved = true;
        }
        if self.session.worker.is_draining() && self.step == Step::Exchange && self.is_idle() {
            respond::ending().write(&mut self.session.out.bytes);
            self.step = Step::Closing;
            moved = true;
        }
        moved
    }

    /// Whether the client has nothing under way.
    fn is_idle(&self) -> bool {
        let Session { relay, inbox, .. } = &self.session;
        relay.status() == Status::Idle
            && inbox.is_empty()
            && relay.wants_client()
            && self.permit.is_none()
    }

    /// Reads the server as far as the client takes it. Returns whether anything moved.
    fn poll_server(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        while matches!(self.step, Step::Exchange | Step::Orphan)
            && unsent(&self.session.out) < UNSENT_BYTES_MAX
        {
            let message = match self.take_answer() {
                Ok(None) => {
                    moved = true;
                    continue;
                }
                Ok(Some(message)) => message,
                Err(error) => {
                    tracing::warn!(target = &*self.session.pool.target.name, "{error}");
                    self.lose_server();
                    return true;
                }
            };
            let Some(connection) = &mut self.connection else { return moved };
            let upstream = &mut connection.upstream;
            match upstream.inbox.poll_fill(message, &mut upstream.stream, cx) {
                Poll::Pending => {
                    upstream.inbox.pause();
                    return moved;
                }
                Poll::Ready(Ok(1..)) => moved = true,
                Poll::Ready(Ok(0) | Err(_)) => {
                    self.lose_server();
                    return true;
                }
            }
        }
        moved
    }

    /// Handles something that has arrived from the server. If that needs more, returns the length of the message that has
    /// not arrived completely, or 0 if that is not known.
    fn take_answer(&mut self) -> io::Result<Option<usize>> {
        let Some(connection) = &mut self.connection else { return Ok(Some(0)) };
        let inbox = &mut connection.upstream.inbox;
        let Session { relay, out, .. } = &mut self.session;
        let bytes = inbox.bytes();
        if bytes.is_empty() {
            return Ok(Some(0));
        }
        if self.server_rest > 0 {
            let len = self.server_rest.min(bytes.len());
            if !self.is_gone {
                out.bytes.extend_from_slice(&bytes[..len]);
            }
            inbox.consume(len);
            self.server_rest -= len;
            return Ok(None);
        }
        let passes = relay.passes();
        let mut walk = Walk::new(Side::SERVER, bytes);
        walk.skip(passes).map_err(violation)?;
        let passed = walk.at();
        if passed > 0 {
            out.bytes.extend_from_slice(&bytes[..passed]);
            inbox.consume(passed);
            return Ok(None);
        }
        let Some(head) = walk.head().map_err(violation)? else { return Ok(Some(0)) };
        if let Some(whole) = bytes.get(..head.total()) {
            self.message.clear();
            self.message.extend_from_slice(whole);
            inbox.consume(head.total());
            relay.server(Framed { kind: head.kind, bytes: &self.message });
            self.perform();
            return Ok(None);
        }
        if passes.has(head.kind) && bytes.len() >= PART_BYTES_MIN {
            self.server_rest = head.total() - bytes.len();
            out.bytes.extend_from_slice(bytes);
            inbox.consume(bytes.len());
            return Ok(None);
        }
        match head.total() > ANSWER_BYTES_MAX && !passes.has(head.kind) {
            true => Err(violation("a message of the server is too long")),
            false => Ok(Some(head.total().min(ANSWER_BYTES_MAX))),
        }
    }

    /// Reads the client as far as its messages can be handled. Returns whether anything moved.
    fn poll_client(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        while self.step == Step::Exchange {
            let is_full = |one: &Connection| unsent(&one.upstream.out) >= UNSENT_BYTES_MAX;
            if self.connection.as_ref().is_some_and(is_full)
                || unsent(&self.session.out) >= UNSENT_BYTES_MAX
            {
                return moved;
            }
            let is_wanted = self.client_rest != Rest::None || self.session.relay.wants_client();
            let message = match is_wanted {
                true => match self.take_message() {
                    Ok(None) => {
                        moved = true;
                        continue;
                    }
                    Ok(Some(message)) => message,
                    Err(report) => {
                        self.break_off(&report);
                        return true;
                    }
                },
                // What it sends is not handled now, but a disconnect is noticed by reading.
                false if self.session.inbox.bytes().len() < AHEAD_BYTES_MAX => 0,
                false => return moved,
            };
            let Session { inbox, stream, .. } = &mut self.session;
            match inbox.poll_fill(message, stream, cx) {
                Poll::Pending => {
                    inbox.pause();
                    return moved;
                }
                Poll::Ready(Ok(1..)) => moved = true,
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::OutOfMemory => {
                    self.break_off(&respond::no_memory());
                    return true;
                }
                Poll::Ready(Ok(0) | Err(_)) => {
                    self.leave();
                    return true;
                }
            }
        }
        moved
    }

    /// Handles something that has arrived from the client. If that needs more, returns the length of the message that has
    /// not arrived completely, or 0 if that is not known.
    fn take_message(&mut self) -> Result<Option<usize>, Report> {
        let Session { relay, inbox, .. } = &mut self.session;
        let bytes = inbox.bytes();
        if bytes.is_empty() {
            return Ok(Some(0));
        }
        if let Rest::Forward(rest) | Rest::Drop(rest) = self.client_rest {
            let len = rest.min(bytes.len());
            let forwards = matches!(self.client_rest, Rest::Forward(_));
            if let Some(connection) = self.connection.as_mut().filter(|_| forwards) {
                connection.upstream.out.bytes.extend_from_slice(&bytes[..len]);
            }
            inbox.consume(len);
            self.client_rest = match (rest - len, forwards) {
                (0, _) => Rest::None,
                (left, true) => Rest::Forward(left),
                (left, false) => Rest::Drop(left),
            };
            if forwards {
                relay.client_body(len);
                self.perform();
            }
            return Ok(None);
        }
        // Data of COPY may be as long as it likes, because it is not gathered.
        let is_data = bytes.first() == Some(&client::COPY_DATA);
        let side = Side::client(if is_data { LENGTH_MAX } else { MESSAGE_BYTES_MAX });
        let head = Walk::new(side, bytes).head();
        let head = head.map_err(|error| Report::fatal(error.state(), error.to_string()))?;
        let Some(head) = head else { return Ok(Some(0)) };
        let len = head.total().min(bytes.len());
        let is_part = len < head.total();
        if is_part && (!is_data || len < HEAD_BYTES + PART_BYTES_MIN) {
            return Ok(Some(head.total()));
        }
        self.message.clear();
        self.message.extend_from_slice(&bytes[..len]);
        inbox.consume(len);
        let rest = head.total() - len;
        relay.client(Framed { kind: head.kind, bytes: &self.message });
        let is_forwarded = self.perform();
        self.client_rest = match rest {
            0 => Rest::None,
            rest if is_forwarded => Rest::Forward(rest),
            rest => Rest::Drop(rest),
        };
        Ok(None)
    }

    /// Writes to both sides. Returns whether anything was written completely.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        if let Some(Connection { upstream, .. }) = &mut self.connection
            && !upstream.out.is_empty()
        {
            match upstream.out.poll_write_all(&mut upstream.stream, cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => {
                    upstream.out.clear();
                    moved = true;
                }
                // What the server said before it closed the connection is read first; reading finds the end.
                Poll::Ready(Err(_)) => upstream.out.clear(),
            }
        }
        let Session { out, stream, .. } = &mut self.session;
        if !out.is_empty() && matches!(self.step, Step::Exchange) {
            match out.poll_write_all(stream, cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => {
                    out.clear();
                    moved = true;
                }
                Poll::Ready(Err(_)) => {
                    self.leave();
                    moved = true;
                }
            }
        }
        moved
    }

    /// Lets the server end the batch of a client that is gone, within a limit.
    async fn see_out(&mut self) {
        let mut timer = Timer::new(ORPHAN_MAX);
        poll_fn(|cx| {
            loop {
                if !self.session.relay.is_linked() {
                    return Poll::Ready(());
                }
                self.session.out.clear();
                let mut moved = self.poll_told(cx);
                moved |= self.poll_server(cx);
                moved |= self.poll_write(cx);
                if timer.poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                if !moved {
                    return Poll::Pending;
                }
            }
        })
        .await;
        if self.session.relay.is_linked() {
            self.lose_server();
        }
        self.step = Step::End;
    }

    /// The client is gone.
    fn leave(&mut self) {
        self.is_gone = true;
        self.waiting = None;
        self.session.relay.client_gone();
        self.perform();
        self.step = match self.session.relay.is_linked() {
            true => Step::Orphan,
            false => Step::End,
        };
    }

    /// Ends the connection of a client that breaks the protocol.
    fn break_off(&mut self, report: &Report) {
        self.session.relay.client_gone();
        self.perform();
        report.write(&mut self.session.out.bytes);
        // If its server has to be seen out first, this is the last chance to say why.
        self.write_now();
        self.is_gone = true;
        self.step = match self.session.relay.is_linked() {
            true => Step::Orphan,
            false => Step::Closing,
        };
    }

    /// The server is gone, or of no use.
    fn lose_server(&mut self) {
        let is_cut = std::mem::take(&mut self.server_rest) > 0;
        self.connection = None;
        self.session.relay.server_gone(is_cut);
        self.perform();
    }

    async fn flush(&mut self) {
        let Session { out, stream, .. } = &mut self.session;
        let until = Instant::now() + ORPHAN_MAX;
        let _ = timeout_at(until, poll_fn(|cx| out.poll_write_all(stream, cx))).await;
        if unsent(out) == 0 {
            out.clear();
        }
    }

    /// Performs the effects of the last call of the relay, and the calls that follow from them. Returns whether the message
    /// of that call was forwarded to the server.
    fn perform(&mut self) -> bool {
        let mut is_forwarded = false;
        loop {
            let mut call = Call::None;
            while let Some(effect) = self.session.relay.poll_effect() {
                is_forwarded |= matches!(effect, Effect::ServerInput);
                if let Some(next) = self.perform_one(effect) {
                    call = next;
                }
            }
            self.message.clear();
            let relay = &mut self.session.relay;
            match call {
                Call::None => break,
                Call::Admitted => relay.admitted(),
                Call::Refused(report) => relay.refused(&report),
                Call::Checked(report) => relay.checked(report.map(|report| *report)),
                Call::Linked(server) => relay.linked(server, self.session.pool.epoch()),
                Call::LinkFailed(report) => relay.link_failed(&report),
            }
        }
        self.message.shrink_to(MESSAGE_KEPT_BYTES_MAX);
        is_forwarded
    }

    fn perform_one(&mut self, effect: Effect) -> Option<Call> {
        let Session { relay, out, pool, key, .. } = &mut self.session;
        match effect {
            Effect::Client(place) => {
                out.bytes.extend_from_slice(relay.client_bytes().get(place).unwrap_or_default());
            }
            Effect::ClientInput => out.bytes.extend_from_slice(&self.message),
            Effect::Server(place) => {
                let bytes = relay.server_bytes().get(place).unwrap_or_default();
                if let Some(connection) = &mut self.connection {
                    connection.upstream.out.bytes.extend_from_slice(bytes);
                }
            }
            Effect::ServerInput => {
                if let Some(connection) = &mut self.connection {
                    connection.upstream.out.bytes.extend_from_slice(&self.message);
                }
            }
            Effect::Admit => return Some(self.admit()),
            Effect::Check => return Some(Call::Checked(self.check().map(Box::new))),
            Effect::Link => return self.link(),
            Effect::Release(server, reuse) => {
                let connection = self.connection.take();
                let is_clean = reuse == Reuse::Clean && self.server_rest == 0;
                if let Some(connection) = connection.filter(|_| is_clean) {
                    pool.put(key, Linked { connection, server });
                }
                self.server_rest = 0;
            }
            Effect::Settle => {
                self.permit = None;
                self.waiting = None;
            }
            Effect::CancelUpstream => self.cancel_upstream(),
            Effect::Reshaped => pool.reshape(),
            Effect::Close => {
                if !self.is_gone {
                    self.step = Step::Closing;
                }
            }
        }
        None
    }

    fn cancel_upstream(&self) {
        let done = self.cancel_done.clone();
        let target = self.connection.as_ref().map(|one| Rc::clone(&one.upstream.cancel));
        task::spawn(async move {
            let until = Instant::now() + CANCEL_MAX;
            if let Some(target) = target {
                // If the server cannot be reached, its statement ends by itself.
                let _ = timeout_at(until, target.cancel(until)).await;
            }
            // A session that has ended needs no word of it.
            let _ = done.send(());
        });
    }
}

fn unsent(out: &Outgoing) -> usize {
    out.bytes.len() - out.written()
}

fn violation(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("protocol violation of a server: {what}"))
}
