//! The schema of a whole database.

use crate::error::{Error, tag};
use crate::json::Json;
use crate::members::{Kinds, Members};
use crate::schema::table::check_name;
use crate::schema::{BaseType, Bounds, TableId, TableSchema};

/// A database schema, parsed and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// The database's name.
    pub name: Box<str>,
    /// Three numbers with dots, or empty.
    pub version: Box<str>,
    /// A checksum of the schema's text, or empty; not interpreted.
    pub cksum: Box<str>,
    /// The tables, sorted by name.
    pub tables: Vec<TableSchema>,
}

impl Schema {
    /// Parses the JSON notation.
    pub fn parse(json: &Json) -> Result<Self, Error> {
        let mut members = Members::new(json, "database schema");
        let name = members.required("name", Kinds::ID).and_then(Json::as_str);
        let version = members.optional("version", Kinds::STRING).and_then(Json::as_str);
        let cksum = members.optional("cksum", Kinds::STRING).and_then(Json::as_str);
        let tables = members.required("tables", Kinds::OBJECT).and_then(Json::as_object);
        members.finish()?;
        let (Some(name), Some(tables)) = (name, tables) else {
            return Err(Error::new(tag::SYNTAX, "database schema expected"));
        };
        if let Some(version) = version.filter(|version| !is_version(version)) {
            let details = format!("schema version \"{version}\" not in format x.y.z");
            return Err(Error::syntax(json, details));
        }
        if tables.len() > usize::from(u16::MAX) {
            return Err(Error::new(tag::SYNTAX, "database schema has too many tables"));
        }
        let mut schema = Self {
            name: name.into(),
            version: version.unwrap_or_default().into(),
            cksum: cksum.unwrap_or_default().into(),
            tables: Vec::new(),
        };
        for (name, table) in tables.iter() {
            check_name(json, name)?;
            schema.tables.push(TableSchema::parse(table, name)?);
        }
        // Schemas from before garbage collection name no root table; then every table is one.
        if !schema.tables.iter().any(|table| table.is_root) {
            schema.tables.iter_mut().for_each(|table| table.is_root = true);
        }
        schema.resolve_references()?;
        Ok(schema)
    }

    /// Resolves the table of each reference. Replaying the journal would fail without two kinds of column: those
    /// that must hold a reference, and those with strong references to rows that exist only while they are referred
    /// to. These are journaled even if they are declared ephemeral. The latter are also marked as persistent, as in
    /// `ovsdb-server`.
    fn resolve_references(&mut self) -> Result<(), Error> {
        let targets: Vec<(Box<str>, bool)> =
            self.tables.iter().map(|table| (table.name.clone(), table.is_root)).collect();
        for column in self.tables.iter_mut().flat_map(|table| &mut table.columns) {
            let key = resolve(&mut column.ty.key, "key", &column.name, &targets)?;
            let value = match &mut column.ty.value {
                Some(value) => resolve(value, "value", &column.name, &targets)?,
                None => false,
            };
            let refers = |base: &BaseType| base.reference().is_some();
            let holds = refers(&column.ty.key) || column.ty.value.as_ref().is_some_and(refers);
            column.persistent |= key || value;
            column.journaled = column.persistent || (holds && column.ty.min > 0);
        }
        Ok(())
    }

    /// The table named `name`.
    #[must_use]
    pub fn table_id(&self, name: &str) -> Option<TableId> {
        let at = self.tables.binary_search_by(|table| (*table.name).cmp(name)).ok()?;
        Some(TableId(at as u16))
    }

    /// The table with this id, which must belong to this schema.
    #[must_use]
    pub fn table(&self, id: TableId) -> &TableSchema {
        &self.tables[id.index()]
    }

    /// All tables.
    pub fn table_ids(&self) -> impl Iterator<Item = TableId> + use<> {
        (0..self.tables.len() as u16).map(TableId)
    }

    /// The JSON notation.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let all_root = self.tables.iter().all(|table| table.is_root);
        let tables = self.tables.iter().map(|table| (&*table.name, table.to_json(all_root)));
        let mut members =
            vec![("name", Json::string(self.name.clone())), ("tables", Json::object(tables))];
        if !self.version.is_empty() {
            members.push(("version", Json::string(self.version.clone())));
        }
        if !self.cksum.is_empty() {
            members.push(("cksum", Json::string(self.cksum.clone())));
        }
        Json::object(members)
    }
}

/// Resolves one reference. Returns whether it is a strong reference to a table outside the root set.
fn resolve(
    base: &mut BaseType,
    side: &str,
    column: &str,
    targets: &[(Box<str>, bool)],
) -> Result<bool, Error> {
    let Bounds::Reference(reference) = &mut base.bounds else { return Ok(false) };
    let Ok(at) = targets.binary_search_by(|(name, _)| name.cmp(&reference.name)) else {
        let details =
            format!("column {column} {side} refers to undefined table {}", reference.name);
        return Err(Error::new(tag::SYNTAX, details));
    };
    reference.table = TableId(at as u16);
    Ok(reference.strong && !targets[at].1)
}

fn is_version(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    parts.len() == 3
        && parts.iter().all(|part| {
            !part.is_empty()
                && part.bytes().all(|c| c.is_ascii_digit())
                && part.parse::<u32>().is_ok()
        })
}
