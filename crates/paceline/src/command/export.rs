//! `paceline export`: the daemon's configuration as a file.

use super::{Reach, print};
use crate::failure::{FAILED, Failure, NOT_FOUND};
use crate::keep::keep;
use clap::Args;
use serde_json::json;
use std::io::Write as _;
use std::path::PathBuf;

pub const HELP: &str = "\
The file has frontends, backends, SQL targets, pools, rules (the running list), checkpoints, resources and users. It has no locks, \
permits, tokens, passwords or figures, and so no secrets. Applying it again changes only the owner of its objects. With --owner, it has only the objects \
of that file, and applying it again as that file changes nothing.

Example:
  paceline export
  paceline export paceline.toml --force
  paceline export paceline.toml --owner paceline.toml --force      writes later edits into the file
  paceline export --data OTHER | paceline apply -      copies the configuration to another daemon";

#[derive(Debug, Args)]
pub struct Export {
    /// Where to write it; - is standard output [default: -]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Only what belongs to the file of this name
    #[arg(long, alias = "file", value_name = "NAME")]
    owner: Option<String>,

    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    pub reach: Reach,
}

pub fn run(export: &Export) -> Result<(), Failure> {
    let asker = export.reach.open()?;
    let text = asker.client.config(export.owner.as_deref())?;
    if let Some(owner) = &export.owner
        && text.lines().all(|line| line.is_empty() || line.starts_with('#'))
    {
        let message = format!("no object belongs to a file called {owner}");
        let hint = "see all that is configured with: paceline export";
        return Err(Failure::new(NOT_FOUND, message, hint));
    }
    match export.file.as_ref().filter(|file| file.as_os_str() != "-") {
        None if export.reach.json => print(&format!("{:#}\n", json!({ "toml": text }))),
        None => print(&text),
        Some(file) => {
            let failed = |error: std::io::Error| cannot_write(file, &error);
            keep(file, export.force, failed, |out| out.write_all(text.as_bytes()).map_err(failed))?;
            let answer = json!({ "file": file.to_string_lossy(), "bytes": text.len() });
            asker.show_done(&answer, &format!("written to {}", file.display()))
        }
    }
}

/// The failure that a file cannot be written, with what to try.
pub fn cannot_write(file: &std::path::Path, error: &std::io::Error) -> Failure {
    let name = file.display();
    match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::new(FAILED, format!("{name} is there already"), "replace it with --force")
        }
        _ => {
            let hint = "check that the directory exists and that you may write to it";
            Failure::new(FAILED, format!("cannot write {name}: {error}"), hint)
        }
    }
}
