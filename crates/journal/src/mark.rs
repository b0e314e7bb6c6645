//! Marks: what identifies the record that ends at a position.
//!
//! Owns the comparison of a noted record with the records that are read. A copy over an existing file keeps the inode and
//! the birth time, so a position alone does not tell whether the file still has the content that the position is about.

use crate::frame::{Hash, parse_header};

/// One record: where it begins and ends, and the beginning of its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mark {
    pub start: u64,
    pub end: u64,
    pub hash: u64,
}

impl Mark {
    pub fn new(start: u64, end: u64, hash: &Hash) -> Self {
        let hash = hash.first_chunk().map_or(0, |first| u64::from_be_bytes(*first));
        Mark { start, end, hash }
    }

    /// The last one of the framed records that begin at `start` in the file.
    pub fn last(records: &[u8], start: u64) -> Self {
        let end = start + records.len() as u64;
        let (mut at, mut rest) = (start, records);
        while let Some(header) = parse_header(rest) {
            let len = (header.line_len as u64).saturating_add(header.body_len);
            if at + len == end {
                return Mark::new(at, end, &header.hash);
            }
            let Some(next) = usize::try_from(len).ok().and_then(|len| rest.get(len..)) else {
                break;
            };
            (at, rest) = (at + len, next);
        }
        // Not records. No record that is read equals this, so the position is not believed.
        Mark { start, end, hash: 0 }
    }

    /// True if a file that has `record` cannot also have this one.
    pub fn contradicts(&self, record: &Mark) -> bool {
        self.start < record.end && record.start < self.end && self != record
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::frame;

    #[test]
    fn the_last_record_of_a_batch() {
        let mut batch = Vec::new();
        frame(b"one", &mut batch);
        let first = Mark::last(&batch, 100);
        let middle = 100 + batch.len() as u64;
        assert_eq!((first.start, first.end), (100, middle));
        frame(b"two", &mut batch);
        let second = Mark::last(&batch, 100);
        assert_eq!((second.start, second.end), (middle, 100 + batch.len() as u64));
        assert_ne!(second.hash, first.hash);
        batch.pop();
        assert_eq!(Mark::last(&batch, 100).hash, 0, "an incomplete record");
    }

    #[test]
    fn only_another_record_at_the_same_place_contradicts() {
        let noted = Mark { start: 10, end: 20, hash: 7 };
        let table = [
            (Mark { start: 10, end: 20, hash: 7 }, false),
            (Mark { start: 10, end: 20, hash: 8 }, true),
            (Mark { start: 0, end: 10, hash: 8 }, false),
            (Mark { start: 20, end: 30, hash: 8 }, false),
            (Mark { start: 0, end: 11, hash: 8 }, true),
            (Mark { start: 12, end: 14, hash: 8 }, true),
            (Mark { start: 19, end: 30, hash: 8 }, true),
            (Mark { start: 0, end: 30, hash: 8 }, true),
        ];
        for (record, expected) in table {
            assert_eq!(noted.contradicts(&record), expected, "{record:?}");
        }
    }
}
