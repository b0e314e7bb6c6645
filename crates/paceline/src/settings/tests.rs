//! Checks that every setting of the catalogue has a flag, and that texts become the JSON of the API.

use super::form::{Form, read};
use super::{Checkpoint, Described, NewRule, Pool, Resource, Settings, flags};
use clap::{Args as _, Command, FromArgMatches as _};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn read_all<K: Described>(words: &[&str]) -> Value {
    let command = Settings::<K>::augment_args(Command::new("x"));
    let matches = command.try_get_matches_from([&["x"], words].concat()).unwrap();
    Value::Object(Settings::<K>::from_arg_matches(&matches).unwrap().members())
}

#[test]
fn every_setting_of_every_object_has_one_flag_with_its_sentence() {
    for kind in paceline_catalogue::KINDS {
        let flags = flags(kind, true);
        let names: BTreeSet<String> = flags.iter().map(super::Flag::long).collect();
        assert_eq!(names.len(), flags.len(), "{}", kind.word);
        for setting in kind.settings.iter().filter(|setting| setting.is_in_api()) {
            let own = flags.iter().filter(|flag| flag.path == setting.name);
            assert!(own.count() == 1 || !setting.inner().is_empty(), "{}", setting.name);
            for inner in setting.inner() {
                let path = format!("{}.{}", setting.name, inner.name);
                let flag = flags.iter().find(|flag| flag.path == path).unwrap();
                let sentence = inner.doc.trim_end_matches('.').replace('`', "");
                assert!(flag.help().contains(&sentence), "{path}");
            }
        }
        Settings::<Pool>::augment_args(Command::new("x")).debug_assert();
    }
}

#[test]
fn texts_become_the_objects_of_the_api() {
    assert_eq!(
        read_all::<Pool>(&[
            "--priority",
            "-127..-1",
            "--threads-max",
            "8",
            "--queue-max-delay",
            "90s"
        ]),
        json!({"priority": [-127, -1], "threads": {"max": 8}, "queue": {"max_delay": "90s"}})
    );
    assert_eq!(read_all::<Pool>(&["--threads", "0..8"]), json!({"threads": {"min": 0, "max": 8}}));
    assert_eq!(
        read_all::<Checkpoint>(&[
            "--at",
            "pool a",
            "--rate",
            "3 per 10s",
            "--persistent",
            "--status=429"
        ]),
        json!({"at": "pool a", "rate": "3 per 10s", "persistent": true, "status": 429})
    );
    assert_eq!(
        read_all::<NewRule>(&[
            "--match", "user=a*", "--match", "user=*b", "--match", "kind=x", "--number", "7"
        ]),
        json!({"match": {"user": ["a*", "*b"], "kind": "x"}, "number": 7})
    );
    assert_eq!(
        read_all::<Resource>(&["--parents", "a", "--parents", "b", "--persistent=false"]),
        json!({"parents": ["a", "b"], "persistent": false})
    );
    assert_eq!(
        read_all::<super::Frontend>(&[
            "--upgrades",
            "[]",
            "--errors",
            "503=/f",
            "--timeouts-idle",
            "1s"
        ]),
        json!({"upgrades": [], "errors": {"503": "/f"}, "timeouts": {"idle": "1s"}})
    );
    assert_eq!(
        read_all::<super::Backend>(&["--health", "--health-path", "/up", "--tls"]),
        json!({"health": {"path": "/up"}, "tls": true})
    );
}

#[test]
fn a_text_that_cannot_be_read_says_what_was_expected() {
    for (form, text, expected) in [
        (Form::Integer(1, 9), "10", "from 1 to 9"),
        (Form::Integer(1, i64::MAX), "0", "from 1"),
        (Form::Range, "8..0", "lower"),
        (Form::Range, "8", "such as 0..8"),
        (Form::Pairs(""), "x", "name=value"),
        (Form::Json, "{", "JSON"),
    ] {
        let error = read(form, text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
