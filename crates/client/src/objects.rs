//! The objects of the database: read, create, change, delete and act on them.

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
    /// Rules of the saved list, by number; read-only.
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
    /// Targets of the SQL door, by name.
    SqlTargets,
    /// Locks, by name; read-only here.
    Locks,
    /// Permits, by id; read-only here.
    Permits,
    /// Tokens, by name. [`Client::add`] creates a token and shows it once; [`Client::delete`] revokes it.
    Tokens,
    /// Users of the daemon's machine with a role, by name.
    Users,
    /// The settings of the API: one object, whose name is empty.
    Api,
    /// The settings of the HTTP door as a whole: one object, whose name is empty.
    Http,
}

impl Kind {
    /// Its name in paths.
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
            Self::SqlTargets => "sql-targets",
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
    /// See the variants of [`Error`].
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

    /// Creates or replaces an object, and returns its new state.
    ///
    /// # Errors
    /// [`Error::Failed`] with the place of the invalid setting.
    pub fn put(&self, kind: Kind, name: &str, members: &Value) -> Result<Value, Error> {
        self.call(Method::Put, &kind.path(name), Some(members))
    }

    /// Creates an object that does not exist.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it exists, even if another client created it just now; otherwise as [`Self::put`].
    pub fn create(&self, kind: Kind, name: &str, members: &Value) -> Result<Value, Error> {
        let (path, body) = (kind.path(name), members.to_string());
        let message = Message::new(Method::Put, &path, body.as_bytes());
        let message = Message { only_creates: true, ..message };
        let (status, body) = self.send(&message, Patience::After(Duration::ZERO))?;
        read_answer(status, &body)
    }

    /// Changes the given members (null resets one to its default), and returns the object's new state.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn patch(&self, kind: Kind, name: &str, members: &Value) -> Result<Value, Error> {
        self.call(Method::Patch, &kind.path(name), Some(members))
    }

    /// Deletes an object. Returns null, or an object with `warnings` if a request still uses it.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none of this name.
    pub fn delete(&self, kind: Kind, name: &str) -> Result<Value, Error> {
        self.call(Method::Delete, &kind.path(name), None)
    }

    /// Deletes a resource that may have children; they lose this parent.
    ///
    /// # Errors
    /// As [`Self::delete`].
    pub fn delete_orphaning(&self, resource: &str) -> Result<Value, Error> {
        let path = format!("{}?orphan", Kind::Resources.path(resource));
        self.call(Method::Delete, &path, None)
    }

    /// Adds an object whose name the daemon chooses, such as a rule at the end of the list.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn add(&self, kind: Kind, members: &Value) -> Result<Value, Error> {
        self.call(Method::Post, &format!("/v1/{}", kind.word()), Some(members))
    }

    /// Performs an action on one object: `start`, `stop`, `drain`, `enable` and so on.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn act(&self, kind: Kind, name: &str, verb: &str) -> Result<Value, Error> {
        self.call(Method::Post, &format!("{}/{}", kind.path(name), segment(verb)), None)
    }

    /// Performs an action on all objects of a kind: `clear` or `save` for rules.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn act_on_all(&self, kind: Kind, verb: &str) -> Result<Value, Error> {
        self.call(Method::Post, &format!("/v1/{}/{}", kind.word(), segment(verb)), None)
    }
}
