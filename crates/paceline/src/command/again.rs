//! Asks again when the daemon disappears while a command waits for it, as in a restart.
//!
//! Each try has a session of its own, because the connection of the old one is lost. The client ends the old
//! one if it still exists in the daemon's next run. All tries send the same place, so that a daemon that shut
//! down in order counts the time that the command waited before.

use super::run::Renewing;
use paceline_client::{Client, Error, Session};
use std::io;
use std::time::{Duration, Instant};

/// How long the daemon may be away until a waiting command gives up, if the command has no longest wait.
const AWAY_MAX: Duration = Duration::from_secs(60);
/// A daemon that disappears again within this time counts as away all the time.
const STEADY_MIN: Duration = Duration::from_secs(10);
/// The first and the longest pause between two tries.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// What was asked for, the session that has it, and the thread that renews the session.
pub struct Got<T> {
    pub session: Session,
    pub renewing: Renewing,
    pub got: T,
}

/// Begins a session and asks for something in it. If the daemon disappears, asks again, for at most `longest`,
/// and prints a message, in JSON if `as_json`.
pub fn ask<T>(
    client: &Client,
    longest: Option<Duration>,
    as_json: bool,
    begin: impl Fn() -> Result<Session, Error>,
    ask: impl Fn(&Session, Option<Duration>) -> Result<T, Error>,
) -> Result<Got<T>, Error> {
    let (began, mut left) = (Instant::now(), longest);
    let mut away: Option<(Instant, Duration)> = None;
    loop {
        let asked_at = Instant::now();
        let asked = begin().and_then(|session| {
            let renewing = Renewing::start(client, &session, as_json);
            ask(&session, left).map(|got| Got { session, renewing, got })
        });
        let error = match asked {
            Err(error) if is_away(&error) => error,
            asked => return asked,
        };
        if asked_at.elapsed() >= STEADY_MIN {
            away = None;
        }
        if away.is_none() {
            let next = "this command asks again when it is back";
            let message = match error.is_ending() {
                true => format!("the daemon is shutting down; {next}"),
                false => format!("the daemon went away: {error}; {next}"),
            };
            crate::screen::warn(as_json, &message);
        }
        let (since, pause) = away.get_or_insert((Instant::now(), PAUSE_MIN));
        left = longest.map(|longest| longest.saturating_sub(began.elapsed()));
        let is_over = left.map_or(since.elapsed() >= AWAY_MAX, |left| left.is_zero());
        if is_over {
            return Err(error);
        }
        std::thread::sleep(left.map_or(*pause, |left| left.min(*pause)));
        *pause = (*pause * 2).min(PAUSE_MAX);
    }
}

/// Whether a daemon that starts soon would change this.
fn is_away(error: &Error) -> bool {
    match error {
        Error::Unreachable { source, .. } => matches!(
            source.kind(),
            io::ErrorKind::UnexpectedEof
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::ConnectionRefused
                | io::ErrorKind::NotFound
        ),
        error => error.is_ending(),
    }
}
