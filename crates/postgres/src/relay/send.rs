//! Messages on their way to the server: renamed, with skipped messages before them, or answered by the relay itself.
//!
//! Every call either answers the message or adds the entry of the answer that the server owes for it.

use super::collect::walk;
use super::errors::{
    failed_transaction, finished_portal, too_many, unknown_name, used_name, used_portal,
};
use super::queue::{Ask, Entry, Portal, Undo, Way};
use super::reading::{Own, Statement};
use super::upstream;
use super::{Begun, CLIENT_STATEMENTS_MAX, Link, PORTALS_MAX, Phase, QUEUE_MAX, Relay};
use super::{SHORT_BYTES_MAX, TEXTS_BYTES_MAX};
use crate::wire::BodyError;
use crate::wire::backend::{self, Status};
use crate::wire::frame::{Framed, Head};
use crate::wire::frontend::{self, BindNames, Execute, Object, Parse, Target};
use crate::wire::kind::client;
use crate::wire::report::Report;
use std::borrow::Cow;
use std::sync::Arc;

const PARSE_COMPLETE: Cow<'static, [u8]> = Cow::Borrowed(b"1\0\0\0\x04");
const BIND_COMPLETE: Cow<'static, [u8]> = Cow::Borrowed(b"2\0\0\0\x04");
const CLOSE_COMPLETE: Cow<'static, [u8]> = Cow::Borrowed(b"3\0\0\0\x04");
const NO_DATA: Cow<'static, [u8]> = Cow::Borrowed(b"n\0\0\0\x04");
/// ParameterDescription without parameters, and NoData.
const NOTHING: Cow<'static, [u8]> = Cow::Borrowed(b"t\0\0\0\x06\0\0n\0\0\0\x04");

/// A text that every server refuses before it does anything.
const BROKEN_TEXT: &[u8] = b")";

impl Relay {
    /// Begins to send the batch in `held`, after what the server must do first.
    pub(super) fn start_batch(&mut self) {
        self.phase = Phase::Ready;
        let Some(link) = &mut self.link else { return };
        link.server.begin_batch();
        let stale = std::mem::take(&mut link.server.stale);
        let settings = self.parameters.settings(&link.server.parameters);
        for number in stale {
            self.put_close(number, vec![]);
        }
        if !settings.is_empty() {
            self.put_prelude(&settings);
        }
        if let Some(begun) = &self.begun {
            let statement = begun.statement.clone();
            self.put_prelude(statement.text.as_bytes());
            if statement.own == (Own::Begin { is_plain: false }) {
                self.phase = Phase::Beginning;
                return;
            }
            self.begin_sent();
        }
        let result = self.send_held();
        self.break_off(result);
    }

    /// The server is in the transaction that the relay began for the client.
    pub(super) fn begin_sent(&mut self) {
        self.begun = None;
        if let Some(link) = &mut self.link {
            link.status = Status::InTransaction;
        }
    }

    /// A Query of the relay's own.
    pub(super) fn put_prelude(&mut self, text: &[u8]) {
        self.put(|out| frontend::query(out, text));
        if let Some(link) = &mut self.link {
            link.server.unnamed = None;
        }
        self.expect(Entry::new(Ask::Prelude, Way::Skip));
    }

    /// Sends the messages in `held`.
    pub(super) fn send_held(&mut self) -> Result<(), BodyError> {
        self.phase = Phase::Ready;
        let mut held = std::mem::take(&mut self.held);
        let result = walk(&held).try_for_each(|message| self.send(message));
        held.clear();
        self.held = held;
        self.clear_held();
        result
    }

    /// Sends a message, or answers it.
    pub(super) fn send(&mut self, message: Framed<'_>) -> Result<(), BodyError> {
        let read = match message.kind {
            client::QUERY | client::PARSE => self.reads.pop_front(),
            _ => None,
        };
        if self.is_skipping && message.kind != client::SYNC {
            return Ok(());
        }
        match (message.kind, read) {
            (client::QUERY, Some(statement)) => self.send_query(message, statement),
            (client::PARSE, Some(statement)) => self.send_parse(message, statement)?,
            (client::BIND, _) => self.send_bind(message),
            (client::DESCRIBE, _) => self.send_describe(message)?,
            (client::EXECUTE, _) => self.send_execute(message)?,
            (client::CLOSE, _) => self.send_close(message)?,
            (client::FLUSH, _) if self.is_sending() => self.put(frontend::flush),
            (client::SYNC, _) => self.send_sync(),
            _ => {}
        }
        let is_full = |link: &Link| !link.is_closed && link.queue.len() >= QUEUE_MAX;
        if self.link.as_ref().is_some_and(is_full) {
            // The client is read again when answers arrive, so the server must not keep them.
            self.put(frontend::flush);
        }
        Ok(())
    }

    /// Rejects the message in `held`.
    pub(super) fn reject_held(&mut self, report: Report) -> Result<(), BodyError> {
        let kind = walk(&self.held).next().map(|message| message.kind);
        self.clear_held();
        kind.map_or(Ok(()), |kind| self.reject(kind, report))
    }

    /// Makes the transaction fail in the place of a message of this kind, with this error for the client.
    pub(super) fn reject(&mut self, kind: u8, report: Report) -> Result<(), BodyError> {
        match kind {
            client::QUERY | client::FUNCTION_CALL => self.fail_query(report),
            _ => self.fail(report),
        }
        Ok(())
    }

    fn is_sending(&self) -> bool {
        self.has_permit && self.link.is_some()
    }

    fn fail_query(&mut self, report: Report) {
        if !self.is_sending() {
            self.fail_own(&report);
            return self.send_sync();
        }
        self.put(|out| frontend::query(out, BROKEN_TEXT));
        self.close_batch(Entry::new(Ask::Query, Way::Swap(report)));
    }

    /// An error of the relay's own within a batch.
    pub(super) fn fail(&mut self, report: Report) {
        self.is_skipping = true;
        if !self.is_sending() {
            return self.fail_own(&report);
        }
        let target = Target { object: Object::Statement, name: b"pl_0" };
        self.put(|out| frontend::describe(out, target));
        self.expect(Entry::new(Ask::DescribeStatement, Way::Swap(report)));
    }

    /// The same for an error with a statement, which a failed transaction does not even look at.
    fn fail_with(&mut self, statement: &Statement, report: Report) {
        let is_failed = self.link.as_ref().is_some_and(|link| link.is_failed);
        self.fail(if is_failed && !statement.exits { failed_transaction() } else { report });
    }

    /// An error in a batch that no server sees.
    fn fail_own(&mut self, report: &Report) {
        if let Some(begun) = &mut self.begun {
            begun.is_failed = true;
        }
        self.tell(|out| report.write(out));
    }

    pub(super) fn expect(&mut self, entry: Entry) {
        if let Some(link) = &mut self.link {
            link.queue.push_back(entry);
        }
    }

    /// A Query destroys what is unnamed, whatever becomes of it.
    pub(super) fn drop_unnamed(&mut self) {
        self.unnamed = None;
        self.portals.remove(&b""[..]);
    }

    /// Expects the answer of a Query, which also destroys what is unnamed.
    fn close_batch(&mut self, entry: Entry) {
        self.drop_unnamed();
        if let Some(link) = &mut self.link {
            link.server.unnamed = None;
            link.is_closed = true;
            link.queue.push_back(entry);
        }
    }

    /// Answers in the place of the server, when all answers before have arrived.
    fn fake(&mut self, bytes: Cow<'static, [u8]>, undo: Vec<Undo>) {
        match &mut self.link {
            Some(link) if !link.queue.is_empty() => {
                link.queue.push_back(Entry::new(Ask::Close, Way::Fake(bytes)).with(undo));
            }
            _ => self.tell(|out| out.extend_from_slice(&bytes)),
        }
    }

    /// Whether the relay answers for a statement at this point, and the server does not see it.
    fn answers(&self, statement: &Statement) -> bool {
        let Some(link) = self.link.as_ref().filter(|_| self.has_permit) else {
            // Without a permit only batches come here that the relay answers as a whole.
            return true;
        };
        let is_free = self.pin.is_none();
        !link.is_failed
            && match &statement.own {
                Own::Deallocate(name) => is_free || self.names.contains_key(name.as_bytes()),
                Own::DeallocateAll => is_free,
                _ => false,
            }
    }

    fn send_query(&mut self, message: Framed<'_>, statement: Arc<Statement>) {
        if self.answers(&statement) {
            match self.run(&statement) {
                Err(report) => return self.fail_query(report),
                Ok((bytes, undo)) => self.fake(bytes, undo),
            }
            if self.is_sending() {
                // The server's ReadyForQuery is the one that counts.
                self.put(|out| frontend::query(out, b""));
                return self.close_batch(Entry::new(Ask::Query, Way::Skip));
            }
            self.drop_unnamed();
            return self.send_sync();
        }
        self.put(|out| out.extend_from_slice(message.bytes));
        let undo = self.note(&statement);
        self.close_batch(Entry::new(Ask::Query, Way::Forward).with(undo).of(statement));
    }

    fn send_parse(
        &mut self,
        message: Framed<'_>,
        statement: Arc<Statement>,
    ) -> Result<(), BodyError> {
        let parse = Parse::read(message.body())?;
        let is_failed = self.link.as_ref().is_some_and(|link| link.is_failed) && !statement.exits;
        if !parse.name.is_empty() {
            if self.names.contains_key(parse.name) {
                self.fail_with(&statement, used_name(parse.name));
                return Ok(());
            }
            let is_full = self.names.len() >= CLIENT_STATEMENTS_MAX;
            if is_full || is_too_long(&statement, self.names.values()) {
                self.fail(too_many("prepared statements", CLIENT_STATEMENTS_MAX));
                return Ok(());
            }
        }
        if self.answers(&statement) {
            let undo = self.register(parse.name, statement);
            self.fake(PARSE_COMPLETE, vec![undo]);
            return Ok(());
        }
        if parse.name.is_empty() {
            self.put(|out| out.extend_from_slice(message.bytes));
            let undo =
                vec![self.register(b"", statement.clone()), self.register_unnamed(statement)];
            self.expect(Entry::new(Ask::ParseUnnamed, Way::Forward).with(undo));
            return Ok(());
        }
        match self.number(&statement) {
            Some(_) if is_failed => self.fail(failed_transaction()),
            Some(_) => {
                let undo = self.register(parse.name, statement);
                self.fake(PARSE_COMPLETE, vec![undo]);
            }
            None => {
                let number = self.add(&statement);
                let name = upstream::name(number);
                let at = parse.name_at();
                let head = head(message);
                self.put(|out| {
                    frontend::rename(out, head, message.body(), at, name.as_bytes());
                });
                let added = Undo::ServerAdded(statement.clone());
                let undo = vec![added, self.register(parse.name, statement)];
                self.expect(Entry::new(Ask::Parse, Way::Forward).with(undo));
            }
        }
        Ok(())
    }

    fn send_bind(&mut self, message: Framed<'_>) {
        let Some(names) = BindNames::find(message.body()) else { return };
        let Some(statement) = self.statement(names.statement) else {
            if self.pin.is_none() || names.statement.is_empty() {
                return self.fail(unknown_name(names.statement));
            }
            self.put(|out| out.extend_from_slice(message.bytes));
            return self.expect(Entry::new(Ask::Bind, Way::Forward));
        };
        let is_full = self.portals.len() >= PORTALS_MAX && !self.portals.contains_key(names.portal);
        let bound = self.portals.values().map(|portal| &portal.statement);
        if is_full || is_too_long(&statement, bound) {
            return self.fail(too_many("portals", PORTALS_MAX));
        }
        let is_own = self.answers(&statement);
        let before = self.portals.get(names.portal).filter(|_| !names.portal.is_empty());
        if before.is_some_and(|before| is_own || before.is_own) {
            return self.fail_with(&statement, used_portal(names.portal));
        }
        if !is_own {
            self.put_named(message, names.statement_at(), &statement);
        }
        let portal = Portal { statement: statement.clone(), is_own, is_done: false };
        let before = self.portals.insert(names.portal.into(), portal);
        let undo = vec![Undo::Portal(names.portal.into(), before)];
        match is_own {
            true => self.fake(BIND_COMPLETE, undo),
            false => self.expect(Entry::new(Ask::Bind, Way::Forward).with(undo).of(statement)),
        }
    }

    /// Sends a Bind or a Describe with the server's name of its statement, which is parsed first if need be.
    fn put_named(
        &mut self,
        message: Framed<'_>,
        at: std::ops::Range<usize>,
        statement: &Arc<Statement>,
    ) {
        if at.is_empty() {
            let unnamed = self.link.as_ref().and_then(|link| link.server.unnamed.as_ref());
            if unnamed != Some(statement) {
                self.put_parse(b"", statement);
                let undo = vec![self.register_unnamed(statement.clone())];
                self.expect(Entry::new(Ask::ParseUnnamed, Way::Skip).with(undo));
            }
            return self.put(|out| out.extend_from_slice(message.bytes));
        }
        let number = self.ensure(statement);
        let (head, name) = (head(message), upstream::name(number));
        self.put(|out| {
            frontend::rename(out, head, message.body(), at, name.as_bytes());
        });
    }

    fn send_describe(&mut self, message: Framed<'_>) -> Result<(), BodyError> {
        let target = Target::read("Describe", message.body())?;
        if target.object == Object::Portal {
            match self.portals.get(target.name) {
                Some(portal) if portal.is_own => self.fake(NO_DATA, vec![]),
                _ => {
                    self.put(|out| out.extend_from_slice(message.bytes));
                    self.expect(Entry::new(Ask::DescribePortal, Way::Forward));
                }
            }
            return Ok(());
        }
        match self.statement(target.name) {
            Some(statement) if self.answers(&statement) => self.fake(NOTHING, vec![]),
            Some(statement) => {
                self.put_named(message, target.name_at(), &statement);
                let entry = Entry::new(Ask::DescribeStatement, Way::Forward);
                self.expect(entry.of(statement));
            }
            None if self.pin.is_some() && !target.name.is_empty() => {
                self.put(|out| out.extend_from_slice(message.bytes));
                self.expect(Entry::new(Ask::DescribeStatement, Way::Forward));
            }
            None => self.fail(unknown_name(target.name)),
        }
        Ok(())
    }

    fn send_execute(&mut self, message: Framed<'_>) -> Result<(), BodyError> {
        let execute = Execute::read(message.body())?;
        let mut entry = Entry::new(Ask::Execute, Way::Forward);
        if let Some(portal) = self.portals.get(execute.portal).cloned() {
            if portal.is_done {
                self.fail_with(&portal.statement, finished_portal(execute.portal));
                return Ok(());
            }
            if portal.is_own {
                if self.answers(&portal.statement) {
                    self.run_portal(execute.portal, portal);
                    return Ok(());
                }
                self.put_bind(execute.portal, &portal.statement);
            }
            entry = entry.with(self.note(&portal.statement)).of(portal.statement);
        }
        self.put(|out| out.extend_from_slice(message.bytes));
        self.expect(entry);
        Ok(())
    }

    fn run_portal(&mut self, name: &[u8], portal: Portal) {
        match self.run(&portal.statement) {
            Ok((bytes, mut undo)) => {
                undo.push(Undo::Portal(name.into(), Some(portal.clone())));
                self.portals.insert(name.into(), Portal { is_done: true, ..portal });
                self.fake(bytes, undo);
            }
            Err(report) => self.fail(report),
        }
    }

    /// Binds a portal at the server that the relay has bound for itself, such as a COMMIT behind its own BEGIN.
    fn put_bind(&mut self, name: &[u8], statement: &Arc<Statement>) {
        let number = self.ensure(statement);
        let statement_name = upstream::name(number);
        let names = BindNames { portal: name, statement: statement_name.as_bytes() };
        self.put(|out| frontend::bind(out, names, [], [], []));
        let portal = Portal { statement: statement.clone(), is_own: false, is_done: false };
        let before = self.portals.insert(name.into(), portal);
        let undo = vec![Undo::Portal(name.into(), before)];
        self.expect(Entry::new(Ask::Bind, Way::Skip).with(undo));
    }

    fn send_close(&mut self, message: Framed<'_>) -> Result<(), BodyError> {
        let target = Target::read("Close", message.body())?;
        let (undo, reaches_server) = match target.object {
            Object::Portal => {
                let before = self.portals.remove(target.name);
                let is_own = before.as_ref().is_some_and(|portal| portal.is_own);
                (Undo::Portal(target.name.into(), before), !is_own)
            }
            Object::Statement if target.name.is_empty() => {
                (Undo::Unnamed(self.unnamed.take()), false)
            }
            Object::Statement => {
                let before = self.names.remove(target.name);
                let is_prepared = before.is_none() && self.pin.is_some();
                (Undo::Name(target.name.into(), before), is_prepared)
            }
        };
        if reaches_server && self.is_sending() {
            self.put(|out| out.extend_from_slice(message.bytes));
            self.expect(Entry::new(Ask::Close, Way::Forward).with(vec![undo]));
        } else {
            self.fake(CLOSE_COMPLETE, vec![undo]);
        }
        Ok(())
    }

    fn send_sync(&mut self) {
        self.is_skipping = false;
        if !self.is_sending() {
            let status = self.status();
            if status == Status::Idle {
                self.portals.clear();
            }
            return self.ready_for_query(status);
        }
        self.put(frontend::sync);
        if let Some(link) = &mut self.link {
            link.is_closed = true;
            link.queue.push_back(Entry::new(Ask::Sync, Way::Forward));
        }
    }

    /// Runs a statement of the relay's own. Returns its CommandComplete.
    fn run(
        &mut self,
        statement: &Arc<Statement>,
    ) -> Result<(Cow<'static, [u8]>, Vec<Undo>), Report> {
        let (mut out, mut status, mut undo) = (vec![], vec![], vec![]);
        let tag: &[u8] = match &statement.own {
            Own::None => b"",
            Own::Begin { .. } => {
                self.begun = Some(Begun { statement: statement.clone(), is_failed: false });
                b"BEGIN"
            }
            Own::Commit | Own::Rollback => {
                let is_failed = self.begun.take().is_some_and(|begun| begun.is_failed);
                if is_failed || statement.own == Own::Rollback { b"ROLLBACK" } else { b"COMMIT" }
            }
            Own::Deallocate(name) => {
                let Some(before) = self.names.remove(name.as_bytes()) else {
                    return Err(unknown_name(name.as_bytes()));
                };
                undo.push(Undo::Name(name.as_bytes().into(), Some(before)));
                b"DEALLOCATE"
            }
            Own::DeallocateAll => {
                undo.push(Undo::Names(std::mem::take(&mut self.names)));
                b"DEALLOCATE ALL"
            }
            Own::DiscardAll => {
                for (name, value) in self.start.changes(&self.parameters) {
                    backend::parameter_status(&mut status, name.as_bytes(), value);
                }
                let before = std::mem::replace(&mut self.parameters, self.start.clone());
                undo.push(Undo::Parameters(before));
                undo.push(Undo::Names(std::mem::take(&mut self.names)));
                b"DISCARD ALL"
            }
        };
        backend::command_complete(&mut out, tag);
        out.append(&mut status);
        Ok((out.into(), undo))
    }

    /// Notes what a statement that the server is about to run does to the session.
    fn note(&mut self, statement: &Arc<Statement>) -> Vec<Undo> {
        let Some(link) = &mut self.link else { return vec![] };
        link.reshapes |= statement.reshapes;
        let reports_path = link.server.parameters.value("search_path").is_some();
        let by_path = (statement.sets_search_path && !reports_path).then_some(super::Pin::Setting);
        self.pin = self.pin.or(statement.pins).or(by_path);
        // If the server refuses, as `DISCARD ALL` in a transaction, this is undone.
        let discards =
            matches!(statement.own, Own::DeallocateAll | Own::DiscardAll) && !link.is_failed;
        link.is_failed &= !statement.exits;
        if !discards {
            return vec![];
        }
        let forgotten = link.server.forget_all();
        vec![Undo::ServerForgot(forgotten), Undo::Names(std::mem::take(&mut self.names))]
    }

    /// The number of a statement on the server, where it is parsed if need be.
    fn ensure(&mut self, statement: &Arc<Statement>) -> u64 {
        self.number(statement).unwrap_or_else(|| {
            let number = self.add(statement);
            self.put_parse(upstream::name(number).as_bytes(), statement);
            let undo = vec![Undo::ServerAdded(statement.clone())];
            self.expect(Entry::new(Ask::Parse, Way::Skip).with(undo));
            number
        })
    }

    fn number(&mut self, statement: &Arc<Statement>) -> Option<u64> {
        self.link.as_mut().and_then(|link| link.server.find(statement, link.epoch))
    }

    /// Registers a statement on the server, and closes those that must leave for it.
    fn add(&mut self, statement: &Arc<Statement>) -> u64 {
        while let Some(link) = &mut self.link
            && let Some(old) = link.server.victim(statement)
            && let Some(prepared) = link.server.remove(&old)
        {
            self.put_close(prepared.number, vec![Undo::ServerRemoved(old, prepared)]);
        }
        let Some(link) = &mut self.link else { return 0 };
        link.server.add(statement.clone(), link.epoch)
    }

    fn put_close(&mut self, number: u64, undo: Vec<Undo>) {
        let name = upstream::name(number);
        let target = Target { object: Object::Statement, name: name.as_bytes() };
        self.put(|out| frontend::close(out, target));
        self.expect(Entry::new(Ask::Close, Way::Skip).with(undo));
    }

    fn put_parse(&mut self, name: &[u8], statement: &Arc<Statement>) {
        let types = statement.types.iter().copied();
        self.put(|out| frontend::parse(out, name, statement.text.as_bytes(), types));
    }

    fn register(&mut self, name: &[u8], statement: Arc<Statement>) -> Undo {
        match name {
            b"" => Undo::Unnamed(self.unnamed.replace(statement)),
            _ => Undo::Name(name.into(), self.names.insert(name.into(), statement)),
        }
    }

    fn register_unnamed(&mut self, statement: Arc<Statement>) -> Undo {
        let before = self.link.as_mut().and_then(|link| link.server.unnamed.replace(statement));
        Undo::ServerUnnamed(before)
    }
}

fn head(message: Framed<'_>) -> Head {
    // A message is at most 2 GiB.
    Head { kind: message.kind, body_len: message.body().len() as u32 }
}

/// Whether a statement's text is too long besides those of others.
fn is_too_long<'a>(
    statement: &Statement,
    others: impl Iterator<Item = &'a Arc<Statement>>,
) -> bool {
    let len = statement.text.len();
    len > SHORT_BYTES_MAX
        && len + others.map(|other| other.text.len()).sum::<usize>() > TEXTS_BYTES_MAX
}
