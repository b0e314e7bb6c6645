//! Database files: an empty one is created by `ovsdb-tool`, large ones are written here record by record.
//!
//! A file is OVSDB's standalone log: each record is a line with the length and SHA-1 of its body, then the body, one
//! JSON text and a newline. Large files are written here, because writing them through a server would take longer
//! than the measurement. They never change once written; each server gets its own copy.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

use sha1::{Digest, Sha1};

use crate::data;
use crate::failure::{Failure, Outcome};

/// Creates an empty database with this schema at `path`.
pub fn create(path: &Path) -> Outcome<()> {
    let schema = path.with_extension("schema");
    fs::write(&schema, data::SCHEMA).map_err(|e| Failure::io(schema.display(), &e))?;
    let output = Command::new("ovsdb-tool")
        .arg("create")
        .args([path, &schema])
        .output()
        .map_err(|e| Failure::io("ovsdb-tool", &e))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failure::new(format!("ovsdb-tool create: {}", String::from_utf8_lossy(&output.stderr))))
}

/// Creates a database of `rows` rows at `path`, one transaction each, followed by one-row updates until the file has
/// at least `bytes_min` bytes.
pub fn create_large(path: &Path, rows: usize, bytes_min: u64) -> Outcome<()> {
    create(path)?;
    let mut written = fs::metadata(path)?.len();
    let file = File::options().append(true).open(path)?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let mut body = String::new();
    let mut turn = 0;
    while turn == 0 || written < bytes_min {
        for row in 0..rows {
            if turn > 0 && written >= bytes_min {
                break;
            }
            record_body(&mut body, row, turn);
            written += write_record(&mut out, &body)?;
        }
        turn += 1;
    }
    out.flush()?;
    Ok(())
}

/// The uuid of a row in files created here. It is spread over all bits, like real ones, because servers may hash only
/// some of them.
pub fn uuid(row: usize) -> String {
    let mixed = mix(row as u64);
    let low = mix(mixed);
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        mixed >> 32,
        (mixed >> 16) & 0xffff,
        mixed & 0xfff,
        low >> 52,
        low & 0xffff_ffff_ffff
    )
}

fn record_body(body: &mut String, row: usize, turn: usize) {
    body.clear();
    let date = 1_700_000_000_000 + row + turn;
    let _ = write!(body, r#"{{"_date":{date},"Item":{{"{}":{{"#, uuid(row));
    if turn == 0 {
        data::columns(body, row);
    } else {
        let (number, text) = (row + turn, data::description(row, turn));
        let _ = write!(body, r#""number":{number},"description":"{text}""#);
    }
    body.push_str("}},\"_is_diff\":true}\n");
}

fn write_record(out: &mut impl Write, body: &str) -> Outcome<u64> {
    let mut head = format!("OVSDB JSON {} ", body.len());
    for byte in Sha1::digest(body.as_bytes()) {
        let _ = write!(head, "{byte:02x}");
    }
    head.push('\n');
    out.write_all(head.as_bytes())?;
    out.write_all(body.as_bytes())?;
    Ok((head.len() + body.len()) as u64)
}

/// The final step of splitmix64: maps one number to another without a pattern.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_length_and_checksum_of_its_body() {
        let mut out = Vec::new();
        let written = write_record(&mut out, "{}\n").unwrap();
        let expected = "OVSDB JSON 3 5f36b2ea290645ee34d943220a14b54ee5ea5be5\n{}\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(written, expected.len() as u64);
    }

    #[test]
    fn uuids_are_well_formed_and_differ() {
        let all: std::collections::BTreeSet<_> = (0..10_000).map(uuid).collect();
        assert_eq!(all.len(), 10_000);
        for one in all {
            let parts: Vec<_> = one.split('-').map(str::len).collect();
            assert_eq!(parts, [8, 4, 4, 4, 12], "{one}");
        }
    }
}
