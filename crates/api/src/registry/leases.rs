//! Leases, in the order they run out, and the one task that sleeps until the next one does.

use super::Registry;
use crate::respond::Problem;
use paceline_types::{Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Shortest lease.
const LEASE_MIN: Span = Span::from_secs(1);

/// Longest lease.
const LEASE_MAX: Span = Span::from_secs(86_400);

/// What a lease is unless said.
pub(super) const LEASE: Span = Span::from_secs(30);

/// When something runs out, and for how long it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) span: Span,
    pub(super) ends: Time,
    number: u64,
}

/// Which lease, among all there were.
pub(super) type LeaseKey = (Time, u64);

impl Lease {
    pub(super) const fn key(&self) -> LeaseKey {
        (self.ends, self.number)
    }
}

/// What a lease is of.
#[derive(Clone, Debug)]
pub(super) enum Leased {
    Session(String),
    Permit(String),
}

/// All leases.
#[derive(Debug, Default)]
pub(super) struct Leases {
    by_end: BTreeMap<LeaseKey, Leased>,
    next: u64,
}

impl Leases {
    /// A new lease that begins now.
    pub(super) fn begin(&mut self, now: Time, span: Span, leased: Leased) -> Lease {
        self.next += 1;
        let lease = Lease { span, ends: now.plus(span), number: self.next };
        self.by_end.insert((lease.ends, lease.number), leased);
        lease
    }

    /// Whether no other lease ends before this one, so that whoever sleeps must look again.
    pub(super) fn is_next(&self, lease: Option<Lease>) -> bool {
        lease.is_some_and(|lease| self.next_end() == Some(lease.ends))
    }

    /// Takes a lease away.
    pub(super) fn end(&mut self, lease: Lease) -> Option<Leased> {
        self.by_end.remove(&(lease.ends, lease.number))
    }

    /// When the next one runs out.
    fn next_end(&self) -> Option<Time> {
        self.by_end.first_key_value().map(|((ends, _), _)| *ends)
    }

    /// Takes the next one that has run out.
    fn pop_due(&mut self, now: Time) -> Option<(LeaseKey, Leased)> {
        let first = self.by_end.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove_entry())
    }
}

/// Checks a lease that a client asks for.
pub(super) fn checked(lease: Option<Span>) -> Result<Span, Problem> {
    let lease = lease.unwrap_or(LEASE);
    match (LEASE_MIN..=LEASE_MAX).contains(&lease) {
        true => Ok(lease),
        false => Err(Problem::bad_request(format!(
            "lease: expected {LEASE_MIN} to {LEASE_MAX}, found {lease}"
        ))),
    }
}

impl Registry {
    /// Ends what has run out.
    pub(super) fn end_due(&self) {
        let now = self.clock.now();
        loop {
            let mut state = self.state();
            let due = state.leases.pop_due(now);
            if let Some((_, Leased::Session(name) | Leased::Permit(name))) = &due {
                state.expired.note(name.clone());
            }
            drop(state);
            match due {
                Some((_, Leased::Session(name))) => self.end_session(&name),
                Some((lease, Leased::Permit(name))) => self.end_permit(&name, lease),
                None => return,
            }
        }
    }
}

/// Ends leases as they run out, for ever.
pub(crate) async fn sweep(registry: Arc<Registry>) {
    loop {
        registry.end_due();
        let rearmed = registry.rearm.notified();
        let next = registry.state().leases.next_end();
        match next {
            None => rearmed.await,
            Some(at) => {
                let until = registry.clock.instant(at);
                let _ = tokio::time::timeout_at(until.into(), rearmed).await;
            }
        }
    }
}
