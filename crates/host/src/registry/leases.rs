//! Leases, in the order in which they expire, and the one task that sleeps until the next one does.

use super::{Entries, HoldError, Registry};
use paceline_types::{Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The shortest lease.
const LEASE_MIN: Span = Span::from_secs(1);

/// The longest lease.
const LEASE_MAX: Span = Span::from_secs(86_400);

/// The default lease.
pub(super) const LEASE: Span = Span::from_secs(30);

/// The most leases that are ended in one turn.
const DUE_MAX: usize = 256;

/// When a lease expires, and for how long it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) span: Span,
    pub(super) ends: Time,
    number: u64,
}

/// Identifies a lease among all there were.
pub(super) type LeaseKey = (Time, u64);

impl Lease {
    pub(super) const fn key(&self) -> LeaseKey {
        (self.ends, self.number)
    }
}

/// What a lease belongs to.
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
    /// Until when the sweep sleeps; `None` if it sleeps until it is woken.
    armed: Option<Time>,
}

impl Leases {
    /// A new lease that begins now.
    pub(super) fn begin(&mut self, now: Time, span: Span, leased: Leased) -> Lease {
        self.next += 1;
        let lease = Lease { span, ends: now.plus(span), number: self.next };
        self.by_end.insert((lease.ends, lease.number), leased);
        lease
    }

    /// Whether the sweep must be woken for a new lease: it would sleep past its end.
    ///
    /// A lone client's lease is the next one to end each time, but the sweep sleeps until the end of an earlier
    /// one that was released. It then checks again by itself.
    pub(super) fn must_wake(&self, lease: Option<Lease>) -> bool {
        lease.is_some_and(|lease| self.armed.is_none_or(|armed| lease.ends < armed))
    }

    /// Sets until when the sweep sleeps; `None` if there is no lease.
    fn arm(&mut self) -> Option<Time> {
        self.armed = self.next_end();
        self.armed
    }

    /// Removes a lease.
    pub(super) fn end(&mut self, lease: Lease) -> Option<Leased> {
        self.by_end.remove(&(lease.ends, lease.number))
    }

    /// When the next lease expires.
    fn next_end(&self) -> Option<Time> {
        self.by_end.first_key_value().map(|((ends, _), _)| *ends)
    }

    /// Removes the next lease that has expired.
    fn pop_due(&mut self, now: Time) -> Option<(LeaseKey, Leased)> {
        let first = self.by_end.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove_entry())
    }
}

/// Checks a lease that a client asks for.
pub(super) fn checked(lease: Option<Span>) -> Result<Span, HoldError> {
    let lease = lease.unwrap_or(LEASE);
    match (LEASE_MIN..=LEASE_MAX).contains(&lease) {
        true => Ok(lease),
        false => Err(HoldError::Lease { min: LEASE_MIN, max: LEASE_MAX, found: lease }),
    }
}

impl Registry {
    /// Ends the leases that have expired.
    pub(super) fn end_due(&self) {
        while self.end_some_due() {}
    }

    /// Ends leases as they expire, forever.
    pub async fn sweep(self: Arc<Self>) {
        loop {
            while self.end_some_due() {
                // Other tasks need not wait for all of them.
                tokio::task::yield_now().await;
            }
            let rearmed = self.rearm.notified();
            let next = self.state().leases.arm();
            match next {
                None => rearmed.await,
                Some(at) => {
                    let _ = self.clock.timeout_at(at, rearmed).await;
                }
            }
        }
    }

    /// Ends at most [`DUE_MAX`] leases that have expired. Returns whether there may be more.
    fn end_some_due(&self) -> bool {
        let now = self.clock.now();
        let due: Vec<(LeaseKey, Leased)> = {
            let mut state = self.state();
            let due = std::iter::from_fn(|| state.leases.pop_due(now)).take(DUE_MAX);
            due.collect()
        };
        let end = || {
            for (lease, leased) in &due {
                self.state().note_expired(leased);
                match leased {
                    Leased::Session(name) => self.end_session(name),
                    Leased::Permit(name) => self.end_permit(name, *lease),
                }
            }
        };
        if !due.is_empty() {
            self.together(end);
        }
        due.len() == DUE_MAX
    }
}

impl Entries {
    /// Remembers what expired: a session with its permits.
    fn note_expired(&mut self, leased: &Leased) {
        let (Leased::Session(name) | Leased::Permit(name)) = leased;
        if let Leased::Session(key) = leased
            && let Some(entry) = self.sessions.get(key)
        {
            // Names that would be forgotten at once are skipped.
            let names = entry.permits.iter().take(self.expired.max());
            names.for_each(|name| self.expired.note(name.clone()));
        }
        self.expired.note(name.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::{DUE_MAX, Leased, Leases};
    use crate::registry::tests::World;
    use paceline_types::{Span, Time};
    use std::sync::Arc;

    #[test]
    fn only_a_lease_that_ends_before_the_sweep_looks_wakes_it() {
        let mut leases = Leases::default();
        let permit = || Leased::Permit("x".to_owned());
        assert_eq!(leases.arm(), None);
        let first = leases.begin(Time(0), Span(30), permit());
        assert!(leases.must_wake(Some(first)), "the sweep sleeps until it is woken");
        assert_eq!(leases.arm(), Some(Time(30)));
        leases.end(first);
        let second = leases.begin(Time(1), Span(30), permit());
        assert!(!leases.must_wake(Some(second)), "the sweep looks at 30");
        let sooner = leases.begin(Time(1), Span(10), permit());
        assert!(leases.must_wake(Some(sooner)), "it ends at 11");
        leases.end(sooner);
        assert_eq!(leases.arm(), Some(Time(31)));
        leases.end(second);
        assert_eq!(leases.arm(), None);
        assert!(!leases.must_wake(None), "a session without a lease");
    }

    /// D4: however many leases end at once, other tasks get their turn after each [`DUE_MAX`] of them.
    #[test]
    fn leases_that_end_at_once_let_others_in_between_d4() {
        const LEASES: usize = 20 * DUE_MAX;
        let world = World::new("leases");
        let left = || world.registry.state().leases.by_end.len();
        for number in 0..LEASES {
            let leased = Leased::Permit(format!("x{number}"));
            world.registry.state().leases.begin(Time(0), Span::ZERO, leased);
        }
        let mut seen = vec![LEASES];
        world.block_on(async {
            // Both are tasks of one thread: the work of one turn of the sweep is done between two looks.
            let sweep = tokio::spawn(Arc::clone(&world.registry).sweep());
            while seen.last() != Some(&0) {
                tokio::task::yield_now().await;
                seen.push(left());
            }
            sweep.abort();
        });
        let most = seen.windows(2).map(|pair| pair[0] - pair[1]).max().unwrap();
        assert!(most <= DUE_MAX, "{most} of {LEASES} leases ended in one turn");
    }
}
