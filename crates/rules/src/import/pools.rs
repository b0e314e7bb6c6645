//! The priorities of Comdb2's pools, which have none of their own.

use super::error::ImportProblem;
use super::{DEFAULT_POOL, KnownPool, ProposedPool};
use paceline_types::Priority;

/// The pools that exist, and those that are proposed.
pub(super) struct Pools<'k> {
    known: &'k [KnownPool],
    pub(super) proposed: Vec<ProposedPool>,
}

impl<'k> Pools<'k> {
    pub(super) fn new(known: &'k [KnownPool]) -> Self {
        Self { known, proposed: vec![] }
    }

    /// The priority that sends a request to a pool. If the pool has no range yet, one is proposed.
    pub(super) fn priority(
        &mut self,
        name: &str,
        threads: Option<u32>,
    ) -> Result<Priority, ImportProblem> {
        if name.eq_ignore_ascii_case(DEFAULT_POOL) {
            return Ok(Priority::START);
        }
        if let Some(pool) = self.proposed.iter().find(|pool| pool.name == name) {
            return Ok(pool.range.0);
        }
        let known = self.known.iter().find(|pool| pool.name == name);
        if let Some((low, high)) = known.and_then(|pool| pool.range) {
            let unreachable = || ImportProblem::UnreachablePool(name.to_owned());
            return nearest(low, high).ok_or_else(unreachable);
        }
        let free = candidates().find(|priority| self.is_free(*priority));
        let priority = free.ok_or_else(|| ImportProblem::NoPriority(name.to_owned()))?;
        let (name, range, exists) = (name.to_owned(), (priority, priority), known.is_some());
        self.proposed.push(ProposedPool { name, threads, range, exists });
        Ok(priority)
    }

    fn is_free(&self, priority: Priority) -> bool {
        let known = self.known.iter().filter_map(|pool| pool.range);
        let mut taken = known.chain(self.proposed.iter().map(|pool| pool.range));
        !taken.any(|(low, high)| low <= priority && priority <= high)
    }
}

/// Priorities in the order in which they are proposed.
fn candidates() -> impl Iterator<Item = Priority> {
    (1..=127).map(|n| -n).chain(1..=127).filter_map(Priority::new)
}

/// The priority of a range that is nearest to 0. Priority 0 itself always belongs to the default pool.
fn nearest(low: Priority, high: Priority) -> Option<Priority> {
    let in_range = candidates().filter(|priority| low <= *priority && *priority <= high);
    in_range.min_by_key(|priority| priority.number().unsigned_abs())
}
