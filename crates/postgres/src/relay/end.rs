//! COPY from the client, cancel, and the loss of either side.

use super::answer::BROKEN_COPY;
use super::queue::{Ask, Entry, Way};
use super::{Effect, Link, Phase, Relay, Reuse};
use crate::wire::SqlState;
use crate::wire::backend::Status;
use crate::wire::frame::{Framed, LENGTH_MAX, Side};
use crate::wire::frontend;
use crate::wire::kind::client;
use crate::wire::report::{Report, Severity};

/// The maximum number of cancel requests of a client that are under way; further ones are ignored.
pub const CANCELS_MAX: usize = 16;

impl Relay {
    /// CopyData, CopyDone or CopyFail. Outside COPY they are dropped, as servers do.
    pub(super) fn copy(&mut self, message: Framed<'_>) {
        let Some(link) = self.link.as_mut().filter(|link| link.is_copying) else { return };
        if message.kind != client::COPY_DATA {
            link.is_copying = false;
        }
        let head = Side::client(LENGTH_MAX).head(message.bytes).ok().flatten();
        self.missing = head.map_or(0, |head| head.total().saturating_sub(message.bytes.len()));
        self.effects.push_back(Effect::ServerInput);
    }

    /// Another message during COPY. Sync and Flush are ignored, as servers do; any other one ends COPY with an error.
    pub(super) fn interrupt_copy(&mut self, kind: u8) {
        if matches!(kind, client::SYNC | client::FLUSH) {
            return;
        }
        if let Some(link) = &mut self.link {
            link.is_copying = false;
        }
        self.put(|out| frontend::copy_fail(out, BROKEN_COPY));
    }

    /// The client asks to cancel what it waits for.
    pub fn cancel(&mut self) {
        self.begin_call();
        match self.phase {
            Phase::Admitting | Phase::Linking => {
                let message = "canceling statement due to user request";
                self.withdraw();
                self.refuse(&Report::error(SqlState::QUERY_CANCELED, message));
            }
            _ => self.cancel_upstream(),
        }
    }

    /// The connection of a cancel request has ended.
    pub fn cancel_ended(&mut self) {
        self.begin_call();
        self.cancels = self.cancels.saturating_sub(1);
        if self.link.as_ref().is_some_and(|link| !link.is_busy) {
            self.between_batches();
        }
    }

    /// The client is lost.
    pub fn client_gone(&mut self) {
        self.begin_call();
        self.leave();
    }

    /// The server is lost; `is_cut` if a message of it was forwarded in part.
    pub fn server_gone(&mut self, is_cut: bool) {
        self.begin_call();
        let Some(link) = &mut self.link else { return };
        let fatal = link.fatal.take();
        self.lose_server(fatal, is_cut);
    }

    fn cancel_upstream(&mut self) {
        if self.cancels < CANCELS_MAX && self.link.as_ref().is_some_and(|link| link.is_busy) {
            self.cancels += 1;
            self.effects.push_back(Effect::CancelUpstream);
        }
    }

    /// Ends the wait for a permit or for a server.
    fn withdraw(&mut self) {
        self.has_permit = false;
        self.effects.push_back(Effect::Settle);
    }

    pub(super) fn leave(&mut self) {
        if std::mem::replace(&mut self.is_gone, true) {
            return;
        }
        let phase = std::mem::replace(&mut self.phase, Phase::Over);
        if matches!(phase, Phase::Admitting | Phase::Linking) {
            self.withdraw();
        }
        self.clear_held();
        let Some(link) = &mut self.link else { return };
        if self.missing > 0 || self.pin.is_some() {
            self.cancel_upstream();
            return self.close_server();
        }
        if !link.is_busy {
            return self.between_batches();
        }
        self.cancel_upstream();
        self.end_batch();
    }

    /// Ends the batch of a client that is gone, so that the server becomes ready. A Sync alone would commit it.
    pub(super) fn end_batch(&mut self) {
        let Some(link) = &mut self.link else { return };
        if std::mem::take(&mut link.is_copying) {
            self.put(|out| frontend::copy_fail(out, b"the client is gone"));
        }
        let Some(link) = self.link.as_mut().filter(|link| !link.is_closed) else { return };
        link.is_closed = true;
        if link.queue.back().is_some_and(|entry| entry.ask == Ask::Prelude) {
            return;
        }
        if !self.is_skipping {
            self.fail(Report::error(SqlState::CONNECTION_FAILURE, "the client is gone"));
        }
        self.put(frontend::sync);
        self.expect(Entry::new(Ask::Sync, Way::Skip));
    }

    /// The server is useless: it is closed, and the client gets an error. `is_cut` if the client's connection must
    /// end too.
    pub(super) fn lose(&mut self, report: Option<Report>, is_cut: bool) {
        let Some(link) = self.link.as_mut() else { return };
        let server =
            std::mem::replace(&mut link.server, Box::new(super::Server::new(Default::default())));
        self.effects.push_back(Effect::Release(server, Reuse::Close));
        self.lose_server(report, is_cut);
    }

    fn close_server(&mut self) {
        if let Some(link) = self.link.take() {
            self.effects.push_back(Effect::Release(link.server, Reuse::Close));
        }
        self.settle();
    }

    /// The server is no longer there. What the client had of it decides whether its connection lives.
    fn lose_server(&mut self, report: Option<Report>, is_cut: bool) {
        let Some(link) = self.link.take() else { return };
        self.settle();
        let lives = !is_cut && self.pin.take().is_none() && link.status == Status::Idle;
        let severity = if lives { Severity::Error } else { Severity::Fatal };
        let report = explain(report, severity, may_have_committed(&link));
        let Link { is_busy, is_closed, is_erred, .. } = link;
        for entry in link.queue.into_iter().rev() {
            self.undo(entry.undo);
        }
        self.offered.clear();
        self.portals.clear();
        if lives && !is_busy {
            return;
        }
        if !lives || !is_erred {
            self.tell(|out| report.write(out));
        }
        if !lives {
            if std::mem::replace(&mut self.phase, Phase::Over) == Phase::Admitting {
                self.withdraw();
            }
            self.clear_held();
            if !std::mem::replace(&mut self.is_gone, true) {
                self.effects.push_back(Effect::Close);
            }
            return;
        }
        match is_closed {
            true => self.ready_for_query(Status::Idle),
            false => self.is_skipping = true,
        }
    }
}

/// Whether the server may have committed something that the client does not know of.
fn may_have_committed(link: &Link) -> bool {
    let ends = |entry: &Entry| entry.statement.as_ref().is_none_or(|statement| statement.exits);
    match link.status {
        Status::Idle => link.is_closed,
        _ => link.queue.iter().any(|entry| entry.ask.has_rows() && ends(entry)),
    }
}

/// The error for the client of a server that is lost.
fn explain(report: Option<Report>, severity: Severity, may_have_committed: bool) -> Report {
    let (state, message) = match &report {
        Some(report) => (report.state(), report.message()),
        None => (SqlState::CONNECTION_FAILURE, "the server closed the connection"),
    };
    let report = Report::new(severity, state, message);
    match may_have_committed {
        true => report.detail("the outcome of the transaction is unknown: it may be committed"),
        false => report,
    }
}
