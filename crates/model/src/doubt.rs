//! Settings that work but are probably not intended: pools and checkpoints that let nothing through, checkpoints at
//! places that do not exist, rules that never match or do nothing, conditions that can fail on values from clients, and
//! frontends and backends that no client can use.
//!
//! Each warning is one sentence, `KIND "NAME": SETTING: the consequence`, so that the line in a file can be found.

mod http;
mod matching;

pub use http::unused_backend;

use crate::model::readers;
use crate::reader::Reader;
use crate::schema::{CHECKPOINT, POOL};
use paceline_checkpoints::At;
use paceline_engine::Snapshot;
use paceline_expr::{Expr, Hazard, HazardKind};
use paceline_pools::DEFAULT_NAME;
use paceline_routing::{RESERVED, Routing};
use paceline_rules::{Action, Criterion, PatternMode, Rule, Then};
use paceline_tables::Store;
use paceline_tables::schema::Schema;
use paceline_types::{Name, On, nearest};

/// The most warnings that are reported.
const DOUBTS_MAX: usize = 100;

/// The warnings for the rows, whose configuration is `planned`.
pub(crate) fn doubts(schema: &Schema, store: &Store, planned: &Snapshot) -> Vec<String> {
    let rows = |table| {
        let table = schema.table_id(table).into_iter();
        table.flat_map(|table| readers(schema, store, table))
    };
    let pools = rows(POOL).flat_map(pool);
    let checkpoints = rows(CHECKPOINT).flat_map(|row| checkpoint(row, planned.routing()));
    let texts = matching::doubts(planned).chain(unreachable(planned)).chain(idle(planned));
    let all = pools
        .chain(checkpoints)
        .chain(texts)
        .chain(rules(planned))
        .chain(conditions(planned))
        .chain(http::doubts(planned.routing()));
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

/// The kind and the name of the place that does not exist, and a similar name. Clients of the API may send such names
/// with a permit, so this is not an error. A pool that does not exist is an error.
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

/// Rules that change nothing when they match.
fn idle(planned: &Snapshot) -> impl Iterator<Item = String> {
    let all = planned.rules().rules().iter();
    let is_idle = |rule: &&Rule| {
        let acts = rule.action != Action::Nothing || rule.then == Then::Stop;
        !acts && !rule.log && !rule.disabled
    };
    all.filter(is_idle).map(|rule| {
        let number = rule.number;
        format!(
            "rule {number}: it does nothing when it matches; give it set, raise, lower or reject"
        )
    })
}

/// A rule that rejects every request, so that no request reaches the rules behind it.
fn unreachable(planned: &Snapshot) -> Option<String> {
    let all = planned.rules().rules().iter();
    let rejects_all = |rule: &&Rule| {
        let is_always = rule.criteria.is_empty() && rule.when.is_none() && !rule.disabled;
        is_always && rule.action == Action::Reject && rule.then == Then::Stop
    };
    let number = all.clone().find(rejects_all)?.number;
    let behind = all.filter(|rule| rule.number > number && !rule.disabled).count();
    let behind = match behind {
        0 => String::new(),
        1 => ", so that no request reaches the rule behind it".to_owned(),
        count => format!(", so that no request reaches the {count} rules behind it"),
    };
    Some(format!("rule {number}: reject: it rejects every request that reaches it{behind}"))
}

/// A regex of what `int()` may fail on: a sign that is no digit, or more digits than fit.
const NO_NUMBER: &str = "[^0-9]|.{10}";

/// Rules whose condition can fail on values from clients: a failure counts as no match.
fn rules(planned: &Snapshot) -> impl Iterator<Item = String> {
    let all = planned.rules().rules();
    planned.rules().conditions().filter_map(|(index, expr)| {
        let (before, rule) = (all.get(..index as usize)?, all.get(index as usize)?);
        let is_open =
            |hazard: &Hazard<'_>| !is_guarded(hazard, rule) && !is_refused(hazard, before);
        let hazard = expr.hazards().into_iter().find(is_open)?;
        let then = match rule.action {
            Action::Reject => "the rule does not match then, so the request is not rejected",
            _ => "the rule does not match then",
        };
        let number = rule.number;
        Some(format!("rule {number}: when: {}: {then}; {}", failing(&hazard), instead(&hazard)))
    })
}

/// Whether the rule applies only to requests whose attributes match a regex. It is assumed that only numbers match
/// it.
fn is_guarded(hazard: &Hazard<'_>, rule: &Rule) -> bool {
    let has_regex = |name: &&Name| {
        let is_it = |criterion: &Criterion| {
            criterion.attribute == **name && criterion.mode == PatternMode::Regex
        };
        rule.criteria.iter().any(is_it)
    };
    !hazard.attributes.is_empty() && hazard.attributes.iter().all(has_regex)
}

/// Whether earlier rules reject requests by a regex on each attribute. It is assumed that only numbers remain.
fn is_refused(hazard: &Hazard<'_>, before: &[Rule]) -> bool {
    let rejects = |name: &&Name| {
        before.iter().any(|rule| {
            let is_sure = !rule.disabled && rule.when.is_none() && rule.then == Then::Stop;
            let by_regex = |criterion: &Criterion| {
                criterion.attribute == **name && criterion.mode == PatternMode::Regex
            };
            let alone = matches!(&*rule.criteria, [criterion] if by_regex(criterion));
            is_sure && rule.action == Action::Reject && alone
        })
    };
    !hazard.attributes.is_empty() && hazard.attributes.iter().all(rejects)
}

/// Checkpoints whose condition can fail: a request for which it fails is not held there.
fn conditions(planned: &Snapshot) -> impl Iterator<Item = String> {
    let rules = planned.rules().rules();
    planned.checkpoints().iter().filter_map(move |checkpoint| {
        // The rules do not apply to connections.
        let rules = if checkpoint.spec.on == On::Request { rules } else { &[] };
        let hazards = checkpoint.when.as_ref().map(Expr::hazards)?;
        let hazard = hazards.into_iter().find(|hazard| !is_refused(hazard, rules))?;
        let (name, fails, instead) =
            (&checkpoint.spec.name, failing(&hazard), instead(&hazard));
        Some(format!(
            "checkpoint \"{name}\": when: {fails}: the checkpoint does not hold the request then; {instead}"
        ))
    })
}

fn failing(hazard: &Hazard<'_>) -> String {
    let names = names(hazard);
    let fails = format!("{} fails if", hazard.function);
    match (hazard.how, names.is_empty()) {
        (HazardKind::NotANumber, true) => format!("{fails} a text is not a number"),
        (HazardKind::NotANumber, false) => format!("{fails} {names} is not a number"),
        (HazardKind::DivisionByZero, true) => format!("{fails} the divisor is 0"),
        (HazardKind::DivisionByZero, false) => {
            format!("{fails} the divisor is 0, which depends on {names}")
        }
    }
}

/// What to write instead.
fn instead(hazard: &Hazard<'_>) -> String {
    match hazard.how {
        HazardKind::NotANumber if hazard.attributes.is_empty() => {
            "compare the texts instead".to_owned()
        }
        HazardKind::NotANumber => {
            let names = names(hazard);
            format!("reject other values with an earlier rule, such as {names} regex '{NO_NUMBER}'")
        }
        HazardKind::DivisionByZero => {
            "multiply instead: a > 5 * b has a value where a / b > 5 has none".to_owned()
        }
    }
}

fn names(hazard: &Hazard<'_>) -> String {
    let names: Vec<String> = hazard.attributes.iter().map(ToString::to_string).collect();
    names.join(" and ")
}
