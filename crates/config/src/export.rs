//! From the rows of a database to the equivalent file.
//!
//! Owns the order: single objects, frontends by name, backends by name each with its servers by name, SQL targets by
//! name, pools by name with the default pool first, rules by number, checkpoints by place and number, resources and users by name; within
//! an object, the order of the keys. Promises that the file parses as the same rows. Only values that are set are
//! written, and only those that a file can contain: no figures, tokens or locks. Rules are those of the running list.
//! A draining pool is written as started, with a comment.

use crate::document::flag;
use crate::keys::{
    BACKENDS, CHECKPOINTS, Each, Holds, KINDS, Key, Kind, POOLS, SERVERS, SINGLE, keys,
};
use crate::list::NO_UPGRADES;
use crate::write::quoted;
use crate::{http, matching, rule};
use paceline_pools::DEFAULT_NAME;
use paceline_tables::schema::TableSchema;
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Row, Snapshot, row_uuid};
use paceline_types::Uuid;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The first line of every export.
const FIRST_LINE: &str = "# Exported by paceline; `paceline apply FILE` brings it back.\n";

/// The second line if there is nothing else.
const NOTHING: &str =
    "# Nothing is configured: every request starts at once, in the default pool.\n";

/// The longest list that is written in one line.
const LIST_CHARS_MAX: usize = 80;

/// The file equivalent to the rows of a database.
#[must_use]
pub fn export(rows: &Snapshot) -> String {
    write(rows, |_| true)
}

/// The same for the objects of one file. The servers of a backend are included with it.
#[must_use]
pub fn export_of(rows: &Snapshot, file: &str) -> String {
    write(rows, |source| source.text("file") == Some(file))
}

fn write(rows: &Snapshot, is_meant: impl Fn(&Source<'_>) -> bool) -> String {
    let mut out = String::from(FIRST_LINE);
    for kind in SINGLE {
        for source in Source::all(rows, kind).into_iter().filter(&is_meant) {
            let _ = writeln!(out, "\n[{}]", kind.word);
            source.write(kind, &mut out);
        }
    }
    let servers = servers(rows);
    for kind in KINDS {
        let mut sources = Source::all(rows, kind);
        sources.sort_by_cached_key(|source| source.rank(kind));
        for mut source in sources.into_iter().filter(&is_meant) {
            if kind.table == BACKENDS.table {
                let own = source.text("name").and_then(|name| servers.get(name));
                source.servers = own.cloned().unwrap_or_default();
            }
            // Writing to a string cannot fail.
            let _ = writeln!(out, "\n[[{}]]", kind.word);
            source.write(kind, &mut out);
        }
    }
    if out.len() == FIRST_LINE.len() {
        out.push_str(NOTHING);
    }
    out
}

/// The written members of each server, by backend.
fn servers(rows: &Snapshot) -> BTreeMap<&str, Vec<String>> {
    let mut sources = Source::all(rows, &SERVERS);
    sources.sort_by_cached_key(|source| source.rank(&SERVERS));
    let mut all: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for source in &sources {
        let is_named = source.text("name") != source.text("address");
        let keys = keys(&SERVERS).filter(|key| key.name != "name" || is_named);
        let members: Vec<String> = keys.filter_map(|key| source.line(key)).collect();
        let backend = source.text("backend").unwrap_or_default();
        all.entry(backend).or_default().push(members.join(", "));
    }
    all
}

/// One row, with the names of its columns and of all resources.
struct Source<'s> {
    columns: &'s TableSchema,
    row: &'s Row,
    parents: Vec<&'s str>,
    /// The members of a backend's servers.
    servers: Vec<String>,
}

impl<'s> Source<'s> {
    fn all(rows: &'s Snapshot, kind: &Kind) -> Vec<Self> {
        let Some(table) = rows.schema().table_id(kind.table) else { return vec![] };
        let columns = rows.schema().table(table);
        let source = |row: &'s Row| Self { columns, row, parents: vec![], servers: vec![] };
        let mut all: Vec<Self> = rows.rows(table).map(source).collect();
        if columns.column_id("parents").is_some() {
            let names: BTreeMap<Uuid, &str> =
                all.iter().filter_map(|s| Some((row_uuid(s.row), s.text("name")?))).collect();
            for source in &mut all {
                source.find_parents(&names);
            }
        }
        all
    }

    fn find_parents(&mut self, names: &BTreeMap<Uuid, &'s str>) {
        let parents = self.datum("parents").map_or(&[][..], Datum::atoms);
        let named = |atom: &Atom| names.get(&atom.as_uuid()?).copied();
        self.parents = parents.iter().filter_map(named).collect();
        self.parents.sort_unstable();
    }

    /// The place of the row among those of its kind.
    fn rank(&self, kind: &Kind) -> (bool, String, i64, String) {
        let name = self.text("name").unwrap_or_default().to_owned();
        let at = if kind.table == CHECKPOINTS.table { self.text("at") } else { None };
        let is_later = !self.is_default_pool(kind);
        let number = self.integer("number").unwrap_or(0);
        (is_later, at.unwrap_or_default().to_owned(), number, name)
    }

    fn is_default_pool(&self, kind: &Kind) -> bool {
        kind.table == POOLS.table && self.text("name") == Some(DEFAULT_NAME)
    }

    fn write(&self, kind: &Kind, out: &mut String) {
        for key in keys(kind) {
            match &key.holds {
                holds if holds.own().is_some() => self.write_own(key, out),
                Holds::Table(keys) | Holds::Switch(keys) => {
                    let each: Vec<String> = keys.iter().filter_map(|key| self.line(key)).collect();
                    if !each.is_empty() {
                        let _ = writeln!(out, "{} = {{ {} }}", key.name, each.join(", "));
                    } else if self.datum(key.column) == Some(&flag(true)) {
                        let _ = writeln!(out, "{} = true", key.name);
                    }
                }
                Holds::Texts(each) => self.write_texts(key, *each, out),
                // It always is, whatever its row says.
                _ if key.name == "persistent" && self.is_default_pool(kind) => {}
                _ => {
                    if let Some(line) = self.line(key) {
                        let _ = writeln!(out, "{line}");
                    }
                }
            }
        }
    }

    /// `key = value`, if the value is not empty.
    fn line(&self, key: &Key) -> Option<String> {
        let value = match (self.datum(key.column)?.single()?, &key.holds) {
            (Atom::Boolean(flag), Holds::Flag(default)) if flag == default => return None,
            (Atom::Boolean(flag), _) => flag.to_string(),
            (Atom::Integer(integer), _) => integer.to_string(),
            (atom, _) => quoted(atom.as_str()?),
        };
        Some(format!("{} = {value}", key.name))
    }

    fn write_texts(&self, key: &Key, each: Each, out: &mut String) {
        let texts: Vec<&str> = self
            .datum(key.column)
            .map_or(&[][..], Datum::atoms)
            .iter()
            .filter_map(Atom::as_str)
            .collect();
        let _ = match (&*texts, each) {
            ([], _) => Ok(()),
            ([NO_UPGRADES], Each::Protocol) => writeln!(out, "{} = []", key.name),
            ([one], Each::Listen) => writeln!(out, "{} = {}", key.name, quoted(one)),
            (many, _) => writeln!(out, "{} = {}", key.name, list(many)),
        };
    }

    fn write_own(&self, key: &Key, out: &mut String) {
        let _ = match key.name {
            "priority" => match (self.integer("priority_min"), self.integer("priority_max")) {
                (Some(low), Some(high)) => writeln!(out, "priority = [{low}, {high}]"),
                _ => Ok(()),
            },
            "started" => self.write_state(out),
            "count" if self.text("rate").is_none() && self.integer("concurrency").is_none() => {
                writeln!(out, "count = true")
            }
            "match" => {
                matching::write(self.text("criteria").unwrap_or_default(), out);
                Ok(())
            }
            // The four actions are one column, which is written once.
            "set" => {
                rule::write_action(self.text("action").unwrap_or_default(), out);
                Ok(())
            }
            "parents" if !self.parents.is_empty() => {
                writeln!(out, "parents = {}", list(&self.parents))
            }
            _ => {
                self.write_http(key, out);
                Ok(())
            }
        };
    }

    fn write_http(&self, key: &Key, out: &mut String) {
        let value = self.datum(key.column).unwrap_or(&Datum::Empty);
        match key.name {
            "backend" => {
                if let Some(line) = self.line(key) {
                    let _ = writeln!(out, "{line}");
                }
            }
            "use_backend" => http::write_use_backend(value, out),
            "tls" => http::write_tls(value, self.datum("tls_key").unwrap_or(&Datum::Empty), out),
            "errors" | "log_values" => http::write_map(key.name, value, out),
            "servers" => http::write_servers(&self.servers, out),
            _ => {}
        }
    }

    fn write_state(&self, out: &mut String) -> std::fmt::Result {
        let is_default = self.text("name") == Some(DEFAULT_NAME);
        match self.text("state") {
            Some("started") => Ok(()),
            Some("draining") => writeln!(out, "# It was draining."),
            None if is_default => Ok(()),
            _ => writeln!(out, "started = false"),
        }
    }

    fn text(&self, column: &str) -> Option<&'s str> {
        self.datum(column).and_then(Datum::single).and_then(Atom::as_str)
    }

    fn integer(&self, column: &str) -> Option<i64> {
        self.datum(column).and_then(Datum::single).and_then(Atom::as_integer)
    }

    fn datum(&self, column: &str) -> Option<&'s Datum> {
        self.row.get(self.columns.column_id(column)?.index())
    }
}

fn list(texts: &[&str]) -> String {
    let each: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    if each.iter().map(String::len).sum::<usize>() <= LIST_CHARS_MAX {
        return format!("[{}]", each.join(", "));
    }
    format!("[\n    {},\n]", each.join(",\n    "))
}
