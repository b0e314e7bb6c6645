//! `paceline permit`: holds a permit while a command runs.

use super::again::{self, Got};
use super::live::{For, Live};
use super::run::{Ended, Held, run_held, said};
use super::within::{WITHIN, Within};
use super::{Reach, attribute, duration, once};
use crate::failure::Failure;
use clap::Args;
use paceline_client::{Error, PermitRequest, Place, Refusal, Session, SessionOptions, Unknown};
use paceline_types::nearest;
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

pub const HELP: &str = "\
The permit is held until CMD ends, even if this command is killed (over TCP: until its lease of 30 s expires). CMD has PACELINE_PERMIT \
and PACELINE_REQUEST in its environment. By default, the attributes text and task are the command line and its program. Inside \
`paceline lock NAME --`, --require-lock NAME finds the lock. A permit inside CMD that claims what this one holds would wait for \
ever, so it is refused at once; it finds this permit by PACELINE_WITHIN, a secret that is sent only to the daemon that it belongs to. On a terminal, one line shows what the \
command waits for, and behind which request.

Exit codes: that of CMD; 128 + N if signal N killed it (a key such as Ctrl-C kills this command too, so that a script ends); \
126 or 127 if CMD cannot be run. If CMD was not started: 3 refused, 75 queue full or waited too long, 69 daemon unreachable, \
77 not permitted, 2 usage, 1 failed. If the daemon is restarted while this command waits, it asks again until --max-wait has \
passed, or for a minute without --max-wait. It keeps its place in the queue unless the daemon was killed.

Example:
  paceline permit --attr user=etl --claim disk:da0 --max-wait 5m -- ./nightly.sh
  paceline permit --claim zpool:tank:shared -- zfs send tank@monday";

/// What a request asks for, besides its attributes.
#[derive(Debug, Args)]
pub struct Asks {
    /// Claim a resource and everything below it, exclusively or shared; may be repeated
    #[arg(long, value_name = "RESOURCE[:shared]")]
    claim: Vec<String>,

    /// Run only if the session owns this lock; may be repeated
    #[arg(long, value_name = "LOCK")]
    require_lock: Vec<String>,

    /// What it spends at rates [default: 1]
    #[arg(long, value_name = "N")]
    cost: Option<u32>,

    /// Longest wait over all queues, such as 30s [default: as long as the queues allow]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    max_wait: Option<Duration>,

    /// What to do about a resource that does not exist [default: refuse]
    #[arg(long, value_name = "WHAT", value_parser = ["refuse", "wait", "create"])]
    unknown: Option<String>,
}

impl Asks {
    /// A failure, with a hint if a claim only looks like one of a mode, or is held by a permit around this command.
    fn failed(&self, error: Error, request: &PermitRequest) -> Failure {
        let is_inside = !request.within.is_empty();
        let (reason, after_wait) = match &error {
            Error::Refused(refusal) => (refusal.reason.clone(), self.after_wait(refusal)),
            _ => (String::new(), None),
        };
        let failure = Failure::from(error);
        let near = self.claim.iter().find_map(|claim| {
            let (resource, mode) = claim.rsplit_once(':')?;
            let near = nearest(mode, ["shared", "exclusive"]).filter(|near| *near != mode)?;
            Some(format!("did you mean --claim {resource}:{near}?"))
        });
        match (reason.as_str(), near) {
            ("unknown_resource", Some(hint)) => failure.hint(hint),
            ("rejected", _) => failure.hint(format!("see why with: {}", explain(self, request))),
            ("blocks_itself", _) if is_inside => failure.reword(
                " of the same session",
                ", the permit that this command runs in",
            ).hint(
                "it blocks itself: it runs inside a permit that holds this; leave out its --claim, \
                 or run it outside"
                    .into(),
            ),
            ("deadlock", _) if is_inside => failure.hint(
                "it runs inside a permit that others wait for; give the outer permit its --claim too, or run it outside"
                    .into(),
            ),
            _ => match after_wait {
                Some(hint) => failure.hint(hint),
                None => failure,
            },
        }
    }

    /// What to do after a wait that was too long, or would have been, if it is not known when to come back.
    fn after_wait(&self, refusal: &Refusal) -> Option<String> {
        let answer = |name: &str| refusal.answer.body.get(name)?.as_str();
        let ended_after = match refusal.reason.as_str() {
            "expired" => duration(answer("waited")?).ok()?,
            "too_long" => duration(answer("max")?).ok()?,
            _ => return None,
        };
        let pool = refusal.answer.body.pointer("/place/pool").and_then(serde_json::Value::as_str);
        if let Some(pool) = pool.filter(|_| refusal.answer.message.contains(" is stopped")) {
            return Some(format!("start it with: paceline pools start {pool}"));
        }
        if refusal.retry_after.is_some() {
            return None;
        }
        Some(match self.max_wait.is_some_and(|own| ended_after >= own) {
            true => "try again later, or wait longer with --max-wait".to_owned(),
            false => "try again later; the queue's own max_delay ended the wait".to_owned(),
        })
    }

    /// The request, without attributes.
    pub fn request(&self) -> PermitRequest {
        let mut request = PermitRequest::new();
        for claim in &self.claim {
            request = match claim.strip_suffix(":shared") {
                Some(resource) => request.claim_shared(resource),
                None => request.claim(claim.strip_suffix(":exclusive").unwrap_or(claim)),
            };
        }
        request.require_locks.clone_from(&self.require_lock);
        request.cost = self.cost;
        request.max_wait = self.max_wait;
        request.unknown = match self.unknown.as_deref() {
            Some("wait") => Some(Unknown::Wait),
            Some("create") => Some(Unknown::Create),
            Some(_) => Some(Unknown::Refuse),
            None => None,
        };
        request
    }
}

#[derive(Debug, Args)]
pub struct Permit {
    /// Attribute of the request that rules match, such as user=etl; may be repeated
    #[arg(long = "attr", value_name = "NAME=VALUE", value_parser = attribute)]
    attributes: Vec<(String, String)>,

    #[command(flatten)]
    asks: Asks,

    #[command(flatten)]
    pub reach: Reach,

    /// The command, and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<std::ffi::OsString>,
}

/// The longest command line that is sent as an attribute.
const TEXT_BYTES_MAX: usize = 4 << 10;

pub fn run(permit: &Permit) -> Result<ExitCode, Failure> {
    once(&permit.attributes)?;
    let mut request = permit.asks.request();
    request.attributes.extend(described(&permit.command));
    request.attributes.extend(permit.attributes.iter().cloned());
    let asker = permit.reach.open()?;
    // A lock belongs to the session of the `paceline lock` around us. The permit belongs to a session of our
    // own all the same, so that it ends with us and our command, and not with another holder of that session.
    let outer = std::env::var("PACELINE_SESSION").ok().filter(|id| !id.is_empty());
    request.locks_of = outer.filter(|_| !request.require_locks.is_empty());
    // What a permit around us holds is released only after we end, so we must not wait for it.
    let around = Within::read(&permit.reach)?;
    request.within = around.sessions().to_vec();
    // Without a place it is a new request after a restart.
    request.place = Place::random().ok();
    let begin = || asker.client.session(&SessionOptions { name: None, lease: None });
    let own = request.attributes.get("text").cloned().unwrap_or_default();
    let ask = |session: &Session, left: Option<Duration>| {
        // Locks of another session are checked there, and the request is listed there.
        let within = request.locks_of.as_deref().unwrap_or(session.id());
        let waits_for = For::Permit { session: within.to_owned(), text: own.clone() };
        let _line = Live::start(&asker.client, waits_for, permit.reach.json);
        session.permit(&PermitRequest { max_wait: left, ..request.clone() })
    };
    let got = again::ask(&asker.client, request.max_wait, permit.reach.json, begin, ask);
    let Got { session, renewing, got: granted } =
        got.map_err(|error| permit.asks.failed(error, &request))?;
    let grant = granted.grant().cloned();
    let grant = grant.ok_or_else(|| "the daemon gave no permit".to_owned())?;
    if permit.reach.json {
        let told = json!({"permit": grant.permit, "request": grant.request, "pool": grant.pool,
            "priority": grant.priority, "waited": grant.waited});
        crate::screen::tell(format_args!("{told}"));
    }
    let inner = request.locks_of.clone().into_iter().chain([session.id().to_owned()]);
    let held = Held {
        client: &asker.client,
        environment: vec![
            ("PACELINE_PERMIT", grant.permit),
            ("PACELINE_REQUEST", grant.request.to_string()),
            (WITHIN, around.and(inner)),
        ],
        session,
    };
    let as_json = permit.reach.json;
    let give_back = move |session: Session| {
        drop(renewing);
        said("permit", granted.settle().and_then(|()| session.end()), as_json);
    };
    run_held(held, &permit.command, give_back).map(Ended::code)
}

/// The command that explains a request.
fn explain(asks: &Asks, request: &PermitRequest) -> String {
    let attributes = request.attributes.iter().map(|(name, value)| format!("{name}={value}"));
    let claims = asks.claim.iter().flat_map(|claim| ["--claim".to_owned(), claim.clone()]);
    let cost = asks.cost.iter().flat_map(|cost| ["--cost".to_owned(), cost.to_string()]);
    let words = attributes.chain(claims).chain(cost).map(|word| quoted(&word));
    format!("paceline explain {}", words.collect::<Vec<_>>().join(" "))
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// The attributes that say what is run.
fn described(command: &[std::ffi::OsString]) -> Vec<(String, String)> {
    let words: Vec<String> =
        command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut text = words.join(" ");
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    let program = words.first().map_or("", String::as_str);
    let mut task = program.rsplit('/').next().unwrap_or(program).to_owned();
    task.truncate(task.floor_char_boundary(TEXT_BYTES_MAX));
    vec![("text".into(), text), ("task".into(), task)]
}
