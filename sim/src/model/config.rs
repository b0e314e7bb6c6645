//! The configuration as plain values: the small part of each language that histories use.
//!
//! Names come from fixed alphabets, so they are static texts and everything is easily copied.

use crate::words::{BACKEND_NAMES, HOSTS, SERVER_NAMES, TASKS, TEXTS, USERS, gate_of};
use paceline_types::Mode;

/// Everything an administrator can set.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The head start that one step of priority gives, in nanoseconds.
    pub age_step: u64,
    /// How late a wake may be without a loss, in nanoseconds.
    pub slip: u64,
    /// How many requests the engine moves in one call; the model ignores it.
    pub step_max: usize,
    /// How many requests may be alive.
    pub requests_max: usize,
    /// The rules, in order of their numbers.
    pub rules: Vec<Rule>,
    /// The checkpoints of all lists.
    pub checkpoints: Vec<Checkpoint>,
    /// The pools, the default pool first.
    pub pools: Vec<Pool>,
    /// The graph.
    pub resources: Vec<Resource>,
    /// The configured frontends.
    pub frontends: Vec<Frontend>,
    /// The backends.
    pub backends: Vec<Backend>,
}

/// A configured frontend.
#[derive(Clone, Debug, PartialEq)]
pub struct Frontend {
    /// Its name.
    pub name: &'static str,
    /// Conditions, and the backend of the requests for which they hold.
    pub lines: Vec<(When, &'static str)>,
    /// The backend of all other requests.
    pub backend: Option<&'static str>,
}

/// A backend.
#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
    /// Its number for as long as it exists.
    pub id: u32,
    /// Its name.
    pub name: &'static str,
    /// How a server is chosen.
    pub balance: Balance,
    /// Its servers.
    pub servers: Vec<Server>,
    /// How many may wait.
    pub max_len: u64,
    /// The longest wait.
    pub max_delay: u64,
}

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its number for as long as it exists.
    pub id: u32,
    /// Its name, as `BACKEND/NAME`.
    pub name: &'static str,
    /// Its weight.
    pub weight: u64,
    /// How many requests it may have.
    pub max: Option<u64>,
    /// Its address.
    pub address: u32,
}

/// How a server is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// In turn.
    RoundRobin,
    /// The server with the least load.
    Least,
    /// The better of two random ones.
    TwoLots,
}

impl Backend {
    /// Whether requests may have to wait for a server.
    #[must_use]
    pub fn is_gated(&self) -> bool {
        self.servers.iter().any(|server| server.max.is_some())
    }

    /// Whether this server is one of its own.
    #[must_use]
    pub fn has(&self, server: u32) -> bool {
        self.servers.iter().any(|own| own.id == server)
    }

    /// The name of its gate.
    #[must_use]
    pub fn gate(&self) -> &'static str {
        gate_of(self.name)
    }
}

/// An attribute that rules, keys and flows read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// The user.
    User,
    /// The host.
    Host,
    /// The program.
    Task,
    /// The statement.
    Text,
    /// The backend.
    Backend,
    /// The server, as `BACKEND/NAME`.
    Server,
}

impl Attribute {
    /// Every value it can have.
    #[must_use]
    pub const fn values(self) -> &'static [&'static str] {
        match self {
            Self::User => &USERS,
            Self::Host => &HOSTS,
            Self::Task => &TASKS,
            Self::Text => &TEXTS,
            Self::Backend => &BACKEND_NAMES,
            Self::Server => &SERVER_NAMES,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Host => "host",
            Self::Task => "task",
            Self::Text => "text",
            Self::Backend => "backend",
            Self::Server => "server",
        }
    }
}

/// How a rule matches an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// It equals this text.
    Exact(&'static str),
    /// It starts with this text: a glob with a star at its end.
    Prefix(&'static str),
}

/// A condition; a counter must exceed the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Requests past the checkpoint, of one key or of all.
    Inflight(&'static str, Option<Attribute>, u64),
    /// Requests that wait at the checkpoint, of one key or of all.
    Queued(&'static str, Option<Attribute>, u64),
    /// Arrivals per second at the checkpoint, of one key or of all; the number is in hundredths.
    Rate(&'static str, Option<Attribute>, u64),
    /// Requests that run in the pool.
    Running(&'static str, u64),
    /// Requests that wait for the pool.
    Waiting(&'static str, u64),
    /// The attribute equals this text.
    Is(Attribute, &'static str),
    /// The priority so far exceeds this number.
    PriorityOver(i8),
}

impl When {
    /// Whether it reads a counter that a request on its way may change.
    #[must_use]
    pub const fn counts(&self) -> bool {
        matches!(self, Self::Inflight(..) | Self::Queued(..) | Self::Rate(..))
    }
}

/// What a rule does to the priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Nothing,
    /// Sets it.
    Set(i8),
    /// Raises it.
    Raise(u8),
    /// Lowers it.
    Lower(u8),
    /// Rejects the request.
    Reject,
}

/// One rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its place in the list.
    pub number: u32,
    /// All of these must match.
    pub criteria: Vec<(Attribute, Pattern)>,
    /// This must hold as well.
    pub when: Option<When>,
    /// What it does.
    pub verdict: Verdict,
    /// Whether later rules are skipped.
    pub stop: bool,
    /// Whether it is left out.
    pub disabled: bool,
    /// Whether a match is logged.
    pub log: bool,
}

/// The list that a checkpoint is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Of a frontend.
    Frontend(&'static str),
    /// Of a backend.
    Backend(&'static str),
    /// Of a server, as `BACKEND/NAME`.
    Server(&'static str),
    /// Of a pool.
    Pool(&'static str),
}

/// What a checkpoint counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `n` per `d` nanoseconds, and `burst` at once.
    Rate {
        /// How many.
        n: u64,
        /// In how many nanoseconds.
        d: u64,
        /// How many at once.
        burst: u64,
    },
    /// This many at the same time.
    Concurrency(u64),
    /// Nothing is limited.
    Count,
}

/// The weight of a request in a fair queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// One for all users.
    Same,
    /// This weight for this user, one for all others.
    Of(&'static str, u64),
}

/// Bounds of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How many may wait at one counter.
    pub max_len: u64,
    /// How many may wait at all counters together.
    pub max_total: u64,
    /// The longest wait.
    pub max_delay: u64,
}

/// One checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Its number for as long as it exists.
    pub id: u32,
    /// Its name.
    pub name: &'static str,
    /// Its list.
    pub at: At,
    /// Its place in the list.
    pub number: u32,
    /// Whether connections pass it, and not requests.
    pub connection: bool,
    /// The requests that it applies to.
    pub when: Option<When>,
    /// One counter for each value of this attribute.
    pub key: Option<Attribute>,
    /// What is counted.
    pub limit: Limit,
    /// Flows that share fairly.
    pub fair: Option<Attribute>,
    /// Their weights.
    pub weight: Weight,
    /// Bounds of the queue.
    pub queue: Bounds,
    /// How many keys have a counter of their own.
    pub keys_max: u64,
    /// Decide, count, and let every request pass.
    pub watch: bool,
}

/// Whether a pool starts work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// No.
    Stopped,
    /// Yes.
    Started,
    /// Yes, but nothing new is accepted.
    Draining,
}

/// One pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Its number for as long as it exists; the default pool is 0.
    pub id: u32,
    /// Its name.
    pub name: &'static str,
    /// Its priorities.
    pub range: Option<(i8, i8)>,
    /// How many run at once.
    pub max: Option<u64>,
    /// How many may wait.
    pub max_len: u64,
    /// The longest wait.
    pub max_delay: Option<u64>,
    /// Whether it starts work.
    pub state: PoolState,
}

/// One node of the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Its number for as long as it exists, below 100.
    pub id: u32,
    /// Its name.
    pub name: &'static str,
    /// Its parents.
    pub parents: Vec<u32>,
}

/// What to do when a claim names a resource that does not exist.
pub use paceline_types::Unknown;

/// A request or connection that arrives.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// Whether it is a connection.
    pub connection: bool,
    /// The attribute of that name.
    pub user: &'static str,
    /// The attribute of that name.
    pub host: &'static str,
    /// The attribute of that name.
    pub task: &'static str,
    /// The attribute of that name.
    pub text: &'static str,
    /// The attribute of that name.
    pub frontend: &'static str,
    /// The attribute of that name.
    pub backend: &'static str,
    /// The attribute of that name.
    pub server: &'static str,
    /// Its cost.
    pub cost: u64,
    /// What it must hold while it runs.
    pub claims: Vec<(&'static str, Mode)>,
    /// What to do about unknown resources.
    pub unknown: Unknown,
    /// Locks that its session must own.
    pub locks: Vec<&'static str>,
    /// The longest it is willing to wait.
    pub wait_max: Option<u64>,
    /// How long it had waited before.
    pub waited: u64,
    /// Its session.
    pub session: Option<u64>,
    /// The sessions that it runs within.
    pub within: Vec<u64>,
}

impl Checkpoint {
    /// The period of its meters: that of its rate, else a second.
    #[must_use]
    pub const fn period(&self) -> u64 {
        match self.limit {
            Limit::Rate { d, .. } => d,
            Limit::Concurrency(_) | Limit::Count => 1_000_000_000,
        }
    }
}

impl Arrival {
    /// Its session, and those that it runs within.
    pub fn sessions(&self) -> impl Iterator<Item = u64> {
        self.session.into_iter().chain(self.within.iter().copied())
    }

    /// The value of an attribute.
    #[must_use]
    pub const fn value(&self, attribute: Attribute) -> &'static str {
        match attribute {
            Attribute::User => self.user,
            Attribute::Host => self.host,
            Attribute::Task => self.task,
            Attribute::Text => self.text,
            Attribute::Backend => self.backend,
            Attribute::Server => self.server,
        }
    }
}

impl Config {
    /// The default pool without a limit, and nothing else.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            age_step: 1_000_000_000,
            slip: 5_000_000,
            step_max: 256,
            requests_max: 1_000_000,
            rules: vec![],
            checkpoints: vec![],
            pools: vec![Pool {
                id: 0,
                name: "default",
                range: None,
                max: None,
                max_len: 100_000,
                max_delay: None,
                state: PoolState::Started,
            }],
            resources: vec![],
            frontends: vec![],
            backends: vec![],
        }
    }
}
