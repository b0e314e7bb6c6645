//! Reading one row: typed values by the name of the column, and errors that say where.

use crate::error::ModelError;
use crate::schema::SERVER;
use paceline_tables::schema::TableSchema;
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Row, row_uuid};
use paceline_types::Uuid;
use std::fmt;
use std::str::FromStr;

/// One row with the names of its columns.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    table: &'a TableSchema,
    row: &'a Row,
}

impl<'a> Reader<'a> {
    pub fn new(table: &'a TableSchema, row: &'a Row) -> Self {
        Self { table, row }
    }

    pub fn uuid(&self) -> Uuid {
        row_uuid(self.row)
    }

    /// The text in a column; `""` if there is none.
    pub fn text(&self, column: &str) -> &'a str {
        self.optional(column).unwrap_or_default()
    }

    /// The text in a column that may have none.
    pub fn optional(&self, column: &str) -> Option<&'a str> {
        self.atom(column).and_then(Atom::as_str)
    }

    /// The same as an owned text.
    pub fn owned(&self, column: &str) -> Option<String> {
        self.optional(column).map(str::to_owned)
    }

    pub fn integer(&self, column: &str) -> Option<i64> {
        self.atom(column).and_then(Atom::as_integer)
    }

    /// A number whose range the schema keeps within that of `T`.
    pub fn number<T: TryFrom<i64>>(&self, column: &str) -> Result<Option<T>, ModelError> {
        let Some(integer) = self.integer(column) else { return Ok(None) };
        let number = T::try_from(integer);
        number.map(Some).map_err(|_| self.error(column, format!("{integer} is out of range")))
    }

    pub fn flag(&self, column: &str) -> bool {
        self.choice(column) == Some(true)
    }

    /// The rows that a column refers to.
    pub fn uuids(&self, column: &str) -> impl Iterator<Item = Uuid> + use<'a> {
        self.datum(column).map_or(&[][..], Datum::atoms).iter().filter_map(Atom::as_uuid)
    }

    /// The texts in a column that may have several, in their order as texts.
    pub fn texts(&self, column: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.datum(column).map_or(&[][..], Datum::atoms).iter().filter_map(Atom::as_str)
    }

    /// The pairs of a column that is a map from numbers to texts, by number.
    pub fn numbered(&self, column: &str) -> impl Iterator<Item = (i64, &'a str)> + use<'a> {
        let pairs = self.datum(column).map_or(&[][..], Datum::pairs).iter();
        pairs.filter_map(|(number, text)| Some((number.as_integer()?, text.as_str()?)))
    }

    /// The pairs of a column that is a map from texts to texts, by the first.
    pub fn named(&self, column: &str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let pairs = self.datum(column).map_or(&[][..], Datum::pairs).iter();
        pairs.filter_map(|(name, text)| Some((name.as_str()?, text.as_str()?)))
    }

    /// Whether a column has a value.
    pub fn has(&self, column: &str) -> bool {
        self.datum(column).is_some_and(|datum| !datum.is_empty())
    }

    /// The value of a boolean column, if it has one.
    pub fn choice(&self, column: &str) -> Option<bool> {
        match self.atom(column) {
            Some(Atom::Boolean(flag)) => Some(*flag),
            _ => None,
        }
    }

    /// A value that is written as text, such as `10m` or `500/s`.
    pub fn parsed<T>(&self, column: &str) -> Result<Option<T>, ModelError>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        let Some(text) = self.optional(column) else { return Ok(None) };
        text.parse().map(Some).map_err(|error: T::Err| self.error(column, error.to_string()))
    }

    /// An error in one column of this row.
    pub fn error(&self, column: &str, message: String) -> ModelError {
        let (table, column) = (self.table.name.to_string(), Some(column.to_owned()));
        ModelError { table, row: Some(self.title()), column, message }
    }

    /// The name or number of the row, `BACKEND/NAME` for a server, otherwise its UUID.
    pub fn title(&self) -> String {
        if &*self.table.name == SERVER {
            return format!("{}/{}", self.text("backend"), self.text("name"));
        }
        match (self.optional("name"), self.integer("number")) {
            (Some(name), _) => name.to_owned(),
            (None, Some(number)) => number.to_string(),
            (None, None) => self.uuid().to_string(),
        }
    }

    fn atom(&self, column: &str) -> Option<&'a Atom> {
        self.datum(column).and_then(Datum::single)
    }

    fn datum(&self, column: &str) -> Option<&'a Datum> {
        self.row.get(self.table.column_id(column)?.index())
    }
}
