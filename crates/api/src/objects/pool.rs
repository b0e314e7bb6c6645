//! Pools: their range of priorities, and the verbs that start, stop and keep them.

use super::database::Row;
use super::fields::{Reading, nothing};
use super::{Object, edit, verb_of};
use crate::identity::{Identity, Role};
use crate::members::Members;
use crate::respond::{Answer, Problem, ok};
use crate::router::Routes;
use crate::{App, Shared};
use axum::extract::{Extension, Path, State};
use paceline_catalogue::{Kind, POOLS};
use paceline_types::{PoolId, Priority};
use serde_json::{Map, Value, json};

/// The pool that always exists.
pub(crate) const DEFAULT: &str = "default";

/// The table Pool.
pub(super) struct Pool;

impl Object for Pool {
    const KIND: &'static Kind = &POOLS;

    fn read(members: &mut Members, reading: &Reading, row: &mut Row) -> Result<(), Problem> {
        if let Some(started) = members.flag("started")? {
            if row.contains_key("state") {
                let message = "started: expected none, because state is given";
                return Err(Problem::bad_request(message));
            }
            row.insert("state".into(), if started { "started" } else { "stopped" }.into());
        }
        let (low, high) = match members.given("priority") {
            None if !reading.resets() => return Ok(()),
            None | Some(Value::Null) => (nothing(), nothing()),
            Some(value) => match value.as_array().map(Vec::as_slice) {
                Some([low, high]) if low.is_i64() && high.is_i64() => {
                    if [low, high].into_iter().any(|end| *end == Priority::REJECTED) {
                        return Err(reserved("priority", Self::KIND.table, "priority_min"));
                    }
                    (low.clone(), high.clone())
                }
                _ => {
                    let expected = "two whole numbers, the lowest and the highest priority";
                    return Err(members.wrong("priority", expected, &value));
                }
            },
        };
        row.insert("priority_min".into(), low);
        row.insert("priority_max".into(), high);
        Ok(())
    }

    fn show(row: &Row, object: &mut Map<String, Value>) {
        if let (Some(low @ Value::Number(_)), Some(high)) =
            (row.get("priority_min"), row.get("priority_max"))
        {
            object.insert("priority".into(), json!([low, high]));
        }
        let is_default = row.get("name").and_then(Value::as_str) == Some(DEFAULT);
        let state = if is_default { "started" } else { "stopped" };
        object.entry("state").or_insert(state.into());
        if is_default {
            object.insert("persistent".into(), true.into());
        }
    }

    fn without_row(app: &App, key: &str) -> Option<Value> {
        if key != DEFAULT {
            return None;
        }
        let (running, waiting) = app.host.control().pool_figures(PoolId::DEFAULT);
        let figures = json!({ "running": running, "waiting": waiting });
        let state = "started";
        Some(json!({ "name": key, "state": state, "persistent": true, "figures": figures }))
    }

    fn check_delete(key: &str) -> Result<(), Problem> {
        if key == DEFAULT { Err(never("deleted")) } else { Ok(()) }
    }
}

/// That a priority is the number of rejected requests.
pub(super) fn reserved(member: &str, table: &str, column: &str) -> Problem {
    let (least, rejected) = (Priority::MIN, Priority::REJECTED);
    let message = format!(
        "{member}: {rejected} is reserved for rejected requests, the lowest priority is {least}"
    );
    Problem::constraint(message, json!({ "table": table, "column": column }))
}

fn never(what: &str) -> Problem {
    let place = json!({ "table": "Pool", "row": DEFAULT });
    Problem::constraint(format!("the default pool cannot be {what}"), place)
}

/// Adds the verbs.
pub(super) fn verbs(routes: Routes) -> Routes {
    let by_operator = |path, verb, summary| verb_of::<Pool>(Role::Operator, path, verb, summary);
    let by_admin = |path, verb, summary| verb_of::<Pool>(Role::Admin, path, verb, summary);
    let drain_summary = "Refuses new requests of, but finishes the queue of";
    routes
        .add(by_operator("/v1/pools/{name}/start", "start", "Starts"), start)
        .add(by_operator("/v1/pools/{name}/stop", "stop", "Stops"), stop)
        .add(by_operator("/v1/pools/{name}/drain", "drain", drain_summary), drain)
        .add(by_admin("/v1/pools/{name}/persist", "persist", "Keeps across restarts"), persist)
        .add(by_admin("/v1/pools/{name}/unpersist", "unpersist", "Makes transient"), unpersist)
}

async fn start(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(name): Path<String>,
) -> Answer {
    if name == DEFAULT {
        // It is always started, and starting a started pool succeeds.
        return ok(&Pool::without_row(&app, DEFAULT).unwrap_or_default());
    }
    set_state(&app, &identity, &name, "started").await
}

async fn stop(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(name): Path<String>,
) -> Answer {
    if name == DEFAULT {
        return Err(never("stopped"));
    }
    set_state(&app, &identity, &name, "stopped").await
}

async fn drain(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(name): Path<String>,
) -> Answer {
    if name == DEFAULT {
        return Err(never("drained"));
    }
    set_state(&app, &identity, &name, "draining").await
}

async fn set_state(app: &Shared, identity: &Identity, name: &str, state: &str) -> Answer {
    edit::set::<Pool>(app, identity, name, json!({ "state": state }), |_| Ok(())).await
}

async fn persist(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(name): Path<String>,
) -> Answer {
    if name == DEFAULT {
        return Err(already("persistent"));
    }
    set_persistent(&app, &identity, &name, true).await
}

async fn unpersist(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(name): Path<String>,
) -> Answer {
    if name == DEFAULT {
        return Err(never("made transient"));
    }
    set_persistent(&app, &identity, &name, false).await
}

async fn set_persistent(app: &Shared, identity: &Identity, name: &str, wanted: bool) -> Answer {
    let check = |row: &Row| match row.get("persistent") == Some(&Value::Bool(wanted)) {
        true => Err(already(if wanted { "persistent" } else { "transient" })),
        false => Ok(()),
    };
    edit::set::<Pool>(app, identity, name, json!({ "persistent": wanted }), check).await
}

fn already(what: &str) -> Problem {
    Problem::conflict(format!("the pool is {what} already"))
}
