//! Tests of the lexer: the tokens of PostgreSQL and SQLite, and that time is linear.

use super::{Dialect, Kind, Lexer};

/// The solid tokens, one letter for the kind before each.
fn tokens(text: &str, dialect: Dialect) -> String {
    let found: Vec<String> = Lexer::new(text, dialect)
        .filter(|token| token.kind != Kind::Blank)
        .map(|token| format!("{}{}", letter(token.kind), token.text(text)))
        .collect();
    found.join(" ")
}

fn letter(kind: Kind) -> &'static str {
    match kind {
        Kind::Blank => "_",
        Kind::Comment => "c:",
        Kind::Word => "w:",
        Kind::Quoted => "q:",
        Kind::String => "s:",
        Kind::Bits => "b:",
        Kind::Number => "n:",
        Kind::Parameter => "p:",
        Kind::Sign => "o:",
        Kind::Unterminated => "u:",
        Kind::Unknown => "?:",
        Kind::Open | Kind::Close | Kind::Comma | Kind::Dot | Kind::Semicolon => "",
    }
}

fn postgres(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(tokens(text, Dialect::Postgres), *expected, "{text}");
    }
}

fn sqlite(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(tokens(text, Dialect::Sqlite), *expected, "{text}");
    }
}

#[test]
fn strings_end_where_postgres_ends_them() {
    postgres(&[
        ("'a' 'b'", "s:'a' s:'b'"),
        ("'it''s' x", "s:'it''s' w:x"),
        (r"'\' x", r"s:'\' w:x"),
        (r"E'\'' x", r"s:E'\'' w:x"),
        (r"e'\\' x", r"s:e'\\' w:x"),
        (r"E'a''b\n' x", r"s:E'a''b\n' w:x"),
        ("U&'d!0061' x", "s:U&'d!0061' w:x"),
        ("u&\"d\\0061\" x", "q:u&\"d\\0061\" w:x"),
        ("U & 'x'", "w:U o:& s:'x'"),
        ("b'01' X'1f' n'a'", "b:b'01' b:X'1f' s:n'a'"),
        ("xE'a'", "w:xE s:'a'"),
        ("e 'a'", "w:e s:'a'"),
        ("1E'\\''", "n:1 s:E'\\''"),
        ("'a", "u:'a"),
        ("'a''", "u:'a''"),
        (r"E'a\'", r"u:E'a\'"),
        (r"E'a\", r"u:E'a\"),
        ("U&'a", "u:U&'a"),
        ("x'1", "u:x'1"),
    ]);
    let text = r"'\'' x";
    assert_eq!(tokens(text, Dialect::PostgresBackslash), r"s:'\'' w:x");
    assert_eq!(tokens(text, Dialect::Postgres), r"u:'\'' x");
    assert_eq!(tokens(r"n'\'' b'\'", Dialect::PostgresBackslash), r"s:n'\'' b:b'\'");
}

#[test]
fn a_string_goes_on_after_a_newline_with_its_prefix() {
    postgres(&[
        ("'a'\n'b'", "s:'a'\n'b'"),
        ("'a' -- c\n  'b' x", "s:'a' -- c\n  'b' w:x"),
        ("'a' -- c\r'b'", "s:'a' -- c\r'b'"),
        ("E'a'\n'\\'' x", "s:E'a'\n'\\'' w:x"),
        ("'a'\n'\\' x", "s:'a'\n'\\' w:x"),
        ("'a'\n-x", "s:'a' o:- w:x"),
        ("'a'\n/* */'b'", "s:'a' c:/* */ s:'b'"),
        ("'a'\nE'b'", "s:'a' s:E'b'"),
        ("'a' -- c", "s:'a' c:-- c"),
        ("x'0'\n'1'", "b:x'0'\n'1'"),
        ("\"a\"\n\"b\"", "q:\"a\" q:\"b\""),
        ("$$a$$\n'b'", "s:$$a$$ s:'b'"),
    ]);
    sqlite(&[("'a'\n'b'", "s:'a' s:'b'")]);
}

#[test]
fn dollar_quotes_end_with_their_own_tag() {
    postgres(&[
        ("$$a;'$$ x", "s:$$a;'$$ w:x"),
        ("$a$ $b$ $$ $A$ $a$ x", "s:$a$ $b$ $$ $A$ $a$ w:x"),
        ("$a$x$b$a$ y", "s:$a$x$b$a$ w:y"),
        ("$é$ü$é$ x", "s:$é$ü$é$ w:x"),
        ("$1 $12x", "p:$1 p:$12 w:x"),
        ("$1$a$ $a$", "p:$1 s:$a$ $a$"),
        ("a$b$ $b$", "w:a$b$ u:$b$"),
        ("$a x", "?:$ w:a w:x"),
        ("$1a$", "p:$1 w:a$"),
        ("$$a$", "u:$$a$"),
        ("$ 1", "?:$ n:1"),
    ]);
}

#[test]
fn comments_nest_in_postgres_only() {
    postgres(&[
        ("/* a /* b */ c */ x", "c:/* a /* b */ c */ w:x"),
        ("/*/**/*/x", "c:/*/**/*/ w:x"),
        ("/***/x", "c:/***/ w:x"),
        ("/*/ */x", "c:/*/ */ w:x"),
        ("/* a /* b */ x", "u:/* a /* b */ x"),
        ("/*", "u:/*"),
        ("-- a\nx", "c:-- a w:x"),
        ("-- a\rx", "c:-- a w:x"),
        ("--", "c:--"),
        ("a--b", "w:a c:--b"),
        ("+--b", "o:+ c:--b"),
        ("a*/*b*/c", "w:a o:* c:/*b*/ w:c"),
        ("<=/*b*/c", "o:<= c:/*b*/ w:c"),
    ]);
    sqlite(&[
        ("/* a /* b */ x", "c:/* a /* b */ w:x"),
        ("/*/ */x", "c:/*/ */ w:x"),
        ("/* a", "c:/* a"),
        ("/*", "o:/ o:*"),
        ("-- a\rx", "c:-- a\rx"),
    ]);
}

#[test]
fn numbers_and_operators_are_those_of_postgres() {
    postgres(&[
        (
            "1 1.5 .5 1. 1e5 1.5E-3 1_000 0x1F 0o17 0b11 0x_f",
            "n:1 n:1.5 n:.5 n:1. n:1e5 n:1.5E-3 n:1_000 n:0x1F n:0o17 n:0b11 n:0x_f",
        ),
        ("1..10 1e x 0x 1_ 1__0", "n:1 o:.. n:10 n:1 w:e w:x n:0 w:x n:1 w:_ n:1 w:__0"),
        ("a.b t.*", "w:a . w:b w:t . o:*"),
        ("x::int :=:a[1:2]", "w:x o::: w:int o::= o:: w:a o:[ n:1 o:: n:2 o:]"),
        ("a=-1", "w:a o:= o:- n:1"),
        ("a@-1", "w:a o:@- n:1"),
        ("a->>'b'#>'{}'", "w:a o:->> s:'b' o:#> s:'{}'"),
        ("+-+-+ *-<", "o:+ o:- o:+ o:- o:+ o:*-<"),
        ("<-- x", "o:< c:-- x"),
        ("a?b|c \\ {", "w:a o:? w:b o:| w:c ?:\\ ?:{"),
        ("übergröße_1$ é", "w:übergröße_1$ w:é"),
        ("\"a\"\"b\" \"", "q:\"a\"\"b\" u:\""),
    ]);
}

#[test]
fn sqlite_has_its_own_names_and_parameters() {
    sqlite(&[
        ("[a b] `c``d` \"e\"\"f\"", "q:[a b] q:`c``d` q:\"e\"\"f\""),
        ("[a `b", "u:[a `b"),
        ("? ?12 :a @b #c $d $e::f", "p:? p:?12 p::a p:@b p:#c p:$d p:$e ?:: p::f"),
        ("x'1f' X'1' x'g' x'1", "b:x'1f' ?:X'1' ?:x'g' u:x'1"),
        ("E'a' b'1'", "w:E s:'a' w:b s:'1'"),
        ("1abc 0x1Fg 1_0 1.e5 1.5.2", "?:1abc n:0x1F w:g n:1_0 n:1.e5 n:1.5 n:.2"),
        (
            "a->b->>c a-b <> << >> || == != ! ^",
            "w:a o:-> w:b o:->> w:c w:a o:- w:b o:<> o:<< o:>> o:|| o:== o:!= ?:! ?:^",
        ),
        ("$$a$$", "p:$$a$$"),
        (": ]", "?:: ?:]"),
    ]);
}

/// How many bytes the lexer looks at.
fn steps(text: &str, dialect: Dialect) -> u64 {
    let mut lexer = Lexer::new(text, dialect);
    while lexer.next().is_some() {}
    lexer.steps
}

#[test]
fn no_input_takes_more_than_linear_time() {
    let nasty = [
        "(",
        "'",
        "/*",
        "*/",
        "/*/",
        "$a$b",
        "$a",
        "$a$",
        "$",
        "BEGIN ATOMIC ",
        "CREATE FUNCTION f() BEGIN ATOMIC;",
        "+",
        "+-*",
        "-",
        "--",
        "--\n",
        "'' ",
        "''\n",
        "''\n--\n",
        "'a'\n",
        "E'\\'",
        "\"",
        "[",
        "`",
        "x'",
        "1",
        "1_",
        "1e",
        ".",
        "..",
        ":",
        "::",
        "0x",
        "é",
        "U&",
        "U&'",
        "u&\"",
        ";",
        "a;",
        "; END",
        "/*a='1'*/",
    ];
    for dialect in [Dialect::Postgres, Dialect::PostgresBackslash, Dialect::Sqlite] {
        for piece in nasty {
            let of = |bytes: usize| steps(&piece.repeat(bytes / piece.len()), dialect);
            let (short, long) = (of(100_000), of(1_000_000));
            assert!(short <= 600_000, "{piece:?} takes {short} steps");
            assert!(long <= 11 * short, "{piece:?} takes {short} and {long} steps");
        }
    }
}
