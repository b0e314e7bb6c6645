//! Random patterns, values and rules from a seed, the same ones every time.

use crate::classes::Classes;
use crate::program::Program;
use crate::steps;
use crate::{Action, Criterion, PatternMode, Rule, Then};
use paceline_types::{Attributes, Name, Priority, UuidSource};

/// Few characters, so that matches are frequent; among them all that are difficult for case folding.
const CHARS: [&str; 16] =
    ["a", "b", "A", "B", "k", "K", "\u{212a}", "s", "ſ", "é", "É", "1", "-", " ", "\n", "\r"];

pub(crate) struct Random(UuidSource);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(UuidSource::from_number(seed))
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    pub(crate) fn text(&mut self, len_max: usize) -> String {
        (0..self.below(len_max + 1)).map(|_| self.pick(&CHARS)).collect()
    }

    /// A character that is literal in a glob and, escaped, in a regular expression.
    fn character(&mut self) -> String {
        self.pick(&CHARS).to_owned()
    }

    pub(crate) fn glob(&mut self) -> String {
        let mut glob = String::new();
        for _ in 0..self.below(6) {
            match self.below(9) {
                0..=2 => glob.push('*'),
                3 => glob.push('?'),
                4 => {
                    let negated = if self.one_in(3) { "!" } else { "" };
                    let (one, two) = (self.character(), self.character());
                    let members = match self.below(3) {
                        0 => one,
                        1 => format!("{one}{two}").replace('-', "\\-"),
                        _ => {
                            self.pick(&["a-b", "A-K", "]a", "-", "a-", "é-ſ", "\\]\\\\"]).to_owned()
                        }
                    };
                    glob.push_str(&format!("[{negated}{members}]"));
                }
                5 => glob.push_str(self.pick(&["\\*", "\\a", "\\?", "]"])),
                _ => glob.push_str(&self.character()),
            }
        }
        glob
    }

    /// A regular expression that is not too large to be compiled.
    pub(crate) fn small_regex(&mut self, depth: usize) -> String {
        loop {
            let pattern = self.regex(depth);
            // The pattern is larger without case, because letters are then classes.
            let fits = |nocase| {
                let hir = steps::parse(&pattern, nocase).unwrap();
                Program::compile(&hir, &mut Classes::default()).is_ok()
            };
            if fits(false) && fits(true) {
                return pattern;
            }
        }
    }

    pub(crate) fn regex(&mut self, depth: usize) -> String {
        let parts = 1 + self.below(4);
        (0..parts).map(|_| self.regex_part(depth)).collect()
    }

    fn regex_part(&mut self, depth: usize) -> String {
        let part = match self.below(if depth == 0 { 8 } else { 12 }) {
            0..=3 => regex::escape(&self.character()),
            4 => self.pick(&[".", "\\w", "\\d", "\\s", "\\S", "(?s:.)", "(?-u:\\w)"]).to_owned(),
            5 => self.pick(&["[ab]", "[^a]", "[A-K]", "[éſ]", "[[:alpha:]]", "[^\\w]"]).to_owned(),
            6 | 7 => {
                let looks = [
                    "^",
                    "$",
                    "\\b",
                    "\\B",
                    "\\A",
                    "\\z",
                    "(?m:^)",
                    "(?m:$)",
                    "(?mR:^)",
                    "(?mR:$)",
                    "(?-u:\\b)",
                    "\\b{start}",
                    "\\b{end}",
                    "\\b{start-half}",
                    "\\b{end-half}",
                    "(?-u:\\b{start})",
                    "(?-u:\\b{end})",
                ];
                return self.pick(&looks).to_owned();
            }
            8 => format!("(?i:{})", self.regex(depth - 1)),
            9 => format!("({})", self.regex(depth - 1)),
            _ => format!("(?:{}|{})", self.regex(depth - 1), self.regex(depth - 1)),
        };
        let times =
            self.pick(&["", "", "", "", "*", "+", "?", "{2}", "{0,2}", "{1,3}", "+?", "{2,}"]);
        if times.is_empty() { part } else { format!("(?:{part}){times}") }
    }

    pub(crate) fn criterion(&mut self) -> Criterion {
        let name = self.pick(&["user", "text", "text", "header.a", "header.b", "priority"]);
        let (mode, pattern) = match self.below(3) {
            0 => (PatternMode::Exact, self.text(3)),
            1 => (PatternMode::Glob, self.glob()),
            _ => (PatternMode::Regex, self.small_regex(2)),
        };
        let pattern = match name {
            "priority" if mode == PatternMode::Exact => (self.below(5) as i32 - 2).to_string(),
            "priority" => self.pick(&["-*", "[0-9]", "1", "-"]).to_owned(),
            _ => pattern,
        };
        let attribute = Name::parse(name).unwrap();
        Criterion { attribute, mode, nocase: self.one_in(2), pattern }
    }

    pub(crate) fn rule(&mut self, number: u32) -> Rule {
        let criteria = (0..self.below(3)).map(|_| self.criterion()).collect();
        let whens = [
            "priority > 0",
            "user != text",
            "rate(\"c\", user) > 2.0",
            "1 / user.size() > 0",
            "waiting(\"p\") < 4",
        ];
        let when = self.one_in(4).then(|| self.pick(&whens).to_owned());
        let n = 1 + self.below(254) as u8;
        let action = match self.below(5) {
            0 => Action::Nothing,
            1 => Action::Set(Priority::new(self.below(255) as i64 - 127).unwrap()),
            2 => Action::Raise(n),
            3 => Action::Lower(n),
            _ => Action::Reject,
        };
        let then = if self.one_in(8) { Then::Stop } else { Then::Continue };
        let (disabled, log) = (self.one_in(8), self.one_in(4));
        Rule { number, criteria, when, action, then, disabled, log }
    }

    pub(crate) fn attributes(&mut self) -> Attributes {
        let mut attributes = Attributes::new();
        for name in ["user", "text", "header.a", "header.b", "header.c"] {
            if !self.one_in(3) {
                let value = self.text(8);
                attributes.set(name, &value).unwrap();
            }
        }
        attributes
    }
}
