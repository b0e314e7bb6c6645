//! Named maxima that guard memory, with the promise each one keeps.
//!
//! Doors and rooms take their bounds from here or from their configuration, never from a bare
//! number in the code.

/// Deepest nesting of a JSON text at the OVSDB door (promise D1).
pub const JSON_DEPTH_MAX_OVSDB: usize = 1_000;

/// Longest single message at the OVSDB door unless a remote sets its own (promise D1).
pub const FRAME_BYTES_MAX: usize = 16 << 20;

/// Longest single message of a client without a role, who may do nothing but `echo` (promise D1).
pub const FRAME_BYTES_MAX_NO_ROLE: usize = 64 << 10;

/// Long messages that are parsed at a time, over all connections of a remote, because parsing takes up to 30 times their length
/// (promise D1).
pub const LONG_BYTES_TOGETHER_MAX: usize = FRAME_BYTES_MAX;

/// Notifications queued to one client before it is cut off (promise D1).
pub const BACKLOG_BYTES_MAX: usize = 16 << 20;

/// Replies queued to one client before its further requests wait unread.
pub const REPLY_BYTES_MAX: usize = 16 << 20;

/// What all connections of the daemon together may leave unread, or send and not finish (promise D1).
pub const UNREAD_BYTES_TOGETHER_MAX: usize = 1 << 30;

/// What each connection may at any time, whatever the others leave (promise D1).
pub const SHARE_BYTES_MIN: usize = 64 << 10;

/// What an answer counts for, towards [`REPLY_BYTES_MAX`], that is written from a snapshot of the database: a
/// client that does not read has a few of these and no more (promise D1).
pub const SNAPSHOT_REPLY_BYTES: usize = 1 << 20;

/// What the snapshots of one database that wait for clients may keep in memory beside the database itself
/// (promise D1).
pub const PINNED_BYTES_MAX: usize = 256 << 20;

/// What one connection may hold in monitors and waiting transactions, and again in locks.
pub const SESSION_BYTES_MAX: usize = 16 << 20;

/// What the monitors and waiting transactions of all connections together may take (promise D1).
pub const HOLDINGS_BYTES_MAX: usize = 256 << 20;

/// What the locks of all sessions of the API together, and again those of all connections at the OVSDB door, may take of
/// names and bookkeeping (promise D1).
pub const LOCKS_BYTES_MAX: usize = 256 << 20;

/// Longest offending JSON text quoted back in an error's `syntax` member.
pub const SYNTAX_BYTES_MAX: usize = 4 << 10;

/// Transactions remembered for clients that come back with `monitor_cond_since`.
pub const HISTORY_TRANSACTIONS_MAX: usize = 1_000;

/// Memory of all remembered transactions of one database.
pub const HISTORY_BYTES_MAX: usize = 16 << 20;

/// Monitors of one connection: every change of a table that they watch is tested on them (promise D4).
pub const MONITORS_MAX: usize = 100;

/// Monitors that one user or address may have on one database, over all its connections (promise D4).
pub const MONITORS_PEER_MAX: usize = 10_000;

/// Monitors on one database (promise D4).
pub const MONITORS_DATABASE_MAX: usize = 20_000;

/// The part of them that is kept for root and the user who runs the daemon.
pub const MONITORS_KEPT: usize = 1_000;

/// Steps that it may take to test the conditions of one monitor on a row that changes before they count, apart from
/// the monitor itself, towards the bounds that follow.
pub const CONDITION_STEPS_FREE: u64 = 64;

/// Steps beyond these that it may take to test the monitors of one connection (promise D4).
pub const CONDITION_STEPS_MAX: u64 = 20_000;

/// The same for one user or address on one database, over all its connections (promise D4).
pub const CONDITION_STEPS_PEER_MAX: u64 = 200_000;

/// The same for all clients of one database (promise D4).
pub const CONDITION_STEPS_DATABASE_MAX: u64 = 400_000;

/// The part of them that is kept for root and the user who runs the daemon.
pub const CONDITION_STEPS_KEPT: u64 = 40_000;

/// Steps that whoever publishes a commit takes to tell those who watch, all together; what takes more is made beside it,
/// in pieces (promise D4).
pub const TELL_STEPS_MAX: usize = 100_000;

/// What changes of one database may take that wait to be told to those who watch (promise D1).
pub const UNTOLD_BYTES_MAX: usize = 256 << 20;

/// Transactions of one connection that may wait at a time: changes try them again (promise D4).
pub const WAITS_MAX: usize = 100;

/// Transactions that one user or address may let wait on one database, over all its connections
/// (promise D4).
pub const WAITS_PEER_MAX: usize = 250;

/// Transactions that may wait on one database at a time (promise D4).
pub const WAITS_DATABASE_MAX: usize = 1_000;

/// The part of them that is kept for root and the user who runs the daemon.
pub const WAITS_KEPT: usize = 100;

/// Steps that it may take to try all of them again, because a single change may ask for that.
pub const WAITS_STEPS_MAX: u64 = 1_000_000;

/// Steps that it may take to try those of one connection again, and those of one user or address.
pub const WAITS_PEER_STEPS_MAX: u64 = 250_000;

/// The part of [`WAITS_STEPS_MAX`] that is kept for root and the user who runs the daemon.
pub const WAITS_KEPT_STEPS: u64 = 100_000;

/// Steps that a transaction may take that changes rows or waits: meanwhile others wait (promise D4).
pub const CHANGE_STEPS_MAX: u64 = 20_000_000;

/// Steps that a transaction may take that only reads; it runs beside the others (promise D4).
pub const READ_STEPS_MAX: u64 = 100_000_000;

/// Steps that a transaction may take that reads where others wait for it.
pub const READ_AT_ONCE_STEPS_MAX: u64 = 200_000;

/// Rows that the selects of one transaction may find before a further one is refused.
pub const SELECT_ROWS_MAX: usize = 1_000_000;

/// Attributes of one request, the well-known ones included.
pub const ATTRIBUTES_MAX: usize = 256;

/// Names and values of one request's attributes together.
pub const ATTRIBUTES_BYTES_MAX: usize = 1 << 20;

/// Longest name of an attribute.
pub const ATTRIBUTE_NAME_BYTES_MAX: usize = 256;

/// Claims of one request.
pub const CLAIMS_MAX: usize = 256;

/// The longest key of a checkpoint that is shown whole, in bytes.
pub const KEY_SHOWN_BYTES_MAX: usize = 256;

/// Locks that one request may require.
pub const REQUIRED_LOCKS_MAX: usize = 64;

/// Highest cost of one request.
pub const COST_MAX: u32 = 1_000_000;

/// Longest name of a pool, checkpoint or resource.
pub const NAME_BYTES_MAX: usize = 1_024;

/// Longest name of a lock.
pub const LOCK_NAME_BYTES_MAX: usize = 255;

/// Longest expression.
pub const EXPRESSION_BYTES_MAX: usize = 4 << 10;

/// Longest pattern of a rule.
pub const PATTERN_BYTES_MAX: usize = 4 << 10;

/// Rules in one list.
pub const RULES_MAX: usize = 100_000;

/// Keys of one checkpoint unless it sets its own maximum (promise S3).
pub const KEYS_MAX: usize = 1_000_000;

/// Flows that share one counter fairly, each by itself.
pub const FLOWS_MAX: usize = 1_024;

/// Flows of the same counter that those beyond [`FLOWS_MAX`] share. As many as there are of the others, so that whoever
/// stands in one waits for hardly more than twice as many as if all stood in one line.
pub const SHARED_FLOWS: usize = 1_024;

/// Requests that one call moves; the rest moves in the next call.
pub const STEP_MAX: usize = 256;

/// The most that can be configured in place of [`STEP_MAX`].
pub const STEP_MAX_MAX: usize = 4_096;

/// Requests named by one answer to `why`.
pub const AHEAD_MAX: usize = 16;

/// Requests that wait or run at one time unless configured; one more is turned away.
pub const REQUESTS_MAX: usize = 1_000_000;

/// Attributes of all these together unless configured; what would be more is turned away.
pub const REQUESTS_BYTES_MAX: usize = 1 << 30;

/// Matches of rules that log, reported for one request; further ones are only counted.
pub const LOGS_MAX: usize = 16;
