//! A separate directory for a test that needs the real file system. Deleted when dropped.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

pub struct Place(PathBuf);

static COUNT: AtomicU64 = AtomicU64::new(0);

impl Place {
    pub fn new(name: &str) -> Self {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("journal-{name}-{}-{count}", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        // The journal resolves links in file names, so the tests do too.
        Place(path.canonicalize().unwrap())
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }

    /// The names in the directory, in order.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
