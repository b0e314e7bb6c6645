//! The keys of the file: which may stand where, what they hold, and which column they are.
//!
//! One table per kind of object; reading, "did you mean", lists of what may stand somewhere, and the
//! order in which an export writes all come from it.

use paceline_model::schema::{
    BACKEND, CHECKPOINT, FRONTEND, HTTP, POOL, RESOURCE, RULE, SERVER, USER,
};
use paceline_rules::STEP_MAX;

/// A kind of object: a `[[word]]` of the file.
#[derive(Debug)]
pub(crate) struct Kind {
    /// The word in the brackets.
    pub word: &'static str,
    /// The table of its rows.
    pub table: &'static str,
    /// The key, and column, that tells one from another.
    pub id: &'static str,
    /// What may stand in it, in the order of an export.
    pub keys: &'static [Key],
}

/// A key.
#[derive(Debug)]
pub(crate) struct Key {
    /// Its name.
    pub name: &'static str,
    /// The column that it sets.
    pub column: &'static str,
    /// What it holds.
    pub holds: Holds,
}

/// What a key holds.
#[derive(Debug)]
pub(crate) enum Holds {
    /// Any text.
    Text,
    /// The name of an object.
    Name,
    /// The name of a pool, frontend or server, which is one word.
    Word,
    /// The name of a backend, which is one word without a slash.
    SlashlessWord,
    /// Where a server listens.
    Address,
    /// One text or a list of them, each of this kind.
    Texts(Each),
    /// A length of time.
    Span,
    /// A rate.
    Rate,
    /// Where a checkpoint stands.
    At,
    /// A whole number in this range.
    Integer(i64, i64),
    /// `true` or `false`, and what it is when nothing is said.
    Flag(bool),
    /// `true` or `false`, or nothing.
    Choice,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A table of keys.
    Table(&'static [Key]),
    /// A table of keys, or only `true`: the column is true then, and false if there is nothing.
    Switch(&'static [Key]),
    /// Something that is not one column; described for messages.
    Own(&'static str),
}

/// What each text of a list is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Each {
    /// An address to listen on.
    Listen,
    /// An address or a network of peers.
    Network,
    /// A protocol that a connection may be upgraded to; an empty list is one of none.
    Protocol,
}

impl Key {
    /// The keys of the table that it holds.
    pub const fn inner(&self) -> &'static [Key] {
        match self.holds {
            Holds::Table(keys) | Holds::Switch(keys) => keys,
            _ => &[],
        }
    }
}

const fn key(name: &'static str, column: &'static str, holds: Holds) -> Key {
    Key { name, column, holds }
}

const fn same(name: &'static str, holds: Holds) -> Key {
    key(name, name, holds)
}

/// What a rule's number and a checkpoint's place can be.
const NUMBER: Holds = Holds::Integer(0, u32::MAX as i64);

/// What only has to be some number.
const COUNT: Holds = Holds::Integer(0, i64::MAX);

const STEP: &str = "a whole number from 1 to 254";
const _: () = assert!(STEP_MAX == 254, "the text says so");

pub(crate) const POOLS: Kind = Kind {
    word: "pool",
    table: POOL,
    id: "name",
    keys: &[
        same("name", Holds::Word),
        key("priority", "priority_min", Holds::Own("[LOWEST, HIGHEST], each from -127 to 127")),
        key(
            "threads",
            "threads",
            Holds::Table(&[
                key("min", "threads_min", Holds::Integer(0, 1_000_000)),
                key("max", "threads_max", Holds::Integer(0, 1_000_000)),
            ]),
        ),
        key(
            "queue",
            "queue",
            Holds::Table(&[
                key("max_len", "queue_max_len", COUNT),
                key("max_delay", "queue_max_delay", Holds::Span),
            ]),
        ),
        same("persistent", Holds::Flag(true)),
        key("started", "state", Holds::Own("true or false")),
        same("group", Holds::Text),
        same("stack_bytes", Holds::Integer(1, i64::MAX)),
        same("heap_bytes_max", Holds::Integer(1, i64::MAX)),
    ],
};

pub(crate) const RULES: Kind = Kind {
    word: "rule",
    table: RULE,
    id: "number",
    keys: &[
        same("number", NUMBER),
        key("match", "criteria", Holds::Own("a table of patterns, or criteria as one text")),
        key("mode", "criteria", Holds::Own("\"exact\", \"glob\" or \"regex\"")),
        key("nocase", "criteria", Holds::Own("true or false")),
        same("when", Holds::Text),
        key("set", "action", Holds::Own("a whole number from -127 to 127")),
        key("raise", "action", Holds::Own(STEP)),
        key("lower", "action", Holds::Own(STEP)),
        key("reject", "action", Holds::Own("true or false")),
        same("then", Holds::OneOf(&["continue", "stop"])),
        same("disabled", Holds::Flag(false)),
        same("log", Holds::Flag(false)),
    ],
};

pub(crate) const CHECKPOINTS: Kind = Kind {
    word: "checkpoint",
    table: CHECKPOINT,
    id: "name",
    keys: &[
        same("name", Holds::Name),
        same("at", Holds::At),
        same("on", Holds::OneOf(&["request", "connection"])),
        same("number", NUMBER),
        same("when", Holds::Text),
        same("key", Holds::Text),
        same("fair", Holds::Text),
        same("weight", Holds::Text),
        same("rate", Holds::Rate),
        same("burst", Holds::Integer(1, u32::MAX as i64)),
        same("concurrency", NUMBER),
        same("count", Holds::Own("true")),
        same("period", Holds::Span),
        key(
            "queue",
            "queue",
            Holds::Table(&[
                key("max_len", "queue_max_len", COUNT),
                key("max_total", "queue_max_total", COUNT),
                key("max_delay", "queue_max_delay", Holds::Span),
            ]),
        ),
        same("keys_max", Holds::Integer(1, i64::MAX)),
        same("status", Holds::Integer(400, 599)),
        same("mode", Holds::OneOf(&["enforce", "watch"])),
        same("persistent", Holds::Flag(true)),
    ],
};

pub(crate) const RESOURCES: Kind = Kind {
    word: "resource",
    table: RESOURCE,
    id: "name",
    keys: &[
        same("name", Holds::Name),
        same("parents", Holds::Own("a list of names of resources")),
        same("persistent", Holds::Flag(true)),
    ],
};

pub(crate) const USERS: Kind = Kind {
    word: "user",
    table: USER,
    id: "name",
    keys: &[
        same("name", Holds::Name),
        same("role", Holds::OneOf(&["viewer", "client", "operator", "admin"])),
    ],
};

/// What is there once: the table `[http]`.
pub(crate) const HTTPS: Kind =
    Kind { word: "http", table: HTTP, id: "", keys: &[same("threads", Holds::Integer(1, 1_024))] };

pub(crate) const FRONTENDS: Kind = Kind {
    word: "frontend",
    table: FRONTEND,
    id: "name",
    keys: &[
        same("name", Holds::Word),
        same("listen", Holds::Texts(Each::Listen)),
        same("backend", Holds::Own("the name of a backend")),
        same("use_backend", Holds::Own("a list of tables { when = \"...\", backend = \"...\" }")),
        key("tls", "tls_certificate", Holds::Own(TLS)),
        same("http2", Holds::Choice),
        same("proxy_protocol", Holds::Flag(false)),
        same("trusted", Holds::Texts(Each::Network)),
        same("user", Holds::OneOf(&["basic", "bearer"])),
        same("upgrades", Holds::Texts(Each::Protocol)),
        same("max_body", COUNT),
        same("max_connections", CONNECTIONS),
        key(
            "timeouts",
            "timeout",
            Holds::Table(&[
                key("header", "timeout_header", Holds::Span),
                key("body", "timeout_body", Holds::Span),
                key("idle", "timeout_idle", Holds::Span),
                key("queue", "timeout_queue", Holds::Span),
                key("tunnel", "timeout_tunnel", Holds::Span),
            ]),
        ),
        same("errors", Holds::Own("a table of files by status, such as { 503 = \"FILE\" }")),
        same("access_log", Holds::OneOf(&["json", "common"])),
        same("log_values", Holds::Own("a table of expressions by name")),
        same("persistent", Holds::Flag(true)),
    ],
};

const TLS: &str = "a table { certificate = \"FILE\", key = \"FILE\" }, or a list of them";

/// What connections can be limited to.
const CONNECTIONS: Holds = Holds::Integer(1, u32::MAX as i64);

pub(crate) const BACKENDS: Kind = Kind {
    word: "backend",
    table: BACKEND,
    id: "name",
    keys: &[
        same("name", Holds::SlashlessWord),
        same("balance", Holds::OneOf(&["round-robin", "least-connections", "power-of-two"])),
        same("servers", Holds::Own("a list of tables { name = \"...\", address = \"...\" }")),
        key(
            "queue",
            "queue",
            Holds::Table(&[
                key("max_len", "queue_max_len", COUNT),
                key("max_delay", "queue_max_delay", Holds::Span),
            ]),
        ),
        same("retries", Holds::Integer(0, 100)),
        same(
            "health",
            Holds::Switch(&[
                key("path", "health_path", Holds::Text),
                key("host", "health_host", Holds::Text),
                key("interval", "health_interval", Holds::Span),
                key("timeout", "health_timeout", Holds::Span),
                key("rise", "health_rise", Holds::Integer(1, 1_000)),
                key("fall", "health_fall", Holds::Integer(1, 1_000)),
            ]),
        ),
        key(
            "timeouts",
            "timeout",
            Holds::Table(&[
                key("connect", "timeout_connect", Holds::Span),
                key("response", "timeout_response", Holds::Span),
                key("idle", "timeout_idle", Holds::Span),
            ]),
        ),
        same(
            "tls",
            Holds::Switch(&[
                key("ca", "tls_ca", Holds::Text),
                key("name", "tls_name", Holds::Text),
                key("verify", "tls_verify", Holds::Choice),
                key("certificate", "tls_certificate", Holds::Text),
                key("key", "tls_key", Holds::Text),
            ]),
        ),
        same("persistent", Holds::Flag(true)),
    ],
};

/// The servers in the list of a backend.
pub(crate) const SERVERS: Kind = Kind {
    word: "server",
    table: SERVER,
    id: "name",
    keys: &[
        same("name", Holds::Word),
        same("address", Holds::Address),
        same("weight", Holds::Integer(0, 256)),
        same("max_connections", CONNECTIONS),
        same("persistent", Holds::Flag(true)),
    ],
};

/// All kinds that are lists of tables, in the order of an export. There are no tokens among them: they
/// are secrets.
pub(crate) const KINDS: [&Kind; 7] =
    [&FRONTENDS, &BACKENDS, &POOLS, &RULES, &CHECKPOINTS, &RESOURCES, &USERS];

/// The kind whose rows are in this table.
pub(crate) fn kind_of(table: &str) -> Option<&'static Kind> {
    KINDS.into_iter().chain([&HTTPS, &SERVERS]).find(|kind| kind.table == table)
}

/// How the file writes a column: `queue.max_len` for `queue_max_len`.
pub(crate) fn path_of(kind: &Kind, column: &str) -> Option<String> {
    if kind.table == FRONTEND
        && let Some(part) = column.strip_prefix("tls_")
    {
        return Some(format!("tls.{part}"));
    }
    kind.keys.iter().find_map(|key| {
        if key.column == column {
            return Some(key.name.to_owned());
        }
        let inner = key.inner().iter().find(|inner| inner.column == column)?;
        Some(format!("{}.{}", key.name, inner.name))
    })
}
