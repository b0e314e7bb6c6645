//! The files of the repository: those that git tracks or would track, or all files if there is no git. Never build
//! output, and never files that git ignores.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders that the walk skips.
const SKIPPED: [&str; 5] = ["target", ".git", "artifacts", "coverage", "node_modules"];

/// One text file, its path relative to the repository with forward slashes.
pub struct File {
    pub path: String,
    pub text: String,
}

/// The repository's folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All text files, in path order. Files that are not UTF-8 are not text.
pub fn files() -> Vec<File> {
    let root = root();
    let mut paths = listed(&root).unwrap_or_else(|| walked(&root));
    paths.sort();
    paths.dedup();
    let read = |path: String| {
        let text = String::from_utf8(std::fs::read(root.join(&path)).ok()?).ok()?;
        (!text.contains('\0')).then_some(File { path, text })
    };
    let files: Vec<File> = paths.into_iter().filter_map(read).collect();
    assert!(files.iter().any(|file| file.path == "Cargo.toml"), "the repository is not there");
    files
}

/// One file's text, empty if there is no such file.
pub fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_default()
}

/// The Rust files.
pub fn rust() -> Vec<File> {
    files().into_iter().filter(|file| file.path.ends_with(".rs")).collect()
}

/// The manifests of all packages except the root's.
pub fn manifests() -> Vec<File> {
    files().into_iter().filter(|file| file.path.ends_with("/Cargo.toml")).collect()
}

/// Whether a whole file is for tests: it is in a folder `tests` or `testdata`, or is named `tests.rs`.
pub fn is_test(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "testdata" | "tests.rs"))
}

/// Splits a Rust file into code and the tests at its end.
pub fn split_tests(text: &str) -> (&str, &str) {
    let mut from = 0;
    while let Some(found) = text[from..].find("#[cfg(test)]\nmod ") {
        let at = from + found;
        if at == 0 || text[..at].ends_with('\n') {
            return text.split_at(at);
        }
        from = at + 1;
    }
    (text, "")
}

fn listed(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<String> = text.split('\0').filter(|p| !p.is_empty()).map(String::from).collect();
    (output.status.success() && !paths.is_empty()).then_some(paths)
}

fn walked(root: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            match entry.file_type() {
                Ok(kind) if kind.is_file() => paths.push(path),
                Ok(kind) if kind.is_dir() && !SKIPPED.contains(&&*name) => folders.push(path),
                _ => {}
            }
        }
    }
    paths
}

#[test]
fn git_and_walk_find_this_file() {
    let here = "tidy/src/repo.rs".to_string();
    assert!(walked(&root()).contains(&here));
    assert!(listed(&root()).is_none_or(|paths| paths.contains(&here)));
}

#[test]
fn tests_are_told_from_code() {
    assert!(is_test("tests/a.rs") && is_test("crates/a/tests/it/b.rs") && is_test("c/tests.rs"));
    assert!(!is_test("crates/a/src/contests.rs"));
    assert_eq!(split_tests("a\n#[cfg(test)]\nmod t {\n"), ("a\n", "#[cfg(test)]\nmod t {\n"));
    assert_eq!(split_tests("a\n#[cfg(test)]\nuse b;\n").1, "");
}
