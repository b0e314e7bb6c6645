//! `paceline api` and `paceline http`: the settings of the API and of the HTTP door, one object each.

use super::{Asker, Reach, as_text};
use crate::failure::{FAILED, Failure};
use crate::settings::{Api, Changes, Described, Http};
use clap::{Args, Subcommand};
use paceline_catalogue::Default;
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
        None | Some(SingleCommand::Show) => show::<K>(&asker, kind, !single.reach.is_tcp()),
        Some(SingleCommand::Set { changes }) => set::<K>(&asker, kind, changes),
    }
}

fn show<K: Described>(asker: &Asker, kind: Kind, is_here: bool) -> Result<(), Failure> {
    let object = asker.client.object(kind, "")?;
    asker.show(&object, |_| {
        let line = |name: &str| match object.get(name) {
            Some(value) => format!("{name} = {}\n", as_text(value)),
            None => format!("{name} = {}\n", default_of::<K>(name, is_here)),
        };
        K::KIND.settings.iter().map(|setting| line(setting.name)).collect()
    })
}

/// The default of a setting. A daemon on this machine has as many processors as this command.
fn default_of<K: Described>(name: &str, is_here: bool) -> String {
    let default = K::KIND.setting(name).map_or(Default::Required, |setting| setting.default);
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    match default {
        Default::Required | Default::None("") => "unset".to_owned(),
        Default::Value(text) | Default::None(text) => format!("{text} (default)"),
        Default::Machine(text) if is_here && text == "the number of processors" => {
            format!("{} (default: {text})", processors())
        }
        Default::Machine(text) => format!("{text} (default)"),
    }
}

fn set<K: Described>(asker: &Asker, kind: Kind, changes: &Changes<K>) -> Result<(), Failure> {
    let (members, word) = (changes.members(), K::KIND.word);
    if members.is_empty() {
        let hint = format!("see what can be set with: paceline {word} set --help");
        return Err(Failure::new(FAILED, "nothing to change", hint));
    }
    // Settings that take effect only at a start are pointed out, because the change would seem to have no
    // effect.
    let is_late = |name: &String| K::KIND.setting(name).is_some_and(|setting| !setting.is_live);
    let late = match members.keys().any(is_late) {
        true => "; it takes effect at the next start",
        false => "",
    };
    let answer = asker.client.patch(kind, "", &Value::Object(members))?;
    asker.show_done(&answer, &format!("the settings of {word} are changed{late}"))
}
