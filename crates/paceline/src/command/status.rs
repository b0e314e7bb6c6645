//! `paceline status`: how the daemon is, on one screen.

use super::{Reach, figure, text, token};
use crate::failure::Failure;
use crate::screen::{Screen, Style};
use clap::Args;
use paceline_client::Kind;
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
    let pools = asker.client.objects(Kind::Pools)?;
    let target = asker.client.target().to_string();
    asker.show(&answer, |screen| draw(&answer, &pools, &target, screen))
}

fn draw(status: &Value, pools: &[Value], target: &str, screen: Screen) -> String {
    let sum = |name: &str| -> u64 {
        pools.iter().filter_map(|pool| figure(pool, name).parse::<u64>().ok()).sum()
    };
    let is = |name: &str| status.get(name) == Some(&Value::Bool(true));
    let state = match (is("draining"), is("read_only")) {
        (true, _) => "drains: it finishes its requests, then exits",
        (false, true) => "serves, read-only",
        (false, false) => "serves",
    };
    let sync = match text(status, "sync").as_str() {
        "always" => "every transaction",
        _ => "edits, and transactions that ask for it",
    };
    let http = status.get("http").unwrap_or(&Value::Null);
    let frontends = http.get("frontends").and_then(Value::as_array).map_or(0, Vec::len);
    let lines = [
        ("daemon", format!("{} {state}, process {}", text(status, "version"), text(status, "pid"))),
        ("answers on", target.to_owned()),
        ("requests", format!("{} running, {} waiting", sum("running"), sum("waiting"))),
        ("synced", sync.to_owned()),
        (
            "http",
            match frontends {
                0 => String::new(),
                _ => format!(
                    "{frontends} frontends, {} of {} servers down",
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

/// A value beside its name, broken at blanks.
fn set_in(value: &str, screen: Screen) -> String {
    let room = Screen { width: screen.width.saturating_sub(11), ..screen };
    let lines = room.wrap(value, 0);
    lines.lines().collect::<Vec<_>>().join(&format!("\n{}", " ".repeat(11)))
}

/// What is doubtful: of the configuration, of the HTTP door, and tokens that end soon.
fn warnings(status: &Value) -> Vec<String> {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let doubtful = list(status.get("warnings"));
    let problems = list(status.pointer("/http/problems"));
    let tokens = list(status.get("tokens_ending"));
    let token =
        |token: &Value| format!("token {} expires {}", text(token, "name"), text(token, "ends"));
    doubtful.iter().chain(&problems).map(super::as_text).chain(tokens.iter().map(token)).collect()
}
