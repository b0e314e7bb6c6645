//! `paceline status`: the state of the daemon, on one screen.

use super::{Reach, text, token};
use crate::failure::Failure;
use crate::screen::{Screen, Style};
use clap::Args;
use paceline_client::{Client, Kind};
use serde_json::{Value, json};

pub const HELP: &str = "\
Example:
  paceline status
  paceline doctor      checks more, and reports remedies";

#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    pub reach: Reach,
}

pub fn run(status: &Status) -> Result<(), Failure> {
    let asker = status.reach.open()?;
    let mut answer = asker.client.status()?;
    let ending = token::ending(&asker.client);
    let ending = ending.iter().map(|(name, when)| json!({ "name": name, "ends": when }));
    answer["tokens_ending"] = ending.collect();
    if let Some(rules) = rules(&asker.client) {
        answer["rules"] = rules;
    }
    let target = asker.client.target().to_string();
    asker.show(&answer, |screen| draw(&answer, &target, screen))
}

fn draw(status: &Value, target: &str, screen: Screen) -> String {
    let requests = status.get("requests").unwrap_or(&Value::Null);
    let is = |name: &str| status.get(name) == Some(&Value::Bool(true));
    let state = match (is("draining"), is("read_only")) {
        (true, _) => "drains: it finishes its requests, then exits",
        (false, true) => "serves, read-only",
        (false, false) => "serves",
    };
    let sync = match text(status, "sync").as_str() {
        "always" => "every transaction",
        _ => "edits; OVSDB transactions only with durable: true",
    };
    let http = status.get("http").unwrap_or(&Value::Null);
    let frontends = http.get("frontends").and_then(Value::as_array).map_or(0, Vec::len);
    let lines = [
        ("daemon", format!("{} {state}, process {}", text(status, "version"), text(status, "pid"))),
        ("answers on", target.to_owned()),
        (
            "requests",
            format!("{} running, {} waiting", text(requests, "running"), text(requests, "waiting")),
        ),
        ("synced", sync.to_owned()),
        ("rules", status.get("rules").and_then(unsaved_rules).unwrap_or_default()),
        (
            "http",
            match frontends {
                0 => String::new(),
                _ => format!(
                    "{frontends} frontend{}, {} of {} servers down",
                    if frontends == 1 { "" } else { "s" },
                    text(http, "servers_down"),
                    text(http, "servers")
                ),
            },
        ),
    ];
    let mut out = String::new();
    for (name, value) in lines.iter().filter(|(_, value)| !value.is_empty()) {
        let name = screen.paint(Style::Faint, &format!("{name:10}"));
        out.push_str(&format!("{name} {}\n", set_in(value, screen)));
    }
    for warning in warnings(status) {
        out.push_str(&screen.paint(Style::Wait, "warning   "));
        out.push_str(&format!(" {}\n", set_in(&warning, screen)));
    }
    out
}

/// A value beside its name, wrapped at blanks.
fn set_in(value: &str, screen: Screen) -> String {
    let room = Screen { width: screen.width.saturating_sub(11), ..screen };
    let lines = room.wrap(value, 0);
    lines.lines().collect::<Vec<_>>().join(&format!("\n{}", " ".repeat(11)))
}

/// Problems and warnings: a failed reload, the configuration, the HTTP door, and tokens that expire soon.
fn warnings(status: &Value) -> Vec<String> {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let doubtful = list(status.get("warnings"));
    let problems = list(status.pointer("/http/problems"));
    let tokens = list(status.get("tokens_ending"));
    let token =
        |token: &Value| format!("token {} expires {}", text(token, "name"), text(token, "ends"));
    let named = doubtful.iter().chain(&problems).map(super::as_text);
    failed_reload(status).into_iter().chain(named).chain(tokens.iter().map(token)).collect()
}

/// The two lists of rules as `status` shows them: how many there are of each, and whether a restart brings back the rules
/// that run now. None if the caller may not see them.
pub fn rules(client: &Client) -> Option<Value> {
    let (running, saved) =
        (client.objects(Kind::Rules).ok()?, client.objects(Kind::SavedRules).ok()?);
    Some(json!({ "running": running.len(), "saved": saved.len(), "same": is_same(running, saved) }))
}

/// Whether two lists of rules say the same. Figures and files are not part of what a rule says.
fn is_same(running: Vec<Value>, saved: Vec<Value>) -> bool {
    let said = |list: Vec<Value>| -> Vec<Value> {
        let bare = |mut rule: Value| {
            if let Some(members) = rule.as_object_mut() {
                members.retain(|name, _| !matches!(name.as_str(), "figures" | "file"));
            }
            rule
        };
        list.into_iter().map(bare).collect()
    };
    said(running) == said(saved)
}

/// How the running rules differ from the saved ones, if they do.
pub fn unsaved_rules(rules: &Value) -> Option<String> {
    if rules.get("same") != Some(&Value::Bool(false)) {
        return None;
    }
    Some(format!(
        "{} running and {} saved, which differ: a restart brings back the saved ones",
        text(rules, "running"),
        text(rules, "saved")
    ))
}

/// The error of the last reload of the files of `--config`, if it failed.
pub fn failed_reload(status: &Value) -> Option<String> {
    let reload = status.get("reload")?;
    if reload.get("ok") == Some(&Value::Bool(true)) {
        return None;
    }
    let errors = text(reload, "error");
    let errors: Vec<&str> = errors.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Some(format!("the reload at {} failed: {}", text(reload, "at"), errors.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::{failed_reload, is_same, unsaved_rules, warnings};
    use serde_json::json;

    #[test]
    fn rules_that_a_restart_would_change_are_shown() {
        let rule = |raise: u32, matches: u32| json!({"number": 10, "raise": raise, "figures": {"matches": matches}});
        let bare = json!({"number": 10, "raise": 2});
        assert!(is_same(vec![rule(2, 7)], vec![bare.clone()]));
        assert!(!is_same(vec![rule(3, 7)], vec![bare.clone()]) && !is_same(vec![], vec![bare]));
        let rules = |same: bool| json!({"running": 4, "saved": 10, "same": same});
        assert_eq!(unsaved_rules(&rules(true)), None);
        let shown = "4 running and 10 saved, which differ: a restart brings back the saved ones";
        assert_eq!(unsaved_rules(&rules(false)).as_deref(), Some(shown));
    }

    #[test]
    fn a_failed_reload_is_shown() {
        let good = json!({"reload": {"ok": true, "at": "10:00"}});
        assert_eq!(failed_reload(&good), None);
        let bad =
            json!({"reload": {"ok": false, "at": "10:00", "error": "a.toml:1:1: x\n  try y\n"}});
        assert_eq!(warnings(&bad), ["the reload at 10:00 failed: a.toml:1:1: x; try y"]);
    }
}
