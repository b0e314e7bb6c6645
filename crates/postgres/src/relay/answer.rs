//! Messages of the server: matched with the answers that are expected, and forwarded, skipped or replaced.

use super::queue::{Ask, Entry, Undo, Way};
use super::{Effect, Link, Phase, Pooling, Relay, Reuse};
use crate::wire::SqlState;
use crate::wire::backend::{Fields, Parameter, Status, command_tag};
use crate::wire::frame::Framed;
use crate::wire::frontend;
use crate::wire::kind::server;
use crate::wire::report::{Report, Severity};

/// What an answer does to its entry.
enum Step {
    /// More is to come.
    Stay,
    /// It is the last one.
    Last,
    /// The server waits for the data of COPY.
    Copy,
    /// It does not belong to the entry.
    Wrong,
}

/// The function of the server that finds that a plan has another result type than before. Unlike the text of the error
/// it is never translated.
const REVALIDATE: &[u8] = b"RevalidateCachedQuery";

/// Why COPY fails if the client sends something else than its data.
pub(super) const BROKEN_COPY: &[u8] = b"unexpected message during COPY";

impl Relay {
    pub(super) fn answer(&mut self, message: Framed<'_>) {
        if self.link.is_none() {
            return;
        }
        match message.kind {
            server::NOTICE_RESPONSE | server::NOTIFICATION_RESPONSE => {
                if !self.is_in_prelude() {
                    self.forward_to_client();
                }
            }
            server::PARAMETER_STATUS => self.parameter(message),
            server::ERROR_RESPONSE => self.error(message),
            server::READY_FOR_QUERY => match Status::read(message.body()) {
                Ok(status) => self.ready(status),
                Err(_) => self.violation(),
            },
            _ => self.result(message),
        }
    }

    fn is_in_prelude(&self) -> bool {
        let front = self.link.as_ref().and_then(|link| link.queue.front());
        front.is_some_and(|entry| entry.ask == Ask::Prelude)
    }

    fn parameter(&mut self, message: Framed<'_>) {
        let Ok(parameter) = Parameter::read(message.body()) else { return self.violation() };
        if let Some(link) = &mut self.link {
            link.server.parameters.set(parameter.name, parameter.value);
        }
        // What the relay sets are the values that the client has been told.
        if !self.is_in_prelude() {
            self.parameters.set(parameter.name, parameter.value);
            self.forward_to_client();
        }
    }

    /// A message that belongs to the result of the first entry.
    fn result(&mut self, message: Framed<'_>) {
        let front = self.link.as_mut().and_then(|link| link.queue.front_mut());
        let Some(entry) = front else { return self.violation() };
        let step = step(entry.ask, message.kind);
        match (&entry.way, &step) {
            (_, Step::Wrong) | (Way::Swap(_) | Way::Fake(_), _) => return self.violation(),
            (Way::Forward, _) => self.forward_to_client(),
            (Way::Skip, _) => {}
        }
        if message.kind == server::COMMAND_COMPLETE {
            self.completed(message);
        }
        match step {
            Step::Copy => self.copy_in(),
            Step::Last => {
                if let Some(link) = &mut self.link {
                    link.queue.pop_front();
                }
                self.send_fakes();
            }
            Step::Stay | Step::Wrong => {}
        }
    }

    /// After `DISCARD ALL` nothing of the session is left, but what was sent behind it may pin again.
    fn completed(&mut self, message: Framed<'_>) {
        let is_discard = command_tag(message.body()).is_ok_and(|tag| tag == b"DISCARD ALL");
        if !is_discard || self.pooling == Pooling::Session {
            return;
        }
        let pins = |entry: &Entry| {
            let statement = entry.statement.as_ref().filter(|_| entry.ask == Ask::Execute);
            statement.is_some_and(|own| own.pins.is_some() || own.sets_search_path)
        };
        if let Some(link) = &self.link
            && !link.queue.iter().skip(1).any(pins)
        {
            self.pin = None;
        }
    }

    /// Sends the relay's own answers whose turn it is.
    fn send_fakes(&mut self) {
        while let Some(link) = &mut self.link
            && let Some(entry) = link.queue.pop_front_if(|entry| matches!(entry.way, Way::Fake(_)))
        {
            if let Way::Fake(bytes) = entry.way {
                self.tell(|out| out.extend_from_slice(&bytes));
            }
        }
    }

    /// The server reads the data of COPY, and ignores a Sync that was sent with the batch. If the client sent another
    /// message with it, COPY fails: at the server, or here if the server did not get that message.
    fn copy_in(&mut self) {
        let Some(link) = &mut self.link else { return };
        let mut behind = link.queue.iter().skip(1);
        let is_followed = behind.clone().next().is_some_and(|entry| entry.ask != Ask::Sync);
        let sent = behind.find(|entry| !matches!(entry.way, Way::Fake(_))).map(|entry| entry.ask);
        match (is_followed, sent) {
            (true, None) => self.put(|out| frontend::copy_fail(out, BROKEN_COPY)),
            (true, Some(Ask::Sync)) => self.put(|out| {
                frontend::copy_fail(out, BROKEN_COPY);
                frontend::sync(out);
            }),
            (true, Some(_)) => {}
            (false, _) => {
                link.queue.truncate(1);
                link.is_closed &= sent.is_none();
                link.is_copying = true;
                if self.is_gone {
                    self.end_batch();
                }
            }
        }
    }

    fn error(&mut self, message: Framed<'_>) {
        let fields = Fields::arrived(message.body());
        let Some(link) = &mut self.link else { return };
        let report = || Report::of_fields(fields);
        if matches!(report().severity(), Severity::Fatal | Severity::Panic) {
            link.fatal = Some(report());
            return;
        }
        link.is_copying = false;
        let Some(entry) = link.queue.front_mut() else { return self.violation() };
        if fields.state() == Some(SqlState::FEATURE_NOT_SUPPORTED)
            && fields.field(b'R') == Some(REVALIDATE)
            && let Some(statement) = &entry.statement
        {
            link.server.spoil(statement);
        }
        match entry.ask {
            Ask::Prelude if self.phase == Phase::Beginning => link.begin_error = Some(report()),
            Ask::Prelude => {
                let report = report();
                self.lose(Some(report), true);
            }
            Ask::Query => {
                let undo = std::mem::take(&mut entry.undo);
                let way = std::mem::replace(&mut entry.way, Way::Forward);
                self.undo(undo);
                self.tell_error(way);
            }
            Ask::Sync => self.forward_to_client(),
            _ => self.drop_batch(),
        }
    }

    fn tell_error(&mut self, way: Way) {
        self.with_link(|link| link.is_erred = true);
        match way {
            Way::Swap(report) => self.tell(|out| report.write(out)),
            _ => self.forward_to_client(),
        }
    }

    /// The first entry has failed: the server skips everything up to the Sync.
    fn drop_batch(&mut self) {
        let Some(link) = &mut self.link else { return };
        let end = link.queue.iter().position(|entry| entry.ask == Ask::Sync);
        if end.is_none() {
            // A Query that was sent behind it is skipped, too.
            link.is_closed = false;
            self.is_skipping = true;
        }
        let mut dropped: Vec<Entry> = link.queue.drain(..end.unwrap_or(link.queue.len())).collect();
        for entry in dropped.drain(1..).rev() {
            self.undo(entry.undo);
        }
        let Some(failed) = dropped.pop() else { return };
        self.undo(failed.undo);
        if failed.ask == Ask::ParseUnnamed {
            // The old unnamed statement is destroyed before the new one is parsed.
            if let Some(link) = &mut self.link {
                link.server.unnamed = None;
            }
            if matches!(failed.way, Way::Forward) {
                self.unnamed = None;
            }
        }
        self.tell_error(failed.way);
    }

    pub(super) fn undo(&mut self, undo: Vec<Undo>) {
        for undo in undo.into_iter().rev() {
            match undo {
                Undo::Name(name, Some(statement)) => _ = self.names.insert(name, statement),
                Undo::Name(name, None) => _ = self.names.remove(&name),
                Undo::Names(names) => self.names = names,
                Undo::Parameters(parameters) => self.parameters = parameters,
                Undo::Unnamed(statement) => self.unnamed = statement,
                Undo::Portal(name, Some(portal)) => _ = self.portals.insert(name, portal),
                Undo::Portal(name, None) => _ = self.portals.remove(&name),
                Undo::ServerUnnamed(statement) => self.with_link(|link| {
                    link.server.unnamed = statement;
                }),
                Undo::ServerForgot(forgotten) => self.with_link(|link| {
                    link.server.remember(forgotten);
                }),
                Undo::ServerAdded(statement) => self.with_link(|link| {
                    link.server.remove(&statement);
                }),
                Undo::ServerRemoved(statement, prepared) => self.with_link(|link| {
                    link.server.put_back(statement, prepared);
                }),
            }
        }
    }

    fn with_link(&mut self, change: impl FnOnce(&mut Link)) {
        if let Some(link) = &mut self.link {
            change(link);
        }
    }

    fn ready(&mut self, status: Status) {
        let Some(link) = &mut self.link else { return };
        match link.queue.pop_front().map(|entry| entry.ask) {
            Some(Ask::Prelude) => return self.prelude_ready(status),
            Some(Ask::Sync | Ask::Query) if link.queue.is_empty() => {}
            _ => return self.violation(),
        }
        link.status = status;
        link.is_failed = status == Status::Failed;
        (link.is_busy, link.is_closed, link.is_copying) = (false, false, false);
        link.is_erred = false;
        link.server.begin_batch();
        self.offered.clear();
        self.forward_to_client();
        self.between_batches();
    }

    /// A Query of the relay's own is done.
    fn prelude_ready(&mut self, status: Status) {
        let Some(link) = &mut self.link else { return };
        if !link.queue.is_empty() {
            return self.send_fakes();
        }
        if self.phase == Phase::Beginning {
            return match link.begin_error.take() {
                None if status == Status::InTransaction => {
                    self.begin_sent();
                    let result = self.send_held();
                    self.break_off(result);
                }
                None => self.violation(),
                Some(report) => {
                    (link.is_busy, link.status) = (false, status);
                    self.refuse(&report);
                    self.between_batches();
                }
            };
        }
        if self.is_gone {
            (link.is_busy, link.is_closed, link.status) = (false, false, status);
            self.between_batches();
        }
    }

    /// Nothing is outstanding: the transaction has ended, or the client is gone and it must end.
    pub(super) fn between_batches(&mut self) {
        let Some(link) = &mut self.link else { return };
        if link.status != Status::Idle {
            // A cancel request that is under way must not hit the ROLLBACK.
            if self.is_gone && self.cancels == 0 {
                self.put_prelude(b"ROLLBACK");
            }
            return;
        }
        self.portals.clear();
        if std::mem::take(&mut link.reshapes) {
            self.effects.push_back(Effect::Reshaped);
        }
        self.settle();
        self.release_if_free();
    }

    pub(super) fn release_if_free(&mut self) {
        let is_pinned = self.pin.is_some() && !self.is_gone;
        let may_leave = self.cancels == 0 && self.missing == 0 && !is_pinned;
        let is_free = |link: &mut Link| may_leave && !link.is_busy && link.status == Status::Idle;
        if let Some(link) = self.link.take_if(is_free) {
            let reuse = if self.pin.is_some() { Reuse::Close } else { Reuse::Clean };
            self.effects.push_back(Effect::Release(link.server, reuse));
        }
    }

    fn violation(&mut self) {
        let message = "the server sent a message that was not expected";
        self.lose(Some(Report::error(SqlState::PROTOCOL_VIOLATION, message)), true);
    }
}

fn step(ask: Ask, kind: u8) -> Step {
    match (ask, kind) {
        (Ask::Parse | Ask::ParseUnnamed, server::PARSE_COMPLETE)
        | (Ask::Bind, server::BIND_COMPLETE)
        | (Ask::Close, server::CLOSE_COMPLETE)
        | (
            Ask::DescribeStatement | Ask::DescribePortal,
            server::ROW_DESCRIPTION | server::NO_DATA,
        )
        | (
            Ask::Execute,
            server::COMMAND_COMPLETE | server::EMPTY_QUERY_RESPONSE | server::PORTAL_SUSPENDED,
        ) => Step::Last,
        (Ask::Execute | Ask::Query, server::COPY_IN_RESPONSE) => Step::Copy,
        (Ask::DescribeStatement, server::PARAMETER_DESCRIPTION)
        | (
            Ask::Execute | Ask::Query,
            server::DATA_ROW | server::COPY_OUT_RESPONSE | server::COPY_DATA | server::COPY_DONE,
        )
        | (
            Ask::Query,
            server::ROW_DESCRIPTION | server::COMMAND_COMPLETE | server::EMPTY_QUERY_RESPONSE,
        )
        | (Ask::Prelude, server::COMMAND_COMPLETE) => Step::Stay,
        _ => Step::Wrong,
    }
}
