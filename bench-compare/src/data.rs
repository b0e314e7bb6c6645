//! The database under load: its schema, its rows, and the requests that are built before a round.
//!
//! Rows look like real configuration: a unique name, a number, a flag, a few tags, a small map and a sentence, about
//! 250 bytes. Everything is derived from a row's number, so both sides get the same bytes. Each row contains exactly
//! one `~`, by which watchers count rows.

use std::fmt::Write;

/// The schema of the database `Bench`, with its unique index on `name`.
pub const SCHEMA: &str = r#"{"name":"Bench","version":"1.0.0","tables":{"Item":{
"columns":{"name":{"type":"string"},"number":{"type":"integer"},"enabled":{"type":"boolean"},
"tags":{"type":{"key":"string","min":0,"max":"unlimited"}},
"options":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}},
"description":{"type":"string"}},
"isRoot":true,"indexes":[["name"]]}}}"#;

/// The byte that occurs once in each row and nowhere else on the wire.
pub const MARK: u8 = b'~';

/// How many rows the large table has.
pub const LARGE_TABLE_ROWS: usize = 100_000;

/// Concatenated requests, with the offset where each ends.
#[derive(Debug, Default, Clone)]
pub struct Batch {
    /// The requests' bytes.
    pub bytes: Vec<u8>,
    /// For each request, the offset just past it.
    pub ends: Vec<usize>,
}

impl Batch {
    /// Adds one request.
    pub fn push(&mut self, request: &str) {
        self.bytes.extend_from_slice(request.as_bytes());
        self.ends.push(self.bytes.len());
    }

    /// How many requests there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The requests one by one.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(from, &to)| &self.bytes[from..to])
    }
}

/// Whether a transaction must be on disk before it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// As most clients do: written, not synced.
    Ordinary,
    /// With a commit operation that requests durability.
    Durable,
}

/// One insert transaction for each row of `rows`.
pub fn inserts(rows: std::ops::Range<usize>, commit: Commit) -> Batch {
    let mut batch = Batch::default();
    let mut text = String::new();
    for row in rows {
        text.clear();
        begin_transact(&mut text, row);
        insert_op(&mut text, row);
        if commit == Commit::Durable {
            text.push_str(r#",{"op":"commit","durable":true}"#);
        }
        text.push_str("]}");
        batch.push(&text);
    }
    batch
}

/// Insert transactions for `rows`, each with `per_transaction` rows: the fast way to fill a table.
pub fn bulk_inserts(rows: std::ops::Range<usize>, per_transaction: usize) -> Batch {
    let mut batch = Batch::default();
    let mut text = String::new();
    let mut next = rows.start;
    while next < rows.end {
        let end = rows.end.min(next + per_transaction);
        text.clear();
        begin_transact(&mut text, next);
        for row in next..end {
            insert_op(&mut text, row);
            text.push(',');
        }
        text.pop();
        text.push_str("]}");
        batch.push(&text);
        next = end;
    }
    batch
}

/// One update transaction for each of these uuids. `turn` makes the values of each round new. Rows are selected by
/// uuid, which every server finds at once, so that the search is not measured.
pub fn updates(uuids: &[String], turn: usize) -> Batch {
    let mut batch = Batch::default();
    let mut text = String::new();
    for (row, uuid) in uuids.iter().enumerate() {
        text.clear();
        begin_transact(&mut text, row);
        let _ = write!(
            text,
            concat!(
                r#"{{"op":"update","table":"Item","where":[["_uuid","==",["uuid","{}"]]],"#,
                r#""row":{{"number":{},"description":"{}"}}}}]}}"#
            ),
            uuid,
            row + turn,
            description(row, turn)
        );
        batch.push(&text);
    }
    batch
}

/// A request that deletes every row.
pub fn delete_all() -> String {
    let mut text = String::new();
    begin_transact(&mut text, 0);
    text.push_str(r#"{"op":"delete","table":"Item","where":[]}]}"#);
    text
}

/// A select with the given conditions, as JSON, of all columns.
pub fn select(conditions: &str) -> String {
    let mut text = String::new();
    begin_transact(&mut text, 0);
    let _ = write!(text, r#"{{"op":"select","table":"Item","where":[{conditions}]}}]}}"#);
    text
}

/// The unique name of a row.
pub fn name(row: usize) -> String {
    format!("item-{row:08}")
}

/// The columns of a row, as the body of a JSON object.
pub fn columns(text: &mut String, row: usize) {
    let _ = write!(
        text,
        concat!(
            r#""name":"{}","number":{},"enabled":{},"#,
            r#""tags":["set",["blue","edge","rack-{}"]],"#,
            r#""options":["map",[["mtu","{}"],["owner","team-{}"],["zone","eu-west-{}"]]],"#,
            r#""description":"{}""#
        ),
        name(row),
        row,
        !row.is_multiple_of(3),
        row % 40,
        1400 + row % 100,
        row % 17,
        row % 3,
        description(row, 0)
    );
}

/// The sentence of a row, with its single mark.
pub fn description(row: usize, turn: usize) -> String {
    format!("uplink {row} of the second floor ~ checked in week {}, turn {turn}", row % 52)
}

fn begin_transact(text: &mut String, id: usize) {
    let _ = write!(text, r#"{{"id":{id},"method":"transact","params":["Bench","#);
}

fn insert_op(text: &mut String, row: usize) {
    text.push_str(r#"{"op":"insert","table":"Item","row":{"#);
    columns(text, row);
    text.push_str("}}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Scanner;

    fn check(batch: &Batch, count: usize, marks_each: usize) {
        assert_eq!(batch.len(), count);
        assert_eq!(batch.iter().map(<[u8]>::len).sum::<usize>(), batch.bytes.len());
        for request in batch.iter() {
            let text = String::from_utf8_lossy(request);
            assert_eq!(Scanner::default().message_end(request), Some(request.len()), "{text}");
            let marks = request.iter().filter(|&&byte| byte == MARK).count();
            assert_eq!(marks, marks_each, "{text}");
        }
    }

    #[test]
    fn every_request_is_one_message_with_its_marks() {
        check(&inserts(5..9, Commit::Ordinary), 4, 1);
        check(&inserts(5..9, Commit::Durable), 4, 1);
        check(&bulk_inserts(0..10, 5), 2, 5);
        check(&updates(&["a".into(), "b".into()], 1), 2, 1);
    }

    #[test]
    fn a_row_is_as_large_as_the_header_says() {
        let mut text = String::new();
        columns(&mut text, 77_777);
        assert!((200..=300).contains(&text.len()), "{}: {text}", text.len());
    }
}
