//! Settings that work but are hardly meant: pools and checkpoints that let nothing through, checkpoints at
//! places that do not exist, and conditions that can fail on what a client sends.
//!
//! Each doubt is one sentence, `KIND "NAME": SETTING: what follows from it`, so that a reader of a file can
//! find the line.

use crate::model::readers;
use crate::reader::Reader;
use crate::schema::{CHECKPOINT, POOL};
use paceline_checkpoints::At;
use paceline_engine::Snapshot;
use paceline_expr::{Expr, Hazard, HazardKind};
use paceline_pools::DEFAULT_NAME;
use paceline_routing::{RESERVED, Routing};
use paceline_rules::{Action, PatternMode, Rule};
use paceline_tables::Store;
use paceline_tables::schema::Schema;
use paceline_types::{Name, nearest};

/// Most doubts that are reported.
const DOUBTS_MAX: usize = 100;

/// What is doubtful about the rows, which mean `planned`.
pub(crate) fn doubts(schema: &Schema, store: &Store, planned: &Snapshot) -> Vec<String> {
    let rows = |table| {
        let table = schema.table_id(table).into_iter();
        table.flat_map(|table| readers(schema, store, table))
    };
    let pools = rows(POOL).flat_map(pool);
    let checkpoints = rows(CHECKPOINT).flat_map(|row| checkpoint(row, planned.routing()));
    let all = pools.chain(checkpoints).chain(rules(planned)).chain(conditions(planned));
    all.take(DOUBTS_MAX).collect()
}

fn pool(row: Reader<'_>) -> Vec<String> {
    let name = row.text("name");
    let mut told = vec![];
    if row.integer("priority_min") == Some(0) && row.integer("priority_max") == Some(0) {
        told.push(format!(
            "pool \"{name}\": priority: no request reaches it, because priority 0 always belongs to the \
             default pool"
        ));
    }
    if row.integer("threads_max") == Some(0) {
        let whose = if name == DEFAULT_NAME { "without another pool" } else { "for it" };
        told.push(format!(
            "pool \"{name}\": threads.max: with 0, requests {whose} wait and none of them runs"
        ));
    }
    told
}

fn checkpoint(row: Reader<'_>, routing: &Routing) -> Vec<String> {
    let name = row.text("name");
    let on_connections = row.optional("on") == Some("connection");
    let mut told = vec![];
    if row.integer("concurrency") == Some(0) && row.optional("mode") != Some("watch") {
        told.push(format!(
            "checkpoint \"{name}\": concurrency: with 0, no request passes it: each waits until its longest \
             wait has passed, then it is refused"
        ));
    }
    if on_connections && row.integer("status").is_some() {
        told.push(format!(
            "checkpoint \"{name}\": status: does nothing, because a refused connection is closed without \
             a response"
        ));
    }
    let at = row.text("at").parse::<At>().ok();
    if let Some((place, near)) = at.and_then(|at| missing(&at, routing)) {
        let near = near.map(|near| format!(", did you mean \"{near}\"?")).unwrap_or_default();
        let held = match on_connections {
            true => "it holds no connection".to_owned(),
            false => format!("it holds only permits that name this {}", place.0),
        };
        let (kind, missed) = place;
        told.push(format!(
            "checkpoint \"{name}\": at: there is no {kind} \"{missed}\"{near} ({held})"
        ));
    }
    told
}

/// The kind and the name of the place that does not exist, and one that is nearly called so. Clients of the
/// API may send such names with a permit, so it is no error. That a pool does not exist is an error.
fn missing(at: &At, routing: &Routing) -> Option<((&'static str, String), Option<String>)> {
    let exists = match at {
        At::Frontend(name) => RESERVED.contains(&&**name) || routing.frontend(name).is_some(),
        At::Backend(name) => routing.backend(name).is_some(),
        At::Server { backend, name } => routing
            .backend(backend)
            .is_some_and(|backend| backend.servers.iter().any(|server| server.name == *name)),
        At::Pool(_) => true,
    };
    if exists {
        return None;
    }
    let (kind, name, names): (_, String, Vec<String>) = match at {
        At::Frontend(name) => {
            let all = routing.frontends().iter().map(|frontend| frontend.name.to_string());
            ("frontend", name.to_string(), all.collect())
        }
        At::Backend(name) => {
            let all = routing.backends().iter().map(|backend| backend.name.to_string());
            ("backend", name.to_string(), all.collect())
        }
        At::Server { backend, name } => {
            let all = routing.backends().iter().flat_map(|backend| {
                backend.servers.iter().map(|server| format!("{}/{}", backend.name, server.name))
            });
            ("server", format!("{backend}/{name}"), all.collect())
        }
        At::Pool(_) => return None,
    };
    let near = nearest(&name, names.iter().map(String::as_str)).map(str::to_owned);
    Some(((kind, name), near))
}

/// Rules whose condition can fail on what a client sends: a failure counts as no match.
fn rules(planned: &Snapshot) -> impl Iterator<Item = String> {
    let all = planned.rules().rules();
    planned.rules().conditions().filter_map(|(index, expr)| {
        let rule = all.get(index as usize)?;
        let hazard = expr.hazards().into_iter().find(|hazard| !is_guarded(hazard, rule))?;
        let number = rule.number;
        let then = match rule.action {
            Action::Reject => "the rule does not match then, so the request is not rejected",
            _ => "the rule does not match then",
        };
        let next = match hazard.how {
            HazardKind::NotANumber => {
                "; give it a regex for that attribute, and reject what does not match by a rule of its own"
            }
            HazardKind::DivisionByZero => "",
        };
        Some(format!("rule {number}: when: {}: {then}{next}", failing(&hazard)))
    })
}

/// Whether the rule looks at requests only whose attributes match a regex; it is believed that what
/// matches is a number.
fn is_guarded(hazard: &Hazard<'_>, rule: &Rule) -> bool {
    let has_regex = |name: &&Name| {
        let is_it = |criterion: &&paceline_rules::Criterion| {
            criterion.attribute == **name && criterion.mode == PatternMode::Regex
        };
        rule.criteria.iter().any(|criterion| is_it(&criterion))
    };
    !hazard.attributes.is_empty() && hazard.attributes.iter().all(has_regex)
}

/// Checkpoints whose condition can fail: a request for which it does passes by.
fn conditions(planned: &Snapshot) -> impl Iterator<Item = String> {
    planned.checkpoints().iter().filter_map(|checkpoint| {
        let hazards = checkpoint.when.as_ref().map(Expr::hazards)?;
        let (name, fails) = (&checkpoint.spec.name, failing(hazards.first()?));
        Some(format!(
            "checkpoint \"{name}\": when: {fails}: the checkpoint does not hold the request then"
        ))
    })
}

fn failing(hazard: &Hazard<'_>) -> String {
    let names: Vec<String> = hazard.attributes.iter().map(ToString::to_string).collect();
    let names = names.join(" and ");
    match hazard.how {
        HazardKind::NotANumber if names.is_empty() => {
            "it fails if a text is not a number".to_owned()
        }
        HazardKind::NotANumber => format!("it fails if {names} is not a number"),
        HazardKind::DivisionByZero if names.is_empty() => {
            "it divides by a value that can be 0".to_owned()
        }
        HazardKind::DivisionByZero => {
            format!("it divides by a value that can be 0, depending on {names}")
        }
    }
}
