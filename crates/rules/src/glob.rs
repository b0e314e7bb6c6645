//! Globs: `*`, `?`, `[abc]`, `[a-z]`, `[!x]`, and `\` before a literal character.
//!
//! Owns their parsing and matching. A glob matches the whole text. A glob of texts and stars is split at its stars.
//! Each text between two stars is placed at the first position where it fits, which leaves the most room for the
//! rest, so nothing is ever tried twice. Any other glob becomes a program. A `]` right after `[` or `[!` is literal;
//! so is a `-` at either end of a set.

use crate::classes::Classes;
use crate::error::Fault;
use crate::fold::Fold;
use crate::program::Program;
use memchr::memmem;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, Look, Repetition};

/// A glob, ready to match.
#[derive(Debug)]
pub(crate) enum Glob {
    /// Texts with a star between any two.
    Texts(Texts),
    /// Anything else.
    Program(Program),
}

/// A glob of texts and stars.
#[derive(Debug)]
pub(crate) struct Texts {
    /// The text before the first star, or the whole glob.
    first: Box<str>,
    /// The texts between stars.
    middle: Vec<Box<str>>,
    /// The text after the last star; `None` if there is no star.
    last: Option<Box<str>>,
}

/// A parsed glob, in pieces with a star between any two.
pub(crate) struct Parsed {
    pieces: Vec<Vec<Element>>,
}

enum Element {
    Char(char),
    Any,
    Set(ClassUnicode),
}

impl Parsed {
    /// Parses a glob; with `fold` it is for folded texts.
    pub(crate) fn new(pattern: &str, mut fold: Option<&mut Fold>) -> Result<Self, Fault> {
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
        Ok(Self { pieces })
    }

    /// Compiles it.
    pub(crate) fn compile(&self, classes: &mut Classes) -> Result<Glob, Fault> {
        let texts: Option<Vec<Box<str>>> = self.pieces.iter().map(|piece| text(piece)).collect();
        let Some(mut texts) = texts else {
            return Ok(Glob::Program(Program::compile(&self.expression(), classes)?));
        };
        let last = if texts.len() > 1 { texts.pop() } else { None };
        let first = texts.remove(0);
        texts.retain(|text| !text.is_empty());
        Ok(Glob::Texts(Texts { first, middle: texts, last }))
    }

    /// Whether every text matches.
    pub(crate) fn is_always(&self) -> bool {
        self.pieces.len() > 1 && self.pieces.iter().all(Vec::is_empty)
    }

    /// The only text that it matches, if there is only one.
    pub(crate) fn only_text(&self) -> Option<String> {
        match &self.pieces[..] {
            [piece] => text(piece).map(String::from),
            _ => None,
        }
    }

    /// Texts that every match contains.
    pub(crate) fn literals(&self) -> Vec<String> {
        let mut found: Vec<String> = self.pieces.iter().flat_map(|piece| runs(piece)).collect();
        found.retain(|text| !text.is_empty());
        found
    }

    /// The equivalent regular expression.
    pub(crate) fn expression(&self) -> Hir {
        let any = || Hir::class(Class::Unicode(everything()));
        let (mut parts, last) = (vec![], self.pieces.len() - 1);
        for (index, piece) in self.pieces.iter().enumerate() {
            if index == 0 && !piece.is_empty() {
                parts.push(Hir::look(Look::Start));
            } else if !piece.is_empty() && parts.last().is_some() {
                let sub = Box::new(any());
                parts.push(Hir::repetition(Repetition { min: 0, max: None, greedy: true, sub }));
            }
            parts.extend(piece.iter().map(|element| match element {
                Element::Char(c) => Hir::literal(c.to_string().into_bytes()),
                Element::Any => any(),
                Element::Set(set) => Hir::class(Class::Unicode(set.clone())),
            }));
            if index == last && !piece.is_empty() {
                parts.push(Hir::look(Look::End));
            }
        }
        Hir::concat(parts)
    }
}

impl Glob {
    /// Whether the whole text matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        match self {
            Self::Texts(texts) => texts.matches(text),
            Self::Program(program) => program.matches(text),
        }
    }
}

impl Texts {
    fn matches(&self, text: &str) -> bool {
        let Some(mut rest) = text.strip_prefix(&*self.first) else { return false };
        let Some(last) = &self.last else { return rest.is_empty() };
        for piece in &self.middle {
            let at = memmem::find(rest.as_bytes(), piece.as_bytes());
            let Some(after) = at.and_then(|at| rest.get(at + piece.len()..)) else { return false };
            rest = after;
        }
        rest.ends_with(&**last)
    }
}

fn learned(c: char, fold: Option<&mut Fold>) -> char {
    fold.map_or(c, |fold| fold.learn(c))
}

fn everything() -> ClassUnicode {
    ClassUnicode::new([ClassUnicodeRange::new('\0', char::MAX)])
}

/// The text of a piece, if it is a plain text.
fn text(piece: &[Element]) -> Option<Box<str>> {
    let character = |element: &Element| match element {
        Element::Char(c) => Some(*c),
        _ => None,
    };
    piece.iter().map(character).collect::<Option<String>>().map(String::into)
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

    /// The character after the backslash at `start`.
    fn literal(&mut self, start: usize) -> Result<char, Fault> {
        self.next().ok_or_else(|| {
            Fault::at(self.pattern, start, "expected a character after the last backslash")
        })
    }

    /// A set, from after its `[`.
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
            // The set is closed under case, so it accepts a folded character as well as a plain one.
            let _ = set.try_case_fold_simple();
        }
        if negated {
            set.negate();
        }
        Ok(Element::Set(set))
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
