//! `paceline sql-targets`: the databases that SQL clients connect to.

use super::{Asker, Delete, Reach, is, objects, text};
use crate::failure::Failure;
use crate::screen::Screen;
use crate::settings::{Changes, Settings, SqlTarget};
use crate::table::{Column, Table};
use clap::{Args, Subcommand};
use paceline_client::Kind;
use serde_json::Value;

pub const HELP: &str = "\
Without a command, lists the targets. A target is a database on a PostgreSQL server (--upstream) or an embedded SQLite \
database (--sqlite). examples/sql.toml shows every setting.

Example:
  paceline sql-targets create app --upstream postgresql://127.0.0.1:5432/app --persistent
  paceline sql-targets create notes --sqlite notes.db --persistent
  paceline sql-targets";

#[derive(Debug, Args)]
pub struct SqlTargets {
    #[command(subcommand)]
    command: Option<SqlTargetsCommand>,

    #[command(flatten)]
    pub reach: Reach,
}

#[derive(Debug, Subcommand)]
enum SqlTargetsCommand {
    /// List the targets, as without a command
    #[command(visible_alias = "ls", after_help = "Example:\n  paceline sql-targets list")]
    List,
    /// Create a target; it is transient unless --persistent is given
    #[command(
        after_help = "Example:\n  paceline sql-targets create app --upstream postgresql://127.0.0.1:5432/app --login-user web --login-password-file /etc/paceline/web.pw"
    )]
    Create {
        /// Name of the new target, which is the database name that clients connect to
        name: String,
        #[command(flatten)]
        settings: Box<Settings<SqlTarget>>,
    },
    /// Change the given settings, and keep the rest
    #[command(
        visible_alias = "configure",
        after_help = "Example:\n  paceline sql-targets set app --connections-max 40 --pooling session"
    )]
    Set {
        /// Name of the target
        name: String,
        #[command(flatten)]
        changes: Box<Changes<SqlTarget>>,
    },
    /// Delete a target; the database itself stays
    #[command(visible_alias = "rm", after_help = "Example:\n  paceline sql-targets delete app")]
    Delete(Delete),
}

pub fn run(targets: &SqlTargets) -> Result<(), Failure> {
    let asker = targets.reach.open()?;
    let kind = Kind::SqlTargets;
    let done = match &targets.command {
        None | Some(SqlTargetsCommand::List) => return list(&asker),
        Some(SqlTargetsCommand::Create { name, settings }) => {
            objects::create::<SqlTarget>(&asker, kind, name, settings.members(), "")
        }
        Some(SqlTargetsCommand::Set { name, changes }) => {
            objects::change::<SqlTarget>(&asker, kind, name, changes.members())
        }
        Some(SqlTargetsCommand::Delete(delete)) => delete.run(&asker, kind, "sql_target"),
    };
    done.map_err(|failure| failure.or_hint("see what there is with: paceline sql-targets"))
}

fn list(asker: &Asker) -> Result<(), Failure> {
    let list = asker.client.objects(Kind::SqlTargets)?;
    let nothing = "there are no SQL targets; create one with: paceline sql-targets create";
    asker.show_list(&list, nothing, |screen| draw(&list, screen))
}

fn draw(list: &[Value], screen: Screen) -> String {
    let mut table = Table::new(&[
        Column::text("NAME", 8),
        Column::word("ENGINE"),
        Column::text("DATABASE", 20),
        Column::word("POOLING").spare(2),
        Column::number("MAX").spare(3),
        Column::text("LOGIN", 6).spare(1),
        Column::word("PERSISTENT").spare(4),
    ]);
    for target in list {
        let upstream = text(target, "upstream");
        let is_embedded = upstream.is_empty();
        // An embedded database has no server connections.
        let of_server = |shown: String| if is_embedded { String::new() } else { shown };
        let inner = |outer: &str, name: &str| text(target.get(outer).unwrap_or(&Value::Null), name);
        table.row(vec![
            text(target, "name").into(),
            if is_embedded { "sqlite" } else { "postgresql" }.into(),
            if is_embedded { text(target, "sqlite") } else { upstream }.into(),
            of_server(or(text(target, "pooling"), "transaction")).into(),
            of_server(or(inner("connections", "max"), "20")).into(),
            of_server(or(inner("login", "user"), "client")).into(),
            if is(target, "persistent") { "yes" } else { "no" }.into(),
        ]);
    }
    table.draw(screen)
}

/// A value, or its default if it is not set.
fn or(value: String, default: &str) -> String {
    if value.is_empty() { default.to_owned() } else { value }
}
