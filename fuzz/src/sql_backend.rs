//! The messages of a PostgreSQL server: each that is accepted is written anew byte by byte, a report that is made of an
//! error is read as it was written, and the walk over the messages does not depend on the pieces they arrive in. The
//! first byte selects the place of the split.

use crate::sql_frontend::{split_walk, walk};
use crate::sql_wire::backend::{Authentication, Fields, Message, Status, command_tag};
use crate::sql_wire::frame::{Framed, Side, Walk};
use crate::sql_wire::kind::{Kinds, server};
use crate::sql_wire::report::{Report, TEXT_BYTES_MAX};
use crate::sql_wire::startup::CancelKey;

/// Walks over `data` and reads every message.
pub fn check(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    let mut found = Vec::new();
    let end = walk(Side::SERVER, data, &mut found);
    found.iter().for_each(|framed| check_message(*framed));
    split_walk(Side::SERVER, data, usize::from(*first), &found, end);
    let mut skipping = Walk::new(Side::SERVER, data);
    let rows = Kinds::of(&[server::DATA_ROW, server::COPY_DATA]);
    if let Ok(count) = skipping.skip(&rows) {
        assert_eq!(count, found.iter().take_while(|framed| rows.has(framed.kind)).count());
    }
}

fn check_message(framed: Framed<'_>) {
    let (kind, body) = (framed.kind, framed.body());
    let message = match Message::read(kind, body) {
        Ok(message) => message,
        Err(error) => return assert!(error.at <= body.len(), "{error}"),
    };
    let mut out = Vec::new();
    message.write(&mut out).unwrap();
    assert_eq!(out, framed.bytes);
    match message {
        Message::Authentication(step) => assert_eq!(Authentication::read(body), Ok(step)),
        Message::BackendKeyData(key) => assert_eq!(CancelKey::read(body), Ok(key)),
        Message::ReadyForQuery(status) => assert_eq!(Status::read(body), Ok(status)),
        Message::CommandComplete(tag) => assert_eq!(command_tag(body), Ok(tag)),
        Message::DataRow(values) => assert_eq!(values.iter().count(), values.len()),
        Message::RowDescription(columns) => assert_eq!(columns.iter().count(), columns.len()),
        Message::ErrorResponse(fields) | Message::NoticeResponse(fields) => {
            check_report(fields, body);
        }
        _ => {}
    }
}

fn check_report(fields: Fields<'_>, body: &[u8]) {
    let arrived = Fields::arrived(&body[..body.len() / 2]);
    assert!(fields.iter().zip(arrived.iter()).all(|(whole, part)| whole == part));
    let report = Report::of_fields(fields);
    assert!(report.message().len() <= TEXT_BYTES_MAX);
    let mut out = Vec::new();
    report.write(&mut out);
    let framed = Walk::new(Side::SERVER, &out).step().unwrap().expect("it is one message");
    assert_eq!(framed.bytes, out);
    let again = Fields::read(framed.kind, framed.body()).unwrap();
    assert_eq!(Report::of_fields(again), report);
}
