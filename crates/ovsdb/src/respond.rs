//! Answers: the one place where results, refusals and events become JSON-RPC text.
//!
//! A large answer is written in pieces: [`Writer`] keeps the one that it has begun.

use crate::wire::PROBE_ID;
use paceline_host::{
    Content, LockAnswer, LockError, LockOperation, Outgoing, Reply, Ticket, UpdateText,
};
use paceline_tables::json::write_string;
use paceline_tables::monitor::{Dump, Moving, Telling, Version};
use paceline_tables::{Error, OpResult, Selected, tag};
use paceline_types::Uuid;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How much is written before asking the socket to take some.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// Turns what is to be sent into text.
#[derive(Default)]
pub(crate) struct Writer {
    unfinished: Option<Unfinished>,
}

/// A reply or an update whose end is not written yet; `ticket` is the id of the request, or of the monitor.
struct Unfinished {
    ticket: Ticket,
    body: Body,
    /// Whether the last piece ended because it took long to find more to write.
    is_searching: bool,
}

/// What is tested for an update before others have their turn.
const UPDATE_STEPS: usize = 100_000;

enum Body {
    Dump {
        dump: Box<Dump>,
        close: &'static str,
    },
    Results {
        results: std::vec::IntoIter<OpResult>,
        rows: Option<Rows>,
        any: bool,
    },
    /// An update, of which nothing is written before all of it is made.
    Update {
        telling: Box<Telling>,
        version: Version,
        transaction: Uuid,
    },
    /// Rows that come into view or go out of it.
    Moving {
        moving: Box<Moving>,
        version: Version,
        transaction: Uuid,
    },
}

struct Rows {
    selected: Selected,
    next: usize,
}

/// So many pieces that take long are made aside at a time. Each has a thread of its own meanwhile; others are made where they
/// are asked for, one in a turn.
const ASIDE_MAX: usize = 8;

static ASIDES: AtomicUsize = AtomicUsize::new(0);

/// A piece that is made aside, until this is dropped.
struct Aside;

impl Aside {
    fn begin() -> Option<Self> {
        let aside = Self;
        (ASIDES.fetch_add(1, Ordering::Relaxed) < ASIDE_MAX).then_some(aside)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        ASIDES.fetch_sub(1, Ordering::Relaxed);
    }
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
        }
    }
}

impl Unfinished {
    const fn new(ticket: Ticket, body: Body) -> Self {
        Self { ticket, body, is_searching: false }
    }

    /// Appends the next piece; answers whether there is more.
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
            Body::Results { results, rows, any } => write_results(results, rows, any, enough, out),
            Body::Update { telling, .. } => telling.go_on(UPDATE_STEPS),
            Body::Moving { moving, version, transaction } => {
                write_moving(&self.ticket, moving, (*version, *transaction), out)
            }
        }
    }
}

impl Writer {
    /// Whether the end of a reply is still to be written.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.unfinished.is_some()
    }

    /// Whether it takes long to find more to write, so that others have their turn before it goes on.
    pub(crate) fn is_searching(&self) -> bool {
        self.unfinished.as_ref().is_some_and(|unfinished| unfinished.is_searching)
    }

    /// Goes on with a reply that is not finished; true if there was one.
    pub(crate) fn go_on(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(mut unfinished) = self.unfinished.take() else { return false };
        let is_long = unfinished.is_searching || unfinished.body.is_long();
        let mut piece = || unfinished.go_on(out);
        // A search that goes on, or a row of many megabytes, must not keep other clients waiting.
        let more = match is_long.then(Aside::begin).flatten() {
            Some(_aside) => paceline_host::aside(piece),
            None => piece(),
        };
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
        true
    }

    /// Appends `item`, or the beginning of it.
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
            // The outbox gives it out when it is there.
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
            Reply::Text(text) => {
                begin_result(out);
                out.extend_from_slice(&text);
                end_result(&ticket, out);
            }
            Reply::Results(results) => {
                begin_result(out);
                out.push(b'[');
                let body = Body::Results { results: results.into_iter(), rows: None, any: false };
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
}

/// Appends results until there is enough; answers whether there is more.
fn write_results(
    results: &mut std::vec::IntoIter<OpResult>,
    rows: &mut Option<Rows>,
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

/// Appends an update whose body `write` appends, or nothing if there is none.
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

/// Appends the next piece of what a change of conditions shows and hides; answers whether there is more.
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
        // The new conditions hold from this transaction on, also if nothing is sent: a
        // client that returns with an older one would be sent changes of rows it never saw.
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

/// Appends the probe that asks a silent client whether it is there.
pub(crate) fn write_probe(out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"id\":");
    write_string(PROBE_ID.as_bytes(), out);
    out.extend_from_slice(b",\"method\":\"echo\",\"params\":[]}");
}

/// Appends the last word to a client whose stream cannot be followed.
pub(crate) fn write_goodbye(reason: &str, out: &mut Vec<u8>) {
    begin_error(b"null", out);
    Error::new(tag::SYNTAX, reason).write(out);
    out.push(b'}');
}

/// Appends the only word to a client for whose connection there is no place.
pub(crate) fn write_refusal(reason: &str, out: &mut Vec<u8>) {
    begin_error(b"null", out);
    Error::new(tag::RESOURCES, reason).write(out);
    out.push(b'}');
}

/// The error of a lock operation, in the words that clients know.
pub(crate) fn lock_error(
    error: LockError,
    operation: LockOperation,
    params: &[paceline_tables::json::Json],
) -> Error {
    let params = paceline_tables::json::Json::Array(params.to_vec());
    let word = match operation {
        LockOperation::Lock => "lock",
        LockOperation::Steal => "steal",
        LockOperation::Unlock => "unlock",
    };
    match error {
        LockError::MustUnlock => {
            Error::syntax(&params, format!("must issue \"unlock\" before new \"{word}\""))
        }
        LockError::NotLocked => {
            Error::syntax(&params, "unlock: \"unlock\" without \"lock\" or \"steal\"")
        }
        LockError::TooMany => {
            Error::new(tag::RESOURCES, "this connection holds as many locks as its memory allows")
        }
        LockError::TooManyTogether(_) => Error::new(tag::RESOURCES, error.to_string()),
        // This answer is not read.
        LockError::Ended => Error::new(tag::RESOURCES, "the connection has ended"),
        LockError::Exhausted => Error::new(
            tag::RESOURCES,
            "no fencing number is left, because the next range cannot be written to disk",
        ),
    }
}
