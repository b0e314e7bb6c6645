//! `paceline backup`: copies of databases, made while the daemon serves.

use super::export::cannot_write;
use super::{Asker, Reach, as_text};
use crate::failure::Failure;
use crate::keep::keep;
use clap::Args;
use paceline_client::CopyError;
use serde_json::{Value, json};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

pub const HELP: &str = "\
The daemon makes the copy from a snapshot that has everything it has acknowledged, and keeps serving meanwhile. The file is \
complete or absent, is on disk when the command ends, and is readable by you only. It is a database that `paceline serve` \
and `ovsdb-tool` open. To restore it, stop the daemon and run paceline restore.

The copy contains frontends, backends, pools, rules, checkpoints, resources, users and the hashes of tokens, but no usable \
token. Tokens and users that were revoked after the copy was made are valid again where it is served: revoke them again. \
It does not contain what clients held (permits, locks, sessions), the files token and secret, or audit.log. Fencing and \
request numbers continue above those of the time of the copy, so that none is granted twice; restore the same copy only \
once, and then make a new one. With --all, each served database becomes a file NAME.db in the directory FILE; the copies contain \
everything that clients store in these databases, including secrets.

Example:
  paceline backup paceline-monday.db
  paceline backup --all backups/monday";

#[derive(Debug, Args)]
pub struct Backup {
    /// The file to write; with --all, the directory, created if missing
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Copy all served databases, not only the daemon's own
    #[arg(long)]
    all: bool,

    /// Replace files that exist
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    pub reach: Reach,
}

/// The daemon's own database.
const OWN: &str = "Paceline";

pub fn run(backup: &Backup) -> Result<(), Failure> {
    let asker = backup.reach.open()?;
    let mut done: Vec<Value> = vec![];
    for (database, file) in wanted(backup, &asker)? {
        let bytes = copy(&asker, &database, &file, backup.force)?;
        if !backup.reach.json {
            crate::screen::tell(format_args!(
                "database {database}: {bytes} bytes in {}",
                file.display()
            ));
        }
        done.push(json!({ "database": database, "file": file.to_string_lossy(), "bytes": bytes }));
    }
    if backup.reach.json {
        asker.show(&Value::Array(done), |_| String::new())?;
    }
    Ok(())
}

/// The databases and their files.
fn wanted(backup: &Backup, asker: &Asker) -> Result<Vec<(String, PathBuf)>, Failure> {
    if !backup.all {
        return Ok(vec![(OWN.to_owned(), backup.file.clone())]);
    }
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&backup.file);
    made.map_err(|error| cannot_write(&backup.file, &error))?;
    let status = asker.client.status()?;
    let names = status.get("databases").and_then(Value::as_array).cloned().unwrap_or_default();
    let file = |name: String| {
        // The names of databases are plain words; any other name is not joined to a path.
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_plain.then(|| (name.clone(), backup.file.join(format!("{name}.db"))))
    };
    Ok(names.iter().map(as_text).filter_map(file).collect())
}

fn copy(asker: &Asker, database: &str, file: &Path, replaces: bool) -> Result<u64, Failure> {
    let failed = |error: std::io::Error| cannot_write(file, &error);
    keep(file, replaces, failed, |out| {
        let mut out = BufWriter::new(out);
        let bytes = asker.client.copy(database, &mut out).map_err(|error| match error {
            CopyError::Asked(error) => Failure::from(error),
            CopyError::Written(error) => failed(error),
        })?;
        out.flush().map_err(failed)?;
        Ok(bytes)
    })
}
