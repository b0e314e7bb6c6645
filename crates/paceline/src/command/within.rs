//! The permits around a command: what `paceline permit` leaves in the environment of its command, for a
//! `paceline permit` inside it.
//!
//! Owns the variable PACELINE_WITHIN: a line for each daemon, with the sessions, outermost first and separated
//! by commas, and then the address of the daemon. A session is a secret between its client and its daemon.
//! Promises that it is sent only to the address where it was begun.

use super::Reach;
use crate::failure::Failure;

/// The variable.
pub const WITHIN: &str = "PACELINE_WITHIN";

/// The most sessions of a daemon that count.
const SESSIONS_MAX: usize = 16;

/// The sessions around this command, of one daemon and of others.
#[derive(Debug, PartialEq, Eq)]
pub struct Within {
    place: String,
    sessions: Vec<String>,
    others: Vec<String>,
}

impl Within {
    /// The value of the environment, for the daemon that `reach` names.
    pub fn read(reach: &Reach) -> Result<Self, Failure> {
        let said = std::env::var(WITHIN).unwrap_or_default();
        Ok(Self::parse(&said, reach.place()?))
    }

    fn parse(said: &str, place: String) -> Self {
        let is_here = |line: &&str| line.split_once(' ').is_some_and(|(_, of)| of == place);
        let (here, others): (Vec<&str>, Vec<&str>) = said.lines().partition(is_here);
        let sessions = here.iter().filter_map(|line| line.split_once(' '));
        let sessions = sessions.flat_map(|(sessions, _)| sessions.split(','));
        let sessions = sessions.filter(|session| !session.is_empty()).map(str::to_owned).collect();
        Self { place, sessions, others: others.into_iter().map(str::to_owned).collect() }
    }

    /// The sessions of this daemon.
    pub fn sessions(&self) -> &[String] {
        &self.sessions
    }

    /// The value for a command inside these sessions too.
    pub fn and(&self, inner: impl IntoIterator<Item = String>) -> String {
        let all: Vec<String> = self.sessions.iter().cloned().chain(inner).collect();
        let first = all.len().saturating_sub(SESSIONS_MAX);
        let own = format!("{} {}", all.get(first..).unwrap_or_default().join(","), self.place);
        self.others.iter().cloned().chain([own]).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::Within;

    #[test]
    fn each_daemon_is_told_its_own_sessions_alone() {
        let a = Within::parse("", "unix:/a b/api.sock".to_owned());
        let said = a.and(["s-1".to_owned(), "s-2".to_owned()]);
        let b = Within::parse(&said, "http://h:1".to_owned());
        assert_eq!(b.sessions(), [""; 0]);
        let said = b.and(["s-3".to_owned()]);
        assert_eq!(said, "s-1,s-2 unix:/a b/api.sock\ns-3 http://h:1");
        let a = Within::parse(&said, "unix:/a b/api.sock".to_owned());
        assert_eq!(a.sessions(), ["s-1", "s-2"]);
        assert_eq!(a.and(["s-4".to_owned()]), "s-3 http://h:1\ns-1,s-2,s-4 unix:/a b/api.sock");
        assert_eq!(Within::parse("s-gone", "http://h:1".to_owned()).sessions(), [""; 0]);
    }
}
