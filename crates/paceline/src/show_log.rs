//! `paceline ovsdb show-log`: the records of a database file, for people or for programs.

use paceline_host::Mode;
use paceline_journal::FileLog;
use paceline_tables::json::{self, Json};
use paceline_tables::schema::{Schema, TableSchema};
use paceline_tables::value::Datum;
use paceline_types::civil;
use paceline_types::limits::JSON_DEPTH_MAX_OVSDB;
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;

/// How much to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// One line of JSON per record.
    Json,
    /// One line per record: the time, and its comment.
    Records,
    /// Also which rows changed.
    Rows,
    /// Also which columns changed, and to what.
    Columns,
}

/// Prints the records of `file`.
pub fn show_log(file: &Path, detail: Detail) -> Result<(), String> {
    let mut follow = FileLog::open(file, Mode::ReadOnly).map_err(|error| error.to_string())?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut log = Printer { detail, schema: None, names: BTreeMap::new() };
    let mut number = 0;
    loop {
        let record = match follow.next() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(error) => {
                let _ = out.flush();
                return Err(error.to_string());
            }
        };
        let offset = record.offset;
        let parsed = json::parse(record.body, JSON_DEPTH_MAX_OVSDB).map_err(|e| e.to_string());
        let json = match parsed.and_then(|json| log.note_schema(number, &json).map(|()| json)) {
            Ok(json) => json,
            Err(reason) => {
                let _ = out.flush();
                return Err(follow.reject(offset, reason).to_string());
            }
        };
        if let Err(error) = log.print(number, &json, &mut out) {
            return end_of_output(&error);
        }
        number += 1;
    }
    if let Err(error) = out.flush() {
        return end_of_output(&error);
    }
    let (_, recovery) = follow.finish().map_err(|error| error.to_string())?;
    if let Some(torn) = recovery.torn {
        return Err(format!(
            "{}: the end is damaged from offset {} on: {}",
            file.display(),
            torn.offset.0,
            torn.reason
        ));
    }
    Ok(())
}

/// A reader that closes the pipe early, such as `head`, is not an error.
fn end_of_output(error: &std::io::Error) -> Result<(), String> {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(format!("cannot write: {error}")),
    }
}

struct Printer {
    detail: Detail,
    schema: Option<Schema>,
    /// The title of a row: its `name` column, or the beginning of its UUID.
    names: BTreeMap<String, String>,
}

impl Printer {
    /// Reads the schema from the first record.
    fn note_schema(&mut self, number: u64, json: &Json) -> Result<(), String> {
        if number == 0 {
            self.schema = Some(Schema::parse(json).map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    fn print(&mut self, number: u64, json: &Json, out: &mut impl Write) -> std::io::Result<()> {
        if self.detail == Detail::Json {
            return writeln!(out, "{}", json.to_text());
        }
        if let Some(schema) = self.schema.as_ref().filter(|_| number == 0) {
            return writeln!(
                out,
                "record 0: \"{}\" schema, version=\"{}\", cksum=\"{}\"\n",
                schema.name, schema.version, schema.cksum
            );
        }
        write!(out, "record {number}:")?;
        let Some(object) = json.as_object() else { return writeln!(out, " not an object") };
        if let Some(Json::Integer(date)) = object.get("_date") {
            write!(out, " {}", date_text(*date))?;
        }
        if let Some(Json::String(comment)) = object.get("_comment") {
            write!(out, " \"{comment}\"")?;
        }
        writeln!(out)?;
        if self.detail >= Detail::Rows {
            let diff = object.get("_is_diff") == Some(&Json::Bool(true));
            for (table, rows) in object.iter().filter(|(table, _)| !table.starts_with('_')) {
                for (uuid, row) in rows.as_object().into_iter().flat_map(|rows| rows.iter()) {
                    self.print_row(table, uuid, row, diff, out)?;
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn print_row(
        &mut self,
        table: &str,
        uuid: &str,
        row: &Json,
        diff: bool,
        out: &mut impl Write,
    ) -> std::io::Result<()> {
        let short: String = uuid.chars().take(8).collect();
        let new_name = row.as_object().and_then(|row| row.get("name")).map(Json::to_text);
        match (self.names.get(uuid), &new_name) {
            (None, Some(name)) => writeln!(out, "  table {table} insert row {name} ({short}):")?,
            (None, None) => writeln!(out, "  table {table} insert row {short}:")?,
            (Some(name), _) => {
                let diff = if diff { " diff" } else { "" };
                writeln!(out, "  table {table} row {name} ({short}){diff}:")?;
            }
        }
        let Some(columns) = row.as_object() else {
            self.names.remove(uuid);
            return writeln!(out, "    delete row");
        };
        if self.detail == Detail::Columns {
            let schema = self.schema.as_ref();
            let schema = schema.and_then(|s| s.table_id(table).map(|id| s.table(id)));
            for (column, value) in columns.iter() {
                writeln!(out, "    {column}={}", value_text(schema, column, value))?;
            }
        }
        if let Some(name) = new_name {
            self.names.insert(uuid.to_owned(), name);
        } else {
            self.names.entry(uuid.to_owned()).or_insert(short);
        }
        Ok(())
    }
}

fn value_text(schema: Option<&TableSchema>, column: &str, value: &Json) -> String {
    let typed = schema.and_then(|schema| {
        let ty = &schema.column(schema.column_id(column)?).ty;
        Some(Datum::parse_between(value, ty, (0, u32::MAX), None).ok()?.to_text(ty))
    });
    typed.unwrap_or_else(|| value.to_text())
}

/// `2026-11-15 20:17:00.123` in UTC, from milliseconds since 1970. Old files have seconds
/// instead.
fn date_text(date: i64) -> String {
    let ms = if date < i64::from(i32::MAX) { date.saturating_mul(1000) } else { date };
    let (days, ms) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    let (s, ms) = (ms / 1000, ms % 1000);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{ms:03}",
        s / 3600,
        s / 60 % 60,
        s % 60
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates_are_told_in_utc() {
        for (date, text) in [
            (0, "1970-01-01 00:00:00.000"),
            (951_782_400, "2000-02-29 00:00:00.000"),
            (1_794_773_820_123, "2026-11-15 20:17:00.123"),
            (4_107_542_399_999, "2100-02-28 23:59:59.999"),
        ] {
            assert_eq!(super::date_text(date), text);
        }
    }
}
