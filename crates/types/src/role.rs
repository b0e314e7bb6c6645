//! Roles: what a user may do. Each role includes everything that the previous ones may do.

use std::fmt;
use std::str::FromStr;

/// What a user may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Read: lists, single objects, monitors, metrics.
    Viewer,
    /// Ask for permits and locks.
    Client,
    /// Start, stop, configure, add and clear rules, abort, steal.
    Operator,
    /// Everything: create, persist, save rules, users, tokens.
    Admin,
}

impl Role {
    /// Every role, the least first.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Client, Self::Operator, Self::Admin];

    /// Its name.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Client => "client",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// The text is not a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseRoleError;

impl fmt::Display for ParseRoleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected viewer, client, operator or admin")
    }
}

impl std::error::Error for ParseRoleError {}

impl FromStr for Role {
    type Err = ParseRoleError;

    fn from_str(text: &str) -> Result<Self, ParseRoleError> {
        Self::ALL.into_iter().find(|role| role.word() == text).ok_or(ParseRoleError)
    }
}

#[cfg(test)]
mod tests {
    use super::Role;

    #[test]
    fn a_role_is_read_as_it_is_written_and_roles_rise() {
        for role in Role::ALL {
            assert_eq!(role.to_string().parse(), Ok(role));
        }
        assert!(Role::ALL.is_sorted());
        for text in ["", "Admin", "root", "admin "] {
            let error = text.parse::<Role>().unwrap_err().to_string();
            assert_eq!(error, "expected viewer, client, operator or admin", "{text:?}");
        }
    }
}
