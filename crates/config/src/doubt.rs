//! What a file says that works but is hardly meant: a name that is nearly a well-known one, a rule that
//! does nothing, and frontends and backends that nobody can use.
//!
//! Never an error: attributes may have any name, and what does nothing today may be a beginning. A
//! checkpoint without a limit is not among them, because it counts.

mod http;

use crate::document::Object;
use crate::read::shown;
use paceline_model::schema::RULE;
use paceline_rules::parse_criteria;
use paceline_tables::value::{Atom, Datum};
use paceline_types::{KNOWN, Name, nearest};

/// Most doubts told of one file.
const DOUBTS_MAX: usize = 100;

/// What is doubtful about each of the objects, with its line.
pub(crate) fn doubts(objects: &[Object]) -> Vec<String> {
    let rules = objects.iter().filter(|object| object.table == RULE);
    rules.flat_map(rule).chain(http::doubts(objects)).take(DOUBTS_MAX).collect()
}

fn rule(object: &Object) -> Vec<String> {
    let criteria = text(object, "criteria").and_then(|text| parse_criteria(text).ok());
    let names = criteria.unwrap_or_default().into_iter().map(|criterion| criterion.attribute);
    let mut told: Vec<String> = names.filter_map(|name| misspelt(object, &name)).collect();
    let acts = text(object, "action").is_some() || text(object, "then") == Some("stop");
    if !acts && !is_true(object, "log") && !is_true(object, "disabled") {
        let does = "does nothing when it matches; give it set, raise, lower or reject";
        told.push(format!("line {}: rule {} {does}", object.place.line, object.key));
    }
    told
}

fn misspelt(object: &Object, name: &Name) -> Option<String> {
    let Name::Other(name) = name else { return None };
    let near = nearest(name, KNOWN.iter().map(|(known, _)| *known))?;
    let (line, key, name) = (object.place_of("criteria").line, &object.key, shown(name));
    Some(format!("line {line}: rule {key} matches `{name}`, did you mean `{near}`?"))
}

fn text<'o>(object: &'o Object, column: &str) -> Option<&'o str> {
    let text = object.columns.get(column).and_then(Datum::single).and_then(Atom::as_str);
    text.filter(|text| !text.is_empty())
}

fn is_true(object: &Object, column: &str) -> bool {
    object.columns.get(column) == Some(&crate::document::flag(true))
}
