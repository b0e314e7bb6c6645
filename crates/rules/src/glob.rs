//! Globs: `*`, `?`, `[abc]`, `[a-z]`, `[!x]`, and `\` before a character that stands for itself.
//!
//! Owns their reading and matching. A glob matches the whole text. It is cut at its stars; each
//! piece between two stars is put at the first place where it fits, which leaves the most room for
//! the rest, so nothing is ever tried twice: the time is at most text times pattern. A `]` right
//! after `[` or `[!` stands for itself; so does a `-` at either end of a set.

use crate::error::Fault;
use crate::fold::Fold;
use memchr::memmem;
use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

/// A glob, ready to match.
#[derive(Debug)]
pub(crate) struct Glob {
    /// What stands before the first star, or the whole glob.
    first: Piece,
    /// What stands between stars.
    middle: Vec<Piece>,
    /// What stands behind the last star; none if there is no star.
    last: Option<Piece>,
}

/// A part of a glob without a star.
#[derive(Debug)]
enum Piece {
    Text(Box<str>),
    Elements(Vec<Element>),
}

#[derive(Debug)]
enum Element {
    Char(char),
    Any,
    Set(Vec<(char, char)>),
}

impl Glob {
    /// Reads a glob; with `fold` it matches folded texts only.
    pub(crate) fn parse(pattern: &str, mut fold: Option<&mut Fold>) -> Result<Self, Fault> {
        let mut pieces = vec![vec![]];
        let mut reader = Reader { pattern, at: 0 };
        while let Some(c) = reader.next() {
            let element = match c {
                '*' => {
                    pieces.push(vec![]);
                    continue;
                }
                '?' => Element::Any,
                '[' => reader.set(fold.is_some())?,
                '\\' => reader.escaped(fold.as_deref_mut())?,
                c => Element::Char(learned(c, fold.as_deref_mut())),
            };
            if let Some(piece) = pieces.last_mut() {
                piece.push(element);
            }
        }
        let mut pieces: Vec<Piece> = pieces.into_iter().map(Piece::new).collect();
        let last = if pieces.len() > 1 { pieces.pop() } else { None };
        let first = pieces.remove(0);
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
        Ok(Self { first, middle: pieces, last })
    }

    /// Whether the whole text matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let Some(mut rest) = self.first.strip_from(text) else { return false };
        let Some(last) = &self.last else { return rest.is_empty() };
        for piece in &self.middle {
            let Some(after) = piece.find_in(rest) else { return false };
            rest = after;
        }
        last.ends(rest)
    }

    /// Whether every text matches.
    pub(crate) fn is_always(&self) -> bool {
        let empty = |piece: &Piece| matches!(piece, Piece::Text(text) if text.is_empty());
        self.middle.is_empty() && empty(&self.first) && self.last.as_ref().is_some_and(empty)
    }

    /// The whole text it matches, if there is only one.
    pub(crate) fn only_text(&self) -> Option<&str> {
        match (&self.first, &self.last) {
            (Piece::Text(text), None) => Some(text),
            _ => None,
        }
    }

    /// Texts that every match contains.
    pub(crate) fn literals(&self) -> Vec<String> {
        let pieces = std::iter::once(&self.first).chain(&self.middle).chain(&self.last);
        let mut found = vec![];
        for piece in pieces {
            match piece {
                Piece::Text(text) => found.push(text.to_string()),
                Piece::Elements(elements) => found.extend(runs(elements)),
            }
        }
        found.retain(|text| !text.is_empty());
        found
    }
}

fn learned(c: char, fold: Option<&mut Fold>) -> char {
    fold.map_or(c, |fold| fold.learn(c))
}

fn runs(elements: &[Element]) -> Vec<String> {
    let mut runs = vec![String::new()];
    for element in elements {
        match (element, runs.last_mut()) {
            (Element::Char(c), Some(run)) => run.push(*c),
            _ => runs.push(String::new()),
        }
    }
    runs
}

impl Piece {
    fn new(elements: Vec<Element>) -> Self {
        let character = |element: &Element| match element {
            Element::Char(c) => Some(*c),
            _ => None,
        };
        let text: Option<String> = elements.iter().map(character).collect();
        text.map_or(Self::Elements(elements), |text| Self::Text(text.into()))
    }

    /// The text behind this piece, if the text begins with it.
    fn strip_from<'t>(&self, text: &'t str) -> Option<&'t str> {
        match self {
            Self::Text(piece) => text.strip_prefix(&**piece),
            Self::Elements(elements) => {
                let mut rest = text.chars();
                elements
                    .iter()
                    .all(|element| rest.next().is_some_and(|c| element.fits(c)))
                    .then_some(rest.as_str())
            }
        }
    }

    /// The text behind the first place where this piece fits.
    fn find_in<'t>(&self, text: &'t str) -> Option<&'t str> {
        match self {
            Self::Text(piece) => {
                let at = memmem::find(text.as_bytes(), piece.as_bytes())?;
                text.get(at + piece.len()..)
            }
            Self::Elements(_) => {
                text.char_indices().find_map(|(at, _)| self.strip_from(text.get(at..)?))
            }
        }
    }

    fn ends(&self, text: &str) -> bool {
        match self {
            Self::Text(piece) => text.ends_with(&**piece),
            Self::Elements(elements) => {
                let mut rest = text.chars().rev();
                elements.iter().rev().all(|element| rest.next().is_some_and(|c| element.fits(c)))
            }
        }
    }
}

impl Element {
    fn fits(&self, c: char) -> bool {
        match self {
            Self::Char(own) => *own == c,
            Self::Any => true,
            Self::Set(ranges) => {
                let at = ranges.partition_point(|(_, end)| *end < c);
                ranges.get(at).is_some_and(|(start, _)| *start <= c)
            }
        }
    }
}

struct Reader<'p> {
    pattern: &'p str,
    at: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn peek(&self) -> Option<char> {
        self.pattern.get(self.at..)?.chars().next()
    }

    fn escaped(&mut self, fold: Option<&mut Fold>) -> Result<Element, Fault> {
        Ok(Element::Char(learned(self.literal(self.at - 1)?, fold)))
    }

    /// The character behind a backslash that stands at `start`.
    fn literal(&mut self, start: usize) -> Result<char, Fault> {
        self.next().ok_or_else(|| {
            Fault::at(self.pattern, start, "expected a character after the last backslash")
        })
    }

    /// A set, from behind its `[`.
    fn set(&mut self, nocase: bool) -> Result<Element, Fault> {
        let open = self.at - 1;
        let negated = self.peek() == Some('!');
        if negated {
            self.at += 1;
        }
        let mut ranges = vec![];
        loop {
            let start = self.at;
            let unclosed = || Fault::at(self.pattern, open, "this set has no closing bracket");
            match self.peek().ok_or_else(unclosed)? {
                ']' if !ranges.is_empty() => {
                    self.at += 1;
                    break;
                }
                _ => ranges.push(self.range(start, open)?),
            }
        }
        let mut set = ClassUnicode::new(ranges);
        if nocase {
            // The set is closed under case, so it takes a folded character as well as a plain one.
            let _ = set.try_case_fold_simple();
        }
        if negated {
            set.negate();
        }
        Ok(Element::Set(set.ranges().iter().map(|range| (range.start(), range.end())).collect()))
    }

    fn range(&mut self, start: usize, open: usize) -> Result<ClassUnicodeRange, Fault> {
        let low = self.member(open)?;
        let behind = self.pattern.get(self.at + 1..).and_then(|rest| rest.chars().next());
        if self.peek() != Some('-') || behind.is_none_or(|c| c == ']') {
            return Ok(ClassUnicodeRange::new(low, low));
        }
        self.at += 1;
        let high = self.member(open)?;
        if high < low {
            let message = format!("the range {low}-{high} is empty, expected its lower end first");
            return Err(Fault::at(self.pattern, start, message));
        }
        Ok(ClassUnicodeRange::new(low, high))
    }

    fn member(&mut self, open: usize) -> Result<char, Fault> {
        match self.next() {
            Some('\\') => self.literal(self.at - 1),
            Some(c) => Ok(c),
            None => Err(Fault::at(self.pattern, open, "this set has no closing bracket")),
        }
    }
}

#[cfg(test)]
mod tests;
