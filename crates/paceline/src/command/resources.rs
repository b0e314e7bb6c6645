//! `paceline resources`: what can be claimed, and how it is created and deleted.

use super::{Asker, Reach, figure, objects, text};
use crate::failure::Failure;
use crate::screen::Screen;
use crate::settings::{Changes, Resource, Settings};
use crate::table::{Column, Table};
use clap::{Args, Subcommand};
use paceline_client::{Error, Kind};
use serde_json::Value;

pub const HELP: &str = "\
Without a command, lists the resources.

Example:
  paceline resources create zpool:tank --parents disk:da0 --parents disk:da1
  paceline resources
  paceline tree      draws them as a tree, with holders and waiters";

#[derive(Debug, Args)]
pub struct Resources {
    #[command(subcommand)]
    command: Option<ResourcesCommand>,

    #[command(flatten)]
    pub reach: Reach,
}

#[derive(Debug, Subcommand)]
enum ResourcesCommand {
    /// List the resources, as without a command
    #[command(visible_alias = "ls", after_help = "Example:\n  paceline resources list")]
    List,
    /// Create a resource; it is transient unless --persistent is given
    #[command(after_help = "Example:\n  paceline resources create zpool:tank --parents disk:da0")]
    Create {
        /// Name of the new resource
        name: String,
        #[command(flatten)]
        settings: Settings<Resource>,
    },
    /// Change the given settings, and keep the rest
    #[command(
        visible_alias = "configure",
        after_help = "Example:\n  paceline resources set zpool:tank --parents disk:da1"
    )]
    Set {
        /// Name of the resource
        name: String,
        #[command(flatten)]
        changes: Changes<Resource>,
    },
    /// Delete a resource that has no children
    #[command(
        visible_alias = "rm",
        after_help = "Example:\n  paceline resources delete zpool:tank"
    )]
    Delete {
        /// Its name
        name: String,
        /// Delete it even if it has children, which lose this parent
        #[arg(long)]
        orphan: bool,
    },
}

pub fn run(resources: &Resources) -> Result<(), Failure> {
    let asker = resources.reach.open()?;
    let kind = Kind::Resources;
    let done = match &resources.command {
        None | Some(ResourcesCommand::List) => {
            let list = asker.client.objects(kind)?;
            let nothing = "there are no resources; make one with: paceline resources create NAME";
            return asker.show_list(&list, nothing, |screen| draw(&list, screen));
        }
        Some(ResourcesCommand::Create { name, settings }) => {
            objects::create::<Resource>(&asker, kind, name, settings.members(), "")
        }
        Some(ResourcesCommand::Set { name, changes }) => {
            objects::change::<Resource>(&asker, kind, name, changes.members())
        }
        Some(ResourcesCommand::Delete { name, orphan }) => delete(&asker, name, *orphan),
    };
    done.map_err(|failure| failure.or_hint("see what there is with: paceline tree"))
}

fn delete(asker: &Asker, name: &str, orphan: bool) -> Result<(), Failure> {
    let deleted = match orphan {
        true => asker.client.delete_orphaning(name),
        false => asker.client.delete(Kind::Resources, name),
    };
    let answer = deleted.map_err(|error| match error {
        Error::Conflict(_) => {
            let hint = "delete the children first; --orphan deletes it and leaves them without \
                        this parent";
            Failure::from(error).hint(hint.into())
        }
        error => error.into(),
    })?;
    asker.show_done(&answer, &format!("resource {name} is deleted"))
}

fn draw(list: &[Value], screen: Screen) -> String {
    let mut table = Table::new(&[
        Column::text("NAME", 16),
        Column::number("HOLDING"),
        Column::number("WAITING"),
        Column::text("PARENTS", 8).spare(1),
    ]);
    for resource in list {
        let parents = resource.get("parents").and_then(Value::as_array);
        let parents: Vec<String> = parents.into_iter().flatten().map(super::as_text).collect();
        table.row(vec![
            text(resource, "name").into(),
            figure(resource, "holding").into(),
            figure(resource, "waiting").into(),
            parents.join(", ").into(),
        ]);
    }
    table.draw(screen)
}
