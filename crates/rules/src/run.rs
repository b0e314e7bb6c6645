//! Running a program over a text, in time linear in the text (promise R3).
//!
//! Two ways, same answer. Short texts are searched by following one path at a time and marking every
//! (instruction, position) pair, so none is visited twice. Long texts, for which the marks would take
//! more than [`MARKS_MAX`] bits, are searched by following all paths at once. Memory is kept in
//! [`Work`] and used again by the next search.

use crate::program::{Program, Step};
use memchr::memchr;
use regex_syntax::hir::Look;

/// Most pairs of instruction and position that are marked; 32 KiB of bits.
const MARKS_MAX: usize = 1 << 18;

/// Memory that searches use.
#[derive(Debug, Default)]
pub(crate) struct Work {
    marks: Vec<u64>,
    stack: Vec<(u32, u32)>,
    now: States,
    next: States,
}

impl Program {
    /// Whether a part of the text matches.
    pub(crate) fn matches(&self, text: &str, work: &mut Work) -> bool {
        let marks = self.steps.len() * (text.len() + 1);
        if marks <= MARKS_MAX {
            self.matches_by_path(text, marks, work)
        } else {
            self.matches_by_all(text, work)
        }
    }

    /// Whether a match can only begin where the text does.
    fn is_anchored(&self) -> bool {
        matches!(self.steps.first(), Some(Step::Look(Look::Start)))
    }

    fn matches_by_path(&self, text: &str, marks: usize, work: &mut Work) -> bool {
        work.marks.clear();
        work.marks.resize(marks.div_ceil(64), 0);
        let mut at = 0;
        while let Some(start) = self.next_start(text, at) {
            if self.matches_from(text, start, work) {
                return true;
            }
            match (self.is_anchored(), char_at(text, start)) {
                (false, Some(c)) => at = start + c.len_utf8(),
                _ => return false,
            }
        }
        false
    }

    /// The first place from `at` on where a match may begin.
    fn next_start(&self, text: &str, at: usize) -> Option<usize> {
        match self.steps.first() {
            Some(Step::Char(c)) if c.is_ascii() => {
                memchr(*c as u8, text.as_bytes().get(at..)?).map(|skip| at + skip)
            }
            _ => Some(at),
        }
    }

    fn matches_from(&self, text: &str, start: usize, work: &mut Work) -> bool {
        let width = text.len() + 1;
        work.stack.clear();
        work.stack.push((0, start as u32));
        while let Some((step, at)) = work.stack.pop() {
            let (mut step, mut at) = (step as usize, at as usize);
            loop {
                let mark = step * width + at;
                let (word, bit) = (mark / 64, 1 << (mark % 64));
                if work.marks[word] & bit != 0 {
                    break;
                }
                work.marks[word] |= bit;
                match &self.steps[step] {
                    Step::Match => return true,
                    Step::Jump(to) => step = *to as usize,
                    Step::Split(first, second) => {
                        work.stack.push((*second, at as u32));
                        step = *first as usize;
                    }
                    Step::Look(look) if holds(*look, text, at) => step += 1,
                    one => match char_at(text, at) {
                        Some(c) if one.takes(c) => {
                            step += 1;
                            at += c.len_utf8();
                        }
                        _ => break,
                    },
                }
            }
        }
        false
    }

    fn matches_by_all(&self, text: &str, work: &mut Work) -> bool {
        let Work { now, next, stack, .. } = work;
        now.reset(self.steps.len());
        next.reset(self.steps.len());
        let mut at = 0;
        loop {
            if (at == 0 || !self.is_anchored()) && self.enter(0, text, at, now, stack) {
                return true;
            }
            let Some(c) = char_at(text, at) else { return false };
            if now.list.is_empty() && self.is_anchored() {
                return false;
            }
            at += c.len_utf8();
            for step in &now.list {
                if self.steps[*step as usize].takes(c)
                    && self.enter(step + 1, text, at, next, stack)
                {
                    return true;
                }
            }
            std::mem::swap(now, next);
            next.clear();
        }
    }

    /// Adds an instruction and all that follow without taking a character; whether one is a match.
    fn enter(
        &self,
        step: u32,
        text: &str,
        at: usize,
        states: &mut States,
        stack: &mut Vec<(u32, u32)>,
    ) -> bool {
        stack.clear();
        stack.push((step, 0));
        while let Some((step, _)) = stack.pop() {
            if !states.insert(step) {
                continue;
            }
            match &self.steps[step as usize] {
                Step::Match => return true,
                Step::Jump(to) => stack.push((*to, 0)),
                Step::Split(first, second) => stack.extend([(*second, 0), (*first, 0)]),
                Step::Look(look) if holds(*look, text, at) => stack.push((step + 1, 0)),
                _ => {}
            }
        }
        false
    }
}

impl Step {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Char(own) => *own == c,
            Self::Class(class) => class.contains(c),
            _ => false,
        }
    }
}

/// A set of instructions that is emptied in no time.
#[derive(Debug, Default)]
struct States {
    list: Vec<u32>,
    place: Vec<u32>,
}

impl States {
    fn reset(&mut self, len: usize) {
        self.list.clear();
        self.place.resize(len.max(self.place.len()), 0);
    }

    fn clear(&mut self) {
        self.list.clear();
    }

    fn insert(&mut self, step: u32) -> bool {
        let place = &mut self.place[step as usize];
        if self.list.get(*place as usize) == Some(&step) {
            return false;
        }
        *place = self.list.len() as u32;
        self.list.push(step);
        true
    }
}

fn char_at(text: &str, at: usize) -> Option<char> {
    match text.as_bytes().get(at) {
        Some(byte) if byte.is_ascii() => Some(char::from(*byte)),
        _ => text.get(at..)?.chars().next(),
    }
}

fn char_before(text: &str, at: usize) -> Option<char> {
    text.get(..at)?.chars().next_back()
}

fn holds(look: Look, text: &str, at: usize) -> bool {
    let (before, after) = (char_before(text, at), char_at(text, at));
    let ascii = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    let word = |c: Option<char>| c.is_some_and(is_word);
    match look {
        Look::Start => at == 0,
        Look::End => at == text.len(),
        Look::StartLF => matches!(before, None | Some('\n')),
        Look::EndLF => matches!(after, None | Some('\n')),
        Look::StartCRLF => match before {
            None | Some('\n') => true,
            Some('\r') => after != Some('\n'),
            _ => false,
        },
        Look::EndCRLF => match after {
            None | Some('\r') => true,
            Some('\n') => before != Some('\r'),
            _ => false,
        },
        Look::WordAscii => ascii(before) != ascii(after),
        Look::WordAsciiNegate => ascii(before) == ascii(after),
        Look::WordUnicode => word(before) != word(after),
        Look::WordUnicodeNegate => word(before) == word(after),
        Look::WordStartAscii => !ascii(before) && ascii(after),
        Look::WordEndAscii => ascii(before) && !ascii(after),
        Look::WordStartUnicode => !word(before) && word(after),
        Look::WordEndUnicode => word(before) && !word(after),
        Look::WordStartHalfAscii => !ascii(before),
        Look::WordEndHalfAscii => !ascii(after),
        Look::WordStartHalfUnicode => !word(before),
        Look::WordEndHalfUnicode => !word(after),
    }
}

fn is_word(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    // The tables of word characters are always built in.
    regex_syntax::try_is_word_character(c).unwrap_or(false)
}

#[cfg(test)]
mod tests;
