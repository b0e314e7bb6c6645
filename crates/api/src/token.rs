//! The bearer tokens of TCP clients: generated, hashed, and the first one stored in a file.
//!
//! The first start writes 256 random bits to the file `token` of the data directory, readable by its owner only.
//! Everywhere else there are only hashes.

use paceline_host::Access;
use sha2::{Digest as _, Sha256};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Random bytes in a token.
pub(crate) const BYTES: usize = 32;

/// The most bytes of the file that are read.
const FILE_BYTES_MAX: u64 = 4_096;

/// The token in file `path`, created if there is none.
pub(crate) fn load(path: &Path) -> Result<String, String> {
    let text = match read_private(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(path)
            .map_err(|error| format!("cannot write the token {}: {error}", path.display()))?,
        Err(error) => return Err(format!("cannot read the token {}: {error}", path.display())),
    };
    if text.len() < 2 * BYTES {
        return Err(format!(
            "{}: a token has at least {} characters, this has {}; delete the file to get a new one",
            path.display(),
            2 * BYTES,
            text.len()
        ));
    }
    Ok(text)
}

/// The hash that is kept of a token.
pub(crate) fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// The content of a file with a secret.
pub(crate) fn read_private(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

/// Writes a new token to the file.
fn make(path: &Path) -> io::Result<String> {
    let text = secret::<BYTES>()?;
    write_private(path, &format!("{text}\n"))?;
    sync_directory(path)?;
    Ok(text)
}

/// The first token. Only one caller replaces it at a time, so that the file and the daemon agree.
pub(crate) struct First {
    path: PathBuf,
    turn: Mutex<()>,
}

impl First {
    /// The token in file `path`.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, turn: Mutex::new(()) }
    }

    /// Writes another token to the file and makes the daemon require it from now on. It is on disk then.
    pub(crate) fn replace(&self, access: &Access) -> Result<(), String> {
        let _turn = self.turn.lock().unwrap_or_else(paceline_host::broken);
        let replaced = secret::<BYTES>().and_then(|text| {
            write_private(&self.path, &format!("{text}\n"))?;
            // The file has it, even if syncing the directory fails.
            access.set_first_token(hash(&text));
            sync_directory(&self.path)
        });
        replaced.map_err(|error| format!("cannot write the token {}: {error}", self.path.display()))
    }
}

/// Writes a file that only its owner can read, under another name first, and renames it, so that it is complete
/// or does not exist.
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let draft = path.with_extension("new");
    let _ = std::fs::remove_file(&draft);
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&draft, path)
}

/// Syncs the directory of `path`, so that a rename is durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    std::fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// Random bytes in hexadecimal digits.
pub(crate) fn secret<const N: usize>() -> io::Result<String> {
    let mut bytes = [0u8; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(hex(&bytes))
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::{hash, hex, load, make, secret};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_hash_is_sha_256() {
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(&hash("abc")), known);
    }

    #[test]
    fn a_token_is_made_once_and_is_private() {
        let name = format!("paceline-token-{}", secret::<8>().unwrap());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        let path = directory.join("token");
        let token = load(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.trim().len(), 64, "256 bits");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(token, text.trim());
        assert_eq!(load(&path).unwrap(), token, "the second start finds the first's");
        let next = make(&path).unwrap();
        assert!(next != token && load(&path).unwrap() == next, "another one in its place");
        std::fs::write(&path, "short\n").unwrap();
        let error = load(&path).err().unwrap();
        assert!(error.contains("delete the file"), "{error}");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
