//! The text of a scenario, parsed into cases of steps.
//!
//! `scenarios/README.md` describes the language. Promises that every line has a meaning: a line that cannot be parsed
//! is an error with its number. Never runs anything.

use serde_json::{Value, json};

use crate::Kind;

/// One scenario with its own servers and clients.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it tests.
    pub name: String,
    /// Its first line.
    pub line: usize,
    /// Its steps, in order.
    pub steps: Vec<Step>,
}

/// One line of a script.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its number.
    pub line: usize,
    /// The only server it applies to, if the two must differ.
    pub only: Option<Kind>,
    /// What to do.
    pub action: Action,
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Adds a database with this schema, before the server starts.
    Schema(String),
    /// Makes the server refuse changes, before it starts.
    ReadOnly,
    /// Something that one client does or receives.
    Client(String, Act),
    /// Stops the server cleanly and starts it again.
    Restart,
    /// Kills the server and starts it again.
    KillRestart,
    /// Compares two numbers bound to names: the first must be smaller.
    Less(String, String),
}

/// A method and the text of its parameters.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method.
    pub method: String,
    /// The parameters, with names not yet replaced.
    pub params: String,
}

/// What a client does or receives. A label is the id of a request; without one, ids are numbers.
#[derive(Clone, Debug)]
pub enum Act {
    /// Sends a request.
    Send(Option<String>, Call),
    /// Sends a notification.
    Notify(Call),
    /// Sends text as is.
    Raw(String),
    /// Receives the reply to the request with this label, or else to the last one without a label.
    Reply(Option<String>, Outcome),
    /// Receives exactly this message.
    Message(Value),
    /// Receives this message; it and adjacent messages of this kind may arrive in any order.
    Loose(Value),
    /// Receives nothing more.
    Quiet,
    /// Sees the server close the connection.
    Closed,
    /// Closes the connection.
    Close,
    /// Closes the sending side only.
    HalfClose,
}

/// How a request ends.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// With this result.
    Result(Value),
    /// With this JSON-RPC error.
    Error(Value),
}

/// Parses a whole script. Steps before the first `case` begin every case.
///
/// # Errors
/// If a line cannot be parsed, with its number.
pub fn parse(text: &str) -> Result<Vec<Case>, String> {
    let mut header = Vec::new();
    let mut cases: Vec<Case> = Vec::new();
    let mut only = None;
    for (line, text) in join_lines(text) {
        let at = |error: String| format!("line {line}: {error}: {text}");
        if let Some(name) = text.strip_prefix("case ") {
            cases.push(Case { name: name.trim().into(), line, steps: header.clone() });
            only = None;
        } else if let Some(rest) = text.strip_prefix("only ") {
            only = Some(parse_only(rest).map_err(at)?);
        } else if text == "both" {
            only = None;
        } else {
            let step = Step { line, only, action: parse_action(&text).map_err(at)? };
            cases.last_mut().map_or(&mut header, |case| &mut case.steps).push(step);
        }
    }
    if cases.is_empty() { Err("the script has no case".into()) } else { Ok(cases) }
}

/// Lines with their numbers. Comments and blank lines are dropped, and indented lines are joined to the line that
/// they continue.
fn join_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        match lines.last_mut() {
            Some((_, last)) if line.starts_with(' ') => {
                last.push(' ');
                last.push_str(line.trim());
            }
            _ => lines.push((index + 1, line.trim_end().into())),
        }
    }
    lines
}

fn parse_only(rest: &str) -> Result<Kind, String> {
    let (name, reason) = rest.split_once(':').ok_or("`only` needs `SERVER: reason`")?;
    if reason.trim().is_empty() {
        return Err("`only` needs a reason".into());
    }
    Kind::named(name.trim()).ok_or_else(|| "no such server".into())
}

fn parse_action(text: &str) -> Result<Action, String> {
    let (word, rest) = first_word(text);
    match word {
        "schema" => Ok(Action::Schema(rest.into())),
        "read-only" => Ok(Action::ReadOnly),
        "restart" => Ok(Action::Restart),
        "kill9-restart" => Ok(Action::KillRestart),
        "check" => parse_less(rest),
        _ if word.starts_with(|c: char| c.is_ascii_uppercase()) => {
            Ok(Action::Client(word.into(), parse_act(rest)?))
        }
        _ => Err("unknown step".into()),
    }
}

fn parse_less(rest: &str) -> Result<Action, String> {
    let (left, right) = rest.split_once('<').ok_or("`check` needs `$a < $b`")?;
    let name = |text: &str| text.trim().strip_prefix('$').map(str::to_owned);
    match (name(left), name(right)) {
        (Some(left), Some(right)) => Ok(Action::Less(left, right)),
        _ => Err("`check` compares two `$names`".into()),
    }
}

fn parse_act(text: &str) -> Result<Act, String> {
    let (sign, rest) = first_word(text);
    match sign {
        ">" => {
            let (label, rest) = split_label(rest);
            Ok(Act::Send(label, parse_call(rest)))
        }
        ">>" => Ok(Act::Notify(parse_call(rest))),
        "raw" => Ok(Act::Raw(rest.into())),
        "<" | "<!" => {
            let (label, rest) = split_label(rest);
            let value = parse_json(rest)?;
            let outcome = if sign == "<" { Outcome::Result(value) } else { Outcome::Error(value) };
            Ok(Act::Reply(label, outcome))
        }
        "<~" => Ok(Act::Message(parse_notification(rest)?)),
        "<~&" => Ok(Act::Loose(parse_notification(rest)?)),
        "<=" => Ok(Act::Message(parse_json(rest)?)),
        "<=&" => Ok(Act::Loose(parse_json(rest)?)),
        "|" if rest == "quiet" => Ok(Act::Quiet),
        "|" if rest == "closed" => Ok(Act::Closed),
        "close" => Ok(Act::Close),
        "half-close" => Ok(Act::HalfClose),
        _ => Err("unknown action of a client".into()),
    }
}

fn first_word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    (word, rest.trim())
}

fn split_label(text: &str) -> (Option<String>, &str) {
    match text.strip_prefix('#') {
        Some(rest) => {
            let (label, rest) = first_word(rest);
            (Some(label.into()), rest)
        }
        None => (None, text),
    }
}

fn parse_call(text: &str) -> Call {
    let (method, params) = first_word(text);
    let params = if params.is_empty() { "[]" } else { params };
    Call { method: method.into(), params: params.into() }
}

fn parse_notification(text: &str) -> Result<Value, String> {
    let Call { method, params } = parse_call(text);
    Ok(json!({"id": null, "method": method, "params": parse_json(&params)?}))
}

fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lines_that_mean_nothing_are_errors() {
        for (text, error) in [
            ("schema {}", "the script has no case"),
            ("case a\nfly", "line 2: unknown step: fly"),
            ("case a\nA fly", "line 2: unknown action of a client: A fly"),
            ("case a\nonly paceline:", "line 2: `only` needs a reason: only paceline:"),
            ("case a\nonly x: y", "line 2: no such server: only x: y"),
            ("case a\ncheck 1 < 2", "line 2: `check` compares two `$names`: check 1 < 2"),
        ] {
            assert_eq!(parse(text).unwrap_err(), error);
        }
    }

    #[test]
    fn header_steps_begin_every_case() {
        let cases = parse("schema {\n  }\ncase a\nA > echo\ncase b\n# why\nA | quiet").unwrap();
        assert_eq!(cases.iter().map(|case| case.steps.len()).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(cases[1].line, 5);
    }
}
