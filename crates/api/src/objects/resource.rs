//! Resources: their parents are references in the database and names for clients.

use super::Object;
use super::database::{self, begin, rows};
use super::fields::Reading;
use super::values::{Row, text, text_in, texts};
use crate::identity::Identity;
use crate::members::Members;
use crate::operation::{Form, Parameter};
use crate::respond::{Problem, shown};
use crate::{App, query};
use axum::http::Uri;
use paceline_catalogue::{Kind, RESOURCES};
use paceline_host::WaitsFor;
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Function, Transaction};
use paceline_types::{RequestId, Uuid};
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashMap};

/// The most parents of one resource that a body may name.
const PARENTS_MAX: usize = 1_000;

/// The table Resource.
pub(super) struct Resource;

impl Object for Resource {
    const KIND: &'static Kind = &RESOURCES;
    const DELETE_QUERY: &'static [Parameter] = &[Parameter {
        name: "orphan",
        form: Form::Flag,
        doc: "Whether to delete it although it has children.",
    }];

    fn read(members: &mut Members, reading: &Reading, row: &mut Row) -> Result<(), Problem> {
        if members.is_null("parents") || (reading.resets() && !members.has("parents")) {
            members.take("parents");
            row.insert("parents".into(), Datum::Empty);
        } else if members.has("parents") {
            let parents = members.texts("parents")?;
            if parents.len() > PARENTS_MAX {
                let message = format!("parents: expected at most {PARENTS_MAX}");
                return Err(Problem::bad_request(message));
            }
            let mut seen = BTreeSet::new();
            if let Some(name) = parents.iter().find(|name| !seen.insert(name.as_str())) {
                let message = format!("parents: {:?} is named twice", shown(name));
                return Err(Problem::bad_request(message));
            }
            // Names for now; they become references when the row is written.
            row.insert("parents".into(), texts(parents.iter().map(String::as_str)));
        } else {
            members.take("parents");
        }
        Ok(())
    }

    fn still_used(app: &App, key: &str) -> Option<String> {
        let mut holders = vec![];
        app.host.control().look(RequestId(0), usize::MAX, |request, why| {
            let claims = request.claims.iter().any(|claim| &*claim.resource == key);
            if claims && why.waits_for == WaitsFor::Nothing {
                holders.push(why.id.0);
            }
        });
        let first = holders.first()?;
        let (requests, hold) = match holders.len() {
            1 => (format!("request {first}"), "holds"),
            count => (format!("request {first} and {} more", count - 1), "hold"),
        };
        Some(format!(
            "resource {:?}: {requests} still {hold} it; claims on its former parents no longer wait for it",
            shown(key)
        ))
    }

    fn show(row: &Row, object: &mut Map<String, Value>) {
        let parents: Option<Value> =
            row.get("parents").map(|set| set.atoms().iter().map(Atom::as_str).collect());
        object.insert("parents".into(), parents.unwrap_or_default());
    }
}

/// Turns the names of parents into references. Also returns a transaction that checks that the parents have not
/// changed.
pub(super) async fn find_parents<O: Object>(
    app: &App,
    caller: &Identity,
    key: &str,
    mut row: Row,
) -> Result<(Row, Transaction), Problem> {
    let (table, mut checked) = (O::KIND.table, begin(app)?);
    let names = row.get("parents").filter(|_| table == Resource::KIND.table);
    let names: Vec<String> = names
        .into_iter()
        .flat_map(Datum::atoms)
        .filter_map(Atom::as_str)
        .map(str::to_owned)
        .collect();
    if names.is_empty() {
        return Ok((row, checked));
    }
    let selects = names.iter().fold(begin(app)?, |selects, name| {
        selects.select(table, [("name", Function::Equal, text(name))])
    });
    let results = database::transact(app, caller, selects).await;
    let results = results.map_err(|error| database::problem::<O>(&error, key))?;
    let mut found = Vec::new();
    for (name, result) in names.iter().zip(&results) {
        let parent = rows(std::slice::from_ref(result)).into_iter().next();
        let Some(uuid) = parent.as_ref().and_then(uuid_of) else {
            let place = json!({ "table": table, "row": key, "column": "parents" });
            let message = format!("there is no resource {:?}", shown(name));
            return Err(Problem::constraint(message, place).hint("make the parents first"));
        };
        let uuid = Atom::Uuid(uuid);
        let is_it = [("_uuid", Function::Equal, Datum::One(uuid.clone()))];
        checked = checked.expect(table, is_it, ["name"], [[("name", text(name))]]);
        found.push(uuid);
    }
    row.insert("parents".into(), Datum::set_of(found));
    Ok((row, checked))
}

/// The most children that a refusal names.
const CHILDREN_NAMED_MAX: usize = 5;

/// Checks that a resource to be deleted has no children, unless the query has `orphan`. Returns a transaction
/// that checks that again.
pub(super) async fn no_children<O: Object>(
    app: &App,
    caller: &Identity,
    key: &str,
    uri: &Uri,
) -> Result<Transaction, Problem> {
    let (table, nothing) = (O::KIND.table, begin(app)?);
    if table != Resource::KIND.table || query::flag(uri, "orphan")? {
        return Ok(nothing);
    }
    let problem = |error| database::problem::<O>(&error, key);
    let own = begin(app)?.select(table, [("name", Function::Equal, text(key))]);
    let own = rows(&database::transact(app, caller, own).await.map_err(problem)?);
    let Some(uuid) = own.first().and_then(uuid_of) else { return Ok(nothing) };
    let below = [("parents", Function::Includes, Datum::One(Atom::Uuid(uuid)))];
    let children = begin(app)?.select(table, below.clone());
    let children = rows(&database::transact(app, caller, children).await.map_err(problem)?);
    if !children.is_empty() {
        let names = children.iter().filter_map(|row| text_in(row, "name"));
        let mut names: Vec<String> = names.map(|name| format!("{:?}", shown(name))).collect();
        names.sort();
        let more = names.len().saturating_sub(CHILDREN_NAMED_MAX);
        names.truncate(CHILDREN_NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!("resource {:?} has children: {}{more}", shown(key), names.join(", "));
        let hint = "delete the children first; DELETE with ?orphan deletes it and leaves them without this parent";
        return Err(Problem::conflict(message).hint(hint));
    }
    let none: [[(&str, Datum); 0]; 0] = [];
    Ok(nothing.expect(table, below, ["name"], none))
}

/// Turns references to parents into names.
pub(super) async fn name_parents<O: Object>(
    app: &App,
    caller: &Identity,
    found: &mut [Row],
) -> Result<(), Problem> {
    if O::KIND.table != Resource::KIND.table {
        return Ok(());
    }
    let known: HashMap<Uuid, String> = match found {
        // One row: only its parents are looked up.
        [one] => {
            let selects = references(one).fold(begin(app)?, |selects, uuid| {
                let is_it = ("_uuid", Function::Equal, Datum::One(Atom::Uuid(uuid)));
                selects.select(O::KIND.table, [is_it])
            });
            let results = database::transact(app, caller, selects).await;
            let results = results.map_err(|error| Problem::internal(&error.to_string()))?;
            let parents = results.iter().flat_map(|result| rows(std::slice::from_ref(result)));
            parents.filter_map(|row| named(&row)).collect()
        }
        _ => found.iter().filter_map(named).collect(),
    };
    for row in found {
        let parents =
            texts(references(row).filter_map(|uuid| known.get(&uuid)).map(String::as_str));
        row.insert("parents".into(), parents);
    }
    Ok(())
}

fn named(row: &Row) -> Option<(Uuid, String)> {
    Some((uuid_of(row)?, text_in(row, "name")?.to_owned()))
}

/// The UUID of a row.
fn uuid_of(row: &Row) -> Option<Uuid> {
    row.get("_uuid")?.single()?.as_uuid()
}

/// The parents of a row.
fn references(row: &Row) -> impl Iterator<Item = Uuid> {
    let parents = row.get("parents").map(Datum::atoms).unwrap_or_default();
    parents.iter().filter_map(Atom::as_uuid)
}
