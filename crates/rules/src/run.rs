//! Running a program over a text, in time linear in the text (promise R3).
//!
//! All positions are followed at once: for each character, the positions that take it are kept and replaced by those
//! that follow. Small programs fit one machine word and take a few nanoseconds per character. Needs no memory except
//! a few words on the stack.

use crate::program::{BEYOND, EMPTY, FIXED_ROWS, INITIAL, LOOKS, POSITIONS_MAX, Program};
use memchr::memchr;
use regex_syntax::hir::Look;

/// The most words of a set of positions.
const WORDS_MAX: usize = POSITIONS_MAX / 64;

/// A set of positions. Only the first words are used, or all of them if there are few.
type Row<const N: usize> = [u64; N];

impl Program {
    /// Whether a part of the text matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        match self.words {
            1 => self.search::<1>(text),
            2 => self.search::<2>(text),
            4 => self.search::<4>(text),
            5..=8 => self.search::<8>(text),
            9..=16 => self.search::<16>(text),
            _ => self.search::<WORDS_MAX>(text),
        }
    }

    fn search<const N: usize>(&self, text: &str) -> bool {
        let (word, bit) = (self.matched / 64, 1 << (self.matched % 64));
        let (mut now, mut next) = (&mut [0; N], &mut [0; N]);
        let (mut at, mut is_empty) = (0, true);
        add(now, self.row::<N>(INITIAL));
        loop {
            if is_empty {
                match self.next_start(text, at) {
                    Some(start) => at = start,
                    None => return false,
                }
            }
            if !self.looks.is_empty() {
                self.look(now, text, at);
            }
            if now[word] & bit != 0 {
                return true;
            }
            let Some(c) = char_at(text, at) else { return false };
            at += c.len_utf8();
            is_empty = !self.keep_takers(now, c);
            let again = if self.anchored { EMPTY } else { INITIAL };
            next[..self.row::<N>(again).len()].copy_from_slice(self.row::<N>(again));
            if !is_empty {
                self.add_followers(now, next);
            }
            std::mem::swap(&mut now, &mut next);
        }
    }

    /// The first place from `at` on where a match may begin.
    fn next_start(&self, text: &str, at: usize) -> Option<usize> {
        match self.first {
            _ if self.anchored => (at == 0).then_some(0),
            Some(first) => memchr(first, text.as_bytes().get(at..)?).map(|skip| at + skip),
            None => Some(at),
        }
    }

    fn row<const N: usize>(&self, row: usize) -> &[u64] {
        let words = if N <= 4 { N } else { self.words };
        &self.rows[row * words..(row + 1) * words]
    }

    /// Adds the positions that follow the conditions that hold here.
    fn look<const N: usize>(&self, now: &mut Row<N>, text: &str, at: usize) {
        let mut met = *now;
        if !keep(&mut met, self.row::<N>(LOOKS)) {
            return;
        }
        let mut left = [0; N];
        for (look, row) in &self.looks {
            if holds(*look, text, at) {
                add(&mut left, self.row::<N>(usize::from(*row)));
            }
        }
        while keep(&mut met, &left) {
            // Each condition is followed once, so this terminates.
            left.iter_mut().zip(&met).for_each(|(left, met)| *left &= !met);
            self.add_followers(&met, now);
            met = *now;
        }
    }

    /// Keeps the positions that take a character; returns whether there are any.
    fn keep_takers<const N: usize>(&self, now: &mut Row<N>, c: char) -> bool {
        if c.is_ascii() {
            return keep(now, self.row::<N>(usize::from(self.ascii[c as usize])));
        }
        let mut takers = [0; N];
        add(&mut takers, self.row::<N>(BEYOND));
        if let Ok(place) = self.chars.binary_search_by_key(&c, |(own, _)| *own) {
            add(&mut takers, self.row::<N>(usize::from(self.chars[place].1)));
        }
        for (class, row) in &self.large {
            if class.contains(c) {
                add(&mut takers, self.row::<N>(usize::from(*row)));
            }
        }
        keep(now, &takers)
    }

    /// Adds the positions that follow.
    fn add_followers<const N: usize>(&self, from: &Row<N>, to: &mut Row<N>) {
        for (index, distance) in self.shifts.iter().enumerate() {
            let row = self.row::<N>(FIXED_ROWS + index);
            let (from, to) = (&from[..row.len()], &mut to[..row.len()]);
            to[0] |= (from[0] & row[0]) << distance;
            for word in 1..row.len() {
                // The bits shifted out of the previous word come in; for distance 0 there are none.
                let before = ((from[word - 1] & row[word - 1]) >> 1) >> (63 - distance);
                to[word] |= (from[word] & row[word]) << distance | before;
            }
        }
        if !self.jumps.is_empty() {
            self.add_jumps(from, to);
        }
    }

    fn add_jumps<const N: usize>(&self, from: &Row<N>, to: &mut Row<N>) {
        let mut taken = 0u64;
        for mask in &self.jumps {
            let meets = from[usize::from(mask.word) % N] & mask.positions != 0;
            taken |= u64::from(meets) << mask.jump;
        }
        while taken != 0 {
            let jump = taken.trailing_zeros() as usize;
            taken &= taken - 1;
            let (start, end) = (self.landings[jump], self.landings[jump + 1]);
            for mask in &self.lands[usize::from(start)..usize::from(end)] {
                to[usize::from(mask.word) % N] |= mask.positions;
            }
        }
    }
}

fn add<const N: usize>(row: &mut Row<N>, other: &[u64]) {
    row.iter_mut().zip(other).for_each(|(word, other)| *word |= other);
}

/// Keeps the bits that are in both; returns whether there are any.
fn keep<const N: usize>(row: &mut Row<N>, other: &[u64]) -> bool {
    let keep = |any, (word, other): (&mut u64, &u64)| {
        *word &= other;
        any | *word
    };
    row.iter_mut().zip(other).fold(0, keep) != 0
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
