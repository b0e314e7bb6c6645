//! A long list in pieces of one size, so that growing it never moves more than a few items.
//!
//! Promises that the lists of pieces are never moved either, and that all memory is freed in the reverse
//! order of its allocation. An allocator can then return it to the system a little at a time, instead of
//! hundreds of megabytes at once when the last allocation behind them is freed.

/// Items in one piece, and pieces in one group.
const SEGMENT_LEN: usize = 256;

type Segment<T> = Vec<T>;

/// A list that grows and shrinks at its end.
#[derive(Debug)]
pub(crate) struct Segments<T> {
    /// All pieces are full except the last non-empty one; one empty piece may follow it.
    groups: Vec<Vec<Segment<T>>>,
    len: usize,
}

impl<T> Default for Segments<T> {
    fn default() -> Self {
        Self { groups: vec![], len: 0 }
    }
}

impl<T> Segments<T> {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push(&mut self, item: T) {
        let number = self.len / SEGMENT_LEN;
        if self.segment(number).is_none() {
            self.add_segment();
        }
        if let Some(segment) = self.segment_mut(number) {
            segment.push(item);
            self.len += 1;
        }
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let number = self.len.checked_sub(1)? / SEGMENT_LEN;
        let item = self.segment_mut(number)?.pop()?;
        self.len -= 1;
        // A piece that became empty is kept, so that a length that alternates between two pieces does not
        // free and allocate one each time.
        if self.len == 0 {
            self.groups.clear();
        } else if self.len.is_multiple_of(SEGMENT_LEN) && self.segment(number + 1).is_some() {
            self.remove_segment();
        }
        Some(item)
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.segment(index / SEGMENT_LEN)?.get(index % SEGMENT_LEN)
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.segment_mut(index / SEGMENT_LEN)?.get_mut(index % SEGMENT_LEN)
    }

    fn segment(&self, number: usize) -> Option<&Segment<T>> {
        self.groups.get(number / SEGMENT_LEN)?.get(number % SEGMENT_LEN)
    }

    fn segment_mut(&mut self, number: usize) -> Option<&mut Segment<T>> {
        self.groups.get_mut(number / SEGMENT_LEN)?.get_mut(number % SEGMENT_LEN)
    }

    fn add_segment(&mut self) {
        // A short list stays small; only its one piece grows.
        if self.len == 0 {
            self.groups = vec![vec![vec![]]];
            return;
        }
        self.groups.reserve(SEGMENT_LEN.saturating_sub(self.groups.len()));
        match self.groups.last_mut().filter(|group| group.len() < SEGMENT_LEN) {
            Some(group) => {
                group.reserve(SEGMENT_LEN - group.len());
                group.push(Vec::with_capacity(SEGMENT_LEN));
            }
            None => {
                let mut group = Vec::with_capacity(SEGMENT_LEN);
                group.push(Vec::with_capacity(SEGMENT_LEN));
                self.groups.push(group);
            }
        }
    }

    fn remove_segment(&mut self) {
        if let Some(group) = self.groups.last_mut() {
            group.pop();
            if group.is_empty() {
                self.groups.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{SEGMENT_LEN, Segments};

    #[test]
    fn equals_a_plain_list() {
        let mut segments = Segments::default();
        let mut plain = vec![];
        for step in 0..(SEGMENT_LEN + 2) * SEGMENT_LEN * 3 / 2 {
            segments.push(step);
            plain.push(step);
            if step % 3 == 0 {
                assert_eq!(segments.pop(), plain.pop());
            }
        }
        *segments.get_mut(300).unwrap() = 7;
        plain[300] = 7;
        assert_eq!(segments.len(), plain.len());
        assert!((0..plain.len() + 2).all(|i| segments.get(i) == plain.get(i)));
        assert_eq!(segments.groups.len(), 2);
        while let Some(item) = plain.pop() {
            assert_eq!(segments.pop(), Some(item));
        }
        assert_eq!((segments.len(), segments.pop(), segments.get(0)), (0, None, None));
    }

    /// At most one empty piece is kept, and none of an empty list.
    #[test]
    fn pieces_are_given_back() {
        let mut segments = Segments::default();
        (0..3 * SEGMENT_LEN).for_each(|item| segments.push(item));
        for (len, pieces) in [(2 * SEGMENT_LEN, 3), (SEGMENT_LEN + 1, 3), (SEGMENT_LEN, 2), (1, 2)]
        {
            while segments.len() > len {
                segments.pop();
            }
            assert_eq!(segments.groups.iter().flatten().count(), pieces, "of {len}");
        }
        segments.pop();
        assert!(segments.groups.is_empty());
    }
}
