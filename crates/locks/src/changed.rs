//! Which locks changed since the host last asked.
//!
//! Owns a generation that counts visible changes (owner, fencing number, waiters) and a bounded set
//! of names. Past the bound it forgets the names and says that any lock may have changed. It never
//! holds what changed, only where.

use std::collections::BTreeSet;
use std::sync::Arc;

/// How many changed names are kept between two questions.
pub const CHANGED_NAMES_MAX: usize = 4096;

/// Where to look for changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Exactly these locks changed, appeared or went away.
    Names(BTreeSet<Arc<str>>),
    /// More than [`CHANGED_NAMES_MAX`] did: look at all of them.
    All,
}

#[derive(Debug)]
pub(crate) struct Changes {
    generation: u64,
    since: Changed,
}

impl Changes {
    pub(crate) fn new() -> Changes {
        Changes { generation: 0, since: Changed::Names(BTreeSet::new()) }
    }

    /// Notes a visible change of the lock `name`.
    pub(crate) fn note(&mut self, name: &Arc<str>) {
        self.generation = self.generation.wrapping_add(1);
        let Changed::Names(names) = &mut self.since else { return };
        if names.len() < CHANGED_NAMES_MAX || names.contains(name) {
            names.insert(Arc::clone(name));
        } else {
            self.since = Changed::All;
        }
    }

    pub(crate) fn take(&mut self) -> Changed {
        std::mem::replace(&mut self.since, Changed::Names(BTreeSet::new()))
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }
}
