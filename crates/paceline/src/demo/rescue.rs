//! Ends the demo if its output is stuck: a terminal stopped by Ctrl-S, a pipe that is not read.
//!
//! Owns what a signal must not leave behind: the directory, and the state of the keyboard. Promises that the
//! process ends within [`STUCK_MAX`] of the first signal, whatever the thread that draws waits for. Does
//! nothing as long as that thread ends by itself in time.

use super::daemon::Directory;
use super::terminal;
use crate::failure::FAILED;
use rustix::termios::Termios;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

/// How long after a signal a stopped terminal is resumed.
const RESUME_AFTER: Duration = Duration::from_millis(300);

/// How long after a signal the process ends without the thread that draws. Longer than a daemon takes to stop.
const STUCK_MAX: Duration = Duration::from_secs(3);

/// How long the last output to a terminal may take.
const WORDS_MAX: Duration = Duration::from_millis(200);

/// What a signal must not leave behind.
#[derive(Default)]
pub struct Rescue {
    begun: AtomicBool,
    directory: Mutex<Option<PathBuf>>,
    keyboard: OnceLock<Termios>,
}

impl Rescue {
    /// A new directory. It never exists without being known here.
    pub fn directory(&self) -> Result<Directory, String> {
        let mut known = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = Directory::new()?;
        *known = Some(directory.path().to_owned());
        Ok(directory)
    }

    /// Notes the state of the keyboard.
    pub fn keep(&self, keyboard: Termios) {
        let _ = self.keyboard.set(keyboard);
    }

    /// Called on a signal: ensures the end, beside the thread that draws.
    pub fn begin(self: &Arc<Self>) {
        if self.begun.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = Arc::clone(self);
        // Not a task, because the runtime may end before the process does.
        let _ = thread::Builder::new().name("rescue".into()).spawn(move || this.run());
    }

    fn run(&self) {
        thread::sleep(RESUME_AFTER);
        if let Some(keyboard) = self.keyboard.get() {
            terminal::resume(keyboard);
        }
        thread::sleep(STUCK_MAX.saturating_sub(RESUME_AFTER + WORDS_MAX));
        // Held to the end, so that no further directory is created.
        let known = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keyboard) = self.keyboard.get().cloned() {
            // This may be stuck as well, so it is not waited for.
            let _ = thread::Builder::new().spawn(move || terminal::put_back(&keyboard));
        }
        thread::sleep(WORDS_MAX);
        if let Some(path) = known.as_ref() {
            let _ = std::fs::remove_dir_all(path);
        }
        std::process::exit(i32::from(FAILED));
    }
}
