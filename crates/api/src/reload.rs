//! The result of the last reading of the configuration files, for the status and the metrics.

use crate::moment::rfc3339_of_ms;
use serde_json::{Value, json};
use std::sync::{Mutex, PoisonError};

/// The result of the last reading of the daemon's files, at its start or on SIGHUP.
#[derive(Debug, Default)]
pub struct Reload(Mutex<Option<LastReload>>);

#[derive(Clone, Debug)]
struct LastReload {
    /// Why it failed.
    error: Option<String>,
    at_ms: u64,
    /// When it last succeeded, in seconds since 1970.
    succeeded_at: Option<u64>,
}

impl Reload {
    /// Notes the result at this time, in milliseconds since 1970.
    pub fn note(&self, result: Result<(), String>, at_ms: u64) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let error = result.err();
        let before = state.as_ref().and_then(|state| state.succeeded_at);
        let succeeded_at = if error.is_none() { Some(at_ms / 1_000) } else { before };
        *state = Some(LastReload { error, at_ms, succeeded_at });
    }

    fn state(&self) -> Option<LastReload> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same for the status; `None` if no file was ever read.
    pub(crate) fn json(&self) -> Option<Value> {
        let state = self.state()?;
        let mut told = json!({ "ok": state.error.is_none(), "at": rfc3339_of_ms(state.at_ms) });
        if let Some(error) = state.error {
            told["error"] = error.trim_end().into();
        }
        Some(told)
    }

    /// Whether it succeeded, and when it last did.
    pub(crate) fn figures(&self) -> Option<(bool, Option<u64>)> {
        self.state().map(|state| (state.error.is_none(), state.succeeded_at))
    }
}
