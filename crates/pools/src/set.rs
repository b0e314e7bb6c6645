//! The set of pools that exist.
//!
//! A [`PoolSet`] is built completely from what an administrator set, or not at all. It promises
//! that the default pool always exists, started and persistent, that ranges do not overlap, and
//! that a pool without a range is not started. It never checks permissions; the caller does that
//! first.

use crate::spec::{DEFAULT_NAME, PoolSpec, PoolState, Range};
use paceline_types::{PoolId, Priority, limits};
use std::fmt;

/// The most pools there may be.
pub const POOLS_MAX: usize = 1_000;

/// The most threads one pool may have.
pub const THREADS_MAX: u32 = 1_000_000;

/// Why a set of pools is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolError {
    /// Another pool has this name.
    AlreadyExists {
        /// The name.
        name: Box<str>,
    },
    /// The name is empty, too long, or contains blanks or control characters.
    Name {
        /// The name, or its beginning.
        name: Box<str>,
    },
    /// The range overlaps that of another pool.
    OverlappingRange {
        /// The pool.
        name: Box<str>,
        /// Its range.
        range: Range,
        /// The other pool.
        other: Box<str>,
        /// The range of the other pool.
        other_range: Range,
    },
    /// A pool cannot be started before it has a range.
    NoRange {
        /// The pool.
        name: Box<str>,
    },
    /// The minimum of threads is above the maximum, or the maximum is above 1,000,000.
    Threads {
        /// The pool.
        name: Box<str>,
        /// The minimum.
        min: u32,
        /// The maximum.
        max: u32,
    },
    /// The default pool cannot be stopped, drained, made transient, renamed, deleted or given a range.
    DefaultPool {
        /// What was requested, as in "cannot be ...".
        what: &'static str,
    },
    /// The number of pools has reached its maximum.
    OutOfResources {
        /// The maximum.
        max: usize,
    },
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyExists { name } => write!(f, "pool \"{name}\" already exists"),
            Self::Name { name } => write!(
                f,
                "\"{name}\" is no pool name: expected 1 to {} bytes without blanks or control \
                 characters",
                limits::NAME_BYTES_MAX
            ),
            Self::OverlappingRange { name, range, other, other_range } => write!(
                f,
                "priorities {range} of pool \"{name}\" overlap {other_range} of pool \"{other}\""
            ),
            Self::NoRange { name } => write!(
                f,
                "pool \"{name}\" has no range of priorities: configure one before starting it"
            ),
            Self::Threads { name, min, max } if min > max => {
                write!(f, "pool \"{name}\": threads.min ({min}) is above threads.max ({max})")
            }
            Self::Threads { name, max, .. } => {
                write!(f, "pool \"{name}\": threads.max ({max}) is above {THREADS_MAX}")
            }
            Self::DefaultPool { what } => write!(f, "the default pool cannot be {what}"),
            Self::OutOfResources { max } => write!(f, "out of resources: {max} pools exist"),
        }
    }
}

impl std::error::Error for PoolError {}

/// All pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSet {
    /// In order of creation, the default pool first.
    pools: Vec<PoolSpec>,
}

impl Default for PoolSet {
    fn default() -> Self {
        Self::new()
    }
}

impl PoolSet {
    /// A set with only the default pool.
    #[must_use]
    pub fn new() -> Self {
        Self { pools: vec![PoolSpec::default_pool()] }
    }

    /// A set of exactly these pools. The default pool is added if it is not among them.
    ///
    /// # Errors
    ///
    /// The first reason found why the set or one of its pools is invalid.
    pub fn of(specs: Vec<PoolSpec>) -> Result<Self, PoolError> {
        let mut set = Self { pools: vec![] };
        if !specs.iter().any(|spec| spec.id == PoolId::DEFAULT) {
            set.pools.push(PoolSpec::default_pool());
        }
        for spec in specs {
            set.check_name(&spec.name)?;
            set.check_spec(&spec)?;
            let place = if spec.id == PoolId::DEFAULT { 0 } else { set.pools.len() };
            set.pools.insert(place, spec);
        }
        Ok(set)
    }

    /// All pools, the default pool first.
    #[must_use]
    pub fn list(&self) -> &[PoolSpec] {
        &self.pools
    }

    /// The pool of this name.
    #[must_use]
    pub fn pool(&self, name: &str) -> Option<&PoolSpec> {
        self.pools.iter().find(|pool| *pool.name == *name)
    }

    /// The pool with this id.
    #[must_use]
    pub fn by_id(&self, id: PoolId) -> Option<&PoolSpec> {
        self.pools.iter().find(|pool| pool.id == id)
    }

    /// The pool for this priority. The default pool has priority 0 and every priority outside all
    /// ranges.
    #[must_use]
    pub fn pool_for(&self, priority: Priority) -> &PoolSpec {
        let owner = |pool: &&PoolSpec| pool.range.is_some_and(|range| range.holds(priority));
        let found = if priority == Priority::START { None } else { self.pools.iter().find(owner) };
        found.unwrap_or(&self.pools[0])
    }

    /// Checks whether a pool of this name can be added.
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

    /// Checks one pool, on its own and against the others.
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
            None if spec.state == PoolState::Stopped => Ok(()),
            None => Err(PoolError::NoRange { name: spec.name.clone() }),
        }
    }

    fn check_range(&self, name: &str, range: Range) -> Result<(), PoolError> {
        for pool in &self.pools {
            let Some(other_range) = pool.range else { continue };
            if range.overlaps(other_range) {
                let other = pool.name.clone();
                let name = name.into();
                return Err(PoolError::OverlappingRange { name, range, other, other_range });
            }
        }
        Ok(())
    }
}

/// Checks the settings that the default pool must have.
fn check_default(spec: &PoolSpec) -> Result<(), PoolError> {
    let what = match (spec.range, spec.state) {
        _ if *spec.name != *DEFAULT_NAME => "renamed",
        (Some(_), _) => "given a range",
        (_, PoolState::Stopped) => "stopped",
        (_, PoolState::Draining) => "drained",
        _ if !spec.persistent => "made transient",
        _ => return Ok(()),
    };
    Err(PoolError::DefaultPool { what })
}

#[cfg(test)]
mod tests;
