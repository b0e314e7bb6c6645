//! One timer for each connection, whatever it waits for.
//!
//! A deadline that moves into the future costs nothing: the timer is left as it is, and looks at the
//! deadline again when it fires. So a busy connection arms it about once a minute, not with each request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// The timer of one connection.
#[derive(Debug)]
pub(crate) struct Timer {
    sleep: Pin<Box<Sleep>>,
    deadline: Instant,
}

impl Timer {
    /// One that fires after `wait`.
    pub fn new(wait: Duration) -> Self {
        let deadline = Instant::now() + wait;
        Self { sleep: Box::pin(sleep_until(deadline)), deadline }
    }

    /// It fires `wait` from now on instead.
    pub fn set(&mut self, wait: Duration) {
        self.set_at(Instant::now() + wait);
    }

    /// It fires then instead.
    pub fn set_at(&mut self, deadline: Instant) {
        self.deadline = deadline;
        if self.deadline < self.sleep.deadline() {
            self.sleep.as_mut().reset(self.deadline);
        }
    }

    /// What is left until the deadline.
    pub fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Whether the deadline has come; the task is woken when it does.
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

    /// On a made-up clock: the last deadline counts, earlier or later than the first.
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
