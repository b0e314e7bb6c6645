//! The messages of clients: their form on the wire, and what is refused.

use super::super::frame::{HEAD_BYTES, LENGTH_MAX, Side, Walk};
use super::super::kind::client;
use super::super::{BodyError, Format};
use super::{
    Bind, BindNames, Execute, Message, Object, Parse, SaslInitialResponse, Target, bind, copy_fail,
    describe, execute, function_call, parse, query, rename, sasl_initial_response, sasl_response,
    sync,
};

/// The body of the one message that `write` adds.
fn body(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![];
    write(&mut out);
    let side = if out[0] == client::PASSWORD { Side::LOGIN } else { Side::client(LENGTH_MAX) };
    let mut walk = Walk::new(side, &out);
    let body = walk.step().unwrap().unwrap().body().to_vec();
    assert_eq!(walk.rest(), b"", "it is one message");
    body
}

const NAMES: BindNames<'_> = BindNames { portal: b"p", statement: b"s" };

#[test]
fn the_forms_on_the_wire_are_these() {
    let mut out = vec![];
    query(&mut out, b"SELECT 1");
    parse(&mut out, b"s", b"SELECT $1", [23]);
    bind(&mut out, NAMES, [Format::Binary], [Some(&b"\0\x01"[..]), None], [Format::Text]);
    describe(&mut out, Target { object: Object::Portal, name: b"p" });
    execute(&mut out, Execute { portal: b"p", rows: 10 });
    copy_fail(&mut out, b"no");
    sync(&mut out);
    let expected: [&[u8]; 7] = [
        b"Q\0\0\0\x0dSELECT 1\0",
        b"P\0\0\0\x16s\0SELECT $1\0\0\x01\0\0\0\x17",
        b"B\0\0\0\x1cp\0s\0\0\x01\0\x01\0\x02\0\0\0\x02\0\x01\xff\xff\xff\xff\0\x01\0\0",
        b"D\0\0\0\x07Pp\0",
        b"E\0\0\0\x0ap\0\0\0\0\x0a",
        b"f\0\0\0\x07no\0",
        b"S\0\0\0\x04",
    ];
    assert_eq!(out, expected.concat());
}

#[test]
fn parameters_of_a_bind_are_read() {
    let values = [Some(&b"a"[..]), None, Some(b"")];
    let formats = [Format::Text, Format::Binary, Format::Text];
    let bytes = body(|out| bind(out, NAMES, formats, values, [Format::Binary]));
    let read = Bind::read(&bytes).unwrap();
    assert_eq!((read.portal, read.statement), (&b"p"[..], &b"s"[..]));
    assert_eq!(read.values.iter().collect::<Vec<_>>(), values);
    assert_eq!((read.values.len(), read.values.is_empty()), (3, false));
    assert_eq!([0, 1, 2, 3].map(|at| read.formats.format(at)), {
        let [a, b, c] = formats;
        [a, b, c, Format::Text]
    });
    // One format is that of all values.
    assert_eq!([0, 9].map(|at| read.result_formats.format(at)), [Format::Binary; 2]);
}

#[test]
fn the_maximum_number_of_rows_is_none_if_not_positive() {
    let max = |rows| Execute { portal: b"", rows }.rows_max();
    assert_eq!([1, i32::MAX].map(max), [Some(1), Some(i32::MAX as u32)]);
    assert_eq!([0, -1, i32::MIN].map(max), [None; 3]);
}

#[test]
fn the_login_is_read() {
    for data in [None, Some(&b""[..]), Some(b"n,,n=,r=x")] {
        let bytes = body(|out| sasl_initial_response(out, b"SCRAM-SHA-256", data));
        let expected = SaslInitialResponse { mechanism: b"SCRAM-SHA-256", data };
        assert_eq!(SaslInitialResponse::read(&bytes), Ok(expected));
    }
    assert_eq!(body(|out| sasl_response(out, b"c=biws")), b"c=biws");
    for wrong in [&b""[..], b"X", b"X\0", b"X\0\0\0\0\x02a", b"X\0\0\0\0\x01ab", b"X\0\x80\0\0\0"] {
        assert!(SaslInitialResponse::read(wrong).is_err(), "{wrong:?}");
    }
}

/// Checks that the body is refused at `at`, for a reason that contains `what`.
fn refused(kind: u8, bytes: &[u8], at: usize, what: &str) {
    let error = Message::read(kind, bytes).unwrap_err();
    let BodyError { what: found, at: place, .. } = error;
    assert!(found.contains(what) && place == at, "{kind} {bytes:?}: {error}");
}

#[test]
fn invalid_bodies_are_refused_with_what_and_where() {
    refused(b'Q', b"", 0, "no NUL");
    refused(b'Q', b"SELECT 1", 0, "no NUL");
    refused(b'Q', b"SELECT 1\0;", 9, "left over");
    refused(b'P', b"s\0SELECT", 2, "no NUL");
    refused(b'P', b"s\0x\0\0", 4, "ends within");
    refused(b'P', b"s\0x\0\0\x01\0\0\0", 6, "ends within");
    refused(b'P', b"s\0x\0\0\0\0", 6, "left over");
    refused(b'B', b"p\0s", 2, "no NUL");
    refused(b'B', b"\0\0\0\x01\0\x02\0\0\0\0", 6, "neither 0 (text) nor 1");
    refused(b'B', b"\0\0\0\x02\0\0\0\x01\0\0\0\0", 8, "not one for each");
    refused(b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0", 10, "negative");
    refused(b'B', b"\0\0\0\0\0\x01\0\0\0\x03ab", 10, "ends within");
    refused(b'B', b"\0\0\0\0\0\x02\xff\xff\xff\xff", 10, "ends within");
    refused(b'B', b"\0\0\0\0\0\0", 6, "ends within");
    refused(b'B', b"\0\0\0\0\0\0\0\0x", 8, "left over");
    refused(b'D', b"", 0, "neither S");
    refused(b'D', b"Xa\0", 0, "neither S");
    refused(b'C', b"S", 1, "no NUL");
    refused(b'C', b"Sa\0b", 3, "left over");
    refused(b'E', b"p\0\0\0\0", 2, "ends within");
    refused(b'E', b"p\0\0\0\0\0\0", 6, "left over");
    refused(b'F', b"\0\0\0\x01\0\0\0\0\0\x02", 8, "neither 0 (text) nor 1");
    refused(b'F', b"\0\0\0\x01\0\0\0\0", 8, "ends within");
    for kind in *b"SHcX" {
        refused(kind, b"x", 0, "left over");
    }
    refused(b'p', b"", 0, "the kind is unknown");
}

#[test]
fn a_function_call_is_read() {
    let bytes = body(|out| function_call(out, 7, [], [Some(&b"a"[..])], Format::Binary));
    let Ok(Message::FunctionCall(call)) = Message::read(b'F', &bytes) else { panic!() };
    assert_eq!((call.function, call.values.len(), call.result_format), (7, 1, Format::Binary));
}

/// Renames the statement in `bytes`, a message of which only `arrived` bytes of the body are there.
fn renamed(bytes: &[u8], arrived: usize, name: &[u8]) -> Vec<u8> {
    let head = Side::client(LENGTH_MAX).head(bytes).unwrap().unwrap();
    let whole = &bytes[HEAD_BYTES..];
    let at = match head.kind {
        client::PARSE => Parse::read(whole).unwrap().name_at(),
        client::BIND => BindNames::find(&whole[..arrived]).unwrap().statement_at(),
        _ => Target::read("Describe", whole).unwrap().name_at(),
    };
    let mut out = b"before".to_vec();
    let new = rename(&mut out, head, &whole[..arrived], at, name);
    out.extend_from_slice(&whole[arrived..]);
    let renamed = out.split_off(6);
    assert_eq!(Side::client(LENGTH_MAX).head(&renamed), Ok(Some(new)));
    renamed
}

#[test]
fn a_statement_is_renamed_and_the_rest_is_copied() {
    let values = [Some(&b"value"[..]), None];
    let write = |name: &[u8]| {
        let mut list = [vec![], vec![], vec![], vec![]];
        parse(&mut list[0], name, b"SELECT $1", [0, 25]);
        let names = BindNames { portal: b"portal", statement: name };
        bind(&mut list[1], names, [], values, [Format::Binary]);
        describe(&mut list[2], Target { object: Object::Statement, name });
        super::close(&mut list[3], Target { object: Object::Statement, name });
        list
    };
    for (old, new) in [("", "paceline_1"), ("a", ""), ("long_name", "n"), ("same", "same")] {
        for (bytes, expected) in write(old.as_bytes()).iter().zip(write(new.as_bytes())) {
            assert_eq!(renamed(bytes, bytes.len() - HEAD_BYTES, new.as_bytes()), expected);
        }
        let [_, bytes, ..] = write(old.as_bytes());
        let [_, expected, ..] = write(new.as_bytes());
        let names_len = "portal".len() + 1 + old.len() + 1;
        for arrived in names_len..bytes.len() - HEAD_BYTES {
            assert_eq!(renamed(&bytes, arrived, new.as_bytes()), expected, "{arrived} arrived");
        }
        for arrived in 0..names_len {
            assert_eq!(BindNames::find(&bytes[HEAD_BYTES..][..arrived]), None);
        }
    }
    let [bytes, ..] = write(b"a");
    let [expected, ..] = write(b"bc");
    assert_eq!(renamed(&bytes, bytes.len() - HEAD_BYTES, b"b\0c"), expected, "without the NUL");
}
