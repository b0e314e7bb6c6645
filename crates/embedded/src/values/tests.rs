//! Both directions of every type, as tables.

use super::{decode, encode, from_text};
use crate::types::{Declared, Type};
use paceline_postgres::wire::Format;
use rusqlite::types::{Value, ValueRef};

/// A text becomes a value, the value the `shown` text, and its binary form reads back as the same value.
#[track_caller]
fn check(declared: &str, text: &str, shown: &str) {
    let declared = Declared::read(declared).unwrap();
    let value = decode(text.as_bytes(), declared.kind, Format::Text).unwrap();
    let mut out = vec![];
    encode(&mut out, ValueRef::from(&value), declared, Format::Text).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), shown, "{declared:?}");
    let mut binary = vec![];
    encode(&mut binary, ValueRef::from(&value), declared, Format::Binary).unwrap();
    assert_eq!(decode(&binary, declared.kind, Format::Binary).unwrap(), value, "{declared:?}");
}

#[test]
fn values_go_both_ways() {
    for (declared, text, shown) in [
        ("bool", "yes", "t"),
        ("bool", "f", "f"),
        ("int2", "-7", "-7"),
        ("int4", " 42 ", "42"),
        ("int8", "9223372036854775807", "9223372036854775807"),
        ("float8", "0.1", "0.1"),
        ("float8", "1e20", "1e+20"),
        ("float8", "1e-7", "1e-07"),
        ("float8", "123456789012345", "123456789012345"),
        ("float8", "-Infinity", "-Infinity"),
        ("float4", "1.5", "1.5"),
        ("numeric", "12345.678", "12345.678"),
        ("numeric", "-0.00012", "-0.00012"),
        ("numeric(10,2)", "1.5", "1.50"),
        ("numeric", "100000000", "100000000"),
        ("text", "00123", "00123"),
        ("varchar(3)", "ab", "ab"),
        ("bytea", "\\x00ff", "\\x00ff"),
        ("bytea", "a\\000\\\\", "\\x61005c"),
        ("date", "2024-02-29", "2024-02-29"),
        ("timestamp", "1999-12-31T23:59:59.25", "1999-12-31 23:59:59.25"),
        ("timestamptz", "2026-01-01 02:00:00+02", "2026-01-01 00:00:00+00"),
        ("uuid", "A0EEBC999C0B4EF8BB6D6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("json", "{\"a\": 1}", "{\"a\": 1}"),
        ("jsonb", "[1]", "[1]"),
        ("oid", "4000000000", "4000000000"),
        ("name", "x", "x"),
    ] {
        check(declared, text, shown);
    }
}

#[test]
fn wrong_texts_are_refused() {
    for (kind, text, state) in [
        (Type::Int4, "4x", "22P02"),
        (Type::Int4, "2147483648", "22003"),
        (Type::Int2, "40000", "22003"),
        (Type::Bool, "maybe", "22P02"),
        (Type::Date, "2023-02-29", "22P02"),
        (Type::Timestamp, "noon", "22P02"),
        (Type::Uuid, "123", "22P02"),
        (Type::Bytea, "\\xabc", "22P02"),
    ] {
        assert_eq!(from_text(text, kind).unwrap_err().state.as_str(), state, "{text}");
    }
    let cut = decode(b"\0\0", Type::Int4, Format::Binary).unwrap_err();
    assert_eq!(cut.state.as_str(), "22P03");
}

#[test]
fn what_does_not_fit_is_sent_as_text_and_refused_as_binary() {
    let value = Value::Text("abc".into());
    let mut out = vec![];
    encode(&mut out, ValueRef::from(&value), Declared::of(Type::Int4), Format::Text).unwrap();
    assert_eq!(out, b"abc");
    let binary = encode(&mut out, ValueRef::from(&value), Declared::of(Type::Int4), Format::Binary);
    assert_eq!(binary.unwrap_err().state.as_str(), "22P02");
}
