//! What can be found out about a request before the engine's lock is taken.
//!
//! [`prepare`] matches patterns, evaluates keys and conditions, and resolves claims against an immutable
//! snapshot. Expressions that read a counter are left to [`Engine::submit`](crate::Engine::submit), which also
//! prepares again if the configuration changed in between.

use crate::gate::is_gate;
use crate::input::Still;
use crate::renames::name_now;
use crate::snapshot::Snapshot;
use crate::work::Work;
use paceline_checkpoints::{At, Checked, KeyHash, Limit};
use paceline_claims::{Claims, Resting, WantedClaims};
use paceline_expr::{Expr, Input};
use paceline_routing::{Chosen, Unrouted};
use paceline_rules::{Candidates, Decision, Verdict};
use paceline_types::{
    BackendId, CheckpointId, Known, LOCK_NAME_RULE, On, PoolId, Priority, Request, RequestId, Span,
    limits, valid_lock_name,
};
use std::fmt;

/// Why a request is invalid: nothing is decided about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The cost is 0 or more than [`limits::COST_MAX`].
    Cost {
        /// The cost.
        cost: u32,
    },
    /// It has more than [`limits::CLAIMS_MAX`] claims.
    Claims {
        /// The number of claims.
        count: usize,
    },
    /// It requires more than [`limits::REQUIRED_LOCKS_MAX`] locks.
    Locks {
        /// The number of locks.
        count: usize,
    },
    /// A resource's name is empty or longer than [`limits::NAME_BYTES_MAX`].
    Resource {
        /// The index of the claim.
        index: usize,
    },
    /// No lock can have this name.
    Lock {
        /// The index of the required lock.
        index: usize,
    },
    /// It requires a lock, but belongs to no session that could own one.
    NoSession,
    /// It is a connection, and claims something or requires a lock.
    Connection,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cost { cost } => {
                write!(f, "a cost of {cost} is not within 1 to {}", limits::COST_MAX)
            }
            Self::Claims { count } => {
                write!(f, "{count} claims are more than {}", limits::CLAIMS_MAX)
            }
            Self::Locks { count } => {
                write!(f, "{count} required locks are more than {}", limits::REQUIRED_LOCKS_MAX)
            }
            Self::Resource { index } => write!(
                f,
                "claims[{index}]: a resource's name has 1 to {} bytes",
                limits::NAME_BYTES_MAX
            ),
            Self::Lock { index } => {
                write!(f, "locks[{index}]: the name of a lock has {LOCK_NAME_RULE}")
            }
            Self::NoSession => f.write_str("a request without a session cannot require locks"),
            Self::Connection => {
                f.write_str("a connection can neither claim resources nor require locks")
            }
        }
    }
}

impl std::error::Error for RequestError {}

/// A request with everything that could be found out without the engine's lock.
#[derive(Clone, Debug)]
pub struct Prepared(pub(crate) Box<Work>);

impl Prepared {
    /// The request.
    #[must_use]
    pub const fn request(&self) -> &Request {
        &self.0.draft.request
    }

    /// Sets how long it had waited before it is submitted, and the requests of its own sessions that it may wait for.
    pub fn set_returned(&mut self, waited: Span, beside: Box<[RequestId]>) {
        self.0.draft.request.waited = waited;
        self.0.draft.request.beside = beside;
    }

    /// Prepares it again, for another configuration.
    pub fn renew(&mut self, snapshot: &Snapshot) {
        self.0.draft.refresh(snapshot, None);
    }
}

/// What was found out about a request, for one configuration.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) request: Request,
    pub(crate) generation: u64,
    /// The generation from which it has the name of its frontend.
    pub(crate) named_at: u64,
    /// Where it is sent, if its frontend is configured.
    pub(crate) destination: Option<Destination>,
    pub(crate) candidates: Candidates,
    /// The decision of the rules, unless one of them reads a counter.
    pub(crate) decision: Option<Decision>,
    /// The `count` checkpoints of the frontend, which count before the rules.
    pub(crate) counts: Vec<Step>,
    /// The checkpoints on its way, in order; those of the pool once the pool is known.
    pub(crate) steps: Vec<Step>,
    /// The pool whose checkpoints are among the steps.
    pub(crate) steps_pool: Option<PoolId>,
    /// What it claims, as long as the claims are not registered.
    pub(crate) wanted: Option<WantedClaims>,
    /// The same while it sleeps at a checkpoint: nothing large, and no old graph.
    resting: Option<Resting>,
}

/// Where a request is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    /// The backend; before the request is submitted, as far as it is known without counters.
    pub chosen: Chosen,
    /// Whether it has a server, so that the checkpoints of the server are on its way.
    pub seated: bool,
}

/// The position of a checkpoint on the way: its list, its number, its id.
pub(crate) type Position = (List, u32, CheckpointId);

/// The lists in the order they are walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum List {
    Frontend,
    Backend,
    Server,
    Pool,
}

impl List {
    /// The list of a place.
    pub const fn of(at: &At) -> Self {
        match at {
            At::Frontend(_) => Self::Frontend,
            At::Backend(_) => Self::Backend,
            At::Server { .. } => Self::Server,
            At::Pool(_) => Self::Pool,
        }
    }
}

/// One checkpoint on a request's way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub position: Position,
    /// The values of its expressions, unless they must be evaluated when it is reached.
    pub filled: Option<Filled>,
}

/// The values of a checkpoint's expressions for a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filled {
    /// Whether the checkpoint applies.
    pub applies: bool,
    pub key: KeyHash,
    pub flow: KeyHash,
    pub weight: u32,
    /// How many of the expressions failed.
    pub errors: u32,
}

/// Finds out about `request` what can be known outside the engine's lock.
///
/// # Errors
///
/// When the request is invalid: a number or a name is out of bounds.
pub fn prepare(snapshot: &Snapshot, request: Request) -> Result<Prepared, RequestError> {
    check(&request)?;
    Ok(prepare_held(snapshot, request))
}

/// The same for a request that was granted in an earlier run. It may claim more than a request may ask for,
/// because edits of resources add to the claims of a permit.
#[must_use]
pub fn prepare_held(snapshot: &Snapshot, request: Request) -> Prepared {
    let wanted = resolve(snapshot, &request);
    let mut draft = Draft {
        named_at: request.named_in.unwrap_or(snapshot.generation),
        request,
        generation: snapshot.generation,
        destination: None,
        candidates: Candidates::default(),
        decision: None,
        counts: vec![],
        steps: vec![],
        steps_pool: None,
        wanted,
        resting: None,
    };
    draft.name_frontend(snapshot);
    if draft.is_connection() {
        draft.plan_counts(snapshot);
        draft.plan_steps(snapshot, Priority::START, PoolId::DEFAULT);
        return Prepared(Box::new(Work::new(draft)));
    }
    draft.find_destination(snapshot);
    draft.plan_counts(snapshot);
    draft.ask_rules(snapshot);
    if let Some(Verdict::Priority(priority)) = draft.decision.as_ref().map(|d| d.verdict) {
        let pool = snapshot.pools.pool_for(priority).id;
        draft.plan_steps(snapshot, priority, pool);
    }
    Prepared(Box::new(Work::new(draft)))
}

impl Draft {
    /// Whether it is a connection, which passes checkpoints of its frontend and nothing else.
    pub(crate) fn is_connection(&self) -> bool {
        self.request.on == On::Connection
    }

    /// Sets its attribute `frontend`, which an edit may have renamed. Returns whether it changed.
    fn name_frontend(&mut self, snapshot: &Snapshot) -> bool {
        let since = std::mem::replace(&mut self.named_at, snapshot.generation);
        let attributes = &mut self.request.attributes;
        let name = name_now(&snapshot.renames, since, attributes.known(Known::Frontend));
        if let Some(name) = name {
            attributes.put(Known::Frontend, name);
        }
        name.is_some()
    }

    /// Finds its backend by the lines of its frontend that read no counter. Returns whether its attributes
    /// changed.
    fn find_destination(&mut self, snapshot: &Snapshot) -> bool {
        let attributes = &self.request.attributes;
        let still = Still { attributes, priority: Priority::START };
        let chosen = snapshot.switch.begin(attributes.known(Known::Frontend), &still);
        let had = self.destination.take();
        self.destination = chosen.map(|chosen| Destination { chosen, seated: false });
        match chosen {
            Some(chosen) => {
                // It has no server yet, whatever its sender claims.
                let named_server = !self.request.attributes.known(Known::Server).is_empty();
                if named_server {
                    self.request.attributes.put(Known::Server, "");
                }
                self.name_backend(snapshot, chosen.backend) || named_server
            }
            // Its frontend was configured, and no longer is.
            None if had.is_some() => self.name_backend(snapshot, None),
            None => false,
        }
    }

    /// Sets its attribute `backend`. Returns whether it changed.
    pub(crate) fn name_backend(&mut self, snapshot: &Snapshot, id: Option<BackendId>) -> bool {
        let backend = id.and_then(|id| snapshot.routing.backend_by_id(id));
        let name = backend.map_or("", |backend| &*backend.name);
        if self.request.attributes.known(Known::Backend) == name {
            return false;
        }
        self.request.attributes.put(Known::Backend, name);
        true
    }

    /// Sends it to another backend, by a line that reads a counter: what was found out before is void.
    pub(crate) fn turn_to(&mut self, snapshot: &Snapshot, chosen: Chosen) {
        let is_other = self.name_backend(snapshot, chosen.backend);
        self.destination = Some(Destination { chosen, seated: false });
        if is_other {
            self.candidates = snapshot.rules.candidates(&self.request.attributes);
            self.decision = None;
            self.steps.clear();
            self.steps_pool = None;
        }
    }

    fn ask_rules(&mut self, snapshot: &Snapshot) {
        self.candidates = snapshot.rules.candidates(&self.request.attributes);
        if !snapshot.rules.reads_counters() {
            let still = Still { attributes: &self.request.attributes, priority: Priority::START };
            self.decision = Some(snapshot.rules.decide(&self.candidates, &still));
        }
    }

    /// Prepares again for another configuration; an existing decision stays.
    pub(crate) fn refresh(&mut self, snapshot: &Snapshot, decided: Option<(Priority, PoolId)>) {
        // The decision of the rules under another frontend name is void.
        let same_rules = !self.name_frontend(snapshot) && self.generation >= snapshot.rules_since;
        self.generation = snapshot.generation;
        if let Some((priority, pool)) = decided {
            let backend = self.destination.and_then(|destination| destination.chosen.backend);
            // A deleted backend keeps its name until the request reaches its servers.
            if backend.is_some_and(|id| snapshot.routing.backend_by_id(id).is_some()) {
                self.name_backend(snapshot, backend);
            }
            self.plan_steps(snapshot, priority, pool);
            return;
        }
        self.wanted = resolve(snapshot, &self.request);
        let is_elsewhere = !self.is_connection() && self.find_destination(snapshot);
        if !same_rules || is_elsewhere {
            self.candidates = snapshot.rules.candidates(&self.request.attributes);
            self.decision = None;
        }
        self.plan_counts(snapshot);
        self.steps.clear();
        self.steps_pool = None;
    }

    /// Drops what is needed only on the way to a slot; what others may ask about stays.
    pub(crate) fn on_start(&mut self) {
        (self.candidates, self.counts, self.steps) = (Candidates::default(), vec![], vec![]);
    }

    /// Reduces its claims before it sleeps.
    pub(crate) fn rest(&mut self) {
        if let Some(wanted) = self.wanted.take() {
            self.resting = Some(wanted.rest());
        }
    }

    /// The same for a request that leaves the claims.
    pub(crate) fn rest_from(&mut self, claims: &Claims, id: RequestId) {
        self.resting = claims.rest(id);
    }

    /// Resolves its claims in the present graph. Returns the cost, in moved requests.
    pub(crate) fn wake(&mut self, claims: &Claims) -> usize {
        if let Some(resting) = self.resting.take() {
            let wanted = self.wanted.insert(claims.wake(&resting, &self.request.claims));
            return wanted.cost();
        }
        let Some(wanted) = &mut self.wanted else { return 1 };
        if claims.refresh(wanted) { wanted.cost() } else { 1 }
    }

    /// Lists the `count` checkpoints of its frontend. They precede the choice of its backend, so they see none.
    fn plan_counts(&mut self, snapshot: &Snapshot) {
        self.counts.clear();
        let attributes = &self.request.attributes;
        let still = Still { attributes, priority: Priority::START };
        for checkpoint in snapshot.lists.frontends.list(attributes.known(Known::Frontend)) {
            if !is_early_count(checkpoint) || checkpoint.spec.on != self.request.on {
                continue;
            }
            match self.destination {
                Some(_) => push(&mut self.counts, checkpoint, snapshot, &Unrouted(&still)),
                None => push(&mut self.counts, checkpoint, snapshot, &still),
            }
        }
    }

    /// Lists the checkpoints on the way of a request with this priority and pool.
    pub(crate) fn plan_steps(&mut self, snapshot: &Snapshot, priority: Priority, pool: PoolId) {
        self.steps.clear();
        self.steps_pool = Some(pool);
        if snapshot.lists.is_empty {
            return;
        }
        let lists = &snapshot.lists;
        let attributes = &self.request.attributes;
        let still = Still { attributes, priority };
        let pool = snapshot.pools.by_id(pool);
        let pool_list = pool.map_or(&[][..], |pool| lists.pools.list(&pool.name));
        for checkpoint in lists.frontends.list(attributes.known(Known::Frontend)) {
            if !is_early_count(checkpoint) && checkpoint.spec.on == self.request.on {
                push(&mut self.steps, checkpoint, snapshot, &still);
            }
        }
        if self.request.on == On::Connection {
            return;
        }
        for checkpoint in lists.backends.list(attributes.known(Known::Backend)) {
            // A request that only names a backend takes no server of it.
            if self.destination.is_some() || !is_gate(checkpoint.spec.id) {
                push(&mut self.steps, checkpoint, snapshot, &still);
            }
        }
        if self.destination.is_none_or(|destination| destination.seated) {
            for checkpoint in lists.servers.list(attributes.known(Known::Server)) {
                push(&mut self.steps, checkpoint, snapshot, &still);
            }
        }
        let is_routed = self.destination.is_some();
        for checkpoint in pool_list {
            if is_routed && checkpoint.reads(Known::Server) {
                // Its server is known when it gets here, and may be another one by then.
                self.steps.push(Step { position: position(checkpoint), filled: None });
            } else {
                push(&mut self.steps, checkpoint, snapshot, &still);
            }
        }
    }

    /// Adds the checkpoints of its server to its way.
    pub(crate) fn plan_server(&mut self, snapshot: &Snapshot, priority: Priority) {
        if let Some(destination) = &mut self.destination {
            destination.seated = true;
        }
        let steps = self.server_steps(snapshot, priority);
        if !steps.is_empty() {
            let at = self.steps.partition_point(|step| step.position.0 <= List::Backend);
            self.steps.splice(at..at, steps);
        }
    }

    /// Removes the checkpoints of its server from its way.
    pub(crate) fn leave_server(&mut self) {
        if let Some(destination) = &mut self.destination {
            destination.seated = false;
        }
        self.steps.retain(|step| step.position.0 != List::Server);
        self.request.attributes.put(Known::Server, "");
    }

    /// The checkpoints of its server.
    pub(crate) fn server_steps(&self, snapshot: &Snapshot, priority: Priority) -> Vec<Step> {
        let attributes = &self.request.attributes;
        let still = Still { attributes, priority };
        let mut steps = vec![];
        for checkpoint in snapshot.lists.servers.list(attributes.known(Known::Server)) {
            push(&mut steps, checkpoint, snapshot, &still);
        }
        steps
    }
}

/// The position of a checkpoint.
pub(crate) const fn position(checkpoint: &Checked) -> Position {
    (List::of(&checkpoint.spec.at), checkpoint.spec.number, checkpoint.spec.id)
}

/// A frontend's `count` checkpoints count before the rules, including rejected requests.
pub(crate) fn is_early_count(checkpoint: &Checked) -> bool {
    matches!(checkpoint.spec.limit, Limit::Count)
}

/// Adds a step, unless it is known already that the checkpoint does not apply.
fn push(steps: &mut Vec<Step>, checkpoint: &Checked, snapshot: &Snapshot, still: &impl Input) {
    let position = position(checkpoint);
    // Only a condition may read counters.
    if checkpoint.when.as_ref().is_some_and(Expr::reads_counters) {
        steps.push(Step { position, filled: None });
        return;
    }
    let filled = fill(checkpoint, snapshot, still);
    if filled.applies || filled.errors > 0 {
        steps.push(Step { position, filled: Some(filled) });
    }
}

/// Evaluates a checkpoint's expressions. A condition that fails does not match; a key that fails is the empty
/// key and a weight that fails is 1, so that a failure lets no request past a limit.
pub(crate) fn fill(checkpoint: &Checked, snapshot: &Snapshot, input: &impl Input) -> Filled {
    let answer = checkpoint.when.as_ref().map(|when| when.condition(input));
    let (applies, failed) = match answer {
        None => (true, false),
        Some(answer) => (*answer.as_ref().unwrap_or(&false), answer.is_err()),
    };
    if !applies {
        let errors = u32::from(failed);
        return Filled { weight: 1, errors, ..Filled::default() };
    }
    fill_keys(checkpoint, snapshot, input)
}

/// The same for a checkpoint whose condition holds.
pub(crate) fn fill_keys(checkpoint: &Checked, snapshot: &Snapshot, input: &impl Input) -> Filled {
    let mut filled = Filled { applies: true, weight: 1, ..Filled::default() };
    let mut hash = |expr: &Option<Expr>| {
        let Some(expr) = expr else { return KeyHash::default() };
        if let Ok(key) = expr.key(input) {
            return snapshot.hasher.hash(key.as_bytes());
        }
        filled.errors += 1;
        snapshot.hasher.hash(b"")
    };
    let (key, flow) = (hash(&checkpoint.key), hash(&checkpoint.fair));
    (filled.key, filled.flow) = (key, flow);
    if let Some(weight) = &checkpoint.weight {
        match weight.weight(input) {
            Ok(weight) => filled.weight = weight,
            Err(_) => filled.errors += 1,
        }
    }
    filled
}

/// What a request claims; names and numbers have been checked.
pub(crate) fn resolve(snapshot: &Snapshot, request: &Request) -> Option<WantedClaims> {
    if request.claims.is_empty() {
        return None;
    }
    Some(snapshot.graph.resolve_held(&request.claims))
}

fn check(request: &Request) -> Result<(), RequestError> {
    if request.cost == 0 || request.cost > limits::COST_MAX {
        return Err(RequestError::Cost { cost: request.cost });
    }
    if request.claims.len() > limits::CLAIMS_MAX {
        return Err(RequestError::Claims { count: request.claims.len() });
    }
    if request.locks.len() > limits::REQUIRED_LOCKS_MAX {
        return Err(RequestError::Locks { count: request.locks.len() });
    }
    if request.on == On::Connection && !(request.claims.is_empty() && request.locks.is_empty()) {
        return Err(RequestError::Connection);
    }
    let wrong = |name: &str| name.is_empty() || name.len() > limits::NAME_BYTES_MAX;
    if let Some(index) = request.claims.iter().position(|claim| wrong(&claim.resource)) {
        return Err(RequestError::Resource { index });
    }
    if let Some(index) = request.locks.iter().position(|lock| !valid_lock_name(lock)) {
        return Err(RequestError::Lock { index });
    }
    if request.session.is_none() && !request.locks.is_empty() {
        return Err(RequestError::NoSession);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{RequestError, check};
    use paceline_types::{Attributes, Claim, Mode, Request, SessionId, limits};

    /// Each invalid request has its own error; the last valid number has none.
    #[test]
    fn bounds_of_requests() {
        let claim = |name: &str| Claim { resource: name.into(), mode: Mode::Shared };
        let long = "x".repeat(limits::NAME_BYTES_MAX + 1);
        let with = |change: &dyn Fn(&mut Request)| {
            let mut request = Request::new(Attributes::new());
            request.session = Some(SessionId(1));
            change(&mut request);
            check(&request)
        };
        let claims = limits::CLAIMS_MAX;
        let locks = limits::REQUIRED_LOCKS_MAX;
        assert_eq!(with(&|r| r.cost = 0), Err(RequestError::Cost { cost: 0 }));
        assert_eq!(with(&|r| r.cost = limits::COST_MAX), Ok(()));
        let cost = limits::COST_MAX + 1;
        assert_eq!(with(&|r| r.cost = cost), Err(RequestError::Cost { cost }));
        assert_eq!(with(&|r| r.claims = vec![claim("a"); claims]), Ok(()));
        let count = claims + 1;
        let error = Err(RequestError::Claims { count });
        assert_eq!(with(&|r| r.claims = vec![claim("a"); count]), error);
        let error = Err(RequestError::Resource { index: 1 });
        assert_eq!(with(&|r| r.claims = vec![claim("a"), claim("")]), error);
        assert_eq!(with(&|r| r.claims = vec![claim("a"), claim(&long)]), error);
        assert_eq!(with(&|r| r.locks = vec!["a".into(); locks]), Ok(()));
        let count = locks + 1;
        let error = Err(RequestError::Locks { count });
        assert_eq!(with(&|r| r.locks = vec!["a".into(); count]), error);
        let error = Err(RequestError::Lock { index: 0 });
        assert_eq!(with(&|r| r.locks = vec!["".into()]), error);
        assert_eq!(with(&|r| r.locks = vec![long.as_str().into()]), error);
        let alone = |r: &mut Request| {
            r.session = None;
            r.locks = vec!["a".into()];
        };
        assert_eq!(with(&alone), Err(RequestError::NoSession));
    }
}
