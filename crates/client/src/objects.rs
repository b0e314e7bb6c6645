//! The objects of the database: read, made, changed, deleted, told what to do.

use crate::client::{Client, Patience, read_answer};
use crate::error::Error;
use crate::request::Method;
use crate::wire::{Message, segment};
use serde_json::Value;
use std::time::Duration;

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pools, by name.
    Pools,
    /// Rules of the running list, by number.
    Rules,
    /// Rules of the saved list, by number; they can only be read.
    SavedRules,
    /// Checkpoints, by name.
    Checkpoints,
    /// Resources, by name.
    Resources,
    /// Frontends of the HTTP door, by name.
    Frontends,
    /// Backends, by name.
    Backends,
    /// Servers of all backends, each by `BACKEND/NAME`.
    Servers,
    /// Locks, by name; they can only be read this way.
    Locks,
    /// Permits, by id; they can only be read this way.
    Permits,
    /// Tokens, by name; they are made with [`Client::add`], which shows the token once, and revoked
    /// with [`Client::delete`].
    Tokens,
    /// Users of the daemon's machine that have a role, by name.
    Users,
    /// The settings of the API: one object, whose name is empty.
    Api,
    /// The settings of the HTTP door as a whole: one object, whose name is empty.
    Http,
}

impl Kind {
    /// The word in paths.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pools => "pools",
            Self::Rules => "rules",
            Self::SavedRules => "saved-rules",
            Self::Checkpoints => "checkpoints",
            Self::Resources => "resources",
            Self::Frontends => "frontends",
            Self::Backends => "backends",
            Self::Servers => "servers",
            Self::Locks => "locks",
            Self::Permits => "permits",
            Self::Tokens => "tokens",
            Self::Users => "users",
            Self::Api => "api",
            Self::Http => "http",
        }
    }

    fn path(self, name: &str) -> String {
        match self {
            Self::Api | Self::Http => format!("/v1/{}", self.word()),
            _ => format!("/v1/{}/{}", self.word(), segment(name)),
        }
    }
}

impl Client {
    /// All objects of a kind.
    ///
    /// # Errors
    /// As [`Error`] tells apart.
    pub fn objects(&self, kind: Kind) -> Result<Vec<Value>, Error> {
        match self.call(Method::Get, &format!("/v1/{}", kind.word()), None)? {
            Value::Array(objects) => Ok(objects),
            _ => Err(Error::Protocol(format!("{} are not a list", kind.word()))),
        }
    }

    /// One object.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none of this name.
    pub fn object(&self, kind: Kind, name: &str) -> Result<Value, Error> {
        self.call(Method::Get, &kind.path(name), None)
    }

    /// Makes or replaces an object, and gives it as it is now.
    ///
    /// # Errors
    /// [`Error::Failed`] with the place of what cannot work.
    pub fn put(&self, kind: Kind, name: &str, members: &Value) -> Result<Value, Error> {
        self.call(Method::Put, &kind.path(name), Some(members))
    }

    /// Makes an object that is not there.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it exists, also if another client created it just now; else as [`Self::put`].
    pub fn create(&self, kind: Kind, name: &str, members: &Value) -> Result<Value, Error> {
        let (path, body) = (kind.path(name), members.to_string());
        let message = Message::new(Method::Put, &path, body.as_bytes());
        let message = Message { only_creates: true, ..message };
        let (status, body) = self.send(&message, Patience::After(Duration::ZERO))?;
        read_answer(status, &body)
    }

    /// Changes the members given (null: back to the default), and gives the object as it is now.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn patch(&self, kind: Kind, name: &str, members: &Value) -> Result<Value, Error> {
        self.call(Method::Patch, &kind.path(name), Some(members))
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none of this name.
    pub fn delete(&self, kind: Kind, name: &str) -> Result<(), Error> {
        self.call(Method::Delete, &kind.path(name), None).map(drop)
    }

    /// Deletes a resource that may have children, which are then without this parent.
    ///
    /// # Errors
    /// As [`Self::delete`].
    pub fn delete_orphaning(&self, resource: &str) -> Result<(), Error> {
        let path = format!("{}?orphan", Kind::Resources.path(resource));
        self.call(Method::Delete, &path, None).map(drop)
    }

    /// Adds an object that the daemon names, such as a rule at the end of the list.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn add(&self, kind: Kind, members: &Value) -> Result<Value, Error> {
        self.call(Method::Post, &format!("/v1/{}", kind.word()), Some(members))
    }

    /// Tells one object to do something: `start`, `stop`, `drain`, `enable` and so on.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn act(&self, kind: Kind, name: &str, verb: &str) -> Result<Value, Error> {
        self.call(Method::Post, &format!("{}/{}", kind.path(name), segment(verb)), None)
    }

    /// Does something to all objects of a kind: `clear` or `save` the rules.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn act_on_all(&self, kind: Kind, verb: &str) -> Result<Value, Error> {
        self.call(Method::Post, &format!("/v1/{}/{}", kind.word(), segment(verb)), None)
    }
}
