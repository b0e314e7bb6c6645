//! How the text of a flag is parsed, by the type of its setting.

use paceline_catalogue::{Each, Holds, Setting, Shape};
use paceline_types::Span;
use serde_json::{Map, Value, json};

/// The form of a flag's text.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// A text, and its name in the help.
    Text(&'static str),
    /// A duration.
    Span,
    /// A whole number in this range.
    Integer(i64, i64),
    /// Nothing, or `=true` or `=false`.
    Flag,
    /// The same, with a default that is shown.
    Choice,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// `LOW..HIGH`, a list of two.
    Range,
    /// `MIN..MAX`, an object of two.
    Bounds,
    /// A list, one flag for each element.
    Texts(&'static str),
    /// An object, one flag for each member.
    Pairs(&'static str),
    /// Patterns by attribute, one flag for each.
    Patterns,
    /// JSON.
    Json,
}

/// The words of a switch.
const SWITCH: &[&str] = &["true", "false"];

impl Form {
    /// The form of a setting.
    pub fn of(setting: &Setting) -> Self {
        match setting.holds {
            Holds::Text => Self::Text("TEXT"),
            Holds::Expression => Self::Text("EXPRESSION"),
            Holds::File => Self::Text("FILE"),
            Holds::Name | Holds::Word | Holds::SlashlessWord => Self::Text("NAME"),
            Holds::Address => Self::Text("ADDRESS"),
            Holds::Rate => Self::Text("RATE"),
            Holds::At => Self::Text("PLACE"),
            Holds::Span => Self::Span,
            Holds::Integer(min, max) => Self::Integer(min, max),
            Holds::Flag(_) | Holds::Switch(_) => Self::Flag,
            Holds::Choice => Self::Choice,
            Holds::OneOf(words) => Self::OneOf(words),
            Holds::Texts(Each::Listen) => Self::Texts("ADDRESS"),
            Holds::Texts(Each::Network) => Self::Texts("NETWORK"),
            Holds::Texts(Each::Protocol) => Self::Texts("PROTOCOL"),
            Holds::Map => Self::Pairs("NAME=EXPRESSION"),
            Holds::NumberedMap(..) => Self::Pairs("STATUS=FILE"),
            Holds::Table(_) => Self::Json,
            Holds::Own(_, shape) => Self::of_shape(setting.name, shape),
        }
    }

    /// The form of a setting that is not a single column.
    fn of_shape(name: &str, shape: Shape) -> Self {
        match shape {
            Shape::Text if name == "expires" => Self::Text("TIME|never"),
            Shape::Text => Self::Text("NAME"),
            Shape::Secret => Self::Text("VERIFIER"),
            Shape::Flag => Self::Flag,
            Shape::Integer(min, max) => Self::Integer(min, max),
            Shape::OneOf(words) => Self::OneOf(words),
            Shape::Pair(..) => Self::Range,
            Shape::Texts => Self::Texts("NAME"),
            Shape::Patterns(_) => Self::Patterns,
            Shape::Objects(_) => Self::Json,
        }
    }

    /// The name of the value in the help.
    pub const fn value_name(self) -> &'static str {
        match self {
            Self::Text(name) | Self::Texts(name) | Self::Pairs(name) => name,
            Self::Span => "TIME",
            Self::Integer(..) => "N",
            Self::Flag | Self::Choice => "true|false",
            Self::OneOf(_) => "WORD",
            Self::Range => "LOW..HIGH",
            Self::Bounds => "MAX|MIN..MAX",
            Self::Patterns => "ATTR=PATTERN",
            Self::Json => "JSON",
        }
    }

    /// Whether the flag may be repeated.
    pub const fn repeats(self) -> bool {
        matches!(self, Self::Texts(_) | Self::Pairs(_) | Self::Patterns)
    }

    /// Whether the flag may be given without a value.
    pub const fn is_switch(self) -> bool {
        matches!(self, Self::Flag | Self::Choice)
    }

    /// Whether the text may begin with a dash.
    pub const fn may_be_negative(self) -> bool {
        matches!(self, Self::Range | Self::Integer(i64::MIN..=-1, _))
    }

    /// Whether the text is a number.
    pub const fn is_number(self) -> bool {
        matches!(self, Self::Integer(..))
    }

    /// The words that it may be, if they are listed.
    pub const fn words(self) -> Option<&'static [&'static str]> {
        match self {
            Self::OneOf(words) => Some(words),
            Self::Flag | Self::Choice => Some(SWITCH),
            _ => None,
        }
    }

    /// The values of all repetitions as one.
    pub fn join(self, mut values: Vec<Value>) -> Value {
        match self {
            // `[]` alone is an empty list.
            Self::Texts(_) if values == [json!("[]")] => json!([]),
            Self::Texts(_) => Value::Array(values),
            Self::Pairs(_) => {
                let pairs = values.into_iter().filter_map(|pair| pair.as_object().cloned());
                Value::Object(pairs.flatten().collect())
            }
            Self::Patterns => patterns(values),
            _ => values.pop().unwrap_or_default(),
        }
    }
}

/// Patterns by attribute. An attribute that is given several times must match all of its patterns.
fn patterns(values: Vec<Value>) -> Value {
    let mut criteria: Map<String, Value> = Map::new();
    let pairs = values.into_iter().filter_map(|pair| pair.as_object().cloned()).flatten();
    for (name, several) in pairs {
        let list = criteria.entry(name).or_insert_with(|| json!([]));
        if let (Value::Array(list), Value::Array(several)) = (list, several) {
            list.extend(several);
        }
    }
    for list in criteria.values_mut() {
        if let Some([one]) = list.as_array_mut().map(Vec::as_mut_slice) {
            *list = one.take();
        }
    }
    Value::Object(criteria)
}

/// A pattern as the API takes it.
fn pattern(pattern: paceline_config::Pattern) -> Value {
    let Some(mode) = pattern.mode else { return pattern.text.into() };
    let mut members = Map::new();
    members.insert(mode.to_owned(), pattern.text.into());
    members.extend(pattern.nocase.map(|nocase| ("nocase".to_owned(), nocase.into())));
    Value::Object(members)
}

/// The value of a text, as the API writes it.
///
/// # Errors
/// What was expected instead.
pub fn read(form: Form, text: &str) -> Result<Value, String> {
    match form {
        Form::Text(_) | Form::Texts(_) | Form::OneOf(_) => Ok(text.into()),
        Form::Span => {
            let span: Result<Span, paceline_types::ParseSpanError> = text.parse();
            span.map(|span| span.to_string().into()).map_err(|error| error.to_string())
        }
        Form::Integer(min, max) => match text.parse::<i64>() {
            Ok(number) if (min..=max).contains(&number) => Ok(number.into()),
            _ if max == i64::MAX => Err(format!("expected a whole number from {min}")),
            _ => Err(format!("expected a whole number from {min} to {max}")),
        },
        Form::Flag | Form::Choice => Ok((text == "true").into()),
        Form::Range => range(text).map(|(low, high)| json!([low, high])),
        // One number is the maximum.
        Form::Bounds => match text.parse::<i64>() {
            Ok(max) => Ok(json!({ "max": max })),
            Err(_) => range(text).map(|(min, max)| json!({ "min": min, "max": max })),
        },
        Form::Pairs(_) => match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok(json!({ name: value })),
            _ => Err("expected name=value, such as user=etl".into()),
        },
        Form::Patterns => {
            let (name, patterns) = crate::command::attribute(text)?;
            let patterns = paceline_config::parse_patterns(&patterns)?;
            Ok(json!({ name: patterns.into_iter().map(pattern).collect::<Value>() }))
        }
        Form::Json => serde_json::from_str(text).map_err(|error| format!("expected JSON: {error}")),
    }
}

fn range(text: &str) -> Result<(i64, i64), String> {
    let numbers = text.split_once("..").or_else(|| text.split_once(','));
    let read =
        |(low, high): (&str, &str)| Some((low.trim().parse().ok()?, high.trim().parse().ok()?));
    match numbers.and_then(read) {
        Some((low, high)) if low <= high => Ok((low, high)),
        Some(_) => Err("the first number is the lower one".into()),
        None => Err("expected two numbers, such as 0..8".into()),
    }
}
