//! Seats: on a unix socket each permit and lock has a connection of its own, and a session bound to it, so that the
//! daemon releases what it holds as soon as the program dies (P4).
//!
//! A seat that holds nothing is kept for the next permit or lock. Each has its own session, because a session that
//! asks for what it holds itself is refused, and two threads of a program are independent.

use crate::client::{Away, Client, Patience, hung_up, read_answer};
use crate::connection::{Connection, Lost, silent};
use crate::error::Error;
use crate::owed::{Release, is_written};
use crate::place::Place;
use crate::request::Method;
use crate::session::Opened;
use crate::wire::Message;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The most seats that are kept while they hold nothing.
const SEATS_MAX: usize = 64;
/// If the daemon was reachable for this long and disconnects, the client waits for it anew.
const STEADY_MIN: Duration = Duration::from_secs(10);

/// A connection and the session bound to it.
#[derive(Debug)]
pub(crate) struct Seat {
    connection: Connection,
    pub(crate) session: String,
}

impl Seat {
    /// Sends a request over the seat's own connection. If the connection fails, the session ends with everything that
    /// it held, unless the daemon exited. In that case the session continues in the next run, and must be ended.
    pub(crate) fn ask(
        &mut self,
        client: &Client,
        method: Method,
        path: &str,
        body: Option<&Value>,
        patience: Patience,
    ) -> Result<Value, SeatError> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let deadline = client.deadline(patience);
        let message = Message::new(method, path, body.as_bytes());
        let answer = self.connection.exchange(&message, deadline);
        let (status, body, keeps) = answer.map_err(SeatError::Lost)?;
        let answer = read_answer(status, &body).map_err(SeatError::Answered);
        if keeps { answer } else { answer.and_then(|_| Err(SeatError::Lost(closing()))) }
    }
}

/// Why a request in a seat failed.
#[derive(Debug)]
pub(crate) enum SeatError {
    /// The daemon answered with an error; the seat is usable.
    Answered(Error),
    /// The seat is lost.
    Lost(Lost),
}

fn closing() -> Lost {
    Lost::Protocol("the daemon closes a connection that a session is bound to".into())
}

/// Whether the daemon went away as it was asked, or ends.
fn is_restarting(error: &Error) -> bool {
    match error {
        Error::Unreachable { source, .. } => hung_up(source),
        error => error.is_ending(),
    }
}

impl Client {
    /// Makes a request in a seat that holds nothing, in a kept one if there is one. `ask` returns the body and how
    /// long to wait for the answer, given the session and the time already waited in vain.
    ///
    /// What a lost seat was granted is released, so a second request in a new seat can neither hold anything twice
    /// nor wait for itself. A kept seat may have been lost long ago. After a new seat is lost, the request is
    /// repeated only if the client waits for a daemon that is away.
    pub(crate) fn in_seat(
        &self,
        path: &str,
        method: Method,
        ask: impl Fn(&str, Duration) -> (Value, Patience),
    ) -> Result<(Seat, Value), Error> {
        let (began, mut away) = (Instant::now(), Away::new(self));
        let mut waited = Duration::ZERO;
        loop {
            let kept = self.kept_seat();
            let was_kept = kept.is_some();
            let mut seat = match kept.map_or_else(|| self.new_seat(), Ok) {
                Ok(seat) => seat,
                Err(error) if is_restarting(&error) && away.has_time() => continue,
                Err(error) => return Err(error),
            };
            self.tell_owed();
            let (body, patience) = ask(&seat.session, waited);
            let asked_at = Instant::now();
            let asked = seat.ask(self, method, path, Some(&body), patience);
            if asked_at.elapsed() >= STEADY_MIN {
                away = Away::new(self);
            }
            match asked {
                Ok(value) => return Ok((seat, value)),
                Err(SeatError::Lost(Lost::Io(error))) if hung_up(&error) => {
                    // If the daemon does not receive it, it is sent again later.
                    let _ = self.hasty().give_up(seat);
                    if !was_kept && !away.has_time() {
                        return Err(self.lost(Lost::Io(error)));
                    }
                }
                // The daemon ends in order, and the next one may grant it.
                Err(SeatError::Answered(error)) if error.is_ending() && self.waits_for_daemon() => {
                    let _ = self.hasty().give_up(seat);
                    if !away.has_time() {
                        return Err(error);
                    }
                }
                Err(error) => return Err(self.refused_seat(seat, error)),
            }
            waited = began.elapsed();
        }
    }

    /// A place for a request, if the client would send it again after a restart of the daemon.
    pub(crate) fn new_place(&self) -> Option<Place> {
        // Without one the request is only a new one then.
        if self.waits_for_daemon() { Place::random().ok() } else { None }
    }

    fn waits_for_daemon(&self) -> bool {
        !self.longest_wait().is_zero()
    }

    /// Gives back what a seat holds, and keeps the seat.
    pub(crate) fn release_in(&self, mut seat: Seat, release: &Release) -> Result<(), Error> {
        if self.owed().is_silent() {
            return Err(self.let_go(&seat, Lost::Io(silent())));
        }
        let patience = Patience::After(Duration::ZERO);
        let (path, body) = (&release.path, release.body.as_ref());
        match seat.ask(self, Method::Delete, path, body, patience) {
            Ok(answer) if is_written(&answer) => {
                self.keep_seat(seat);
                Ok(())
            }
            // If the daemon were killed now, the session would hold it again. So the end of the session is sent until
            // it is on disk. The connection is closed only after that, because its end would end the session without
            // writing this. The seat is not used again: a repeated unlock could release a lock that it owns anew.
            Ok(_) => {
                let _ = self.give_back_again(Release::session(&seat.session));
                Ok(())
            }
            // The seat may still hold something: dropping it ends its session.
            Err(SeatError::Answered(error)) => Err(error),
            Err(SeatError::Lost(Lost::Io(error))) if hung_up(&error) => self.give_up(seat),
            Err(SeatError::Lost(lost)) => Err(self.let_go(&seat, lost)),
        }
    }

    /// Ends the session of a seat whose connection is unusable. The daemon may not have seen the connection end:
    /// after a restart the session continues without a connection.
    fn give_up(&self, seat: Seat) -> Result<(), Error> {
        let release = Release::session(&seat.session);
        drop(seat);
        self.give_back_again(release)
    }

    /// The same without a request, for a daemon that does not answer or answers incorrectly.
    fn let_go(&self, seat: &Seat, lost: Lost) -> Error {
        if let Lost::Io(error) = &lost {
            self.owed().note(Some(error));
        }
        self.owe(Release::session(&seat.session));
        self.lost(lost)
    }

    /// Keeps a seat that holds nothing.
    pub(crate) fn keep_seat(&self, seat: Seat) {
        let mut seats = self.seats();
        if seats.len() < SEATS_MAX {
            seats.push(seat);
        }
    }

    /// Opens a connection with a session bound to it. A sealed connection accepts no further requests.
    pub(crate) fn new_bound(
        &self,
        name: Option<&str>,
        is_sealed: bool,
    ) -> Result<(Connection, String), Error> {
        let mut body = json!({"bound": true});
        if let Some(members) = body.as_object_mut() {
            members.extend(name.map(|name| ("name".to_owned(), name.into())));
            members.extend(is_sealed.then(|| ("sealed".to_owned(), true.into())));
        }
        let mut connection = self.open()?;
        let deadline = self.deadline(Patience::After(Duration::ZERO));
        let body = body.to_string();
        let message = Message::new(Method::Post, "/v1/sessions", body.as_bytes());
        let answer = connection.exchange(&message, deadline);
        let (status, body, keeps) = answer.map_err(|lost| self.lost(lost))?;
        let opened: Opened = Opened::read(read_answer(status, &body)?)?;
        if !keeps {
            return Err(self.lost(closing()));
        }
        Ok((connection, opened.session))
    }

    fn kept_seat(&self) -> Option<Seat> {
        loop {
            let seat = self.seats().pop()?;
            if seat.connection.is_fresh() {
                return Some(seat);
            }
            // The seat holds nothing, but its session may have survived a restart.
            self.owe(Release::session(&seat.session));
        }
    }

    fn new_seat(&self) -> Result<Seat, Error> {
        let (connection, session) = self.new_bound(None, false)?;
        Ok(Seat { connection, session })
    }

    fn refused_seat(&self, seat: Seat, error: SeatError) -> Error {
        match error {
            // The session of the seat was ended, so it is not found.
            SeatError::Answered(error @ (Error::NotFound(_) | Error::Protocol(_))) => error,
            SeatError::Answered(error) => {
                self.keep_seat(seat);
                error
            }
            SeatError::Lost(lost) => self.let_go(&seat, lost),
        }
    }
}
