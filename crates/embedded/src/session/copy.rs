//! `COPY ... FROM STDIN` and `COPY ... TO STDOUT`, in the text and csv formats.
//!
//! Data arrives in pieces of any size; rows are inserted as they are complete, within the statement's transaction. An
//! error is sent at once, and the rest of the data is dropped.

use super::control::option_value;
use super::portal::{Kept, Portal};
use super::prepare::{Output, Plan, Prepared};
use super::run::Form;
use super::{Gone, Session, Sink, Stop};
use crate::failure::{Failure, state};
use crate::token::{Tok, closing, quote_name, solids};
use crate::types::Type;
use crate::values;
use paceline_postgres::text::Kind;
use paceline_postgres::wire::backend;
use paceline_postgres::wire::frontend::Message;
use paceline_postgres::wire::{Format, SqlState};
use rusqlite::types::{Value, ValueRef};

/// How rows are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOut {
    is_csv: bool,
    delimiter: u8,
    null: String,
    quote: u8,
    has_header: bool,
}

/// Data that is arriving.
#[derive(Debug)]
pub struct CopyIn {
    insert: String,
    types: Vec<Type>,
    form: CopyOut,
    buffer: Vec<u8>,
    count: usize,
    skips_header: bool,
    is_ended: bool,
    /// The statements of the Query after this one.
    rest: Vec<String>,
    is_query: bool,
}

impl Session {
    /// Runs a COPY: writes all rows, or begins to wait for data.
    pub(super) fn copy(&mut self, text: &str, sink: &mut dyn Sink) -> Result<(), Stop> {
        let toks = solids(text);
        let (source, at) = source(&toks)?;
        let is_in = toks.get(at).is_some_and(|tok| tok.is("from"));
        let is_client = toks.get(at + 1).is_some_and(|tok| tok.is_any(&["stdin", "stdout"]));
        if !is_client {
            let message = "COPY reads and writes only STDIN and STDOUT";
            return Err(Failure::new(SqlState::INSUFFICIENT_PRIVILEGE, message).into());
        }
        let form = options(toks.get(at + 2..).unwrap_or_default())?;
        match (is_in, source) {
            (false, source) => self.copy_out(&source, &form, sink),
            (true, Source::Table { name, columns }) => self.copy_in(&name, &columns, form),
            (true, Source::Query(_)) => Err(Failure::syntax("COPY FROM needs a table").into()),
        }
    }

    fn copy_out(
        &mut self,
        source: &Source,
        form: &CopyOut,
        sink: &mut dyn Sink,
    ) -> Result<(), Stop> {
        let query = match source {
            Source::Query(query) => query.clone(),
            Source::Table { name, columns } => {
                let columns: Vec<String> = columns.iter().map(|name| quote_name(name)).collect();
                let list = if columns.is_empty() { "*".to_owned() } else { columns.join(", ") };
                format!("SELECT {list} FROM {}", quote_name(name))
            }
        };
        let prepared = self.prepare(&query, &[])?;
        let columns = prepared.columns.clone().unwrap_or_default();
        backend::copy_out_response(
            &mut self.out,
            Format::Text,
            columns.iter().map(|_| Format::Text),
        );
        if form.has_header {
            let names: Vec<Option<String>> =
                columns.iter().map(|column| Some(column.name.clone())).collect();
            form.line(&mut self.out, &names)?;
        }
        let count = self.copy_rows(prepared, form, sink)?;
        backend::copy_done(&mut self.out);
        backend::command_complete(&mut self.out, format!("COPY {count}").as_bytes());
        Ok(())
    }

    fn copy_rows(
        &mut self,
        prepared: Prepared,
        form: &CopyOut,
        sink: &mut dyn Sink,
    ) -> Result<usize, Stop> {
        let mut portal = Portal::new(std::sync::Arc::new(prepared), vec![], vec![]);
        let statement = std::sync::Arc::clone(&portal.statement);
        let Plan::Run(query) = &statement.plan else {
            return Err(Failure::unsupported("COPY of this statement").into());
        };
        self.run(query, &mut portal, Form::Copy(form), &mut Kept::default(), sink)
    }

    fn copy_in(&mut self, name: &str, columns: &[String], form: CopyOut) -> Result<(), Stop> {
        let schema = self.schema()?;
        let Some(table) = schema.table(name).filter(|table| !table.is_view) else {
            let message = format!("relation \"{name}\" does not exist");
            return Err(Failure::new(SqlState::UNDEFINED_TABLE, message).into());
        };
        let mut types = vec![];
        let mut names = vec![];
        let all: Vec<String> = table
            .columns
            .iter()
            .filter(|column| !column.is_generated)
            .map(|column| column.name.clone())
            .collect();
        for name in if columns.is_empty() { &all } else { columns } {
            let Some(column) = table.column(name) else {
                let message =
                    format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
                return Err(Failure::new(SqlState::UNDEFINED_COLUMN, message).into());
            };
            types.push(column.declared.kind);
            names.push(quote_name(&column.name));
        }
        let marks = vec!["?"; types.len()].join(", ");
        let insert = format!(
            "INSERT INTO main.{} ({}) VALUES ({marks})",
            quote_name(&table.name),
            names.join(", ")
        );
        self.begin_for(true)?;
        backend::copy_in_response(&mut self.out, Format::Text, types.iter().map(|_| Format::Text));
        self.copying = Some(CopyIn {
            insert,
            types,
            skips_header: form.has_header,
            form,
            buffer: vec![],
            count: 0,
            is_ended: false,
            rest: vec![],
            is_query: false,
        });
        Ok(())
    }

    /// Answers a message while data is arriving.
    pub(super) fn handle_copy(
        &mut self,
        message: Message<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), Gone> {
        let Some(mut copying) = self.copying.take() else { return Ok(()) };
        let done = match message {
            Message::CopyData(data) => {
                let done = copying.data(self, data);
                if done.is_ok() {
                    self.copying = Some(copying);
                    return Ok(());
                }
                done
            }
            Message::CopyDone => copying.end(self),
            Message::CopyFail(text) => {
                let text = String::from_utf8_lossy(text);
                let message = format!("COPY from stdin failed: {text}");
                Err(Failure::new(SqlState::QUERY_CANCELED, message))
            }
            // PostgreSQL ignores both while it waits for data.
            Message::Sync | Message::Flush => {
                self.copying = Some(copying);
                return Ok(());
            }
            Message::Terminate => return Ok(()),
            _ => Err(Failure::new(
                SqlState::PROTOCOL_VIOLATION,
                "unexpected message during COPY from stdin",
            )),
        };
        if done.is_ok() {
            backend::command_complete(&mut self.out, format!("COPY {}", copying.count).as_bytes());
        }
        if copying.is_query {
            let more = match done {
                Ok(()) if copying.rest.is_empty() => Ok(()),
                Ok(()) => self.statements_of_query(copying.rest, sink),
                Err(failure) => Err(failure.into()),
            };
            return self.end_query(more, sink);
        }
        if let Err(failure) = done {
            self.is_skipping = true;
            self.failed(&failure);
            self.flush(sink)?;
        }
        Ok(())
    }

    /// Says that the COPY that has just begun belongs to a Query.
    pub(super) fn copy_of_query(&mut self, rest: Vec<String>) {
        if let Some(copying) = &mut self.copying {
            copying.rest = rest;
            copying.is_query = true;
        }
    }
}

impl CopyIn {
    fn data(&mut self, session: &Session, data: &[u8]) -> Result<(), Failure> {
        self.buffer.extend_from_slice(data);
        while let Some(end) = self.row_end() {
            let row: Vec<u8> = self.buffer.drain(..=end).collect();
            self.row(session, row.strip_suffix(b"\n").unwrap_or(&row))?;
        }
        if self.buffer.len() > session.options.row_bytes_max {
            let message = format!("a row is longer than {} bytes", session.options.row_bytes_max);
            return Err(Failure::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        Ok(())
    }

    fn end(&mut self, session: &Session) -> Result<(), Failure> {
        let last = std::mem::take(&mut self.buffer);
        if last.is_empty() { Ok(()) } else { self.row(session, &last) }
    }

    /// The newline that ends the first row; in csv a newline in quotes does not.
    fn row_end(&self) -> Option<usize> {
        if !self.form.is_csv {
            return self.buffer.iter().position(|byte| *byte == b'\n');
        }
        let mut in_quotes = false;
        self.buffer.iter().position(|byte| {
            in_quotes ^= *byte == self.form.quote;
            *byte == b'\n' && !in_quotes
        })
    }

    fn row(&mut self, session: &Session, line: &[u8]) -> Result<(), Failure> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if std::mem::take(&mut self.skips_header) || self.is_ended {
            return Ok(());
        }
        if line == b"\\." {
            self.is_ended = true;
            return Ok(());
        }
        let line = std::str::from_utf8(line).map_err(|_| super::not_utf8())?;
        let fields = if self.form.is_csv {
            self.form.csv_fields(line)?
        } else {
            self.form.text_fields(line)
        };
        if fields.len() != self.types.len() {
            let message = match fields.len() < self.types.len() {
                true => "missing data for a column",
                false => "extra data after last expected column",
            };
            let place = format!("COPY, row {}", self.count + 1);
            return Err(Failure::new(state(b"22P04"), message).detail(place));
        }
        let mut row = vec![];
        for (field, kind) in fields.into_iter().zip(&self.types) {
            row.push(match field {
                Some(text) => values::from_text(&text, *kind)?,
                None => Value::Null,
            });
        }
        let explain = |error: rusqlite::Error| session.shared.guard.explain(error.into());
        session.shared.guard.start(None);
        let mut insert = session.connection.prepare_cached(&self.insert).map_err(explain)?;
        insert.execute(rusqlite::params_from_iter(row)).map_err(explain)?;
        self.count += 1;
        Ok(())
    }
}

impl CopyOut {
    /// Adds a row as CopyData.
    pub fn write(
        &self,
        out: &mut Vec<u8>,
        columns: &[Output],
        row: &rusqlite::Row<'_>,
    ) -> Result<(), Failure> {
        let mut fields = vec![];
        for (at, column) in columns.iter().enumerate() {
            fields.push(match row.get_ref(at)? {
                ValueRef::Null => None,
                value => {
                    let mut bytes = vec![];
                    values::encode(&mut bytes, value, column.declared, Format::Text)?;
                    Some(String::from_utf8_lossy(&bytes).into_owned())
                }
            });
        }
        self.line(out, &fields)
    }

    fn line(&self, out: &mut Vec<u8>, fields: &[Option<String>]) -> Result<(), Failure> {
        let mut line = vec![];
        for (at, field) in fields.iter().enumerate() {
            if at > 0 {
                line.push(self.delimiter);
            }
            match field {
                None => line.extend_from_slice(self.null.as_bytes()),
                Some(text) if self.is_csv => self.csv_field(&mut line, text),
                Some(text) => self.text_field(&mut line, text),
            }
        }
        line.push(b'\n');
        let too_long = |_| Failure::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a row is too long");
        backend::copy_data(out, &line).map_err(too_long)
    }

    fn text_field(&self, line: &mut Vec<u8>, text: &str) {
        for byte in text.bytes() {
            match byte {
                b'\\' => line.extend_from_slice(b"\\\\"),
                b'\n' => line.extend_from_slice(b"\\n"),
                b'\r' => line.extend_from_slice(b"\\r"),
                b'\t' => line.extend_from_slice(b"\\t"),
                byte if byte == self.delimiter => line.extend_from_slice(&[b'\\', byte]),
                byte => line.push(byte),
            }
        }
    }

    fn csv_field(&self, line: &mut Vec<u8>, text: &str) {
        let special = |byte: u8| {
            byte == self.quote || byte == self.delimiter || byte == b'\n' || byte == b'\r'
        };
        if !text.bytes().any(special) && text != self.null && text != "\\." {
            return line.extend_from_slice(text.as_bytes());
        }
        line.push(self.quote);
        for byte in text.bytes() {
            if byte == self.quote {
                line.push(byte);
            }
            line.push(byte);
        }
        line.push(self.quote);
    }

    fn text_fields(&self, line: &str) -> Vec<Option<String>> {
        let mut fields = vec![];
        let mut field = vec![];
        let mut raw_start = 0;
        let bytes = line.as_bytes();
        let mut at = 0;
        let finish = |field: &mut Vec<u8>, raw: &str, fields: &mut Vec<Option<String>>| {
            let text = String::from_utf8_lossy(field).into_owned();
            fields.push((raw != self.null).then_some(text));
            field.clear();
        };
        while let Some(&byte) = bytes.get(at) {
            at += 1;
            if byte == self.delimiter {
                finish(&mut field, line.get(raw_start..at - 1).unwrap_or_default(), &mut fields);
                raw_start = at;
            } else if byte == b'\\' {
                let next = bytes.get(at).copied().unwrap_or(b'\\');
                at += 1;
                field.push(match next {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'f' => 12,
                    b'v' => 11,
                    other => other,
                });
            } else {
                field.push(byte);
            }
        }
        finish(&mut field, line.get(raw_start..).unwrap_or_default(), &mut fields);
        fields
    }

    fn csv_fields(&self, line: &str) -> Result<Vec<Option<String>>, Failure> {
        let (mut fields, mut field, mut is_quoted, mut inside) = (vec![], vec![], false, false);
        let mut bytes = line.bytes().peekable();
        let finish = |field: &mut Vec<u8>, is_quoted: bool| {
            let text = String::from_utf8_lossy(field).into_owned();
            field.clear();
            (is_quoted || text != self.null).then_some(text)
        };
        while let Some(byte) = bytes.next() {
            if inside && byte == self.quote && bytes.peek() == Some(&self.quote) {
                bytes.next();
                field.push(byte);
            } else if byte == self.quote {
                inside = !inside;
                is_quoted = true;
            } else if byte == self.delimiter && !inside {
                fields.push(finish(&mut field, is_quoted));
                is_quoted = false;
            } else {
                field.push(byte);
            }
        }
        if inside {
            return Err(Failure::new(state(b"22P04"), "unterminated CSV quoted field"));
        }
        fields.push(finish(&mut field, is_quoted));
        Ok(fields)
    }
}

/// What is copied.
enum Source {
    Query(String),
    Table { name: String, columns: Vec<String> },
}

/// Reads what is copied, and where the rest begins.
fn source(toks: &[Tok<'_>]) -> Result<(Source, usize), Failure> {
    let expected = || Failure::syntax("a table or a query is expected after COPY");
    let first = toks.get(1).ok_or_else(expected)?;
    if first.kind == Kind::Open {
        let end = closing(toks, 1);
        let words: Vec<&str> =
            toks.get(2..end).unwrap_or_default().iter().map(|tok| tok.text).collect();
        return Ok((Source::Query(words.join(" ")), end + 1));
    }
    let is_qualified = toks.get(2).is_some_and(|tok| tok.kind == Kind::Dot);
    let mut at = if is_qualified { 3 } else { 1 };
    let name = toks.get(at).and_then(|tok| tok.name()).ok_or_else(expected)?;
    at += 1;
    let mut columns = vec![];
    if toks.get(at).is_some_and(|tok| tok.kind == Kind::Open) {
        let end = closing(toks, at).min(toks.len());
        columns =
            toks.get(at + 1..end).unwrap_or_default().iter().filter_map(|tok| tok.name()).collect();
        at = end + 1;
    }
    Ok((Source::Table { name, columns }, at))
}

/// Reads the options, in parentheses or in the older form.
fn options(toks: &[Tok<'_>]) -> Result<CopyOut, Failure> {
    let mut form =
        CopyOut { is_csv: false, delimiter: 0, null: "\0".into(), quote: b'"', has_header: false };
    let mut toks = toks
        .iter()
        .filter(|tok| !matches!(tok.kind, Kind::Open | Kind::Close | Kind::Comma))
        .peekable();
    let byte = |text: Option<String>| match text.as_deref().map(str::as_bytes) {
        Some([byte]) => Ok(*byte),
        _ => Err(Failure::unsupported("a COPY delimiter or quote of more than one byte")),
    };
    while let Some(tok) = toks.next() {
        let mut value = || toks.next().and_then(option_value);
        match tok.text.to_ascii_lowercase().as_str() {
            "with" | "as" | "text" => {}
            "csv" => form.is_csv = true,
            "format" => match value().as_deref() {
                Some("csv") => form.is_csv = true,
                Some("text") => {}
                other => {
                    return Err(Failure::unsupported(format!(
                        "COPY format {}",
                        other.unwrap_or_default()
                    )));
                }
            },
            "delimiter" => form.delimiter = byte(value())?,
            "null" => form.null = value().unwrap_or_default(),
            "quote" => form.quote = byte(value())?,
            "header" => {
                let is_value = |tok: &&&Tok<'_>| tok.is_any(&["true", "false", "on", "off"]);
                form.has_header =
                    toks.peek().filter(is_value).is_none_or(|tok| tok.is_any(&["true", "on"]));
                if toks.peek().filter(is_value).is_some() {
                    toks.next();
                }
            }
            "encoding" => {
                value();
            }
            other => return Err(Failure::unsupported(format!("COPY option {other}"))),
        }
    }
    if form.delimiter == 0 {
        form.delimiter = if form.is_csv { b',' } else { b'\t' };
    }
    if form.null == "\0" {
        form.null = if form.is_csv { String::new() } else { "\\N".into() };
    }
    Ok(form)
}
