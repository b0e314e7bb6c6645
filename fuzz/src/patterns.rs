//! Patterns of rules: our matcher and its index match exactly what `regex-automata` matches (promise R3).
//!
//! An input is a letter, a pattern and, on the next line, a value. `g` is a glob, `r` a regular expression; a capital
//! letter ignores case.

use crate::expression::World;
use paceline_rules::{Action, Criterion, PatternMode, Rule, Ruleset, Then};
use paceline_types::{Attributes, Known, Name};
use regex_automata::meta::Regex;
use regex_automata::util::syntax;

/// A single rule is matched directly; this many rules use an index.
const LENGTHS: [u32; 2] = [1, 20];

/// Compiles a pattern and matches a value in both ways.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some((head, value)) = text.split_once('\n') else { return };
    let (mode, nocase, pattern) = match head.split_at_checked(1) {
        Some(("g", pattern)) => (PatternMode::Glob, false, pattern),
        Some(("G", pattern)) => (PatternMode::Glob, true, pattern),
        Some(("r", pattern)) => (PatternMode::Regex, false, pattern),
        Some(("R", pattern)) => (PatternMode::Regex, true, pattern),
        _ => return,
    };
    let attribute = Name::Known(Known::Text);
    let criterion = Criterion { attribute, mode, nocase, pattern: pattern.into() };
    let mut attributes = Attributes::new();
    if attributes.set_known(Known::Text, value).is_err() {
        return;
    }
    let found = LENGTHS.map(|length| {
        let rules: Vec<Rule> = (1..=length).map(|number| rule(number, &criterion)).collect();
        let compiled = Ruleset::compile(&rules, &World).ok()?;
        let decision = compiled.decide(&compiled.candidates(&attributes), &World);
        Some((decision.matched.len(), length as usize))
    });
    let Some((one, _)) = found[0] else { return };
    if let Some((many, length)) = found[1] {
        assert_eq!(many, one * length, "the index finds what the matcher finds");
    }
    let reference = if mode == PatternMode::Glob { regex_of_glob(pattern) } else { pattern.into() };
    let config = syntax::Config::new().case_insensitive(nocase);
    if let Ok(reference) = Regex::builder().syntax(config).build(&reference) {
        assert_eq!(one == 1, reference.is_match(value), "{pattern:?} and {value:?}");
    }
}

fn rule(number: u32, criterion: &Criterion) -> Rule {
    Rule {
        number,
        criteria: vec![criterion.clone()],
        when: None,
        action: Action::Nothing,
        then: Then::Continue,
        disabled: false,
        log: false,
    }
}

/// The regular expression for a glob that the rules accepted.
fn regex_of_glob(glob: &str) -> String {
    let mut out = String::from("\\A");
    let mut chars = glob.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '*' => out.push_str("(?s:.)*"),
            '?' => out.push_str("(?s:.)"),
            '[' => set(&mut chars, &mut out),
            '\\' => out.push_str(&code(chars.next().unwrap())),
            c => out.push_str(&code(c)),
        }
    }
    out + "\\z"
}

fn set(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    fn member(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> String {
        match chars.next().unwrap() {
            '\\' => code(chars.next().unwrap()),
            c => code(c),
        }
    }
    out.push_str(if chars.next_if_eq(&'!').is_some() { "[^" } else { "[" });
    let mut is_first = true;
    while is_first || chars.next_if_eq(&']').is_none() {
        is_first = false;
        out.push_str(&member(chars));
        let mut ahead = chars.clone();
        if ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']') {
            chars.next();
            out.push('-');
            out.push_str(&member(chars));
        }
    }
    out.push(']');
}

fn code(c: char) -> String {
    format!("\\x{{{:x}}}", u32::from(c))
}
