//! The key from which the secrets of sessions are derived, so that a session of an earlier run has the same secret and
//! the database stores none.

use crate::token::{hex, read_private, secret, sync_directory, write_private};
use paceline_host::registry::Keys;
use sha2::{Digest as _, Sha256};
use std::io;
use std::path::Path;

/// Hexadecimal digits in the file.
const DIGITS: usize = 64;

/// Bytes of a session's secret.
const KEY_BYTES: usize = 16;

/// The secret, known only to this daemon.
pub(crate) struct Secret(String);

impl Secret {
    /// The secret in file `path`, created if there is none.
    pub(crate) fn load(path: &Path) -> Result<Self, String> {
        let failed = |error: io::Error| format!("cannot use {}: {error}", path.display());
        let text = match read_private(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(path),
            found => found,
        };
        let text = text.map_err(failed)?;
        match text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            true => Ok(Self(text)),
            false => Err(format!(
                "{}: expected {DIGITS} hex digits; delete the file to get a new one (clients \
                 lose the sessions they have)",
                path.display()
            )),
        }
    }

    /// A secret for this run only.
    #[cfg(test)]
    pub(crate) fn passing() -> io::Result<Self> {
        secret::<{ DIGITS / 2 }>().map(Self)
    }

    /// The keys of sessions by their salts.
    pub(crate) fn keys(self) -> Keys {
        Box::new(move |salt| self.key(salt))
    }

    /// The key of the session with this salt.
    fn key(&self, salt: &str) -> String {
        let hash = Sha256::new().chain_update(&self.0).chain_update(salt).finalize();
        format!("s-{}", hex(hash.get(..KEY_BYTES).unwrap_or_default()))
    }
}

/// Writes a new secret to the file.
fn make(path: &Path) -> io::Result<String> {
    let text = secret::<{ DIGITS / 2 }>()?;
    write_private(path, &text)?;
    sync_directory(path)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::Secret;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_next_run_knows_the_keys_of_the_last_one() {
        let path = std::env::temp_dir().join(format!("paceline-secret-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let secret = Secret::load(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let key = secret.key("salt");
        assert_eq!((key.len(), &key[..2]), (34, "s-"), "128 bits");
        assert_eq!(Secret::load(&path).unwrap().key("salt"), key);
        assert_ne!(secret.key("other"), key);
        assert_ne!(Secret::passing().unwrap().key("salt"), key);
        std::fs::write(&path, "short").unwrap();
        let error = Secret::load(&path).err().unwrap();
        assert!(error.contains("delete the file"), "{error}");
        std::fs::remove_file(&path).unwrap();
    }
}
