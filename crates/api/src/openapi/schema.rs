//! Schemas of objects, from the catalogue.

use paceline_catalogue::{Default, Figure, Holds, KINDS, Kind, Measure, Setting, Shape};
use paceline_types::Role;
use serde_json::{Map, Value, json};

/// The purpose of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// A body that creates or replaces an object.
    New,
    /// A body that changes an object.
    Change,
    /// An answer.
    Answer,
}

/// The name of the schema of an answer.
pub(crate) fn name_of(kind: &Kind) -> String {
    kind.table.replace('_', "")
}

/// The name of the schema of a body that creates or replaces an object.
pub(crate) fn new_of(kind: &Kind) -> String {
    format!("New{}", name_of(kind))
}

/// The name of the schema of a body that changes an object.
pub(crate) fn change_of(kind: &Kind) -> String {
    format!("{}Change", name_of(kind))
}

/// The schemas of all kinds. Saved rules are only shown, and users and tokens are not changed.
pub(super) fn all() -> Map<String, Value> {
    let mut all = Map::new();
    for kind in KINDS {
        all.insert(name_of(kind), object(kind, Use::Answer));
        if kind.table == "Saved_Rule" {
            continue;
        }
        all.insert(new_of(kind), object(kind, Use::New));
        if !["User", "Token"].contains(&kind.table) {
            all.insert(change_of(kind), object(kind, Use::Change));
        }
    }
    all
}

fn object(kind: &'static Kind, used: Use) -> Value {
    let mut settings: Vec<&Setting> =
        kind.settings.iter().filter(|setting| setting.is_in_api()).collect();
    if used == Use::Answer {
        settings.retain(|setting| setting.is_shown);
    }
    let mut object = table(&settings, used);
    let mut required: Vec<&str> = settings
        .iter()
        .filter(|setting| match used {
            // Paths name objects, except for tokens, which have their own path for creation.
            Use::New => {
                let is_named = setting.name == kind.id && kind.table != "Token";
                setting.default == Default::Required && !is_named && !is_list(setting)
            }
            Use::Change => false,
            // A flag is a separate column that always has a value.
            Use::Answer => {
                let is_there = setting.default == Default::Required || setting.name == kind.id;
                is_there || matches!(setting.holds, Holds::Flag(_))
            }
        })
        .map(|setting| setting.name)
        .collect();
    if let Some(within) = kind.within {
        let text =
            json!({ "type": "string", "description": format!("The {within} that it is part of.") });
        object["properties"][within] = if used == Use::Answer { text } else { or_null(text) };
        if used == Use::Answer {
            required.push(within);
        }
    }
    match used {
        Use::Answer if !kind.figures.is_empty() => {
            object["properties"]["figures"] = figures(kind.figures);
        }
        Use::Answer => {}
        _ if kind.table == "Token" => {}
        _ => {
            for name in ["figures", "warnings"] {
                object["properties"][name] = json!({
                    "description": "Ignored, so that an object that was read can be sent back unchanged.",
                });
            }
        }
    }
    if used == Use::Answer && !["Token", "Saved_Rule"].contains(&kind.table) {
        object["properties"]["warnings"] = json!({
            "type": "array", "items": { "type": "string" },
            "description": "In the answer to an edit: settings of the object that work but are probably mistakes.",
        });
    }
    if kind.table == "User" {
        object["properties"]["sql_password"] = has_password(used);
    }
    if kind.table == "Token" && used == Use::Answer {
        for (name, doc) in [("created", "When it was issued."), ("expires", "When it expires.")] {
            let moment = json!({ "type": "string", "format": "date-time", "description": doc });
            object["properties"][name] = moment;
        }
    }
    object["description"] = kind.doc.into();
    object["required"] = required.into();
    object
}

/// Whether a user has a password, which itself is never shown.
fn has_password(used: Use) -> Value {
    match used {
        Use::Answer => json!({
            "type": "boolean",
            "description": "Whether SQL clients can log in with a password; left out if not.",
        }),
        _ => json!({
            "description": "Ignored, so that an object that was read can be sent back unchanged.",
        }),
    }
}

/// A missing list is an empty one.
fn is_list(setting: &Setting) -> bool {
    matches!(setting.holds, Holds::Texts(_))
}

/// An object with these settings as its members.
fn table(settings: &[&Setting], used: Use) -> Value {
    let members: Map<String, Value> =
        settings.iter().map(|setting| (setting.name.to_owned(), member(setting, used))).collect();
    let mut object = json!({ "type": "object", "properties": members });
    if used != Use::Answer {
        object["additionalProperties"] = false.into();
    }
    object
}

fn member(setting: &Setting, used: Use) -> Value {
    let mut member = form(&setting.holds, used);
    if let Some(only) = setting.word().filter(|_| used != Use::Answer) {
        member = json!({ "anyOf": [word(&[only], used), member] });
    }
    let is_optional = setting.default != Default::Required || is_list(setting);
    if used != Use::Answer && is_optional {
        member = or_null(member);
    }
    let default = match setting.default {
        Default::Value(value) => format!(" Default: `{value}`."),
        Default::None(meaning) | Default::Machine(meaning) if !meaning.is_empty() => {
            format!(" Default: {meaning}.")
        }
        _ => String::new(),
    };
    let words = match setting.holds {
        Holds::OneOf(words) if used == Use::Answer => format!(" One of: {}.", words.join(", ")),
        _ => String::new(),
    };
    member["description"] = format!("{}{words}{default}", setting.doc).into();
    if let Some(example) = setting.example().filter(|_| used != Use::Answer)
        && let Ok(example) = serde_json::from_str::<Value>(&example)
    {
        member["examples"] = json!([example]);
    }
    if used != Use::Answer && setting.role == Role::Admin {
        member["x-role"] = setting.role.word().into();
    }
    member
}

fn form(holds: &Holds, used: Use) -> Value {
    let inner = |settings: &'static [Setting]| table(&settings.iter().collect::<Vec<_>>(), used);
    match holds {
        Holds::Texts(_) => texts(used),
        Holds::Integer(min, max) => integer(*min, *max),
        Holds::Flag(_) | Holds::Choice => flag(),
        Holds::OneOf(words) => word(words, used),
        Holds::Map | Holds::NumberedMap(..) => {
            json!({ "type": "object", "additionalProperties": text() })
        }
        Holds::Table(settings) => inner(settings),
        Holds::Switch(settings) => json!({ "anyOf": [flag(), inner(settings)] }),
        Holds::Own(_, shape) => own(shape, used),
        _ => text(),
    }
}

fn own(shape: &Shape, used: Use) -> Value {
    match shape {
        Shape::Text | Shape::Secret => text(),
        Shape::Flag => flag(),
        Shape::Integer(min, max) => integer(*min, *max),
        Shape::OneOf(words) => word(words, used),
        Shape::Pair(min, max) => {
            json!({ "type": "array", "items": integer(*min, *max), "minItems": 2, "maxItems": 2 })
        }
        Shape::Texts => json!({ "type": "array", "items": text() }),
        Shape::Patterns(modes) => patterns(modes, used),
        Shape::Objects(settings) => {
            let mut one = table(&settings.iter().collect::<Vec<_>>(), used);
            one["required"] = settings.iter().map(|setting| setting.name).collect();
            let list = json!({ "type": "array", "items": one });
            if used == Use::Answer { list } else { json!({ "anyOf": [list, one] }) }
        }
    }
}

fn patterns(modes: &[&str], used: Use) -> Value {
    let mut members: Map<String, Value> =
        modes.iter().map(|mode| ((*mode).to_owned(), text())).collect();
    members.insert("nocase".into(), flag());
    let mut pattern = json!({ "type": "object", "properties": members });
    let one = match used {
        Use::Answer => pattern,
        _ => {
            pattern["additionalProperties"] = false.into();
            json!({ "anyOf": [text(), pattern] })
        }
    };
    let several = json!({ "type": "array", "items": one });
    let mut any = match one["anyOf"].as_array() {
        Some(any) => any.clone(),
        None => vec![one],
    };
    any.push(several);
    json!({ "type": "object", "additionalProperties": { "anyOf": any } })
}

fn texts(used: Use) -> Value {
    let list = json!({ "type": "array", "items": text() });
    if used == Use::Answer { list } else { json!({ "anyOf": [list, text()] }) }
}

/// A word. In an answer it is any text, so that a client of this version accepts words of later ones.
fn word(words: &[&str], used: Use) -> Value {
    if used == Use::Answer { text() } else { json!({ "type": "string", "enum": words }) }
}

fn integer(min: i64, max: i64) -> Value {
    let mut integer = json!({ "type": "integer", "minimum": min });
    if max < i64::MAX {
        integer["maximum"] = max.into();
    }
    integer
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}

/// The same, or `null`, which is the same as missing.
pub(super) fn or_null(mut schema: Value) -> Value {
    if let Some(any) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        any.push(json!({ "type": "null" }));
        return schema;
    }
    json!({ "anyOf": [schema, { "type": "null" }] })
}

fn figures(figures: &[Figure]) -> Value {
    let member = |figure: &Figure| {
        let number = json!({ "type": "integer" });
        let mut value = match figure.measure {
            Measure::Count => number,
            Measure::Counts => json!({ "type": "object", "additionalProperties": number }),
            Measure::Flag => flag(),
            Measure::Text => text(),
            Measure::Texts => json!({ "type": "array", "items": text() }),
        };
        value["description"] = figure.doc.into();
        (figure.name.to_owned(), value)
    };
    let members: Map<String, Value> = figures.iter().map(member).collect();
    json!({ "type": "object", "properties": members, "description": "Live figures." })
}
