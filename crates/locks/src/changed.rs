//! Which locks changed since the host last looked at them.
//!
//! Owns a generation that counts visible changes (owner, fencing number, waiters), and the names of
//! the locks that the host has to look at. A lock that appeared and disappeared between two looks
//! is not among them, so there are never more names than locks that exist and locks that the host
//! has seen. It never holds what changed, only the name of the lock.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct Changes {
    generation: u64,
    /// Locks that the host has to look at.
    names: BTreeSet<Arc<str>>,
    /// Locks that existed when the host last looked at them.
    seen: BTreeSet<Arc<str>>,
}

impl Changes {
    /// Notes a visible change of the lock `name`, which exists.
    pub(crate) fn note(&mut self, name: &Arc<str>) {
        self.generation = self.generation.wrapping_add(1);
        if !self.names.contains(name) {
            self.names.insert(Arc::clone(name));
        }
    }

    /// Notes that the lock `name` no longer exists.
    pub(crate) fn note_gone(&mut self, name: &Arc<str>) {
        self.generation = self.generation.wrapping_add(1);
        if self.seen.contains(name) {
            self.names.insert(Arc::clone(name));
        } else {
            self.names.remove(name);
        }
    }

    /// Notes that the host lost what it saw of a lock.
    pub(crate) fn note_unseen(&mut self, name: &Arc<str>) {
        self.names.insert(Arc::clone(name));
        self.seen.insert(Arc::clone(name));
    }

    /// The first lock after `after` that the host has to look at.
    pub(crate) fn take(
        &mut self,
        after: &str,
        exists: impl FnOnce(&str) -> bool,
    ) -> Option<Arc<str>> {
        let later = (Bound::Excluded(after), Bound::Unbounded);
        let name = Arc::clone(self.names.range::<str, _>(later).next()?);
        self.names.remove(&name);
        if exists(&name) {
            self.seen.insert(Arc::clone(&name));
        } else {
            self.seen.remove(&name);
        }
        Some(name)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }
}
