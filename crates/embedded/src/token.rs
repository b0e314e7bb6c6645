//! Tokens without blanks and comments, and the values of names and strings. The lexer itself is PostgreSQL's, from
//! the crate `postgres`.

use paceline_postgres::text::{Dialect, Kind, Lexer};

/// A token and its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tok<'a> {
    pub kind: Kind,
    pub text: &'a str,
}

impl<'a> Tok<'a> {
    /// Whether it is this word, in any case and without quotes.
    pub fn is(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }

    pub fn is_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(word))
    }

    pub fn is_sign(&self, sign: &str) -> bool {
        self.kind == Kind::Sign && self.text == sign
    }

    /// The name as PostgreSQL stores it: folded to lower case unless it is in quotes.
    pub fn name(&self) -> Option<String> {
        match self.kind {
            Kind::Word => Some(self.text.to_ascii_lowercase()),
            Kind::Quoted => {
                let inner = self.text.trim_start_matches(['U', 'u', '&']);
                let inner = inner.strip_prefix('"')?.strip_suffix('"')?;
                Some(inner.replace("\"\"", "\""))
            }
            _ => None,
        }
    }
}

/// The tokens that say something.
pub fn solids(text: &str) -> Vec<Tok<'_>> {
    Lexer::new(text, Dialect::Postgres)
        .filter(|token| !token.is_blank())
        .map(|token| Tok { kind: token.kind, text: token.text(text) })
        .collect()
}

/// The place of the `)` or `]` that closes the parenthesis at `open`; the end if there is none.
pub fn closing(toks: &[Tok<'_>], open: usize) -> usize {
    let mut depth = 0usize;
    for (at, tok) in toks.iter().enumerate().skip(open) {
        match tok.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            Kind::Sign if tok.text == "[" => depth += 1,
            Kind::Sign if tok.text == "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    toks.len()
}

/// The pieces between the commas of `toks`, leaving out those in parentheses.
pub fn items<'t, 'a>(toks: &'t [Tok<'a>]) -> Vec<&'t [Tok<'a>]> {
    let (mut found, mut start, mut at) = (vec![], 0, 0);
    while at < toks.len() {
        match toks[at].kind {
            Kind::Open => at = closing(toks, at),
            Kind::Sign if toks[at].text == "[" => at = closing(toks, at),
            Kind::Comma => {
                found.push(&toks[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    if start < toks.len() {
        found.push(&toks[start..]);
    }
    found
}

/// The value of a string literal, with all its continuations; none if an escape is invalid.
pub fn string_value(literal: &str) -> Option<String> {
    if literal.starts_with('$') {
        let tag_end = literal.get(1..)?.find('$')? + 2;
        return literal.get(tag_end..literal.len().checked_sub(tag_end)?).map(str::to_owned);
    }
    let open = literal.find('\'')?;
    let has_escapes = literal.starts_with(['E', 'e']);
    if literal.starts_with(['U', 'u']) && literal.contains('\\') {
        return None;
    }
    let (mut value, mut bytes) = (String::new(), literal.get(open..)?.chars().peekable());
    let mut inside = false;
    while let Some(c) = bytes.next() {
        match (inside, c) {
            (false, '\'') => inside = true,
            (false, _) => {}
            (true, '\'') if bytes.peek() == Some(&'\'') => {
                bytes.next();
                value.push('\'');
            }
            (true, '\'') => inside = false,
            (true, '\\') if has_escapes => value.push(escape(&mut bytes)?),
            (true, other) => value.push(other),
        }
    }
    Some(value)
}

fn escape(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<char> {
    let first = rest.next()?;
    let mut number = |radix: u32, most: usize, start: u32| {
        let mut value = start;
        for _ in 0..most {
            let Some(digit) = rest.peek().and_then(|c| c.to_digit(radix)) else { break };
            rest.next();
            value = value * radix + digit;
        }
        char::from_u32(value).filter(|c| *c != '\0')
    };
    match first {
        'b' => Some('\u{8}'),
        'f' => Some('\u{c}'),
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        'x' => number(16, 2, 0),
        'u' => number(16, 4, 0),
        'U' => number(16, 8, 0),
        '0'..='7' => number(8, 2, first.to_digit(8)?),
        other => Some(other),
    }
}

/// A string literal of SQLite.
pub fn quote_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A name in quotes.
pub fn quote_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::{items, solids, string_value};

    #[test]
    fn strings_have_their_values() {
        for (literal, value) in [
            ("'it''s'", "it's"),
            ("E'a\\n\\x41\\'\\\\'", "a\nA'\\"),
            ("$$a'b$$", "a'b"),
            ("$q$x$$y$q$", "x$$y"),
            ("'a'\n  'b'", "ab"),
            ("N'x'", "x"),
        ] {
            assert_eq!(string_value(literal).as_deref(), Some(value), "{literal}");
        }
        assert_eq!(string_value("E'\\000'"), None);
    }

    #[test]
    fn items_are_split_at_their_own_commas() {
        let toks = solids("a, f(b, c), ARRAY[d, e] /* x, y */, 'g, h'");
        let texts: Vec<usize> = items(&toks).iter().map(|item| item.len()).collect();
        assert_eq!(texts, [1, 6, 6, 1]);
    }
}
