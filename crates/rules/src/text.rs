//! The text form of a rule: one line, the same in scripts, SQL, files and the API.
//!
//! ```text
//! 10 user glob etl-* and text regex nocase "^select" when 'rate("per-user", user) > 100.0' lower 20 stop log
//! ```
//!
//! ```text
//! rule      = [number] [criterion {"and" criterion}] ["when" text] action ["continue" | "stop"] {flag}
//! criterion = attribute ("exact" | "glob" | "regex") ["nocase"] text
//! action    = "nothing" | "set" -127..127 | "raise" 1..254 | "lower" 1..254 | "reject"
//! flag      = "log" | "disabled"
//! ```
//!
//! A rule without a number is new and is added at the end of its list. A rule with neither `continue` nor `stop`
//! stops if it rejects, and continues otherwise. An attribute or a text is written in one of three ways:
//!
//! - bare, if it has no blank, quote, backslash or control character and is not one of the words above (an attribute
//!   that begins with a digit is quoted too); `header["x-user"]` is bare as well, and means `header.x-user`;
//! - `"in double quotes"`, with `\"`, `\\`, `\n`, `\r`, `\t` and `\u{1f}` inside;
//! - `'in single quotes'`, where `''` is a quote and every other character is literal, so that regular expressions
//!   and conditions need no doubled backslashes.
//!
//! The displayed text parses as the same rule. Owns parsing (`read`) and display (`show`).

mod read;
mod show;

use crate::rule::{Action, CRITERIA_MAX, Criterion, Rule};
use paceline_types::NameError;
use std::fmt;

/// The longest text of a rule. The longest rule that can be compiled has a shorter text.
pub const RULE_BYTES_MAX: usize = 2 << 20;

/// Words that must be quoted to be used as texts.
const RESERVED: [&str; 15] = [
    "and", "when", "exact", "glob", "regex", "nocase", "nothing", "set", "raise", "lower",
    "reject", "continue", "stop", "log", "disabled",
];

/// A rule that may not have a number yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRule {
    /// The number, if it was given.
    pub number: Option<u32>,
    /// The rest of the rule; its own number is ignored.
    rule: Rule,
}

/// Why a text is not a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseRuleError {
    /// The column, in characters from 1.
    pub column: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with the text of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Something else is expected here.
    Expected {
        /// What is expected.
        what: &'static str,
        /// What was found; empty at the end of the text.
        found: String,
    },
    /// A quoted text does not end.
    Unclosed,
    /// A backslash in double quotes is followed by a character without a meaning.
    Escape,
    /// The attribute name is invalid.
    Attribute(NameError),
    /// The rule has more than [`CRITERIA_MAX`] criteria.
    TooManyCriteria,
    /// The text is longer than [`RULE_BYTES_MAX`].
    TooLong,
}

impl Rule {
    /// Parses a rule with its number.
    ///
    /// # Errors
    ///
    /// When the text is not a rule or has no number.
    pub fn parse(text: &str) -> Result<Self, ParseRuleError> {
        let new = Self::parse_new(text)?;
        match new.number {
            Some(number) => Ok(new.numbered(number)),
            None => {
                let found = text.split_whitespace().next().unwrap_or_default();
                let column = text.chars().take_while(|c| c.is_whitespace()).count() + 1;
                Err(ParseRuleError::expected(column, "the number of the rule", found))
            }
        }
    }

    /// Parses a rule that may have no number.
    ///
    /// # Errors
    ///
    /// When the text is not a rule.
    pub fn parse_new(text: &str) -> Result<NewRule, ParseRuleError> {
        read::read(text)
    }
}

/// Parses the criteria of a rule, in its text form.
///
/// # Errors
///
/// When the text is not exactly that.
pub fn parse_criteria(text: &str) -> Result<Vec<Criterion>, ParseRuleError> {
    read::read_criteria(text)
}

/// Parses the action of a rule, in its text form.
///
/// # Errors
///
/// When the text is not exactly that.
pub fn parse_action(text: &str) -> Result<Action, ParseRuleError> {
    read::read_action(text)
}

/// The criteria of a rule, in its text form.
#[must_use]
pub fn show_criteria(criteria: &[Criterion]) -> String {
    let each: Vec<String> = criteria.iter().map(ToString::to_string).collect();
    each.join(" and ")
}

impl NewRule {
    /// The rule with this number.
    #[must_use]
    pub fn numbered(self, number: u32) -> Rule {
        Rule { number, ..self.rule }
    }
}

impl From<Rule> for NewRule {
    fn from(rule: Rule) -> Self {
        Self { number: Some(rule.number), rule }
    }
}

impl ParseRuleError {
    fn expected(column: usize, what: &'static str, found: &str) -> Self {
        // A rule can be long; enough of it is quoted to recognize the place.
        let found = found.chars().take(40).collect();
        Self { column, problem: Problem::Expected { what, found } }
    }
}

impl fmt::Display for ParseRuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: ", self.column)?;
        match &self.problem {
            Problem::Expected { what, found } if found.is_empty() => {
                write!(f, "expected {what} before the end")
            }
            Problem::Expected { what, found } => write!(f, "expected {what}, found {found:?}"),
            Problem::Unclosed => f.write_str("this quoted text has no end, expected its quote"),
            Problem::Escape => {
                f.write_str("expected one of \" \\ n r t u{...} after the backslash")
            }
            Problem::Attribute(error) => error.fmt(f),
            Problem::TooManyCriteria => {
                write!(f, "a rule may have at most {CRITERIA_MAX} criteria")
            }
            Problem::TooLong => {
                write!(f, "the text of a rule may have at most {RULE_BYTES_MAX} bytes")
            }
        }
    }
}

impl std::error::Error for ParseRuleError {}

#[cfg(test)]
mod tests;
