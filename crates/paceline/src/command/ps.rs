//! `paceline ps`: what runs and what waits.

use super::{Reach, text};
use crate::failure::Failure;
use crate::moment;
use crate::screen::{Screen, Style};
use crate::table::{Cell, Column, Table};
use clap::Args;
use paceline_client::Method;
use serde_json::Value;

pub const HELP: &str = "\
Example:
  paceline ps
  paceline why 17      why request 17 waits";

#[derive(Debug, Args)]
pub struct Ps {
    #[command(flatten)]
    pub reach: Reach,
}

pub fn run(ps: &Ps) -> Result<(), Failure> {
    let asker = ps.reach.open()?;
    let answer = asker.client.call(Method::Get, "/v1/requests", None)?;
    let list = answer.as_array().cloned().unwrap_or_default();
    asker.show_list(&list, "nothing runs or waits", |screen| draw(&list, screen))
}

fn draw(list: &[Value], screen: Screen) -> String {
    let mut table = Table::new(&[
        Column::number("ID"),
        Column::word("STATE"),
        Column::number("SINCE").spare(1),
        Column::number("PRIORITY").spare(3),
        Column::text("POOL", 5).spare(2),
        Column::text("USER", 5),
        Column::text("WAITS FOR", 8),
        Column::text("TEXT", 8).spare(4),
    ]);
    for request in list {
        let state = text(request, "state");
        let style = if state == "running" { Style::Good } else { Style::Wait };
        table.row(vec![
            text(request, "request").into(),
            Cell::new(state, style),
            moment::age(&text(request, "since")).unwrap_or_default().into(),
            text(request, "priority").into(),
            text(request, "pool").into(),
            text(request, "user").into(),
            waits_for(request.get("waits_for").unwrap_or(&Value::Null)).into(),
            text(request, "text").into(),
        ]);
    }
    table.draw(screen)
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
