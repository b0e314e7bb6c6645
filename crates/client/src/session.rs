//! Sessions: permits and locks belong to a session and are released when it ends.
//!
//! A session is bound to a connection (unix sockets only) and ends with it, or has a lease that must be renewed. Its
//! id is a secret: any client that knows it can use the session.

use crate::client::{Client, Patience};
use crate::connection::Connection;
use crate::error::Error;
use crate::lock::{Lock, LockOptions};
use crate::owed::Release;
use crate::permit::Permit;
use crate::request::{Method, PermitRequest, span};
use crate::wire::segment;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

/// How to begin a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOptions {
    /// A name to display.
    pub name: Option<String>,
    /// A lease, also on a unix socket. Without it, the session is bound to a connection there, and has the daemon's
    /// default lease over TCP.
    pub lease: Option<Duration>,
}

/// A session. It ends when it is dropped, and everything it holds is released.
pub struct Session {
    client: Client,
    id: String,
    bound: Option<Connection>,
    is_ours: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Opened {
    pub(crate) session: String,
}

impl Opened {
    pub(crate) fn read(value: Value) -> Result<Self, Error> {
        serde_json::from_value(value).map_err(|error| Error::Protocol(error.to_string()))
    }
}

impl Client {
    /// Begins a session.
    ///
    /// # Errors
    /// If the daemon cannot be reached or does not allow it.
    pub fn session(&self, options: &SessionOptions) -> Result<Session, Error> {
        self.tell_owed();
        let name = options.name.as_deref();
        if self.target().is_unix() && options.lease.is_none() {
            let (connection, id) = self.new_bound(name, true)?;
            return Ok(Session {
                client: self.clone(),
                id,
                bound: Some(connection),
                is_ours: true,
            });
        }
        let mut body = serde_json::Map::new();
        if let Some(name) = name {
            body.insert("name".into(), name.into());
        }
        if let Some(lease) = options.lease {
            body.insert("lease".into(), span(lease).to_string().into());
        }
        let opened = self.call(Method::Post, "/v1/sessions", Some(&Value::Object(body)))?;
        let id = Opened::read(opened)?.session;
        Ok(Session { client: self.clone(), id, bound: None, is_ours: true })
    }

    /// Joins a session that another client began and will end.
    #[must_use]
    pub fn join_session(&self, id: &str) -> Session {
        Session { client: self.clone(), id: id.to_owned(), bound: None, is_ours: false }
    }
}

impl Session {
    /// Asks for a permit that belongs to this session.
    ///
    /// # Errors
    /// As [`Client::permit`].
    pub fn permit(&self, request: &PermitRequest) -> Result<Permit, Error> {
        self.client.tell_owed();
        Permit::in_session(&self.client, &self.id, request)
    }

    /// Acquires a lock for this session.
    ///
    /// # Errors
    /// As [`Client::lock`].
    pub fn lock(&self, name: &str, options: &LockOptions) -> Result<Lock, Error> {
        self.client.tell_owed();
        let body = options.body(&self.id);
        let patience = Patience::After(options.wait);
        let answer = self.client.ask(Method::Put, &Lock::path(name), Some(&body), patience)?;
        Lock::in_session(&self.client, name, &self.id, &answer)
    }

    /// Renews the lease. A session that is bound to a connection needs no renewal.
    ///
    /// # Errors [`Error::Expired`] if the lease has expired.
    pub fn renew(&self) -> Result<(), Error> {
        let path = format!("/v1/sessions/{}/renew", segment(&self.id));
        self.client.call(Method::Post, &path, None).map(drop)
    }

    /// Has a session that is bound to a connection last as long as this process too, should the connection or the
    /// daemon end. Over TCP there is nothing to do.
    ///
    /// # Errors
    /// If the daemon did not hear it; the session then ends with its connection.
    pub fn add_process(&self, pid: u32) -> Result<(), Error> {
        if !self.client.target().is_unix() {
            return Ok(());
        }
        let path = format!("/v1/sessions/{}/processes", segment(&self.id));
        self.client.call(Method::Post, &path, Some(&json!({"pid": pid}))).map(drop)
    }

    /// Ends the session and reports whether the daemon confirmed it.
    ///
    /// # Errors If the daemon did not confirm it. If it cannot be reached, the end is sent as soon as possible.
    pub fn end(mut self) -> Result<(), Error> {
        let client = self.client.clone();
        self.finish(&client)
    }

    /// The same, sent by this client.
    pub(crate) fn end_with(mut self, client: &Client) -> Result<(), Error> {
        self.finish(client)
    }

    /// The secret by which other clients can join.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The connection it is bound to. A process that inherits it keeps the session alive. It is sealed: the daemon
    /// accepts no request on it, so that it can be passed to a child process with fewer permissions.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.bound.as_ref().map(|connection| connection.as_fd())
    }

    fn finish(&mut self, client: &Client) -> Result<(), Error> {
        if !std::mem::take(&mut self.is_ours) {
            return Ok(());
        }
        let told = client.give_back(Release::session(&self.id));
        // A process that inherited the connection no longer keeps anything alive, not even a connection at the
        // daemon.
        if let Some(connection) = &self.bound {
            connection.end();
        }
        told
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A destructor cannot report a failure, and the daemon ends the session by itself.
        let client = self.client.hasty();
        let _ = self.finish(&client);
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("bound", &self.bound.is_some()).finish_non_exhaustive()
    }
}

/// The member that names a session in a body.
pub(crate) fn session_member(session: &str) -> Value {
    json!({"session": session})
}
