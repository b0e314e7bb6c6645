//! The one place that reads the clocks and the random source.
//!
//! The daemon uses the machine's clocks. A simulator passes a clock of its own ([`MadeClock`]), which then
//! provides the dates, the sleeps and the random numbers of the whole host.

use crate::made::MadeClock;
use paceline_types::{Span, Time, UuidSource, civil};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A monotonic clock that starts when it is created.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    /// The clock to read instead of the machine's.
    made: Option<&'static MadeClock>,
}

impl Clock {
    /// A clock that starts now.
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now(), made: None }
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Time {
        match self.made {
            None => Time(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)),
            Some(made) => made.now(),
        }
    }

    /// Microseconds since 1970.
    #[must_use]
    pub fn wall_us(&self) -> i64 {
        match self.made {
            None => i64::try_from(since_1970().as_micros()).unwrap_or(i64::MAX),
            Some(made) => made.wall_us(),
        }
    }

    /// Milliseconds since 1970, for the dates in the journal.
    #[must_use]
    pub fn wall_ms(&self) -> u64 {
        u64::try_from(self.wall_us() / 1_000).unwrap_or(0)
    }

    /// A source of UUIDs seeded by the operating system.
    #[must_use]
    pub fn uuid_source(&self) -> UuidSource {
        self.made.map_or_else(uuid_source, MadeClock::uuid_source)
    }

    /// Fills `bytes` from the operating system's random source.
    ///
    /// # Errors
    ///
    /// When the system's random source fails, with the reason.
    pub(crate) fn fill_random(&self, bytes: &mut [u8]) -> Result<(), String> {
        match self.made {
            None => getrandom::fill(bytes).map_err(|error| error.to_string()),
            Some(made) => {
                let mut source = made.uuid_source();
                bytes.iter_mut().for_each(|byte| *byte = source.next_u64().to_le_bytes()[0]);
                Ok(())
            }
        }
    }

    /// Sleeps until `time`.
    pub async fn sleep_until(self, time: Time) {
        match self.made {
            None => {
                let until = self.start + Duration::from_nanos(time.0);
                tokio::time::sleep_until(until.into()).await;
            }
            Some(made) => made.sleep_until(time).await,
        }
    }

    /// Sleeps for `span`.
    pub async fn sleep(self, span: Span) {
        self.sleep_until(self.now().plus(span)).await;
    }

    /// Runs `work`; `None` if it has not finished at `time`.
    pub async fn timeout_at<T>(self, time: Time, work: impl Future<Output = T>) -> Option<T> {
        let (mut work, mut sleep) = (pin!(work), pin!(self.sleep_until(time)));
        std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => sleep.as_mut().poll(cx).map(|()| None),
        })
        .await
    }

    /// Whether a simulator provides it.
    pub(crate) const fn is_made(&self) -> bool {
        self.made.is_some()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl From<&'static MadeClock> for Clock {
    fn from(made: &'static MadeClock) -> Self {
        Self { start: Instant::now(), made: Some(made) }
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Microseconds since 1970.
pub(crate) fn wall_us() -> u64 {
    u64::try_from(since_1970().as_micros()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970.
#[must_use]
pub fn wall_ms() -> u64 {
    u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970 as an RFC 3339 time in UTC.
#[must_use]
pub fn rfc3339(ms: u64) -> String {
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = civil(i64::try_from(days).unwrap_or_default());
    let (seconds, ms) = (rest / 1_000, rest % 1_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// A source of UUIDs seeded by the operating system.
#[must_use]
pub fn uuid_source() -> UuidSource {
    let mut bytes = [0u8; 32];
    if getrandom::fill(&mut bytes).is_err() {
        // Without the system's random source, the clock and the process id make the seed differ between runs.
        let seed = wall_ms() ^ (u64::from(std::process::id()) << 40);
        return UuidSource::from_number(seed);
    }
    let mut seed = [0u64; 4];
    for (word, chunk) in seed.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
    }
    UuidSource::new(seed)
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn times_are_written_as_the_standard_says() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (1_794_787_200_123, "2026-11-16T00:00:00.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(ms), text);
        }
    }
}
