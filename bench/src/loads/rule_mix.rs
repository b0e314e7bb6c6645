//! Typical rules, and requests that some of them match.
//!
//! Of twenty rules in a row, eight are exact, five are globs, and five are regular expressions or several criteria at
//! once. Some ignore case, and one has a condition. The last three match very many requests.

use super::engine::{Chance, request};
use crate::Outcome;
use paceline_rules::Rule;
use paceline_types::Request;

/// Tables that occur in statements and rules.
const TABLES: usize = 5_000;

/// `count` rules.
pub fn rules(count: usize) -> Outcome<Vec<Rule>> {
    let last = [
        "text regex ^(begin|commit|rollback)$ raise 30 continue",
        "kind exact sql when 'priority > 40' lower 10 continue",
        "user glob * nothing continue",
    ];
    let first = count.saturating_sub(last.len());
    let texts = (0..first).map(one).chain(last.into_iter().map(String::from));
    let rule = |(at, text): (usize, String)| Ok(Rule::parse(&format!("{} {text}", at + 1))?);
    texts.take(count).enumerate().map(rule).collect()
}

fn one(at: usize) -> String {
    let (user, host, table) = (at * 7 % 20_000, at % 2_000, at % TABLES);
    match at % 20 {
        0..=3 => format!("user exact user-{user} raise 5 continue"),
        4 | 5 => format!("host exact node-{host} lower 3 continue"),
        6 => format!("user exact nocase USER-{user} raise 2 continue"),
        7 => format!("user glob job-{at}-* set 20 stop"),
        8..=10 => format!("text glob '*from orders_{table} where*' lower 5 continue"),
        11 => format!("text glob nocase '*INTO events_{table} *' lower 1 continue"),
        12 | 13 => format!(r"text regex '(?:from|join) stock_{table}\b' raise 1 continue"),
        14 => format!(r"text regex nocase '^update\s+ACCOUNTS_{table}\s+set' raise 10 stop"),
        15 => format!("text regex 'like ''%[a-z]+{table}%''' lower 7 continue"),
        16 => format!(r"user glob user-{user}* and text regex 'limit \d+$' lower 10 continue"),
        17 => format!("host exact node-{host} and text glob 'delete *' raise 3 continue"),
        18 => format!(
            "database exact shop and text glob '*carts_{table} *' \
             when 'header[\"x-job\"] == \"nightly\" && priority < 50' lower 20 continue"
        ),
        _ => format!(r"user exact user-{user} and text regex 'drop\s+table' reject stop"),
    }
}

/// `count` requests, each with a different text.
pub fn requests(count: usize) -> Outcome<Vec<Request>> {
    let mut chance = Chance::new(17);
    (0..count).map(|number| one_request(&mut chance, number)).collect()
}

fn one_request(chance: &mut Chance, number: usize) -> Outcome<Request> {
    let user = format!("user-{}", chance.below(20_000));
    let host = format!("node-{}", chance.below(2_000));
    let mut request = request(&[
        ("kind", "sql"),
        ("frontend", "sql"),
        ("user", &user),
        ("host", &host),
        ("database", if chance.percent(50) { "shop" } else { "books" }),
        ("text", &statement(chance, number)),
    ])?;
    if chance.percent(20) {
        request.attributes.set("header.x-job", "nightly")?;
    }
    Ok(request)
}

fn statement(chance: &mut Chance, number: usize) -> String {
    let (table, other) = (chance.below(TABLES), chance.below(TABLES));
    match number % 6 {
        0 => format!(
            "select id, name, price from orders_{table} where customer = {number} \
             and state in ('open', 'paid') order by id limit 50"
        ),
        1 => format!(
            "select o.id from orders_{table} o join stock_{other} s on s.id = o.stock \
             where s.place = {number}"
        ),
        2 => format!("update accounts_{table} set balance = balance - 5 where id = {number}"),
        3 => format!("insert into events_{table} (id, kind) values ({number}, 'click')"),
        4 => format!("delete from carts_{table} where seen < {number} and owner is null"),
        _ => format!("select * from customers where name like '%ab{table}%' and id > {number}"),
    }
}
