//! What can stand anywhere in a statement: names that matter, `INTO`, and the parts of `WITH`.
//!
//! One pass over the tokens. A word is compared with the names that matter only if its first letter is one of theirs.

use super::with::With;
use super::{Class, Command};
use crate::text::cursor::{Cursor, unquote};
use crate::text::token::{Kind, Token};

/// Reads the rest of a statement.
pub(super) fn read(cursor: &mut Cursor<'_>, class: &mut Class<'_>) {
    let is_with = class.inner.unwrap_or(class.command) == Command::With;
    let mut with = is_with.then(With::new);
    let mut scan = Scan { depth: 0, before: Before::Other, config: None };
    let text = cursor.text();
    let (mut next, lexer) = cursor.rest();
    while let Some(token) = next {
        // Most tokens say nothing, and their text is not looked at.
        let has_text = matches!(token.kind, Kind::Word | Kind::Quoted);
        let word = if has_text { token.text(text) } else { "" };
        if let Some(with) = &mut with {
            with.read(token, word);
        }
        scan.read(token, word, class);
        next = lexer.next_solid();
    }
    class.sets_session |= scan.config.is_some();
    if let Some(with) = with {
        class.writes |= with.writes() && class.runs_inner();
        match &mut class.inner {
            Some(inner) => *inner = with.command(),
            None => class.command = with.command(),
        }
    }
}

struct Scan {
    depth: usize,
    before: Before,
    /// The call of `set_config` that is open.
    config: Option<Config>,
}

/// What the token before was, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// `INSERT` or `MERGE`: the `INTO` after it names a table that exists.
    Verb,
    /// `INTO` of a query.
    Into,
    /// `set_config`.
    Config,
    /// `paceline`.
    Paceline,
    Other,
}

/// A call of `set_config`. Its setting ends with the transaction only if the third argument is plainly `true`.
struct Config {
    depth: usize,
    commas: usize,
    third: Third,
}

#[derive(PartialEq, Eq)]
enum Third {
    Missing,
    True,
    Other,
}

impl Config {
    fn read(&mut self, kind: Kind, text: &str, depth: usize) {
        match kind {
            Kind::Comma if depth == self.depth => self.commas += 1,
            Kind::Close if depth == self.depth => {}
            _ if self.commas == 2 => {
                let is_true = self.third == Third::Missing && text.eq_ignore_ascii_case("TRUE");
                self.third = if is_true { Third::True } else { Third::Other };
            }
            _ => {}
        }
    }
}

impl Scan {
    fn read(&mut self, token: Token, text: &str, class: &mut Class<'_>) {
        if let Some(config) = &mut self.config {
            config.read(token.kind, text, self.depth);
        }
        let mut before = Before::Other;
        match token.kind {
            Kind::Open => {
                self.depth += 1;
                if self.before == Before::Config {
                    // Of two calls, one within the other, the outer one is not followed to its end.
                    class.sets_session |= self.config.is_some();
                    let depth = self.depth;
                    self.config = Some(Config { depth, commas: 0, third: Third::Missing });
                }
            }
            Kind::Close => {
                let closed = self.config.take_if(|config| config.depth == self.depth);
                class.sets_session |= closed.is_some_and(|config| config.third != Third::True);
                self.depth = self.depth.saturating_sub(1);
            }
            Kind::Dot => class.names_own |= self.before == Before::Paceline,
            Kind::Word => before = self.word(text, class),
            Kind::Quoted => before = name(&unquote(text), class),
            Kind::Unterminated => class.is_broken = true,
            _ => {}
        }
        self.before = before;
    }

    fn word(&self, word: &str, class: &mut Class<'_>) -> Before {
        let is = |wanted: &str| word.eq_ignore_ascii_case(wanted);
        match word.as_bytes().first().map_or(0, u8::to_ascii_lowercase) {
            b'p' | b's' | b'c' if word.len() >= NAME_LEN_MIN => return name(word, class),
            b'i' | b'm' | b'r' if is("INSERT") || is("MERGE") || is("REPLACE") => {
                return Before::Verb;
            }
            b'i' if is("INTO") && self.before != Before::Verb && is_query(class) => {
                class.reshapes |= class.runs_inner();
                class.writes |= class.runs_inner();
                return Before::Into;
            }
            b'l' | b'g' if self.before == Before::Into && (is("LOCAL") || is("GLOBAL")) => {
                return Before::Into;
            }
            b't' if self.before == Before::Into => {
                class.is_temporary |= is("TEMP") || is("TEMPORARY");
            }
            _ => {}
        }
        Before::Other
    }
}

/// Whether `INTO` makes a table of the result.
fn is_query(class: &Class<'_>) -> bool {
    matches!(class.inner.unwrap_or(class.command), Command::Select | Command::With)
}

/// A name, with or without quotes.
fn name(name: &str, class: &mut Class<'_>) -> Before {
    let begins = |prefix: &str| {
        name.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix))
    };
    if begins("pg_") {
        class.is_temporary |= name.len() == "pg_temp".len() && begins("pg_temp");
        class.is_temporary |= begins("pg_temp_");
        class.locks_session |= SESSION_LOCKS.iter().any(|lock| name.eq_ignore_ascii_case(lock));
    } else if begins("comdb2_") {
        class.names_own = true;
    } else if name.eq_ignore_ascii_case("set_config") {
        return Before::Config;
    } else if name.eq_ignore_ascii_case("paceline") {
        return Before::Paceline;
    }
    Before::Other
}

/// The shortest name that matters is `pg_temp`.
const NAME_LEN_MIN: usize = 7;

/// The functions whose locks outlive the transaction.
const SESSION_LOCKS: [&str; 4] = [
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
];
