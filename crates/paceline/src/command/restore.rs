//! `paceline restore`: restores a backup into the data directory of a stopped daemon.

use super::{Reach, print};
use crate::failure::{FAILED, Failure};
use clap::Args;
use paceline_host::{OpenDatabaseError, OpenError, restore};
use serde_json::json;
use std::path::PathBuf;

pub const HELP: &str = "\
First reads and verifies all of FILE; if FILE is damaged or of a newer version, nothing is changed. The command fails while \
a daemon has the data directory open. The previous database is kept as paceline.db.before-restore-TIME. If paceline.db is a \
symbolic link, the link stays, its target is replaced, and the previous database is kept beside the target.

Permits, locks and sessions are not restored. Fencing and request numbers continue above all that were granted before. If \
the previous database belongs to the daemon that made the backup, they continue where it ended; otherwise the numbers granted since \
are not known, and they continue at the microseconds since 1970, about 1.8 * 10^15. The new file gets the owner \
of the previous file, or of the directory. Tokens and users that were revoked after the backup was made are valid \
again: revoke them again.

The next start applies the files of serve --config as usual: what changed in them since they were applied to the restored \
database is changed.

Example:
  systemctl stop paceline
  paceline restore paceline-monday.db --data /var/lib/paceline
  systemctl start paceline";

#[derive(Debug, Args)]
pub struct Restore {
    /// The file that paceline backup made
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    pub reach: Reach,
}

pub fn run(command: &Restore) -> Result<(), Failure> {
    let hint = "restore works on the files of a daemon on this machine: give its --data DIR";
    if command.reach.is_tcp() {
        return Err(Failure::new(FAILED, "a daemon over TCP cannot be restored", hint));
    }
    let data = command.reach.directory()?;
    if !data.is_dir() {
        let message = format!("there is no directory {}", data.display());
        return Err(Failure::new(FAILED, message, "give the data directory with --data DIR"));
    }
    let path = data.join("paceline.db");
    let mark = paceline_host::wall_ms().to_string();
    let done = restore(&command.file, &path, &mark).map_err(|error| refused(&error))?;
    let trouble = done.trouble.map(|trouble| {
        let message = format!("restored {}, but {trouble}", path.display());
        let hint =
            "check that the user of the daemon can read and write the database, then start it";
        Failure::new(FAILED, message, hint)
    });
    if command.reach.json {
        let kept = done.kept.as_ref().map(|kept| kept.to_string_lossy());
        let told = json!({ "restored": path.to_string_lossy(), "kept": kept, "numbers_go_on": done.numbers_go_on });
        print(&format!("{told:#}\n"))?;
        return trouble.map_or(Ok(()), Err);
    }
    crate::screen::tell(format_args!(
        "restored {} from {}",
        path.display(),
        command.file.display()
    ));
    if let Some(kept) = done.kept {
        crate::screen::tell(format_args!("the previous database is kept as {}", kept.display()));
    }
    if !done.numbers_go_on {
        crate::screen::tell(format_args!(
            "fencing and request numbers continue at the microseconds since 1970, because those granted since the backup are not known"
        ));
    }
    trouble.map_or(Ok(()), Err)
}

fn refused(error: &OpenDatabaseError) -> Failure {
    let hint = match error {
        // The message says what has it open, and that this must be stopped.
        OpenDatabaseError::Journal(OpenError::Locked(_)) => "nothing was changed",
        OpenDatabaseError::Journal(OpenError::Io(_)) => {
            "nothing was changed; give the file that paceline backup made"
        }
        _ => "nothing was changed; see the file with: paceline ovsdb show-log FILE",
    };
    Failure::new(FAILED, error.to_string(), hint)
}
