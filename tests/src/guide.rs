//! Guides with commands: which blocks are run, and what output is expected.
//!
//! A comment before a block says what to do with it: `run` (with `exit N` if it must exit so), `serve` (in the
//! background, until the end), `background` (until `enter`, which presses that key there and compares the output),
//! `file NAME` (written to a file), `shows` (compared with the output of the previous block). Blocks without a
//! comment are only for readers.

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Run commands, which must exit with this code.
    Run(String, i32),
    /// Start the daemon.
    Serve(String),
    /// Start commands that continue to run.
    Background(String),
    /// Press Enter there, and compare their output.
    Enter(String),
    /// Write a file.
    File(String, String),
    /// Compare the last output.
    Shows(String),
}

/// The steps of a guide, each with its line.
///
/// # Panics
/// If a comment is unknown, or has no block.
#[must_use]
pub fn steps(text: &str) -> Vec<(usize, Step)> {
    let mut steps = vec![];
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let mark = line.strip_prefix("<!-- ").and_then(|line| line.strip_suffix(" -->"));
        let Some(mark) = mark else { continue };
        let fence = lines.next().map_or("", |(_, line)| line);
        assert!(fence.starts_with("```"), "line {}: no block follows", at + 1);
        let block: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        steps.push((at + 1, step(mark, block.join("\n"))));
    }
    steps
}

fn step(mark: &str, block: String) -> Step {
    let words: Vec<&str> = mark.split(' ').collect();
    match words.as_slice() {
        ["run"] => Step::Run(block, 0),
        ["run", "exit", code] => Step::Run(block, code.parse().expect("an exit code")),
        ["serve"] => Step::Serve(block),
        ["background"] => Step::Background(block),
        ["enter"] => Step::Enter(block),
        ["file", name] => Step::File((*name).to_owned(), block),
        ["shows"] => Step::Shows(block),
        _ => panic!("nobody knows <!-- {mark} -->"),
    }
}

/// Whether a text matches what a guide shows: `...` in a line matches any text, and alone any lines.
#[must_use]
pub fn fits(shown: &str, actual: &str) -> bool {
    let shown: Vec<&str> = shown.lines().map(str::trim_end).collect();
    let actual: Vec<&str> = actual.lines().map(str::trim_end).collect();
    lines_fit(&shown, &actual)
}

fn lines_fit(shown: &[&str], actual: &[&str]) -> bool {
    match shown.split_first() {
        None => actual.is_empty(),
        Some((&"...", rest)) => {
            (0..=actual.len()).any(|skip| lines_fit(rest, actual.get(skip..).unwrap_or_default()))
        }
        Some((first, rest)) => actual
            .split_first()
            .is_some_and(|(line, left)| line_fits(first, line) && lines_fit(rest, left)),
    }
}

fn line_fits(shown: &str, actual: &str) -> bool {
    let mut parts = shown.split("...");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = actual.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::{Step, fits, steps};

    #[test]
    fn marked_blocks_are_steps() {
        let text = "a\n<!-- run exit 3 -->\n```sh\nx\ny\n```\n```sh\nz\n```\n<!-- shows -->\n```text\nq\n```\n";
        let expected = [(2, Step::Run("x\ny".into(), 3)), (10, Step::Shows("q".into()))];
        assert_eq!(steps(text), expected);
    }

    #[test]
    fn dots_stand_for_what_differs() {
        for (shown, actual, expected) in [
            ("a", "a\n", true),
            ("a", "b", false),
            ("a", "a\nb", false),
            ("a ... b", "a 1 b", true),
            ("a ... b", "a b", false),
            ("a...", "a", true),
            ("a...b...c", "a1b2c", true),
            ("a...b...c", "a1c", false),
            ("...\nb", "x\ny\nb", true),
            ("...\nb", "b", true),
            ("...\nb", "x", false),
            ("a\n...", "a\nb\nc", true),
        ] {
            assert_eq!(fits(shown, actual), expected, "{shown:?} {actual:?}");
        }
    }
}
