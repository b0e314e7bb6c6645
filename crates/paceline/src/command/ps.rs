//! `paceline ps`: what runs and what waits.

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

/// Most requests that the daemon lists at once.
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

/// The number from which on there may be more, if the list is as long as one can be.
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
        // A proxy's requests wait at checkpoints, and the name is what matters.
        let name = waits_for.strip_prefix("checkpoint ").filter(|_| has_http);
        row.push(name.unwrap_or(&waits_for).into());
        row.push(text(request, "ahead_total").into());
        row.push(behind_whom(&numbers, request).into());
        row.push(what(request).into());
        table.row(row);
    }
    table.draw(screen)
}

/// The columns; those of the HTTP door only if something came in there.
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

/// Who asked for what, as people name a request: `root: sleep 60`.
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

/// How long a request waits or runs already.
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

/// What it is: for HTTP the method and the URL.
pub fn what(request: &Value) -> String {
    if text(request, "on") == "connection" {
        return "(connection)".to_owned();
    }
    let (method, text) = (text(request, "method"), text(request, "text"));
    format!("{method} {text}").trim_start().to_owned()
}

/// `kind name`, from a text or from an object with a kind and names.
pub fn waits_for(value: &Value) -> String {
    let Value::Object(members) = value else { return super::as_text(value) };
    let kind = members.get("kind").map(super::as_text).unwrap_or_default();
    if kind == "nothing" {
        return String::new();
    }
    let others = members.iter().filter(|(name, value)| *name != "kind" && !value.is_null());
    let others: Vec<String> = others
        .map(|(_, value)| match value {
            Value::Object(inner) => {
                inner.values().map(super::as_text).collect::<Vec<_>>().join(" ")
            }
            other => super::as_text(other),
        })
        .collect();
    format!("{kind} {}", others.join(" ")).trim().to_owned()
}
