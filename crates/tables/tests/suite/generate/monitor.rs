//! Random monitor requests and changes of their conditions.

use super::transaction::clause;
use crate::model::Model;
use crate::random::Random;
use paceline_tables::json::Json;

/// Which parts of a request are random.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Every kind of change is reported, so that replay is exact.
    AllKinds,
    /// Any kinds may be left out.
    SomeKinds,
}

/// A `<monitor-requests>` object on some tables; conditions only where the version has them.
pub fn requests(random: &mut Random, model: &Model, conditions: bool, shape: Shape) -> Json {
    let mut tables = Vec::new();
    for (at, table) in model.schema.tables.iter().enumerate() {
        if !random.chance(80) {
            continue;
        }
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        let chosen = random.some_of(&names, 60);
        let cut = random.below(chosen.len() + 1);
        let parts: Vec<Option<&[&str]>> = match random.below(4) {
            0 => vec![None],
            1 => vec![Some(&chosen)],
            _ => vec![Some(&chosen[..cut]), Some(&chosen[cut..])],
        };
        let list: Vec<Json> = parts
            .into_iter()
            .map(|columns| request(random, model, at, columns, conditions, shape))
            .collect();
        let single = list.len() == 1 && random.chance(50);
        let requests = if single { list[0].clone() } else { Json::Array(list) };
        tables.push((table.name.as_str(), requests));
    }
    Json::object(tables)
}

fn request(
    random: &mut Random,
    model: &Model,
    table: usize,
    columns: Option<&[&str]>,
    conditions: bool,
    shape: Shape,
) -> Json {
    let mut members = Vec::new();
    if let Some(columns) = columns {
        let names = columns.iter().map(|name| Json::string(*name)).collect();
        members.push(("columns", Json::Array(names)));
    }
    if shape == Shape::SomeKinds && random.chance(80) {
        let kinds = ["initial", "insert", "delete", "modify"];
        let kinds = random.some_of(&kinds, 60);
        let select = kinds.into_iter().map(|kind| (kind, Json::Bool(random.chance(40))));
        members.push(("select", Json::object(select)));
    }
    if conditions && random.chance(75) {
        members.push(("where", condition(random, model, table)));
    }
    Json::object(members)
}

/// Valid clauses: the generator of operations also makes invalid ones, which have their own tests.
fn condition(random: &mut Random, model: &Model, table: usize) -> Json {
    let schema = &model.schema.tables[table];
    let mut clauses = Vec::new();
    while clauses.len() < 3 && random.chance(60) {
        let json = clause(random, &model.schema, model, table, &[]);
        let mut named = false;
        let read = crate::model::Clause::read(&json, schema, &mut |_| {
            named = true;
            paceline_types::Uuid::ZERO
        });
        if read.is_ok() && !named {
            clauses.push(json);
        }
    }
    Json::Array(clauses)
}

/// New conditions for some of the tables that `requests` names.
pub fn condition_change(random: &mut Random, model: &Model, requests: &Json) -> Json {
    let mut tables = Vec::new();
    for (name, _) in requests.as_object().unwrap().iter() {
        if random.chance(60) {
            let table = model.schema.table(name).unwrap();
            let condition = condition(random, model, table);
            tables.push((name, Json::Array(vec![Json::object([("where", condition)])])));
        }
    }
    Json::object(tables)
}
