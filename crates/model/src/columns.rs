//! Columns of the schema, made from the catalogue: one for each setting and each figure.
//!
//! A column that the text of the schema defines is not changed: columns of settings that the doors read in their own
//! way, and columns with narrower bounds than their setting.

use paceline_catalogue::{Default, Holds, Kind, Measure, Setting};
use paceline_tables::json::Json;

/// The columns that the catalogue describes, by name.
pub(crate) fn of(kind: &'static Kind) -> Vec<(&'static str, Json)> {
    let settings = kind.settings.iter().flat_map(|setting| {
        let inner = setting.inner().iter().map(|inner| (inner, false));
        [(setting, setting.name == kind.id)].into_iter().chain(inner)
    });
    let settings = settings.filter_map(|(setting, is_id)| {
        let must_be_there = is_id || setting.default == Default::Required;
        Some((setting.column, column(type_of(setting, must_be_there)?, false)))
    });
    let figures = kind
        .figures
        .iter()
        .map(|figure| (figure.name, column(type_of_figure(figure.measure), true)));
    // The file that an object belongs to.
    let is_in_file = kind.settings.iter().any(Setting::is_in_file);
    let file = is_in_file.then(|| ("file", column(some(text("string"), 0, Some(1)), false)));
    settings.chain(figures).chain(file).collect()
}

fn column(holds: Json, is_figure: bool) -> Json {
    let ephemeral = is_figure.then_some(("ephemeral", Json::Bool(true)));
    Json::object([("type", holds)].into_iter().chain(ephemeral))
}

/// The type of a column for this setting; `None` if the setting has no column of its own.
fn type_of(setting: &Setting, must_be_there: bool) -> Option<Json> {
    let least = i64::from(must_be_there);
    let key = match setting.holds {
        Holds::Table(_) | Holds::Own(..) => return None,
        Holds::Flag(_) | Holds::Switch(_) => return Some(text("boolean")),
        Holds::Texts(_) => return Some(some(text("string"), 0, None)),
        Holds::Map => return Some(map(text("string"), text("string"))),
        Holds::NumberedMap(min, max) => return Some(map(integer(min, max), text("string"))),
        Holds::Choice => text("boolean"),
        Holds::Integer(min, max) => integer(min, max),
        Holds::OneOf(words) => one_of(words),
        Holds::Text
        | Holds::Expression
        | Holds::File
        | Holds::Name
        | Holds::Word
        | Holds::SlashlessWord
        | Holds::Address
        | Holds::Span
        | Holds::Rate
        | Holds::At => text("string"),
    };
    Some(some(key, least, Some(1)))
}

fn type_of_figure(measure: Measure) -> Json {
    match measure {
        Measure::Count => text("integer"),
        Measure::Counts => map(text("string"), text("integer")),
        Measure::Flag => some(text("boolean"), 0, Some(1)),
        Measure::Text => some(text("string"), 0, Some(1)),
        Measure::Texts => some(text("string"), 0, None),
    }
}

/// From `least` to `most` elements, or without an upper bound.
fn some(key: Json, least: i64, most: Option<i64>) -> Json {
    let most = most.map_or(text("unlimited"), Json::Integer);
    Json::object([("key", key), ("min", Json::Integer(least)), ("max", most)])
}

fn map(key: Json, value: Json) -> Json {
    let bounds = [("min", Json::Integer(0)), ("max", text("unlimited"))];
    Json::object([("key", key), ("value", value)].into_iter().chain(bounds))
}

fn integer(min: i64, max: i64) -> Json {
    let most = (max < i64::MAX).then_some(("maxInteger", Json::Integer(max)));
    let least = [("type", text("integer")), ("minInteger", Json::Integer(min))];
    Json::object(least.into_iter().chain(most))
}

fn one_of(words: &[&str]) -> Json {
    let words = Json::Array(words.iter().map(|word| text(word)).collect());
    Json::object([("type", text("string")), ("enum", Json::Array(vec![text("set"), words]))])
}

fn text(word: &str) -> Json {
    Json::string(word)
}
