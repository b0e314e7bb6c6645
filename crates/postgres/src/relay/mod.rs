//! The state machine of the SQL relay: one client, and the pooled PostgreSQL server that it is linked to.
//!
//! Owns what is answered by the relay itself, what is sent to a server and under which names, which answers are
//! expected, and when a request is admitted, checked and settled. `docs/internals/sql.md` is the specification. In scope:
//! both protocols, prepared statements in transaction pooling, pinned sessions, tracked parameters, COPY, cancel, and
//! the death of either side. Out of scope: login, TLS, sockets, timeouts, and the choice of a server.
//!
//! ```text
//! Ready --batch--> Admitting --admitted--> Linking --linked--> Ready (permit, link) --ReadyForQuery I--> Ready
//!   |                  `--refused, cancel--> Ready                |  `-> Beginning: BEGIN must be confirmed first
//!   `--message with a permit--> Checking --checked--> Ready       `--client or server lost--> Over, or Ready
//! ```
//!
//! Promises Q1 (nothing of a refused or rejected batch commits), Q2 (no session state of one client is seen by
//! another), Q3 (a cancel ends the own statement or none), Q4 (the relay itself acknowledges no commit of anything that
//! was sent), and D4. One batch is outstanding at a time. Never waits, and never looks into rows.

mod answer;
mod collect;
mod end;
mod errors;
mod parameters;
mod queue;
mod reading;
mod send;
mod upstream;

pub use end::CANCELS_MAX;
pub use parameters::{Parameters, TRACKED};
pub use reading::{Pin, STATEMENT_BYTES_MAX};
pub use upstream::{SERVER_STATEMENTS_MAX, Server};

use crate::text::{Dialect, split};
use crate::wire::BodyError;
use crate::wire::backend::{self, Status};
use crate::wire::frame::Framed;
use crate::wire::kind::{Kinds, client, server};
use crate::wire::report::Report;
use queue::{Entry, Names, Portals, Way};
use reading::Statement;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// A batch that has this many bytes is sent before its Sync arrives.
pub const BATCH_BYTES_MAX: usize = 64 << 10;

/// The maximum number of names of prepared statements that a client may use at a time.
pub const CLIENT_STATEMENTS_MAX: usize = 4_096;

/// The maximum number of portals that a client may have at a time.
pub const PORTALS_MAX: usize = 1_024;

/// The maximum length of the texts of a client's names, of its portals, and of a server's statements, each. Texts of at
/// most [`SHORT_BYTES_MAX`] bytes are not counted for clients: their number bounds them.
pub const TEXTS_BYTES_MAX: usize = 16 << 20;

/// A text that is not longer is short.
pub const SHORT_BYTES_MAX: usize = 4 << 10;

/// The maximum number of answers that a server may owe before the client is read again. It must be larger than the
/// number of answers that a server keeps in its buffer of 8 KiB.
const QUEUE_MAX: usize = if cfg!(test) { 8 } else { 8 << 10 };

/// The maximum number of texts of a batch that are remembered as offered.
const OFFERED_MAX: usize = 64;

/// How much of a buffer is kept for the next call.
const KEPT_BYTES_MAX: usize = 8 << 10;

/// How long a client keeps its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Until the transaction ends, unless it is pinned.
    Transaction,
    /// Until the client leaves.
    Session,
}

/// Whether a server connection can serve another client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// It is idle, and nothing of the client is left in its session.
    Clean,
    /// Its connection must be closed.
    Close,
}

/// What the host must do, in order.
#[derive(Debug)]
pub enum Effect {
    /// Send these of [`Relay::client_bytes`] to the client.
    Client(Range<usize>),
    /// Send the message of this call to the client.
    ClientInput,
    /// Send these of [`Relay::server_bytes`] to the server.
    Server(Range<usize>),
    /// Send the message of this call to the server, and the rest of its body if this was its head.
    ServerInput,
    /// Ask for a permit for [`Relay::texts`]; answer with `admitted` or `refused`.
    Admit,
    /// Ask whether [`Relay::texts`] may run; answer with `checked` before anything else.
    Check,
    /// Find a server; answer with `linked` or `link_failed`.
    Link,
    /// The server is no longer linked.
    Release(Box<Server>, Reuse),
    /// The permit, or the wait for it, ends.
    Settle,
    /// Send a cancel request for the linked server; answer with `cancel_ended`.
    CancelUpstream,
    /// Raise the epoch of the target: results of its statements may have another shape now.
    Reshaped,
    /// Close the client's connection after what was sent to it.
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Ready,
    Admitting,
    Linking,
    /// A BEGIN with options was sent and must succeed before the batch is sent.
    Beginning,
    Checking,
    Over,
}

/// A BEGIN that the relay has answered and not yet sent.
#[derive(Debug)]
struct Begun {
    statement: Arc<Statement>,
    is_failed: bool,
}

/// The linked server.
#[derive(Debug)]
struct Link {
    server: Box<Server>,
    epoch: u64,
    /// The transaction status as of the last ReadyForQuery.
    status: Status,
    /// Whether the server is in a failed transaction when it reads the next message.
    is_failed: bool,
    queue: VecDeque<Entry>,
    /// Whether something was sent since the last ReadyForQuery.
    is_busy: bool,
    /// Whether a Query or a Sync was sent, so that a ReadyForQuery will come.
    is_closed: bool,
    /// Whether the server reads the data of COPY.
    is_copying: bool,
    reshapes: bool,
    /// Whether the client was told an error of this batch.
    is_erred: bool,
    /// The error with which the server said that it will close the connection.
    fatal: Option<Report>,
    /// The error of a BEGIN.
    begin_error: Option<Report>,
}

/// The relay of one client.
#[derive(Debug)]
pub struct Relay {
    pooling: Pooling,
    phase: Phase,
    link: Option<Link>,
    has_permit: bool,
    begun: Option<Begun>,
    /// Whether messages are dropped until the client's Sync.
    is_skipping: bool,
    /// Whether the client is gone.
    is_gone: bool,
    pin: Option<Pin>,
    /// Cancel requests whose connections have not ended, also those for a server that is lost.
    cancels: usize,
    /// How many bytes of a forwarded message of the client have not arrived.
    missing: usize,
    /// Messages that wait to be sent.
    held: Vec<u8>,
    /// The statements of the Query and Parse messages in `held`.
    reads: VecDeque<Arc<Statement>>,
    /// The names that are parsed by messages in `held`.
    parsed: Vec<Box<[u8]>>,
    /// Why the batch in `held` is refused by the relay itself.
    refusal: Option<Report>,
    /// The statements of this batch that were offered to the rules.
    offered: Vec<Arc<Statement>>,
    /// How many of them were offered before.
    offered_before: usize,
    names: Names,
    unnamed: Option<Arc<Statement>>,
    portals: Portals,
    parameters: Parameters,
    /// The parameters at the start of the session.
    start: Parameters,
    effects: VecDeque<Effect>,
    to_client: Vec<u8>,
    to_server: Vec<u8>,
}

static NO_KINDS: Kinds = Kinds::of(&[]);
static ROW_KINDS: Kinds =
    Kinds::of(&[server::DATA_ROW, server::COPY_DATA, server::NOTICE_RESPONSE]);

impl Relay {
    /// A relay whose client was told these parameters at its login.
    #[must_use]
    pub fn new(pooling: Pooling, parameters: Parameters) -> Self {
        Self {
            pooling,
            phase: Phase::Ready,
            link: None,
            has_permit: false,
            begun: None,
            is_skipping: false,
            is_gone: false,
            pin: None,
            cancels: 0,
            missing: 0,
            held: vec![],
            reads: VecDeque::new(),
            parsed: vec![],
            refusal: None,
            offered: vec![],
            offered_before: 0,
            names: Names::new(),
            unnamed: None,
            portals: Portals::new(),
            start: parameters.clone(),
            parameters,
            effects: VecDeque::new(),
            to_client: vec![],
            to_server: vec![],
        }
    }

    /// A message of the client; of CopyData the head is enough. Only while [`Relay::wants_client`].
    pub fn client(&mut self, message: Framed<'_>) {
        self.begin_call();
        debug_assert!(self.wants_client(), "the client is not read now");
        let result = match message.kind {
            client::TERMINATE => {
                self.leave();
                self.effects.push_back(Effect::Close);
                Ok(())
            }
            client::COPY_DATA | client::COPY_DONE | client::COPY_FAIL => {
                self.copy(message);
                Ok(())
            }
            _ if self.link.as_ref().is_some_and(|link| link.is_copying) => {
                self.interrupt_copy(message.kind);
                Ok(())
            }
            client::SYNC => self.take(message),
            _ if self.is_skipping => Ok(()),
            _ => self.take(message),
        };
        self.break_off(result);
    }

    /// More of the body of a message was forwarded, of which [`Relay::client`] had a part.
    pub fn client_body(&mut self, len: usize) {
        self.begin_call();
        self.missing = self.missing.saturating_sub(len);
        self.release_if_free();
    }

    /// A message of the server; of kinds in [`Relay::passes`] no call is needed.
    pub fn server(&mut self, message: Framed<'_>) {
        self.begin_call();
        self.answer(message);
    }

    /// The permit was granted.
    pub fn admitted(&mut self) {
        self.begin_call();
        if self.phase != Phase::Admitting {
            return;
        }
        self.has_permit = true;
        match self.link {
            Some(_) => self.start_batch(),
            None => {
                self.phase = Phase::Linking;
                self.effects.push_back(Effect::Link);
            }
        }
    }

    /// The permit was refused.
    pub fn refused(&mut self, report: &Report) {
        self.begin_call();
        if self.phase == Phase::Admitting {
            self.refuse(report);
        }
    }

    /// A server was found. `epoch` is the target's.
    pub fn linked(&mut self, server: Box<Server>, epoch: u64) {
        self.begin_call();
        if self.phase != Phase::Linking {
            self.effects.push_back(Effect::Release(server, Reuse::Clean));
            return;
        }
        self.link = Some(Link {
            server,
            epoch,
            status: Status::Idle,
            is_failed: false,
            queue: VecDeque::new(),
            is_busy: false,
            is_closed: false,
            is_copying: false,
            reshapes: false,
            is_erred: false,
            fatal: None,
            begin_error: None,
        });
        if self.pooling == Pooling::Session {
            self.pin = Some(Pin::Session);
        }
        self.start_batch();
    }

    /// No server was found.
    pub fn link_failed(&mut self, report: &Report) {
        self.begin_call();
        if self.phase == Phase::Linking {
            self.settle();
            self.refuse(report);
        }
    }

    /// The answer to [`Effect::Check`]: none if the texts may run.
    pub fn checked(&mut self, rejection: Option<Report>) {
        self.begin_call();
        if self.phase != Phase::Checking {
            return;
        }
        self.phase = Phase::Ready;
        let result = match rejection {
            None => self.send_held(),
            Some(report) => self.reject_held(report),
        };
        self.break_off(result);
    }

    /// The next effect.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Whether the next message of the client may be given to [`Relay::client`]. If not, the host leaves it unread.
    #[must_use]
    pub fn wants_client(&self) -> bool {
        self.phase == Phase::Ready
            && match &self.link {
                None => true,
                Some(link) if link.is_copying => true,
                Some(link) => {
                    let is_open = !link.is_closed && link.queue.len() < QUEUE_MAX;
                    is_open && (self.has_permit || self.cancels == 0)
                }
            }
    }

    /// Kinds of server messages that can be forwarded to the client without a call.
    #[must_use]
    pub fn passes(&self) -> &'static Kinds {
        let front = self.link.as_ref().and_then(|link| link.queue.front());
        match front {
            Some(Entry { ask, way: Way::Forward, .. }) if !self.is_gone && ask.has_rows() => {
                &ROW_KINDS
            }
            _ => &NO_KINDS,
        }
    }

    /// The texts that [`Effect::Admit`] and [`Effect::Check`] are about, one statement each.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let dialect = self.dialect();
        let fresh = self.offered.get(self.offered_before..).unwrap_or_default();
        fresh.iter().flat_map(move |statement| {
            let text = statement.text.as_ref();
            split(text, dialect).map(move |place| text.get(place).unwrap_or_default())
        })
    }

    /// Own bytes for the client, of which effects name parts.
    #[must_use]
    pub fn client_bytes(&self) -> &[u8] {
        &self.to_client
    }

    /// Own bytes for the server, of which effects name parts.
    #[must_use]
    pub fn server_bytes(&self) -> &[u8] {
        &self.to_server
    }

    /// Why the client keeps its server; none if it does not.
    #[must_use]
    pub const fn pinned(&self) -> Option<Pin> {
        self.pin
    }

    /// The tracked parameters of the session.
    #[must_use]
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The dialect in which the texts are read.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        match self.parameters.value("standard_conforming_strings") {
            Some(b"off") => Dialect::PostgresBackslash,
            _ => Dialect::Postgres,
        }
    }

    /// Whether a server is linked.
    #[must_use]
    pub const fn is_linked(&self) -> bool {
        self.link.is_some()
    }

    /// The transaction status that the client has seen or will see next.
    #[must_use]
    pub fn status(&self) -> Status {
        match (&self.begun, &self.link) {
            (Some(begun), _) if begun.is_failed => Status::Failed,
            (Some(_), _) => Status::InTransaction,
            (None, Some(link)) => link.status,
            (None, None) => Status::Idle,
        }
    }

    fn begin_call(&mut self) {
        debug_assert!(self.effects.is_empty(), "effects are performed before the next call");
        for buffer in [&mut self.to_client, &mut self.to_server] {
            buffer.clear();
            buffer.shrink_to(KEPT_BYTES_MAX);
        }
    }

    /// Adds own bytes for the client.
    fn tell(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.is_gone {
            return;
        }
        let start = self.to_client.len();
        write(&mut self.to_client);
        let end = self.to_client.len();
        match self.effects.back_mut() {
            Some(Effect::Client(range)) if range.end == start => range.end = end,
            _ => self.effects.push_back(Effect::Client(start..end)),
        }
    }

    /// Adds own bytes for the server.
    fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.to_server.len();
        write(&mut self.to_server);
        let end = self.to_server.len();
        match self.effects.back_mut() {
            Some(Effect::Server(range)) if range.end == start => range.end = end,
            _ => self.effects.push_back(Effect::Server(start..end)),
        }
        if let Some(link) = &mut self.link {
            link.is_busy = true;
        }
    }

    fn forward_to_client(&mut self) {
        if !self.is_gone {
            self.effects.push_back(Effect::ClientInput);
        }
    }

    fn ready_for_query(&mut self, status: Status) {
        self.tell(|out| backend::ready_for_query(out, status));
    }

    fn settle(&mut self) {
        self.offered.clear();
        if std::mem::take(&mut self.has_permit) {
            self.effects.push_back(Effect::Settle);
        }
    }

    /// A client that sends an invalid message is disconnected.
    fn break_off(&mut self, result: Result<(), BodyError>) {
        if let Err(error) = result {
            let report = Report::fatal(error.state(), error.to_string());
            self.tell(|out| report.write(out));
            self.leave();
            self.effects.push_back(Effect::Close);
        }
    }
}

#[cfg(test)]
mod tests;
