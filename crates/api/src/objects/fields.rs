//! Members that are columns of their own: one list for each table says how they are read and shown.

use super::database::Row;
use crate::members::Members;
use crate::respond::Problem;
use serde_json::{Map, Value, json};

/// A member and its column. A member `queue.max_len` is `max_len` in the object `queue`.
pub(crate) struct Field {
    pub(super) member: &'static str,
    pub(super) column: &'static str,
    pub(super) kind: Kind,
}

/// What a member may be.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A text.
    Text,
    /// A text that every row has.
    RequiredText,
    /// A whole number of this range.
    Number(i64, i64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// `true` or `false`; what is not given stays as it is.
    Flag,
    /// One of these words; what is not given stays as it is.
    KeptWord(&'static [&'static str]),
    /// `true` or `false`; what is not given is false.
    PlainFlag,
    /// `true`, `false` or nothing.
    Choice,
    /// A list of texts, each of which counts once; one text alone is a list of it.
    Texts,
    /// The same, where an empty list is not the same as nothing: the database has the word `none` for it.
    TextsOrNone,
    /// An object of texts.
    Map,
    /// An object of texts by number of this range.
    NumberedMap(i64, i64),
}

/// The word of the database for a list that is there and empty.
const NONE: &str = "none";

impl Kind {
    /// How the database writes that a column has the value that it begins with.
    fn nothing(self) -> Value {
        match self {
            Self::Flag | Self::PlainFlag => Value::Bool(false),
            Self::Map | Self::NumberedMap(..) => json!(["map", []]),
            _ => nothing(),
        }
    }
}

/// What a body is for.
pub(crate) enum Reading {
    /// A new row: what is not given is as rows begin.
    Create,
    /// Another row in the place of one: what is not given goes back to its default, but what verbs
    /// set, such as whether a pool is started, stays.
    Replace,
    /// A change of a row: what is not given stays.
    Patch,
}

impl Reading {
    /// Whether a member that is not given goes back to its default.
    pub(super) fn resets(&self) -> bool {
        matches!(self, Self::Replace)
    }
}

/// How the database writes that an optional column has no value.
pub(super) fn nothing() -> Value {
    json!(["set", []])
}

/// Reads members into columns.
pub(super) fn read_fields(
    fields: &'static [Field],
    members: &mut Members,
    reading: &Reading,
    row: &mut Row,
    place: &dyn Fn(&str) -> Value,
) -> Result<(), Problem> {
    let mut outer: Vec<&'static str> = Vec::new();
    for field in fields {
        match field.member.split_once('.') {
            None => field.read(field.member, members, reading, row, place)?,
            Some((name, _)) if outer.contains(&name) => {}
            Some((name, _)) => {
                outer.push(name);
                read_inner(fields, name, members, reading, row, place)?;
            }
        }
    }
    Ok(())
}

/// Reads the object `name` with its members; `null` is an object of nothing but `null`.
fn read_inner(
    fields: &'static [Field],
    name: &'static str,
    members: &mut Members,
    reading: &Reading,
    row: &mut Row,
    place: &dyn Fn(&str) -> Value,
) -> Result<(), Problem> {
    let inside = fields.iter().filter_map(|field| {
        let (outer, inner) = field.member.split_once('.')?;
        (outer == name).then_some((field, inner))
    });
    let is_null = members.is_null(name);
    let mut object = members.object(name)?;
    for (field, inner) in inside {
        match &mut object {
            Some(object) => field.read(inner, object, reading, row, place)?,
            None if is_null || reading.resets() => {
                row.insert(field.column.into(), nothing());
            }
            None => {}
        }
    }
    object.map_or(Ok(()), Members::finish)
}

impl Field {
    fn read(
        &self,
        name: &'static str,
        members: &mut Members,
        reading: &Reading,
        row: &mut Row,
        place: &dyn Fn(&str) -> Value,
    ) -> Result<(), Problem> {
        let is_required = matches!(self.kind, Kind::RequiredText);
        let value = match members.given(name) {
            Some(value) if !value.is_null() => self.check(name, members, value, place)?,
            None if matches!(reading, Reading::Patch) => return Ok(()),
            _ if is_required => {
                let path = members.path(name);
                let message = format!("{path}: expected a text, but it is missing");
                return Err(Problem::bad_request(message));
            }
            None if !reading.resets() || self.is_kept() => return Ok(()),
            _ => self.kind.nothing(),
        };
        row.insert(self.column.into(), value);
        Ok(())
    }

    fn is_kept(&self) -> bool {
        matches!(self.kind, Kind::Flag | Kind::KeptWord(_))
    }

    fn check(
        &self,
        name: &str,
        members: &Members,
        value: Value,
        place: &dyn Fn(&str) -> Value,
    ) -> Result<Value, Problem> {
        let cannot = |expected: String| {
            let message = format!("{}: expected {expected}, found {value}", members.path(name));
            Err(Problem::constraint(message, place(self.column)))
        };
        match (self.kind, &value) {
            (Kind::Text | Kind::RequiredText, Value::String(_))
            | (Kind::Flag | Kind::PlainFlag | Kind::Choice, Value::Bool(_)) => Ok(value),
            (Kind::Texts | Kind::TextsOrNone, Value::String(text)) => Ok(json!(["set", [text]])),
            (Kind::Texts | Kind::TextsOrNone, Value::Array(texts))
                if texts.iter().all(Value::is_string) =>
            {
                let is_none = texts.is_empty() && matches!(self.kind, Kind::TextsOrNone);
                Ok(if is_none { json!(["set", [NONE]]) } else { set(texts) })
            }
            (Kind::Map | Kind::NumberedMap(..), Value::Object(texts)) => {
                let mut pairs = Vec::new();
                for (key, text) in texts {
                    let key = match self.kind {
                        Kind::NumberedMap(min, max) => match key.parse::<i64>() {
                            Ok(number) if (min..=max).contains(&number) => Value::from(number),
                            _ => return cannot(format!("members named {min} to {max}")),
                        },
                        _ => Value::from(key.as_str()),
                    };
                    if !text.is_string() {
                        return Err(members.wrong(name, "an object of texts", &value));
                    }
                    pairs.push(json!([key, text]));
                }
                Ok(json!(["map", pairs]))
            }
            (Kind::Number(min, max), Value::Number(number)) => match number.as_i64() {
                Some(number) if (min..=max).contains(&number) => Ok(value),
                _ => cannot(format!("a whole number of {min} to {max}")),
            },
            (Kind::Word(words) | Kind::KeptWord(words), Value::String(word)) => {
                match words.contains(&word.as_str()) {
                    true => Ok(value),
                    false => cannot(words.join(" or ")),
                }
            }
            (Kind::Number(..), _) => Err(members.wrong(name, "a whole number", &value)),
            (Kind::Flag | Kind::PlainFlag | Kind::Choice, _) => {
                Err(members.wrong(name, "true or false", &value))
            }
            (Kind::Texts | Kind::TextsOrNone, _) => {
                Err(members.wrong(name, "a list of texts", &value))
            }
            (Kind::Map | Kind::NumberedMap(..), _) => {
                Err(members.wrong(name, "an object of texts", &value))
            }
            _ => Err(members.wrong(name, "a text", &value)),
        }
    }
}

impl Field {
    /// The value of the column as clients see it; none if there is none.
    fn shown(&self, value: &Value) -> Option<Value> {
        match self.kind {
            Kind::Texts | Kind::TextsOrNone => {
                let texts = elements(value);
                let is_none = matches!(self.kind, Kind::TextsOrNone) && texts == [json!(NONE)];
                let list = if is_none { Vec::new() } else { texts.to_vec() };
                (is_none || !list.is_empty()).then_some(Value::Array(list))
            }
            Kind::Map | Kind::NumberedMap(..) => {
                let texts: Map<String, Value> = pairs(value)
                    .map(|(key, text)| {
                        let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                        (key, text.clone())
                    })
                    .collect();
                (!texts.is_empty()).then_some(Value::Object(texts))
            }
            _ => Some(value.clone()).filter(|value| !value.is_array()),
        }
    }
}

/// A set of these elements as the database writes it, each once.
fn set(elements: &[Value]) -> Value {
    let mut each: Vec<&Value> = Vec::new();
    for element in elements {
        if !each.contains(&element) {
            each.push(element);
        }
    }
    json!(["set", each])
}

/// The elements of a set, as the database writes it.
pub(super) fn elements(value: &Value) -> &[Value] {
    match value.as_array().map(Vec::as_slice) {
        Some([Value::String(word), Value::Array(many)]) if word == "set" => many,
        Some(_) => &[],
        None => std::slice::from_ref(value),
    }
}

/// The pairs of a map, as the database writes it.
pub(crate) fn pairs(value: &Value) -> impl Iterator<Item = (&Value, &Value)> {
    let many = match value.as_array().map(Vec::as_slice) {
        Some([Value::String(word), Value::Array(many)]) if word == "map" => many.as_slice(),
        _ => &[],
    };
    many.iter().filter_map(|pair| match pair.as_array().map(Vec::as_slice) {
        Some([key, value]) => Some((key, value)),
        _ => None,
    })
}

/// A live figure, with a map as an object and a set as a list; none of what is not known yet.
pub(super) fn show_figure(column: &'static str, value: &Value) -> Option<Value> {
    let kind = match column {
        "listening" => Kind::Texts,
        "responses" => Kind::Map,
        _ => Kind::Text,
    };
    Field { member: column, column, kind }.shown(value)
}

/// Shows columns as members; what has no value is left out.
pub(super) fn show_fields(fields: &[Field], row: &Row, object: &mut Map<String, Value>) {
    for field in fields {
        let Some(value) = row.get(field.column).and_then(|value| field.shown(value)) else {
            continue;
        };
        match field.member.split_once('.') {
            None => {
                object.insert(field.member.into(), value);
            }
            Some((outer, inner)) => {
                let outer = object.entry(outer).or_insert_with(|| Value::Object(Map::new()));
                if let Some(outer) = outer.as_object_mut() {
                    outer.insert(inner.into(), value);
                }
            }
        }
    }
}
