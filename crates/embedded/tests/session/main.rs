//! Drives a session with raw messages, as a client does. Cases are data: what is sent, and a transcript of the answer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod cases;
mod manage;

use paceline_embedded::{Database, Management, Options, Place, Session, SessionInfo, Type};
use paceline_postgres::wire::backend::{Message as Answer, Status};
use paceline_postgres::wire::frame::{Side, Walk};
use paceline_postgres::wire::frontend::{self, BindNames, Execute, Message, Object, Target};
use paceline_postgres::wire::kind::server;
use paceline_postgres::wire::{Format, backend};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A database of its own in memory, and a session of it.
pub fn open(options: Options, management: Arc<dyn Management>) -> (Database, Session) {
    let name = format!("db{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let database = Database::open(Place::Memory(name), options).unwrap();
    let session = another(&database, management);
    (database, session)
}

pub fn another(database: &Database, management: Arc<dyn Management>) -> Session {
    let info =
        SessionInfo { user: "alice".into(), database: "notes".into(), ..SessionInfo::default() };
    Session::new(database, info, management).unwrap()
}

/// Sends what the lines say and returns the transcript, one answer per line.
///
/// A line is a Query, or one of: `P name types | text`, `B portal statement | a | b`, `b` the same with binary
/// results, `DS name`, `DP name`, `E portal rows`, `CS name`, `S`, `d data`, `c`, `f text`.
pub fn talk(session: &mut Session, lines: &[&str]) -> Vec<String> {
    let mut out = vec![];
    for line in lines {
        let mut bytes = vec![];
        message(&mut bytes, line);
        let mut walk = Walk::new(Side::client(1 << 30), &bytes);
        while let Some(framed) = walk.step().unwrap() {
            let message = Message::read(framed.kind, framed.body()).unwrap();
            session.handle(message, &mut out).unwrap();
        }
    }
    transcript(&out)
}

fn message(out: &mut Vec<u8>, line: &str) {
    let (head, rest) = line.split_once(" | ").unwrap_or((line, ""));
    let words: Vec<&str> = head.split(' ').collect();
    let name =
        |at: usize| words.get(at).copied().filter(|word| *word != "-").unwrap_or("").as_bytes();
    match words[0] {
        "P" => {
            let types = words.iter().skip(2).map(|oid| oid.parse().unwrap());
            frontend::parse(out, name(1), rest.as_bytes(), types);
        }
        "B" | "b" => {
            let values: Vec<Option<&[u8]>> = match rest {
                "" => vec![],
                rest => rest.split(" | ").map(|v| (v != "NULL").then_some(v.as_bytes())).collect(),
            };
            let names = BindNames { portal: name(1), statement: name(2) };
            let format = if words[0] == "b" { Format::Binary } else { Format::Text };
            frontend::bind(out, names, [], values, [format]);
        }
        "DS" => frontend::describe(out, Target { object: Object::Statement, name: name(1) }),
        "DP" => frontend::describe(out, Target { object: Object::Portal, name: name(1) }),
        "E" => {
            let rows = words.get(2).map_or(0, |rows| rows.parse().unwrap());
            frontend::execute(out, Execute { portal: name(1), rows });
        }
        "CS" => frontend::close(out, Target { object: Object::Statement, name: name(1) }),
        "S" if words.len() == 1 => frontend::sync(out),
        "d" => {
            frontend::copy_data(out, line[2..].replace("\\n", "\n").replace("\\t", "\t").as_bytes())
                .unwrap()
        }
        "c" if words.len() == 1 => frontend::copy_done(out),
        "f" => frontend::copy_fail(out, name(1)),
        _ => frontend::query(out, line.as_bytes()),
    }
}

fn transcript(bytes: &[u8]) -> Vec<String> {
    let mut walk = Walk::new(Side::SERVER, bytes);
    let mut lines = vec![];
    while let Some(framed) = walk.step().unwrap() {
        let answer = Answer::read(framed.kind, framed.body()).unwrap();
        if framed.kind != server::PARAMETER_STATUS {
            lines.push(shown(framed.kind, framed.body(), &answer));
        }
    }
    assert_eq!(walk.rest(), b"", "the last message is not whole");
    lines
}

fn shown(kind: u8, body: &[u8], answer: &Answer<'_>) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match answer {
        Answer::ReadyForQuery(Status::Idle) => "Z I".into(),
        Answer::ReadyForQuery(Status::InTransaction) => "Z T".into(),
        Answer::ReadyForQuery(Status::Failed) => "Z E".into(),
        Answer::CommandComplete(tag) => format!("C {}", text(tag)),
        Answer::RowDescription(columns) => {
            let column = |column: backend::Column<'_>| {
                format!("{}:{}", text(column.name), Type::of_oid(column.type_oid).unwrap().name())
            };
            format!("T {}", columns.iter().map(column).collect::<Vec<_>>().join(" "))
        }
        Answer::DataRow(values) => {
            let value = |value: Option<&[u8]>| {
                value.map_or("NULL".into(), |bytes| {
                    if bytes.iter().any(|byte| *byte < 9) {
                        format!("{bytes:02x?}")
                    } else {
                        text(bytes)
                    }
                })
            };
            format!("D {}", values.iter().map(value).collect::<Vec<_>>().join("|"))
        }
        Answer::ErrorResponse(fields) => format!("E {}", fields.state().unwrap()),
        Answer::NoticeResponse(fields) => format!("N {}", fields.state().unwrap()),
        Answer::ParameterDescription(types) => {
            let names: Vec<&str> =
                types.iter().map(|oid| Type::of_oid(oid).unwrap().name()).collect();
            format!("t {}", names.join(" "))
        }
        Answer::CopyData(data) => format!("d {}", text(data).trim_end()),
        _ if body.is_empty() => char::from(kind).to_string(),
        _ => format!("{} ...", char::from(kind)),
    }
}

/// Sends the lines to a new session, and compares the transcript.
#[track_caller]
pub fn check(lines: &[&str], expected: &[&str]) {
    let (_database, mut session) = open(Options::default(), Arc::new(manage::Pools::default()));
    assert_eq!(talk(&mut session, lines), expected, "{lines:#?}");
}
