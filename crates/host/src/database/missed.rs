//! The changes that a client missed which returns with `monitor_cond_since`.
//!
//! The committer takes the transactions that the client does not know out of the history, which costs a pointer each,
//! reserves the place of the answer in the client's outbox and adds the monitor. The net effect is computed and encoded
//! in pieces on another thread (`tellers.rs`). Updates that follow stay behind the answer until it is complete. The
//! committer itself makes only short answers.

use super::watchers::row_bytes;
use crate::outbox::{Content, Later, Reply};
use crate::session::Session;
use paceline_tables::Changes;
use paceline_tables::monitor::{Monitor, Telling, merge};
use paceline_tables::schema::Schema;
use paceline_types::Uuid;
use std::sync::Arc;
use std::task::Waker;

/// Clauses that the committer may test on changed rows.
const SHORT_STEPS_MAX: usize = 256;

/// Memory of changed rows that the committer may read.
const SHORT_BYTES_MAX: usize = 32 << 10;

/// The answer to a client that returns, not computed yet.
pub(super) struct Missed {
    pub(super) session: Arc<Session>,
    pub(super) monitor: Arc<Monitor>,
    pub(super) schema: Arc<Schema>,
    /// What it missed, oldest first.
    pub(super) transactions: Vec<Arc<Changes>>,
    /// The memory that these take.
    pub(super) bytes: usize,
    /// The last transaction.
    pub(super) transaction: Uuid,
    /// The place of the answer in the outbox.
    pub(super) later: Arc<Later>,
    /// The net effect, partly written.
    pub(super) telling: Option<Telling>,
}

impl Missed {
    /// Whether making the answer is faster than moving it to another thread.
    pub(super) fn is_short(&self) -> bool {
        let rows: usize = self.transactions.iter().map(|changes| changes.rows.len()).sum();
        // Conditions read unchanged values too.
        let all = self.transactions.iter().flat_map(|changes| &changes.rows);
        self.bytes <= SHORT_BYTES_MAX
            && rows.saturating_mul(self.monitor.weight()) <= SHORT_STEPS_MAX
            && row_bytes(all, SHORT_BYTES_MAX).is_some()
    }

    /// Works on the answer for about `steps` steps. Returns whether there is more to do.
    pub(super) fn go_on(&mut self, steps: usize) -> bool {
        let telling = self.telling.get_or_insert_with(|| {
            let net = merge(self.transactions.iter().map(|changes| &**changes));
            self.transactions.clear();
            Telling::new(self.monitor.clone(), self.schema.clone(), Arc::new(net))
        });
        telling.go_on(steps)
    }

    /// The answer, once it is complete.
    pub(super) fn reply(&mut self) -> Reply {
        let text = self.telling.take().and_then(Telling::into_text);
        let content = Content::Text(text.unwrap_or_else(|| b"{}".to_vec()));
        Reply::Since { found: true, transaction: self.transaction, content }
    }

    /// Puts the answer in its place. Returns the task to wake.
    pub(super) fn leave(&mut self) -> Option<Waker> {
        let reply = self.reply();
        self.session.outbox.fill(&self.later, reply)
    }
}
