//! Places: a request that is sent again after a restart of the daemon keeps its place in the queue.

use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Serialize, Serializer};
use std::fmt;
use std::io;

/// A secret of one request. The daemon that ends in order leaves to the next one how long the request had waited; if the
/// request is sent again with the same place within a minute after that has started, it counts as having waited so long.
/// Choose a new one for every request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Place([u8; 16]);

impl Place {
    /// One that no other request has.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match getrandom(rest, GetRandomFlags::empty()) {
                Ok(count) => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self(bytes))
    }

    /// As it is sent.
    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

impl fmt::Debug for Place {
    /// It is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Place")
    }
}

#[cfg(test)]
mod tests {
    use super::Place;
    use paceline_types::limits;

    #[test]
    fn each_place_is_another_one_that_the_daemon_takes() {
        let (one, other) = (Place::random().unwrap(), Place::random().unwrap());
        assert_ne!(one, other);
        assert!(limits::PLACE_BYTES.contains(&one.text().len()));
        assert!(one.text().bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert!(!format!("{one:?}").contains(&one.text()));
    }
}
