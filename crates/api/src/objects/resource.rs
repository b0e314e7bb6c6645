//! Resources: their parents are references in the database and names to clients.

use super::Object;
use super::database::{self, Row, rows, select};
use super::fields::{Reading, nothing};
use crate::identity::Identity;
use crate::members::Members;
use crate::operation::{Form, Parameter};
use crate::respond::{Problem, shown};
use crate::{App, query};
use axum::http::Uri;
use paceline_catalogue::{Kind, RESOURCES};
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashMap};

/// Most parents of one resource that a body may name.
const PARENTS_MAX: usize = 1_000;

/// The table Resource.
pub(super) struct Resource;

impl Object for Resource {
    const KIND: &'static Kind = &RESOURCES;
    const DELETE_QUERY: &'static [Parameter] = &[Parameter {
        name: "orphan",
        form: Form::Flag,
        doc: "Whether to delete it although other resources are below it.",
    }];

    fn read(members: &mut Members, reading: &Reading, row: &mut Row) -> Result<(), Problem> {
        if members.is_null("parents") || (reading.resets() && !members.has("parents")) {
            members.take("parents");
            row.insert("parents".into(), nothing());
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
            row.insert("parents".into(), json!(parents));
        } else {
            members.take("parents");
        }
        Ok(())
    }

    fn show(row: &Row, object: &mut Map<String, Value>) {
        object.insert("parents".into(), row.get("parents").cloned().unwrap_or_default());
    }
}

/// Turns the names of parents into references. Answers also the operations that make sure, inside the
/// transaction, that the parents are still those.
pub(super) async fn find_parents<O: Object>(
    app: &App,
    identity: &Identity,
    key: &str,
    mut row: Row,
) -> Result<(Row, Vec<Value>), Problem> {
    let names = row.get("parents").filter(|parents| **parents != nothing()).cloned();
    let Some(Value::Array(names)) = names.filter(|_| O::KIND.table == Resource::KIND.table) else {
        return Ok((row, Vec::new()));
    };
    let selects = names.iter().map(|name| select(O::KIND.table, json!([["name", "==", name]])));
    let results = database::transact(app, identity, selects.collect()).await;
    let results = results.map_err(|error| database::problem::<O>(&error, key))?;
    let (mut found, mut checks) = (Vec::new(), Vec::new());
    for (name, result) in names.iter().zip(&results) {
        let parent = rows(std::slice::from_ref(result)).into_iter().next();
        let Some(uuid) = parent.and_then(|parent| parent.get("_uuid").cloned()) else {
            let place = json!({ "table": O::KIND.table, "row": key, "column": "parents" });
            let name = shown(name.as_str().unwrap_or_default());
            let message = format!("there is no resource {name:?}");
            return Err(Problem::constraint(message, place).hint("make the parents first"));
        };
        checks.push(json!({
            "op": "wait", "timeout": 0, "table": O::KIND.table, "where": [["_uuid", "==", uuid]],
            "columns": ["name"], "until": "==", "rows": [{ "name": name }],
        }));
        found.push(uuid);
    }
    row.insert("parents".into(), json!(["set", found]));
    Ok((row, checks))
}

/// Children that a refusal names.
const CHILDREN_NAMED_MAX: usize = 5;

/// That a resource which is to be deleted has no children, unless the query says `orphan`. Returns the operation that
/// makes sure of it inside the transaction.
pub(super) async fn no_children<O: Object>(
    app: &App,
    identity: &Identity,
    key: &str,
    uri: &Uri,
) -> Result<Vec<Value>, Problem> {
    if O::KIND.table != Resource::KIND.table || query::flag(uri, "orphan")? {
        return Ok(Vec::new());
    }
    let problem = |error| database::problem::<O>(&error, key);
    let own = vec![select(O::KIND.table, json!([["name", "==", key]]))];
    let own = rows(&database::transact(app, identity, own).await.map_err(problem)?);
    let Some(uuid) = own.first().and_then(|row| row.get("_uuid")) else { return Ok(Vec::new()) };
    let below = json!([["parents", "includes", uuid]]);
    let children = vec![select(O::KIND.table, below.clone())];
    let children = rows(&database::transact(app, identity, children).await.map_err(problem)?);
    if !children.is_empty() {
        let names = children.iter().filter_map(|row| row.get("name")?.as_str());
        let mut names: Vec<String> = names.map(|name| format!("{:?}", shown(name))).collect();
        names.sort();
        let more = names.len().saturating_sub(CHILDREN_NAMED_MAX);
        names.truncate(CHILDREN_NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!("resource {:?} has children: {}{more}", shown(key), names.join(", "));
        let hint = "delete the children first; DELETE with ?orphan deletes it and leaves them without this parent";
        return Err(Problem::conflict(message).hint(hint));
    }
    Ok(vec![json!({ "op": "wait", "timeout": 0, "table": O::KIND.table, "where": below,
        "columns": ["name"], "until": "==", "rows": [] })])
}

/// Turns references to parents into names.
pub(super) async fn name_parents<O: Object>(
    app: &App,
    identity: &Identity,
    found: &mut [Row],
) -> Result<(), Problem> {
    if O::KIND.table != Resource::KIND.table {
        return Ok(());
    }
    let wanted: Vec<String> = found.iter().flat_map(references).collect();
    let known: Vec<Row> = match found {
        // One row: only its parents are looked up.
        [_] => {
            let by_uuid =
                |uuid: &String| select(O::KIND.table, json!([["_uuid", "==", ["uuid", uuid]]]));
            let selects = wanted.iter().map(by_uuid).collect();
            let results = database::transact(app, identity, selects).await;
            let results = results.map_err(|error| Problem::internal(&error.to_string()))?;
            results.iter().flat_map(|result| rows(std::slice::from_ref(result))).collect()
        }
        _ => found.to_vec(),
    };
    let names: HashMap<String, Value> = known.iter().filter_map(named).collect();
    for row in found {
        let mut parents: Vec<&Value> =
            references(row).iter().filter_map(|uuid| names.get(uuid)).collect();
        parents.sort_by_key(|name| name.as_str().unwrap_or_default());
        row.insert("parents".into(), json!(parents));
    }
    Ok(())
}

fn named(row: &Row) -> Option<(String, Value)> {
    let uuid = row.get("_uuid").and_then(reference)?;
    Some((uuid.to_owned(), row.get("name")?.clone()))
}

/// The parents of a row.
fn references(row: &Row) -> Vec<String> {
    let parents = row.get("parents");
    let many = match parents.and_then(Value::as_array).map(Vec::as_slice) {
        Some([Value::String(word), Value::Array(many)]) if word == "set" => many.as_slice(),
        Some(_) => parents.map(std::slice::from_ref).unwrap_or_default(),
        None => &[],
    };
    many.iter().filter_map(reference).map(str::to_owned).collect()
}

fn reference(value: &Value) -> Option<&str> {
    match value.as_array().map(Vec::as_slice) {
        Some([Value::String(word), Value::String(uuid)]) if word == "uuid" => Some(uuid),
        _ => None,
    }
}
