//! Schemas and values that are refused, each with the tag, the reason and the offending part.

use crate::generate;
use crate::random::Random;
use paceline_tables::json::{self, Json};
use paceline_tables::schema::{Schema, Type};
use paceline_tables::value::Datum;
use paceline_tables::{Error, tag};

fn parse(text: &str) -> Json {
    json::parse(text.as_bytes(), 100).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Checks a refusal; `syntax` is the offending part as JSON, or empty if none is quoted.
fn check_error(error: &Error, input: &str, (word, details, syntax): (&str, &str, &str)) {
    assert_eq!(error.tag, word, "{input}: {error}");
    assert!(error.details.contains(details), "{input}: {error}, not {details}");
    let expected = (!syntax.is_empty()).then(|| parse(syntax).to_text());
    assert_eq!(error.syntax, expected, "{input}: {error}");
}

fn check_schema(text: &str, details: &str, syntax: &str) {
    match Schema::parse(&parse(text)) {
        Ok(_) => panic!("{text} was not refused"),
        Err(error) => check_error(&error, text, (tag::SYNTAX, details, syntax)),
    }
}

#[test]
fn database_schemas_that_are_refused() {
    for (text, details) in [
        (r#"{"name":"d"}"#, "Required 'tables' member is missing"),
        (r#"{"tables":{}}"#, "Required 'name' member is missing"),
        (r#"{"name":"1d","tables":{}}"#, "Type mismatch for member 'name'"),
        (r#"{"name":5,"tables":{}}"#, "Type mismatch for member 'name'"),
        (r#"{"name":"d","tables":[]}"#, "Type mismatch for member 'tables'"),
        (r#"{"name":"d","tables":{},"cksum":5}"#, "Type mismatch for member 'cksum'"),
        (r#"{"name":"d","tables":{},"more":5}"#, "Member 'more' is present but not allowed here"),
        (r#"{"name":"d","tables":{},"version":"1.2"}"#, "\"1.2\" not in format x.y.z"),
        (r#"{"name":"d","tables":{},"version":"1.2.x"}"#, "\"1.2.x\" not in format x.y.z"),
        (r#"{"name":"d","tables":{},"version":"1..2"}"#, "\"1..2\" not in format x.y.z"),
        (r#"{"name":"d","tables":{},"version":"1.2.3.4"}"#, "\"1.2.3.4\" not in format x.y.z"),
        (r#"{"name":"d","tables":{"_t":{}}}"#, "names beginning with \"_\" are reserved"),
        (r#"{"name":"d","tables":{"a-b":{}}}"#, "name must be a valid id"),
    ] {
        check_schema(text, details, text);
    }
    check_schema("5", "Object expected", "");
}

#[test]
fn table_schemas_that_are_refused() {
    const COLUMNS: &str = r#""a":{"type":"integer"},"e":{"type":"integer","ephemeral":true}"#;
    for (table, details) in [
        ("{}", "Required 'columns' member is missing"),
        (r#"{"columns":{}}"#, "table must have at least one column"),
        (r#"{"columns":5}"#, "Type mismatch for member 'columns'"),
        (r#"{"columns":{"_a":{}}}"#, "names beginning with \"_\" are reserved"),
        (r#"{"columns":{"a b":{}}}"#, "name must be a valid id"),
        (r#"{"columns":{C},"maxRows":0}"#, "maxRows must be at least 1"),
        (r#"{"columns":{C},"maxRows":-1}"#, "maxRows must be at least 1"),
        (r#"{"columns":{C},"maxRows":"1"}"#, "Type mismatch for member 'maxRows'"),
        (r#"{"columns":{C},"isRoot":1}"#, "Type mismatch for member 'isRoot'"),
        (r#"{"columns":{C},"more":1}"#, "Member 'more' is present but not allowed here"),
        (r#"{"columns":{C},"indexes":{}}"#, "Type mismatch for member 'indexes'"),
        (r#"{"columns":{C},"indexes":[[]]}"#, "index must have at least one column"),
        (r#"{"columns":{C},"indexes":[["a","e"]]}"#, "ephemeral columns (such as e) may not be"),
        (r#"{"columns":{C},"indexes":[["_version"]]}"#, "ephemeral columns (such as _version)"),
    ] {
        let table = table.replace('C', COLUMNS);
        check_schema(&format!(r#"{{"name":"d","tables":{{"T":{table}}}}}"#), details, &table);
    }
    for (index, details) in [
        (r#"["b"]"#, "b is not a valid column name"),
        (r#"["a","a"]"#, "array of distinct column names expected"),
        (r#"[5]"#, "array of distinct column names expected"),
        (r#""a""#, "array of distinct column names expected"),
    ] {
        let table = format!(r#"{{"columns":{{{COLUMNS}}},"indexes":[{index}]}}"#);
        check_schema(&format!(r#"{{"name":"d","tables":{{"T":{table}}}}}"#), details, index);
    }
}

#[test]
fn column_schemas_that_are_refused() {
    for (column, details, syntax) in [
        ("{}", "Required 'type' member is missing", "{}"),
        ("5", "Parsing schema for column c failed: Object expected", ""),
        (r#"{"type":5}"#, "Type mismatch for member 'type'", r#"{"type":5}"#),
        (
            r#"{"type":"uuid","mutable":1}"#,
            "Type mismatch for member 'mutable'",
            r#"{"type":"uuid","mutable":1}"#,
        ),
        (
            r#"{"type":"uuid","more":1}"#,
            "Member 'more' is present but not allowed here",
            r#"{"type":"uuid","more":1}"#,
        ),
        (
            r#"{"type":{"key":{"type":"uuid","refTable":"X"}}}"#,
            "column c key refers to undefined table X",
            "",
        ),
        (
            r#"{"type":{"key":"uuid","value":{"type":"uuid","refTable":"X"}}}"#,
            "column c value refers to undefined table X",
            "",
        ),
    ] {
        let text = format!(r#"{{"name":"d","tables":{{"T":{{"columns":{{"c":{column}}}}}}}}}"#);
        check_schema(&text, details, syntax);
    }
}

/// Types that are refused, with the part that is wrong; if none is given, it is the type itself.
const BAD_TYPES: &[(&str, &str, &str)] = &[
    ("5", "ovsdb type expected", ""),
    (r#""intege""#, "\"intege\" is not an atomic-type", ""),
    (r#"{"key":"intege"}"#, "\"intege\" is not an atomic-type", r#""intege""#),
    (r#"{"key":{"type":"map"}}"#, "\"map\" is not an atomic-type", r#""map""#),
    (r#"{}"#, "Required 'key' member is missing", ""),
    (r#"{"key":5}"#, "Type mismatch for member 'key'", ""),
    (r#"{"key":"uuid","value":5}"#, "Type mismatch for member 'value'", ""),
    (r#"{"key":"uuid","more":5}"#, "Member 'more' is present but not allowed here", ""),
    (r#"{"key":{}}"#, "Required 'type' member is missing", "{}"),
    (r#"{"key":{"type":5}}"#, "Type mismatch for member 'type'", r#"{"type":5}"#),
    (r#"{"key":"integer","min":2,"max":3}"#, "fails constraint checks", ""),
    (r#"{"key":"integer","min":0,"max":0}"#, "fails constraint checks", ""),
    (r#"{"key":"integer","min":-1}"#, "bad min or max value", "-1"),
    (r#"{"key":"integer","max":-1}"#, "bad min or max value", "-1"),
    (r#"{"key":"integer","max":"many"}"#, "bad min or max value", r#""many""#),
    (r#"{"key":"integer","max":4294967295}"#, "bad min or max value", "4294967295"),
    (r#"{"key":"integer","min":0.5}"#, "Type mismatch for member 'min'", ""),
];

/// Scalar types that are refused, with the part that is wrong; if none is given, it is the whole type.
const BAD_BASES: &[(&str, &str, &str)] = &[
    (r#"{"type":"integer","minInteger":3,"maxInteger":2}"#, "minInteger exceeds maxInteger", ""),
    (r#"{"type":"integer","minInteger":"3"}"#, "Type mismatch for member 'minInteger'", ""),
    (r#"{"type":"integer","minInteger":3.5}"#, "Type mismatch for member 'minInteger'", ""),
    (r#"{"type":"real","minReal":3,"maxReal":2.5}"#, "minReal exceeds maxReal", ""),
    (r#"{"type":"real","maxReal":true}"#, "Type mismatch for member 'maxReal'", ""),
    (r#"{"type":"string","minLength":3,"maxLength":2}"#, "minLength exceeds maxLength", ""),
    (r#"{"type":"string","minLength":-1}"#, "minLength out of valid range 0 to", "-1"),
    (r#"{"type":"string","maxLength":4294967296}"#, "maxLength out of valid range", "4294967296"),
    (r#"{"type":"string","minInteger":1}"#, "Member 'minInteger' is present but not", ""),
    (r#"{"type":"boolean","minInteger":1}"#, "Member 'minInteger' is present but not", ""),
    (r#"{"type":"integer","minReal":1}"#, "Member 'minReal' is present but not", ""),
    (r#"{"type":"integer","refTable":"T"}"#, "Member 'refTable' is present but not", ""),
    (r#"{"type":"uuid","refType":"weak"}"#, "Member 'refType' is present but not", ""),
    (r#"{"type":"uuid","refTable":"a b"}"#, "Type mismatch for member 'refTable'", ""),
    (r#"{"type":"uuid","refTable":"T","refType":"loose"}"#, "must be \"strong\" or \"weak\"", ""),
    (r#"{"type":"integer","enum":["set",[1]],"minInteger":1}"#, "Member 'minInteger' is", ""),
    (r#"{"type":"integer","enum":["set",[]]}"#, "1 to 4294967295 members", r#"["set",[]]"#),
    (r#"{"type":"integer","enum":["set",["a"]]}"#, "expected integer", r#""a""#),
    (r#"{"type":"integer","enum":["map",[]]}"#, "expected integer", r#"["map",[]]"#),
];

#[test]
fn types_that_are_refused() {
    let check = |text: &str, details: &str, syntax: &str| match Type::parse(&parse(text)) {
        Ok(_) => panic!("{text} was not refused"),
        Err(error) => check_error(&error, text, (tag::SYNTAX, details, syntax)),
    };
    for (text, details, syntax) in BAD_TYPES {
        check(text, details, if syntax.is_empty() { text } else { syntax });
    }
    for (base, details, syntax) in BAD_BASES {
        let syntax = if syntax.is_empty() { base } else { syntax };
        check(&format!(r#"{{"key":{base}}}"#), details, syntax);
        check(&format!(r#"{{"key":"uuid","value":{base}}}"#), details, syntax);
    }
    // OVSDB has no separate tag for duplicates in a set.
    let twice = parse(r#"{"key":{"type":"integer","enum":["set",[1,1]]}}"#);
    check_error(&Type::parse(&twice).unwrap_err(), "enum", ("ovsdb error", "duplicate", ""));
}

/// How a type is written back, and its name in messages.
#[test]
fn types_that_are_accepted() {
    for (text, written, called) in [
        (r#""integer""#, "", "integer"),
        (r#"{"key":"boolean"}"#, r#""boolean""#, "boolean"),
        (r#"{"key":{"type":"real"},"min":1,"max":1}"#, r#""real""#, "real"),
        (r#"{"key":"string","min":0}"#, "", "set of up to 1 strings"),
        (r#"{"key":"string","min":0,"max":"unlimited"}"#, "", "set of strings"),
        (r#"{"key":"uuid","max":"unlimited"}"#, "", "set of 1 or more uuids"),
        (r#"{"key":"real","max":3}"#, "", "set of 1 to 3 reals"),
        (r#"{"key":"uuid","min":0,"max":4294967294}"#, "", "set of up to 4294967294 uuids"),
        (
            r#"{"key":"string","value":"integer","min":0,"max":"unlimited"}"#,
            "",
            "map of (string, integer) pairs",
        ),
        (
            r#"{"key":"uuid","value":"real","min":0,"max":2}"#,
            "",
            "map of up to 2 (uuid, real) pairs",
        ),
        (
            r#"{"key":{"type":"integer","minInteger":-1,"maxInteger":9223372036854775807}}"#,
            r#"{"key":{"type":"integer","minInteger":-1}}"#,
            "integer",
        ),
        (r#"{"key":{"type":"string","maxLength":3}}"#, "", "string"),
        (r#"{"key":{"type":"real","maxReal":0.5}}"#, "", "real"),
        (
            r#"{"key":{"type":"string","enum":["set",["b","a"]]}}"#,
            r#"{"key":{"type":"string","enum":["set",["a","b"]]}}"#,
            "string",
        ),
        (
            r#"{"key":{"type":"integer","enum":["set",[7]]}}"#,
            r#"{"key":{"type":"integer","enum":7}}"#,
            "integer",
        ),
        (
            r#"{"key":{"type":"uuid","refTable":"T","refType":"strong"}}"#,
            r#"{"key":{"type":"uuid","refTable":"T"}}"#,
            "uuid",
        ),
        (r#"{"key":{"type":"uuid","refTable":"T","refType":"weak"}}"#, "", "uuid"),
    ] {
        let ty = Type::parse(&parse(text)).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(ty.describe(), called, "{text}");
        let written = if written.is_empty() { text } else { written };
        assert_eq!(ty.to_json(), parse(written), "{text}");
        assert_eq!(Type::parse(&ty.to_json()), Ok(ty), "{text}");
    }
}

/// A schema that is written and read again is the same.
#[test]
fn schemas_read_back() {
    for seed in 0..2_000 {
        let json = generate::schema(&mut Random::new(seed)).to_json();
        let schema = Schema::parse(&json).unwrap_or_else(|error| panic!("{error}"));
        let written = schema.to_json().to_text();
        assert_eq!(Schema::parse(&parse(&written)).as_ref(), Ok(&schema), "{written}");
    }
}

/// Values of a type that are refused, with the tag and the offending part.
#[test]
fn values_that_are_refused() {
    const SYNTAX: &str = tag::SYNTAX;
    const BOUNDS: &str = tag::CONSTRAINT;
    const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";
    for (ty, value, word, details, syntax) in [
        (r#""integer""#, "1.5", SYNTAX, "expected integer", "1.5"),
        (r#""integer""#, r#""1""#, SYNTAX, "expected integer", r#""1""#),
        (r#""integer""#, "true", SYNTAX, "expected integer", "true"),
        (r#""integer""#, "null", SYNTAX, "expected integer", "null"),
        (r#""integer""#, "9223372036854775808", SYNTAX, "expected integer", "9223372036854775808"),
        (r#""real""#, r#""x""#, SYNTAX, "expected real", r#""x""#),
        (r#""boolean""#, "0", SYNTAX, "expected boolean", "0"),
        (r#""string""#, "5", SYNTAX, "expected string", "5"),
        (r#""string""#, "{}", SYNTAX, "expected string", "{}"),
        (r#""uuid""#, r#""U""#, SYNTAX, "expected [\"uuid\", <string>]", r#""U""#),
        (r#""uuid""#, r#"["uuid"]"#, SYNTAX, "expected [\"uuid\"", r#"["uuid"]"#),
        (r#""uuid""#, r#"["uuid",5]"#, SYNTAX, "expected [\"uuid\"", r#"["uuid",5]"#),
        (r#""uuid""#, r#"["uuid","U0"]"#, SYNTAX, "not a valid UUID", r#"["uuid","U0"]"#),
        (r#""uuid""#, r#"["named-uuid","a"]"#, SYNTAX, "expected [", r#"["named-uuid","a"]"#),
        (r#""integer""#, r#"["set",[]]"#, SYNTAX, "exactly one member but 0", r#"["set",[]]"#),
        (r#""integer""#, r#"["set",[1,2]]"#, SYNTAX, "one member but 2", r#"["set",[1,2]]"#),
        (r#""integer""#, r#"["set"]"#, SYNTAX, "expected [\"set\", <array>]", r#"["set"]"#),
        (r#""integer""#, r#"["set",1]"#, SYNTAX, "expected [\"set\", <array>]", r#"["set",1]"#),
        (r#""integer""#, r#"["map",[]]"#, SYNTAX, "expected integer", r#"["map",[]]"#),
        (r#"{"key":"integer","max":2}"#, r#"["set",[1,2,3]]"#, SYNTAX, "1 to 2 members but 3", "V"),
        (r#"{"key":"integer","max":2}"#, r#"["set",[]]"#, SYNTAX, "1 to 2 members but 0", "V"),
        (
            r#"{"key":"integer","max":2}"#,
            r#"["set",[1,"a"]]"#,
            SYNTAX,
            "expected integer",
            r#""a""#,
        ),
        (r#"{"key":"integer","max":2}"#, r#"["set",[1,1]]"#, "ovsdb error", "set contains dup", ""),
        (r#"{"key":"real","max":2}"#, r#"["set",[0.0,-0.0]]"#, "ovsdb error", "set contains", ""),
        (r#"{"key":"integer","value":"real"}"#, "5", SYNTAX, "expected [\"map\", <array>]", "V"),
        (r#"{"key":"integer","value":"real"}"#, r#"["set",[]]"#, SYNTAX, "expected [\"map\"", "V"),
        (r#"{"key":"integer","value":"real"}"#, r#"["map",[]]"#, SYNTAX, "one member but 0", "V"),
        (r#"{"key":"integer","value":"real"}"#, r#"["map",[5]]"#, SYNTAX, "2-element array", "5"),
        (r#"{"key":"integer","value":"real"}"#, r#"["map",[[5]]]"#, SYNTAX, "2-element", "[5]"),
        (
            r#"{"key":"integer","value":"real"}"#,
            r#"["map",[["a",1]]]"#,
            SYNTAX,
            "integer",
            r#""a""#,
        ),
        (r#"{"key":"integer","value":"real"}"#, r#"["map",[[1,"a"]]]"#, SYNTAX, "real", r#""a""#),
        (
            r#"{"key":"integer","value":"real","max":3}"#,
            r#"["map",[[1,1],[1,2]]]"#,
            "ovsdb error",
            "map contains duplicate key",
            "",
        ),
        (
            r#"{"key":{"type":"integer","minInteger":1,"maxInteger":3}}"#,
            "4",
            BOUNDS,
            "4 is not in the valid range 1 to 3",
            "",
        ),
        (
            r#"{"key":{"type":"integer","minInteger":1}}"#,
            "0",
            BOUNDS,
            "0 is less than minimum allowed value 1",
            "",
        ),
        (
            r#"{"key":{"type":"integer","maxInteger":3}}"#,
            "4",
            BOUNDS,
            "4 is greater than maximum allowed value 3",
            "",
        ),
        (
            r#"{"key":{"type":"real","minReal":0.5,"maxReal":1}}"#,
            "0.25",
            BOUNDS,
            "0.25 is not in the valid range 0.5 to 1",
            "",
        ),
        (r#"{"key":{"type":"real","minReal":0.5}}"#, "0", BOUNDS, "0 is less than minimum", ""),
        (r#"{"key":{"type":"real","maxReal":0.5}}"#, "1", BOUNDS, "1 is greater than maximum", ""),
        (
            r#"{"key":{"type":"string","minLength":2}}"#,
            r#""é""#,
            BOUNDS,
            "length 1 is less than minimum allowed length 2",
            "",
        ),
        (
            r#"{"key":{"type":"string","maxLength":2}}"#,
            r#""abc""#,
            BOUNDS,
            "length 3 is greater than maximum allowed length 2",
            "",
        ),
        (
            r#"{"key":{"type":"integer","enum":["set",[1,3]]}}"#,
            "2",
            BOUNDS,
            "2 is not one of the allowed values ([1, 3])",
            "",
        ),
        (
            r#"{"key":{"type":"string","enum":["set",["a"]]}}"#,
            r#""b""#,
            BOUNDS,
            "b is not one of the allowed values ([a])",
            "",
        ),
        (
            r#"{"key":"uuid","value":{"type":"boolean","enum":true}}"#,
            r#"["map",[[["uuid","U"],false]]]"#,
            BOUNDS,
            "false is not one of",
            "",
        ),
    ] {
        let ty = Type::parse(&parse(ty)).unwrap_or_else(|error| panic!("{ty}: {error}"));
        let value = value.replace('U', UUID);
        let syntax = syntax.replace('U', UUID).replace('V', &value);
        match Datum::parse(&parse(&value), &ty, None) {
            Ok(_) => panic!("{value} was not refused as {}", ty.describe()),
            Err(error) => check_error(&error, &value, (word, details, &syntax)),
        }
    }
}

/// Values at the edge of what their type allows, and how they are written back.
#[test]
fn values_that_are_accepted() {
    for (ty, value, written) in [
        (r#""integer""#, r#"["set",[5]]"#, "5"),
        (r#""integer""#, "5.0", "5"),
        (r#""integer""#, "-9223372036854775808", "-9223372036854775808"),
        (r#""real""#, "5", "5"),
        (r#""real""#, "-0.0", "0"),
        (r#"{"key":"integer","min":0}"#, r#"["set",[]]"#, r#"["set",[]]"#),
        (r#"{"key":"integer","min":0,"max":3}"#, r#"["set",[3,1,2]]"#, r#"["set",[1,2,3]]"#),
        (
            r#"{"key":"string","min":0,"max":3}"#,
            r#"["set",["b","a",""]]"#,
            r#"["set",["","a","b"]]"#,
        ),
        (
            r#"{"key":"integer","value":"string","min":0,"max":"unlimited"}"#,
            r#"["map",[[2,"b"],[1,"a"]]]"#,
            r#"["map",[[1,"a"],[2,"b"]]]"#,
        ),
        (r#"{"key":"integer","value":"string","min":0}"#, r#"["map",[]]"#, r#"["map",[]]"#),
        (r#"{"key":{"type":"integer","minInteger":1,"maxInteger":3}}"#, "3", "3"),
        (r#"{"key":{"type":"string","minLength":3,"maxLength":3}}"#, r#""éé😀""#, r#""éé😀""#),
        (r#"{"key":{"type":"real","enum":["set",[0.5,1]]}}"#, "1", "1"),
    ] {
        let ty = Type::parse(&parse(ty)).unwrap_or_else(|error| panic!("{ty}: {error}"));
        let datum =
            Datum::parse(&parse(value), &ty, None).unwrap_or_else(|e| panic!("{value}: {e}"));
        let mut out = Vec::new();
        datum.write(&ty, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), written, "{value}");
    }
}
