//! Seats: on a unix socket each permit and lock has a connection of its own, and a session bound to
//! it, so that the daemon gives back what it holds the moment the program dies (P4).
//!
//! A seat that holds nothing is kept for the next one. One session each, because a session that asks
//! for what it holds itself is refused, and two threads of a program are not the same.

use crate::client::{Away, Client, Patience, hung_up, read_answer};
use crate::connection::{Connection, Lost, silent};
use crate::error::Error;
use crate::owed::{Release, is_written};
use crate::request::Method;
use crate::session::Opened;
use crate::wire::Message;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Seats that are kept while they hold nothing.
const SEATS_MAX: usize = 64;
/// A daemon that was there this long and goes away is waited for anew.
const STEADY_MIN: Duration = Duration::from_secs(10);

/// A connection and the session bound to it.
#[derive(Debug)]
pub(crate) struct Seat {
    connection: Connection,
    pub(crate) session: String,
}

impl Seat {
    /// Asks over the seat's own connection. After an error of the connection the session is over, and with it
    /// everything that it held, unless the daemon ended: then it goes on in the next run, and is to be ended.
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

/// Why a seat's question was not answered as hoped.
#[derive(Debug)]
pub(crate) enum SeatError {
    /// The daemon said no; the seat is good.
    Answered(Error),
    /// The seat is lost.
    Lost(Lost),
}

fn closing() -> Lost {
    Lost::Protocol("the daemon closes a connection that a session is bound to".into())
}

impl Client {
    /// Does something in a seat that holds nothing: in a kept one if there is one. `ask` says what, and how
    /// long to wait for it, for a session and after a wait that was in vain.
    ///
    /// What a lost seat was granted is given back, so asking again in a new one cannot hold anything twice,
    /// nor wait for itself. A kept seat may have been lost long ago; another one is asked again in only if
    /// the client waits for a daemon that is away.
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
                Err(Error::Unreachable { source, .. }) if hung_up(&source) && away.has_time() => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.tell_owed();
            let (body, patience) = ask(&seat.session, waited);
            let asked_at = Instant::now();
            let lost = match seat.ask(self, method, path, Some(&body), patience) {
                Ok(value) => return Ok((seat, value)),
                Err(SeatError::Lost(Lost::Io(error))) if hung_up(&error) => error,
                Err(error) => return Err(self.refused_seat(seat, error)),
            };
            // If nobody hears it, it is owed.
            let _ = self.hasty().give_up(seat);
            if asked_at.elapsed() >= STEADY_MIN {
                away = Away::new(self);
            }
            if !was_kept && !away.has_time() {
                return Err(self.lost(Lost::Io(lost)));
            }
            waited = began.elapsed();
        }
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
            // If the daemon were killed now, the session would hold it again. So the end of the session is sent until it is
            // on disk.
            // The connection is closed after that, because its end would end the session unwritten. The seat
            // is not used again, or an unlock that is repeated could give back a lock that it owns anew.
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

    /// Ends the session of a seat whose connection is of no more use. The daemon may not have seen its end:
    /// after a restart the session goes on without a connection.
    fn give_up(&self, seat: Seat) -> Result<(), Error> {
        let release = Release::session(&seat.session);
        drop(seat);
        self.give_back_again(release)
    }

    /// The same without asking: for a daemon that is silent, or speaks nonsense.
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

    /// Opens a connection with a session bound to it.
    /// Nothing more can be asked on a connection that is sealed.
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
            // It holds nothing, but its session may have gone on over a restart.
            self.owe(Release::session(&seat.session));
        }
    }

    fn new_seat(&self) -> Result<Seat, Error> {
        let (connection, session) = self.new_bound(None, false)?;
        Ok(Seat { connection, session })
    }

    fn refused_seat(&self, seat: Seat, error: SeatError) -> Error {
        match error {
            // A session that somebody ended is not found.
            SeatError::Answered(error @ (Error::NotFound(_) | Error::Protocol(_))) => error,
            SeatError::Answered(error) => {
                self.keep_seat(seat);
                error
            }
            SeatError::Lost(lost) => self.let_go(&seat, lost),
        }
    }
}
