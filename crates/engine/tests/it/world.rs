//! The engine as a script sees it: names for requests, a logical clock, and a configuration that is
//! edited line by line.

use paceline_checkpoints::Spec;
use paceline_claims::Resource;
use paceline_engine::{Config, Effect, Ended, Engine, Outcome, Plan, Prepared, Why};
use paceline_pools::{PoolSet, PoolSpec};
use paceline_routing::{Backend, Frontend};
use paceline_rules::Rule;
use paceline_types::{CheckpointId, Known, Refusal, RequestId, SessionId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

pub struct World {
    pub engine: Engine,
    pub now: Time,
    pub pools: Vec<PoolSpec>,
    pub rules: Vec<Rule>,
    pub saved_rules: Vec<Rule>,
    pub checkpoints: Vec<Spec>,
    pub resources: Vec<Resource>,
    pub frontends: Vec<Frontend>,
    pub backends: Vec<Backend>,
    pub step_max: Option<usize>,
    pub requests_max: Option<usize>,
    pub prepared: BTreeMap<String, Prepared>,
    pub next_pool: u32,
    pub next_checkpoint: u32,
    pub next_resource: u64,
    pub next_backend: u32,
    pub next_server: u32,
    pub names: BTreeMap<RequestId, String>,
    pub owned: BTreeSet<(SessionId, String)>,
}

impl World {
    pub fn new() -> Self {
        Self {
            engine: Engine::new(1),
            now: Time(0),
            pools: vec![PoolSpec::default_pool()],
            rules: vec![],
            saved_rules: vec![],
            checkpoints: vec![],
            resources: vec![],
            frontends: vec![],
            backends: vec![],
            step_max: None,
            requests_max: None,
            prepared: BTreeMap::new(),
            next_pool: 0,
            next_checkpoint: 1,
            next_resource: 1,
            next_backend: 0,
            next_server: 0,
            names: BTreeMap::new(),
            owned: BTreeSet::new(),
        }
    }

    pub fn command(&mut self, line: &str) -> Vec<String> {
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let before = (
            self.pools.clone(),
            self.rules.clone(),
            self.checkpoints.clone(),
            self.resources.clone(),
        );
        let routing = (self.frontends.clone(), self.backends.clone());
        let mut answers = match self.dispatch(line, &words) {
            Ok(answers) => answers,
            Err(error) => {
                (self.pools, self.rules, self.checkpoints, self.resources) = before;
                (self.frontends, self.backends) = routing;
                vec![format!("error: {error}")]
            }
        };
        answers.extend(self.effects());
        answers
    }

    pub fn config(&self) -> Config {
        let mut config = Config {
            rules: self.rules.clone(),
            checkpoints: self.checkpoints.clone(),
            pools: PoolSet::of(self.pools.clone()).unwrap(),
            resources: self.resources.clone(),
            frontends: self.frontends.clone(),
            backends: self.backends.clone(),
            ..Config::default()
        };
        if let Some(step_max) = self.step_max {
            config.step_max = step_max;
        }
        if let Some(requests_max) = self.requests_max {
            config.requests_max = requests_max;
        }
        config
    }

    /// Plans and uses the configuration. Returns the plan's warnings.
    pub fn configure(&mut self) -> Result<Vec<String>, String> {
        let plan = Plan::new(&self.engine.snapshot(), self.config());
        let plan = plan.map_err(|error| error.to_string())?;
        let warnings = plan.warnings().iter().map(|text| format!("warning: {text}")).collect();
        self.engine.configure(self.now, &plan);
        Ok(warnings)
    }

    /// Moves the clock, waking the engine at every time it asks for.
    pub fn advance(&mut self, span: Span) -> Vec<String> {
        let end = self.now.plus(span);
        let mut answers = vec![];
        let mut turns = 0;
        while let Some(at) = self.engine.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.engine.handle_timeout(self.now);
            answers.extend(self.effects());
            turns += 1;
            assert!(turns < 100_000, "the engine asks to be woken for ever");
        }
        self.now = end;
        answers
    }

    pub fn effects(&mut self) -> Vec<String> {
        let mut answers = vec![];
        while let Some(effect) = self.engine.poll_effect() {
            let at = Span(self.now.0);
            answers.push(match effect {
                Effect::Start { id } => format!("{at} {}", self.started(id)),
                Effect::Refuse { id, refusal } => {
                    format!("{at} {} {}", self.name(id), self.refusal(&refusal))
                }
                Effect::End { id, ended: Ended::Left } => format!("{at} {} left", self.name(id)),
                Effect::End { id, .. } => format!("{at} {} settled", self.name(id)),
                Effect::Log { id, rule, .. } => {
                    format!("{at} {} matched rule {rule}", self.name(id))
                }
            });
        }
        answers
    }

    pub fn outcome(&self, id: RequestId, outcome: &Outcome) -> String {
        match outcome {
            Outcome::Started => self.started(id),
            Outcome::Waiting => {
                self.engine.why(id).map_or_else(|| "lost".into(), |why| self.why(&why))
            }
            Outcome::Refused(refusal) => format!("{} {}", self.name(id), self.refusal(refusal)),
        }
    }

    /// The text that a request started, and at which server.
    fn started(&self, id: RequestId) -> String {
        let server = self.engine.request(id).map_or("", |one| one.attributes.known(Known::Server));
        match self.engine.grant(id).and_then(|grant| grant.server()) {
            Some(_) => format!("{} started at {server}", self.name(id)),
            None => format!("{} started", self.name(id)),
        }
    }

    pub fn refusal(&self, refusal: &Refusal) -> String {
        let mut text = format!("refused: {refusal}");
        if let paceline_types::Reason::BlocksItself { resource, holder } = &refusal.reason {
            text = format!(
                "refused: \"{resource}\" is held by {} of the same session",
                self.name(*holder)
            );
        }
        if let paceline_types::Reason::Deadlock { resource, holder } = &refusal.reason {
            text = format!("refused: deadlock for \"{resource}\", behind {}", self.name(*holder));
        }
        if let Some(at) = refusal.retry_at {
            let _ = write!(text, "; come back in {}", at.since(self.now));
        }
        if let Some(status) = refusal.status.filter(|status| *status != 503) {
            let _ = write!(text, "; status {status}");
        }
        text
    }

    pub fn why(&self, why: &Why) -> String {
        let mut text = format!("{} {}", self.name(why.id), why.waits_for);
        if !why.ahead.is_empty() {
            let names: Vec<_> = why.ahead.iter().map(|id| self.name(*id)).collect();
            let _ = write!(text, ", behind {}", names.join(" "));
            if why.ahead_total > why.ahead.len() {
                let _ = write!(text, " and {} more", why.ahead_total - why.ahead.len());
            }
        }
        if let Some(until) = why.until {
            let _ = write!(text, ", until {}", Span(until.0));
        }
        if let Some(deadline) = why.deadline {
            let _ = write!(text, ", at most until {}", Span(deadline.0));
        }
        text
    }

    pub fn name(&self, id: RequestId) -> String {
        self.names.get(&id).cloned().unwrap_or_else(|| format!("request {id}"))
    }

    /// The latest request of this name.
    pub fn id(&self, name: &str) -> Result<RequestId, String> {
        let found = self.names.iter().rev().find(|(_, other)| *other == name);
        found.map(|(id, _)| *id).ok_or_else(|| format!("the script has no request {name}"))
    }

    pub fn checkpoint_id(&self, name: &str) -> Result<CheckpointId, String> {
        let snapshot = self.engine.snapshot();
        let found = snapshot.checkpoints().iter().find(|one| *one.spec.name == *name);
        found.map(|one| one.spec.id).ok_or_else(|| format!("the script has no checkpoint {name}"))
    }
}

/// Words of a line; quotes, single or double, keep blanks together.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut inside) = (vec![], String::new(), None, false);
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.push(c),
            None if c == '"' || c == '\'' => (quote, inside) = (Some(c), true),
            None if c == ' ' => {
                if inside {
                    words.push(std::mem::take(&mut word));
                }
                inside = false;
            }
            None => {
                word.push(c);
                inside = true;
            }
        }
    }
    if inside {
        words.push(word);
    }
    words
}
