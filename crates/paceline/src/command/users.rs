//! `paceline users`: the users of the daemon's machine that have a role.

use super::{Delete, Reach, text};
use crate::failure::{Failure, USAGE};
use crate::screen::Screen;
use crate::settings::{Settings, User};
use crate::table::{Column, Table};
use clap::{Args, Subcommand};
use paceline_client::Kind;
use serde_json::Value;

pub const HELP: &str = "\
Without a command, lists the users. Root and the user who started the daemon are admins and are not listed. Clients over \
TCP use tokens (paceline token).

Example:
  paceline users set eva --role operator
  paceline users
  paceline users delete eva";

#[derive(Debug, Args)]
pub struct Users {
    #[command(subcommand)]
    command: Option<UsersCommand>,

    #[command(flatten)]
    pub reach: Reach,
}

#[derive(Debug, Subcommand)]
enum UsersCommand {
    /// List the users, as without a command
    #[command(visible_alias = "ls", after_help = "Example:\n  paceline users list")]
    List,
    /// Give a user a role, or another one
    #[command(
        visible_alias = "create",
        after_help = "Example:\n  paceline users set eva --role operator"
    )]
    Set {
        /// The user's name in the system
        name: String,
        #[command(flatten)]
        settings: Settings<User>,
    },
    /// Revoke a user's role
    #[command(visible_alias = "rm", after_help = "Example:\n  paceline users delete eva")]
    Delete(Delete),
}

pub fn run(users: &Users) -> Result<(), Failure> {
    let asker = users.reach.open()?;
    let kind = Kind::Users;
    let done = match &users.command {
        None | Some(UsersCommand::List) => {
            let list = asker.client.objects(kind)?;
            let nothing = "only root and the user who started the daemon have a role; \
                           give one with: paceline users set NAME --role ROLE";
            return asker.show_list(&list, nothing, |screen| draw(&list, screen));
        }
        Some(UsersCommand::Set { name, settings }) => {
            if settings.members().is_empty() {
                let message = format!("which role shall {name} have? give it with --role");
                let hint = format!("such as: paceline users set {name} --role client");
                return Err(Failure::new(USAGE, message, hint));
            }
            let answer = asker.client.put(kind, name, &Value::Object(settings.members()))?;
            asker.show_done(&answer, &format!("user {name} has the role {}", text(&answer, "role")))
        }
        Some(UsersCommand::Delete(delete)) => delete.run(&asker, kind, "user"),
    };
    done.map_err(|failure| failure.or_hint("list the users that have a role with: paceline users"))
}

fn draw(list: &[Value], screen: Screen) -> String {
    let mut table = Table::new(&[Column::text("NAME", 8), Column::word("ROLE")]);
    for user in list {
        table.row(vec![text(user, "name").into(), text(user, "role").into()]);
    }
    table.draw(screen)
}
