//! One table: its columns, its unique indexes and its bounds.

use crate::error::{Error, tag};
use crate::json::Json;
use crate::members::{Kinds, Members, is_id};
use crate::schema::types::UNLIMITED;
use crate::schema::{AtomType, Column, ColumnId, Type};

/// The schema of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSchema {
    /// The name.
    pub name: Box<str>,
    /// `_uuid`, `_version`, then the others sorted by name.
    pub columns: Vec<Column>,
    /// The most rows.
    pub max_rows: u32,
    /// Whether rows are kept without a reference to them.
    pub is_root: bool,
    /// Sets of columns whose values together are unique in the table.
    pub indexes: Vec<Vec<ColumnId>>,
    mutable: bool,
}

impl TableSchema {
    /// Parses the schema of table `name`.
    pub fn parse(json: &Json, name: &str) -> Result<Self, Error> {
        let called = format!("table schema for table {name}");
        let mut members = Members::new(json, &called);
        let columns = members.required("columns", Kinds::OBJECT).and_then(Json::as_object);
        let mutable = members.bool_or("mutable", true);
        let max_rows = members.optional("maxRows", Kinds::INTEGER);
        let is_root = members.bool_or("isRoot", false);
        let indexes = members.optional("indexes", Kinds::ARRAY).and_then(Json::as_array);
        members.finish()?;
        let max_rows = match max_rows {
            Some(Json::Integer(rows)) if *rows > 0 => u32::try_from(*rows).unwrap_or(UNLIMITED),
            Some(_) => return Err(Error::syntax(json, "maxRows must be at least 1")),
            None => UNLIMITED,
        };
        let Some(columns) = columns.filter(|columns| !columns.is_empty()) else {
            return Err(Error::syntax(json, "table must have at least one column"));
        };
        if columns.len() + ColumnId::FIRST > usize::from(u16::MAX) {
            return Err(Error::new(tag::SYNTAX, format!("table {name} has too many columns")));
        }
        let mut table = Self {
            name: name.into(),
            columns: vec![
                Column::new("_uuid", Type::scalar(AtomType::Uuid), false, true),
                Column::new("_version", Type::scalar(AtomType::Uuid), false, false),
            ],
            max_rows,
            is_root,
            indexes: Vec::new(),
            mutable,
        };
        for (name, column) in columns.iter() {
            check_name(json, name)?;
            table.columns.push(Column::parse(column, name)?);
        }
        for index in indexes.unwrap_or_default() {
            let index = table.parse_index(json, index)?;
            table.indexes.push(index);
        }
        Ok(table)
    }

    fn parse_index(&self, table: &Json, json: &Json) -> Result<Vec<ColumnId>, Error> {
        let index = self.column_set(json)?;
        if index.is_empty() {
            return Err(Error::syntax(table, "index must have at least one column"));
        }
        let ephemeral = index.iter().find(|id| !self.columns[id.index()].persistent);
        if let Some(id) = ephemeral {
            let name = &self.columns[id.index()].name;
            let details = format!("ephemeral columns (such as {name}) may not be indexed");
            return Err(Error::syntax(table, details));
        }
        Ok(index)
    }

    /// The column named `name`.
    #[must_use]
    pub fn column_id(&self, name: &str) -> Option<ColumnId> {
        match name {
            "_uuid" => Some(ColumnId::UUID),
            "_version" => Some(ColumnId::VERSION),
            _ => {
                let named = self.columns.get(ColumnId::FIRST..)?;
                let at = named.binary_search_by(|column| (*column.name).cmp(name)).ok()?;
                Some(ColumnId((at + ColumnId::FIRST) as u16))
            }
        }
    }

    /// The column with this id, which must belong to this table.
    #[must_use]
    pub fn column(&self, id: ColumnId) -> &Column {
        &self.columns[id.index()]
    }

    /// All columns.
    pub fn column_ids(&self) -> impl Iterator<Item = ColumnId> + use<> {
        (0..self.columns.len() as u16).map(ColumnId)
    }

    /// Parses an array of distinct column names.
    pub fn column_set(&self, json: &Json) -> Result<Vec<ColumnId>, Error> {
        let expected = || Error::syntax(json, "array of distinct column names expected");
        let mut seen = vec![false; self.columns.len()];
        let mut set = Vec::new();
        for element in json.as_array().ok_or_else(expected)? {
            let name = element.as_str().ok_or_else(expected)?;
            let id = self
                .column_id(name)
                .ok_or_else(|| Error::syntax(json, format!("{name} is not a valid column name")))?;
            if std::mem::replace(&mut seen[id.index()], true) {
                return Err(expected());
            }
            set.push(id);
        }
        Ok(set)
    }

    /// The JSON notation. `isRoot` is written only where it differs from `default_is_root`.
    #[must_use]
    pub fn to_json(&self, default_is_root: bool) -> Json {
        let columns = self.columns.iter().skip(ColumnId::FIRST);
        let columns = columns.map(|column| (&*column.name, column.to_json()));
        let mut members = vec![("columns", Json::object(columns))];
        members.extend((!self.mutable).then_some(("mutable", Json::Bool(false))));
        members.extend(
            (self.is_root != default_is_root).then_some(("isRoot", Json::Bool(self.is_root))),
        );
        members.extend(
            (self.max_rows != UNLIMITED)
                .then_some(("maxRows", Json::Integer(self.max_rows.into()))),
        );
        if !self.indexes.is_empty() {
            let names = |index: &Vec<ColumnId>| {
                let name = |id: &ColumnId| Json::string(self.column(*id).name.clone());
                Json::Array(index.iter().map(name).collect())
            };
            members.push(("indexes", Json::Array(self.indexes.iter().map(names).collect())));
        }
        Json::object(members)
    }
}

/// Checks the name of a table or column in a schema.
pub(super) fn check_name(json: &Json, name: &str) -> Result<(), Error> {
    if name.starts_with('_') {
        return Err(Error::syntax(json, "names beginning with \"_\" are reserved"));
    }
    if !is_id(name) {
        return Err(Error::syntax(json, "name must be a valid id"));
    }
    Ok(())
}
