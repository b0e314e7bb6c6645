//! Pools: their range of priorities, and the verbs that start, stop and keep them.

use super::fields::Reading;
use super::values::{Row, flag, number, shown_one, text, text_in};
use super::{Object, edit, verb_of};
use crate::identity::{Identity, Role};
use crate::members::Members;
use crate::respond::{Answer, Problem, ok};
use crate::router::Routes;
use crate::{App, Shared};
use axum::extract::{Extension, Path, State};
use paceline_catalogue::{Kind, POOLS};
use paceline_tables::value::Datum;
use paceline_types::{PoolId, Priority};
use serde_json::{Map, Value, json};

/// The pool that always exists.
pub(crate) const DEFAULT: &str = "default";

/// The description of a range of priorities.
const BOTH_ENDS: &str = "two whole numbers, the lowest and the highest priority";

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
            row.insert("state".into(), text(if started { "started" } else { "stopped" }));
        }
        let (low, high) = match members.given("priority") {
            None if !reading.resets() => return Ok(()),
            None | Some(Value::Null) => (Datum::Empty, Datum::Empty),
            Some(value) => match value.as_array().map(Vec::as_slice) {
                Some([low, high]) => {
                    let (Some(low), Some(high)) = (low.as_i64(), high.as_i64()) else {
                        return Err(members.wrong("priority", BOTH_ENDS, &value));
                    };
                    if [low, high].contains(&Priority::REJECTED.into()) {
                        return Err(reserved("priority", Self::KIND.table, "priority_min"));
                    }
                    (number(low), number(high))
                }
                _ => return Err(members.wrong("priority", BOTH_ENDS, &value)),
            },
        };
        row.insert("priority_min".into(), low);
        row.insert("priority_max".into(), high);
        Ok(())
    }

    fn show(row: &Row, object: &mut Map<String, Value>) {
        let end = |column: &str| row.get(column).and_then(shown_one);
        if let Some(low) = end("priority_min") {
            object.insert("priority".into(), json!([low, end("priority_max")]));
        }
        let is_default = text_in(row, "name") == Some(DEFAULT);
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

/// The error that a priority is the number of rejected requests.
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
        // The default pool is always started, and starting a started pool succeeds.
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
    edit::set::<Pool>(app, identity, name, ("state", text(state)), |_| Ok(())).await
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
    let check = |row: &Row| match row.get("persistent") == Some(&flag(wanted)) {
        true => Err(already(if wanted { "persistent" } else { "transient" })),
        false => Ok(()),
    };
    edit::set::<Pool>(app, identity, name, ("persistent", flag(wanted)), check).await
}

fn already(what: &str) -> Problem {
    Problem::conflict(format!("the pool is {what} already"))
}
