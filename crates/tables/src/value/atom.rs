//! A single scalar: integer, real, boolean, string or UUID.
//!
//! Short strings are stored inside the value, long ones are shared. The form depends only on the length, so equal
//! strings have equal forms. Atoms are ordered as OVSDB sorts sets: numbers by value, strings by their bytes, UUIDs
//! by their bytes.

use super::symbols::Symbols;
use crate::error::{Error, tag};
use crate::json::{Json, write_integer, write_real, write_string, write_uuid};
use crate::members::is_id;
use crate::schema::{AtomType, BaseType, Bounds};
use paceline_types::Uuid;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

const SHORT_MAX: usize = 22;

/// One scalar value.
#[derive(Clone, Debug)]
pub enum Atom {
    /// A 64-bit integer.
    Integer(i64),
    /// A finite double; never negative zero.
    Real(f64),
    /// A truth value.
    Boolean(bool),
    /// A UUID.
    Uuid(Uuid),
    /// A string of at most 22 bytes: its length and its bytes.
    Short(u8, [u8; SHORT_MAX]),
    /// A longer string.
    Long(Arc<str>),
}

impl Atom {
    /// A string atom.
    #[must_use]
    pub fn string(text: &str) -> Self {
        let bytes = text.as_bytes();
        if bytes.len() > SHORT_MAX {
            return Self::Long(text.into());
        }
        let mut short = [0; SHORT_MAX];
        short[..bytes.len()].copy_from_slice(bytes);
        Self::Short(bytes.len() as u8, short)
    }

    /// A real atom; negative zero becomes zero, as in JSON input.
    #[must_use]
    pub fn real(real: f64) -> Self {
        Self::Real(if real == 0.0 { 0.0 } else { real })
    }

    /// The default value of a column of this type.
    #[must_use]
    pub fn default_of(atom: AtomType) -> Self {
        match atom {
            AtomType::Integer => Self::Integer(0),
            AtomType::Real => Self::Real(0.0),
            AtomType::Boolean => Self::Boolean(false),
            AtomType::String => Self::Short(0, [0; SHORT_MAX]),
            AtomType::Uuid => Self::Uuid(Uuid::ZERO),
        }
    }

    /// The UUID, if this is one.
    #[must_use]
    pub fn as_uuid(&self) -> Option<Uuid> {
        match self {
            Self::Uuid(uuid) => Some(*uuid),
            _ => None,
        }
    }

    /// The bytes of the string, if this is one; always valid UTF-8.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Short(len, bytes) => bytes.get(..usize::from(*len)),
            Self::Long(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// The string, if this is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        self.as_bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// The integer, if this is one.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(integer) => Some(*integer),
            _ => None,
        }
    }

    /// Bytes held outside the value itself.
    #[must_use]
    pub fn memory(&self) -> usize {
        match self {
            Self::Long(text) => text.len() + 16,
            _ => 0,
        }
    }

    /// The steps of comparing or copying it. A long string takes more, because comparing reads it.
    pub(crate) fn steps(&self) -> usize {
        1 + self.memory() / 64
    }

    /// Parses `json` as an atom of type `base`, checking its constraints. Named UUIDs are resolved in `symbols`, or
    /// refused if there are none.
    pub fn parse(
        json: &Json,
        base: &BaseType,
        symbols: Option<&mut Symbols<'_>>,
    ) -> Result<Self, Error> {
        let atom = match (base.atom, json) {
            (AtomType::Integer, Json::Integer(integer)) => Self::Integer(*integer),
            (AtomType::Real, Json::Integer(integer)) => Self::Real(*integer as f64),
            (AtomType::Real, Json::Real(real)) => Self::real(*real),
            (AtomType::Boolean, Json::Bool(boolean)) => Self::Boolean(*boolean),
            (AtomType::String, Json::String(text)) => Self::string(text),
            (AtomType::Uuid, _) => Self::Uuid(parse_uuid(json, symbols)?),
            (atom, _) => return Err(Error::syntax(json, format!("expected {}", atom.name()))),
        };
        atom.check(base)?;
        Ok(atom)
    }

    /// Converts this atom to type `base`, checking its constraints.
    pub(crate) fn fitted(self, base: &BaseType) -> Result<Self, Error> {
        let atom = match (base.atom, self) {
            (AtomType::Real, Self::Integer(integer)) => Self::Real(integer as f64),
            (_, atom) => atom,
        };
        if atom.kind() != Self::default_of(base.atom).kind() {
            return Err(Error::new(tag::SYNTAX, format!("expected {}", base.atom.name())));
        }
        if atom.as_bytes().is_some_and(|text| text.contains(&0)) {
            return Err(Error::new(tag::SYNTAX, "null bytes are not supported in strings"));
        }
        atom.check(base)?;
        Ok(atom)
    }

    /// Checks this atom against the constraints of `base`.
    pub fn check(&self, base: &BaseType) -> Result<(), Error> {
        let violation = |details: String| Err(Error::new(tag::CONSTRAINT, details));
        if let Some(allowed) = &base.allowed
            && !allowed.contains(self)
        {
            let list: Vec<String> = allowed.iter().map(Self::to_text).collect();
            return violation(format!(
                "{} is not one of the allowed values ([{}])",
                self.to_text(),
                list.join(", ")
            ));
        }
        match (self, &base.bounds) {
            (Self::Integer(value), Bounds::Integer(min, max)) => {
                check_range(value, (min, max), (&i64::MIN, &i64::MAX))
            }
            (Self::Real(value), Bounds::Real(min, max)) => {
                check_range(value, (min, max), (&f64::MIN, &f64::MAX))
            }
            (Self::Short(..) | Self::Long(_), Bounds::Length(min, max)) => {
                let text = self.as_str().unwrap_or_default();
                let len = text.chars().count();
                if len < *min as usize {
                    violation(format!(
                        "\"{text}\" length {len} is less than minimum allowed length {min}"
                    ))
                } else if len > *max as usize {
                    violation(format!(
                        "\"{text}\" length {len} is greater than maximum allowed length {max}"
                    ))
                } else {
                    Ok(())
                }
            }
            _ => Ok(()),
        }
    }

    /// Appends the JSON notation.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Integer(integer) => write_integer(*integer, out),
            Self::Real(real) => write_real(*real, out),
            Self::Boolean(true) => out.extend_from_slice(b"true"),
            Self::Boolean(false) => out.extend_from_slice(b"false"),
            Self::Uuid(uuid) => write_uuid(*uuid, out),
            Self::Short(..) | Self::Long(_) => write_string(self.as_bytes().unwrap_or(b""), out),
        }
    }

    /// The form in error messages: strings are unquoted where they cannot be mistaken for something else.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::Uuid(uuid) => uuid.to_string(),
            Self::Short(..) | Self::Long(_) if !self.needs_quotes() => {
                self.as_str().unwrap_or_default().to_owned()
            }
            _ => {
                let mut out = Vec::new();
                self.write(&mut out);
                String::from_utf8(out).unwrap_or_default()
            }
        }
    }

    fn needs_quotes(&self) -> bool {
        let text = self.as_str().unwrap_or_default();
        let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.');
        !text.bytes().next().is_some_and(|c| c.is_ascii_alphabetic() || c == b'_')
            || !text.bytes().all(plain)
            || matches!(text, "true" | "false")
            || text.parse::<Uuid>().is_ok()
    }

    /// Rank of the kind, so that atoms of different kinds have an order too.
    fn kind(&self) -> u8 {
        match self {
            Self::Integer(_) => 0,
            Self::Real(_) => 1,
            Self::Boolean(_) => 2,
            Self::Short(..) | Self::Long(_) => 3,
            Self::Uuid(_) => 4,
        }
    }
}

fn check_range<T: PartialOrd + std::fmt::Display>(
    value: &T,
    (min, max): (&T, &T),
    (lowest, highest): (&T, &T),
) -> Result<(), Error> {
    if value >= min && value <= max {
        return Ok(());
    }
    let details = if min != lowest && max != highest {
        format!("{value} is not in the valid range {min} to {max} (inclusive)")
    } else if min != lowest {
        format!("{value} is less than minimum allowed value {min}")
    } else {
        format!("{value} is greater than maximum allowed value {max}")
    };
    Err(Error::new(tag::CONSTRAINT, details))
}

/// The UUID of `["uuid", text]`, or of `["named-uuid", name]` if `symbols` are given.
fn parse_uuid(json: &Json, symbols: Option<&mut Symbols<'_>>) -> Result<Uuid, Error> {
    if let Some([Json::String(word), Json::String(text)]) = json.as_array() {
        match (&**word, symbols) {
            ("uuid", _) => {
                return text
                    .parse()
                    .map_err(|_| Error::syntax(json, format!("\"{text}\" is not a valid UUID")));
            }
            ("named-uuid", Some(symbols)) => {
                if !is_id(text) {
                    return Err(Error::syntax(json, "named-uuid string is not a valid <id>"));
                }
                return Ok(symbols.resolve(text));
            }
            _ => {}
        }
    }
    Err(Error::syntax(json, "expected [\"uuid\", <string>]"))
}

impl Ord for Atom {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a.cmp(b),
            (Self::Real(a), Self::Real(b)) => a.total_cmp(b),
            (Self::Boolean(a), Self::Boolean(b)) => a.cmp(b),
            (Self::Uuid(a), Self::Uuid(b)) => a.cmp(b),
            _ => match (self.as_bytes(), other.as_bytes()) {
                (Some(a), Some(b)) => a.cmp(b),
                _ => self.kind().cmp(&other.kind()),
            },
        }
    }
}

impl PartialOrd for Atom {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Atom {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Long(a), Self::Long(b)) => Arc::ptr_eq(a, b) || a == b,
            (Self::Short(a, x), Self::Short(b, y)) => a == b && x == y,
            _ => self.cmp(other) == Ordering::Equal,
        }
    }
}

impl Eq for Atom {}

impl Hash for Atom {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Integer(integer) => state.write_i64(*integer),
            Self::Real(real) => state.write_u64(real.to_bits()),
            Self::Boolean(boolean) => state.write_u8(u8::from(*boolean)),
            Self::Uuid(uuid) => state.write(&uuid.0),
            Self::Short(..) | Self::Long(_) => state.write(self.as_bytes().unwrap_or(b"")),
        }
    }
}
