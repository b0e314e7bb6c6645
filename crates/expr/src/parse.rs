//! Calls the parser, and finds the places of its nodes in the text.
//!
//! Owns all that is known of how the `cel` crate reports errors and places: the offsets of nodes count
//! bytes, the columns of errors count characters. Only texts that passed [`crate::grammar`] come here.

use crate::CompileError;
use crate::tokens::{Kind, Token};
use cel::common::ast::{Expr, IdedExpr, LiteralValue, SourceInfo, operators};
use cel::parser::{ParseError, Parser};

/// A parsed text: its tokens, and where each node stands.
pub(crate) struct Source<'a> {
    text: &'a str,
    tokens: &'a [Token<'a>],
    info: SourceInfo,
}

/// Parses a text into the tree of the `cel` crate.
pub(crate) fn parse<'a>(
    text: &'a str,
    tokens: &'a [Token<'a>],
) -> Result<(IdedExpr, Source<'a>), CompileError> {
    match Parser::new().parse_with_source_info(text) {
        Ok((tree, info)) => Ok((tree, Source { text, tokens, info })),
        Err(errors) => Err(errors.errors.first().map_or_else(
            || CompileError::new(text, 0, "not an expression"),
            |first| refusal(text, tokens, first),
        )),
    }
}

/// What is left for the parser to refuse is a number that does not fit its type.
fn refusal(text: &str, tokens: &[Token<'_>], error: &ParseError) -> CompileError {
    let offset = offset(text, error.pos.0, error.pos.1);
    let token = tokens.iter().find(|token| token.start == offset);
    let message = match token {
        Some(Token { kind: Kind::Number, text, .. }) => format!("number {text} is out of range"),
        Some(Token { text, .. }) => format!("unexpected `{text}`"),
        None => "not an expression".to_owned(),
    };
    CompileError::new(text, offset, message)
}

/// The byte where a line and a column, both from 1, are.
fn offset(text: &str, line: isize, column: isize) -> usize {
    let before = |number: isize| usize::try_from(number - 1).unwrap_or(0);
    let start: usize = text.split_inclusive('\n').take(before(line)).map(str::len).sum();
    let rest = text.get(start..).unwrap_or_default();
    rest.char_indices().nth(before(column)).map_or(text.len(), |(at, _)| start + at)
}

impl Source<'_> {
    /// An error at the start of an expression.
    pub fn error(&self, expr: &IdedExpr, message: impl Into<String>) -> CompileError {
        CompileError::new(self.text, self.start(expr), message)
    }

    /// An error at the name of a called function or selected field.
    pub fn error_at_name(&self, expr: &IdedExpr, message: impl Into<String>) -> CompileError {
        CompileError::new(self.text, self.name(expr), message)
    }

    /// Where the sign or word of the node itself stands.
    pub fn at(&self, expr: &IdedExpr) -> u32 {
        self.info.offset_for(expr.id).map_or(0, |(start, _)| start)
    }

    /// Where the first token of an expression stands, but for brackets around it.
    fn start(&self, expr: &IdedExpr) -> usize {
        let own = self.at(expr) as usize;
        match &expr.expr {
            Expr::Select(select) => self.start(&select.operand),
            Expr::Call(call) => match (&call.target, call.args.first()) {
                (Some(target), _) => self.start(target),
                (None, Some(first)) if is_infix(&call.func_name) => self.start(first),
                _ if is_prefix(&call.func_name) => own,
                _ => self.name(expr),
            },
            Expr::Literal(LiteralValue::Int(_) | LiteralValue::Double(_)) => {
                let before = self.index(own).checked_sub(1).and_then(|i| self.tokens.get(i));
                let sign = before.filter(|before| before.text == "-" && self.is_sign(expr));
                sign.map_or(own, |sign| sign.start)
            }
            _ => own,
        }
    }

    /// Whether the `-` before a number belongs to it.
    fn is_sign(&self, expr: &IdedExpr) -> bool {
        match &expr.expr {
            Expr::Literal(LiteralValue::Int(int)) => *int.inner() < 0,
            Expr::Literal(LiteralValue::Double(double)) => double.inner().is_sign_negative(),
            _ => false,
        }
    }

    /// The parser places a call at its bracket and a field at its dot.
    fn name(&self, expr: &IdedExpr) -> usize {
        let own = self.at(expr) as usize;
        let index = match &expr.expr {
            Expr::Select(_) => self.index(own) + 1,
            _ => self.index(own).saturating_sub(1),
        };
        self.tokens.get(index).map_or(own, |token| token.start)
    }

    fn index(&self, offset: usize) -> usize {
        self.tokens.partition_point(|token| token.start < offset)
    }
}

fn is_prefix(function: &str) -> bool {
    function == operators::LOGICAL_NOT || function == operators::NEGATE
}

/// Operators have names that no function can have.
fn is_infix(function: &str) -> bool {
    !is_prefix(function)
        && (function.starts_with("_") && function.ends_with(['_', ']'])
            || function == operators::IN)
}
