//! The compiled form of an expression: one tree per type, so that evaluation needs no type checks.
//!
//! Owns the node types. Promises that every part which can fail knows its place (`at`) in the text.
//! Evaluation is in [`crate::eval`].

use crate::Counter;
use paceline_types::Name;

/// A whole expression, by its purpose.
#[derive(Debug)]
pub(crate) enum Program {
    Condition(Bool),
    Key(Text),
    Weight(Int),
}

/// Gives a bool.
#[derive(Debug)]
pub(crate) enum Bool {
    Literal(bool),
    All(Box<[Bool]>),
    Any(Box<[Bool]>),
    Not(Box<Bool>),
    /// Whether two bools are equal, or (`false`) differ.
    Same(bool, Box<(Bool, Bool)>),
    Texts(Compare, Box<(Text, Text)>),
    Numbers(Compare, Box<(Number, Number)>),
    /// The list is sorted.
    TextIn(Box<Text>, Box<[Box<str>]>),
    NumberIn(Box<Number>, Box<[Value]>),
    Search(Search, Box<(Text, Text)>),
    If(Box<If<Bool>>),
}

/// Gives an int.
#[derive(Debug)]
pub(crate) enum Int {
    Literal(i64),
    Priority,
    Arithmetic { operator: Arithmetic, at: u32, sides: Box<(Int, Int)> },
    Negate { at: u32, of: Box<Int> },
    Size(Box<Text>),
    FromText { at: u32, of: Box<Text> },
    FromDouble { at: u32, of: Box<Double> },
    Counter(Box<Read>),
    If(Box<If<Int>>),
}

/// Gives a double.
#[derive(Debug)]
pub(crate) enum Double {
    Literal(f64),
    Arithmetic(Arithmetic, Box<(Double, Double)>),
    Negate(Box<Double>),
    FromText { at: u32, of: Box<Text> },
    FromInt(Box<Int>),
    Counter(Box<Read>),
    If(Box<If<Double>>),
}

/// Gives a string.
#[derive(Debug)]
pub(crate) enum Text {
    Literal(Box<str>),
    Attribute(Name),
    Join { at: u32, parts: Box<[Text]> },
    LowerAscii { at: u32, of: Box<Text> },
    UpperAscii { at: u32, of: Box<Text> },
    FromBool(Box<Bool>),
    FromNumber(Box<Number>),
    If(Box<If<Text>>),
}

/// An int or a double.
#[derive(Debug)]
pub(crate) enum Number {
    Int(Int),
    Double(Double),
}

/// The value of an int or a double.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    Int(i64),
    Double(f64),
}

/// `test ? yes : no`.
#[derive(Debug)]
pub(crate) struct If<T> {
    pub test: Bool,
    pub yes: T,
    pub no: T,
}

/// A counter, of one key or of all.
#[derive(Debug)]
pub(crate) struct Read {
    pub counter: Counter,
    pub key: Option<Text>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// The kind of search in a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    Start,
    End,
    Anywhere,
}
