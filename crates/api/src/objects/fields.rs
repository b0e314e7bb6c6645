//! Settings of the catalogue as members of objects: how a body becomes columns, and how columns are shown.
//!
//! Promises that a setting that is simply a column needs nothing but its entry in the catalogue. What is not simply a
//! column, the object reads and shows by itself.

use super::database::Row;
use crate::members::Members;
use crate::respond::Problem;
use paceline_catalogue::{Default, Each, Figure, Holds, Kind, Measure, Setting, Shape};
use serde_json::{Map, Value, json};

/// The word of the database for a list that is there and empty.
const NONE: &str = "none";

/// What a body is for.
pub(crate) enum Reading {
    /// A new row: what is not given is as rows begin.
    Create,
    /// Another row in the place of one: what is not given goes back to its default, but for what the catalogue says
    /// is kept.
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

/// How the database writes that a column has the value that it begins with.
fn nothing_of(setting: &Setting) -> Value {
    match setting.holds {
        Holds::Flag(_) | Holds::Switch(_) => Value::Bool(false),
        Holds::Map | Holds::NumberedMap(..) => json!(["map", []]),
        _ => nothing(),
    }
}

/// Whether it is neither one column nor a table of them.
fn is_own(setting: &Setting) -> bool {
    matches!(setting.holds, Holds::Own(_, shape) if !matches!(shape, Shape::Text))
}

/// The settings of a kind that the members of its objects are, without the one that names the object.
pub(super) fn members_of(kind: &'static Kind) -> impl Iterator<Item = &'static Setting> {
    kind.settings.iter().filter(|setting| setting.is_in_api() && setting.name != kind.id)
}

/// Reads members into the columns of a row.
pub(super) struct Reader<'a> {
    pub(super) reading: &'a Reading,
    pub(super) row: &'a mut Row,
    /// Where a column is, for errors.
    pub(super) place: &'a dyn Fn(&str) -> Value,
}

impl Reader<'_> {
    /// Reads the members of an object of this kind.
    pub(super) fn read(
        &mut self,
        kind: &'static Kind,
        members: &mut Members,
    ) -> Result<(), Problem> {
        for setting in members_of(kind).filter(|setting| !is_own(setting)) {
            match setting.holds {
                Holds::Table(inner) => self.table(setting, inner, members)?,
                Holds::Switch(inner) => self.switch(setting, inner, members)?,
                _ => self.column(setting, members)?,
            }
        }
        Ok(())
    }

    /// Reads an object of settings; `null` is an object of nothing but `null`.
    fn table(
        &mut self,
        setting: &Setting,
        inner: &'static [Setting],
        members: &mut Members,
    ) -> Result<(), Problem> {
        let is_null = members.is_null(setting.name);
        let Some(mut object) = members.object(setting.name)? else {
            if is_null || self.reading.resets() {
                let columns = inner.iter().map(|one| (one.column.to_owned(), nothing_of(one)));
                self.row.extend(columns);
            }
            return Ok(());
        };
        inner.iter().try_for_each(|one| self.column(one, &mut object))?;
        object.finish()
    }

    /// Reads an object of settings that is also `true`, where nothing more is said, or `false`.
    fn switch(
        &mut self,
        setting: &Setting,
        inner: &'static [Setting],
        members: &mut Members,
    ) -> Result<(), Problem> {
        let is_given = members.has(setting.name);
        let flag = members.peek(setting.name).and_then(Value::as_bool);
        let object = match flag {
            Some(_) => {
                members.take(setting.name);
                None
            }
            None => members.object(setting.name)?,
        };
        let is_on = flag == Some(true) || object.is_some();
        if is_given || self.reading.resets() {
            self.row.insert(setting.column.into(), is_on.into());
        }
        // What is off has nothing of how.
        let reading = if is_given && !is_on { &Reading::Replace } else { self.reading };
        let mut object = object.map_or_else(|| Members::of(json!({})), Ok)?;
        let mut reader = Reader { reading, row: self.row, place: self.place };
        inner.iter().try_for_each(|one| reader.column(one, &mut object))?;
        object.finish()
    }

    /// Reads a setting that is one column.
    fn column(&mut self, setting: &Setting, members: &mut Members) -> Result<(), Problem> {
        let name = setting.name;
        let value = match members.given(name) {
            Some(value) if !value.is_null() => self.value(setting, members, value)?,
            None if matches!(self.reading, Reading::Patch) => return Ok(()),
            // A list that is missing is an empty one, and the model says what it must have.
            _ if setting.default == Default::Required
                && !matches!(setting.holds, Holds::Texts(_)) =>
            {
                let (path, expected) = (members.path(name), expected(&setting.holds));
                let message = format!("{path}: expected {expected}, but it is missing");
                return Err(Problem::bad_request(message));
            }
            None if !self.reading.resets() || setting.is_kept => return Ok(()),
            _ => nothing_of(setting),
        };
        self.row.insert(setting.column.into(), value);
        Ok(())
    }

    /// A value as the database writes it.
    fn value(&self, setting: &Setting, members: &Members, value: Value) -> Result<Value, Problem> {
        let (name, holds) = (setting.name, &setting.holds);
        let cannot = |expected: String| {
            let message = format!("{}: expected {expected}, found {value}", members.path(name));
            Err(Problem::constraint(message, (self.place)(setting.column)))
        };
        match (holds, &value) {
            (Holds::Flag(_) | Holds::Choice, Value::Bool(_)) => Ok(value),
            (Holds::Texts(_), Value::String(text)) => Ok(json!(["set", [text]])),
            (Holds::Texts(each), Value::Array(texts)) if texts.iter().all(Value::is_string) => {
                let is_none = texts.is_empty() && *each == Each::Protocol;
                Ok(if is_none { json!(["set", [NONE]]) } else { set(texts) })
            }
            (Holds::Map, Value::Object(texts)) if texts.values().all(Value::is_string) => {
                Ok(json!(["map", texts.iter().collect::<Vec<_>>()]))
            }
            (Holds::NumberedMap(min, max), Value::Object(texts))
                if texts.values().all(Value::is_string) =>
            {
                let number = |key: &String| key.parse().ok().filter(|n| (min..=max).contains(&n));
                let pairs: Option<Vec<(i64, &Value)>> =
                    texts.iter().map(|(key, text)| Some((number(key)?, text))).collect();
                match pairs {
                    Some(pairs) => Ok(json!(["map", pairs])),
                    None => cannot(format!("members named {min} to {max}")),
                }
            }
            (Holds::Integer(min, max), Value::Number(number)) => match number.as_i64() {
                Some(number) if (min..=max).contains(&&number) => Ok(value),
                _ => cannot(format!("a whole number of {min} to {max}")),
            },
            (Holds::OneOf(words), Value::String(word)) => match words.contains(&word.as_str()) {
                true => Ok(value),
                // An object cannot be without it, so the body is none.
                false if setting.default == Default::Required => {
                    Err(members.wrong(name, &expected(holds), &value))
                }
                false => cannot(words.join(" or ")),
            },
            (holds, Value::String(_)) if is_text(holds) => Ok(value),
            (holds, _) => Err(members.wrong(name, &expected(holds), &value)),
        }
    }
}

/// Whether it is one text of any form; the model checks which.
fn is_text(holds: &Holds) -> bool {
    expected(holds) == "a text"
}

/// What a setting may be, in a few words.
fn expected(holds: &Holds) -> String {
    match holds {
        Holds::Integer(..) => "a whole number".into(),
        Holds::Flag(_) | Holds::Choice => "true or false".into(),
        Holds::OneOf(words) => words.join(" or "),
        Holds::Texts(_) => "a list of texts".into(),
        Holds::Map | Holds::NumberedMap(..) => "an object of texts".into(),
        _ => "a text".into(),
    }
}

/// Shows the settings of a kind as members of an object; what has no value is left out.
pub(super) fn show(kind: &'static Kind, row: &Row, object: &mut Map<String, Value>) {
    for setting in members_of(kind).filter(|setting| !is_own(setting)) {
        let shown = match setting.holds {
            Holds::Table(inner) => show_table(inner, row).map(Value::Object),
            Holds::Switch(inner) => {
                let is_on = row.get(setting.column) == Some(&Value::Bool(true));
                is_on.then(|| show_table(inner, row).map_or(Value::Bool(true), Value::Object))
            }
            _ => row.get(setting.column).and_then(|value| shown(&setting.holds, value)),
        };
        object.extend(shown.map(|value| (setting.name.to_owned(), value)));
    }
}

/// The members of a table of settings; none if none has a value.
fn show_table(inner: &'static [Setting], row: &Row) -> Option<Map<String, Value>> {
    let shown: Map<String, Value> = inner
        .iter()
        .filter_map(|one| Some((one.name.to_owned(), shown(&one.holds, row.get(one.column)?)?)))
        .collect();
    (!shown.is_empty()).then_some(shown)
}

/// The value of a column as clients see it; none if there is none.
fn shown(holds: &Holds, value: &Value) -> Option<Value> {
    match holds {
        Holds::Texts(each) => {
            let texts = elements(value);
            let is_none = *each == Each::Protocol && texts == [json!(NONE)];
            let list = if is_none { Vec::new() } else { texts.to_vec() };
            (is_none || !list.is_empty()).then_some(Value::Array(list))
        }
        Holds::Map | Holds::NumberedMap(..) => by_name(value),
        _ => Some(value.clone()).filter(|value| !value.is_array()),
    }
}

/// A map of the database as an object; none if it is empty.
fn by_name(value: &Value) -> Option<Value> {
    let member = |(key, value): (&Value, &Value)| {
        (key.as_str().map_or_else(|| key.to_string(), str::to_owned), value.clone())
    };
    let members: Map<String, Value> = pairs(value).map(member).collect();
    (!members.is_empty()).then_some(Value::Object(members))
}

/// The live figures of a row; those that are not known yet are left out.
pub(super) fn show_figures(figures: &[Figure], row: &Row) -> Map<String, Value> {
    let show = |figure: &Figure| {
        let value = row.get(figure.name)?;
        let value = match figure.measure {
            Measure::Texts => Some(elements(value)).filter(|all| !all.is_empty()).map(Into::into),
            Measure::Counts => by_name(value),
            _ => Some(value.clone()).filter(|value| !value.is_array()),
        };
        Some((figure.name.to_owned(), value?))
    };
    figures.iter().filter_map(show).collect()
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
fn elements(value: &Value) -> &[Value] {
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
