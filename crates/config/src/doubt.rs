//! What a file says that works but is hardly meant: a name that is nearly a well-known one, a rule that
//! does nothing, a checkpoint that limits nothing, and frontends and backends that no client can use.
//!
//! Never an error: attributes may have any name, and what does nothing today may be a beginning. What the
//! rows alone show is found by the model, for every door; here it gets its line.

mod http;

pub(crate) use http::used_by;

use crate::document::Object;
use crate::keys::kind_of;
use crate::others::Others;
use crate::read::shown;
use paceline_model::schema::{CHECKPOINT, RULE};
use paceline_rules::parse_criteria;
use paceline_tables::value::{Atom, Datum};
use paceline_types::{KNOWN, Name, nearest};

/// Most doubts told of one file.
const DOUBTS_MAX: usize = 100;

/// What works but is hardly meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Which of the files it is about, if it is about one object.
    pub file: Option<usize>,
    /// What, with its line if there is one.
    pub text: String,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// What is doubtful about each of the objects, with its line.
pub(crate) fn doubts(objects: &[Object], others: &Others) -> Vec<Warning> {
    let of = |table| objects.iter().filter(move |object: &&Object| object.table == table);
    let at = |object: &Object, text| Warning { file: Some(object.file), text };
    let rules = of(RULE).flat_map(|one| rule(one).into_iter().map(move |text| at(one, text)));
    let checkpoints = of(CHECKPOINT).filter_map(|one| Some(at(one, unlimited(one)?)));
    rules.chain(checkpoints).chain(http::doubts(objects, others)).take(DOUBTS_MAX).collect()
}

/// What the model doubts, with the line of the object and the setting that it names.
pub(crate) fn placed(objects: &[Object], doubt: String) -> Warning {
    let about = |object: &Object| {
        let rest = doubt.strip_prefix(kind_of(object.table)?.word)?.strip_prefix(' ')?;
        let rest = match object.table {
            RULE => rest.strip_prefix(&*object.key)?.strip_prefix(": ")?,
            _ => rest.strip_prefix('"')?.strip_prefix(&*object.key)?.strip_prefix("\": ")?,
        };
        let setting = rest.split([':', ' ']).next()?;
        Some((object.file, object.place_of(&setting.replace('.', "_")).line))
    };
    match objects.iter().find_map(about) {
        Some((file, line)) => Warning { file: Some(file), text: format!("line {line}: {doubt}") },
        None => Warning { file: None, text: doubt },
    }
}

/// A checkpoint that does not say that it only counts, and does.
fn unlimited(object: &Object) -> Option<String> {
    let says = ["rate", "concurrency"].iter().any(|column| object.columns.contains_key(column));
    if says || object.places.contains_key("count") {
        return None;
    }
    let (line, key) = (object.place.line, &object.key);
    Some(format!(
        "line {line}: checkpoint \"{key}\": it limits nothing and only counts; give it rate or \
         concurrency, or say count = true"
    ))
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
