//! The commands of scripts.

use crate::world::World;
use paceline_checkpoints::{At, Limit, Mode as CheckMode, Rate, Spec};
use paceline_claims::{Resource, ResourceId};
use paceline_engine::{Prepared, prepare};
use paceline_expr::Counter;
use paceline_types::{
    Attributes, CheckpointId, Claim, Mode, On, Request, SessionId, Span, Unknown,
};

pub type Answer = Result<Vec<String>, String>;

impl World {
    pub fn dispatch(&mut self, line: &str, words: &[&str]) -> Answer {
        let (command, rest) = words.split_first().ok_or("an empty command")?;
        let first = rest.first().copied().unwrap_or_default();
        match *command {
            "pool" => self.pool(first, rest.get(1..).unwrap_or_default()),
            "create" | "start" | "stop" | "drain" | "persist" | "unpersist" | "delete-pool"
            | "configure" => self.edit_pool(command, first, rest.get(1..).unwrap_or_default()),
            "pools" => Ok(self.list_pools()),
            "restart" => self.restart(),
            "rule" => self.rule(line.strip_prefix("rule ").unwrap_or_default()),
            "no-rules" => {
                self.rules.clear();
                self.configure()
            }
            "save-rules" => {
                self.saved_rules.clone_from(&self.rules);
                Ok(vec![])
            }
            "rules" => Ok(self.rules.iter().map(ToString::to_string).collect()),
            "saved-rules" => Ok(self.saved_rules.iter().map(ToString::to_string).collect()),
            "rule-counts" => Ok(self.rule_counts()),
            "checkpoint" => self.checkpoint(first, rest.get(1..).unwrap_or_default()),
            "delete-checkpoint" => {
                self.checkpoint_id(first)?;
                self.checkpoints.retain(|spec| *spec.name != *first);
                self.configure()
            }
            "resource" => self.resource(first, rest.get(2..).unwrap_or_default()),
            "delete-resource" => self.delete_resource(first),
            "rename-resource" => self.rename_resource(first, rest.get(1).ok_or("a new name")?),
            "step-max" => {
                self.step_max = Some(first.parse().map_err(|_| "a number")?);
                self.configure()
            }
            "requests-max" => {
                self.requests_max = Some(first.parse().map_err(|_| "a number")?);
                self.configure()
            }
            "frontend" | "backend" | "delete-frontend" | "delete-backend" | "up" | "down"
            | "rename-frontends" | "reroute" | "rename-server" | "rename-backend" | "slept"
            | "site" | "servers" => self.route(command, first, rest.get(1..).unwrap_or_default()),
            "submit" => self.submit(first, rest.get(1..).unwrap_or_default()),
            "prepare" => {
                let prepared = self.prepare(rest.get(1..).unwrap_or_default())?;
                self.prepared.insert(first.into(), prepared);
                Ok(vec![])
            }
            "explain" => self.explain(rest),
            "owns" => {
                let lock = rest.get(1).ok_or("a lock")?;
                self.owned.insert((session(first)?, (*lock).into()));
                Ok(vec![])
            }
            "settle" => {
                let id = self.id(first)?;
                let ran = self.engine.settle(self.now, id);
                Ok(if ran { vec![] } else { vec![format!("{first} does not run")] })
            }
            "withdraw" => {
                let id = self.id(first)?;
                let ran = self.engine.withdraw(self.now, id);
                Ok(if ran { vec![] } else { vec![format!("{first} does not run")] })
            }
            "cancel" => {
                let id = self.id(first)?;
                let waited = self.engine.cancel(self.now, id);
                Ok(if waited { vec![] } else { vec![format!("{first} does not wait")] })
            }
            "end-session" => {
                self.engine.end_session(self.now, session(first)?);
                Ok(vec![])
            }
            "lose" => {
                let lock = *rest.get(1).ok_or("a lock")?;
                self.owned.remove(&(session(first)?, lock.into()));
                self.engine.lock_lost(self.now, session(first)?, lock);
                Ok(vec![])
            }
            "advance" => Ok(self.advance(span(first)?)),
            "late" => {
                self.now = self.now.plus(span(first)?);
                self.engine.handle_timeout(self.now);
                Ok(vec![])
            }
            "back" => {
                self.now.0 -= span(first)?.0;
                Ok(vec![])
            }
            "turn" => {
                self.engine.handle_timeout(self.now);
                Ok(vec![])
            }
            "why" => {
                let id = self.id(first)?;
                let why = self.engine.why(id).map(|why| self.why(&why));
                Ok(vec![why.unwrap_or_else(|| format!("{first} is gone"))])
            }
            "timeout" => Ok(vec![match self.engine.poll_timeout() {
                None => "none".into(),
                Some(at) => Span(at.0).to_string(),
            }]),
            "counter" => self.counter(rest),
            other => Err(format!("no command {other}")),
        }
    }

    fn checkpoint(&mut self, name: &str, rest: &[&str]) -> Answer {
        check_name(name)?;
        let old = self.checkpoints.iter().position(|spec| *spec.name == *name);
        let id = match old {
            Some(index) => self.checkpoints.remove(index).id,
            None => {
                self.next_checkpoint += 1;
                CheckpointId(self.next_checkpoint)
            }
        };
        self.checkpoints.push(spec(id, name, rest)?);
        self.configure()
    }

    fn resource(&mut self, name: &str, parents: &[&str]) -> Answer {
        let parents =
            parents.iter().map(|parent| self.resource_id(parent)).collect::<Result<_, _>>()?;
        match self.resources.iter_mut().find(|resource| *resource.name == *name) {
            Some(resource) => resource.parents = parents,
            None => {
                self.next_resource += 1;
                let id = ResourceId(self.next_resource);
                self.resources.push(Resource { id, name: name.into(), parents });
            }
        }
        self.configure()
    }

    fn delete_resource(&mut self, name: &str) -> Answer {
        let id = self.resource_id(name)?;
        self.resources.retain(|resource| resource.id != id);
        for resource in &mut self.resources {
            resource.parents.retain(|parent| *parent != id);
        }
        self.configure()
    }

    fn rename_resource(&mut self, old: &str, new: &str) -> Answer {
        let id = self.resource_id(old)?;
        for resource in &mut self.resources {
            if resource.id == id {
                resource.name = new.into();
            }
        }
        self.configure()
    }

    fn resource_id(&self, name: &str) -> Result<ResourceId, String> {
        let found = self.resources.iter().find(|resource| *resource.name == *name);
        found.map(|resource| resource.id).ok_or_else(|| format!("no resource \"{name}\""))
    }

    fn prepare(&self, rest: &[&str]) -> Result<Prepared, String> {
        prepare(&self.engine.snapshot(), request(rest)?).map_err(|error| error.to_string())
    }

    /// Submits a request, or the one of this name that was prepared before.
    fn submit(&mut self, name: &str, rest: &[&str]) -> Answer {
        check_name(name)?;
        let alive = self.engine.requests().any(|id| self.name(id) == name);
        if alive {
            return Err(format!("{name} waits or runs already"));
        }
        let prepared = match self.prepared.remove(name) {
            Some(prepared) => prepared,
            None => self.prepare(rest)?,
        };
        let owned = self.owned.clone();
        let owns = |session: SessionId, lock: &str| owned.contains(&(session, lock.to_string()));
        let (id, outcome) = self.engine.submit(self.now, prepared, &owns);
        self.names.insert(id, name.into());
        Ok(vec![self.outcome(id, &outcome)])
    }

    fn explain(&mut self, rest: &[&str]) -> Answer {
        let request = request(rest)?;
        let prepared =
            prepare(&self.engine.snapshot(), request).map_err(|error| error.to_string())?;
        let owned = self.owned.clone();
        let owns = |session: SessionId, lock: &str| owned.contains(&(session, lock.to_string()));
        let explanation = self.engine.explain(self.now, &prepared, &owns);
        Ok(explanation.to_string().lines().map(Into::into).collect())
    }

    fn counter(&self, rest: &[&str]) -> Answer {
        let [kind, name, key @ ..] = rest else { return Err("counter KIND NAME [KEY]".into()) };
        let pool = || {
            self.pools
                .iter()
                .find(|pool| *pool.name == **name)
                .map(|pool| pool.id)
                .ok_or_else(|| format!("no pool {name}"))
        };
        let counter = match *kind {
            "rate" => Counter::Rate(self.checkpoint_id(name)?),
            "inflight" => Counter::Inflight(self.checkpoint_id(name)?),
            "queued" => Counter::Queued(self.checkpoint_id(name)?),
            "running" => Counter::Running(pool()?),
            "waiting" => Counter::Waiting(pool()?),
            other => return Err(format!("no counter {other}")),
        };
        Ok(vec![self.engine.counter(counter, key.first().copied()).to_string()])
    }
}

/// The first word after a command is a name, not a setting.
fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.contains('=') {
        return Err(format!("expected a name, found {name:?}"));
    }
    Ok(())
}

fn spec(id: CheckpointId, name: &str, rest: &[&str]) -> Result<Spec, String> {
    let mut spec = Spec::new(id, name, At::Frontend("api".into()), Limit::Count);
    let (mut rate, mut burst): (Option<Rate>, u32) = (None, 1);
    let mut kinds = 0;
    for (key, value) in pairs(rest)? {
        kinds += u32::from(matches!(key, "rate" | "concurrency"));
        match key {
            "at" => spec.at = value.parse().map_err(|error| format!("at: {error}"))?,
            "on" => spec.on = on(value)?,
            "number" => spec.number = number(value)?,
            "when" => spec.when = Some(value.into()),
            "key" => spec.key = Some(value.into()),
            "fair" => spec.fair = Some(value.into()),
            "weight" => spec.weight = Some(value.into()),
            "rate" => rate = Some(value.parse().map_err(|error| format!("rate: {error}"))?),
            "burst" => burst = number(value)?,
            "concurrency" => spec.limit = Limit::Concurrency(number(value)?),
            "len" => spec.queue.len_max = number(value)?,
            "total" => spec.queue.total_max = number(value)?,
            "delay" => spec.queue.delay_max = span(value)?,
            "period" => spec.period = span(value)?,
            "keys" => spec.keys_max = number(value)?,
            "status" => spec.status = number(value)?,
            "mode" => {
                spec.mode = match value {
                    "watch" => CheckMode::Watch,
                    "enforce" => CheckMode::Enforce,
                    _ => return Err(format!("mode: expected enforce or watch, found {value}")),
                }
            }
            "count" => kinds += 1,
            _ => return Err(format!("checkpoint: no setting {key}")),
        }
    }
    if kinds != 1 {
        return Err("expected one of rate=N/SPAN, concurrency=N and count".into());
    }
    if let Some(rate) = rate {
        spec.limit = rate.limit(burst);
    }
    Ok(spec)
}

fn request(rest: &[&str]) -> Result<Request, String> {
    let mut request = Request::new(Attributes::new());
    request.attributes.set("frontend", "api").unwrap();
    for (key, value) in pairs(rest)? {
        match key {
            "on" => request.on = on(value)?,
            "cost" => request.cost = number(value)?,
            "claim" => {
                let (resource, mode) = match value.strip_suffix(":shared") {
                    Some(resource) => (resource, Mode::Shared),
                    None => (value, Mode::Exclusive),
                };
                request.claims.push(Claim { resource: resource.into(), mode });
            }
            "unknown" => {
                request.unknown = match value {
                    "wait" => Unknown::Wait,
                    "create" => Unknown::Create,
                    "refuse" => Unknown::Refuse,
                    _ => {
                        return Err(format!(
                            "unknown: expected refuse, wait or create, found {value}"
                        ));
                    }
                };
            }
            "lock" => request.locks.push(value.into()),
            "wait" => request.wait_max = Some(span(value)?),
            "within" => request.within.push(session(value)?),
            "waited" => request.waited = span(value)?,
            "session" => request.session = Some(session(value)?),
            _ => request.attributes.set(key, value).map_err(|error| error.to_string())?,
        }
    }
    Ok(request)
}

fn on(text: &str) -> Result<On, String> {
    match text {
        "request" => Ok(On::Request),
        "connection" => Ok(On::Connection),
        _ => Err(format!("on: expected request or connection, found {text}")),
    }
}

/// `key=value` words; only these few have no value.
pub fn pairs<'a>(words: &[&'a str]) -> Result<Vec<(&'a str, &'a str)>, String> {
    let valued = words.iter().copied().filter(|word| !matches!(*word, "stopped" | "started"));
    let pair = |word: &'a str| match word.split_once('=') {
        None if word == "count" => Ok((word, "")),
        None => Err(format!("expected NAME=VALUE, found {word}")),
        Some(pair) => Ok(pair),
    };
    valued.map(pair).collect()
}

pub fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("no number: {text}"))
}

pub fn span(text: &str) -> Result<Span, String> {
    text.parse().map_err(|error| format!("{text}: {error}"))
}

fn session(text: &str) -> Result<SessionId, String> {
    number(text).map(SessionId)
}
