//! One timer for each connection, used for all of its timeouts.
//!
//! Postponing a deadline costs nothing: the timer is not changed, and checks the deadline again when it fires. So a
//! busy connection arms it about once a minute, not with each request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// The timer of one connection.
#[derive(Debug)]
pub struct Timer {
    sleep: Pin<Box<Sleep>>,
    deadline: Instant,
}

impl Timer {
    /// A timer that fires after `wait`.
    pub fn new(wait: Duration) -> Self {
        let deadline = Instant::now() + wait;
        Self { sleep: Box::pin(sleep_until(deadline)), deadline }
    }

    /// Makes the timer fire `wait` from now.
    pub fn set(&mut self, wait: Duration) {
        self.set_at(Instant::now() + wait);
    }

    /// Makes the timer fire at `deadline`.
    pub fn set_at(&mut self, deadline: Instant) {
        self.deadline = deadline;
        if self.deadline < self.sleep.deadline() {
            self.sleep.as_mut().reset(self.deadline);
        }
    }

    /// The time left until the deadline.
    pub fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Ready when the deadline has passed; otherwise the task is woken then.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            if self.deadline <= Instant::now() {
                return Poll::Ready(());
            }
            self.sleep.as_mut().reset(self.deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Timer;
    use std::future::poll_fn;
    use std::time::Duration;
    use tokio::time::Instant;

    /// On a simulated clock: the last deadline applies, earlier or later than the first.
    #[tokio::test(start_paused = true)]
    async fn the_last_deadline_counts() {
        let start = Instant::now();
        let mut timer = Timer::new(Duration::from_secs(10));
        timer.set(Duration::from_secs(60));
        poll_fn(|cx| timer.poll(cx)).await;
        assert_eq!(start.elapsed().as_secs(), 60);
        timer.set(Duration::from_secs(60));
        timer.set(Duration::from_secs(5));
        poll_fn(|cx| timer.poll(cx)).await;
        assert_eq!(start.elapsed().as_secs(), 65);
    }
}
