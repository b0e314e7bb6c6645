//! Comdb2's `.ruleset` files, versions 1 and 2: reading one as rules and pools, and writing rules as one.
//!
//! Owns the syntax of the files (`read`), Comdb2's notation of patterns (`glob`, `regexp`), the priorities of its pools
//! (`pools`), and the translation in both directions (`map`, `write`). Promises:
//!
//! - All or nothing: a file is imported completely, or not at all with an error that has its line and column.
//! - What cannot be expressed on the other side is an error, in both directions.
//! - An imported list decides on SQL as Comdb2 does: the same pool, or rejected. Importing an exported list gives a list
//!   that decides on SQL as the original one does. One exception: without case, the Kelvin sign and the long s equal
//!   k and s here, and not in Comdb2.
//! - Files, lines and numbers are bounded.
//!
//! ```text
//! version 2
//! pool reports threads 2
//! rule 1 action SET_POOL pool reports flags {STOP}; mode {REGEXP NOCASE}; sql ^SELECT.*GROUP BY
//! ```
//!
//! What each part becomes:
//!
//! | Comdb2 | here |
//! | --- | --- |
//! | every rule | `kind exact sql`: Comdb2 governs nothing else |
//! | `SET_POOL p` | `set` a priority of the pool; `set 0` for `default` or no pool |
//! | `REJECT`, `REJECT_ALL` | `reject`: there is no other node on which a client could retry |
//! | `UNREJECT` | `set 0`, under conditions (see `map`) |
//! | `NONE` | `nothing` |
//! | `STOP`, `PRINT`, `DISABLE` | `stop`, `log`, `disabled`; without `STOP` always `continue` |
//! | `DYN_POOL` | a pool of one thread, proposed like those that the file defines |
//! | `originHost`, `originTask`, `user`, `identity` | `host`, `task`, `user`, `identity`; a missing one never matches |
//! | `sql`, `fingerprint` | `text`, `fingerprint` in lower case |
//! | `NOCASE` | `nocase`; where Comdb2 respects the case of letters other than A to Z, both cases are written out |
//!
//! Comdb2's pools have no priorities. A pool that is not known, or has no range, is proposed a range of one priority:
//! the first free one of -1, -2, ... -127, and then of 1, 2, ... 127, so that a pool which sets work aside does not
//! overtake the default pool. In a pool with a range, the priority nearest to 0 is set.
//!
//! Never creates a pool, and never reads a file itself.

mod error;
mod glob;
mod map;
mod pools;
mod read;
mod regexp;
mod write;

pub use error::{ExportError, ExportProblem, ImportError, ImportProblem};

use crate::rule::Rule;
use paceline_types::Priority;

/// The longest file.
pub const RULESET_FILE_BYTES_MAX: usize = 4 << 20;

/// The longest line.
pub const RULESET_LINE_BYTES_MAX: usize = 64 << 10;

/// The highest number of a rule in Comdb2, and so the most rules.
pub const RULESET_RULES_MAX: u32 = 1_000;

/// The most threads of a pool in a file.
pub const RULESET_THREADS_MAX: u32 = 1_000_000;

/// The name of Comdb2's default pool, and of ours. Comdb2 ignores its case.
const DEFAULT_POOL: &str = "default";

/// A pool that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPool {
    /// The name.
    pub name: String,
    /// The priorities that it runs, both ends included, if it has a range.
    pub range: Option<(Priority, Priority)>,
    /// The most threads, if they are limited. Only written.
    pub threads: Option<u32>,
}

/// A pool that an imported list needs, with a range that is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedPool {
    /// The name.
    pub name: String,
    /// The most threads, if the file says it.
    pub threads: Option<u32>,
    /// The proposed range, both ends included.
    pub range: (Priority, Priority),
    /// Whether the pool exists and only lacks a range.
    pub exists: bool,
}

/// An imported file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The rules, in order of their numbers.
    pub rules: Vec<Rule>,
    /// The pools that must be created or given a range, in order of their first mention.
    pub pools: Vec<ProposedPool>,
    /// What the numbers in the file were multiplied by: 10 if some rule became two rules, otherwise 1.
    pub scale: u32,
}

/// Reads a file.
///
/// # Errors
///
/// When a part of it is not valid or cannot be expressed. The error says where and why.
pub fn import_ruleset(text: &str, known: &[KnownPool]) -> Result<Imported, ImportError> {
    let file = read::read(text, known)?;
    map::map(&file, known)
}

/// Writes a list of rules as a file of version 2. Comdb2 sees only SQL, so what the rules do to other requests is not
/// written. The rules keep their numbers if Comdb2 allows all of them, and are numbered from 1 otherwise.
///
/// # Errors
///
/// When a rule cannot be expressed. The error says which and why.
pub fn export_ruleset(rules: &[Rule], pools: &[KnownPool]) -> Result<String, ExportError> {
    write::write(rules, pools)
}

#[cfg(test)]
mod tests;
