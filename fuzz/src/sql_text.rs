//! The text of SQL: tokens cover any text, statements are found once and again, and nothing that a text says changes
//! that.

use paceline_postgres::text::{
    Command, Dialect, Kind, Lexer, TAG_BYTES_MAX, TAGS_MAX, Tags, classify, fingerprint, split,
};

/// Reads a text by the rules of every dialect.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for dialect in [Dialect::Postgres, Dialect::PostgresBackslash, Dialect::Sqlite] {
        tokens(text, dialect);
        statements(text, dialect);
        let mut tags = Tags::new(text, dialect);
        let count = tags.by_ref().inspect(|tag| {
            assert!(tag.key.len() <= TAG_BYTES_MAX && tag.value.len() <= TAG_BYTES_MAX);
        });
        assert!(count.count() <= TAGS_MAX && tags.ignored() <= text.len());
        classify(text, dialect);
    }
}

/// Tokens have no gap and no overlap, and only the last one may lack its end.
fn tokens(text: &str, dialect: Dialect) {
    let mut end = 0;
    for token in Lexer::new(text, dialect) {
        assert!(token.start == end && token.end > end && text.is_char_boundary(token.end));
        end = token.end;
        assert!(token.kind != Kind::Unterminated || end == text.len());
    }
    assert_eq!(end, text.len());
}

/// Statements are in order, are found again in their own text, and together have every token but some `;`.
fn statements(text: &str, dialect: Dialect) {
    let solid = |text: &str| {
        let tokens = Lexer::new(text, dialect).filter(|token| !token.is_blank());
        tokens.filter(|token| token.kind != Kind::Semicolon).count()
    };
    let (mut end, mut found, mut form) = (0, 0, String::new());
    for place in split(text, dialect) {
        assert!(place.start >= end && place.end > place.start);
        end = place.end;
        let piece = &text[place];
        let mut again = split(piece, dialect);
        assert_eq!((again.next(), again.next()), (Some(0..piece.len()), None), "{piece:?}");
        found += solid(piece);
        assert_ne!(classify(piece, dialect).command, Command::Empty, "{piece:?}");
        let hex = fingerprint(piece, dialect, &mut form).to_string();
        assert!(form.ends_with(';') && form.len() <= 7 * piece.len() + 8, "{piece:?}");
        same_form(piece, dialect, &form, &hex);
    }
    assert_eq!(found, solid(text), "{text:?}");
}

/// A comment before each token, which separates what is separate already, leaves the fingerprint as it is.
fn same_form(piece: &str, dialect: Dialect, form: &str, hex: &str) {
    let tokens: Vec<_> = Lexer::new(piece, dialect).collect();
    // The text of a procedure of Comdb2 is taken as it is, and half a token has no end to put a comment after.
    let is_odd = |kind| matches!(kind, Kind::Unknown | Kind::Unterminated);
    if tokens.iter().any(|token| is_odd(token.kind)) {
        return;
    }
    let mut spaced = String::new();
    for token in tokens {
        spaced += if token.is_blank() { "" } else { "/* x */" };
        spaced += token.text(piece);
        spaced += if token.text(piece).starts_with("--") { "\n" } else { "" };
    }
    let mut out = String::new();
    let again = fingerprint(&spaced, dialect, &mut out).to_string();
    assert_eq!((out.as_str(), again.as_str()), (form, hex), "{piece:?} and {spaced:?}");
}
