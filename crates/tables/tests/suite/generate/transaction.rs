//! Random transactions of one to six operations, most of them valid.

use super::atoms::{POOL, Target, atom, existing, junk, pool_uuid, value};
use crate::model::schema::{Base, Column, Kind, Schema};
use crate::model::{Model, value::Value};
use crate::random::Random;
use paceline_tables::json::{Json, Object};
use paceline_types::Uuid;

/// The kind of one operation, decided before any operation is written, so that references can point forward.
struct Plan {
    word: &'static str,
    table: usize,
    name: Option<String>,
    uuid: Option<String>,
}

struct Writer<'a> {
    random: &'a mut Random,
    schema: &'a Schema,
    model: &'a Model,
    names: Vec<(usize, String)>,
}

/// A random transaction against the rows of `model`.
pub fn transaction(random: &mut Random, model: &Model) -> Vec<Json> {
    let schema = model.schema.clone();
    let plans: Vec<Plan> = (0..random.between(1, 6)).map(|at| plan(random, &schema, at)).collect();
    let names: Vec<(usize, String)> =
        plans.iter().filter_map(|plan| Some((plan.table, plan.name.clone()?))).collect();
    let mut operations = Vec::new();
    for plan in plans {
        let mut writer = Writer { random, schema: &schema, model, names: names.clone() };
        let operation = writer.operation(&plan);
        operations.push(if random.rare(60) { spoilt(random, operation) } else { operation });
    }
    operations
}

fn plan(random: &mut Random, schema: &Schema, at: usize) -> Plan {
    let word = match random.below(100) {
        _ if random.rare(100) => "abort",
        _ if random.rare(40) => "wait",
        0..=45 => "insert",
        46..=57 => "update",
        58..=76 => "mutate",
        77..=81 => "delete",
        82..=95 => "select",
        96 => "comment",
        97 => "commit",
        _ => "assert",
    };
    let table = random.below(schema.tables.len());
    let name = (word == "insert" && random.chance(60))
        .then(|| if random.rare(30) { "twice".to_owned() } else { format!("row{at}") });
    let uuid =
        (word == "insert" && random.chance(if random.calm { 10 } else { 30 })).then(
            || match random.below(40) {
                0 => Uuid::ZERO.to_string(),
                _ if random.rare(40) => "no uuid".to_owned(),
                _ => pool_uuid(random.below(POOL)).to_string(),
            },
        );
    Plan { word, table, name, uuid }
}

impl Writer<'_> {
    fn operation(&mut self, plan: &Plan) -> Json {
        let table = &self.schema.tables[plan.table];
        let mut members = vec![("op", Json::string(plan.word))];
        match plan.word {
            "comment" => members.push(("comment", Json::string("why"))),
            "commit" => members.push(("durable", Json::Bool(self.random.chance(50)))),
            "assert" => {
                let lock = if self.random.rare(5) { "theirs" } else { "mine" };
                members.push(("lock", Json::string(lock)));
            }
            "abort" => {}
            _ => members.push(("table", Json::string(table.name.as_str()))),
        }
        if matches!(plan.word, "update" | "mutate" | "delete" | "select" | "wait") {
            members.push(("where", self.condition(plan.table, plan.word)));
        }
        match plan.word {
            "insert" => {
                members.push(("row", self.row(plan.table, 85)));
                members.extend(plan.name.as_ref().map(|n| ("uuid-name", Json::string(n.as_str()))));
                members.extend(plan.uuid.as_ref().map(|u| ("uuid", Json::string(u.as_str()))));
            }
            "update" => members.push(("row", self.row(plan.table, 40))),
            "mutate" => {
                let count = self.random.between(1, 2);
                let list = (0..count).map(|_| self.mutation(plan.table)).collect();
                members.push(("mutations", Json::Array(list)));
            }
            "select" => {
                let columns = self.random.chance(60).then(|| self.columns(plan.table));
                members.extend(columns.map(|columns| ("columns", columns)));
                let sort = self.random.chance(40).then(|| self.columns(plan.table));
                members.extend(sort.map(|columns| ("sort", columns)));
            }
            "wait" => self.wait(plan.table, &mut members),
            _ => {}
        }
        Json::object(members)
    }

    fn value(&mut self, column: &Column) -> Json {
        let target = Target { tables: &self.model.tables, names: &self.names };
        value(self.random, column, &target)
    }

    /// Values for `percent` of the columns, and for all columns without a valid default.
    fn row(&mut self, table: usize, percent: usize) -> Json {
        let insert = percent > 50;
        let mut members = Vec::new();
        for column in self.schema.tables[table].columns.iter().skip(2) {
            let needed = insert && (!Value::default_of(column).fits(column) || column.min > 0);
            let fixed = !insert && !column.can_change() && !self.random.rare(20);
            if !fixed && self.random.chance(if needed { 97 } else { percent }) {
                members.push((column.name.as_str(), self.value(column)));
            }
        }
        if self.random.rare(150) {
            members.push(("_uuid", self.value(&Column::special("_uuid"))));
        }
        Json::object(members)
    }

    fn condition(&mut self, table: usize, word: &str) -> Json {
        let every = if word == "delete" { 4 } else { 20 };
        if self.random.chance(every) {
            return Json::Array(Vec::new());
        }
        let mut clauses = Vec::new();
        if self.random.chance(45) {
            let uuid = existing(self.random, &self.model.tables[table], 0);
            let uuid = uuid.map(|uuid| uuid.to_json());
            let uuid = uuid.unwrap_or_else(|| self.value(&Column::special("_uuid")));
            clauses.push(Json::Array(vec![Json::string("_uuid"), Json::string("=="), uuid]));
        }
        while clauses.is_empty() || self.random.chance(25) {
            clauses.push(self.clause(table));
        }
        Json::Array(clauses)
    }

    fn clause(&mut self, table: usize) -> Json {
        clause(self.random, self.schema, self.model, table, &self.names)
    }

    fn mutation(&mut self, table: usize) -> Json {
        let columns = &self.schema.tables[table].columns[2..];
        let mut column = self.random.pick(columns);
        // Numbers and collections can be mutated, other columns refuse; look for a mutable one.
        for _ in 0..4 {
            if !column.can_change() || (column.is_scalar() && !column.is_numeric()) {
                column = self.random.pick(columns);
            }
        }
        let arithmetic = column.is_numeric() && (column.is_scalar() || self.random.chance(50));
        let mutator = match arithmetic {
            _ if self.random.rare(60) => *self.random.pick(&["insert", "+=", "%=", "no such"]),
            true => *self.random.pick(&["+=", "-=", "*=", "/=", "%="]),
            false => *self.random.pick(&["insert", "insert", "delete"]),
        };
        let argument = if arithmetic {
            let base = Base::plain(column.key.kind);
            let target = Target { tables: &self.model.tables, names: &self.names };
            atom(self.random, &base, &target)
        } else if column.value.is_some() && mutator == "delete" && self.random.chance(50) {
            self.value(&Column { value: None, ..column.clone() })
        } else {
            let min = if self.random.chance(80) { 1 } else { 0 };
            self.value(&Column { min, ..column.clone() })
        };
        Json::Array(vec![Json::string(column.name.as_str()), Json::string(mutator), argument])
    }

    fn columns(&mut self, table: usize) -> Json {
        let names: Vec<&str> =
            self.schema.tables[table].columns.iter().map(|column| column.name.as_str()).collect();
        let mut some = self.random.some_of(&names, 40);
        if self.random.rare(80) {
            some.push("nothing");
        }
        if self.random.rare(80) {
            some.extend(some.first().copied());
        }
        Json::Array(some.into_iter().map(Json::string).collect())
    }

    fn wait(&mut self, table: usize, members: &mut Vec<(&str, Json)>) {
        if self.random.chance(90) {
            members.push(("timeout", Json::Integer(0)));
        }
        members.push(("until", Json::string(if self.random.chance(50) { "==" } else { "!=" })));
        if self.random.chance(90) {
            members.push(("columns", self.columns(table)));
        }
        let mut rows = Vec::new();
        for row in self.model.tables[table].values().take(self.random.below(3)) {
            let columns = self.schema.tables[table].columns.iter().zip(row.iter());
            let row = columns.map(|(column, value)| (column.name.as_str(), value.to_json()));
            rows.push(Json::object(row));
        }
        members.push(("rows", Json::Array(rows)));
    }
}

/// A random clause on a column of `table`; in half of all cases the argument comes from a row.
pub fn clause(
    random: &mut Random,
    schema: &Schema,
    model: &Model,
    table: usize,
    names: &[(usize, String)],
) -> Json {
    if random.chance(4) {
        return Json::Bool(random.chance(70));
    }
    let columns = &schema.tables[table].columns;
    let at = random.below(columns.len());
    let column = &columns[at];
    let name = if random.rare(80) { "nothing" } else { column.name.as_str() };
    let ordered = column.is_numeric() && column.max == 1;
    let function = match random.below(60) {
        _ if random.rare(60) => "no such",
        _ if random.rare(60) => "<",
        0..=30 if ordered => *random.pick(&["<", "<=", ">", ">="]),
        _ => *random.pick(&["==", "!=", "includes", "excludes"]),
    };
    let from_row = existing(random, &model.tables[table], at).filter(|_| random.chance(50));
    let argument = match from_row {
        Some(value) => value.to_json(),
        None => {
            let names = if column.key.kind == Kind::Uuid { names } else { &[] };
            value(random, column, &Target { tables: &model.tables, names })
        }
    };
    Json::Array(vec![Json::string(name), Json::string(function), argument])
}

/// `operation` with an error in its form.
fn spoilt(random: &mut Random, operation: Json) -> Json {
    let Json::Object(object) = operation else { return operation };
    let mut members: Vec<(Box<str>, Json)> =
        object.iter().map(|(name, value)| (name.into(), value.clone())).collect();
    // If the name were not defined after all, its references would have a UUID that only the database knows.
    let choice: Vec<usize> =
        (0..members.len()).filter(|at| &*members[*at].0 != "uuid-name").collect();
    let at = *random.pick(&choice);
    match random.below(5) {
        0 => drop(members.remove(at)),
        1 => members.push(("extra".into(), junk(random))),
        2 => members[at].1 = junk(random),
        3 => members[at].1 = Json::string("Nope"),
        _ => return junk(random),
    }
    Json::Object(Object::new(members))
}
