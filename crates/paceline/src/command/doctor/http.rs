//! The HTTP door: where it listens, its problems, and which servers are down.

use super::Finding;
use crate::command::{as_text, text};
use serde_json::Value;

/// Frontends or servers that are named; further ones are counted.
const NAMED_MAX: usize = 10;

/// What to do if a frontend is not as configured.
pub(in crate::command) const DOOR_NEXT: &str = "free what it needs, which is tried again every second, or \
    correct it and apply the configuration again; until then what it has stays in use";

/// The checks, if there are frontends or servers.
pub(super) fn look(status: &Value) -> Vec<Finding> {
    let Some(http) = status.get("http") else { return vec![] };
    // A daemon that drains has closed its frontends.
    let is_draining = status.get("draining") == Some(&Value::Bool(true));
    let frontends = if is_draining { None } else { frontends(http) };
    frontends.into_iter().chain(servers(http)).collect()
}

fn frontends(http: &Value) -> Option<Finding> {
    if let Some(problems) = http.get("problems").and_then(Value::as_array) {
        let mut told: Vec<String> = problems.iter().take(NAMED_MAX).map(as_text).collect();
        if problems.len() > NAMED_MAX {
            told.push(format!("and {} more", problems.len() - NAMED_MAX));
        }
        return Some(Finding::fail("frontends", told.join("; "), DOOR_NEXT));
    }
    let list = http.get("frontends")?.as_array().filter(|list| !list.is_empty())?;
    let (open, closed): (Vec<&Value>, Vec<&Value>) =
        list.iter().partition(|frontend| !addresses(frontend).is_empty());
    if !closed.is_empty() {
        let names: Vec<String> = closed.iter().map(|frontend| text(frontend, "name")).collect();
        let message = format!("nothing listens for {}", named(&names, names.len()));
        return Some(Finding::warn("frontends", message, "see the log of the daemon"));
    }
    let each: Vec<String> = open
        .iter()
        .map(|frontend| format!("{} at {}", text(frontend, "name"), addresses(frontend)))
        .collect();
    Some(Finding::ok("frontends", named(&each, each.len())))
}

fn addresses(frontend: &Value) -> String {
    let list = frontend.get("listening").and_then(Value::as_array);
    list.into_iter().flatten().map(as_text).collect::<Vec<_>>().join(" and ")
}

fn servers(http: &Value) -> Option<Finding> {
    let count = |name: &str| http.get(name).and_then(Value::as_u64).unwrap_or(0);
    let (all, down) = (count("servers"), count("servers_down"));
    match (all, down) {
        (0, _) => None,
        (_, 0) => Some(Finding::ok("servers", format!("none of {all} is down"))),
        _ => {
            let names: Vec<String> = http.get("down")?.as_array()?.iter().map(as_text).collect();
            let total = usize::try_from(down).unwrap_or(usize::MAX);
            let message = format!("{down} of {all} down: {}", named(&names, total));
            let next = "see that they run and answer, and the addresses with: paceline servers";
            Some(Finding::warn("servers", message, next))
        }
    }
}

/// The first of these, and how many more there are.
fn named(names: &[String], total: usize) -> String {
    let shown = names.get(..NAMED_MAX).unwrap_or(names);
    let more = total.saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::look;
    use crate::command::doctor::{Finding, draw};
    use crate::screen::check_screens;
    use serde_json::json;

    fn http(members: serde_json::Value) -> Vec<Finding> {
        look(&json!({ "http": members }))
    }

    #[test]
    fn frontends_and_servers_fit_the_screen() {
        let frontends = json!([
            { "name": "web", "listening": ["0.0.0.0:443", "[::]:443"] },
            { "name": "behind", "listening": ["unix:/run/paceline/web.sock"] },
        ]);
        let good = json!({ "frontends": frontends, "servers": 7, "servers_down": 0, "down": [] });
        let mut findings = http(good.clone());
        let mut bad = good;
        bad["servers_down"] = 12.into();
        bad["servers"] = 40.into();
        bad["down"] = (1..=12).map(|number| format!("app/{number}")).collect();
        bad["problems"] = json!([
            "frontend web: cannot listen at 0.0.0.0:443: Address already in use (os error 98)",
            "frontend behind: cannot read the page /etc/paceline/busy.html: it has more than 65536 bytes",
        ]);
        findings.extend(http(bad));
        findings.extend(http(json!({ "frontends": [{ "name": "web", "listening": [] }] })));
        check_screens("doctor_http", |screen| draw(&findings, screen));
    }

    #[test]
    fn without_frontends_there_is_nothing_to_say() {
        assert_eq!(http(json!({ "frontends": [], "servers": 0, "servers_down": 0 })), []);
        assert_eq!(look(&json!({})), []);
        let closed = json!({ "frontends": [{ "name": "web", "listening": [] }] });
        assert_eq!(look(&json!({ "draining": true, "http": closed })), []);
    }
}
