//! The criteria of a rule as Comdb2's properties.
//!
//! Comdb2 has one mode for all patterns of a rule. The simplest one that can express them all is chosen: EXACT, GLOB,
//! or REGEXP, which can express everything that can be expressed at all.

use super::super::error::ExportProblem;
use super::super::map::{self, present};
use super::super::read::{BLANKS, Mode, PATTERNS, Value};
use super::super::{glob, regexp};
use crate::classes::Classes;
use crate::fold::Fold;
use crate::pattern::Compiled;
use crate::rule::{Criterion, PatternMode};
use crate::steps;
use paceline_types::{Known, Name};

type Properties = Vec<(&'static str, String)>;

/// A pattern and its property.
struct Pattern<'c> {
    property: &'static str,
    criterion: &'c Criterion,
}

/// The properties that express the criteria, the mode among them.
pub(super) fn write(criteria: &[&Criterion]) -> Result<Properties, ExportProblem> {
    let (fingerprints, others): (Vec<&Criterion>, Vec<&Criterion>) =
        criteria.iter().partition(|c| c.attribute == Name::Known(Known::Fingerprint));
    let mut patterns = vec![];
    for (property, attribute) in PATTERNS {
        let on: Vec<&Criterion> =
            others.iter().copied().filter(|c| c.attribute.to_string() == attribute).collect();
        if let Some(criterion) = single(attribute, &on)? {
            patterns.push(Pattern { property, criterion });
        }
    }
    let is_known = |c: &&&Criterion| {
        PATTERNS.iter().any(|(_, attribute)| c.attribute.to_string() == *attribute)
    };
    if let Some(other) = others.iter().find(|c| !is_known(c)) {
        return Err(ExportProblem::Attribute(other.attribute.to_string()));
    }
    let mut properties = in_some_mode(&patterns)?;
    match &fingerprints[..] {
        [] => {}
        [criterion] => properties.push(("fingerprint", fingerprint(criterion)?)),
        _ => return Err(ExportProblem::Twice("fingerprint".to_owned())),
    }
    Ok(properties)
}

/// The only pattern on an attribute, if there is one. It must not match requests without the attribute, which Comdb2
/// does not match.
fn single<'c>(
    attribute: &str,
    on: &[&'c Criterion],
) -> Result<Option<&'c Criterion>, ExportProblem> {
    let name = || attribute.to_owned();
    let (criterion, is_guarded) = match on {
        [] => return Ok(None),
        [only] => (only, false),
        [one, two] if attribute != "text" && **two == present(one) => (one, true),
        [one, two] if attribute != "text" && **one == present(two) => (two, true),
        _ => return Err(ExportProblem::Twice(name())),
    };
    let compiled = Compiled::new(criterion, &mut Fold::default(), &mut Classes::default());
    let compiled = compiled.map_err(|fault| ExportProblem::Pattern {
        attribute: name(),
        message: fault.to_string(),
    })?;
    if attribute != "text" && !is_guarded && compiled.pattern.matches("", "") {
        return Err(ExportProblem::MatchesMissing(name()));
    }
    Ok(Some(criterion))
}

fn in_some_mode(patterns: &[Pattern<'_>]) -> Result<Properties, ExportProblem> {
    let Some(first) = patterns.first() else { return Ok(vec![]) };
    let nocase = first.criterion.nocase;
    let has_one_case = patterns.iter().all(|pattern| pattern.criterion.nocase == nocase);
    if has_one_case {
        let simple = [("EXACT", exact as fn(&Pattern<'_>) -> Option<String>), ("GLOB", in_glob)];
        for (mode, show) in simple {
            let shown = |pattern: &Pattern<'_>| show(pattern).map(|text| (pattern.property, text));
            if let Some(properties) = patterns.iter().map(shown).collect::<Option<Properties>>() {
                return Ok(with_mode(mode, nocase, properties));
            }
        }
    }
    // With both cases, letters are written out in both where they are matched without case.
    let nocase = nocase && has_one_case;
    let mut properties = vec![];
    for pattern in patterns {
        let text = in_regexp(pattern, nocase).map_err(|message| {
            let attribute = pattern.criterion.attribute.to_string();
            ExportProblem::Pattern { attribute, message }
        })?;
        properties.push((pattern.property, text));
    }
    Ok(with_mode("REGEXP", nocase, properties))
}

fn with_mode(mode: &str, nocase: bool, properties: Properties) -> Properties {
    let mode = format!("{{{mode}{}}}", if nocase { " NOCASE" } else { "" });
    [("mode", mode)].into_iter().chain(properties).collect()
}

fn exact(pattern: &Pattern<'_>) -> Option<String> {
    let Criterion { mode, nocase, pattern: text, .. } = pattern.criterion;
    // Comdb2 ignores the case of A to Z only.
    let fits = *mode == PatternMode::Exact && (!nocase || text.is_ascii());
    Some(text.clone()).filter(|text| fits && pattern.can_hold(text))
}

fn in_glob(pattern: &Pattern<'_>) -> Option<String> {
    let nocase = pattern.criterion.nocase;
    let text = glob::export(&pattern.parts()?, nocase);
    let mode = Mode { glob: true, nocase, ..Mode::NONE };
    let fits = pattern.can_hold(&text) && check_read_again(mode, &text).is_ok();
    fits.then_some(text)
}

fn in_regexp(pattern: &Pattern<'_>, nocase: bool) -> Result<String, String> {
    let criterion = pattern.criterion;
    let expression = match pattern.parts() {
        Some(parts) => glob::expression(&parts),
        None => criterion.pattern.clone(),
    };
    let hir = steps::parse(&expression, criterion.nocase).map_err(|fault| fault.to_string())?;
    let text = regexp::export(&hir, nocase, !pattern.is_text())?;
    check_read_again(Mode { regexp: true, nocase, ..Mode::NONE }, &text)?;
    Ok(text)
}

/// Fails if a pattern that we wrote is too large for us to read. A class such as `\w` is, because all its characters
/// are written.
fn check_read_again(mode: Mode, text: &str) -> Result<(), String> {
    let value = Value { text: text.to_owned(), ..Value::default() };
    match map::criterion(mode, "text", &value) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("written for Comdb2, {}", error.problem)),
    }
}

impl Pattern<'_> {
    /// Whether Comdb2 ends it at a semicolon, not at a blank.
    fn is_text(&self) -> bool {
        matches!(self.property, "sql" | "identity")
    }

    /// Whether it can be written as it is, so that it is read as it was.
    fn can_hold(&self, text: &str) -> bool {
        let is_blank = |c: char| BLANKS.contains(&c);
        let is_separate = if self.is_text() {
            !text.contains([';', '\n', '\r']) && text.trim_matches(is_blank) == text
        } else {
            !text.contains(is_blank)
        };
        !text.is_empty() && !text.contains('\0') && is_separate
    }

    /// The pattern as a glob, unless it is a regular expression.
    fn parts(&self) -> Option<Vec<glob::Part>> {
        match self.criterion.mode {
            PatternMode::Exact => {
                Some(self.criterion.pattern.chars().map(glob::Part::Char).collect())
            }
            PatternMode::Glob => Some(glob::read_ours(&self.criterion.pattern)),
            PatternMode::Regex => None,
        }
    }
}

fn fingerprint(criterion: &Criterion) -> Result<String, ExportProblem> {
    let hex = &criterion.pattern;
    let is_digit = |c: char| c.is_ascii_hexdigit() && (criterion.nocase || !c.is_ascii_uppercase());
    let is_valid =
        criterion.mode == PatternMode::Exact && hex.len() == 32 && hex.chars().all(is_digit);
    if !is_valid {
        return Err(ExportProblem::Attribute("fingerprint".to_owned()));
    }
    Ok(format!("X'{}'", hex.to_ascii_lowercase()))
}
