//! One compiled criterion: how a value is matched, and how it can be found.
//!
//! Owns the choice of the cheapest equivalent form: most regular expressions and many globs are fixed texts at a
//! fixed place. Never looks at any other criterion.

use crate::classes::Classes;
use crate::error::Fault;
use crate::fold::Fold;
use crate::glob::{Glob, Parsed};
use crate::literals;
use crate::program::Program;
use crate::rule::{Criterion, PatternMode};
use crate::sets;
use crate::steps;
use memchr::memmem;
use paceline_types::limits;
use regex_syntax::hir::Hir;
use std::sync::Arc;

/// How a value is matched.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// Every value matches.
    Always,
    /// The value is, begins with, ends with or contains this text.
    Text { text: Box<str>, place: Place, folded: bool },
    /// The value matches a glob.
    Glob { glob: Arc<Glob>, folded: bool },
    /// A part of the value matches a regular expression.
    Program(Arc<Program>),
}

/// Where in the value a text must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Whole,
    Start,
    End,
    Anywhere,
}

/// How a matching value can be found.
#[derive(Clone, Debug)]
pub(crate) enum Key {
    /// The folded value equals this text, once the text is folded too.
    Whole(String),
    /// The folded value contains one of these texts, once they are folded too.
    Literals(Vec<String>),
    /// Only the regular expression itself.
    Expression(Arc<Hir>),
}

/// A compiled criterion with all ways to find it.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) pattern: Pattern,
    pub(crate) keys: Vec<Key>,
}

impl Pattern {
    /// Whether a value matches; `folded` is its folded form.
    pub(crate) fn matches(&self, value: &str, folded: &str) -> bool {
        let chosen = |f: &bool| if *f { folded } else { value };
        match self {
            Self::Always => true,
            Self::Text { text, place, folded } => place.matches(text, chosen(folded)),
            Self::Glob { glob, folded } => glob.matches(chosen(folded)),
            Self::Program(program) => program.matches(value),
        }
    }

    /// Whether [`Self::matches`] reads the folded form.
    pub(crate) fn reads_folded(&self) -> bool {
        matches!(self, Self::Text { folded: true, .. } | Self::Glob { folded: true, .. })
    }

    /// The approximate cost of matching: cheap criteria are tried first.
    pub(crate) fn cost(&self) -> u8 {
        match self {
            Self::Always => 0,
            Self::Text { place: Place::Anywhere, .. } => 2,
            Self::Text { .. } => 1,
            Self::Glob { .. } => 3,
            Self::Program(_) => 4,
        }
    }
}

impl Place {
    fn matches(self, text: &str, value: &str) -> bool {
        match self {
            Self::Whole => value == text,
            Self::Start => value.starts_with(text),
            Self::End => value.ends_with(text),
            Self::Anywhere => memmem::find(value.as_bytes(), text.as_bytes()).is_some(),
        }
    }
}

impl Compiled {
    /// Compiles a criterion. Characters that it accepts in either case are added to `fold`.
    pub(crate) fn new(
        criterion: &Criterion,
        fold: &mut Fold,
        classes: &mut Classes,
    ) -> Result<Self, Fault> {
        let bytes = criterion.pattern.len();
        if bytes > limits::PATTERN_BYTES_MAX {
            return Err(Fault::PatternTooLong { bytes });
        }
        match criterion.mode {
            PatternMode::Exact => Ok(Self::exact(criterion, fold)),
            PatternMode::Glob => Self::glob(criterion, fold, classes),
            PatternMode::Regex => Self::regex(criterion, fold, classes),
        }
    }

    fn exact(criterion: &Criterion, fold: &mut Fold) -> Self {
        let folded = criterion.nocase;
        let text =
            if folded { fold.learn_text(&criterion.pattern) } else { criterion.pattern.clone() };
        Self::text(text, Place::Whole, folded)
    }

    fn text(text: String, place: Place, folded: bool) -> Self {
        if text.is_empty() && place != Place::Whole {
            return Self { pattern: Pattern::Always, keys: vec![] };
        }
        let key = match place {
            Place::Whole => Key::Whole(text.clone()),
            _ => Key::Literals(vec![text.clone()]),
        };
        Self { pattern: Pattern::Text { text: text.into(), place, folded }, keys: vec![key] }
    }

    fn glob(criterion: &Criterion, fold: &mut Fold, classes: &mut Classes) -> Result<Self, Fault> {
        let folded = criterion.nocase;
        let glob = Parsed::new(&criterion.pattern, folded.then_some(fold))?;
        if glob.is_always() {
            return Ok(Self { pattern: Pattern::Always, keys: vec![] });
        }
        if let Some(text) = glob.only_text() {
            return Ok(Self::text(text, Place::Whole, folded));
        }
        let compiled = Arc::new(glob.compile(classes)?);
        let mut keys: Vec<Key> =
            glob.literals().into_iter().map(|text| Key::Literals(vec![text])).collect();
        if keys.is_empty() {
            // A glob without literals has only sets, which accept a character in either form.
            keys.push(Key::Expression(Arc::new(sets::simpler(&glob.expression()))));
        }
        Ok(Self { pattern: Pattern::Glob { glob: compiled, folded }, keys })
    }

    fn regex(criterion: &Criterion, fold: &mut Fold, classes: &mut Classes) -> Result<Self, Fault> {
        let hir = steps::parse(&criterion.pattern, criterion.nocase)?;
        let properties = hir.properties();
        if properties.minimum_len() == Some(0) && properties.look_set().is_empty() {
            // It matches the empty text, which every value contains. The bounds on its size still apply.
            Program::compile(&hir, classes)?;
            return Ok(Self { pattern: Pattern::Always, keys: vec![] });
        }
        if let Some(fixed) = literals::fixed(&hir, fold) {
            let place = match (fixed.at_start, fixed.at_end) {
                (true, true) => Place::Whole,
                (true, false) => Place::Start,
                (false, true) => Place::End,
                (false, false) => Place::Anywhere,
            };
            return Ok(Self::text(fixed.text, place, fixed.folded));
        }
        let pattern = Pattern::Program(Arc::new(Program::compile(&hir, classes)?));
        let required = literals::required(&hir, fold);
        let keys = if required.is_empty() {
            // The whole expression may be thousands of times as large as its text.
            vec![Key::Expression(Arc::new(sets::simpler(&hir)))]
        } else {
            required.into_iter().map(Key::Literals).collect()
        };
        Ok(Self { pattern, keys })
    }
}
