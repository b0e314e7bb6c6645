//! What was given back and the daemon has not heard of.
//!
//! A session that is bound to a connection goes on over a restart of the daemon for as long as this process
//! lives. So what it holds stays held if it was given back just when the connection ended, unless the daemon
//! is told once more. Promises that this happens: on a new connection at once, before the next thing that is
//! asked for, and by a thread that begins when the daemon cannot be reached and ends when all is told.
//! When the process ends, the daemon gives everything back by itself.

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

/// The most that is owed; beyond that the oldest is left to the end of the process.
const OWED_MAX: usize = 65_536;
/// First and longest pause between two tries of the thread.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Something that is given back: what is deleted, and the body that goes with it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Release {
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
}

impl Release {
    pub(crate) fn permit(id: &str) -> Self {
        Self { path: format!("/v1/permits/{}", segment(id)), body: None }
    }

    /// The end of a session, and with it of all it holds.
    pub(crate) fn session(id: &str) -> Self {
        Self { path: format!("/v1/sessions/{}", segment(id)), body: None }
    }
}

/// What one client owes.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    list: Mutex<List>,
    /// Held by whoever tells the daemon, so that others find it told when they have their turn.
    telling: Mutex<()>,
    /// Whether the daemon did not answer in time when it was told last: then only the thread tells it, so that
    /// a program with many things to give back waits for one answer and not for each.
    is_silent: AtomicBool,
}

#[derive(Debug, Default)]
struct List {
    releases: VecDeque<Release>,
    /// Whether a thread sees to it.
    is_followed: bool,
}

impl Owed {
    /// Whether the daemon did not answer in time when it was told last.
    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    /// Notes what became of telling it something.
    pub(crate) fn note(&self, lost: Option<&io::Error>) {
        let is_silent = lost.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut);
        self.is_silent.store(is_silent, Ordering::Relaxed);
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// Gives something back, and owes it if the daemon does not hear it.
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

    /// The same for what was given back before, so that the daemon may know nothing of it any more.
    pub(crate) fn give_back_again(&self, release: Release) -> Result<(), Error> {
        match self.give_back(release) {
            Err(Error::NotFound(_)) => Ok(()),
            told => told,
        }
    }

    /// Tells what is owed, before something new is asked for that could wait for just that.
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
            // It may have been too much, and be gone.
            if list.releases.front() == Some(&release) {
                list.releases.pop_front();
                // The others are not kept waiting by one that fails.
                list.releases.extend((!is_heard).then_some(release));
            }
        }
    }

    /// Notes that something is to be given back as soon as the daemon hears.
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
        // Without a thread it is told before the next thing that is asked for.
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

    /// Tells the daemon; whether it has the release on disk.
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

/// Whether the daemon has decided, so that telling it again is of no use.
fn is_heard(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } | Error::Protocol(_) => false,
        error => error.answer().is_some_and(|answer| answer.status < 500),
    }
}
