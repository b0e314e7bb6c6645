//! Parsing of monitor requests and of condition changes.

use super::{Monitor, MonitoredTable, Select, Version};
use crate::condition::{Clause, Condition};
use crate::error::{Error, tag};
use crate::json::{Json, Object};
use crate::members::{Kinds, Members};
use crate::schema::{ColumnId, Schema, TableSchema};

/// The `<monitor-requests>` object of a request, not yet parsed.
#[derive(Clone, Copy)]
pub struct Requests<'a>(&'a Object);

impl<'a> Requests<'a> {
    /// Checks that `json` is an object of monitor requests.
    pub fn new(json: &'a Json) -> Result<Self, Error> {
        json.as_object()
            .map(Self)
            .ok_or_else(|| Error::syntax(json, "monitor-requests must be object"))
    }

    /// The monitor of these requests.
    pub fn parse(self, schema: &Schema, version: Version) -> Result<Monitor, Error> {
        let mut tables = Vec::with_capacity(self.0.len());
        for (name, requests) in self.0.iter() {
            let Some(table) = schema.table_id(name) else {
                return Err(Error::new(tag::SYNTAX, format!("no table named {name}")));
            };
            let mut monitored = MonitoredTable {
                table,
                select: Select::default(),
                columns: Vec::new(),
                condition: Condition::default(),
            };
            let requests = requests.as_array().unwrap_or(std::slice::from_ref(requests));
            let mut unconditional = requests.is_empty();
            let mut clauses = Vec::new();
            for request in requests {
                match monitored.add(request, schema.table(table), version)? {
                    Some(more) if !more.is_empty() => clauses.extend(more),
                    _ => unconditional = true,
                }
            }
            if !unconditional {
                monitored.condition = Condition::any_of(clauses);
            }
            monitored.columns.sort_by_key(|(column, _)| *column);
            tables.push(monitored);
        }
        Ok(Monitor { version, tables })
    }
}

impl MonitoredTable {
    /// Adds one monitor request. Returns the clauses of its condition, if it has one.
    fn add(
        &mut self,
        request: &Json,
        schema: &TableSchema,
        version: Version,
    ) -> Result<Option<Vec<Clause>>, Error> {
        let called = format!("table {}", schema.name);
        let mut members = Members::new(request, &called);
        let condition = match version {
            Version::V1 => None,
            _ => members.optional("where", Kinds::ARRAY).and_then(Json::as_array),
        };
        let columns = members.optional("columns", Kinds::ARRAY);
        let select = members.optional("select", Kinds::OBJECT);
        members.finish()?;
        let select = select.map_or(Ok(Select::ALL), |select| parse_select(select, schema))?;
        self.select = self.select.with(select);
        self.add_columns(columns, schema, select)?;
        condition.map(|condition| Clause::parse_all(condition, schema, None)).transpose()
    }

    fn add_columns(
        &mut self,
        json: Option<&Json>,
        schema: &TableSchema,
        select: Select,
    ) -> Result<(), Error> {
        let Some(json) = json else {
            for id in schema.column_ids().filter(|id| *id != ColumnId::UUID) {
                self.add_column(id, schema, select, &Json::Null)?;
            }
            return Ok(());
        };
        for element in json.as_array().unwrap_or_default() {
            let Some(name) = element.as_str() else {
                return Err(Error::syntax(json, "array of column names expected"));
            };
            let Some(id) = schema.column_id(name) else {
                return Err(Error::syntax(json, format!("{name} is not a valid column name")));
            };
            self.add_column(id, schema, select, json)?;
        }
        Ok(())
    }

    fn add_column(
        &mut self,
        id: ColumnId,
        schema: &TableSchema,
        select: Select,
        json: &Json,
    ) -> Result<(), Error> {
        if self.columns.iter().any(|(known, _)| *known == id) {
            let details = format!("column {} mentioned more than once", schema.column(id).name);
            return Err(Error::syntax(json, details));
        }
        self.columns.push((id, select));
        Ok(())
    }
}

fn parse_select(json: &Json, schema: &TableSchema) -> Result<Select, Error> {
    let called = format!("table {} select", schema.name);
    let mut members = Members::new(json, &called);
    let mut select = Select::default();
    for (name, kind) in [
        ("initial", Select::INITIAL),
        ("insert", Select::INSERT),
        ("delete", Select::DELETE),
        ("modify", Select::MODIFY),
    ] {
        if members.bool_or(name, true) {
            select = select.with(kind);
        }
    }
    members.finish()?;
    Ok(select)
}

impl Monitor {
    /// This monitor with the conditions in `json`, a `<monitor-cond-update-requests>` object. Tables that it does
    /// not name keep their conditions.
    pub fn with_conditions(&self, json: &Json, schema: &Schema) -> Result<Self, Error> {
        let Some(object) = json.as_object() else {
            return Err(Error::new(tag::SYNTAX, "monitor-cond-change-requests must be object"));
        };
        let mut changed = self.clone();
        for (name, requests) in object.iter() {
            let Some(table) = schema.table_id(name) else {
                return Err(Error::new(tag::SYNTAX, format!("no table named {name}")));
            };
            let Some(monitored) = changed.tables.iter_mut().find(|m| m.table == table) else {
                let details = format!("no table named {name} in monitor session");
                return Err(Error::new(tag::SYNTAX, details));
            };
            let Some(requests) = requests.as_array() else {
                let details = format!("table {name} no monitor-cond-change JSON array");
                return Err(Error::new(tag::SYNTAX, details));
            };
            for request in requests {
                let called = format!("table {name}");
                let mut members = Members::new(request, &called);
                let columns = members.optional("columns", Kinds::ARRAY);
                let condition = members.optional("where", Kinds::ARRAY).and_then(Json::as_array);
                members.finish()?;
                if columns.is_some() {
                    return Err(Error::syntax(request, "changing columns is unsupported"));
                }
                let condition = condition.unwrap_or_default();
                let clauses = Clause::parse_all(condition, schema.table(table), None)?;
                monitored.condition = Condition::any_of(clauses);
            }
        }
        Ok(changed)
    }
}
