//! The end of the demo where its output is stuck: a terminal stopped by Ctrl-S, a pipe that is not read.
//!
//! Owns what a signal must not leave behind: the directory, and how the keyboard was. Promises that the
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

/// How long after a signal a stopped terminal is let go on.
const RESUME_AFTER: Duration = Duration::from_millis(300);

/// How long after a signal it ends without the thread that draws. Longer than a daemon takes to end.
const STUCK_MAX: Duration = Duration::from_secs(3);

/// How long the last words to a terminal may take.
const WORDS_MAX: Duration = Duration::from_millis(200);

/// What a signal must not leave behind.
#[derive(Default)]
pub struct Rescue {
    begun: AtomicBool,
    directory: Mutex<Option<PathBuf>>,
    keyboard: OnceLock<Termios>,
}

impl Rescue {
    /// A new directory. There is no moment in which it exists and is not known here.
    pub fn directory(&self) -> Result<Directory, String> {
        let mut known = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = Directory::new()?;
        *known = Some(directory.path().to_owned());
        Ok(directory)
    }

    /// Takes note of how the keyboard was.
    pub fn keep(&self, keyboard: Termios) {
        let _ = self.keyboard.set(keyboard);
    }

    /// A signal came: sees to the end, beside the thread that draws.
    pub fn begin(self: &Arc<Self>) {
        if self.begun.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = Arc::clone(self);
        // Not a task: the runtime may end before the process does.
        let _ = thread::Builder::new().name("rescue".into()).spawn(move || this.run());
    }

    fn run(&self) {
        thread::sleep(RESUME_AFTER);
        if let Some(keyboard) = self.keyboard.get() {
            terminal::resume(keyboard);
        }
        thread::sleep(STUCK_MAX.saturating_sub(RESUME_AFTER + WORDS_MAX));
        // Held to the end, so that no directory is made any more.
        let known = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keyboard) = self.keyboard.get().cloned() {
            // That may be stuck as well, so it is not waited for.
            let _ = thread::Builder::new().spawn(move || terminal::put_back(&keyboard));
        }
        thread::sleep(WORDS_MAX);
        if let Some(path) = known.as_ref() {
            let _ = std::fs::remove_dir_all(path);
        }
        std::process::exit(i32::from(FAILED));
    }
}
