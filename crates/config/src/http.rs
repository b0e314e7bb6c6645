//! Frontends, and backends with their servers, in the file: the keys that are not one column each.
//!
//! A list becomes a map from the index of each entry, from 1. A server is a row of its own. It is deleted when the
//! list of its backend no longer names it, and otherwise exists as long as its backend. A server without a name is
//! named by its address.

use crate::document::{Object, flag, map, text};
use crate::error::ConfigError;
use crate::keys::SERVERS;
use crate::list::{members, tables};
use crate::place::Place;
use crate::read::{Own, Owns, Reader, check_name, shown};
use crate::write::{key, quoted};
use paceline_tables::value::{Atom, Datum};
use std::fmt::Write;
use toml_edit::TableLike;

/// The separator between a backend and its condition in the column `use_backend`.
const WHEN: &str = " when ";

/// A use of a backend: its name, the key and the place.
pub(crate) type Used = (String, &'static str, Place);

/// Reads the keys that only frontends have; returns the backends that it names.
pub(crate) fn read_frontend(
    reader: &mut Reader<'_>,
    object: &mut Object,
    owns: &Owns<'_>,
) -> Vec<Used> {
    let mut used = vec![];
    if let Some(Own { item, place, expected }) = owns.get("backend")
        && let Some(name) = reader.text("backend", expected, item)
    {
        object.set("backend", text(name), *place);
        used.push((name.to_owned(), "backend", reader.item_place(item)));
    }
    if let Some(own) = owns.get("use_backend") {
        read_use_backend(reader, object, own, &mut used);
    }
    if let Some(own) = owns.get("tls") {
        read_tls(reader, object, own);
    }
    if let Some(own) = owns.get("errors") {
        read_errors(reader, object, own);
    }
    if let Some(own) = owns.get("log_values") {
        read_log_values(reader, object, own);
    }
    used
}

fn read_use_backend(
    reader: &mut Reader<'_>,
    object: &mut Object,
    own: &Own<'_>,
    used: &mut Vec<Used>,
) {
    let (name, path) = ("use_backend", "`use_backend` of [[frontend]]");
    let mut pairs = vec![];
    for (number, entry) in (1..).zip(tables(reader, name, own.expected, own.item)) {
        let read = members(reader, (name, path), ["when", "backend"], entry);
        let Some([(when, at), (backend, backend_at)]) = read else { continue };
        object.entries.insert((name, number.to_string()), at);
        used.push((backend.to_owned(), "use_backend.backend", backend_at));
        pairs.push(numbered(number, &format!("{backend}{WHEN}{when}")));
    }
    object.set(name, map(pairs), own.place);
}

fn read_tls(reader: &mut Reader<'_>, object: &mut Object, own: &Own<'_>) {
    let entries = match own.item.as_table_like() {
        Some(table) => vec![(table, reader.item_place(own.item))],
        None => tables(reader, "tls", own.expected, own.item),
    };
    let (mut certificates, mut keys) = (vec![], vec![]);
    for (number, entry) in (1..).zip(entries) {
        let path = ("tls", "`tls` of [[frontend]]");
        let read = members(reader, path, ["certificate", "key"], entry);
        let Some([certificate, key]) = read else { continue };
        object.entries.insert(("tls_certificate", number.to_string()), certificate.1);
        object.entries.insert(("tls_key", number.to_string()), key.1);
        certificates.push(numbered(number, certificate.0));
        keys.push(numbered(number, key.0));
    }
    object.set("tls_certificate", map(certificates), own.place);
    object.set("tls_key", map(keys), own.place);
}

fn read_errors(reader: &mut Reader<'_>, object: &mut Object, own: &Own<'_>) {
    let Some(table) = own.item.as_table_like() else {
        return reader.wrong_type("errors", own.expected, own.item);
    };
    let mut pairs = vec![];
    for (name, item) in table.iter() {
        let status: Option<i64> = name.parse().ok().filter(|status| (400..=599).contains(status));
        let Some(status) = status else {
            let place = reader.key_place(table, name);
            let message = format!("expected a status from 400 to 599, found `{}`", shown(name));
            reader.wrong_at(place, "errors", &message);
            continue;
        };
        if let Some(file) = reader.text(&format!("errors.{name}"), "the name of a file", item) {
            object.entries.insert(("errors", name.to_owned()), reader.item_place(item));
            pairs.push(numbered(status, file));
        }
    }
    object.set("errors", map(pairs), own.place);
}

fn read_log_values(reader: &mut Reader<'_>, object: &mut Object, own: &Own<'_>) {
    let Some(table) = own.item.as_table_like() else {
        return reader.wrong_type("log_values", own.expected, own.item);
    };
    let mut pairs = vec![];
    for (name, item) in table.iter() {
        if let Err(message) = check_name(name, true) {
            reader.wrong_at(reader.key_place(table, name), "log_values", &message);
            continue;
        }
        let path = format!("log_values.{}", shown(name));
        if let Some(expression) = reader.text(&path, "an expression as a text", item) {
            object.entries.insert(("log_values", name.to_owned()), reader.item_place(item));
            pairs.push((Atom::string(name), Atom::string(expression)));
        }
    }
    object.set("log_values", map(pairs), own.place);
}

fn numbered(number: i64, text: &str) -> (Atom, Atom) {
    (Atom::Integer(number), Atom::string(text))
}

/// Reads the servers of a backend.
pub(crate) fn read_servers(
    reader: &mut Reader<'_>,
    backend: &Object,
    own: &Own<'_>,
) -> Vec<Object> {
    let entries = tables(reader, "servers", own.expected, own.item);
    entries.into_iter().map(|entry| read_server(reader, backend, entry)).collect()
}

fn read_server(
    reader: &mut Reader<'_>,
    backend: &Object,
    (table, place): (&dyn TableLike, Place),
) -> Object {
    let mut object = Object::new(SERVERS.table, place);
    reader.table(&mut object, (SERVERS.settings, "`servers` of [[backend]]", "servers."), table);
    if !table.contains_key("address") {
        let error = ConfigError::new(place, "`servers`: this server has no `address`");
        reader.errors.push(error.hint("add address = \"127.0.0.1:8080\" to it"));
    }
    if !table.contains_key("name")
        && let Some(address) = object.columns.get("address").cloned()
    {
        let at = object.place_of("address");
        object.set("name", address, at);
    }
    object.columns.insert("backend", text(&backend.key));
    // The default is that of its backend.
    let kept = backend.columns.get("persistent").cloned().unwrap_or_else(|| flag(true));
    object.columns.entry("persistent").or_insert(kept);
    let name = object.columns.get("name").and_then(Datum::single).and_then(Atom::as_str);
    object.key = name.map(|name| format!("{}/{name}", backend.key)).unwrap_or_default();
    object
}

/// Writes a list of tables: one line for each.
fn write_tables(name: &str, tables: &[String], out: &mut String) {
    if !tables.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name} = [\n    {},\n]", tables.join(",\n    "));
    }
}

/// Writes the line `use_backend` of a row.
pub(crate) fn write_use_backend(value: &Datum, out: &mut String) {
    let line = |(_, text): &(Atom, Atom)| {
        let (backend, when) = text.as_str()?.split_once(WHEN)?;
        Some(format!("{{ when = {}, backend = {} }}", quoted(when), quoted(backend)))
    };
    let lines: Vec<String> = value.pairs().iter().filter_map(line).collect();
    write_tables("use_backend", &lines, out);
}

/// Writes the line `tls` of a row.
pub(crate) fn write_tls(certificates: &Datum, keys: &Datum, out: &mut String) {
    let line = |(number, file): &(Atom, Atom)| {
        let (file, key) = (file.as_str()?, keys.value_of(number)?.as_str()?);
        Some(format!("{{ certificate = {}, key = {} }}", quoted(file), quoted(key)))
    };
    let lines: Vec<String> = certificates.pairs().iter().filter_map(line).collect();
    match &*lines {
        [one] => {
            let _ = writeln!(out, "tls = {one}");
        }
        _ => write_tables("tls", &lines, out),
    }
}

/// Writes the line of a table of texts of a row.
pub(crate) fn write_map(name: &str, value: &Datum, out: &mut String) {
    let pair = |(own, text): &(Atom, Atom)| {
        let own = own.as_integer().map_or_else(
            || own.as_str().unwrap_or_default().to_owned(),
            |number| number.to_string(),
        );
        Some(format!("{} = {}", key(&own), quoted(text.as_str()?)))
    };
    let pairs: Vec<String> = value.pairs().iter().filter_map(pair).collect();
    if !pairs.is_empty() {
        let _ = writeln!(out, "{name} = {{ {} }}", pairs.join(", "));
    }
}

/// Writes the line of servers, given the members of each.
pub(crate) fn write_servers(servers: &[String], out: &mut String) {
    let lines: Vec<String> = servers.iter().map(|server| format!("{{ {server} }}")).collect();
    write_tables("servers", &lines, out);
}
