//! A parsed file: its objects as rows, with the place of each object and each key.

use crate::error::{ConfigError, Errors};
use crate::keys::kind_of;
use crate::place::Place;
use crate::read::shown;
use paceline_model::schema::{BACKEND, FRONTEND, RULE, SAVED_RULE, SQL_TARGET};
use paceline_tables::value::{Atom, Datum};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// The name of a file without a name of its own.
pub(crate) const UNNAMED: &str = "-";

/// A parsed file, or several together. Names and numbers are unique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub(crate) objects: Vec<Object>,
    /// The names of the files it was read from, which own its objects.
    pub(crate) files: Vec<String>,
    /// Objects that must exist besides.
    pub(crate) needs: Vec<Need>,
}

/// An object that another one names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub table: &'static str,
    pub name: String,
    /// The key that names it.
    pub path: &'static str,
    pub file: usize,
    pub place: Place,
}

/// One object of a file: a row for the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The table.
    pub table: &'static str,
    /// Its name, or its number if it is a rule.
    pub key: String,
    /// The index of its file.
    pub file: usize,
    /// Where it begins.
    pub place: Place,
    /// The value of each column in the file; a column that is not here has its default.
    pub columns: BTreeMap<&'static str, Datum>,
    /// The names of its parent resources, in the order of the file.
    pub parents: Vec<String>,
    /// Where the key of each column is.
    pub(crate) places: BTreeMap<&'static str, Place>,
    /// The attribute of each criterion and where it is, if they were written as a table.
    pub(crate) criteria: Vec<(String, Place)>,
    /// The places of the entries of a column that is a list or a table, by the beginning of a message about the
    /// entry: its number from 1 or its name.
    pub(crate) entries: BTreeMap<(&'static str, String), Place>,
}

impl Document {
    /// The objects: those of one kind together, in the order of the file.
    #[must_use]
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// The same as the file of this name, which owns its objects.
    #[must_use]
    pub fn named(mut self, file: &str) -> Self {
        self.files = vec![file.to_owned()];
        for object in &mut self.objects {
            object.columns.insert("file", text(file));
        }
        self
    }

    /// Joins several files.
    ///
    /// # Errors
    ///
    /// The objects that are in two of them.
    pub fn join(documents: Vec<Self>) -> Result<Self, Vec<ConfigError>> {
        let mut all = Self { objects: vec![], files: vec![], needs: vec![] };
        let mut places: BTreeMap<(&str, String), (usize, u32)> = BTreeMap::new();
        let mut errors = Errors::default();
        for document in documents {
            let first = all.files.len();
            all.files.extend(document.files);
            all.needs.extend(document.needs.into_iter().map(|mut need| {
                need.file += first;
                need
            }));
            for mut object in document.objects {
                object.file += first;
                let place = (object.file, object.place.line);
                match places.entry((object.table, object.key.clone())) {
                    Entry::Vacant(free) => {
                        free.insert(place);
                    }
                    Entry::Occupied(other) => {
                        let (file, line) = *other.get();
                        errors.push(twice(&object, &all.files, (file, line)));
                    }
                }
                all.objects.push(object);
            }
        }
        errors.or(all)
    }

    /// The names of the files it was read from.
    #[must_use]
    pub fn files_read(&self) -> &[String] {
        &self.files
    }

    /// The same with every relative file name resolved in `directory`, the directory of the file that was read.
    /// Without this, such names are errors, because their directory is not known.
    #[must_use]
    pub fn within(mut self, directory: &str) -> Self {
        for object in &mut self.objects {
            for column in files_of(object.table) {
                if let Some(value) = object.columns.get_mut(column) {
                    *value = absolute(value, directory);
                }
            }
        }
        self
    }

    /// The files that it names, each with the index of the file that names it, and the place.
    #[must_use]
    pub fn files<'d>(&'d self) -> Vec<(usize, Place, &'d str)> {
        let columns = |object: &'d Object| {
            files_of(object.table)
                .iter()
                .filter_map(move |column| Some((object, *column, object.columns.get(column)?)))
        };
        let mut files = vec![];
        for (object, column, value) in self.objects.iter().flat_map(columns) {
            for (key, file) in value.pairs() {
                let place = object.entries.get(&(column, key.to_text())).copied();
                let place = place.unwrap_or_else(|| object.place_of(column));
                files.extend(file.as_str().map(|file| (object.file, place, file)));
            }
            let file = value.single().and_then(Atom::as_str);
            files.extend(file.map(|file| (object.file, object.place_of(column), file)));
        }
        files.sort();
        files
    }

    /// The certificates of frontends with their keys, each with the index of the file and the place of the
    /// certificate.
    #[must_use]
    pub fn certificates(&self) -> Vec<(usize, Place, &str, &str)> {
        let frontends = self.objects.iter().filter(|object| object.table == FRONTEND);
        let mut found = vec![];
        for object in frontends {
            let pairs = |column| object.columns.get(column).map_or(&[][..], Datum::pairs);
            for (number, certificate) in pairs("tls_certificate") {
                let key = pairs("tls_key").iter().find(|(other, _)| other == number);
                let place = object.entries.get(&("tls_certificate", number.to_text())).copied();
                let place = place.unwrap_or_else(|| object.place_of("tls_certificate"));
                let files = certificate.as_str().zip(key.and_then(|(_, key)| key.as_str()));
                found
                    .extend(files.map(|(certificate, key)| (object.file, place, certificate, key)));
            }
        }
        found
    }

    /// The place of this column of this row in the file, if the file names the row.
    #[must_use]
    pub fn place_of(&self, table: &str, row: &str, column: Option<&str>) -> Option<(usize, Place)> {
        let table = if table == SAVED_RULE { RULE } else { table };
        let mut all = self.objects.iter();
        let object = all.find(|object| object.table == table && object.key == row)?;
        let place = column.map_or(object.place, |column| object.place_of(column));
        Some((object.file, place))
    }

    /// A hint for a row that does not fit the file although the file does not name it: it was created otherwise, and
    /// names something that is deleted with the file.
    #[must_use]
    pub fn next_about(&self, table: &str, row: &str) -> Option<String> {
        let word = kind_of(table)?.word;
        self.place_of(table, row, None).is_none().then(|| {
            format!(
                "{word} {row} is not of the file: change or delete it first, or name it in the file"
            )
        })
    }
}

impl Object {
    pub(crate) fn new(table: &'static str, place: Place) -> Self {
        let columns = BTreeMap::from([("file", text(UNNAMED))]);
        let (key, parents, criteria) = (String::new(), vec![], vec![]);
        let (places, entries) = (BTreeMap::new(), BTreeMap::new());
        Self { table, key, file: 0, place, columns, parents, places, criteria, entries }
    }

    /// The place of a column in the file; the beginning of the object if the file does not set it.
    #[must_use]
    pub fn place_of(&self, column: &str) -> Place {
        let tables = ["queue", "threads", "timeout", "health", "tls", "connections", "login"];
        let column = if column == "priority" { "priority_min" } else { column };
        let table = tables.into_iter().find(|table| column.starts_with(table));
        let found = self.places.get(column).or_else(|| self.places.get(table?));
        found.copied().unwrap_or(self.place)
    }

    pub(crate) fn set(&mut self, column: &'static str, value: Datum, place: Place) {
        self.columns.insert(column, value);
        self.places.insert(column, place);
    }
}

/// What to do about a rule that is in two files. Rules without numbers are numbered in each file from 10 on.
pub(crate) const NUMBER_RULES: &str =
    "number the rules of all files so that each has a number of its own";

/// The error for an object that is in two files.
fn twice(object: &Object, files: &[String], (file, line): (usize, u32)) -> ConfigError {
    let word = kind_of(object.table).map_or(object.table, |kind| kind.word);
    let other = files.get(file).map_or("another file", String::as_str);
    let message = format!("{word} `{}` is in {other} already, on line {line}", shown(&object.key));
    let hint = match object.table {
        RULE => NUMBER_RULES,
        _ => "an object can be in one file only",
    };
    ConfigError::new(object.place, message).hint(hint).of(object.file)
}

/// The columns of a table that name files: maps of a frontend, texts of a backend and of a target.
pub(crate) fn files_of(table: &str) -> &'static [&'static str] {
    match table {
        FRONTEND => &["tls_certificate", "tls_key", "errors"],
        BACKEND => &["tls_ca", "tls_certificate", "tls_key"],
        SQL_TARGET => &["login_password_file"],
        _ => &[],
    }
}

fn absolute(files: &Datum, directory: &str) -> Datum {
    let directory = directory.strip_suffix('/').unwrap_or(directory);
    let one = |file: &Atom| match file.as_str() {
        Some(text) if !text.is_empty() && !text.starts_with('/') => {
            let text = text.strip_prefix("./").unwrap_or(text);
            Atom::string(&format!("{directory}/{text}"))
        }
        _ => file.clone(),
    };
    if let Some(file) = files.single() {
        return Datum::One(one(file));
    }
    let pair = |(key, file): &(Atom, Atom)| (key.clone(), one(file));
    Datum::from_sorted_pairs(files.pairs().iter().map(pair).collect())
}

/// The set of these texts.
pub(crate) fn set(texts: impl IntoIterator<Item = String>) -> Datum {
    let texts: BTreeSet<String> = texts.into_iter().collect();
    let mut atoms: Vec<Atom> = texts.iter().map(|text| Atom::string(text)).collect();
    atoms.sort();
    Datum::from_sorted(atoms)
}

/// The map of these pairs; of two pairs with the same key, the later is used.
pub(crate) fn map(pairs: impl IntoIterator<Item = (Atom, Atom)>) -> Datum {
    let pairs: BTreeMap<Atom, Atom> = pairs.into_iter().collect();
    Datum::from_sorted_pairs(pairs.into_iter().collect())
}

pub(crate) fn flag(flag: bool) -> Datum {
    Datum::One(Atom::Boolean(flag))
}

pub(crate) fn text(text: &str) -> Datum {
    Datum::One(Atom::string(text))
}

pub(crate) fn integer(integer: i64) -> Datum {
    Datum::One(Atom::Integer(integer))
}
