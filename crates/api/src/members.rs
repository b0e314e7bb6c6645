//! Members of a JSON object, taken one by one with their types, so that an error names the member.
//!
//! A member that is left in the end is unknown, and the error suggests what was probably meant. `null` means
//! the same as a missing member, except where [`Members::given`] distinguishes them.

use crate::respond::{Problem, shown};
use paceline_types::{Span, nearest};
use serde_json::{Map, Value};

/// As many members as most objects may have.
const MEMBERS_USUAL: usize = 12;

/// The members of one object.
#[derive(Debug)]
pub(crate) struct Members {
    /// The path of the object in the body; empty for the body itself.
    place: String,
    left: Map<String, Value>,
    known: Vec<&'static str>,
}

impl Members {
    /// The members of the body.
    pub(crate) fn of(value: Value) -> Result<Self, Problem> {
        Self::at(String::new(), value)
    }

    fn at(place: String, value: Value) -> Result<Self, Problem> {
        match value {
            Value::Object(left) => {
                Ok(Self { place, left, known: Vec::with_capacity(MEMBERS_USUAL) })
            }
            other => {
                let what = if place.is_empty() { "the body" } else { &place };
                Err(Problem::bad_request(format!(
                    "{what}: expected an object, found {}",
                    kind(&other)
                )))
            }
        }
    }

    /// All members as one text, the same for two equal bodies.
    pub(crate) fn canonical(&self) -> String {
        Value::Object(self.left.clone()).to_string()
    }

    /// Whether a member is present, even if it is `null`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.left.contains_key(name)
    }

    /// Whether a member is present and `null`.
    pub(crate) fn is_null(&self, name: &str) -> bool {
        self.left.get(name).is_some_and(Value::is_null)
    }

    /// A member, without taking it.
    pub(crate) fn peek(&self, name: &str) -> Option<&Value> {
        self.left.get(name)
    }

    /// The same, mutable.
    pub(crate) fn peek_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.left.get_mut(name)
    }

    /// Takes a member, even if it is `null`.
    pub(crate) fn given(&mut self, name: &'static str) -> Option<Value> {
        self.known.push(name);
        self.left.remove(name)
    }

    /// Takes a member that is not `null`.
    pub(crate) fn take(&mut self, name: &'static str) -> Option<Value> {
        self.given(name).filter(|value| !value.is_null())
    }

    /// Takes everything that is left, whatever its name.
    pub(crate) fn take_all(&mut self) -> Map<String, Value> {
        std::mem::take(&mut self.left)
    }

    /// A text.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, "a text", &other)),
        }
    }

    /// A required text.
    pub(crate) fn required_text(&mut self, name: &'static str) -> Result<String, Problem> {
        self.text(name)?.ok_or_else(|| {
            Problem::bad_request(format!("{}: expected a text, but it is missing", self.path(name)))
        })
    }

    /// `true` or `false`.
    pub(crate) fn flag(&mut self, name: &'static str) -> Result<Option<bool>, Problem> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.wrong(name, "true or false", &other)),
        }
    }

    /// A whole number that fits `u32`.
    pub(crate) fn number(&mut self, name: &'static str) -> Result<Option<u32>, Problem> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        number.map(Some).ok_or_else(|| self.wrong(name, "a whole number", &value))
    }

    /// A duration such as `"1.5s"`.
    pub(crate) fn span(&mut self, name: &'static str) -> Result<Option<Span>, Problem> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let wrong = |error| {
            let (path, found) = (self.path(name), shown(&text));
            Problem::bad_request(format!("{path}: {error}, found {found:?}"))
        };
        text.parse().map(Some).map_err(wrong)
    }

    /// One of a few words.
    pub(crate) fn word<T: Copy>(
        &mut self,
        name: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| Some(*value));
        found.ok_or_else(|| {
            let all: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            self.wrong(name, &all.join(" or "), &Value::String(text))
        })
    }

    /// An object inside this one.
    pub(crate) fn object(&mut self, name: &'static str) -> Result<Option<Self>, Problem> {
        let Some(value) = self.take(name) else { return Ok(None) };
        Self::at(self.path(name), value).map(Some)
    }

    /// The elements of a list, each an object.
    pub(crate) fn objects(&mut self, name: &'static str) -> Result<Vec<Self>, Problem> {
        let elements = self.list(name)?.into_iter().enumerate();
        elements.map(|(at, value)| Self::at(format!("{}[{at}]", self.path(name)), value)).collect()
    }

    /// The elements of a list, each a text.
    pub(crate) fn texts(&mut self, name: &'static str) -> Result<Vec<String>, Problem> {
        let elements = self.list(name)?.into_iter().enumerate();
        let text = |(at, value)| match value {
            Value::String(text) => Ok(text),
            other => {
                let path = format!("{}[{at}]", self.path(name));
                Err(Problem::bad_request(format!(
                    "{path}: expected a text, found {}",
                    kind(&other)
                )))
            }
        };
        elements.map(text).collect()
    }

    fn list(&mut self, name: &'static str) -> Result<Vec<Value>, Problem> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(elements)) => Ok(elements),
            Some(other) => Err(self.wrong(name, "a list", &other)),
        }
    }

    /// Checks that no unknown member is left.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        let Some(unknown) = self.left.keys().next() else { return Ok(()) };
        let path = shown(&self.path(unknown));
        let problem = Problem::bad_request(match nearest(unknown, self.known.iter().copied()) {
            Some(near) => format!("{path}: there is no such member, did you mean {near}?"),
            None => format!("{path}: there is no such member"),
        });
        Err(problem.hint(format!("known members: {}", self.known.join(", "))))
    }

    /// The path of a member in the body.
    pub(crate) fn path(&self, name: &str) -> String {
        match self.place.as_str() {
            "" => name.to_owned(),
            place => format!("{place}.{name}"),
        }
    }

    /// The error that a member has the wrong type.
    pub(crate) fn wrong(&self, name: &str, expected: &str, found: &Value) -> Problem {
        let found = match found {
            Value::String(text) => format!("{:?}", shown(text)),
            Value::Number(number) => number.to_string(),
            other => kind(other).to_owned(),
        };
        Problem::bad_request(format!("{}: expected {expected}, found {found}", self.path(name)))
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
