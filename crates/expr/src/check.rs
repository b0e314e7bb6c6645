//! Checks a parsed expression against the attributes and turns it into a program.
//!
//! Owns the meaning of literals, variables and maps. All attributes are strings, so the type of every part is known
//! here, and evaluation has no type errors. Operators are in [`crate::operator`], functions in [`crate::call`]. Never
//! evaluates anything.

use crate::program::{Bool, Double, Int, Number, Program, Text};
use crate::tree::{Part, Tree};
use crate::{CompileError, Kind, Reads, Scope, name};
use paceline_types::Name;

/// Compiles a tree into a program for `kind`, and lists what the program reads.
pub(crate) fn check(
    tree: &Tree<'_>,
    kind: Kind,
    text: &str,
    scope: &dyn Scope,
) -> Result<(Program, Reads), CompileError> {
    let mut checker = Checker { text, scope, reads: Reads::default() };
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
    pub text: &'a str,
    pub scope: &'a dyn Scope,
    pub reads: Reads,
}

impl Checker<'_> {
    pub fn node(&mut self, tree: &Tree<'_>) -> Result<Node, CompileError> {
        match &tree.part {
            Part::Bool(value) => Ok(Node::Bool(Bool::Literal(*value))),
            Part::Int(value) => Ok(Node::Int(Int::Literal(*value))),
            Part::Double(value) => Ok(Node::Double(Double::Literal(*value))),
            Part::Text(value) => Ok(Node::Text(Text::Literal(value.as_str().into()))),
            Part::Name(name) => self.variable(tree, name),
            Part::Field { of, name } => {
                let name = self.entry(of, name.text, name.start)?;
                Ok(self.attribute(name))
            }
            Part::Index(sides) => self.index(sides),
            Part::Call { target, name, args } => {
                self.call(at(tree), target.as_deref(), *name, args)
            }
            Part::List(_) => Err(self.error(tree, "a list may stand only on the right of `in`")),
            Part::Not(of) => {
                let of = self.bool(of, "`!`")?;
                Ok(Node::Bool(Bool::Not(Box::new(of))))
            }
            Part::Negate(of) => self.negate(at(tree), of),
            Part::Infix(infix, sides) => self.infix(at(tree), *infix, sides),
            Part::Logic(logic, parts) => self.logic(*logic, parts),
            Part::Choice(parts) => self.choice(parts),
        }
    }

    /// An error at the start of a part.
    pub fn error(&self, tree: &Tree<'_>, message: impl Into<String>) -> CompileError {
        self.error_at(tree.start, message)
    }

    pub fn error_at(&self, offset: usize, message: impl Into<String>) -> CompileError {
        CompileError::new(self.text, offset, message)
    }

    /// A part that must be a bool because of `what`.
    pub fn bool(&mut self, tree: &Tree<'_>, what: &str) -> Result<Bool, CompileError> {
        match self.node(tree)? {
            Node::Bool(of) => Ok(of),
            other => Err(self.wrong_type(tree, what, "bool", &other)),
        }
    }

    /// A part that must be an int because of `what`.
    pub fn int(&mut self, tree: &Tree<'_>, what: &str) -> Result<Int, CompileError> {
        match self.node(tree)? {
            Node::Int(of) => Ok(of),
            other => Err(self.wrong_type(tree, what, "int", &other)),
        }
    }

    /// A part that must be a string because of `what`.
    pub fn text(&mut self, tree: &Tree<'_>, what: &str) -> Result<Text, CompileError> {
        match self.node(tree)? {
            Node::Text(of) => Ok(of),
            other => Err(self.wrong_type(tree, what, "string", &other)),
        }
    }

    pub fn wrong_type(
        &self,
        tree: &Tree<'_>,
        what: &str,
        expected: &str,
        found: &Node,
    ) -> CompileError {
        let found = found.type_name();
        self.error(tree, format!("{what}: expected {expected}, found {found}"))
    }

    fn variable(&mut self, tree: &Tree<'_>, name: &str) -> Result<Node, CompileError> {
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
        Err(self.error(tree, message))
    }

    fn attribute(&mut self, name: Name) -> Node {
        if !self.reads.attributes.contains(&name) {
            self.reads.attributes.push(name.clone());
        }
        Node::Text(Text::Attribute(name))
    }

    /// `map[index]`. Only a literal index is accepted, so that it is known which attributes are read.
    fn index(&mut self, [map, index]: &[Tree<'_>; 2]) -> Result<Node, CompileError> {
        let Part::Text(literal) = &index.part else {
            let message = "expected a string literal as index, such as header[\"x-user\"]";
            return Err(self.error(index, message));
        };
        let name = self.entry(map, literal, index.start)?;
        Ok(self.attribute(name))
    }

    /// The attribute of a map at `index`, whose place in the text is `place`.
    fn entry(&self, map: &Tree<'_>, index: &str, place: usize) -> Result<Name, CompileError> {
        let map = match &map.part {
            Part::Name(name) if name::is_map(name) => name,
            _ => {
                let message = "expected one of the maps header, cookie, tag and attr before this";
                let similar = match &map.part {
                    Part::Name(name) => {
                        name::similar(name, name::variables().filter(|v| name::is_map(v)))
                    }
                    _ => String::new(),
                };
                return Err(self.error(map, format!("{message}{similar}")));
            }
        };
        match name::in_map(map, index) {
            Ok(Name::Priority) => {
                Err(self.error_at(place, "the priority is a number: expected `priority`"))
            }
            Ok(name) => Ok(name),
            Err(wrong) => Err(self.error_at(place, wrong.to_string())),
        }
    }
}

/// The place of a part's sign, as programs store it.
fn at(tree: &Tree<'_>) -> u32 {
    u32::try_from(tree.at).unwrap_or(u32::MAX)
}
