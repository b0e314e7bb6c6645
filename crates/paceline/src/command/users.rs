//! `paceline users`: users of the daemon's machine and of SQL clients, with their roles and passwords.

use super::{Delete, Reach, is, password, text};
use crate::failure::{Failure, USAGE};
use crate::screen::Screen;
use crate::settings::{Changes, User};
use crate::table::{Column, Table};
use clap::{Args, Subcommand};
use paceline_client::Kind;
use serde_json::Value;

pub const HELP: &str = "\
Without a command, lists the users. Root and the user who started the daemon are admins and are not listed. Clients over \
TCP use tokens (paceline token).

Example:
  paceline users set eva --role operator
  paceline users set app --sql-password      asks for the password of SQL clients
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
    /// Give a user a role or an SQL password, and keep the rest; a user that does not exist is created
    #[command(
        visible_alias = "create",
        after_help = "Example:\n  paceline users set eva --role operator\n  paceline users set app --sql-password < app.pw\n  paceline users set eva --reset role --no-sql-password"
    )]
    Set {
        /// The user's name: that in the system, or the one that SQL clients log in with
        name: String,

        /// Set the password of SQL clients. It is asked for twice on a terminal, and is one line of standard input
        /// otherwise. Only a verifier is sent and stored, from which the password cannot be read
        #[arg(long, conflicts_with_all = ["no_sql_password", "setting sql_verifier"])]
        sql_password: bool,

        /// Remove the password of SQL clients
        #[arg(long, conflicts_with = "setting sql_verifier")]
        no_sql_password: bool,

        #[command(flatten)]
        settings: Changes<User>,
    },
    /// Delete a user, with its role and its SQL password
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
        Some(UsersCommand::Set { name, sql_password, no_sql_password, settings }) => {
            let mut members = settings.members();
            if *sql_password {
                members.insert("sql_verifier".to_owned(), password::verifier(name)?.into());
            }
            if *no_sql_password {
                members.insert("sql_verifier".to_owned(), Value::Null);
            }
            if members.is_empty() {
                let message = format!("which role shall {name} have? give it with --role");
                let hint = format!(
                    "such as: paceline users set {name} --role client; for SQL clients only: paceline users set \
                     {name} --sql-password"
                );
                return Err(Failure::new(USAGE, message, hint));
            }
            let answer = asker.client.put(kind, name, &Value::Object(members))?;
            asker.show_done(&answer, &format!("user {name} has {}", has(&answer)))
        }
        Some(UsersCommand::Delete(delete)) => delete.run(&asker, kind, "user"),
    };
    done.map_err(|failure| failure.or_hint("list the users that have a role with: paceline users"))
}

/// What a user has, in words.
fn has(user: &Value) -> String {
    let role = match text(user, "role") {
        role if role.is_empty() => "no role".to_owned(),
        role => format!("the role {role}"),
    };
    let password = if is(user, "sql_password") { " and an SQL password" } else { "" };
    format!("{role}{password}")
}

fn draw(list: &[Value], screen: Screen) -> String {
    let columns =
        [Column::text("NAME", 8), Column::word("ROLE"), Column::word("SQL_PASSWORD").spare(1)];
    let mut table = Table::new(&columns);
    for user in list {
        let password = if is(user, "sql_password") { "yes" } else { "" };
        table.row(vec![text(user, "name").into(), text(user, "role").into(), password.into()]);
    }
    table.draw(screen)
}
