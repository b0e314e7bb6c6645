//! House style, enforced by tests. Each check is one test, which lists every offence with its place.
//!
//! A check is a function from a path and a text to offences, so that tests can show that it finds them. This crate
//! never changes a file and depends only on the standard library and, if available, git.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod layers;
mod lints;
mod manifest;
mod papers;
mod promises;
mod repo;
mod size;
mod words;

/// One breach of the house style: where it is, and what it is.
#[derive(Debug, PartialEq, Eq)]
struct Offence {
    path: String,
    line: usize,
    what: String,
}

impl Offence {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Offence {
        Offence { path: path.into(), line, what: what.into() }
    }
}

/// Fails and prints the whole list unless it is empty.
fn report(offences: Vec<Offence>) {
    let lines: Vec<String> =
        offences.iter().map(|o| format!("{}:{}: {}", o.path, o.line, o.what)).collect();
    assert!(lines.is_empty(), "{} found\n{}", lines.len(), lines.join("\n"));
}

/// The lines of a text with their numbers, counted from one.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// For the tests of the checks: the lines with offences.
#[cfg(test)]
fn lines(offences: &[Offence]) -> Vec<usize> {
    offences.iter().map(|offence| offence.line).collect()
}
