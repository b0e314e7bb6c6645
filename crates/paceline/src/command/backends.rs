//! `paceline backends`: groups of servers that do the same work, and how one of them is chosen.

use super::{Asker, Delete, Reach, figure, objects, text};
use crate::failure::Failure;
use crate::screen::{Screen, Style};
use crate::settings::{Backend, Changes, Settings};
use crate::table::{Cell, Column, Table};
use clap::{Args, Subcommand};
use paceline_client::Kind;
use serde_json::Value;

pub const HELP: &str = "\
Without a command, lists the backends. examples/http.toml shows every setting.

Example:
  paceline backends
  paceline servers                lists each server
  paceline backends delete app    also deletes its servers";

#[derive(Debug, Args)]
pub struct Backends {
    #[command(subcommand)]
    command: Option<BackendsCommand>,

    #[command(flatten)]
    pub reach: Reach,
}

#[derive(Debug, Subcommand)]
enum BackendsCommand {
    /// List the backends, as without a command
    #[command(visible_alias = "ls", after_help = "Example:\n  paceline backends list")]
    List,
    /// Create a backend; it is transient unless --persistent is given
    #[command(
        after_help = "Example:\n  paceline backends create app --balance least-connections --health-path /up"
    )]
    Create {
        /// Name of the new backend
        name: String,
        #[command(flatten)]
        settings: Box<Settings<Backend>>,
    },
    /// Change the given settings, and keep the rest
    #[command(
        visible_alias = "configure",
        after_help = "Example:\n  paceline backends set app --retries 1"
    )]
    Set {
        /// Name of the backend
        name: String,
        #[command(flatten)]
        changes: Box<Changes<Backend>>,
    },
    /// Delete a backend with its servers; no frontend may use it
    #[command(visible_alias = "rm", after_help = "Example:\n  paceline backends delete app")]
    Delete(Delete),
}

pub fn run(backends: &Backends) -> Result<(), Failure> {
    let asker = backends.reach.open()?;
    let kind = Kind::Backends;
    let done = match &backends.command {
        None | Some(BackendsCommand::List) => return list(&asker),
        Some(BackendsCommand::Create { name, settings }) => {
            objects::create::<Backend>(&asker, kind, name, settings.members(), "")
        }
        Some(BackendsCommand::Set { name, changes }) => {
            objects::change::<Backend>(&asker, kind, name, changes.members())
        }
        Some(BackendsCommand::Delete(delete)) => delete.run(&asker, kind, "backend"),
    };
    done.map_err(|failure| failure.or_hint("see what there is with: paceline backends"))
}

fn list(asker: &Asker) -> Result<(), Failure> {
    let list = asker.client.objects(Kind::Backends)?;
    let servers = asker.client.objects(Kind::Servers)?;
    let nothing = "there are no backends; create one with: paceline backends create NAME";
    asker.show_list(&list, nothing, |screen| draw(&list, &servers, screen))
}

fn draw(list: &[Value], servers: &[Value], screen: Screen) -> String {
    let mut table = Table::new(&[
        Column::text("NAME", 8),
        Column::word("BALANCE").spare(3),
        Column::number("SERVERS"),
        Column::number("UP"),
        Column::number("INFLIGHT"),
        Column::number("WAITING"),
        Column::text("HEALTH", 6).spare(2),
        Column::word("TLS").spare(5),
        Column::text("QUEUE", 6).spare(4),
    ]);
    for backend in list {
        let name = text(backend, "name");
        let own: Vec<&Value> =
            servers.iter().filter(|server| text(server, "backend") == name).collect();
        let count = |state: &str| own.iter().filter(|server| figure(server, "up") == state).count();
        let style = if count("false") > 0 { Style::Bad } else { Style::Plain };
        let inflight =
            own.iter().filter_map(|server| figure(server, "inflight").parse::<u64>().ok());
        table.row(vec![
            name.into(),
            balance(backend).into(),
            own.len().to_string().into(),
            Cell::new(count("true").to_string(), style),
            inflight.sum::<u64>().to_string().into(),
            figure(backend, "queued").into(),
            health(backend).into(),
            tls(backend),
            queue(backend).into(),
        ]);
    }
    table.draw(screen)
}

fn balance(backend: &Value) -> String {
    match text(backend, "balance") {
        balance if balance.is_empty() => "round-robin".into(),
        balance => balance,
    }
}

/// The health check of the servers, if there is one.
fn health(backend: &Value) -> String {
    match backend.get("health") {
        None => String::new(),
        Some(health) => match text(health, "path") {
            path if path.is_empty() => "connects".into(),
            path => path,
        },
    }
}

/// Whether servers are connected to over TLS, and verified.
fn tls(backend: &Value) -> Cell {
    match backend.get("tls") {
        None => "".into(),
        Some(tls) if text(tls, "verify") == "false" => Cell::new("unverified", Style::Bad),
        Some(_) => "verified".into(),
    }
}

/// `1000, 10s`: how many may wait, and how long.
fn queue(backend: &Value) -> String {
    let queue = backend.get("queue").unwrap_or(&Value::Null);
    let each = ["max_len", "max_delay"].map(|name| text(queue, name));
    let each: Vec<String> = each.into_iter().filter(|part| !part.is_empty()).collect();
    each.join(", ")
}
