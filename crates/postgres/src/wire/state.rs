//! The five-character codes of errors (SQLSTATE), with a name for those that Paceline sends or looks for.

use std::fmt;

/// The code of an error or a notice: five digits or capital letters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SqlState([u8; 5]);

#[allow(missing_docs)]
impl SqlState {
    pub const SUCCESSFUL_COMPLETION: Self = Self(*b"00000");
    pub const WARNING: Self = Self(*b"01000");
    pub const CANNOT_CONNECT: Self = Self(*b"08001");
    pub const CONNECTION_REJECTED: Self = Self(*b"08004");
    pub const CONNECTION_FAILURE: Self = Self(*b"08006");
    pub const PROTOCOL_VIOLATION: Self = Self(*b"08P01");
    pub const FEATURE_NOT_SUPPORTED: Self = Self(*b"0A000");
    pub const NUMERIC_VALUE_OUT_OF_RANGE: Self = Self(*b"22003");
    pub const CHARACTER_NOT_IN_REPERTOIRE: Self = Self(*b"22021");
    pub const INVALID_PARAMETER_VALUE: Self = Self(*b"22023");
    pub const INVALID_TEXT_REPRESENTATION: Self = Self(*b"22P02");
    pub const INVALID_BINARY_REPRESENTATION: Self = Self(*b"22P03");
    pub const UNTRANSLATABLE_CHARACTER: Self = Self(*b"22P05");
    pub const INTEGRITY_CONSTRAINT_VIOLATION: Self = Self(*b"23000");
    pub const NOT_NULL_VIOLATION: Self = Self(*b"23502");
    pub const FOREIGN_KEY_VIOLATION: Self = Self(*b"23503");
    pub const UNIQUE_VIOLATION: Self = Self(*b"23505");
    pub const CHECK_VIOLATION: Self = Self(*b"23514");
    pub const ACTIVE_TRANSACTION: Self = Self(*b"25001");
    pub const READ_ONLY_TRANSACTION: Self = Self(*b"25006");
    pub const NO_ACTIVE_TRANSACTION: Self = Self(*b"25P01");
    pub const FAILED_TRANSACTION: Self = Self(*b"25P02");
    pub const INVALID_STATEMENT_NAME: Self = Self(*b"26000");
    pub const INVALID_AUTHORIZATION: Self = Self(*b"28000");
    pub const INVALID_PASSWORD: Self = Self(*b"28P01");
    pub const INVALID_CURSOR_NAME: Self = Self(*b"34000");
    pub const INVALID_DATABASE_NAME: Self = Self(*b"3D000");
    pub const SERIALIZATION_FAILURE: Self = Self(*b"40001");
    pub const DEADLOCK_DETECTED: Self = Self(*b"40P01");
    pub const INSUFFICIENT_PRIVILEGE: Self = Self(*b"42501");
    pub const SYNTAX_ERROR: Self = Self(*b"42601");
    pub const UNDEFINED_COLUMN: Self = Self(*b"42703");
    pub const UNDEFINED_OBJECT: Self = Self(*b"42704");
    pub const DUPLICATE_OBJECT: Self = Self(*b"42710");
    pub const UNDEFINED_FUNCTION: Self = Self(*b"42883");
    pub const UNDEFINED_TABLE: Self = Self(*b"42P01");
    pub const UNDEFINED_PARAMETER: Self = Self(*b"42P02");
    pub const DUPLICATE_CURSOR: Self = Self(*b"42P03");
    pub const DUPLICATE_STATEMENT: Self = Self(*b"42P05");
    pub const DUPLICATE_TABLE: Self = Self(*b"42P07");
    pub const INDETERMINATE_TYPE: Self = Self(*b"42P18");
    pub const INSUFFICIENT_RESOURCES: Self = Self(*b"53000");
    pub const DISK_FULL: Self = Self(*b"53100");
    pub const OUT_OF_MEMORY: Self = Self(*b"53200");
    pub const TOO_MANY_CONNECTIONS: Self = Self(*b"53300");
    pub const CONFIGURATION_LIMIT_EXCEEDED: Self = Self(*b"53400");
    pub const PROGRAM_LIMIT_EXCEEDED: Self = Self(*b"54000");
    pub const STATEMENT_TOO_COMPLEX: Self = Self(*b"54001");
    pub const NOT_IN_PREREQUISITE_STATE: Self = Self(*b"55000");
    pub const OBJECT_IN_USE: Self = Self(*b"55006");
    pub const LOCK_NOT_AVAILABLE: Self = Self(*b"55P03");
    pub const QUERY_CANCELED: Self = Self(*b"57014");
    pub const ADMIN_SHUTDOWN: Self = Self(*b"57P01");
    pub const CRASH_SHUTDOWN: Self = Self(*b"57P02");
    pub const CANNOT_CONNECT_NOW: Self = Self(*b"57P03");
    pub const IDLE_SESSION_TIMEOUT: Self = Self(*b"57P05");
    pub const IO_ERROR: Self = Self(*b"58030");
    pub const INTERNAL_ERROR: Self = Self(*b"XX000");
    pub const DATA_CORRUPTED: Self = Self(*b"XX001");
}

impl SqlState {
    /// The code in `bytes`; none if it is not five digits and capital letters.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let code: [u8; 5] = bytes.try_into().ok()?;
        let is_code = code.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
        is_code.then_some(Self(code))
    }

    /// The code as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.as_str())
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "SqlState({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::SqlState;

    #[test]
    fn codes_are_five_digits_or_capitals() {
        let state = SqlState::read(b"08P01").unwrap();
        assert_eq!(state, SqlState::PROTOCOL_VIOLATION);
        assert_eq!((state.as_str(), format!("{state:?}")), ("08P01", "SqlState(08P01)".into()));
        for wrong in [&b""[..], b"08P0", b"08P011", b"08p01", b"08 01", b"\xc3\xa908P"] {
            assert_eq!(SqlState::read(wrong), None, "{wrong:?}");
        }
    }
}
