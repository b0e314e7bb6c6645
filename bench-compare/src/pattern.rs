//! The small regular expressions of `--load`.
//!
//! Owns matching of `.`, `*`, `^`, `$` and `|` on short names. It never captures and has no classes or groups. The
//! names of loads need none, and a regex library would be one more dependency.

/// A pattern from the command line.
#[derive(Debug, Clone)]
pub struct Pattern(Vec<Vec<char>>);

impl Pattern {
    /// Parses `text`; every text is a valid pattern.
    pub fn new(text: &str) -> Self {
        Self(text.split('|').map(|branch| branch.chars().collect()).collect())
    }

    /// Whether the pattern matches anywhere in `name`.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        self.0.iter().any(|branch| match branch.split_first() {
            Some(('^', rest)) => here(rest, &name),
            _ => (0..=name.len()).any(|start| here(branch, &name[start..])),
        })
    }
}

fn here(pattern: &[char], text: &[char]) -> bool {
    match pattern {
        [] => true,
        ['$'] => text.is_empty(),
        [letter, '*', rest @ ..] => (0..=text.len())
            .take_while(|&n| n == 0 || fits(*letter, text[n - 1]))
            .any(|n| here(rest, &text[n..])),
        [letter, rest @ ..] => match text.split_first() {
            Some((first, tail)) => fits(*letter, *first) && here(rest, tail),
            None => false,
        },
    }
}

fn fits(letter: char, found: char) -> bool {
    letter == '.' || letter == found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_the_help_promises() {
        let cases = [
            ("insert", "insert-single", true),
            ("^single", "insert-single", false),
            ("single$", "insert-single", true),
            ("^i.*e$", "insert-single", true),
            ("lock|stall", "stall-compact", true),
            ("lock|stall", "memory", false),
            ("", "memory", true),
            ("e*x", "memory", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(Pattern::new(pattern).matches(name), expected, "{pattern} on {name}");
        }
    }
}
