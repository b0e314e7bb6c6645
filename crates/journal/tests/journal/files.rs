//! Features of the real file system: locks between processes, links, permissions.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Child, Command, Stdio};

use paceline_journal::{FileLog, LockError, Log, Mode, OpenError};

use crate::framed;
use crate::place::Place;

/// The body of a second process: opens the given file, reports the result, and stays until its input ends. Does
/// nothing when it runs as one of the tests.
#[test]
fn second_process() {
    let Ok(path) = std::env::var("PACELINE_JOURNAL_TEST_OPEN") else { return };
    let opened = FileLog::open(path, Mode::ReadWrite);
    match &opened {
        Ok(_) => println!("second: open"),
        Err(error) => println!("second: {error}"),
    }
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Starts a second process that opens `path`, and waits for its report.
fn second_opens(path: &str) -> (Child, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "files::second_process", "--nocapture"])
        .env("PACELINE_JOURNAL_TEST_OPEN", path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let word = lines
        .map(|line| line.unwrap())
        .find_map(|line| line.split_once("second: ").map(|(_, word)| word.to_string()))
        .unwrap();
    (child, word)
}

fn end(mut child: Child) {
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn two_names_of_one_file_exclude_each_other() {
    let place = Place::new("hard-link");
    let (path, other) = (place.path("db"), place.path("other"));
    let mut log = FileLog::create(&path, b"{}").unwrap();
    std::fs::hard_link(&path, &other).unwrap();
    let refused = |path: &str| {
        let error = FileLog::open(path, Mode::ReadWrite).unwrap_err();
        assert!(matches!(error, OpenError::Locked(LockError::OtherName(_))), "{error}");
        let (child, word) = second_opens(path);
        assert!(word.contains("in use under another name"), "{word}");
        end(child);
    };
    refused(&other);
    FileLog::open(&other, Mode::ReadOnly).unwrap().finish().unwrap();

    // A replacement is another file, which excludes other processes in the same way.
    let mut rewrite = log.rewrite().unwrap();
    rewrite.write(&framed("{}")).unwrap();
    log.install(rewrite, log.position()).unwrap();
    let third = place.path("third");
    std::fs::hard_link(&path, &third).unwrap();
    refused(&third);
    FileLog::open(&other, Mode::ReadWrite).unwrap().finish().unwrap();

    drop(log);
    FileLog::open(&third, Mode::ReadWrite).unwrap().finish().unwrap();
}

#[test]
fn two_processes_exclude_each_other() {
    let place = Place::new("lock");
    let path = place.path("db");
    let log = FileLog::create(&path, b"{}").unwrap();
    let advice = "stop it first";

    let (child, word) = second_opens(&path);
    assert_eq!(word, format!("{path} is in use by process {}; {advice}", std::process::id()));
    end(child);

    // A failed second opening in this process must not lose the lock either.
    let again = FileLog::open(&path, Mode::ReadWrite).unwrap_err();
    assert!(matches!(again, OpenError::Locked(LockError::Ourselves(_))), "{again}");
    let (child, word) = second_opens(&path);
    assert!(word.contains("in use by process"), "{word}");
    end(child);
    FileLog::open(&path, Mode::ReadOnly).unwrap().finish().unwrap();

    drop(log);
    let (child, word) = second_opens(&path);
    assert_eq!(word, "open");
    let error = FileLog::open(&path, Mode::ReadWrite).unwrap_err();
    assert_eq!(error.to_string(), format!("{path} is in use by process {}; {advice}", child.id()));
    end(child);
    FileLog::open(&path, Mode::ReadWrite).unwrap().finish().unwrap();
}

/// A rewrite on another thread keeps the lock, so that its file is not treated as stale.
#[test]
fn a_rewrite_holds_the_lock() {
    let place = Place::new("rewrite-lock");
    let mut log = FileLog::create(place.path("db"), b"{}").unwrap();
    let rewrite = log.rewrite().unwrap();
    drop(log);
    assert!(FileLog::open(place.path("db"), Mode::ReadWrite).is_err());
    drop(rewrite);
    assert_eq!(place.names(), [".db.synced", ".db.~lock~", "db"]);
    FileLog::open(place.path("db"), Mode::ReadWrite).unwrap().finish().unwrap();
}

#[test]
fn links_are_followed() {
    let place = Place::new("links");
    std::fs::create_dir(place.path("deep")).unwrap();
    symlink("deep/real", place.path("middle")).unwrap();
    symlink("middle", place.path("link")).unwrap();

    // A dangling link: the file is created at its target.
    let mut log = FileLog::create(place.path("link"), b"{}").unwrap();
    assert_eq!(log.path().to_str().unwrap(), place.path("deep/real"));
    let error = FileLog::open(place.path("deep/real"), Mode::ReadWrite).unwrap_err();
    assert!(matches!(error, OpenError::Locked(_)), "one lock for link and referent");

    let before = std::fs::metadata(place.path("link")).unwrap().ino();
    let mut rewrite = log.rewrite().unwrap();
    rewrite.write(&framed("{}")).unwrap();
    log.install(rewrite, log.position()).unwrap();
    assert!(std::fs::symlink_metadata(place.path("link")).unwrap().is_symlink());
    assert!(std::fs::symlink_metadata(place.path("deep/real")).unwrap().is_file());
    assert_ne!(std::fs::metadata(place.path("link")).unwrap().ino(), before);

    symlink("circle", place.path("circle")).unwrap();
    let error = FileLog::open(place.path("circle"), Mode::ReadOnly).unwrap_err();
    assert!(matches!(error, OpenError::Io(_)), "{error}");
}

#[test]
fn permissions_are_kept() {
    let place = Place::new("mode");
    let mode = || std::fs::metadata(place.path("db")).unwrap().permissions().mode() & 0o777;
    FileLog::create(place.path("db"), b"{}").unwrap();
    assert_eq!(mode(), 0o600);
    for bits in [0o640, 0o666] {
        let permissions = std::fs::Permissions::from_mode(bits);
        std::fs::set_permissions(place.path("db"), permissions).unwrap();
        let (mut log, _) =
            FileLog::open(place.path("db"), Mode::ReadWrite).unwrap().finish().unwrap();
        let mut rewrite = log.rewrite().unwrap();
        rewrite.write(&framed("{}")).unwrap();
        log.install(rewrite, log.position()).unwrap();
        assert_eq!(mode(), bits);
    }
}

#[test]
fn paths_that_name_no_file() {
    let place = Place::new("paths");
    let error = FileLog::open(place.path("absent"), Mode::ReadWrite).unwrap_err();
    let expected = "cannot open: No such file or directory (os error 2)";
    assert_eq!(error.to_string(), format!("{}: {expected}", place.path("absent")));
    assert!(place.names().is_empty(), "no lock file for a file that is not there");
    assert!(FileLog::open(place.path(""), Mode::ReadOnly).is_err());
    assert!(FileLog::open("/", Mode::ReadOnly).is_err());
    assert!(FileLog::open("", Mode::ReadOnly).is_err());
    let error = FileLog::open(place.path("../."), Mode::ReadOnly).unwrap_err();
    assert!(matches!(error, OpenError::NotAFile(_) | OpenError::Io(_)), "{error}");
}

/// J2: the side file of another file is ignored. A stale file left by a killed rewrite is removed.
#[test]
fn leftovers() {
    let place = Place::new("leftovers");
    let mut log = FileLog::create(place.path("db"), b"{}").unwrap();
    log.append(log.position(), &framed("{}")).unwrap();
    log.sync().unwrap();
    drop(log);
    std::fs::write(place.path("db.tmp"), "half").unwrap();
    std::fs::copy(place.path("db"), place.path("copy")).unwrap();
    std::fs::copy(place.path(".db.synced"), place.path(".copy.synced")).unwrap();
    let (_, recovery) =
        FileLog::open(place.path("copy"), Mode::ReadWrite).unwrap().finish().unwrap();
    assert_eq!(recovery.synced, None);
    let (log, recovery) =
        FileLog::open(place.path("db"), Mode::ReadWrite).unwrap().finish().unwrap();
    assert_eq!(recovery.synced, Some(log.position()));
    assert!(!place.names().contains(&"db.tmp".to_string()));
}
