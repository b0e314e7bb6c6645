//! Questions: which requests run and wait, why, and what would happen to a request.

use crate::client::Client;
use crate::error::Error;
use crate::request::{Method, PermitRequest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A request that runs or waits.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default)]
#[derive(Default)]
pub struct Listed {
    /// Its id.
    pub request: u64,
    /// `running` or `waiting`.
    pub state: String,
    /// The user of the request.
    pub user: String,
    /// The statement, URL or command.
    pub text: String,
    /// Its pool.
    pub pool: String,
    /// Its priority.
    pub priority: i64,
    /// When it began to wait here, or to run, RFC 3339.
    pub since: String,
    /// What it waits for.
    pub waits_for: Option<Value>,
    /// Its permit.
    pub permit: Option<String>,
}

/// Why a request waits, behind which requests, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Why {
    /// Its id.
    pub request: u64,
    /// `running` or `waiting`.
    pub state: String,
    /// What it waits for.
    pub waits_for: Option<Value>,
    /// The same in a sentence.
    pub message: String,
    /// When it arrived, RFC 3339.
    pub arrived_at: String,
    /// When it began to wait here, or to run, RFC 3339.
    pub since: String,
    /// The requests ahead of it in the queue, nearest first, and those that hold what it waits for.
    pub ahead: Vec<u64>,
    /// How many requests are ahead of it.
    pub ahead_total: u64,
    /// How many requests hold what it waits for.
    pub holding: u64,
    /// When it continues, if known.
    pub until: Option<String>,
    /// When it is refused if it still waits.
    pub deadline: Option<String>,
    /// Its priority.
    pub priority: i64,
    /// Its pool.
    pub pool: String,
}

/// What would happen to a request.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Explanation {
    /// The priority it would get.
    pub priority: Option<i64>,
    /// The pool it would run in.
    pub pool: Option<String>,
    /// The rules it would reach, with the result of each.
    pub rules: Vec<Value>,
    /// The checkpoints on its path.
    pub checkpoints: Vec<Value>,
    /// The final result.
    pub foreseen: Value,
    /// The complete explanation, in lines.
    pub message: String,
}

impl Client {
    /// The requests that run and wait.
    ///
    /// # Errors
    /// See the variants of [`Error`].
    pub fn requests(&self) -> Result<Vec<Listed>, Error> {
        read(self.call(Method::Get, "/v1/requests", None)?)
    }

    /// Why a request waits, or since when it runs.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the request neither runs nor waits.
    pub fn why(&self, request: u64) -> Result<Why, Error> {
        read(self.call(Method::Get, &format!("/v1/why/{request}"), None)?)
    }

    /// What would happen to a request, without submitting it.
    ///
    /// # Errors
    /// See the variants of [`Error`]; a predicted refusal is not an error.
    pub fn explain(&self, request: &PermitRequest) -> Result<Explanation, Error> {
        let body =
            serde_json::to_value(request).map_err(|error| Error::Protocol(error.to_string()))?;
        read(self.call(Method::Post, "/v1/explain", Some(&body))?)
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    serde_json::from_value(value).map_err(|error| Error::Protocol(error.to_string()))
}
