//! Types of columns: an atomic type with constraints, and the number of elements.

use crate::error::{Error, tag};
use crate::json::Json;
use crate::members::{Kinds, Members};
use crate::schema::TableId;
use crate::value::{Atom, Datum};

/// The number that stands for "unlimited".
pub const UNLIMITED: u32 = u32::MAX;

/// The kind of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomType {
    /// 64-bit integer
    Integer,
    /// double
    Real,
    /// truth value
    Boolean,
    /// string
    String,
    /// UUID, perhaps a reference to a row
    Uuid,
}

impl AtomType {
    /// The name in schemas and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Real => "real",
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Uuid => "uuid",
        }
    }

    fn parse(json: &Json) -> Result<Self, Error> {
        let Some(name) = json.as_str() else {
            return Err(Error::syntax(json, "atomic-type expected"));
        };
        [Self::Integer, Self::Real, Self::Boolean, Self::String, Self::Uuid]
            .into_iter()
            .find(|atom| atom.name() == name)
            .ok_or_else(|| Error::syntax(json, format!("\"{name}\" is not an atomic-type")))
    }
}

/// Bounds on a scalar.
#[derive(Clone, Debug, PartialEq)]
pub enum Bounds {
    /// None.
    Free,
    /// Least and greatest integer.
    Integer(i64, i64),
    /// Least and greatest real.
    Real(f64, f64),
    /// Least and greatest number of characters.
    Length(u32, u32),
    /// A reference to a row.
    Reference(Reference),
}

/// What a UUID refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The table's name.
    pub name: Box<str>,
    /// The table, once the whole schema is known.
    pub table: TableId,
    /// Whether the row cannot be deleted while it is referred to. Otherwise the reference is removed with the row.
    pub strong: bool,
}

/// A scalar type with its constraints.
#[derive(Clone, Debug, PartialEq)]
pub struct BaseType {
    /// The kind of scalar.
    pub atom: AtomType,
    /// The only values allowed, sorted.
    pub allowed: Option<Box<[Atom]>>,
    /// Other constraints.
    pub bounds: Bounds,
}

impl BaseType {
    /// A type without constraints.
    #[must_use]
    pub fn plain(atom: AtomType) -> Self {
        Self { atom, allowed: None, bounds: Bounds::Free }
    }

    /// What this refers to, if it is a reference.
    #[must_use]
    pub fn reference(&self) -> Option<&Reference> {
        match &self.bounds {
            Bounds::Reference(reference) => Some(reference),
            _ => None,
        }
    }

    fn parse(json: &Json) -> Result<Self, Error> {
        if json.as_str().is_some() {
            return Ok(Self::plain(AtomType::parse(json)?));
        }
        let mut members = Members::new(json, "ovsdb type");
        let Some(name) = members.required("type", Kinds::STRING) else {
            members.check()?;
            return Err(Error::syntax(json, "ovsdb type expected"));
        };
        let mut base = Self::plain(AtomType::parse(name)?);
        if let Some(list) = members.optional("enum", Kinds::ANY) {
            let ty = Type { key: base.clone(), value: None, min: 1, max: UNLIMITED };
            base.allowed = Some(Datum::parse(list, &ty, None)?.atoms().into());
        } else {
            base.bounds = parse_bounds(json, base.atom, &mut members)?;
        }
        members.finish()?;
        Ok(base)
    }

    fn to_json(&self) -> Json {
        if self.allowed.is_none() && self.bounds == Bounds::Free {
            return Json::string(self.atom.name());
        }
        let mut members = vec![("type", Json::string(self.atom.name()))];
        if let Some(allowed) = &self.allowed {
            members.push(("enum", enum_to_json(allowed)));
        }
        match &self.bounds {
            Bounds::Free => {}
            Bounds::Integer(min, max) => {
                members.extend((*min != i64::MIN).then_some(("minInteger", Json::Integer(*min))));
                members.extend((*max != i64::MAX).then_some(("maxInteger", Json::Integer(*max))));
            }
            Bounds::Real(min, max) => {
                members.extend((*min != f64::MIN).then_some(("minReal", Json::Real(*min))));
                members.extend((*max != f64::MAX).then_some(("maxReal", Json::Real(*max))));
            }
            Bounds::Length(min, max) => {
                members.extend((*min != 0).then_some(("minLength", Json::Integer((*min).into()))));
                members.extend(
                    (*max != UNLIMITED).then_some(("maxLength", Json::Integer((*max).into()))),
                );
            }
            Bounds::Reference(reference) => {
                members.push(("refTable", Json::string(reference.name.clone())));
                members.extend((!reference.strong).then_some(("refType", Json::string("weak"))));
            }
        }
        Json::object(members)
    }
}

fn enum_to_json(allowed: &[Atom]) -> Json {
    let one = |atom: &Atom| match atom {
        Atom::Integer(integer) => Json::Integer(*integer),
        Atom::Real(real) => Json::Real(*real),
        Atom::Boolean(boolean) => Json::Bool(*boolean),
        Atom::Uuid(uuid) => Json::Array(vec![Json::string("uuid"), Json::string(uuid.to_string())]),
        text => Json::string(text.as_str().unwrap_or_default()),
    };
    match allowed {
        [only] => one(only),
        _ => Json::Array(vec![Json::string("set"), Json::Array(allowed.iter().map(one).collect())]),
    }
}

fn parse_bounds<'a>(
    json: &Json,
    atom: AtomType,
    members: &mut Members<'a>,
) -> Result<Bounds, Error> {
    Ok(match atom {
        AtomType::Boolean => Bounds::Free,
        AtomType::Integer => {
            let mut bound =
                |name: &'a str, unbounded: i64| match members.optional(name, Kinds::INTEGER) {
                    Some(Json::Integer(value)) => *value,
                    _ => unbounded,
                };
            let (min, max) = (bound("minInteger", i64::MIN), bound("maxInteger", i64::MAX));
            if min > max {
                return Err(Error::syntax(json, "minInteger exceeds maxInteger"));
            }
            if (min, max) == (i64::MIN, i64::MAX) {
                Bounds::Free
            } else {
                Bounds::Integer(min, max)
            }
        }
        AtomType::Real => {
            let mut bound =
                |name: &'a str, unbounded: f64| match members.optional(name, Kinds::NUMBER) {
                    Some(Json::Integer(value)) => *value as f64,
                    Some(Json::Real(value)) => *value,
                    _ => unbounded,
                };
            let (min, max) = (bound("minReal", f64::MIN), bound("maxReal", f64::MAX));
            if min > max {
                return Err(Error::syntax(json, "minReal exceeds maxReal"));
            }
            if (min, max) == (f64::MIN, f64::MAX) { Bounds::Free } else { Bounds::Real(min, max) }
        }
        AtomType::String => {
            let min = parse_length(members, "minLength", 0)?;
            let max = parse_length(members, "maxLength", UNLIMITED)?;
            if min > max {
                return Err(Error::syntax(json, "minLength exceeds maxLength"));
            }
            if (min, max) == (0, UNLIMITED) { Bounds::Free } else { Bounds::Length(min, max) }
        }
        AtomType::Uuid => parse_reference(json, members)?,
    })
}

fn parse_length<'a>(members: &mut Members<'a>, name: &'a str, default: u32) -> Result<u32, Error> {
    match members.optional(name, Kinds::INTEGER) {
        Some(value @ Json::Integer(length)) => u32::try_from(*length).map_err(|_| {
            Error::syntax(value, format!("{name} out of valid range 0 to {UNLIMITED}"))
        }),
        _ => Ok(default),
    }
}

fn parse_reference(json: &Json, members: &mut Members<'_>) -> Result<Bounds, Error> {
    let Some(name) = members.optional("refTable", Kinds::ID).and_then(Json::as_str) else {
        return Ok(Bounds::Free);
    };
    let strong = match members.optional("refType", Kinds::ID).and_then(Json::as_str) {
        None | Some("strong") => true,
        Some("weak") => false,
        Some(other) => {
            let details = format!("refType must be \"strong\" or \"weak\" (not \"{other}\")");
            return Err(Error::syntax(json, details));
        }
    };
    Ok(Bounds::Reference(Reference { name: name.into(), table: TableId(0), strong }))
}

/// The type of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    /// Type of the scalar, of the set's elements or of the map's keys.
    pub key: BaseType,
    /// Type of the map's values; `None` if it is not a map.
    pub value: Option<BaseType>,
    /// The fewest elements: 0 or 1.
    pub min: u32,
    /// The most elements.
    pub max: u32,
}

impl Type {
    /// A scalar without constraints.
    #[must_use]
    pub fn scalar(atom: AtomType) -> Self {
        Self { key: BaseType::plain(atom), value: None, min: 1, max: 1 }
    }

    /// Whether it holds exactly one atom.
    #[must_use]
    pub fn is_scalar(&self) -> bool {
        self.value.is_none() && self.min == 1 && self.max == 1
    }

    /// Whether it holds integers or reals and is not a map.
    #[must_use]
    pub fn is_numeric(&self) -> bool {
        self.value.is_none() && matches!(self.key.atom, AtomType::Integer | AtomType::Real)
    }

    /// The type in English, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        if self.is_scalar() {
            return self.key.atom.name().to_owned();
        }
        let count = match (self.min, self.max) {
            (0, UNLIMITED) => " of".to_owned(),
            (min, UNLIMITED) => format!(" of {min} or more"),
            (0, max) => format!(" of up to {max}"),
            (min, max) => format!(" of {min} to {max}"),
        };
        let key = self.key.atom.name();
        match &self.value {
            None => format!("set{count} {key}s"),
            Some(value) => format!("map{count} ({key}, {}) pairs", value.atom.name()),
        }
    }

    /// Parses the JSON notation.
    pub fn parse(json: &Json) -> Result<Self, Error> {
        if json.as_str().is_some() {
            return Ok(Self { key: BaseType::parse(json)?, value: None, min: 1, max: 1 });
        }
        if json.as_object().is_none() {
            return Err(Error::syntax(json, "ovsdb type expected"));
        }
        let mut members = Members::new(json, "ovsdb type");
        let key = members.required("key", Kinds::STRING | Kinds::OBJECT);
        let value = members.optional("value", Kinds::STRING | Kinds::OBJECT);
        let min = members.optional("min", Kinds::INTEGER);
        let max = members.optional("max", Kinds::INTEGER | Kinds::STRING);
        members.finish()?;
        let Some(key) = key else {
            return Err(Error::new(tag::SYNTAX, "ovsdb type expected"));
        };
        let key = BaseType::parse(key)?;
        let value = value.map(BaseType::parse).transpose()?;
        let min = parse_count(min)?;
        let max = match max {
            Some(Json::String(word)) if **word == *"unlimited" => UNLIMITED,
            other => parse_count(other)?,
        };
        if min > 1 || max < 1 {
            return Err(Error::syntax(json, "ovsdb type fails constraint checks"));
        }
        Ok(Self { key, value, min, max })
    }

    /// The JSON notation.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let key = self.key.to_json();
        if self.is_scalar() && key.as_str().is_some() {
            return key;
        }
        let mut members = vec![("key", key)];
        if let Some(value) = &self.value {
            members.push(("value", value.to_json()));
        }
        members.extend((self.min != 1).then_some(("min", Json::Integer(self.min.into()))));
        match self.max {
            1 => {}
            UNLIMITED => members.push(("max", Json::string("unlimited"))),
            max => members.push(("max", Json::Integer(max.into()))),
        }
        Json::object(members)
    }
}

fn parse_count(json: Option<&Json>) -> Result<u32, Error> {
    let Some(json) = json else { return Ok(1) };
    if let Json::Integer(count) = json
        && let Ok(count) = u32::try_from(*count)
        && count != UNLIMITED
    {
        return Ok(count);
    }
    Err(Error::syntax(json, "bad min or max value"))
}
