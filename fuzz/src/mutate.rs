//! Mutates inputs that are lines of JSON, by value instead of by byte.
//!
//! The engine's own mutations mostly break the syntax, so they do not reach the code after the parser. Here a value
//! is replaced by another one of the same input or of a list of words, or a member or element is duplicated or
//! removed. In about one of four cases, and whenever the input is not JSON, the engine's mutations are used.

use crate::world::UUIDS;
use paceline_tables::json::{self, Json, Object};
use paceline_types::UuidSource;

const DEPTH_MAX: usize = 64;
const LINES_MAX: usize = 12;

/// Names, words and values that have a meaning in schemas, transactions and records.
const WORDS: &str = include_str!("../words.txt");

/// A mutated copy of `data`; none if the engine should mutate it.
#[must_use]
pub fn lines(data: &[u8], bytes_max: usize, seed: u32) -> Option<Vec<u8>> {
    let mut chance = Chance(UuidSource::from_number(seed.into()));
    if chance.below(4) == 0 {
        return None;
    }
    let mut lines = Vec::new();
    for line in data.split(|c| *c == b'\n').filter(|line| !line.is_empty()).take(LINES_MAX) {
        lines.push(json::parse(line, DEPTH_MAX).ok()?);
    }
    if lines.is_empty() {
        return None;
    }
    for _ in 0..=chance.below(3) {
        change(&mut lines, &mut chance);
    }
    let mut out = Vec::new();
    for line in &lines {
        line.write(&mut out);
        out.push(b'\n');
    }
    (out.len() <= bytes_max).then_some(out)
}

/// Copies `changed` into the engine's buffer and returns its length.
pub fn store(changed: &[u8], buffer: &mut [u8]) -> usize {
    let len = changed.len().min(buffer.len());
    buffer[..len].copy_from_slice(&changed[..len]);
    len
}

fn change(lines: &mut Vec<Json>, chance: &mut Chance) {
    let list = Json::Array(std::mem::take(lines));
    let count = nodes(&list);
    let donor = nth(&list, chance.below(count)).cloned().unwrap_or(Json::Null);
    let mut at = chance.below(count);
    let list = replaced(list, &mut at, &mut |old| changed(old, donor.clone(), chance));
    match list {
        Json::Array(elements) if !elements.is_empty() => lines.extend(elements),
        other => lines.push(other),
    }
}

fn changed(old: Json, donor: Json, chance: &mut Chance) -> Json {
    match (old, chance.below(8)) {
        (_, 0) => donor,
        (_, 1) => word(chance),
        (Json::Array(mut elements), kind) => {
            let at = chance.below(elements.len() + 1);
            match kind {
                2 if !elements.is_empty() => drop(elements.remove(at % elements.len())),
                3 if !elements.is_empty() => {
                    let element = elements[at % elements.len()].clone();
                    elements.push(element);
                }
                4 => elements.insert(at, word(chance)),
                5 if !elements.is_empty() => {
                    let other = chance.below(elements.len());
                    let at = at % elements.len();
                    elements.swap(at, other);
                }
                _ => elements.insert(at, donor),
            }
            Json::Array(elements)
        }
        (Json::Object(object), kind) => Json::Object(changed_object(&object, donor, kind, chance)),
        (Json::Integer(integer), kind) => Json::Integer(match kind {
            2 => integer.wrapping_neg(),
            3 => integer.wrapping_add(1),
            4 => integer.wrapping_sub(1),
            5 => integer.wrapping_mul(2),
            6 => i64::MAX.wrapping_add(chance.below(2) as i64),
            _ => chance.below(10) as i64 - 2,
        }),
        (Json::Real(real), _) => Json::Real(real / 3.0),
        (Json::String(text), 2) => Json::string(format!("{text}{text}")),
        (Json::Bool(truth), _) => Json::Bool(!truth),
        (_, _) => word(chance),
    }
}

fn changed_object(object: &Object, donor: Json, kind: usize, chance: &mut Chance) -> Object {
    let mut members: Vec<(Box<str>, Json)> =
        object.iter().map(|(name, value)| (name.into(), value.clone())).collect();
    let at = if members.is_empty() { 0 } else { chance.below(members.len()) };
    let name = match word(chance) {
        Json::String(name) => name,
        other => other.to_text().into(),
    };
    match (kind, members.is_empty()) {
        (2, false) => drop(members.remove(at)),
        (3, false) => members[at].0 = name,
        (4, _) => members.push((name, donor)),
        (5, false) => members[at].1 = donor,
        _ => members.push((name, word(chance))),
    }
    Object::new(members)
}

fn word(chance: &mut Chance) -> Json {
    if chance.below(6) == 0 {
        let uuid = UUIDS[chance.below(UUIDS.len())];
        return match chance.below(3) {
            0 => Json::string(uuid),
            _ => Json::Array(vec![Json::string("uuid"), Json::string(uuid)]),
        };
    }
    let count = WORDS.lines().count();
    let text = WORDS.lines().nth(chance.below(count)).unwrap_or("null");
    json::parse(text.as_bytes(), DEPTH_MAX).unwrap_or(Json::Null)
}

fn nodes(json: &Json) -> usize {
    1 + match json {
        Json::Array(elements) => elements.iter().map(nodes).sum(),
        Json::Object(object) => object.iter().map(|(_, value)| nodes(value)).sum(),
        _ => 0,
    }
}

fn nth(json: &Json, mut at: usize) -> Option<&Json> {
    if at == 0 {
        return Some(json);
    }
    at -= 1;
    let children: Vec<&Json> = match json {
        Json::Array(elements) => elements.iter().collect(),
        Json::Object(object) => object.iter().map(|(_, value)| value).collect(),
        _ => return None,
    };
    for child in children {
        let count = nodes(child);
        if at < count {
            return nth(child, at);
        }
        at -= count;
    }
    None
}

/// `json` with value number `at`, in the order of [`nth`], replaced by what `work` makes of it.
fn replaced(json: Json, at: &mut usize, work: &mut dyn FnMut(Json) -> Json) -> Json {
    let here = *at == 0;
    // After the place was found, this wraps to a number that is never reached.
    *at = at.wrapping_sub(1);
    if here {
        return work(json);
    }
    match json {
        Json::Array(elements) => {
            Json::Array(elements.into_iter().map(|value| replaced(value, at, work)).collect())
        }
        Json::Object(object) => {
            let member =
                |(name, value): (&str, &Json)| (Box::from(name), replaced(value.clone(), at, work));
            Json::Object(Object::new(object.iter().map(member).collect()))
        }
        other => other,
    }
}

struct Chance(UuidSource);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound.max(1) as u64) as usize
    }
}
