//! Lists in the file: of texts, and of tables.

use crate::document::set;
use crate::error::ConfigError;
use crate::keys::Each;
use crate::place::Place;
use crate::read::{Reader, found_value, shown};
use paceline_routing::{Address, Network};
use paceline_tables::value::Datum;
use std::collections::BTreeSet;
use toml_edit::{Item, TableLike, Value};

/// The database's word for no upgrades at all, which an empty list of the file means.
pub(crate) const NO_UPGRADES: &str = "none";

const fn expected(each: Each) -> &'static str {
    match each {
        Each::Listen => "an address such as \"127.0.0.1:80\", or a list of them",
        Each::Network => "a list of addresses and networks such as \"10.0.0.0/8\"",
        Each::Protocol => "a list of protocols such as \"websocket\"",
    }
}

fn check(each: Each, text: &str) -> Result<(), String> {
    match each {
        Each::Listen => match text.parse::<Address>() {
            Ok(Address::Host { .. }) => Err(format!(
                "expected an IP address to listen on, such as \"127.0.0.1:80\", found \"{}\"",
                shown(text)
            )),
            Ok(_) => Ok(()),
            Err(error) => Err(format!("{error}, found \"{}\"", shown(text))),
        },
        Each::Network => match text.parse::<Network>() {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("{error}, found \"{}\"", shown(text))),
        },
        Each::Protocol => Ok(()),
    }
}

/// Whether the text is a valid address of a server.
pub(crate) fn check_address(text: &str) -> Result<(), String> {
    let address = text.parse::<Address>();
    address.map(drop).map_err(|error| format!("{error}, found \"{}\"", shown(text)))
}

/// One text, or a list of distinct texts.
pub(crate) fn texts(reader: &mut Reader<'_>, name: &str, each: Each, item: &Item) -> Option<Datum> {
    if let Some(text) = item.as_str() {
        reader.text(name, expected(each), item)?;
        return match check(each, text) {
            Ok(()) => Some(set([text.to_owned()])),
            Err(message) => {
                reader.wrong_value(name, &message, item);
                None
            }
        };
    }
    let Some(list) = item.as_array() else {
        reader.wrong_type(name, expected(each), item);
        return None;
    };
    if list.is_empty() && matches!(each, Each::Listen) {
        reader.wrong_value(name, "expected at least one address", item);
        return None;
    }
    let mut seen = BTreeSet::new();
    for value in list {
        match element(each, value, &seen) {
            Ok(text) => drop(seen.insert(text.to_owned())),
            Err(message) => reader.wrong_at(value_place(reader, value), name, &message),
        }
    }
    let is_none = list.is_empty() && matches!(each, Each::Protocol);
    if is_none {
        seen.insert(NO_UPGRADES.to_owned());
    }
    Some(set(seen))
}

fn element<'v>(each: Each, value: &'v Value, seen: &BTreeSet<String>) -> Result<&'v str, String> {
    let Some(text) = value.as_str() else {
        return Err(format!("expected {}, found {}", expected(each), found_value(value)));
    };
    if text.contains('\0') {
        return Err("a text may not contain the character U+0000".to_owned());
    }
    if seen.contains(text) {
        return Err(format!("`{}` is named twice", shown(text)));
    }
    check(each, text).map(|()| text)
}

fn value_place(reader: &Reader<'_>, value: &Value) -> Place {
    reader.lines.place(value.span().map_or(0, |span| span.start))
}

/// The tables of a list, each with its place; anything else is an error.
pub(crate) fn tables<'t>(
    reader: &mut Reader<'_>,
    name: &str,
    expected: &str,
    item: &'t Item,
) -> Vec<(&'t dyn TableLike, Place)> {
    if let Some(tables) = item.as_array_of_tables() {
        let place = |span: Option<std::ops::Range<usize>>| {
            reader.lines.place(span.map_or(0, |span| span.start))
        };
        return tables.iter().map(|t| (t as &dyn TableLike, place(t.span()))).collect();
    }
    let Some(list) = item.as_array() else {
        reader.wrong_type(name, expected, item);
        return vec![];
    };
    let mut all = vec![];
    for value in list {
        let place = value_place(reader, value);
        match value.as_inline_table() {
            Some(table) => all.push((table as &dyn TableLike, place)),
            None => {
                let message = format!("expected {expected}, found {}", found_value(value));
                reader.wrong_at(place, name, &message);
            }
        }
    }
    all
}

/// The texts of a table with exactly these keys, each with its place; `None` if one of them is invalid or missing,
/// which is reported.
pub(crate) fn members<'t, const N: usize>(
    reader: &mut Reader<'_>,
    (name, path): (&str, &str),
    keys: [&'static str; N],
    (table, place): (&'t dyn TableLike, Place),
) -> Option<[(&'t str, Place); N]> {
    let mut is_right = true;
    for (key, _) in table.iter() {
        if !keys.contains(&key) {
            let at = reader.key_place(table, key);
            reader.unknown(at, key, path, &keys);
            is_right = false;
        }
    }
    let mut found = [("", place); N];
    for (key, found) in keys.into_iter().zip(&mut found) {
        let Some(item) = table.get(key) else {
            let message = format!("`{name}`: this table has no `{key}`");
            let hint = format!("add {key} = \"...\" to it");
            reader.errors.push(ConfigError::new(place, message).hint(hint));
            is_right = false;
            continue;
        };
        match reader.text(&format!("{name}.{key}"), "a text", item) {
            Some(text) => *found = (text, reader.item_place(item)),
            None => is_right = false,
        }
    }
    is_right.then_some(found)
}
