//! Regular expressions as small programs over characters.
//!
//! Owns the compiled form of a regular expression that is more than a fixed text; `regex-syntax`
//! reads it and says what it means, `run` executes it. Only whether a text matches is ever asked,
//! not where, so a program is a few instructions, and large classes such as `\w` are shared by all
//! programs of a list: ten thousand of them compile in a fraction of a second and take a few
//! megabytes. Promises that a program has at most [`PROGRAM_BYTES_MAX`] (promise R3).

use crate::error::Fault;
use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Largest program of one pattern, with the classes that no pattern before it had.
pub(crate) const PROGRAM_BYTES_MAX: usize = 256 << 10;

/// Deepest nesting of one pattern.
const NEST_MAX: u32 = 100;

/// A compiled regular expression.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) steps: Box<[Step]>,
}

/// One instruction. Where nothing else is said the next one follows.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The next character is this one.
    Char(char),
    /// The next character is in this class.
    Class(Arc<CharClass>),
    /// Both places are tried.
    Split(u32, u32),
    /// Goes on there.
    Jump(u32),
    /// Something holds between two characters.
    Look(Look),
    /// The text matches.
    Match,
}

/// A set of characters.
#[derive(Debug)]
pub(crate) struct CharClass {
    ascii: u128,
    ranges: Box<[(char, char)]>,
}

impl CharClass {
    pub(crate) fn contains(&self, c: char) -> bool {
        if c.is_ascii() {
            return self.ascii >> (c as u32) & 1 == 1;
        }
        let at = self.ranges.partition_point(|(_, end)| *end < c);
        self.ranges.get(at).is_some_and(|(start, _)| *start <= c)
    }
}

/// Classes that programs share.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    /// By a hash of the ranges, because comparing large classes with each other takes long.
    shared: BTreeMap<u64, Vec<Arc<CharClass>>>,
    bytes: usize,
}

/// Reads a regular expression.
pub(crate) fn parse(pattern: &str, nocase: bool) -> Result<Hir, Fault> {
    let mut builder = regex_syntax::ParserBuilder::new();
    builder.case_insensitive(nocase).nest_limit(NEST_MAX);
    builder.build().parse(pattern).map_err(|error| {
        let (message, offset) = match &error {
            regex_syntax::Error::Parse(e) => (e.kind().to_string(), e.span().start.offset),
            regex_syntax::Error::Translate(e) => (e.kind().to_string(), e.span().start.offset),
            other => (other.to_string(), 0),
        };
        Fault::at(pattern, offset, message)
    })
}

impl Program {
    /// Compiles; the bytes it takes, shared classes included, are added to `classes`.
    pub(crate) fn compile<'c>(hir: &'c Hir, classes: &'c mut Classes) -> Result<Self, Fault> {
        let before = classes.bytes;
        let mut compiler = Compiler { steps: vec![], last: None, classes, before };
        compiler.add(hir)?;
        compiler.push(Step::Match)?;
        let steps: Box<[Step]> = compiler.steps.into();
        compiler.classes.bytes += size_of_val(&*steps);
        Ok(Self { steps })
    }
}

impl Classes {
    /// Bytes of all programs so far and their classes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn share(&mut self, class: &Class) -> Arc<CharClass> {
        match class {
            Class::Unicode(class) => {
                self.share_ranges(class.ranges().iter().map(|r| (r.start(), r.end())))
            }
            // The parser keeps to UTF-8, so bytes are ASCII.
            Class::Bytes(class) => {
                self.share_ranges(class.ranges().iter().map(|r| (r.start().into(), r.end().into())))
            }
        }
    }

    fn share_ranges(
        &mut self,
        ranges: impl Iterator<Item = (char, char)> + Clone,
    ) -> Arc<CharClass> {
        let hash = ranges.clone().fold(0u64, |hash, (start, end)| {
            let range = u64::from(start) << 32 | u64::from(end);
            (hash.rotate_left(5) ^ range).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        let equal = self.shared.entry(hash).or_default();
        let found = equal.iter().find(|class| class.ranges.iter().copied().eq(ranges.clone()));
        if let Some(class) = found {
            return class.clone();
        }
        let ascii = ranges.clone().fold(0, |bits, (start, end)| bits | ascii_bits(start, end));
        let class = Arc::new(CharClass { ascii, ranges: ranges.collect() });
        self.bytes += size_of_val(&*class.ranges) + size_of::<CharClass>();
        equal.push(class.clone());
        class
    }
}

fn ascii_bits(start: char, end: char) -> u128 {
    if !start.is_ascii() {
        return 0;
    }
    let end = u32::from(end).min(127);
    (u128::MAX >> (127 - end)) & (u128::MAX << u32::from(start))
}

struct Compiler<'c> {
    steps: Vec<Step>,
    /// The last class: a repetition asks for the same one again and again.
    last: Option<(&'c Class, Arc<CharClass>)>,
    classes: &'c mut Classes,
    /// Bytes of all programs before this one.
    before: usize,
}

impl<'c> Compiler<'c> {
    fn push(&mut self, step: Step) -> Result<usize, Fault> {
        let bytes = (self.steps.len() + 1) * size_of::<Step>() + self.classes.bytes - self.before;
        if bytes > PROGRAM_BYTES_MAX {
            return Err(Fault::PatternTooLarge);
        }
        self.steps.push(step);
        Ok(self.steps.len() - 1)
    }

    /// The place of the next instruction. Programs are far smaller than 2^32.
    fn here(&self) -> u32 {
        self.steps.len() as u32
    }

    /// Makes an earlier split or jump go on at the next instruction.
    fn land(&mut self, at: usize) {
        let here = self.here();
        match &mut self.steps[at] {
            Step::Split(_, second) => *second = here,
            Step::Jump(to) => *to = here,
            _ => debug_assert!(false, "only splits and jumps land"),
        }
    }

    fn add(&mut self, hir: &'c Hir) -> Result<(), Fault> {
        match hir.kind() {
            HirKind::Empty => {}
            HirKind::Literal(literal) => {
                // The parser keeps to UTF-8, so nothing is replaced here.
                for c in String::from_utf8_lossy(&literal.0).chars() {
                    self.push(Step::Char(c))?;
                }
            }
            HirKind::Class(class) => {
                let shared = match &self.last {
                    Some((last, shared)) if std::ptr::eq(*last, class) => shared.clone(),
                    _ => self.classes.share(class),
                };
                self.last = Some((class, shared.clone()));
                self.push(Step::Class(shared))?;
            }
            HirKind::Look(look) => {
                self.push(Step::Look(*look))?;
            }
            HirKind::Capture(capture) => self.add(&capture.sub)?,
            HirKind::Concat(parts) => {
                for part in parts {
                    self.add(part)?;
                }
            }
            HirKind::Alternation(branches) => self.add_branches(branches)?,
            HirKind::Repetition(repetition) => self.add_repetition(repetition)?,
        }
        Ok(())
    }

    fn add_branches(&mut self, branches: &'c [Hir]) -> Result<(), Fault> {
        let mut ends = vec![];
        for (index, branch) in branches.iter().enumerate() {
            if index + 1 == branches.len() {
                self.add(branch)?;
                break;
            }
            let split = self.push(Step::Split(self.here() + 1, 0))?;
            self.add(branch)?;
            ends.push(self.push(Step::Jump(0))?);
            self.land(split);
        }
        ends.into_iter().for_each(|end| self.land(end));
        Ok(())
    }

    fn add_repetition(&mut self, repetition: &'c Repetition) -> Result<(), Fault> {
        let mut last = self.here();
        for _ in 0..repetition.min {
            last = self.here();
            self.add(&repetition.sub)?;
        }
        match repetition.max {
            None if repetition.min == 0 => {
                let split = self.push(Step::Split(last + 1, 0))?;
                self.add(&repetition.sub)?;
                self.push(Step::Jump(last))?;
                self.land(split);
            }
            None => {
                self.push(Step::Split(last, self.here() + 1))?;
            }
            Some(max) => {
                let mut splits = vec![];
                for _ in repetition.min..max {
                    splits.push(self.push(Step::Split(self.here() + 1, 0))?);
                    self.add(&repetition.sub)?;
                }
                splits.into_iter().for_each(|split| self.land(split));
            }
        }
        Ok(())
    }
}
