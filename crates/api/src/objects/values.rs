//! Values of columns: made from the members of a body, and shown as JSON.

use paceline_tables::value::{Atom, Datum};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Columns of a row, by name.
pub(crate) type Row = BTreeMap<String, Datum>;

/// A text.
pub(crate) fn text(text: &str) -> Datum {
    Datum::One(Atom::string(text))
}

/// `true` or `false`.
pub(crate) const fn flag(flag: bool) -> Datum {
    Datum::One(Atom::Boolean(flag))
}

/// A whole number.
pub(crate) const fn number(number: i64) -> Datum {
    Datum::One(Atom::Integer(number))
}

/// A set of texts, each once.
pub(crate) fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Datum {
    Datum::set_of(texts.into_iter().map(Atom::string).collect())
}

/// The text in a column, if there is one.
pub(crate) fn text_in<'a>(row: &'a Row, column: &str) -> Option<&'a str> {
    row.get(column)?.single()?.as_str()
}

/// The whole number in a column, if there is one and it is not negative.
pub(crate) fn number_in(row: &Row, column: &str) -> Option<u64> {
    u64::try_from(row.get(column)?.single()?.as_integer()?).ok()
}

/// One value as JSON.
pub(crate) fn shown(atom: &Atom) -> Value {
    match atom {
        Atom::Integer(number) => (*number).into(),
        Atom::Real(number) => (*number).into(),
        Atom::Boolean(flag) => (*flag).into(),
        Atom::Uuid(uuid) => json!(["uuid", uuid.to_string()]),
        Atom::Short(..) | Atom::Long(_) => atom.as_str().unwrap_or_default().into(),
    }
}

/// The only value of a column as JSON; `None` if it has none or several.
pub(crate) fn shown_one(value: &Datum) -> Option<Value> {
    value.single().map(shown)
}
