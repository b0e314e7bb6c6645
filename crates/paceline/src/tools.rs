//! `paceline ovsdb`: the functions of `ovsdb-tool`, on files that no server has open.

use crate::cli::OvsdbCommand;
use crate::show_log::{Detail, show_log};
use paceline_host::{
    Loaded, Mode, RealDisk, create_file, load_file, load_sound_part, replace, report_recovery,
};
use paceline_journal::Position;
use paceline_tables::schema::Schema;
use paceline_tables::{Database, json};
use std::path::Path;
use std::sync::Arc;

/// Runs one of the tools.
pub fn run(command: OvsdbCommand) -> Result<(), String> {
    match command {
        OvsdbCommand::Create { file, schema } => create(&file, &schema),
        OvsdbCommand::Compact { file, target: None } => compact(&file),
        OvsdbCommand::Compact { file, target: Some(target) } => compact_to(&file, &target),
        OvsdbCommand::Repair { file, target } => repair(&file, &target),
        OvsdbCommand::ShowLog { file, more, json } => {
            let detail = match (json, more) {
                (true, _) => Detail::Json,
                (false, 0) => Detail::Records,
                (false, 1) => Detail::Rows,
                (false, _) => Detail::Columns,
            };
            show_log(&file, detail)
        }
    }
}

fn create(file: &Path, schema: &Path) -> Result<(), String> {
    let text = std::fs::read(schema)
        .map_err(|error| format!("cannot read {}: {error}", schema.display()))?;
    let fail = |error: String| format!("{}: {error}", schema.display());
    let json = json::parse(&text, 128).map_err(|error| {
        let before = text.get(..error.offset).unwrap_or_default();
        let line = before.iter().filter(|c| **c == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|c| **c != b'\n').count() + 1;
        format!("{}:{line}:{column}: {}", schema.display(), error.reason)
    })?;
    let schema = Schema::parse(&json).map_err(|error| fail(error.to_string()))?;
    create_file(Arc::new(RealDisk), file, &schema).map(drop).map_err(|error| error.to_string())
}

/// The comments of the records that the tools write.
const COMPACTED: &str = "compacted by paceline";
const REPAIRED: &str = "repaired by paceline";

fn compact(file: &Path) -> Result<(), String> {
    let before = size(file);
    let mut loaded = load(file, Mode::ReadWrite)?;
    let rows = loaded.database.snapshot();
    let after =
        replace(&rows, &[], COMPACTED, &mut loaded.log).map_err(|error| error.to_string())?;
    report(file, before, after);
    Ok(())
}

fn compact_to(file: &Path, target: &Path) -> Result<(), String> {
    let loaded = load(file, Mode::ReadOnly)?;
    let after = write_to(target, &loaded.database, COMPACTED)?;
    report(target, size(file), after);
    Ok(())
}

/// Writes the content of `database` into the new file `target`.
fn write_to(target: &Path, database: &Database, comment: &str) -> Result<Position, String> {
    let rows = database.snapshot();
    let mut log = create_file(Arc::new(RealDisk), target, rows.schema())
        .map_err(|error| error.to_string())?;
    replace(&rows, &[], comment, &mut log).map_err(|error| error.to_string())
}

fn repair(file: &Path, target: &Path) -> Result<(), String> {
    let sound = load_sound_part(Arc::new(RealDisk), file).map_err(|error| error.to_string())?;
    let Some(damage) = sound.damage else {
        return Err(format!("{}: not damaged; nothing to repair", file.display()));
    };
    write_to(target, &sound.database, REPAIRED)?;
    let (records, target) = (sound.records, target.display());
    crate::screen::tell(format_args!(
        "{damage}\nrecords before the damage, saved in {target}: {records}"
    ));
    Ok(())
}

fn load(file: &Path, mode: Mode) -> Result<Loaded, String> {
    let loaded = load_file(Arc::new(RealDisk), file, mode).map_err(|error| error.to_string())?;
    report_recovery(file, &loaded.recovery);
    Ok(loaded)
}

fn size(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |metadata| metadata.len())
}

fn report(file: &Path, before: u64, after: Position) {
    crate::screen::tell(format_args!("{}: {before} bytes before, {} now", file.display(), after.0));
}
