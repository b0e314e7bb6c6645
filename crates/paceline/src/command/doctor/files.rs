//! The data directory: is it there, is it closed to others, is there room, was anything lost.

use super::Finding;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// Less room than this on the disk is doubtful, and less than that too little.
const SPACE_BYTES_LOW: u64 = 1 << 30;
const SPACE_BYTES_MIN: u64 = 64 << 20;

/// Entries of the directory that are looked at.
const ENTRIES_MAX: usize = 10_000;

/// Everything there is to find out about a data directory.
pub(super) fn look(data: &Path) -> Vec<Finding> {
    let mut findings = vec![directory(data)];
    if !data.is_dir() {
        return findings;
    }
    findings.push(space(data));
    findings.push(torn(data));
    findings.extend(closed("database file", &data.join("paceline.db")));
    findings.extend(closed("token file", &data.join("token")));
    let sockets = ["api.sock", "ovsdb.sock"].map(|name| data.join(name));
    findings.extend(sockets.iter().filter_map(|socket| socket_of(socket.as_path())));
    findings
}

fn mode(metadata: &Metadata) -> u32 {
    metadata.permissions().mode() & 0o7777
}

fn directory(data: &Path) -> Finding {
    let name = data.display();
    let what = "data directory";
    let metadata = match data.metadata() {
        Ok(metadata) if metadata.is_dir() => metadata,
        Ok(_) => {
            let message = format!("{name} is no directory");
            return Finding::fail(what, message, "say another with --data DIR");
        }
        Err(error) => {
            let next = format!("make it by starting the daemon: paceline serve --data {name}");
            return Finding::fail(what, format!("{name}: {error}"), next);
        }
    };
    let owner = metadata.uid();
    let own = rustix::process::geteuid().as_raw();
    if owner != own && own != 0 {
        let message = format!("{name} belongs to user {owner}, and you are user {own}");
        return Finding::warn(what, message, "look as that user, or say another with --data DIR");
    }
    let mode = mode(&metadata);
    match mode {
        _ if mode & 0o022 != 0 => {
            let message = format!("{name} (mode {mode:03o}): others can put their own files there");
            Finding::fail(what, message, format!("close it with: chmod go-w {name}"))
        }
        _ if mode & 0o005 != 0 => {
            let message = format!("{name} (mode {mode:03o}): others can see what is in it");
            Finding::warn(what, message, format!("close it with: chmod go-rwx {name}"))
        }
        _ => Finding::ok(what, format!("{name} (mode {mode:03o})")),
    }
}

fn space(data: &Path) -> Finding {
    let what = "disk space";
    let facts = match rustix::fs::statvfs(data) {
        Ok(facts) => facts,
        Err(error) => return Finding::warn(what, format!("cannot tell: {error}"), "see: df"),
    };
    let free = facts.f_bavail.saturating_mul(facts.f_frsize);
    let message = format!("{} free", megabytes(free));
    let next = "make room: writes are refused when the disk is full";
    match free {
        _ if free < SPACE_BYTES_MIN => Finding::fail(what, message, next),
        _ if free < SPACE_BYTES_LOW => Finding::warn(what, message, next),
        _ => Finding::ok(what, message),
    }
}

fn megabytes(bytes: u64) -> String {
    match bytes >> 20 {
        mega if mega >= 10_240 => format!("{} GiB", mega >> 10),
        mega => format!("{mega} MiB"),
    }
}

/// Damaged ends that were cut off journals at a start and kept aside (promise J2).
fn torn(data: &Path) -> Finding {
    let what = "journals";
    let entries = match std::fs::read_dir(data) {
        Ok(entries) => entries,
        Err(error) => {
            return Finding::fail(
                what,
                format!("cannot look: {error}"),
                "look as the daemon's user",
            );
        }
    };
    let entries = entries.take(ENTRIES_MAX).filter_map(Result::ok);
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut kept: Vec<String> = names.filter(|name| name.contains(".torn-")).collect();
    kept.sort();
    match kept.first() {
        None => Finding::ok(what, "no damaged parts were cut off and kept aside"),
        Some(first) => {
            let count = kept.len();
            let parts = if count == 1 { "part of a journal was" } else { "parts of journals were" };
            let message = format!("{count} damaged {parts} cut off and kept: {first}");
            let next = "they were never answered as done unless the log of that start says so; \
                        look at them, then move them away";
            Finding::warn(what, message, next)
        }
    }
}

/// A file that only its owner may read.
fn closed(what: &'static str, file: &Path) -> Option<Finding> {
    let name = file.display();
    let metadata = file.metadata().ok()?;
    let mode = mode(&metadata);
    Some(match mode & 0o077 {
        0 => Finding::ok(what, format!("{name} (mode {mode:03o})")),
        _ if what == "token file" => {
            let message = format!("{name} (mode {mode:03o}): others can read it and act as admin");
            Finding::fail(what, message, format!("close it with: chmod 600 {name}"))
        }
        _ => {
            let message = format!("{name} (mode {mode:03o}): others can read or write it");
            Finding::warn(what, message, format!("close it with: chmod 600 {name}"))
        }
    })
}

fn socket_of(socket: &Path) -> Option<Finding> {
    let what = "socket";
    let name = socket.display();
    let metadata = socket.symlink_metadata().ok()?;
    if !metadata.file_type().is_socket() {
        let next = format!("see what it is, and move it away: ls -l {name}");
        return Some(Finding::fail(what, format!("{name} is no socket"), next));
    }
    let mode = mode(&metadata);
    Some(match mode & 0o077 {
        0 => Finding::ok(what, format!("{name} (mode {mode:03o})")),
        _ => {
            let message = format!("{name} (mode {mode:03o}): other users can connect");
            Finding::warn(what, message, format!("close it with: chmod 600 {name}"))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::{closed, directory, look, torn};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("pl-doctor-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        path
    }

    #[test]
    fn a_closed_directory_is_fine_and_an_open_one_is_not() {
        let data = scratch("modes");
        assert!(look(&data).iter().all(|finding| finding.state == State::Ok));
        for (mode, state) in [(0o755, State::Warn), (0o777, State::Fail), (0o750, State::Ok)] {
            std::fs::set_permissions(&data, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(directory(&data).state, state, "{mode:o}");
        }
        let token = data.join("token");
        std::fs::write(&token, "secret").unwrap();
        std::fs::set_permissions(&token, PermissionsExt::from_mode(0o644)).unwrap();
        let found = closed("token file", &token).unwrap();
        assert_eq!(found.state, State::Fail);
        assert!(!found.message.contains("secret"));
        std::fs::remove_dir_all(&data).unwrap();
        assert_eq!(look(&data).len(), 1);
        assert_eq!(look(&data)[0].state, State::Fail);
    }

    #[test]
    fn what_was_cut_off_a_journal_is_found_j2() {
        let data = scratch("torn");
        assert_eq!(torn(&data).state, State::Ok);
        std::fs::write(data.join("paceline.db.torn-17"), "x").unwrap();
        let found = torn(&data);
        assert_eq!(found.state, State::Warn);
        assert!(found.message.contains("paceline.db.torn-17"), "{found:?}");
        std::fs::remove_dir_all(&data).unwrap();
    }
}
