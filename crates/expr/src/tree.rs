//! The syntax tree of an expression.
//!
//! Owns its structure: the parts of the text, and their places. It has no types and resolves no names:
//! [`crate::check`] does. The parser bounds its depth by [`DEPTH_MAX`](crate::DEPTH_MAX), so walking it may recurse.

use crate::program::{Arithmetic, Compare};

/// A part of an expression. Places count bytes.
#[derive(Debug)]
pub(crate) struct Tree<'a> {
    /// The place of its first token, without brackets around it.
    pub start: usize,
    /// The place of its own sign: the operator, or the opening bracket of a call.
    pub at: usize,
    pub part: Part<'a>,
}

#[derive(Debug)]
pub(crate) enum Part<'a> {
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
    Name(&'a str),
    /// `of.name`.
    Field {
        of: Box<Tree<'a>>,
        name: Word<'a>,
    },
    /// `map[index]`.
    Index(Box<[Tree<'a>; 2]>),
    /// `name(args)` or `target.name(args)`.
    Call {
        target: Option<Box<Tree<'a>>>,
        name: Word<'a>,
        args: Vec<Tree<'a>>,
    },
    List(Vec<Tree<'a>>),
    Not(Box<Tree<'a>>),
    Negate(Box<Tree<'a>>),
    Infix(Infix, Box<[Tree<'a>; 2]>),
    /// A chain of `&&` or of `||`, as one part.
    Logic(Logic, Vec<Tree<'a>>),
    /// `test ? yes : no`.
    Choice(Box<[Tree<'a>; 3]>),
}

/// A name and its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    pub text: &'a str,
    pub start: usize,
}

/// An operator between two sides, except for logic.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Infix {
    Compare(Compare),
    In,
    Arithmetic(Arithmetic),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logic {
    All,
    Any,
}

impl Infix {
    /// The operator with this sign.
    pub fn named(sign: &str) -> Option<Self> {
        Some(match sign {
            "==" => Self::Compare(Compare::Equal),
            "!=" => Self::Compare(Compare::NotEqual),
            "<" => Self::Compare(Compare::Less),
            "<=" => Self::Compare(Compare::LessEqual),
            ">" => Self::Compare(Compare::Greater),
            ">=" => Self::Compare(Compare::GreaterEqual),
            "in" => Self::In,
            "+" => Self::Arithmetic(Arithmetic::Add),
            "-" => Self::Arithmetic(Arithmetic::Subtract),
            "*" => Self::Arithmetic(Arithmetic::Multiply),
            "/" => Self::Arithmetic(Arithmetic::Divide),
            "%" => Self::Arithmetic(Arithmetic::Remainder),
            _ => return None,
        })
    }
}

impl Logic {
    pub fn sign(self) -> &'static str {
        match self {
            Self::All => "`&&`",
            Self::Any => "`||`",
        }
    }
}
