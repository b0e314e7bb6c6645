//! The rows that the keys of a file become.

use super::{EXAMPLE, HTTP_EXAMPLE, SQL_EXAMPLE, column, object, read};
use crate::Place;

#[test]
fn the_example_checks_clean() {
    let document = read(EXAMPLE);
    assert_eq!(document.check(), Ok(vec![]));
    assert_eq!(document.check(), Ok(vec![]));
    assert_eq!(read(HTTP_EXAMPLE).within("/etc/paceline").check(), Ok(vec![]));
}

/// Every key that is allowed in a file and has an effect is in one of the examples.
#[test]
fn the_examples_use_everything() {
    for kind in crate::keys::KINDS.into_iter().chain(crate::keys::SINGLE) {
        for key in crate::keys::keys(kind).filter(|key| key.idle.is_none()) {
            let mut lines = EXAMPLE.lines().chain(HTTP_EXAMPLE.lines()).chain(SQL_EXAMPLE.lines());
            let is_used = lines.any(|line| line.starts_with(&format!("{} = ", key.name)));
            assert!(is_used, "{} of {}", key.name, kind.word);
        }
    }
}

#[test]
fn objects_are_rows_with_their_defaults() {
    let document = read(EXAMPLE);
    let batch = object(&document, "Pool", "batch");
    for (name, value) in [
        ("name", "batch"),
        ("priority_min", "-127"),
        ("priority_max", "-1"),
        ("threads_max", "8"),
        ("queue_max_len", "10000"),
        ("queue_max_delay", "10m"),
        ("state", "started"),
        ("persistent", "true"),
        ("file", "-"),
    ] {
        assert_eq!(column(batch, name), value, "{name}");
    }
    let migration = object(&document, "Pool", "migration");
    assert_eq!([column(migration, "state"), column(migration, "persistent")], ["stopped", "false"]);
    let per_user = object(&document, "Checkpoint", "per-user");
    for (name, value) in [
        ("at", "frontend api"),
        ("number", "10"),
        ("key", "user"),
        ("rate", "500/s"),
        ("burst", "50"),
        ("queue_max_total", "100000"),
        ("keys_max", "200000"),
        ("status", "429"),
        ("mode", "-"),
        ("persistent", "true"),
        ("file", "-"),
    ] {
        assert_eq!(column(per_user, name), value, "{name}");
    }
    let seen = object(&document, "Checkpoint", "seen");
    assert_eq!([column(seen, "rate"), column(seen, "concurrency")], ["-", "-"]);
    let tank = object(&document, "Resource", "zpool:tank");
    assert_eq!(tank.parents, ["disk:/dev/da0", "disk:/dev/da1"]);
    assert_eq!([column(tank, "persistent"), column(tank, "file")], ["true", "-"]);
}

#[test]
fn rules_are_in_the_text_form_and_go_on_in_steps_of_ten() {
    let document = read(EXAMPLE);
    let numbers: Vec<&str> =
        document.objects().iter().filter(|o| o.table == "Rule").map(|o| o.key.as_str()).collect();
    assert_eq!(numbers, ["10", "20", "30", "40", "100"]);
    for (number, criteria, action, then) in [
        ("10", "user glob etl-* and text glob \"select *\"", "lower 20", "stop"),
        ("20", "user exact nocase root and text regex '(?i)^drop\\s'", "reject", "stop"),
        ("30", "header.x-priority exact high and kind exact http", "raise 10", "continue"),
        ("40", "user glob a* and user glob *b", "set 5", "-"),
        ("100", "host exact nocase lab.example", "-", "-"),
    ] {
        let rule = object(&document, "Rule", number);
        let found = [column(rule, "criteria"), column(rule, "action"), column(rule, "then")];
        assert_eq!(found, [criteria, action, then], "{number}");
    }
    let behind = read("[[rule]]\nnumber = 7\n[[rule]]\n[[rule]]\nnumber = 3\n[[rule]]\n");
    let numbers: Vec<&str> = behind.objects().iter().map(|o| o.key.as_str()).collect();
    assert_eq!(numbers, ["7", "17", "3", "27"], "behind the highest before");
}

#[test]
fn every_way_to_write_the_same_criteria() {
    for rule in [
        "match = { user = 'a*', 'header.x-id' = '?' }\nmode = 'glob'",
        "match = { user = { glob = 'a*' }, header.x-id = { glob = '?' } }",
        "match = { user = 'a*', header = { x-id = '?' } }\nmode = 'glob'",
        "match = 'user  glob \"a*\"   and header.X-ID glob ?'",
        "match.user.glob = 'a*'\nmatch.header.x-id.glob = '?'",
        "mode = 'glob'\n[rule.match]\nuser = 'a*'\n[rule.match.header]\nx-id = '?'",
    ] {
        let document = read(&format!("[[rule]]\n{rule}\n"));
        let criteria = column(object(&document, "Rule", "10"), "criteria");
        assert_eq!(criteria, "user glob a* and header.x-id glob ?", "{rule}");
    }
}

#[test]
fn objects_may_be_written_in_one_line() {
    let document = read("resource = [{ name = 'a' }, { name = 'b', parents = ['a'] }]\n");
    let b = object(&document, "Resource", "b");
    assert_eq!(
        (b.place, b.parents.as_slice()),
        (Place { line: 1, column: 29 }, &["a".to_owned()][..])
    );
    assert_eq!(read("").objects(), []);
    assert_eq!(read("pool = []").objects(), []);
}

/// One number is the maximum, and a list has several patterns for one attribute.
#[test]
fn short_and_long_forms_mean_the_same() {
    let columns = |text: &str| read(text).objects()[0].columns.clone();
    for (short, long) in [
        ("[[pool]]\nname = 'p'\nthreads = 3\n", "[[pool]]\nname = 'p'\nthreads = { max = 3 }\n"),
        (
            "[[rule]]\nmatch = { user = ['a', { glob = 'b*' }], task = 'c' }\n",
            "[[rule]]\nmatch = 'user exact a and user glob b* and task exact c'\n",
        ),
    ] {
        assert_eq!(columns(short), columns(long), "{short}");
    }
}

#[test]
fn places_are_those_of_header_and_keys_in_characters() {
    let document =
        read("# ä\n\n  [[pool]]\n name = 'ä' # ö\n queue = { max_len = 1, max_delay = '1s' }\n");
    let pool = object(&document, "Pool", "ä");
    let place = |line, column| Place { line, column };
    assert_eq!(pool.place, place(3, 3));
    assert_eq!(pool.place_of("name"), place(4, 2));
    assert_eq!(pool.place_of("queue_max_delay"), place(5, 25));
    assert_eq!(pool.place_of("queue"), place(5, 2));
    assert_eq!(pool.place_of("group"), place(3, 3), "what the file does not say");
}

/// A setting without effect in this version is reported, for each object.
#[test]
fn settings_that_do_nothing_are_told() {
    let pool = "[[pool]]\nname = 'p'\npriority = [1, 2]\n";
    let told = |more: &str| read(&format!("{pool}{more}\n")).check().unwrap();
    for quiet in ["", "threads = { min = 0, max = 3 }", "threads = 3"] {
        assert_eq!(told(quiet), [], "{quiet}");
    }
    for (more, name) in [
        ("threads = { min = 2 }", "threads.min"),
        ("group = 'g'", "group"),
        ("stack_bytes = 4096", "stack_bytes"),
        ("heap_bytes_max = 4096", "heap_bytes_max"),
    ] {
        let [one] = &told(more)[..] else { panic!("{more}: {:?}", told(more)) };
        let one = one.to_string();
        assert!(one.starts_with(&format!("line 4: pool \"p\": {name} does nothing: ")), "{one}");
    }
}
