//! Parses a body into a request for a permit.

use crate::App;
use crate::identity::{Identity, Role};
use crate::members::Members;
use crate::place;
use crate::respond::Problem;
use paceline_host::Host;
use paceline_host::registry::{HeldSession, Terms};
use paceline_types::{Attributes, Claim, Known, Mode, Request, Unknown};
use serde_json::Value;
use std::sync::Arc;

/// Attributes that the door sets unless an operator gives them.
const SET_BY_DOOR: [&str; 4] = ["kind", "frontend", "host", "user"];

/// The most sessions that a request runs within.
const WITHIN_MAX: usize = 16;

/// A request, and how its permit is to be held.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) request: Request,
    pub(crate) terms: Terms,
    /// Whether it ends as soon as it may run: nothing is held.
    pub(crate) once: bool,
}

impl Asked {
    /// Parses the members of a body as a request for a permit.
    pub(crate) fn permit(
        members: Members,
        identity: &Identity,
        app: &App,
    ) -> Result<Self, Problem> {
        let asked = Self::read(members, identity, app)?;
        check_frontend(&asked.request.attributes, &app.host)?;
        Ok(asked)
    }

    /// Parses the members of a body, for a permit or for a question.
    pub(crate) fn read(
        mut members: Members,
        identity: &Identity,
        app: &App,
    ) -> Result<Self, Problem> {
        let attributes = attributes(&mut members, identity, &app.host)?;
        let cost = members.number("cost")?.unwrap_or(1);
        let claims = members.objects("claims")?.into_iter().map(claim).collect::<Result<_, _>>()?;
        let locks =
            members.texts("require_locks")?.into_iter().map(String::into_boxed_str).collect();
        let wait_max = members.span("max_wait")?;
        let words =
            [("refuse", Unknown::Refuse), ("wait", Unknown::Wait), ("create", Unknown::Create)];
        let unknown = members.word("unknown", &words)?.unwrap_or_default();
        let session = members.text("session")?;
        let locks_of = members.text("locks_of")?;
        let within = members.texts("within")?;
        let lease = members.span("lease")?;
        let once = members.flag("once")?.unwrap_or(false);
        let place = place::read(&mut members)?;
        members.finish()?;
        if once && lease.is_some() {
            let message = "lease: a permit that is settled at once has none";
            return Err(Problem::bad_request(message));
        }
        if session.is_some() && lease.is_some() {
            let message = "lease: a permit of a session has none, it lasts as long as the session";
            return Err(Problem::bad_request(message));
        }
        if locks_of.is_some() && session.is_none() {
            let message = "locks_of: only with session, which the permit belongs to";
            return Err(Problem::bad_request(message));
        }
        if within.len() > WITHIN_MAX {
            let message = format!("within: expected at most {WITHIN_MAX} sessions");
            return Err(Problem::bad_request(message));
        }
        // A session that has ended holds nothing.
        let within = within.iter().filter_map(|key| app.registry.session(key).ok());
        let within = within.map(|session| session.session.id).collect();
        let find = |key: Option<String>| -> Result<Option<Arc<HeldSession>>, Problem> {
            Ok(key.map(|key| app.registry.session(&key)).transpose()?)
        };
        let (shared, locks_of) = (find(session)?, find(locks_of)?);
        let session_id = locks_of.as_ref().or(shared.as_ref()).map(|shared| shared.session.id);
        let asked = Request::new(attributes);
        let session = session_id;
        let request = Request { cost, claims, unknown, locks, wait_max, session, within, ..asked };
        let (user, is_owner) = (identity.name.clone(), identity.is_owner);
        let place = place.map(|place| place::of_permit(&user, &place, &request, once));
        let terms = Terms { session: shared, locks_of, lease, user, is_owner, place, asker: None };
        terms.check()?;
        Ok(Self { request, terms, once })
    }
}

fn attributes(
    members: &mut Members,
    identity: &Identity,
    host: &Host,
) -> Result<Attributes, Problem> {
    let mut given = members.object("attributes")?;
    let given = given.as_mut().map(Members::take_all).unwrap_or_default();
    let mut attributes = Attributes::new();
    let wrong = |name: &str, error: &dyn std::fmt::Display| {
        Problem::bad_request(format!("attributes.{}: {error}", crate::respond::shown(name)))
    };
    for name in SET_BY_DOOR.iter().filter(|name| !given.contains_key(**name)) {
        let value = match *name {
            "kind" => "permit",
            "frontend" => "api",
            "host" => &identity.host,
            _ => &identity.name,
        };
        attributes.set(name, value).map_err(|error| wrong(name, &error))?;
    }
    for (name, value) in given {
        if SET_BY_DOOR.contains(&name.as_str()) {
            let what = || format!("give the attribute {name}");
            identity.require(host, Role::Operator, what).map_err(|problem| {
                problem.hint(format!(
                    "the attribute `{name}` needs the role operator, and yours is {}; leave it out, \
                     and the daemon sets it",
                    identity.role
                ))
            })?;
        }
        let Value::String(value) = value else {
            return Err(wrong(&name, &"expected a text"));
        };
        attributes.set(&name, &value).map_err(|error| wrong(&name, &error))?;
    }
    Ok(attributes)
}

/// Checks that a permit does not name a frontend of the HTTP door: it would take a place at a server that it
/// never uses, and that a restart cannot restore.
fn check_frontend(attributes: &Attributes, host: &Host) -> Result<(), Problem> {
    let name = attributes.known(Known::Frontend);
    match host.control().snapshot().routing().frontend(name) {
        None => Ok(()),
        Some(_) => Err(Problem::bad_request(format!(
            "attributes.frontend: {name:?} is a frontend of the HTTP door, whose requests are no permits; explain \
             takes it"
        ))),
    }
}

fn claim(mut members: Members) -> Result<Claim, Problem> {
    let resource = members.required_text("resource")?.into_boxed_str();
    let words = [("exclusive", Mode::Exclusive), ("shared", Mode::Shared)];
    let mode = members.word("mode", &words)?.unwrap_or_default();
    members.finish()?;
    Ok(Claim { resource, mode })
}
