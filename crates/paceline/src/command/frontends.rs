//! `paceline frontends`: where requests arrive.

use super::{Asker, Delete, Reach, as_text, figure, is, objects, text};
use crate::failure::Failure;
use crate::screen::{Screen, Style};
use crate::settings::{Changes, Frontend, Settings};
use crate::table::{Cell, Column, Table};
use clap::{Args, Subcommand};
use paceline_client::Kind;
use serde_json::Value;

pub const HELP: &str = "\
Without a command, lists the frontends. examples/http.toml shows every setting.

Example:
  paceline frontends
  paceline frontends --json      with every member, as in the configuration file
  paceline frontends delete web";

#[derive(Debug, Args)]
pub struct Frontends {
    #[command(subcommand)]
    command: Option<FrontendsCommand>,

    #[command(flatten)]
    pub reach: Reach,
}

#[derive(Debug, Subcommand)]
enum FrontendsCommand {
    /// List the frontends, as without a command
    #[command(visible_alias = "ls", after_help = "Example:\n  paceline frontends list")]
    List,
    /// Create a frontend; it is transient unless --persistent is given
    #[command(
        after_help = "Example:\n  paceline frontends create web --listen 127.0.0.1:8080 --backend app"
    )]
    Create {
        /// Name of the new frontend
        name: String,
        #[command(flatten)]
        settings: Box<Settings<Frontend>>,
    },
    /// Change the given settings, and keep the rest
    #[command(
        visible_alias = "configure",
        after_help = "Example:\n  paceline frontends set web --max-connections 100"
    )]
    Set {
        /// Name of the frontend
        name: String,
        #[command(flatten)]
        changes: Box<Changes<Frontend>>,
    },
    /// Delete a frontend; it accepts no new requests
    #[command(visible_alias = "rm", after_help = "Example:\n  paceline frontends delete web")]
    Delete(Delete),
}

pub fn run(frontends: &Frontends) -> Result<(), Failure> {
    let asker = frontends.reach.open()?;
    let kind = Kind::Frontends;
    let done = match &frontends.command {
        None | Some(FrontendsCommand::List) => return list(&asker),
        Some(FrontendsCommand::Create { name, settings }) => {
            objects::create::<Frontend>(&asker, kind, name, settings.members(), "")
        }
        Some(FrontendsCommand::Set { name, changes }) => {
            objects::change::<Frontend>(&asker, kind, name, changes.members())
        }
        Some(FrontendsCommand::Delete(delete)) => delete.run(&asker, kind, "frontend"),
    };
    done.map_err(|failure| failure.or_hint("see what there is with: paceline frontends"))
}

fn list(asker: &Asker) -> Result<(), Failure> {
    let list = asker.client.objects(Kind::Frontends)?;
    let nothing =
        "there are no frontends; create one with: paceline frontends create NAME --listen ADDRESS";
    asker.show_list(&list, nothing, |screen| draw(&list, screen))
}

fn draw(list: &[Value], screen: Screen) -> String {
    let mut table = Table::new(&[
        Column::text("NAME", 8),
        Column::text("LISTEN", 14),
        Column::word("TLS").spare(2),
        Column::text("BACKEND", 8),
        Column::text("USE_BACKEND", 11).spare(6),
        Column::number("OPEN"),
        Column::number("REQUESTS"),
        Column::number("4XX").spare(5),
        Column::number("5XX").spare(1),
        Column::word("USER").spare(7),
        Column::word("LOG").spare(8),
        Column::word("PERSISTENT").spare(4),
    ]);
    for frontend in list {
        table.row(vec![
            text(frontend, "name").into(),
            listen(frontend),
            yes(frontend.get("tls").is_some()).into(),
            text(frontend, "backend").into(),
            joined(frontend, "use_backend", |line| text(line, "backend")).into(),
            figure(frontend, "connections").into(),
            figure(frontend, "requests").into(),
            responses(frontend, "4xx").into(),
            responses(frontend, "5xx").into(),
            text(frontend, "user").into(),
            text(frontend, "access_log").into(),
            yes(is(frontend, "persistent")).into(),
        ]);
    }
    let problems = list.iter().filter_map(|frontend| {
        Some(format!("{}: {}\n", text(frontend, "name"), as_text(problem(frontend)?)))
    });
    let problems: String = problems.map(|line| screen.paint(Style::Bad, &line)).collect();
    table.draw(screen) + &problems
}

/// Why it does not serve as configured, such as an address that is in use; none if it does.
fn problem(frontend: &Value) -> Option<&Value> {
    frontend.get("figures")?.get("problem").filter(|problem| !problem.is_null())
}

/// Where it listens, or should; marked if it is not as configured.
fn listen(frontend: &Value) -> Cell {
    let figures = frontend.get("figures").unwrap_or(&Value::Null);
    let style = if problem(frontend).is_some() { Style::Bad } else { Style::Plain };
    let open = joined(figures, "listening", as_text);
    let wanted = || format!("not at {}", joined(frontend, "listen", as_text));
    let text = if open.is_empty() { wanted() } else { open };
    Cell::new(text, style)
}

fn joined(object: &Value, name: &str, show: impl Fn(&Value) -> String) -> String {
    let list = object.get(name).and_then(Value::as_array);
    let each: Vec<String> = list.into_iter().flatten().map(show).collect();
    each.join(", ")
}

/// How many responses had a status of this class.
fn responses(frontend: &Value, class: &str) -> String {
    let figures = frontend.get("figures").and_then(|figures| figures.get("responses"));
    figures.map(|responses| text(responses, class)).unwrap_or_default()
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}
