//! A separate folder for each test.
//!
//! Owns the folder: it is created empty and removed with its content on drop. Names are short, because the path of a
//! Unix socket may have at most 107 bytes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// A fresh folder under the system's temporary folder, removed on drop.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Creates the folder.
    ///
    /// # Panics
    /// If the folder cannot be created.
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("pl-{}-{number}", process::id()));
        // A process id can be reused; files of an earlier process must not be read.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a temporary folder can be created");
        Self { path }
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of `name` inside the folder.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes `text` to the file `name` and returns its path.
    ///
    /// # Panics
    /// If the file cannot be written.
    #[must_use]
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        fs::write(&path, text).expect("a temporary file can be written");
        path
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
