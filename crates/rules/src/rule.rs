//! What a rule is: criteria, a result, and whether the next rules are tried.
//!
//! Owns plain values that can be compared; nothing here is compiled or checked. Together [`Action`]
//! and [`Then`] are the ten results of the seed.

use paceline_types::{Name, Priority};

/// Most criteria of one rule.
pub const CRITERIA_MAX: usize = 64;

/// Most that one rule raises or lowers: from -127 to 127. The least is 1, because a change by
/// nothing has its own word, [`Action::Nothing`].
pub const STEP_MAX: u8 = 254;

/// One rule of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its place in the list: rules are tried by rising number.
    pub number: u32,
    /// Patterns that must all match; none means that every request matches.
    pub criteria: Vec<Criterion>,
    /// A condition that must hold too.
    pub when: Option<String>,
    /// What happens to the request.
    pub action: Action,
    /// Whether the next rules are tried.
    pub then: Then,
    /// Whether it is left out.
    pub disabled: bool,
    /// Whether a match is logged.
    pub log: bool,
}

/// A pattern that an attribute must match. A missing attribute is `""`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Criterion {
    /// The attribute. For `priority` it is the decimal text of the priority so far.
    pub attribute: Name,
    /// How the pattern is written.
    pub mode: PatternMode,
    /// Whether upper and lower case are the same, by Unicode simple case folding in every mode.
    pub nocase: bool,
    /// The pattern.
    pub pattern: String,
}

/// How a pattern is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PatternMode {
    /// The whole text equals the pattern.
    Exact,
    /// The whole text matches, with `*`, `?`, `[abc]`, `[a-z]`, `[!x]` and `\` before a character
    /// that stands for itself.
    Glob,
    /// A part of the text matches the regular expression.
    Regex,
}

/// What a matching rule does to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Nothing,
    /// Gives it this priority, also if it was rejected.
    Set(Priority),
    /// Raises the priority, up to 127. A rejected request stays rejected.
    Raise(u8),
    /// Lowers the priority, down to -127. A rejected request stays rejected.
    Lower(u8),
    /// Rejects it.
    Reject,
}

/// What follows a matching rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The next rules are tried.
    Continue,
    /// The next rules are skipped.
    Stop,
}

impl Action {
    /// What follows a rule that does not say it: nothing may undo a rejection unless that is meant.
    #[must_use]
    pub const fn then(self) -> Then {
        match self {
            Self::Reject => Then::Stop,
            _ => Then::Continue,
        }
    }
}

impl Rule {
    /// Whether this is the same rule but for its flags: then its counts go on.
    #[must_use]
    pub fn same_but_flags(&self, other: &Self) -> bool {
        self.number == other.number
            && self.action == other.action
            && self.then == other.then
            && self.when == other.when
            && self.criteria == other.criteria
    }
}
