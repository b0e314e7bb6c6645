//! Named maxima that guard memory, with the promise that each one keeps.
//!
//! Doors and rooms take their bounds from here or from their configuration, never from a bare
//! number in the code.

use crate::Span;

/// Deepest nesting of a JSON text at the OVSDB door (promise D1).
pub const JSON_DEPTH_MAX_OVSDB: usize = 1_000;

/// The longest single message at the OVSDB door unless a remote sets its own (promise D1).
pub const FRAME_BYTES_MAX: usize = 16 << 20;

/// The longest single message of a client without a role, which may only use `echo` (promise D1).
pub const FRAME_BYTES_MAX_NO_ROLE: usize = 64 << 10;

/// The most bytes of long messages that are parsed at a time, over all connections of a remote. Parsing takes up to
/// 30 times their length (promise D1).
pub const LONG_BYTES_TOGETHER_MAX: usize = FRAME_BYTES_MAX;

/// Notifications queued to one client before it is disconnected (promise D1).
pub const BACKLOG_BYTES_MAX: usize = 16 << 20;

/// Replies queued to one client before its further requests wait unread.
pub const REPLY_BYTES_MAX: usize = 16 << 20;

/// The most bytes that all connections of the daemon together may leave unread, or send without finishing (promise
/// D1).
pub const UNREAD_BYTES_TOGETHER_MAX: usize = 1 << 30;

/// The bytes that each connection may always leave unread or unfinished, whatever the others do (promise D1).
pub const SHARE_BYTES_MIN: usize = 64 << 10;

/// What an answer that is written from a snapshot of the database counts towards [`REPLY_BYTES_MAX`]. A client that
/// does not read has only a few of these (promise D1).
pub const SNAPSHOT_REPLY_BYTES: usize = 1 << 20;

/// The memory that the snapshots of one database that wait for clients may keep in addition to the database itself
/// (promise D1).
pub const PINNED_BYTES_MAX: usize = 256 << 20;

/// The memory of one connection's monitors and waiting transactions, and again of its locks.
pub const SESSION_BYTES_MAX: usize = 16 << 20;

/// The memory of the monitors and waiting transactions of all connections together (promise D1).
pub const HOLDINGS_BYTES_MAX: usize = 256 << 20;

/// The memory of names and bookkeeping for the locks of all sessions of the API together, and again for those of all
/// connections at the OVSDB door (promise D1).
pub const LOCKS_BYTES_MAX: usize = 256 << 20;

/// The longest offending JSON text quoted in an error's `syntax` member.
pub const SYNTAX_BYTES_MAX: usize = 4 << 10;

/// Transactions remembered for clients that reconnect with `monitor_cond_since`.
pub const HISTORY_TRANSACTIONS_MAX: usize = 1_000;

/// The memory of all remembered transactions of one database.
pub const HISTORY_BYTES_MAX: usize = 16 << 20;

/// Monitors of one connection: every change of a table that they watch is tested on each (promise D4).
pub const MONITORS_MAX: usize = 100;

/// Monitors of one user or address on one database, over all its connections (promise D4).
pub const MONITORS_PEER_MAX: usize = 10_000;

/// Monitors on one database (promise D4).
pub const MONITORS_DATABASE_MAX: usize = 20_000;

/// The part of them that is reserved for root and the user that runs the daemon.
pub const MONITORS_KEPT: usize = 1_000;

/// Steps of testing the conditions of one monitor on a changed row that are free. Further steps count towards the
/// bounds below, in addition to the monitor itself.
pub const CONDITION_STEPS_FREE: u64 = 64;

/// Further steps of testing the monitors of one connection (promise D4).
pub const CONDITION_STEPS_MAX: u64 = 20_000;

/// The same for one user or address on one database, over all its connections (promise D4).
pub const CONDITION_STEPS_PEER_MAX: u64 = 200_000;

/// The same for all clients of one database (promise D4).
pub const CONDITION_STEPS_DATABASE_MAX: u64 = 400_000;

/// The part of them that is reserved for root and the user that runs the daemon.
pub const CONDITION_STEPS_KEPT: u64 = 40_000;

/// Steps that the publisher of a commit spends on all updates to monitors together. Longer updates are made beside
/// it, in pieces (promise D4).
pub const TELL_STEPS_MAX: usize = 100_000;

/// The memory of one database's changes that wait to be sent to monitors (promise D1).
pub const UNTOLD_BYTES_MAX: usize = 256 << 20;

/// Transactions of one connection that may wait at a time: changes cause retries of them (promise D4).
pub const WAITS_MAX: usize = 100;

/// Waiting transactions of one user or address on one database, over all its connections (promise D4).
pub const WAITS_PEER_MAX: usize = 250;

/// Transactions that may wait on one database at a time (promise D4).
pub const WAITS_DATABASE_MAX: usize = 1_000;

/// The part of them that is reserved for root and the user that runs the daemon.
pub const WAITS_KEPT: usize = 100;

/// Steps of retrying all of them, because a single change may cause that.
pub const WAITS_STEPS_MAX: u64 = 1_000_000;

/// Steps of retrying those of one connection, and those of one user or address.
pub const WAITS_PEER_STEPS_MAX: u64 = 250_000;

/// The part of [`WAITS_STEPS_MAX`] that is reserved for root and the user that runs the daemon.
pub const WAITS_KEPT_STEPS: u64 = 100_000;

/// Steps of a transaction that changes rows or waits; other transactions wait in the meantime (promise D4).
pub const CHANGE_STEPS_MAX: u64 = 20_000_000;

/// Steps of a transaction that only reads; it runs beside the others (promise D4).
pub const READ_STEPS_MAX: u64 = 100_000_000;

/// Steps of a transaction that reads while other transactions wait for it.
pub const READ_AT_ONCE_STEPS_MAX: u64 = 200_000;

/// Rows that the selects of one transaction may find before a further select is refused.
pub const SELECT_ROWS_MAX: usize = 1_000_000;

/// Attributes of one request, including the well-known ones.
pub const ATTRIBUTES_MAX: usize = 256;

/// Size of the names and values of one request's attributes together.
pub const ATTRIBUTES_BYTES_MAX: usize = 1 << 20;

/// The longest name of an attribute.
pub const ATTRIBUTE_NAME_BYTES_MAX: usize = 256;

/// Claims of one request.
pub const CLAIMS_MAX: usize = 256;

/// The longest key of a checkpoint that is displayed completely, in bytes.
pub const KEY_SHOWN_BYTES_MAX: usize = 256;

/// Locks that one request may require.
pub const REQUIRED_LOCKS_MAX: usize = 64;

/// The highest cost of one request.
pub const COST_MAX: u32 = 1_000_000;

/// The longest name of a pool, checkpoint or resource.
pub const NAME_BYTES_MAX: usize = 1_024;

/// The longest name of a lock.
pub const LOCK_NAME_BYTES_MAX: usize = 255;

/// The longest expression.
pub const EXPRESSION_BYTES_MAX: usize = 4 << 10;

/// The longest pattern of a rule.
pub const PATTERN_BYTES_MAX: usize = 4 << 10;

/// Rules in one list.
pub const RULES_MAX: usize = 100_000;

/// Keys of one checkpoint unless it sets its own maximum (promise S3).
pub const KEYS_MAX: usize = 1_000_000;

/// Flows of one counter that have a fair share of their own.
pub const FLOWS_MAX: usize = 1_024;

/// Flows of the same counter that the flows beyond [`FLOWS_MAX`] share. There are as many as of the others, so that a
/// waiter in one waits for little more than twice as many requests as in one common line.
pub const SHARED_FLOWS: usize = 1_024;

/// Requests that one call moves; the rest move in the next call.
pub const STEP_MAX: usize = 256;

/// The most that can be configured in place of [`STEP_MAX`].
pub const STEP_MAX_MAX: usize = 4_096;

/// Requests named by one answer to `why`.
pub const AHEAD_MAX: usize = 16;

/// Requests that wait or run at one time unless configured; further requests are refused.
pub const REQUESTS_MAX: usize = 1_000_000;

/// Requests and waits for locks whose time in the queue an orderly end of the daemon writes for the next run; the
/// longest waiting first (promise D1).
pub const PLACES_MAX: usize = 10_000;

/// How long a waiter may take to ask again after a restart, and still counts as one that waited.
pub const PLACE_KEPT: Span = Span::from_secs(60);

/// Shortest and longest place: the secret by which a waiter that asks again is known.
pub const PLACE_BYTES: std::ops::RangeInclusive<usize> = 16..=128;

/// Attributes of all these together unless configured; what would be more is turned away.
pub const REQUESTS_BYTES_MAX: usize = 1 << 30;

/// Matches of logging rules that are reported for one request; further matches are only counted.
pub const LOGS_MAX: usize = 16;
