//! Settings that work but are probably not intended. The model finds what the rows alone show, for every door; here it gets
//! its line. Only a file can say `count`, so a checkpoint that limits nothing and does not say so is found here.
//!
//! Never an error: attributes may have any name, and an object that does nothing today may be a beginning.

use crate::document::Object;
use crate::keys::kind_of;
use crate::others::Others;
use crate::place::Place;
use paceline_model::schema::{BACKEND, CHECKPOINT, FRONTEND, RULE};
use paceline_model::unused_backend;
use paceline_tables::value::{Atom, Datum};

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

/// The checkpoints that limit nothing, with their lines.
pub(crate) fn doubts(objects: &[Object]) -> Vec<Warning> {
    let checkpoints = objects.iter().filter(|object| object.table == CHECKPOINT);
    let told = checkpoints.filter_map(|one| Some(Warning::at(one, unlimited(one)?)));
    told.take(DOUBTS_MAX).collect()
}

/// Whether a warning of the model is due only to what is known of the other objects: their names, and which backends
/// their frontends use.
pub(crate) fn is_due_to_others(others: &Others, warning: &str) -> bool {
    let is_about = |other: &Object| {
        let word = match other.table {
            FRONTEND => "frontend",
            BACKEND => "backend",
            _ => return false,
        };
        warning.starts_with(&format!("{word} \"{}\": ", other.key))
    };
    let is_used = others.used.iter().any(|backend| warning == unused_backend(backend));
    is_used || others.objects.iter().any(is_about)
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

/// The backends that a frontend uses.
pub(crate) fn used_by(frontend: &Object) -> impl Iterator<Item = &str> {
    let pairs = frontend.columns.get("use_backend").map_or(&[][..], Datum::pairs);
    let chosen = pairs.iter().filter_map(|(_, text)| Some(text.as_str()?.split_once(" when ")?.0));
    let backend = frontend.columns.get("backend").and_then(Datum::single).and_then(Atom::as_str);
    backend.filter(|backend| !backend.is_empty()).into_iter().chain(chosen)
}
