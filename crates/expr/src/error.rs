//! Errors of compilation and of evaluation.
//!
//! Owns the two error types. Promises that the place of a compile error is within the text, at the
//! start of a character, and that line and column agree with it.

use crate::STRING_BYTES_MAX;
use std::fmt;

/// Why a text is not an expression, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// What was wrong and what was expected.
    pub message: String,
    /// The place, in bytes from the start of the text.
    pub offset: usize,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl CompileError {
    /// An error at `offset`, or at the end of the text if that is earlier.
    pub(crate) fn new(text: &str, offset: usize, message: impl Into<String>) -> Self {
        let offset = text.floor_char_boundary(offset);
        let before = text.get(..offset).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count();
        let column = before.get(line_start..).unwrap_or_default().chars().count();
        let from_one = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1);
        Self { message: message.into(), offset, line: from_one(line), column: from_one(column) }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for CompileError {}

/// Why an expression has no value. `at` is the place of the failed part in the text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvalError {
    /// An int was divided by zero.
    DivisionByZero {
        /// The place of the operator.
        at: u32,
    },
    /// The result does not fit an int.
    Overflow {
        /// The place of the operator or conversion.
        at: u32,
    },
    /// A string that had to be an int or a double is not one.
    NotANumber {
        /// The place of the conversion.
        at: u32,
    },
    /// The result would be a string longer than [`STRING_BYTES_MAX`].
    TooLong {
        /// The place of the part that produces it.
        at: u32,
    },
    /// The expression was compiled for another kind of result.
    Kind,
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DivisionByZero { at } => write!(f, "division by zero at byte {at}"),
            Self::Overflow { at } => write!(f, "result out of the range of an int at byte {at}"),
            Self::NotANumber { at } => write!(f, "string is not a number at byte {at}"),
            Self::TooLong { at } => {
                write!(f, "string of more than {STRING_BYTES_MAX} bytes at byte {at}")
            }
            Self::Kind => f.write_str("expression was compiled for another kind of result"),
        }
    }
}

impl std::error::Error for EvalError {}
