//! Translates plain values to the engine's types, and back.

use crate::model;
use crate::model::config::{
    Arrival, At, Attribute, Balance, Checkpoint, Config, Limit, Pattern, Pool, PoolState, Rule,
    Verdict, Weight, When,
};
use crate::words::known;
use paceline_checkpoints as checkpoints;
use paceline_claims::{Resource, ResourceId};
use paceline_engine as engine;
use paceline_pools::{
    PoolError, PoolSet, PoolSpec, PoolState as RealPoolState, QueueBounds, Range,
};
use paceline_routing as routing;
use paceline_rules::{Action, Criterion, PatternMode, Then};
use paceline_types::{
    Attributes, BackendId, CheckpointId, Claim, Known, Name, On, Place, PoolId, Priority, Reason,
    Request, ServerId, SessionId, Span,
};

/// A request as a door would submit it.
pub fn request(arrival: &Arrival) -> Request {
    let mut attributes = Attributes::new();
    for (name, value) in [
        (Known::User, arrival.user),
        (Known::Host, arrival.host),
        (Known::Task, arrival.task),
        (Known::Text, arrival.text),
        (Known::Frontend, arrival.frontend),
        (Known::Backend, arrival.backend),
        (Known::Server, arrival.server),
    ] {
        // The values are short words, so they always fit.
        let _ = attributes.set_known(name, value);
    }
    let claim = |(name, mode): &(&'static str, _)| Claim { resource: (*name).into(), mode: *mode };
    Request {
        on: if arrival.connection { On::Connection } else { On::Request },
        cost: arrival.cost as u32,
        claims: arrival.claims.iter().map(claim).collect(),
        unknown: arrival.unknown,
        locks: arrival.locks.iter().map(|lock| (*lock).into()).collect(),
        wait_max: arrival.wait_max.map(Span),
        waited: Span(arrival.waited),
        session: arrival.session.map(SessionId),
        within: arrival.within.iter().copied().map(SessionId).collect(),
        ..Request::new(attributes)
    }
}

/// A configuration, with the pools that [`pools`] made.
pub fn config(config: &Config, pools: &PoolSet) -> engine::Config {
    let resource = |resource: &model::config::Resource| Resource {
        id: ResourceId(u64::from(resource.id)),
        name: resource.name.into(),
        parents: resource.parents.iter().map(|id| ResourceId(u64::from(*id))).collect(),
    };
    engine::Config {
        age_step: Span(config.age_step),
        slip: Span(config.slip),
        step_max: config.step_max,
        requests_max: config.requests_max,
        rules: config.rules.iter().map(rule).collect(),
        checkpoints: config.checkpoints.iter().map(checkpoint).collect(),
        pools: pools.clone(),
        resources: config.resources.iter().map(resource).collect(),
        frontends: config.frontends.iter().map(frontend).collect(),
        backends: config.backends.iter().map(backend).collect(),
        ..engine::Config::default()
    }
}

fn frontend(frontend: &model::config::Frontend) -> routing::Frontend {
    let listen = vec![routing::Address::Unix("/run/door".into())];
    let line = |(when, backend): &(When, &'static str)| routing::UseBackend {
        when: condition(*when),
        backend: (*backend).into(),
    };
    routing::Frontend {
        backend: frontend.backend.map(Into::into),
        use_backend: frontend.lines.iter().map(line).collect(),
        ..routing::Frontend::new(frontend.name, listen)
    }
}

fn backend(backend: &model::config::Backend) -> routing::Backend {
    let server = |server: &model::config::Server| {
        let (_, name) = server.name.split_once('/').unwrap_or_default();
        let address = routing::Address::Unix(format!("/run/{}", server.address).into());
        routing::Server {
            weight: server.weight as u32,
            connections_max: server.max.map(|max| max as u32),
            ..routing::Server::new(ServerId(server.id), name, address)
        }
    };
    routing::Backend {
        balance: match backend.balance {
            Balance::RoundRobin => routing::Balance::RoundRobin,
            Balance::Least => routing::Balance::LeastConnections,
            Balance::TwoLots => routing::Balance::PowerOfTwo,
        },
        servers: backend.servers.iter().map(server).collect(),
        queue_len_max: Some(backend.max_len),
        queue_delay_max: Some(Span(backend.max_delay)),
        ..routing::Backend::new(BackendId(backend.id), backend.name)
    }
}

fn rule(rule: &Rule) -> paceline_rules::Rule {
    let criterion = |(attribute, pattern): &(Attribute, Pattern)| {
        let (mode, pattern) = match pattern {
            Pattern::Exact(text) => (PatternMode::Exact, (*text).to_string()),
            Pattern::Prefix(text) => (PatternMode::Glob, format!("{text}*")),
        };
        Criterion { attribute: Name::Known(of(*attribute)), mode, nocase: false, pattern }
    };
    paceline_rules::Rule {
        number: rule.number,
        criteria: rule.criteria.iter().map(criterion).collect(),
        when: rule.when.map(condition),
        action: match rule.verdict {
            Verdict::Nothing => Action::Nothing,
            Verdict::Set(number) => Action::Set(priority(number)),
            Verdict::Raise(n) => Action::Raise(n),
            Verdict::Lower(n) => Action::Lower(n),
            Verdict::Reject => Action::Reject,
        },
        then: if rule.stop { Then::Stop } else { Then::Continue },
        disabled: rule.disabled,
        log: rule.log,
    }
}

fn checkpoint(checkpoint: &Checkpoint) -> checkpoints::Spec {
    let at = match checkpoint.at {
        At::Frontend(name) => checkpoints::At::Frontend(name.into()),
        At::Backend(name) => checkpoints::At::Backend(name.into()),
        At::Server(name) => {
            let (backend, name) = name.split_once('/').unwrap_or((name, ""));
            checkpoints::At::Server { backend: backend.into(), name: name.into() }
        }
        At::Pool(name) => checkpoints::At::Pool(name.into()),
    };
    let limit = match checkpoint.limit {
        Limit::Rate { n, d, burst } => {
            checkpoints::Limit::Rate { count: n as u32, per: Span(d), burst: burst as u32 }
        }
        Limit::Concurrency(limit) => checkpoints::Limit::Concurrency(limit as u32),
        Limit::Count => checkpoints::Limit::Count,
    };
    let id = CheckpointId(checkpoint.id);
    let mut spec = checkpoints::Spec::new(id, checkpoint.name, at, limit);
    spec.number = checkpoint.number;
    spec.on = if checkpoint.connection { On::Connection } else { On::Request };
    spec.when = checkpoint.when.map(condition);
    spec.key = checkpoint.key.map(|attribute| attribute.name().into());
    spec.fair = checkpoint.fair.map(|attribute| attribute.name().into());
    if let (Weight::Of(user, weight), Some(_)) = (checkpoint.weight, checkpoint.fair) {
        spec.weight = Some(format!("user == \"{user}\" ? {weight} : 1"));
    }
    if checkpoint.limit != Limit::Count {
        spec.queue = checkpoints::QueueSpec {
            len_max: checkpoint.queue.max_len,
            total_max: checkpoint.queue.max_total,
            delay_max: Span(checkpoint.queue.max_delay),
        };
    }
    spec.keys_max = checkpoint.keys_max as usize;
    if checkpoint.watch {
        spec.mode = checkpoints::Mode::Watch;
    }
    spec
}

fn condition(when: When) -> String {
    let counter = |word: &str, name: &str, key: Option<Attribute>, n: u64| match key {
        Some(attribute) => format!("{word}(\"{name}\", {}) > {n}", attribute.name()),
        None => format!("{word}(\"{name}\") > {n}"),
    };
    match when {
        When::Inflight(name, key, n) => counter("inflight", name, key, n),
        When::Queued(name, key, n) => counter("queued", name, key, n),
        When::Rate(name, key, n) => {
            let text = counter("rate", name, key, n / 100);
            format!("{text}.{:02}", n % 100)
        }
        When::Running(pool, n) => counter("running", pool, None, n),
        When::Waiting(pool, n) => counter("waiting", pool, None, n),
        When::Is(attribute, text) => format!("{} == \"{text}\"", attribute.name()),
        When::PriorityOver(number) => format!("priority > {number}"),
    }
}

/// The pools of a configuration, as a whole: an edit may change several at once.
pub fn pools(config: &Config) -> Result<PoolSet, PoolError> {
    PoolSet::of(config.pools.iter().map(pool).collect())
}

fn pool(pool: &Pool) -> PoolSpec {
    let plain = match pool.id {
        0 => PoolSpec::default_pool(),
        id => PoolSpec::new(PoolId(id), pool.name),
    };
    let range = |(low, high)| Range::new(priority(low), priority(high));
    PoolSpec {
        threads_max: pool.max.map(|max| max as u32),
        range: pool.range.and_then(range),
        queue: QueueBounds { len_max: pool.max_len, delay_max: pool.max_delay.map(Span) },
        state: match pool.state {
            PoolState::Stopped => RealPoolState::Stopped,
            PoolState::Started => RealPoolState::Started,
            PoolState::Draining => RealPoolState::Draining,
        },
        ..plain
    }
}

fn priority(number: i8) -> Priority {
    Priority::new(i64::from(number)).unwrap_or_default()
}

const fn of(attribute: Attribute) -> Known {
    match attribute {
        Attribute::User => Known::User,
        Attribute::Host => Known::Host,
        Attribute::Task => Known::Task,
        Attribute::Text => Known::Text,
        Attribute::Backend => Known::Backend,
        Attribute::Server => Known::Server,
    }
}

/// The outcome of a submitted request.
pub fn outcome(outcome: engine::Outcome) -> model::Outcome {
    match outcome {
        engine::Outcome::Started => model::Outcome::Started,
        engine::Outcome::Waiting => model::Outcome::Waiting,
        engine::Outcome::Refused(refusal) => model::Outcome::Refused(reason(&refusal.reason)),
    }
}

/// An effect of the engine.
pub fn effect(effect: engine::Effect) -> model::Effect {
    match effect {
        engine::Effect::Start { id } => model::Effect::Start(id.0),
        engine::Effect::Refuse { id, refusal } => {
            model::Effect::Refuse(id.0, reason(&refusal.reason))
        }
        engine::Effect::End { id, ended } => {
            model::Effect::End(id.0, ended == engine::Ended::Settled)
        }
        engine::Effect::Log { id, rule, .. } => model::Effect::Log(id.0, rule),
    }
}

fn reason(reason: &Reason) -> model::Reason {
    match reason {
        Reason::Rejected { rule } => model::Reason::Rejected(*rule),
        Reason::QueueFull { place: at, max } => model::Reason::QueueFull(place(at), *max),
        Reason::TooLong { place: at, wait, .. } => model::Reason::TooLong(place(at), wait.0),
        Reason::Expired { place: at, .. } => model::Reason::Expired(place(at)),
        Reason::CostTooHigh { place: at, .. } => model::Reason::CostTooHigh(place(at)),
        Reason::Draining { pool } => model::Reason::Draining(known(pool)),
        Reason::UnknownResource { resource, .. } => model::Reason::UnknownResource(known(resource)),
        Reason::TooWide { .. } => model::Reason::TooWide,
        Reason::BlocksItself { .. } => model::Reason::BlocksItself,
        Reason::Deadlock { .. } => model::Reason::Deadlock,
        Reason::NotOwner { lock } => model::Reason::NotOwner(known(lock)),
        Reason::NoBackend { frontend } => model::Reason::NoBackend(known(frontend)),
        // The model does not distinguish the two.
        Reason::NoServer { backend } | Reason::BackendDeleted { backend } => {
            model::Reason::NoServer(known(backend))
        }
        // Only a host shuts down and cancels, never the engine by itself.
        Reason::Exhausted { .. } | Reason::Ending | Reason::Cancelled { .. } => {
            model::Reason::Exhausted
        }
    }
}

/// Where a queue is.
pub fn place(place: &Place) -> model::Place {
    match place {
        Place::Checkpoint { name, key } => {
            model::Place::Checkpoint(known(name), key.as_deref().map(known))
        }
        Place::Pool(name) => model::Place::Pool(known(name)),
    }
}
