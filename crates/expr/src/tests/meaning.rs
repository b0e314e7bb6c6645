//! The meaning of each part of the language, from the design and from CEL.

use super::{BATCH, PER_USER, TOTAL, good, request};
use crate::{Counter, EvalError, Expr, Kind, WEIGHT_MAX};
use std::borrow::Cow;

/// Evaluates as a key, which displays a value of any type.
fn value(text: &str) -> Result<String, EvalError> {
    good(text, Kind::Key).key(&request()).map(Cow::into_owned)
}

fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(value(text).as_deref(), Ok(*expected), "{text}");
    }
}

#[test]
fn the_condition_of_the_design_holds() {
    let text = r#"rate("per-user", user) > 100.0 || waiting("batch") > 50"#;
    assert_eq!(good(text, Kind::Condition).condition(&request()), Ok(true));
    let typical = r#"user == "etl" && path.startsWith("/api/") && rate("per-user", user) > 100.0"#;
    assert_eq!(good(typical, Kind::Condition).condition(&request()), Ok(true));
}

#[test]
fn literals() {
    check(&[
        ("true", "true"),
        ("7", "7"),
        ("-7", "-7"),
        ("0x1f", "31"),
        ("-0x1f", "-31"),
        ("7u", "7"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("1.5", "1.5"),
        ("-.5", "-0.5"),
        ("2e3", "2000"),
        ("25e-1", "2.5"),
        (r#""a'b""#, "a'b"),
        (r#"'a"b'"#, "a\"b"),
        (r#""\n\t\\\"\x41\u00e9\U0001F600\101""#, "\n\t\\\"Aé😀A"),
        (r#"r"\d""#, r"\d"),
        (r#"R'\d'"#, r"\d"),
        ("'''a\n'b''c'''", "a\n'b''c"),
        ("'''a\r\nb\rc'''", "a\nb\nc"),
        ("r'''a\r\n\\r'''", "a\n\\r"),
        ("r'\u{0}'", "\u{0}"),
        (r#"'\a\b\f\r\v\?\`\X41\377'"#, "\u{7}\u{8}\u{c}\r\u{b}?`Aÿ"),
        ("-7u", "-7"),
        ("0x7fU", "127"),
        ("-0x8000000000000000", "-9223372036854775808"),
        ("\"\"\"a\nb\"\"\"", "a\nb"),
        ("\"\"", ""),
        ("7 // seven", "7"),
        ("// before\n7", "7"),
    ]);
}

#[test]
fn every_attribute_is_a_string_and_the_priority_a_number() {
    check(&[
        ("kind", "http"),
        ("user", "etl"),
        ("priority", "-5"),
        ("priority + 1", "-4"),
        ("header[\"x-user\"]", "Eva"),
        ("header['X-USER']", "Eva"),
        ("header.x-user", "Eva"),
        ("header.X-User + '!'", "Eva!"),
        ("attr.shift-plan + header.x-user", "weeklyEva"),
        ("header.in-reply-to == '' && header.true-client-ip == ''", "true"),
        ("header.x-user.size()", "3"),
        ("header . x-user", "Eva"),
        ("header.n", "42"),
        ("header.N", "42"),
        ("cookie[\"Id\"]", "c1"),
        ("cookie.Id", "c1"),
        ("cookie.id", ""),
        ("tag.job", "nightly"),
        ("attr[\"shift\"]", "late"),
        ("attr.shift", "late"),
        ("attr[\"server.room\"]", "b7"),
        ("attr[\"user\"]", "etl"),
        ("attr[\"header.X-User\"]", "Eva"),
    ]);
    for (name, _) in paceline_types::KNOWN {
        let mut request = request();
        request.attributes.set(name, "its own").unwrap();
        assert_eq!(good(name, Kind::Key).key(&request).as_deref(), Ok("its own"), "{name}");
    }
}

#[test]
fn a_missing_attribute_is_empty() {
    check(&[
        ("sni", ""),
        ("header[\"none\"] == \"\"", "true"),
        ("header.x + \"!\"", "!"),
        ("size(attr.none)", "0"),
    ]);
}

#[test]
fn operators() {
    check(&[
        ("user == 'etl'", "true"),
        ("user != 'etl'", "false"),
        ("user < 'etm'", "true"),
        ("user <= 'etl'", "true"),
        ("user > 'Z'", "true"),
        ("'é' > 'z'", "true"),
        ("user >= 'etla'", "false"),
        ("true == !false", "true"),
        ("true != true", "false"),
        ("1 < 2", "true"),
        ("2 <= 1", "false"),
        ("7 / 2", "3"),
        ("-7 / 2", "-3"),
        ("7 % 3", "1"),
        ("-7 % 3", "-1"),
        ("7.0 / 2.0", "3.5"),
        ("1.0 / 0.0 > 1e300", "true"),
        ("0.0 / 0.0 == 0.0 / 0.0", "false"),
        ("0.0 / 0.0 != 0.0 / 0.0", "true"),
        ("3 - -4", "7"),
        ("3 -4", "-1"),
        ("-(3)", "-3"),
        ("-priority", "5"),
        ("-(1.5)", "-1.5"),
        ("user + '@' + host", "etl@10.0.0.9"),
        ("user in ['web', 'etl']", "true"),
        ("user in ['web', 'api',]", "false"),
        ("user in []", "false"),
        ("priority in [-5, 5]", "true"),
        ("2 in [1.0, 2.0]", "true"),
        ("2.5 in [2, 3]", "false"),
        ("'a' + 'b' in ['ab']", "true"),
        ("user == 'x' ? 1 : 2", "2"),
        ("user == 'etl' ? 'yes' : 'no'", "yes"),
        ("true ? 1.5 : 2.5", "1.5"),
        ("(true ? false : true) ? 1 : 2", "2"),
    ]);
}

#[test]
fn an_int_and_a_double_compare_as_numbers() {
    check(&[
        ("rate('per-user', user) > 120", "true"),
        ("rate('per-user', user) > 121", "false"),
        ("inflight('total') == 12.0", "true"),
        ("2 < 2.5", "true"),
        ("9007199254740993 > 9007199254740992.0", "true"),
        ("9223372036854775807 < 9223372036854775808.0", "true"),
        ("1 == 1.0", "true"),
        ("1 != 1.0", "false"),
    ]);
}

#[test]
fn precedence() {
    check(&[
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("2 * 3 % 4", "2"),
        ("10 - 4 - 3", "3"),
        ("100 / 10 / 5", "2"),
        ("-2 + 3", "1"),
        ("1 + 1 == 2", "true"),
        ("1 < 2 == true", "true"),
        ("true || false && false", "true"),
        ("(true || false) && false", "false"),
        ("!true || true", "true"),
        ("!(true || true)", "false"),
        ("true || true ? 1 : 2", "1"),
        ("false ? 1 : false ? 2 : 3", "3"),
        ("true ? 1 : true ? 2 : 3", "1"),
        ("!user.startsWith('x')", "true"),
        ("-size(user)", "-3"),
        ("'a' + user.upperAscii()", "aETL"),
    ]);
}

#[test]
fn functions() {
    check(&[
        ("path.startsWith('/api')", "true"),
        ("path.startsWith('/API')", "false"),
        ("path.endsWith('sicht')", "true"),
        ("path.contains('i/Ü')", "true"),
        ("path.contains('')", "true"),
        ("path.contains('zz')", "false"),
        ("size(path)", "14"),
        ("path.size()", "14"),
        ("path.lowerAscii()", "/api/Übersicht"),
        ("path.upperAscii()", "/API/ÜBERSICHT"),
        ("header['x-user'].lowerAscii()", "eva"),
        ("string(1)", "1"),
        ("string(1.0)", "1"),
        ("string(true)", "true"),
        ("string(user)", "etl"),
        ("int(header.n) + 1", "43"),
        ("int('-7')", "-7"),
        ("int(2.9)", "2"),
        ("int(-2.9)", "-2"),
        ("int(3)", "3"),
        ("double(header.d) * 2.0", "5"),
        ("double(3) / 2.0", "1.5"),
        ("double(1.5)", "1.5"),
        ("rate('per-user', user)", "120.5"),
        ("rate('per-user')", "1000"),
        ("rate('per-user', 'nobody')", "0"),
        ("inflight('total')", "12"),
        ("queued('per-user', 'e' + 'tl')", "3"),
        ("running('batch')", "4"),
        ("waiting('batch')", "51"),
        ("waiting('default')", "0"),
    ]);
}

#[test]
fn run_time_errors_have_their_place() {
    for (text, expected) in [
        ("1 / 0", EvalError::DivisionByZero { at: 2 }),
        ("1 % (priority + 5)", EvalError::DivisionByZero { at: 2 }),
        ("9223372036854775807 + 1", EvalError::Overflow { at: 20 }),
        ("-9223372036854775808 - 1", EvalError::Overflow { at: 21 }),
        ("9223372036854775807 * 2", EvalError::Overflow { at: 20 }),
        ("(-9223372036854775808) / -1", EvalError::Overflow { at: 23 }),
        ("(-9223372036854775808) % -1", EvalError::Overflow { at: 23 }),
        ("-(-9223372036854775808)", EvalError::Overflow { at: 0 }),
        ("1 + int('abc')", EvalError::NotANumber { at: 7 }),
        ("int(user)", EvalError::NotANumber { at: 3 }),
        ("int('')", EvalError::NotANumber { at: 3 }),
        ("int('1.5')", EvalError::NotANumber { at: 3 }),
        ("int('9223372036854775808')", EvalError::NotANumber { at: 3 }),
        ("double('x')", EvalError::NotANumber { at: 6 }),
        ("int(1e30)", EvalError::Overflow { at: 3 }),
        ("int(0.0 / 0.0)", EvalError::Overflow { at: 3 }),
    ] {
        assert_eq!(value(text), Err(expected), "{text}");
    }
}

#[test]
fn logic_stops_at_the_side_that_decides() {
    check(&[("user == 'etl' || int(user) > 0", "true"), ("user == 'x' && int(user) > 0", "false")]);
}

#[test]
fn an_error_is_absorbed_if_the_other_side_decides() {
    let error = EvalError::DivisionByZero { at: 2 };
    check(&[
        ("1 / 0 > 0 || true", "true"),
        ("1 / 0 > 0 && false", "false"),
        ("1 / 0 > 0 && int('x') > 0 && false", "false"),
        ("(1 / 0 > 0 || true) && true", "true"),
        ("1 / 0 > 0 || false || user == 'etl'", "true"),
        ("true ? 1 : 1 / 0", "1"),
    ]);
    for text in ["1 / 0 > 0 || false", "1 / 0 > 0 && true", "1 / 0 > 0 && 1 % 0 > 0"] {
        assert_eq!(value(text), Err(error), "{text}: the first error counts");
    }
    assert_eq!(value("!(1 / 0 > 0)"), Err(EvalError::DivisionByZero { at: 4 }));
    assert_eq!(value("1 / 0 > 0 ? 1 : 1"), Err(error));
}

#[test]
fn a_key_that_is_an_attribute_or_a_literal_is_borrowed() {
    let request = request();
    for text in ["user", "header[\"x-user\"]", "'all'", "sni", "true ? user : host", "string(user)"]
    {
        let key = good(text, Kind::Key);
        assert!(matches!(key.key(&request), Ok(Cow::Borrowed(_))), "{text}");
    }
    let unchanged = good("user.lowerAscii()", Kind::Key);
    assert!(matches!(unchanged.key(&request), Ok(Cow::Borrowed("etl"))));
}

#[test]
fn weights_are_clamped() {
    for (text, expected) in [
        ("5", 5),
        ("0", 1),
        ("-3", 1),
        ("priority", 1),
        ("10000", WEIGHT_MAX),
        ("1000001", WEIGHT_MAX),
        ("9223372036854775807", WEIGHT_MAX),
        ("-9223372036854775807", 1),
        ("user == 'etl' ? 10 : (user == 'web' ? 5 : 1)", 10),
    ] {
        assert_eq!(good(text, Kind::Weight).weight(&request()), Ok(expected), "{text}");
    }
}

#[test]
fn an_expression_answers_only_for_its_kind() {
    let request = request();
    let (condition, key, weight) =
        (good("true", Kind::Condition), good("user", Kind::Key), good("1", Kind::Weight));
    assert_eq!(condition.key(&request), Err(EvalError::Kind));
    assert_eq!(condition.weight(&request), Err(EvalError::Kind));
    assert_eq!(key.condition(&request), Err(EvalError::Kind));
    assert_eq!(weight.condition(&request), Err(EvalError::Kind));
    for (expr, kind) in [(condition, Kind::Condition), (key, Kind::Key), (weight, Kind::Weight)] {
        assert_eq!(expr.kind(), kind);
    }
}

#[test]
fn what_an_expression_reads_is_known() {
    let text = "user == header.a && user != header['A'] && rate('total', attr.job) > 1 \
                && rate('total') > 1 && waiting('batch') > 0 && inflight('per-user', user) > 0";
    let expr = good(text, Kind::Condition);
    let attributes: Vec<String> = expr.attributes().map(ToString::to_string).collect();
    assert_eq!(attributes, ["user", "header.a", "job"]);
    let counters: Vec<_> = expr.counters().collect();
    assert_eq!(
        counters,
        [
            (Counter::Rate(TOTAL), "total"),
            (Counter::Waiting(BATCH), "batch"),
            (Counter::Inflight(PER_USER), "per-user"),
        ]
    );
    assert!(expr.reads_counters() && !expr.reads_priority());
    assert_eq!(expr.text(), text);
    let priority = good("priority > 0", Kind::Condition);
    assert!(priority.reads_priority() && !priority.reads_counters());
    assert_eq!(priority.attributes().count(), 0);
}

#[test]
fn expressions_are_equal_by_text_and_kind() {
    assert_eq!(good("user", Kind::Key), good("user", Kind::Key));
    assert_ne!(good("user", Kind::Key), good("user ", Kind::Key));
    assert_ne!(good("true", Kind::Key), good("true", Kind::Condition));
    fn shared<T: Clone + Send + Sync + std::fmt::Debug + 'static>() {}
    shared::<Expr>();
}
