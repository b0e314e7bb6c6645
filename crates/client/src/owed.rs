//! Releases that the daemon has not confirmed yet.
//!
//! A session that is bound to a connection survives a restart of the daemon for as long as this process lives. If
//! something was released just when the connection ended, the session still holds it until the release is sent again.
//! Promises that this happens: on a new connection at once, before the next request, and by a thread that starts when
//! the daemon cannot be reached and ends when all releases are confirmed. When the process ends, the daemon releases
//! everything by itself.

use crate::client::{Client, Patience, read_answer};
use crate::connection::{Lost, silent};
use crate::error::Error;
use crate::request::Method;
use crate::wire::{Message, segment};
use serde_json::Value;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most pending releases. Beyond that, the oldest is dropped; the end of the process releases it.
const OWED_MAX: usize = 65_536;
/// The first and the longest pause between two attempts of the thread.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A release: the path to delete, and the body of the request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Release {
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
}

impl Release {
    pub(crate) fn permit(id: &str) -> Self {
        Self { path: format!("/v1/permits/{}", segment(id)), body: None }
    }

    /// The end of a session, which releases everything that it holds.
    pub(crate) fn session(id: &str) -> Self {
        Self { path: format!("/v1/sessions/{}", segment(id)), body: None }
    }
}

/// The pending releases of one client.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    list: Mutex<List>,
    /// Held by the thread that sends releases; the other threads find them sent when they get the lock.
    telling: Mutex<()>,
    /// Whether the daemon did not answer the last release in time. Then only the background thread sends releases, so
    /// that a program with many of them waits for one answer and not for each.
    is_silent: AtomicBool,
}

#[derive(Debug, Default)]
struct List {
    releases: VecDeque<Release>,
    /// Whether a thread sends them.
    is_followed: bool,
}

impl Owed {
    /// Whether the daemon did not answer the last release in time.
    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    /// Records the outcome of sending a release.
    pub(crate) fn note(&self, lost: Option<&io::Error>) {
        let is_silent = lost.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut);
        self.is_silent.store(is_silent, Ordering::Relaxed);
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// Sends a release, and keeps it as pending if the daemon does not confirm it.
    pub(crate) fn give_back(&self, release: Release) -> Result<(), Error> {
        if self.owed().is_silent() {
            self.owe(release);
            return Err(self.lost(Lost::Io(silent())));
        }
        let told = self.tell(&release);
        let is_done = told.as_ref().map_or_else(is_heard, |is_written| *is_written);
        if !is_done {
            self.owe(release);
        }
        told.map(drop)
    }

    /// The same for a release that was sent before, so that the daemon may no longer know the object.
    pub(crate) fn give_back_again(&self, release: Release) -> Result<(), Error> {
        match self.give_back(release) {
            Err(Error::NotFound(_)) => Ok(()),
            told => told,
        }
    }

    /// Sends pending releases before a new request, which could otherwise wait for what they release.
    pub(crate) fn tell_owed(&self) {
        if !self.owed().is_silent() {
            self.tell_all();
        }
    }

    fn tell_all(&self) {
        let count = self.owed().list().releases.len();
        if count == 0 {
            return;
        }
        let _telling = self.owed().telling.lock().unwrap_or_else(PoisonError::into_inner);
        let hasty = self.hasty();
        for _ in 0..count {
            let Some(release) = self.owed().list().releases.front().cloned() else { return };
            let told = hasty.tell(&release);
            let is_heard = told.as_ref().map_or_else(is_heard, |is_written| *is_written);
            if !is_heard && told.is_err_and(|error| error.is_unreachable()) {
                return;
            }
            let mut list = self.owed().list();
            // The list may have been full, and this release dropped meanwhile.
            if list.releases.front() == Some(&release) {
                list.releases.pop_front();
                // A release that fails does not delay the others.
                list.releases.extend((!is_heard).then_some(release));
            }
        }
    }

    /// Adds a release that is sent as soon as the daemon can be reached.
    pub(crate) fn owe(&self, release: Release) {
        let mut list = self.owed().list();
        if list.releases.len() >= OWED_MAX {
            list.releases.pop_front();
        }
        list.releases.push_back(release);
        if list.is_followed {
            return;
        }
        let hasty = self.hasty();
        let thread = std::thread::Builder::new().name("paceline-owed".into());
        // Without a thread, it is sent before the next request.
        list.is_followed = thread.spawn(move || hasty.follow_owed()).is_ok();
    }

    fn follow_owed(&self) {
        let mut pause = PAUSE_MIN;
        loop {
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
            self.tell_all();
            let mut list = self.owed().list();
            if list.releases.is_empty() {
                list.is_followed = false;
                return;
            }
        }
    }

    /// Sends a release; returns whether the daemon has it on disk.
    fn tell(&self, release: &Release) -> Result<bool, Error> {
        let body = release.body.as_ref().map(Value::to_string).unwrap_or_default();
        let message = Message::new(Method::Delete, &release.path, body.as_bytes());
        let message = Message { gives_back: true, ..message };
        let told = self.send(&message, Patience::After(Duration::ZERO));
        self.owed().note(match &told {
            Err(Error::Unreachable { source, .. }) => Some(source),
            _ => None,
        });
        let (status, body) = told?;
        Ok(is_written(&read_answer(status, &body)?))
    }
}

/// Whether the answer to a release says that it is on disk.
pub(crate) fn is_written(answer: &Value) -> bool {
    answer.get("written") != Some(&Value::Bool(false))
}

/// Whether the daemon has decided, so that sending the release again is useless.
fn is_heard(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } | Error::Protocol(_) => false,
        error => error.answer().is_some_and(|answer| answer.status < 500),
    }
}
