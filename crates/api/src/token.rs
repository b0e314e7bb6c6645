//! The bearer token that TCP clients send.
//!
//! The first start writes 256 random bits to the file `token` of the data directory, for its owner
//! only. In memory there is only a hash of it, and hashes are compared without stopping at the first
//! difference, so that the time of an answer tells nothing about the token.

use sha2::{Digest as _, Sha256};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Random bytes in a token.
const BYTES: usize = 32;

/// Longest content of the file that is looked at.
const FILE_BYTES_MAX: u64 = 4_096;

/// What a token must hash to.
pub(crate) struct Token {
    hash: [u8; 32],
}

impl Token {
    /// The token in file `path`, made if there is none.
    pub(crate) fn load(path: &Path) -> Result<Self, String> {
        let text = match read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(path)
                .map_err(|error| format!("cannot write the token {}: {error}", path.display()))?,
            Err(error) => return Err(format!("cannot read the token {}: {error}", path.display())),
        };
        let text = text.trim();
        if text.len() < 2 * BYTES {
            return Err(format!(
                "{}: a token has at least {} characters, this has {}; delete the file to get a new one",
                path.display(),
                2 * BYTES,
                text.len()
            ));
        }
        Ok(Self::of(text))
    }

    /// The token that is this text.
    pub(crate) fn of(text: &str) -> Self {
        Self { hash: hash(text) }
    }

    /// Whether `text` is the token.
    pub(crate) fn is(&self, text: &str) -> bool {
        let differences = hash(text).iter().zip(&self.hash).fold(0, |all, (a, b)| all | (a ^ b));
        differences == 0
    }
}

fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes a new token beside its place and moves it there, so that the file is whole or not there.
fn make(path: &Path) -> io::Result<String> {
    let text = secret::<BYTES>()?;
    let draft = path.with_extension("new");
    let _ = std::fs::remove_file(&draft);
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(format!("{text}\n").as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&draft, path)?;
    Ok(text)
}

/// So many random bytes, in hexadecimal digits.
pub(crate) fn secret<const N: usize>() -> io::Result<String> {
    let mut bytes = [0u8; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(hexadecimal(&bytes))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::{Token, secret};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_token_is_made_once_and_is_private() {
        let name = format!("paceline-token-{}", secret::<8>().unwrap());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        let path = directory.join("token");
        let token = Token::load(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.trim().len(), 64, "256 bits");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(token.is(text.trim()));
        assert!(!token.is(&text.trim()[1..]));
        assert!(!token.is(""));
        assert!(Token::load(&path).unwrap().is(text.trim()), "the second start finds the first's");
        std::fs::write(&path, "short\n").unwrap();
        let error = Token::load(&path).err().unwrap();
        assert!(error.contains("delete the file"), "{error}");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
