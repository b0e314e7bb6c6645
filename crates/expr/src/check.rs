//! Checks a parsed expression against the attributes and turns it into a program.
//!
//! Owns what literals, variables and maps mean. All attributes are strings, so the type of every part
//! is known here, and evaluation meets no type error. Operators are in [`crate::operator`], functions
//! in [`crate::call`]. Never evaluates anything.

use crate::parse::Source;
use crate::program::{Bool, Double, Int, Number, Program, Text};
use crate::{CompileError, Kind, Reads, Scope, name};
use cel::common::ast::{Expr, IdedExpr, LiteralValue};
use paceline_types::Name;

/// Compiles a tree into a program for `kind`, and lists what the program reads.
pub(crate) fn check(
    tree: &IdedExpr,
    kind: Kind,
    source: &Source<'_>,
    scope: &dyn Scope,
) -> Result<(Program, Reads), CompileError> {
    let mut checker = Checker { source, scope, reads: Reads::default() };
    let program = match kind {
        Kind::Condition => Program::Condition(checker.bool(tree, "a condition")?),
        Kind::Key => Program::Key(checker.node(tree)?.into_text()),
        Kind::Weight => Program::Weight(checker.int(tree, "a weight")?),
    };
    Ok((program, checker.reads))
}

/// A part of the program, by its type.
pub(crate) enum Node {
    Bool(Bool),
    Int(Int),
    Double(Double),
    Text(Text),
}

impl Node {
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
        }
    }

    pub fn into_text(self) -> Text {
        match self {
            Self::Bool(of) => Text::FromBool(Box::new(of)),
            Self::Int(of) => Text::FromNumber(Box::new(Number::Int(of))),
            Self::Double(of) => Text::FromNumber(Box::new(Number::Double(of))),
            Self::Text(text) => text,
        }
    }
}

pub(crate) struct Checker<'a> {
    pub source: &'a Source<'a>,
    pub scope: &'a dyn Scope,
    pub reads: Reads,
}

impl Checker<'_> {
    pub fn node(&mut self, expr: &IdedExpr) -> Result<Node, CompileError> {
        match &expr.expr {
            Expr::Literal(literal) => self.literal(expr, literal),
            Expr::Ident(name) => self.variable(expr, name),
            Expr::Select(select) => {
                let error = |message| self.source.error_at_name(expr, message);
                let name = self.entry(&select.operand, &select.field, error)?;
                Ok(self.attribute(name))
            }
            Expr::Call(call) => match self.operator(expr, call) {
                Some(result) => result,
                None => self.call(expr, call),
            },
            Expr::List(_) => {
                Err(self.source.error(expr, "a list may stand only on the right of `in`"))
            }
            _ => Err(self.source.error(expr, "this is not part of the language")),
        }
    }

    /// A part that must be a bool because of `what`.
    pub fn bool(&mut self, expr: &IdedExpr, what: &str) -> Result<Bool, CompileError> {
        match self.node(expr)? {
            Node::Bool(of) => Ok(of),
            other => Err(self.wrong_type(expr, what, "bool", &other)),
        }
    }

    /// A part that must be an int because of `what`.
    pub fn int(&mut self, expr: &IdedExpr, what: &str) -> Result<Int, CompileError> {
        match self.node(expr)? {
            Node::Int(of) => Ok(of),
            other => Err(self.wrong_type(expr, what, "int", &other)),
        }
    }

    /// A part that must be a string because of `what`.
    pub fn text(&mut self, expr: &IdedExpr, what: &str) -> Result<Text, CompileError> {
        match self.node(expr)? {
            Node::Text(of) => Ok(of),
            other => Err(self.wrong_type(expr, what, "string", &other)),
        }
    }

    pub fn wrong_type(
        &self,
        expr: &IdedExpr,
        what: &str,
        expected: &str,
        found: &Node,
    ) -> CompileError {
        let found = found.type_name();
        self.source.error(expr, format!("{what}: expected {expected}, found {found}"))
    }

    fn literal(&self, expr: &IdedExpr, literal: &LiteralValue) -> Result<Node, CompileError> {
        Ok(match literal {
            LiteralValue::Boolean(value) => Node::Bool(Bool::Literal(*value.inner())),
            LiteralValue::Int(value) => Node::Int(Int::Literal(*value.inner())),
            LiteralValue::UInt(value) => match i64::try_from(*value.inner()) {
                Ok(value) => Node::Int(Int::Literal(value)),
                Err(_) => {
                    let message = format!("number {}u is out of range", value.inner());
                    return Err(self.source.error(expr, message));
                }
            },
            LiteralValue::Double(value) => Node::Double(Double::Literal(*value.inner())),
            LiteralValue::String(value) => Node::Text(Text::Literal(value.inner().into())),
            LiteralValue::Bytes(_) | LiteralValue::Null => {
                return Err(self.source.error(expr, "this is not part of the language"));
            }
        })
    }

    fn variable(&mut self, expr: &IdedExpr, name: &str) -> Result<Node, CompileError> {
        if name == name::PRIORITY {
            self.reads.priority = true;
            return Ok(Node::Int(Int::Priority));
        }
        if let Some(known) = name::known(name) {
            return Ok(self.attribute(known));
        }
        let message = if name::is_map(name) {
            format!("`{name}` is a map: expected {name}[\"...\"]")
        } else {
            let similar = name::similar(name, name::variables());
            format!(
                "there is no attribute `{name}`{similar} (what callers send is attr[\"{name}\"])"
            )
        };
        Err(self.source.error(expr, message))
    }

    fn attribute(&mut self, name: Name) -> Node {
        if !self.reads.attributes.contains(&name) {
            self.reads.attributes.push(name.clone());
        }
        Node::Text(Text::Attribute(name))
    }

    /// `map[index]`; only a literal is accepted, so that it is known which attributes are read.
    pub fn index(&mut self, map: &IdedExpr, index: &IdedExpr) -> Result<Node, CompileError> {
        let Expr::Literal(LiteralValue::String(literal)) = &index.expr else {
            let message = "expected a string literal as index, such as header[\"x-user\"]";
            return Err(self.source.error(index, message));
        };
        let error = |message| self.source.error(index, message);
        let name = self.entry(map, literal.inner(), error)?;
        Ok(self.attribute(name))
    }

    /// The attribute that a map has under `index`; `error` places what is wrong with the index.
    fn entry(
        &self,
        map: &IdedExpr,
        index: &str,
        error: impl Fn(String) -> CompileError,
    ) -> Result<Name, CompileError> {
        let map = match &map.expr {
            Expr::Ident(name) if name::is_map(name) => name,
            _ => {
                let message = "expected one of the maps header, cookie, tag and attr before this";
                let similar = match &map.expr {
                    Expr::Ident(name) => {
                        name::similar(name, name::variables().filter(|v| name::is_map(v)))
                    }
                    _ => String::new(),
                };
                return Err(self.source.error(map, format!("{message}{similar}")));
            }
        };
        match name::in_map(map, index) {
            Ok(Name::Priority) => {
                Err(error("the priority is a number: expected `priority`".to_owned()))
            }
            Ok(name) => Ok(name),
            Err(wrong) => Err(error(wrong.to_string())),
        }
    }
}
