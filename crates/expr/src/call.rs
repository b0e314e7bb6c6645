//! Checks calls: functions on strings, conversions, and counters.
//!
//! Owns the table of functions. Promises that a counter's checkpoint or pool exists in the scope at
//! the time of compiling; the program holds its id, not its name.

use crate::check::{Checker, Node};
use crate::program::{Bool, Double, Int, Read, Search, Text};
use crate::{CompileError, Counter, name};
use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};

/// Every function with how it is called.
const FUNCTIONS: [(&str, &str); 14] = [
    ("startsWith", "a.startsWith(b)"),
    ("endsWith", "a.endsWith(b)"),
    ("contains", "a.contains(b)"),
    ("lowerAscii", "a.lowerAscii()"),
    ("upperAscii", "a.upperAscii()"),
    ("size", "size(a)"),
    ("string", "string(a)"),
    ("int", "int(a)"),
    ("double", "double(a)"),
    ("rate", "rate(\"checkpoint\") or rate(\"checkpoint\", key)"),
    ("inflight", "inflight(\"checkpoint\") or inflight(\"checkpoint\", key)"),
    ("queued", "queued(\"checkpoint\") or queued(\"checkpoint\", key)"),
    ("running", "running(\"pool\")"),
    ("waiting", "waiting(\"pool\")"),
];

impl Checker<'_> {
    pub fn call(&mut self, expr: &IdedExpr, call: &CallExpr) -> Result<Node, CompileError> {
        let function = call.func_name.as_str();
        match (function, call.target.as_deref(), call.args.as_slice()) {
            ("startsWith", Some(text), [part]) => self.search(Search::Start, function, text, part),
            ("endsWith", Some(text), [part]) => self.search(Search::End, function, text, part),
            ("contains", Some(text), [part]) => self.search(Search::Anywhere, function, text, part),
            ("lowerAscii", Some(text), []) => {
                let (at, of) = (self.source.at(expr), Box::new(self.text(text, "lowerAscii()")?));
                Ok(Node::Text(Text::LowerAscii { at, of }))
            }
            ("upperAscii", Some(text), []) => {
                let (at, of) = (self.source.at(expr), Box::new(self.text(text, "upperAscii()")?));
                Ok(Node::Text(Text::UpperAscii { at, of }))
            }
            ("size", Some(text), []) | ("size", None, [text]) => {
                Ok(Node::Int(Int::Size(Box::new(self.text(text, "size()")?))))
            }
            ("string", None, [of]) => Ok(Node::Text(self.node(of)?.into_text())),
            ("int", None, [of]) => self.int_of(expr, of),
            ("double", None, [of]) => self.double_of(expr, of),
            ("rate", None, [_] | [_, _]) => {
                let read = self.counter(call)?;
                Ok(Node::Double(Double::Counter(Box::new(read))))
            }
            ("inflight" | "queued", None, [_] | [_, _]) | ("running" | "waiting", None, [_]) => {
                Ok(Node::Int(Int::Counter(Box::new(self.counter(call)?))))
            }
            _ => Err(self.source.error_at_name(expr, no_such_call(function))),
        }
    }

    fn search(
        &mut self,
        search: Search,
        function: &str,
        text: &IdedExpr,
        part: &IdedExpr,
    ) -> Result<Node, CompileError> {
        let what = format!("{function}()");
        let sides = (self.text(text, &what)?, self.text(part, &what)?);
        Ok(Node::Bool(Bool::Search(search, Box::new(sides))))
    }

    fn int_of(&mut self, expr: &IdedExpr, of: &IdedExpr) -> Result<Node, CompileError> {
        let at = self.source.at(expr);
        match self.node(of)? {
            Node::Int(int) => Ok(Node::Int(int)),
            Node::Double(double) => Ok(Node::Int(Int::FromDouble { at, of: Box::new(double) })),
            Node::Text(text) => Ok(Node::Int(Int::FromText { at, of: Box::new(text) })),
            other => Err(self.wrong_type(of, "int()", "string, int or double", &other)),
        }
    }

    fn double_of(&mut self, expr: &IdedExpr, of: &IdedExpr) -> Result<Node, CompileError> {
        let at = self.source.at(expr);
        match self.node(of)? {
            Node::Double(double) => Ok(Node::Double(double)),
            Node::Int(int) => Ok(Node::Double(Double::FromInt(Box::new(int)))),
            Node::Text(text) => Ok(Node::Double(Double::FromText { at, of: Box::new(text) })),
            other => Err(self.wrong_type(of, "double()", "string, int or double", &other)),
        }
    }

    /// A counter; the number of arguments was checked.
    fn counter(&mut self, call: &CallExpr) -> Result<Read, CompileError> {
        let (function, first) = (call.func_name.as_str(), &call.args[0]);
        let kind = if matches!(function, "running" | "waiting") { "pool" } else { "checkpoint" };
        let Expr::Literal(LiteralValue::String(name)) = &first.expr else {
            let message = format!("{function}(): expected the name of a {kind} as string literal");
            return Err(self.source.error(first, message));
        };
        let name = name.inner();
        let Some(counter) = self.counter_named(function, name) else {
            return Err(self.source.error(first, self.no_such_name(function, kind, name)));
        };
        if !self.reads.counters.iter().any(|(known, _)| *known == counter) {
            self.reads.counters.push((counter, name.into()));
        }
        let key = match call.args.get(1) {
            Some(key) => Some(self.text(key, &format!("key of {function}()"))?),
            None => None,
        };
        Ok(Read { counter, key })
    }

    fn counter_named(&self, function: &str, name: &str) -> Option<Counter> {
        match function {
            "rate" => self.scope.checkpoint(name).map(Counter::Rate),
            "inflight" => self.scope.checkpoint(name).map(Counter::Inflight),
            "queued" => self.scope.checkpoint(name).map(Counter::Queued),
            "running" => self.scope.pool(name).map(Counter::Running),
            "waiting" => self.scope.pool(name).map(Counter::Waiting),
            _ => None,
        }
    }

    fn no_such_name(&self, function: &str, kind: &str, name: &str) -> String {
        let is_pool = self.scope.pool(name).is_some();
        if is_pool || self.scope.checkpoint(name).is_some() {
            let found = if is_pool { "pool" } else { "checkpoint" };
            return format!("{function}(): expected a {kind}, and `{name}` is a {found}");
        }
        let fits = |other: &&str| match kind {
            "pool" => self.scope.pool(other).is_some(),
            _ => self.scope.checkpoint(other).is_some(),
        };
        let similar = name::similar(name, self.scope.names().into_iter().filter(fits));
        format!("there is no {kind} `{name}`{similar}")
    }
}

fn no_such_call(function: &str) -> String {
    match FUNCTIONS.iter().find(|(name, _)| *name == function) {
        Some((_, usage)) => format!("expected {usage}"),
        None => {
            let similar = name::similar(function, FUNCTIONS.iter().map(|(name, _)| *name));
            format!("there is no function `{function}`{similar}")
        }
    }
}
