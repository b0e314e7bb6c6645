//! `paceline token`: lists, creates and revokes tokens for clients over TCP.
//!
//! A token is printed once, when it is created, alone on standard output, so that it can be written to a file
//! or a pipe; its name and expiry are printed on standard error.

use super::{Asker, Reach, print, text};
use crate::failure::Failure;
use crate::moment;
use crate::screen::{Screen, Style};
use crate::table::{Cell, Column, Table};
use clap::{Args, Subcommand};
use paceline_client::{Client, Kind};
use paceline_types::Role;
use serde_json::{Map, Value};

pub const HELP: &str = "\
Without a command, lists the tokens, but never the secrets. The first token, admin, is in the file token of the data
directory; revoking it writes a new one to the file.

Roles; each role includes the ones before it:
  viewer     lists, why, explain, events, metrics
  client     permits and locks
  operator   start, stop and configure pools; edit rules, checkpoints and servers; steal locks
  admin      create and keep pools; save rules; manage users and tokens

Example:
  paceline token new ci --role client > ci.token
  curl -H \"authorization: Bearer $(cat ci.token)\" http://127.0.0.1:7070/v1/whoami
  paceline token revoke ci";

#[derive(Debug, Args)]
pub struct Token {
    #[command(subcommand)]
    command: Option<TokenCommand>,

    #[command(flatten)]
    pub reach: Reach,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// List the tokens, as without a command
    #[command(after_help = "Example:\n  paceline token list")]
    List,
    /// Create a token and print it; it is not shown again
    #[command(
        after_help = "Example:\n  paceline token new ci --role client --expires 30d > ci.token"
    )]
    New(New),
    /// Revoke a token
    #[command(after_help = "Example:\n  paceline token revoke ci")]
    Revoke {
        /// Name of the token
        name: String,
    },
}

#[derive(Debug, Args)]
struct New {
    /// Name of the token, to list and revoke it by
    name: String,
    /// The role of its bearer: viewer, client, operator or admin
    #[arg(long, value_name = "ROLE")]
    role: Role,
    /// The attribute user of its requests [default: the name of the token]
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// How long it is valid, such as 12h or 90d, or never [default: 90d]
    #[arg(long, value_name = "TIME|never")]
    expires: Option<String>,
}

impl New {
    /// The token as the API writes it.
    fn object(&self) -> Value {
        let members = [
            ("name", Some(self.name.clone())),
            ("role", Some(self.role.to_string())),
            ("user", self.user.clone()),
            ("expires", self.expires.clone()),
        ];
        let given = members.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let given: Map<String, Value> =
            given.map(|(name, value)| (name.to_owned(), value.into())).collect();
        Value::Object(given)
    }
}

pub fn run(token: &Token) -> Result<(), Failure> {
    let asker = token.reach.open()?;
    let done = match &token.command {
        None | Some(TokenCommand::List) => return list(&asker),
        Some(TokenCommand::New(new)) => make(&asker, new),
        Some(TokenCommand::Revoke { name }) => revoke(&asker, name),
    };
    done.map_err(|failure| failure.or_hint("see what there is with: paceline token"))
}

fn list(asker: &Asker) -> Result<(), Failure> {
    let list = asker.client.objects(Kind::Tokens)?;
    let nothing = "there are no tokens; make one with: paceline token new NAME --role ROLE";
    asker.show_list(&list, nothing, |screen| draw(&list, screen))
}

/// How many days before its expiry a token is mentioned.
const SOON_DAYS: i64 = 14;

/// The tokens that expire soon, with the time, for callers that may see them.
pub fn ending(client: &Client) -> Vec<(String, String)> {
    let tokens = client.objects(Kind::Tokens).unwrap_or_default();
    let soon = tokens.iter().filter_map(|token| {
        let expires = text(token, "expires");
        let left = moment::left(&expires)?;
        let is_soon = left > 0 && left <= SOON_DAYS * 86_400_000;
        is_soon.then(|| Some((text(token, "name"), moment::ahead(&expires)?)))?
    });
    soon.collect()
}

fn make(asker: &Asker, new: &New) -> Result<(), Failure> {
    let made = asker.client.add(Kind::Tokens, &new.object())?;
    // It is shown once: if it could not be printed it is useless, so it is revoked.
    let unread = |failure: Failure| match asker.client.delete(Kind::Tokens, &new.name) {
        Ok(_) => failure.hint(
            "the token was revoked again; check that standard output can be written to".into(),
        ),
        Err(_) => failure.hint(format!(
            "the token was not shown; revoke it with: paceline token revoke {}",
            new.name
        )),
    };
    if asker.json {
        return asker.show(&made, |_| String::new()).map_err(unread);
    }
    let ends = match moment::ahead(&text(&made, "expires")) {
        Some(ahead) => format!("it expires {ahead}"),
        None => "it never expires".to_owned(),
    };
    print(&format!("{}\n", text(&made, "token"))).map_err(unread)?;
    let (name, role) = (text(&made, "name"), text(&made, "role"));
    crate::screen::tell(format_args!(
        "token {name} made, role {role}; {ends} and is not shown again"
    ));
    Ok(())
}

fn revoke(asker: &Asker, name: &str) -> Result<(), Failure> {
    asker.client.delete(Kind::Tokens, name)?;
    let done = match name {
        // The daemon always has a first token.
        "admin" => "token admin replaced; the new one is in the file token".to_owned(),
        name => format!("token {name} revoked"),
    };
    asker.show_done(&Value::Null, &done)
}

fn draw(list: &[Value], screen: Screen) -> String {
    let mut table = Table::new(&[
        Column::text("NAME", 8),
        Column::word("ROLE"),
        Column::text("USER", 6).spare(2),
        Column::number("AGE").spare(1),
        Column::word("ENDS"),
    ]);
    for token in list {
        let ends = match moment::ahead(&text(token, "expires")) {
            Some(ahead) if ahead == "now" => Cell::new("ended", Style::Bad),
            Some(ahead) => ahead.into(),
            None => "never".into(),
        };
        table.row(vec![
            text(token, "name").into(),
            text(token, "role").into(),
            text(token, "user").into(),
            moment::age(&text(token, "created")).unwrap_or_default().into(),
            ends,
        ]);
    }
    table.draw(screen)
}
