//! An error or a notice as a value, written as and read from ErrorResponse and NoticeResponse.
//!
//! Promises that a text is valid UTF-8 without NUL and of at most [`TEXT_BYTES_MAX`] bytes, whatever it was made from:
//! a text can quote a statement or the words of a server.

use super::SqlState;
use super::backend::Fields;
use super::body::{message, put_text};
use super::kind::server;

/// The maximum length of each text of a report; the rest of a longer one is cut off.
pub const TEXT_BYTES_MAX: usize = 8 << 10;

/// How bad it is, and whether it is an error or a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The command failed.
    Error,
    /// The command failed, and the server closes the connection.
    Fatal,
    /// The command failed, and the server closes all connections.
    Panic,
    /// A warning.
    Warning,
    /// Something worth knowing.
    Notice,
    /// What the client asked to be shown.
    Info,
    /// What is also in the server's log.
    Log,
    /// What helps developers.
    Debug,
}

impl Severity {
    const ALL: [Self; 8] = [
        Self::Error,
        Self::Fatal,
        Self::Panic,
        Self::Warning,
        Self::Notice,
        Self::Info,
        Self::Log,
        Self::Debug,
    ];

    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Fatal => "FATAL",
            Self::Panic => "PANIC",
            Self::Warning => "WARNING",
            Self::Notice => "NOTICE",
            Self::Info => "INFO",
            Self::Log => "LOG",
            Self::Debug => "DEBUG",
        }
    }

    /// Whether it is an error rather than a notice.
    #[must_use]
    pub const fn is_error(self) -> bool {
        matches!(self, Self::Error | Self::Fatal | Self::Panic)
    }

    fn read(word: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|severity| severity.as_str().as_bytes() == word)
    }
}

/// An error or a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    severity: Severity,
    state: SqlState,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    position: Option<u32>,
}

impl Report {
    /// A report with no more than a message.
    #[must_use]
    pub fn new(severity: Severity, state: SqlState, message: impl Into<String>) -> Self {
        let message = clean(message.into());
        Self { severity, state, message, detail: None, hint: None, position: None }
    }

    /// A failed command.
    #[must_use]
    pub fn error(state: SqlState, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, state, message)
    }

    /// A failure after which the connection is closed.
    #[must_use]
    pub fn fatal(state: SqlState, message: impl Into<String>) -> Self {
        Self::new(Severity::Fatal, state, message)
    }

    /// Something worth knowing.
    #[must_use]
    pub fn notice(message: impl Into<String>) -> Self {
        Self::new(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, message)
    }

    /// The same with another severity.
    #[must_use]
    pub const fn with_severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Adds the facts behind the message.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(clean(detail.into()));
        self
    }

    /// Adds what the user can do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(clean(hint.into()));
        self
    }

    /// Adds the character in the statement, counted from 1, that the message is about.
    #[must_use]
    pub const fn position(mut self, position: u32) -> Self {
        self.position = Some(position);
        self
    }

    /// The report in the fields of a server's message. What is missing or unknown becomes an internal error.
    #[must_use]
    pub fn of_fields(fields: Fields<'_>) -> Self {
        let text = |code| fields.field(code).map(lossy);
        // `V` is never translated; servers before 9.6 send `S` only.
        let severity = fields.field(b'V').or_else(|| fields.field(b'S')).and_then(Severity::read);
        Self {
            severity: severity.unwrap_or(Severity::Error),
            state: fields.state().unwrap_or(SqlState::INTERNAL_ERROR),
            message: text(b'M').unwrap_or_default(),
            detail: text(b'D'),
            hint: text(b'H'),
            position: text(b'P').and_then(|position| position.parse().ok()),
        }
    }

    /// Adds an ErrorResponse or a NoticeResponse, by the severity.
    pub fn write(&self, out: &mut Vec<u8>) {
        let is_error = self.severity.is_error();
        let kind = if is_error { server::ERROR_RESPONSE } else { server::NOTICE_RESPONSE };
        message(out, kind, |out| {
            let mut field = |code: u8, text: &str| {
                out.push(code);
                put_text(out, text.as_bytes());
            };
            field(b'S', self.severity.as_str());
            field(b'V', self.severity.as_str());
            field(b'C', self.state.as_str());
            field(b'M', &self.message);
            if let Some(detail) = &self.detail {
                field(b'D', detail);
            }
            if let Some(hint) = &self.hint {
                field(b'H', hint);
            }
            if let Some(position) = self.position {
                field(b'P', &position.to_string());
            }
            out.push(0);
        });
    }

    /// How bad it is.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        self.severity
    }

    /// The code.
    #[must_use]
    pub const fn state(&self) -> SqlState {
        self.state
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// `text` without NUL and without what is too long.
fn clean(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    if text.contains('\0') {
        text.retain(|c| c != '\0');
    }
    text
}

fn lossy(text: &[u8]) -> String {
    // A byte that is not UTF-8 becomes three, so the text is cut before and after.
    let text = text.get(..TEXT_BYTES_MAX).unwrap_or(text);
    clean(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::backend::{Fields, Message};
    use super::super::frame::{Side, Walk};
    use super::super::kind::server;
    use super::{Report, Severity, SqlState, TEXT_BYTES_MAX};

    fn read_back(report: &Report) -> Report {
        let mut out = vec![];
        report.write(&mut out);
        let mut walk = Walk::new(Side::SERVER, &out);
        let framed = walk.step().unwrap().unwrap();
        assert_eq!(walk.rest(), b"");
        match Message::read(framed.kind, framed.body()).unwrap() {
            Message::ErrorResponse(fields) if report.severity().is_error() => {
                Report::of_fields(fields)
            }
            Message::NoticeResponse(fields) if !report.severity().is_error() => {
                Report::of_fields(fields)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn reports_are_read_as_they_were_written() {
        for severity in Severity::ALL {
            let report = Report::new(severity, SqlState::QUERY_CANCELED, "canceled");
            assert_eq!(read_back(&report), report);
            let report = report.detail("12 ahead").hint("try again").position(u32::MAX);
            assert_eq!(read_back(&report), report);
        }
        assert_eq!(read_back(&Report::notice("")), Report::notice(""));
    }

    #[test]
    fn the_form_on_the_wire_is_this() {
        let mut out = vec![];
        Report::fatal(SqlState::INVALID_PASSWORD, "wrong").hint("h").position(3).write(&mut out);
        assert_eq!(out, b"E\0\0\0\x27SFATAL\0VFATAL\0C28P01\0Mwrong\0Hh\0P3\0\0");
    }

    #[test]
    fn texts_are_cut_at_a_character_and_hold_no_nul() {
        let long = format!("{}é", "x".repeat(TEXT_BYTES_MAX - 1));
        let report = Report::error(SqlState::SYNTAX_ERROR, long.clone()).detail("a\0Mb\0");
        assert_eq!(report.message(), "x".repeat(TEXT_BYTES_MAX - 1));
        assert_eq!(report.detail.as_deref(), Some("aMb"));
        assert_eq!(read_back(&report), report);
        let whole = "x".repeat(TEXT_BYTES_MAX);
        assert_eq!(Report::notice(whole.clone()).message(), whole);
        // The words of a server are cut in the same way, also if they are not UTF-8.
        let body = [b"M".to_vec(), vec![0xff; TEXT_BYTES_MAX], b"\0\0".to_vec()].concat();
        let report = Report::of_fields(Fields::read(server::ERROR_RESPONSE, &body).unwrap());
        assert!(report.message().len() <= TEXT_BYTES_MAX);
        assert_eq!(
            (report.severity(), report.state()),
            (Severity::Error, SqlState::INTERNAL_ERROR)
        );
    }
}
