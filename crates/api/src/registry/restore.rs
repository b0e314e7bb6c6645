//! What an earlier run left: its sessions, locks and permits go on, each with its whole lease.

use super::Registry;
use super::leases::LEASE;
use super::permits::{PermitView, Written};
use paceline_host::{Keeper, Kept, KeptLock, KeptPermit, KeptSession, TakenOver};
use paceline_types::{Priority, Role, SessionId};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Registry {
    /// Takes over what is kept. To be called before any door is open, so that nothing is granted that
    /// somebody has (P3, L5, C4).
    pub(crate) fn take_over(self: &Arc<Self>) -> Result<(), String> {
        let Some(keeper) = self.host.keeper() else { return Ok(()) };
        let TakenOver { sessions, locks, permits } = keeper.take_over();
        if sessions.is_empty() && permits.is_empty() {
            return Ok(());
        }
        let counts = (sessions.len(), locks.len(), permits.len());
        let mut known: BTreeMap<String, (SessionId, String)> = BTreeMap::new();
        let mut bound: Vec<KeptSession> = Vec::new();
        for (mut kept, row) in sessions {
            if kept.lease.is_none() && kept.processes.is_empty() {
                // Nobody can tell when it is over, but a lease can.
                kept.lease = Some(LEASE);
            }
            if kept.lease.is_none() {
                bound.push(kept.clone());
            }
            let session = self.host.restore_session(kept.number, Role::Client, kept.name.clone());
            let (shared, _) = self.add_session(session, kept, Some(row));
            known.insert(shared.session.name.clone(), (shared.session.id, shared.key.clone()));
        }
        for KeptLock { name, session, fencing } in locks {
            if let Some((session, _)) = known.get(&session) {
                self.host.locking().restore(*session, &name, fencing);
            }
        }
        for (kept, row) in permits {
            self.restore_permit(kept, row, &known);
        }
        let (sessions, locks, permits) = counts;
        tracing::info!(sessions, locks, permits, "what clients held in the last run is theirs");
        self.watch(&bound)
    }

    /// Ends bound sessions when their processes are dead (C4).
    pub(super) fn watch(self: &Arc<Self>, sessions: &[KeptSession]) -> Result<(), String> {
        let this = Arc::downgrade(self);
        Keeper::watch(sessions, move |name| {
            if let Some(this) = this.upgrade() {
                this.processes_ended(&name);
            }
        })
        .map_err(|error| format!("cannot watch the processes that hold something: {error}"))
    }

    fn restore_permit(
        &self,
        kept: KeptPermit,
        row: Kept,
        sessions: &BTreeMap<String, (SessionId, String)>,
    ) {
        let KeptPermit { name, number, mut request, priority, user, session, lease, .. } = kept;
        let session = sessions.get(&session);
        request.session = session.map(|(id, _)| *id);
        let priority = Priority::new(priority.into()).unwrap_or(Priority::START);
        let permit = match self.host.control().restore(number, request, priority) {
            Ok(permit) => permit,
            Err(error) => {
                tracing::error!(permit = name, %error, "a permit of the last run is none");
                return;
            }
        };
        let mut view = self.describe(&permit, &user);
        (view.granted_us, view.waited) = (kept.granted_us, kept.waited);
        view.name = name;
        let digest = digest(&kept.digest);
        let session = session.map(|(_, key)| key.clone());
        let written = Written { view, row: Some(row), digest, span: lease };
        // It fails only if its session is over, and then so is the permit.
        let _: Result<PermitView, _> = self.add_permit(permit, written, session);
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
    use crate::token::hex;

    #[test]
    fn digests_are_read_as_they_are_written() {
        let bytes: [u8; 32] = std::array::from_fn(|index| (index * 9) as u8);
        assert_eq!(digest(&hex(&bytes)), Some(bytes));
        assert_eq!(digest(""), None);
        assert_eq!(digest(&"zz".repeat(32)), None);
    }
}
