//! Reading one table of the file by its allowed keys.
//!
//! Owns types and ranges of single values, and the messages about them. Every value that is read is valid for its
//! column.

use crate::document::{Object, flag, integer, text};
use crate::error::{ConfigError, Errors};
use crate::keys::{Holds, Key, Kind};
use crate::list;
use crate::place::{Lines, Place};
use crate::similar::did_you_mean;
use paceline_checkpoints::{At, Rate};
use paceline_tables::value::Datum;
use paceline_types::{Span, limits};
use std::collections::BTreeMap;
use toml_edit::{Item, TableLike};

/// How many characters of an invalid value or name a message shows.
const SHOWN_CHARS_MAX: usize = 40;

/// The places of a file's parts, and its errors so far.
pub(crate) struct Reader<'a> {
    pub lines: Lines<'a>,
    pub errors: Errors,
}

/// A key that is not one column, with its value.
pub(crate) struct Own<'t> {
    pub item: &'t Item,
    /// Where the key is.
    pub place: Place,
    /// What is expected.
    pub expected: &'static str,
}

/// The keys of an object that are not one column each.
pub(crate) type Owns<'t> = BTreeMap<&'static str, Own<'t>>;

impl<'a> Reader<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { lines: Lines::new(text), errors: Errors::default() }
    }

    /// Reads the table of an object; returns the keys that the object's own code reads.
    pub fn object<'t>(
        &mut self,
        object: &mut Object,
        kind: &'static Kind,
        table: &'t dyn TableLike,
    ) -> Owns<'t> {
        let path = match kind.id {
            "" => format!("[{}]", kind.word),
            _ => format!("[[{}]]", kind.word),
        };
        self.table(object, (kind.settings, &path, ""), table)
    }

    /// Reads a table named `path`, whose keys have names that begin with `prefix`.
    pub fn table<'t>(
        &mut self,
        object: &mut Object,
        (keys, path, prefix): (&'static [Key], &str, &str),
        table: &'t dyn TableLike,
    ) -> Owns<'t> {
        let mut owns = Owns::new();
        for (name, item) in table.iter() {
            let place = self.key_place(table, name);
            let mut known = keys.iter().filter(|key| key.is_in_file());
            let Some(key) = known.clone().find(|key| key.name == name) else {
                let names: Vec<&str> = known.by_ref().map(|key| key.name).collect();
                self.unknown(place, name, path, &names);
                if self.errors.is_full() {
                    break;
                }
                continue;
            };
            let name = format!("{prefix}{name}");
            match &key.holds {
                holds if let Some(expected) = holds.own() => {
                    object.places.insert(key.column, place);
                    owns.insert(key.name, Own { item, place, expected });
                }
                Holds::Table(_) | Holds::Switch(_) => {
                    object.places.insert(key.column, place);
                    self.inner(object, key, (&name, path), item);
                }
                _ => {
                    if let Some(value) = self.value(&name, &key.holds, item) {
                        object.set(key.column, value, place);
                    }
                }
            }
        }
        owns
    }

    /// Reads the table that is the value of a key.
    fn inner(&mut self, object: &mut Object, key: &Key, (name, path): (&str, &str), item: &Item) {
        let is_switch = matches!(key.holds, Holds::Switch(_));
        let bounds = match key.inner() {
            [min, max] if (min.name, max.name) == ("min", "max") => Some(max),
            _ => None,
        };
        if let Some(inner) = item.as_table_like() {
            let (path, prefix) = (format!("`{name}` of {path}"), format!("{name}."));
            self.table(object, (key.inner(), &path, &prefix), inner);
        } else if let Some(max) = bounds.filter(|_| item.is_integer()) {
            // One number is the maximum.
            if let Some(value) = self.value(&format!("{name}.max"), &max.holds, item) {
                object.set(max.column, value, self.item_place(item));
            }
        } else if let Some(word) = key.word() {
            // The word means that no key of the table is set.
            if item.as_str() != Some(word) {
                self.wrong_type(name, &format!("a table or \"{word}\""), item);
            }
            return;
        } else if item.as_bool().is_none() || !is_switch {
            let expected = match bounds {
                _ if is_switch => "a table, true or false",
                Some(_) => "a table or a number",
                None => "a table",
            };
            return self.wrong_type(name, expected, item);
        }
        if is_switch && item.as_bool() != Some(false) {
            object.columns.insert(key.column, flag(true));
        }
    }

    /// The place of a key of a table.
    pub fn key_place(&self, table: &dyn TableLike, name: &str) -> Place {
        let span = table.key(name).and_then(toml_edit::Key::span);
        self.lines.place(span.map_or(0, |span| span.start))
    }

    /// The place of a value.
    pub fn item_place(&self, item: &Item) -> Place {
        self.lines.place(item.span().map_or(0, |span| span.start))
    }

    /// Reports a key that is not allowed here.
    pub fn unknown(&mut self, place: Place, name: &str, path: &str, names: &[&str]) {
        let near = did_you_mean(name, names.iter().copied());
        let message = format!("unknown key `{}` in {path}{near}", shown(name));
        let hint = format!("expected one of: {}", names.join(", "));
        self.errors.push(ConfigError::new(place, message).hint(hint));
    }

    /// Reports a value of the wrong type or out of its range.
    pub fn wrong_type(&mut self, name: &str, expected: &str, item: &Item) {
        let message = format!("`{name}`: expected {expected}, found {}", found(item));
        let error = ConfigError::new(self.item_place(item), message);
        // A quoted value is often what was intended, and only the quotes are wrong.
        let is_plain = |text: &str| text.parse::<i64>().is_ok() || text.parse::<bool>().is_ok();
        let error = match item.as_str().filter(|text| is_plain(text)) {
            Some(text) => error.hint(format!("without quotes: {name} = {text}")),
            None => error,
        };
        self.errors.push(error);
    }

    /// Reports an invalid value of the right type.
    pub fn wrong_value(&mut self, name: &str, message: &str, item: &Item) {
        self.wrong_at(self.item_place(item), name, message);
    }

    /// Reports an error at this place.
    pub fn wrong_at(&mut self, place: Place, name: &str, message: &str) {
        self.errors.push(ConfigError::new(place, format!("`{name}`: {message}")));
    }

    /// A text without NUL, the one character that the database cannot store.
    pub fn text<'t>(&mut self, name: &str, expected: &str, item: &'t Item) -> Option<&'t str> {
        let Some(text) = item.as_str() else {
            self.wrong_type(name, expected, item);
            return None;
        };
        if text.contains('\0') {
            self.wrong_value(name, "a text may not contain the character U+0000", item);
            return None;
        }
        Some(text)
    }

    /// A whole number in a range; `expected` says which.
    pub fn integer(
        &mut self,
        name: &str,
        (min, max): (i64, i64),
        expected: &str,
        item: &Item,
    ) -> Option<i64> {
        let number = item.as_integer().filter(|number| (min..=max).contains(number));
        if number.is_none() {
            self.wrong_type(name, expected, item);
        }
        number
    }

    /// `true` or `false`.
    pub fn flag(&mut self, name: &str, item: &Item) -> Option<bool> {
        let flag = item.as_bool();
        if flag.is_none() {
            self.wrong_type(name, "true or false", item);
        }
        flag
    }

    fn value(&mut self, name: &str, holds: &Holds, item: &Item) -> Option<Datum> {
        match holds {
            Holds::Flag(_) | Holds::Choice => self.flag(name, item).map(flag),
            Holds::Texts(each) => list::texts(self, name, *each, item),
            Holds::Integer(min, max) => {
                let expected = match *max {
                    i64::MAX => format!("a whole number of at least {min}"),
                    max => format!("a whole number from {min} to {max}"),
                };
                self.integer(name, (*min, *max), &expected, item).map(integer)
            }
            Holds::OneOf(words) => {
                let expected = one_of(words);
                let word = item.as_str().filter(|word| words.contains(word));
                if word.is_none() {
                    self.wrong_type(name, &expected, item);
                }
                word.map(text)
            }
            _ => self.checked_text(name, holds, item).map(text),
        }
    }

    fn checked_text<'t>(&mut self, name: &str, holds: &Holds, item: &'t Item) -> Option<&'t str> {
        let expected = match holds {
            Holds::Span => "a length of time such as \"10m\"",
            Holds::Rate => "a rate such as \"500/s\"",
            Holds::Address => "an address such as \"127.0.0.1:80\"",
            _ => "a text",
        };
        let text = self.text(name, expected, item)?;
        let checked = match holds {
            Holds::Span => text.parse::<Span>().map(drop).map_err(|error| error.to_string()),
            Holds::Rate => text.parse::<Rate>().map(drop).map_err(|error| error.to_string()),
            Holds::At => text.parse::<At>().map(drop).map_err(|error| error.to_string()),
            Holds::Name => check_name(text, false),
            Holds::Word => check_name(text, true),
            Holds::SlashlessWord if text.contains('/') => {
                Err("expected a name without a slash".to_owned())
            }
            Holds::SlashlessWord => check_name(text, true),
            Holds::Address => list::check_address(text),
            _ => Ok(()),
        };
        match checked {
            Ok(()) => Some(text),
            Err(message) => {
                self.wrong_value(name, &message, item);
                None
            }
        }
    }
}

pub(crate) fn check_name(name: &str, is_word: bool) -> Result<(), String> {
    let blank = |c: char| c.is_whitespace() || c.is_control();
    if name.is_empty() || name.len() > limits::NAME_BYTES_MAX {
        let bytes = name.len();
        return Err(format!("expected 1 to {} bytes, found {bytes}", limits::NAME_BYTES_MAX));
    }
    if is_word && name.contains(blank) {
        return Err("expected a name without blanks and control characters".to_owned());
    }
    Ok(())
}

/// The start of a name, without characters that would disturb a line.
pub(crate) fn shown(name: &str) -> String {
    let start: String = name.chars().take(SHOWN_CHARS_MAX).collect();
    let more = if start.len() < name.len() { "..." } else { "" };
    format!("{}{more}", start.escape_debug())
}

fn found(item: &Item) -> String {
    match item.as_value() {
        Some(value) => found_value(value),
        None if item.is_array_of_tables() => "a list of tables".to_owned(),
        None => "a table".to_owned(),
    }
}

/// A description of a value, for messages.
pub(crate) fn found_value(value: &toml_edit::Value) -> String {
    match value {
        toml_edit::Value::String(text) => format!("the text \"{}\"", shown(text.value())),
        toml_edit::Value::Integer(number) => format!("the number {}", number.value()),
        toml_edit::Value::Float(number) => format!("the number {:?}", number.value()),
        toml_edit::Value::Boolean(flag) => flag.value().to_string(),
        toml_edit::Value::Datetime(_) => "a date or time".to_owned(),
        toml_edit::Value::Array(_) => "a list".to_owned(),
        toml_edit::Value::InlineTable(_) => "a table".to_owned(),
    }
}

fn one_of(words: &[&str]) -> String {
    let each: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    each.join(" or ")
}
