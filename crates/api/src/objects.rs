//! Pools, rules, checkpoints, resources, frontends, backends and servers: rows of the database as JSON objects, read and edited.
//!
//! Every edit is one durable transaction, answered when it is on disk. What is there is looked at
//! first and asserted again inside the transaction, so of two edits that overlap one is told that it
//! lost, and nothing is half done.

mod backend;
mod checkpoint;
mod database;
mod edit;
mod fields;
mod frontend;
mod pool;
mod resource;
mod rule;
mod saved;
mod server;
mod token;
mod tree;
mod user;

use crate::identity::{Identity, Role};
use crate::members::Members;
use crate::respond::{Answer, Problem, created, done, json_response, ok, shown};
use crate::router::Routes;
use crate::{App, Shared, body, large};
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use database::{Row, edit, first_row, select, select_one};
pub(crate) use database::{own_problem, select_all};
pub(crate) use fields::pairs;
use fields::{Field, Reading, show_fields};
use serde_json::{Map, Value, json};

/// A kind of object.
pub(crate) trait Object: Send + Sync + 'static {
    /// What people call one.
    const WORD: &'static str;
    /// Its table.
    const TABLE: &'static str;
    /// The column that names a row: `name` or `number`.
    const KEY: &'static str;
    /// The column that names what a row is part of, if it has a name only there: both are its key then,
    /// with a slash between.
    const WITHIN: Option<&'static str> = None;
    /// Members that are columns of their own.
    const FIELDS: &'static [Field];
    /// Columns with live figures.
    const FIGURES: &'static [&'static str];

    /// Reads the members that are no plain columns into columns of the row.
    fn read(_members: &mut Members, _reading: &Reading, _row: &mut Row) -> Result<(), Problem> {
        Ok(())
    }

    /// Shows the columns that are no plain members.
    fn show(_row: &Row, _object: &mut Map<String, Value>) {}

    /// The object of this name that is there without a row.
    fn without_row(_app: &App, _key: &str) -> Option<Value> {
        None
    }

    /// That the object of this name may be deleted.
    fn check_delete(_key: &str) -> Result<(), Problem> {
        Ok(())
    }

    /// Operations that delete what is part of the object.
    fn delete_parts(_key: &str) -> Vec<Value> {
        Vec::new()
    }
}

/// The columns that tell the row of this key from all others.
fn identity<O: Object>(key: &str) -> Result<Row, Problem> {
    let mut columns = Row::new();
    let Some(within) = O::WITHIN else {
        columns.insert(O::KEY.into(), key_value::<O>(key)?);
        return Ok(columns);
    };
    let (whole, name) =
        key.split_once('/').filter(|(_, name)| !name.is_empty()).ok_or_else(|| {
            let (word, found) = (O::WORD, shown(key));
            let upper = within.to_uppercase();
            Problem::bad_request(format!("a {word} is named {upper}/NAME, found {found:?}"))
        })?;
    columns.insert(within.into(), whole.into());
    columns.insert(O::KEY.into(), name.into());
    Ok(columns)
}

/// The condition that only the row of this key meets.
fn is_row<O: Object>(key: &str) -> Result<Value, Problem> {
    let columns = identity::<O>(key)?;
    Ok(columns.into_iter().map(|(column, value)| json!([column, "==", value])).collect())
}

/// The key of a row as the database writes it.
fn key_value<O: Object>(key: &str) -> Result<Value, Problem> {
    if O::KEY == "name" {
        return Ok(key.into());
    }
    let number: Result<u32, _> = key.parse();
    number.map(Value::from).map_err(|_| {
        Problem::bad_request(format!("a {} has a number, found {:?}", O::WORD, shown(key)))
    })
}

/// An object as clients see it.
fn describe<O: Object>(row: &Row) -> Value {
    let mut object = Map::new();
    if let Some(within) = O::WITHIN {
        object.insert(within.into(), row.get(within).cloned().unwrap_or_default());
    }
    object.insert(O::KEY.into(), row.get(O::KEY).cloned().unwrap_or_default());
    show_fields(O::FIELDS, row, &mut object);
    O::show(row, &mut object);
    // What is not known yet is left out.
    let figures: Map<String, Value> = O::FIGURES
        .iter()
        .filter_map(|name| Some(((*name).into(), fields::show_figure(name, row.get(*name)?)?)))
        .collect();
    if !figures.is_empty() {
        object.insert("figures".into(), Value::Object(figures));
    }
    Value::Object(object)
}

fn no_such<O: Object>(key: &str) -> Problem {
    Problem::not_found(format!("there is no {} {:?}", O::WORD, shown(key)))
}

/// `GET` of a list
async fn list<O: Object>(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
) -> Answer {
    let rows = async {
        let mut rows = select_all(&app, &identity, O::TABLE).await?;
        resource::name_parents::<O>(&app, &identity, &mut rows).await?;
        Ok(rows)
    };
    large::list_rows(&identity, rows, |rows| large::text(&described::<O>(&app, &rows))).await
}

/// All objects of a kind, in the order of their keys.
fn described<O: Object>(app: &App, rows: &[Row]) -> Vec<Value> {
    let mut objects: Vec<Value> = rows.iter().map(describe::<O>).collect();
    if let Some(missing) = O::without_row(app, pool::DEFAULT)
        && !objects.iter().any(|object| object[O::KEY] == missing[O::KEY])
    {
        objects.push(missing);
    }
    objects.sort_by_cached_key(|object| {
        let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
        let number = object[O::KEY].as_u64().unwrap_or_default();
        (number, O::WITHIN.map(text), text(O::KEY))
    });
    objects
}

/// `GET` of one
async fn one<O: Object>(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(key): Path<String>,
) -> Answer {
    let row = select_one::<O>(&app, &identity, &key).await?;
    let mut rows: Vec<Row> = row.into_iter().collect();
    resource::name_parents::<O>(&app, &identity, &mut rows).await?;
    match rows.first().map(describe::<O>).or_else(|| O::without_row(&app, &key)) {
        Some(object) => ok(&object),
        None => Err(no_such::<O>(&key)),
    }
}

/// `PUT`: creates or replaces
async fn put<O: Object>(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(key): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let members = body::members(&headers, body, &app.limits).await?;
    let is_there = select_one::<O>(&app, &identity, &key).await?.is_some();
    if edit::only_creates(&headers)? && (is_there || O::without_row(&app, &key).is_some()) {
        return Err(database::exists::<O>());
    }
    let reading = if is_there { Reading::Replace } else { Reading::Create };
    let row = read_row::<O>(members, &reading, &key)?;
    write::<O>(&app, &identity, &key, row, is_there).await
}

/// `PATCH`: changes the members given
async fn patch<O: Object>(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(key): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let members = body::members(&headers, body, &app.limits).await?;
    let is_there = select_one::<O>(&app, &identity, &key).await?.is_some();
    if !is_there && O::without_row(&app, &key).is_none() {
        return Err(no_such::<O>(&key));
    }
    let reading = Reading::Patch;
    let row = read_row::<O>(members, &reading, &key)?;
    write::<O>(&app, &identity, &key, row, is_there).await
}

/// `DELETE`
async fn delete<O: Object>(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(key): Path<String>,
    uri: Uri,
) -> Answer {
    O::check_delete(&key)?;
    let found = is_row::<O>(&key)?;
    let mut operations = resource::no_children::<O>(&app, &identity, &key, &uri).await?;
    let place = operations.len();
    operations.push(json!({ "op": "delete", "table": O::TABLE, "where": found }));
    operations.extend(O::delete_parts(&key));
    let results = edit(&app, &identity, operations).await;
    match results.map_err(|error| database::problem::<O>(&error, &key))?.get(place) {
        Some(paceline_tables::OpResult::Count(1..)) => done(),
        _ => Err(no_such::<O>(&key)),
    }
}

/// The columns that a body gives.
fn read_row<O: Object>(mut members: Members, reading: &Reading, key: &str) -> Result<Row, Problem> {
    for name in [Some(O::KEY), O::WITHIN].into_iter().flatten() {
        if let Some(own) = members.take(name)
            && Some(&own) != identity::<O>(key)?.get(name)
        {
            return Err(members.wrong(name, &format!("{key:?} as in the path"), &own));
        }
    }
    // What a GET showed may be sent back as it is.
    members.take("figures");
    let mut row = Row::new();
    let place = |column: &str| json!({ "table": O::TABLE, "row": key, "column": column });
    fields::read_fields(O::FIELDS, &mut members, reading, &mut row, &place)?;
    O::read(&mut members, reading, &mut row)?;
    members.finish()?;
    Ok(row)
}

/// Writes a row: 201 if it is new.
async fn write<O: Object>(
    app: &App,
    who: &Identity,
    key: &str,
    row: Row,
    is_there: bool,
) -> Answer {
    let mut operations = Vec::new();
    let (row, mut checks) = resource::find_parents::<O>(app, who, key, row).await?;
    operations.append(&mut checks);
    let found = is_row::<O>(key)?;
    if is_there {
        operations.push(edit::assert_there::<O>(key)?);
        operations.push(json!({ "op": "update", "table": O::TABLE, "where": found, "row": row }));
    } else {
        let mut row = row;
        row.extend(identity::<O>(key)?);
        operations.push(json!({ "op": "insert", "table": O::TABLE, "row": row }));
    }
    operations.push(select(O::TABLE, found));
    let results = edit(app, who, operations).await;
    let results = results.map_err(|error| database::problem::<O>(&error, key))?;
    let mut rows: Vec<Row> = first_row(&results).into_iter().collect();
    resource::name_parents::<O>(app, who, &mut rows).await?;
    let object = rows.first().map(describe::<O>).unwrap_or_default();
    let status = if is_there { StatusCode::OK } else { StatusCode::CREATED };
    Ok(json_response(status, &object))
}

/// Adds the paths of all objects.
pub(crate) fn routes(routes: Routes) -> Routes {
    let routes = crud::<pool::Pool>(routes, "/v1/pools", "/v1/pools/{name}");
    let routes = crud::<rule::Rule>(routes, "/v1/rules", "/v1/rules/{number}");
    let routes =
        crud::<checkpoint::Checkpoint>(routes, "/v1/checkpoints", "/v1/checkpoints/{name}");
    let routes = crud::<resource::Resource>(routes, "/v1/resources", "/v1/resources/{name}");
    let routes = crud::<frontend::Frontend>(routes, "/v1/frontends", "/v1/frontends/{name}");
    let routes = crud::<backend::Backend>(routes, "/v1/backends", "/v1/backends/{name}");
    let routes = crud::<server::Server>(routes, "/v1/servers", "/v1/servers/{*server}");
    let routes = routes
        .add(Role::Viewer, "GET", "/v1/saved-rules", list::<saved::SavedRule>)
        .add(Role::Viewer, "GET", "/v1/saved-rules/{number}", one::<saved::SavedRule>)
        .add(Role::Viewer, "GET", "/v1/tree", tree::tree);
    token::routes(user::routes(rule::verbs(pool::verbs(routes))))
}

fn crud<O: Object>(routes: Routes, all: &'static str, single: &'static str) -> Routes {
    routes
        .add(Role::Viewer, "GET", all, list::<O>)
        .add(Role::Viewer, "GET", single, one::<O>)
        .add(Role::Operator, "PUT", single, put::<O>)
        .add(Role::Operator, "PATCH", single, patch::<O>)
        .add(Role::Operator, "DELETE", single, delete::<O>)
}

/// An answer with an object that was made.
fn made(object: &Value) -> Answer {
    created(object)
}
