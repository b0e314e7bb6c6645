//! Seats: on a unix socket each permit and lock has a connection of its own, and a session bound to
//! it, so that the daemon gives back what it holds the moment the program dies (P4).
//!
//! A seat that holds nothing is kept for the next one. One session each, because a session that asks
//! for what it holds itself is refused, and two threads of a program are not the same.

use crate::client::{Client, Patience, hung_up, read_answer};
use crate::connection::{Connection, Lost};
use crate::error::Error;
use crate::request::Method;
use crate::session::Opened;
use crate::wire::Message;
use serde_json::{Value, json};

/// Seats that are kept while they hold nothing.
const SEATS_MAX: usize = 64;

/// A connection and the session bound to it.
#[derive(Debug)]
pub(crate) struct Seat {
    connection: Connection,
    pub(crate) session: String,
}

impl Seat {
    /// Asks over the seat's own connection. After an error of the connection the session is over,
    /// and with it everything that it held.
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
    /// The seat is lost, and the daemon gives back what it held.
    Lost(Lost),
}

fn closing() -> Lost {
    Lost::Protocol("the daemon closes a connection that a session is bound to".into())
}

impl Client {
    /// Does something in a seat that holds nothing: in a kept one if there is one. What a lost seat
    /// was granted is given back, so asking again in a new one cannot hold anything twice.
    pub(crate) fn in_seat(
        &self,
        path: &str,
        method: Method,
        patience: Patience,
        body: impl Fn(&str) -> Value,
    ) -> Result<(Seat, Value), Error> {
        if let Some(mut seat) = self.kept_seat() {
            let body = body(&seat.session);
            match seat.ask(self, method, path, Some(&body), patience) {
                Ok(value) => return Ok((seat, value)),
                Err(SeatError::Lost(Lost::Io(error))) if hung_up(&error) => {}
                Err(error) => return Err(self.refused_seat(seat, error)),
            }
        }
        let mut seat = self.new_seat()?;
        let body = body(&seat.session);
        match seat.ask(self, method, path, Some(&body), patience) {
            Ok(value) => Ok((seat, value)),
            Err(error) => Err(self.refused_seat(seat, error)),
        }
    }

    /// Keeps a seat that holds nothing.
    pub(crate) fn keep_seat(&self, seat: Seat) {
        let mut seats = self.seats();
        if seats.len() < SEATS_MAX {
            seats.push(seat);
        }
    }

    /// Opens a connection with a session bound to it.
    pub(crate) fn new_bound(&self, name: Option<&str>) -> Result<(Connection, String), Error> {
        let mut body = json!({"bound": true});
        if let (Some(name), Some(members)) = (name, body.as_object_mut()) {
            members.insert("name".into(), name.into());
        }
        let mut connection = self.open()?;
        let deadline = self.deadline(Patience::After(std::time::Duration::ZERO));
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
        let mut seats = self.seats();
        std::iter::from_fn(|| seats.pop()).find(|seat| seat.connection.is_fresh())
    }

    fn new_seat(&self) -> Result<Seat, Error> {
        let (connection, session) = self.new_bound(None)?;
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
            SeatError::Lost(lost) => self.lost(lost),
        }
    }
}
