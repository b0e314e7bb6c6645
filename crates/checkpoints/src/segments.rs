//! A long list in pieces of one size, so that growing it never moves more than a little.

/// Items in one piece.
const SEGMENT_LEN: usize = 256;

/// A list that grows and shrinks at its end.
#[derive(Debug)]
pub(crate) struct Segments<T> {
    /// All full but the last, which is not empty.
    segments: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Segments<T> {
    fn default() -> Self {
        Self { segments: vec![], len: 0 }
    }
}

impl<T> Segments<T> {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push(&mut self, item: T) {
        if self.len.is_multiple_of(SEGMENT_LEN) {
            // A short list stays small; only the first piece grows.
            let room = if self.len == 0 { 1 } else { SEGMENT_LEN };
            self.segments.push(Vec::with_capacity(room));
        }
        if let Some(segment) = self.segments.last_mut() {
            segment.push(item);
            self.len += 1;
        }
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let segment = self.segments.last_mut()?;
        let item = segment.pop()?;
        if segment.is_empty() {
            self.segments.pop();
        }
        self.len -= 1;
        Some(item)
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.segments.get(index / SEGMENT_LEN)?.get(index % SEGMENT_LEN)
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.segments.get_mut(index / SEGMENT_LEN)?.get_mut(index % SEGMENT_LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::{SEGMENT_LEN, Segments};

    #[test]
    fn equals_a_plain_list() {
        let mut segments = Segments::default();
        let mut plain = vec![];
        for step in 0..4 * SEGMENT_LEN {
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
        while let Some(item) = plain.pop() {
            assert_eq!(segments.pop(), Some(item));
        }
        assert_eq!((segments.len(), segments.pop(), segments.get(0)), (0, None, None));
    }
}
