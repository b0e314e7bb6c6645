//! The documentation: links must lead to existing files, each dependency needs a reason, and the commands that a
//! newcomer needs must be present.

use std::collections::BTreeMap;

use crate::manifest::dependencies;
use crate::{Offence, numbered, repo, report};

/// The link targets of a page with their lines, outside of code.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = vec![];
    let mut fenced = false;
    for (number, line) in numbered(text) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let line = without_code(line);
        for (at, _) in line.match_indices("](") {
            found.extend(target(&line[at + 2..], ')').map(|target| (number, target)));
        }
        if let Some((_, rest)) = line.split_once("]: ").filter(|_| line.starts_with('[')) {
            found.extend(target(rest, '\n').map(|target| (number, target)));
        }
    }
    found
}

/// The line without the text between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The file of a relative link, without title and anchor.
fn target(rest: &str, end: char) -> Option<String> {
    let whole = rest.split(end).next()?.split_whitespace().next()?.trim_matches(['<', '>']);
    let path = whole.split('#').next()?;
    let elsewhere = whole.contains("://") || whole.starts_with("mailto:");
    (!path.is_empty() && !elsewhere).then(|| path.to_string())
}

/// Every external package that the workspace depends on, with one place that names it.
fn direct_dependencies() -> BTreeMap<String, (String, usize)> {
    let mut found = BTreeMap::new();
    for file in repo::files().iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        for dependency in dependencies(&file.text).into_iter().filter(|d| d.room().is_none()) {
            found.entry(dependency.name).or_insert((file.path.clone(), dependency.line));
        }
    }
    found
}

#[test]
fn links_lead_somewhere() {
    let mut offences = vec![];
    for file in repo::files().iter().filter(|file| file.path.ends_with(".md")) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (line, target) in links(&file.text) {
            if target.starts_with('/') || !repo::root().join(folder).join(&target).exists() {
                offences.push(Offence::new(&file.path, line, format!("dead link {target}")));
            }
        }
    }
    report(offences);
}

#[test]
fn every_dependency_has_its_reason() {
    let page = repo::text("ARCHITECTURE.md");
    let unnamed =
        direct_dependencies().into_iter().filter(|(name, _)| !page.contains(&format!("`{name}`")));
    let offence = |(name, (path, line)): (String, (String, usize))| {
        Offence::new(&path, line, format!("`{name}` is not in ARCHITECTURE.md"))
    };
    report(unnamed.map(offence).collect());
}

#[test]
fn papers_say_what_they_must() {
    let wanted = [
        ("README.md", "cargo run --release -- serve"),
        ("README.md", "./test"),
        ("CHANGELOG.md", "#"),
        ("ARCHITECTURE.md", "#"),
        ("CONTRIBUTING.md", "./test"),
        ("SECURITY.md", "#"),
    ];
    let absent = wanted.into_iter().filter(|(path, words)| !repo::text(path).contains(words));
    report(absent.map(|(path, words)| Offence::new(path, 1, format!("lacks {words:?}"))).collect());
}

#[test]
fn links_are_found() {
    let page = "[a](b.md) [c](d.md#e \"f\") [g](#h) `[i](j)` [k](https://l/m)\n\
                ```\n[n](o)\n```\n[p]: q.md\n![r](<s.png>)\n";
    let expected = [(1, "b.md"), (1, "d.md"), (5, "q.md"), (6, "s.png")];
    assert_eq!(links(page), expected.map(|(line, target)| (line, target.to_string())));
}
