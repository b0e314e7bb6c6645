//! A backup restored with `paceline restore`, and `paceline doctor` on the files of a stopped daemon.

use paceline_tests::server::paceline_binary;
use paceline_tests::{Daemon, Launch, Scratch};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

fn run(data: &Path, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(paceline_binary());
    let output = command.args(words).env("PACELINE_DATA", data).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

/// The number of a new request.
fn request(daemon: &Daemon) -> u64 {
    let permit = daemon.api().call("POST", "/v1/permits", &json!({ "once": true }));
    permit.expect(200)["request"].as_u64().unwrap()
}

/// The fencing number of a new grant of a lock.
fn fencing(daemon: &Daemon) -> u64 {
    let (code, text) =
        run(&daemon.data(), &["lock", "l", "--", "sh", "-c", "echo $PACELINE_FENCING"]);
    assert_eq!(code, 0, "{text}");
    text.trim().parse().unwrap()
}

fn pool(daemon: &Daemon, name: &str) -> u16 {
    daemon.api().get(&format!("/v1/pools/{name}")).status
}

#[test]
fn a_restore_raises_no_alarm_and_numbers_go_on_behind_the_last() {
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch);
    let daemon = launch.start().unwrap();
    let (data, copy) = (daemon.data(), scratch.path().join("copy.db"));
    let copy_text = copy.to_str().unwrap();
    assert_eq!(run(&data, &["pools", "create", "before"]).0, 0);
    assert_eq!(run(&data, &["backup", copy_text]).0, 0);
    // The file grows, so that the copy is shorter than the synced position.
    for n in 0..20 {
        assert_eq!(run(&data, &["pools", "create", &format!("after-{n}")]).0, 0);
    }
    let given = (request(&daemon), fencing(&daemon));
    let (code, told) = run(&data, &["restore", copy_text]);
    assert!(code == 1 && told.contains("stop it first"), "{told}");
    assert_eq!(pool(&daemon, "after-0"), 200, "nothing was done");
    let _ = daemon.terminate();

    let (code, told) = run(&data, &["restore", copy_text]);
    assert!(code == 0 && told.contains("before-restore-"), "{told}");
    assert!(!told.contains("since 1970"), "{told}");
    let daemon = launch.start().unwrap();
    assert_eq!(
        (pool(&daemon, "before"), pool(&daemon, "after-0")),
        (404, 404),
        "transient pools end with a daemon"
    );
    let again = (request(&daemon), fencing(&daemon));
    assert!(again.0 > given.0 && again.1 > given.1, "{given:?} {again:?}");
    assert!(again.0 < 1_000_000 && again.1 < 1_000_000, "{again:?}");
    let (_, told) = run(&data, &["doctor"]);
    assert!(!told.contains("had been synced"), "{told}");
    let log = daemon.terminate().log;
    assert!(!log.contains("synced"), "{log}");
    // The previous file is complete and can itself be restored.
    let entries = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path());
    let kept: Vec<_> =
        entries.filter(|path| path.to_string_lossy().contains("before-restore")).collect();
    let [kept] = &kept[..] else { panic!("{kept:?}") };
    assert_eq!(run(&data, &["restore", kept.to_str().unwrap()]).0, 0);
    let daemon = launch.start().unwrap();
    let last = (request(&daemon), fencing(&daemon));
    assert!(last.0 > again.0 && last.1 > again.1, "{again:?} {last:?}");
}

#[test]
fn a_copy_that_is_damaged_changes_nothing() {
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch);
    let daemon = launch.start().unwrap();
    let (data, copy) = (daemon.data(), scratch.path().join("copy.db"));
    assert_eq!(run(&data, &["backup", copy.to_str().unwrap()]).0, 0);
    let _ = daemon.terminate();
    let before = std::fs::read(data.join("paceline.db")).unwrap();
    let whole = std::fs::read(&copy).unwrap();
    let mut flipped = whole.clone();
    let at = whole.len() / 2;
    flipped[at] ^= 1;
    for bad in [&whole[..whole.len() - 10], &flipped, b"", b"no database"] {
        std::fs::write(&copy, bad).unwrap();
        let (code, told) = run(&data, &["restore", copy.to_str().unwrap()]);
        assert!(code == 1 && told.contains("copy.db"), "{told}");
        assert_eq!(std::fs::read(data.join("paceline.db")).unwrap(), before);
    }
    let other = scratch.path().join("other.db");
    let schema = scratch.write("s.json", r#"{"name": "Other", "version": "1.0.0", "tables": {"T": {"columns": {"c": {"type": "string"}}}}}"#);
    let mut create = Command::new(paceline_binary());
    assert!(create.args(["ovsdb", "create"]).args([&other, &schema]).status().unwrap().success());
    let (code, told) = run(&data, &["restore", other.to_str().unwrap()]);
    assert!(code == 1 && told.contains("holds the database Other"), "{told}");
}

/// Without the previous database, it is unknown which numbers were assigned after the backup.
#[test]
fn numbers_are_skipped_where_nobody_knows_which_were_given() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let copy = scratch.path().join("copy.db");
    assert_eq!(run(&daemon.data(), &["backup", copy.to_str().unwrap()]).0, 0);
    let given = request(&daemon);
    let _ = daemon.terminate();
    let elsewhere = Scratch::new();
    let launch = Launch::new(&elsewhere);
    let daemon = launch.start().unwrap();
    let data = daemon.data();
    let _ = daemon.terminate();
    let (code, told) = run(&data, &["restore", copy.to_str().unwrap()]);
    assert!(code == 0 && told.contains("since 1970"), "{told}");
    let daemon = launch.start().unwrap();
    assert!(request(&daemon) > given + (1 << 39));
}

/// Flips a byte in the middle of the database.
fn damage(data: &Path) {
    let file = data.join("paceline.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&file, bytes).unwrap();
}

/// L2, even if the database is damaged again after a restore: the same backup does not yield the same numbers.
#[test]
fn a_backup_that_is_restored_twice_gives_no_number_twice_l2() {
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch);
    let mut daemon = launch.start().unwrap();
    let (data, copy) = (daemon.data(), scratch.path().join("copy.db"));
    let copy = copy.to_str().unwrap();
    assert_eq!(run(&data, &["backup", copy]).0, 0);
    let mut last = (request(&daemon), fencing(&daemon));
    for _ in 0..3 {
        let _ = daemon.kill();
        damage(&data);
        let (code, told) = run(&data, &["restore", copy]);
        assert!(code == 0 && told.contains("since 1970"), "{told}");
        daemon = launch.start().unwrap();
        for _ in 0..3 {
            let next = (request(&daemon), fencing(&daemon));
            assert!(next.0 > last.0 && next.1 > last.1, "{last:?} {next:?}");
            last = next;
        }
    }
    // The same if nothing of the previous file can be read.
    for _ in 0..2 {
        let _ = daemon.kill();
        std::fs::write(data.join("paceline.db"), "no database").unwrap();
        assert_eq!(run(&data, &["restore", copy]).0, 0);
        daemon = launch.start().unwrap();
    }
    let (first, _) = (request(&daemon), fencing(&daemon));
    let _ = daemon.kill();
    std::fs::remove_file(data.join("paceline.db")).unwrap();
    assert_eq!(run(&data, &["restore", copy]).0, 0);
    let daemon = launch.start().unwrap();
    assert!(request(&daemon) > first);
}

/// L2, in whichever order backups are restored: a newer backup after an older one does not yield lower numbers.
#[test]
fn a_newer_backup_that_is_restored_after_an_older_one_gives_higher_numbers_l2() {
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch);
    let mut daemon = launch.start().unwrap();
    let data = daemon.data();
    let copies = ["older.db", "newer.db"].map(|name| scratch.path().join(name));
    let copies = copies.each_ref().map(|copy| copy.to_str().unwrap());
    let mut last = (0, 0);
    for copy in copies {
        // So that more time is between the backups than between two restores.
        for _ in 0..5 {
            let _ = daemon.kill();
            daemon = launch.start().unwrap();
        }
        last = (request(&daemon), fencing(&daemon));
        assert_eq!(run(&data, &["backup", copy]).0, 0);
    }
    for copy in [copies[0], copies[1], copies[0]] {
        let _ = daemon.kill();
        std::fs::remove_file(data.join("paceline.db")).unwrap();
        assert_eq!(run(&data, &["restore", copy]).0, 0);
        daemon = launch.start().unwrap();
        let next = (request(&daemon), fencing(&daemon));
        assert!(next.0 > last.0 && next.1 > last.1, "{copy}: {last:?} {next:?}");
        last = next;
    }
}

/// The remains of a restore that was killed or failed do not prevent the next one.
#[test]
fn a_restore_that_failed_does_not_keep_the_next_one_from_its_work() {
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch);
    let daemon = launch.start().unwrap();
    let (data, copy) = (daemon.data(), scratch.path().join("copy.db"));
    let copy = copy.to_str().unwrap();
    let names: Vec<String> = (0..40).map(|n| format!("pool-{n}")).collect();
    for name in &names {
        assert_eq!(run(&data, &["pools", "create", name, "--persistent"]).0, 0);
    }
    assert_eq!(run(&data, &["backup", copy]).0, 0);
    let _ = daemon.terminate();
    damage(&data);
    let before = std::fs::read(data.join("paceline.db")).unwrap();
    let entries = || {
        let mut names: Vec<_> =
            std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let listed = entries();
    // Room for the schema, but not for the rows; then a restore that was killed with part of its file written.
    let blocks = (std::fs::metadata(copy).unwrap().len() - 1024) / 512;
    let limited = format!("ulimit -f {blocks}; trap '' XFSZ; exec \"$0\" restore \"$1\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).arg(paceline_binary()).arg(copy).env("PACELINE_DATA", &data);
    let failed = command.output().unwrap();
    assert!(!failed.status.success());
    assert_eq!(entries(), listed, "{}", String::from_utf8_lossy(&failed.stderr));
    assert_eq!(std::fs::read(data.join("paceline.db")).unwrap(), before);
    std::fs::write(data.join("paceline.restored"), &before[..100]).unwrap();
    let (code, told) = run(&data, &["restore", copy]);
    assert_eq!(code, 0, "{told}");
    let daemon = launch.start().unwrap();
    assert_eq!(pool(&daemon, "pool-39"), 200);
}

/// Root restores, and the daemon, which runs as another user, must be able to start.
#[test]
fn a_restored_database_belongs_to_the_user_of_the_one_before() {
    use std::os::unix::fs::{MetadataExt as _, chown};
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let (data, copy) = (daemon.data(), scratch.path().join("copy.db"));
    assert_eq!(run(&data, &["backup", copy.to_str().unwrap()]).0, 0);
    let _ = daemon.terminate();
    let user = 65_534;
    let everything = || std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path());
    let file = data.join("paceline.db");
    for name in everything().chain([data.clone()]) {
        chown(&name, Some(user), Some(user)).unwrap();
    }
    let whole = std::fs::read(&file).unwrap();
    for state in ["sound", "damaged", "of root", "missing"] {
        match state {
            "damaged" => damage(&data),
            // The remains of an earlier restore.
            "of root" => chown(&file, Some(0), Some(0)).unwrap(),
            "missing" => {
                for name in
                    everything().filter(|name| name.to_string_lossy().contains("paceline.db"))
                {
                    std::fs::remove_file(name).unwrap();
                }
            }
            _ => assert_eq!(std::fs::read(&file).unwrap(), whole),
        }
        let (code, told) = run(&data, &["restore", copy.to_str().unwrap()]);
        assert_eq!(code, 0, "{state}: {told}");
        // The file that is kept aside is unchanged.
        let is_kept = |name: &PathBuf| name.to_string_lossy().contains("before-restore");
        for name in everything().filter(|name| !is_kept(name)) {
            let found = std::fs::metadata(&name).unwrap();
            let expected = (user, user, 0o600);
            assert_eq!(
                (found.uid(), found.gid(), found.mode() & 0o777),
                expected,
                "{state}: {name:?}"
            );
        }
    }
}

#[test]
fn doctor_finds_a_truncated_or_damaged_file_of_a_stopped_daemon() {
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch);
    let daemon = launch.start().unwrap();
    let data = daemon.data();
    for n in 0..20 {
        assert_eq!(run(&data, &["pools", "create", &format!("p{n}")]).0, 0);
    }
    let _ = daemon.terminate();
    let file = data.join("paceline.db");
    let whole = std::fs::read(&file).unwrap();
    let look = || run(&data, &["doctor"]).1.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = look();
    assert!(told.contains("are whole") && told.contains("no daemon"), "{told}");

    std::fs::write(&file, &whole[..whole.len() - 300]).unwrap();
    let told = look();
    assert!(told.contains("had been synced") && told.contains("ends at byte"), "{told}");
    let mut flipped = whole.clone();
    let at = whole.len() - 1_000;
    flipped[at] ^= 1;
    std::fs::write(&file, &flipped).unwrap();
    let told = look();
    assert!(told.contains("fail database") && told.contains("offset"), "{told}");
    assert!(told.contains("paceline restore"), "{told}");
    std::fs::write(&file, &whole).unwrap();
    assert!(look().contains("are whole"));
}
