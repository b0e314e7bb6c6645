//! The pools there are: CREATE, CONFIGURE, START, STOP, PERSIST and UNPERSIST of seed 000.
//!
//! A [`PoolSet`] is a value: every operation either does what it says or fails with one error and
//! changes nothing. It promises that the default pool is always there, started and persistent, that
//! ranges do not overlap, and that a pool without a range is not started. Who may do what is decided
//! before it is asked.

use crate::spec::{DEFAULT_NAME, PoolSpec, QueueBounds, Range, State};
use paceline_types::{PoolId, Priority, limits};
use std::fmt;

/// The most pools there may be.
pub const POOLS_MAX: usize = 1_000;

/// The most threads one pool may have.
pub const THREADS_MAX: u32 = 1_000_000;

/// Why an operation on pools failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolError {
    /// There is no pool of this name.
    NoSuchPool {
        /// The name.
        name: Box<str>,
    },
    /// There is one already.
    AlreadyExists {
        /// The name.
        name: Box<str>,
    },
    /// The name is empty, too long, or has blanks or control characters in it.
    Name {
        /// The name, or its beginning.
        name: Box<str>,
    },
    /// It is persistent already.
    AlreadyPersistent {
        /// The pool.
        name: Box<str>,
    },
    /// It is transient already.
    AlreadyTransient {
        /// The pool.
        name: Box<str>,
    },
    /// The range meets that of another pool.
    OverlappingRange {
        /// The pool.
        name: Box<str>,
        /// Its range.
        range: Range,
        /// The other pool.
        other: Box<str>,
        /// The other's range.
        other_range: Range,
    },
    /// It cannot be started before it has a range.
    NoRange {
        /// The pool.
        name: Box<str>,
    },
    /// Fewer threads at most than at least, or more than a machine can have.
    Threads {
        /// The pool.
        name: Box<str>,
        /// At least.
        min: u32,
        /// At most.
        max: u32,
    },
    /// The default pool cannot be stopped, drained, made transient, deleted or given a range.
    DefaultPool {
        /// What was asked, as in "cannot be ...".
        what: &'static str,
    },
    /// There are as many pools as there may be.
    OutOfResources {
        /// How many that is.
        max: usize,
    },
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchPool { name } => write!(f, "no pool \"{name}\""),
            Self::AlreadyExists { name } => write!(f, "pool \"{name}\" already exists"),
            Self::Name { name } => write!(
                f,
                "\"{name}\" is no pool name: expected 1 to {} bytes without blanks or control \
                 characters",
                limits::NAME_BYTES_MAX
            ),
            Self::AlreadyPersistent { name } => write!(f, "pool \"{name}\" is already persistent"),
            Self::AlreadyTransient { name } => write!(f, "pool \"{name}\" is already transient"),
            Self::OverlappingRange { name, range, other, other_range } => write!(
                f,
                "priorities {range} of pool \"{name}\" overlap {other_range} of pool \"{other}\""
            ),
            Self::NoRange { name } => write!(
                f,
                "pool \"{name}\" has no range of priorities: configure one before starting it"
            ),
            Self::Threads { name, min, max } => write!(
                f,
                "pool \"{name}\": threads {min} to {max} are no range up to {THREADS_MAX}"
            ),
            Self::DefaultPool { what } => write!(f, "the default pool cannot be {what}"),
            Self::OutOfResources { max } => write!(f, "out of resources: {max} pools exist"),
        }
    }
}

impl std::error::Error for PoolError {}

/// What CONFIGURE changes; what is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Threads at least.
    pub threads_min: Option<u32>,
    /// Threads at most; `Some(None)` lifts the maximum of the default pool.
    pub threads_max: Option<Option<u32>>,
    /// The range of priorities.
    pub range: Option<Range>,
    /// Bounds of the queue.
    pub queue: Option<QueueBounds>,
    /// The group; `Some(None)` leaves it.
    pub group: Option<Option<Box<str>>>,
    /// Stack of each thread.
    pub stack_bytes: Option<Option<u64>>,
    /// Heap of its work.
    pub heap_bytes_max: Option<Option<u64>>,
}

/// All pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSet {
    next_id: u32,
    /// In the order they were made, the default pool first.
    pools: Vec<PoolSpec>,
}

impl Default for PoolSet {
    fn default() -> Self {
        Self::new()
    }
}

impl PoolSet {
    /// Only the default pool.
    #[must_use]
    pub fn new() -> Self {
        Self { next_id: 1, pools: vec![PoolSpec::default_pool()] }
    }

    /// Exactly these pools, however they came to be; the default pool is added if it is not among them.
    /// For a configuration that changes several pools at once.
    ///
    /// # Errors
    ///
    /// When they cannot stand together, or one of them cannot be: the first reason found.
    pub fn of(specs: Vec<PoolSpec>) -> Result<Self, PoolError> {
        let mut set = Self { next_id: 1, pools: vec![] };
        if !specs.iter().any(|spec| spec.id == PoolId::DEFAULT) {
            set.pools.push(PoolSpec::default_pool());
        }
        for spec in specs {
            set.check_name(&spec.name)?;
            set.check_spec(&spec)?;
            set.next_id = set.next_id.max(spec.id.0 + 1);
            let place = if spec.id == PoolId::DEFAULT { 0 } else { set.pools.len() };
            set.pools.insert(place, spec);
        }
        Ok(set)
    }

    /// CREATE: a pool that is stopped, without a range, and transient.
    ///
    /// # Errors
    ///
    /// When there is one of that name, the name is none, or there are too many.
    pub fn create(&mut self, name: &str) -> Result<PoolId, PoolError> {
        self.check_name(name)?;
        let id = PoolId(self.next_id);
        self.next_id += 1;
        self.pools.push(PoolSpec::new(id, name));
        Ok(id)
    }

    /// CONFIGURE: threads, range, queue and the rest.
    ///
    /// # Errors
    ///
    /// When there is no such pool, its range would meet another's, or the threads make no range.
    pub fn configure(&mut self, name: &str, change: Change) -> Result<(), PoolError> {
        let mut pool = self.pool(name).ok_or_else(|| no_such_pool(name))?.clone();
        pool.threads_min = change.threads_min.unwrap_or(pool.threads_min);
        pool.threads_max = change.threads_max.unwrap_or(pool.threads_max);
        pool.range = change.range.or(pool.range);
        pool.queue = change.queue.unwrap_or(pool.queue);
        if let Some(group) = change.group {
            pool.group = group;
        }
        if let Some(stack) = change.stack_bytes {
            pool.stack_bytes = stack;
        }
        if let Some(heap) = change.heap_bytes_max {
            pool.heap_bytes_max = heap;
        }
        self.check_spec(&pool)?;
        *self.pool_mut(name)? = pool;
        Ok(())
    }

    /// START; one that is started stays so.
    ///
    /// # Errors
    ///
    /// When there is no such pool, or it has no range.
    pub fn start(&mut self, name: &str) -> Result<(), PoolError> {
        let pool = self.pool_mut(name)?;
        if pool.range.is_none() && pool.id != PoolId::DEFAULT {
            return Err(PoolError::NoRange { name: name.into() });
        }
        pool.state = State::Started;
        Ok(())
    }

    /// STOP; one that is stopped stays so.
    ///
    /// # Errors
    ///
    /// When there is no such pool, or it is the default pool.
    pub fn stop(&mut self, name: &str) -> Result<(), PoolError> {
        self.pool_but_default(name, "stopped")?.state = State::Stopped;
        Ok(())
    }

    /// Refuses new work while what is queued goes on; a stopped pool has to be started for that.
    ///
    /// # Errors
    ///
    /// When there is no such pool, it is the default pool, or it has no range.
    pub fn drain(&mut self, name: &str) -> Result<(), PoolError> {
        let pool = self.pool_but_default(name, "drained")?;
        if pool.range.is_none() {
            return Err(PoolError::NoRange { name: name.into() });
        }
        pool.state = State::Draining;
        Ok(())
    }

    /// PERSIST.
    ///
    /// # Errors
    ///
    /// When there is no such pool, or it is persistent already.
    pub fn persist(&mut self, name: &str) -> Result<(), PoolError> {
        let pool = self.pool_mut(name)?;
        if pool.persistent {
            return Err(PoolError::AlreadyPersistent { name: name.into() });
        }
        pool.persistent = true;
        Ok(())
    }

    /// UNPERSIST.
    ///
    /// # Errors
    ///
    /// When there is no such pool, it is transient already, or it is the default pool.
    pub fn unpersist(&mut self, name: &str) -> Result<(), PoolError> {
        let pool = self.pool_but_default(name, "made transient")?;
        if !pool.persistent {
            return Err(PoolError::AlreadyTransient { name: name.into() });
        }
        pool.persistent = false;
        Ok(())
    }

    /// Deletes a pool.
    ///
    /// # Errors
    ///
    /// When there is no such pool, or it is the default pool.
    pub fn delete(&mut self, name: &str) -> Result<(), PoolError> {
        let id = self.pool_but_default(name, "deleted")?.id;
        self.pools.retain(|pool| pool.id != id);
        Ok(())
    }

    /// What is there after a restart: persistent pools, started if they can be, also if they had
    /// been stopped.
    pub fn restart(&mut self) {
        self.pools.retain(|pool| pool.persistent);
        for pool in &mut self.pools {
            let can_start = pool.range.is_some() || pool.id == PoolId::DEFAULT;
            pool.state = if can_start { State::Started } else { State::Stopped };
        }
    }

    /// LIST: all pools, the default pool first.
    #[must_use]
    pub fn list(&self) -> &[PoolSpec] {
        &self.pools
    }

    /// The pool of this name.
    #[must_use]
    pub fn pool(&self, name: &str) -> Option<&PoolSpec> {
        self.pools.iter().find(|pool| *pool.name == *name)
    }

    /// The pool with this number.
    #[must_use]
    pub fn by_id(&self, id: PoolId) -> Option<&PoolSpec> {
        self.pools.iter().find(|pool| pool.id == id)
    }

    /// The pool for this priority: 0 is always the default pool's, as is what no range holds.
    #[must_use]
    pub fn pool_for(&self, priority: Priority) -> &PoolSpec {
        let owner = |pool: &&PoolSpec| pool.range.is_some_and(|range| range.holds(priority));
        let found = if priority == Priority::START { None } else { self.pools.iter().find(owner) };
        found.unwrap_or(&self.pools[0])
    }

    /// Whether one more pool may be, of this name.
    fn check_name(&self, name: &str) -> Result<(), PoolError> {
        if name.is_empty()
            || name.len() > limits::NAME_BYTES_MAX
            || name.chars().any(|c| c.is_whitespace() || c.is_control())
        {
            return Err(PoolError::Name { name: name.chars().take(64).collect() });
        }
        if self.pool(name).is_some() {
            return Err(PoolError::AlreadyExists { name: name.into() });
        }
        if self.pools.len() >= POOLS_MAX {
            return Err(PoolError::OutOfResources { max: POOLS_MAX });
        }
        Ok(())
    }

    /// Whether a pool can be what it says, beside the others.
    fn check_spec(&self, spec: &PoolSpec) -> Result<(), PoolError> {
        let is_default = spec.id == PoolId::DEFAULT;
        let top = spec.threads_max.unwrap_or(THREADS_MAX);
        if spec.threads_min > top || top > THREADS_MAX {
            let (min, max) = (spec.threads_min, top);
            return Err(PoolError::Threads { name: spec.name.clone(), min, max });
        }
        if is_default {
            return check_default(spec);
        }
        match spec.range {
            Some(range) => self.check_range(&spec.name, range),
            None if spec.state == State::Stopped => Ok(()),
            None => Err(PoolError::NoRange { name: spec.name.clone() }),
        }
    }

    fn check_range(&self, name: &str, range: Range) -> Result<(), PoolError> {
        for pool in &self.pools {
            let Some(other_range) = pool.range else { continue };
            if *pool.name != *name && range.overlaps(other_range) {
                let other = pool.name.clone();
                let name = name.into();
                return Err(PoolError::OverlappingRange { name, range, other, other_range });
            }
        }
        Ok(())
    }

    fn pool_mut(&mut self, name: &str) -> Result<&mut PoolSpec, PoolError> {
        let found = self.pools.iter_mut().find(|pool| *pool.name == *name);
        found.ok_or_else(|| no_such_pool(name))
    }

    fn pool_but_default(
        &mut self,
        name: &str,
        what: &'static str,
    ) -> Result<&mut PoolSpec, PoolError> {
        if name == DEFAULT_NAME {
            return Err(PoolError::DefaultPool { what });
        }
        self.pool_mut(name)
    }
}

/// Whether the default pool is what it always is.
fn check_default(spec: &PoolSpec) -> Result<(), PoolError> {
    let what = match (spec.range, spec.state) {
        _ if *spec.name != *DEFAULT_NAME => "renamed",
        (Some(_), _) => "given a range",
        (_, State::Stopped) => "stopped",
        (_, State::Draining) => "drained",
        _ if !spec.persistent => "made transient",
        _ => return Ok(()),
    };
    Err(PoolError::DefaultPool { what })
}

fn no_such_pool(name: &str) -> PoolError {
    PoolError::NoSuchPool { name: name.chars().take(64).collect() }
}

#[cfg(test)]
mod tests;
