//! Constraints, indexes and views as PostgreSQL writes them.

use crate::functions::quote_ident;
use crate::schema::{Index, Schema, Table};
use crate::token::solids;
use paceline_postgres::text::Kind;

/// A primary key, unique or foreign key constraint.
#[derive(Debug)]
pub struct Constraint<'s> {
    pub oid: i64,
    pub name: String,
    /// `p`, `u` or `f`.
    pub kind: char,
    pub table: &'s Table,
    pub index: i64,
    /// The table that a foreign key references.
    pub target: Option<&'s Table>,
    pub columns: Vec<String>,
    pub target_columns: Vec<String>,
    pub on_update: &'s str,
    pub on_delete: &'s str,
    pub definition: String,
}

/// The identifiers of constraints are those of their indexes, beyond this.
const OID: i64 = 1 << 31;

/// All constraints but checks, which SQLite keeps in the text of a table only.
pub fn constraints(schema: &Schema) -> Vec<Constraint<'_>> {
    let mut found = vec![];
    for table in schema.tables.values() {
        for index in table.indexes.iter().filter(|index| index.is_constraint) {
            let columns: Vec<String> = index.columns.iter().flatten().cloned().collect();
            let word = if index.is_primary { "PRIMARY KEY" } else { "UNIQUE" };
            found.push(Constraint {
                oid: OID + index.oid,
                name: index.name.clone(),
                kind: if index.is_primary { 'p' } else { 'u' },
                table,
                index: index.oid,
                target: None,
                definition: format!("{word} ({})", list(&columns)),
                columns,
                target_columns: vec![],
                on_update: "NO ACTION",
                on_delete: "NO ACTION",
            });
        }
        found.extend((0..).zip(&table.foreign).map(|(number, _)| foreign(schema, table, number)));
    }
    found
}

fn foreign<'s>(schema: &'s Schema, table: &'s Table, number: usize) -> Constraint<'s> {
    let foreign = &table.foreign[number];
    let target = schema.table(&foreign.table);
    let mut columns = foreign.to.clone();
    if columns.is_empty() {
        let key = target.map(Table::key).unwrap_or_default();
        columns = key.iter().map(|column| column.name.clone()).collect();
    }
    let mut definition = format!(
        "FOREIGN KEY ({}) REFERENCES {}({})",
        list(&foreign.from),
        quote_ident(&foreign.table),
        list(&columns)
    );
    for (word, action) in [("UPDATE", &foreign.on_update), ("DELETE", &foreign.on_delete)] {
        if action != "NO ACTION" {
            definition.push_str(&format!(" ON {word} {action}"));
        }
    }
    let key = target.and_then(|target| target.indexes.iter().find(|index| index.is_primary));
    Constraint {
        oid: OID + (1 << 20) + table.oid * 64 + i64::try_from(number).unwrap_or(0),
        name: format!("{}_{}_fkey", table.name, foreign.from.join("_")),
        kind: 'f',
        table,
        index: key.map_or(0, |index| index.oid),
        target,
        columns: foreign.from.clone(),
        target_columns: columns,
        on_update: &foreign.on_update,
        on_delete: &foreign.on_delete,
        definition,
    }
}

fn list(columns: &[String]) -> String {
    columns.iter().map(|name| quote_ident(name)).collect::<Vec<_>>().join(", ")
}

/// The definition of an index, or of one of its columns if `column` is not 0.
pub fn index_definition(schema: &Schema, oid: i64, column: i64) -> Option<String> {
    let (table, index) = schema
        .tables
        .values()
        .flat_map(|table| table.indexes.iter().map(move |index| (table, index)))
        .find(|(_, index)| index.oid == oid)?;
    if column > 0 {
        let at = usize::try_from(column - 1).ok()?;
        return index
            .columns
            .get(at)
            .map(|name| name.as_deref().map_or("expression".into(), quote_ident));
    }
    let unique = if index.is_unique { "UNIQUE " } else { "" };
    let name = quote_ident(&index.name);
    Some(format!(
        "CREATE {unique}INDEX {name} ON public.{} USING btree {}",
        quote_ident(&table.name),
        keys(index)
    ))
}

/// The parenthesis of an index and what follows it: from its own text, where an expression or a condition is.
fn keys(index: &Index) -> String {
    let own = index.sql.as_deref().filter(|_| index.is_partial || index.columns.contains(&None));
    if let Some(open) = own.and_then(|sql| sql.find('(').and_then(|at| sql.get(at..))) {
        return open.to_owned();
    }
    let columns: Vec<String> = index.columns.iter().flatten().cloned().collect();
    format!("({})", list(&columns))
}

/// The query of a view.
pub fn view_text(sql: &str) -> String {
    let toks = solids(sql);
    let at = toks.iter().position(|tok| tok.kind == Kind::Word && tok.is("as"));
    let rest: Vec<&str> = toks.iter().skip(at.map_or(0, |at| at + 1)).map(|tok| tok.text).collect();
    format!("{};", rest.join(" "))
}
