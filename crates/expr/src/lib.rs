//! The expression language: compile, check, evaluate within bounds.
//!
//! Conditions, keys and weights are written in a subset of CEL. [`compile`] parses a text once, checks it against the
//! table of attributes and turns it into a small typed tree; [`Expr`] evaluates that tree. Promises that a text which
//! compiles has no type error left, that every compile error has its exact place, that the time of evaluation is
//! bounded by the length of text and attributes, and that neither ever panics. Never loops, never calls back into the
//! parser.
//!
//! | part | what there is |
//! |---|---|
//! | literals | `true` `false`; `7` `-7` `0x1f` `7u` (int); `1.5` `2e3` (double); `"a"` `'a'` `r"\d"` `"""a"""` (string) |
//! | attributes | `kind` `user` `host` `task` `text` `method` `path` `query` `authority` `sni` `client` `frontend` `backend` `server` `database` `fingerprint` (string); `priority` (int) |
//! | maps | `header["x-user"]` or `header.x-user`, likewise `cookie`, `tag`; `attr["name"]` for any other attribute the caller sends. The index is a string literal; header names are lower-cased |
//! | logic | `&&` `\|\|` `!` on bool; `c ? a : b` |
//! | comparison | `==` `!=` on all types; `<` `<=` `>` `>=` on numbers and strings; `x in [..]` with a list of literals |
//! | arithmetic | `+` `-` `*` `/` on two ints or two doubles, `%` on ints, unary `-`; `+` joins strings |
//! | strings | `a.startsWith(b)` `a.endsWith(b)` `a.contains(b)` `a.lowerAscii()` `a.upperAscii()` `a.size()` `size(a)` (in characters) |
//! | conversion | `string(x)` `int(x)` `double(x)` |
//! | counters | `rate(checkpoint[, key])` (double); `inflight(checkpoint[, key])` `queued(checkpoint[, key])` `running(pool)` `waiting(pool)` (int). The first argument is a string literal that names what exists, the key any string |
//!
//! A missing attribute is `""`. As in CEL, `&&` and `||` stop at the side that decides, and an error
//! on the other side does not matter: `1 / 0 > 0 || true` is true. The one extension: an int and a
//! double may be compared with each other (`rate("a") > 100`); they are compared exactly.
//!
//! Not supported: macros (`all`, `exists`, `map`, `filter`, `has`), `matches` (a rule's regex pattern does that),
//! maps, messages, bytes, null, and `!!a` or `--a`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod call;
mod check;
mod error;
mod eval;
mod hazard;
mod level;
mod literal;
mod name;
mod number;
mod operator;
mod parse;
mod program;
mod tokens;
mod tree;

#[cfg(test)]
mod tests;

pub use error::{CompileError, EvalError};
pub use hazard::{Hazard, HazardKind};
use paceline_types::{CheckpointId, Name, PoolId, Priority, limits};
use program::Program;
use std::borrow::Cow;
use std::sync::Arc;

/// The most brackets that may be open at once.
pub const BRACKETS_MAX: usize = 32;

/// The most levels of an expression: brackets, operators in a row and `? :` in a row together.
pub const DEPTH_MAX: usize = 64;

/// The longest string that an expression may produce. Attributes that it only reads may be longer.
pub const STRING_BYTES_MAX: usize = 64 << 10;

/// The highest weight. A higher result counts as this one, a result below 1 as 1.
pub const WEIGHT_MAX: u32 = 10_000;

/// What an expression can name besides attributes.
pub trait Scope {
    /// The checkpoint with this name.
    fn checkpoint(&self, name: &str) -> Option<CheckpointId>;
    /// The pool with this name.
    fn pool(&self, name: &str) -> Option<PoolId>;
    /// Every name of a checkpoint or pool, to suggest one for a misspelt name.
    fn names(&self) -> Vec<&str>;
}

/// The purpose of an expression, which decides the type of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A bool.
    Condition,
    /// A string; an int, double or bool is converted to one.
    Key,
    /// An int; a value outside 1 to [`WEIGHT_MAX`] counts as the nearer bound.
    Weight,
}

/// A figure that an expression reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counter {
    /// Arrivals per second at a checkpoint, refused ones included.
    Rate(CheckpointId),
    /// Requests that passed a checkpoint and are not settled.
    Inflight(CheckpointId),
    /// Requests that wait at a checkpoint.
    Queued(CheckpointId),
    /// Requests that run in a pool.
    Running(PoolId),
    /// Requests that wait for a pool.
    Waiting(PoolId),
}

/// The input of an evaluation.
pub trait Input {
    /// The value of an attribute, `""` if it is missing. Never called for the priority.
    fn attribute(&self, name: &Name) -> &str;
    /// The request's current priority.
    fn priority(&self) -> Priority;
    /// The current value of a counter: of one key, or of the whole checkpoint or pool.
    fn counter(&self, counter: Counter, key: Option<&str>) -> f64;
}

/// A compiled expression, cheap to clone.
///
/// Two expressions are equal when text and kind are equal; the ids of their counters are not compared.
#[derive(Clone, Debug)]
pub struct Expr(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    text: Box<str>,
    program: Program,
    reads: Reads,
}

/// What a program reads, each once, in the order of first occurrence.
#[derive(Debug, Default)]
struct Reads {
    attributes: Vec<Name>,
    counters: Vec<(Counter, Box<str>)>,
    priority: bool,
}

/// Compiles a text.
///
/// # Errors
///
/// When the text is longer than [`limits::EXPRESSION_BYTES_MAX`], nests too deeply, is not an expression of the
/// language, has a type error or names something that does not exist.
pub fn compile(text: &str, kind: Kind, scope: &dyn Scope) -> Result<Expr, CompileError> {
    if text.len() > limits::EXPRESSION_BYTES_MAX {
        let message =
            format!("an expression may have at most {} bytes", limits::EXPRESSION_BYTES_MAX);
        let end = text.floor_char_boundary(limits::EXPRESSION_BYTES_MAX);
        return Err(CompileError::new(text, end, message));
    }
    let tokens = tokens::split(text)?;
    let tree = parse::parse(text, &tokens)?;
    let (program, reads) = check::check(&tree, kind, text, scope)?;
    Ok(Expr(Arc::new(Compiled { text: text.into(), program, reads })))
}

impl Expr {
    /// The text it was compiled from.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Its purpose.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.0.program {
            Program::Condition(_) => Kind::Condition,
            Program::Key(_) => Kind::Key,
            Program::Weight(_) => Kind::Weight,
        }
    }

    /// Whether the condition holds.
    ///
    /// # Errors
    ///
    /// When evaluation fails, or this is not a condition.
    pub fn condition(&self, input: &impl Input) -> Result<bool, EvalError> {
        match &self.0.program {
            Program::Condition(program) => program.eval(input),
            _ => Err(EvalError::Kind),
        }
    }

    /// The key. A key that is just an attribute or a literal is borrowed.
    ///
    /// # Errors
    ///
    /// When evaluation fails, or this is not a key.
    pub fn key<'a>(&'a self, input: &'a impl Input) -> Result<Cow<'a, str>, EvalError> {
        match &self.0.program {
            Program::Key(program) => program.eval(input),
            _ => Err(EvalError::Kind),
        }
    }

    /// The weight, from 1 to [`WEIGHT_MAX`].
    ///
    /// # Errors
    ///
    /// When evaluation fails, or this is not a weight.
    pub fn weight(&self, input: &impl Input) -> Result<u32, EvalError> {
        match &self.0.program {
            Program::Weight(program) => {
                let weight = program.eval(input)?.clamp(1, i64::from(WEIGHT_MAX));
                Ok(u32::try_from(weight).unwrap_or(WEIGHT_MAX))
            }
            _ => Err(EvalError::Kind),
        }
    }

    /// Whether it reads any counter.
    #[must_use]
    pub fn reads_counters(&self) -> bool {
        !self.0.reads.counters.is_empty()
    }

    /// Whether it reads the priority.
    #[must_use]
    pub fn reads_priority(&self) -> bool {
        self.0.reads.priority
    }

    /// Every counter it reads, once, with the name of its checkpoint or pool.
    pub fn counters(&self) -> impl Iterator<Item = (Counter, &str)> {
        self.0.reads.counters.iter().map(|(counter, name)| (*counter, &**name))
    }

    /// Its parts that can fail on values of a request.
    #[must_use]
    pub fn hazards(&self) -> Vec<Hazard<'_>> {
        hazard::hazards(&self.0.program)
    }

    /// Every attribute it reads, once; the priority is not among them.
    pub fn attributes(&self) -> impl Iterator<Item = &Name> {
        self.0.reads.attributes.iter()
    }
}

impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text() && self.kind() == other.kind()
    }
}

impl Eq for Expr {}
