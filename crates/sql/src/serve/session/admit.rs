//! What a session asks of the engine: a permit for a batch, a verdict about a statement; and of its pool: a server.

use super::{Call, Session, Step, Work};
use crate::respond;
use crate::serve::attributes;
use crate::serve::pool::Linked;
use paceline_host::{Admission, Control};
use paceline_postgres::wire::report::Report;
use paceline_types::{Priority, Request};

impl Work {
    /// Takes an idle server, or begins to wait for one. An edit of the target takes effect here.
    pub(super) fn link(&mut self) -> Option<Call> {
        let Session { worker, pool, key, who, .. } = &mut self.session;
        if pool.is_retired() {
            let Some(new) = worker.pool(&who.database) else {
                let report = respond::no_server(&who.database, "the target was deleted");
                return Some(Call::LinkFailed(Box::new(report)));
            };
            *key = new.key(&who.user, key.parameters.to_vec());
            *pool = new;
        }
        match pool.take_idle(key) {
            Some(Linked { connection, server }) => {
                self.connection = Some(connection);
                return Some(Call::Linked(server));
            }
            None => self.step = Step::Server,
        }
        None
    }

    /// Submits the batch. Of several statements the one with the lowest priority counts, and any rejection refuses all.
    pub(super) fn admit(&mut self) -> Call {
        let control = &self.session.worker.control;
        let refused = |report: Report| Call::Refused(Box::new(report));
        let Session { proof, worker, who, .. } = &self.session;
        if proof.is_some() && worker.verifier(&who.user).is_none() {
            return refused(respond::no_password(&who.user));
        }
        let requests = match self.requests() {
            Ok(requests) => requests,
            Err(report) => return refused(report),
        };
        let request = match lowest(control, requests) {
            Ok(request) => request,
            Err(report) => return refused(report),
        };
        match control.admit(request) {
            Ok(Admission::Started(permit)) => {
                self.permit = Some(permit);
                Call::Admitted
            }
            Ok(Admission::Waiting(waiting)) => {
                self.waiting = Some((waiting.id(), waiting));
                self.step = Step::Permit;
                Call::None
            }
            Ok(Admission::Refused(id, refusal)) => {
                refused(respond::refused(id, &refusal, control.now()))
            }
            Err(error) => refused(respond::invalid(&error)),
        }
    }

    /// Whether statements that cannot wait may run: the error if not.
    pub(super) fn check(&self) -> Option<Report> {
        let control = &self.session.worker.control;
        match self.requests() {
            Ok(requests) => requests.into_iter().find_map(|request| judge(control, request).err()),
            Err(report) => Some(report),
        }
    }

    /// A request for each statement that the relay asks about.
    fn requests(&self) -> Result<Vec<Request>, Report> {
        let Session { relay, worker, who, .. } = &self.session;
        let program = relay.parameters().value("application_name").unwrap_or_default();
        let program = String::from_utf8_lossy(program);
        let request = |text| {
            attributes::request(&worker.control, who, &program, text, relay.dialect())
                .map_err(|error| respond::invalid(&error))
        };
        let mut requests = relay.texts().map(request).collect::<Result<Vec<_>, _>>()?;
        if requests.is_empty() {
            // A text without a statement, such as a comment.
            requests.push(request("")?);
        }
        Ok(requests)
    }
}

/// The request with the lowest priority, or the first rejection.
fn lowest(control: &Control, requests: Vec<Request>) -> Result<Request, Report> {
    let mut requests = requests.into_iter();
    let Some(mut lowest) = requests.next() else {
        return Ok(Request::new(paceline_types::Attributes::new()));
    };
    if requests.len() == 0 {
        return Ok(lowest);
    }
    let mut least = judge(control, lowest.clone())?;
    for request in requests {
        let priority = judge(control, request.clone())?;
        if priority < least {
            (lowest, least) = (request, priority);
        }
    }
    Ok(lowest)
}

fn judge(control: &Control, request: Request) -> Result<Priority, Report> {
    match control.judge(request) {
        Ok(Ok(priority)) => Ok(priority),
        Ok(Err(refusal)) => Err(respond::rejected(&refusal, control.now())),
        Err(error) => Err(respond::invalid(&error)),
    }
}
