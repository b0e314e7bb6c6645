//! The definition of a rule: criteria, a result, and whether the next rules are tried.
//!
//! Owns plain values that can be compared; nothing here is compiled or checked. [`Action`] and [`Then`] together are
//! the ten results of the seed.

use paceline_types::{Name, Priority};

/// The most criteria of one rule.
pub const CRITERIA_MAX: usize = 64;

/// The most that one rule raises or lowers: from -127 to 127. The least is 1, because a change by 0 has its own word,
/// [`Action::Nothing`].
pub const STEP_MAX: u8 = 254;

/// One rule of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its place in the list: rules are tried in ascending order of numbers.
    pub number: u32,
    /// Patterns that must all match; without any, every request matches.
    pub criteria: Vec<Criterion>,
    /// A condition that must hold too.
    pub when: Option<String>,
    /// What happens to the request.
    pub action: Action,
    /// Whether the next rules are tried.
    pub then: Then,
    /// Whether it is skipped.
    pub disabled: bool,
    /// Whether a match is logged.
    pub log: bool,
}

/// A pattern that an attribute must match. A missing attribute is `""`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Criterion {
    /// The attribute. For `priority` it is the decimal text of the current priority.
    pub attribute: Name,
    /// The notation of the pattern.
    pub mode: PatternMode,
    /// Whether case is ignored, by Unicode simple case folding in every mode.
    pub nocase: bool,
    /// The pattern.
    pub pattern: String,
}

/// The notation of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PatternMode {
    /// The whole text equals the pattern.
    Exact,
    /// The whole text matches, with `*`, `?`, `[abc]`, `[a-z]`, `[!x]` and `\` before a literal character.
    Glob,
    /// A part of the text matches the regular expression.
    Regex,
}

/// What a matching rule does to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Nothing,
    /// Gives it this priority, even if it was rejected.
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
    /// The default for a rule that does not say it: a rejection stops, so that no later rule undoes it by accident.
    #[must_use]
    pub const fn then(self) -> Then {
        match self {
            Self::Reject => Then::Stop,
            _ => Then::Continue,
        }
    }
}

impl Rule {
    /// Whether this rule matches what the other one does. Then it keeps its counts, whatever its result and flags are.
    #[must_use]
    pub fn matches_the_same(&self, other: &Self) -> bool {
        self.number == other.number && self.when == other.when && self.criteria == other.criteria
    }
}
