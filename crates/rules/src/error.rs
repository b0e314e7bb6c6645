//! Why a list of rules cannot be compiled: the rule, the part of it, the place, and the error.

use crate::program::POSITIONS_MAX;
use crate::rule::{CRITERIA_MAX, STEP_MAX};
use paceline_expr::CompileError;
use paceline_types::limits;
use std::fmt;

/// Why a list of rules was not compiled. Nothing was changed.
#[derive(Clone, Debug, PartialEq)]
pub struct CompileRuleError {
    /// The number of the rule.
    pub rule: u32,
    /// The part of the rule.
    pub part: Part,
    /// What is wrong there.
    pub fault: Fault,
}

/// A part of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The rule as a whole.
    Whole,
    /// The criterion with this index, counted from 0 (displayed counted from 1).
    Criterion(usize),
    /// The condition.
    When,
    /// The action.
    Action,
}

/// What is wrong with a part of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The list has more than [`limits::RULES_MAX`] rules.
    TooManyRules,
    /// The number is not higher than that of the previous rule.
    Order,
    /// The rule has more than [`CRITERIA_MAX`] criteria.
    TooManyCriteria,
    /// The pattern is longer than [`limits::PATTERN_BYTES_MAX`].
    PatternTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The pattern cannot be parsed.
    Pattern {
        /// What is wrong.
        message: String,
        /// The byte offset of the error.
        offset: usize,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
    },
    /// The pattern is short but would be too large when compiled (promise R3).
    PatternTooLarge,
    /// All patterns together would be too large when compiled (promise R3).
    ListTooLarge,
    /// The condition cannot be compiled.
    When(CompileError),
    /// A change of priority by 0, or by more than can make a difference.
    Step(u8),
}

impl fmt::Display for CompileRuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}: {}{}", self.rule, self.part, self.fault)
    }
}

impl std::error::Error for CompileRuleError {}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Criterion(index) => write!(f, "criterion {}: ", index + 1),
            Self::When => f.write_str("when: "),
            Self::Action => f.write_str("action: "),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyRules => {
                write!(f, "a list may have at most {} rules", limits::RULES_MAX)
            }
            Self::Order => f.write_str("expected a number higher than that of the rule before"),
            Self::TooManyCriteria => write!(f, "a rule may have at most {CRITERIA_MAX} criteria"),
            Self::PatternTooLong { bytes } => write!(
                f,
                "the pattern has {bytes} bytes, expected at most {}",
                limits::PATTERN_BYTES_MAX
            ),
            Self::Pattern { message, line: 1, column, .. } => {
                write!(f, "column {column}: {message}")
            }
            Self::Pattern { message, line, column, .. } => {
                write!(f, "line {line}, column {column}: {message}")
            }
            Self::PatternTooLarge => write!(
                f,
                "the pattern is too large when compiled, expected at most {} characters with all \
                 repetitions written out, fewer where there are many loops and branches",
                POSITIONS_MAX - 1
            ),
            Self::ListTooLarge => {
                f.write_str("the patterns up to this one are too large together when compiled")
            }
            Self::When(error) => error.fmt(f),
            Self::Step(n) => write!(f, "expected a step of 1 to {STEP_MAX}, not {n}"),
        }
    }
}

/// What is wrong with a pattern, before its rule is known.
impl Fault {
    /// An error at a byte offset of a pattern.
    pub(crate) fn at(pattern: &str, offset: usize, message: impl Into<String>) -> Self {
        let before = pattern.get(..offset).unwrap_or(pattern);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self::Pattern {
            message: message.into(),
            offset,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}
