//! `paceline checkpoints`: what is limited, to how much, and how it stands.

use super::{Reach, figure, text};
use crate::failure::Failure;
use crate::screen::{Screen, Style};
use crate::table::{Cell, Column, Table};
use clap::Args;
use paceline_client::Kind;
use serde_json::Value;

pub const HELP: &str = "\
Example:
  paceline checkpoints
  paceline checkpoints --json      with every member, as in the configuration file";

#[derive(Debug, Args)]
pub struct Checkpoints {
    #[command(flatten)]
    pub reach: Reach,
}

pub fn run(checkpoints: &Checkpoints) -> Result<(), Failure> {
    let asker = checkpoints.reach.open()?;
    let list = asker.client.objects(Kind::Checkpoints)?;
    let nothing = "there are no checkpoints; add them to a configuration file";
    asker.show_list(&list, nothing, |screen| draw(&list, screen))
}

fn draw(list: &[Value], screen: Screen) -> String {
    let mut table = Table::new(&[
        Column::text("NAME", 12),
        Column::text("AT", 8).spare(3),
        Column::text("LIMIT", 10),
        Column::text("KEY", 5).spare(4),
        Column::number("QUEUED"),
        Column::number("INFLIGHT").spare(2),
        Column::number("PASSED").spare(6),
        Column::number("REFUSED").spare(1),
        Column::word("MODE").spare(5),
    ]);
    for checkpoint in list {
        let refused = figure(checkpoint, "refused");
        let is_refusing = !matches!(refused.as_str(), "" | "0");
        let mode = text(checkpoint, "mode");
        table.row(vec![
            text(checkpoint, "name").into(),
            text(checkpoint, "at").into(),
            limit(checkpoint).into(),
            text(checkpoint, "key").into(),
            figure(checkpoint, "queued").into(),
            figure(checkpoint, "inflight").into(),
            figure(checkpoint, "passed").into(),
            Cell::new(refused, if is_refusing { Style::Bad } else { Style::Plain }),
            if mode.is_empty() { "enforce".into() } else { mode.into() },
        ]);
    }
    table.draw(screen)
}

fn limit(checkpoint: &Value) -> String {
    let (rate, concurrency) = (text(checkpoint, "rate"), text(checkpoint, "concurrency"));
    match (rate.is_empty(), concurrency.is_empty()) {
        (false, _) => match text(checkpoint, "burst") {
            burst if burst.is_empty() => rate,
            burst => format!("{rate}, burst {burst}"),
        },
        (true, false) => format!("{concurrency} at once"),
        (true, true) => "counts".into(),
    }
}
