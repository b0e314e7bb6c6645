//! `paceline checkpoints`: the limits, their state, and how they are changed.

use super::{Delete, Reach, figure, objects, text};
use crate::failure::Failure;
use crate::screen::{Screen, Style};
use crate::settings::{Changes, Checkpoint, Settings};
use crate::table::{Cell, Column, Table};
use clap::{Args, Subcommand};
use paceline_client::Kind;
use serde_json::Value;

pub const HELP: &str = "\
Without a command, lists the checkpoints.

Example:
  paceline checkpoints
  paceline checkpoints create per-user --at 'frontend api' --key user --rate 5/s --burst 10
  paceline checkpoints set per-user --rate 10/s
  paceline checkpoints --json      with every member, as in the configuration file";

#[derive(Debug, Args)]
pub struct Checkpoints {
    #[command(subcommand)]
    command: Option<CheckpointsCommand>,

    #[command(flatten)]
    pub reach: Reach,
}

#[derive(Debug, Subcommand)]
enum CheckpointsCommand {
    /// List the checkpoints, as without a command
    #[command(visible_alias = "ls", after_help = "Example:\n  paceline checkpoints list")]
    List,
    /// Create a checkpoint; it is transient unless --persistent is given
    #[command(
        after_help = "Example:\n  paceline checkpoints create per-user --at 'frontend api' --key user --rate 5/s --burst 10"
    )]
    Create {
        /// Name of the new checkpoint
        name: String,
        #[command(flatten)]
        settings: Box<Settings<Checkpoint>>,
    },
    /// Change the given settings, and keep the rest
    #[command(
        visible_alias = "configure",
        after_help = "Example:\n  paceline checkpoints set per-user --rate 10/s --reset burst"
    )]
    Set {
        /// Name of the checkpoint
        name: String,
        #[command(flatten)]
        changes: Box<Changes<Checkpoint>>,
    },
    /// Delete a checkpoint; requests that wait there continue
    #[command(
        visible_alias = "rm",
        after_help = "Example:\n  paceline checkpoints delete per-user"
    )]
    Delete(Delete),
}

pub fn run(checkpoints: &Checkpoints) -> Result<(), Failure> {
    let asker = checkpoints.reach.open()?;
    let kind = Kind::Checkpoints;
    let done = match &checkpoints.command {
        None | Some(CheckpointsCommand::List) => {
            let list = asker.client.objects(kind)?;
            let nothing =
                "there are no checkpoints; make one with: paceline checkpoints create --help";
            return asker.show_list(&list, nothing, |screen| draw(&list, screen));
        }
        Some(CheckpointsCommand::Create { name, settings }) => {
            objects::create::<Checkpoint>(&asker, kind, name, settings.members(), "")
        }
        Some(CheckpointsCommand::Set { name, changes }) => {
            objects::change::<Checkpoint>(&asker, kind, name, changes.members())
        }
        Some(CheckpointsCommand::Delete(delete)) => delete.run(&asker, kind, "checkpoint"),
    };
    done.map_err(|failure| failure.or_hint("see what there is with: paceline checkpoints"))
}

fn draw(list: &[Value], screen: Screen) -> String {
    let mut table = Table::new(&[
        Column::text("NAME", 12),
        Column::text("AT", 8).spare(3),
        Column::number("NUMBER").spare(4),
        Column::text("LIMIT", 10),
        Column::text("KEY", 5).spare(4),
        Column::number("QUEUED"),
        Column::number("INFLIGHT").spare(2),
        Column::number("PASSED").spare(6),
        Column::number("REFUSED").spare(1),
        Column::word("MODE").spare(5),
    ]);
    // In the order in which a request meets those of one place.
    let mut sorted: Vec<&Value> = list.iter().collect();
    let number = |one: &Value| one.get("number").and_then(Value::as_i64);
    sorted.sort_by_key(|one| (text(one, "at"), number(one), text(one, "name")));
    for checkpoint in sorted {
        let refused = refused(checkpoint);
        let is_refusing = !matches!(refused.as_str(), "" | "0" | "would 0");
        table.row(vec![
            text(checkpoint, "name").into(),
            text(checkpoint, "at").into(),
            text(checkpoint, "number").into(),
            limit(checkpoint).into(),
            text(checkpoint, "key").into(),
            figure(checkpoint, "queued").into(),
            figure(checkpoint, "inflight").into(),
            figure(checkpoint, "passed").into(),
            Cell::new(refused, if is_refusing { Style::Bad } else { Style::Plain }),
            mode(checkpoint).into(),
        ]);
    }
    table.draw(screen)
}

/// How many requests it refused; in mode `watch`, how many it would have refused.
fn refused(checkpoint: &Value) -> String {
    match text(checkpoint, "mode").as_str() {
        "watch" => format!("would {}", figure(checkpoint, "would_refuse")),
        _ => figure(checkpoint, "refused"),
    }
}

/// The mode; in mode `watch` with what `enforce` would have done, which is what the mode is for.
fn mode(checkpoint: &Value) -> String {
    if text(checkpoint, "mode") != "watch" {
        return "enforce".into();
    }
    let (refused, held) = (figure(checkpoint, "would_refuse"), figure(checkpoint, "would_wait"));
    format!("watch: would refuse {refused}, hold {held}")
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
