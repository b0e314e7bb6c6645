//! Connects to a name that has several addresses. An address that does not respond does not block the others
//! (RFC 8305).
//!
//! The next address is tried when the previous one has failed, or has not responded for a moment. All attempts
//! continue in parallel, and the first one that connects wins.

use crate::timer::Timer;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// How long an address may take before the next one is tried (RFC 8305 8).
const PAUSE: Duration = Duration::from_millis(250);

/// The minimum of that, however many addresses there are.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// Connects to the first of these addresses that responds. Every address is tried before `until`; the caller enforces
/// the timeout.
pub async fn first(addresses: &[SocketAddr], until: Instant) -> io::Result<TcpStream> {
    if let [only] = addresses {
        return TcpStream::connect(only).await;
    }
    let wait = until.saturating_duration_since(Instant::now());
    let pause = wait / (addresses.len() as u32).saturating_add(1);
    let pause = pause.clamp(PAUSE_MIN, PAUSE);
    Race::new(addresses, pause, |address| Box::pin(TcpStream::connect(address))).run().await
}

type Attempt<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

/// Parallel attempts to connect; the first success wins.
struct Race<'a, T, F> {
    connect: F,
    /// Addresses that have not been tried.
    rest: std::slice::Iter<'a, SocketAddr>,
    attempts: Vec<Attempt<T>>,
    failed: Option<io::Error>,
    pause: Duration,
    timer: Timer,
}

impl<'a, T, F: Fn(SocketAddr) -> Attempt<T>> Race<'a, T, F> {
    fn new(addresses: &'a [SocketAddr], pause: Duration, connect: F) -> Self {
        let (rest, timer) = (addresses.iter(), Timer::new(pause));
        Self { connect, rest, attempts: vec![], failed: None, pause, timer }
    }

    async fn run(mut self) -> io::Result<T> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        loop {
            let mut has_failed = self.attempts.is_empty();
            let mut n = 0;
            while let Some(attempt) = self.attempts.get_mut(n) {
                match attempt.as_mut().poll(cx) {
                    Poll::Ready(Ok(connected)) => return Poll::Ready(Ok(connected)),
                    Poll::Ready(Err(error)) => {
                        drop(self.attempts.swap_remove(n));
                        (self.failed, has_failed) = (Some(error), true);
                    }
                    Poll::Pending => n += 1,
                }
            }
            if !has_failed && self.timer.poll(cx).is_pending() {
                return Poll::Pending;
            }
            match self.rest.next() {
                Some(address) => {
                    self.attempts.push((self.connect)(*address));
                    self.timer.set(self.pause);
                }
                None if self.attempts.is_empty() => {
                    let failed = self.failed.take();
                    let none = || io::Error::other("the name has no address");
                    return Poll::Ready(Err(failed.unwrap_or_else(none)));
                }
                None => return Poll::Pending,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PAUSE, Race, first};
    use std::io;
    use std::net::SocketAddr;
    use std::time::Duration;
    use tokio::time::{Instant, sleep};

    /// The behaviour of an address, by its port: it connects after so many milliseconds, fails after that many less
    /// 10,000, or never responds.
    async fn act(address: SocketAddr) -> io::Result<u16> {
        match address.port() {
            0 => std::future::pending().await,
            port @ ..10_000 => {
                sleep(Duration::from_millis(port.into())).await;
                Ok(port)
            }
            port => {
                sleep(Duration::from_millis(u64::from(port) - 10_000)).await;
                Err(io::Error::other(port.to_string()))
            }
        }
    }

    /// On a simulated clock: the address that is connected to, and the milliseconds until then.
    async fn race(ports: &[u16]) -> (Result<u16, String>, u128) {
        let addresses: Vec<SocketAddr> =
            ports.iter().map(|port| ([127, 0, 0, 1], *port).into()).collect();
        let begun = Instant::now();
        let race = Race::new(&addresses, PAUSE, |address| Box::pin(act(address)));
        (race.run().await.map_err(|error| error.to_string()), begun.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_address_does_not_stand_in_the_way() {
        assert_eq!(race(&[0, 20]).await, (Ok(20), 270));
        assert_eq!(race(&[0, 0, 0, 20]).await, (Ok(20), 770));
        assert_eq!(race(&[20, 10]).await, (Ok(20), 20), "the first one has its time");
        assert_eq!(race(&[400, 20]).await, (Ok(20), 270));
        assert_eq!(race(&[400, 300]).await, (Ok(400), 400), "it may still be the first");
        assert_eq!(race(&[10_005, 20]).await, (Ok(20), 25), "a failure is not waited for");
        assert_eq!(race(&[10_300, 10_005, 20]).await, (Ok(20), 275));
        assert_eq!(race(&[10_001, 10_002]).await, (Err("10002".into()), 3));
        assert_eq!(race(&[]).await, (Err("the name has no address".into()), 0));
    }

    /// With sockets: a listener whose backlog is full drops new connections.
    #[test]
    fn a_listener_that_is_full_does_not_stand_in_the_way() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
            let full = full.unwrap();
            full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
            full.listen(0).unwrap();
            let silent = full.local_addr().unwrap().as_socket().unwrap();
            let mut taken = vec![];
            while let Ok(Ok(socket)) =
                tokio::time::timeout(PAUSE, tokio::net::TcpStream::connect(silent)).await
            {
                taken.push(socket);
            }
            let good = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let good = good.local_addr().unwrap();
            // Also when the timeout must be divided among the addresses.
            for wait in [Duration::from_secs(60), Duration::from_millis(200)] {
                let socket = first(&[silent, good], Instant::now() + wait).await.unwrap();
                assert_eq!(socket.peer_addr().unwrap(), good);
            }
        });
    }
}
