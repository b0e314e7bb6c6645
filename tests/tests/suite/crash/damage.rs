//! Files that end in the middle of a record, and files that are damaged before their end.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use paceline_tests::server::paceline_binary;
use paceline_tests::{Launch, Scratch, tool};
use serde_json::json;

use super::ledger::{self, Answer, Contents, Entry};

/// The bytes of a small file with these transactions and a short one after them, and where its records begin.
fn small_file(transactions: i64) -> (Vec<u8>, Vec<usize>) {
    let scratch = Scratch::new();
    let file = ledger::create(&scratch);
    let daemon = Launch::serving(&scratch, &file).start().unwrap();
    let mut client = daemon.connect();
    for i in 0..transactions {
        let answer = ledger::transact(&mut client, &Entry::new(0, i, true));
        assert_eq!(answer, Answer::Acknowledged);
    }
    // A short last record: the counter of a writer that has not written.
    let counter = json!({"op": "insert", "table": "Counter", "row": {"w": 9, "n": 0}});
    client.call("transact", &json!(["db", counter])).unwrap();
    daemon.kill();
    let bytes = fs::read(&file).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let starts = text.match_indices("OVSDB JSON ").map(|(offset, _)| offset).collect();
    (bytes, starts)
}

fn show_log(file: &Path) -> Result<String, String> {
    let binary = paceline_binary().display().to_string();
    tool::run(&binary, &["ovsdb", "show-log", file.to_str().unwrap()])
}

#[test]
fn a_file_cut_at_any_byte_of_its_last_record_serves_the_rest_j2() {
    let (bytes, starts) = small_file(2);
    let last = *starts.last().unwrap();
    for length in last + 1..bytes.len() {
        let scratch = Scratch::new();
        let file = scratch.write("db.db", &bytes[..length]);
        let offset = last.to_string();
        let shown = show_log(&file).unwrap_err();
        assert!(shown.contains("db.db") && shown.contains(&offset), "{length}: {shown}");
        assert_eq!(fs::metadata(&file).unwrap().len(), length as u64, "show-log only reads");

        let launch = Launch::serving(&scratch, &file);
        let daemon = launch.start().unwrap_or_else(|ended| panic!("{length}: {ended:?}"));
        assert_eq!(ledger::contents(&mut daemon.connect()), BTreeMap::from([(0, 2)]), "{length}");
        daemon.log_line(&["WARN", "db.db", &format!("offset={offset}")]).unwrap();
        assert_eq!(fs::read(&file).unwrap(), bytes[..last], "{length}");
        let kept = fs::read(scratch.join(&format!("db.db.torn-{offset}"))).unwrap();
        assert_eq!(kept, bytes[last..length], "{length}");
    }
}

/// All files of a folder except lock files, which every start creates.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.is_file())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), path))
        .filter(|(name, _)| !name.ends_with(".~lock~"))
        .map(|(name, path)| (name, fs::read(path).unwrap()))
        .collect()
}

#[test]
fn damage_before_the_last_record_is_refused_and_left_alone_j3() {
    let (bytes, starts) = small_file(2);
    for record in 0..starts.len() - 1 {
        let (begin, end) = (starts[record], starts[record + 1]);
        // In the length, the hash, the first and the last byte of the body.
        let body = begin + bytes[begin..end].iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for at in [begin + 11, body - 2, body, end - 2] {
            let scratch = Scratch::new();
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            let file = scratch.write("db.db", &damaged);
            let before = files(scratch.path());
            let ended = Launch::serving(&scratch, &file).start().unwrap_err();
            assert_eq!(ended.status.code(), Some(1), "{ended:?}");
            // If the very first line is damaged, the file is not a database at all, and the error needs no offset.
            let named = format!("offset {begin}");
            let said = ended.log.contains(&named) || (at < body && begin == 0);
            assert!(said && ended.log.contains("db.db"), "byte {at}: {}", ended.log);
            assert_eq!(files(scratch.path()), before, "byte {at}");
        }
    }
}

/// A daemon and its file. The daemon is killed after three durable transactions.
fn killed_after_three() -> (Scratch, std::path::PathBuf) {
    let scratch = Scratch::new();
    let file = ledger::create(&scratch);
    let daemon = Launch::serving(&scratch, &file).start().unwrap();
    let mut client = daemon.connect();
    for i in 0..3 {
        let answer = ledger::transact(&mut client, &Entry::new(0, i, true));
        assert_eq!(answer, Answer::Acknowledged);
    }
    daemon.kill();
    (scratch, file)
}

/// J3: the snapshot of a compacted file is its last record, but damage there does not make the daemon start empty. The
/// records before it can be saved in another file, and the damaged one stays as it is.
#[test]
fn damage_in_a_compacted_file_is_refused_and_can_be_repaired_j3() {
    let (scratch, file) = killed_after_three();
    let binary = paceline_binary().display().to_string();
    let ovsdb = |command: &str, files: &[&Path]| {
        let files = files.iter().map(|file| file.to_str().unwrap());
        tool::run(&binary, &["ovsdb", command].into_iter().chain(files).collect::<Vec<_>>())
    };
    let target = scratch.join("sound.db");
    let refused = ovsdb("repair", &[&file, &target]).unwrap_err();
    assert!(refused.contains("not damaged") && !target.exists(), "{refused}");

    ovsdb("compact", &[&file]).unwrap();
    let mut bytes = fs::read(&file).unwrap();
    let (last, end) = (find_last(&bytes), bytes.len() - 2);
    bytes[end] ^= 0x01;
    // In place: a new file would not be the one that is known to be complete.
    let opened = fs::File::options().write(true).open(&file).unwrap();
    opened.write_all_at(&bytes[end..=end], end as u64).unwrap();
    let ended = Launch::serving(&scratch, &file).start().unwrap_err();
    for part in ["db.db", &format!("offset {last}"), "compacted", "paceline ovsdb repair"] {
        assert!(ended.log.contains(part), "{part}: {ended:?}");
    }
    ovsdb("repair", &[&file, &target]).unwrap();
    assert_eq!(fs::read(&file).unwrap(), bytes);
    let daemon = Launch::serving(&scratch, &target).start().unwrap();
    assert_eq!(ledger::contents(&mut daemon.connect()), BTreeMap::new());
}

/// Where the last record of a file begins.
fn find_last(bytes: &[u8]) -> usize {
    String::from_utf8(bytes.to_vec()).unwrap().rfind("OVSDB JSON ").unwrap()
}

#[test]
fn records_that_were_synced_do_not_vanish_in_silence_j2() {
    for cut_whole in [false, true] {
        let (scratch, file) = killed_after_three();
        let bytes = fs::read(&file).unwrap();
        let last = find_last(&bytes);
        let length = if cut_whole { last } else { bytes.len() - 1 };
        // Truncated in place: a new file would not be the one that is known to be synced.
        let cut = fs::File::options().write(true).open(&file).unwrap();
        cut.set_len(length as u64).unwrap();
        match Launch::serving(&scratch, &file).start() {
            Ok(daemon) => {
                let there: Contents = ledger::contents(&mut daemon.connect());
                assert_eq!(there, BTreeMap::from([(0, 2)]));
                daemon.log_line(&["db.db", &format!("offset={last}")]).unwrap_or_else(|error| {
                    panic!("cut at {length}, a durable transaction is gone: {error}")
                });
            }
            Err(ended) => assert!(ended.log.contains("db.db"), "{ended:?}"),
        }
    }
}
