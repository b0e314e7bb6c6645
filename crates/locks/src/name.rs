//! What may name a lock.
//!
//! Owns the syntax: an `<id>` of RFC 7047 section 3.1, or two of them joined by one colon, the
//! `<db-name>:<lock-name>` form that limits a lock to one database by convention. The colon means
//! nothing to this crate. It never limits the length; the session's budget does.

/// Whether `name` may name a lock: `<id>` or `<id>:<id>`.
///
/// ```
/// assert!(paceline_locks::valid_name("leader"));
/// assert!(paceline_locks::valid_name("Open_vSwitch:leader"));
/// assert!(!paceline_locks::valid_name("not a name"));
/// ```
pub fn valid_name(name: &str) -> bool {
    match name.split_once(':') {
        Some((database, lock)) => valid_id(database) && valid_id(lock),
        None => valid_id(name),
    }
}

fn valid_id(id: &str) -> bool {
    let mut bytes = id.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::valid_name;

    #[test]
    fn names() {
        for name in ["a", "_", "Z9", "_0", "a_b", "db:lock", "_:_", "D9:l9"] {
            assert!(valid_name(name), "{name:?} should be valid");
        }
        for name in
            ["", ":", "9", "9a", "a:", ":a", "a:9", "a:b:c", "a-b", "a b", "a\n", "a\0", "é", "a:é"]
        {
            assert!(!valid_name(name), "{name:?} should be refused");
        }
    }
}
