//! Settings of the catalogue as members of objects: how a body becomes columns, and how columns are shown.
//!
//! Promises that a setting that is simply a column needs nothing but its entry in the catalogue. The object itself
//! reads and shows any other setting.

use super::values::{Row, flag, number, shown, shown_one, text, texts};
use crate::members::Members;
use crate::respond::Problem;
use paceline_catalogue::{Default, Each, Figure, Holds, Kind, Measure, Setting, Shape};
use paceline_tables::value::{Atom, Datum};
use serde_json::{Map, Value, json};

/// The database's word for a list that is present and empty.
const NONE: &str = "none";

/// The purpose of a body.
pub(crate) enum Reading {
    /// A new row: missing members get their defaults.
    Create,
    /// A row that replaces another: missing members get their defaults, except those that the catalogue keeps.
    Replace,
    /// A change of a row: missing members stay.
    Patch,
}

impl Reading {
    /// Whether a missing member is reset to its default.
    pub(super) fn resets(&self) -> bool {
        matches!(self, Self::Replace)
    }
}

/// The default value of a column.
const fn nothing_of(setting: &Setting) -> Datum {
    match setting.holds {
        Holds::Flag(_) | Holds::Switch(_) => flag(false),
        _ => Datum::Empty,
    }
}

/// Whether it is neither a single column nor a table of them.
fn is_own(setting: &Setting) -> bool {
    matches!(setting.holds, Holds::Own(_, shape) if !matches!(shape, Shape::Text))
}

/// The settings of a kind that are members of its objects, without the one that names the object.
pub(super) fn members_of(kind: &'static Kind) -> impl Iterator<Item = &'static Setting> {
    kind.settings.iter().filter(|setting| setting.is_in_api() && setting.name != kind.id)
}

/// Reads members into the columns of a row.
pub(super) struct Reader<'a> {
    pub(super) reading: &'a Reading,
    pub(super) row: &'a mut Row,
    /// The place of a column, for errors.
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

    /// Reads an object of settings; `null`, or the word that stands for no settings, counts as an object in which every
    /// member is `null`.
    fn table(
        &mut self,
        setting: &Setting,
        inner: &'static [Setting],
        members: &mut Members,
    ) -> Result<(), Problem> {
        let word = setting.word().filter(|word| members.peek(setting.name) == Some(&json!(word)));
        if word.is_some() {
            members.take(setting.name);
        }
        let is_null = word.is_some() || members.is_null(setting.name);
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

    /// Reads an object of settings that may also be `true`, without further settings, or `false`.
    fn switch(
        &mut self,
        setting: &Setting,
        inner: &'static [Setting],
        members: &mut Members,
    ) -> Result<(), Problem> {
        let is_given = members.has(setting.name);
        let given = members.peek(setting.name).and_then(Value::as_bool);
        let object = match given {
            Some(_) => {
                members.take(setting.name);
                None
            }
            None => members.object(setting.name)?,
        };
        let is_on = given == Some(true) || object.is_some();
        if is_given || self.reading.resets() {
            self.row.insert(setting.column.into(), flag(is_on));
        }
        // If it is off, its settings are reset.
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
            // A missing list is an empty one, and the model checks what it must contain.
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

    /// The value of a column.
    fn value(&self, setting: &Setting, members: &Members, value: Value) -> Result<Datum, Problem> {
        let (name, holds) = (setting.name, &setting.holds);
        let cannot = |expected: String| {
            let message = format!("{}: expected {expected}, found {value}", members.path(name));
            Err(Problem::constraint(message, (self.place)(setting.column)))
        };
        match (holds, &value) {
            (Holds::Flag(_) | Holds::Choice, Value::Bool(is_on)) => Ok(flag(*is_on)),
            (Holds::Texts(_), Value::String(one)) => Ok(text(one)),
            (Holds::Texts(each), Value::Array(all)) if all.iter().all(Value::is_string) => {
                let is_none = all.is_empty() && *each == Each::Protocol;
                Ok(if is_none { text(NONE) } else { texts(all.iter().filter_map(Value::as_str)) })
            }
            (Holds::Map, Value::Object(texts)) if texts.values().all(Value::is_string) => {
                let pair = |(key, text): (&String, &Value)| {
                    (Atom::string(key), Atom::string(text.as_str().unwrap_or_default()))
                };
                Ok(Datum::map_of(texts.iter().map(pair).collect()))
            }
            (Holds::NumberedMap(min, max), Value::Object(texts))
                if texts.values().all(Value::is_string) =>
            {
                let number = |key: &String| key.parse().ok().filter(|n| (min..=max).contains(&n));
                let pair = |(key, text): (&String, &Value)| {
                    Some((Atom::Integer(number(key)?), Atom::string(text.as_str()?)))
                };
                match texts.iter().map(pair).collect() {
                    Some(pairs) => Ok(Datum::map_of(pairs)),
                    None => cannot(format!("members named {min} to {max}")),
                }
            }
            (Holds::Integer(min, max), Value::Number(given)) => match given.as_i64() {
                Some(given) if (min..=max).contains(&&given) => Ok(number(given)),
                _ => cannot(format!("a whole number of {min} to {max}")),
            },
            (Holds::OneOf(words), Value::String(word)) => match words.contains(&word.as_str()) {
                true => Ok(text(word)),
                // The setting is required, so the value is invalid.
                false if setting.default == Default::Required => {
                    Err(members.wrong(name, &expected(holds), &value))
                }
                false => cannot(words.join(" or ")),
            },
            (holds, Value::String(one)) if is_text(holds) => Ok(text(one)),
            (holds, _) => Err(members.wrong(name, &expected(holds), &value)),
        }
    }
}

/// Whether it is any text; the model checks its form.
fn is_text(holds: &Holds) -> bool {
    expected(holds) == "a text"
}

/// The expected value of a setting, in a few words.
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

/// Shows the settings of a kind as members of an object; settings without a value are left out.
pub(super) fn show(kind: &'static Kind, row: &Row, object: &mut Map<String, Value>) {
    for setting in members_of(kind).filter(|setting| !is_own(setting)) {
        let shown = match setting.holds {
            Holds::Table(inner) => show_table(inner, row).map(Value::Object),
            Holds::Switch(inner) => {
                let is_on = row.get(setting.column) == Some(&flag(true));
                is_on.then(|| show_table(inner, row).map_or(Value::Bool(true), Value::Object))
            }
            _ => row.get(setting.column).and_then(|value| show_value(&setting.holds, value)),
        };
        object.extend(shown.map(|value| (setting.name.to_owned(), value)));
    }
}

/// The members of a table of settings; `None` if none has a value.
fn show_table(inner: &'static [Setting], row: &Row) -> Option<Map<String, Value>> {
    let shown: Map<String, Value> = inner
        .iter()
        .filter_map(|one| {
            Some((one.name.to_owned(), show_value(&one.holds, row.get(one.column)?)?))
        })
        .collect();
    (!shown.is_empty()).then_some(shown)
}

/// The value of a column as clients see it; `None` if it has no value.
fn show_value(holds: &Holds, value: &Datum) -> Option<Value> {
    match holds {
        Holds::Texts(each) if *each == Each::Protocol && *value == text(NONE) => {
            Some(Value::Array(Vec::new()))
        }
        Holds::Texts(_) => show_set(value),
        Holds::Map | Holds::NumberedMap(..) => by_name(value),
        _ => shown_one(value),
    }
}

/// A set as a list; `None` if it is empty.
fn show_set(value: &Datum) -> Option<Value> {
    let list: Vec<Value> = value.atoms().iter().map(shown).collect();
    (!list.is_empty()).then_some(Value::Array(list))
}

/// A map as an object; `None` if it is empty.
fn by_name(value: &Datum) -> Option<Value> {
    let member = |(key, value): &(Atom, Atom)| {
        (key.as_str().map_or_else(|| shown(key).to_string(), str::to_owned), shown(value))
    };
    let members: Map<String, Value> = value.pairs().iter().map(member).collect();
    (!members.is_empty()).then_some(Value::Object(members))
}

/// The live figures of a row; unknown ones are left out.
pub(super) fn show_figures(figures: &[Figure], row: &Row) -> Map<String, Value> {
    let show = |figure: &Figure| {
        let value = row.get(figure.name)?;
        let value = match figure.measure {
            Measure::Texts => show_set(value),
            Measure::Counts => by_name(value),
            _ => shown_one(value),
        };
        Some((figure.name.to_owned(), value?))
    };
    figures.iter().filter_map(show).collect()
}
