//! The operations (RFC 7047 section 5.2).

use super::form::{self, Form};
use super::mutation::Mutation;
use super::value::{Atom, Tags, Value};
use super::{Answer, Clause, Row, Run, Stop};
use paceline_tables::json::Json;
use paceline_types::Uuid;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Takes the value out of `result`, or keeps the tags of its error.
fn sift<T>(result: Result<T, Tags>, tags: &mut Tags) -> Option<T> {
    result.map_err(|found| tags.extend(found)).ok()
}

fn checked(tags: Tags) -> Result<(), Tags> {
    if tags.is_empty() { Ok(()) } else { Err(tags) }
}

impl Run<'_> {
    pub(super) fn operation(&mut self, operation: &Json) -> Result<Answer, Stop> {
        let result = self.dispatch(operation);
        let table = operation.as_object().and_then(|op| op.get("table")?.as_str());
        let table = table.and_then(|name| self.schema.table(name));
        match result {
            // An operation that is both invalid and forbidden may be refused for either reason.
            Err(Stop::Error(mut tags)) if table.is_some() && table == self.setting.maintained => {
                tags.push("permission error");
                Err(Stop::Error(tags))
            }
            other => other,
        }
    }

    fn dispatch(&mut self, operation: &Json) -> Result<Answer, Stop> {
        let mut form = Form::new(operation);
        let word = form.required("op", form::id).and_then(Json::as_str).unwrap_or_default();
        let answer = match word {
            "insert" => self.insert(form)?,
            "select" => self.select(form)?,
            "update" => self.update(form)?,
            "mutate" => self.mutate(form)?,
            "delete" => self.delete(form)?,
            "wait" => self.wait(form)?,
            "commit" => {
                form.required("durable", form::boolean);
                form.check()?;
                Answer::Empty
            }
            "comment" => {
                form.required("comment", form::text);
                form.check()?;
                Answer::Empty
            }
            "assert" => {
                let lock = form.required("lock", form::text).and_then(Json::as_str);
                form.check()?;
                if !lock.is_some_and(|lock| self.setting.locks.contains(&lock)) {
                    return Err(Stop::Error(vec!["not owner"]));
                }
                Answer::Empty
            }
            "abort" => {
                form.check()?;
                return Err(Stop::Error(vec!["aborted"]));
            }
            _ => return Err(Stop::Error(vec!["syntax error"])),
        };
        let writes = matches!(word, "insert" | "update" | "mutate" | "delete" | "commit");
        if writes && self.setting.read_only {
            return Err(Stop::Error(vec!["not allowed"]));
        }
        Ok(answer)
    }

    /// The tags that depend only on the client and the table.
    fn forbidden(&self, table: usize) -> Tags {
        if self.setting.maintained == Some(table) { vec!["permission error"] } else { Vec::new() }
    }

    fn conditions(&mut self, json: &[Json], table: usize) -> Result<Vec<Clause>, Tags> {
        let schema = &self.schema.tables[table];
        json.iter().map(|clause| Clause::read(clause, schema, &mut |n| self.resolve(n))).collect()
    }

    /// A row of defaults with the values that `json` names, and which columns those are.
    fn row(&mut self, json: &Json, table: usize) -> Result<(Vec<Value>, Vec<usize>), Tags> {
        let schema = &self.schema.tables[table];
        let mut row: Vec<Value> = schema.columns.iter().map(Value::default_of).collect();
        let mut named = Vec::new();
        for (name, value) in json.as_object().ok_or_else(|| vec!["syntax error"])?.iter() {
            let at = schema.column(name).ok_or_else(|| vec!["unknown column"])?;
            let column = &schema.columns[at];
            let size = (column.min, column.max);
            row[at] = Value::read(value, column, size, &mut |n| self.resolve(n))?;
            named.push(at);
        }
        Ok((row, named))
    }

    fn columns(&self, json: Option<&Json>, table: usize) -> Result<Option<Vec<usize>>, Tags> {
        let Some(json) = json else { return Ok(None) };
        let schema = &self.schema.tables[table];
        let place = |name: &Json| schema.column(name.as_str()?);
        let places: Option<Vec<usize>> = json.as_array().unwrap().iter().map(place).collect();
        let places = places.ok_or_else(|| vec!["syntax error"])?;
        let distinct: BTreeSet<usize> = places.iter().copied().collect();
        if distinct.len() < places.len() { Err(vec!["syntax error"]) } else { Ok(Some(places)) }
    }

    fn matching(&self, table: usize, clauses: &[Clause]) -> Vec<(Uuid, Row)> {
        let rows = self.tables[table].iter();
        let hold = |row: &Row| clauses.iter().all(|clause| clause.holds(row));
        rows.filter(|(_, row)| hold(row)).map(|(uuid, row)| (*uuid, row.clone())).collect()
    }

    fn insert(&mut self, mut form: Form<'_>) -> Result<Answer, Stop> {
        let table = form.table(self.schema);
        let chosen = form.optional("uuid", form::text).and_then(Json::as_str);
        let name = form.optional("uuid-name", form::id).and_then(Json::as_str);
        let row = form.required("row", form::object);
        form.check()?;
        let (table, row) = (table.unwrap(), row.unwrap());
        let mut tags = self.forbidden(table);
        let chosen = chosen.map(|text| {
            let uuid = text.parse().map_err(|_| vec!["syntax error"])?;
            let taken =
                self.tables[table].contains_key(&uuid) || self.before[table].contains_key(&uuid);
            if taken { Err(vec!["duplicate uuid"]) } else { Ok(uuid) }
        });
        let chosen = chosen.and_then(|chosen: Result<Uuid, Tags>| sift(chosen, &mut tags));
        if name.is_some_and(|name| !self.created.insert(name.to_owned())) {
            tags.push("duplicate uuid-name");
        }
        let known = self.setting.inserted.get(self.at).copied().flatten();
        let uuid = match (chosen.or(known), name) {
            (Some(uuid), _) => uuid,
            (None, Some(name)) => self.resolve(name),
            (None, None) => self.make_up(),
        };
        let row = self.row(row, table);
        let row = sift(row, &mut tags);
        let schema = &self.schema.tables[table];
        if let Some((row, _)) = &row
            && !row.iter().zip(&schema.columns).all(|(value, column)| value.fits(column))
        {
            tags.push("constraint violation");
        }
        checked(tags)?;
        let (mut row, _) = row.unwrap();
        row[0] = Value::one(Atom::Uuid(uuid));
        row[1] = self.fresh_version();
        self.tables[table].insert(uuid, Rc::new(row));
        Ok(Answer::Uuid(uuid))
    }

    fn select(&mut self, mut form: Form<'_>) -> Result<Answer, Stop> {
        let table = form.table(self.schema);
        let condition = form.array("where");
        let columns = form.optional("columns", form::array);
        let sort = form.optional("sort", form::array);
        form.check()?;
        let table = table.unwrap();
        let mut tags = Vec::new();
        let condition = sift(self.conditions(condition.unwrap(), table), &mut tags);
        let columns = sift(self.columns(columns, table), &mut tags);
        let sort = sift(self.columns(sort, table), &mut tags);
        checked(tags)?;
        let all = || (0..self.schema.tables[table].columns.len()).collect();
        let columns: Vec<usize> = columns.unwrap().unwrap_or_else(all);
        let rows = self.matching(table, &condition.unwrap());
        let project = |row: &Row| columns.iter().map(|column| row[*column].clone()).collect();
        let rows: BTreeSet<Vec<Value>> = rows.iter().map(|(_, row)| project(row)).collect();
        let rows = rows.into_iter().collect();
        Ok(Answer::Rows { table, columns, rows, sort: sort.unwrap().unwrap_or_default() })
    }

    fn update(&mut self, mut form: Form<'_>) -> Result<Answer, Stop> {
        let table = form.table(self.schema);
        let condition = form.array("where");
        let row = form.required("row", form::object);
        form.check()?;
        let (table, row) = (table.unwrap(), row.unwrap());
        let mut tags = self.forbidden(table);
        let row = sift(self.row(row, table), &mut tags);
        let condition = sift(self.conditions(condition.unwrap(), table), &mut tags);
        let schema = &self.schema.tables[table];
        let fixed = |column: &usize| !schema.columns[*column].can_change();
        if row.as_ref().is_some_and(|(_, named)| named.iter().any(fixed)) {
            tags.push("constraint violation");
        }
        checked(tags)?;
        let (values, named) = row.unwrap();
        let rows = self.matching(table, &condition.unwrap());
        let count = rows.len();
        for (uuid, mut row) in rows {
            if named.iter().all(|column| row[*column] == values[*column]) {
                continue;
            }
            let fields = Rc::make_mut(&mut row);
            named.iter().for_each(|column| fields[*column] = values[*column].clone());
            fields[1] = self.fresh_version();
            self.tables[table].insert(uuid, row);
        }
        Ok(Answer::Count(count))
    }

    fn mutate(&mut self, mut form: Form<'_>) -> Result<Answer, Stop> {
        let table = form.table(self.schema);
        let condition = form.array("where");
        let mutations = form.array("mutations");
        form.check()?;
        let table = table.unwrap();
        let mut tags = self.forbidden(table);
        let schema = &self.schema.tables[table];
        let mutations: Result<Vec<Mutation>, Tags> = mutations
            .unwrap()
            .iter()
            .map(|json| Mutation::read(json, schema, &mut |name| self.resolve(name)))
            .collect();
        let mutations = sift(mutations, &mut tags);
        let condition = sift(self.conditions(condition.unwrap(), table), &mut tags);
        checked(tags)?;
        let (mutations, condition) = (mutations.unwrap(), condition.unwrap());
        let rows = self.matching(table, &condition);
        let count = rows.len();
        // Which row is mutated first is unspecified, so any row's error may be the one reported.
        let mut tags = Vec::new();
        for (uuid, mut row) in rows {
            let fields = Rc::make_mut(&mut row);
            let changed = mutations.iter().try_for_each(|mutation| {
                let column = mutation.column;
                fields[column] = mutation.apply(&fields[column], &schema.columns[column])?;
                Ok(())
            });
            sift(changed, &mut tags);
            if !mutations.is_empty() {
                fields[1] = self.fresh_version();
                self.tables[table].insert(uuid, row);
            }
        }
        checked(tags)?;
        Ok(Answer::Count(count))
    }

    fn delete(&mut self, mut form: Form<'_>) -> Result<Answer, Stop> {
        let table = form.table(self.schema);
        let condition = form.array("where");
        form.check()?;
        let table = table.unwrap();
        let mut tags = self.forbidden(table);
        let condition = sift(self.conditions(condition.unwrap(), table), &mut tags);
        checked(tags)?;
        let rows = self.matching(table, &condition.unwrap());
        for (uuid, _) in &rows {
            self.tables[table].remove(uuid);
        }
        Ok(Answer::Count(rows.len()))
    }

    fn wait(&mut self, mut form: Form<'_>) -> Result<Answer, Stop> {
        let table = form.table(self.schema);
        let timeout = form.optional("timeout", form::integer);
        let condition = form.array("where");
        let columns = form.optional("columns", form::array);
        let until = form.required("until", form::text).and_then(Json::as_str);
        let rows = form.array("rows");
        form.check()?;
        let table = table.unwrap();
        let mut tags = Vec::new();
        let condition = sift(self.conditions(condition.unwrap(), table), &mut tags);
        let columns = sift(self.columns(columns, table), &mut tags);
        let rows: Result<Vec<_>, Tags> =
            rows.unwrap().iter().map(|row| Ok(self.row(row, table)?.0)).collect();
        let rows = sift(rows, &mut tags);
        if matches!(timeout, Some(Json::Integer(ms)) if *ms < 0)
            || !["==", "!="].contains(&until.unwrap())
        {
            tags.push("syntax error");
        }
        checked(tags)?;
        let all = || (0..self.schema.tables[table].columns.len()).collect();
        let columns: Vec<usize> = columns.unwrap().unwrap_or_else(all);
        let project =
            |row: &[Value]| -> Vec<Value> { columns.iter().map(|at| row[*at].clone()).collect() };
        let actual = self.matching(table, &condition.unwrap());
        let actual: BTreeSet<_> = actual.iter().map(|(_, row)| project(row)).collect();
        let expected: BTreeSet<_> = rows.unwrap().iter().map(|row| project(row)).collect();
        if (actual == expected) == (until == Some("==")) {
            return Ok(Answer::Empty);
        }
        match timeout {
            Some(Json::Integer(0)) => Err(Stop::Error(vec!["timed out"])),
            _ => Err(Stop::Waiting),
        }
    }
}
