//! Writes the messages of servers. Rows and their columns have builders of their own.
//!
//! Promises that each call adds one whole message; a NUL in a text is left out.

pub use super::super::frontend::{copy_data, copy_done};

use super::super::Format;
use super::super::body::{empty, message, put_text, put_u32, put_value};
use super::super::kind::server;
use super::super::startup::{CancelKey, Version};
use super::super::values::{put_formats, put_oids};
use super::{Authentication, Notification, Status};

/// Adds a step of the login.
pub fn authentication(out: &mut Vec<u8>, step: Authentication<'_>) {
    if let Authentication::Sasl(mechanisms) = step {
        return authentication_sasl(out, mechanisms);
    }
    message(out, server::AUTHENTICATION, |out| {
        let (code, data) = match &step {
            Authentication::Ok => (Authentication::OK, &b""[..]),
            Authentication::CleartextPassword => (Authentication::CLEARTEXT_PASSWORD, &b""[..]),
            Authentication::Md5Password(salt) => (Authentication::MD5_PASSWORD, &salt[..]),
            Authentication::Sasl(_) => (Authentication::SASL, &b""[..]),
            Authentication::SaslContinue(data) => (Authentication::SASL_CONTINUE, *data),
            Authentication::SaslFinal(data) => (Authentication::SASL_FINAL, *data),
            Authentication::Other(code, data) => (*code, *data),
        };
        put_u32(out, code);
        out.extend_from_slice(data);
    });
}

/// Adds the offer of SASL mechanisms. An empty name is left out: it would end the list.
pub fn authentication_sasl<'t>(out: &mut Vec<u8>, mechanisms: impl IntoIterator<Item = &'t [u8]>) {
    message(out, server::AUTHENTICATION, |out| {
        put_u32(out, Authentication::SASL);
        for mechanism in mechanisms.into_iter().filter(|name| name.iter().any(|byte| *byte != 0)) {
            put_text(out, mechanism);
        }
        out.push(0);
    });
}

/// Adds a BackendKeyData.
pub fn key_data(out: &mut Vec<u8>, key: CancelKey<'_>) {
    message(out, server::BACKEND_KEY_DATA, |out| {
        put_u32(out, key.process);
        out.extend_from_slice(key.key);
    });
}

/// Adds a ParameterStatus.
pub fn parameter_status(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    message(out, server::PARAMETER_STATUS, |out| {
        put_text(out, name);
        put_text(out, value);
    });
}

/// Adds a NegotiateProtocolVersion: the version that is spoken, and the options that are not supported.
pub fn negotiate_protocol_version<'t>(
    out: &mut Vec<u8>,
    version: Version,
    options: impl IntoIterator<Item = &'t [u8], IntoIter: Clone>,
) {
    let options = options.into_iter();
    message(out, server::NEGOTIATE_PROTOCOL_VERSION, |out| {
        put_u32(out, version.number());
        // Each option is at least a byte of a message, whose length is a number of this size.
        put_u32(out, options.clone().count() as u32);
        options.for_each(|option| put_text(out, option));
    });
}

/// Adds a ReadyForQuery.
pub fn ready_for_query(out: &mut Vec<u8>, status: Status) {
    out.extend_from_slice(&[server::READY_FOR_QUERY, 0, 0, 0, 5, status.code()]);
}

/// Adds a ParameterDescription.
pub fn parameter_description(out: &mut Vec<u8>, types: impl IntoIterator<Item = u32>) {
    message(out, server::PARAMETER_DESCRIPTION, |out| put_oids(out, types));
}

/// Adds a CommandComplete.
pub fn command_complete(out: &mut Vec<u8>, tag: &[u8]) {
    message(out, server::COMMAND_COMPLETE, |out| put_text(out, tag));
}

/// Adds an EmptyQueryResponse.
pub fn empty_query_response(out: &mut Vec<u8>) {
    empty(out, server::EMPTY_QUERY_RESPONSE);
}

/// Adds a ParseComplete.
pub fn parse_complete(out: &mut Vec<u8>) {
    empty(out, server::PARSE_COMPLETE);
}

/// Adds a BindComplete.
pub fn bind_complete(out: &mut Vec<u8>) {
    empty(out, server::BIND_COMPLETE);
}

/// Adds a CloseComplete.
pub fn close_complete(out: &mut Vec<u8>) {
    empty(out, server::CLOSE_COMPLETE);
}

/// Adds a NoData.
pub fn no_data(out: &mut Vec<u8>) {
    empty(out, server::NO_DATA);
}

/// Adds a PortalSuspended.
pub fn portal_suspended(out: &mut Vec<u8>) {
    empty(out, server::PORTAL_SUSPENDED);
}

/// Adds a CopyInResponse.
pub fn copy_in_response(
    out: &mut Vec<u8>,
    format: Format,
    columns: impl IntoIterator<Item = Format>,
) {
    copy_response(out, server::COPY_IN_RESPONSE, format, columns);
}

/// Adds a CopyOutResponse.
pub fn copy_out_response(
    out: &mut Vec<u8>,
    format: Format,
    columns: impl IntoIterator<Item = Format>,
) {
    copy_response(out, server::COPY_OUT_RESPONSE, format, columns);
}

pub(super) fn copy_response(
    out: &mut Vec<u8>,
    kind: u8,
    format: Format,
    columns: impl IntoIterator<Item = Format>,
) {
    message(out, kind, |out| {
        out.push(format.code() as u8);
        put_formats(out, columns);
    });
}

/// Adds a FunctionCallResponse; none for NULL.
pub fn function_call_response(out: &mut Vec<u8>, value: Option<&[u8]>) {
    message(out, server::FUNCTION_CALL_RESPONSE, |out| put_value(out, value));
}

/// Adds a NotificationResponse.
pub fn notification(out: &mut Vec<u8>, notification: Notification<'_>) {
    message(out, server::NOTIFICATION_RESPONSE, |out| {
        put_u32(out, notification.process);
        put_text(out, notification.channel);
        put_text(out, notification.payload);
    });
}
