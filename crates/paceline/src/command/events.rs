//! `paceline events`: prints events as they happen.

use super::{Asker, Reach, as_text, print, text};
use crate::failure::Failure;
use crate::moment;
use crate::screen::{Screen, Style, clean, cut};
use clap::Args;
use paceline_client::Event;
use serde_json::{Value, json};

pub const HELP: &str = "\
Prints one line for each event, until you press Ctrl-C. Times are in UTC.

Example:
  paceline events
  paceline events --kind refused --kind lock
  paceline events --json | jq .data.request";

#[derive(Debug, Args)]
pub struct Events {
    /// Show only events of this kind; may be repeated
    #[arg(long, value_name = "KIND", value_parser = ["started", "waiting", "refused", "settled", "log", "lock", "config", "missed"])]
    kind: Vec<String>,

    /// Exit after this many events
    #[arg(long, value_name = "N")]
    count: Option<usize>,

    #[command(flatten)]
    pub reach: Reach,
}

pub fn run(events: &Events) -> Result<(), Failure> {
    let asker = events.reach.open()?;
    let mut shown = 0;
    let mut stream = asker.client.events()?;
    while events.count.is_none_or(|count| shown < count) {
        let Some(event) = stream.next() else { break };
        let event = event?;
        if events.kind.is_empty() || events.kind.contains(&event.kind) {
            show(&asker, &event)?;
            shown += 1;
        }
    }
    Ok(())
}

fn show(asker: &Asker, event: &Event) -> Result<(), Failure> {
    if asker.json {
        return print(&format!("{}\n", json!({"event": event.kind, "data": event.data})));
    }
    let at = event.data.get("at").map(as_text);
    let at = at.as_deref().and_then(moment::clock).map_or_else(moment::clock_now, str::to_owned);
    print(&draw(event, &at, asker.screen))
}

/// One line: the time at which it happened or arrived, its kind, and what it says.
fn draw(event: &Event, at: &str, screen: Screen) -> String {
    let style = match event.kind.as_str() {
        "started" => Style::Good,
        "waiting" => Style::Wait,
        "refused" => Style::Bad,
        "settled" => Style::Faint,
        _ => Style::Plain,
    };
    let at = format!("{at}  ");
    let kind = format!("{:8}", cut(&clean(&event.kind), 8));
    let left = screen.width.saturating_sub(at.len() + 10);
    let kind = screen.paint(style, &kind);
    format!("{}{kind}  {}\n", screen.paint(Style::Faint, &at), cut(&summary(&event.data), left))
}

/// The request first, then the message if there is one, otherwise every member.
fn summary(data: &Value) -> String {
    let Value::Object(members) = data else { return clean(&as_text(data)) };
    let mut parts = vec![];
    if let Some(request) = members.get("request") {
        parts.push(format!("request {}", as_text(request)));
    }
    let changes = members.get("changes").and_then(Value::as_array);
    match (members.get("message").and_then(Value::as_str), changes) {
        (Some(message), _) => {
            parts.extend(whose(data));
            parts.push(message.to_owned());
        }
        (None, Some(changes)) => {
            parts.push(format!("by {}:", text(data, "who")));
            parts.extend(changes.iter().map(change));
            let more = text(data, "more");
            parts.extend((!more.is_empty()).then(|| format!("and {more} more")));
        }
        (None, None) => {
            let others = members.iter().filter(|(name, value)| {
                !matches!(name.as_str(), "request" | "at" | "user" | "text") && !value.is_null()
            });
            parts.extend(whose(data));
            parts.extend(others.map(|(name, value)| format!("{name}={}", as_text(value))));
        }
    }
    clean(&parts.join("  "))
}

/// `eva: reindex`
fn whose(data: &Value) -> Option<String> {
    match (text(data, "user"), text(data, "text")) {
        (user, text) if user.is_empty() && text.is_empty() => None,
        (user, text) if user.is_empty() || text.is_empty() => Some(format!("{user}{text}")),
        (user, text) => Some(format!("{user}: {text}")),
    }
}

/// `+Pool batch`
fn change(change: &Value) -> String {
    let sign = match text(change, "op").as_str() {
        "insert" => '+',
        "delete" => '-',
        _ => '~',
    };
    format!("{sign}{} {}", text(change, "table"), text(change, "row"))
}
