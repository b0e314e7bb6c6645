//! Reads scripts, and compares their expectations with what happens.

use crate::world::World;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[test]
fn scripts() {
    let only = setting("SCRIPT").unwrap_or_default();
    let update = setting("SCRIPT_UPDATE").is_some();
    let mut wrong = String::new();
    let mut commands = 0;
    for path in files() {
        if !path.to_string_lossy().contains(&only) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let (actual, count) = play(&text);
        commands += count;
        if update {
            std::fs::write(&path, &actual).unwrap();
        } else if actual != text {
            let _ = writeln!(wrong, "{}:\n{}", path.display(), first_difference(&text, &actual));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(commands > 0, "no script was played");
}

/// The test is not part of the engine, which reads no environment.
#[allow(clippy::disallowed_methods)]
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    files
}

/// The script with the answers that the engine gives, and how many commands it has.
pub fn play(text: &str) -> (String, usize) {
    let mut world = World::new();
    let (mut out, mut count) = (String::new(), 0);
    for line in text.lines() {
        if line.trim_start().starts_with("->") {
            continue;
        }
        let _ = writeln!(out, "{line}");
        let command = line.trim();
        if command.is_empty() || command.starts_with('#') {
            continue;
        }
        count += 1;
        if command == "new" {
            world = World::new();
            continue;
        }
        for answer in world.command(command) {
            let _ = writeln!(out, "  -> {answer}");
        }
    }
    (out, count)
}

/// Plays a script and compares all its answers.
pub fn holds(text: &str) {
    let (actual, count) = play(text);
    assert!(count > 0, "no command");
    assert_eq!(actual, text);
}

fn first_difference(expected: &str, actual: &str) -> String {
    let (expected, actual): (Vec<_>, Vec<_>) =
        (expected.lines().collect(), actual.lines().collect());
    let at = expected.iter().zip(&actual).take_while(|(a, b)| a == b).count();
    let show =
        |lines: &[&str]| lines[at.saturating_sub(4)..(at + 4).min(lines.len())].join("\n    ");
    format!(
        "  line {}\n  expected:\n    {}\n  actual:\n    {}",
        at + 1,
        show(&expected),
        show(&actual)
    )
}
