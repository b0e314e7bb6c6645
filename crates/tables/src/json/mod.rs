//! JSON texts as values: the notation of OVSDB on the wire and on disk.
//!
//! Owns the value type, its parser and its writer. Follows the number and string rules of OVSDB:
//! a number that is a whole number in the 64-bit range is an integer however it is written, other
//! numbers are reals, and strings hold no NUL. Members of an object are kept sorted by name and the
//! last of several equal names wins. Parsing is bounded in depth and never panics.

mod parse;
mod write;

pub use parse::{ParseError, Reader, parse};
pub(crate) use write::write_array_up_to;
pub use write::{write_integer, write_real, write_string, write_uuid};

/// One JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A whole number in the 64-bit range.
    Integer(i64),
    /// Any other number; never NaN or infinite.
    Real(f64),
    /// A string.
    String(Box<str>),
    /// An array.
    Array(Vec<Json>),
    /// An object.
    Object(Object),
}

/// The members of a JSON object, sorted by name, each name once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    members: Box<[(Box<str>, Json)]>,
}

impl Object {
    /// The object of these members; the last of several equal names wins.
    #[must_use]
    pub fn new(mut members: Vec<(Box<str>, Json)>) -> Self {
        if !members.is_sorted_by(|a, b| a.0 < b.0) {
            // A stable sort keeps equal names in order, so the last one can win.
            members.sort_by(|a, b| a.0.cmp(&b.0));
            members.reverse();
            members.dedup_by(|later, kept| later.0 == kept.0);
            members.reverse();
        }
        Self { members: members.into() }
    }

    /// The value of member `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Json> {
        let found = self.members.binary_search_by(|(n, _)| (**n).cmp(name)).ok()?;
        self.members.get(found).map(|(_, value)| value)
    }

    /// Takes the value of member `name`, leaving `null` in its place.
    pub fn take(&mut self, name: &str) -> Option<Json> {
        let found = self.members.binary_search_by(|(n, _)| (**n).cmp(name)).ok()?;
        self.members.get_mut(found).map(|(_, value)| std::mem::replace(value, Json::Null))
    }

    /// The members in name order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.members.iter().map(|(name, value)| (&**name, value))
    }

    /// The number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

impl Json {
    /// A string value.
    pub fn string(text: impl Into<Box<str>>) -> Self {
        Self::String(text.into())
    }

    /// An object of the given members.
    pub fn object<'a>(members: impl IntoIterator<Item = (&'a str, Json)>) -> Self {
        Self::Object(Object::new(members.into_iter().map(|(n, v)| (n.into(), v)).collect()))
    }

    /// The text of a string value.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The elements of an array value.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Json]> {
        match self {
            Self::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// The members of an object value.
    #[must_use]
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The text of this value, members sorted by name.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = Vec::new();
        self.write(&mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    /// Bytes of memory this value holds, roughly. Budgets count these.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.memory_up_to(usize::MAX)
    }

    /// The same, but stops looking at nested values once there are more than `most` bytes.
    pub(crate) fn memory_up_to(&self, most: usize) -> usize {
        let mut bytes = size_of::<Self>();
        match self {
            Self::String(text) => bytes += text.len(),
            Self::Array(elements) => {
                for element in elements {
                    let Some(left) = most.checked_sub(bytes) else { break };
                    bytes += element.memory_up_to(left);
                }
            }
            Self::Object(object) => {
                for (name, value) in object.iter() {
                    let Some(left) = most.checked_sub(bytes) else { break };
                    bytes += 16 + name.len() + value.memory_up_to(left);
                }
            }
            _ => {}
        }
        bytes
    }
}
