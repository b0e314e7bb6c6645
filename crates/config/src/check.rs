//! Checks whether a file can work, by planning it in a scratch database.
//!
//! Owns the mapping from an error about a row back to the line of the file. The first error of a plan hides the
//! others, so the plan is repeated with the object in question made harmless, as often as a file of its size allows.

use crate::ERRORS_MAX;
use crate::apply::{Ownership, operations};
use crate::document::{Document, Need, Object, files_of, flag, text};
use crate::doubt::{Warning, doubts, is_due_to_others, placed};
use crate::error::{ConfigError, Errors};
use crate::keys::{kind_of, path_of};
use crate::others::Others;
use crate::place::Place;
use crate::read::shown;
use crate::similar::did_you_mean;
use paceline_engine::Engine;
use paceline_model::schema::{
    BACKEND, CHECKPOINT, FRONTEND, POOL, RESOURCE, RULE, SAVED_RULE, SERVER, SQL_TARGET, schema,
};
use paceline_model::{Model, ModelError};
use paceline_pools::DEFAULT_NAME;
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Context, Database, OpResult, Outcome};
use paceline_types::UuidSource;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many objects are planned, counting each as often as it is planned, before the search for further errors stops.
const PLANNED_MAX: usize = 100_000;

impl Document {
    /// Checks whether the file can work, on any machine. Returns what works but is probably not intended.
    ///
    /// # Errors
    ///
    /// What cannot work: at most one error for each object, up to [`ERRORS_MAX`], in the order of the file.
    pub fn check(&self) -> Result<Vec<Warning>, Vec<ConfigError>> {
        self.check_beside(&Others::default())
    }

    /// The same with other existing objects, which those of the file may name.
    ///
    /// # Errors
    ///
    /// As [`Self::check`].
    pub fn check_beside(&self, others: &Others) -> Result<Vec<Warning>, Vec<ConfigError>> {
        let mut objects = self.objects.clone();
        let own = Names::of(&self.objects);
        objects.extend(
            others.objects.iter().filter(|other| !own.has(other.table, &other.key)).cloned(),
        );
        // A server whose backend is deleted cannot be named.
        let backends: BTreeSet<String> = objects
            .iter()
            .filter(|object| object.table == BACKEND)
            .map(|object| object.key.clone())
            .collect();
        let is_lost = |object: &Object| {
            let backend = object.columns.get("backend").and_then(Datum::single);
            let backend = backend.and_then(Atom::as_str).unwrap_or_default();
            object.table == SERVER && !backends.contains(backend)
        };
        objects.retain(|object| !is_lost(object));
        let names = Names::of(&objects);
        let mut errors = self.missing(&names);
        let stand_ins = self.stand_ins(&names);
        objects.extend(stand_ins);
        let mut told = BTreeSet::new();
        let rounds = (PLANNED_MAX / objects.len().max(1)).clamp(1, ERRORS_MAX);
        for _ in 0..rounds {
            let fault = match plan(&objects) {
                Ok(warnings) => {
                    let placed = |warning| placed(&self.objects, warning);
                    let own = warnings.into_iter().filter(|one| !is_due_to_others(others, one));
                    let mut warnings: Vec<Warning> = own.map(placed).collect();
                    warnings.extend(doubts(&self.objects));
                    return errors.or(warnings);
                }
                Err(fault) => fault,
            };
            let at = position(&objects, &fault);
            let Some(object) = at.and_then(|at| objects.get_mut(at)) else {
                errors.push(self.error(&fault));
                break;
            };
            if told.insert((object.table, object.key.clone())) {
                make_harmless(object);
                errors.push(self.error(&fault));
            } else if let Some(at) = at {
                // Even its name causes an error. No server can exist without its backend.
                let gone = objects.remove(at);
                let is_within = |object: &Object| {
                    gone.table == BACKEND
                        && object.table == SERVER
                        && object.columns.get("backend") == Some(&text(&gone.key))
                };
                objects.retain(|object| !is_within(object));
            }
            if is_about_all(&fault) {
                break;
            }
        }
        errors.or(vec![])
    }

    /// The objects that are named but do not exist.
    fn missing(&self, names: &Names<'_>) -> Errors {
        let mut errors = Errors::default();
        for Need { table, name, path, file, place } in &self.needs {
            if errors.is_full() {
                break;
            }
            if names.has(table, name) {
                continue;
            }
            let word = kind_of(table).map_or(*table, |kind| kind.word);
            let near = did_you_mean(name, names.of_table(table));
            let message = format!("`{path}`: there is no {word} `{}`{near}", shown(name));
            let hint = match *table {
                RESOURCE => "each parent needs a [[resource]] of its own",
                _ => "each backend needs a [[backend]] of its own",
            };
            errors.push(ConfigError::new(*place, message).hint(hint).of(*file));
        }
        errors
    }

    /// An object for each that is named but does not exist, so that these do not hide other errors.
    fn stand_ins(&self, names: &Names<'_>) -> Vec<Object> {
        let missing = self.needs.iter().filter(|need| !names.has(need.table, &need.name));
        let missing: BTreeSet<_> = missing.map(|need| (need.table, need.name.as_str())).collect();
        let stand_in = |(table, name): (&'static str, &str)| {
            let mut object = Object::new(table, Place::START);
            object.key = name.to_owned();
            object.columns.insert("name", text(name));
            object.columns.insert("persistent", flag(true));
            object
        };
        missing.into_iter().map(stand_in).collect()
    }

    /// The error in the file for an error about a row.
    fn error(&self, fault: &ModelError) -> ConfigError {
        let Some(object) = position(&self.objects, fault).and_then(|at| self.objects.get(at))
        else {
            let is_inner = fault.table.is_empty();
            let message = if is_inner { fault.message.clone() } else { fault.to_string() };
            return ConfigError::new(Place::START, message);
        };
        let column = fault.column.as_deref().or(default_column(fault)).unwrap_or_default();
        let column = column.replace('.', "_");
        let (mut place, mut message) = (object.place_of(&column), fault.message.clone());
        let mut path = kind_of(object.table).and_then(|kind| path_of(kind, &column));
        if let Some((number, rest)) = criterion(&message)
            && let Some((attribute, at)) = object.criteria.get(number.wrapping_sub(1))
        {
            (path, place) = (Some(format!("match.{attribute}")), *at);
            message = rest.to_owned();
        }
        if let Some((entry, rest)) = message.split_once(": ")
            && let Some((_, at)) =
                object.entries.iter().find(|((of, name), _)| *of == column && name == entry)
        {
            place = *at;
            message = if entry.parse::<u32>().is_ok() { rest.to_owned() } else { message };
        }
        let message = within(&message);
        let message = path.map_or_else(|| message.clone(), |path| format!("`{path}`: {message}"));
        let error = ConfigError::new(place, message).of(object.file);
        match self.hint(object, &column) {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }

    fn hint(&self, object: &Object, column: &str) -> Option<String> {
        if object.table == POOL && object.key != DEFAULT_NAME && column == "state" {
            return Some("add priority = [LOWEST, HIGHEST], or started = false".to_owned());
        }
        if files_of(object.table).contains(&column) && !is_alone(object, column) {
            let hint =
                "a relative name is that of a file beside the configuration, which is not known";
            return Some(format!("{hint} here; write the whole path"));
        }
        if object.table == CHECKPOINT && ["queue", "fair"].contains(&column) {
            return Some("remove it, or give the checkpoint rate or concurrency".to_owned());
        }
        if object.table == SQL_TARGET
            && column == "upstream"
            && !object.columns.contains_key(column)
        {
            let hint = "add upstream = \"postgresql://HOST/DATABASE\", or sqlite = \"FILE.db\"";
            return Some(hint.to_owned());
        }
        if object.table == CHECKPOINT && column == "at" {
            let at = object.columns.get("at")?.single()?.as_str()?;
            let pool = at.strip_prefix("pool ")?.trim();
            let pools = self.objects.iter().filter(|other| other.table == POOL);
            let near = did_you_mean(pool, pools.map(|pool| pool.key.as_str()));
            return Some(format!("add a [[pool]] of that name{near}"));
        }
        None
    }
}

/// The objects that exist, by table and name. Finding one takes a few comparisons, however many there are.
struct Names<'o>(BTreeSet<Named<'o>>);

impl<'o> Names<'o> {
    fn of(objects: &'o [Object]) -> Self {
        Self(objects.iter().map(|object| Named(object.table, &object.key)).collect())
    }

    fn has(&self, table: &str, name: &str) -> bool {
        self.0.contains(&Named(table, name))
    }

    fn of_table(&self, table: &'o str) -> impl Iterator<Item = &'o str> {
        let names = self.0.range(Named(table, "")..);
        names.take_while(move |named| named.0 == table).map(|named| named.1)
    }
}

/// The table and the name of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Named<'o>(&'o str, &'o str);

impl Ord for Named<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        #[cfg(test)]
        COMPARED.set(COMPARED.get() + 1);
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

impl PartialOrd for Named<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
thread_local! {
    /// How many names of objects this thread has compared, for tests that count steps.
    pub(crate) static COMPARED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Whether a certificate of a backend has no key, or the key no certificate.
fn is_alone(object: &Object, column: &str) -> bool {
    object.table == BACKEND && !object.columns.contains_key(column)
}

/// A message that begins with a place within an expression, written so that it is not mistaken for a place in the
/// file.
fn within(message: &str) -> String {
    let place = || {
        let (line, rest) = message.split_once(':')?;
        let (column, rest) = rest.split_once(": ")?;
        let (line, column): (u32, u32) = (line.parse().ok()?, column.parse().ok()?);
        Some(match line {
            1 => format!("column {column}: {rest}"),
            _ => format!("line {line}, column {column}: {rest}"),
        })
    };
    place().unwrap_or_else(|| message.to_owned())
}

/// Splits `criterion 2: what is wrong`, as in the model's messages.
fn criterion(message: &str) -> Option<(usize, &str)> {
    let (number, rest) = message.strip_prefix("criterion ")?.split_once(": ")?;
    Some((number.parse().ok()?, rest))
}

/// Whether the error concerns all objects, because there are too many, and none in particular.
fn is_about_all(fault: &ModelError) -> bool {
    fault.row.is_none() && default_column(fault).is_none()
}

/// The column of the default pool that an error concerns; such an error names no row.
fn default_column(fault: &ModelError) -> Option<&'static str> {
    match fault.message.strip_prefix("the default pool cannot be ")? {
        "given a range" => Some("priority_min"),
        "made transient" => Some("persistent"),
        _ => Some("state"),
    }
}

/// The object that an error concerns; the last of its kind if there are too many.
fn position(objects: &[Object], fault: &ModelError) -> Option<usize> {
    let table = if fault.table == SAVED_RULE { RULE } else { fault.table.as_str() };
    let find = |key: &str| objects.iter().position(|o| o.table == table && o.key == key);
    match &fault.row {
        Some(row) => find(row),
        None if default_column(fault).is_some() => find(DEFAULT_NAME),
        None => objects.iter().rposition(|object| object.table == table),
    }
}

/// The columns that only identify an object.
const HARMLESS: [&str; 8] =
    ["name", "number", "at", "persistent", "file", "state", "role", "backend"];

/// Reduces an object to its name, so that others can still refer to it.
pub(crate) fn make_harmless(object: &mut Object) {
    object.columns.retain(|column, _| HARMLESS.contains(column));
    object.parents.clear();
    if object.table == POOL && object.key != DEFAULT_NAME {
        object.columns.insert("state", text("stopped"));
    }
    if object.table == CHECKPOINT {
        object.columns.insert("at", text("frontend api"));
    }
    if object.table == FRONTEND {
        object.columns.insert("listen", text("127.0.0.1:0"));
        object.columns.remove("backend");
    }
    if object.table == SERVER {
        object.columns.insert("address", text("127.0.0.1:1"));
    }
    if object.table == SQL_TARGET {
        object.columns.insert("sqlite", text("harmless.db"));
    }
}

/// The engine's warnings, or why the objects cannot work.
fn plan(objects: &[Object]) -> Result<Vec<String>, ModelError> {
    let inner =
        |message: String| ModelError { table: String::new(), row: None, column: None, message };
    let schema = Arc::new(schema().map_err(inner)?);
    let mut database = Database::new(Arc::clone(&schema), UuidSource::from_number(0));
    let applied = operations(objects, database.store(), &Ownership::default());
    let context =
        Context { elapsed_ms: 0, owns_lock: &|_| false, read_only: false, maintained: &[] };
    let outcome = database.execute(&applied.operations, &context);
    let Outcome::Done(done) = outcome else { return Err(inner("a wait does not hold".into())) };
    for (at, result) in done.results.iter().enumerate() {
        if let OpResult::Error(error) = result {
            // There are only inserts, one for each change.
            let change = applied.changes.get(at);
            let table = change.map(|change| change.table.to_owned()).unwrap_or_default();
            let row = change.map(|change| change.row.clone());
            return Err(ModelError { table, row, column: None, message: error.details.clone() });
        }
    }
    let mut model = Model::new(schema)?;
    let plan = model.plan(&Engine::new(0).snapshot(), database.store())?;
    Ok(plan.warnings().to_vec())
}
