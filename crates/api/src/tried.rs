//! What an explanation says of the rules that were tried, and of names that no object has.

use crate::respond::shown;
use paceline_host::words::{Criterion, Outcome, PatternMode, Verdict};
use paceline_host::{Explanation, Snapshot};
use paceline_types::{Attributes, Known, Name, Priority, Request, nearest};
use serde_json::{Value, json};

/// The doors, which are frontends without a configuration.
const DOORS: [&str; 3] = ["api", "sql", "ovsdb"];

/// The rules that were reached, and what became of each.
pub(crate) fn rules(explanation: &Explanation) -> Value {
    let Some((snapshot, attributes)) = &explanation.tried else { return json!([]) };
    let rules = snapshot.rules().rules();
    let mut priority = Some(Priority::START);
    let mut steps = Vec::with_capacity(explanation.trace.steps.len());
    for step in &explanation.trace.steps {
        let rule = rules.get(step.rule as usize);
        let (outcome, message) = match &step.outcome {
            Outcome::Matched(Verdict::Priority(reached)) => {
                priority = Some(*reached);
                ("matched", format!("matched, priority {reached}"))
            }
            Outcome::Matched(Verdict::Rejected { .. }) => {
                priority = None;
                ("matched", "matched, rejected".to_owned())
            }
            Outcome::Criterion(at) => {
                let criterion = rule.and_then(|rule| rule.criteria.get(*at));
                let value = |of: &Criterion| value(&of.attribute, attributes, priority);
                let told = criterion.map(|of| unmatched(of, &value(of)));
                ("criterion", told.unwrap_or_default())
            }
            Outcome::Condition => ("condition", "its condition does not hold".to_owned()),
            Outcome::Error(error) => ("error", format!("its condition failed: {error}")),
        };
        let number = rule.map(|rule| rule.number);
        steps.push(json!({ "number": number, "outcome": outcome, "message": message }));
    }
    Value::Array(steps)
}

/// The value that a pattern was compared with.
fn value(name: &Name, attributes: &Attributes, priority: Option<Priority>) -> String {
    match name {
        Name::Priority => priority.map_or_else(|| "rejected".to_owned(), |one| one.to_string()),
        name => attributes.value(name).to_owned(),
    }
}

/// Why a pattern does not match.
fn unmatched(criterion: &Criterion, value: &str) -> String {
    let Criterion { attribute, mode, nocase, pattern } = criterion;
    let (value, pattern) = (shown(value), shown(pattern));
    let nocase = if *nocase { " (nocase)" } else { "" };
    match mode {
        PatternMode::Exact => format!("{attribute} is {value:?}, not {pattern:?}{nocase}"),
        mode => {
            format!("{attribute} is {value:?}, which does not match {mode} {pattern:?}{nocase}")
        }
    }
}

/// The frontend, backend and server that a request names and that do not exist, each with a similar name. A client may
/// name any in a permit, and a checkpoint may stand there, so this is no error.
pub(crate) fn missing(snapshot: &Snapshot, request: &Request) -> Vec<String> {
    let routing = snapshot.routing();
    let frontends = routing.frontends().iter().map(|one| one.name.to_string());
    let frontends = DOORS.iter().map(ToString::to_string).chain(frontends).collect();
    let backends = routing.backends().iter().map(|one| one.name.to_string()).collect();
    let servers = routing.backends().iter().flat_map(|backend| {
        backend.servers.iter().map(|server| format!("{}/{}", backend.name, server.name))
    });
    let all: [(&str, Known, Vec<String>); 3] = [
        ("frontend", Known::Frontend, frontends),
        ("backend", Known::Backend, backends),
        ("server", Known::Server, servers.collect()),
    ];
    let told = all.iter().filter_map(|(kind, known, names)| {
        let name = request.attributes.known(*known);
        let at = format!("{kind} {name}");
        let stands = snapshot.checkpoints().iter().any(|one| one.spec.at.to_string() == at);
        if name.is_empty() || stands || names.iter().any(|own| own == name) {
            return None;
        }
        let near = nearest(name, names.iter().map(String::as_str));
        let near = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
        Some(format!("there is no {kind} {:?}{near}", shown(name)))
    });
    told.collect()
}
