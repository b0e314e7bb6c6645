//! `paceline why`: why a request waits, behind which requests, and for how long.

use super::ps::{named, request_age, what};
use super::{Reach, text};
use crate::failure::Failure;
use crate::moment;
use crate::screen::{Screen, Style, cut};
use clap::Args;
use paceline_client::Method;
use serde_json::Value;

pub const HELP: &str = "\
Example:
  paceline ps          shows the numbers
  paceline why 17      shows what 17 waits for, which requests are ahead of it, and until when";

#[derive(Debug, Args)]
pub struct Why {
    /// Number of the request, as in `paceline ps`
    #[arg(value_name = "ID", value_parser = request)]
    id: u64,

    #[command(flatten)]
    pub reach: Reach,
}

/// The number of a request on the command line.
pub fn request(text: &str) -> Result<u64, String> {
    let expected = "expected the number of a request, see them with `paceline ps`";
    text.parse().map_err(|_| expected.to_owned())
}

pub fn run(why: &Why) -> Result<(), Failure> {
    let asker = why.reach.open()?;
    let answer = asker.client.call(Method::Get, &format!("/v1/why/{}", why.id), None);
    let answer = answer
        .map_err(|error| Failure::from(error).or_hint("see what runs and waits: paceline ps"))?;
    asker.show(&answer, |screen| draw(&answer, screen))
}

fn draw(answer: &Value, screen: Screen) -> String {
    let is_running = answer.get("state").and_then(Value::as_str) == Some("running");
    let style = if is_running { Style::Good } else { Style::Wait };
    let is_connection = text(answer, "on") == "connection";
    let word = if is_connection { "connection" } else { "request" };
    let message = match is_connection && is_running {
        true => "is open".to_owned(),
        false => text(answer, "message"),
    };
    let first = format!("{word} {} {message}", text(answer, "request"));
    let mut out = screen.paint(style, screen.wrap(&first, 2).trim_end_matches('\n'));
    out.push('\n');
    let ago = |name: &str| moment::age(&text(answer, name)).map(|age| format!("{age} ago"));
    let ahead = |name: &str| moment::ahead(&text(answer, name));
    let is_http = answer.get("frontend").is_some() && !is_connection;
    let mut behind = behind(answer).into_iter();
    let first = behind.next();
    let mut lines = vec![
        ("text", is_http.then(|| what(answer))),
        ("client", Some(text(answer, "client"))),
        ("frontend", Some(text(answer, "frontend"))),
        ("backend", Some(text(answer, "backend"))),
        ("server", Some(text(answer, "server"))),
        ("came", ago("arrived_at")),
        (if is_running { "runs since" } else { "waits since" }, ago("since")),
        ("behind", first),
    ];
    lines.extend(behind.map(|line| ("", Some(line))));
    lines.extend([
        ("goes on", ahead("until")),
        ("refused", ahead("deadline")),
        ("priority", Some(text(answer, "priority"))),
        ("pool", Some(text(answer, "pool"))),
    ]);
    for (name, value) in lines {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let value = cut(&crate::screen::clean(&value), screen.width.saturating_sub(15));
            out.push_str(&format!(
                "  {} {value}\n",
                screen.paint(Style::Faint, &format!("{name:12}"))
            ));
        }
    }
    out
}

/// The requests ahead, nearest first, with as many names as the daemon returns.
fn behind(answer: &Value) -> Vec<String> {
    let list = |name: &str| answer.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let (ahead, described) = (list("ahead"), list("behind"));
    let count = |name: &str| answer.get(name).and_then(Value::as_u64).unwrap_or(0);
    let total = count("ahead_total") + count("holding");
    let mut lines: Vec<String> = described.iter().map(holder).collect();
    if lines.is_empty() && !ahead.is_empty() {
        lines.push(ahead.iter().map(super::as_text).collect::<Vec<_>>().join(", "));
    }
    let told = if described.is_empty() { ahead.len() } else { described.len() };
    let more = total.saturating_sub(told as u64);
    match (more, lines.last_mut()) {
        (1.., Some(last)) => last.push_str(&format!(" and {more} more")),
        (1.., None) => lines.push(format!("{more} more")),
        _ => {}
    }
    lines
}

/// A request ahead: its number, user, text, and how long it has been waiting or running.
fn holder(request: &Value) -> String {
    let age = request_age(request).unwrap_or_default();
    let verb = if text(request, "state") == "running" { "runs" } else { "waits" };
    format!("{} {}, {verb} {age}", text(request, "request"), named(request))
}
