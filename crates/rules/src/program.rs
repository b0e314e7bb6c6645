//! A pattern as a set of positions, all of which are followed at once, many to a machine word.
//!
//! Each step that takes a character or checks a condition is a position, represented by a bit. Which positions follow
//! which is kept in the form that is fastest to apply to all of them together. A few distances with a mask each cover
//! nearly all of a pattern; the rest are jumps from one set of positions to another. Owns that form and its bounds;
//! `build` makes it, `run` executes it.
//!
//! Promise R3: the cost of one character of a text is bounded by [`WORK_MAX`], whatever the text and the pattern are.
//! A pattern that would need more is refused. So time is linear in the text with a known factor: about 4 ns a byte
//! for a pattern of up to 64 positions, 0.1 us for the largest.

use crate::build;
use crate::classes::{CharClass, Classes};
use crate::error::Fault;
use crate::steps::{self, Step};
use regex_syntax::hir::{Hir, Look};
use std::sync::Arc;

/// The most positions of one pattern: characters and classes with all repetitions expanded, and conditions such as
/// `^` and `\b`.
pub(crate) const POSITIONS_MAX: usize = 4_096;

/// The most words that one character of a text may cost: those of the positions once for each pass over them, and
/// those that jumps read and write.
pub(crate) const WORK_MAX: usize = 240;

/// The most jumps of one pattern.
pub(crate) const JUMPS_MAX: usize = 64;

/// The largest program, without the classes that it shares with others.
pub(crate) const PROGRAM_BYTES_MAX: usize = 512 << 10;

/// Rows that every program has, before all others.
pub(crate) const INITIAL: usize = 0;
pub(crate) const LOOKS: usize = 1;
pub(crate) const EMPTY: usize = 2;
pub(crate) const BEYOND: usize = 3;
pub(crate) const FIXED_ROWS: usize = 4;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Program {
    /// Words of a row: 1, 2, 4 or more.
    pub(crate) words: usize,
    /// The position of the match.
    pub(crate) matched: usize,
    /// Whether a match can begin only at the beginning of the text.
    pub(crate) anchored: bool,
    /// The byte that every match begins with.
    pub(crate) first: Option<u8>,
    /// Sets of positions.
    pub(crate) rows: Box<[u64]>,
    /// For each ASCII character, the row of the positions that take it.
    pub(crate) ascii: Box<[u16; 128]>,
    /// The rows of the positions that name a character beyond ASCII.
    pub(crate) chars: Box<[(char, u16)]>,
    /// The rows of the positions that take a character as a member of a large class.
    pub(crate) large: Box<[(Arc<CharClass>, u16)]>,
    /// The rows of the positions that are conditions.
    pub(crate) looks: Box<[(Look, u16)]>,
    /// Distances to following positions; the rows after the fixed ones contain their sources.
    pub(crate) shifts: Box<[u8]>,
    /// The sources of jumps.
    pub(crate) jumps: Box<[Mask]>,
    /// The targets of jumps, by jump.
    pub(crate) lands: Box<[Mask]>,
    /// Where the masks of each jump begin in `lands`, and where the last one's end.
    pub(crate) landings: Box<[u16]>,
}

/// Some positions of one word. A jump leads from any of its sources to all of its targets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mask {
    pub(crate) positions: u64,
    pub(crate) word: u8,
    /// Less than [`JUMPS_MAX`].
    pub(crate) jump: u8,
}

impl Program {
    /// Compiles an expression; its size is counted in `classes`.
    pub(crate) fn compile(hir: &Hir, classes: &mut Classes) -> Result<Self, Fault> {
        let steps = steps::write_out(hir, classes)?;
        Self::new(&steps, classes)
    }

    /// Compiles steps, the last of which is the match.
    pub(crate) fn new(steps: &[Step], classes: &mut Classes) -> Result<Self, Fault> {
        let program = build::build(steps)?;
        let bytes = program.bytes();
        if bytes > PROGRAM_BYTES_MAX {
            return Err(Fault::PatternTooLarge);
        }
        classes.count(bytes);
        Ok(program)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.rows)
            + size_of_val(&*self.ascii)
            + size_of_val(&*self.chars)
            + size_of_val(&*self.large)
            + size_of_val(&*self.looks)
            + size_of_val(&*self.shifts)
            + size_of_val(&*self.jumps)
            + size_of_val(&*self.lands)
            + size_of_val(&*self.landings)
    }
}
