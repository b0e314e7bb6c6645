//! Promises and their proofs: every promise with the state `held` in `SECURITY.md` must be named by a test.
//!
//! `SECURITY.md` lists promises in tables. A row with a cell `held` counts, and the ids in its first cell are the
//! promises. An id is a capital letter and a number, such as `L1`.

use crate::{Offence, numbered, repo, report};

const PAGE: &str = "SECURITY.md";

/// The ids of all held promises, with their lines.
fn held(page: &str) -> Vec<(usize, String)> {
    let mut found = vec![];
    for (line, row) in numbered(page).filter(|(_, row)| row.starts_with('|')) {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let first = cells.next().unwrap_or_default();
        if cells.any(|cell| cell == "held") {
            found.extend(ids(first).map(|id| (line, id.to_string())));
        }
    }
    found
}

/// The ids in a text, each as a whole word.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| is_id(word))
}

fn is_id(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next().is_some_and(|c| c.is_ascii_uppercase())
        && word.len() > 1
        && letters.all(|c| c.is_ascii_digit())
}

/// The text of all tests: whole test files of any kind, and the tests at the end of Rust files.
fn tests() -> String {
    let mut all = String::new();
    for file in repo::files() {
        // The checks in this crate are tests too, except for this file, which names ids only as examples.
        let is_check = file.path.starts_with("tidy/") && file.path != "tidy/src/promises.rs";
        if repo::is_test(&file.path) || is_check {
            all += &file.text;
        } else if file.path.ends_with(".rs") && !file.path.starts_with("tidy/") {
            all += repo::split_tests(&file.text).1;
        }
        all.push('\n');
    }
    all
}

#[test]
fn held_promises_are_proven() {
    let tests = tests();
    let named: Vec<&str> = ids(&tests).collect();
    let held = held(&repo::text(PAGE));
    if held.is_empty() {
        report(vec![Offence::new(PAGE, 1, "no promise is listed as held")]);
    }
    let unproven = held.into_iter().filter(|(_, id)| !named.contains(&id.as_str()));
    let offence = |(line, id)| Offence::new(PAGE, line, format!("no test names {id}"));
    report(unproven.map(offence).collect());
}

#[test]
fn held_rows_are_read() {
    let page = "| id | state |\n|---|---|\n| L1, L2 | held | tests |\n| `J4` | held |\n\
                | C1 | later |\n| X9 | upheld |\nL5 | held |\n";
    let expected = [(3, "L1"), (3, "L2"), (4, "J4")];
    assert_eq!(held(page), expected.map(|(line, id)| (line, id.to_string())));
    assert_eq!(ids("L1: XL2 L3x L, (J10) SHA1 U_1").collect::<Vec<_>>(), ["L1", "J10"]);
}
