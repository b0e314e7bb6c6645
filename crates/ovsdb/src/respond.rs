//! Responses: the one place where results, refusals and events become JSON-RPC text.
//!
//! A large answer is written in pieces: [`Writer`] keeps the one that it has begun. A piece that takes long is made beside,
//! by one of a few threads (`host/src/beside.rs`), and the connection waits for it: no task of the runtime makes it, however
//! many clients ask for such pieces (D4).

use crate::wire::PROBE_ID;
use paceline_host::{
    Beside, Content, LockAnswer, LockError, LockOperation, Outgoing, Panicked, Reply, Session,
    Ticket, UpdateText,
};
use paceline_tables::json::write_string;
use paceline_tables::monitor::{Dump, Moving, Telling, Version};
use paceline_tables::{Error, OpResult, Selected, tag};
use paceline_types::Uuid;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::oneshot;

/// Bytes that are buffered before the socket is written.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// Turns what is to be sent into text.
pub(crate) struct Writer {
    unfinished: Option<Unfinished>,
    /// A piece that is being made beside; then the rest of its answer is there too.
    away: Option<oneshot::Receiver<Piece>>,
    beside: Arc<Beside>,
    session: Arc<Session>,
}

/// A piece that was made beside.
struct Piece {
    unfinished: Unfinished,
    text: Vec<u8>,
    more: bool,
}

/// A reply or an update that is not completely written yet. `ticket` is the id of the request, or of the monitor.
struct Unfinished {
    ticket: Ticket,
    body: Body,
    /// Whether the last piece ended because finding more to write took long.
    is_searching: bool,
}

/// Steps of testing for an update before other connections get their turn.
const UPDATE_STEPS: usize = 100_000;

enum Body {
    Dump {
        dump: Box<Dump>,
        close: &'static str,
    },
    Results {
        results: std::vec::IntoIter<OpResult>,
        rows: Option<Rows>,
        /// How many operations are still to be written that do not count.
        nulls: usize,
        any: bool,
    },
    /// A text that is ready, from this byte on.
    Text(Text, usize),
    /// An update, of which nothing is written before all of it is made.
    Update {
        telling: Box<Telling>,
        version: Version,
        transaction: Uuid,
    },
    /// Rows that a change of conditions shows or hides.
    Moving {
        moving: Box<Moving>,
        version: Version,
        transaction: Uuid,
    },
}

/// A text that is ready.
enum Text {
    Own(Vec<u8>),
    Shared(Arc<[u8]>),
}

impl Text {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(text) => text,
            Self::Shared(text) => text,
        }
    }
}

struct Rows {
    selected: Selected,
    next: usize,
}

impl Body {
    /// Whether the next piece takes long, because one row has very large values.
    fn is_long(&self) -> bool {
        match self {
            Self::Dump { dump, .. } => dump.is_long(),
            Self::Moving { moving, .. } => moving.is_long(),
            Self::Update { telling, .. } => telling.is_long(UPDATE_STEPS),
            Self::Results { rows, .. } => {
                let next = rows.as_ref().filter(|rows| rows.next < rows.selected.rows().len());
                next.is_some_and(|rows| rows.selected.is_long(rows.next))
            }
            Self::Text(..) => false,
        }
    }
}

impl Unfinished {
    const fn new(ticket: Ticket, body: Body) -> Self {
        Self { ticket, body, is_searching: false }
    }

    /// Appends the next piece. Returns whether there is more.
    fn go_on(&mut self, out: &mut Vec<u8>) -> bool {
        let enough = out.len() + PIECE_BYTES;
        let more = self.write_piece(enough, out);
        self.is_searching = more && out.len() < enough;
        more
    }

    fn write_piece(&mut self, enough: usize, out: &mut Vec<u8>) -> bool {
        match &mut self.body {
            Body::Dump { dump, close } => {
                let more = dump.write(PIECE_BYTES, out);
                if !more {
                    out.extend_from_slice(close.as_bytes());
                }
                more
            }
            Body::Results { results, rows, nulls, any } => {
                write_results(results, (rows, nulls), any, enough, out)
            }
            Body::Text(text, at) => {
                let rest = text.bytes().get(*at..).unwrap_or_default();
                let piece = rest.get(..PIECE_BYTES).unwrap_or(rest);
                out.extend_from_slice(piece);
                *at += piece.len();
                piece.len() < rest.len()
            }
            Body::Update { telling, .. } => telling.go_on(UPDATE_STEPS),
            Body::Moving { moving, version, transaction } => {
                write_moving(&self.ticket, moving, (*version, *transaction), out)
            }
        }
    }
}

impl Writer {
    pub(crate) fn new(beside: Arc<Beside>, session: Arc<Session>) -> Self {
        Self { unfinished: None, away: None, beside, session }
    }

    /// Whether the end of a reply is still to be written.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.unfinished.is_some() || self.away.is_some()
    }

    /// Whether a piece is being made beside, before which nothing can be written.
    pub(crate) fn is_away(&self) -> bool {
        self.away.is_some()
    }

    /// Whether finding more to write takes long, so that other connections get their turn first.
    pub(crate) fn is_searching(&self) -> bool {
        self.unfinished.as_ref().is_some_and(|unfinished| unfinished.is_searching)
    }

    /// Appends the piece that is being made beside, when it is there. An error says that making it panicked.
    pub(crate) fn poll_away(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<(), Panicked>> {
        let Some(away) = &mut self.away else { return Poll::Ready(Ok(())) };
        let made = ready!(Pin::new(away).poll(cx));
        self.away = None;
        let Ok(Piece { unfinished, text, more }) = made else { return Poll::Ready(Err(Panicked)) };
        match out.is_empty() {
            true => *out = text,
            false => out.extend_from_slice(&text),
        }
        self.keep(unfinished, more, out);
        Poll::Ready(Ok(()))
    }

    /// Continues a reply that is not finished; true if there was one. A search that continues, or a row of many megabytes,
    /// must not keep other clients waiting: such a piece is begun beside.
    pub(crate) fn go_on(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(mut unfinished) = self.unfinished.take() else { return self.away.is_some() };
        if unfinished.is_searching || unfinished.body.is_long() {
            self.away = Some(self.beside.run(&self.session, move || {
                let mut text = Vec::new();
                let more = unfinished.go_on(&mut text);
                Piece { unfinished, text, more }
            }));
            return true;
        }
        let more = unfinished.go_on(out);
        self.keep(unfinished, more, out);
        true
    }

    /// Keeps what is not finished, or appends its end.
    fn keep(&mut self, unfinished: Unfinished, more: bool, out: &mut Vec<u8>) {
        match unfinished {
            unfinished if more => self.unfinished = Some(unfinished),
            Unfinished { ticket, body: Body::Update { telling, version, transaction }, .. } => {
                if let Some(text) = telling.into_text() {
                    write_update(&ticket, version, transaction, out, |out| append(&text, out));
                }
            }
            Unfinished { body: Body::Moving { .. }, .. } => {}
            Unfinished { ticket, .. } => end_result(&ticket, out),
        }
    }

    /// Appends `item`, or its beginning.
    pub(crate) fn write(&mut self, item: Outgoing, out: &mut Vec<u8>) {
        match item {
            Outgoing::Reply(ticket, reply) => self.write_reply(ticket, reply, out),
            Outgoing::Update(update) => {
                let (id, version) = (update.id.clone(), update.monitor.version);
                let transaction = update.transaction;
                match update.into_text() {
                    UpdateText::Nothing => {}
                    UpdateText::Ready(text) => {
                        write_update(&id, version, transaction, out, |out| {
                            append(text.as_ref(), out)
                        });
                    }
                    UpdateText::Long(telling) => {
                        let body = Body::Update { telling, version, transaction };
                        self.unfinished = Some(Unfinished::new(id, body));
                        self.go_on(out);
                    }
                }
            }
            Outgoing::ConditionUpdate { monitor, transaction, from, to, rows } => {
                let version = to.version;
                let moving = Box::new(Moving::new(from, to, rows));
                let body = Body::Moving { moving, version, transaction };
                self.unfinished = Some(Unfinished::new(monitor, body));
                self.go_on(out);
            }
            Outgoing::Lock(notice) => write_notice(notice.change.word(), &notice.lock, out),
            Outgoing::MonitorCanceled(id) => {
                out.extend_from_slice(b"{\"id\":null,\"method\":\"monitor_canceled\",\"params\":[");
                out.extend_from_slice(&id);
                out.extend_from_slice(b"]}");
            }
        }
    }

    fn write_reply(&mut self, ticket: Ticket, reply: Reply, out: &mut Vec<u8>) {
        match reply {
            Reply::Failed(error) => {
                begin_error(&ticket, out);
                error.write(out);
                out.push(b'}');
            }
            // The outbox returns the item only when the reply exists.
            Reply::Later(_) => self.write_reply(ticket, Reply::Word("canceled"), out),
            Reply::Word(word) => {
                begin_error(&ticket, out);
                write_string(word.as_bytes(), out);
                out.push(b'}');
            }
            Reply::Lock(answer) => {
                begin_result(out);
                out.extend_from_slice(match answer {
                    LockAnswer::Locked => b"{\"locked\":true}",
                    LockAnswer::Waiting => b"{\"locked\":false}",
                    LockAnswer::Released => b"{}",
                });
                end_result(&ticket, out);
            }
            Reply::Text(text) => self.write_text(ticket, Text::Own(text), out),
            Reply::Shared(text) => self.write_text(ticket, Text::Shared(text), out),
            Reply::Results(results) => {
                begin_result(out);
                out.push(b'[');
                let results = results.into_iter();
                let body = Body::Results { results, rows: None, nulls: 0, any: false };
                self.unfinished = Some(Unfinished::new(ticket, body));
                self.go_on(out);
            }
            Reply::Dump(dump) => {
                begin_result(out);
                let body = Body::Dump { dump, close: "" };
                self.unfinished = Some(Unfinished::new(ticket, body));
                self.go_on(out);
            }
            Reply::Since { found, transaction, content } => {
                begin_result(out);
                out.extend_from_slice(if found { b"[true," } else { b"[false," });
                write_transaction(transaction, out);
                match content {
                    Content::Text(text) => {
                        out.extend_from_slice(&text);
                        out.push(b']');
                        end_result(&ticket, out);
                    }
                    Content::Dump(dump) => {
                        let body = Body::Dump { dump, close: "]" };
                        self.unfinished = Some(Unfinished::new(ticket, body));
                        self.go_on(out);
                    }
                }
            }
        }
    }

    fn write_text(&mut self, ticket: Ticket, text: Text, out: &mut Vec<u8>) {
        begin_result(out);
        self.unfinished = Some(Unfinished::new(ticket, Body::Text(text, 0)));
        self.go_on(out);
    }
}

/// Appends results until there is enough. Returns whether there is more.
fn write_results(
    results: &mut std::vec::IntoIter<OpResult>,
    (rows, nulls): (&mut Option<Rows>, &mut usize),
    any: &mut bool,
    enough: usize,
    out: &mut Vec<u8>,
) -> bool {
    let start = out.len();
    loop {
        if let Some(Rows { selected, next }) = rows {
            while *next < selected.rows().len() {
                // A row that takes long is a piece of its own.
                if out.len() >= enough || (out.len() > start && selected.is_long(*next)) {
                    return true;
                }
                if *next > 0 {
                    out.push(b',');
                }
                selected.write_row(*next, out);
                *next += 1;
            }
            out.extend_from_slice(b"]}");
            *rows = None;
        }
        while *nulls > 0 && out.len() < enough {
            *nulls -= 1;
            let text: &[u8] = if *nulls > 0 { b"null," } else { b"null" };
            out.extend_from_slice(text);
        }
        if out.len() >= enough {
            return true;
        }
        let Some(result) = results.next() else {
            out.push(b']');
            return false;
        };
        if std::mem::replace(any, true) {
            out.push(b',');
        }
        match result {
            OpResult::Rows(selected) => {
                out.extend_from_slice(b"{\"rows\":[");
                *rows = Some(Rows { selected, next: 0 });
            }
            OpResult::Nulls(count) => *nulls = count,
            other => other.write(out),
        }
    }
}

fn begin_result(out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"result\":");
}

fn end_result(ticket: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"error\":null,\"id\":");
    out.extend_from_slice(ticket);
    out.push(b'}');
}

fn begin_error(ticket: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"result\":null,\"id\":");
    out.extend_from_slice(ticket);
    out.extend_from_slice(b",\"error\":");
}

fn append(text: &[u8], out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(text);
    true
}

/// Appends an update with the body that `write` appends, or nothing if the body is empty.
fn write_update(
    monitor: &[u8],
    version: Version,
    transaction: Uuid,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> bool,
) {
    let start = out.len();
    begin_update(monitor, version, transaction, out);
    if write(out) {
        out.extend_from_slice(b"]}");
    } else {
        out.truncate(start);
    }
}

/// Appends the next piece of the rows that a change of conditions shows or hides. Returns whether there is more.
fn write_moving(
    monitor: &[u8],
    moving: &mut Moving,
    (version, transaction): (Version, Uuid),
    out: &mut Vec<u8>,
) -> bool {
    let start = out.len();
    if !moving.has_begun() {
        begin_update(monitor, version, transaction, out);
    }
    let more = moving.write(PIECE_BYTES, out);
    if !more && version == Version::V3 && !moving.has_begun() {
        // The new conditions apply from this transaction on, even if no rows are sent. Otherwise a client that
        // reconnects with an older transaction would be sent changes of rows that it never saw.
        out.extend_from_slice(b"{}]}");
    } else if !moving.has_begun() {
        out.truncate(start);
    } else if !more {
        out.extend_from_slice(b"]}");
    }
    more
}

fn begin_update(monitor: &[u8], version: Version, transaction: Uuid, out: &mut Vec<u8>) {
    let method: &[u8] = match version {
        Version::V1 => b"update",
        Version::V2 => b"update2",
        Version::V3 => b"update3",
    };
    out.extend_from_slice(b"{\"id\":null,\"method\":\"");
    out.extend_from_slice(method);
    out.extend_from_slice(b"\",\"params\":[");
    out.extend_from_slice(monitor);
    out.push(b',');
    if version == Version::V3 {
        write_transaction(transaction, out);
    }
}

fn write_transaction(transaction: Uuid, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(&transaction.text());
    out.extend_from_slice(b"\",");
}

fn write_notice(method: &str, lock: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"id\":null,\"method\":\"");
    out.extend_from_slice(method.as_bytes());
    out.extend_from_slice(b"\",\"params\":[");
    write_string(lock.as_bytes(), out);
    out.extend_from_slice(b"]}");
}

/// Appends the echo request that probes a silent client.
pub(crate) fn write_probe(out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"id\":");
    write_string(PROBE_ID.as_bytes(), out);
    out.extend_from_slice(b",\"method\":\"echo\",\"params\":[]}");
}

/// Appends the last message to a client whose stream cannot be parsed any further.
pub(crate) fn write_goodbye(reason: &str, out: &mut Vec<u8>) {
    begin_error(b"null", out);
    Error::new(tag::SYNTAX, reason).write(out);
    out.push(b'}');
}

/// Appends the only message to a client that is refused because there is no place for its connection.
pub(crate) fn write_refusal(reason: &str, out: &mut Vec<u8>) {
    begin_error(b"null", out);
    Error::new(tag::RESOURCES, reason).write(out);
    out.push(b'}');
}

/// The error of a lock operation, in the terms of the protocol.
pub(crate) fn lock_error(
    error: LockError,
    operation: LockOperation,
    params: &[paceline_tables::json::Json],
) -> Error {
    let quoting = |details: String| Error::quoting_array(tag::SYNTAX, params, details);
    let word = match operation {
        LockOperation::Lock => "lock",
        LockOperation::Steal => "steal",
        LockOperation::Unlock => "unlock",
    };
    match error {
        LockError::MustUnlock => quoting(format!("must issue \"unlock\" before new \"{word}\"")),
        LockError::NotLocked => {
            quoting("unlock: \"unlock\" without \"lock\" or \"steal\"".to_owned())
        }
        LockError::TooMany => {
            Error::new(tag::RESOURCES, "this connection holds as many locks as its memory allows")
        }
        LockError::TooManyTogether(_) => Error::new(tag::RESOURCES, error.to_string()),
        // The client does not read this response.
        LockError::Ended => Error::new(tag::RESOURCES, "the connection has ended"),
        LockError::Exhausted => Error::new(
            tag::RESOURCES,
            "no fencing number is left, because the next range cannot be written to disk",
        ),
    }
}
