//! The messages of servers: their form on the wire, and what is refused.

use super::super::frame::{Side, Walk};
use super::super::kind::server;
use super::super::startup::{CANCEL_KEY_BYTES_MAX, CANCEL_KEY_BYTES_MIN, CancelKey, Version};
use super::super::{Format, SqlState, TooLong};
use super::{
    Authentication, Column, DataRow, Fields, Message, Negotiation, Notification, Parameter,
    RowDescription, Status, authentication, authentication_sasl, bind_complete, close_complete,
    command_complete, command_tag, copy_in_response, copy_out_response, empty_query_response,
    key_data, negotiate_protocol_version, no_data, notification, parameter_description,
    parameter_status, parse_complete, portal_suspended, ready_for_query,
};

/// The body of the one message that `write` adds.
fn body(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![];
    write(&mut out);
    let mut walk = Walk::new(Side::SERVER, &out);
    let body = walk.step().unwrap().unwrap().body().to_vec();
    assert_eq!(walk.rest(), b"", "it is one message");
    body
}

#[test]
fn the_forms_on_the_wire_are_these() {
    let mut out = vec![];
    authentication(&mut out, Authentication::Ok);
    authentication_sasl(&mut out, [&b"A"[..], b"", b"B\0"]);
    authentication(&mut out, Authentication::SaslContinue(b"r=x"));
    authentication(&mut out, Authentication::Md5Password(*b"salt"));
    key_data(&mut out, CancelKey { process: 1, key: b"key!" });
    parameter_status(&mut out, b"a", b"b");
    negotiate_protocol_version(&mut out, Version::V3_2, [&b"_pq_.x"[..]]);
    ready_for_query(&mut out, Status::Failed);
    parameter_description(&mut out, [23, 0]);
    command_complete(&mut out, b"SELECT 1");
    copy_in_response(&mut out, Format::Text, [Format::Text, Format::Text]);
    copy_out_response(&mut out, Format::Binary, [Format::Binary]);
    notification(&mut out, Notification { process: 2, channel: b"c", payload: b"" });
    let expected: [&[u8]; 13] = [
        b"R\0\0\0\x08\0\0\0\0",
        b"R\0\0\0\x0d\0\0\0\x0aA\0B\0\0",
        b"R\0\0\0\x0b\0\0\0\x0br=x",
        b"R\0\0\0\x0c\0\0\0\x05salt",
        b"K\0\0\0\x0c\0\0\0\x01key!",
        b"S\0\0\0\x08a\0b\0",
        b"v\0\0\0\x13\0\x03\0\x02\0\0\0\x01_pq_.x\0",
        b"Z\0\0\0\x05E",
        b"t\0\0\0\x0e\0\x02\0\0\0\x17\0\0\0\0",
        b"C\0\0\0\x0dSELECT 1\0",
        b"G\0\0\0\x0b\0\0\x02\0\0\0\0",
        b"H\0\0\0\x09\x01\0\x01\0\x01",
        b"A\0\0\0\x0b\0\0\0\x02c\0\0",
    ];
    assert_eq!(out, expected.concat());
    out.clear();
    for write in [
        empty_query_response,
        parse_complete,
        bind_complete,
        close_complete,
        no_data,
        portal_suspended,
        super::copy_done,
    ] {
        write(&mut out);
    }
    assert_eq!(out, b"I123nsc".map(|kind| [kind, 0, 0, 0, 4]).concat());
}

#[test]
fn the_login_of_a_server_is_read() {
    let bytes =
        body(|out| authentication_sasl(out, [&b"SCRAM-SHA-256-PLUS"[..], b"SCRAM-SHA-256"]));
    let Ok(Authentication::Sasl(mechanisms)) = Authentication::read(&bytes) else { panic!() };
    assert!(mechanisms.has(b"SCRAM-SHA-256") && !mechanisms.has(b"SCRAM-SHA"));
    assert_eq!(mechanisms.iter().count(), 2);
    for step in [
        Authentication::Ok,
        Authentication::CleartextPassword,
        Authentication::Md5Password([1, 2, 3, 4]),
        Authentication::SaslFinal(b"v="),
        Authentication::Other(7, b""),
        Authentication::Other(8, b"token"),
    ] {
        assert_eq!(Authentication::read(&body(|out| authentication(out, step))), Ok(step));
    }
    for len in CANCEL_KEY_BYTES_MIN - 1..=CANCEL_KEY_BYTES_MAX + 1 {
        let key = CancelKey { process: 9, key: &vec![1; len] };
        let bytes = body(|out| key_data(out, key));
        let is_valid = (CANCEL_KEY_BYTES_MIN..=CANCEL_KEY_BYTES_MAX).contains(&len);
        assert_eq!(CancelKey::read(&bytes).ok(), is_valid.then_some(key), "{len}");
    }
    let options = [&b"_pq_.a"[..], b"_pq_.b"];
    let bytes = body(|out| negotiate_protocol_version(out, Version::V3_0, options));
    let read = Negotiation::read(&bytes).unwrap();
    assert_eq!(read.version, Version::V3_0);
    assert_eq!(read.options.iter().collect::<Vec<_>>(), options);
}

#[test]
fn what_a_relay_must_understand_is_read() {
    for status in [Status::Idle, Status::InTransaction, Status::Failed] {
        assert_eq!(Status::read(&[status.code()]), Ok(status));
    }
    assert_eq!(command_tag(b"INSERT 0 1\0"), Ok(&b"INSERT 0 1"[..]));
    let parameter = Parameter { name: b"TimeZone", value: b"UTC" };
    assert_eq!(Parameter::read(b"TimeZone\0UTC\0"), Ok(parameter));
    let bytes = b"SERROR\0C26000\0Mno such statement\0\0";
    let fields = Fields::read(server::ERROR_RESPONSE, bytes).unwrap();
    assert_eq!(fields.state(), Some(SqlState::INVALID_STATEMENT_NAME));
    assert_eq!(fields.field(b'M'), Some(&b"no such statement"[..]));
    // The code is known before the rest has arrived.
    assert_eq!(Fields::arrived(&bytes[..13]).state(), None);
    assert_eq!(Fields::arrived(&bytes[..14]).state(), fields.state());
    assert_eq!(Fields::arrived(&bytes[..20]).iter().count(), 2);
}

#[test]
fn invalid_bodies_are_refused_with_what_and_where() {
    let cases: [(u8, &[u8], usize, &str); 24] = [
        (b'R', b"\0\0\0", 0, "ends within"),
        (b'R', b"\0\0\0\0x", 4, "left over"),
        (b'R', b"\0\0\0\x05abc", 4, "ends within"),
        (b'R', b"\0\0\0\x0aA\0", 6, "no NUL"),
        (b'R', b"\0\0\0\x0aA\0\0B\0", 7, "left over"),
        (b'S', b"a\0b", 2, "no NUL"),
        (b'v', b"\0\x03\0\0\xff\xff\xff\xff\0\0", 10, "no NUL"),
        (b'v', b"\0\x03\0\0\0\0\0\0\0", 8, "left over"),
        (b'Z', b"", 0, "ends within"),
        (b'Z', b"X", 0, "neither I"),
        (b'Z', b"II", 1, "left over"),
        (b'T', b"\0\x01a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20, "ends within"),
        (b'T', b"\0\x01a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02", 20, "neither 0"),
        (b'D', b"\0\x01\0\0\0\x02a", 6, "ends within"),
        (b'D', b"\0\x01\xff\xff\xff\xfe", 6, "negative"),
        (b't', b"\0\x01\0\0", 2, "ends within"),
        (b'C', b"", 0, "no NUL"),
        (b'E', b"", 0, "ends within"),
        (b'E', b"Mtext\0", 6, "ends within"),
        (b'N', b"\0\0", 1, "left over"),
        (b'G', b"\x02\0\0", 0, "neither 0"),
        (b'1', b"x", 0, "left over"),
        (b'V', b"\0\0\0\x01", 4, "ends within"),
        (b'Q', b"", 0, "the kind is unknown"),
    ];
    for (kind, bytes, at, what) in cases {
        let error = Message::read(kind, bytes).unwrap_err();
        assert!(error.what.contains(what) && error.at == at, "{kind} {bytes:?}: {error}");
    }
}

const COLUMN: Column<'_> = Column {
    name: b"id",
    table: 16_384,
    number: -1,
    type_oid: 23,
    type_size: 4,
    type_modifier: -1,
    format: Format::Binary,
};

#[test]
fn columns_and_rows_are_read_as_they_were_written() {
    let mut out = vec![];
    let mut description = RowDescription::begin(&mut out);
    description.column(COLUMN);
    description.column(Column { name: b"", type_size: -1, ..Column::default() });
    assert_eq!(description.finish(), Ok(()));
    let Ok(Message::RowDescription(columns)) = Message::read(b'T', &out[5..]) else { panic!() };
    let other = Column { type_size: -1, ..Column::default() };
    assert_eq!(columns.iter().collect::<Vec<_>>(), [COLUMN, other]);
    assert_eq!((columns.len(), columns.is_empty()), (2, false));
    out.clear();
    let mut row = DataRow::begin(&mut out);
    assert!(row.is_empty());
    row.value(Some(b"a"));
    row.value(None);
    row.value_with(|out| out.extend_from_slice(b"direct"));
    row.value_with(|_| {});
    assert_eq!((row.len(), row.is_empty()), (7 + 4 * 4 + 7, false));
    assert_eq!(row.finish(), Ok(()));
    let Ok(Message::DataRow(values)) = Message::read(b'D', &out[5..]) else { panic!() };
    let expected = [Some(&b"a"[..]), None, Some(b"direct"), Some(b"")];
    assert_eq!(values.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn a_row_is_added_whole_or_not_at_all() {
    let mut out = b"before".to_vec();
    let mut row = DataRow::begin(&mut out);
    row.value(Some(b"a"));
    drop(row);
    assert_eq!(out, b"before", "an abandoned row");
    for (count, result) in [(65_535, Ok(())), (65_536, Err(TooLong))] {
        let mut row = DataRow::begin(&mut out);
        (0..count).for_each(|_| row.value(None));
        assert_eq!(row.finish(), result);
        assert_eq!(out.len() > 6, result.is_ok());
        out.truncate(6);
    }
    assert_eq!(out, b"before", "a row with too many values");
}
