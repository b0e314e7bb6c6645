//! Every compile error, with its exact place and text.

use super::Names;
use crate::{Kind, compile};

/// Compiles a text in which `^` marks the place of the error, and compares its display.
fn check(kind: Kind, marked: &str, expected: &str) {
    let offset = marked.find('^').unwrap();
    let text = marked.replacen('^', "", 1);
    let error = compile(&text, kind, &Names).expect_err(&text);
    assert_eq!(error.message, expected, "{marked}");
    assert_eq!(error.offset, offset, "{marked}");
    let line = text[..offset].split('\n').count();
    let column = text[..offset].split('\n').next_back().unwrap().chars().count() + 1;
    assert_eq!((error.line as usize, error.column as usize), (line, column), "{marked}");
    assert_eq!(error.to_string(), format!("{line}:{column}: {expected}"));
}

fn check_all(kind: Kind, cases: &[(&str, &str)]) {
    for (marked, expected) in cases {
        check(kind, marked, expected);
    }
}

#[test]
fn tokens() {
    check_all(
        Kind::Condition,
        &[
            ("user ^= 'a'", "`=` is no operator, write `==` to compare"),
            ("user ^& host", "`&` is no operator, write `&&`"),
            ("user ^| host", "`|` is no operator, write `||`"),
            ("user == ^é", "unexpected character 'é'"),
            ("user == ^\u{b}1", "unexpected character '\\u{b}'"),
            ("'é' == ^\"ab", "string without its closing \""),
            ("user == ^'''ab''", "string without its closing '''"),
            ("^'a\nb'", "string without its closing '"),
            ("user == 'a^\\q'", "unknown escape in a string"),
            ("user == 'é^\\ud800'", "unknown escape in a string"),
            ("user == 'a^\\u{+41}'", "unknown escape in a string"),
            ("user == 'a^\\u+041'", "unknown escape in a string"),
            ("user == 'a^\\x+4'", "unknown escape in a string"),
            ("user == 'a^\\x4'", "unknown escape in a string"),
            ("user == 'a^\\400'", "unknown escape in a string"),
            ("user == ^b'a'", "bytes are not part of the language, write a string without `b`"),
            ("user == ^br'a'", "bytes are not part of the language, write a string without `b`"),
            ("^{}", "maps and messages are not part of the language"),
            ("A^{a: 1}", "maps and messages are not part of the language"),
            (
                "header.^`x-user`",
                "names in backticks are not part of the language, write header[\"x-user\"]",
            ),
            ("1^a", "a number may not run into a name: expected an operator after it"),
            ("1 + 0^x", "a number may not run into a name: expected an operator after it"),
            ("2.5^u", "a number may not run into a name: expected an operator after it"),
        ],
    );
}

#[test]
fn order_of_tokens() {
    check_all(
        Kind::Condition,
        &[
            ("^", "expected a value, found the end"),
            ("  ^", "expected a value, found the end"),
            ("// x^", "expected a value, found the end"),
            ("user ==^", "expected a value, found the end"),
            ("user ==\n  ^", "expected a value, found the end"),
            ("user.^", "expected a name after `.`, found the end"),
            ("header.^\"x\"", "expected a name after `.`, found `\"x\"`"),
            ("header.^in", "expected a name after `.`, found `in`"),
            ("user ^host", "expected an operator, found `host`"),
            ("'é' ^'b'", "expected an operator, found `'b'`"),
            ("user ^!host", "expected an operator, found `!`"),
            ("1.5^.5", "expected an operator, found `.5`"),
            ("'a'^(1)", "expected an operator, found `(`"),
            ("(user)^(1)", "expected an operator, found `(`"),
            ("true^(1)", "expected an operator, found `(`"),
            ("user^, host", "expected an operator, found `,`"),
            ("(user^, host)", "expected an operator, found `,`"),
        ],
    );
    check_all(
        Kind::Condition,
        &[
            ("^&& true", "expected a value, found `&&`"),
            ("true && ^)", "expected a value, found `)`"),
            ("(^)", "expected a value, found `)`"),
            ("size(user, ^)", "expected a value, found `)`"),
            ("header[^]", "expected a value, found `]`"),
            ("user in [^,]", "expected a value, found `,`"),
            ("header[^?'x']", "expected a value, found `?`"),
            ("header.^?x", "expected a name after `.`, found `?`"),
            ("^.user", "expected a value, found `.`"),
            ("true^)", "`)` closes nothing"),
            ("(true^]", "expected `)`, found `]`"),
            ("header['a'^)", "expected `]`, found `)`"),
            ("true && ^(true", "`(` without its `)`"),
            ("header^['a'", "`[` without its `]`"),
            ("true ^? true", "`?` without its `:`"),
            ("(true ^? true)", "`?` without its `:`"),
            ("size(true ^? user, 1)", "`?` without its `:`"),
            ("true ^: true", "`:` without a `?` before it"),
            ("(true ^: true)", "`:` without a `?` before it"),
            (
                "true ? true ^? true : false : false",
                "expected `:`, found `?`: put the inner `? :` in brackets",
            ),
            ("!^!true", "expected a value, found a second sign `!`"),
            ("! // not\n ^!true", "expected a value, found a second sign `!`"),
            ("1 - -^-1 > 0", "expected a value, found a second sign `-`"),
            ("^if", "`if` is a reserved word of CEL"),
        ],
    );
}

#[test]
fn what_cel_has_and_this_language_has_not() {
    check_all(
        Kind::Condition,
        &[
            ("header.^all(x, x == '')", "all() loops, and loops are not part of the language"),
            ("[1].^exists(x, x > 0)", "exists() loops, and loops are not part of the language"),
            (
                "[1].^exists_one(x, x > 0)",
                "exists_one() loops, and loops are not part of the language",
            ),
            ("[1].^map(x, x)", "map() loops, and loops are not part of the language"),
            ("[1].^filter(x, x > 0)", "filter() loops, and loops are not part of the language"),
            (
                "true && ^has(header.x)",
                "has() is not part of the language: a missing attribute is \"\", so write \
             header[\"x-user\"] != \"\"",
            ),
            (
                "path.^matches('a.*')",
                "matches() is not part of the language: use startsWith, endsWith or contains here, \
             or a regex pattern in a rule's match",
            ),
            ("user == ^null", "null is not part of the language: a missing attribute is \"\""),
            ("size(^[1, 2]) > 0", "a list may stand only on the right of `in`"),
            ("user in ^header", "`in` takes a list: expected header[\"...\"] != \"\""),
            ("user in ^host", "`in` takes a list of literals, such as [\"a\", \"b\"]"),
        ],
    );
}

#[test]
fn numbers_out_of_range() {
    check_all(
        Kind::Condition,
        &[
            ("'é' == '' || ^9223372036854775808 > 0", "number 9223372036854775808 is out of range"),
            (
                "true ||\n 'é' == '' || 1 > ^0xffffffffffffffff",
                "number 0xffffffffffffffff is out of range",
            ),
            ("1 < ^18446744073709551615u", "number 18446744073709551615u is out of range"),
            ("1 < ^18446744073709551616u", "number 18446744073709551616u is out of range"),
            ("1.0 < ^1e999", "number 1e999 is out of range"),
            ("1 < ^0x8000000000000000u", "number 0x8000000000000000u is out of range"),
            ("1 < -^9223372036854775809", "number 9223372036854775809 is out of range"),
            ("usr == ^9223372036854775808", "number 9223372036854775808 is out of range"),
            ("9223372036854775808 +^", "expected a value, found the end"),
        ],
    );
}

#[test]
fn names_that_do_not_exist() {
    check_all(
        Kind::Condition,
        &[
            (
                "'é' == ^usr",
                "there is no attribute `usr`; did you mean `user` (what callers send is attr[\"usr\"])",
            ),
            (
                "^shift == 'late'",
                "there is no attribute `shift` (what callers send is attr[\"shift\"])",
            ),
            ("user == ^header", "`header` is a map: expected header[\"...\"]"),
            ("^attr == ''", "`attr` is a map: expected attr[\"...\"]"),
            (
                "^user.name == ''",
                "expected one of the maps header, cookie, tag and attr before this",
            ),
            (
                "^headers['a'] == ''",
                "expected one of the maps header, cookie, tag and attr before this; \
             did you mean `header`",
            ),
            (
                "^header.a.b == ''",
                "expected one of the maps header, cookie, tag and attr before this",
            ),
            (
                "header[^user] == ''",
                "expected a string literal as index, such as header[\"x-user\"]",
            ),
            ("header[^1] == ''", "expected a string literal as index, such as header[\"x-user\"]"),
            ("header[^''] == ''", "an attribute name may not be empty"),
            ("header[^'a b'] == ''", "an attribute name may not contain ' '"),
            ("attr[^'priority'] == ''", "the priority is a number: expected `priority`"),
            ("attr.^priority == ''", "the priority is a number: expected `priority`"),
            ("rate(^'per-usr') > 1.0", "there is no checkpoint `per-usr`; did you mean `per-user`"),
            ("rate(^'nothing') > 1.0", "there is no checkpoint `nothing`"),
            ("waiting(^'bach') > 1", "there is no pool `bach`; did you mean `batch`"),
            ("waiting(^'total') > 1", "waiting(): expected a pool, and `total` is a checkpoint"),
            ("queued(^'batch') > 1", "queued(): expected a checkpoint, and `batch` is a pool"),
            ("rate(^user) > 1.0", "rate(): expected the name of a checkpoint as string literal"),
            ("running(^1) > 1", "running(): expected the name of a pool as string literal"),
            ("path.^startWith('/')", "there is no function `startWith`; did you mean `startsWith`"),
            ("^frobnicate(user)", "there is no function `frobnicate`"),
            ("^startsWith(path, '/')", "expected a.startsWith(b)"),
            ("path.^startsWith('/', 'x')", "expected a.startsWith(b)"),
            (
                "user.^rate('total') > 1.0",
                "expected rate(\"checkpoint\") or rate(\"checkpoint\", key)",
            ),
            ("^rate() > 1.0", "expected rate(\"checkpoint\") or rate(\"checkpoint\", key)"),
            ("^waiting('batch', user) > 1", "expected waiting(\"pool\")"),
            ("1 < ^int()", "expected int(a)"),
        ],
    );
}

#[test]
fn types() {
    check_all(
        Kind::Condition,
        &[
            ("^user", "a condition: expected bool, found string"),
            ("^1 + 1", "a condition: expected bool, found int"),
            ("^path.size()", "a condition: expected bool, found int"),
            ("^size(path)", "a condition: expected bool, found int"),
            ("^-1.5", "a condition: expected bool, found double"),
            ("^- 0", "a condition: expected bool, found int"),
            ("^-1.size() > 1", "size(): expected string, found int"),
            ("^-priority", "a condition: expected bool, found int"),
            ("true && ^user", "`&&`: expected bool, found string"),
            ("^user || true", "`||`: expected bool, found string"),
            ("true && true && (^1 + 2) && true", "`&&`: expected bool, found int"),
            ("!^user", "`!`: expected bool, found string"),
            ("^user ? true : false", "`?`: expected bool, found string"),
            ("true ? true : ^1", "`:`: expected bool, found int"),
            ("(true ? 1 : ^2.0) > 1", "`:`: expected int, found double"),
            ("'é' == ^5", "cannot compare string with int"),
            ("priority > ^'5'", "cannot compare int with string"),
            ("true == ^1.0", "cannot compare bool with double"),
            ("1 < 2 < ^3", "cannot compare bool with int"),
            ("^true < false", "bools can be compared only with `==` and `!=`"),
            ("^true in ['a']", "`in`: expected string, int or double, found bool"),
            ("user in ['a', ^1]", "expected a string literal in this list"),
            ("user in ['a', ^host]", "expected a string literal in this list"),
            ("1 in [1, ^'a']", "expected a number literal in this list"),
            ("1 in [1, ^priority]", "expected a number literal in this list"),
            ("1 + ^1.0 > 1", "`+` after int: expected int, found double"),
            ("1.0 * ^2 > 1", "`*` after double: expected double, found int"),
            ("'a' + ^1 == ''", "`+` after string: expected string, found int"),
            ("^header.n -1 > 0", "`-`: expected int or double, found string"),
            ("^header.n- 1 > 0", "`-`: expected int or double, found string"),
            ("^header.n-(1) > 0", "`-`: expected int or double, found string"),
            ("1 == ^header.n-1", "cannot compare int with string"),
            ("^user-host == ''", "`-`: expected int or double, found string"),
            ("^'a' - 'b' == ''", "`-`: expected int or double, found string"),
            ("^true + true", "`+`: expected string, int or double, found bool"),
            ("^2.0 % 1.0 > 1.0", "`%`: expected int, found double"),
            ("-^user == ''", "`-`: expected int or double, found string"),
            ("^1.size() > 1", "size(): expected string, found int"),
            ("path.contains(^1)", "contains(): expected string, found int"),
            ("^priority.endsWith('1')", "endsWith(): expected string, found int"),
            ("(^priority + 1).lowerAscii() == ''", "lowerAscii(): expected string, found int"),
            ("int(^true) > 1", "int(): expected string, int or double, found bool"),
            ("double(^!true) > 1", "double(): expected string, int or double, found bool"),
            ("rate('total', ^1) > 1.0", "key of rate(): expected string, found int"),
        ],
    );
    check_all(
        Kind::Weight,
        &[
            ("^user", "a weight: expected int, found string"),
            ("^1.5", "a weight: expected int, found double"),
            ("^rate('total') * 2.0", "a weight: expected int, found double"),
        ],
    );
    check(Kind::Key, "^header", "`header` is a map: expected header[\"...\"]");
}

#[test]
fn lines_and_columns_count_characters() {
    let text = "user == 'é😀'\r\n  && 'Ü' == usr";
    let error = compile(text, Kind::Condition, &Names).unwrap_err();
    assert_eq!(&text[error.offset..], "usr");
    assert_eq!((error.line, error.column), (2, 13));
}
