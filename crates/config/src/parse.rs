//! The whole file: from text to a document, with every error found.
//!
//! Owns the limits of a file, the kinds of objects, and what concerns several of them: consecutive numbers, duplicate
//! names, references between objects.

use crate::document::{Document, Need, Object, UNNAMED, flag, integer, text};
use crate::error::ConfigError;
use crate::keys::{KINDS, Kind, SINGLE};
use crate::place::Place;
use crate::read::{Own, Owns, Reader, shown};
use crate::{FILE_BYTES_MAX, OBJECTS_MAX, VALUES_MAX, http, matching, rule, syntax};
use paceline_model::schema::{BACKEND, CHECKPOINT, FRONTEND, POOL, RESOURCE, RULE};
use paceline_tables::value::{Atom, Datum};
use paceline_types::nearest;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use toml_edit::{Item, TableLike};

/// The distance between the numbers of rules that the file does not number.
const NUMBER_STEP: i64 = 10;

/// Parses a file.
///
/// # Errors
///
/// All its errors, up to [`ERRORS_MAX`](crate::ERRORS_MAX), in the order of the file; only the first error if it is
/// not TOML.
pub fn parse(text: &str) -> Result<Document, Vec<ConfigError>> {
    check_size(text).map_err(|error| vec![error])?;
    let toml =
        toml_edit::Document::parse(text).map_err(|error| vec![syntax::error(text, &error)])?;
    let mut reader = Reader::new(text);
    let mut file = File::default();
    for (name, item) in toml.as_table().iter() {
        let place = reader.key_place(toml.as_table(), name);
        let named = |kind: &&Kind| kind.word == name;
        match (KINDS.into_iter().find(named), SINGLE.into_iter().find(named)) {
            (Some(kind), _) => file.objects_of(&mut reader, kind, item, place),
            (None, Some(kind)) => file.only(&mut reader, kind, item, place),
            (None, None) => unknown_kind(&mut reader, place, name),
        }
        if reader.errors.is_full() {
            break;
        }
    }
    let needs = file.needs();
    reader.errors.or(Document { objects: file.objects, files: vec![UNNAMED.to_owned()], needs })
}

/// Refuses a text that would take too much memory to parse.
fn check_size(text: &str) -> Result<(), ConfigError> {
    if text.len() > FILE_BYTES_MAX {
        let message =
            format!("the file has {} bytes, expected at most {FILE_BYTES_MAX}", text.len());
        return Err(ConfigError::new(Place::START, message));
    }
    let values = text.bytes().filter(|byte| matches!(byte, b'=' | b',' | b'.')).count();
    if values > VALUES_MAX {
        let message =
            format!("the file has about {values} keys and values, expected at most {VALUES_MAX}");
        return Err(ConfigError::new(Place::START, message));
    }
    Ok(())
}

fn unknown_kind(reader: &mut Reader<'_>, place: Place, name: &str) {
    let kinds = || KINDS.into_iter().chain(SINGLE);
    let near = nearest(name, kinds().flat_map(|kind| [kind.word, kind.plural]));
    let near = near.and_then(|near| kinds().find(|kind| [kind.word, kind.plural].contains(&near)));
    let near = near.map(|kind| format!(", did you mean `{}`?", kind.word)).unwrap_or_default();
    let message = format!("unknown key `{}`{near}", shown(name));
    let single = SINGLE.map(|kind| format!("[{}]", kind.word)).join(", ");
    let all = KINDS.map(|kind| format!("[[{}]]", kind.word)).join(", ");
    let hint = format!("expected one of: {single}, {all}");
    reader.errors.push(ConfigError::new(place, message).hint(hint));
}

/// The objects read so far.
#[derive(Default)]
struct File {
    objects: Vec<Object>,
    /// The line of each name and number.
    lines: BTreeMap<(&'static str, String), u32>,
    /// Parents that were named, and their places.
    parents: Vec<(String, Place)>,
    /// Backends that frontends named.
    used: Vec<http::Used>,
    /// The highest number of a rule.
    number: i64,
}

impl File {
    fn objects_of(&mut self, reader: &mut Reader<'_>, kind: &'static Kind, item: &Item, at: Place) {
        let Some(tables) = tables(item) else {
            let word = kind.word;
            let message = format!("expected [[{word}]], one for each {word}");
            let hint = format!("write [[{word}]] with two brackets above its keys");
            reader.errors.push(ConfigError::new(at, message).hint(hint));
            return;
        };
        for (table, start) in tables {
            let place = reader.lines.place(start);
            if !self.has_room(reader, place) {
                return;
            }
            self.object(reader, kind, table, place);
            if reader.errors.is_full() {
                return;
            }
        }
    }

    /// Reads an object that can exist only once.
    fn only(&mut self, reader: &mut Reader<'_>, kind: &'static Kind, item: &Item, at: Place) {
        let Some(table) = item.as_table_like() else {
            let word = kind.word;
            let message = format!("expected the table [{word}]");
            let hint = format!("write [{word}] with one pair of brackets above its keys");
            reader.errors.push(ConfigError::new(at, message).hint(hint));
            return;
        };
        let mut object = Object::new(kind.table, at);
        reader.object(&mut object, kind, table);
        object.key = kind.word.to_owned();
        self.objects.push(object);
    }

    fn object(
        &mut self,
        reader: &mut Reader<'_>,
        kind: &'static Kind,
        table: &dyn TableLike,
        place: Place,
    ) {
        let mut object = Object::new(kind.table, place);
        let owns = reader.object(&mut object, kind, table);
        match kind.table {
            POOL => pool(reader, &mut object, &owns),
            RULE => {
                matching::read(reader, &mut object, &owns);
                rule::read_action(reader, &mut object, &owns);
                self.number_rule(reader, &mut object, table);
            }
            CHECKPOINT => checkpoint(reader, &mut object, &owns, table),
            FRONTEND => {
                require(reader, kind, table, "listen", place);
                self.used.extend(http::read_frontend(reader, &mut object, &owns));
            }
            BACKEND => {}
            _ => self.parents(reader, &mut object, &owns),
        }
        if kind.table != RULE {
            require(reader, kind, table, kind.id, place);
        }
        if kind.settings.iter().any(|key| key.name == "persistent") {
            object.columns.entry("persistent").or_insert_with(|| flag(true));
        }
        self.identify(reader, kind, &mut object);
        let servers = owns.get("servers").map(|own| http::read_servers(reader, &object, own));
        self.objects.push(object);
        for server in servers.into_iter().flatten() {
            if !self.has_room(reader, server.place) {
                return;
            }
            self.server(reader, server);
        }
    }

    /// Whether there is room for another object; reports an error if not.
    fn has_room(&self, reader: &mut Reader<'_>, place: Place) -> bool {
        if self.objects.len() < OBJECTS_MAX {
            return true;
        }
        let message = format!("a file may have at most {OBJECTS_MAX} objects");
        reader.errors.push(ConfigError::new(place, message));
        false
    }

    /// Adds a server, if no other server of its backend has its name.
    fn server(&mut self, reader: &mut Reader<'_>, server: Object) {
        let place = server.place_of("name");
        if server.key.is_empty() {
            // A missing name was already reported.
            return;
        }
        match self.lines.entry((server.table, server.key.clone())) {
            Entry::Vacant(free) => {
                free.insert(place.line);
                self.objects.push(server);
            }
            Entry::Occupied(first) => {
                let (key, first) = (shown(&server.key), first.get());
                let message = format!("server `{key}` is on line {first} already");
                let hint = "give each server of a backend a name of its own";
                reader.errors.push(ConfigError::new(place, message).hint(hint));
            }
        }
    }

    /// Gives a rule the next number if it has none.
    fn number_rule(&mut self, reader: &mut Reader<'_>, object: &mut Object, table: &dyn TableLike) {
        let given = object.columns.get("number").and_then(Datum::single).and_then(Atom::as_integer);
        let number = given.unwrap_or(self.number + NUMBER_STEP);
        self.number = self.number.max(number);
        if given.is_some() || table.contains_key("number") {
            return;
        }
        if number > i64::from(u32::MAX) {
            let message = "there is no higher number left for this rule";
            let hint = "give it a `number` of its own";
            reader.errors.push(ConfigError::new(object.place, message).hint(hint));
        }
        object.columns.insert("number", integer(number));
    }

    /// Determines the name of the object, and checks that it is unique.
    fn identify(&mut self, reader: &mut Reader<'_>, kind: &Kind, object: &mut Object) {
        let Some(id) = object.columns.get(kind.id).and_then(Datum::single) else { return };
        object.key = match id.as_integer() {
            Some(number) => number.to_string(),
            None => id.as_str().unwrap_or_default().to_owned(),
        };
        let place = object.place_of(kind.id);
        match self.lines.entry((kind.table, object.key.clone())) {
            Entry::Vacant(free) => {
                free.insert(place.line);
            }
            Entry::Occupied(first) => {
                let (word, key, first) = (kind.word, shown(&object.key), first.get());
                let message = format!("{word} `{key}` is on line {first} already");
                let hint = format!("give each {word} a {} of its own", kind.id);
                reader.errors.push(ConfigError::new(place, message).hint(hint));
            }
        }
    }

    fn parents(&mut self, reader: &mut Reader<'_>, object: &mut Object, owns: &Owns<'_>) {
        let Some(Own { item, expected, .. }) = owns.get("parents") else { return };
        let Some(list) = item.as_array() else {
            return reader.wrong_type("parents", expected, item);
        };
        let mut seen = BTreeSet::new();
        for value in list {
            let place = reader.lines.place(value.span().map_or(0, |span| span.start));
            let Some(name) = value.as_str() else {
                reader
                    .errors
                    .push(ConfigError::new(place, format!("`parents`: expected {expected}")));
                continue;
            };
            if !seen.insert(name) {
                let message = format!("`parents`: `{}` is named twice", shown(name));
                reader.errors.push(ConfigError::new(place, message));
                continue;
            }
            object.parents.push(name.to_owned());
            self.parents.push((name.to_owned(), place));
        }
    }

    /// The objects that are named and must exist.
    fn needs(&mut self) -> Vec<Need> {
        let need = |table, (name, path, place)| Need { table, name, path, file: 0, place };
        let parents = std::mem::take(&mut self.parents).into_iter();
        let parents = parents.map(|(name, place)| need(RESOURCE, (name, "parents", place)));
        let backends = std::mem::take(&mut self.used).into_iter().map(|used| need(BACKEND, used));
        parents.chain(backends).collect()
    }
}

/// The tables of a list of tables, each with the offset where it begins.
fn tables(item: &Item) -> Option<Vec<(&dyn TableLike, usize)>> {
    let start = |span: Option<std::ops::Range<usize>>| span.map_or(0, |span| span.start);
    if let Some(tables) = item.as_array_of_tables() {
        return Some(tables.iter().map(|t| (t as &dyn TableLike, start(t.span()))).collect());
    }
    let inline = item.as_array()?.iter().map(|value| {
        let table = value.as_inline_table()?;
        Some((table as &dyn TableLike, start(table.span())))
    });
    inline.collect()
}

fn pool(reader: &mut Reader<'_>, object: &mut Object, owns: &Owns<'_>) {
    object.columns.insert("state", text("started"));
    if let Some(Own { item, place, .. }) = owns.get("started")
        && let Some(started) = reader.flag("started", item)
    {
        object.set("state", text(if started { "started" } else { "stopped" }), *place);
    }
    let Some(Own { item, place, expected }) = owns.get("priority") else { return };
    let priority = |value: &toml_edit::Value| {
        value.as_integer().filter(|number| (-127..=127).contains(number))
    };
    let ends: Option<Vec<i64>> =
        item.as_array().and_then(|list| list.iter().map(priority).collect());
    match ends.as_deref() {
        Some([low, high]) if low <= high => {
            object.set("priority_min", integer(*low), *place);
            object.set("priority_max", integer(*high), *place);
        }
        Some([low, high]) => {
            let message = format!("the lowest, {low}, is above the highest, {high}");
            reader.wrong_value("priority", &message, item);
        }
        _ => match item.as_array().and_then(out_of_range) {
            Some(number) => {
                let message = format!("{number} is out of range, expected {expected}");
                reader.wrong_value("priority", &message, item);
            }
            None => reader.wrong_type("priority", expected, item),
        },
    }
}

/// The first number of a list that is not a priority.
fn out_of_range(list: &toml_edit::Array) -> Option<i64> {
    let mut numbers = list.iter().filter_map(toml_edit::Value::as_integer);
    numbers.find(|number| !(-127..=127).contains(number))
}

fn checkpoint(
    reader: &mut Reader<'_>,
    object: &mut Object,
    owns: &Owns<'_>,
    table: &dyn TableLike,
) {
    let kind = &crate::keys::CHECKPOINTS;
    require(reader, kind, table, "at", object.place);
    let Some(Own { item, place, expected }) = owns.get("count") else { return };
    let limit = ["rate", "concurrency"].into_iter().find(|key| table.contains_key(key));
    match (item.as_bool(), limit) {
        (Some(true), None) => {
            object.places.insert("count", *place);
        }
        (Some(true), Some(limit)) => {
            let message = format!("a checkpoint that only counts has no `{limit}`");
            reader.wrong_value("count", &message, item);
        }
        _ => reader.wrong_type("count", expected, item),
    }
}

/// Reports a required key that is missing.
fn require(reader: &mut Reader<'_>, kind: &Kind, table: &dyn TableLike, key: &str, place: Place) {
    if !table.contains_key(key) {
        let message = format!("this [[{}]] has no `{key}`", kind.word);
        let hint = format!("add {key} = \"...\" below it");
        reader.errors.push(ConfigError::new(place, message).hint(hint));
    }
}
