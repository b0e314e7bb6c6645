//! Random values of a column's type, valid in most cases.

use crate::model::schema::{Base, Column, Kind, Limit};
use crate::model::value::Atom;
use crate::model::{Tables, value::Value};
use crate::random::Random;
use paceline_tables::json::Json;
use paceline_types::Uuid;

/// Strings with every kind of content: empty, escaped, wide, too long to be kept in place.
pub const STRINGS: [&str; 8] =
    ["", "a", "b", "ab", "é\n\"x", "0123456789012345678901", "01234567890123456789012", "😀😀😀"];
const REALS: [f64; 9] = [0.0, 1.0, -1.5, 0.5, 2.25, 1e300, -1e300, 1e-300, 3.0];
const INTEGERS: [i64; 12] = [0, 1, 2, 3, 4, 5, -1, -2, 7, 100, i64::MAX, i64::MIN];

/// UUID number `n` of those that clients choose.
pub fn pool_uuid(n: usize) -> Uuid {
    Uuid::from_halves(0x1000_0000_0000_4000 + n as u64, 0x8000_0000_0000_0000 + n as u64)
}

pub const POOL: usize = 24;

/// What references can point to: existing rows, and names of rows that this transaction inserts, with their table.
pub struct Target<'a> {
    pub tables: &'a Tables,
    pub names: &'a [(usize, String)],
}

/// A random value of `column`; now and then an invalid one.
pub fn value(random: &mut Random, column: &Column, target: &Target<'_>) -> Json {
    if random.rare(150) {
        return junk(random);
    }
    let most = column.max.min(column.min + 3);
    let mut size = random.between(column.min, most);
    if random.rare(200) {
        size += 1;
    }
    let mut list: Vec<Json> = Vec::new();
    let mut keys: Vec<Json> = Vec::new();
    for _ in 0..size {
        let key = atom(random, &column.key, target);
        // Mostly without duplicates, which are refused.
        if keys.contains(&key) && !random.rare(30) {
            continue;
        }
        keys.push(key.clone());
        list.push(match &column.value {
            Some(value) => Json::Array(vec![key, atom(random, value, target)]),
            None => key,
        });
    }
    if column.value.is_none() && list.len() == 1 && !random.chance(20) {
        return list.remove(0);
    }
    let word = if column.value.is_some() { "map" } else { "set" };
    Json::Array(vec![Json::string(word), Json::Array(list)])
}

/// A random atom as JSON; a reference may be a named UUID.
pub fn atom(random: &mut Random, base: &Base, target: &Target<'_>) -> Json {
    if random.rare(250) {
        return junk(random);
    }
    if let Limit::Reference { table, .. } = base.limit {
        return reference(random, table, target);
    }
    if base.kind == Kind::Uuid && base.allowed.is_none() && random.chance(20) {
        let rows = random.pick(target.tables);
        if let Some(uuid) = some_key(random, rows) {
            return Atom::Uuid(uuid).to_json();
        }
        if !target.names.is_empty() {
            return named(&random.pick(target.names).1);
        }
    }
    plain(random, base).to_json()
}

fn reference(random: &mut Random, table: usize, target: &Target<'_>) -> Json {
    let names: Vec<&String> =
        target.names.iter().filter(|(of, _)| *of == table).map(|(_, name)| name).collect();
    let existing = some_key(random, &target.tables[table]);
    match (existing, names.is_empty()) {
        _ if random.rare(60) => named("nobody"),
        _ if random.rare(60) => Atom::Uuid(pool_uuid(random.below(POOL))).to_json(),
        (Some(uuid), none) if none || random.chance(60) => Atom::Uuid(uuid).to_json(),
        (_, false) => named(names[random.below(names.len())]),
        _ => Atom::Uuid(pool_uuid(random.below(POOL))).to_json(),
    }
}

fn some_key<T>(random: &mut Random, rows: &std::collections::BTreeMap<Uuid, T>) -> Option<Uuid> {
    (!rows.is_empty()).then(|| *rows.keys().nth(random.below(rows.len())).unwrap())
}

fn named(name: &str) -> Json {
    Json::Array(vec![Json::string("named-uuid"), Json::string(name)])
}

/// An atom that fits `base`, or in rare cases does not.
pub fn plain(random: &mut Random, base: &Base) -> Atom {
    let mut last = free(random, base.kind);
    if random.rare(150) {
        return last;
    }
    if let Some(allowed) = &base.allowed {
        return random.pick(allowed).clone();
    }
    for _ in 0..20 {
        if last.fits(base) {
            return last;
        }
        last = free(random, base.kind);
    }
    last
}

fn free(random: &mut Random, kind: Kind) -> Atom {
    match kind {
        Kind::Integer if random.chance(90) => Atom::Integer(random.below(8) as i64 - 1),
        Kind::Integer => Atom::Integer(*random.pick(&INTEGERS)),
        Kind::Real => Atom::real(*random.pick(&REALS)),
        Kind::Boolean => Atom::Boolean(random.chance(50)),
        Kind::String => Atom::String((*random.pick(&STRINGS)).to_owned()),
        Kind::Uuid => Atom::Uuid(pool_uuid(random.below(POOL))),
    }
}

/// Constraints that the pools of values can meet.
pub fn constrained(random: &mut Random, kind: Kind) -> Base {
    let mut base = Base::plain(kind);
    match (random.below(4), kind) {
        (0, _) => {
            let mut allowed: Vec<Atom> =
                (0..random.between(1, 4)).map(|_| free(random, kind)).collect();
            allowed.sort();
            allowed.dedup();
            base.allowed = Some(allowed);
        }
        (1, Kind::Integer) => {
            base.limit = Limit::Integer(random.below(3) as i64 - 1, random.between(3, 9) as i64);
        }
        (1, Kind::Real) => base.limit = Limit::Real(-1.5, 2.25),
        (1, Kind::String) => base.limit = Limit::Length(random.below(2), random.between(2, 4)),
        _ => {}
    }
    base
}

/// A JSON value that is rarely valid.
pub fn junk(random: &mut Random) -> Json {
    let set = |list| Json::Array(vec![Json::string("set"), Json::Array(list)]);
    match random.below(12) {
        0 => Json::Null,
        1 => Json::Bool(true),
        2 => Json::Integer(-7),
        3 => Json::Real(0.25),
        4 => Json::string("junk"),
        5 => Json::Array(Vec::new()),
        6 => Json::object([]),
        7 => set(vec![]),
        8 => set(vec![Json::Integer(1), Json::Integer(1)]),
        9 => Json::Array(vec![Json::string("map"), Json::Array(vec![Json::Integer(1)])]),
        10 => Json::Array(vec![Json::string("uuid"), Json::string("not-a-uuid")]),
        _ => Json::Array(vec![Json::string("named-uuid"), Json::string("no id")]),
    }
}

/// A value that some row has in `column`.
pub fn existing(
    random: &mut Random,
    rows: &std::collections::BTreeMap<Uuid, crate::model::Row>,
    column: usize,
) -> Option<Value> {
    let uuid = some_key(random, rows)?;
    Some(rows[&uuid][column].clone())
}
