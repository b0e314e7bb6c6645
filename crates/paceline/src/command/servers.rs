//! `paceline servers`: the servers of all backends, whether they are up, and their load.

use super::{Delete, Reach, figure, objects, text};
use crate::failure::Failure;
use crate::screen::{Screen, Style};
use crate::settings::{Changes, Server, Settings};
use crate::table::{Cell, Column, Table};
use clap::{Args, Subcommand};
use paceline_client::Kind;
use serde_json::{Value, json};

pub const HELP: &str = "\
Without a command, lists the servers. A server is named BACKEND/NAME.

Example:
  paceline servers
  paceline servers weight app/a 0      it gets no new requests; running ones finish
  paceline servers delete app/a";

#[derive(Debug, Args)]
pub struct Servers {
    #[command(subcommand)]
    command: Option<ServersCommand>,

    #[command(flatten)]
    pub reach: Reach,
}

#[derive(Debug, Subcommand)]
enum ServersCommand {
    /// List the servers, as without a command
    #[command(visible_alias = "ls", after_help = "Example:\n  paceline servers list")]
    List,
    /// Create a server; it is transient unless --persistent is given
    #[command(after_help = "Example:\n  paceline servers create app/a --address 127.0.0.1:9000")]
    Create {
        /// Name of the new server, BACKEND/NAME
        name: String,
        #[command(flatten)]
        settings: Box<Settings<Server>>,
    },
    /// Change the given settings, and keep the rest
    #[command(
        visible_alias = "configure",
        after_help = "Example:\n  paceline servers set app/a --max-connections 20"
    )]
    Set {
        /// Name of the server, BACKEND/NAME
        name: String,
        #[command(flatten)]
        changes: Box<Changes<Server>>,
    },
    /// Set the weight of a server; with 0 it gets no new requests
    #[command(after_help = "Example:\n  paceline servers weight app/a 2")]
    Weight {
        /// Name of the server, BACKEND/NAME
        name: String,
        /// Its share among the servers of its backend
        #[arg(value_parser = clap::value_parser!(u32).range(..=256))]
        weight: u32,
    },
    /// Delete a server
    #[command(visible_alias = "rm", after_help = "Example:\n  paceline servers delete app/a")]
    Delete(Delete),
}

pub fn run(servers: &Servers) -> Result<(), Failure> {
    let asker = servers.reach.open()?;
    let done = match &servers.command {
        Some(ServersCommand::Create { name, settings }) => {
            objects::create::<Server>(&asker, Kind::Servers, name, settings.members(), "")
        }
        Some(ServersCommand::Set { name, changes }) => {
            objects::change::<Server>(&asker, Kind::Servers, name, changes.members())
        }
        Some(ServersCommand::Delete(delete)) => delete.run(&asker, Kind::Servers, "server"),
        Some(ServersCommand::Weight { name, weight }) => {
            let members = json!({ "weight": weight });
            let server = asker.client.patch(Kind::Servers, name, &members)?;
            asker.show_done(&server, &format!("server {name} has weight {weight}"))
        }
        Some(ServersCommand::List) | None => {
            let list = asker.client.objects(Kind::Servers)?;
            let nothing = "there are no servers; create one with: paceline servers create BACKEND/NAME --address ADDRESS";
            return asker.show_list(&list, nothing, |screen| draw(&list, screen));
        }
    };
    done.map_err(|failure| failure.or_hint("see what there is with: paceline servers"))
}

fn draw(list: &[Value], screen: Screen) -> String {
    let mut table = Table::new(&[
        Column::text("SERVER", 10),
        Column::text("ADDRESS", 12).spare(2),
        Column::word("STATE"),
        Column::number("INFLIGHT"),
        Column::number("MAX").spare(3),
        Column::number("WEIGHT").spare(4),
    ]);
    for server in list {
        let weight = text(server, "weight");
        table.row(vec![
            format!("{}/{}", text(server, "backend"), text(server, "name")).into(),
            text(server, "address").into(),
            state(server),
            figure(server, "inflight").into(),
            text(server, "max_connections").into(),
            if weight.is_empty() { "1".into() } else { weight.into() },
        ]);
    }
    table.draw(screen)
}

fn state(server: &Value) -> Cell {
    match figure(server, "up").as_str() {
        "true" => Cell::new("up", Style::Good),
        "false" => Cell::new("down", Style::Bad),
        // Not checked yet.
        _ => Cell::new("unknown", Style::Plain),
    }
}
