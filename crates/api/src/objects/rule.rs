//! Rules: what they match and do, written as in TOML, and the verbs on the running list.

use super::database::{self, begin, edit, first_row, select_all};
use super::fields::Reading;
use super::pool::reserved;
use super::values::{Row, flag, number, number_in, text, text_in};
use super::{Object, columns_of, describe, made, read_row, verb_of, warned};
use crate::config::own_database;
use crate::identity::{Identity, Role};
use crate::members::Members;
use crate::openapi::{name_of, new_of};
use crate::operation::{EDIT, Operation};
use crate::respond::{Answer, Problem, done};
use crate::router::Routes;
use crate::turns::wait;
use crate::{Shared, body};
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::HeaderMap;
use paceline_catalogue::{Kind, RULES};
use paceline_host::Author;
use paceline_host::words::{Criterion, PatternMode, parse_action, parse_criteria, show_criteria};
use paceline_tables::value::Datum;
use paceline_tables::{Function, tag};
use paceline_types::{Name, Priority};
use serde_json::{Map, Value, json};

/// The distance of a new rule from the last one.
const STEP: u64 = 10;

/// How often an edit that lost against another one is retried.
const TRIES_MAX: u32 = 5;

/// The words of the actions that take a number.
const NUMBERED: [&str; 3] = ["set", "raise", "lower"];

const MODES: [(&str, PatternMode); 3] =
    [("exact", PatternMode::Exact), ("glob", PatternMode::Glob), ("regex", PatternMode::Regex)];

/// The table Rule.
pub(super) struct Rule;

impl Object for Rule {
    const KIND: &'static Kind = &RULES;

    fn read(members: &mut Members, reading: &Reading, row: &mut Row) -> Result<(), Problem> {
        read_match(members, reading, row)?;
        read_action(members, reading, row)
    }

    fn settle_resets(members: &mut Members, row: &Row) {
        // All actions share one column, so a reset of another one would clear the rule's own.
        let action = text_in(row, "action").unwrap_or_default();
        let own = action.split(' ').next().unwrap_or_default();
        for word in NUMBERED.into_iter().chain(["reject"]).filter(|word| *word != own) {
            if matches!(members.peek(word), Some(Value::Null | Value::Bool(false))) {
                members.given(word);
            }
        }
    }

    fn show(row: &Row, object: &mut Map<String, Value>) {
        show(row, object);
    }
}

/// Reads `match`, and `mode` and `nocase`, which apply to patterns without their own.
fn read_match(members: &mut Members, reading: &Reading, row: &mut Row) -> Result<(), Problem> {
    let mode = members.word("mode", &MODES)?.unwrap_or(PatternMode::Exact);
    let nocase = members.flag("nocase")?.unwrap_or(false);
    let given = members.has("match");
    let patterns = members.object("match")?;
    let Some(mut patterns) = patterns else {
        if given || reading.resets() {
            row.insert("criteria".into(), text(""));
        }
        return Ok(());
    };
    let mut criteria = Vec::new();
    for (attribute, value) in patterns.take_all() {
        let place = format!("match.{}", crate::respond::shown(&attribute));
        let wrong =
            |message: &dyn std::fmt::Display| Problem::bad_request(format!("{place}: {message}"));
        let name = Name::parse(&attribute).map_err(|error| wrong(&error))?;
        let several = match value {
            Value::Array(several) => several,
            one => vec![one],
        };
        if several.is_empty() {
            // Without a pattern the rule would match every value.
            return Err(wrong(&"expected at least one pattern"));
        }
        for one in several {
            let (mode, nocase, pattern) = read_pattern(one, mode, nocase).ok_or_else(|| {
                wrong(&"expected a text, or an object such as {\"glob\": \"a*\"}")
            })?;
            criteria.push(Criterion { attribute: name.clone(), mode, nocase, pattern });
        }
    }
    row.insert("criteria".into(), text(&show_criteria(&criteria)));
    Ok(())
}

/// A pattern: a text, or an object with the mode as its member and optionally `nocase`.
fn read_pattern(
    value: Value,
    mode: PatternMode,
    nocase: bool,
) -> Option<(PatternMode, bool, String)> {
    let mut members = match value {
        Value::String(pattern) => return Some((mode, nocase, pattern)),
        Value::Object(members) => members,
        _ => return None,
    };
    let nocase = match members.remove("nocase") {
        None => nocase,
        Some(flag) => flag.as_bool()?,
    };
    let (word, pattern) = members.iter().next().filter(|_| members.len() == 1)?;
    let mode = MODES.iter().find(|(own, _)| own == word)?.1;
    Some((mode, nocase, pattern.as_str()?.to_owned()))
}

/// Reads `set`, `raise`, `lower` or `reject`; without any of them the rule changes nothing.
fn read_action(members: &mut Members, reading: &Reading, row: &mut Row) -> Result<(), Problem> {
    let mut action: Option<String> = None;
    let mut named = false;
    for word in NUMBERED {
        let Some(value) = members.given(word) else { continue };
        named = true;
        if value.is_null() {
            continue;
        }
        let Some(number) = value.as_i64() else {
            return Err(members.wrong(word, "a whole number", &value));
        };
        if number == i64::from(Priority::REJECTED) && word == "set" {
            return Err(reserved(word, Rule::KIND.table, "action").hint("reject rejects a request"));
        }
        if let Some(other) = action.replace(format!("{word} {number}")) {
            let message = format!("{word}: expected one action, but there is also {other}");
            return Err(Problem::bad_request(message));
        }
    }
    named |= members.has("reject");
    if members.flag("reject")?.unwrap_or(false)
        && let Some(other) = action.replace("reject".to_owned())
    {
        let message = format!("reject: expected one action, but there is also {other}");
        return Err(Problem::bad_request(message));
    }
    if named || reading.resets() {
        row.insert("action".into(), action.map_or(Datum::Empty, |action| text(&action)));
    }
    Ok(())
}

/// Shows what a rule matches and does.
pub(super) fn show(row: &Row, object: &mut Map<String, Value>) {
    let text = |column: &str| text_in(row, column).unwrap_or_default();
    let mut patterns: Map<String, Value> = Map::new();
    for criterion in parse_criteria(text("criteria")).unwrap_or_default() {
        let mut pattern = json!({ criterion.mode.to_string(): criterion.pattern });
        if criterion.nocase {
            pattern["nocase"] = true.into();
        }
        match patterns.get_mut(&criterion.attribute.to_string()) {
            None => _ = patterns.insert(criterion.attribute.to_string(), pattern),
            Some(Value::Array(several)) => several.push(pattern),
            Some(one) => *one = json!([one.take(), pattern]),
        }
    }
    if !patterns.is_empty() {
        object.insert("match".into(), Value::Object(patterns));
    }
    let action = parse_action(text("action")).map(|action| action.to_string()).unwrap_or_default();
    match action.split_once(' ') {
        Some((word, number)) => {
            object.insert(word.to_owned(), number.parse().map_or(Value::Null, |n: i64| n.into()));
        }
        None if action == "reject" => _ = object.insert("reject".into(), true.into()),
        None => {}
    }
    let then = if action == "reject" { "stop" } else { "continue" };
    object.entry("then").or_insert(then.into());
}

/// Adds the verbs.
pub(super) fn verbs(routes: Routes) -> Routes {
    let operation = |role, path, id: &str, summary: &str| {
        Operation::new(role, "POST", path, id, summary).fails(EDIT)
    };
    let add = "Adds a rule, at the end unless it has a number";
    let add = operation(Role::Operator, "/v1/rules", "add_rule", add);
    let clear_all = "Clears the running list of rules";
    let clear_all = operation(Role::Operator, "/v1/rules/clear", "clear_rules", clear_all);
    let save_all = "Saves the running list of rules";
    let save_all = operation(Role::Admin, "/v1/rules/save", "save_rules", save_all);
    let verb = |path, verb, summary| verb_of::<Rule>(Role::Operator, path, verb, summary);
    routes
        .add(add.takes(&new_of(Rule::KIND)).gives(201, &name_of(Rule::KIND)), new)
        .add(clear_all.gives_nothing(), clear)
        .add(save_all.gives_nothing(), save)
        .add(verb("/v1/rules/{number}/enable", "enable", "Enables"), enable)
        .add(verb("/v1/rules/{number}/disable", "disable", "Disables"), disable)
}

/// `POST /v1/rules`: a new rule at the end, unless the body gives its number
async fn new(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let mut members = body::members(&app, &identity, &headers, body).await?;
    let given = members.number("number")?;
    let key = given.map_or_else(|| "new".to_owned(), |number| number.to_string());
    let columns = read_row::<Rule>(members, &Reading::Create, &key)?;
    for tries in 1.. {
        let own = match given {
            Some(own) => u64::from(own),
            None => next_number(&app, &identity).await?,
        };
        let value = number(i64::try_from(own).unwrap_or(i64::MAX));
        let mut row = columns.clone();
        row.insert("number".into(), value.clone());
        let table = Rule::KIND.table;
        let added = begin(&app)?
            .insert(table, columns_of(&row))
            .select(table, [("number", Function::Equal, value)]);
        match edit(&app, &identity, added).await {
            Ok(results) => {
                let row = first_row(&results).unwrap_or_default();
                return made(&warned::<Rule>(&app, &own.to_string(), &row, describe::<Rule>(&row)));
            }
            // Another client took the number in between.
            Err(error)
                if given.is_none()
                    && tries < TRIES_MAX
                    && error.tag == tag::CONSTRAINT
                    && error.details.contains("identical values") => {}
            Err(error) => return Err(database::problem::<Rule>(&error, &own.to_string())),
        }
    }
    Err(Problem::conflict("the list of rules changed too often meanwhile"))
}

async fn next_number(app: &Shared, identity: &Identity) -> Result<u64, Problem> {
    let rules = select_all(app, identity, Rule::KIND.table).await?;
    let last = rules.iter().filter_map(|row| number_in(row, "number")).max().unwrap_or(0);
    Ok(last + STEP)
}

/// `POST /v1/rules/clear`: the running list only
async fn clear(State(app): State<Shared>, Extension(identity): Extension<Identity>) -> Answer {
    let cleared = edit(&app, &identity, begin(&app)?.delete(Rule::KIND.table, [])).await;
    cleared.map_err(|error| database::problem::<Rule>(&error, ""))?;
    done()
}

/// `POST /v1/rules/save`: the saved list becomes the running one
async fn save(State(app): State<Shared>, Extension(identity): Extension<Identity>) -> Answer {
    let _place = wait(&app.answers.working, &identity).await;
    let database = own_database(&app)?;
    let title = identity.title();
    let author = Author { name: &title, role: identity.role };
    let saved = tokio::task::block_in_place(|| database.edit(author, paceline_config::save_rules));
    saved.map_err(|error| database::problem::<Rule>(&error, ""))?;
    done()
}

async fn enable(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(number): Path<String>,
) -> Answer {
    let column = ("disabled", flag(false));
    super::edit::set::<Rule>(&app, &identity, &number, column, |_| Ok(())).await
}

async fn disable(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(number): Path<String>,
) -> Answer {
    let column = ("disabled", flag(true));
    super::edit::set::<Rule>(&app, &identity, &number, column, |_| Ok(())).await
}
