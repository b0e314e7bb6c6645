//! The data directory: whether it exists, whether it is closed to other users, free space, and lost data.

use super::Finding;
use paceline_host::{Mode, RealDisk, load_file};
use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Less free space than the first is a warning, less than the second an error.
const SPACE_BYTES_LOW: u64 = 1 << 30;
const SPACE_BYTES_MIN: u64 = 64 << 20;

/// The most entries of the directory that are checked.
const ENTRIES_MAX: usize = 10_000;

/// All checks of a data directory.
pub(super) fn look(data: &Path) -> Vec<Finding> {
    if let Some(foreign) = foreign(data) {
        return vec![foreign];
    }
    let mut findings = vec![directory(data)];
    if !data.is_dir() || is_closed_to_us(data) {
        return findings;
    }
    findings.push(space(data));
    findings.push(torn(data));
    findings.extend(closed("database file", &data.join("paceline.db")));
    findings.extend(closed("token file", &data.join("token")));
    findings.extend(closed("secret file", &data.join("secret")));
    findings.extend(closed("audit log", &data.join("audit.log")));
    let sockets = ["api.sock", "ovsdb.sock"].map(|name| data.join(name));
    findings.extend(sockets.iter().filter_map(|socket| socket_of(socket.as_path())));
    findings.extend(out_of_reach(data, &sockets));
    findings
}

/// Whether the database of a stopped daemon is intact: all of its records are read.
pub(super) fn database(path: &Path) -> Option<Finding> {
    let what = "database";
    if !path.exists() {
        return None;
    }
    if let Err(error) = std::fs::File::open(path)
        && error.kind() == ErrorKind::PermissionDenied
    {
        // The file may be intact, so a restore is no remedy.
        let message = format!("{}: only its owner and root can read it", path.display());
        return Some(Finding::warn(what, message, "check it as root: sudo paceline doctor"));
    }
    let repair = "restore a backup with: paceline restore FILE";
    let loaded = match load_file(Arc::new(RealDisk), path, Mode::ReadOnly) {
        Ok(loaded) => loaded,
        Err(error) => return Some(Finding::fail(what, error.to_string(), repair)),
    };
    let (name, recovery) = (path.display(), &loaded.recovery);
    Some(match &recovery.torn {
        _ if recovery.lost_synced() => {
            let (end, synced) = (recovery.position.0, recovery.synced.map_or(0, |synced| synced.0));
            let message = format!(
                "{name} ends at byte {end}, but {synced} bytes of it had been synced: transactions that were \
                 answered as done are missing"
            );
            Finding::fail(what, message, repair)
        }
        Some(torn) => {
            let (offset, bytes) = (torn.offset.0, torn.bytes);
            let message = format!(
                "{name}: the last {bytes} bytes, from byte {offset}, are damaged: {}",
                torn.reason
            );
            let next = "the next start cuts them off and keeps them aside; they were never answered as done";
            Finding::warn(what, message, next)
        }
        None => Finding::ok(what, format!("all {} records of {name} are whole", recovery.records)),
    })
}

/// A directory that can be read and has no file of a daemon. The mode of another program's directory is not checked.
fn foreign(data: &Path) -> Option<Finding> {
    const OWN: [&str; 5] = ["paceline.db", "token", "secret", "audit.log", "api.sock"];
    let mut entries = std::fs::read_dir(data).ok()?.take(ENTRIES_MAX).filter_map(Result::ok);
    let is_own = |name: &std::ffi::OsStr| {
        OWN.iter().any(|own| name.as_encoded_bytes().starts_with(own.as_bytes()))
    };
    if entries.any(|entry| is_own(&entry.file_name())) {
        return None;
    }
    let name = data.display();
    let message = format!("{name} is no data directory of Paceline: it has none of its files");
    let next = format!("name another with --data DIR, or begin one: paceline serve --data {name}");
    Some(Finding::fail("data directory", message, next))
}

/// Whether this user may not read a directory.
fn is_closed_to_us(data: &Path) -> bool {
    let read = std::fs::read_dir(data);
    read.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
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
            return Finding::fail(what, message, "give another with --data DIR");
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return not_for_us(name),
        Err(error) => {
            let next = format!("make it by starting the daemon: paceline serve --data {name}");
            return Finding::fail(what, format!("{name}: {error}"), next);
        }
    };
    if is_closed_to_us(data) {
        return not_for_us(name);
    }
    let owner = metadata.uid();
    let own = rustix::process::geteuid().as_raw();
    if owner != own && own != 0 {
        let message = format!("{name} belongs to user {owner}, and you are user {own}");
        return Finding::warn(what, message, "look as that user, or give another with --data DIR");
    }
    let mode = mode(&metadata);
    match mode {
        _ if mode & 0o022 != 0 => {
            let message = format!("{name} (mode {mode:03o}): others can put their own files there");
            Finding::fail(what, message, format!("close it with: chmod go-w {name}"))
        }
        _ if mode & 0o004 != 0 => {
            let message = format!("{name} (mode {mode:03o}): others can see what is in it");
            Finding::warn(what, message, format!("close it with: chmod o-r {name}"))
        }
        _ => Finding::ok(what, format!("{name} (mode {mode:03o})")),
    }
}

fn not_for_us(name: std::path::Display<'_>) -> Finding {
    let own = rustix::process::geteuid().as_raw();
    let message = format!("{name}: user {own}, which you are, may not look into it");
    let next = "look as the user who started the daemon, or as root: sudo paceline doctor";
    Finding::fail("data directory", message, next)
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
        _ if matches!(what, "token file" | "secret file") => {
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
    // The mode decides only which users may connect; their role decides what they may do.
    let mode = mode(&metadata);
    let who = match (mode & 0o060, mode & 0o006) {
        (0, 0) => "",
        (_, 0) => ": its group can connect, as --socket-mode says; roles say what they may do",
        _ => ": everyone can connect, as --socket-mode says; roles say what they may do",
    };
    Some(Finding::ok(what, format!("{name} (mode {mode:03o}){who}")))
}

/// Sockets that other users may use, in a directory that keeps them out.
fn out_of_reach(data: &Path, sockets: &[PathBuf]) -> Option<Finding> {
    let modes = sockets.iter().filter_map(|socket| Some(mode(&socket.symlink_metadata().ok()?)));
    let open = modes.fold(0, |all, mode| all | mode);
    let directory = mode(&data.metadata().ok()?);
    let (name, what) = (data.display(), "socket");
    let (who, add) = match open {
        _ if open & 0o006 != 0 && directory & 0o001 == 0 => ("everyone", "go+x"),
        _ if open & 0o060 != 0 && directory & 0o010 == 0 => ("their group", "g+x"),
        _ => return None,
    };
    let message =
        format!("the sockets are open to {who}, but {name} (mode {directory:03o}) keeps them out");
    Some(Finding::warn(what, message, format!("let them in with: chmod {add} {name}")))
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
        let database = path.join("paceline.db");
        std::fs::write(&database, "").unwrap();
        std::fs::set_permissions(&database, PermissionsExt::from_mode(0o600)).unwrap();
        path
    }

    /// A directory of something else gets no advice about its mode.
    #[test]
    fn a_directory_without_files_of_paceline_is_not_judged() {
        let data = scratch("foreign");
        std::fs::remove_file(data.join("paceline.db")).unwrap();
        std::fs::write(data.join("notes.txt"), "").unwrap();
        std::fs::set_permissions(&data, PermissionsExt::from_mode(0o777)).unwrap();
        let findings = look(&data);
        assert!(findings.len() == 1 && findings[0].state == State::Fail, "{findings:?}");
        assert!(findings[0].message.contains("is no data directory of Paceline"), "{findings:?}");
        assert!(!findings[0].next.as_ref().unwrap().contains("chmod"), "{findings:?}");
        std::fs::remove_dir_all(&data).unwrap();
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
        for (name, state) in [("secret", State::Fail), ("audit.log", State::Warn)] {
            let file = data.join(name);
            std::fs::write(&file, "x").unwrap();
            for (mode, state) in [(0o640, state), (0o600, State::Ok)] {
                std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
                let findings = look(&data);
                let found = findings.iter().find(|f| f.message.contains(&format!("/{name} ")));
                assert_eq!(found.unwrap().state, state, "{name} {mode:o}");
            }
        }
        std::fs::remove_dir_all(&data).unwrap();
        assert_eq!(look(&data).len(), 1);
        assert_eq!(look(&data)[0].state, State::Fail);
    }

    /// Sockets opened by `serve --socket-mode` are no mistake, but a directory that makes them unreachable is.
    #[test]
    fn open_sockets_are_fine_where_they_can_be_reached() {
        let data = scratch("sockets");
        let socket = data.join("api.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for (directory, mode, expected) in [
            (0o700, 0o600, vec![State::Ok]),
            (0o750, 0o660, vec![State::Ok]),
            (0o711, 0o666, vec![State::Ok]),
            (0o700, 0o660, vec![State::Ok, State::Warn]),
            (0o750, 0o666, vec![State::Ok, State::Warn]),
        ] {
            std::fs::set_permissions(&data, PermissionsExt::from_mode(directory)).unwrap();
            std::fs::set_permissions(&socket, PermissionsExt::from_mode(mode)).unwrap();
            let findings = look(&data);
            assert_eq!(findings[0].state, State::Ok, "{findings:?}");
            let sockets = findings.iter().filter(|finding| finding.what == "socket");
            let states: Vec<State> = sockets.map(|finding| finding.state).collect();
            assert_eq!(states, expected, "{directory:o} {mode:o} {findings:?}");
        }
        std::fs::remove_dir_all(&data).unwrap();
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
