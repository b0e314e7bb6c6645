//! What an earlier run left: its sessions, locks and permits continue, each with its full lease.

use super::leases::LEASE;
use super::permits::Belonging;
use super::shares::Amount;
use super::{HeldSession, Registry};
use crate::{Keeper, KeptLock, KeptPermit, KeptSession, TakenOver};
use paceline_types::Role;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Registry {
    /// Takes over what is kept. To be called before any door is open, so that nothing is granted that a client
    /// of the last run holds (P3, L5, C4).
    ///
    /// # Errors
    ///
    /// When what is kept cannot be read.
    pub fn take_over(self: &Arc<Self>) -> Result<(), String> {
        let Some(keeper) = self.host.keeper() else { return Ok(()) };
        let TakenOver { sessions, locks, permits } = keeper.take_over()?;
        if sessions.is_empty() && permits.is_empty() {
            return Ok(());
        }
        let counts = (sessions.len(), locks.len(), permits.len());
        let mut known: BTreeMap<String, Arc<HeldSession>> = BTreeMap::new();
        let mut bound: Vec<KeptSession> = Vec::new();
        for mut kept in sessions {
            if kept.lease.is_none() && kept.processes.is_empty() {
                // Its end cannot be noticed, so it gets a lease.
                kept.lease = Some(LEASE);
                keeper.change_session(&kept.name, |kept| kept.lease = Some(LEASE));
            }
            if kept.lease.is_none() {
                bound.push(kept.clone());
            }
            let session = self.host.restore_session(kept.number, Role::Client, kept.name.clone());
            let share = self.shares.restore(&kept.user, Amount::SESSION);
            let (shared, _) = self.add_session(session, &kept, share);
            known.insert(shared.session.name.clone(), shared);
        }
        for KeptLock { name, session, fencing } in locks {
            if let Some(session) = known.get(&session)
                && self.host.locking().restore(session.session.id, &name, fencing)
            {
                session.standings.restore(name);
            }
        }
        for kept in permits {
            self.restore_permit(keeper, kept, &known);
        }
        keeper.write();
        let (sessions, locks, permits) = counts;
        tracing::info!(sessions, locks, permits, "restored what clients held in the last run");
        self.state().restored = bound;
        Ok(())
    }

    /// Begins to end bound sessions whose processes are dead, and leases that expired. To be called once the
    /// doors are open, because until then nothing is released. Returns the bound sessions with their users; the
    /// caller knows their roles.
    ///
    /// # Errors
    ///
    /// When the processes of bound sessions cannot be watched.
    pub fn begin_service(self: &Arc<Self>) -> Result<Vec<(Arc<HeldSession>, String)>, String> {
        let bound = std::mem::take(&mut self.state().restored);
        self.watch(&bound)?;
        let state = self.state();
        let session = |kept: KeptSession| {
            let entry = state.sessions.get(state.keys.get(&kept.name)?)?;
            Some((Arc::clone(&entry.shared), kept.user))
        };
        Ok(bound.into_iter().filter_map(session).collect())
    }

    /// Ends bound sessions when their processes are dead (C4).
    pub(super) fn watch(self: &Arc<Self>, sessions: &[KeptSession]) -> Result<(), String> {
        let this = Arc::downgrade(self);
        let Some(keeper) = self.host.keeper() else { return Ok(()) };
        keeper
            .watch(sessions, move |name| {
                if let Some(this) = this.upgrade() {
                    this.processes_ended(&name);
                }
            })
            .map_err(|error| format!("cannot watch the processes that hold something: {error}"))
    }

    fn restore_permit(
        &self,
        keeper: &Keeper,
        kept: KeptPermit,
        sessions: &BTreeMap<String, Arc<HeldSession>>,
    ) {
        let session = sessions.get(&kept.session);
        let permit = keeper.restore_permit(&kept, session.map(|session| session.session.id));
        let share = self.shares.restore(&kept.user, Amount::of_kept(&kept));
        let mut view = self.describe(&permit, &kept.user);
        (view.granted_us, view.waited) = (kept.granted_us, kept.waited);
        view.name = kept.name;
        // Locks are required only until a permit is granted, so the session that owned them is not kept.
        let session = session.map(|session| session.key.clone());
        let of = Belonging { session, span: kept.lease, ..Belonging::default() };
        // This fails only if its session has ended, and then so has the permit.
        drop(self.add_permit(permit, view, digest(&kept.digest), of, share));
    }
}

fn digest(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0u8; 32];
    if text.len() != 2 * digest.len() {
        return None;
    }
    for (index, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::digest;
    use crate::registry::permits::hex;

    #[test]
    fn digests_are_read_as_they_are_written() {
        let bytes: [u8; 32] = std::array::from_fn(|index| (index * 9) as u8);
        assert_eq!(digest(&hex(&bytes)), Some(bytes));
        assert_eq!(digest(""), None);
        assert_eq!(digest(&"zz".repeat(32)), None);
    }
}
