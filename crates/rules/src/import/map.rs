//! Rules of a file as our rules.
//!
//! Comdb2 keeps one result: nothing, a pool, or a rejection. A rejection replaces the pool. `UNREJECT` turns a
//! rejection into nothing, so that the pool is lost, and leaves a pool alone. Here a rejection keeps the priority, and
//! only `set` undoes it. So, if rules before an `UNREJECT` set pools and reject:
//!
//! - each rejection that may follow a pool becomes two rules, `set 0` and `reject`, so that rejected requests have
//!   priority 0;
//! - the `UNREJECT` becomes `set 0` for requests of priority 0. It becomes two rules, the second with `nothing`, if it
//!   stops or logs, which does not depend on the priority.
//!
//! Without such pools `UNREJECT` is `set 0`, and without such rejections it is `nothing`. Rules that are disabled count
//! here like all others, so that they can be enabled later.

use super::error::{ImportError, ImportProblem};
use super::pools::Pools;
use super::read::{Action as Theirs, File, Item, Mode, PATTERNS, Value};
use super::{Imported, KnownPool, glob, regexp};
use crate::classes::Classes;
use crate::fold::Fold;
use crate::pattern::Compiled;
use crate::rule::{Action, Criterion, PatternMode, Rule, Then};
use paceline_types::{Known, Name, Priority};

/// The threads of a pool that Comdb2 creates on demand.
const DYNAMIC_THREADS: u32 = 1;

/// The distance of numbers if some rule becomes two.
const SCALE: u32 = 10;

pub(super) fn map(file: &File, known: &[KnownPool]) -> Result<Imported, ImportError> {
    let mut pools = Pools::new(known);
    for pool in &file.pools {
        let priority = pools.priority(&pool.name.text, pool.threads);
        priority.map_err(|problem| at(&pool.name, problem))?;
    }
    let mut lines = vec![];
    for (number, item) in &file.items {
        lines.push(Line { number: *number, item, priority: priority_of(item, &mut pools)? });
    }
    let scale = if (0..lines.len()).any(|index| is_two(&lines, index)) { SCALE } else { 1 };
    let mut rules = vec![];
    for (index, line) in lines.iter().enumerate() {
        let (first, main) = rules_of(&lines, index, line, scale)?;
        rules.extend(first);
        rules.push(main);
    }
    Ok(Imported { rules, pools: pools.proposed, scale })
}

/// A rule of the file.
struct Line<'f> {
    number: u32,
    item: &'f Item,
    /// The priority that it sets, if it sets a pool.
    priority: Option<Priority>,
}

impl Line<'_> {
    /// Whether the next rules may see a pool set by this one.
    fn leaves_pool(&self) -> bool {
        self.priority.is_some_and(|priority| priority != Priority::START) && !self.item.flags.stop
    }

    fn leaves_rejection(&self) -> bool {
        self.item.action == Theirs::Reject && !self.item.flags.stop
    }

    fn is_unreject(&self) -> bool {
        self.item.action == Theirs::Unreject
    }
}

fn priority_of(item: &Item, pools: &mut Pools<'_>) -> Result<Option<Priority>, ImportError> {
    match (item.action, &item.pool) {
        (Theirs::SetPool, None) => Ok(Some(Priority::START)),
        (Theirs::SetPool, Some(pool)) => {
            let priority = pools.priority(&pool.text, Some(DYNAMIC_THREADS));
            priority.map(Some).map_err(|problem| at(pool, problem))
        }
        _ => Ok(None),
    }
}

fn at(value: &Value, problem: ImportProblem) -> ImportError {
    ImportError { line: value.line, column: value.column, problem }
}

/// How an `UNREJECT` or a rejection at this index must be expressed.
struct Around {
    pool_before: bool,
    rejection_before: bool,
    unreject_after: bool,
}

fn around(lines: &[Line<'_>], index: usize) -> Around {
    let (before, after) = lines.split_at(index);
    Around {
        pool_before: before.iter().any(Line::leaves_pool),
        rejection_before: before.iter().any(Line::leaves_rejection),
        unreject_after: after.iter().skip(1).any(Line::is_unreject),
    }
}

/// Whether a rule becomes two.
fn is_two(lines: &[Line<'_>], index: usize) -> bool {
    let Some(line) = lines.get(index) else { return false };
    let around = around(lines, index);
    let Item { flags, .. } = line.item;
    if line.is_unreject() {
        around.pool_before && around.rejection_before && (flags.stop || flags.print)
    } else {
        line.leaves_rejection() && around.pool_before && around.unreject_after
    }
}

/// Our rule, and one before it if there are two.
fn rules_of(
    lines: &[Line<'_>],
    index: usize,
    line: &Line<'_>,
    scale: u32,
) -> Result<(Option<Rule>, Rule), ImportError> {
    let number = line.number * scale;
    let flags = line.item.flags;
    let main = Rule {
        number,
        criteria: criteria(line.item)?,
        when: None,
        action: Action::Nothing,
        then: if flags.stop { Then::Stop } else { Then::Continue },
        disabled: flags.disable,
        log: flags.print,
    };
    let set_0 = Action::Set(Priority::START);
    let is_two = is_two(lines, index);
    let first = Rule {
        number: number.saturating_sub(1),
        action: set_0,
        then: Then::Continue,
        log: false,
        ..main.clone()
    };
    let at_0 = |mut rule: Rule| {
        let (attribute, pattern) = (Name::Priority, Priority::START.to_string());
        let mode = PatternMode::Exact;
        rule.criteria.push(Criterion { attribute, mode, nocase: false, pattern });
        rule
    };
    let around = around(lines, index);
    Ok(match (line.item.action, line.priority) {
        (Theirs::SetPool, Some(priority)) => (None, Rule { action: Action::Set(priority), ..main }),
        (Theirs::SetPool | Theirs::None, _) => (None, main),
        (Theirs::Reject, _) => (is_two.then_some(first), Rule { action: Action::Reject, ..main }),
        (Theirs::Unreject, _) if !around.pool_before => (None, Rule { action: set_0, ..main }),
        (Theirs::Unreject, _) if !around.rejection_before => (None, main),
        (Theirs::Unreject, _) if is_two => (Some(at_0(first)), main),
        (Theirs::Unreject, _) => (None, at_0(Rule { action: set_0, ..main })),
    })
}

fn criteria(item: &Item) -> Result<Vec<Criterion>, ImportError> {
    let exact = |known, pattern: &str| Criterion {
        attribute: Name::Known(known),
        mode: PatternMode::Exact,
        nocase: false,
        pattern: pattern.to_owned(),
    };
    let mut criteria = vec![exact(Known::Kind, "sql")];
    for (value, (_, attribute)) in item.patterns.iter().zip(PATTERNS) {
        let Some(value) = value else { continue };
        let (criterion, matches_empty) = criterion(item.mode, attribute, value)?;
        // Comdb2 matches no pattern with an attribute that a request does not have. It always has a text.
        let guard = (attribute != "text" && matches_empty).then(|| present(&criterion));
        criteria.push(criterion);
        criteria.extend(guard);
    }
    criteria.extend(item.fingerprint.as_ref().map(|hex| exact(Known::Fingerprint, hex)));
    Ok(criteria)
}

/// The criterion that a request has the attribute of another one.
pub(super) fn present(other: &Criterion) -> Criterion {
    let attribute = other.attribute.clone();
    Criterion { attribute, mode: PatternMode::Glob, nocase: false, pattern: "?*".to_owned() }
}

/// The criterion that a pattern becomes, and whether it matches an empty text.
pub(super) fn criterion(
    mode: Mode,
    attribute: &str,
    value: &Value,
) -> Result<(Criterion, bool), ImportError> {
    let Mode { exact, glob, regexp, nocase } = mode;
    let translated = match (exact, glob, regexp) {
        (true, false, false) if nocase && !value.text.is_ascii() => {
            Ok((PatternMode::Glob, (glob::import_text(&value.text), false)))
        }
        (true, false, false) => Ok((PatternMode::Exact, (value.text.clone(), nocase))),
        (false, true, false) => glob::import(&value.text, nocase).map(|p| (PatternMode::Glob, p)),
        (false, false, true) => {
            regexp::import(&value.text, nocase).map(|p| (PatternMode::Regex, p))
        }
        _ => return Err(at(value, ImportProblem::Mode)),
    };
    let (mode, (pattern, nocase)) = translated.map_err(|(offset, message)| {
        let problem = ImportProblem::Pattern(message);
        ImportError { line: value.line, column: value.column + offset, problem }
    })?;
    let refused = |message| at(value, ImportProblem::Pattern(message));
    let attribute = Name::parse(attribute).map_err(|error| refused(error.to_string()))?;
    let criterion = Criterion { attribute, mode, nocase, pattern };
    let compiled = Compiled::new(&criterion, &mut Fold::default(), &mut Classes::default());
    let compiled = compiled.map_err(|fault| refused(fault.to_string()))?;
    Ok((criterion, compiled.pattern.matches("", "")))
}
