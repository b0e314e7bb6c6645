//! What the compiler and clippy must forbid: unsafe code in all crates except `groups`, and in pure crates everything
//! that can make two runs differ (promise X2).

use crate::layers::PURE;
use crate::{Offence, numbered, repo, report};

/// What the `clippy.toml` of each pure crate must ban.
const BANNED: &[&str] = &[
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::thread::spawn",
    "std::env::var",
    "std::sync::Mutex",
    "std::sync::RwLock",
    "std::collections::HashMap",
    "std::collections::HashSet",
];

fn missing_bans(path: &str, text: &str) -> Vec<Offence> {
    let bans = |ban: &&&str| {
        numbered(text).any(|(_, line)| {
            !line.trim_start().starts_with('#')
                && line.contains(&format!("path = \"{ban}\""))
                && line.contains("reason = ")
        })
    };
    let missing = BANNED.iter().filter(|ban| !bans(ban));
    missing.map(|ban| Offence::new(path, 1, format!("does not ban {ban} with a reason"))).collect()
}

/// Whether a package inherits the workspace's lints.
fn inherits(text: &str) -> bool {
    let after = text.lines().skip_while(|line| line.trim() != "[lints]").skip(1);
    after.take_while(|line| !line.starts_with('[')).any(|line| line.trim() == "workspace = true")
}

/// The lines where a file mentions the lint on unsafe code, other than to forbid it again.
fn overrides(path: &str, text: &str) -> Vec<Offence> {
    let word = concat!("unsafe", "_code");
    let again = format!("#![forbid({word})]");
    numbered(text)
        .filter(|(_, line)| line.contains(word) && line.trim() != again)
        .map(|(line, _)| Offence::new(path, line, format!("overrides {word}")))
        .collect()
}

#[test]
fn pure_crates_ban_what_is_not_pure() {
    let manifests = repo::manifests();
    let there = |name: &&&str| {
        let path = format!("crates/{name}/Cargo.toml");
        manifests.iter().any(|file| file.path == path)
    };
    let check = |name: &&str| {
        let path = format!("crates/{name}/clippy.toml");
        missing_bans(&path, &repo::text(&path))
    };
    report(PURE.iter().filter(there).flat_map(check).collect());
}

#[test]
fn unsafe_is_forbidden() {
    let mut offences = vec![];
    if !repo::text("Cargo.toml").contains(concat!("\nunsafe", "_code = \"forbid\"\n")) {
        offences.push(Offence::new("Cargo.toml", 1, "the workspace does not forbid unsafe code"));
    }
    for file in repo::files() {
        // Fuzz targets are outside the workspace; `groups` is the only crate with unsafe code.
        if file.path.starts_with("crates/groups/") || file.path.starts_with("fuzz/") {
            continue;
        }
        if file.path.ends_with("/Cargo.toml") && !inherits(&file.text) {
            offences.push(Offence::new(&file.path, 1, "no [lints] with workspace = true"));
        }
        if file.path.ends_with(".rs") || file.path.ends_with("/Cargo.toml") {
            offences.extend(overrides(&file.path, &file.text));
        }
    }
    report(offences);
}

#[test]
fn missing_lints_are_found() {
    assert_eq!(missing_bans("clippy.toml", "").len(), BANNED.len());
    let one = "{ path = \"std::sync::Mutex\", reason = \"x\" },\n# path = \"std::env::var\"";
    assert_eq!(missing_bans("clippy.toml", one).len(), BANNED.len() - 1);
    assert!(inherits("[package]\n[lints]\nworkspace = true\n"));
    assert!(!inherits("[lints]\n[other]\nworkspace = true\n"));
    let word = concat!("unsafe", "_code");
    let text = format!("#![forbid({word})]\n#![allow({word})]\n");
    assert_eq!(crate::lines(&overrides("a.rs", &text)), [2]);
}
