//! Pools, rules, checkpoints, resources, frontends, backends, servers and SQL targets: rows of the database as JSON
//! objects, read and edited.
//!
//! Every edit is one durable transaction, answered when it is on disk. The current row is read first and expected again
//! inside the transaction. So of two edits that overlap, one is refused and nothing is half done.

mod backend;
mod database;
mod edit;
mod fields;
mod frontend;
mod plain;
mod pool;
mod resource;
mod rule;
mod saved;
mod single;
mod token;
mod tree;
mod user;
mod values;

use crate::config::DOOR_WAIT;
use crate::identity::{Identity, Role};
use crate::members::Members;
use crate::openapi::{change_of, name_of, new_of};
use crate::operation::{EDIT, Operation, Parameter};
use crate::respond::{Answer, Problem, created, done, json_response, ok, shown};
use crate::router::Routes;
use crate::{App, Shared, body, large};
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use database::{edit, first_row, select_one};
pub(crate) use database::{own_problem, select_all};
use fields::{Reader, Reading};
use paceline_catalogue::{BACKENDS, CHECKPOINTS, FRONTENDS, Kind, RESOURCES};
use paceline_tables::value::Datum;
use paceline_tables::{Function, Test, Transaction};
use paceline_types::nearest;
pub(crate) use pool::DEFAULT as DEFAULT_POOL;
use serde_json::{Map, Value, json};
pub(crate) use values::Row;
use values::{number, shown_one, text, text_in};

/// A kind of object.
pub(crate) trait Object: Send + Sync + 'static {
    /// Its entry in the catalogue.
    const KIND: &'static Kind;
    /// The query parameters of a `DELETE`.
    const DELETE_QUERY: &'static [Parameter] = &[];

    /// Reads the members that are not plain columns into columns of the row.
    fn read(_members: &mut Members, _reading: &Reading, _row: &mut Row) -> Result<(), Problem> {
        Ok(())
    }

    /// Drops the members of a change that reset what the row does not have.
    fn settle_resets(_members: &mut Members, _row: &Row) {}

    /// Shows the columns that are not plain members.
    fn show(_row: &Row, _object: &mut Map<String, Value>) {}

    /// What works but is probably a mistake about an object of this name.
    fn doubt(_key: &str, _row: &Row) -> Option<String> {
        None
    }

    /// The object of this name that is there without a row.
    fn without_row(_app: &App, _key: &str) -> Option<Value> {
        None
    }

    /// Checks that the object of this name may be deleted.
    fn check_delete(_key: &str) -> Result<(), Problem> {
        Ok(())
    }

    /// Adds operations that write parts of the object which are rows of other tables, and replaces them in its row.
    fn write_parts(_row: &mut Row, transaction: Transaction) -> Result<Transaction, Problem> {
        Ok(transaction)
    }

    /// Warns if a request still uses an object that was just deleted.
    fn still_used(_app: &App, _key: &str) -> Option<String> {
        None
    }

    /// Adds operations that delete the parts of the object.
    fn delete_parts(_key: &str, transaction: Transaction) -> Transaction {
        transaction
    }
}

/// The columns that identify the row of this key.
fn identity<O: Object>(key: &str) -> Result<Row, Problem> {
    let mut columns = Row::new();
    if O::KIND.id.is_empty() {
        return Ok(columns);
    }
    let Some(within) = O::KIND.within else {
        columns.insert(O::KIND.id.into(), key_value::<O>(key)?);
        return Ok(columns);
    };
    let (whole, name) =
        key.split_once('/').filter(|(_, name)| !name.is_empty()).ok_or_else(|| {
            let (word, found) = (O::KIND.word, shown(key));
            let upper = within.to_uppercase();
            let empty = if key.ends_with('/') { ", whose name is empty" } else { "" };
            Problem::bad_request(format!("a {word} is named {upper}/NAME, found {found:?}{empty}"))
        })?;
    columns.insert(within.into(), text(whole));
    columns.insert(O::KIND.id.into(), text(name));
    Ok(columns)
}

/// The conditions that match rows with these values.
fn tests_of(columns: &Row) -> impl Iterator<Item = Test<'_>> {
    columns.iter().map(|(column, value)| (column.as_str(), Function::Equal, value.clone()))
}

/// The columns of a row, as the database takes them.
fn columns_of(row: &Row) -> impl Iterator<Item = (&str, Datum)> {
    row.iter().map(|(column, value)| (column.as_str(), value.clone()))
}

/// The key of a row.
fn key_value<O: Object>(key: &str) -> Result<Datum, Problem> {
    if O::KIND.id == "name" {
        return Ok(text(key));
    }
    let parsed: Result<u32, _> = key.parse();
    parsed.map(|parsed| number(parsed.into())).map_err(|_| {
        Problem::bad_request(format!("a {} has a number, found {:?}", O::KIND.word, shown(key)))
    })
}

/// An object as clients see it.
fn describe<O: Object>(row: &Row) -> Value {
    let mut object = Map::new();
    let own = [O::KIND.within, Some(O::KIND.id).filter(|id| !id.is_empty())];
    for name in own.into_iter().flatten() {
        let value = row.get(name).and_then(shown_one);
        object.insert(name.into(), value.unwrap_or_default());
    }
    fields::show(O::KIND, row, &mut object);
    O::show(row, &mut object);
    let figures = fields::show_figures(O::KIND.figures, row);
    if !figures.is_empty() {
        object.insert("figures".into(), Value::Object(figures));
    }
    Value::Object(object)
}

/// That there is no object of this name, with a similar one that exists. There may be very many resources, so those
/// are not compared.
async fn no_such<O: Object>(app: &App, caller: &Identity, key: &str) -> Problem {
    let rows = match O::KIND.id == "name" && O::KIND.table != RESOURCES.table {
        true => select_all(app, caller, O::KIND.table).await.unwrap_or_default(),
        false => vec![],
    };
    let name = |row: &Row| {
        let own = [O::KIND.within, Some(O::KIND.id)].into_iter().flatten();
        let parts: Vec<&str> = own.filter_map(|column| text_in(row, column)).collect();
        parts.join("/")
    };
    let names: Vec<String> = rows.iter().map(name).collect();
    let near = nearest(key, names.iter().map(String::as_str));
    let near = near.map(|near| format!(", did you mean {:?}?", shown(near))).unwrap_or_default();
    Problem::not_found(format!("there is no {} {:?}{near}", O::KIND.word, shown(key)))
}

/// An object that was edited, with the warnings about it.
fn warned<O: Object>(app: &App, key: &str, row: &Row, mut object: Value) -> Value {
    let (word, is_numbered) = (O::KIND.word, O::KIND.id == "number");
    let start = if is_numbered { format!("{word} {key}: ") } else { format!("{word} \"{key}\": ") };
    // A warning about two checkpoints names both.
    let named = format!("checkpoint \"{key}\"");
    // The servers and the frontend of a backend are created after it.
    let is_begun = |warning: &str| {
        let is_early = [": it has no servers", ": no frontend uses it"];
        O::KIND.table == BACKENDS.table && is_early.iter().any(|end| warning.ends_with(end))
    };
    let concerns = |warning: &String| {
        let is_named = O::KIND.table == CHECKPOINTS.table && warning.contains(&named);
        (warning.starts_with(&start) && !is_begun(warning)) || is_named
    };
    let all = database::own_database(app).map(|own| own.warnings()).unwrap_or_default();
    let mut about: Vec<String> = all.into_iter().filter(concerns).collect();
    about.extend(O::doubt(key, row));
    if O::KIND.table == FRONTENDS.table {
        // The figures of the row are those from before the edit.
        if let Some(figures) = object.get_mut("figures").and_then(Value::as_object_mut) {
            figures.remove("problem");
        }
        if let Some(problem) = frontend::problem(app, key) {
            about.push(format!("{start}{problem}"));
            object["figures"]["problem"] = problem.into();
        }
    }
    if let (false, Some(members)) = (about.is_empty(), object.as_object_mut()) {
        members.insert("warnings".into(), about.into());
    }
    object
}

/// `GET` of a list
async fn list<O: Object>(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
) -> Answer {
    let rows = async {
        let mut rows = select_all(&app, &identity, O::KIND.table).await?;
        resource::name_parents::<O>(&app, &identity, &mut rows).await?;
        Ok(rows)
    };
    let write = |rows: Vec<Row>, text: &mut large::Text| text.json(&described::<O>(&app, &rows));
    large::list_rows(&app, &identity, rows, write).await
}

/// All objects of a kind, in the order of their keys.
fn described<O: Object>(app: &App, rows: &[Row]) -> Vec<Value> {
    let mut objects: Vec<Value> = rows.iter().map(describe::<O>).collect();
    if let Some(missing) = O::without_row(app, pool::DEFAULT)
        && !objects.iter().any(|object| object[O::KIND.id] == missing[O::KIND.id])
    {
        objects.push(missing);
    }
    objects.sort_by_cached_key(|object| {
        let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
        let number = object[O::KIND.id].as_u64().unwrap_or_default();
        (number, O::KIND.within.map(text), text(O::KIND.id))
    });
    objects
}

/// `GET` of one
async fn one<O: Object>(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(key): Path<String>,
) -> Answer {
    show_one::<O>(&app, &identity, &key).await
}

async fn show_one<O: Object>(app: &App, identity: &Identity, key: &str) -> Answer {
    let row = select_one::<O>(app, identity, key).await?;
    let mut rows: Vec<Row> = row.into_iter().collect();
    resource::name_parents::<O>(app, identity, &mut rows).await?;
    match rows.first().map(describe::<O>).or_else(|| O::without_row(app, key)) {
        Some(object) => ok(&object),
        None => Err(no_such::<O>(app, identity, key).await),
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
    replace::<O>(&app, &identity, &key, &headers, body).await
}

async fn replace<O: Object>(
    app: &App,
    identity: &Identity,
    key: &str,
    headers: &HeaderMap,
    body: Body,
) -> Answer {
    let members = body::members(app, identity, headers, body).await?;
    let is_there = select_one::<O>(app, identity, key).await?.is_some();
    if edit::only_creates(headers)? && (is_there || O::without_row(app, key).is_some()) {
        return Err(database::exists::<O>());
    }
    let reading = if is_there { Reading::Replace } else { Reading::Create };
    let row = read_row::<O>(members, &reading, key)?;
    write::<O>(app, identity, key, row, is_there).await
}

/// `PATCH`: changes the members given
async fn patch<O: Object>(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(key): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    change::<O>(&app, &identity, &key, &headers, body).await
}

async fn change<O: Object>(
    app: &App,
    identity: &Identity,
    key: &str,
    headers: &HeaderMap,
    body: Body,
) -> Answer {
    let mut members = body::members(app, identity, headers, body).await?;
    let found = select_one::<O>(app, identity, key).await?;
    let is_there = found.is_some();
    if let Some(row) = &found {
        O::settle_resets(&mut members, row);
    }
    if !is_there && O::without_row(app, key).is_none() {
        return Err(no_such::<O>(app, identity, key).await);
    }
    let row = read_row::<O>(members, &Reading::Patch, key)?;
    write::<O>(app, identity, key, row, is_there).await
}

/// `DELETE`
async fn delete<O: Object>(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(key): Path<String>,
    uri: Uri,
) -> Answer {
    O::check_delete(&key)?;
    let found = self::identity::<O>(&key)?;
    let checked = resource::no_children::<O>(&app, &identity, &key, &uri).await?;
    let place = checked.len();
    let deleted = checked.delete(O::KIND.table, tests_of(&found));
    let results = edit(&app, &identity, O::delete_parts(&key, deleted)).await;
    match results.map_err(|error| database::delete_problem::<O>(&error, &key))?.get(place) {
        Some(paceline_tables::OpResult::Count(1..)) => match O::still_used(&app, &key) {
            Some(warning) => ok(&json!({ "deleted": true, "warnings": [warning] })),
            None => done(),
        },
        _ => Err(no_such::<O>(&app, &identity, &key).await),
    }
}

/// The columns of a body.
fn read_row<O: Object>(mut members: Members, reading: &Reading, key: &str) -> Result<Row, Problem> {
    let own = [Some(O::KIND.id).filter(|id| !id.is_empty()), O::KIND.within];
    for name in own.into_iter().flatten() {
        if let Some(own) = members.take(name)
            && Some(&own) != identity::<O>(key)?.get(name).and_then(shown_one).as_ref()
        {
            return Err(members.wrong(name, &format!("{key:?} as in the path"), &own));
        }
    }
    // An object may be sent back as a GET showed it.
    members.take("figures");
    members.take("warnings");
    let mut row = Row::new();
    let place = |column: &str| json!({ "table": O::KIND.table, "row": key, "column": column });
    Reader { reading, row: &mut row, place: &place }.read(O::KIND, &mut members)?;
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
    let (mut row, checked) = resource::find_parents::<O>(app, who, key, row).await?;
    let checked = O::write_parts(&mut row, checked)?;
    let (table, found) = (O::KIND.table, identity::<O>(key)?);
    let written = match is_there {
        true => edit::expect_there::<O>(checked, &found).update(
            table,
            tests_of(&found),
            columns_of(&row),
        ),
        false => {
            row.extend(found.clone());
            checked.insert(table, columns_of(&row))
        }
    };
    let results = edit(app, who, written.select(table, tests_of(&found))).await;
    let results = results.map_err(|error| database::problem::<O>(&error, key))?;
    let mut rows: Vec<Row> = first_row(&results).into_iter().collect();
    resource::name_parents::<O>(app, who, &mut rows).await?;
    let row = rows.into_iter().next().unwrap_or_default();
    let object = if row.is_empty() { Value::default() } else { describe::<O>(&row) };
    if O::KIND.table == FRONTENDS.table {
        let _ = tokio::time::timeout(DOOR_WAIT, app.host.control().until_http_done()).await;
    }
    let object = warned::<O>(app, key, &row, object);
    let status = if is_there { StatusCode::OK } else { StatusCode::CREATED };
    Ok(json_response(status, &object))
}

/// Adds the operations on all objects.
pub(crate) fn routes(routes: Routes) -> Routes {
    let routes = crud::<pool::Pool>(routes, "/v1/pools", "/v1/pools/{name}");
    let routes = crud::<rule::Rule>(routes, "/v1/rules", "/v1/rules/{number}");
    let routes = crud::<plain::Checkpoint>(routes, "/v1/checkpoints", "/v1/checkpoints/{name}");
    let routes = crud::<resource::Resource>(routes, "/v1/resources", "/v1/resources/{name}");
    let routes = crud::<frontend::Frontend>(routes, "/v1/frontends", "/v1/frontends/{name}");
    let routes = crud::<backend::Backend>(routes, "/v1/backends", "/v1/backends/{name}");
    let routes = crud::<plain::Server>(routes, "/v1/servers", "/v1/servers/{*server}");
    let routes = crud::<plain::SqlTarget>(routes, "/v1/sql-targets", "/v1/sql-targets/{name}");
    let routes =
        read_only::<saved::SavedRule>(routes, "/v1/saved-rules", "/v1/saved-rules/{number}");
    let (all, single) = ("/v1/users", "/v1/users/{name}");
    let routes = read_only::<user::User>(routes, all, single)
        .add(put_of::<user::User>(Role::Admin, single), put::<user::User>)
        .add(delete_of::<user::User>(Role::Admin, single), delete::<user::User>);
    let tree = "Shows resources, the requests that hold them and those that wait";
    let tree = Operation::new(Role::Viewer, "GET", "/v1/tree", "tree", tree).gives_list("Node");
    let routes = routes.add(tree, tree::tree);
    token::routes(rule::verbs(pool::verbs(single::routes(routes))))
}

fn crud<O: Object>(routes: Routes, all: &'static str, single: &'static str) -> Routes {
    read_only::<O>(routes, all, single)
        .add(put_of::<O>(Role::Operator, single), put::<O>)
        .add(patch_of::<O>(Role::Operator, single), patch::<O>)
        .add(delete_of::<O>(Role::Operator, single), delete::<O>)
}

fn read_only<O: Object>(routes: Routes, all: &'static str, single: &'static str) -> Routes {
    let plural = O::KIND.plural.replace('-', "_");
    let summary = format!("Lists {}", O::KIND.plural.replace('-', " "));
    let list_of = Operation::new(Role::Viewer, "GET", all, format!("list_{plural}"), summary);
    routes.add(list_of.gives_list(&name_of(O::KIND)), list::<O>).add(get_of::<O>(single), one::<O>)
}

/// An operation on one object of a kind.
fn operation<O: Object>(
    role: Role,
    method: &'static str,
    path: &'static str,
    verb: &str,
    summary: &str,
) -> Operation {
    let word = O::KIND.word;
    let id = format!("{verb}_{}", word.replace(' ', "_"));
    let article = if O::KIND.id.is_empty() { "the settings of" } else { "a" };
    Operation::new(role, method, path, id, format!("{summary} {article} {word}"))
}

fn get_of<O: Object>(path: &'static str) -> Operation {
    let operation = operation::<O>(Role::Viewer, "GET", path, "get", "Shows");
    operation.gives(200, &name_of(O::KIND)).fails([404])
}

fn put_of<O: Object>(role: Role, path: &'static str) -> Operation {
    let operation = operation::<O>(role, "PUT", path, "put", "Creates or replaces");
    let operation = operation.only_creates().takes(&new_of(O::KIND)).fails(EDIT);
    operation.gives(200, &name_of(O::KIND)).gives(201, &name_of(O::KIND))
}

fn patch_of<O: Object>(role: Role, path: &'static str) -> Operation {
    let operation = operation::<O>(role, "PATCH", path, "patch", "Changes members of");
    let operation = operation.takes(&change_of(O::KIND)).fails(EDIT).fails([404]);
    // An object without a row gets one.
    operation.gives(200, &name_of(O::KIND)).gives(201, &name_of(O::KIND))
}

fn delete_of<O: Object>(role: Role, path: &'static str) -> Operation {
    let operation = operation::<O>(role, "DELETE", path, "delete", "Deletes");
    let operation = operation.query(O::DELETE_QUERY).gives_nothing().fails(EDIT).fails([404]);
    match O::KIND.table == RESOURCES.table {
        true => operation.gives(200, "Deleted"),
        false => operation,
    }
}

/// A verb on one object, which answers with the object.
fn verb_of<O: Object>(role: Role, path: &'static str, verb: &str, summary: &str) -> Operation {
    let operation = operation::<O>(role, "POST", path, verb, summary);
    operation.gives(200, &name_of(O::KIND)).fails(EDIT).fails([404])
}

/// 201 with an object that was created.
fn made(object: &Value) -> Answer {
    created(object)
}
