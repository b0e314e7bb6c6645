//! Places in a text: line and column, in characters from 1.
//!
//! Owns the mapping from byte offsets to places. Promises that a look-up reads a few hundred bytes however long a
//! line is, so that a file in one line is not slow.

/// Bytes between two offsets whose number of characters from the start is kept.
const BLOCK_BYTES: usize = 512;

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl Place {
    /// The start of a file.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// A text with an index of its lines.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    text: &'a str,
    /// The offset of each line's first byte.
    starts: Vec<usize>,
    /// How many characters begin before each block.
    chars: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub fn new(text: &'a str) -> Self {
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(newlines.map(|(at, _)| at + 1)).collect();
        let mut chars = vec![0];
        for block in text.as_bytes().chunks(BLOCK_BYTES) {
            chars.push(chars.last().copied().unwrap_or(0) + chars_begun(block));
        }
        Self { text, starts, chars }
    }

    /// The place of a byte; an offset past the end is at the end.
    pub fn place(&self, offset: usize) -> Place {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let column = self.chars_before(offset) - self.chars_before(start) + 1;
        Place { line: line as u32, column: column as u32 }
    }

    fn chars_before(&self, offset: usize) -> usize {
        let block = offset / BLOCK_BYTES;
        let rest = self.text.as_bytes().get(block * BLOCK_BYTES..offset).unwrap_or_default();
        self.chars.get(block).copied().unwrap_or(0) + chars_begun(rest)
    }
}

/// How many characters begin in these bytes of a text.
fn chars_begun(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, Lines, Place};

    #[test]
    fn offsets_become_lines_and_columns_in_characters() {
        let text = "añb\n\nx";
        let lines = Lines::new(text);
        for (offset, line, column) in
            [(0, 1, 1), (3, 1, 3), (4, 1, 4), (5, 2, 1), (6, 3, 1), (99, 3, 2)]
        {
            assert_eq!(lines.place(offset), Place { line, column }, "{offset}");
        }
        assert_eq!(Lines::new("").place(0), Place::START);
    }

    #[test]
    fn a_long_line_is_counted_across_blocks() {
        let text = format!("x\n{}z", "ä".repeat(BLOCK_BYTES * 3 + 7));
        let lines = Lines::new(&text);
        let column = (BLOCK_BYTES * 3 + 8) as u32;
        assert_eq!(lines.place(text.len() - 1), Place { line: 2, column });
    }
}
