//! Reading the members of a JSON object by name and kind, each at most once, none left over.
//!
//! The first problem found is kept and reported by [`Members::finish`], so that an operation can read all its
//! members before it checks for errors. A member that was not read is an error.

use crate::error::Error;
use crate::json::{Json, Object};

/// Which kinds of JSON value a member may have; combine with `|`.
#[derive(Clone, Copy)]
pub struct Kinds(u16);

impl Kinds {
    /// `true` or `false`.
    pub const BOOL: Self = Self(1);
    /// A whole number.
    pub const INTEGER: Self = Self(1 << 1);
    /// Any number.
    pub const NUMBER: Self = Self(1 << 1 | 1 << 2);
    /// A string.
    pub const STRING: Self = Self(1 << 3);
    /// An array.
    pub const ARRAY: Self = Self(1 << 4);
    /// An object.
    pub const OBJECT: Self = Self(1 << 5);
    /// A string of the form of an `<id>`.
    pub const ID: Self = Self(1 << 6);
    /// Anything.
    pub const ANY: Self = Self(0x3f | 1 << 7);

    fn allow(self, value: &Json) -> bool {
        let bit = match value {
            Json::Null => 1 << 7,
            Json::Bool(_) => 1,
            Json::Integer(_) => 1 << 1,
            Json::Real(_) => 1 << 2,
            Json::String(text) if self.0 & 1 << 6 != 0 => return is_id(text),
            Json::String(_) => 1 << 3,
            Json::Array(_) => 1 << 4,
            Json::Object(_) => 1 << 5,
        };
        self.0 & bit != 0
    }
}

impl std::ops::BitOr for Kinds {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Whether `text` is an `<id>` of RFC 7047: a letter or underscore, then letters, digits and
/// underscores.
#[must_use]
pub fn is_id(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|c| c.is_ascii_alphabetic() || c == b'_')
        && bytes.all(|c| c.is_ascii_alphanumeric() || c == b'_')
}

/// A JSON object being read.
pub struct Members<'a> {
    json: &'a Json,
    object: Option<&'a Object>,
    name: &'a str,
    used: Vec<&'a str>,
    error: Option<Error>,
}

impl<'a> Members<'a> {
    /// Begins reading `json`, which error messages call `name`.
    #[must_use]
    pub fn new(json: &'a Json, name: &'a str) -> Self {
        let object = json.as_object();
        let mut members = Self { json, object, name, used: Vec::new(), error: None };
        if object.is_none() {
            members.error = Some(Error::new(
                crate::error::tag::SYNTAX,
                format!("Parsing {name} failed: Object expected."),
            ));
        }
        members
    }

    /// The object being read.
    #[must_use]
    pub fn json(&self) -> &'a Json {
        self.json
    }

    /// Reads a member that must be present.
    pub fn required(&mut self, name: &'a str, kinds: Kinds) -> Option<&'a Json> {
        let value = self.optional(name, kinds);
        if value.is_none() {
            self.fail(format!("Required '{name}' member is missing."));
        }
        value
    }

    /// Reads a member that may be missing.
    pub fn optional(&mut self, name: &'a str, kinds: Kinds) -> Option<&'a Json> {
        let value = self.object?.get(name)?;
        if !kinds.allow(value) {
            self.fail(format!("Type mismatch for member '{name}'."));
            return None;
        }
        self.used.push(name);
        Some(value)
    }

    /// Reads an optional boolean.
    pub fn bool_or(&mut self, name: &'a str, default: bool) -> bool {
        match self.optional(name, Kinds::BOOL) {
            Some(Json::Bool(value)) => *value,
            _ => default,
        }
    }

    /// Records a problem, unless there is one already.
    pub fn fail(&mut self, message: String) {
        if self.error.is_none() {
            let details = format!("Parsing {} failed: {message}", self.name);
            self.error = Some(Error::syntax(self.json, details));
        }
    }

    /// The first problem so far.
    pub fn check(&self) -> Result<(), Error> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// Ends reading. The error is the first problem, or a member that was not read.
    pub fn finish(mut self) -> Result<(), Error> {
        if let (None, Some(object)) = (&self.error, self.object) {
            let extra = object.len().saturating_sub(self.used.len());
            let unused = object.iter().find(|(name, _)| !self.used.contains(name));
            if let Some((name, _)) = unused {
                self.fail(match extra {
                    0 | 1 => format!("Member '{name}' is present but not allowed here."),
                    2 => format!(
                        "Member '{name}' and 1 other member are present but not allowed here."
                    ),
                    n => format!(
                        "Member '{name}' and {} other members are present but not allowed here.",
                        n - 1
                    ),
                });
            }
        }
        self.error.map_or(Ok(()), Err)
    }
}
