//! A naive PostgreSQL: a key-value store with transactions behind a tiny SQL, and both protocols.
//!
//! The same code is the pooled server and the private server that a client's answers are compared with.

use crate::wire::backend::{self, Column, DataRow, RowDescription, Status};
use crate::wire::frame::{Side, Walk};
use crate::wire::frontend::{Message, Object};
use crate::wire::kind::{client, server};
use crate::wire::report::Report;
use crate::wire::{Format, SqlState};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub type Store = BTreeMap<String, String>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    None,
    Open,
    Failed,
}

/// A session of the naive server.
#[derive(Clone, Debug)]
pub struct Session {
    pub block: Block,
    /// What the transaction has written.
    tx: Store,
    statements: BTreeMap<Vec<u8>, String>,
    /// The text of a portal, and whether it has run.
    portals: BTreeMap<Vec<u8>, (String, bool)>,
    is_skipping: bool,
    /// The key that COPY writes, its data, and whether the extended protocol began it.
    copy: Option<(String, String, bool)>,
    pub name: String,
    name_before: String,
    name_reported: String,
    pub is_listening: bool,
    start_name: String,
    /// How many statements were run, and which of them are cancelled.
    pub runs: u64,
    pub canceled: BTreeSet<u64>,
    /// Whether the next statement is cancelled.
    pub is_canceled: bool,
    pub cuts: Vec<u64>,
    pub out: VecDeque<Vec<u8>>,
}

type Failure = &'static str;

impl Session {
    pub fn new(name: &str) -> Self {
        Self {
            block: Block::None,
            tx: Store::new(),
            statements: BTreeMap::new(),
            portals: BTreeMap::new(),
            is_skipping: false,
            copy: None,
            name: name.into(),
            name_before: name.into(),
            name_reported: name.into(),
            is_listening: false,
            start_name: name.into(),
            runs: 0,
            canceled: BTreeSet::new(),
            is_canceled: false,
            cuts: vec![],
            out: VecDeque::new(),
        }
    }

    pub fn is_quiet(&self) -> bool {
        self.block == Block::None && self.copy.is_none() && !self.is_skipping && self.tx.is_empty()
    }

    pub fn statements_len(&self) -> usize {
        self.statements.keys().filter(|name| !name.is_empty()).count()
    }

    /// The error that the model puts in the place of a message.
    pub fn inject(&mut self, kind: u8, code: &str, store: &mut Store) {
        if self.copy.is_some() {
            return self.copy(Message::Terminate, store);
        }
        if kind == client::QUERY && !self.is_skipping {
            self.statements.remove(&b""[..]);
            self.portals.remove(&b""[..]);
            self.error(code);
            self.ready(store);
        } else if !self.is_skipping {
            self.error(code);
            self.is_skipping = true;
        }
    }

    pub fn feed(&mut self, bytes: &[u8], store: &mut Store) {
        let mut walk = Walk::new(Side::client(1 << 20), bytes);
        let framed = walk.step().unwrap().unwrap();
        assert_eq!(walk.rest(), b"");
        let message = Message::read(framed.kind, framed.body()).unwrap();
        if self.copy.is_some() {
            return self.copy(message, store);
        }
        if self.is_skipping && message != Message::Sync {
            return;
        }
        let result = match message {
            Message::Query(text) => {
                self.query(std::str::from_utf8(text).unwrap(), store);
                Ok(())
            }
            Message::Sync => {
                self.is_skipping = false;
                self.ready(store);
                Ok(())
            }
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) | Message::Flush => {
                Ok(())
            }
            message => self.extended(message, store),
        };
        if let Err(code) = result {
            self.error(code);
            self.is_skipping = true;
        }
    }

    fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut out = vec![];
        write(&mut out);
        self.out.push_back(out);
    }

    fn error(&mut self, code: &str) {
        if self.block == Block::Open {
            self.block = Block::Failed;
        }
        self.rollback();
        let state = SqlState::read(code.as_bytes()).unwrap();
        self.push(|out| Report::error(state, "failed").write(out));
    }

    fn rollback(&mut self) {
        self.tx.clear();
        self.name = self.name_before.clone();
    }

    fn commit(&mut self, store: &mut Store) {
        store.append(&mut self.tx);
        self.name_before = self.name.clone();
    }

    /// Ends the implicit transaction.
    fn ready(&mut self, store: &mut Store) {
        if self.block == Block::None {
            self.commit(store);
            self.portals.clear();
        }
        if self.name != self.name_reported {
            self.name_reported = self.name.clone();
            let name = self.name.clone();
            self.push(|out| backend::parameter_status(out, b"application_name", name.as_bytes()));
        }
        self.is_canceled = false;
        let status = match self.block {
            Block::None => Status::Idle,
            Block::Open => Status::InTransaction,
            Block::Failed => Status::Failed,
        };
        self.push(|out| backend::ready_for_query(out, status));
    }

    fn query(&mut self, text: &str, store: &mut Store) {
        self.statements.remove(&b""[..]);
        self.portals.remove(&b""[..]);
        if text == ")" {
            self.error("42601");
            return self.ready(store);
        }
        let statements: Vec<&str> =
            text.split(';').map(str::trim).filter(|text| !text.is_empty()).collect();
        if statements.is_empty() {
            self.push(backend::empty_query_response);
        }
        for statement in statements {
            if has_rows(statement) && self.block != Block::Failed {
                self.push(columns);
            }
            match self.run(statement, false, store) {
                Ok(()) if self.copy.is_some() => return,
                Ok(()) => {}
                Err(code) => {
                    self.error(code);
                    break;
                }
            }
        }
        self.ready(store);
    }

    fn extended(&mut self, message: Message<'_>, store: &mut Store) -> Result<(), Failure> {
        let is_failed = self.block == Block::Failed;
        match message {
            Message::Parse(parse) => {
                let text = String::from_utf8(parse.query.to_vec()).unwrap();
                if parse.name.is_empty() {
                    self.statements.remove(&b""[..]);
                }
                if is_failed && !exits(&text) {
                    return Err("25P02");
                }
                // PostgreSQL checks this after the text; which of two errors comes first does not matter.
                if self.statements.contains_key(parse.name) {
                    return Err("42P05");
                }
                if text == "badparse" {
                    return Err("42P01");
                }
                self.statements.insert(parse.name.to_vec(), text);
                self.push(backend::parse_complete);
            }
            Message::Bind(bind) => {
                let text = self.statements.get(bind.statement).ok_or("26000")?.clone();
                if is_failed && !exits(&text) {
                    return Err("25P02");
                }
                if !bind.portal.is_empty() && self.portals.contains_key(bind.portal) {
                    return Err("42P03");
                }
                self.portals.insert(bind.portal.to_vec(), (text, false));
                self.push(backend::bind_complete);
            }
            Message::Describe(target) => {
                let is_statement = target.object == Object::Statement;
                let text = match target.object {
                    Object::Statement => self.statements.get(target.name).ok_or("26000")?,
                    Object::Portal => &self.portals.get(target.name).ok_or("34000")?.0,
                };
                let (rows, is_exit) = (has_rows(text), exits(text));
                if is_failed && !is_exit {
                    return Err("25P02");
                }
                if is_statement {
                    self.push(|out| backend::parameter_description(out, []));
                }
                self.push(|out| if rows { columns(out) } else { backend::no_data(out) });
            }
            Message::Execute(execute) => {
                let (text, is_done) = self.portals.get_mut(execute.portal).ok_or("34000")?;
                if is_failed && !exits(text) {
                    return Err("25P02");
                }
                if std::mem::replace(is_done, true) {
                    return Err("55000");
                }
                let text = text.clone();
                self.run(&text, true, store)?;
            }
            Message::Close(target) => {
                match target.object {
                    Object::Statement => _ = self.statements.remove(target.name),
                    Object::Portal => _ = self.portals.remove(target.name),
                }
                self.push(backend::close_complete);
            }
            message => panic!("{message:?}"),
        }
        Ok(())
    }

    fn run(&mut self, text: &str, is_extended: bool, store: &mut Store) -> Result<(), Failure> {
        let words: Vec<&str> = text.split_whitespace().collect();
        if self.block == Block::Failed && !exits(text) {
            return Err("25P02");
        }
        if words.first() == Some(&"put") || words.first() == Some(&"get") {
            self.runs += 1;
            let is_canceled = std::mem::take(&mut self.is_canceled);
            if is_canceled || self.canceled.contains(&self.runs) {
                self.cuts.push(self.runs);
                return Err("57014");
            }
        }
        match words[..] {
            ["BEGIN", ..] => {
                if self.block == Block::None {
                    self.block = Block::Open;
                } else {
                    self.push(|out| Report::notice("already").write(out));
                }
                self.complete("BEGIN");
            }
            ["COMMIT"] if self.block == Block::Failed => {
                self.rollback();
                self.block = Block::None;
                self.complete("ROLLBACK");
            }
            ["COMMIT"] => {
                self.commit(store);
                self.block = Block::None;
                self.complete("COMMIT");
            }
            ["ROLLBACK"] => {
                self.rollback();
                self.block = Block::None;
                self.complete("ROLLBACK");
            }
            ["put", key, value] => {
                self.tx.insert(key.into(), value.into());
                self.complete("INSERT 0 1");
            }
            ["get", key] => {
                let value = self.tx.get(key).or_else(|| store.get(key)).cloned();
                self.row(&value.unwrap_or_default());
            }
            ["session"] => {
                let text = format!("{} {}", self.name, self.is_listening);
                self.row(&text);
            }
            ["SET", "application_name", "=", name] => {
                self.name = name.trim_matches('\'').into();
                self.complete("SET");
            }
            ["SET", "application_name", "TO", name] => {
                self.name = name.trim_matches('\'').into();
                self.complete("SET");
            }
            ["LISTEN", _] => {
                self.is_listening = true;
                self.complete("LISTEN");
            }
            ["DEALLOCATE", "ALL"] => {
                self.statements.retain(|name, _| name.is_empty());
                self.complete("DEALLOCATE ALL");
            }
            ["DEALLOCATE", name] => {
                self.statements.remove(name.as_bytes()).ok_or("26000")?;
                self.complete("DEALLOCATE");
            }
            ["DISCARD", "ALL"] => {
                if self.block != Block::None || !self.tx.is_empty() {
                    return Err("25001");
                }
                self.statements.retain(|name, _| name.is_empty());
                self.name = self.start_name.clone();
                // It commits at once.
                self.name_before = self.start_name.clone();
                self.is_listening = false;
                self.complete("DISCARD ALL");
            }
            ["copyin", key] => {
                self.copy = Some((key.into(), String::new(), is_extended));
                self.push(|out| backend::copy_in_response(out, Default::default(), []));
            }
            ["copyout", key] => {
                let value =
                    self.tx.get(key).or_else(|| store.get(key)).cloned().unwrap_or_default();
                self.push(|out| backend::copy_out_response(out, Default::default(), []));
                self.push(|out| backend::copy_data(out, value.as_bytes()).unwrap());
                self.push(backend::copy_done);
                self.complete("COPY 1");
            }
            _ => return Err("22012"),
        }
        Ok(())
    }

    fn complete(&mut self, tag: &str) {
        self.push(|out| backend::command_complete(out, tag.as_bytes()));
    }

    fn row(&mut self, value: &str) {
        self.push(|out| {
            let mut row = DataRow::begin(out);
            row.value(Some(value.as_bytes()));
            row.finish().unwrap();
        });
        self.complete("SELECT 1");
    }

    fn copy(&mut self, message: Message<'_>, store: &mut Store) {
        let Some((key, data, is_extended)) = &mut self.copy else { return };
        let is_extended = *is_extended;
        let failure = match message {
            Message::CopyData(more) => {
                data.push_str(std::str::from_utf8(more).unwrap());
                // Bad data is found while the client is still sending.
                if !data.contains('!') {
                    return;
                }
                "22P02"
            }
            Message::Sync | Message::Flush => return,
            Message::CopyDone => {
                let (key, data) = (key.clone(), data.clone());
                self.tx.insert(key, data);
                self.copy = None;
                self.complete("COPY 1");
                if !is_extended {
                    self.ready(store);
                }
                return;
            }
            _ => "57014",
        };
        self.copy = None;
        self.error(failure);
        match is_extended {
            true => self.is_skipping = true,
            false => self.ready(store),
        }
    }
}

fn exits(text: &str) -> bool {
    matches!(text, "COMMIT" | "ROLLBACK")
}

fn has_rows(text: &str) -> bool {
    text.starts_with("get") || text == "session"
}

fn columns(out: &mut Vec<u8>) {
    let mut columns = RowDescription::begin(out);
    let format = Format::Text;
    columns.column(Column {
        name: b"value",
        table: 0,
        number: 0,
        type_oid: 25,
        type_size: -1,
        type_modifier: -1,
        format,
    });
    columns.finish().unwrap();
}

/// What a message says, with only the code of an error.
pub fn show(bytes: &[u8]) -> String {
    let mut walk = Walk::new(Side::SERVER, bytes);
    let framed = walk.step().unwrap().unwrap();
    assert_eq!(walk.rest(), b"");
    match backend::Message::read(framed.kind, framed.body()).unwrap() {
        backend::Message::ErrorResponse(fields) => format!("error {}", fields.state().unwrap()),
        backend::Message::ReadyForQuery(status) => format!("ready {}", char::from(status.code())),
        _ if framed.kind == server::NOTICE_RESPONSE => "notice".into(),
        backend::Message::CommandComplete(tag) => String::from_utf8_lossy(tag).into_owned(),
        backend::Message::ParameterStatus(parameter) => {
            format!("name {}", String::from_utf8_lossy(parameter.value))
        }
        message => format!("{message:?}"),
    }
}
