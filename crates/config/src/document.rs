//! A file that could be read: its objects as rows, with the place of each and of each key.

use crate::place::Place;
use paceline_model::schema::{RULE, SAVED_RULE};
use paceline_tables::value::{Atom, Datum};
use std::collections::BTreeMap;

/// A file that could be read. Names and numbers are each there once, and parents are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub(crate) objects: Vec<Object>,
}

/// One object of a file: a row for the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The table.
    pub table: &'static str,
    /// Its name, or its number if it is a rule.
    pub key: String,
    /// Where it begins.
    pub place: Place,
    /// What the file says of each column; a column that is not here has its default.
    pub columns: BTreeMap<&'static str, Datum>,
    /// The names of the resources it hangs below, in the order of the file.
    pub parents: Vec<String>,
    /// Where the key of each column is.
    pub(crate) places: BTreeMap<&'static str, Place>,
    /// The attribute of each criterion and where it is, if they were written as a table.
    pub(crate) criteria: Vec<(String, Place)>,
}

impl Document {
    /// The objects: those of one kind together, in the order of the file.
    #[must_use]
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// Where the file says what is in this column of this row, if the file names the row.
    #[must_use]
    pub fn place_of(&self, table: &str, row: &str, column: Option<&str>) -> Option<Place> {
        let table = if table == SAVED_RULE { RULE } else { table };
        let mut all = self.objects.iter();
        let object = all.find(|object| object.table == table && object.key == row)?;
        Some(column.map_or(object.place, |column| object.place_of(column)))
    }
}

impl Object {
    pub(crate) fn new(table: &'static str, place: Place) -> Self {
        let columns = BTreeMap::from([("applied", flag(true))]);
        let (key, parents, criteria) = (String::new(), vec![], vec![]);
        Self { table, key, place, columns, parents, places: BTreeMap::new(), criteria }
    }

    /// Where the file says what is in a column; where the object begins if it says nothing.
    #[must_use]
    pub fn place_of(&self, column: &str) -> Place {
        let table = ["queue", "threads"].into_iter().find(|table| column.starts_with(table));
        let found = self.places.get(column).or_else(|| self.places.get(table?));
        found.copied().unwrap_or(self.place)
    }

    pub(crate) fn set(&mut self, column: &'static str, value: Datum, place: Place) {
        self.columns.insert(column, value);
        self.places.insert(column, place);
    }
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
