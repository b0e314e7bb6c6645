//! Values of the model: a set or a map of plain atoms, read from JSON one constraint at a time.

use super::schema::{Base, Column, Kind, Limit};
use paceline_tables::json::Json;
use paceline_tables::value::{self, Datum};
use paceline_types::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// Tags of which the real error must have one: if a request is wrong in several ways, the protocol does not say
/// which error is reported.
pub type Tags = Vec<&'static str>;

/// A double with an order; the model never holds NaN or negative zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number(pub f64);

impl Eq for Number {}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.partial_cmp(&other.0).unwrap()
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Atom {
    Integer(i64),
    Real(Number),
    Boolean(bool),
    String(String),
    Uuid(Uuid),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Set(BTreeSet<Atom>),
    Map(BTreeMap<Atom, Atom>),
}

/// Resolves named UUIDs.
pub type Names<'a> = &'a mut dyn FnMut(&str) -> Uuid;

impl Atom {
    pub fn default_of(kind: Kind) -> Self {
        match kind {
            Kind::Integer => Self::Integer(0),
            Kind::Real => Self::Real(Number(0.0)),
            Kind::Boolean => Self::Boolean(false),
            Kind::String => Self::String(String::new()),
            Kind::Uuid => Self::Uuid(Uuid::ZERO),
        }
    }

    pub fn real(real: f64) -> Self {
        Self::Real(Number(if real == 0.0 { 0.0 } else { real }))
    }

    /// RFC 7047 section 5.1, `<atom>`.
    fn read(json: &Json, kind: Kind, names: Names<'_>) -> Result<Self, Tags> {
        match (kind, json) {
            (Kind::Integer, Json::Integer(integer)) => Ok(Self::Integer(*integer)),
            (Kind::Real, Json::Integer(integer)) => Ok(Self::real(*integer as f64)),
            (Kind::Real, Json::Real(real)) => Ok(Self::real(*real)),
            (Kind::Boolean, Json::Bool(boolean)) => Ok(Self::Boolean(*boolean)),
            (Kind::String, Json::String(text)) => Ok(Self::String(text.to_string())),
            (Kind::Uuid, Json::Array(pair)) => match pair.as_slice() {
                [Json::String(word), Json::String(text)] if **word == *"uuid" => {
                    text.parse().map(Self::Uuid).map_err(|_| vec!["syntax error"])
                }
                [Json::String(word), Json::String(name)]
                    if **word == *"named-uuid" && paceline_tables::is_id(name) =>
                {
                    Ok(Self::Uuid(names(name)))
                }
                _ => Err(vec!["syntax error"]),
            },
            _ => Err(vec!["syntax error"]),
        }
    }

    pub fn fits(&self, base: &Base) -> bool {
        let allowed = base.allowed.as_ref().is_none_or(|allowed| allowed.contains(self));
        let within = match (self, &base.limit) {
            (Self::Integer(value), Limit::Integer(min, max)) => min <= value && value <= max,
            (Self::Real(value), Limit::Real(min, max)) => *min <= value.0 && value.0 <= *max,
            (Self::String(text), Limit::Length(min, max)) => {
                (*min..=*max).contains(&text.chars().count())
            }
            _ => true,
        };
        allowed && within
    }

    pub fn to_json(&self) -> Json {
        match self {
            Self::Integer(integer) => Json::Integer(*integer),
            Self::Real(real) => Json::Real(real.0),
            Self::Boolean(boolean) => Json::Bool(*boolean),
            Self::String(text) => Json::string(text.as_str()),
            Self::Uuid(uuid) => {
                Json::Array(vec![Json::string("uuid"), Json::string(uuid.to_string())])
            }
        }
    }

    fn of(atom: &value::Atom) -> Self {
        match atom {
            value::Atom::Integer(integer) => Self::Integer(*integer),
            value::Atom::Real(real) => Self::Real(Number(*real)),
            value::Atom::Boolean(boolean) => Self::Boolean(*boolean),
            value::Atom::Uuid(uuid) => Self::Uuid(*uuid),
            text => Self::String(text.as_str().unwrap().to_owned()),
        }
    }
}

impl Value {
    pub fn one(atom: Atom) -> Self {
        Self::Set(BTreeSet::from([atom]))
    }

    pub fn default_of(column: &Column) -> Self {
        let key = Atom::default_of(column.key.kind);
        match (column.min, &column.value) {
            (0, None) => Self::Set(BTreeSet::new()),
            (0, Some(_)) => Self::Map(BTreeMap::new()),
            (_, None) => Self::one(key),
            (_, Some(value)) => Self::Map(BTreeMap::from([(key, Atom::default_of(value.kind))])),
        }
    }

    /// The model's value of a datum of the database.
    pub fn of(datum: &Datum, column: &Column) -> Self {
        if column.value.is_some() {
            let pairs = datum.pairs().iter().map(|(k, v)| (Atom::of(k), Atom::of(v)));
            return Self::Map(pairs.collect());
        }
        Self::Set(datum.atoms().iter().map(Atom::of).collect())
    }

    /// Reads a value of `column`, checking all constraints but with other bounds on its size.
    pub fn read(
        json: &Json,
        column: &Column,
        (min, max): (usize, usize),
        names: Names<'_>,
    ) -> Result<Self, Tags> {
        let list = |word: &str| match json.as_array() {
            Some([Json::String(first), Json::Array(list)]) if **first == *word => Some(list),
            _ => None,
        };
        let sized = |n: usize| if n < min || n > max { Err(vec!["syntax error"]) } else { Ok(()) };
        let mut atom = |json: &Json, base: &Base| {
            let atom = Atom::read(json, base.kind, &mut *names)?;
            if atom.fits(base) { Ok(atom) } else { Err(vec!["constraint violation"]) }
        };
        if let Some(value) = &column.value {
            let list = list("map").ok_or_else(|| vec!["syntax error"])?;
            sized(list.len())?;
            let mut map = BTreeMap::new();
            for pair in list {
                let Some([k, v]) = pair.as_array() else { return Err(vec!["syntax error"]) };
                map.insert(atom(k, &column.key)?, atom(v, value)?);
            }
            return if map.len() == list.len() {
                Ok(Self::Map(map))
            } else {
                Err(vec!["ovsdb error"])
            };
        }
        let is_set = matches!(json.as_array(), Some([Json::String(word), ..]) if **word == *"set");
        if !is_set {
            return Ok(Self::one(atom(json, &column.key)?));
        }
        let list = list("set").ok_or_else(|| vec!["syntax error"])?;
        sized(list.len())?;
        let mut set = BTreeSet::new();
        for element in list {
            set.insert(atom(element, &column.key)?);
        }
        if set.len() == list.len() { Ok(Self::Set(set)) } else { Err(vec!["ovsdb error"]) }
    }

    /// Reads a value that the server wrote, which has the column's form but may have any size.
    pub fn read_any(json: &Json, column: &Column) -> Self {
        let mut free = column.clone();
        free.key.allowed = None;
        free.key.limit = Limit::None;
        if let Some(value) = &mut free.value {
            *value = Base { kind: value.kind, allowed: None, limit: Limit::None };
        }
        Self::read(json, &free, (0, usize::MAX), &mut |_| Uuid::ZERO)
            .unwrap_or_else(|_| panic!("{} is no value of {}", json.to_text(), column.name))
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Set(set) => set.len(),
            Self::Map(map) => map.len(),
        }
    }

    pub fn fits(&self, column: &Column) -> bool {
        let size = (column.min..=column.max).contains(&self.len());
        size && match self {
            Self::Set(set) => set.iter().all(|atom| atom.fits(&column.key)),
            Self::Map(map) => map.iter().all(|(key, value)| {
                key.fits(&column.key) && value.fits(column.value.as_ref().unwrap())
            }),
        }
    }

    /// Whether all of this is in `other`.
    pub fn within(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Set(a), Self::Set(b)) => a.is_subset(b),
            (Self::Map(a), Self::Map(b)) => a.iter().all(|(k, v)| b.get(k) == Some(v)),
            _ => false,
        }
    }

    /// Whether none of this is in `other`.
    pub fn apart_from(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Set(a), Self::Set(b)) => a.is_disjoint(b),
            (Self::Map(a), Self::Map(b)) => a.iter().all(|(k, v)| b.get(k) != Some(v)),
            _ => false,
        }
    }

    pub fn single(&self) -> Option<&Atom> {
        match self {
            Self::Set(set) if set.len() == 1 => set.first(),
            _ => None,
        }
    }

    pub fn to_json(&self) -> Json {
        let (word, list): (_, Vec<Json>) = match self {
            Self::Set(_) if self.len() == 1 => return self.single().unwrap().to_json(),
            Self::Set(set) => ("set", set.iter().map(Atom::to_json).collect()),
            Self::Map(map) => {
                let pair = |(k, v): (&Atom, &Atom)| Json::Array(vec![k.to_json(), v.to_json()]);
                ("map", map.iter().map(pair).collect())
            }
        };
        Json::Array(vec![Json::string(word), Json::Array(list)])
    }

    /// The UUIDs that `column` refers to on the side that has the reference.
    pub fn references(&self, value_side: bool) -> Vec<Uuid> {
        let uuid = |atom: &Atom| match atom {
            Atom::Uuid(uuid) => *uuid,
            other => panic!("{other:?} is no reference"),
        };
        match self {
            Self::Set(set) if !value_side => set.iter().map(uuid).collect(),
            Self::Set(_) => Vec::new(),
            Self::Map(map) if value_side => map.values().map(uuid).collect(),
            Self::Map(map) => map.keys().map(uuid).collect(),
        }
    }

    /// This value with every UUID replaced by the result of `rename`.
    pub fn renamed(&self, rename: &dyn Fn(Uuid) -> Uuid) -> Self {
        let one = |atom: &Atom| match atom {
            Atom::Uuid(uuid) => Atom::Uuid(rename(*uuid)),
            other => other.clone(),
        };
        match self {
            Self::Set(set) => Self::Set(set.iter().map(one).collect()),
            Self::Map(map) => Self::Map(map.iter().map(|(k, v)| (one(k), one(v))).collect()),
        }
    }

    /// The result of applying the difference `by`, as the update2 notation defines differences.
    pub fn patched(&self, by: &Self, column: &Column) -> Self {
        match (self, by) {
            _ if column.max == 1 => by.clone(),
            (Self::Set(old), Self::Set(by)) => {
                Self::Set(old.symmetric_difference(by).cloned().collect())
            }
            (Self::Map(old), Self::Map(by)) => {
                let mut new = old.clone();
                for (key, value) in by {
                    if new.get(key) == Some(value) {
                        new.remove(key);
                    } else {
                        new.insert(key.clone(), value.clone());
                    }
                }
                Self::Map(new)
            }
            _ => panic!("a set cannot be patched by a map"),
        }
    }
}
