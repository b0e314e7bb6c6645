//! The stream of the daemon's events, on a connection of its own.

use crate::client::{Client, Patience, read_answer};
use crate::connection::{Connection, Lost};
use crate::error::Error;
use crate::request::Method;
use crate::sse::Parser;
use crate::wire::{Body, Message};
use serde_json::Value;
use std::io;
use std::time::Duration;

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// One word: `started`, `waiting`, `refused`, `settled`, `log`, `lock`, `config`.
    pub kind: String,
    /// Its members.
    pub data: Value,
}

/// Events as they arrive. Iteration blocks until the next event, and ends after an error.
#[derive(Debug)]
pub struct Events {
    client: Client,
    connection: Connection,
    body: Body,
    parser: Parser,
    is_over: bool,
}

impl Client {
    /// Receives events from now on.
    ///
    /// # Errors
    /// If the daemon cannot be reached or does not allow it.
    pub fn events(&self) -> Result<Events, Error> {
        let mut connection = self.open()?;
        let deadline = self.deadline(Patience::After(Duration::ZERO));
        let lost = |lost| self.lost(lost);
        let message = Message::new(Method::Get, "/v1/events", b"");
        connection.send(&message, deadline).map_err(lost)?;
        let mut head = connection.head(deadline).map_err(lost)?;
        if head.status != 200 {
            let mut body = Vec::new();
            while body.len() < crate::ANSWER_BYTES_MAX
                && connection.part(&mut head.body, &mut body, deadline).map_err(lost)?
            {}
            read_answer(head.status, &body)?;
            return Err(Error::Protocol(format!("events with status {}", head.status)));
        }
        Ok(Events {
            client: self.clone(),
            connection,
            body: head.body,
            parser: Parser::default(),
            is_over: false,
        })
    }
}

impl Events {
    fn wait(&mut self) -> Result<Event, Lost> {
        loop {
            if let Some(event) = self.parser.next().map_err(Lost::Protocol)? {
                return Ok(event);
            }
            let mut bytes = Vec::new();
            if !self.connection.part(&mut self.body, &mut bytes, None)? {
                let ended = io::Error::new(io::ErrorKind::UnexpectedEof, "it ended the stream");
                return Err(Lost::Io(ended));
            }
            self.parser.feed(&bytes);
        }
    }
}

impl Iterator for Events {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let event = self.wait();
        self.is_over = event.is_err();
        Some(event.map_err(|lost| self.client.lost(lost)))
    }
}
