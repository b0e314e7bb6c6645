//! The attributes of a request, which rules match and expressions read.
//!
//! Owns one buffer of text per request. Well-known attributes are found by index, all others (`header.x-user`,
//! `cookie.id`, `tag.job`, any that a caller sends) by name. Promises that a request's attributes stay within
//! [`limits`]; a missing attribute reads as `""`.

use crate::limits;
use std::fmt;

/// An attribute that every request may have, found without a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Known {
    /// http, sql, task or permit.
    Kind,
    /// The user.
    User,
    /// The host that the request came from.
    Host,
    /// The program or job name.
    Task,
    /// Statement, URL or command.
    Text,
    /// HTTP method.
    Method,
    /// HTTP path.
    Path,
    /// HTTP query, without the question mark.
    Query,
    /// The HTTP Host.
    Authority,
    /// The server name of the TLS handshake.
    Sni,
    /// The client's address.
    Client,
    /// The frontend; the doors `api`, `sql` and `ovsdb` are frontends too.
    Frontend,
    /// The backend.
    Backend,
    /// The server, as `BACKEND/NAME`.
    Server,
    /// SQL database.
    Database,
    /// SQL fingerprint.
    Fingerprint,
}

/// Every well-known attribute with its name.
pub const KNOWN: [(&str, Known); 16] = [
    ("kind", Known::Kind),
    ("user", Known::User),
    ("host", Known::Host),
    ("task", Known::Task),
    ("text", Known::Text),
    ("method", Known::Method),
    ("path", Known::Path),
    ("query", Known::Query),
    ("authority", Known::Authority),
    ("sni", Known::Sni),
    ("client", Known::Client),
    ("frontend", Known::Frontend),
    ("backend", Known::Backend),
    ("server", Known::Server),
    ("database", Known::Database),
    ("fingerprint", Known::Fingerprint),
];

/// Maps of attributes: `header["x-user"]` is the attribute `header.x-user`.
pub const MAPS: [&str; 3] = ["header", "cookie", "tag"];

/// The name of an attribute, resolved once and then found quickly.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// A well-known attribute.
    Known(Known),
    /// The request's current priority, a number.
    Priority,
    /// Any other, by its full name.
    Other(Box<str>),
}

/// Why a text cannot name an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// It is empty.
    Empty,
    /// It is longer than [`limits::ATTRIBUTE_NAME_BYTES_MAX`].
    TooLong,
    /// It contains a blank or a control character.
    Character(char),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("an attribute name may not be empty"),
            Self::TooLong => write!(
                f,
                "an attribute name may have at most {} bytes",
                limits::ATTRIBUTE_NAME_BYTES_MAX
            ),
            Self::Character(c) => write!(f, "an attribute name may not contain {c:?}"),
        }
    }
}

impl std::error::Error for NameError {}

impl Name {
    /// The attribute that `text` names. An entry of a map may also be written as `header["x-user"]`.
    ///
    /// # Errors
    ///
    /// When the text is not a name: it is empty, too long, or contains blanks or control characters.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text == "priority" {
            return Ok(Self::Priority);
        }
        if let Some((_, known)) = KNOWN.iter().find(|(name, _)| *name == text) {
            return Ok(Self::Known(*known));
        }
        match indexed(text) {
            Some((_, "")) => return Err(NameError::Empty),
            Some((map, index)) => return Self::parse(&format!("{map}.{index}")),
            None => {}
        }
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > limits::ATTRIBUTE_NAME_BYTES_MAX {
            return Err(NameError::TooLong);
        }
        match text.chars().find(|c| c.is_whitespace() || c.is_control()) {
            Some(c) => Err(NameError::Character(c)),
            // Header names are case-insensitive; doors pass them in lower case.
            None if text.starts_with("header.") => {
                Ok(Self::Other(text.to_ascii_lowercase().into()))
            }
            None => Ok(Self::Other(text.into())),
        }
    }
}

/// Map and index of a name such as `header["x-user"]` or `header['x-user']`.
fn indexed(text: &str) -> Option<(&str, &str)> {
    let (map, index) = text.strip_suffix(']')?.split_once('[')?;
    let quote = index.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let index = index.strip_prefix(quote)?.strip_suffix(quote)?;
    (MAPS.contains(&map) && !index.contains(quote)).then_some((map, index))
}

/// The right spelling of a name that looks like an entry of a map and is none, such as `tag[table]`. It may be a name
/// all the same, so only doors for people refuse it.
#[must_use]
pub fn entry_meant(text: &str) -> Option<String> {
    let (map, index) = text.split_once('[').filter(|(map, _)| MAPS.contains(map))?;
    let index = index.trim_matches([']', '"', '\'']);
    indexed(text).is_none().then(|| format!("{map}.{index} or {map}[\"{index}\"]"))
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(known) => {
                f.write_str(KNOWN.iter().find(|(_, k)| k == known).map_or("", |(name, _)| name))
            }
            Self::Priority => f.write_str("priority"),
            Self::Other(name) => f.write_str(name),
        }
    }
}

/// Why an attribute was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeError {
    /// The name is invalid.
    Name(NameError),
    /// `priority` is set by the rules; no client can set it.
    Priority,
    /// The request would have more than [`limits::ATTRIBUTES_MAX`] attributes.
    TooMany,
    /// The request's attributes would be longer than [`limits::ATTRIBUTES_BYTES_MAX`] together.
    TooLong,
}

impl fmt::Display for AttributeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::Priority => f.write_str("priority is given by the rules and cannot be set"),
            Self::TooMany => {
                write!(f, "a request may have at most {} attributes", limits::ATTRIBUTES_MAX)
            }
            Self::TooLong => write!(
                f,
                "the attributes of a request may have at most {} bytes together",
                limits::ATTRIBUTES_BYTES_MAX
            ),
        }
    }
}

impl std::error::Error for AttributeError {}

#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    start: u32,
    len: u32,
}

/// The attributes of one request.
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    buffer: String,
    known: [Piece; KNOWN.len()],
    /// The other attributes, in the order they were set.
    others: Vec<Other>,
}

/// An attribute that is found by its name.
#[derive(Clone, Copy, Debug)]
struct Other {
    /// Distinguishes most names, so that a look-up compares few of them.
    tag: u32,
    name: Piece,
    value: Piece,
}

impl Attributes {
    /// No attributes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// No attributes, with capacity for this many bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { buffer: String::with_capacity(bytes), ..Self::default() }
    }

    /// Sets the attribute `name`, replacing an earlier value.
    ///
    /// # Errors
    ///
    /// When the name is invalid, or a limit would be exceeded; then nothing is changed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), AttributeError> {
        match Name::parse(name).map_err(AttributeError::Name)? {
            Name::Known(known) => self.set_known(known, value),
            Name::Priority => Err(AttributeError::Priority),
            Name::Other(name) => {
                self.check_room(name.len() + value.len())?;
                if let Some(index) = self.find(&name) {
                    self.others[index].value = self.push(value);
                    return Ok(());
                }
                if self.others.len() + KNOWN.len() >= limits::ATTRIBUTES_MAX {
                    return Err(AttributeError::TooMany);
                }
                let tag = tag(&name);
                let (name, value) = (self.push(&name), self.push(value));
                self.others.push(Other { tag, name, value });
                Ok(())
            }
        }
    }

    /// Sets a well-known attribute, replacing an earlier value.
    ///
    /// # Errors
    ///
    /// When the attributes would be too long together; then nothing is changed.
    pub fn set_known(&mut self, name: Known, value: &str) -> Result<(), AttributeError> {
        self.check_room(value.len())?;
        self.known[name as usize] = self.push(value);
        Ok(())
    }

    /// Replaces a name that the engine sets. The bounds, which apply to what clients send, are not checked. If the
    /// earlier value was added last, its memory is reused.
    pub fn put(&mut self, name: Known, value: &str) {
        let old = self.known[name as usize];
        if self.text(old) == value {
            return;
        }
        if (old.start + old.len) as usize == self.buffer.len() {
            self.buffer.truncate(old.start as usize);
        }
        self.known[name as usize] = self.push(value);
    }

    /// The value of a well-known attribute, `""` if it was not set.
    #[must_use]
    pub fn known(&self, name: Known) -> &str {
        self.text(self.known[name as usize])
    }

    /// The value of an attribute that is not well-known, by its full name; `""` if it was not set.
    #[must_use]
    pub fn other(&self, name: &str) -> &str {
        self.find(name).map_or("", |index| self.text(self.others[index].value))
    }

    /// The value of an attribute, `""` if it was not set. The priority is not kept here.
    #[must_use]
    pub fn value(&self, name: &Name) -> &str {
        match name {
            Name::Known(known) => self.known(*known),
            Name::Priority => "",
            Name::Other(name) => self.other(name),
        }
    }

    /// Every attribute that has a value, well-known ones first.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let known = KNOWN.iter().map(|(name, known)| (*name, self.known(*known)));
        let others = self.others.iter().map(|one| (self.text(one.name), self.text(one.value)));
        known.chain(others).filter(|(_, value)| !value.is_empty())
    }

    /// The size of names and values in bytes, including earlier values.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.buffer.len()
    }

    fn find(&self, name: &str) -> Option<usize> {
        let tag = tag(name);
        self.others.iter().position(|other| other.tag == tag && self.text(other.name) == name)
    }

    fn text(&self, piece: Piece) -> &str {
        &self.buffer[piece.start as usize..(piece.start + piece.len) as usize]
    }

    fn check_room(&self, bytes: usize) -> Result<(), AttributeError> {
        if bytes > limits::ATTRIBUTES_BYTES_MAX
            || self.buffer.len() + bytes > limits::ATTRIBUTES_BYTES_MAX
        {
            return Err(AttributeError::TooLong);
        }
        Ok(())
    }

    fn push(&mut self, text: &str) -> Piece {
        // An empty text has no place, so that it stays within the buffer when the buffer is truncated.
        if text.is_empty() {
            return Piece::default();
        }
        let start = self.buffer.len() as u32;
        self.buffer.push_str(text);
        Piece { start, len: text.len() as u32 }
    }
}

/// A number that two names rarely share: headers differ in their length or in how they end.
fn tag(name: &str) -> u32 {
    let bytes = name.as_bytes();
    let end = match bytes.last_chunk() {
        Some(end) => u32::from_le_bytes(*end),
        None => bytes.iter().fold(0, |tag, byte| tag << 8 | u32::from(*byte)),
    };
    end.rotate_left(7) ^ bytes.len() as u32
}

#[cfg(test)]
mod tests {
    use super::{AttributeError, Attributes, KNOWN, Known, Name, NameError, entry_meant};
    use crate::limits;

    #[test]
    fn values_are_found_by_either_way() {
        let mut attributes = Attributes::new();
        attributes.set("user", "eva").unwrap();
        attributes.set("header.x-user", "tom").unwrap();
        attributes.set("user", "ann").unwrap();
        attributes.set("header.x-user", "kim").unwrap();
        assert_eq!(attributes.known(Known::User), "ann");
        assert_eq!(attributes.other("header.x-user"), "kim");
        assert_eq!(attributes.value(&Name::parse("user").unwrap()), "ann");
        assert_eq!(attributes.value(&Name::parse("header.x-user").unwrap()), "kim");
        assert_eq!(attributes.value(&Name::parse("header.none").unwrap()), "", "missing is empty");
        assert_eq!(attributes.known(Known::Text), "");
        attributes.set("header.X-User", "kim").unwrap();
        assert_eq!(Name::parse("header.X-USER"), Name::parse("header.x-user"), "no case");
        let all: Vec<_> = attributes.iter().collect();
        assert_eq!(all, [("user", "ann"), ("header.x-user", "kim")]);
    }

    #[test]
    fn an_entry_of_a_map_is_named_with_a_dot_or_with_brackets() {
        for (text, name) in [
            ("header[\"X-User\"]", "header.x-user"),
            ("header['x-user']", "header.x-user"),
            ("cookie[\"Id\"]", "cookie.Id"),
            ("tag[\"a[1]\"]", "tag.a[1]"),
        ] {
            assert_eq!(Name::parse(text).unwrap().to_string(), name);
        }
        // A text that only looks like an entry is a name of its own, in particular one that the doors set.
        for own in [
            "attr[\"user\"]",
            "header[x]",
            "header[\"x']",
            "header[\"",
            "a[\"b\"]",
            "tag[\"a\"b\"]",
        ] {
            assert_eq!(Name::parse(own).unwrap().to_string(), own);
        }
        for (text, meant) in [
            ("tag[table]", Some("tag.table or tag[\"table\"]")),
            ("header[\"x']", Some("header.x or header[\"x\"]")),
            ("header[\"x\"]", None),
            ("tag.table", None),
            ("a[b]", None),
        ] {
            assert_eq!(entry_meant(text).as_deref(), meant, "{text}");
        }
        assert_eq!(Name::parse("header[\"\"]"), Err(NameError::Empty));
        assert_eq!(Name::parse("header[\"a b\"]"), Err(NameError::Character(' ')));
    }

    #[test]
    fn the_table_of_names_is_in_order() {
        for (index, (name, known)) in KNOWN.iter().enumerate() {
            assert_eq!(*known as usize, index, "{name}");
            assert_eq!(Name::parse(name).unwrap().to_string(), *name);
        }
    }

    #[test]
    fn limits_hold_and_change_nothing() {
        let mut attributes = Attributes::new();
        let long = "x".repeat(limits::ATTRIBUTES_BYTES_MAX + 1);
        assert_eq!(attributes.set("text", &long), Err(AttributeError::TooLong));
        assert_eq!(attributes.known(Known::Text), "");
        let room = limits::ATTRIBUTES_MAX - KNOWN.len();
        for number in 0..room {
            attributes.set(&format!("a{number}"), "v").unwrap();
        }
        assert_eq!(attributes.set("one-more", "v"), Err(AttributeError::TooMany));
        assert_eq!(attributes.other("one-more"), "");
        attributes.set("a0", "again").unwrap();
        assert_eq!(attributes.other("a0"), "again");
    }

    #[test]
    fn what_is_put_takes_the_place_of_what_was_put_last() {
        let mut attributes = Attributes::new();
        attributes.set("text", &"x".repeat(limits::ATTRIBUTES_BYTES_MAX)).unwrap();
        for (backend, server) in [("app", "app/one"), ("app", "app/two"), ("", "")] {
            attributes.put(Known::Backend, backend);
            attributes.put(Known::Server, server);
            let found = (attributes.known(Known::Backend), attributes.known(Known::Server));
            assert_eq!(found, (backend, server), "past the bounds");
        }
        let bytes = attributes.bytes() - limits::ATTRIBUTES_BYTES_MAX;
        assert!(bytes <= "app".len(), "earlier names of servers are not kept, found {bytes}");
        assert_eq!(attributes.known(Known::Text).len(), limits::ATTRIBUTES_BYTES_MAX);
    }

    #[test]
    fn wrong_names_are_refused() {
        let mut attributes = Attributes::new();
        let long = "n".repeat(limits::ATTRIBUTE_NAME_BYTES_MAX + 1);
        for (name, error) in [
            ("", AttributeError::Name(NameError::Empty)),
            ("a b", AttributeError::Name(NameError::Character(' '))),
            ("a\u{7}", AttributeError::Name(NameError::Character('\u{7}'))),
            ("priority", AttributeError::Priority),
            (&long, AttributeError::Name(NameError::TooLong)),
        ] {
            assert_eq!(attributes.set(name, "v"), Err(error), "{name:?}");
        }
    }
}
