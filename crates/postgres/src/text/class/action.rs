//! The short commands, each read by its own grammar; and the beginning of the long ones.
//!
//! A reader takes the tokens that it understands and leaves the rest. Keywords that are also names are told apart as
//! PostgreSQL's grammar does, by the token that follows: `PREPARE transaction AS ...` names a statement.

mod setting;

use super::command::{self, Command};
use super::{Action, Begin, Class, Discard, Isolation, Transfer};
use crate::text::cursor::Cursor;
use crate::text::token::{Dialect, Kind};

/// Reads on after the command.
pub(super) fn read<'a>(cursor: &mut Cursor<'a>, class: &mut Class<'a>, dialect: Dialect) {
    let action = match class.command {
        // Most statements: there is nothing more to read.
        Command::Select | Command::Insert | Command::Update | Command::Delete => None,
        Command::Begin => Some(Action::Begin(begin(cursor, dialect))),
        Command::Start => cursor.eat("TRANSACTION").then(|| Action::Begin(modes(cursor))),
        Command::Commit | Command::Rollback => end(cursor, class.command),
        Command::Savepoint => cursor.name().map(Action::Savepoint),
        Command::Release => savepoint(cursor).map(Action::Release),
        Command::Set => setting::set(cursor, dialect),
        Command::Reset => setting::reset(cursor),
        Command::Show => setting::variable(cursor).map(Action::Show),
        Command::Listen => cursor.name().map(Action::Listen),
        Command::Unlisten => all_or_name(cursor).map(Action::Unlisten),
        Command::Notify => cursor.name().map(Action::Notify),
        Command::Prepare => prepare(cursor, class),
        Command::Execute => cursor.name().map(Action::Execute),
        Command::Deallocate => deallocate(cursor),
        Command::Discard => discard(cursor).map(Action::Discard),
        Command::Declare => declare(cursor, class),
        Command::Close => all_or_name(cursor).map(Action::Close),
        Command::Copy => copy(cursor, class),
        Command::Explain => explain(cursor, class),
        Command::Create | Command::Alter | Command::Drop | Command::Import => {
            shape(cursor, class);
            None
        }
        _ => None,
    };
    class.action = action.unwrap_or(Action::None);
}

/// `BEGIN`, in SQLite with the lock that it takes.
fn begin(cursor: &mut Cursor<'_>, dialect: Dialect) -> Begin {
    if dialect == Dialect::Sqlite {
        cursor.eat_any(&["DEFERRED", "IMMEDIATE", "EXCLUSIVE"]);
        cursor.eat("TRANSACTION");
        return Begin::default();
    }
    cursor.eat_any(&["WORK", "TRANSACTION"]);
    modes(cursor)
}

/// The modes of a transaction. They may be separated by commas.
fn modes(cursor: &mut Cursor<'_>) -> Begin {
    let mut begin = Begin::default();
    loop {
        let mut ahead = cursor.clone();
        if begin != Begin::default() {
            ahead.eat_kind(Kind::Comma);
        }
        let mut next = begin;
        if !mode(&mut ahead, &mut next) {
            return begin;
        }
        (begin, *cursor) = (next, ahead);
    }
}

fn mode(cursor: &mut Cursor<'_>, begin: &mut Begin) -> bool {
    if cursor.eat("ISOLATION") {
        begin.isolation = if !cursor.eat("LEVEL") {
            None
        } else if cursor.eat("SERIALIZABLE") {
            Some(Isolation::Serializable)
        } else if cursor.eat("REPEATABLE") {
            cursor.eat("READ").then_some(Isolation::RepeatableRead)
        } else if !cursor.eat("READ") {
            None
        } else if cursor.eat("COMMITTED") {
            Some(Isolation::ReadCommitted)
        } else {
            cursor.eat("UNCOMMITTED").then_some(Isolation::ReadUncommitted)
        };
        return begin.isolation.is_some();
    }
    if cursor.eat("READ") {
        let is_read_only = cursor.eat("ONLY");
        begin.is_read_only = Some(is_read_only);
        return is_read_only || cursor.eat("WRITE");
    }
    let is_not = cursor.eat("NOT");
    if cursor.eat("DEFERRABLE") {
        begin.is_deferrable = Some(!is_not);
        return true;
    }
    false
}

/// `COMMIT` and `ROLLBACK` in all their forms.
fn end<'a>(cursor: &mut Cursor<'a>, command: Command) -> Option<Action<'a>> {
    if cursor.eat("PREPARED") {
        cursor.eat_kind(Kind::String)?;
        return Some(Action::FinishPrepared);
    }
    cursor.eat_any(&["WORK", "TRANSACTION"]);
    if command == Command::Rollback && cursor.eat("TO") {
        return savepoint(cursor).map(Action::RollbackTo);
    }
    let mut chains = false;
    let mut ahead = cursor.clone();
    if ahead.eat("AND") {
        let is_no = ahead.eat("NO");
        if ahead.eat("CHAIN") {
            chains = !is_no;
            *cursor = ahead;
        }
    }
    Some(match command {
        Command::Commit => Action::Commit { chains },
        _ => Action::Rollback { chains },
    })
}

/// The name of a savepoint, after `SAVEPOINT` or without it.
fn savepoint<'a>(cursor: &mut Cursor<'a>) -> Option<std::borrow::Cow<'a, str>> {
    after(cursor, "SAVEPOINT")
}

/// A name after a word that may be left out. If nothing follows the word, it is the name.
fn after<'a>(cursor: &mut Cursor<'a>, word: &str) -> Option<std::borrow::Cow<'a, str>> {
    if cursor.is_word(word) {
        let mut ahead = cursor.clone();
        ahead.next();
        if let Some(name) = ahead.name() {
            *cursor = ahead;
            return Some(name);
        }
    }
    cursor.name()
}

/// None within for `ALL` and `*`.
fn all_or_name<'a>(cursor: &mut Cursor<'a>) -> Option<Option<std::borrow::Cow<'a, str>>> {
    if cursor.eat("ALL") || cursor.eat_sign("*") {
        return Some(None);
    }
    cursor.name().map(Some)
}

fn deallocate<'a>(cursor: &mut Cursor<'a>) -> Option<Action<'a>> {
    let mut ahead = cursor.clone();
    if ahead.eat("PREPARE") && !ahead.is_end() {
        *cursor = ahead;
    }
    all_or_name(cursor).map(Action::Deallocate)
}

fn prepare<'a>(cursor: &mut Cursor<'a>, class: &mut Class<'a>) -> Option<Action<'a>> {
    let mut ahead = cursor.clone();
    if ahead.eat("TRANSACTION") && ahead.eat_kind(Kind::String).is_some() {
        *cursor = ahead;
        return Some(Action::PrepareTransaction);
    }
    let name = cursor.name()?;
    cursor.skip_parentheses();
    if cursor.eat("AS") {
        inner(cursor, class);
    }
    Some(Action::Prepare(name))
}

/// The command within another one.
fn inner<'a>(cursor: &mut Cursor<'a>, class: &mut Class<'a>) {
    while cursor.eat_kind(Kind::Open).is_some() {}
    class.inner = Some(command::next(cursor));
}

fn discard(cursor: &mut Cursor<'_>) -> Option<Discard> {
    let word = cursor.eat_kind(Kind::Word)?;
    let known = [
        ("ALL", Discard::All),
        ("PLANS", Discard::Plans),
        ("SEQUENCES", Discard::Sequences),
        ("TEMP", Discard::Temporary),
        ("TEMPORARY", Discard::Temporary),
    ];
    known.into_iter().find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, what)| what)
}

/// `DECLARE name options CURSOR options FOR query`.
fn declare<'a>(cursor: &mut Cursor<'a>, class: &mut Class<'a>) -> Option<Action<'a>> {
    let name = cursor.name()?;
    let mut is_held = false;
    while !cursor.eat("FOR") {
        let is_with = cursor.is_word("WITH");
        cursor.next()?;
        is_held |= is_with && cursor.is_word("HOLD");
    }
    inner(cursor, class);
    Some(Action::Declare { name, is_held })
}

/// `COPY` of a table or a query. `FROM` and `TO` are never names.
fn copy<'a>(cursor: &mut Cursor<'a>, class: &mut Class<'a>) -> Option<Action<'a>> {
    if cursor.peek().is_some_and(|token| token.kind == Kind::Open) {
        let mut ahead = cursor.clone();
        ahead.skip_parentheses();
        let uses_client = ahead.eat("TO") && ahead.eat_any(&["STDIN", "STDOUT"]);
        inner(cursor, class);
        return Some(Action::Copy(Transfer { writes_table: false, uses_client }));
    }
    let writes_table = loop {
        if cursor.eat("FROM") {
            break true;
        }
        if cursor.eat("TO") {
            break false;
        }
        cursor.next()?;
    };
    class.writes |= writes_table;
    // The server takes both words for both directions.
    let uses_client = cursor.eat_any(&["STDIN", "STDOUT"]);
    Some(Action::Copy(Transfer { writes_table, uses_client }))
}

/// `EXPLAIN`, with its options in parentheses, as words, or SQLite's.
fn explain<'a>(cursor: &mut Cursor<'a>, class: &mut Class<'a>) -> Option<Action<'a>> {
    let mut ahead = cursor.clone();
    // A parenthesis begins the options or the query.
    if ahead.eat_kind(Kind::Open).is_some() && !is_query(&ahead) {
        class.analyzes = options_analyze(&mut ahead);
        *cursor = ahead;
    } else {
        class.analyzes = cursor.eat_any(&["ANALYZE", "ANALYSE"]);
        cursor.eat("VERBOSE");
        if cursor.eat("QUERY") {
            cursor.eat("PLAN");
        }
    }
    inner(cursor, class);
    match class.inner {
        Some(Command::Execute) => cursor.name().map(Action::Execute),
        Some(Command::Create) if class.analyzes => {
            shape(cursor, class);
            None
        }
        _ => None,
    }
}

fn is_query(cursor: &Cursor<'_>) -> bool {
    let is_open = cursor.peek().is_some_and(|token| token.kind == Kind::Open);
    is_open || ["SELECT", "WITH", "VALUES", "TABLE"].iter().any(|word| cursor.is_word(word))
}

/// Reads options to the closing parenthesis. `ANALYZE` is on unless its value is plainly off.
fn options_analyze(cursor: &mut Cursor<'_>) -> bool {
    let mut analyzes = false;
    while let Some(token) = cursor.peek() {
        if cursor.eat_any(&["ANALYZE", "ANALYSE"]) {
            let text = cursor.text();
            let value = cursor.peek().map_or("", |token| token.text(text));
            let is_off = ["OFF", "FALSE", "0", "'off'", "'false'", "'0'"]
                .iter()
                .any(|off| value.eq_ignore_ascii_case(off));
            // The last of several counts; but a doubt is not removed.
            analyzes |= !is_off;
            continue;
        }
        cursor.next();
        if token.kind == Kind::Close {
            break;
        }
    }
    analyzes
}

/// Objects whose change leaves the results of other statements as they are.
const WITHOUT_SHAPE: &[&str] = &[
    "INDEX",
    "UNIQUE",
    "ROLE",
    "GROUP",
    "DATABASE",
    "TABLESPACE",
    "PUBLICATION",
    "SUBSCRIPTION",
    "STATISTICS",
    "SYSTEM",
    "TRIGGER",
    "POLICY",
    "SEQUENCE",
];

/// `CREATE`, `ALTER`, `DROP` and `IMPORT`: whether the object is temporary, and whether it has a shape.
fn shape<'a>(cursor: &mut Cursor<'a>, class: &mut Class<'a>) {
    if cursor.eat("OR") {
        cursor.eat("REPLACE");
    }
    cursor.eat_any(&["LOCAL", "GLOBAL"]);
    if cursor.eat_any(&["TEMP", "TEMPORARY"]) {
        class.is_temporary = true;
    }
    class.reshapes = !cursor.eat_any(WITHOUT_SHAPE);
}
