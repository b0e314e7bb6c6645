//! Settings that work but are probably not intended: a name that is nearly a well-known one, a rule that does
//! nothing, a checkpoint that limits nothing, and frontends and backends that no client can use.
//!
//! Never an error: attributes may have any name, and an object that does nothing today may be a beginning. The model
//! finds what the rows alone show, for every door; here it gets its line.

mod http;

pub(crate) use http::used_by;

use crate::document::Object;
use crate::keys::kind_of;
use crate::others::Others;
use crate::place::Place;
use crate::read::shown;
use paceline_model::schema::{CHECKPOINT, RULE};
use paceline_rules::parse_criteria;
use paceline_tables::value::{Atom, Datum};
use paceline_types::{KNOWN, Name, nearest};

/// A text about an object, and where in the file it belongs.
type Told = (Place, String);

/// The most warnings for one file.
const DOUBTS_MAX: usize = 100;

/// Something that works but is probably not intended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The index of its file, if it concerns one object.
    pub file: Option<usize>,
    /// Where it is, if it concerns one object.
    pub place: Option<Place>,
    /// The text.
    pub text: String,
}

impl Warning {
    /// A warning about an object, at this place of its file.
    fn at(object: &Object, (place, text): (Place, String)) -> Self {
        Self { file: Some(object.file), place: Some(place), text }
    }
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.place {
            Some(place) => write!(f, "line {}: {}", place.line, self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// The warnings for all objects, with their lines.
pub(crate) fn doubts(objects: &[Object], others: &Others) -> Vec<Warning> {
    let of = |table| objects.iter().filter(move |object: &&Object| object.table == table);
    let rules =
        of(RULE).flat_map(|one| rule(one).into_iter().map(move |told| Warning::at(one, told)));
    let checkpoints = of(CHECKPOINT).filter_map(|one| Some(Warning::at(one, unlimited(one)?)));
    rules.chain(checkpoints).chain(http::doubts(objects, others)).take(DOUBTS_MAX).collect()
}

/// A warning of the model, with the line of the object and the setting that it names.
pub(crate) fn placed(objects: &[Object], doubt: String) -> Warning {
    let about = |object: &Object| {
        let kind = kind_of(object.table)?;
        let rest = doubt.strip_prefix(kind.word)?.strip_prefix(' ')?;
        let rest = match object.table {
            RULE => rest.strip_prefix(&*object.key)?.strip_prefix(": ")?,
            _ => rest.strip_prefix('"')?.strip_prefix(&*object.key)?.strip_prefix("\": ")?,
        };
        let setting = rest.split([':', ' ']).next()?;
        let column = kind.settings.iter().find(|one| one.name == setting).map(|one| one.column);
        let column = column.map_or_else(|| setting.replace('.', "_"), str::to_owned);
        Some((object.file, object.place_of(&column)))
    };
    match objects.iter().find_map(about) {
        Some((file, place)) => Warning { file: Some(file), place: Some(place), text: doubt },
        None => Warning { file: None, place: None, text: doubt },
    }
}

/// Warns of a checkpoint that only counts, but does not say so.
fn unlimited(object: &Object) -> Option<Told> {
    let says = ["rate", "concurrency"].iter().any(|column| object.columns.contains_key(column));
    if says || object.places.contains_key("count") {
        return None;
    }
    let key = &object.key;
    let text = format!(
        "checkpoint \"{key}\": it limits nothing and only counts; give it rate or concurrency, or say \
         count = true"
    );
    Some((object.place, text))
}

fn rule(object: &Object) -> Vec<Told> {
    let criteria = text(object, "criteria").and_then(|text| parse_criteria(text).ok());
    let names = criteria.unwrap_or_default().into_iter().map(|criterion| criterion.attribute);
    let mut told: Vec<Told> = names.filter_map(|name| misspelt(object, &name)).collect();
    let acts = text(object, "action").is_some() || text(object, "then") == Some("stop");
    if !acts && !is_true(object, "log") && !is_true(object, "disabled") {
        let does = "does nothing when it matches; give it set, raise, lower or reject";
        told.push((object.place, format!("rule {} {does}", object.key)));
    }
    told
}

fn misspelt(object: &Object, name: &Name) -> Option<Told> {
    let Name::Other(name) = name else { return None };
    let near = nearest(name, KNOWN.iter().map(|(known, _)| *known))?;
    let (place, key, name) = (object.place_of("criteria"), &object.key, shown(name));
    Some((place, format!("rule {key} matches `{name}`, did you mean `{near}`?")))
}

fn text<'o>(object: &'o Object, column: &str) -> Option<&'o str> {
    let text = object.columns.get(column).and_then(Datum::single).and_then(Atom::as_str);
    text.filter(|text| !text.is_empty())
}

fn is_true(object: &Object, column: &str) -> bool {
    object.columns.get(column) == Some(&crate::document::flag(true))
}
