//! The kinds of typed messages: the byte before the length.
//!
//! The same letter means different messages on the two sides, so each side has its own constants. Owns the names that
//! errors show, and sets of kinds for the walk over a buffer.

/// What clients send.
#[allow(missing_docs)]
pub mod client {
    pub const BIND: u8 = b'B';
    pub const CLOSE: u8 = b'C';
    pub const COPY_DATA: u8 = b'd';
    pub const COPY_DONE: u8 = b'c';
    pub const COPY_FAIL: u8 = b'f';
    pub const DESCRIBE: u8 = b'D';
    pub const EXECUTE: u8 = b'E';
    pub const FLUSH: u8 = b'H';
    pub const FUNCTION_CALL: u8 = b'F';
    pub const PARSE: u8 = b'P';
    /// Every message of a login. Its meaning depends on what the server has asked for.
    pub const PASSWORD: u8 = b'p';
    pub const QUERY: u8 = b'Q';
    pub const SYNC: u8 = b'S';
    pub const TERMINATE: u8 = b'X';
}

/// What servers send.
#[allow(missing_docs)]
pub mod server {
    pub const AUTHENTICATION: u8 = b'R';
    pub const BACKEND_KEY_DATA: u8 = b'K';
    pub const BIND_COMPLETE: u8 = b'2';
    pub const CLOSE_COMPLETE: u8 = b'3';
    pub const COMMAND_COMPLETE: u8 = b'C';
    pub const COPY_BOTH_RESPONSE: u8 = b'W';
    pub const COPY_DATA: u8 = b'd';
    pub const COPY_DONE: u8 = b'c';
    pub const COPY_IN_RESPONSE: u8 = b'G';
    pub const COPY_OUT_RESPONSE: u8 = b'H';
    pub const DATA_ROW: u8 = b'D';
    pub const EMPTY_QUERY_RESPONSE: u8 = b'I';
    pub const ERROR_RESPONSE: u8 = b'E';
    pub const FUNCTION_CALL_RESPONSE: u8 = b'V';
    pub const NEGOTIATE_PROTOCOL_VERSION: u8 = b'v';
    pub const NO_DATA: u8 = b'n';
    pub const NOTICE_RESPONSE: u8 = b'N';
    pub const NOTIFICATION_RESPONSE: u8 = b'A';
    pub const PARAMETER_DESCRIPTION: u8 = b't';
    pub const PARAMETER_STATUS: u8 = b'S';
    pub const PARSE_COMPLETE: u8 = b'1';
    pub const PORTAL_SUSPENDED: u8 = b's';
    pub const READY_FOR_QUERY: u8 = b'Z';
    pub const ROW_DESCRIPTION: u8 = b'T';
}

/// The protocol's name of a client's message; none if clients have no such message.
#[must_use]
pub const fn client_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        client::BIND => "Bind",
        client::CLOSE => "Close",
        client::COPY_DATA => "CopyData",
        client::COPY_DONE => "CopyDone",
        client::COPY_FAIL => "CopyFail",
        client::DESCRIBE => "Describe",
        client::EXECUTE => "Execute",
        client::FLUSH => "Flush",
        client::FUNCTION_CALL => "FunctionCall",
        client::PARSE => "Parse",
        client::PASSWORD => "password",
        client::QUERY => "Query",
        client::SYNC => "Sync",
        client::TERMINATE => "Terminate",
        _ => return None,
    })
}

/// The protocol's name of a server's message; none if servers have no such message.
#[must_use]
pub const fn server_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        server::AUTHENTICATION => "Authentication",
        server::BACKEND_KEY_DATA => "BackendKeyData",
        server::BIND_COMPLETE => "BindComplete",
        server::CLOSE_COMPLETE => "CloseComplete",
        server::COMMAND_COMPLETE => "CommandComplete",
        server::COPY_BOTH_RESPONSE => "CopyBothResponse",
        server::COPY_DATA => "CopyData",
        server::COPY_DONE => "CopyDone",
        server::COPY_IN_RESPONSE => "CopyInResponse",
        server::COPY_OUT_RESPONSE => "CopyOutResponse",
        server::DATA_ROW => "DataRow",
        server::EMPTY_QUERY_RESPONSE => "EmptyQueryResponse",
        server::ERROR_RESPONSE => "ErrorResponse",
        server::FUNCTION_CALL_RESPONSE => "FunctionCallResponse",
        server::NEGOTIATE_PROTOCOL_VERSION => "NegotiateProtocolVersion",
        server::NO_DATA => "NoData",
        server::NOTICE_RESPONSE => "NoticeResponse",
        server::NOTIFICATION_RESPONSE => "NotificationResponse",
        server::PARAMETER_DESCRIPTION => "ParameterDescription",
        server::PARAMETER_STATUS => "ParameterStatus",
        server::PARSE_COMPLETE => "ParseComplete",
        server::PORTAL_SUSPENDED => "PortalSuspended",
        server::READY_FOR_QUERY => "ReadyForQuery",
        server::ROW_DESCRIPTION => "RowDescription",
        _ => return None,
    })
}

/// A set of kinds, for a test that costs no branch per kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds([u64; 4]);

impl Kinds {
    /// The set of these kinds.
    #[must_use]
    pub const fn of(list: &[u8]) -> Self {
        let mut words = [0; 4];
        let mut at = 0;
        while at < list.len() {
            words[(list[at] >> 6) as usize] |= 1 << (list[at] & 63);
            at += 1;
        }
        Self(words)
    }

    /// Whether `kind` is one of them.
    #[inline]
    #[must_use]
    pub const fn has(&self, kind: u8) -> bool {
        self.0[(kind >> 6) as usize] >> (kind & 63) & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::Kinds;

    #[test]
    fn a_set_has_its_kinds_and_no_others() {
        let list = [0, 1, b'D', b'd', 63, 64, 191, 192, 255];
        let kinds = Kinds::of(&list);
        for kind in 0..=255 {
            assert_eq!(kinds.has(kind), list.contains(&kind), "{kind}");
        }
        assert_eq!(Kinds::of(&[]), Kinds::default());
    }
}
