//! Single behaviours, effect by effect.

use super::server::show;
use crate::relay::{
    BATCH_BYTES_MAX, CLIENT_STATEMENTS_MAX, Effect, Parameters, Pin, Pooling, Relay,
};
use crate::relay::{SERVER_STATEMENTS_MAX, STATEMENT_BYTES_MAX, Server, TEXTS_BYTES_MAX};
use crate::wire::backend::{self, Status};
use crate::wire::frame::{Framed, Side, Walk};
use crate::wire::frontend::{self, BindNames, Execute, Message, Object, Target};
use crate::wire::report::Report;
use crate::wire::{SqlState, kind};

struct Case {
    relay: Relay,
    epoch: u64,
    server: Option<Box<Server>>,
}

impl Case {
    fn new() -> Self {
        let relay = Relay::new(Pooling::Transaction, Parameters::new());
        Self { relay, epoch: 1, server: Some(Box::new(Server::new(Parameters::new()))) }
    }

    /// The client sends messages; everything is admitted, passes and is linked.
    fn client(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut bytes = vec![];
        write(&mut bytes);
        let mut walk = Walk::new(Side::client(1 << 24), &bytes);
        let mut done = String::new();
        while let Some(message) = walk.step().unwrap() {
            self.relay.client(message);
            done += &self.effects(message.bytes);
        }
        done
    }

    fn server(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut bytes = vec![];
        write(&mut bytes);
        let mut walk = Walk::new(Side::SERVER, &bytes);
        let mut done = String::new();
        while let Some(message) = walk.step().unwrap() {
            self.relay.server(message);
            done += &self.effects(message.bytes);
        }
        done
    }

    fn effects(&mut self, input: &[u8]) -> String {
        let mut done = String::new();
        while let Some(effect) = self.relay.poll_effect() {
            done += &match effect {
                Effect::Client(range) => shown(&self.relay.client_bytes()[range]),
                Effect::ClientInput => shown(input),
                Effect::Server(range) => sent(&self.relay.server_bytes()[range]),
                Effect::ServerInput => sent(input),
                Effect::Admit => {
                    let texts: Vec<&str> = self.relay.texts().collect();
                    let text = format!("admit {texts:?}|");
                    self.relay.admitted();
                    text
                }
                Effect::Check => {
                    let texts: Vec<&str> = self.relay.texts().collect();
                    let text = format!("check {texts:?}|");
                    self.relay.checked(None);
                    text
                }
                Effect::Link => {
                    self.relay.linked(self.server.take().unwrap(), self.epoch);
                    "link|".into()
                }
                Effect::Release(server, reuse) => {
                    self.server = Some(server);
                    format!("release {reuse:?}|")
                }
                effect => format!("{effect:?}|"),
            };
        }
        done
    }
}

fn shown(bytes: &[u8]) -> String {
    let mut walk = Walk::new(Side::SERVER, bytes);
    let mut done = String::new();
    while let Some(message) = walk.step().unwrap() {
        done += &format!("<{}|", show(message.bytes));
    }
    done
}

fn sent(bytes: &[u8]) -> String {
    let mut walk = Walk::new(Side::client(1 << 24), bytes);
    let mut done = String::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    while let Some(message) = walk.step().unwrap() {
        done += &match Message::read(message.kind, message.body()).unwrap() {
            Message::Query(query) => format!(">query {}|", text(query)),
            Message::Parse(parse) => format!(">parse {} {}|", text(parse.name), text(parse.query)),
            Message::Bind(bind) => format!(">bind {}|", text(bind.statement)),
            Message::Describe(target) => format!(">describe {}|", text(target.name)),
            Message::Close(target) => format!(">close {}|", text(target.name)),
            Message::Execute(_) => ">execute|".into(),
            message => format!(">{message:?}|"),
        };
    }
    done
}

fn run(name: &[u8]) -> impl FnOnce(&mut Vec<u8>) {
    move |out| {
        frontend::bind(out, BindNames { portal: b"", statement: name }, [], [], []);
        frontend::execute(out, Execute { portal: b"", rows: 0 });
        frontend::sync(out);
    }
}

fn prepare(name: &[u8], text: &[u8]) -> impl FnOnce(&mut Vec<u8>) {
    move |out| {
        frontend::parse(out, name, text, []);
        frontend::sync(out);
    }
}

fn ready(out: &mut Vec<u8>) {
    backend::ready_for_query(out, Status::Idle);
}

fn parsed(out: &mut Vec<u8>) {
    backend::parse_complete(out);
    ready(out);
}

fn ran(out: &mut Vec<u8>) {
    backend::bind_complete(out);
    backend::command_complete(out, b"SELECT 0");
    ready(out);
}

#[test]
fn a_batch_is_admitted_once_and_its_statements_get_our_names() {
    let mut case = Case::new();
    let done = case.client(prepare(b"a", b"SELECT 1"));
    assert_eq!(done, "admit [\"SELECT 1\"]|link|>parse pl_1 SELECT 1|>Sync|");
    assert!(!case.relay.wants_client(), "one batch at a time");
    assert_eq!(case.server(parsed), "<ParseComplete|<ready I|Settle|release Clean|");
    assert_eq!(case.client(run(b"a")), "admit [\"SELECT 1\"]|link|>bind pl_1|>execute|>Sync|");
    case.server(ran);
    // Another name of the same text: nothing but the Sync is sent, and ParseComplete is the relay's.
    let done = case.client(prepare(b"b", b"SELECT 1"));
    assert_eq!(done, "admit [\"SELECT 1\"]|link|<ParseComplete|>Sync|");
    case.server(ready);
    // Other types are another statement.
    let done = case.client(|out| {
        frontend::parse(out, b"c", b"SELECT 1", [23]);
        frontend::sync(out);
    });
    assert!(done.ends_with(">parse pl_2 SELECT 1|>Sync|"), "{done}");
}

#[test]
fn rows_need_no_call() {
    let mut case = Case::new();
    case.client(|out| frontend::query(out, b"SELECT 1"));
    assert!(case.relay.passes().has(kind::server::DATA_ROW));
    assert!(!case.relay.passes().has(kind::server::READY_FOR_QUERY));
    case.server(|out| {
        backend::command_complete(out, b"SELECT 1");
        ready(out);
    });
    assert!(!case.relay.passes().has(kind::server::DATA_ROW));
}

#[test]
fn every_statement_of_a_query_is_offered() {
    let mut case = Case::new();
    let done = case.client(|out| frontend::query(out, b"SELECT 1; DELETE FROM t; SELECT ';'"));
    assert!(done.starts_with("admit [\"SELECT 1\", \"DELETE FROM t\", \"SELECT ';'\"]|"), "{done}");
}

#[test]
fn begin_with_options_is_confirmed_before_the_statement() {
    let mut case = Case::new();
    let begin = b"BEGIN ISOLATION LEVEL SERIALIZABLE";
    assert_eq!(case.client(|out| frontend::query(out, begin)), "<BEGIN|<ready T|");
    let done = case.client(|out| frontend::query(out, b"SELECT 1"));
    let begin = "BEGIN ISOLATION LEVEL SERIALIZABLE";
    assert_eq!(done, format!("admit [\"SELECT 1\"]|link|>query {begin}|"));
    let failure = Report::error(SqlState::FEATURE_NOT_SUPPORTED, "standby");
    let done = case.server(|out| {
        failure.write(out);
        ready(out);
    });
    assert_eq!(done, "<error 0A000|<ready E|Settle|release Clean|");
    assert_eq!(case.client(|out| frontend::query(out, b"COMMIT")), "<ROLLBACK|<ready I|");
}

#[test]
fn a_spoiled_plan_is_closed_and_parsed_again() {
    let mut case = Case::new();
    case.client(prepare(b"a", b"SELECT 1"));
    case.server(parsed);
    case.client(run(b"a"));
    let done = case.server(|out| {
        let body = b"SERROR\0C0A000\0Mchanged\0RRevalidateCachedQuery\0\0";
        out.push(b'E');
        out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        out.extend_from_slice(body);
        ready(out);
    });
    assert!(done.starts_with("<error 0A000|<ready I|"), "{done}");
    let done = case.client(run(b"a"));
    assert!(
        done.ends_with(">close pl_1|>parse pl_2 SELECT 1|>bind pl_2|>execute|>Sync|"),
        "{done}"
    );
}

#[test]
fn a_change_of_shape_raises_the_epoch_and_statements_are_parsed_again() {
    let mut case = Case::new();
    case.client(prepare(b"a", b"SELECT 1"));
    case.server(parsed);
    case.client(|out| frontend::query(out, b"ALTER TABLE t ADD b int"));
    let done = case.server(|out| {
        backend::command_complete(out, b"ALTER TABLE");
        ready(out);
    });
    assert_eq!(done, "<ALTER TABLE|<ready I|Reshaped|Settle|release Clean|");
    case.epoch = 2;
    let done = case.client(run(b"a"));
    assert!(
        done.ends_with(">close pl_1|>parse pl_2 SELECT 1|>bind pl_2|>execute|>Sync|"),
        "{done}"
    );
}

#[test]
fn the_least_recently_used_statement_leaves_a_full_server() {
    let mut case = Case::new();
    for number in 0..=SERVER_STATEMENTS_MAX {
        let name = format!("s{number}");
        let done = case.client(prepare(name.as_bytes(), format!("SELECT {number}").as_bytes()));
        let closes = done.contains(">close pl_1|");
        assert_eq!(closes, number == SERVER_STATEMENTS_MAX, "{done}");
        case.server(|out| {
            if closes {
                backend::close_complete(out);
            }
            parsed(out);
        });
    }
    assert_eq!(case.server.as_ref().unwrap().statements_len(), SERVER_STATEMENTS_MAX);
}

#[test]
fn names_of_a_client_have_a_maximum() {
    let mut case = Case::new();
    case.client(prepare(b"first", b"SELECT 1"));
    case.server(parsed);
    for number in 1..CLIENT_STATEMENTS_MAX {
        case.client(prepare(format!("s{number}").as_bytes(), b"SELECT 1"));
        case.server(ready);
    }
    let done = case.client(prepare(b"last", b"SELECT 1"));
    assert!(done.ends_with(">describe pl_0|>Sync|"), "{done}");
    let done = case.server(|out| {
        Report::error(SqlState::INVALID_STATEMENT_NAME, "no").write(out);
        ready(out);
    });
    assert!(done.starts_with("<error 53400|<ready I|"), "{done}");
}

#[test]
fn long_texts_of_a_client_have_a_maximum_in_all() {
    let mut case = Case::new();
    let long = vec![b' '; STATEMENT_BYTES_MAX];
    for number in 0..TEXTS_BYTES_MAX / STATEMENT_BYTES_MAX {
        case.client(prepare(format!("s{number}").as_bytes(), &long));
        case.server(if number == 0 { parsed } else { ready });
    }
    let done = case.client(prepare(b"last", &long));
    assert!(done.ends_with(">describe pl_0|>Sync|"), "{done}");
}

#[test]
fn texts_that_rules_cannot_read_are_refused_without_a_server() {
    let mut case = Case::new();
    for (text, answer) in [
        (&b"SELECT '\xff'"[..], "<error 22021|<ready I|"),
        (&vec![b' '; STATEMENT_BYTES_MAX + 1], "<error 54000|<ready I|"),
        (b"EXECUTE pl_1", "<error 26000|<ready I|"),
        (b"SELECT 1; DEALLOCATE a", "<error 0A000|<ready I|"),
    ] {
        assert_eq!(case.client(|out| frontend::query(out, text)), answer);
    }
    let call = |out: &mut Vec<u8>| {
        frontend::function_call(out, 1, [], [], crate::wire::Format::Text);
    };
    assert_eq!(case.client(call), "<error 0A000|<ready I|");
}

#[test]
fn a_long_batch_is_sent_before_its_sync() {
    let mut case = Case::new();
    let done = case.client(|out| {
        frontend::parse(out, b"", &vec![b' '; BATCH_BYTES_MAX], []);
        frontend::describe(out, Target { object: Object::Statement, name: b"" });
    });
    assert!(done.starts_with("admit []|link|>parse "), "{}", &done[..40]);
    assert!(done.ends_with("|>describe |"));
}

#[test]
fn a_pinned_client_keeps_its_server_until_discard_all() {
    let mut case = Case::new();
    case.client(|out| frontend::query(out, b"CREATE TEMP TABLE t (a int)"));
    case.server(|out| {
        backend::command_complete(out, b"CREATE TABLE");
        ready(out);
    });
    assert_eq!((case.relay.pinned(), case.relay.is_linked()), (Some(Pin::Temporary), true));
    assert_eq!(
        case.client(|out| frontend::query(out, b"DISCARD ALL")),
        "admit []|>query DISCARD ALL|"
    );
    let done = case.server(|out| {
        backend::command_complete(out, b"DISCARD ALL");
        ready(out);
    });
    assert_eq!(done, "<DISCARD ALL|<ready I|Settle|release Clean|");
}

#[test]
fn a_server_that_dies_in_a_transaction_ends_the_connection() {
    let mut case = Case::new();
    case.client(|out| {
        frontend::query(out, b"BEGIN");
        frontend::query(out, b"SELECT 1");
    });
    let fatal = Report::fatal(SqlState::ADMIN_SHUTDOWN, "shutdown");
    assert_eq!(case.server(|out| fatal.write(out)), "");
    case.relay.server_gone(false);
    assert_eq!(case.effects(b""), "Settle|<error 57P01|Close|");
    // Outside of one, the connection lives.
    let mut case = Case::new();
    case.client(|out| frontend::query(out, b"SELECT 1"));
    case.relay.server_gone(false);
    assert_eq!(case.effects(b""), "Settle|<error 08006|<ready I|");
    assert!(case.relay.wants_client());
}

#[test]
fn a_client_that_leaves_in_a_copy_message_takes_the_server_with_it() {
    let mut case = Case::new();
    case.client(|out| frontend::query(out, b"COPY t FROM STDIN"));
    case.server(|out| backend::copy_in_response(out, Default::default(), []));
    let mut data = vec![];
    frontend::copy_data(&mut data, b"0123456789").unwrap();
    case.relay.client(Framed { kind: kind::client::COPY_DATA, bytes: &data[..8] });
    assert!(matches!(case.relay.poll_effect(), Some(Effect::ServerInput)));
    case.relay.client_body(5);
    case.relay.client_gone();
    assert_eq!(case.effects(b""), "CancelUpstream|release Close|Settle|");
}

#[test]
fn an_unexpected_answer_closes_the_server() {
    let mut case = Case::new();
    case.client(|out| frontend::query(out, b"SELECT 1"));
    assert_eq!(case.server(backend::bind_complete), "release Close|Settle|<error 08P01|Close|");
}
