//! The configuration of one checkpoint, and its possible errors.
//!
//! Owns the settings with their defaults and ranges. Expressions are still text here; `set` compiles
//! them.

use crate::at::At;
use crate::limit::Limit;
use paceline_expr::CompileError;
use paceline_types::{CheckpointId, On, Span, limits};
use std::fmt;

/// Checkpoints in one configuration.
pub const CHECKPOINTS_MAX: usize = 10_000;

/// The most that `keys_max` of a checkpoint can be set to.
pub const KEYS_MAX_MAX: usize = 100_000_000;

/// The most that `max_len` and `max_total` of a checkpoint's queue can be set to: each waiter takes memory.
pub const WAITERS_MAX: u64 = 10_000_000;

/// The longest that a whole burst may take to recover, so that no time overflows.
pub const RECOVERY_MAX: Span = Span::from_secs(100 * 365 * 86_400);

/// One checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Its id, which an edit keeps.
    pub id: CheckpointId,
    /// Its name.
    pub name: Box<str>,
    /// The place of its list.
    pub at: At,
    /// Whether requests or connections pass it.
    pub on: On,
    /// Its place in that list.
    pub number: u32,
    /// The condition under which a request stops here; without one, all do.
    pub when: Option<String>,
    /// What distinguishes one counter from another; without it there is one counter.
    pub key: Option<String>,
    /// What distinguishes one flow from another within a counter's queue; without it, rank alone orders.
    pub fair: Option<String>,
    /// The factor of a flow's share.
    pub weight: Option<String>,
    /// What is limited.
    pub limit: Limit,
    /// The period of the meters if the limit is not a rate; the meters of a rate use its own.
    pub period: Span,
    /// The bounds of its queues.
    pub queue: QueueSpec,
    /// How many keys have a counter of their own; further keys share one.
    pub keys_max: usize,
    /// The HTTP status of its refusals.
    pub status: u16,
    /// Whether it enforces its decisions or only counts them.
    pub mode: Mode,
}

/// The bounds of a checkpoint's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSpec {
    /// How many requests may wait for one counter.
    pub len_max: u64,
    /// How many requests may wait for all counters of the checkpoint together.
    pub total_max: u64,
    /// How long a request may wait.
    pub delay_max: Span,
}

impl Default for QueueSpec {
    fn default() -> Self {
        Self { len_max: 1_000, total_max: 100_000, delay_max: Span::from_secs(30) }
    }
}

/// Whether a checkpoint enforces its decisions or only counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It delays and refuses requests.
    #[default]
    Enforce,
    /// It counts what it would have done and lets everything pass.
    Watch,
}

impl Spec {
    /// A checkpoint with every setting at its default.
    #[must_use]
    pub fn new(id: CheckpointId, name: &str, at: At, limit: Limit) -> Self {
        Self {
            id,
            name: name.into(),
            at,
            on: On::Request,
            number: 0,
            when: None,
            key: None,
            fair: None,
            weight: None,
            limit,
            period: Span::from_secs(1),
            queue: QueueSpec::default(),
            keys_max: limits::KEYS_MAX,
            status: 503,
            mode: Mode::Enforce,
        }
    }

    /// The period of its meters.
    #[must_use]
    pub const fn meter_period(&self) -> Span {
        match self.limit {
            Limit::Rate { per, .. } => per,
            Limit::Concurrency(_) | Limit::Count => self.period,
        }
    }

    /// Checks whether every plain setting is in its range; expressions are checked by compiling them.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        let wrong = |field, problem| Err(SpecError { name: self.name.clone(), field, problem });
        if self.name.is_empty() || self.name.len() > limits::NAME_BYTES_MAX {
            return wrong(Field::Name, Problem::NameLength);
        }
        if !(400..=599).contains(&self.status) {
            return wrong(Field::Status, Problem::Status(self.status));
        }
        if self.on == On::Connection && !matches!(self.at, At::Frontend(_)) {
            return wrong(Field::On, Problem::NotAtFrontend);
        }
        if self.period == Span::ZERO {
            return wrong(Field::Period, Problem::Zero);
        }
        if self.keys_max == 0 || self.keys_max > KEYS_MAX_MAX {
            return wrong(Field::KeysMax, Problem::KeysMax(self.keys_max));
        }
        for (field, found) in
            [(Field::LenMax, self.queue.len_max), (Field::TotalMax, self.queue.total_max)]
        {
            if found > WAITERS_MAX {
                return wrong(field, Problem::Waiters(found));
            }
        }
        match self.limit {
            Limit::Count if self.fair.is_some() => wrong(Field::Fair, Problem::WithoutQueue),
            Limit::Count if self.queue != QueueSpec::default() => {
                wrong(Field::Queue, Problem::WithoutQueue)
            }
            Limit::Rate { per: Span::ZERO, .. } => wrong(Field::Rate, Problem::Zero),
            Limit::Rate { count: 0, .. } => wrong(Field::Rate, Problem::Zero),
            Limit::Rate { burst: 0, .. } => wrong(Field::Burst, Problem::Zero),
            Limit::Rate { count, per, burst } if recovery(count, per, burst) > RECOVERY_MAX => {
                wrong(Field::Burst, Problem::Recovery)
            }
            _ if self.weight.is_some() && self.fair.is_none() => {
                wrong(Field::Weight, Problem::WithoutFair)
            }
            _ => Ok(()),
        }
    }
}

fn recovery(count: u32, per: Span, burst: u32) -> Span {
    let nanos = u128::from(per.0) * u128::from(burst) / u128::from(count);
    Span(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// A setting of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The id that an edit keeps.
    Id,
    /// `name`
    Name,
    /// `on`
    On,
    /// `when`
    When,
    /// `key`
    Key,
    /// `fair`
    Fair,
    /// `weight`
    Weight,
    /// `rate`
    Rate,
    /// `burst`
    Burst,
    /// `period`
    Period,
    /// `queue`
    Queue,
    /// `max_len` of `queue`
    LenMax,
    /// `max_total` of `queue`
    TotalMax,
    /// `keys_max`
    KeysMax,
    /// `status`
    Status,
}

impl Field {
    /// The setting's name in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Name => "name",
            Self::On => "on",
            Self::When => "when",
            Self::Key => "key",
            Self::Fair => "fair",
            Self::Weight => "weight",
            Self::Rate => "rate",
            Self::Burst => "burst",
            Self::Period => "period",
            Self::Queue => "queue",
            Self::LenMax => "queue.max_len",
            Self::TotalMax => "queue.max_total",
            Self::KeysMax => "keys_max",
            Self::Status => "status",
        }
    }
}

/// Why a configuration is refused: the checkpoint, the setting, and what is wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub struct SpecError {
    /// The checkpoint's name.
    pub name: Box<str>,
    /// The setting.
    pub field: Field,
    /// What is wrong.
    pub problem: Problem,
}

/// What can be wrong with a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    /// There are more than [`CHECKPOINTS_MAX`] checkpoints.
    TooMany,
    /// Another checkpoint has the same value.
    Duplicate,
    /// The name is empty or longer than [`limits::NAME_BYTES_MAX`].
    NameLength,
    /// It must be at least 1, or longer than zero.
    Zero,
    /// The burst takes longer than [`RECOVERY_MAX`] to recover.
    Recovery,
    /// It is not from 1 to [`KEYS_MAX_MAX`].
    KeysMax(usize),
    /// It is not from 400 to 599.
    Status(u16),
    /// It is more than [`WAITERS_MAX`].
    Waiters(u64),
    /// It is used only together with `fair`.
    WithoutFair,
    /// It is used only where requests wait: at a rate or a concurrency.
    WithoutQueue,
    /// Connections pass only checkpoints of frontends.
    NotAtFrontend,
    /// An expression of a checkpoint for connections reads an attribute that only requests have.
    NotOfConnection(Box<str>),
    /// The door of this frontend does not submit connections.
    NoConnections(Box<str>),
    /// The gate of this backend has the same name.
    GateName(Box<str>),
    /// Keys, flows and weights are computed before any counter is looked at.
    ReadsCounters,
    /// The expression does not compile.
    Expression(CompileError),
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "checkpoint \"{}\", {}: {}", self.name, self.field.name(), self.problem)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(f, "there may be at most {CHECKPOINTS_MAX} checkpoints"),
            Self::Duplicate => f.write_str("another checkpoint has the same"),
            Self::NameLength => {
                write!(f, "expected 1 to {} bytes", limits::NAME_BYTES_MAX)
            }
            Self::Zero => f.write_str("expected more than zero"),
            Self::Recovery => {
                write!(f, "the burst may take at most {RECOVERY_MAX} to come back")
            }
            Self::KeysMax(found) => write!(f, "expected 1 to {KEYS_MAX_MAX}, found {found}"),
            Self::Status(found) => write!(f, "expected 400 to 599, found {found}"),
            Self::Waiters(found) => write!(f, "expected at most {WAITERS_MAX}, found {found}"),
            Self::WithoutQueue => {
                f.write_str("without rate or concurrency it only counts and has no queue")
            }
            Self::WithoutFair => f.write_str("there is no fair that it could weigh"),
            Self::NotAtFrontend => f.write_str("connections pass only checkpoints at a frontend"),
            Self::NotOfConnection(attribute) => write!(
                f,
                "a connection has no `{attribute}`; of connections, kind, frontend, client and \
                 host may be read"
            ),
            Self::NoConnections(frontend) => write!(
                f,
                "connections of frontend \"{frontend}\" are not limited, only those of configured \
                 frontends"
            ),
            Self::GateName(backend) => write!(
                f,
                "backend \"{backend}\" needs this name for those who wait for its servers, choose \
                 another"
            ),
            Self::ReadsCounters => f.write_str("only when may read counters"),
            Self::Expression(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SpecError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Expression(error) => Some(error),
            _ => None,
        }
    }
}
