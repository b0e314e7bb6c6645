//! Compares a message with the expected one.
//!
//! Owns the names that a script gives to values: `<name>` is a UUID, and two names are two UUIDs; `$name` is any
//! value. The first match of a name binds it; from then on it stands for that value. Matching tries every way to bind
//! names, so the order of object keys, of sets of UUIDs and of lists marked `"any-order"` does not matter. A failed
//! match binds nothing.

use std::collections::BTreeMap;

use serde_json::Value;

/// The names bound so far.
#[derive(Clone, Debug, Default)]
pub struct Names {
    uuids: BTreeMap<String, String>,
    values: BTreeMap<String, Value>,
}

impl Names {
    /// Binds the names in `expected` so that it equals `actual`; returns false if this is impossible.
    pub fn bind(&mut self, expected: &Value, actual: &Value) -> bool {
        match solve(self.clone(), vec![(expected, actual)]) {
            Some(names) => {
                *self = names;
                true
            }
            None => false,
        }
    }

    /// `text` with every bound name replaced: `<name>` by its UUID, `"$name"` by its JSON value.
    #[must_use]
    pub fn expand(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, uuid) in &self.uuids {
            text = text.replace(&format!("<{name}>"), uuid);
        }
        for (name, value) in &self.values {
            text = text.replace(&format!("\"${name}\""), &value.to_string());
        }
        text
    }

    /// The value bound to `$name`.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    fn bind_uuid(mut self, name: &str, actual: &Value) -> Option<Self> {
        let actual = actual.as_str()?;
        match self.uuids.get(name) {
            Some(uuid) => (uuid == actual).then_some(self),
            None if !is_uuid(actual) || self.uuids.values().any(|uuid| uuid == actual) => None,
            None => {
                self.uuids.insert(name.into(), actual.into());
                Some(self)
            }
        }
    }

    fn bind_value(mut self, name: &str, actual: &Value) -> Option<Self> {
        match self.values.get(name) {
            Some(value) => (value == actual).then_some(self),
            None => {
                self.values.insert(name.into(), actual.clone());
                Some(self)
            }
        }
    }
}

/// Pairs of expected and actual values, all of which must match together.
type Goals<'a> = Vec<(&'a Value, &'a Value)>;

fn solve(names: Names, mut goals: Goals<'_>) -> Option<Names> {
    let Some((expected, actual)) = goals.pop() else { return Some(names) };
    match (expected, actual) {
        (Value::String(pattern), _) => solve(match_text(names, pattern, actual)?, goals),
        (Value::Object(fields), Value::Object(there)) => {
            let open = fields.contains_key("...");
            let fields: Vec<_> = fields.iter().filter(|(key, _)| *key != "...").collect();
            if fields.len() > there.len() || (!open && fields.len() != there.len()) {
                return None;
            }
            solve_fields(names, goals, &fields, &there.iter().collect::<Vec<_>>())
        }
        (Value::Array(items), Value::Array(there)) => match any_order(items) {
            Some(items) if items.len() == there.len() => {
                let there: Vec<_> = there.iter().collect();
                solve_any_order(names, goals, items, &there)
            }
            Some(_) => None,
            None if items.len() == there.len() => {
                goals.extend(items.iter().zip(there).rev());
                solve(names, goals)
            }
            None => None,
        },
        (Value::Number(_), Value::Number(_)) if same_number(expected, actual) => {
            solve(names, goals)
        }
        _ if expected == actual => solve(names, goals),
        _ => None,
    }
}

fn match_text(names: Names, pattern: &str, actual: &Value) -> Option<Names> {
    if pattern == "*" {
        return Some(names);
    }
    if let Some(name) = pattern.strip_prefix('$').filter(|name| is_name(name)) {
        return names.bind_value(name, actual);
    }
    let inner = pattern.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
    if let Some(name) = inner.filter(|name| is_name(name)) {
        return names.bind_uuid(name, actual);
    }
    let text = actual.as_str()?;
    let expanded = names.expand(pattern);
    let same = match expanded.strip_prefix('~') {
        Some(parts) => parts.split('~').all(|part| text.contains(part)),
        None => text == expanded,
    };
    same.then_some(names)
}

/// Object members match by key. A key that is an unbound name matches any remaining key.
fn solve_fields(
    names: Names,
    goals: Goals<'_>,
    fields: &[(&String, &Value)],
    there: &[(&String, &Value)],
) -> Option<Names> {
    let Some(((key, expected), rest)) = fields.split_first() else { return solve(names, goals) };
    for (index, (name, actual)) in there.iter().enumerate() {
        let Some(bound) = match_key(names.clone(), key, name) else { continue };
        let mut goals = goals.clone();
        goals.push((expected, actual));
        let mut left = there.to_vec();
        left.remove(index);
        if let Some(names) = solve_fields(bound, goals, rest, &left) {
            return Some(names);
        }
    }
    None
}

fn match_key(names: Names, pattern: &str, key: &str) -> Option<Names> {
    if pattern.starts_with('<') {
        match_text(names, pattern, &Value::from(key))
    } else {
        (pattern == key).then_some(names)
    }
}

fn solve_any_order(
    names: Names,
    goals: Goals<'_>,
    items: &[Value],
    there: &[&Value],
) -> Option<Names> {
    let Some((expected, rest)) = items.split_first() else { return solve(names, goals) };
    for (index, actual) in there.iter().enumerate() {
        // Each item is first tried alone, so that impossible orders are dropped early.
        if solve(names.clone(), vec![(expected, actual)]).is_none() {
            continue;
        }
        let mut goals = goals.clone();
        goals.push((expected, actual));
        let mut left = there.to_vec();
        left.remove(index);
        if let Some(names) = solve_any_order(names.clone(), goals, rest, &left) {
            return Some(names);
        }
    }
    None
}

/// The items of a list whose order does not matter: a list marked as such, or a set of UUIDs, which servers sort by
/// values that a script cannot know.
fn any_order(items: &[Value]) -> Option<&[Value]> {
    match items.split_first() {
        Some((Value::String(word), rest)) if word == "any-order" => Some(rest),
        Some((first, rest)) if !rest.is_empty() && first[0] == "uuid" => Some(items),
        _ => None,
    }
}

/// Reals that are whole numbers are sent as `1` or `1.0`.
fn same_number(left: &Value, right: &Value) -> bool {
    left == right || (left.as_f64() == right.as_f64() && (left.is_f64() || right.is_f64()))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

fn is_uuid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::Names;
    use serde_json::Value;

    fn check(expected: &str, actual: &str, matches: bool) {
        let value = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
        let mut names = Names::default();
        assert_eq!(names.bind(&value(expected), &value(actual)), matches, "{expected} {actual}");
    }

    #[test]
    fn values_match_as_the_readme_of_scenarios_says() {
        let (a, b) =
            ("01234567-89ab-cdef-0123-456789abcdef", "01234567-89ab-cdef-0123-456789abcde0");
        check(r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, true);
        check(r#"{"a":1}"#, r#"{"b":2,"a":1}"#, false);
        check(r#"{"a":1,"...":0}"#, r#"{"b":2,"a":1}"#, true);
        check(r#"{"a":"*"}"#, r#"{"a":[1]}"#, true);
        check(r#""~row""#, r#""a row there""#, true);
        check(r#""~row""#, r#""a line there""#, false);
        check(r#""~there~row""#, r#""a row there""#, true);
        check(r#""~there~line""#, r#""a row there""#, false);
        check("[1,2]", "[2,1]", false);
        check(r#"["any-order",1,2]"#, "[2,1]", true);
        check(r#"["any-order",1,1]"#, "[2,1]", false);
        check("1", "1.0", true);
        check("1", "true", false);
        check(r#"["$a","$a"]"#, "[1,1]", true);
        check(r#"["$a","$a"]"#, "[1,2]", false);
        check(r#"["<a>","<b>"]"#, &format!(r#"["{a}","{a}"]"#), false);
        check(r#"["<a>","<a>"]"#, &format!(r#"["{a}","{a}"]"#), true);
        check(r#""<a>""#, r#""word""#, false);
        check(r#"[{"<a>":1,"<b>":1},"<b>"]"#, &format!(r#"[{{"{a}":1,"{b}":1}},"{a}"]"#), true);
        check(
            r#"[[["uuid","<a>"],["uuid","<b>"]],"<a>"]"#,
            &format!(r#"[[["uuid","{a}"],["uuid","{b}"]],"{b}"]"#),
            true,
        );
    }
}
