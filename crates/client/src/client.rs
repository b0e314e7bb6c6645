//! The client: kept connections, calls over them, and its behaviour while the daemon is away.

use crate::connection::{Connection, Lost};
use crate::error::{Answer, Error};
use crate::owed::Owed;
use crate::request::Method;
use crate::seat::Seat;
use crate::target::Target;
use crate::wire::Message;
use serde_json::Value;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Idle connections that are kept.
const IDLE_MAX: usize = 16;
/// The first and the longest pause between two attempts to reach a daemon that is away.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// What happens while the daemon cannot be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenAway {
    /// Work continues without limits: a permit that holds nothing is granted at once. Everything that only the daemon
    /// can guarantee still fails as with `Closed`: permits with claims or required locks, sessions, locks, questions
    /// and changes.
    Open,
    /// Every call fails with [`Error::Unreachable`], at once.
    #[default]
    Closed,
    /// Every call tries to reach the daemon for this long, then fails as with `Closed`.
    Wait(Duration),
}

/// The behaviour of a client.
#[derive(Clone, Debug)]
pub struct Options {
    /// What happens while the daemon is away.
    pub when_away: WhenAway,
    /// How long an answer may take, beyond the wait that the request asked for.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { when_away: WhenAway::Closed, timeout: Duration::from_secs(30) }
    }
}

/// How long to wait for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// The client's timeout, added to the wait that the request asked for.
    After(Duration),
    /// No timeout.
    Endless,
}

/// A client of one daemon. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
    /// Whether it waits for a daemon that is away, if the options say so.
    waits: bool,
}

#[derive(Debug)]
struct Inner {
    target: Target,
    options: Options,
    idle: Mutex<Vec<Connection>>,
    seats: Mutex<Vec<Seat>>,
    owed: Owed,
}

impl Client {
    /// A client of the daemon at `target` that fails while the daemon is away.
    ///
    /// # Errors
    /// If the daemon cannot be reached now.
    pub fn connect(target: &Target) -> Result<Self, Error> {
        Self::connect_with(target, Options::default())
    }

    /// A client with these options.
    ///
    /// # Errors
    /// If the daemon cannot be reached now, unless work continues while it is away.
    pub fn connect_with(target: &Target, options: Options) -> Result<Self, Error> {
        let is_open = options.when_away == WhenAway::Open;
        let inner = Inner {
            target: target.clone(),
            options,
            idle: Mutex::default(),
            seats: Mutex::default(),
            owed: Owed::default(),
        };
        let client = Self { inner: Arc::new(inner), waits: true };
        match client.open() {
            Ok(connection) => client.keep(connection),
            Err(Error::Unreachable { .. }) if is_open => {}
            Err(error) => return Err(error),
        }
        Ok(client)
    }

    /// Makes any call of the API. `path` is a complete path with encoded names.
    ///
    /// # Errors See the variants of [`Error`].
    pub fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Error> {
        self.ask(method, path, body, Patience::After(Duration::ZERO))
    }

    /// Where the daemon is.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.inner.target
    }

    pub(crate) fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        patience: Patience,
    ) -> Result<Value, Error> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let (status, body) = self.send(&Message::new(method, path, body.as_bytes()), patience)?;
        read_answer(status, &body)
    }

    /// Sends a message, over a kept connection if there is one. Returns the status and the body of the answer.
    pub(crate) fn send(
        &self,
        message: &Message<'_>,
        patience: Patience,
    ) -> Result<(u16, Vec<u8>), Error> {
        if let Some(mut kept) = self.take() {
            match kept.exchange(message, self.deadline(patience)) {
                Ok(answer) => return Ok(self.settle_answer(kept, answer)),
                // The daemon may have just closed an idle connection.
                Err(Lost::Io(error)) if message.can_repeat() && hung_up(&error) => {}
                Err(lost) => return Err(self.lost(lost)),
            }
        }
        let mut away = Away::new(self);
        loop {
            let mut connection = self.open()?;
            // The time to reach the daemon does not count towards the daemon's timeout.
            match connection.exchange(message, self.deadline(patience)) {
                Ok(answer) => return Ok(self.settle_answer(connection, answer)),
                Err(Lost::Io(error))
                    if message.is_harmless() && hung_up(&error) && away.has_time() => {}
                Err(lost) => return Err(self.lost(lost)),
            }
        }
    }

    fn settle_answer(
        &self,
        connection: Connection,
        (status, body, keeps): (u16, Vec<u8>, bool),
    ) -> (u16, Vec<u8>) {
        if keeps {
            self.keep(connection);
        }
        (status, body)
    }

    /// Opens a new connection; waits for the daemon if the options say so.
    pub(crate) fn open(&self) -> Result<Connection, Error> {
        let started = Instant::now();
        let mut pause = PAUSE_MIN;
        loop {
            let error = match Connection::open(&self.inner.target, self.inner.options.timeout) {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            let left = self.longest_wait().saturating_sub(started.elapsed());
            if left.is_zero() || !is_away(&error) {
                return Err(self.lost(Lost::Io(error)));
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// The same client for calls that must be quick: it never waits for a daemon that is away.
    pub(crate) fn hasty(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), waits: false }
    }

    /// How long it waits for a daemon that is away.
    pub(crate) fn longest_wait(&self) -> Duration {
        match self.inner.options.when_away {
            WhenAway::Wait(longest) if self.waits => longest,
            _ => Duration::ZERO,
        }
    }

    pub(crate) fn owed(&self) -> &Owed {
        &self.inner.owed
    }

    pub(crate) fn deadline(&self, patience: Patience) -> Option<Instant> {
        match patience {
            Patience::After(wait) => {
                Instant::now().checked_add(wait.saturating_add(self.inner.options.timeout))
            }
            Patience::Endless => None,
        }
    }

    pub(crate) fn lost(&self, lost: Lost) -> Error {
        let target = self.inner.target.to_string();
        match lost {
            Lost::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let message = format!("caller may not connect to {target}");
                let hint =
                    "ask the user who started the daemon for access, or use a token over TCP";
                Error::NotPermitted(Box::new(Answer {
                    status: 0,
                    error: "permission".into(),
                    message,
                    hint: Some(hint.into()),
                    body: Value::Null,
                }))
            }
            Lost::Io(source) => Error::Unreachable { target, source },
            Lost::Protocol(what) => Error::Protocol(what),
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.inner.options
    }

    pub(crate) fn seats(&self) -> MutexGuard<'_, Vec<Seat>> {
        self.inner.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.inner.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Connection> {
        let mut idle = self.idle();
        std::iter::from_fn(|| idle.pop()).find(Connection::is_fresh)
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }
}

/// Retries while the daemon is restarting: it may accept a connection and exit before it answers.
pub(crate) struct Away {
    longest: Duration,
    since: Option<Instant>,
    pause: Duration,
}

impl Away {
    pub(crate) fn new(client: &Client) -> Self {
        Self { longest: client.longest_wait(), since: None, pause: PAUSE_MIN }
    }

    /// Whether there is time for another attempt; pauses before it returns true.
    pub(crate) fn has_time(&mut self) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        let left = self.longest.saturating_sub(since.elapsed());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(self.pause.min(left));
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        true
    }
}

/// The value or the error in an answer. An answer without a body is null.
pub(crate) fn read_answer(status: u16, body: &[u8]) -> Result<Value, Error> {
    let value = if body.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(body) };
    match (status, value) {
        (200..=299, Ok(value)) => Ok(value),
        (200..=299, Err(error)) => Err(Error::Protocol(format!("not JSON: {error}"))),
        (300..=399, _) => Err(Error::Protocol(format!("status {status}"))),
        (_, value) => Err(Error::from_answer(status, value.unwrap_or_default())),
    }
}

/// Whether the daemon disconnected before it sent any part of an answer.
pub(crate) fn hung_up(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

/// Whether the error may disappear when the daemon starts.
fn is_away(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, InvalidInput, PermissionDenied};
    !matches!(error.kind(), PermissionDenied | InvalidInput | InvalidFilename)
}
