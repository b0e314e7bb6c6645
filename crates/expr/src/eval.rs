//! Evaluates a compiled expression.
//!
//! Promises to visit each part at most once, to recurse little deeper than [`crate::DEPTH_MAX`], to borrow attributes
//! and literals instead of copying them, and to produce no string longer than [`STRING_BYTES_MAX`].

use crate::number::whole;
use crate::program::{Bool, Double, If, Int, Number, Read, Search, Text, Value};
use crate::{EvalError, Input, STRING_BYTES_MAX};
use std::borrow::Cow;

impl Bool {
    pub fn eval<I: Input>(&self, input: &I) -> Result<bool, EvalError> {
        match self {
            Self::Literal(value) => Ok(*value),
            Self::All(parts) => decide(parts, input, false),
            Self::Any(parts) => decide(parts, input, true),
            Self::Not(of) => Ok(!of.eval(input)?),
            Self::Same(same, sides) => Ok((sides.0.eval(input)? == sides.1.eval(input)?) == *same),
            Self::Texts(compare, sides) => {
                Ok(compare.texts(&sides.0.eval(input)?, &sides.1.eval(input)?))
            }
            Self::Numbers(compare, sides) => {
                let order = sides.0.eval(input)?.order(sides.1.eval(input)?);
                Ok(compare.holds(order))
            }
            Self::TextIn(text, list) => {
                let text = text.eval(input)?;
                Ok(list.binary_search_by(|element| (**element).cmp(&text)).is_ok())
            }
            Self::NumberIn(number, list) => {
                let number = number.eval(input)?;
                Ok(list.iter().any(|element| number.order(*element).is_some_and(|o| o.is_eq())))
            }
            Self::Search(search, sides) => {
                let (text, part) = (sides.0.eval(input)?, sides.1.eval(input)?);
                Ok(search.finds(&text, &part))
            }
            Self::If(choice) => choice.choose(input)?.eval(input),
        }
    }
}

/// The first part that equals `deciding` decides; an error counts only if no part does.
fn decide<I: Input>(parts: &[Bool], input: &I, deciding: bool) -> Result<bool, EvalError> {
    let mut result = Ok(!deciding);
    for part in parts {
        match part.eval(input) {
            Ok(value) if value == deciding => return Ok(deciding),
            Err(error) if result.is_ok() => result = Err(error),
            _ => {}
        }
    }
    result
}

impl Int {
    pub fn eval<I: Input>(&self, input: &I) -> Result<i64, EvalError> {
        match self {
            Self::Literal(value) => Ok(*value),
            Self::Priority => Ok(i64::from(input.priority().number())),
            Self::Arithmetic { operator, at, sides } => {
                operator.ints(sides.0.eval(input)?, sides.1.eval(input)?, *at)
            }
            Self::Negate { at, of } => {
                of.eval(input)?.checked_neg().ok_or(EvalError::Overflow { at: *at })
            }
            Self::Size(of) => {
                Ok(i64::try_from(of.eval(input)?.chars().count()).unwrap_or(i64::MAX))
            }
            Self::FromText { at, of } => {
                of.eval(input)?.parse().map_err(|_| EvalError::NotANumber { at: *at })
            }
            Self::FromDouble { at, of } => {
                whole(of.eval(input)?).ok_or(EvalError::Overflow { at: *at })
            }
            // A count is a whole number; if it is not, the cast saturates.
            Self::Counter(read) => Ok(read.eval(input)? as i64),
            Self::If(choice) => choice.choose(input)?.eval(input),
        }
    }
}

impl Double {
    pub fn eval<I: Input>(&self, input: &I) -> Result<f64, EvalError> {
        match self {
            Self::Literal(value) => Ok(*value),
            Self::Arithmetic(operator, sides) => {
                Ok(operator.doubles(sides.0.eval(input)?, sides.1.eval(input)?))
            }
            Self::Negate(of) => Ok(-of.eval(input)?),
            Self::FromText { at, of } => {
                of.eval(input)?.parse().map_err(|_| EvalError::NotANumber { at: *at })
            }
            Self::FromInt(of) => Ok(of.eval(input)? as f64),
            Self::Counter(read) => read.eval(input),
            Self::If(choice) => choice.choose(input)?.eval(input),
        }
    }
}

impl Text {
    pub fn eval<'a, I: Input>(&'a self, input: &'a I) -> Result<Cow<'a, str>, EvalError> {
        match self {
            Self::Literal(text) => Ok(Cow::Borrowed(text)),
            Self::Attribute(name) => Ok(Cow::Borrowed(input.attribute(name))),
            Self::Join { at, parts } => join(parts, input, *at),
            Self::LowerAscii { at, of } => {
                let text = of.eval(input)?;
                let upper = |byte: u8| byte.is_ascii_uppercase();
                change(text, *at, upper, str::make_ascii_lowercase)
            }
            Self::UpperAscii { at, of } => {
                let text = of.eval(input)?;
                let lower = |byte: u8| byte.is_ascii_lowercase();
                change(text, *at, lower, str::make_ascii_uppercase)
            }
            Self::FromBool(of) => Ok(Cow::Borrowed(if of.eval(input)? { "true" } else { "false" })),
            Self::FromNumber(of) => Ok(Cow::Owned(match of.eval(input)? {
                Value::Int(value) => value.to_string(),
                Value::Double(value) => value.to_string(),
            })),
            Self::If(choice) => choice.choose(input)?.eval(input),
        }
    }
}

fn join<'a, I: Input>(parts: &'a [Text], input: &'a I, at: u32) -> Result<Cow<'a, str>, EvalError> {
    let mut joined = String::new();
    for part in parts {
        let part = part.eval(input)?;
        if joined.len() + part.len() > STRING_BYTES_MAX {
            return Err(EvalError::TooLong { at });
        }
        joined.push_str(&part);
    }
    Ok(Cow::Owned(joined))
}

/// Copies a borrowed text only if the change affects it.
fn change(
    text: Cow<'_, str>,
    at: u32,
    changes: fn(u8) -> bool,
    change: fn(&mut str),
) -> Result<Cow<'_, str>, EvalError> {
    if !text.bytes().any(changes) {
        return Ok(text);
    }
    if text.len() > STRING_BYTES_MAX {
        return Err(EvalError::TooLong { at });
    }
    let mut text = text.into_owned();
    change(&mut text);
    Ok(Cow::Owned(text))
}

impl Number {
    pub fn eval<I: Input>(&self, input: &I) -> Result<Value, EvalError> {
        match self {
            Self::Int(int) => int.eval(input).map(Value::Int),
            Self::Double(double) => double.eval(input).map(Value::Double),
        }
    }
}

impl Search {
    fn finds(self, text: &str, part: &str) -> bool {
        match self {
            Self::Start => text.starts_with(part),
            Self::End => text.ends_with(part),
            Self::Anywhere => text.contains(part),
        }
    }
}

impl<T> If<T> {
    fn choose<I: Input>(&self, input: &I) -> Result<&T, EvalError> {
        Ok(if self.test.eval(input)? { &self.yes } else { &self.no })
    }
}

impl Read {
    fn eval<I: Input>(&self, input: &I) -> Result<f64, EvalError> {
        let key = match &self.key {
            Some(key) => Some(key.eval(input)?),
            None => None,
        };
        Ok(input.counter(self.counter, key.as_deref()))
    }
}
