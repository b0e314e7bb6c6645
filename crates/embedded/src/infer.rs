//! The types of what a statement returns and takes, from its text.
//!
//! SQLite knows the declared type of a column that is returned as it is, but not the type of an expression, and it has
//! no types of parameters. Both are read here from PostgreSQL's tokens: a small parser of expressions follows
//! precedence as far as types need it. It never refuses: what it does not understand has no type, and is sent as text.

mod expression;
mod function;

use crate::token::{Tok, closing, items};
use crate::types::{Declared, Type};
use expression::Reader;
use paceline_postgres::text::Kind;

/// Where the columns of tables are found.
pub trait Tables {
    /// The columns of a table, if it is known.
    fn columns(&self, name: &str) -> Option<Vec<(String, Declared)>>;
}

/// A column of a result, as the text has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its name; none for `*`, which is several columns.
    pub name: Option<String>,
    pub declared: Option<Declared>,
}

/// The tables that a statement names.
pub struct Scope {
    relations: Vec<Relation>,
    /// Columns that the statement itself names with AS, in a subquery or a WITH.
    named: Vec<(String, Declared)>,
    /// The types of the parameters, as far as they are known.
    pub parameters: Vec<Option<Type>>,
}

struct Relation {
    alias: String,
    columns: Vec<(String, Declared)>,
}

/// Longer statements are not looked into: their columns have the types that SQLite knows.
const TOKENS_MAX: usize = 20_000;

/// How many subqueries deep a name is followed.
const NESTING: usize = 3;
/// How many names are followed.
const ALIASES_MAX: usize = 200;

/// Where the item that ends at `end` begins: after a comma, a parenthesis or SELECT.
fn expression_start(toks: &[Tok<'_>], end: usize) -> usize {
    let mut depth = 0usize;
    for at in (0..end).rev() {
        let tok = &toks[at];
        match tok.kind {
            Kind::Close => depth += 1,
            Kind::Open if depth > 0 => depth -= 1,
            Kind::Open | Kind::Comma if depth == 0 => return at + 1,
            Kind::Word if depth == 0 && tok.is_any(&["select", "distinct", "returning"]) => {
                return at + 1;
            }
            _ => {}
        }
    }
    0
}

impl Scope {
    /// Finds the tables after FROM, JOIN, INTO, UPDATE and commas.
    pub fn new(toks: &[Tok<'_>], tables: &dyn Tables, parameters: Vec<Option<Type>>) -> Self {
        let mut relations = vec![];
        let toks = if toks.len() > TOKENS_MAX { &[] } else { toks };
        for (at, tok) in toks.iter().enumerate() {
            let is_start = tok.is_any(&["from", "join", "into", "update", "only", "copy"])
                || tok.kind == Kind::Comma;
            if is_start && let Some(relation) = relation(&toks[at + 1..], tables) {
                relations.push(relation);
            }
        }
        let mut scope = Self { relations, named: vec![], parameters };
        // A subquery may use what another one names, before or after it in the text.
        for _ in 0..NESTING {
            scope.named = scope.aliases(toks);
        }
        scope
    }

    fn aliases(&self, toks: &[Tok<'_>]) -> Vec<(String, Declared)> {
        let places = toks.windows(2).enumerate().filter(|(_, pair)| pair[0].is("as"));
        let typed = places.filter_map(|(at, pair)| {
            let declared = Reader::new(&toks[expression_start(toks, at)..at], self).whole()?;
            Some((pair[1].name()?, declared))
        });
        typed.take(ALIASES_MAX).collect()
    }

    /// The type of a column, which may be qualified by a table's name or alias.
    fn column(&self, qualifier: Option<&str>, name: &str) -> Option<Declared> {
        let find = |relation: &Relation| {
            relation.columns.iter().find(|(own, _)| own == name).map(|(_, declared)| *declared)
        };
        let named = self.relations.iter().filter(|r| Some(r.alias.as_str()) == qualifier);
        let own = || self.named.iter().find(|(own, _)| own == name).map(|(_, declared)| *declared);
        named.chain(&self.relations).find_map(find).or_else(own)
    }

    /// The columns of the first table that the statement names: that of INSERT, UPDATE or COPY.
    pub fn first(&self) -> &[(String, Declared)] {
        self.relations.first().map_or(&[], |relation| &relation.columns)
    }
}

/// `[schema.]name [AS] [alias]`.
fn relation(toks: &[Tok<'_>], tables: &dyn Tables) -> Option<Relation> {
    let first = toks.first()?.name()?;
    let is_qualified = toks.get(1).is_some_and(|tok| tok.kind == Kind::Dot);
    let (name, used) = match is_qualified {
        true => (toks.get(2)?.name()?, 3),
        false => (first.clone(), 1),
    };
    let full = format!("{first}.{name}");
    let columns = tables.columns(if is_qualified { &full } else { &name }).or_else(|| {
        let is_plain = ["public", "pg_catalog"].contains(&first.as_str());
        tables.columns(&name).filter(|_| is_plain)
    })?;
    let mut after = &toks[used..];
    if after.first().is_some_and(|tok| tok.kind == Kind::Open)
        && crate::management::Function::find(&name).is_some()
    {
        after = &after[(closing(after, 0) + 1).min(after.len())..];
    }
    let after = if after.first().is_some_and(|tok| tok.is("as")) { &after[1..] } else { after };
    let alias = after.first().filter(|tok| !tok.is_any(expression::CLAUSES));
    Some(Relation { alias: alias.and_then(|tok| tok.name()).unwrap_or(name), columns })
}

/// The columns of a statement's result; none if they are not in its text.
pub fn outputs(toks: &[Tok<'_>], scope: &Scope) -> Option<Vec<Item>> {
    let list = output_list(toks)?;
    Some(items(list).into_iter().map(|item| output(item, scope)).collect())
}

/// The tokens between SELECT and FROM, after RETURNING, or in the first row of VALUES.
fn output_list<'t, 'a>(toks: &'t [Tok<'a>]) -> Option<&'t [Tok<'a>]> {
    if toks.len() > TOKENS_MAX {
        return None;
    }
    if let [first, ..] = toks
        && first.kind == Kind::Open
    {
        return output_list(&toks[1..closing(toks, 0).min(toks.len())]);
    }
    let is_insert = toks.iter().any(|tok| tok.is_any(&["insert", "update", "delete"]));
    let (mut at, mut start) = (0, None);
    while at < toks.len() {
        let tok = &toks[at];
        let begins =
            if is_insert && start_of_write(toks) { tok.is("returning") } else { tok.is("select") };
        if start.is_none() && begins {
            start = Some(at + 1);
        } else if start.is_none() && tok.is("values") && !is_insert {
            let open = at + 1;
            return toks.get(open + 1..closing(toks, open).min(toks.len()));
        } else if let Some(start) = start
            && tok.is_any(expression::CLAUSES)
            && !is_distinct_from(toks, at)
            && !(tok.is_any(&["left", "right"])
                && toks.get(at + 1).is_some_and(|t| t.kind == Kind::Open))
        {
            return Some(select_list(&toks[start..at]));
        }
        at = if tok.kind == Kind::Open { closing(toks, at) } else { at };
        at += 1;
    }
    start.map(|start| select_list(&toks[start.min(toks.len())..]))
}

fn is_distinct_from(toks: &[Tok<'_>], at: usize) -> bool {
    toks[at].is("from") && at > 0 && toks[at - 1].is("distinct")
}

/// Whether the statement itself writes, not only a part of its WITH.
fn start_of_write(toks: &[Tok<'_>]) -> bool {
    let mut at = 0;
    while at < toks.len() {
        if toks[at].is_any(&["insert", "update", "delete"]) {
            return true;
        }
        if toks[at].is("select") {
            return false;
        }
        at = if toks[at].kind == Kind::Open { closing(toks, at) } else { at };
        at += 1;
    }
    false
}

fn select_list<'t, 'a>(toks: &'t [Tok<'a>]) -> &'t [Tok<'a>] {
    match toks {
        [first, rest @ ..] if first.is_any(&["distinct", "all"]) => rest,
        list => list,
    }
}

fn output(item: &[Tok<'_>], scope: &Scope) -> Item {
    if item.last().is_some_and(|tok| tok.is_sign("*"))
        && (item.len() == 1
            || item.get(item.len().wrapping_sub(2)).is_some_and(|t| t.kind == Kind::Dot))
    {
        return Item { name: None, declared: None };
    }
    let (expression, alias) = split_alias(item);
    let declared = Reader::new(expression, scope).whole();
    let name = alias.or_else(|| own_name(expression)).unwrap_or_else(|| "?column?".to_owned());
    Item { name: Some(name), declared }
}

/// `expression AS name` and `expression name`.
fn split_alias<'t, 'a>(item: &'t [Tok<'a>]) -> (&'t [Tok<'a>], Option<String>) {
    match item {
        [expression @ .., word, name] if word.is("as") => (expression, name.name()),
        [expression @ .., last] if matches!(last.kind, Kind::Word | Kind::Quoted) => {
            let follows_value = expression.last().is_some_and(|before| match before.kind {
                Kind::Close | Kind::Number | Kind::String | Kind::Quoted | Kind::Parameter => true,
                Kind::Word => {
                    before.is("end") || before.is("null") || !before.is_any(expression::OPERATORS)
                }
                _ => false,
            });
            let is_name = !last.is_any(expression::OPERATORS) && !last.is_any(NO_NAMES);
            match follows_value && is_name {
                true => (expression, last.name()),
                false => (item, None),
            }
        }
        _ => (item, None),
    }
}

/// Words that end an expression and name nothing.
const NO_NAMES: &[&str] = &["end", "null", "true", "false", "precision", "varying", "zone"];

/// The name that PostgreSQL gives a column without an alias: that of the column, function or type in it.
fn own_name(expression: &[Tok<'_>]) -> Option<String> {
    let cast = expression.iter().position(|tok| tok.is_sign("::"));
    if let Some(at) = cast
        && let Some(name) = own_name(&expression[..at])
    {
        return Some(name);
    }
    match expression {
        [only] if only.is_any(&["true", "false"]) => Some("bool".into()),
        [only] if only.is("null") => None,
        [only] => only.name(),
        [first, ..] if first.is("case") => Some("case".into()),
        [first, open, ..] if first.is("cast") && open.kind == Kind::Open => {
            let end = closing(expression, 1).min(expression.len());
            let inside = &expression[2..end];
            let at = inside.iter().rposition(|tok| tok.is("as"))?;
            own_name(&inside[..at]).or_else(|| {
                let text: Vec<&str> = inside[at + 1..].iter().map(|tok| tok.text).collect();
                Declared::read(&text.join(" ")).map(|declared| declared.kind.name().to_owned())
            })
        }
        [open, select, ..] if open.kind == Kind::Open && select.is("select") => {
            let inside = &expression[1..closing(expression, 0).min(expression.len())];
            let first = items(output_list(inside)?).into_iter().next()?;
            let (expression, alias) = split_alias(first);
            alias.or_else(|| own_name(expression))
        }
        [open, inside @ .., _]
            if open.kind == Kind::Open && closing(expression, 0) + 1 == expression.len() =>
        {
            own_name(inside)
        }
        _ => name_of_chain(expression).or_else(|| {
            let at = cast?;
            let is_whole =
                at == 1 || (expression[0].kind == Kind::Open && closing(expression, 0) + 1 == at);
            if !is_whole {
                return None;
            }
            let text: Vec<&str> = expression[at + 1..].iter().map(|tok| tok.text).collect();
            Declared::read(&text.join("")).map(|declared| declared.kind.name().to_owned())
        }),
    }
}

/// The last name of `a.b.c`, or the function of `a.f(...)` with all that may follow it.
fn name_of_chain(expression: &[Tok<'_>]) -> Option<String> {
    let mut at = 0;
    let mut name = expression.first()?.name()?;
    while expression.get(at + 1).is_some_and(|tok| tok.kind == Kind::Dot) {
        name = expression.get(at + 2)?.name()?;
        at += 2;
    }
    match expression.get(at + 1) {
        None => Some(name),
        Some(open) if open.kind == Kind::Open => {
            let after = expression.get(closing(expression, at + 1) + 1..).unwrap_or_default();
            let is_call = after.first().is_none_or(|tok| tok.is_any(&["over", "filter", "within"]));
            is_call.then_some(name)
        }
        Some(_) => None,
    }
}

/// The types of parameters: what the client said, else what the text implies, else text.
pub fn parameters(toks: &[Tok<'_>], tables: &dyn Tables, given: &[u32], count: usize) -> Vec<Type> {
    let mut types: Vec<Option<Type>> = vec![None; count];
    for (slot, oid) in types.iter_mut().zip(given) {
        *slot = Type::of_oid(*oid);
    }
    let scope = Scope::new(toks, tables, types.clone());
    for (at, tok) in toks.iter().enumerate().filter(|(_, tok)| tok.kind == Kind::Parameter) {
        let number: usize = tok.text.trim_start_matches('$').parse().unwrap_or(0);
        if let Some(slot) = number.checked_sub(1).and_then(|at| types.get_mut(at))
            && slot.is_none()
        {
            *slot = implied(toks, at, &scope);
        }
    }
    insert_types(toks, &scope, &mut types);
    types.into_iter().map(|slot| slot.unwrap_or(Type::Text)).collect()
}

const COMPARISONS: &[&str] = &["=", "<>", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/", "%"];

/// The type of a parameter from what stands beside it.
fn implied(toks: &[Tok<'_>], at: usize, scope: &Scope) -> Option<Type> {
    let after = toks.get(at + 1);
    let before = at.checked_sub(1).and_then(|at| toks.get(at));
    if after.is_some_and(|tok| tok.is_sign("::")) {
        return expression::type_at(&toks[at + 2..]).map(|(declared, _)| declared.kind);
    }
    if after.is_some_and(|tok| tok.is("as")) {
        let is_cast = at >= 2 && toks[at - 2].is("cast");
        return expression::type_at(&toks[at + 2..]).map(|(d, _)| d.kind).filter(|_| is_cast);
    }
    let before = before?;
    if before.is_any(&["limit", "offset"]) {
        return Some(Type::Int8);
    }
    let compares = |tok: &Tok<'_>| tok.kind == Kind::Sign && COMPARISONS.contains(&tok.text);
    if compares(before) || before.is_any(&["like", "ilike", "between"]) {
        return operand_before(toks, at - 1, scope);
    }
    if before.is("and")
        && let Some(between) = toks[..at].iter().rposition(|tok| tok.is("between"))
        && at - between <= 4
    {
        return operand_before(toks, between, scope);
    }
    if matches!(before.kind, Kind::Open | Kind::Comma)
        && let Some(open) = opening(toks, at)
        && open > 0
        && toks[open - 1].is("in")
    {
        let end = if open > 1 && toks[open - 2].is("not") { open - 2 } else { open - 1 };
        return operand_before(toks, end, scope);
    }
    if after.is_some_and(compares) {
        return Reader::new(&toks[at + 2..], scope).primary_only().map(|declared| declared.kind);
    }
    None
}

/// The `(` that is open at this place.
fn opening(toks: &[Tok<'_>], at: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (place, tok) in toks.iter().enumerate().take(at).rev() {
        match tok.kind {
            Kind::Close => depth += 1,
            Kind::Open if depth == 0 => return Some(place),
            Kind::Open => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The type of the column or literal that ends before `end`.
fn operand_before(toks: &[Tok<'_>], end: usize, scope: &Scope) -> Option<Type> {
    let last = toks.get(end.checked_sub(1)?)?;
    match last.kind {
        Kind::Word | Kind::Quoted => {
            let is_qualified = end >= 3 && toks[end - 2].kind == Kind::Dot;
            let qualifier = if is_qualified { toks[end - 3].name() } else { None };
            scope.column(qualifier.as_deref(), &last.name()?).map(|declared| declared.kind)
        }
        Kind::Number => Some(Type::Int4).filter(|_| last.text.parse::<i32>().is_ok()),
        _ => None,
    }
}

/// `INSERT INTO t (a, b) VALUES ($1, $2)`: parameters have the types of their columns.
fn insert_types(toks: &[Tok<'_>], scope: &Scope, types: &mut [Option<Type>]) {
    let Some(into) = toks.windows(2).position(|two| two[0].is("insert") && two[1].is("into"))
    else {
        return;
    };
    let values = toks.iter().position(|tok| tok.is("values"));
    let Some(values) = values.filter(|values| *values > into) else { return };
    let columns: Vec<Option<Type>> =
        match toks[into..values].iter().position(|t| t.kind == Kind::Open) {
            Some(open) => {
                let inside = &toks[into + open + 1..closing(toks, into + open).min(values)];
                let kind = |tok: &Tok<'_>| scope.column(None, &tok.name()?).map(|d| d.kind);
                inside.iter().filter(|tok| tok.kind != Kind::Comma).map(kind).collect()
            }
            None => scope.first().iter().map(|(_, declared)| Some(declared.kind)).collect(),
        };
    let mut at = values + 1;
    while toks.get(at).is_some_and(|tok| tok.kind == Kind::Open) {
        let end = closing(toks, at).min(toks.len());
        for (item, kind) in items(&toks[at + 1..end]).into_iter().zip(&columns) {
            if let [only] = item
                && let Some(number) =
                    only.text.strip_prefix('$').and_then(|n| n.parse::<usize>().ok())
                && let Some(slot) = number.checked_sub(1).and_then(|at| types.get_mut(at))
            {
                *slot = slot.or(*kind);
            }
        }
        at = end + 2;
    }
}

#[cfg(test)]
mod tests;
