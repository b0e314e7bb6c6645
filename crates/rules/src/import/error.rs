//! Why a file is not imported, and why a list is not exported.

use super::{
    RULESET_FILE_BYTES_MAX, RULESET_LINE_BYTES_MAX, RULESET_RULES_MAX, RULESET_THREADS_MAX,
};
use std::fmt;

/// Why a file is not imported. Nothing of it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong there.
    pub problem: ImportProblem,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportProblem {
    /// The file is longer than [`RULESET_FILE_BYTES_MAX`].
    FileTooLong,
    /// The line is longer than [`RULESET_LINE_BYTES_MAX`].
    LineTooLong,
    /// A NUL character, or a carriage return that Comdb2 would make part of a pattern.
    Character(char),
    /// Something else is expected here.
    Expected {
        /// What is expected.
        what: &'static str,
        /// What was found; empty at the end of the line.
        found: String,
    },
    /// Version 1 of the format has no pools.
    Version1,
    /// The pool is not defined.
    UnknownPool(String),
    /// No request can reach the pool, because its only priority is 0.
    UnreachablePool(String),
    /// All priorities are taken, so that the pool cannot have one.
    NoPriority(String),
    /// The rule has patterns, but its mode is not exactly one of EXACT, GLOB and REGEXP. Comdb2 never matches it.
    Mode,
    /// The pattern cannot be translated.
    Pattern(String),
}

/// Why a list is not exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportError {
    /// The number of the rule.
    pub rule: u32,
    /// What is wrong with it.
    pub problem: ExportProblem,
}

/// What cannot be expressed in Comdb2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportProblem {
    /// There are more than [`RULESET_RULES_MAX`] rules.
    TooManyRules,
    /// The file with it would be longer than [`RULESET_FILE_BYTES_MAX`].
    TooLong,
    /// It has a condition.
    When,
    /// It raises or lowers.
    Step,
    /// It sets a priority that belongs to no pool.
    NoPool(i8),
    /// It sets a priority of a pool of which another rule sets another priority.
    TwoPriorities(String),
    /// Comdb2 cannot have a pool of this name or with so many threads.
    PoolName(String),
    /// Comdb2 does not know the attribute.
    Attribute(String),
    /// It has several patterns on the same attribute.
    Twice(String),
    /// It matches requests without this attribute.
    MatchesMissing(String),
    /// Its criterion on the priority is not one that Comdb2 has an action for.
    Priority,
    /// The pattern cannot be expressed.
    Pattern {
        /// The attribute.
        attribute: String,
        /// Why.
        message: String,
    },
}

impl ImportError {
    pub(super) fn expected(
        line: usize,
        column: usize,
        what: &'static str,
        found: &str,
    ) -> ImportError {
        // A line can be long; enough of it is quoted to recognize the place.
        let found = found.chars().take(40).collect();
        ImportError { line, column, problem: ImportProblem::Expected { what, found } }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.problem)
    }
}

impl fmt::Display for ImportProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileTooLong => {
                write!(f, "a ruleset file may have at most {RULESET_FILE_BYTES_MAX} bytes")
            }
            Self::LineTooLong => {
                write!(f, "a line may have at most {RULESET_LINE_BYTES_MAX} bytes")
            }
            Self::Character(c) => write!(f, "a pattern may not contain {c:?}"),
            Self::Expected { what, found } if found.is_empty() => {
                write!(f, "expected {what} before the end of the line")
            }
            Self::Expected { what, found } => write!(f, "expected {what}, found {found:?}"),
            Self::Version1 => f.write_str("pools need version 2, but this file has version 1"),
            Self::UnknownPool(name) => write!(
                f,
                "there is no pool {name:?}, expected a pool that exists or is defined above, or \
                 the flag DYN_POOL before it"
            ),
            Self::UnreachablePool(name) => write!(
                f,
                "no request can reach pool {name:?}, because its only priority is 0; expected a \
                 range with another priority, or none"
            ),
            Self::NoPriority(name) => write!(
                f,
                "there is no free priority for pool {name:?}, because other pools own all of them"
            ),
            Self::Mode => f.write_str(
                "Comdb2 never matches this pattern in the mode of its rule, expected exactly one \
                 of EXACT, GLOB and REGEXP",
            ),
            Self::Pattern(message) => f.write_str(message),
        }
    }
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}: {}", self.rule, self.problem)
    }
}

impl fmt::Display for ExportProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyRules => write!(f, "Comdb2 allows at most {RULESET_RULES_MAX} rules"),
            Self::TooLong => write!(
                f,
                "the file is too long up to this rule, expected at most {RULESET_FILE_BYTES_MAX} \
                 bytes"
            ),
            Self::When => f.write_str("Comdb2 has no conditions like those of \"when\""),
            Self::Step => f.write_str(
                "Comdb2 has pools and no priorities, so nothing can be raised or lowered",
            ),
            Self::NoPool(priority) => {
                write!(f, "priority {priority} belongs to no pool, and Comdb2 has only pools")
            }
            Self::TwoPriorities(pool) => write!(
                f,
                "another rule sets another priority of pool {pool:?}, and Comdb2 cannot order the \
                 requests of a pool"
            ),
            Self::PoolName(pool) => write!(
                f,
                "Comdb2 cannot have the pool {pool:?}, expected a name without blanks other than \
                 \"default\", and 1 to {RULESET_THREADS_MAX} threads"
            ),
            Self::Attribute(name) => write!(
                f,
                "Comdb2 has no criterion {name:?}, expected user, host, task, identity, text or \
                 an exact fingerprint"
            ),
            Self::Twice(name) => {
                write!(f, "Comdb2 allows one pattern on {name:?} in a rule, not several")
            }
            Self::MatchesMissing(name) => {
                write!(f, "it matches requests without {name:?}, which Comdb2 never does")
            }
            Self::Priority => f.write_str(
                "Comdb2 has no criterion on the priority, except for undoing a rejection \
                 (\"priority exact 0\" with \"set 0\", where no earlier rule rejects at another \
                 priority)",
            ),
            Self::Pattern { attribute, message } => {
                write!(f, "the pattern on {attribute:?}: {message}")
            }
        }
    }
}

impl std::error::Error for ImportError {}
impl std::error::Error for ExportError {}
