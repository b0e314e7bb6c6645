//! Sizes: a file of more than 600 lines or a function of more than 70 hides a second concept. Tests do not count.
//! `long.txt` lists functions that are better left whole, with the reason.
//!
//! Functions are found by their indentation, which rustfmt keeps.

use crate::{Offence, numbered, repo, report};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const EXCEPTIONS: &str = "tidy/long.txt";

struct Function<'a> {
    name: &'a str,
    line: usize,
    lines: usize,
}

/// One line of `long.txt`.
struct Exception<'a> {
    path: &'a str,
    name: &'a str,
    line: usize,
}

fn functions(code: &str) -> Vec<Function<'_>> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = vec![];
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let ends = |line: &&&str| line.ends_with(['{', '}', ';']);
        let Some(opening) = lines[start..].iter().find(ends) else { continue };
        if !opening.ends_with('{') {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let close = |line: &&str| line.strip_prefix(indent).is_some_and(|rest| rest == "}");
        let Some(length) = lines[start..].iter().position(close) else { continue };
        found.push(Function { name, line: start + 1, lines: length + 1 });
    }
    found
}

fn function_name(line: &str) -> Option<&str> {
    let mut words = line.trim_start().split(' ');
    let before = |word: &str| {
        word.starts_with("pub") || matches!(word, "const" | "async" | "unsafe" | "extern" | "\"C\"")
    };
    // `pub(in some::path)` contains a space and is not used here.
    let keyword = words.find(|word| !before(word))?;
    let name = words.next().filter(|_| keyword == "fn")?;
    name.split(['(', '<']).next()
}

fn exceptions(text: &str) -> (Vec<Exception<'_>>, Vec<Offence>) {
    let (mut found, mut offences) = (vec![], vec![]);
    for (line, text) in numbered(text).filter(|(_, text)| !text.starts_with('#')) {
        let mut words = text.split_whitespace();
        match (words.next(), words.next(), words.count()) {
            (Some(path), Some(name), 3..) => found.push(Exception { path, name, line }),
            (None, ..) => {}
            _ => offences.push(Offence::new(EXCEPTIONS, line, "wants path, function and reason")),
        }
    }
    (found, offences)
}

fn long_functions<'a>(path: &str, code: &'a str) -> Vec<Function<'a>> {
    if repo::is_test(path) {
        return vec![];
    }
    functions(code).into_iter().filter(|f| f.lines > FUNCTION_LINES_MAX).collect()
}

#[test]
fn files_are_short() {
    let lines = |file: &repo::File| repo::split_tests(&file.text).0.lines().count();
    let files = repo::rust();
    let long = files.iter().filter(|f| !repo::is_test(&f.path) && lines(f) > FILE_LINES_MAX);
    report(long.map(|f| Offence::new(&f.path, 1, format!("{} lines", lines(f)))).collect());
}

#[test]
fn functions_are_short() {
    let text = repo::text(EXCEPTIONS);
    let (exceptions, mut offences) = exceptions(&text);
    let mut used = vec![];
    for file in repo::rust() {
        for long in long_functions(&file.path, repo::split_tests(&file.text).0) {
            match exceptions.iter().find(|e| e.path == file.path && e.name == long.name) {
                Some(exception) => used.push(exception.line),
                None => {
                    let what = format!("fn {} has {} lines", long.name, long.lines);
                    offences.push(Offence::new(&file.path, long.line, what));
                }
            }
        }
    }
    let idle = exceptions.iter().filter(|exception| !used.contains(&exception.line));
    offences.extend(idle.map(|e| Offence::new(EXCEPTIONS, e.line, "is not needed any more")));
    report(offences);
}

#[test]
fn long_functions_are_found() {
    let body = "        x();\n".repeat(FUNCTION_LINES_MAX - 2);
    let fits = format!("impl A {{\n    pub(crate) async fn f<T>(\n{body}    }}\n}}\n");
    let fits = fits.replacen("(\n        x();", "(\n    ) {", 1);
    assert_eq!(functions(&fits)[0].lines, FUNCTION_LINES_MAX);
    assert!(long_functions("a.rs", &fits).is_empty());
    let long = fits.replacen("{\n        x", "{\n\n        x", 1);
    assert_eq!(long_functions("a.rs", &long)[0].name, "f");
    assert_eq!(long_functions("a.rs", &long)[0].line, 2);
    assert!(long_functions("tests/a.rs", &long).is_empty());
    assert!(functions("trait A {\n    fn f();\n    fn g() {}\n}\n").is_empty());
}

#[test]
fn exceptions_want_a_reason() {
    let (found, offences) = exceptions("# head\n\na.rs f it is one table\nb.rs g\n");
    assert_eq!(found.len(), 1);
    assert_eq!(crate::lines(&offences), [4]);
}
