//! The one place that reads the clocks and the random source.

use paceline_types::{Time, UuidSource};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A monotonic clock that starts when it is made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now.
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Time {
        Time(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The standard library's form of `time`.
    #[must_use]
    pub fn instant(&self, time: Time) -> Instant {
        self.start + std::time::Duration::from_nanos(time.0)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// Milliseconds since 1970, for the dates in the journal.
#[must_use]
pub fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A source of UUIDs seeded by the operating system.
#[must_use]
pub fn uuid_source() -> UuidSource {
    let mut bytes = [0u8; 32];
    if getrandom::fill(&mut bytes).is_err() {
        // Without the system's random source the clock and the process tell runs apart.
        let seed = wall_ms() ^ (u64::from(std::process::id()) << 40);
        return UuidSource::from_number(seed);
    }
    let mut seed = [0u64; 4];
    for (word, chunk) in seed.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
    }
    UuidSource::new(seed)
}
