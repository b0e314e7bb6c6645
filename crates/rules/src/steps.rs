//! Regular expressions as lists of steps, the first stage of compiling one.
//!
//! Owns how an expression is parsed (`regex-syntax` defines its meaning) and expanded: repetitions become copies,
//! branches become splits. The only question is whether a text matches, not where, so groups leave no trace. The
//! result is bounded by [`STEPS_MAX`]; `program` makes it ready to run.

use crate::classes::{CharClass, Classes};
use crate::error::Fault;
use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};
use std::sync::Arc;

/// The most steps of one pattern: enough for any pattern that `program` accepts.
pub(crate) const STEPS_MAX: usize = 16 << 10;

/// The deepest nesting of one pattern.
const NEST_MAX: u32 = 100;

/// One step. Unless it says otherwise, the next step follows.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The next character is this one.
    Char(char),
    /// The next character is in this class.
    Class(Arc<CharClass>),
    /// Both steps are tried.
    Split(u32, u32),
    /// Continues at that step.
    Jump(u32),
    /// A condition holds between two characters.
    Look(Look),
    /// The text matches.
    Match,
}

/// Parses a regular expression.
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

/// The steps of an expression; the last one is the match.
pub(crate) fn write_out<'c>(hir: &'c Hir, classes: &'c mut Classes) -> Result<Vec<Step>, Fault> {
    let mut writer = Writer { steps: vec![], last: None, classes };
    writer.add(hir)?;
    writer.push(Step::Match)?;
    Ok(writer.steps)
}

struct Writer<'c> {
    steps: Vec<Step>,
    /// The last class: a repetition uses the same one repeatedly.
    last: Option<(&'c Class, Arc<CharClass>)>,
    classes: &'c mut Classes,
}

impl<'c> Writer<'c> {
    fn push(&mut self, step: Step) -> Result<usize, Fault> {
        if self.steps.len() >= STEPS_MAX {
            return Err(Fault::PatternTooLarge);
        }
        self.steps.push(step);
        Ok(self.steps.len() - 1)
    }

    /// The index of the next step.
    fn here(&self) -> u32 {
        self.steps.len() as u32
    }

    /// Makes an earlier split or jump continue at the next step.
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
                // The parser guarantees UTF-8, so nothing is replaced here.
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
