//! The keys of the file: which may stand where, what they hold, and which column they are.
//!
//! One table per kind of object; reading, "did you mean", lists of what may stand somewhere, and the
//! order in which an export writes all come from it.

use paceline_model::schema::{CHECKPOINT, POOL, RESOURCE, RULE, USER};
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
    /// The name of a pool, which is one word.
    Word,
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
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A table of keys.
    Table(&'static [Key]),
    /// Something that is not one column; described for messages.
    Own(&'static str),
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

/// All kinds, in the order of an export. There are no tokens among them: they are secrets.
pub(crate) const KINDS: [&Kind; 5] = [&POOLS, &RULES, &CHECKPOINTS, &RESOURCES, &USERS];

/// The kind whose rows are in this table.
pub(crate) fn kind_of(table: &str) -> Option<&'static Kind> {
    KINDS.into_iter().find(|kind| kind.table == table)
}

/// How the file writes a column: `queue.max_len` for `queue_max_len`.
pub(crate) fn path_of(kind: &Kind, column: &str) -> Option<String> {
    kind.keys.iter().find_map(|key| match &key.holds {
        _ if key.column == column => Some(key.name.to_owned()),
        Holds::Table(keys) => {
            let inner = keys.iter().find(|inner| inner.column == column)?;
            Some(format!("{}.{}", key.name, inner.name))
        }
        _ => None,
    })
}
