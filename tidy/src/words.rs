//! What every file must contain and what none may contain: module headers, unfinished work, and paths that exist on
//! one machine only. The words are written in two halves so that this file passes its own check.

use crate::{Offence, numbered, repo, report};

/// Marks of unfinished work.
const UNFINISHED: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("unimplemented", "!("),
    concat!("todo", "!("),
    concat!("dbg", "!("),
];

/// Folders of one machine. They count only at the beginning of a path.
const FOLDERS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Hosts of package registries.
const HOSTS: &[&str] = &[
    concat!("://crates", ".io"),
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
];

/// The one source that `Cargo.lock` may name.
const SOURCE: &str = concat!("registry+https://github.com/rust-lang/crates", ".io-index");

fn unfinished(path: &str, text: &str) -> Vec<Offence> {
    let found = |line: &str| UNFINISHED.iter().find(|word| line.contains(**word));
    numbered(text)
        .filter_map(|(number, line)| Some(Offence::new(path, number, *found(line)?)))
        .collect()
}

fn places(path: &str, text: &str) -> Vec<Offence> {
    let folder = |line: &str| FOLDERS.iter().find(|word| begins(line, word));
    let host = |line: &str| HOSTS.iter().find(|word| line.contains(**word));
    numbered(text)
        .filter_map(|(number, line)| {
            Some(Offence::new(path, number, *folder(line).or_else(|| host(line))?))
        })
        .collect()
}

/// Whether the line contains a path that starts with `folder`. `docs/folder/` is a different path.
fn begins(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !(c.is_alphanumeric() || "_-.~})".contains(c)))
    })
}

fn sources(path: &str, text: &str) -> Vec<Offence> {
    numbered(text)
        .filter_map(|(number, line)| {
            let source = line.strip_prefix("source = ")?.trim_matches('"');
            (source != SOURCE).then(|| Offence::new(path, number, format!("source {source}")))
        })
        .collect()
}

#[test]
fn modules_open_with_a_header() {
    let module = |path: &str| {
        let in_crates = path.starts_with("crates/") && path.split('/').nth(2) == Some("src");
        in_crates || path.starts_with("tidy/src/")
    };
    let files = repo::rust().into_iter();
    let bare = files.filter(|file| module(&file.path) && !file.text.starts_with("//! "));
    report(bare.map(|file| Offence::new(&file.path, 1, "does not open with //!")).collect());
}

#[test]
fn work_is_finished() {
    report(repo::rust().iter().flat_map(|file| unfinished(&file.path, &file.text)).collect());
}

#[test]
fn no_place_of_one_machine_is_named() {
    let mut offences: Vec<_> =
        repo::files().iter().flat_map(|file| places(&file.path, &file.text)).collect();
    offences.extend(sources("Cargo.lock", &repo::text("Cargo.lock")));
    report(offences);
}

#[test]
fn words_are_found() {
    for word in UNFINISHED {
        assert_eq!(crate::lines(&unfinished("a.rs", &format!("\n// {word} x)\n"))), [2], "{word}");
    }
    assert_eq!(unfinished("a.rs", "let todos = debug!();"), []);
    for folder in FOLDERS {
        for text in [format!("cd {folder}x"), format!("\"{folder}\""), format!("file://{folder}")] {
            assert_eq!(crate::lines(&places("a.md", &text)), [1], "{text}");
        }
        assert_eq!(places("a.md", &format!("docs{folder}x")), []);
    }
    for host in HOSTS {
        assert_eq!(crate::lines(&places("a.md", &format!("https://{host}/x"))), [1], "{host}");
    }
    let lock = format!("source = \"{SOURCE}\"\nsource = \"sparse+https://elsewhere/\"\n");
    assert_eq!(crate::lines(&sources("Cargo.lock", &lock)), [2]);
}
