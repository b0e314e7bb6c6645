//! `paceline ps`: the requests that run and wait.

use super::{Reach, text};
use crate::failure::Failure;
use crate::moment;
use crate::screen::{Screen, Style};
use crate::table::{Cell, Column, Table};
use clap::Args;
use paceline_client::Method;
use serde_json::Value;
use std::collections::BTreeMap;

pub const HELP: &str = "\
Lists at most 10,000 requests in the order of arrival. If there are more, a message on standard error says so.

Example:
  paceline ps
  paceline ps --first 20001      from request 20001 on
  paceline why 17                why request 17 waits";

/// The most requests that the daemon lists at once.
const LISTED_MAX: usize = 10_000;

#[derive(Debug, Args)]
pub struct Ps {
    /// List from this request on
    #[arg(long, value_name = "ID")]
    first: Option<u64>,

    #[command(flatten)]
    pub reach: Reach,
}

pub fn run(ps: &Ps) -> Result<(), Failure> {
    let asker = ps.reach.open()?;
    let requests = |query: &str| -> Result<Vec<Value>, Failure> {
        let path = format!("/v1/requests{query}");
        let answer = asker.client.call(Method::Get, &path, None)?;
        Ok(answer.as_array().cloned().unwrap_or_default())
    };
    let list = requests(&ps.first.map(|first| format!("?first={first}")).unwrap_or_default())?;
    asker.show_list(&list, "nothing runs or waits", |screen| draw(&list, screen))?;
    let Some(behind) = behind(&list) else { return Ok(()) };
    if let Some(next) = requests(&format!("?first={behind}&count=1"))?.first() {
        crate::screen::tell(format_args!(
            "and more: paceline ps --first {}",
            text(next, "request")
        ));
    }
    Ok(())
}

/// The number from which there may be more, if the list has its maximum length.
fn behind(list: &[Value]) -> Option<u64> {
    let last = list.get(LISTED_MAX - 1..)?.last()?;
    last.get("request")?.as_u64()?.checked_add(1)
}

fn draw(list: &[Value], screen: Screen) -> String {
    let has_http = list.iter().any(|request| request.get("frontend").is_some());
    let columns = columns(has_http);
    let mut table = Table::new(&columns);
    let numbers =
        list.iter().filter_map(|request| Some((request.get("request")?.as_u64()?, request)));
    let numbers: BTreeMap<u64, &Value> = numbers.collect();
    for request in list {
        let (word, style) = state(request);
        let mut row: Vec<Cell> = vec![
            text(request, "request").into(),
            Cell::new(word, style),
            moment::age(&text(request, "since")).unwrap_or_default().into(),
            text(request, "priority").into(),
            text(request, "pool").into(),
            text(request, "user").into(),
        ];
        if has_http {
            row.push(text(request, "client").into());
            row.push(text(request, "frontend").into());
            row.push(server(request).into());
        }
        let waits_for = waits_for(request.get("waits_for").unwrap_or(&Value::Null));
        row.push(waits_for.into());
        row.push(text(request, "ahead_total").into());
        row.push(behind_whom(&numbers, request).into());
        row.push(what(request).into());
        table.row(row);
    }
    table.draw(screen)
}

/// The columns; those of the HTTP door only if a request arrived there.
fn columns(has_http: bool) -> Vec<Column> {
    let mut columns = vec![
        Column::number("ID"),
        Column::word("STATE"),
        Column::number("SINCE").spare(1),
        Column::number("PRIORITY").spare(7),
        Column::text("POOL", 5).spare(6),
        Column::text("USER", 5).spare(if has_http { 5 } else { 0 }),
    ];
    if has_http {
        columns.push(Column::text("CLIENT", 9).spare(3));
        columns.push(Column::text("FRONTEND", 8).spare(4));
        columns.push(Column::text("SERVER", 6).spare(3));
    }
    columns.push(Column::text("WAITS FOR", if has_http { 14 } else { 8 }));
    columns.push(Column::number("AHEAD").spare(2));
    columns.push(Column::text("BEHIND", 12).spare(if has_http { 4 } else { 9 }));
    columns.push(Column::text("TEXT", if has_http { 14 } else { 8 }).spare(if has_http {
        1
    } else {
        8
    }));
    columns
}

fn state(request: &Value) -> (String, Style) {
    match text(request, "state") {
        state if state != "running" => (state, Style::Wait),
        _ if text(request, "on") == "connection" => ("open".to_owned(), Style::Good),
        state => (state, Style::Good),
    }
}

/// A request in the form for people, user and text: `root: sleep 60`.
pub fn named(request: &Value) -> String {
    let what = match what(request) {
        what if what.is_empty() => format!("request {}", text(request, "request")),
        what => what,
    };
    match text(request, "user") {
        user if user.is_empty() => what,
        user => format!("{user}: {what}"),
    }
}

/// How long a request has been waiting or running.
pub fn request_age(request: &Value) -> Option<String> {
    moment::age(&text(request, "since"))
}

/// The nearest request ahead, by name and age, if the list has it.
fn behind_whom(list: &BTreeMap<u64, &Value>, request: &Value) -> String {
    let Some(number) = request.get("behind").and_then(Value::as_u64) else { return String::new() };
    let Some(ahead) = list.get(&number) else { return number.to_string() };
    let age = request_age(ahead).map(|age| format!(" ({age})")).unwrap_or_default();
    format!("{}{age}", named(ahead))
}

/// The server, or the backend while none is chosen.
fn server(request: &Value) -> String {
    let server = text(request, "server");
    if server.is_empty() { text(request, "backend") } else { server }
}

/// The text of a request: for HTTP the method and the URL.
pub fn what(request: &Value) -> String {
    if text(request, "on") == "connection" {
        return "(connection)".to_owned();
    }
    let (method, text) = (text(request, "method"), text(request, "text"));
    format!("{method} {text}").trim_start().to_owned()
}

/// What a request waits for, in a few words.
pub fn waits_for(value: &Value) -> String {
    let Value::Object(_) = value else { return super::as_text(value) };
    let part = |name: &str| text(value, name);
    match part("kind").as_str() {
        "nothing" => String::new(),
        "checkpoint" => match part("key") {
            key if key.is_empty() => format!("checkpoint {}", part("checkpoint")),
            key => format!("checkpoint {} ({key})", part("checkpoint")),
        },
        "resource" => format!("resource {}", part("resource")),
        "slot" => format!("a slot of pool {}", part("pool")),
        "start" => format!("pool {} to start", part("pool")),
        "creation" => format!("resource {} to be created", part("resource")),
        "turn" => "its turn".to_owned(),
        kind => kind.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::waits_for;
    use serde_json::{Value, json};

    #[test]
    fn what_is_waited_for_is_named_in_words() {
        for (value, expected) in [
            (json!({"kind": "nothing"}), ""),
            (json!({"kind": "checkpoint", "checkpoint": "c"}), "checkpoint c"),
            (json!({"kind": "checkpoint", "checkpoint": "c", "key": "eva"}), "checkpoint c (eva)"),
            (json!({"kind": "resource", "resource": "r"}), "resource r"),
            (json!({"kind": "slot", "pool": "one"}), "a slot of pool one"),
            (json!({"kind": "start", "pool": "batch"}), "pool batch to start"),
            (json!({"kind": "creation", "resource": "x:y"}), "resource x:y to be created"),
            (json!({"kind": "turn"}), "its turn"),
            (Value::Null, ""),
        ] {
            assert_eq!(waits_for(&value), expected);
        }
    }
}
