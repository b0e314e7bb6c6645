//! Messages before they are sent: a batch is collected until it is complete, then offered to the rules as a whole; with
//! a permit each text is offered alone.

use super::errors::failed_transaction;
use super::reading::{Own, Statement};
use super::{BATCH_BYTES_MAX, Effect, KEPT_BYTES_MAX, OFFERED_MAX, Phase, Relay};
use crate::wire::BodyError;
use crate::wire::SqlState;
use crate::wire::backend::Status;
use crate::wire::frame::{Framed, LENGTH_MAX, Side, Walk};
use crate::wire::frontend::{Bind, BindNames, Execute, Object, Parse, Target, query_text};
use crate::wire::kind::client;
use crate::wire::report::Report;
use std::sync::Arc;

/// The messages that were collected have been read once, so they are walked without errors.
pub(super) fn walk(held: &[u8]) -> impl Iterator<Item = Framed<'_>> {
    let mut walk = Walk::new(Side::client(LENGTH_MAX), held);
    std::iter::from_fn(move || walk.step().ok().flatten())
}

impl Relay {
    /// A message other than those of COPY.
    pub(super) fn take(&mut self, message: Framed<'_>) -> Result<(), BodyError> {
        let outcome = self.read(message)?;
        if self.has_permit {
            return match outcome {
                Ok(()) if self.offered.len() > self.offered_before => {
                    self.held.extend_from_slice(message.bytes);
                    self.phase = Phase::Checking;
                    self.effects.push_back(Effect::Check);
                    Ok(())
                }
                Ok(()) => self.send(message),
                Err(report) => self.reject(message.kind, report),
            };
        }
        if let Err(report) = outcome {
            self.refusal.get_or_insert(report);
        }
        self.held.extend_from_slice(message.bytes);
        match message.kind {
            client::SYNC | client::QUERY | client::FUNCTION_CALL => self.complete(true),
            client::FLUSH if self.held.len() == message.bytes.len() => {
                self.held.clear();
                Ok(())
            }
            client::FLUSH => self.complete(false),
            _ if self.held.len() >= BATCH_BYTES_MAX => self.complete(false),
            _ => Ok(()),
        }
    }

    /// The batch in `held` is complete.
    fn complete(&mut self, is_closed: bool) -> Result<(), BodyError> {
        if is_closed && self.refusal.is_none() && self.is_local() {
            return self.send_held();
        }
        if let Some(report) = self.refusal.take() {
            self.refuse(&report);
        } else if self.status() == Status::Failed {
            self.refuse(&failed_transaction());
        } else {
            self.phase = Phase::Admitting;
            self.effects.push_back(Effect::Admit);
        }
        Ok(())
    }

    /// Reads the texts of a message, and adds those to `offered` that the rules have not seen in this batch. `Err` is
    /// the relay's own reason to reject it.
    fn read(&mut self, message: Framed<'_>) -> Result<Result<(), Report>, BodyError> {
        if self.has_permit && self.offered.len() >= OFFERED_MAX {
            self.offered.clear();
        }
        self.offered_before = if self.has_permit { self.offered.len() } else { 0 };
        let body = message.body();
        let read = match message.kind {
            client::QUERY => Statement::read(query_text(body)?, [], self.dialect()),
            client::PARSE => {
                let parse = Parse::read(body)?;
                if !self.has_permit {
                    self.parsed.push(parse.name.into());
                }
                Statement::read(parse.query, parse.types.iter(), self.dialect())
            }
            client::FUNCTION_CALL => {
                let message = "FunctionCall is not supported";
                Err(Report::error(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
            client::BIND => {
                let names = BindNames::find(body).ok_or(BodyError {
                    message: "Bind",
                    what: "a text has no NUL at its end",
                    at: body.len(),
                })?;
                if !self.parsed.iter().any(|parsed| **parsed == *names.statement)
                    && let Some(statement) = self.statement(names.statement)
                {
                    self.offer(&statement);
                }
                return Ok(Ok(()));
            }
            client::EXECUTE => return Execute::read(body).map(|_| Ok(())),
            client::DESCRIBE => return Target::read("Describe", body).map(|_| Ok(())),
            client::CLOSE => return Target::read("Close", body).map(|_| Ok(())),
            _ => return Ok(Ok(())),
        };
        Ok(read.map(|statement| {
            let statement = Arc::new(statement);
            self.offer(&statement);
            self.reads.push_back(statement);
        }))
    }

    fn offer(&mut self, statement: &Arc<Statement>) {
        let is_known = self.offered.iter().any(|offered| Arc::ptr_eq(offered, statement));
        if statement.own == Own::None && !is_known {
            self.offered.push(statement.clone());
        }
    }

    /// The client's statement of this name.
    pub(super) fn statement(&self, name: &[u8]) -> Option<Arc<Statement>> {
        match name {
            b"" => self.unnamed.clone(),
            _ => self.names.get(name).cloned(),
        }
    }

    /// Answers the batch in `held` with an error. Nothing of it was sent.
    pub(super) fn refuse(&mut self, report: &Report) {
        self.phase = Phase::Ready;
        let last = walk(&self.held).last().map(|message| message.kind);
        let is_closed = matches!(last, Some(client::SYNC | client::QUERY | client::FUNCTION_CALL));
        if last == Some(client::QUERY) {
            self.drop_unnamed();
        }
        if let Some(begun) = &mut self.begun {
            begun.is_failed = true;
        }
        self.clear_held();
        self.tell(|out| report.write(out));
        match is_closed {
            true => self.ready_for_query(self.status()),
            false => self.is_skipping = true,
        }
    }

    pub(super) fn clear_held(&mut self) {
        self.held.clear();
        self.held.shrink_to(KEPT_BYTES_MAX);
        self.reads.clear();
        self.parsed.clear();
        self.refusal = None;
        if !self.has_permit {
            self.offered.clear();
        }
    }

    /// Whether every message of the batch in `held` is answered by the relay itself.
    fn is_local(&self) -> bool {
        let mut begun = self.begun.as_ref().map(|begun| begun.is_failed);
        let mut reads = self.reads.iter();
        let mut names: Vec<(&[u8], &Arc<Statement>)> = vec![];
        let mut portals: Vec<(&[u8], &Arc<Statement>)> = vec![];
        let find = |list: &[(&[u8], &Arc<Statement>)], name: &[u8]| {
            list.iter().rev().find(|(own, _)| *own == name).map(|(_, found)| Arc::clone(found))
        };
        for message in walk(&self.held) {
            let body = message.body();
            let is_local = match message.kind {
                client::SYNC => true,
                client::QUERY => reads.next().is_some_and(|read| self.runs(read, &mut begun)),
                client::PARSE => match (Parse::read(body), reads.next()) {
                    (Ok(parse), Some(read)) => {
                        names.push((parse.name, read));
                        let is_new = parse.name.is_empty() || !self.names.contains_key(parse.name);
                        is_new && is_own(read, begun)
                    }
                    _ => false,
                },
                client::BIND => Bind::read(body).is_ok_and(|bind| {
                    let found = names.iter().rev().find(|(own, _)| *own == bind.statement);
                    let named = match bind.statement {
                        b"" => self.unnamed.as_ref(),
                        name => self.names.get(name),
                    };
                    let Some(found) = found.map(|(_, found)| *found).or(named) else {
                        return false;
                    };
                    let is_used = portals.iter().any(|(own, _)| *own == bind.portal)
                        || self.portals.contains_key(bind.portal);
                    portals.push((bind.portal, found));
                    (bind.portal.is_empty() || !is_used)
                        && is_own(found, begun)
                        && bind.values.is_empty()
                }),
                client::EXECUTE => Execute::read(body).is_ok_and(|execute| {
                    let found = find(&portals, execute.portal);
                    // A second Execute is an error.
                    portals.retain(|(own, _)| *own != execute.portal);
                    found.is_some_and(|found| self.runs(&found, &mut begun))
                }),
                client::CLOSE => true,
                client::DESCRIBE => {
                    Target::read("Describe", body).is_ok_and(|target| match target.object {
                        Object::Statement => find(&names, target.name)
                            .or_else(|| self.statement(target.name))
                            .is_some_and(|found| is_own(&found, begun)),
                        Object::Portal => find(&portals, target.name).is_some(),
                    })
                }
                _ => false,
            };
            if !is_local {
                return false;
            }
        }
        true
    }

    /// Whether the relay runs a statement itself while no transaction is open at the server; `begun` is whether one of
    /// the relay's own is, and whether it has failed.
    fn runs(&self, statement: &Statement, begun: &mut Option<bool>) -> bool {
        match (&statement.own, *begun) {
            (Own::Begin { .. }, None) => *begun = Some(false),
            (Own::Commit | Own::Rollback, Some(_)) => *begun = None,
            (Own::Deallocate(name), None | Some(false)) => {
                return self.names.contains_key(name.as_bytes());
            }
            (Own::DeallocateAll, None | Some(false)) | (Own::DiscardAll, None) => {
                return self.pin.is_none();
            }
            _ => return false,
        }
        true
    }
}

/// Whether the relay may answer for a statement that is not run; `begun` is as for `Relay::runs`.
fn is_own(statement: &Statement, begun: Option<bool>) -> bool {
    statement.own != Own::None && (begun != Some(true) || statement.exits)
}
