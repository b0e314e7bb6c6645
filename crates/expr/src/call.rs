//! Checks calls: functions on strings, conversions, and counters.
//!
//! Owns the table of functions. Promises that a counter's checkpoint or pool exists in the scope when the expression
//! is compiled; the program holds its id, not its name.

use crate::check::{Checker, Node};
use crate::program::{Bool, Double, Int, Read, Search, Text};
use crate::tree::{Part, Tree, Word};
use crate::{CompileError, Counter, name};

/// Every function with its usage.
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
    pub fn call(
        &mut self,
        at: u32,
        target: Option<&Tree<'_>>,
        name: Word<'_>,
        args: &[Tree<'_>],
    ) -> Result<Node, CompileError> {
        let function = name.text;
        match (function, target, args) {
            ("startsWith", Some(text), [part]) => self.search(Search::Start, function, text, part),
            ("endsWith", Some(text), [part]) => self.search(Search::End, function, text, part),
            ("contains", Some(text), [part]) => self.search(Search::Anywhere, function, text, part),
            ("lowerAscii", Some(text), []) => {
                let of = Box::new(self.text(text, "lowerAscii()")?);
                Ok(Node::Text(Text::LowerAscii { at, of }))
            }
            ("upperAscii", Some(text), []) => {
                let of = Box::new(self.text(text, "upperAscii()")?);
                Ok(Node::Text(Text::UpperAscii { at, of }))
            }
            ("size", Some(text), []) | ("size", None, [text]) => {
                Ok(Node::Int(Int::Size(Box::new(self.text(text, "size()")?))))
            }
            ("string", None, [of]) => Ok(Node::Text(self.node(of)?.into_text())),
            ("int", None, [of]) => self.int_of(at, of),
            ("double", None, [of]) => self.double_of(at, of),
            ("rate", None, [of] | [of, _]) => {
                let read = self.counter(function, of, args.get(1))?;
                Ok(Node::Double(Double::Counter(Box::new(read))))
            }
            ("inflight" | "queued", None, [of] | [of, _]) | ("running" | "waiting", None, [of]) => {
                let read = self.counter(function, of, args.get(1))?;
                Ok(Node::Int(Int::Counter(Box::new(read))))
            }
            _ => Err(self.error_at(name.start, no_such_call(function))),
        }
    }

    fn search(
        &mut self,
        search: Search,
        function: &str,
        text: &Tree<'_>,
        part: &Tree<'_>,
    ) -> Result<Node, CompileError> {
        let what = format!("{function}()");
        let sides = (self.text(text, &what)?, self.text(part, &what)?);
        Ok(Node::Bool(Bool::Search(search, Box::new(sides))))
    }

    fn int_of(&mut self, at: u32, of: &Tree<'_>) -> Result<Node, CompileError> {
        match self.node(of)? {
            Node::Int(int) => Ok(Node::Int(int)),
            Node::Double(double) => Ok(Node::Int(Int::FromDouble { at, of: Box::new(double) })),
            Node::Text(text) => Ok(Node::Int(Int::FromText { at, of: Box::new(text) })),
            other => Err(self.wrong_type(of, "int()", "string, int or double", &other)),
        }
    }

    fn double_of(&mut self, at: u32, of: &Tree<'_>) -> Result<Node, CompileError> {
        match self.node(of)? {
            Node::Double(double) => Ok(Node::Double(double)),
            Node::Int(int) => Ok(Node::Double(Double::FromInt(Box::new(int)))),
            Node::Text(text) => Ok(Node::Double(Double::FromText { at, of: Box::new(text) })),
            other => Err(self.wrong_type(of, "double()", "string, int or double", &other)),
        }
    }

    /// A counter of the checkpoint or pool that `of` names.
    fn counter(
        &mut self,
        function: &str,
        of: &Tree<'_>,
        key: Option<&Tree<'_>>,
    ) -> Result<Read, CompileError> {
        let kind = if matches!(function, "running" | "waiting") { "pool" } else { "checkpoint" };
        let Part::Text(name) = &of.part else {
            let message = format!("{function}(): expected the name of a {kind} as string literal");
            return Err(self.error(of, message));
        };
        let Some(counter) = self.counter_named(function, name) else {
            return Err(self.error(of, self.no_such_name(function, kind, name)));
        };
        if !self.reads.counters.iter().any(|(known, _)| *known == counter) {
            self.reads.counters.push((counter, name.as_str().into()));
        }
        let key = match key {
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
