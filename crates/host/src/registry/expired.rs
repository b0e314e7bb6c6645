//! Names of what expired, so that a late renewal gets the reason why it fails. The oldest are forgotten first.

use std::collections::{HashSet, VecDeque};

/// The names that expired last.
#[derive(Debug)]
pub(super) struct Expired {
    max: usize,
    order: VecDeque<String>,
    names: HashSet<String>,
}

impl Expired {
    pub(super) fn new(max: usize) -> Self {
        Self { max, order: VecDeque::new(), names: HashSet::new() }
    }

    /// How many are remembered.
    pub(super) const fn max(&self) -> usize {
        self.max
    }

    pub(super) fn note(&mut self, name: String) {
        if !self.names.insert(name.clone()) {
            return;
        }
        self.order.push_back(name);
        if self.order.len() > self.max
            && let Some(oldest) = self.order.pop_front()
        {
            self.names.remove(&oldest);
        }
    }

    pub(super) fn holds(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::Expired;

    #[test]
    fn the_oldest_are_forgotten() {
        let mut expired = Expired::new(2);
        for name in ["a", "b", "b", "c"] {
            expired.note(name.to_owned());
        }
        assert_eq!(["a", "b", "c"].map(|name| expired.holds(name)), [false, true, true]);
        assert_eq!((expired.order.len(), expired.names.len()), (2, 2));
    }
}
