//! `paceline explain`: what would happen to a request, and why.

use super::permit::Asks;
use super::within::Within;
use super::{Reach, attribute, once, text};
use crate::failure::Failure;
use crate::screen::{Screen, Style};
use clap::Args;
use paceline_client::Method;
use serde_json::Value;

pub const HELP: &str = "\
Nothing is counted, spent or held. The exit code is 0, even if the request would be refused.

Example:
  paceline explain user=etl-7 'text=select * from orders' --claim disk:da0
  paceline explain frontend=web method=GET path=/search client=203.0.113.7    as at the HTTP door
  paceline explain frontend=web client=203.0.113.7 --connection               the connection itself";

#[derive(Debug, Args)]
pub struct Explain {
    /// Attributes of the request, such as user=etl
    #[arg(value_name = "ATTR=VALUE", value_parser = attribute)]
    attributes: Vec<(String, String)>,

    /// The same as an argument ATTR=VALUE, as permit takes it; may be repeated
    #[arg(long = "attr", value_name = "NAME=VALUE", value_parser = attribute)]
    named: Vec<(String, String)>,

    /// Ask about a connection to a frontend of the HTTP door, not about a request
    #[arg(long)]
    connection: bool,

    #[command(flatten)]
    asks: Asks,

    #[command(flatten)]
    pub reach: Reach,
}

pub fn run(explain: &Explain) -> Result<(), Failure> {
    let attributes = [explain.attributes.as_slice(), &explain.named].concat();
    once(&attributes)?;
    let mut request = explain.asks.request();
    request.attributes.extend(attributes);
    // Inside a permit, the real request would be refused if it claimed what that permit holds.
    request.within = Within::read(&explain.reach)?.sessions().to_vec();
    let mut body = serde_json::to_value(&request).map_err(|error| error.to_string())?;
    if explain.connection {
        body["on"] = "connection".into();
    }
    let asker = explain.reach.open()?;
    let answer = asker.client.call(Method::Post, "/v1/explain", Some(&body))?;
    asker.warn(&answer);
    asker.show(&answer, |screen| draw(&answer, explain.connection, screen))
}

fn draw(answer: &Value, is_connection: bool, screen: Screen) -> String {
    let message = answer.get("message").and_then(Value::as_str).unwrap_or_default();
    let mut out = String::new();
    let (rules, rest): (Vec<&str>, Vec<&str>) =
        message.lines().partition(|line| line.starts_with("rule "));
    // Connections pass no rules.
    let rules = if is_connection { vec![] } else { looked_at(answer, &rules) };
    for (line, style) in rules {
        let wrapped = screen.wrap(&line, 2);
        out.push_str(&screen.paint(style, wrapped.trim_end_matches('\n')));
        out.push('\n');
    }
    for line in rest {
        let style = match line {
            line if line.starts_with("would start") => Style::Good,
            line if line.starts_with("would wait") => Style::Wait,
            line if line.starts_with("would be refused") => Style::Bad,
            _ => Style::Plain,
        };
        let wrapped = screen.wrap(line, 2);
        out.push_str(&screen.paint(style, wrapped.trim_end_matches('\n')));
        out.push('\n');
    }
    out
}

/// The most rules without a match that are named; further ones are counted.
const UNMATCHED_MAX: usize = 20;

/// The rules that were evaluated, in order: what the matching ones did, and why the others did not match.
fn looked_at(answer: &Value, matched: &[&str]) -> Vec<(String, Style)> {
    let steps = answer.get("rules").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let (mut lines, mut matched, mut unmatched) = (vec![], matched.iter(), 0);
    for step in steps {
        if text(step, "outcome") == "matched" {
            lines.extend(matched.next().map(|line| ((*line).to_owned(), Style::Plain)));
            continue;
        }
        unmatched += 1;
        if unmatched <= UNMATCHED_MAX {
            let line = format!("rule {}: {}", text(step, "number"), text(step, "message"));
            lines.push((line, Style::Faint));
        }
    }
    lines.extend(matched.map(|line| ((*line).to_owned(), Style::Plain)));
    if unmatched > UNMATCHED_MAX {
        let more = unmatched - UNMATCHED_MAX;
        lines.push((format!("and {more} more rules that do not match"), Style::Faint));
    }
    if lines.is_empty() {
        lines.push(("there are no rules".to_owned(), Style::Faint));
    }
    lines
}
