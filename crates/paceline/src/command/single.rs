//! `paceline api` and `paceline http`: the settings of the API and of the HTTP door as a whole, of which there is one object each.

use super::{Asker, Reach, as_text};
use crate::failure::{FAILED, Failure};
use crate::settings::{Api, Changes, Described, Http};
use clap::{Args, Subcommand};
use paceline_client::Kind;
use serde_json::Value;

pub const API_HELP: &str = "\
Without a command, shows the settings of the API.

Example:
  paceline api
  paceline api set --show-text
  paceline api set --reset show_text";

pub const HTTP_HELP: &str = "\
Without a command, shows the settings of the HTTP door as a whole. Each frontend and backend has its own
(paceline frontends, paceline backends).

Example:
  paceline http
  paceline http set --threads 4
  paceline http set --reset threads";

#[derive(Debug, Args)]
pub struct Single<K: Described> {
    #[command(subcommand)]
    command: Option<SingleCommand<K>>,

    #[command(flatten)]
    pub reach: Reach,
}

#[derive(Debug, Subcommand)]
enum SingleCommand<K: Described> {
    /// Show the settings, as without a command
    #[command(after_help = "Example:\n  paceline api show\n  paceline http show")]
    Show,
    /// Change the given settings
    #[command(
        after_help = "Example:\n  paceline api set --show-text\n  paceline http set --threads 4"
    )]
    Set {
        #[command(flatten)]
        changes: Changes<K>,
    },
}

pub fn api(single: &Single<Api>) -> Result<(), Failure> {
    run(single, Kind::Api)
}

pub fn http(single: &Single<Http>) -> Result<(), Failure> {
    run(single, Kind::Http)
}

fn run<K: Described>(single: &Single<K>, kind: Kind) -> Result<(), Failure> {
    let asker = single.reach.open()?;
    match &single.command {
        None | Some(SingleCommand::Show) => show::<K>(&asker, kind),
        Some(SingleCommand::Set { changes }) => set::<K>(&asker, kind, changes),
    }
}

fn show<K: Described>(asker: &Asker, kind: Kind) -> Result<(), Failure> {
    let object = asker.client.object(kind, "")?;
    asker.show(&object, |_| {
        let line = |name: &str| match object.get(name) {
            Some(value) => format!("{name} = {}\n", as_text(value)),
            None => format!("{name} is at its default\n"),
        };
        K::KIND.settings.iter().map(|setting| line(setting.name)).collect()
    })
}

fn set<K: Described>(asker: &Asker, kind: Kind, changes: &Changes<K>) -> Result<(), Failure> {
    let (members, word) = (changes.members(), K::KIND.word);
    if members.is_empty() {
        let hint = format!("see what can be set with: paceline {word} set --help");
        return Err(Failure::new(FAILED, "nothing to change", hint));
    }
    // What is taken at the start only is said, or else nothing seems to happen.
    let is_late = |name: &String| K::KIND.setting(name).is_some_and(|setting| !setting.is_live);
    let late = match members.keys().any(is_late) {
        true => "; it takes effect at the next start",
        false => "",
    };
    let answer = asker.client.patch(kind, "", &Value::Object(members))?;
    asker.show_done(&answer, &format!("the settings of {word} are changed{late}"))
}
