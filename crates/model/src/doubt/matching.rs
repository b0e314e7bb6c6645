//! Warnings for the patterns of rules: texts that look like patterns or lists, patterns that never match together, and
//! attributes that are nearly well-known ones.

use paceline_engine::Snapshot;
use paceline_rules::{Criterion, PatternMode, Rule};
use paceline_types::{KNOWN, Name, nearest};

/// The warnings, in the order of the rules.
pub(super) fn doubts(planned: &Snapshot) -> impl Iterator<Item = String> {
    planned.rules().rules().iter().flat_map(|rule| {
        let texts = [literal_glob(rule), literal_list(rule), never(rule)];
        texts.into_iter().flatten().chain(misspelt(rule))
    })
}

/// A pattern that looks like a glob, but is compared as it is.
fn literal_glob(rule: &Rule) -> Option<String> {
    let Criterion { attribute, pattern, .. } =
        exact(rule).find(|criterion| criterion.pattern.contains('*'))?;
    let number = rule.number;
    Some(format!(
        "rule {number}: match: {attribute} must be exactly \"{pattern}\", because the mode is exact; for a \
         pattern write {{ glob = \"{pattern}\" }}, or mode = \"glob\""
    ))
}

/// A pattern that looks like a list of values, but is compared as it is.
fn literal_list(rule: &Rule) -> Option<String> {
    let inner = |criterion: &Criterion| {
        let inner = criterion.pattern.strip_prefix('[')?.strip_suffix(']')?;
        let values: Vec<String> =
            inner.split(',').map(|one| one.trim().trim_matches(['"', '\'']).to_owned()).collect();
        (values.len() > 1 && values.iter().all(|one| !one.is_empty())).then_some(values)
    };
    let (criterion, values) =
        exact(rule).find_map(|criterion| Some((criterion, inner(criterion)?)))?;
    let Criterion { attribute, pattern, .. } = criterion;
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    Some(format!(
        "rule {}: match: {attribute} must be exactly \"{pattern}\", which is not read as a list; {}",
        rule.number,
        instead(attribute, &values)
    ))
}

/// Two different texts for one attribute, which no value equals both.
fn never(rule: &Rule) -> Option<String> {
    let all: Vec<&Criterion> = exact(rule).collect();
    let (one, other) = all.iter().enumerate().find_map(|(at, one)| {
        let rest = all.get(at + 1..)?;
        let differs = |other: &&&Criterion| {
            let is_same = match one.nocase || other.nocase {
                true => one.pattern.to_lowercase() == other.pattern.to_lowercase(),
                false => one.pattern == other.pattern,
            };
            other.attribute == one.attribute && !is_same
        };
        Some((*one, *rest.iter().find(differs)?))
    })?;
    let same = all.iter().filter(|criterion| criterion.attribute == one.attribute);
    let values: Vec<&str> = same.map(|criterion| criterion.pattern.as_str()).collect();
    let attribute = &one.attribute;
    Some(format!(
        "rule {}: match: it never matches, because {attribute} cannot be both \"{}\" and \"{}\"; {}",
        rule.number,
        one.pattern,
        other.pattern,
        instead(attribute, &values)
    ))
}

/// What to write for a match of any of these values.
fn instead(attribute: &Name, values: &[&str]) -> String {
    let values: Vec<String> = values.iter().map(|value| escaped(value)).collect();
    let regex = format!("^({})$", values.join("|"));
    format!("to match any of them, write {attribute} = {{ regex = '{regex}' }}, or a rule for each")
}

/// A text as a regex.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in text.chars() {
        if r"\.+*?()|[]{}^$".contains(sign) {
            escaped.push('\\');
        }
        escaped.push(sign);
    }
    escaped
}

/// An attribute that callers may send, but whose name is nearly a well-known one.
fn misspelt(rule: &Rule) -> impl Iterator<Item = String> {
    rule.criteria.iter().filter_map(|criterion| {
        let Name::Other(name) = &criterion.attribute else { return None };
        let near = nearest(name, KNOWN.iter().map(|(known, _)| *known))?;
        Some(format!("rule {}: match: it matches `{name}`, did you mean `{near}`?", rule.number))
    })
}

fn exact(rule: &Rule) -> impl Iterator<Item = &Criterion> {
    rule.criteria.iter().filter(|criterion| criterion.mode == PatternMode::Exact)
}

#[cfg(test)]
mod tests {
    use super::{literal_list, never};
    use paceline_rules::{Action, Rule, Then, parse_criteria};

    fn rule(criteria: &str) -> Rule {
        let criteria = parse_criteria(criteria).unwrap();
        let (action, then) = (Action::Reject, Then::Stop);
        Rule { number: 10, criteria, when: None, action, then, disabled: false, log: false }
    }

    #[test]
    fn values_that_exclude_each_other_never_match() {
        let told = |criteria: &str| never(&rule(criteria));
        let said = "rule 10: match: it never matches, because user cannot be both \"a\" and \"b.c\"; to match any \
                    of them, write user = { regex = '^(a|b\\.c)$' }, or a rule for each";
        assert_eq!(told("user exact 'a' and user exact 'b.c'").unwrap(), said);
        for fine in [
            "user exact 'a' and user exact 'a'",
            "user exact nocase 'A' and user exact 'a'",
            "user exact 'a' and text exact 'b'",
            "user exact 'a' and user glob 'b*'",
        ] {
            assert_eq!(told(fine), None, "{fine}");
        }
    }

    #[test]
    fn a_text_that_looks_like_a_list_is_doubted() {
        let told = |criteria: &str| literal_list(&rule(criteria));
        let said = "rule 10: match: user must be exactly \"[a, b]\", which is not read as a list; to match any of them, \
                    write user = { regex = '^(a|b)$' }, or a rule for each";
        assert_eq!(told("user exact '[a, b]'").unwrap(), said);
        assert_eq!(told("user exact '[a]'"), None);
        assert_eq!(told("user regex '[a,b]'"), None);
    }
}
