//! Valid names of locks, at every door.
//!
//! Owns the rule and its wording. The characters have no meaning to the server: `DATABASE:NAME`, `team/job` and
//! `user@host` are conventions of clients.

use crate::limits::LOCK_NAME_BYTES_MAX;

/// The rule in words, to follow "the name of a lock has".
pub const LOCK_NAME_RULE: &str = "1 to 255 letters, digits and the characters _ - . / : @";

/// Whether `name` is a valid name of a lock.
///
/// ```
/// assert!(paceline_types::valid_lock_name("Open_vSwitch:leader"));
/// assert!(!paceline_types::valid_lock_name("not a name"));
/// ```
#[must_use]
pub fn valid_lock_name(name: &str) -> bool {
    (1..=LOCK_NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(in_lock_name)
}

/// Whether the name of a lock may contain this character.
#[must_use]
pub const fn in_lock_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | '@')
}

#[cfg(test)]
mod tests {
    use super::{LOCK_NAME_RULE, valid_lock_name};
    use crate::limits::LOCK_NAME_BYTES_MAX;

    #[test]
    fn names() {
        let longest = "n".repeat(LOCK_NAME_BYTES_MAX);
        for name in [
            "a",
            "_",
            "9",
            "Z9",
            "a_b",
            "db:lock",
            ":",
            "a:b:c",
            "team/job",
            "deploy-1.2",
            "me@host",
            "..",
            &longest,
        ] {
            assert!(valid_lock_name(name), "{name:?} should be valid");
        }
        let too_long = "n".repeat(LOCK_NAME_BYTES_MAX + 1);
        for name in ["", " ", "a b", "a\n", "a\0", "é", "a%", "a\\b", "a,b", "a#b", &too_long] {
            assert!(!valid_lock_name(name), "{name:?} should be refused");
        }
        assert!(LOCK_NAME_RULE.contains(&LOCK_NAME_BYTES_MAX.to_string()));
    }
}
