//! Frontends: where requests arrive.

use super::Object;
use super::fields::Reading;
use super::values::Row;
use crate::App;
use crate::members::Members;
use crate::respond::{Problem, shown};
use paceline_catalogue::{FRONTENDS, Kind};
use paceline_tables::value::{Atom, Datum};
use serde_json::{Map, Value, json};

/// The table Frontend.
pub(super) struct Frontend;

/// Why a frontend does not serve as configured, if it does not.
pub(super) fn problem(app: &App, name: &str) -> Option<String> {
    let door = app.host.control().http().state();
    let found = door.problems.iter().find(|one| one.frontend.as_deref() == Some(name));
    found.map(|one| one.message.clone())
}

/// The text between a backend and its condition in the column `use_backend`.
const WHEN: &str = " when ";

impl Object for Frontend {
    const KIND: &'static Kind = &FRONTENDS;

    fn read(members: &mut Members, reading: &Reading, row: &mut Row) -> Result<(), Problem> {
        if let Some(entries) = entries(members, "use_backend", reading)? {
            let mut lines = Vec::new();
            for mut entry in entries {
                let (when, backend) = (entry.required_text("when")?, word(&mut entry, "backend")?);
                entry.finish()?;
                lines.push(format!("{backend}{WHEN}{when}"));
            }
            row.insert("use_backend".into(), numbered(lines));
        }
        if let Some(entries) = entries(members, "tls", reading)? {
            let (mut certificates, mut keys) = (Vec::new(), Vec::new());
            for mut entry in entries {
                certificates.push(entry.required_text("certificate")?);
                keys.push(entry.required_text("key")?);
                entry.finish()?;
            }
            row.insert("tls_certificate".into(), numbered(certificates));
            row.insert("tls_key".into(), numbered(keys));
        }
        Ok(())
    }

    fn show(row: &Row, object: &mut Map<String, Value>) {
        let line = |(_, text): &(Atom, Atom)| {
            let (backend, when) = text.as_str()?.split_once(WHEN)?;
            Some(json!({ "when": when, "backend": backend }))
        };
        let pairs = |column: &str| row.get(column).map(Datum::pairs).unwrap_or_default();
        let lines: Vec<Value> = pairs("use_backend").iter().filter_map(line).collect();
        let keys = |number: &Atom| row.get("tls_key")?.value_of(number)?.as_str();
        let certificate = |(number, file): &(Atom, Atom)| json!({ "certificate": file.as_str(), "key": keys(number) });
        let certificates: Vec<Value> = pairs("tls_certificate").iter().map(certificate).collect();
        for (name, list) in [("use_backend", lines), ("tls", certificates)] {
            if !list.is_empty() {
                object.insert(name.into(), Value::Array(list));
            }
        }
    }
}

/// The objects of a given list, or none for a list that is reset to its default; `None` if the list stays as it
/// is. A single object is a list of one.
fn entries(
    members: &mut Members,
    name: &'static str,
    reading: &Reading,
) -> Result<Option<Vec<Members>>, Problem> {
    if members.peek(name).is_some_and(Value::is_object) {
        return members.object(name).map(|one| Some(one.into_iter().collect()));
    }
    let is_given = members.has(name);
    let list = members.objects(name)?;
    Ok((is_given || reading.resets()).then_some(list))
}

/// The name of a backend. A blank in it would be taken for its end.
fn word(members: &mut Members, name: &'static str) -> Result<String, Problem> {
    let text = members.required_text(name)?;
    match text.contains(char::is_whitespace) {
        true => {
            let (path, found) = (members.path(name), shown(&text));
            Err(Problem::bad_request(format!(
                "{path}: expected a name without blanks, found {found:?}"
            )))
        }
        false => Ok(text),
    }
}

/// A map from the position of each text, from 1, to the text.
fn numbered(texts: Vec<String>) -> Datum {
    let numbered = (1..).zip(texts);
    Datum::map_of(numbered.map(|(at, text)| (Atom::Integer(at), Atom::string(&text))).collect())
}
