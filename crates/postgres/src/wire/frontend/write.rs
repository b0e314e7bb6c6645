//! Writes the messages of clients, and renames the statement in one that was received.
//!
//! Promises that each call adds one whole message; a NUL in a name or a text is left out.

use super::super::body::{
    empty, message, put_i32, put_text, put_u16, put_u32, put_value, set_length,
};
use super::super::frame::{HEAD_BYTES, Head};
use super::super::kind::client;
use super::super::values::{put_formats, put_oids, put_values};
use super::super::{Format, TooLong};
use super::{BindNames, Execute, Target};
use std::ops::Range;

/// Adds the message that starts with `head`, with another name in the place `at` of its body. `arrived` is what has
/// arrived of the body, at least to the end of the name; all of it is added. The caller sends what arrives later.
///
/// Returns the start of the new message. Its length can exceed the maximum of its kind by the length of the name.
pub fn rename(
    out: &mut Vec<u8>,
    head: Head,
    arrived: &[u8],
    at: Range<usize>,
    name: &[u8],
) -> Head {
    assert!(at.start <= at.end && at.end <= arrived.len(), "the name lies in what has arrived");
    assert!(arrived.len() <= head.body_len as usize, "what has arrived is of this message");
    let start = out.len();
    out.reserve(HEAD_BYTES + arrived.len() + name.len());
    out.extend_from_slice(&[head.kind, 0, 0, 0, 0]);
    out.extend_from_slice(&arrived[..at.start]);
    put_text(out, name);
    // The NUL that was just added stands in the rest, too.
    out.pop();
    out.extend_from_slice(&arrived[at.end..]);
    // Lengths are at most 2 GiB here and a name is at most a message, so the sum fits.
    let missing = head.body_len - arrived.len() as u32;
    let body_len = (out.len() - start - HEAD_BYTES) as u32 + missing;
    out[start + 1..start + HEAD_BYTES].copy_from_slice(&(body_len + 4).to_be_bytes());
    Head { kind: head.kind, body_len }
}

/// Adds a Query.
pub fn query(out: &mut Vec<u8>, text: &[u8]) {
    message(out, client::QUERY, |out| put_text(out, text));
}

/// Adds a Parse.
pub fn parse(out: &mut Vec<u8>, name: &[u8], query: &[u8], types: impl IntoIterator<Item = u32>) {
    message(out, client::PARSE, |out| {
        put_text(out, name);
        put_text(out, query);
        put_oids(out, types);
    });
}

/// Adds a Bind.
pub fn bind<'v>(
    out: &mut Vec<u8>,
    names: BindNames<'_>,
    formats: impl IntoIterator<Item = Format>,
    values: impl IntoIterator<Item = Option<&'v [u8]>>,
    result_formats: impl IntoIterator<Item = Format>,
) {
    message(out, client::BIND, |out| {
        put_text(out, names.portal);
        put_text(out, names.statement);
        put_formats(out, formats);
        put_values(out, values);
        put_formats(out, result_formats);
    });
}

/// Adds a Describe.
pub fn describe(out: &mut Vec<u8>, target: Target<'_>) {
    put_target(out, client::DESCRIBE, target);
}

/// Adds a Close.
pub fn close(out: &mut Vec<u8>, target: Target<'_>) {
    put_target(out, client::CLOSE, target);
}

fn put_target(out: &mut Vec<u8>, kind: u8, target: Target<'_>) {
    message(out, kind, |out| {
        out.push(target.object.code());
        put_text(out, target.name);
    });
}

/// Adds an Execute.
pub fn execute(out: &mut Vec<u8>, execute: Execute<'_>) {
    message(out, client::EXECUTE, |out| {
        put_text(out, execute.portal);
        put_i32(out, execute.rows);
    });
}

/// Adds a Sync.
pub fn sync(out: &mut Vec<u8>) {
    empty(out, client::SYNC);
}

/// Adds a Flush.
pub fn flush(out: &mut Vec<u8>) {
    empty(out, client::FLUSH);
}

/// Adds a Terminate.
pub fn terminate(out: &mut Vec<u8>) {
    empty(out, client::TERMINATE);
}

/// Adds a CopyData, which has the same form on both sides.
pub fn copy_data(out: &mut Vec<u8>, data: &[u8]) -> Result<(), TooLong> {
    let start = out.len();
    out.extend_from_slice(&[client::COPY_DATA, 0, 0, 0, 0]);
    out.extend_from_slice(data);
    set_length(out, start + 1).inspect_err(|_| out.truncate(start))
}

/// Adds a CopyDone, which has the same form on both sides.
pub fn copy_done(out: &mut Vec<u8>) {
    empty(out, client::COPY_DONE);
}

/// Adds a CopyFail.
pub fn copy_fail(out: &mut Vec<u8>, text: &[u8]) {
    message(out, client::COPY_FAIL, |out| put_text(out, text));
}

/// Adds a FunctionCall.
pub fn function_call<'v>(
    out: &mut Vec<u8>,
    function: u32,
    formats: impl IntoIterator<Item = Format>,
    values: impl IntoIterator<Item = Option<&'v [u8]>>,
    result_format: Format,
) {
    message(out, client::FUNCTION_CALL, |out| {
        put_u32(out, function);
        put_formats(out, formats);
        put_values(out, values);
        put_u16(out, result_format.code());
    });
}

/// Adds a SASLInitialResponse.
pub fn sasl_initial_response(out: &mut Vec<u8>, mechanism: &[u8], data: Option<&[u8]>) {
    message(out, client::PASSWORD, |out| {
        put_text(out, mechanism);
        put_value(out, data);
    });
}

/// Adds a SASLResponse. Its whole body is the data, so it needs no reader.
pub fn sasl_response(out: &mut Vec<u8>, data: &[u8]) {
    message(out, client::PASSWORD, |out| out.extend_from_slice(data));
}
