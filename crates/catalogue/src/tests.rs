//! Checks that the catalogue is complete, and that the reference page is generated from it.

use crate::{Default, Holds, KINDS, Setting, reference};
use std::collections::BTreeSet;
use std::path::Path;

fn all(settings: &'static [Setting]) -> Vec<&'static Setting> {
    settings.iter().flat_map(|setting| [vec![setting], all(setting.inner())].concat()).collect()
}

/// `REFERENCE_UPDATE=1` writes the page.
#[test]
fn the_reference_page_is_made_from_the_catalogue() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference.md");
    let page = reference();
    if std::env::var_os("REFERENCE_UPDATE").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference.md is out of date: run the tests with REFERENCE_UPDATE=1"
    );
}

#[test]
fn every_setting_says_what_it_does_in_a_sentence() {
    for kind in KINDS {
        for setting in all(kind.settings) {
            let Setting { name, doc, .. } = setting;
            let first = doc.chars().next();
            assert!(first.is_some_and(|c| c.is_uppercase() || c == '`'), "{name}: {doc:?}");
            assert!(doc.ends_with('.'), "{name}: {doc:?}");
        }
        for figure in kind.figures {
            assert!(figure.doc.ends_with('.'), "{}: {:?}", figure.name, figure.doc);
        }
    }
}

#[test]
fn names_are_unique_and_the_id_is_a_setting() {
    for kind in KINDS {
        let names: BTreeSet<&str> = kind.settings.iter().map(|setting| setting.name).collect();
        assert_eq!(names.len(), kind.settings.len(), "{}", kind.word);
        assert!(kind.id.is_empty() || kind.setting(kind.id).is_some(), "{}", kind.word);
    }
}

/// An example differs from the default.
#[test]
fn examples_are_no_defaults() {
    for setting in KINDS.into_iter().flat_map(|kind| all(kind.settings)) {
        let example = setting.example();
        assert_eq!(example.is_none(), matches!(setting.holds, Holds::Table(_)), "{}", setting.name);
        // Objects that the API and the command line create are transient and stopped by default.
        if !["persistent", "started"].contains(&setting.name) {
            let is_default = example.is_some_and(|text| setting.is_default(&text));
            assert!(!is_default, "{}", setting.name);
        }
    }
}

/// A default that is a number is valid for its setting.
#[test]
fn defaults_are_values_of_their_settings() {
    for setting in KINDS.into_iter().flat_map(|kind| all(kind.settings)) {
        let Default::Value(value) = setting.default else { continue };
        match setting.holds {
            Holds::Integer(min, max) => {
                let number: i64 = value.parse().unwrap();
                assert!((min..=max).contains(&number), "{}", setting.name);
            }
            Holds::Flag(_) | Holds::Choice => assert!(["true", "false"].contains(&value)),
            Holds::OneOf(words) => {
                assert!(words.contains(&value.trim_matches('"')), "{}: {value}", setting.name);
            }
            _ => {}
        }
    }
}
